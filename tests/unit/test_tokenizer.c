/* Every step of a tokenizer.json against Hugging Face's ids (tools/tokenizer_golden.py); errors;
 * guarantees for untrusted text; and failing memory. */
#include "support.h"
#include "text/finish.h"
#include "text/sources/source.h"

#include <jansson.h>

static weft_tokenizer *load_json(const char *json, weft_error *err)
{
    return weft_tokenizer_load(temp_file("tokenizer.json", json, strlen(json)), NULL, err);
}

static weft_tokens *encode(const weft_tokenizer *t, const char *text, size_t n, bool special,
                           bool parse)
{
    weft_error err = { 0 };
    const weft_tokenize_options o = {
        .struct_size = sizeof o, .no_special = !special, .parse_special = parse, .spans = true
    };
    weft_tokens *k = weft_tokenizer_encode(t, text, n, &o, &err);
    if (!k)
        fail_msg("%s", err.message);
    return k;
}

/* All ids as text, malloc'ed; for valid text every part must be whole code points. */
static char *decode(const weft_tokenizer *t, const int32_t *id, int64_t n, bool valid,
                    size_t *length)
{
    weft_error err = { 0 };
    weft_decoder *d = weft_decoder_new(t, false, &err);
    char *text = malloc(1);
    *length = 0;
    for (int64_t i = 0; i <= n; i++) {
        const char *bytes;
        size_t more;
        if (i == n)
            weft_decoder_flush(d, &bytes, &more);
        else if (weft_decoder_push(d, id[i], &bytes, &more, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        if (i < n && valid) /* no lead byte without its continuation bytes */
            for (size_t back = 1; back <= 3 && back <= more; back++) {
                const unsigned char b = (unsigned char)bytes[more - back];
                const size_t wants = b >= 0xF0 && b < 0xF5 ? 4 : b >= 0xE0 ? 3 : b >= 0xC2 ? 2 : 1;
                if ((b & 0xC0) == 0x80)
                    continue;
                assert_false(b >= 0xC2 && b < 0xF5 && wants > back);
                break;
            }
        text = realloc(text, *length + more + 1);
        memcpy(text + *length, bytes, more);
        *length += more;
    }
    weft_decoder_free(d);
    return text;
}

static void compare(const char *name, size_t test, const char *what, const weft_tokens *k,
                    const json_t *want)
{
    for (int64_t i = 0; i < k->n || (size_t)i < json_array_size(want); i++) {
        const json_t *x = json_array_get(want, (size_t)i);
        if (i >= k->n || !x || k->ids[i] != json_integer_value(x))
            fail_msg("%s, text %zu, %s: token %lld is %d, expected %lld", name, test, what,
                     (long long)i, i < k->n ? (int)k->ids[i] : -1,
                     x ? (long long)json_integer_value(x) : -1LL);
    }
}

/* Spans lie inside the text and never go backwards. */
static void check_spans(const weft_tokens *k, size_t n)
{
    for (int64_t i = 0; i < k->n; i++) {
        assert_true(k->spans[i].from <= k->spans[i].to);
        assert_true(k->spans[i].to <= n);
    }
}

static void check_case(const char *name, size_t i, const weft_tokenizer *t, const json_t *c)
{
    const char *text = json_string_value(json_object_get(c, "text"));
    const size_t n = json_string_length(json_object_get(c, "text"));
    const json_t *decoded = json_object_get(c, "decoded");
    weft_error err = { 0 };
    const weft_tokenize_options fast = { .struct_size = sizeof fast,
                                         .no_special = true,
                                         .parse_special = true };
    weft_tokens *k = encode(t, text, n, false, true), *all = encode(t, text, n, true, true);
    weft_tokens *f = weft_tokenizer_encode(t, text, n, &fast, &err);
    compare(name, i, "with places", k, json_object_get(c, "ids"));
    compare(name, i, "with template", all, json_object_get(c, "all"));
    compare(name, i, "ids only", f, json_object_get(c, "ids"));
    check_spans(all, n);
    size_t length;
    char *back = decode(t, k->ids, k->n, true, &length);
    if (length != json_string_length(decoded) ||
        memcmp(back, json_string_value(decoded), length) != 0)
        if (!strstr(json_string_value(decoded), "\xEF\xBF\xBD"))
            fail_msg("%s, text %zu: decoded to \"%.*s\", expected \"%s\"", name, i, (int)length,
                     back, json_string_value(decoded));
    free(back);
    weft_tokens_free(k);
    weft_tokens_free(all);
    weft_tokens_free(f);
}

static json_t *steps(void)
{
    json_error_t why;
    json_t *root = json_load_file(fixture("golden/text/steps.json"), JSON_ALLOW_NUL, &why);
    if (!root)
        fail_msg("%s", why.text);
    return root;
}

static void every_step(void **state)
{
    (void)state;
    json_t *root = steps();
    const json_t *list = json_object_get(root, "tokenizers");
    assert_true(json_array_size(list) > 60);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(x, "name"));
        char *text = json_dumps(json_object_get(x, "tokenizer"), 0);
        weft_error err = { 0 };
        weft_tokenizer *t = load_json(text, &err);
        if (!t)
            fail_msg("%s: %s", name, err.message);
        const json_t *cases = json_object_get(x, "cases");
        for (size_t c = 0; c < json_array_size(cases); c++)
            check_case(name, c, t, json_array_get(cases, c));
        weft_tokenizer_free(t);
        free(text);
    }
    json_decref(root);
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define MODEL "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1}}"

static void refused(const char *json, weft_status code, const char *says)
{
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(json, &err);
    assert_that(!t && err.code == code && strstr(err.message, says),
                "%.60s: got %d \"%s\", expected %d \"%s\"", json, (int)err.code, err.message,
                (int)code, says);
}

static void unknown_steps(void **state)
{
    (void)state;
    refused("{\"normalizer\":{\"type\":\"Magic\"}," MODEL "}", WEFT_EUNSUPPORTED,
            "normalizer has the unsupported type \"Magic\"");
    refused(
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"},"
        "{\"type\":\"Magic\"}]}," MODEL "}",
        WEFT_EUNSUPPORTED, "pre_tokenizer.pretokenizers[1] has the unsupported type \"Magic\"");
    refused("{\"pre_tokenizer\":{\"type\":\"Whitespace\",\"spell\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "pre_tokenizer has an unsupported field spell");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(?<=b+)\"},"
            "\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}",
            WEFT_EUNSUPPORTED, "pre_tokenizer.pattern");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
            "\"behavior\":\"Sometimes\",\"invert\":false}," MODEL "}",
            WEFT_EUNSUPPORTED, "\"Sometimes\"");
    refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
            "{\"type\":\"ByteFallback\"}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder.decoders[1]");
    refused("{\"post_processor\":{\"type\":\"Magic\"}," MODEL "}", WEFT_EUNSUPPORTED, "Magic");
    refused("{\"model\":{\"type\":\"Magic\",\"vocab\":{\"a\":0}}}", WEFT_EUNSUPPORTED, "Magic");
    refused("{\"version\":\"2.0\"," MODEL "}", WEFT_EUNSUPPORTED, "version \"2.0\"; expected 1.0");
    refused("{\"truncation\":{\"max_length\":5,\"strategy\":\"OnlyFirst\",\"stride\":0}," MODEL "}",
            WEFT_EUNSUPPORTED, "OnlyFirst");
    refused("{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}",
            WEFT_EUNSUPPORTED, "model.dropout is 0.1, which makes encoding random; expected 0");
}

static void wrong_values(void **state)
{
    (void)state;
    refused("{}", WEFT_EFORMAT, "not a tokenizer.json: no \"model\"");
    refused("{\"model\":{\"type\":\"WordLevel\"}}", WEFT_EFORMAT, "model.vocab");
    refused("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}}", WEFT_EFORMAT, "not an id");
    refused("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":16777216}}}", WEFT_EFORMAT,
            "not an id");
    refused("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":0}}}", WEFT_EFORMAT,
            "id 0 is given twice");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
            WEFT_EFORMAT, "merge 0 joins \"a\" and \"b\"");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", WEFT_EFORMAT,
            "merge 0 is not two tokens separated by a space");
    refused("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"z\",\"vocab\":{\"a\":0},\"merges\":[]}}",
            WEFT_EFORMAT, "unk_token \"z\"");
    refused("{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",0]]}}", WEFT_EFORMAT,
            "unk_id");
    refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", WEFT_EFORMAT, "vocab[0]");
    refused("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}," MODEL
            "}",
            WEFT_EFORMAT, "precompiled_charsmap");
    refused("{\"added_tokens\":[{\"id\":5,\"content\":\"x\"}]," MODEL "}", WEFT_EFORMAT,
            "Hugging Face's rule gives it 2");
    refused("{\"added_tokens\":[{\"id\":2,\"content\":\"\"}]," MODEL "}", WEFT_EFORMAT,
            "added_tokens[0].content");
}

static void unknown_fields(void **state)
{
    (void)state;
    refused("{\"extra\":1," MODEL "}", WEFT_EUNSUPPORTED,
            "the file has an unsupported field extra");
    refused("{\"post_processor\":{\"type\":\"ByteLevel\",\"x\":1}," MODEL "}", WEFT_EUNSUPPORTED,
            "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[],\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"a\",1],"
            "\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"a\",1],\"cls\":[\"a\","
            "1],\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],\"pair\":[],\"x\":"
            "1}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
            "\"id\":\"A\",\"x\":1}}],\"pair\":[]}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
            "\"id\":\"A\"},\"x\":1}],\"pair\":[]}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
            "\"id\":\"a\"}}],\"pair\":[],\"special_tokens\":{\"a\":{\"ids\":[1],\"x\":1}}}," MODEL
            "}",
            WEFT_EUNSUPPORTED, "post_processor has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"Fuse\",\"x\":1}," MODEL "}", WEFT_EUNSUPPORTED,
            "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"ByteFallback\",\"x\":1}," MODEL "}", WEFT_EUNSUPPORTED,
            "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"ByteLevel\",\"x\":1}," MODEL "}", WEFT_EUNSUPPORTED,
            "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\","
            "\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused(
        "{\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0,\"x\":1}," MODEL
        "}",
        WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"CTC\",\"pad_token\":\"a\",\"word_delimiter_token\":\"b\","
            "\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"#\",\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"#\",\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[],\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder has an unsupported field x");
    refused("{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"a\",\"x\":1}," MODEL "}",
            WEFT_EUNSUPPORTED, "normalizer has an unsupported field x");
    refused("{\"normalizer\":{\"type\":\"NFC\",\"x\":1}," MODEL "}", WEFT_EUNSUPPORTED,
            "normalizer has an unsupported field x");
    refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
            "\"Fuse\",\"x\":1}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder.decoders[1] has an unsupported field x");
    refused("{\"normalizer\":{\"type\":\"Strip\",\"strip\":true}," MODEL "}", WEFT_EUNSUPPORTED,
            "normalizer has an unsupported field strip");
    refused("{\"model\":{\"type\":\"WordLevel\",\"x\":1,\"vocab\":{\"a\":0}}}", WEFT_EUNSUPPORTED,
            "model has an unsupported field x");
    refused("{\"model\":{\"type\":\"WordPiece\",\"x\":1,\"vocab\":{\"a\":0}}}", WEFT_EUNSUPPORTED,
            "model has an unsupported field x");
    refused("{\"model\":{\"type\":\"Unigram\",\"x\":1,\"vocab\":[[\"a\",0]]}}", WEFT_EUNSUPPORTED,
            "model has an unsupported field x");
    refused("{\"padding\":{\"strategy\":{\"Fixed\":4,\"x\":1}}," MODEL "}", WEFT_EUNSUPPORTED,
            "padding has an unsupported field x");
    refused("{\"added_tokens\":[{\"id\":1,\"content\":\"a\",\"x\":1}]," MODEL "}",
            WEFT_EUNSUPPORTED, "added_tokens[0] has an unsupported field x");
}

static void wrong_places(void **state)
{
    (void)state;
    refused("{\"truncation\":{\"direction\":5}," MODEL "}", WEFT_EFORMAT, "truncation.direction");
    refused("{\"truncation\":{\"direction\":\"Up\"}," MODEL "}", WEFT_EFORMAT,
            "truncation.direction is missing or not Left or Right");
    refused("{\"truncation\":{\"strategy\":5}," MODEL "}", WEFT_EFORMAT, "truncation.strategy");
    refused("{\"truncation\":{\"stride\":-1}," MODEL "}", WEFT_EFORMAT,
            "truncation.stride is not an integer from 0");
    refused("{\"truncation\":{\"max_length\":\"x\"}," MODEL "}", WEFT_EFORMAT,
            "truncation.max_length");
    refused("{\"truncation\":{\"stride\":1}," MODEL "}", WEFT_EUNSUPPORTED,
            "LongestFirst with stride 1");
    refused("{\"padding\":{}," MODEL "}", WEFT_EFORMAT,
            "padding.strategy is missing or not BatchLongest or Fixed");
    refused("{\"padding\":{\"strategy\":\"Sometimes\"}," MODEL "}", WEFT_EFORMAT,
            "padding.strategy");
    refused("{\"padding\":{\"strategy\":{\"Fixed\":-1}}," MODEL "}", WEFT_EFORMAT, "padding.Fixed");
    refused("{\"padding\":{\"pad_id\":2}," MODEL "}", WEFT_EFORMAT,
            "padding.pad_id is not an integer from 0 to 1");
    refused("{\"padding\":{\"pad_type_id\":256}," MODEL "}", WEFT_EFORMAT, "padding.pad_type_id");
    refused("{\"padding\":{\"pad_to_multiple_of\":65537}," MODEL "}", WEFT_EFORMAT,
            "padding.pad_to_multiple_of");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\",\"Regex\":\"b\"},"
            "\"behavior\":\"Isolated\"}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.pattern is missing or not a String or a Regex");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.behavior is missing");
    refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\"},\"behavior\":"
            "\"Isolated\"}," MODEL "}",
            WEFT_EUNSUPPORTED, "pre_tokenizer.pattern is empty");
    refused("{\"pre_tokenizer\":{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"ab\"}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.delimiter is missing or not one character");
    refused("{\"pre_tokenizer\":{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"\"}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.delimiter is missing or not one character");
    refused("{\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}," MODEL "}", WEFT_EFORMAT,
            "pre_tokenizer.length is missing or not above 0");
    refused("{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":"
            "5}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.add_prefix_space");
    refused("{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":"
            "false,\"prepend_scheme\":\"first\"}," MODEL "}",
            WEFT_EFORMAT, "add_prefix_space and prepend_scheme disagree");
    refused("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":5}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.add_prefix_space is missing or not true or false");
    refused("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"trim_offsets\":5}," MODEL "}",
            WEFT_EFORMAT, "pre_tokenizer.trim_offsets is missing or not true or false");
    refused("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":5}," MODEL "}", WEFT_EFORMAT,
            "pre_tokenizer.use_regex is missing or not true or false");
    refused("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A*\"}," MODEL "}",
            WEFT_EFORMAT, "normalizer.precompiled_charsmap is missing or not base64");
    refused("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"====\"}," MODEL
            "}",
            WEFT_EFORMAT, "precompiled_charsmap of 0 bytes");
    refused("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\","
            "\"precompiled_charsmap\":\"BAAAAAAAAAA=\"},{\"type\":\"Precompiled\",\"precompiled_"
            "charsmap\":\"BAAAAAAAAAA=\"}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "normalizer.normalizers[1]: a second Precompiled");
    refused("{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",2],\"cls\":[\"a\",1]}"
            "," MODEL "}",
            WEFT_EFORMAT, "post_processor inserts a token that is not in the vocabulary");
    refused("{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"a\",-1]}"
            "," MODEL "}",
            WEFT_EFORMAT, "post_processor inserts a token that is not in the vocabulary");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
            "\"id\":\"C\"}}],\"pair\":[]}," MODEL "}",
            WEFT_EFORMAT, "post_processor.id is missing or not A or B");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
            "\"id\":\"A\",\"type_id\":256}}],\"pair\":[]}," MODEL "}",
            WEFT_EFORMAT, "post_processor.type_id is not an integer from 0 to 255");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
            "\"id\":\"B\"}}],\"pair\":[]}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor.single must contain its text exactly once");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],\"pair\":[]}," MODEL
            "}",
            WEFT_EUNSUPPORTED, "post_processor.single must contain its text exactly once");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
            "\"id\":\"a\"}}],\"pair\":[],\"special_tokens\":{\"a\":{\"ids\":[1,7]}}}," MODEL "}",
            WEFT_EFORMAT, "post_processor inserts a token that is not in the vocabulary");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
            "\"id\":\"b\"}}],\"pair\":[]}," MODEL "}",
            WEFT_EFORMAT, "post_processor: token b is not among special_tokens");
    refused("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
            "\"id\":\"a\"}}],\"pair\":[],\"special_tokens\":{\"a\":{\"ids\":[1,1,1,1,1,1,1,1,1,1,1,"
            "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor inserts more than 32 tokens");
    refused("{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":"
            "\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"a\",1]},{\"type\":\"BertProcessing\","
            "\"sep\":[\"a\",1],\"cls\":[\"a\",1]}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor.processors[1]: a second step that inserts tokens");
    refused("{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":"
            "\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"a\",1]},{\"type\":"
            "\"TemplateProcessing\",\"single\":[],\"pair\":[]}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "post_processor.processors[1]: a second step that inserts tokens");
    refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{"
            "\"type\":\"CTC\",\"pad_token\":\"a\",\"word_delimiter_token\":\"b\"}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder.decoders[1]: CTC without its tokens, or not first");
    refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
            "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "decoder.decoders[2] strips the end");
    refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"},{"
            "\"type\":\"ByteFallback\"},{\"type\":\"ByteFallback\"}]}," MODEL "}",
            WEFT_EUNSUPPORTED, "more than 32 steps in its decoder");
    refused(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":"
        "{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
        "\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\","
        "\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{"
        "\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
        "\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\","
        "\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{"
        "\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
        "\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\","
        "\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{"
        "\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
        "\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\","
        "\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{"
        "\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
        "\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\","
        "\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{"
        "\"Regex\":\"a\"},\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
        "\"content\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"}]"
        "}," MODEL "}",
        WEFT_EUNSUPPORTED, "more than 32 steps in its normalizer");
    refused(
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{"
        "\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
        "\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
        "\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}"
        ",{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":"
        "\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{"
        "\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
        "\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
        "\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}"
        ",{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":"
        "\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{"
        "\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
        "\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
        "\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}"
        ",{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":"
        "\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{"
        "\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
        "\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
        "\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}"
        ",{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":"
        "\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\","
        "\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Isolated\"}]}," MODEL "}",
        WEFT_EUNSUPPORTED, "more than 32 steps in its pre_tokenizer");
    refused("{\"added_tokens\":[{\"id\":16777216,\"content\":\"x\"}]," MODEL "}", WEFT_EFORMAT,
            "added_tokens[0].id is not an id");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\","
            "\"b\",\"c\"]]}}",
            WEFT_EFORMAT, "merge 0 is not two tokens separated by a space");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"#"
            "version: 0.2\",\"a b\",\"b c\"]}}",
            WEFT_EFORMAT, "merge 1 joins \"b\" and \"c\", but the vocabulary lacks the second");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\":1},"
            "\"merges\":[\"a "
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\","
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx b\"]}}",
            WEFT_EFORMAT,
            "merge 0 joins \"a\" and "
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", but the "
            "vocabulary lacks the result");
    refused(
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\":1},\"merges\":["
        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx b\"]}}",
        WEFT_EFORMAT,
        "merge 0 joins \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" and "
        "\"b\", but the vocabulary lacks the second");
    refused("{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0,"
            "\"b\":1},\"merges\":[\"a b\"]}}",
            WEFT_EFORMAT, "but the vocabulary lacks the result");
    refused("{\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":"
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\",\"vocab\":{"
            "\"a\":0},\"merges\":[]}}",
            WEFT_EFORMAT, "model.end_of_word_suffix is missing or not at most 64 bytes");
    refused("{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"end_of_word_suffix\":\"x\","
            "\"vocab\":{\"a\":0},\"merges\":[]}}",
            WEFT_EUNSUPPORTED, "byte_fallback together with a prefix or suffix");
    char json[70000];
    const int n = snprintf(json, sizeof json,
                           "{" MODEL ",\"added_tokens\":[{\"id\":2,\"content\":\"");
    memset(json + n, 'x', 65537);
    strcpy(json + n + 65537, "\"}]}");
    refused(json, WEFT_EFORMAT, "added_tokens[0].content is not text of 1 to 4096 bytes");
}

/* ---- every field with a value of every type -------------------------------------------------- */

static int confused; /* files tried */

static void try_json(const json_t *root)
{
    host h;
    tokenizer t = { 0 };
    weft_error err = { 0 };
    char *text = json_dumps(root, 0);
    host_plain(&h);
    weft_status status = tokenizer_begin(&t, "input", "tokenizer.json", &h, &err);
    if (status == WEFT_OK)
        status = source_json(&t, (const uint8_t *)text, strlen(text), &err);
    if (status == WEFT_OK)
        status = tokenizer_finish(&t, &err);
    assert_that(status == WEFT_OK || err.message[0], "an error without a message: %.200s", text);
    tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    free(text);
    confused++;
}

static void confuse(const json_t *root, json_t *j, int depth)
{
    static const char *const values[] = { "null", "7",  "-1",    "0.5", "\"x\"",
                                          "\"\"", "[]", "[1,2]", "{}",  "true" };
    void *at = json_object_iter(j);
    for (; at && depth < 6; at = json_object_iter_next(j, at)) {
        json_t *old = json_incref(json_object_iter_value(at));
        const char *key = json_object_iter_key(at);
        const bool large = strcmp(key, "vocab") == 0 || strcmp(key, "merges") == 0;
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            json_object_iter_set_new(j, at, json_loads(values[v], JSON_DECODE_ANY, NULL));
            try_json(root);
        }
        json_object_iter_set(j, at, old);
        if (!large && json_is_object(old))
            confuse(root, old, depth + 1);
        for (size_t i = 0; !large && i < json_array_size(old); i++)
            confuse(root, json_array_get(old, i), depth + 1);
        json_decref(old);
    }
}

static void every_type(void **state)
{
    (void)state;
    json_t *root = steps();
    const json_t *list = json_object_get(root, "tokenizers");
    for (size_t i = 0; i < json_array_size(list); i += quick() ? 7 : 1) {
        json_t *t = json_object_get(json_array_get(list, i), "tokenizer");
        if (json_object_size(json_object_get(json_object_get(t, "model"), "vocab")) < 200)
            confuse(t, t, 0);
    }
    assert_true(confused > 500);
    json_decref(root);
}

/* ---- files and memory that fail -------------------------------------------------------------- */

static void files_fail(void **state)
{
    (void)state;
    static const char json[] = "{" MODEL "}";
    static const char config[] = "{\"bos_token\":\"a\",\"eos_token\":{\"content\":\"u\"},"
                                 "\"weft.tokenizer.selftest\":{\"vectors\":[{\"text\":\"a\","
                                 "\"ids\":[1]}]}}";
    const char *path = temp_file("tokenizer.json", json, sizeof json - 1);
    temp_file("tokenizer_config.json", config, sizeof config - 1);
    char directory[512];
    snprintf(directory, sizeof directory, "%s", path);
    *strrchr(directory, '/') = '\0';
    for (int files = 0; files < 2; files++)
        for (int64_t k = 1;; k++) {
            faults memory = { 0 }, io = { 0 };
            faults *chosen = files ? &io : &memory;
            host h;
            tokenizer t;
            weft_error err = { 0 };
            chosen->fail_at = k;
            host_faulty(&h, &memory, &io);
            const weft_status status = tokenizer_load(&t, directory, NULL, WEFT_LOAD_COPY, &h,
                                                      &err);
            if (status == WEFT_OK) {
                assert_true(files || t.bos == 1);
                tokenizer_free(&t);
            } else {
                assert_true(err.message[0]);
            }
            if (memory.live || io.live || atomic_load(&h.mem.used))
                fail_msg("call %lld: %lld blocks and %lld files are left", (long long)k,
                         (long long)memory.live, (long long)io.live);
            if (chosen->calls < k)
                break;
        }
    temp_file("tokenizer_config.json", "{}", 2);
}

static void stored_vectors(void **state)
{
    (void)state;
    static const char json[] = "{" MODEL "}";
    static const char good[] =
        "{\"weft.tokenizer.selftest\":{\"vectors\":[{\"text\":\"a\",\"ids\":[1]}]}}";
    static const char bad[] =
        "{\"weft.tokenizer.selftest\":{\"vectors\":[{\"text\":\"a\",\"ids\":[0]}]}}";
    weft_error err = { 0 };
    const char *path = temp_file("tokenizer.json", json, sizeof json - 1);
    temp_file("tokenizer_config.json", good, sizeof good - 1);
    weft_tokenizer *t = weft_tokenizer_load(path, NULL, &err);
    assert_non_null(t);
    weft_tokenizer_free(t);
    temp_file("tokenizer_config.json", bad, sizeof bad - 1);
    assert_null(weft_tokenizer_load(path, NULL, &err));
    assert_int_equal(err.code, WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "token 0 is 1, expected 0"));
    temp_file("tokenizer_config.json", "{}", 2);
}

/* ---- the contract ---------------------------------------------------------------------------- */

static const char special_json[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true,\"normalized\":false}],"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":null,\"vocab\":{\"<\":0,\"s\":1,\">\":2,\"<s\":3,"
    "\"<s>\":4},\"merges\":[\"< s\",\"<s >\"]}}";

static void strangers_text(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(special_json, &err);
    if (!t)
        fail_msg("%s", err.message);
    weft_tokens *k = encode(t, "<s>", 3, false, false);
    assert_int_equal(k->n, 2); /* "<s" and ">": not even merges make the special token */
    assert_int_equal(k->ids[0], 3);
    assert_int_equal(k->ids[1], 2);
    weft_tokens_free(k);
    k = encode(t, "<s>", 3, false, true);
    assert_int_equal(k->n, 1);
    assert_int_equal(k->ids[0], 4);
    assert_true(weft_tokenizer_is_special(t, 4));
    assert_int_equal(weft_tokenizer_piece(t, 4, NULL, 0), 0);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
}

/* A byte-level tokenizer from the golden file: all 256 bytes. */
static weft_tokenizer *byte_level(void)
{
    json_t *root = steps();
    const json_t *list = json_object_get(root, "tokenizers");
    weft_tokenizer *t = NULL;
    for (size_t i = 0; i < json_array_size(list) && !t; i++) {
        const json_t *x = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(x, "name")), "byte level") != 0)
            continue;
        char *text = json_dumps(json_object_get(x, "tokenizer"), 0);
        t = load_json(text, NULL);
        free(text);
    }
    json_decref(root);
    assert_non_null(t);
    return t;
}

static void bytes_come_back(void **state)
{
    (void)state;
    weft_tokenizer *t = byte_level();
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    assert_true(info.byte_level);
    assert_string_equal(info.model, "BPE");
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < (quick() ? 2000 : 20000); round++) {
        char text[48];
        size_t n = 0, length;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const size_t want = x % sizeof text;
        while (n < want) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            text[n++] = x >> 20 & 3 ? (char)(x >> 40) : "lower \xC3\xA9\xF0\x9F\x99\x82"[x % 12];
        }
        weft_tokens *k = encode(t, text, n, false, false);
        check_spans(k, n);
        char *back = decode(t, k->ids, k->n, false, &length);
        assert_int_equal(length, n);
        assert_memory_equal(back, text, n);
        free(back);
        weft_tokens_free(k);
    }
    weft_tokenizer_free(t);
}

/* Other tokenizers see U+FFFD for each invalid byte. */
static void bad_bytes_are_replaced(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\xEF\xBF\xBD\":1},"
        "\"merges\":[]}}",
        &err);
    if (!t)
        fail_msg("%s", err.message);
    weft_tokens *k = encode(t, "a\xFF\xE2\x82z", 5, false, false);
    const int32_t want[] = { 0, 1, 1, 1 }; /* z is unknown, and there is no unknown token */
    assert_int_equal(k->n, 4);
    assert_memory_equal(k->ids, want, sizeof want);
    assert_int_equal(k->spans[1].from, 1);
    assert_int_equal(k->spans[1].to, 2);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
}

static void fits_when_asked(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(
        "{\"truncation\":{\"direction\":\"Right\",\"max_length\":3,\"strategy\":\"LongestFirst\","
        "\"stride\":0},\"padding\":{\"strategy\":{\"Fixed\":5},\"direction\":\"Right\",\"pad_id\":"
        "1,"
        "\"pad_type_id\":0,\"pad_token\":\"a\",\"pad_to_multiple_of\":null},"
        "\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL "}",
        &err);
    if (!t)
        fail_msg("%s", err.message);
    weft_tokens *k = encode(t, "u u u u", 7, true, false);
    assert_int_equal(k->n, 4); /* never silently */
    weft_tokens_free(k);
    const weft_tokenize_options fit = { .struct_size = sizeof fit, .fit = true };
    k = weft_tokenizer_encode(t, "u u u u", 7, &fit, &err);
    const int32_t want[] = { 0, 0, 0, 1, 1 };
    assert_int_equal(k->n, 5);
    assert_memory_equal(k->ids, want, sizeof want);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
}

/* ---- ids as letters -------------------------------------------------------------------------- */

#define LETTERS                                                                                    \
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"b\":2,"    \
    "\"c\":3,"                                                                                     \
    "\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"C\":9,\"S\":10}}"
#define WHITESPACE "\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
#define TEMPLATES                                                                                  \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"   \
    "\"C\","                                                                                       \
    "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"S\"," \
    "\"type_id\":0}}],\"pair\":[{\"SpecialToken\":{\"id\":\"C\",\"type_id\":0}},{\"Sequence\":{"   \
    "\"id\":"                                                                                      \
    "\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"S\",\"type_id\":0}},{\"Sequence\":{\"id\":" \
    "\"B\","                                                                                       \
    "\"type_id\":1}},{\"SpecialToken\":{\"id\":\"S\",\"type_id\":1}}],\"special_tokens\":{\"C\":{" \
    "\"id\":"                                                                                      \
    "\"C\",\"ids\":[9],\"tokens\":[\"C\"]},\"S\":{\"id\":\"S\",\"ids\":[10],\"tokens\":[\"S\"]}}}" \
    ","

/* The tokens of a text, or of two, as one word, followed by their types. */
static const char *spelled(const char *json, const char *a, const char *b, bool spans)
{
    static char text[128];
    host h;
    tokenizer t = { 0 };
    encoding k = { 0 };
    weft_error err = { 0 };
    host_plain(&h);
    weft_status status = tokenizer_begin(&t, "input", "tokenizer.json", &h, &err);
    if (status == WEFT_OK)
        status = source_json(&t, (const uint8_t *)json, strlen(json), &err);
    if (status == WEFT_OK)
        status = tokenizer_finish(&t, &err);
    encoder *e = status == WEFT_OK ? encoder_new(&t, &h.mem, &err) : NULL;
    const encode_options o = { .fit = true, .spans = spans };
    if (e)
        status = encoder_encode(e, a, strlen(a), b, b ? strlen(b) : 0, &o, &k, &err);
    int n = snprintf(text, sizeof text, "%s", status == WEFT_OK ? "" : err.message);
    for (size_t i = 0; i < k.n; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%.*s", (int)t.vocab.length[k.id[i]],
                      vocab_text(&t.vocab, k.id[i]));
    for (size_t i = 0; i < k.n && k.type; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%d", i ? "" : " ", k.type[i]);
    encoder_free(e);
    tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return text;
}

/* The results of Hugging Face's tokenizers. */
static void pairs_fit(void **state)
{
    (void)state;
    static const struct {
        int most;
        const char *a, *b, *right, *left;
    } cut[] = {
        { 5, "a b c d e", "f g", "CaSfS 00011", "CeSgS 00011" },
        { 6, "a b c d e", "f g", "CabSfS 000011", "CdeSgS 000011" },
        { 7, "a b c d e", "f g", "CabSfgS 0000111", "CdeSfgS 0000111" },
        { 8, "a b c d e", "f g", "CabcSfgS 00000111", "CcdeSfgS 00000111" },
        { 4, "a b c d e", "f g", "CaSS 0001", "CeSS 0001" },
        { 3, "a b c d e", "f g", "CSS 001", "CSS 001" },
        { 4, "a", "b c d e f", "CSbS 0011", "CSfS 0011" },
        { 5, "a", "b c d e f", "CaSbS 00011", "CaSfS 00011" },
        { 7, "a", "b c d e f", "CaSbcdS 0001111", "CaSdefS 0001111" },
        { 6, "a b c d", "e f g h", "CaSefS 000111", "CdSghS 000111" },
        { 8, "a b c d", "e f g h", "CabSefgS 00001111", "CcdSfghS 00001111" },
        { 3, "a b c d", "e f g h", "CSS 001", "CSS 001" },
        { 5, "a b c d e f", NULL, "CabcS 00000", "CdefS 00000" },
        { 8, "a b", "c d", "CabScdS 0000111", "CabScdS 0000111" },
        { 2, "a b", "c d", "input: cuts at 2 tokens, but its template alone has 3",
          "input: cuts at 2 tokens, but its template alone has 3" },
    };
    static const char *const padded[][3] = {
        { "{\"Fixed\":8},\"pad_to_multiple_of\":null", "CaSbSuuu 00011222", "uuuCaSbS 22200011" },
        { "\"BatchLongest\",\"pad_to_multiple_of\":4", "CaSbSuuu 00011222", "uuuCaSbS 22200011" },
        { "\"BatchLongest\",\"pad_to_multiple_of\":5", "CaSbS 00011", "CaSbS 00011" },
        { "{\"Fixed\":3},\"pad_to_multiple_of\":4", "CaSbS 00011", "CaSbS 00011" },
        { "{\"Fixed\":5},\"pad_to_multiple_of\":3", "CaSbSu 000112", "uCaSbS 200011" },
    };
    char json[2048];
    for (int left = 0; left < 2; left++)
        for (int spans = 0; spans < 2; spans++) {
            for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
                snprintf(json, sizeof json,
                         "{\"truncation\":{\"direction\":\"%s\",\"max_length\":%d,\"strategy\":"
                         "\"LongestFirst\",\"stride\":0}," WHITESPACE TEMPLATES LETTERS "}",
                         left ? "Left" : "Right", cut[i].most);
                assert_string_equal(spelled(json, cut[i].a, cut[i].b, spans),
                                    left ? cut[i].left : cut[i].right);
            }
            for (size_t i = 0; i < sizeof padded / sizeof *padded; i++) {
                snprintf(json, sizeof json,
                         "{\"padding\":{\"strategy\":%s,\"direction\":\"%s\",\"pad_id\":0,"
                         "\"pad_type_id\":2,\"pad_token\":\"u\"}," WHITESPACE TEMPLATES LETTERS "}",
                         padded[i][0], left ? "Left" : "Right");
                assert_string_equal(spelled(json, "a", "b", spans), padded[i][1 + left]);
            }
        }
    assert_string_equal(spelled("{" WHITESPACE LETTERS "}", "a b", "c", true), "abc 001");
    assert_string_equal(spelled("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
                                "\"Sequence\":{\"id\":"
                                "\"A\"}}],\"pair\":[{\"Sequence\":{\"id\":\"B\"}},{\"Sequence\":{"
                                "\"id\":\"A\"}}]}," LETTERS "}",
                                "a", "b", false),
                        "input: this tokenizer has no template for pairs of texts");
}

/* Ids and spans of added tokens next to white space and words, as in Hugging Face. */
static void added_tokens(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"rstrip\":true,\"normalized\":false},"
        "{\"id\":4,\"content\":\" x\",\"normalized\":false},{\"id\":5,\"content\":\"   "
        "\",\"normalized\":"
        "false},{\"id\":6,\"content\":\"<w>\",\"single_word\":true,\"normalized\":false},{\"id\":7,"
        "\"content\":\"<l>\",\"lstrip\":true,\"normalized\":false}],"
        "\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
        "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"b\":2}}"
        "}";
    static const struct {
        const char *text, *want; /* id:from-to ... */
    } cases[] = {
        { "<s>  x", "3:0-5 4:4-6 " },
        { "<s>   ", "3:0-6 5:3-6 " },
        { "<s>   b", "3:0-6 5:3-6 2:6-7 " },
        { "a<s>     xb", "1:0-1 3:1-9 5:4-7 4:8-10 2:10-11 " },
        { "a<w>", "1:0-1 0:1-2 0:2-3 0:3-4 " },
        { "a <w> b", "1:0-1 6:2-5 2:6-7 " },
        { "<w>", "6:0-3 " },
        { "<w>\xC3\xA9", "0:0-1 0:1-2 0:2-3 0:3-5 " },
        { "\xC3\xA9<w>", "0:0-2 0:2-3 0:3-4 0:4-5 " },
        { "<w>-", "6:0-3 0:3-4 " },
        { "a \xE3\x80\x80<l>b", "1:0-1 7:1-8 2:8-9 " },
        { "<l>", "7:0-3 " },
        { "\xE3\x80\x80<l>", "7:0-6 " },
        { "<s>\xE3\x80\x80", "3:0-6 " },
    };
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(json, &err);
    if (!t)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[128] = "";
        weft_tokens *k = encode(t, cases[i].text, strlen(cases[i].text), false, false);
        for (int64_t j = 0, n = 0; j < k->n; j++)
            n += snprintf(got + n, sizeof got - (size_t)n, "%d:%d-%d ", (int)k->ids[j],
                          (int)k->spans[j].from, (int)k->spans[j].to);
        assert_string_equal(got, cases[i].want);
        weft_tokens_free(k);
    }
    weft_tokenizer_free(t);
}

/* The code points that tokenizers' Nmt drops, and those it replaces by a space. */
static const struct {
    uint32_t first, last;
    bool space;
} nmt[] = { { 0x01, 0x08, false },    { 0x09, 0x0A, true },     { 0x0B, 0x0B, false },
            { 0x0C, 0x0D, true },     { 0x0E, 0x1F, false },    { 0x7F, 0x7F, false },
            { 0x8F, 0x8F, false },    { 0x9F, 0x9F, false },    { 0x1680, 0x1680, true },
            { 0x200B, 0x200F, true }, { 0x2028, 0x2029, true }, { 0x2581, 0x2581, true },
            { 0xFEFF, 0xFEFF, true }, { 0xFFFD, 0xFFFD, true } };

static void nmt_code_points(void **state)
{
    (void)state;
    enum { DROPPED = 3, SPACE = 2, OTHER = 0 }; /* ids of the visible part of a code point */
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(
        "{\"normalizer\":{\"type\":\"Nmt\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\","
        "\"vocab\":{\"u\":0,\"<\":1,\" \":2,\"<>\":3,\">\":4},\"merges\":[\"< >\"]}}",
        &err);
    if (!t)
        fail_msg("%s", err.message);
    for (uint32_t c = 1; c < 0x10000; c++) {
        char text[8] = "<";
        int want = c == ' ' ? SPACE : OTHER;
        if ((c >= 0xD800 && c < 0xE000) || c == '<' || c == '>' || c == 'u')
            continue;
        for (size_t i = 0; i < sizeof nmt / sizeof *nmt; i++)
            if (c >= nmt[i].first && c <= nmt[i].last)
                want = nmt[i].space ? SPACE : DROPPED;
        const size_t n = utf8_encode(c, text + 1);
        text[1 + n] = '>';
        weft_tokens *k = encode(t, text, n + 2, false, false);
        assert_that(k->n == (want == DROPPED ? 1 : 3) && k->ids[k->n / 2] == want,
                    "U+%04X: %lld tokens, %d in the middle; expected %d", (unsigned)c,
                    (long long)k->n, (int)k->ids[k->n / 2], want);
        weft_tokens_free(k);
    }
    weft_tokenizer_free(t);
}

/* Decoders on tokens that look like something else. */
static const char *joined_by(const char *steps_json, const char *const *tokens, int n)
{
    static char joined[512];
    json_t *root = json_pack("{s:{s:s,s:{}},s:o}", "model", "type", "WordLevel", "vocab", "decoder",
                             json_loads(steps_json, 0, NULL));
    json_t *table = json_object_get(json_object_get(root, "model"), "vocab");
    for (int i = 0; i < n; i++)
        json_object_set_new(table, tokens[i], json_integer(2 * i)); /* every other id is free */
    char *json = json_dumps(root, 0);
    weft_error err = { 0 };
    weft_tokenizer *t = load_json(json, &err);
    if (!t)
        fail_msg("%s", err.message);
    int32_t id[32];
    for (int i = 0; i < n; i++)
        id[i] = 2 * i;
    size_t length;
    char *out = decode(t, id, n, false, &length);
    snprintf(joined, sizeof joined, "%.*s", (int)length, out);
    free(out);
    weft_decoder *d = weft_decoder_new(t, false, &err);
    const char *bytes;
    assert_int_equal(weft_decoder_push(d, 1, &bytes, &length, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "token 1 is not in the vocabulary"));
    assert_int_equal(weft_decoder_push(d, 1, &bytes, &length, NULL), WEFT_EINVAL);
    weft_decoder_free(d);
    weft_tokenizer_free(t);
    free(json);
    json_decref(root);
    return joined;
}

static void odd_tokens(void **state)
{
    (void)state;
    static const char *const hex[] = { "<0x41>", "<0x4a>", "<0x6f>", "<0x4F>", "<0x4Ax", "<0x/0>",
                                       "<0x:0>", "<0x@0>", "<0xG0>", "<0x`0>", "<0xg0>", "<0x0g>" };
    assert_string_equal(joined_by("{\"type\":\"ByteFallback\"}", hex, 12),
                        "AJoO<0x4Ax<0x/0><0x:0><0x@0><0xG0><0x`0><0xg0><0x0g>");
    static const char *const letters[] = { "\304\240a", "\342\202\254a" };
    assert_string_equal(joined_by("{\"type\":\"ByteLevel\"}", letters, 2), " a\342\202\254a");
    static const char *const bars[] = { "\342\226\201", "\342\226\201a", "b" };
    assert_string_equal(
        joined_by(
            "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
            "\"\342\226\201\"},\"content\":\" \"},{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
            "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":9,\"stop\":0}]}]}",
            bars, 3),
        "ab");
    char longer[200];
    memset(longer, 'x', sizeof longer);
    strcpy(longer + 190, " .y");
    const char *const words[] = { "a", longer, "##b", "n't" };
    assert_true(
        strncmp(joined_by("{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", words, 4),
                "a xx", 4) == 0);
    assert_non_null(
        strstr(joined_by("{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}", words, 4),
               "xx.ybn't"));
}

/* A vocab.txt does not mention decoding: it is BERT's. */
static void vocabulary_of_words(void **state)
{
    (void)state;
    static const char lines[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\n##\n.\n";
    static const int32_t words[] = { 4, 5, 6, 4, 7 };
    weft_error err = { 0 };
    size_t n;
    weft_tokenizer *t = weft_tokenizer_load(temp_file("vocab.txt", lines, sizeof lines - 1), NULL,
                                            &err);
    if (!t)
        fail_msg("%s", err.message);
    char *text = decode(t, words, 5, true, &n);
    assert_int_equal(n, 10);
    assert_memory_equal(text, "lower low.", 10);
    free(text);
    weft_tokenizer_free(t);
}

/* Byte-level models whose bytes can, and cannot, be looked at directly. */
static void letters_for_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *parts, *model, *ids;
    } cases[] = {
        { "", "", "0.1" },
        { "\"normalizer\":{\"type\":\"NFC\"},", "", "0.1" },
        { "\"normalizer\":{\"type\":\"ByteLevel\"},", "", "0" },
        { "", "\"end_of_word_suffix\":\"x\",", "0.5" },
        { "", "\"continuing_subword_prefix\":\"x\",", "0" },
        { "", "\"unk_token\":\"a\",", "0.1" },
        { "", "\"byte_fallback\":true,", "0.1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024], got[64] = "";
        weft_error err = { 0 };
        snprintf(json, sizeof json,
                 "{%s\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_"
                 "regex\":false},"
                 "\"model\":{\"type\":\"BPE\",%s\"vocab\":{\"a\":0,\"\304\240\":1,\"\304\240x\":5},"
                 "\"merges\":[]}}",
                 cases[i].parts, cases[i].model);
        weft_tokenizer *t = load_json(json, &err);
        if (!t)
            fail_msg("%s", err.message);
        weft_tokens *k = encode(t, "a ", 2, false, false);
        for (int64_t j = 0; j < k->n; j++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", j ? "." : "",
                     (int)k->ids[j]);
        assert_that(strcmp(got, cases[i].ids) == 0, "case %zu: got %s, expected %s", i, got,
                    cases[i].ids);
        weft_tokens_free(k);
        weft_tokenizer_free(t);
    }
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void under_a_cap(void **state)
{
    (void)state;
    weft_error err = { 0 };
    const char *path = temp_file("tokenizer.json", special_json, sizeof special_json - 1);
    bool loaded = false;
    for (size_t cap = 4096; !loaded; cap *= 2) {
        const weft_tokenizer_options o = { .struct_size = sizeof o, .ram_max = cap };
        weft_tokenizer *t = weft_tokenizer_load(path, &o, &err);
        weft_tokens *k = t ? weft_tokenizer_encode(t, "<s>", 3, NULL, &err) : NULL;
        loaded = k != NULL;
        if (!k)
            assert_int_equal(err.code, WEFT_ELIMIT);
        weft_tokens_free(k);
        weft_tokenizer_free(t);
    }
}

/* Two spellings are in use; BERT's counts if there are both. */
static void the_mask(void **state)
{
    (void)state;
    static const struct {
        const char *vocab;
        int32_t id;
    } of[] = { { "\"u\":0,\"[MASK]\":1", 1 },
               { "\"u\":0,\"a\":1,\"<mask>\":2", 2 },
               { "\"u\":0,\"<mask>\":1,\"[MASK]\":2", 2 },
               { "\"u\":0,\"[mask]\":1", -1 } };
    weft_tokenizer_info info = { .struct_size = sizeof info, .mask_id = 7 };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char json[256];
        weft_error err;
        snprintf(json, sizeof json,
                 "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{%s}}}",
                 of[i].vocab);
        weft_tokenizer *t = load_json(json, &err);
        assert_non_null(t);
        weft_tokenizer_get_info(t, &info);
        assert_int_equal(info.mask_id, of[i].id);
        weft_tokenizer_free(t);
    }
    weft_tokenizer_get_info(NULL, &info);
    assert_int_equal(info.mask_id, -1);
}

/* Texts are cut before a bar unless a merge has one inside, wherever it is in the table. */
static void merges_over_a_bar(void **state)
{
    (void)state;
    for (int others = 0; others < 64; others++) {
        char json[4096];
        weft_error err = { 0 };
        size_t n = (size_t)snprintf(json, sizeof json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
        for (int i = 0; i < others; i++)
            n += (size_t)snprintf(json + n, sizeof json - n, "\"<%d>\":%d,", i, i);
        snprintf(
            json + n, sizeof json - n,
            "\"a\":%d,\"\u2581\":%d,\"b\":%d,\"a\u2581\":%d},\"merges\":[[\"a\",\"\u2581\"]]}}",
            others, others + 1, others + 2, others + 3);
        weft_tokenizer *t = load_json(json, &err);
        weft_tokens *k = t ? weft_tokenizer_encode(t, "a\u2581b", 5, NULL, &err) : NULL;
        assert_that(k, "%s", err.message);
        assert_int_equal(k->n, 2);
        assert_int_equal(k->ids[0], others + 3);
        weft_tokens_free(k);
        weft_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("tokenizer.json: every step gives Hugging Face's ids and text", every_step),
        TEST("tokenizer.json: unknown parts are refused by name and position", unknown_steps),
        TEST("tokenizer.json: an unknown field is refused wherever it is", unknown_fields),
        TEST("tokenizer.json: wrong values are named", wrong_values),
        TEST("tokenizer.json: wrong values are named with their position", wrong_places),
        TEST("tokenizer.json: a value of the wrong type anywhere is refused or harmless",
             every_type),
        TEST("tokenizer: failing files and memory leave nothing behind", files_fail),
        TEST("tokenizer: test vectors stored with it are checked", stored_vectors),
        TEST("tokenizer: text becomes a special token only on request", strangers_text),
        TEST("tokenizer: byte level restores every byte string", bytes_come_back),
        TEST("tokenizer: other tokenizers see U+FFFD for bad bytes", bad_bytes_are_replaced),
        TEST("tokenizer: truncates and pads only on request", fits_when_asked),
        TEST("tokenizer: pairs are truncated and padded as in Hugging Face", pairs_fit),
        TEST("tokenizer: added tokens take the white space that they claim", added_tokens),
        TEST("tokenizer: Nmt drops and replaces exactly its code points", nmt_code_points),
        TEST("tokenizer: decoders do not misread tokens", odd_tokens),
        TEST("tokenizer: tokens of a vocab.txt are joined like BERT's", vocabulary_of_words),
        TEST("tokenizer: bytes as letters", letters_for_bytes),
        TEST("tokenizer: a memory cap is kept", under_a_cap),
        TEST("bpe: a merge with a bar inside is found", merges_over_a_bar),
        TEST("info: the token that stands for a missing one", the_mask),
    };
    return RUN(tests);
}

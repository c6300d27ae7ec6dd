/* Describes a tokenizer.json by GGUF's keys: how it splits, its tokens, its merges; and what GGUF
 * cannot represent. */
#include "gguf_build.h"
#include "support.h"
#include "text/sources/describe.h"

#define KEY(name)          "tokenizer.ggml." name
#define MAX_JSON           4096
#define BYTE_LEVEL         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define BYTES_ONLY         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define SEQUENCE(x)        "{\"type\":\"Sequence\",\"pretokenizers\":[" x "]}"
#define SPLIT(regex, more) "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"}," more "}"
#define ISOLATED           "\"behavior\":\"Isolated\",\"invert\":false"
#define DIGITS             SPLIT("\\\\p{N}", ISOLATED)
#define BAR                "\xE2\x96\x81"
#define LOW                "\"l\":0,\"o\":1,\"w\":2,\"lo\":3,\"low\":4,\"<s>\":5,\"</s>\":6,\"user\":7"
#define ADDED                                                                                      \
    "[{\"id\":5,\"content\":\"<s>\",\"special\":true},{\"id\":7,\"content\":\"user\","             \
    "\"special\":false}]"

/* A tokenizer.json; NULL becomes null. */
typedef struct parts {
    const char *normalizer, *pre_tokenizer, *after, *model;
} parts;

static const char *json_of(const parts *p)
{
    static char text[MAX_JSON];
    const int n = snprintf(
        text, sizeof text,
        "{\"added_tokens\":%s,\"normalizer\":%s,\"pre_tokenizer\":%s,"
        "\"post_processor\":%s,\"model\":%s}",
        strstr(p->model, "user") ? ADDED : "[]", p->normalizer ? p->normalizer : "null",
        p->pre_tokenizer ? p->pre_tokenizer : "null", p->after ? p->after : "null", p->model);
    assert_true(n > 0 && n < MAX_JSON);
    return text;
}

#define BPE(more, merges) "{\"type\":\"BPE\"," more "\"vocab\":{" LOW "},\"merges\":[" merges "]}"
#define PLAIN             BPE("", "\"l o\",\"lo w\"")

typedef struct outcome {
    weft_status status;
    const char *lacks;
    weft_error err;
} outcome;

/* Describes the tokenizer of a file in a GGUF file, which c is then, on success. */
static outcome described_file(const char *from, int64_t n_vocab, int32_t bos, int32_t eos, host *h,
                              container *c)
{
    outcome o = { .status = WEFT_OK };
    tokenizer t;
    save s;
    gguf_writer w;
    const char *path = temp_path("described.gguf");
    o.status = tokenizer_load(&t, from, NULL, WEFT_LOAD_COPY, h, &o.err);
    if (o.status != WEFT_OK)
        return o;
    t.bos = bos;
    t.eos = eos;
    save_begin(&s, h, &o.err);
    gguf_writer_begin(&w, &s);
    o.status = tokenizer_describe(&w, &t, n_vocab, &o.lacks, &o.err);
    if (o.status != WEFT_OK && s.status == WEFT_OK)
        s.status = o.status;
    gguf_writer_head(&w, path);
    gguf_writer_end(&w);
    o.status = save_commit(&s);
    tokenizer_free(&t);
    if (o.status == WEFT_OK)
        o.status = container_open(c, path, WEFT_LOAD_COPY, h, &o.err);
    return o;
}

static outcome described(const char *json, int64_t n_vocab, int32_t bos, int32_t eos, host *h,
                         container *c)
{
    const char *from = temp_file("tokenizer.json", json, strlen(json));
    return described_file(from, n_vocab, bos, eos, h, c);
}

/* The text of a key, or "none". */
static const char *text_of(const container *c, const char *key)
{
    const meta *m = container_meta(c, key);
    return m && m->type == META_TEXT ? m->text : "none";
}

/* The strings of a list, "a b|c d", or "none". */
static const char *list_of(const container *c, const char *key)
{
    static char list[512];
    const meta *m = container_meta(c, key);
    const uint8_t *at = m ? m->at : NULL;
    int n = snprintf(list, sizeof list, "%s", m ? "" : "none");
    for (uint64_t i = 0; m && i < m->length; i++) {
        uint64_t length;
        const char *text = gguf_string(&at, &length);
        n += snprintf(list + n, sizeof list - (size_t)n, "%s%.*s", i ? "|" : "", (int)length, text);
    }
    return list;
}

static void ways_of_splitting(void **state)
{
    (void)state;
    static const char strange[] = "how it splits text", model[] = "its model",
                      normaliser[] = "its normaliser";
    static const char kept[] = BPE("\"ignore_merges\":true,", "");
    static const char no_words[] =
        "{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}";
    static const struct {
        const char *pre_tokenizer, *model, *pre, *lacks;
    } cases[] = {
        { BYTE_LEVEL, PLAIN, "gpt-2", NULL },
        { "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", PLAIN, "none", strange },
        { BYTE_LEVEL, kept, "none", strange },
        { BYTES_ONLY, PLAIN, "none", strange },
        { SEQUENCE(DIGITS "," BYTE_LEVEL), PLAIN, "starcoder", NULL },
        { SEQUENCE(SEQUENCE(DIGITS) "," BYTE_LEVEL), PLAIN, "starcoder", NULL },
        { SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL), PLAIN,
          "starcoder", NULL },
        { SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":false}," BYTE_LEVEL), PLAIN, "none",
          strange },
        { SEQUENCE(SPLIT("\\\\p{N}", "\"behavior\":\"Removed\",\"invert\":false") "," BYTE_LEVEL),
          PLAIN, "none", strange },
        { SEQUENCE(SPLIT("\\\\p{N}", "\"behavior\":\"Isolated\",\"invert\":true") "," BYTE_LEVEL),
          PLAIN, "none", strange },
        { SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"}," ISOLATED "}," BYTE_LEVEL),
          PLAIN, "none", strange },
        { SEQUENCE("{\"type\":\"Punctuation\",\"behavior\":\"Isolated\"}," BYTE_LEVEL), PLAIN,
          "none", strange },
        { SEQUENCE(SPLIT("[^\\\\n]+|[\\\\n]+", ISOLATED) "," BYTES_ONLY), PLAIN, "none", strange },
        { SEQUENCE(DIGITS "," DIGITS "," DIGITS "," DIGITS "," DIGITS "," DIGITS "," BYTE_LEVEL),
          PLAIN, "none", strange },
        { NULL, PLAIN, "none", model },
        { "{\"type\":\"Whitespace\"}", PLAIN, "none", model },
        { "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\"}", PLAIN, "none", model },
        { "{\"type\":\"Whitespace\"}",
          "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1]]}", "none",
          model },
        { "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\"}",
          "{\"type\":\"Unigram\",\"unk_id\":null,\"vocab\":[[\"<unk>\",0],[\"a\",-1]]}", "none",
          model },
        { "{\"type\":\"BertPreTokenizer\"}",
          "{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"continuing_subword_prefix\":\"##\","
          "\"max_input_chars_per_word\":100,\"vocab\":{\"a\":0}}",
          "none", normaliser },
        { "{\"type\":\"Whitespace\"}", no_words, "none", model },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        container c;
        host_plain(&h);
        const parts p = { .pre_tokenizer = cases[i].pre_tokenizer, .model = cases[i].model };
        const outcome o = described(json_of(&p), 8, 5, 6, &h, &c);
        if (o.status != WEFT_OK)
            fail_msg("%s: %s", cases[i].pre_tokenizer, o.err.message);
        const char *pre = text_of(&c, KEY("pre")), *kind = text_of(&c, KEY("model"));
        if (strcmp(pre, cases[i].pre) != 0 ||
            strcmp(o.lacks ? o.lacks : "", cases[i].lacks ? cases[i].lacks : "") != 0)
            fail_msg("%s: named %s, lacks %s", cases[i].pre_tokenizer, pre,
                     o.lacks ? o.lacks : "nothing");
        const bool none = cases[i].lacks == model || cases[i].lacks == normaliser;
        assert_string_equal(kind, none ? "none" : "gpt2");
        container_close(&c);
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
}

/* ---- SentencePiece ------------------------------------------------------------------------------- */

#define FALLBACK(merges)                                                                           \
    "{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,"     \
    "\"a\":1,\"b\":2,\"ab\":3,\"" BAR "\":4,\"" BAR "a\":5},\"merges\":[" merges "]}"
#define PAIRS "[\"a\",\"b\"],[\"" BAR "\",\"a\"]"

static void pieces(void **state)
{
    (void)state;
    static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                                  "\"content\":\"" BAR "\"}";
    static const struct {
        const char *normalizer, *pre_tokenizer;
        int prefix; /* -1: GGUF cannot represent it */
    } cases[] = {
        { NULL, "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\"}", 1 },
        { NULL,
          "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\",\"prepend_scheme\":\"always\"}", 1 },
        { NULL, "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\",\"prepend_scheme\":\"never\"}",
          0 },
        { NULL, "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\",\"add_prefix_space\":false}",
          0 },
        { replace, NULL, 0 },
        { "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}", NULL, -1 },
        { "{\"type\":\"Prepend\",\"prepend\":\"" BAR "\"}", NULL, -1 },
        { NULL, NULL, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        container c;
        host_plain(&h);
        const parts p = { cases[i].normalizer, cases[i].pre_tokenizer, NULL, FALLBACK(PAIRS) };
        const outcome o = described(json_of(&p), 6, -1, -1, &h, &c);
        if (o.status != WEFT_OK)
            fail_msg("case %zu: %s", i, o.err.message);
        const meta *prefix = container_meta(&c, KEY("add_space_prefix"));
        assert_int_equal(prefix ? prefix->flag : -1, cases[i].prefix);
        assert_string_equal(text_of(&c, KEY("model")), prefix ? "llama" : "none");
        assert_string_equal(o.lacks ? o.lacks : "", prefix ? "" : "its model");
        container_close(&c);
    }
}

/* ---- merges, tokens, ids ------------------------------------------------------------------------- */

/* As texts, as pairs, and with version lines: the output is the same. */
static void merges(void **state)
{
    (void)state;
    static const char *const forms[] = {
        BPE("", "\"l o\",\"lo w\""),
        BPE("", "[\"l\",\"o\"],[\"lo\",\"w\"]"),
        BPE("", "\"#version: 0.2\",\"l o\",\"lo w\""),
        BPE("", "\"l o\",\"#version\",[\"lo\",\"w\"]"),
        BPE("", "\"#version\",[\"l\",\"o\"],\"lo w\",\"#version: 0.2 - x\""),
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        host h;
        container c;
        host_plain(&h);
        const parts p = { .pre_tokenizer = BYTE_LEVEL, .model = forms[i] };
        const outcome o = described(json_of(&p), 8, 5, 6, &h, &c);
        if (o.status != WEFT_OK)
            fail_msg("form %zu: %s", i, o.err.message);
        assert_string_equal(list_of(&c, KEY("merges")), "l o|lo w");
        container_close(&c);
    }
    static const char *const pairs[] = {
        FALLBACK(PAIRS),
        FALLBACK("\"#version: 0.2\",\"a b\",\"" BAR " a\""),
        FALLBACK("\"a b\",\"#version\",\"" BAR " a\""),
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        host h;
        container c;
        host_plain(&h);
        const parts p = { NULL, "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\"}", NULL,
                          pairs[i] };
        const outcome o = described(json_of(&p), 6, -1, -1, &h, &c);
        if (o.status != WEFT_OK)
            fail_msg("form %zu: %s", i, o.err.message);
        const meta *score = container_meta(&c, KEY("scores"));
        assert_true(gguf_number(score, 3) > gguf_number(score, 5)); /* merged first */
        assert_true(gguf_number(score, 5) > gguf_number(score, 1)); /* not merged at all */
        container_close(&c);
    }
    host h;
    container c;
    host_plain(&h);
    const parts none = { .pre_tokenizer = BYTE_LEVEL, .model = BPE("", "") };
    assert_int_equal(described(json_of(&none), 8, 5, 6, &h, &c).status, WEFT_OK);
    assert_int_equal(container_meta(&c, KEY("merges"))->length, 0);
    container_close(&c);
}

/* Bars in user-defined pieces are spaces in GGUF, as llama.cpp expects; in others they stay. */
static void user_pieces(void **state)
{
    (void)state;
    host h;
    container c;
    static const char *const tokens[] = {
        "<unk>", "<s>", "</s>", BAR, BAR BAR, "a" BAR "<b>", "a"
    };
    static const int32_t types[] = { 2, 3, 3, 1, 4, 4, 1 };
    gguf_build g = { 0 };
    gguf_text(&g, KEY("model"), "llama");
    gguf_texts(&g, KEY("tokens"), tokens, 7);
    gguf_i32s(&g, KEY("token_type"), types, 7);
    gguf_i32s(&g, KEY("scores"), types, 7);
    bytes b = gguf_finish(&g);
    host_plain(&h);
    const outcome o = described_file(temp_file("v.gguf", b.at, b.n), 7, 1, 2, &h, &c);
    if (o.status != WEFT_OK)
        fail_msg("%s", o.err.message);
    assert_string_equal(list_of(&c, KEY("tokens")), "<unk>|<s>|</s>|" BAR "|  |a <b>|a");
    container_close(&c);
    free(b.at);
}

static void tokens_and_ids(void **state)
{
    (void)state;
    static const char before[] =
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
        "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":"
        "{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
        "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[5],\"tokens\":[\"<s>\"]}}}";
    for (int i = 0; i < 4; i++) { /* without a first token, without a last one */
        host h;
        container c;
        host_plain(&h);
        const bool bos = i & 1, eos = i & 2;
        const parts p = { .pre_tokenizer = BYTE_LEVEL,
                          .after = bos ? before : NULL,
                          .model = PLAIN };
        const outcome o = described(json_of(&p), 10, bos ? 5 : -1, eos ? 6 : -1, &h, &c);
        if (o.status != WEFT_OK)
            fail_msg("%s", o.err.message);
        assert_true(!container_meta(&c, KEY("bos_token_id")) == !bos);
        assert_true(!container_meta(&c, KEY("eos_token_id")) == !eos);
        assert_null(container_meta(&c, KEY("unknown_token_id")));
        assert_int_equal(container_meta(&c, KEY("add_bos_token"))->flag, bos);
        assert_false(container_meta(&c, KEY("add_eos_token"))->flag);
        assert_string_equal(list_of(&c, KEY("tokens")), "l|o|w|lo|low|<s>|</s>|user|[PAD8]|[PAD9]");
        const meta *type = container_meta(&c, KEY("token_type"));
        assert_int_equal(gguf_number(type, 0), PIECE_NORMAL);
        assert_int_equal(gguf_number(type, 5), PIECE_CONTROL);
        assert_int_equal(gguf_number(type, 7), PIECE_USER);
        assert_int_equal(gguf_number(type, 9), PIECE_UNUSED);
        container_close(&c);
    }
}

/* BERT's: the special tokens, and normalisation. */
static void words(void **state)
{
    (void)state;
    static const parts p = {
        .normalizer =
            "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
            "\"strip_accents\":false,\"lowercase\":true}",
        .pre_tokenizer = "{\"type\":\"BertPreTokenizer\"}",
        .after = "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]}",
        .model =
            "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
            "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,"
            "\"[SEP]\":3,\"[MASK]\":4,\"a\":5,\"##b\":6}}"
    };
    static const struct {
        const char *key;
        int64_t id;
    } want[] = { { KEY("unknown_token_id"), 1 },   { KEY("bos_token_id"), 2 },
                 { KEY("cls_token_id"), 2 },       { KEY("eos_token_id"), 3 },
                 { KEY("seperator_token_id"), 3 }, { KEY("mask_token_id"), 4 } };
    host h;
    container c;
    host_plain(&h);
    const outcome o = described(json_of(&p), 7, 2, 3, &h, &c);
    if (o.status != WEFT_OK || o.lacks)
        fail_msg("%s", o.lacks ? o.lacks : o.err.message);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const meta *m = container_meta(&c, want[i].key);
        assert_that(m && m->integer == want[i].id, "%s is not %d", want[i].key, (int)want[i].id);
    }
    assert_true(container_meta(&c, KEY("normalizer.lowercase"))->flag);
    assert_false(container_meta(&c, KEY("normalizer.strip_accents"))->flag);
    container_close(&c);
}

/* ---- one change each ------------------------------------------------------------------------- */

#define BERT_NORM(clean, han)                                                                      \
    "{\"type\":\"BertNormalizer\",\"clean_text\":" clean ",\"handle_chinese_chars\":" han          \
    ",\"strip_accents\":null,\"lowercase\":true}"
#define BERT_SPLIT "{\"type\":\"BertPreTokenizer\"}"
#define BERT_ENDS  "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",1],\"cls\":[\"[CLS]\",0]}"
#define WORDS(inner, more)                                                                         \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"" inner       \
    "\",\"max_input_chars_per_word\":100,\"vocab\":{\"[CLS]\":0,\"[SEP]\":1,\"[UNK]\":2,"          \
    "\"a\":3" more "}}"
#define TWO(x, y)    "{\"type\":\"Sequence\",\"normalizers\":[" x "," y "]}"
#define TOKEN(text)  "{\"SpecialToken\":{\"id\":\"" text "\",\"type_id\":0}}"
#define TEXT(name)   "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":0}}"
#define ID(text, id) "\"" text "\":{\"id\":\"" text "\",\"ids\":[" id "],\"tokens\":[\"" text "\"]}"
#define TEMPLATE(single, ids)                                                                      \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single                                         \
    "],\"pair\":[" TEXT("A") "," TEXT("B") "],\"special_tokens\":{" ids "}}"
#define METASPACE "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\"}"
#define REPLACE(kind, from, to)                                                                    \
    "{\"type\":\"Replace\",\"pattern\":{\"" kind "\":\"" from "\"},\"content\":\"" to "\"}"
#define UNIGRAM                                                                                    \
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"" BAR "\",-2]]}"

/* What each loses in GGUF's keys; NULL: nothing. */
static void one_change_each(void **state)
{
    (void)state;
    static const char bert[] = BERT_NORM("true", "true"), ends[] = BERT_ENDS;
    static const char normaliser[] = "its normaliser", splits[] = "how it splits text",
                      model[] = "its model", beside[] = "the tokens beside a text";
    static const struct {
        parts p;
        const char *lacks;
    } cases[] = {
        { { bert, BERT_SPLIT, ends, WORDS("##", ",\"##b\":4") }, NULL },
        { { BERT_NORM("false", "true"), BERT_SPLIT, ends, WORDS("##", "") }, normaliser },
        { { BERT_NORM("true", "false"), BERT_SPLIT, ends, WORDS("##", "") }, normaliser },
        { { "{\"type\":\"Lowercase\"}", BERT_SPLIT, ends, WORDS("##", "") }, normaliser },
        { { TWO("{\"type\":\"NFC\"}", BERT_NORM("true", "true")), BERT_SPLIT, ends,
            WORDS("##", "") },
          normaliser },
        { { bert, NULL, ends, WORDS("##", "") }, splits },
        { { bert, "{\"type\":\"WhitespaceSplit\"}", ends, WORDS("##", "") }, splits },
        { { bert, SEQUENCE(BERT_SPLIT "," DIGITS), ends, WORDS("##", "") }, splits },
        { { bert, BERT_SPLIT, ends, WORDS("##", ",\"<s>\":5,\"user\":7") }, "its added tokens" },
        { { bert, BERT_SPLIT, NULL, WORDS("##", "") }, model },
        { { bert, BERT_SPLIT,
            TEMPLATE(TEXT("A") "," TOKEN("[SEP]") "," TOKEN("[SEP]"), ID("[SEP]", "1")),
            WORDS("##", "") },
          model },
        { { bert, BERT_SPLIT,
            TEMPLATE(TOKEN("[CLS]") "," TOKEN("[CLS]") "," TEXT("A"), ID("[CLS]", "0")),
            WORDS("##", "") },
          model },
        { { bert, BERT_SPLIT, ends, WORDS("@@", ",\"@@b\":4") }, model },
        { { bert, BERT_SPLIT, ends, WORDS("##", ",\"##[b]\":4") }, model },
        { { bert, BERT_SPLIT, ends, WORDS("##", ",\"##[b\":4") }, NULL },
        { { bert, BERT_SPLIT, ends, WORDS("##", ",\"##" BAR "\":4") }, model },
        { { bert, BERT_SPLIT, ends, WORDS("##", ",\"##bcd\":4,\"##\":5") }, NULL },

        { { NULL, METASPACE, NULL, UNIGRAM }, NULL },
        { { REPLACE("Regex", " {2,}", " "), METASPACE, NULL, UNIGRAM }, NULL },
        { { REPLACE("Regex", " {2,}", BAR), METASPACE, NULL, UNIGRAM }, NULL },
        { { REPLACE("Regex", " {2,}", "-"), METASPACE, NULL, UNIGRAM }, normaliser },
        { { REPLACE("Regex", " {3,}", " "), METASPACE, NULL, UNIGRAM }, normaliser },
        { { REPLACE("String", "-", BAR), METASPACE, NULL, UNIGRAM }, normaliser },
        { { "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", METASPACE, NULL,
            UNIGRAM },
          normaliser },
        { { TWO("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
                REPLACE("Regex", " {2,}", " ")),
            METASPACE, NULL, UNIGRAM },
          NULL },
        { { "{\"type\":\"Prepend\",\"prepend\":\"x\"}", METASPACE, NULL, UNIGRAM }, normaliser },
        { { "{\"type\":\"NFC\"}", METASPACE, NULL, UNIGRAM }, normaliser },
        { { NULL, SEQUENCE("{\"type\":\"WhitespaceSplit\"}," METASPACE), NULL, UNIGRAM }, NULL },
        { { NULL, SEQUENCE(DIGITS "," METASPACE), NULL, UNIGRAM }, splits },
        { { NULL, SEQUENCE(METASPACE ",{\"type\":\"Punctuation\"}"), NULL, UNIGRAM }, splits },
        { { NULL, "{\"type\":\"Metaspace\",\"replacement\":\"_\"}", NULL, UNIGRAM }, model },
        { { NULL, METASPACE, TEMPLATE(TEXT("A") "," TOKEN("a"), ID("a", "1")), UNIGRAM }, beside },
        { { NULL, METASPACE, TEMPLATE(TOKEN("a") "," TOKEN("a") "," TEXT("A"), ID("a", "1")),
            UNIGRAM },
          beside },

        { { NULL, METASPACE, NULL, FALLBACK(PAIRS) }, NULL },
        { { NULL, SEQUENCE(METASPACE "," DIGITS), NULL, FALLBACK(PAIRS) }, splits },
        { { NULL, SEQUENCE(METASPACE ",{\"type\":\"Punctuation\"}"), NULL, FALLBACK(PAIRS) },
          splits },
        { { "{\"type\":\"NFKC\"}", METASPACE, NULL, FALLBACK(PAIRS) }, normaliser },
        { { NULL, METASPACE, NULL, FALLBACK("[\"" BAR "\",\"a\"],[\"a\",\"b\"]") }, NULL },
        { { "{\"type\":\"NFC\"}", BYTE_LEVEL, NULL, PLAIN }, normaliser },
        { { NULL, BYTE_LEVEL, NULL, BPE("\"end_of_word_suffix\":\"w\",", "") }, model },
        { { NULL, BYTE_LEVEL, NULL, BPE("\"continuing_subword_prefix\":\"w\",", "") }, model },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        container c;
        host_plain(&h);
        const outcome o = described(json_of(&cases[i].p), 8, -1, 0, &h, &c);
        if (o.status != WEFT_OK)
            fail_msg("case %zu: %s", i, o.err.message);
        if (strcmp(o.lacks ? o.lacks : "", cases[i].lacks ? cases[i].lacks : "") != 0)
            fail_msg("case %zu (%s, %s): lacks %s", i, cases[i].p.normalizer,
                     cases[i].p.pre_tokenizer, o.lacks ? o.lacks : "nothing");
        container_close(&c);
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
}

/* ---- what goes wrong ----------------------------------------------------------------------------- */

static void too_many_tokens(void **state)
{
    (void)state;
    host h;
    container c;
    host_plain(&h);
    const parts p = { .pre_tokenizer = BYTE_LEVEL, .model = PLAIN };
    const outcome o = described(json_of(&p), 7, 5, 6, &h, &c);
    assert_int_equal(o.status, WEFT_EFORMAT);
    assert_non_null(strstr(o.err.message, "8 tokens, but the model has 7"));
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* Any allocation may fail, for a text or for pieces. */
static void without_memory(void **state)
{
    (void)state;
    const parts kinds[] = {
        { .pre_tokenizer = BYTE_LEVEL, .model = PLAIN },
        { .pre_tokenizer = "{\"type\":\"Metaspace\",\"replacement\":\"" BAR "\"}",
          .model = FALLBACK(PAIRS) },
    };
    for (int i = 0; i < 2; i++) {
        char json[MAX_JSON];
        snprintf(json, sizeof json, "%s", json_of(&kinds[i]));
        for (int64_t k = 1;; k++) {
            host h;
            container c;
            faults memory = { .fail_at = k };
            host_faulty(&h, &memory, NULL);
            const outcome o = described(json, 8, -1, -1, &h, &c);
            if (o.status == WEFT_OK)
                container_close(&c);
            else if (o.err.code != WEFT_ENOMEM)
                fail_msg("allocation %lld: %d \"%s\"", (long long)k, (int)o.err.code,
                         o.err.message);
            assert_int_equal(memory.live, 0);
            if (memory.calls < k)
                break;
            assert_int_not_equal(o.status, WEFT_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("describe: a way of splitting has a name, or an error says that it has none",
             ways_of_splitting),
        TEST("describe: SentencePiece's pieces, with a space before the text or without", pieces),
        TEST("describe: merges as texts and as pairs are the same, versions are ignored", merges),
        TEST("describe: user-defined pieces have spaces", user_pieces),
        TEST("describe: tokens, their kinds, and the ids that are special", tokens_and_ids),
        TEST("describe: WordPiece as in BERT", words),
        TEST("describe: one change each, and what GGUF's keys lose", one_change_each),
        TEST("describe: more tokens than the model has are refused", too_many_tokens),
        TEST("describe: any failed allocation is a clean error", without_memory),
    };
    return RUN(tests);
}

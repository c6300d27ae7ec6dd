/* Vocabularies inside GGUF files: every key that is missing, of another type or out of range is
 * named; every splitting mode cuts like its model; and which file a path means. */
#include "gguf_build.h"
#include "support.h"
#include "text/sources/pieces.h"
#include "text/sources/source.h"

#include <sys/stat.h>
#include <unistd.h>

#define KEY(name) "tokenizer.ggml." name

/* The wrong value of a key. */
typedef enum value { NOTHING, A_TEXT, A_NUMBER, A_BOOL, TEXTS, NUMBERS, BYTES } value;

typedef struct change {
    const char *key;
    value value;
    const char *text; /* A_TEXT; TEXTS: n of them */
    uint32_t n;       /* A_NUMBER, A_BOOL: the value; TEXTS, NUMBERS, BYTES: the count */
} change;

static void write_bytes(gguf_build *g, const char *key, const uint8_t *x, uint64_t n)
{
    put_text(&g->entries, key);
    put_u32(&g->entries, 9);
    put_u32(&g->entries, 0);
    put_u64(&g->entries, n);
    put(&g->entries, x, n);
    g->n_entry++;
}

static void write_change(gguf_build *g, const change *c)
{
    static const int32_t ones[16] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const uint8_t map[] = { 8, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 'x', 0 };
    const char *texts[16];
    for (size_t i = 0; i < 16; i++)
        texts[i] = c->text;
    switch (c->value) {
    case A_TEXT:
        gguf_text(g, c->key, c->text);
        break;
    case A_NUMBER:
        gguf_u32(g, c->key, c->n);
        break;
    case A_BOOL:
        gguf_bool(g, c->key, c->n);
        break;
    case TEXTS:
        gguf_texts(g, c->key, texts, c->n);
        break;
    case NUMBERS:
        gguf_i32s(g, c->key, ones, c->n);
        break;
    case BYTES:
        write_bytes(g, c->key, map, c->n);
        break;
    case NOTHING:
        break;
    }
}

static bool changed(const change *c, const char *key)
{
    return c && strcmp(c->key, key) == 0;
}

/* A vocabulary of ten tokens in which one key is wrong. */
static bytes vocabulary(const char *model, const change *c)
{
    static const char *const tokens[] = { "<unk>", "<s>", "</s>",         "l",       "o", "w",
                                          "lo",    "low", "\xE2\x96\x81", "\xC4\xA0" };
    static const char *const merges[] = { "l o", "lo w" };
    static const int32_t types[] = { 2, 3, 3, 1, 1, 1, 1, 1, 1, 4 };
    gguf_build g = { 0 };
    if (!changed(c, KEY("model")))
        gguf_text(&g, KEY("model"), model);
    if (!changed(c, KEY("pre")))
        gguf_text(&g, KEY("pre"), "gpt-2");
    if (!changed(c, KEY("tokens")))
        gguf_texts(&g, KEY("tokens"), tokens, 10);
    if (!changed(c, KEY("merges")))
        gguf_texts(&g, KEY("merges"), merges, 2);
    if (!changed(c, KEY("token_type")))
        gguf_i32s(&g, KEY("token_type"), types, 10);
    if (!changed(c, KEY("scores")))
        gguf_i32s(&g, KEY("scores"), types, 10);
    if (!changed(c, KEY("bos_token_id")))
        gguf_u32(&g, KEY("bos_token_id"), 1);
    if (c)
        write_change(&g, c);
    return gguf_finish(&g);
}

/* "" if the file loads, otherwise the message. */
static const char *said(const bytes *b, const char *pre, weft_error *err)
{
    host h;
    tokenizer t;
    *err = (weft_error){ 0 };
    host_plain(&h);
    if (tokenizer_load(&t, temp_file("v.gguf", b->at, b->n), pre, WEFT_LOAD_COPY, &h, err) ==
        WEFT_OK)
        tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return err->message;
}

static void keys_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        change change;
        const char *says; /* NULL: it loads */
    } cases[] = {
        { "", { KEY("model"), NOTHING, 0, 0 }, "has no vocabulary (tokenizer.ggml.model)" },
        { "", { KEY("model"), A_NUMBER, 0, 5 }, "has no vocabulary (tokenizer.ggml.model)" },
        { "", { KEY("model"), A_TEXT, "magic", 0 }, "unsupported " KEY("model") " \"magic\"" },
        { "gpt2", { KEY("tokens"), NOTHING, 0, 0 }, KEY("tokens") " is missing or not a list" },
        { "gpt2", { KEY("tokens"), A_TEXT, "low", 0 }, KEY("tokens") " is missing or not a list" },
        { "gpt2", { KEY("tokens"), NUMBERS, 0, 10 }, KEY("tokens") " is missing or not a list" },
        { "gpt2", { KEY("tokens"), TEXTS, "", 0 }, KEY("tokens") " is missing or not a list" },
        { "gpt2", { KEY("token_type"), NOTHING, 0, 0 }, NULL },
        { "gpt2", { KEY("token_type"), A_TEXT, "1", 0 }, KEY("token_type") " is missing or not" },
        { "gpt2", { KEY("token_type"), TEXTS, "1", 10 }, "not a number for each token" },
        { "gpt2", { KEY("token_type"), NUMBERS, 0, 9 }, "not a number for each token" },
        { "gpt2", { KEY("pre"), NOTHING, 0, 0 }, "(" KEY("pre") " is missing)" },
        { "gpt2", { KEY("pre"), A_NUMBER, 0, 1 }, "(" KEY("pre") " is missing)" },
        { "gpt2", { KEY("pre"), A_TEXT, "default", 0 }, "(" KEY("pre") " is \"default\")" },
        { "gpt2",
          { KEY("pre"), A_TEXT, "afmoe", 0 },
          "unsupported pre-tokenizer \"afmoe\"; give another with --pre (llama-bpe, qwen2, gpt-2, "
          "...)" },
        { "gpt2", { KEY("pre"), A_TEXT, "", 0 }, "unsupported pre-tokenizer \"\"" },
        { "gpt2", { KEY("pre"), A_TEXT, "sarvam-moe", 0 }, NULL },
        { "gpt2", { KEY("merges"), NOTHING, 0, 0 }, KEY("merges") " is missing or not a list" },
        { "gpt2", { KEY("merges"), A_NUMBER, 0, 0 }, KEY("merges") " is missing or not a list" },
        { "gpt2", { KEY("merges"), NUMBERS, 0, 2 }, KEY("merges") " is missing or not a list" },
        { "gpt2", { KEY("merges"), TEXTS, "l x", 1 }, "merge 0 joins \"l\" and \"x\"" },
        { "gpt2", { KEY("bos_token_id"), A_NUMBER, 0, 9 }, NULL },
        { "gpt2", { KEY("bos_token_id"), A_NUMBER, 0, 10 }, "is 10, but there are 10 tokens" },
        { "gpt2", { KEY("bos_token_id"), A_TEXT, "1", 0 }, KEY("bos_token_id") " is missing or" },
        { "gpt2",
          { KEY("add_eos_token"), A_BOOL, 0, 1 },
          "asks for a token after each text, but does not name it" },
        { "gpt2", { KEY("add_bos_token"), A_BOOL, 0, 1 }, NULL },
        { "gemma4",
          { KEY("bos_token_id"), NOTHING, 0, 0 },
          "asks for a token before each text, but does not name it" },
        { "gemma4", { KEY("unknown_token_id"), A_NUMBER, 0, 11 }, "is 11, but there are 10" },
        { "llama", { KEY("scores"), NOTHING, 0, 0 }, KEY("scores") " is missing or not a number" },
        { "llama", { KEY("scores"), A_TEXT, "1", 0 }, KEY("scores") " is missing or not a number" },
        { "llama", { KEY("scores"), TEXTS, "1", 10 }, KEY("scores") " is missing or not a number" },
        { "llama", { KEY("scores"), NUMBERS, 0, 11 }, KEY("scores") " is missing or not a number" },
        { "llama", { KEY("tokens"), TEXTS, "low", 10 }, "piece 4 \"low\" occurs twice" },
        { "llama", { KEY("unknown_token_id"), A_NUMBER, 0, 12 }, "is 12, but there are 10" },
        { "llama", { KEY("add_space_prefix"), A_BOOL, 0, 0 }, NULL },
        { "llama", { KEY("add_space_prefix"), A_NUMBER, 0, 0 }, NULL },
        { "t5", { KEY("precompiled_charsmap"), A_TEXT, "x", 0 }, "not a list of bytes" },
        { "t5", { KEY("precompiled_charsmap"), NUMBERS, 0, 4 }, "not a list of bytes" },
        { "t5", { KEY("precompiled_charsmap"), BYTES, 0, 14 }, NULL },
        { "t5", { KEY("precompiled_charsmap"), BYTES, 0, 0 }, NULL },
        { "t5", { KEY("precompiled_charsmap"), BYTES, 0, 3 }, "precompiled_charsmap of 3 bytes" },
        { "bert", { KEY("unknown_token_id"), A_NUMBER, 0, 10 }, "unknown_token_id is 10" },
        { "bert", { KEY("cls_token_id"), A_NUMBER, 0, 10 }, "cls_token_id is 10" },
        { "bert", { KEY("seperator_token_id"), A_NUMBER, 0, 10 }, "seperator_token_id is 10" },
        { "bert", { KEY("tokens"), TEXTS, "", 10 }, "piece 4 \"\" occurs twice" },
        { "bert", { KEY("tokens"), TEXTS, "[x]", 10 }, "piece 4 \"[x]\" occurs twice" },
        { "gpt2", { "weft.tokenizer.selftest", A_NUMBER, 0, 1 }, "selftest is not text" },
        { "gpt2",
          { "weft.tokenizer.selftest", A_TEXT, "{\"vectors\":[{\"text\":\"low\",\"ids\":[]}]}", 0 },
          "weft.tokenizer.selftest: vector 0, \"low\": token 0 is 7, expected -1" },
        { "gpt2",
          { "weft.tokenizer.selftest", A_TEXT,
            "{\"vectors\":[{\"text\":\"l\",\"ids\":[3,3]},{\"text\":5}]}", 0 },
          "weft.tokenizer.selftest: vector 0, \"l\": token 1 is -1, expected 3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_error err;
        bytes b = vocabulary(cases[i].model, &cases[i].change);
        const char *got = said(&b, NULL, &err);
        if (cases[i].says ? !strstr(got, cases[i].says) : got[0] != '\0')
            fail_msg("%s, %s: got \"%s\", expected \"%s\"", cases[i].model, cases[i].change.key,
                     got, cases[i].says ? cases[i].says : "");
        free(b.at);
    }
}

static void named_by_the_caller(void **state)
{
    (void)state;
    weft_error err;
    bytes b = vocabulary("gpt2", &(change){ KEY("pre"), NOTHING, 0, 0 });
    assert_string_equal(said(&b, "qwen2", &err), "");
    assert_non_null(strstr(said(&b, "magic", &err),
                           "unsupported pre-tokenizer \"magic\"; give another with "
                           "--pre (llama-bpe, qwen2, gpt-2, ...)"));
    b.n = 20; /* the magic and little else */
    assert_non_null(strstr(said(&b, NULL, &err), "v.gguf"));
    free(b.at);
}

/* ---- ids --------------------------------------------------------------------------------------- */

static void load(tokenizer *t, host *h, const bytes *b)
{
    weft_error err = { 0 };
    host_plain(h);
    if (tokenizer_load(t, temp_file("v.gguf", b->at, b->n), NULL, WEFT_LOAD_COPY, h, &err) !=
        WEFT_OK)
        fail_msg("%s", err.message);
}

/* The ids of a text without a template, or of a pair with one, as "1 2 3". */
static const char *ids_of_two(const tokenizer *t, const char *text, const char *second)
{
    static char list[4096];
    weft_error err = { 0 };
    encoding k = { 0 };
    encoder *e = encoder_new(t, &t->host->mem, &err);
    const encode_options o = { .no_template = !second };
    if (encoder_encode(e, text, strlen(text), second, second ? strlen(second) : 0, &o, &k, &err) !=
        WEFT_OK)
        fail_msg("%s", err.message);
    int n = 0;
    list[0] = '\0';
    for (size_t i = 0; i < k.n; i++)
        n += snprintf(list + n, sizeof list - (size_t)n, "%s%u", i ? " " : "", k.id[i]);
    encoder_free(e);
    return list;
}

static const char *ids_of(const tokenizer *t, const char *text)
{
    return ids_of_two(t, text, NULL);
}

/* Of two tokens with the same text the first is used; Gemma falls back to bytes. */
static void ids_of_merges(void **state)
{
    (void)state;
    host h;
    tokenizer t;
    static const char *const tokens[] = { "<unk>", "l",      "o",      "lo",    "\xE2\x96\x81",
                                          "lo",    "<0xC3>", "<0xA9>", "<0x6C>" };
    static const char *const merges[] = { "l o" };
    static const int32_t types[] = { 2, 1, 1, 1, 1, 1, 6, 6, 1 };
    for (int gemma = 0; gemma < 2; gemma++) {
        gguf_build g = { 0 };
        gguf_text(&g, KEY("model"), gemma ? "gemma4" : "gpt2");
        gguf_text(&g, KEY("pre"), "gpt-2");
        gguf_texts(&g, KEY("tokens"), tokens, 9);
        gguf_texts(&g, KEY("merges"), merges, 1);
        gguf_i32s(&g, KEY("token_type"), types, 9);
        gguf_bool(&g, KEY("add_bos_token"), false);
        bytes b = gguf_finish(&g);
        load(&t, &h, &b);
        assert_string_equal(ids_of(&t, gemma ? "lo\xC3\xA9 lo" : "lolo"),
                            gemma ? "3 6 7 4 3" : "3 3");
        tokenizer_free(&t);
        free(b.at);
    }
}

/* In GGUF, BERT's words start with a bar, continuations have no mark, and text in brackets is
 * special. */
static void ids_of_words(void **state)
{
    (void)state;
    host h;
    tokenizer t;
    static const char *const tokens[] = { "[UNK]", "[x]", "\xE2\x96\x81low",
                                          "er",    "",    "\xE2\x96\x81" };
    static const int32_t types[] = { 3, 1, 1, 1, 2, 3 };
    gguf_build g = { 0 };
    gguf_text(&g, KEY("model"), "bert");
    gguf_texts(&g, KEY("tokens"), tokens, 6);
    gguf_i32s(&g, KEY("token_type"), types, 6);
    gguf_u32(&g, KEY("unknown_token_id"), 0);
    bytes b = gguf_finish(&g);
    load(&t, &h, &b);
    assert_string_equal(ids_of(&t, "Lower low er"), "2 3 2 0");
    tokenizer_free(&t);
    free(b.at);
}

/* "6120 8 3": the bytes of a text in hexadecimal, and its ids. */
static size_t unhex(const char *s, char *to)
{
    size_t n = 0;
    unsigned byte;
    for (; sscanf(s + 2 * n, "%2x", &byte) == 1 && s[2 * n] != ' '; n++)
        to[n] = (char)byte;
    return n;
}

/* Gemma's runs of white space and its tags are user-defined pieces, which GGUF files spell with
 * plain spaces. The ids are llama.cpp's (tools/spaces_golden.py). */
static void ids_of_spaces(void **state)
{
    (void)state;
    host h;
    tokenizer t;
    weft_error err = { 0 };
    char line[4096], text[2048];
    int n = 0;
    host_plain(&h);
    if (tokenizer_load(&t, fixture("golden/spaces/vocab.gguf"), NULL, WEFT_LOAD_COPY, &h, &err) !=
        WEFT_OK)
        fail_msg("%s", err.message);
    FILE *f = fopen(fixture("golden/spaces/ids.txt"), "r");
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); n++) {
        const size_t length = unhex(line, text);
        const char *expected = line + 2 * length + 1;
        text[length] = '\0';
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(ids_of(&t, text), expected) != 0)
            fail_msg("\"%s\" is %s, expected %s", text, ids_of(&t, text), expected);
    }
    assert_int_equal(n, 300);
    fclose(f);
    tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* XLM-R, as llama.cpp's converter writes it: unigram pieces, a token before each text and one after
 * it. Between two texts there are two, unless the file says otherwise. */
static void ids_of_pairs(void **state)
{
    (void)state;
    static const char *const tokens[] = {
        "<s>", "<pad>", "</s>", "<unk>", "\xE2\x96\x81low", "er"
    };
    static const int32_t types[] = { 3, 3, 3, 2, 1, 1 };
    static const char *const expected[] = { "0 4 2 2 4 5 2", "0 4 2 4 5 2" };
    for (int without = 0; without < 2; without++) {
        host h;
        tokenizer t;
        gguf_build g = { 0 };
        gguf_text(&g, KEY("model"), "t5");
        gguf_texts(&g, KEY("tokens"), tokens, 6);
        gguf_i32s(&g, KEY("token_type"), types, 6);
        gguf_i32s(&g, KEY("scores"), types, 6);
        gguf_u32(&g, KEY("bos_token_id"), 0);
        gguf_u32(&g, KEY("eos_token_id"), 2);
        gguf_u32(&g, KEY("unknown_token_id"), 3);
        gguf_u32(&g, KEY("seperator_token_id"), 2);
        gguf_bool(&g, KEY("add_bos_token"), true);
        gguf_bool(&g, KEY("add_eos_token"), true);
        if (without)
            gguf_bool(&g, KEY("add_sep_token"), false);
        bytes b = gguf_finish(&g);
        load(&t, &h, &b);
        assert_string_equal(ids_of_two(&t, "low", "lower"), expected[without]);
        tokenizer_free(&t);
        free(b.at);
    }
}

/* ---- ways of splitting ------------------------------------------------------------------------- */

static bool note(void *ud, const piece *p)
{
    char *list = ud;
    snprintf(list + strlen(list), 512 - strlen(list), "%s%.*s", list[0] ? "^" : "", (int)p->n,
             p->s);
    return true;
}

/* The cuts of Hugging Face's Split with each model's own patterns; the names that share Gemma's
 * mode only cut lines. */
static void ways_of_splitting(void **state)
{
    (void)state;
    static const char text[] = "He'll pay 1234567 for AbcDE\xCC\x81"
                               "f, \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA\xEF\xBC\x81 "
                               "IMGIMGABZ\n\n     x<sentinel:12>";
    static const struct {
        const char *name, *cut;
    } ways[] = {
        { "granite-embed-multi-97m",
          "He'll^ pay^ ^123^456^7^ for^ Abc^DE\xCC\x81"
          "f^,^ \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ IMGIMGABZ^\n\n^    "
          "^ x^<sentinel^:^12^>" },
        { "tiny_aya", "He'll^ pay^ ^1^234^567^ for^ Abc^DE\xCC\x81"
                      "f^,^ \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ "
                      "IMGIMGABZ^\n\n^    ^ x^<sentinel^:^12^>" },
        { "youtu", "He'll^ pay^ ^1^2^3^4^5^6^7^ for^ Abc^DE\xCC\x81"
                   "f^,^ ^\xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ "
                   "IMGIMGABZ^\n\n^    ^ x^<sentinel^:^1^2^>" },
        { "kimi-k2", "He'll^ pay^ ^123^456^7^ for^ Abc^DE\xCC\x81"
                     "f^,^ ^\xE6\xBC\xA2\xE5\xAD\x97^\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ "
                     "IMGIMGABZ^\n\n^    ^ x^<sentinel^:^12^>" },
        { "jais-2", "He^'ll^ pay^ ^123^456^7^ for^ AbcDE^\xCC\x81"
                    "f^,^ \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ "
                    "IMGIMGABZ^\n\n^    ^ x^<sentinel^:^12^>" },
        { "exaone-moe", "He^'ll^ pay^ ^1^2^3^4^5^6^7^ for AbcDE\xCC\x81"
                        "f^,^ \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ "
                        "IMGIMGABZ^\n\n^    ^ x^<sentinel^:^1^2^>" },
        { "chameleon", "He^'^ll^ pay^ ^1^2^3^4^5^6^7^ for^ AbcDE^\xCC\x81^"
                       "f^,^ \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA^\xEF\xBC\x81^ "
                       "^IMGIMGABZ^\n^\n^    ^ x^<^sentinel^:^1^2^>" },
        { "granite-embed-multi-311m",
          "He'll pay 1234567 for AbcDE\xCC\x81"
          "f, \xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B\xE3\x81\xAA\xEF\xBC\x81 IMGIMGABZ^\n\n^     "
          "x<sentinel:12>" },
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        host h;
        tokenizer t;
        weft_error err = { 0 };
        char list[512] = "";
        writer writers[MAX_STEP] = { 0 };
        host_plain(&h);
        assert_int_equal(tokenizer_begin(&t, "test", "", &h, &err), WEFT_OK);
        if (pre_apply(&t, ways[i].name, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        regex_scratch *room = regex_scratch_new(&h.mem, &err);
        growth grown;
        growth_begin(&grown, t.splitters.n, sizeof text, GROWTH_TIMES, GROWTH_MORE);
        const split_run run = {
            &t.splitters, room, writers, &grown, false, &h.mem, note, list, &err
        };
        assert_true(split_text(&run, &(piece){ .s = text, .n = sizeof text - 1 }));
        if (strcmp(list, ways[i].cut) != 0)
            fail_msg("%s: cut \"%s\", expected \"%s\"", ways[i].name, list, ways[i].cut);
        regex_scratch_free(room);
        tokenizer_free(&t);
    }
    assert_int_equal(pre_flags("no such name"), 0);
    assert_int_equal(pre_flags("youtu"), PRE_WORDS);
    assert_int_equal(pre_flags("sarvam-moe"), PRE_LETTERS);
}

/* Patterns have a name if files use one for exactly these, in this order, over bytes. */
static void names_of_patterns(void **state)
{
    (void)state;
    static const char digit[] = "\\p{N}", lines[] = "[^\\n]+|[\\n]+", any[] = ".";
    const char *const digits[] = { digit, pattern_gpt2, any }, *const reversed[] = { pattern_gpt2,
                                                                                     digit };
    const char *const letters[] = { lines };
    char name[PRE_NAME] = "";
    assert_true(pre_of_patterns(digits, 2, false, name));
    assert_string_equal(name, "starcoder");
    assert_true(pre_of_patterns(digits + 1, 1, false, name));
    assert_string_equal(name, "gpt-2");
    assert_false(pre_of_patterns(digits, 0, false, name));
    assert_false(pre_of_patterns(digits, 1, false, name));
    assert_false(pre_of_patterns(digits, 3, false, name));
    assert_false(pre_of_patterns(digits + 2, 1, false, name));
    assert_false(pre_of_patterns(reversed, 2, false, name));
    assert_false(
        pre_of_patterns(digits, 2, true, name)); /* no model keeps words and cuts like this */
    assert_false(pre_of_patterns(letters, 1, false, name)); /* Gemma's, which is not over bytes */
    static const char cl100k[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    assert_true(pre_of_patterns(&(const char *){ cl100k }, 1, true, name));
    assert_string_equal(name, "llama-bpe");
    assert_true(pre_of_patterns(&(const char *){ cl100k }, 1, false, name));
    assert_string_equal(name, "dbrx");
}

/* Any failed allocation while patterns are added is reported. */
static void patterns_without_memory(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        host h;
        tokenizer t;
        faults memory = { 0 };
        weft_error err = { 0 };
        host_faulty(&h, &memory, NULL);
        assert_int_equal(tokenizer_begin(&t, "test", "", &h, &err), WEFT_OK);
        memory.fail_at = memory.calls + k;
        const weft_status status = pre_apply(&t, "starcoder", &err);
        const bool last = memory.calls < memory.fail_at;
        assert_int_equal(status, last ? WEFT_OK : WEFT_ENOMEM);
        tokenizer_free(&t);
        assert_int_equal(memory.live, 0);
        if (last)
            break;
    }
}

/* Hand-written splitters against their patterns. */
static void cut_by_hand(void **state)
{
    (void)state;
    static const char *const names[] = { "gpt-2", "llama-bpe", "qwen2" };
    static const char *const parts[] = {
        "a",        "B",        "'",        "s",       "'ll",      "'RE",
        "1",        "23",       " ",        "  ",      "\n",       "\r",
        "\t",       ".",        "-",        "/",       "\xC3\xA9", "\xE2\x82\xAC",
        "\xD9\xA3", "\xC2\xA0", "\xC5\xBF", "\xCC\x81"
    };
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 3; i++) {
        host h;
        tokenizer t;
        weft_error err = { 0 };
        writer writers[MAX_STEP] = { 0 };
        host_plain(&h);
        assert_int_equal(tokenizer_begin(&t, "test", "", &h, &err), WEFT_OK);
        assert_int_equal(pre_apply(&t, names[i], &err), WEFT_OK);
        assert_non_null(t.splitters.step[0].scan);
        regex_scratch *room = regex_scratch_new(&h.mem, &err);
        splitters slow = t.splitters;
        slow.step[0].scan = NULL;
        for (int round = 0; round < (quick() ? 2000 : 20000); round++) {
            char s[64] = "", cut[2][512] = { "", "" };
            do {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                strcat(s, parts[(x >> 20) % (sizeof parts / sizeof *parts)]);
            } while (strlen(s) < 48 && x % 16);
            for (int k = 0; k < 2; k++) {
                growth grown;
                growth_begin(&grown, slow.n, sizeof s, GROWTH_TIMES, GROWTH_MORE);
                const split_run run = { k ? &slow : &t.splitters,
                                        room,
                                        writers,
                                        &grown,
                                        false,
                                        &h.mem,
                                        note,
                                        cut[k],
                                        &err };
                assert_true(split_text(&run, &(piece){ .s = s, .n = strlen(s) }));
            }
            if (strcmp(cut[0], cut[1]) != 0)
                fail_msg("%s: cut \"%s\", the pattern cuts \"%s\"", names[i], cut[0], cut[1]);
        }
        regex_scratch_free(room);
        tokenizer_free(&t);
    }
}

/* ---- pieces without a tokenizer ---------------------------------------------------------------- */

/* The bytes of token id, or the error. */
static const char *piece_of(const change *c, const char *model, int32_t id)
{
    static char text[64];
    host h;
    container from;
    pieces p;
    weft_error err = { 0 };
    bytes b = vocabulary(model, c);
    host_plain(&h);
    const char *path = temp_file("p.gguf", b.at, b.n);
    assert_int_equal(container_open(&from, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_int_equal(pieces_init(&p, &from, from.store, &err), WEFT_OK);
    char whole[32];
    const int64_t n = pieces_bytes(&p, id, whole, sizeof whole);
    if (n < 0)
        snprintf(text, sizeof text, "none");
    else
        snprintf(text, sizeof text, "\"%.*s\"", (int)n, whole);
    assert_int_equal(pieces_bytes(&p, id, whole, 0), n); /* only its length is requested */
    container_close(&from);
    free(b.at);
    return text;
}

static void bare_pieces(void **state)
{
    (void)state;
    assert_string_equal(piece_of(NULL, "llama", 7), "\"low\"");
    assert_string_equal(piece_of(NULL, "llama", 8), "\" \"");
    assert_string_equal(piece_of(NULL, "llama", 1), "\"\"");
    assert_string_equal(piece_of(NULL, "llama", 10), "none");
    assert_string_equal(piece_of(NULL, "llama", -1), "none");
    assert_string_equal(piece_of(NULL, "gpt2", 9), "\" \"");
    assert_string_equal(piece_of(NULL, "gpt2", 8), "\"\xE2\x96\x81\""); /* stands for no byte */
    assert_string_equal(piece_of(NULL, "bert", 7), "none");
    const change wrong[] = {
        { KEY("model"), NOTHING, 0, 0 },   { KEY("model"), A_NUMBER, 0, 1 },
        { KEY("tokens"), NOTHING, 0, 0 },  { KEY("tokens"), A_NUMBER, 0, 1 },
        { KEY("tokens"), NUMBERS, 0, 10 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_string_equal(piece_of(&wrong[i], "llama", 7), "none");
    const change types[] = {
        { KEY("token_type"), NOTHING, 0, 0 },
        { KEY("token_type"), A_NUMBER, 0, 1 },
        { KEY("token_type"), TEXTS, "1", 10 },
        { KEY("token_type"), NUMBERS, 0, 9 },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_string_equal(piece_of(&types[i], "llama", 1), "\"<s>\"");
    const change odd = { KEY("tokens"), TEXTS, "a\xFF", 10 },
                 empty = { KEY("tokens"), TEXTS, "", 10 };
    assert_string_equal(piece_of(&odd, "llama", 7), "\"a\xFF\"");
    assert_string_equal(piece_of(&odd, "gpt2", 7), "\"a\xFF\"");
    assert_string_equal(piece_of(&empty, "llama", 7), "\"\"");
}

/* ---- which files a path means ------------------------------------------------------------------ */

#define WORDS "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1}}}"

static const char *load_path(const char *path, weft_error *err)
{
    host h;
    tokenizer t;
    *err = (weft_error){ 0 };
    host_plain(&h);
    if (tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, err) == WEFT_OK)
        tokenizer_free(&t);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return err->message;
}

static const char *load_text(const char *name, const char *text, size_t n, weft_error *err)
{
    return load_path(temp_file(name, text, n), err);
}

static void paths(void **state)
{
    (void)state;
    weft_error err;
    char root[256], path[5000];
    snprintf(root, sizeof root, "%s", temp_file("words", WORDS, sizeof WORDS - 1));
    *strrchr(root, '/') = '\0';
    snprintf(path, sizeof path, "%s/empty", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_non_null(strstr(load_path(path, &err), "empty: no tokenizer.json, tokenizer.model,"));
    assert_int_equal(err.code, WEFT_EIO);
    assert_int_equal(rmdir(path), 0);
    assert_non_null(strstr(load_path(path, &err), "No such file or directory"));
    snprintf(path, sizeof path, "%s/words/more", root);
    assert_non_null(strstr(load_path(path, &err), "Not a directory"));

    assert_int_equal(chdir(root), 0); /* a name without a directory */
    assert_string_equal(load_path("words", &err), "");
    assert_int_equal(rename("words", "w"), 0);
    assert_string_equal(load_path("w", &err), "");
    assert_null(weft_tokenizer_load("none", NULL, NULL));

    size_t n = 0; /* the file can be opened, but not its neighbours */
    while (n < 4092)
        n += (size_t)sprintf(path + n, "./");
    sprintf(path + n, "w");
    assert_non_null(strstr(load_path(path, &err), "special_tokens_map.json: the path is"));
    path[n] = '\0';
    assert_non_null(strstr(load_path(path, &err), "tokenizer.json: the path is too long"));
    assert_int_equal(remove("w"), 0);
    assert_int_equal(chdir("/"), 0);
}

/* A file's contents decide its kind if its name does not. */
static void told_by_bytes(void **state)
{
    (void)state;
    weft_error err;
    char big[5000];
    memset(big, 'x', sizeof big);
    assert_non_null(strstr(load_text("a", "", 0, &err), "a: the file is empty"));
    assert_string_equal(load_text("a", " \t\r\n" WORDS, sizeof WORDS + 3, &err), "");
    assert_non_null(strstr(load_text("a", "  ", 2, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", "\0{", 2, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", big, sizeof big, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", "\n", 1, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", "12\n", 3, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", " 2\n", 3, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", "YQ2\n", 4, &err), "not a SentencePiece model"));
    assert_non_null(strstr(load_text("a", "YQ==x2\n", 7, &err), "not a SentencePiece model"));
    assert_non_null(
        strstr(load_text("a", "YQ== 2\n", 7, &err),
               "no pre-tokenizer in the file, and its name is not r50k_base, p50k_base, "
               "cl100k_base or o200k_base; give one with --pre (cl100k, llama-bpe, ...)"));
    assert_non_null(strstr(load_text("a", "GGU", 3, &err), "not a SentencePiece model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("GGUF: a key that is missing, of another type or out of range is named",
             keys_are_named),
        TEST("GGUF: the caller can name the splitting, and a broken file is named",
             named_by_the_caller),
        TEST("GGUF: of equal tokens the first is used; Gemma falls back to bytes", ids_of_merges),
        TEST("GGUF: BERT's pieces get their spelling back", ids_of_words),
        TEST("GGUF: runs of spaces are user-defined pieces, as in llama.cpp", ids_of_spaces),
        TEST("GGUF: XLM-R's pairs have two tokens between them", ids_of_pairs),
        TEST("GGUF: splitting modes cut like their models", ways_of_splitting),
        TEST("GGUF: patterns get a name only on an exact match", names_of_patterns),
        TEST("GGUF: patterns without memory are a clean error", patterns_without_memory),
        TEST("splitting: hand-written splitters equal their patterns", cut_by_hand),
        TEST("GGUF: pieces are spelled without a tokenizer", bare_pieces),
        TEST("tokenizer: a path is a file or a directory with one", paths),
        TEST("tokenizer: a file is identified by its bytes", told_by_bytes),
    };
    return RUN(tests);
}

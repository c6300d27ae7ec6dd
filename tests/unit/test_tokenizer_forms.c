/* Conversion of tokenizers: from any file, as a tokenizer.json and in GGUF's arrays, they give the
 * same ids. */
#include "support.h"
#include "text/decode.h"
#include "text/finish.h"
#include "text/sources/describe.h"
#include "text/sources/hf_write.h"

#include <jansson.h>

/* ---- texts ----------------------------------------------------------------------------------- */

#define MAX_TEXT 512

typedef struct sample {
    const char *at;
    size_t n;
} sample;

static sample samples[MAX_TEXT];
static size_t n_sample;

static void take(const char *at, size_t n)
{
    assert_true(n_sample < MAX_TEXT);
    samples[n_sample++] = (sample){ at, n };
}

static const char *const awkward[] = {
    "",
    " ",
    "  two  spaces  ",
    "a\tb\r\n\n c ",
    "\xC3\xA9t\xC3\xA9 e\xCC\x81t\xC3\xA9",
    "\xE4\xBD\xA0\xE5\xA5\xBD, world! 12345 3.14",
    "don't WE'LL I'm",
    "\xF0\x9F\x98\x80\xF0\x9F\x87\xA9",
    "<s>[CLS]</s><|endoftext|> <unk>",
    "----====____    ----",
    "\xEF\xAC\x81 \xE2\x91\xA0 \xEF\xBC\xA1",
    ("\xE2\x96\x81"
     "bar \xE2\x96\x81\xE2\x96\x81"),
    "x = [i ** 2 for i in range(10)]\n\treturn x\n",
    "\xFF\xFE broken \x80",
};

/* Storage for the samples. */
static struct {
    json_t *root;
    char *in, *novel;
} held;

static void drop_samples(void)
{
    json_decref(held.root);
    free(held.in);
    free(held.novel);
    memset(&held, 0, sizeof held);
    n_sample = 0;
}

/* The texts of the reference encodings, those of llama.cpp's vocabularies, and a novel. */
static void read_samples(bool with_assets)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    drop_samples();
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++)
        take(awkward[i], strlen(awkward[i]));
    if (!with_assets)
        return;
    size_t n;
    json_error_t why;
    held.root = json_load_file(asset("tokenizers/reference-encodings/encodings.json"), 0, &why);
    const json_t *list = json_object_get(json_object_get(held.root, "hf:llama3"), "strings");
    assert_true(json_array_size(list) > 5);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_object_get(json_array_get(list, i), "text");
        take(json_string_value(x), json_string_length(x));
    }
    held.in = read_whole(asset("tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf.inp"), &n);
    const char *in = held.in;
    for (const char *end, *stop = in + n; in < stop; in = end + sizeof mark - 1) {
        end = memmem(in, (size_t)(stop - in), mark, sizeof mark - 1);
        end = end ? end : stop;
        take(in, (size_t)(end - in));
    }
    held.novel = read_whole(asset("tokenizers/sentencepiece-test/botchan.txt"), &n);
    for (size_t at = 0; at < (quick() ? 4096 : 32768); at += 512)
        take(held.novel + at, 512);
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* All ids of all texts, each followed by UINT32_MAX, encoded in one of four ways: with the template
 * or without, special tokens parsed or not. */
typedef struct id_list {
    uint32_t *id;
    size_t n;
} id_list;

static id_list all_ids(const tokenizer *t, int way, const char *without)
{
    weft_error err = { 0 };
    id_list l = { 0 };
    encoder *e = encoder_new(t, &t->host->mem, &err);
    const encode_options o = { .no_template = way & 1, .parse_special = way & 2 };
    for (size_t i = 0; i < n_sample; i++) {
        encoding got;
        if (without && memmem(samples[i].at, samples[i].n, without, strlen(without)))
            continue;
        if (encoder_encode(e, samples[i].at, samples[i].n, NULL, 0, &o, &got, &err) != WEFT_OK)
            fail_msg("%s: %s", t->path, err.message);
        l.id = realloc(l.id, (l.n + got.n + 1) * sizeof *l.id);
        if (got.n)
            memcpy(l.id + l.n, got.id, got.n * sizeof *l.id);
        l.n += got.n;
        l.id[l.n++] = UINT32_MAX;
    }
    encoder_free(e);
    return l;
}

/* Which text differs, and where. */
static void say_difference(const char *name, const char *form, int way, id_list a, id_list b)
{
    size_t at = 0, text = 0, begin = 0;
    for (; at < a.n && at < b.n && a.id[at] == b.id[at]; at++)
        if (a.id[at] == UINT32_MAX) {
            text++;
            begin = at + 1;
        }
    fail_msg("%s as %s, way %d, text %zu \"%.40s\": token %zu is %u, was %u", name, form, way, text,
             text < n_sample ? samples[text].at : "", at - begin, at < b.n ? b.id[at] : 0,
             at < a.n ? a.id[at] : 0);
}

static void same_ids(const char *name, const char *form, const tokenizer *a, const tokenizer *b,
                     const char *without)
{
    for (int way = 0; way < 4; way++) {
        const id_list x = all_ids(a, way, without), y = all_ids(b, way, without);
        if (x.n != y.n || memcmp(x.id, y.id, x.n * sizeof *x.id) != 0)
            say_difference(name, form, way, x, y);
        assert_int_equal(x.n, y.n);
        free(x.id);
        free(y.id);
    }
}

/* ---- the two writers ------------------------------------------------------------------------- */

static void load(tokenizer *t, const char *path, const char *pre, host *h)
{
    weft_error err = { 0 };
    if (tokenizer_load(t, path, pre, WEFT_LOAD_COPY, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static const char *as_json(const tokenizer *t, const char *name)
{
    weft_error err = { 0 };
    buffer b;
    buffer_begin(&b, &t->host->mem, &err);
    if (tokenizer_write(t, &b, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const char *path = temp_file(name, b.at, b.n);
    buffer_end(&b);
    return path;
}

/* Only the arrays: no tokenizer.json beside them. */
static const char *as_gguf(const tokenizer *t, const char *name, const char **lacks)
{
    weft_error err = { 0 };
    save s;
    gguf_writer w;
    const char *path = temp_path(name);
    save_begin(&s, t->host, &err);
    gguf_writer_begin(&w, &s);
    if (tokenizer_describe(&w, t, t->n_id, lacks, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    gguf_writer_head(&w, path);
    gguf_writer_end(&w);
    if (save_commit(&s) != WEFT_OK)
        fail_msg("%s", err.message);
    return path;
}

typedef struct source {
    const char *path, *pre;
    const char *lacks;   /* what GGUF's arrays cannot express of it */
    const char *without; /* texts that contain this are skipped */
} source;

/* As arrays, and as a tokenizer.json made from them. */
static void to_gguf_and_json(const source *s, const tokenizer *t, const tokenizer *from,
                             const char *forms[2])
{
    const char *lacks;
    static tokenizer gguf, json;
    const char *made = as_gguf(from, "made.gguf", &lacks);
    if (s->lacks) {
        assert_string_equal(lacks ? lacks : "nothing", s->lacks);
        return;
    }
    assert_that(!lacks, "%s as %s: lacks %s", t->path, forms[0], lacks);
    load(&gguf, made, NULL, t->host);
    same_ids(t->path, forms[0], t, &gguf, s->without);
    load(&json, as_json(&gguf, "again.json"), NULL, t->host);
    same_ids(t->path, forms[1], t, &json, s->without);
    tokenizer_free(&gguf);
    tokenizer_free(&json);
}

/* source -> json -> GGUF -> json, and, where the source is not GGUF, source -> GGUF -> json. */
static void through_all(const source *s, const char *path)
{
    host h;
    host_plain(&h);
    static tokenizer t, json;
    load(&t, path, s->pre, &h);
    load(&json, as_json(&t, "tokenizer.json"), NULL, &h);
    same_ids(path, "json", &t, &json, s->without);
    to_gguf_and_json(s, &t, &json, (const char *[]){ "json, gguf", "json, gguf, json" });
    if (strcmp(t.source, "gguf") != 0)
        to_gguf_and_json(s, &t, &t, (const char *[]){ "gguf", "gguf, json" });
    tokenizer_free(&t);
    tokenizer_free(&json);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void through_assets(const source *all, size_t n)
{
    read_samples(true);
    for (size_t i = quick() ? 2 : 0; i < n; i += quick() ? 3 : 1) { /* at least one of each kind */
        char path[256];
        snprintf(path, sizeof path, "%s", asset(all[i].path));
        through_all(&all[i], path);
    }
    drop_samples();
}

#define VOCAB(name) "tokenizers/llama.cpp-vocab/ggml-vocab-" name ".gguf"

static void gguf_files(void **state)
{
    (void)state;
    static const source all[] = {
        { .path = VOCAB("aquila"), .pre = "gpt-2" },
        { .path = VOCAB("baichuan") },
        { .path = VOCAB("bert-bge") },
        { .path = VOCAB("command-r") },
        { .path = VOCAB("deepseek-coder") },
        { .path = VOCAB("deepseek-llm") },
        { .path = VOCAB("falcon") },
        { .path = VOCAB("gemma-4") },
        { .path = VOCAB("gpt-2") },
        { .path = VOCAB("gpt-neox"), .pre = "gpt-2" },
        { .path = VOCAB("llama-bpe") },
        { .path = VOCAB("llama-spm") },
        { .path = VOCAB("mpt") },
        { .path = VOCAB("nomic-bert-moe") },
        { .path = VOCAB("phi-3"), .without = "</s>" }, /* user-defined, and a space before texts */
        { .path = VOCAB("qwen2") },
        { .path = VOCAB("qwen35") },
        { .path = VOCAB("refact") },
        { .path = VOCAB("starcoder") },
    };
    through_assets(all, sizeof all / sizeof *all);
}

static void other_files(void **state)
{
    (void)state;
    static const source all[] = {
        { .path = "tokenizers/gpt2/vocab.json" },
        { .path = "tokenizers/llama2/tokenizer.model" },
        { .path = "tokenizers/llama2/tokenizer.bin", .lacks = "its model" },
        { .path = "tokenizers/mistral/tokenizer.model" },
        { .path = "tokenizers/gemma/tokenizer.model" },
        { .path = "tokenizers/t5/spiece.model" },
        { .path = "tokenizers/sentencepiece-test/test_model.model" },
        { .path = "tokenizers/sentencepiece-test/test_ja_model.model",
          .without = "333" }, /* 3 33 and 33 3 have equal scores, except for rounding */
        { .path = "tokenizers/bert-uncased/vocab.txt" },
        { .path = "tokenizers/bert-uncased/tokenizer.json" },
        { .path = "tokenizers/llama3/tokenizer.json" },
        { .path = "tokenizers/qwen2.5/tokenizer.json", .lacks = "its normaliser" },
        { .path = "tokenizers/t5/tokenizer.json" },
        { .path = "tokenizers/tiktoken/r50k_base.tiktoken", .lacks = "how it splits text" },
        { .path = "tokenizers/tiktoken/p50k_base.tiktoken", .lacks = "how it splits text" },
        { .path = "tokenizers/tiktoken/cl100k_base.tiktoken" },
        { .path = "tokenizers/tiktoken/o200k_base.tiktoken" },
    };
    through_assets(all, sizeof all / sizeof *all);
}

/* ---- without assets -------------------------------------------------------------------------- */

/* The text of some ids, ended by a NUL. */
static void decoded(const tokenizer *t, const uint32_t *id, size_t n, char *to, size_t size)
{
    weft_error err = { 0 };
    decode_stream d;
    size_t at = 0, length;
    const char *bytes;
    assert_int_equal(decode_begin(&d, t, false, &t->host->mem, &err), WEFT_OK);
    for (size_t i = 0; i <= n; i++) {
        if (i == n)
            decode_flush(&d, &bytes, &length);
        else
            assert_int_equal(decode_push(&d, id[i], &bytes, &length, &err), WEFT_OK);
        assert_true(at + length < size);
        memcpy(to + at, bytes, length);
        at += length;
    }
    to[at] = '\0';
    decode_end(&d);
}

static void same_text(const char *name, const tokenizer *a, const tokenizer *b, const json_t *list)
{
    static char x[65536], y[65536];
    uint32_t id[1024];
    size_t n = 0;
    for (; n < json_array_size(list) && n < 1024; n++)
        id[n] = (uint32_t)json_integer_value(json_array_get(list, n));
    decoded(a, id, n, x, sizeof x);
    decoded(b, id, n, y, sizeof y);
    assert_that(strcmp(x, y) == 0, "%s decodes to \"%s\", before to \"%s\"", name, y, x);
}

static void one_step(const json_t *x, host *h)
{
    static tokenizer t, again;
    const char *name = json_string_value(json_object_get(x, "name"));
    const json_t *cases = json_object_get(x, "cases");
    char *text = json_dumps(json_object_get(x, "tokenizer"), 0);
    read_samples(false);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_object_get(json_array_get(cases, i), "text");
        take(json_string_value(one), json_string_length(one));
    }
    load(&t, temp_file("step.json", text, strlen(text)), NULL, h);
    load(&again, as_json(&t, "written.json"), NULL, h);
    same_ids(name, "json", &t, &again, NULL);
    for (size_t i = 0; i < json_array_size(cases); i++)
        same_text(name, &t, &again, json_object_get(json_array_get(cases, i), "all"));
    tokenizer_free(&t);
    tokenizer_free(&again);
    free(text);
}

/* Every step of Hugging Face's tokenizers that weft executes, written back. */
static void every_step(void **state)
{
    (void)state;
    json_error_t why;
    host h;
    host_plain(&h);
    json_t *root = json_load_file(fixture("golden/text/steps.json"), JSON_ALLOW_NUL, &why);
    const json_t *list = json_object_get(root, "tokenizers");
    assert_true(json_array_size(list) > 60);
    for (size_t i = 0; i < json_array_size(list); i++)
        one_step(json_array_get(list, i), &h);
    json_decref(root);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* ---- what no tokenizer.json can say ---------------------------------------------------------- */

typedef struct text_list {
    const char *const *at;
} text_list;

static const char *listed(void *ud, uint32_t i, size_t *n)
{
    const text_list *l = ud;
    *n = strlen(l->at[i]);
    return l->at[i];
}

#define N_PIECE 6

/* A model of a few pieces; some tokens may be missing from the hash, duplicated or unused. */
static weft_status small_model(tokenizer *t, const char *const *text_of, const uint8_t *type,
                               const sp_spec *how, host *h, weft_error *err)
{
    static float score[N_PIECE] = { 0, -1, -2, -3, -4, -5 };
    static uint8_t types[N_PIECE];
    memcpy(types, type, sizeof types);
    sp_spec s = *how;
    s.type = types;
    s.score = score;
    weft_status status = tokenizer_begin(t, "pieces", "test", h, err);
    if (status == WEFT_OK)
        status = sp_vocab(t, N_PIECE, types, listed, &(text_list){ text_of }, err);
    if (status == WEFT_OK)
        status = sp_model(t, &s, err);
    return status == WEFT_OK ? tokenizer_finish(t, err) : status;
}

static void refusals(void **state)
{
    (void)state;
    enum { N = PIECE_NORMAL, U = PIECE_UNKNOWN, C = PIECE_CONTROL, D = PIECE_USER };
    const uint8_t x = PIECE_UNUSED, f = PIECE_FOREIGN;
    const struct {
        const char *text_of[N_PIECE];
        uint8_t type[N_PIECE];
        sp_spec how;
        const char *says; /* NULL: it is written */
    } all[] = {
        { { "<unk>", "a", "b", "ab", "c", "d" }, { U, N, N, N, N, N }, { .escape = true }, NULL },
        { { "<unk>", "a", "b", "ab", "c", "d" },
          { U, N, N, N, N, N },
          { .escape = true, .suffix = true },
          "a space after the text instead of before it" },
        { { "<unk>", "a", "b", "ab", "c", "d" },
          { U, N, N, N, N, N },
          { .squeeze = true },
          "collapsed spaces that are not escaped" },
        { { "<unk>", "a", "b", "abz", "ab", "d" },
          { U, N, N, N, N, N },
          { .escape = true },
          "piece 3 has a letter that is not a piece, so no merges produce it" },
        { { "<unk>", "a", "b", "a", "c", "d" },
          { U, N, N, C, N, N },
          { .escape = true },
          "two tokens of one text (1 and 3 are \"a\")" },
        { { "<unk>", "a", "b", "ab", "\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81" },
          { U, N, N, N, N, D },
          { .escape = true, .prefix = true },
          "user-defined piece 5, which has a space" },
        { { "<unk>", "a", "b", "ab", "\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81" },
          { U, N, N, N, N, D },
          { .escape = true },
          NULL },
        { { "<unk>", "a", "b", "ab", "c", "d" },
          { U, N, N, x, N, N },
          { .escape = true, .unigram = true },
          "piece 3 of a unigram model, which is marked unused" },
        { { "<unk>", "a", "b", "ab", "c", "d" },
          { U, N, N, N, N, x },
          { .escape = true, .unigram = true },
          NULL },
        { { "<unk>", "a", "b", "ab", "c", "\xFF" },
          { U, N, N, N, N, f },
          { .escape = true },
          "not UTF-8" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        host h;
        weft_error err = { 0 };
        static tokenizer t;
        buffer b;
        host_plain(&h);
        if (small_model(&t, all[i].text_of, all[i].type, &all[i].how, &h, &err) != WEFT_OK)
            fail_msg("case %zu: %s", i, err.message);
        buffer_begin(&b, &h.mem, &err);
        const weft_status status = tokenizer_write(&t, &b, &err);
        assert_int_equal(status, all[i].says ? WEFT_EUNSUPPORTED : WEFT_OK);
        assert_that(!all[i].says || strstr(err.message, all[i].says), "case %zu: %s", i,
                    err.message);
        buffer_end(&b);
        tokenizer_free(&t);
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
}

/* A letter that no piece has scores ten below the lowest normal piece; control tokens do not
 * count. */
static void least_score(void **state)
{
    (void)state;
    static const char *const text_of[N_PIECE] = { "<unk>", "a", "b", "ab", "<s>", "zzz" };
    static const uint8_t type[N_PIECE] = { PIECE_UNKNOWN, PIECE_NORMAL,  PIECE_NORMAL,
                                           PIECE_NORMAL,  PIECE_CONTROL, PIECE_CONTROL };
    static tokenizer t, json;
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(
        small_model(&t, text_of, type, &(sp_spec){ .escape = true, .unigram = true }, &h, &err),
        WEFT_OK);
    load(&json, as_json(&t, "least.json"), NULL, &h);
    assert_true(t.unigram.min_score == json.unigram.min_score && t.unigram.min_score == -3);
    read_samples(false);
    same_ids("pieces", "json", &t, &json, NULL);
    tokenizer_free(&t);
    tokenizer_free(&json);
}

/* ---- any call may fail ----------------------------------------------------------------------- */

static void without_memory(void **state)
{
    (void)state;
    static const char *const text_of[N_PIECE] = { "<unk>", "a", "b", "ab", "c", "zzz" };
    static const uint8_t type[N_PIECE] = { PIECE_UNKNOWN, PIECE_NORMAL, PIECE_NORMAL,
                                           PIECE_NORMAL,  PIECE_NORMAL, PIECE_USER };
    int64_t k = 1;
    for (;; k++) {
        host h;
        static tokenizer t;
        weft_error err = { 0 };
        buffer b;
        faults memory = { .fail_at = k };
        host_faulty(&h, &memory, NULL);
        weft_status status = small_model(&t, text_of, type, &(sp_spec){ .escape = true }, &h, &err);
        buffer_begin(&b, &h.mem, &err);
        if (status == WEFT_OK)
            status = tokenizer_write(&t, &b, &err);
        buffer_end(&b);
        tokenizer_free(&t);
        assert_int_equal(memory.live, 0);
        if (memory.calls < k) {
            assert_int_equal(status, WEFT_OK);
            break;
        }
        assert_int_equal(status, WEFT_ENOMEM);
        assert_int_equal(err.code, WEFT_ENOMEM);
    }
    assert_true(k > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("forms: llama.cpp's vocabularies as tokenizer.json and back give the same ids",
             gguf_files),
        TEST("forms: every step of a tokenizer.json is written as it was read", every_step),
        TEST("forms: refuses by name what a tokenizer.json cannot express", refusals),
        TEST("forms: the cost of an unknown letter stays the same", least_score),
        TEST("forms: any failed allocation is a clean error", without_memory),
        TEST("forms: all other files through both forms give the same ids", other_files),
    };
    return RUN(tests);
}

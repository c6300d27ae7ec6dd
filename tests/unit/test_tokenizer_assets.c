/* Published tokenizers give the ids of their authors' programs. */
#include "sha256.h"
#include "support.h"
#include "weft.h"

#include <jansson.h>

static weft_tokenizer *load(const char *path, const char *pre)
{
    weft_error err = { 0 };
    const weft_tokenizer_options o = { .struct_size = sizeof o, .load = WEFT_LOAD_MAP, .pre = pre };
    weft_tokenizer *t = weft_tokenizer_load(path, &o, &err);
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

static weft_tokens *encode(const weft_tokenizer *t, const char *text, size_t n)
{
    weft_error err = { 0 };
    const weft_tokenize_options o = { .struct_size = sizeof o, .no_special = true };
    weft_tokens *k = weft_tokenizer_encode(t, text, n, &o, &err);
    if (!k)
        fail_msg("%s", err.message);
    return k;
}

/* ---- llama.cpp's vocabularies ---------------------------------------------------------------- */

static void compare_line(const char *name, int test, const weft_tokens *k, const char *line)
{
    int64_t i = 0;
    for (;; i++) {
        char *end;
        const long want = strtol(line, &end, 10);
        if (end == line || *line == '\n' ||
            (*line == ' ' && memchr(line, '\n', (size_t)(end - line))))
            break;
        if (i >= k->n || k->ids[i] != want)
            fail_msg("%s, test %d: token %lld is %d, expected %ld", name, test, (long long)i,
                     i < k->n ? (int)k->ids[i] : -1, want);
        line = end;
    }
    if (i != k->n)
        fail_msg("%s, test %d: %lld tokens, expected %lld", name, test, (long long)k->n,
                 (long long)i);
}

static void compare_file(const char *name)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char path[128];
    size_t n_in, n_out;
    snprintf(path, sizeof path, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf", name);
    weft_tokenizer *t = load(asset(path), NULL);
    snprintf(path, sizeof path, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf.inp", name);
    char *in = read_whole(asset(path), &n_in);
    snprintf(path, sizeof path, "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf.out", name);
    char *out = read_whole(asset(path), &n_out);
    in = realloc(in, n_in + 1);
    out = realloc(out, n_out + 1);
    in[n_in] = out[n_out] = '\0';
    const char *text = in, *line = out;
    int test = 0;
    for (; line < out + n_out; test++) {
        const char *end = memmem(text, (size_t)(in + n_in - text), mark, sizeof mark - 1);
        const char *stop = end ? end : in + n_in;
        weft_tokens *k = encode(t, text, (size_t)(stop - text));
        char *newline = strchr(line, '\n');
        if (newline)
            *newline = '\0';
        compare_line(name, test, k, line);
        weft_tokens_free(k);
        line = newline ? newline + 1 : out + n_out;
        text = end ? end + sizeof mark - 1 : stop;
        if (!end)
            break;
    }
    assert_true(test > 40);
    free(in);
    free(out);
    weft_tokenizer_free(t);
}

static void llama_cpp(void **state)
{
    (void)state;
    static const char *const names[] = {
        "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon",
        "gemma-4",  "gpt-2",     "llama-bpe",      "llama-spm",    "mpt",
        "phi-3",    "qwen2",     "qwen35",         "refact",       "starcoder",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_file(names[i]);
}

/* ---- reference encodings --------------------------------------------------------------------- */

static void compare_reference(const char *source, const char *pre, const json_t *want)
{
    weft_tokenizer *t = load(asset(source), pre);
    const json_t *strings = json_object_get(want, "strings");
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const json_t *text = json_object_get(json_array_get(strings, i), "text");
        const json_t *list = json_object_get(json_array_get(strings, i), "ids");
        weft_tokens *k = encode(t, json_string_value(text), json_string_length(text));
        if ((size_t)k->n != json_array_size(list))
            fail_msg("%s, string %zu: %lld tokens, expected %zu", source, i, (long long)k->n,
                     json_array_size(list));
        for (int64_t j = 0; j < k->n; j++)
            if (k->ids[j] != json_integer_value(json_array_get(list, (size_t)j)))
                fail_msg("%s, string %zu: token %lld is %d, expected %lld", source, i, (long long)j,
                         (int)k->ids[j],
                         (long long)json_integer_value(json_array_get(list, (size_t)j)));
        weft_tokens_free(k);
    }
    const json_t *whole = json_object_get(want, "tinyshakespeare");
    size_t n;
    char *text = read_whole(asset("data/tinyshakespeare/input.txt"), &n), hex[65];
    weft_tokens *k = encode(t, text, n);
    assert_int_equal(k->n, json_integer_value(json_object_get(whole, "tokens")));
    sha256_hex(k->ids, (size_t)k->n * sizeof *k->ids, hex);
    assert_string_equal(hex, json_string_value(json_object_get(whole, "sha256_of_uint32le_ids")));
    weft_tokens_free(k);
    free(text);
    weft_tokenizer_free(t);
}

static void references(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *source, *pre;
    } all[] = {
        { "tiktoken:gpt2", "tokenizers/gpt2/vocab.json", NULL },
        { "tiktoken:gpt2", "tokenizers/tiktoken/r50k_base.tiktoken", NULL },
        { "tiktoken:gpt2", "tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf", NULL },
        { "tiktoken:cl100k_base", "tokenizers/tiktoken/cl100k_base.tiktoken", NULL },
        { "tiktoken:o200k_base", "tokenizers/tiktoken/o200k_base.tiktoken", NULL },
        { "hf:llama3", "tokenizers/llama3", NULL },
        { "hf:llama3", "tokenizers/llama.cpp-vocab/ggml-vocab-llama-bpe.gguf", NULL },
        { "hf:qwen2.5", "tokenizers/qwen2.5/tokenizer.json", NULL },
        { "hf:qwen2.5", "tokenizers/llama.cpp-vocab/ggml-vocab-qwen2.gguf", NULL },
        { "hf:bert-uncased", "tokenizers/bert-uncased/tokenizer.json", NULL },
        { "hf:bert-uncased", "tokenizers/bert-uncased/vocab.txt", NULL },
        { "hf:bert-uncased", "tokenizers/llama.cpp-vocab/ggml-vocab-bert-bge.gguf", NULL },
        { "hf:t5-small", "tokenizers/t5/tokenizer.json", NULL },
    };
    json_error_t why;
    json_t *root = json_load_file(asset("tokenizers/reference-encodings/encodings.json"), 0, &why);
    assert_non_null(root);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        compare_reference(all[i].source, all[i].pre, json_object_get(root, all[i].entry));
    json_decref(root);
}

/* Counts and hashes from the sentencepiece library 0.2.2. */
static void sentencepiece_models(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int n;
        const char *hash;
    } all[] = {
        { "tokenizers/llama2/tokenizer.model", 78912,
          "64992f95213b3570a29cab08c4c16f97ac933bc05ee9b9b393428f3758053c06" },
        { "tokenizers/mistral/tokenizer.model", 77098,
          "3d0336f7c7f2ff2f379086fbba46ef4830514685f489f978b129b3e27f65eb18" },
        { "tokenizers/gemma/tokenizer.model", 71145,
          "7406f6838d882f1d27b45861d38c197b9c41aba19578ff4160c42d7a6a4ac40a" },
        { "tokenizers/t5/spiece.model", 71737,
          "2fe12bfb8957b48eb87edc002b37db90bb609f3cdc43f550b08708a8c67c9cd0" },
        { "tokenizers/sentencepiece-test/test_model.model", 104466,
          "af8bf3f3b31844caea97cdd8229df74cd601b15ab3b63e2f65784ed9d438e9eb" },
        { "tokenizers/sentencepiece-test/test_ja_model.model", 254144,
          "7e185f1ec061fa7683c9f7aa0b1cb22acf2f22d67dfa1ad0f04396bd16040033" },
    };
    size_t n;
    char *text = read_whole(asset("tokenizers/sentencepiece-test/botchan.txt"), &n), hex[65];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_tokenizer *t = load(asset(all[i].model), NULL);
        weft_tokens *k = encode(t, text, n);
        assert_int_equal(k->n, all[i].n);
        sha256_hex(k->ids, (size_t)k->n * sizeof *k->ids, hex);
        assert_string_equal(hex, all[i].hash);
        weft_tokens_free(k);
        weft_tokenizer_free(t);
    }
    free(text);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Two texts, truncated and padded to 128 as the file requires: ids and types as in Hugging Face. */
static void pairs_fit(void **state)
{
    (void)state;
    static const struct {
        size_t a, b;
        const char *hash;
    } all[] = {
        { 600, 900, "ba7ba637e435c095b70412a3a538d812753e5a98114dde4b537f119658dd2c30" },
        { 100, 900, "945c2740cc8a8990eafd40d89e4f8027e7884aeb9ff1d89c3ff7e23cd8a8caaf" },
        { 900, 100, "7c156ad15859b549f8663738c7a00a89bde6348579ae45ed50029f7922a65fb8" },
        { 50, 60, "f92e016d671c8d07f5eed176967b4fd9a9592c1490e63bb76472bad21ba8fa99" },
    };
    size_t n;
    char *text = read_whole(asset("data/tinyshakespeare/input.txt"), &n), hex[65];
    weft_tokenizer *t = load(asset("tokenizers/bert-uncased/tokenizer.json"), NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_error err = { 0 };
        const weft_tokenize_options o = { .struct_size = sizeof o,
                                          .fit = true,
                                          .spans = i % 2,
                                          .pair = text + all[i].a,
                                          .pair_length = all[i].b };
        weft_tokens *k = weft_tokenizer_encode(t, text, all[i].a, &o, &err);
        if (!k)
            fail_msg("%s", err.message);
        char both[128 * 5];
        assert_int_equal(k->n, 128);
        memcpy(both, k->ids, 128 * 4);
        memcpy(both + 128 * 4, k->types, 128);
        sha256_hex(both, sizeof both, hex);
        assert_string_equal(hex, all[i].hash);
        weft_tokens_free(k);
    }
    weft_tokenizer_free(t);
    free(text);
}

/* ---- nothing is lost ------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/* Random bytes, letters, and pieces of letters. */
static size_t random_bytes(uint64_t *x, char *to, size_t most)
{
    static const char letters[] =
        "the of 's\n  123 \xC3\xA9\xE4\xBD\xA0\xF0\x9F\x99\x82<|endoftext|>";
    const size_t n = draw(x) % most;
    size_t at = 0;
    while (at < n)
        if (draw(x) & 1)
            to[at++] = (char)(draw(x) >> 32);
        else
            for (size_t i = draw(x) % sizeof letters; at < n && i < sizeof letters && draw(x) & 7;)
                to[at++] = letters[i++];
    return n;
}

static void every_byte_string(void **state)
{
    (void)state;
    static const char *const files[] = { "tokenizers/gpt2/vocab.json", "tokenizers/llama3",
                                         "tokenizers/tiktoken/cl100k_base.tiktoken",
                                         "tokenizers/tiktoken/o200k_base.tiktoken" };
    const int rounds = getenv("WEFT_TEST_LONG") ? 1000000 : quick() ? 500 : 20000;
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        weft_tokenizer *t = load(asset(files[f]), NULL);
        uint64_t x = 88172645463325252u;
        for (int round = 0; round < rounds; round++) {
            char text[64], back[64 + 8];
            const size_t n = random_bytes(&x, text, sizeof text);
            weft_tokens *k = encode(t, text, n);
            size_t at = 0;
            for (int64_t i = 0; i < k->n; i++) {
                const int64_t more = weft_tokenizer_piece(t, k->ids[i], back + at,
                                                          sizeof back - at);
                assert_true(more > 0 && at + (size_t)more <= n);
                at += (size_t)more;
            }
            assert_int_equal(at, n);
            assert_memory_equal(back, text, n);
            weft_tokens_free(k);
        }
        weft_tokenizer_free(t);
    }
}

static void no_splitting_is_refused(void **state)
{
    (void)state;
    weft_error err = { 0 };
    const char *path = asset("tokenizers/llama.cpp-vocab/ggml-vocab-gpt-neox.gguf");
    assert_null(weft_tokenizer_load(path, NULL, &err));
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "tokenizer.ggml.pre is missing"));
    weft_tokenizer_free(load(path, "gpt-2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("tokenizers: the fifteen vocabularies of llama.cpp give its ids", llama_cpp),
        TEST("tokenizers: every source gives the reference encodings", references),
        TEST("tokenizers: SentencePiece's models give its ids", sentencepiece_models),
        TEST("tokenizers: two texts are truncated and padded as the file requires", pairs_fit),
        TEST("tokenizers: byte level preserves any bytes", every_byte_string),
        TEST("tokenizers: a vocabulary that does not say how it splits is refused",
             no_splitting_is_refused),
    };
    return RUN(tests);
}

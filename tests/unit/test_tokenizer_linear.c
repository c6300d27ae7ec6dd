/* Twice the text takes about twice the time, whatever the text and the file, on a stack of 256 KiB.
 * Texts of 256 KiB; with WEFT_TEST_LONG, of 4 MiB (1 MiB for generated files). */
#include "base/clock.h"
#include "support.h"
#include "weft.h"

#include <math.h>
#include <pthread.h>

#define LARGEST (getenv("WEFT_TEST_LONG") ? (size_t)4 << 20 : (size_t)256 << 10)
#define STACK   ((size_t)256 << 10)

/* Each repeats something at which some tokenizer has been slow: runs without a cut, backtracking,
 * merging with neighbours, near misses of special tokens. */
static const char *const alphabets[] = {
    "a",
    "A",
    "ab",
    "aA",
    "aab",
    " ",
    "  a",
    "\n",
    "\r\n",
    " \n",
    "\t ",
    "'",
    "'s",
    "'S '",
    ".",
    "1",
    "12a",
    "<",
    "<|",
    "<|end",
    "[",
    "##",
    "\xC3\xA9",
    "e\xCC\x81",
    "\xCC\x81",
    "\xE4\xBD\xA0",
    "\xE2\x96\x81",
    "\xE3\x80\x80",
    "\xF0\x9F\x99\x82",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D",
    "\xEF\xAC\x81",
    "\xFF",
    "\xE2\x82",
    "a\xCC\x81\xCC\xA3",
};

typedef struct job {
    const weft_tokenizer *tokenizer;
    const char *name, *alphabet;
    char *text;
    double worst;
    char message[256];
} job;

static double time_of(job *j, size_t n)
{
    double best = 1e9;
    for (int i = 0; i < (n < (size_t)1 << 20 ? 2 : 1); i++) {
        weft_error err = { 0 };
        const double start = clock_thread_seconds();
        weft_tokens *k = weft_tokenizer_encode(j->tokenizer, j->text, n, NULL, &err);
        const double took = clock_thread_seconds() - start;
        if (!k)
            snprintf(j->message, sizeof j->message, "%.200s", err.message);
        weft_tokens_free(k);
        best = took < best ? took : best;
    }
    return best;
}

/* t(2n) / t(n). The best of a few tries of each length measures the program, the others a busy machine. */
static double growth(job *j, size_t n)
{
    double once = 1e9, twice = 1e9, ratio = 1e9;
    for (int again = 0; again < 16 && ratio >= 2.5; again++) {
        once = fmin(once, time_of(j, n));
        twice = fmin(twice, time_of(j, 2 * n));
        ratio = once > 0 ? twice / once : 1;
    }
    return ratio;
}

/* A length from which on a cache is too small costs more once; what is not linear costs more at the next doubling, too. */
static void *measure(void *ud)
{
    job *j = ud;
    const size_t largest = quick() ? LARGEST / 4 : LARGEST, unit = strlen(j->alphabet);
    for (size_t i = 0; i < 2 * largest; i++)
        j->text[i] = j->alphabet[i % unit];
    j->worst = growth(j, largest / 2);
    if (j->worst >= 2.5)
        j->worst = fmin(j->worst, growth(j, largest));
    return NULL;
}

static void linear(void **state)
{
    (void)state;
    static const char *const files[] = {
        "tokenizers/gpt2/vocab.json",
        "tokenizers/llama3/tokenizer.json",
        "tokenizers/qwen2.5/tokenizer.json",
        "tokenizers/bert-uncased/tokenizer.json",
        "tokenizers/t5/tokenizer.json",
        "tokenizers/t5/spiece.model",
        "tokenizers/llama2/tokenizer.model",
        "tokenizers/tiktoken/o200k_base.tiktoken",
        "tokenizers/llama.cpp-vocab/ggml-vocab-gemma-4.gguf",
        "tokenizers/llama.cpp-vocab/ggml-vocab-deepseek-llm.gguf",
    };
    asset(files[0]); /* skips before any allocation */
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    char *text = malloc(2 * LARGEST);
    assert_non_null(text);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        weft_error err = { 0 };
        weft_tokenizer *t = weft_tokenizer_load(asset(files[f]), NULL, &err);
        if (!t)
            fail_msg("%s", err.message);
        for (size_t a = 0; a < sizeof alphabets / sizeof *alphabets; a++) {
            job j = { .tokenizer = t, .name = files[f], .alphabet = alphabets[a], .text = text };
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, &attributes, measure, &j), 0);
            pthread_join(thread, NULL);
            if (j.message[0] || j.worst >= 2.5)
                fail_msg("%s, alphabet %zu (\"%s\"): t(2n)/t(n) = %.2f %s", files[f], a,
                         alphabets[a], j.worst, j.message);
        }
        weft_tokenizer_free(t);
    }
    free(text);
    pthread_attr_destroy(&attributes);
}

/* ---- files with one step of every kind --------------------------------------------------------- */

#define WORD_LEVEL                                                                                 \
    "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"[UNK]\":1},\"unk_token\":\"[UNK]\"}"
#define A16  "aaaaaaaaaaaaaaaa"
#define A64  A16 A16 A16 A16
#define A240 A64 A64 A64 A16 A16 A16

typedef struct made {
    const char *name, *normalizer, *pre, *decoder, *added, *model;
} made;

#define NORM(json)                                                                                 \
    {                                                                                              \
        json, json, NULL, NULL, NULL, NULL                                                         \
    }
#define PRE(json)                                                                                  \
    {                                                                                              \
        json, NULL, json, NULL, NULL, NULL                                                         \
    }
#define DECODER(json)                                                                              \
    {                                                                                              \
        json, NULL, NULL, json, NULL, NULL                                                         \
    }
#define MODEL(json)                                                                                \
    {                                                                                              \
        json, NULL, NULL, NULL, NULL, json                                                         \
    }
#define TOKEN(text, flag)                                                                          \
    "{\"id\":2,\"content\":\"" text "\",\"special\":false,\"normalized\":" flag "}"

static const made files_made[] = {
    NORM("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"bb\"}"),
    NORM("{\"type\":\"Replace\",\"pattern\":{\"String\":\"" A64 "b\"},\"content\":\"\"}"),
    NORM("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a{2,}\"},\"content\":\"b\"}"),
    NORM("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+$\"},\"content\":\"b\"}"),
    NORM("{\"type\":\"Prepend\",\"prepend\":\"xyz\"}"),
    NORM("{\"type\":\"NFKC\"}"),
    NORM("{\"type\":\"NFD\"}"),
    NORM("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"),
    NORM("{\"type\":\"StripAccents\"}"),
    NORM("{\"type\":\"Lowercase\"}"),
    NORM("{\"type\":\"Nmt\"}"),
    NORM("{\"type\":\"ByteLevel\"}"),
    NORM("{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
         "\"strip_accents\":true,\"lowercase\":true}"),
    PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|b)+|\\\\s+(?!\\\\S)\"},\"behavior\":"
        "\"Isolated\",\"invert\":false}"),
    PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"ab\"},\"behavior\":\"MergedWithPrevious\","
        "\"invert\":false}"),
    PRE("{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":"
        "true}"),
    PRE("{\"type\":\"Whitespace\"}"),
    PRE("{\"type\":\"WhitespaceSplit\"}"),
    PRE("{\"type\":\"BertPreTokenizer\"}"),
    PRE("{\"type\":\"Digits\",\"individual_digits\":false}"),
    PRE("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}"),
    PRE("{\"type\":\"Metaspace\",\"replacement\":\"a\",\"prepend_scheme\":\"always\",\"split\":"
        "true}"),
    PRE("{\"type\":\"UnicodeScripts\"}"),
    PRE("{\"type\":\"FixedLength\",\"length\":3}"),
    PRE("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"b\"}"),
    DECODER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"bbb\"}"),
    DECODER("{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"),
    DECODER("{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}"),
    DECODER("{\"type\":\"ByteFallback\"}"),
    DECODER("{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
            "true}"),
    { "an added token that almost fits everywhere", NULL, NULL, NULL,
      TOKEN(A240 A240 A240 A240 A240 A240 A240 A240 "b", "false"), NULL },
    { "the same, normalised", "{\"type\":\"Lowercase\"}", NULL, NULL,
      TOKEN(A240 A240 A240 A240 A240 A240 A240 A240 "b", "true"), NULL },
    { "added tokens of every letter, beside a long one", NULL, NULL, NULL,
      "{\"id\":0,\"content\":\"a\",\"special\":false,\"normalized\":false}," TOKEN(
          A240 A240 A240 A240 A240 A240 A240 A240 "b", "false"),
      NULL },
    MODEL(
        "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"a\",-1],[\"aa\",-1.5],[\"" A240
        "b\",-2]]}"),
    MODEL("{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
          "\"max_input_chars_per_word\":1000000000,\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,\"##" A240
          "b\":3}}"),
    MODEL("{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"vocab\":{\"?\":0,\"a\":1,"
          "\"aa\":2,"
          "\"aaaa\":3,\"b\":4,\"ab\":5},\"merges\":[\"a a\",\"aa aa\",\"a b\"]}"),
    MODEL(WORD_LEVEL),
};

static weft_tokenizer *load_made(const made *m)
{
    char text[8192];
    const int n = snprintf(
        text, sizeof text,
        "{\"version\":\"1.0\",\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,"
        "\"decoder\":%s,\"model\":%s}",
        m->added ? m->added : "", m->normalizer ? m->normalizer : "null", m->pre ? m->pre : "null",
        m->decoder ? m->decoder : "null", m->model ? m->model : WORD_LEVEL);
    assert_true(n < (int)sizeof text);
    weft_error err = { 0 };
    weft_tokenizer *t = weft_tokenizer_load(temp_file("tokenizer.json", text, (size_t)n), NULL,
                                            &err);
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

/* CPU seconds to encode n bytes and decode the result. */
static double round_trip(const weft_tokenizer *t, const char *text, size_t n)
{
    weft_error err = { 0 };
    const double start = clock_thread_seconds();
    weft_tokens *k = weft_tokenizer_encode(t, text, n, NULL, &err);
    weft_decoder *d = k ? weft_decoder_new(t, true, &err) : NULL;
    if (!d)
        fail_msg("%s", err.message);
    for (int64_t i = 0; i < k->n; i++) {
        const char *bytes;
        size_t length;
        if (weft_decoder_push(d, k->ids[i], &bytes, &length, &err) != WEFT_OK)
            fail_msg("%s", err.message);
    }
    weft_decoder_free(d);
    weft_tokens_free(k);
    return clock_thread_seconds() - start;
}

/* t(2n) / t(n), from the lowest times of several tries. Very short times get 2 ms of slack, for
 * page faults and cold caches. */
static double growth_of(const weft_tokenizer *t, const char *text, size_t n)
{
    double once = 1e9, twice = 1e9;
    for (int again = 0; again < 24 && (again < 2 || twice >= 2.6 * once + 0.002); again++) {
        const double a = round_trip(t, text, n), b = round_trip(t, text, 2 * n);
        once = a < once ? a : once;
        twice = b < twice ? b : twice;
    }
    return (twice - 0.002) / once;
}

static void every_step_is_linear(void **state)
{
    (void)state;
    static const char *const units[] = { "a", "a b", "aab.", "\xCC\x81", " ", "1a\xE4\xBD\xA0" };
    const size_t largest = getenv("WEFT_TEST_LONG") ? (size_t)1 << 20 : (size_t)1 << 17;
    char *text = malloc(largest);
    double worst = 0;
    assert_non_null(text);
    for (size_t f = 0; f < sizeof files_made / sizeof *files_made; f++) {
        weft_tokenizer *t = load_made(&files_made[f]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u += quick() ? 2 : 1) {
            const size_t unit = strlen(units[u]);
            for (size_t i = 0; i < largest; i++)
                text[i] = units[u][i % unit];
            for (size_t n = largest / (quick() ? 8 : 2); n < largest; n *= 2) {
                const double ratio = growth_of(t, text, n);
                worst = ratio > worst ? ratio : worst;
                if (ratio >= 2.6)
                    fail_msg("%s, of \"%s\": t(2 x %zu) / t(%zu) = %.2f", files_made[f].name,
                             units[u], n, n, ratio);
                if (quick())
                    break;
            }
        }
        weft_tokenizer_free(t);
    }
    print_message("%zu files, at most %.2f times the time\n",
                  sizeof files_made / sizeof *files_made, worst);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("tokenizers: every kind of step is linear in the text", every_step_is_linear),
        TEST("tokenizers: time is linear in the text, on a small stack", linear),
    };
    return RUN(tests);
}

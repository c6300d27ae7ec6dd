/* Twice the text takes about twice the time, whatever it is made of, on a stack of 256 KiB. Texts of
 * 256 KiB; with WEFT_TEST_LONG, of 4 MiB. */
#include "support.h"
#include "weft.h"

#include <pthread.h>
#include <time.h>

#define LARGEST (getenv("WEFT_TEST_LONG") ? (size_t)4 << 20 : (size_t)256 << 10)
#define STACK   ((size_t)256 << 10)

/* What each of these repeats is where some tokenizer has been slow: runs without a place to cut,
 * what a pattern takes back, what joins its neighbours, what almost begins a special token. */
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

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_of(job *j, size_t n)
{
    double best = 1e9;
    for (int i = 0; i < (n < (size_t)1 << 20 ? 2 : 1); i++) {
        weft_error err = { 0 };
        const double start = seconds();
        weft_tokens *k = weft_tokenizer_encode(j->tokenizer, j->text, n, NULL, &err);
        const double took = seconds() - start;
        if (!k)
            snprintf(j->message, sizeof j->message, "%.200s", err.message);
        weft_tokens_free(k);
        best = took < best ? took : best;
    }
    return best;
}

/* The worst of a few tries is a busy machine; the best of them is the program. */
static void *measure(void *ud)
{
    job *j = ud;
    const size_t largest = quick() ? LARGEST / 4 : LARGEST, unit = strlen(j->alphabet);
    for (size_t i = 0; i < largest; i++)
        j->text[i] = j->alphabet[i % unit];
    for (size_t n = largest / 2; n < largest; n *= 2) {
        double ratio = 1e9;
        for (int again = 0; again < 16 && ratio >= 2.5; again++) {
            const double once = time_of(j, n), twice = time_of(j, 2 * n);
            const double now = once > 0 ? twice / once : 1;
            ratio = now < ratio ? now : ratio;
        }
        j->worst = ratio > j->worst ? ratio : j->worst;
    }
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
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    char *text = malloc(LARGEST);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("tokenizers: time is linear in the text, on a small stack", linear),
    };
    return RUN(tests);
}

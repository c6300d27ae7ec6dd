/* tokenize.c - compares the speed of two builds of the library, which encode the same texts
 * alternately.
 *
 *     tokenize OLD.so NEW.so TEXT TOKENIZER...
 *
 * The text is cut into pieces of 16 KiB, which are encoded one by one. A line for each tokenizer:
 * MB/s of both, and the median of the ratios of neighbours in time. */
#include "weft.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 31
#define PIECE  16384

typedef struct build {
    __typeof__(&weft_tokenizer_load) load;
    __typeof__(&weft_tokenizer_free) free;
    __typeof__(&weft_tokenizer_encode) encode;
    __typeof__(&weft_tokens_free) tokens_free;
    weft_tokenizer *tokenizer;
    double seconds[ROUNDS];
    int64_t tokens;
} build;

static void *need(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return symbol;
}

static build build_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    build b = { 0 };
    b.load = need(library, "weft_tokenizer_load");
    b.free = need(library, "weft_tokenizer_free");
    b.encode = need(library, "weft_tokenizer_encode");
    b.tokens_free = need(library, "weft_tokens_free");
    return b;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double encode_all(build *b, const char *text, size_t n)
{
    const double start = now();
    b->tokens = 0;
    for (size_t at = 0; at < n; at += PIECE) {
        weft_error err;
        weft_tokens *k = b->encode(b->tokenizer, text + at, n - at < PIECE ? n - at : PIECE, NULL,
                                   &err);
        if (!k) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        b->tokens += k->n;
        b->tokens_free(k);
    }
    return now() - start;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, by_value);
    return x[ROUNDS / 2];
}

static void compare(build *b, const char *path, const char *text, size_t n)
{
    double ratio[ROUNDS];
    weft_error err;
    for (int i = 0; i < 2; i++)
        if (!(b[i].tokenizer = b[i].load(path, NULL, &err))) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
    for (int i = 0; i < 2; i++)
        encode_all(&b[i], text, n);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < 2; i++)
            b[i ^ (r & 1)].seconds[r] = encode_all(&b[i ^ (r & 1)], text, n);
        ratio[r] = b[1].seconds[r] / b[0].seconds[r];
    }
    printf("%-60s %7.1f %7.1f MB/s  time x %.3f  %s\n", path,
           (double)n / 1e6 / median(b[0].seconds), (double)n / 1e6 / median(b[1].seconds),
           median(ratio), b[0].tokens == b[1].tokens ? "" : "other tokens!");
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        b[i].free(b[i].tokenizer);
}

int main(int argc, char **argv)
{
    FILE *f = argc > 4 ? fopen(argv[3], "rb") : NULL;
    if (!f) {
        fprintf(stderr, "usage: tokenize OLD.so NEW.so TEXT TOKENIZER...\n");
        return 2;
    }
    static char text[1 << 20];
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    build b[2] = { build_open(argv[1]), build_open(argv[2]) };
    for (int i = 4; i < argc; i++)
        compare(b, argv[i], text, n);
    return 0;
}

/* quant_rmse - the error of each written format, tensor by tensor, beside that of llama.cpp's
 * quantiser on the same numbers.
 *
 *     build/tools/quant_rmse --ggml .../libggml-base.so MODEL
 *
 * A tensor counts as one long row, cut to whole blocks of 256; MODEL is a GGUF file, a Hugging Face
 * directory, or the word gaussian. Both sides' bytes are decoded by weft. */
#include "args.h"
#include "base/rng.h"
#include "bench.h"
#include "formats/container.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *path, *ggml_path,
    *type_names = "q4_0,q4_1,q5_0,q5_1,q8_0,q2_k,q3_k,q4_k,q5_k,q6_k,mxfp4,iq4_nl,iq4_xs";
static int64_t gaussians = 1 << 22, lowest = 4096;

static const arg args[] = {
    { "ggml", ARG_TEXT, &ggml_path, "FILE", "llama.cpp's libggml-base.so, to compare with", 0, 0 },
    { "types", ARG_TEXT, &type_names, "LIST", "formats, with commas (all that are written)", 0, 0 },
    { "gaussians", ARG_INT, &gaussians, "N", "numbers to draw (4194304)", 256, 1 << 28 },
    { "least", ARG_INT, &lowest, "N", "numbers of a tensor to show (4096)", 256, 1 << 30 },
    { 0 },
};

static const program self = { "quant_rmse",
                              "MODEL|gaussian",
                              "Prints the root mean square error of each format for each tensor\n"
                              "of a model, relative to the tensor's own root mean square.\n",
                              args,
                              1,
                              &path };

/* ggml_quantize_chunk(type, from, to, start, rows, numbers of a row, importance) */
typedef size_t quantize_fn(int, const float *, void *, int64_t, int64_t, int64_t, const float *);

/* Seconds that this program, not the machine, has worked. */
static double cpu_now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static double rms(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const double d = (double)x[k] - (y ? (double)y[k] : 0);
        sum += d * d;
    }
    return sqrt(sum / (double)n);
}

/* One format, one tensor. Returns our error / theirs, or 0. */
static double compare(const char *name, const dtype *type, const float *x, int64_t n,
                      quantize_fn *theirs)
{
    void *bytes = bench_must(malloc(dtype_row_bytes(type, n)), NULL);
    float *back = bench_must(malloc((size_t)n * sizeof *back), NULL);
    const double size = rms(x, NULL, n);
    double start = cpu_now();
    type->encode(bytes, x, n);
    const double seconds = cpu_now() - start;
    type->decode(back, bytes, 0, n);
    const double ours = rms(x, back, n);
    double ratio = 0;
    printf("%-40.40s %-5s %9lld  %.6f  %6.1f M/s", name, type->name, (long long)n, ours / size,
           (double)n / seconds / 1e6);
    if (theirs) {
        start = cpu_now();
        theirs(type->gguf, x, bytes, 0, 1, n, NULL);
        const double their_seconds = cpu_now() - start;
        type->decode(back, bytes, 0, n);
        const double other = rms(x, back, n);
        ratio = ours / other;
        printf("   llama.cpp %.6f  %6.1f M/s   ratio %.4f%s", other / size,
               (double)n / their_seconds / 1e6, ratio, ratio > 1 ? "  above" : "");
    }
    printf("\n");
    fflush(stdout);
    free(bytes);
    free(back);
    return ratio;
}

/* All formats; returns how many errors are above llama.cpp's. */
static int compare_all(const char *name, const float *x, int64_t n, quantize_fn *theirs)
{
    char list[256];
    int above = 0;
    snprintf(list, sizeof list, "%s", type_names);
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        const dtype *type = dtype_by_name(word);
        if (!type || !type->encode) {
            fprintf(stderr, "quant_rmse: %s is no format that weft writes\n", word);
            exit(EXIT_USAGE);
        }
        above += compare(name, type, x, n / 256 * 256, theirs) > 1;
    }
    return above;
}

static int compare_gaussian(quantize_fn *theirs)
{
    float *x = bench_must(malloc((size_t)gaussians * sizeof *x), NULL);
    for (int64_t k = 0; k < gaussians; k++)
        x[k] = (float)rng_normal(6, 0, (uint64_t)k);
    const int above = compare_all("gaussian", x, gaussians, theirs);
    free(x);
    return above;
}

static int compare_model(quantize_fn *theirs)
{
    weft_error err = { 0 };
    host h = { 0 };
    container c;
    int above = 0;
    mem_init(&h.mem, 0, NULL);
    h.io = io_system;
    bench_check(container_open(&c, path, WEFT_LOAD_MAP, &h, &err), &err);
    for (int64_t i = 0; i < c.n_tensor; i++) {
        const stored *t = &c.tensor[i];
        int64_t n = 1;
        for (int d = 0; d < t->n_dim; d++)
            n *= t->shape[d];
        if (!t->type->decode || t->n_dim < 2 || n < lowest)
            continue;
        float *x = bench_must(malloc((size_t)n * sizeof *x), NULL);
        t->type->decode(x, t->data, 0, n);
        above += compare_all(t->name, x, n, theirs);
        free(x);
    }
    container_close(&c);
    return above;
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    quantize_fn *theirs = NULL;
    void *library = ggml_path ? dlopen(ggml_path, RTLD_NOW) : NULL;
    if (library)
        *(void **)&theirs = dlsym(library, "ggml_quantize_chunk");
    if (ggml_path && !theirs) {
        fprintf(stderr, "quant_rmse: %s\n", dlerror());
        return 1;
    }
    printf("error relative to the root mean square of the tensor; numbers encoded a second on one "
           "thread\n");
    const int above = strcmp(path, "gaussian") == 0 ? compare_gaussian(theirs)
                                                    : compare_model(theirs);
    if (theirs)
        printf("%d of them above llama.cpp's\n", above);
    return 0;
}

/* Evaluation: the numbers of an independent implementation, and the same bits however it is cut. */
#include "engine/evaluate.h"
#include "gguf_build.h"
#include "support.h"
#include "text/source.h"
#include "train/learner.h"

#include <jansson.h>
#include <math.h>

typedef struct opened {
    host host;
    model model;
} opened;

static void open_model(opened *o, const char *path)
{
    weft_error err = { 0 };
    host_plain(&o->host);
    if (model_open(&o->model, path, WEFT_LOAD_MAP, &o->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void close_model(opened *o)
{
    model_close(&o->model);
    assert_int_equal(o->host.mem.used, 0);
}

static evaluation must_evaluate(const opened *m, const opened *against, const document *d,
                                int64_t n, const evaluate_options *o)
{
    weft_error err = { 0 };
    evaluation e;
    if (evaluate(&m->model, against ? &against->model : NULL, d, n, o, &e, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return e;
}

/* ---- documents ------------------------------------------------------------------------------- */

#define MAX_DOCUMENT 64

typedef struct library {
    document document[MAX_DOCUMENT];
    int64_t n;
} library;

static void library_add(library *l, const int32_t *ids, int64_t n)
{
    int32_t *copy = malloc((size_t)n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, ids, (size_t)n * sizeof *copy);
    l->document[l->n++] = (document){ copy, n };
}

static void library_free(library *l)
{
    for (int64_t i = 0; i < l->n; i++)
        free((int32_t *)l->document[i].ids);
}

/* Random tokens; a function of nothing but the sizes. */
static library random_library(int64_t n_document, int64_t n_vocab, int64_t length)
{
    library l = { 0 };
    int32_t ids[1024];
    for (int64_t i = 0; i < n_document; i++) {
        for (int64_t k = 0; k < length + i; k++)
            ids[k] = (int32_t)((uint64_t)(k * k + 7 * k * (i + 3) + i) * 2654435761u >> 7) &
                     0x7FFFFFFF;
        for (int64_t k = 0; k < length + i; k++)
            ids[k] %= (int32_t)n_vocab;
        library_add(&l, ids, length + i);
    }
    return l;
}

static bool blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The paragraphs of the reference: between blank lines, stripped, more than 200 characters, the
 * first 60 of them. */
static library stories(const tokenizer *t, mem *m)
{
    library l = { 0 };
    size_t size;
    weft_error err = { 0 };
    char *text = read_whole(asset("data/tinystories-slice/tinystories.txt"), &size);
    encoder *e = encoder_new(t, m, &err);
    assert_non_null(e);
    for (size_t at = 0, end; at < size && l.n < 60; at = end + 2) {
        const char *stop = memmem(text + at, size - at, "\n\n", 2);
        end = stop ? (size_t)(stop - text) : size;
        size_t from = at, to = end, letters = 0;
        while (from < to && blank(text[from]))
            from++;
        while (to > from && blank(text[to - 1]))
            to--;
        for (size_t i = from; i < to; i++)
            letters += (text[i] & 0xC0) != 0x80;
        encoding found;
        if (letters <= 200)
            continue;
        assert_int_equal(encoder_encode(e, text + from, to - from, NULL, 0, &(encode_options){ 0 },
                                        &found, &err),
                         WEFT_OK);
        int32_t ids[1024];
        assert_true(found.n <= 1024);
        for (size_t i = 0; i < found.n; i++)
            ids[i] = (int32_t)found.id[i];
        library_add(&l, ids, (int64_t)found.n);
    }
    encoder_free(e);
    free(text);
    return l;
}

static library story_library(void)
{
    host h;
    tokenizer t;
    weft_error err = { 0 };
    host_plain(&h);
    if (tokenizer_load(&t, asset("llama-stories260K/stories260K-f32.gguf"), NULL, WEFT_LOAD_COPY,
                       &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const library l = stories(&t, &h.mem);
    tokenizer_free(&t);
    return l;
}

/* ---- the reference --------------------------------------------------------------------------- */

static void check_stories(const char *path, const library *l, const json_t *each)
{
    opened m;
    double worst = 0, sum = 0;
    int64_t n = 0;
    open_model(&m, path);
    for (int64_t i = 0; i < l->n; i++) {
        const json_t *p = json_array_get(each, (size_t)i);
        const double nll = json_number_value(json_object_get(p, "nll_sum"));
        const evaluation e = must_evaluate(&m, NULL, &l->document[i], 1,
                                           &(evaluate_options){ .engine.n_thread = 1 });
        assert_int_equal(l->document[i].n, json_integer_value(json_object_get(p, "tokens")));
        worst = fmax(worst, fabs(e.nll - nll) / (double)e.n_token);
        n += e.n_token;
        sum += e.nll;
    }
    const evaluation all = must_evaluate(&m, NULL, l->document, l->n,
                                         &(evaluate_options){ .engine.n_thread = 2 });
    print_message("%s: NLL %.6f a token over %lld tokens, perplexity %.4f; no paragraph is off by "
                  "more than %.1e a token\n",
                  strrchr(path, '/') + 1, all.nll / (double)n, (long long)n,
                  exp(all.nll / (double)n), worst);
    assert_int_equal(all.n_token, n);
    assert_true(fabs(all.nll - sum) <= 1e-9 * sum);
    assert_true(worst <= 1e-4);
    close_model(&m);
}

static void stories_nll(void **state)
{
    (void)state;
    json_t *root = json_load_file(asset("llama-stories260K/ref_tinystories_nll.json"), 0, NULL);
    assert_non_null(root);
    library l = story_library();
    const json_t *each = json_object_get(root, "per_paragraph");
    assert_int_equal(l.n, json_array_size(each));
    check_stories(asset("llama-stories260K"), &l, each);
    check_stories(asset("llama-stories260K/stories260K-f32.gguf"), &l, each);
    library_free(&l);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("eval: stories260K's NLL of 60 paragraphs equals the reference", stories_nll),
    };
    return RUN(tests);
}

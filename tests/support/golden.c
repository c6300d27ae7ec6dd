#define SET_UP
#include "golden.h"

#include "support.h"

void golden_open(golden *g, const char *path, double tolerance)
{
    weft_error err = { 0 };
    *g = (golden){ .tolerance = tolerance };
    host_plain(&g->host);
    container *c = &g->file;
    file f;
    if (file_open(&f, path, WEFT_LOAD_COPY, &g->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(container_begin(c, "safetensors", path, &g->host, &err), WEFT_OK);
    *container_file(c, &err) = f;
    if (safetensors_parse(c, f.data, f.size, &err) != WEFT_OK ||
        container_index(c, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    g->met = calloc((size_t)c->n_tensor, sizeof *g->met);
}

void golden_close(golden *g)
{
    container_close(&g->file);
    free(g->met);
}

const stored *golden_tensor(const golden *g, const char *name)
{
    return container_tensor(&g->file, name);
}

void golden_check(golden *g, const char *name, const real *a, int64_t stride, const float *b,
                  int64_t n_row, int64_t n_col)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n_row; i++)
        for (int64_t k = 0; k < n_col; k++) {
            const double want = (double)b[i * n_col + k], got = (double)a[i * stride + k];
            if (isinf(want) && got == want)
                continue;
            largest = fmax(largest, fabs(want));
            const double e = fabs(got - want);
            worst = e <= worst ? worst : e; /* NaN stays */
        }
    const double error = worst / fmax(largest, 1e-30);
    g->compared++;
    if (!(error <= g->tolerance) && !g->first[0]) {
        snprintf(g->first, sizeof g->first, "%s", name);
        g->first_error = error;
    }
    if (!(error <= g->worst)) {
        g->worst = error;
        snprintf(g->worst_name, sizeof g->worst_name, "%s", name);
    }
}

/* The reference in the model's order: of the last S values of a head, 2k is k, 2k + 1 is k +
 * S/2. */
static float *side_by_side(const float *from, int64_t n, int64_t E, int64_t S)
{
    float *to = malloc((size_t)n * sizeof *to);
    assert_non_null(to);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % E - (E - S);
        to[i] = k < 0 ? from[i] : from[i - k + k / 2 + k % 2 * (S / 2)];
    }
    return to;
}

/* Number of values of a head of t whose order differs, or 0. */
static bool is_apart(const golden *g, const tensor *t)
{
    const char *tail = strrchr(t->name, '.');
    if (g->behind)
        return tail && strcmp(tail, ".rope") == 0;
    return g->adjacent && (strstr(t->name, ".attn_q") || strstr(t->name, ".attn_k"));
}

void golden_compare(void *ud, const tensor *t, const op *by)
{
    (void)by;
    golden *g = ud;
    const stored *s = golden_tensor(g, t->name);
    if (!s)
        return;
    if (s->n_dim != 2 || s->shape[0] != rows(t) || s->shape[1] != cols(t))
        fail_msg("%s is [%lld, %lld], the reference is [%lld, %lld]", t->name, (long long)rows(t),
                 (long long)cols(t), (long long)s->shape[0], (long long)s->shape[1]);
    g->met[s - g->file.tensor] = true;
    const int64_t E = g->adjacent < cols(t) ? g->adjacent : cols(t);
    const float *want = (const float *)s->data;
    float *reordered = NULL;
    if (is_apart(g, t))
        want = reordered = side_by_side(want, rows(t) * cols(t), E, g->behind ? g->behind : E);
    golden_check(g, t->name, row(t, 0), t->stride, want, rows(t), cols(t));
    free(reordered);
}

void golden_finish(const golden *g, const char *what)
{
    for (int64_t i = 0; i < g->file.n_tensor; i++)
        if (!g->met[i] && strcmp(g->file.tensor[i].name, "ids") != 0 &&
            strcmp(g->file.tensor[i].name, "types") != 0 &&
            strcmp(g->file.tensor[i].name, "source") != 0)
            fail_msg("%s: no tensor is called %s", what, g->file.tensor[i].name);
    if (g->compared > 0)
        count_assertion();
    print_message("%-24s %3d tensors, worst %.2e of the largest in %s\n", what, g->compared,
                  g->worst, g->worst_name);
    if (g->first[0])
        fail_msg("%s: first divergence in %s: %.3g of its largest magnitude, allowed %.3g", what,
                 g->first, g->first_error, g->tolerance);
}

/* merge.c - merges an adapter into the weights of its model, row by row. */
#include "adapt/merge.h"

#include "adapt/modules.h"

#include <stdio.h>
#include <string.h>

/* A merged weight. What reads it sees rows that are put together on the way (container.h). */
typedef struct merged_weight {
    stored_spread spread;
    stored stored;
    const tensor *w; /* the model's, or the whole one in its place */
    const lora *p;   /* or NULL */
    real scale;
    bool table;
    double *sum; /* [cols]: of one row */
    real *x;     /* [cols and rank] */
} merged_weight;

/* ---- rows ------------------------------------------------------------------------------------ */

static void row_of(const tensor *t, int64_t i, real *to)
{
    t->type->decode(to, tensor_rows(t, i, 1).data, 0, cols(t));
}

/* sum = row o of g (W + s B A) */
static void matrix_row(const merged_weight *g, int64_t o)
{
    const lora *p = g->p;
    const int64_t n = cols(g->w), rank = rows(p->a);
    real *b = g->x + n;
    row_of(p->b, o, b);
    for (int64_t k = 0; k < rank; k++) {
        const double f = (double)g->scale * (double)b[k];
        row_of(p->a, k, g->x);
        for (int64_t i = 0; i < n; i++)
            g->sum[i] += f * (double)g->x[i];
    }
    for (int64_t i = 0; p->gain && i < n; i++)
        g->sum[i] *= (double)p->gain[o];
}

/* sum = g (row v of the table + s B (column v of A)) */
static void table_row(const merged_weight *g, int64_t v)
{
    const lora *p = g->p;
    const int64_t n = cols(g->w), rank = rows(p->a);
    real *column = g->x, *b = g->x + rank;
    for (int64_t k = 0; k < rank; k++)
        p->a->type->decode(&column[k], tensor_rows(p->a, k, 1).data, v, 1);
    for (int64_t d = 0; d < n; d++) {
        double sum = 0;
        row_of(p->b, d, b);
        for (int64_t k = 0; k < rank; k++)
            sum += (double)b[k] * (double)column[k];
        g->sum[d] += (double)g->scale * sum;
        g->sum[d] *= p->gain ? (double)p->gain[d] : 1;
    }
}

/* Row i, as f32, which may be at any address. */
static void merged_row(const stored *s, int64_t i, int64_t n, uint8_t *to)
{
    const merged_weight *g = (const void *)s->spread;
    row_of(g->w, i, g->x);
    for (int64_t k = 0; k < n; k++)
        g->sum[k] = (double)g->x[k];
    if (g->p)
        (g->table ? table_row : matrix_row)(g, i);
    for (int64_t k = 0; k < n; k++) {
        const float y = (float)g->sum[k];
        memcpy(to + (size_t)k * sizeof y, &y, sizeof y);
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

static void *take(merge *g, int64_t n, size_t size)
{
    void *at = arena_alloc(&g->store, (size_t)n * size, g->err); /* bounded: by the model */
    return at ? memset(at, 0, (size_t)n * size) : NULL;          /* bounded: likewise */
}

/* A matrix with what the adapter changes in one use of it. NULL after an error. */
static const stored *merged_matrix(merge *g, int64_t i, bool table)
{
    const tensor *own = g->m.param[i];
    const lora_set *set = &g->ready.set;
    const tensor *whole = (table ? set->whole_table : set->whole)[own->slot];
    merged_weight *to = take(g, 1, sizeof *to);
    const lora *p = (table ? set->table : set->matrix)[own->slot];
    const int64_t n = cols(own) + 2 * (p ? rows(p->a) : 0); /* bounded: in memory */
    if (!to || !(to->sum = take(g, cols(own), sizeof *to->sum)) ||
        !(to->x = take(g, n, sizeof *to->x)))
        return NULL;
    to->spread.row = merged_row;
    to->w = whole ? whole : own;
    to->p = p;
    to->scale = p ? p->scale * (real)g->strength : 0;
    to->table = table;
    to->stored = (stored){ .name = own->name,
                           .type = &dtype_f32,
                           .n_dim = own->n_dim,
                           .bytes = (uint64_t)rows(own) * dtype_row_bytes(&dtype_f32, cols(own)),
                           .path = g->ready.from.file.path,
                           .spread = &to->spread };
    memcpy(to->stored.shape, own->shape, sizeof own->shape);
    return &to->stored;
}

/* A vector: the model's or the one in its place, plus what is beside B. */
static const stored *merged_vector(merge *g, int64_t i, const lora *p)
{
    const tensor *own = g->m.param[i], *whole = g->ready.set.whole[own->slot];
    const tensor *w = whole ? whole : own;
    const int64_t n = cols(own);
    stored *s = take(g, 1, sizeof *s);
    real *x = s ? take(g, n, sizeof *x) : NULL;
    float *to = x ? take(g, n, sizeof *to) : NULL;
    if (!to)
        return NULL;
    w->type->decode(x, w->data, 0, n);
    for (int64_t k = 0; k < n; k++) {
        const double c = p && p->bias ? g->strength * (double)p->scale * (double)p->bias[k] : 0;
        to[k] = (float)((double)x[k] + c);
    }
    *s = (stored){ .name = own->name,
                   .type = &dtype_f32,
                   .n_dim = 1,
                   .shape = { n },
                   .data = (const uint8_t *)to,
                   .bytes = (uint64_t)n * sizeof *to, /* bounded: as taken */
                   .path = g->ready.from.file.path };
    return s;
}

/* Does the adapter change this use of a parameter? */
static bool is_changed(const merge *g, int64_t i, bool table)
{
    const lora_set *s = &g->ready.set;
    const int64_t slot = g->m.param[i]->slot;
    return table ? s->table[slot] || s->whole_table[slot] : s->matrix[slot] || s->whole[slot];
}

/* Do both uses of the shared matrix have the same whole weight and nothing else? */
static bool stays_tied(const merge *g)
{
    const lora_set *s = &g->ready.set;
    const int64_t slot = g->m.param[g->tied]->slot;
    return !s->table[slot] && !s->matrix[slot] && s->whole[slot] && s->whole_table[slot] &&
           take_same(s->whole[slot], s->whole_table[slot]);
}

/* The head gets a matrix of its own. config.json can say so for these families only. */
static weft_status untie(merge *g)
{
    if (g->m.arch->family != &llama_family && g->m.arch->family != &gpt2_family)
        return weft_fail(g->err, WEFT_EUNSUPPORTED,
                         "%s: changes the embedding or the head of a model where they are one; "
                         "expected one without; merge it with PEFT",
                         g->ready.from.file.path);
    g->head = merged_matrix(g, g->tied, false);
    return g->head ? WEFT_OK : WEFT_ENOMEM;
}

/* The bias of a weight: parameter number, or -1. */
static int64_t bias_of(const merge *g, const char *name)
{
    char bias[NAME_BYTES + 8];
    snprintf(bias, sizeof bias, "%s.bias", name);
    for (int64_t i = 0; i < g->m.n_param; i++)
        if (strcmp(g->m.param[i]->name, bias) == 0)
            return i;
    return -1;
}

static weft_status merge_biases(merge *g)
{
    const adapter *a = &g->ready.from;
    for (int64_t i = 0; i < a->n_part; i++) {
        const adapter_part *p = &a->part[i];
        const int64_t at = p->bias ? bias_of(g, p->name) : -1;
        if (!p->bias)
            continue;
        if (at < 0)
            return weft_fail(g->err, WEFT_EUNSUPPORTED,
                             "%s: has a bias for %s; expected none, as the model has no bias there",
                             a->file.path, p->name);
        g->merged[at] = merged_vector(g, at, g->ready.set.matrix[g->m.param[p->param]->slot]);
        if (!g->merged[at])
            return WEFT_ENOMEM;
    }
    return WEFT_OK;
}

static weft_status merge_weights(merge *g)
{
    weft_status status = WEFT_OK;
    g->merged = take(g, g->m.n_param + 1, sizeof *g->merged);
    if (!g->merged)
        return WEFT_ENOMEM;
    for (int64_t i = 0; status == WEFT_OK && i < g->m.n_param; i++) {
        const bool table = is_changed(g, i, true);
        if (i == g->tied && (table || is_changed(g, i, false)) && !stays_tied(g))
            status = untie(g);
        if (status != WEFT_OK || !(table || (i != g->tied && is_changed(g, i, false))))
            continue;
        g->merged[i] = g->m.param[i]->n_dim == 1 ? merged_vector(g, i, NULL)
                                                 : merged_matrix(g, i, table);
        status = g->merged[i] ? WEFT_OK : WEFT_ENOMEM;
    }
    return status == WEFT_OK ? merge_biases(g) : status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status check_strength(const merge *g)
{
    const lora_set *s = &g->ready.set;
    if ((!s->replaces && !s->scales) || g->strength == 1)
        return WEFT_OK;
    return weft_fail(g->err, WEFT_EINVAL,
                     "%s: an adapter with whole weights or gains is merged at strength 1, not %g",
                     g->ready.from.file.path, g->strength);
}

static weft_status find_tied(merge *g)
{
    modules s;
    const weft_status status = modules_open(&s, &g->m, g->err);
    if (status != WEFT_OK)
        return status;
    g->tied = s.tied;
    modules_close(&s);
    return WEFT_OK;
}

weft_status merge_open(merge *g, const char *base, const char *lora_path, double strength,
                       weft_load load, host *h, weft_error *err)
{
    *g = (merge){ .strength = strength, .err = err };
    weft_status status = model_open(&g->m, base, load, h, err);
    if (status != WEFT_OK)
        return status;
    status = ready_open(&g->ready, &g->m, lora_path, err);
    g->open = status == WEFT_OK;
    if (status == WEFT_OK)
        status = check_strength(g);
    if (status == WEFT_OK)
        status = find_tied(g);
    if (status == WEFT_OK)
        status = arena_init(&g->store, ARENA_GROWING, &h->mem, 0, "", err);
    return status == WEFT_OK ? merge_weights(g) : status;
}

void merge_close(merge *g)
{
    arena_free(&g->store);
    if (g->open)
        ready_close(&g->ready);
    if (g->m.host)
        model_close(&g->m);
    *g = (merge){ 0 };
}

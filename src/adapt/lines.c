/* lines.c - matches an adapter with its model's modules again, to write it. */
#include "adapt/lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HF_PREFIX "base_model.model."

/* ---- what belongs together ------------------------------------------------------------------- */

static const adapter_part *part_of(const adapter *a, const module_use *u)
{
    for (int64_t i = 0; i < a->n_part; i++)
        if (a->part[i].param == u->param && strcmp(a->part[i].name, u->name) == 0)
            return &a->part[i];
    return NULL;
}

static const adapter_whole *whole_of(const adapter *a, const module_use *u)
{
    const size_t n = strlen(u->name);
    for (int64_t i = 0; i < a->n_whole; i++)
        if (a->whole[i].param == u->param && strncmp(a->whole[i].name, u->name, n) == 0)
            return &a->whole[i];
    return NULL;
}

bool lines_same(const part_line *a, const part_line *b)
{
    return b->known && strcmp(a->u.module, b->u.module) == 0 && strcmp(a->u.tail, b->u.tail) == 0;
}

weft_status lines_refuse(const part_lines *w, const char *name, const char *why)
{
    return weft_fail(w->err, WEFT_EUNSUPPORTED,
                     "%.100s of the adapter: %s; merge the adapter into its base instead", name,
                     why);
}

/* Everything of the adapter must find its module. */
static weft_status match_lines(part_lines *w)
{
    const adapter *a = w->a;
    int64_t n_part = 0, n_whole = 0;
    for (int64_t i = 0; i < w->n; i++) {
        part_line *l = &w->line[i];
        l->known = modules_use(&w->modules, i, &l->u);
        if (!l->known)
            continue;
        l->part = l->u.adaptable ? part_of(a, &l->u) : NULL;
        l->whole = whole_of(a, &l->u);
        n_part += l->part != NULL;   /* bounded: by the lines */
        n_whole += l->whole != NULL; /* bounded: likewise */
    }
    if (a->n_part == 0)
        return weft_fail(w->err, WEFT_EUNSUPPORTED,
                         "the adapter has no A and B; expected at least one pair; merge it into "
                         "its base instead");
    if (n_part == a->n_part && n_whole == a->n_whole)
        return WEFT_OK;
    return weft_fail(w->err, WEFT_EUNSUPPORTED,
                     "the adapter changes %lld weights, and %lld of them belong to modules; "
                     "expected none of experts; merge the adapter into its base instead",
                     (long long)(a->n_part + a->n_whole), (long long)(n_part + n_whole));
}

/* Every line makes at most its own tensor, and A, B, a gain and a bias. */
weft_status lines_open(part_lines *w, const adapter *a, const model *m, bool gguf, weft_error *err)
{
    *w = (part_lines){ .a = a, .m = m, .err = err };
    weft_status status = modules_open(&w->modules, m, err);
    if (status == WEFT_OK)
        status = arena_init(&w->store, ARENA_GROWING, &m->host->mem, 0, "", err);
    if (status != WEFT_OK)
        return status;
    w->n = modules_count(&w->modules);
    if (gguf)
        w->modules.form = AS_GGUF;
    const size_t n = (size_t)w->n, bytes = 5 * n * sizeof *w->tensor; /* bounded: by the model */
    w->tensor = arena_alloc(&w->store, bytes, err);
    w->line = mem_zalloc(&m->host->mem, n, sizeof *w->line, "an adapter", err);
    return w->tensor && w->line ? match_lines(w) : WEFT_ENOMEM;
}

void lines_close(part_lines *w)
{
    mem_free(&w->m->host->mem, w->line);
    modules_close(&w->modules);
}

/* ---- tensors --------------------------------------------------------------------------------- */

void *lines_add(part_lines *w, const module_use *u, const char *tail, const dtype *type, int n_dim,
                const int64_t *shape, const void *data)
{
    char name[MODULE_BYTES + 64];
    adapter_tensor *t = &w->tensor[w->n_tensor];
    const char *prefix = w->modules.form == AS_GGUF ? "" : HF_PREFIX;
    const int n = snprintf(name, sizeof name, "%s%s%s", prefix, u->module, tail);
    *t = (adapter_tensor){ .name = arena_text(&w->store, name, (size_t)n, w->err),
                           .type = type,
                           .n_dim = n_dim };
    memcpy(t->shape, shape, (size_t)n_dim * sizeof *shape); /* bounded: n_dim <= MAX_DIM */
    if (!t->name)
        return NULL;
    if (!stored_bytes(type, n_dim, shape, &t->bytes)) {
        weft_fail(w->err, WEFT_EUNSUPPORTED, "tensor %s is too large", t->name);
        return NULL;
    }
    void *room = data ? NULL : arena_alloc(&w->store, t->bytes, w->err);
    if (room)
        memset(room, 0, t->bytes);
    t->data = data ? data : room;
    w->n_tensor += t->data != NULL; /* bounded: by lines_open */
    return (void *)t->data;
}

/* The rows of the outputs of a part: a table's are its columns. */
static take_rows_of outputs(const part_line *l)
{
    const int64_t n = rows(&l->part->b);
    return l->u.table ? (take_rows_of){ .all = n, .n = n } : l->u.rows;
}

weft_status lines_put_vector(part_lines *w, int64_t first, const char *tail,
                             const real *(*of)(const adapter_part *))
{
    const part_line *l = &w->line[first];
    const int64_t all = outputs(l).all;
    float *to = lines_add(w, &l->u, tail, &dtype_f32, 1, &all, NULL);
    for (int64_t i = first; to && i < w->n; i++) {
        const adapter_part *p = lines_same(l, &w->line[i]) ? w->line[i].part : NULL;
        const real *x = p ? of(p) : NULL;
        const take_rows_of r = p ? outputs(&w->line[i]) : (take_rows_of){ 0 };
        for (int64_t k = 0; x && k < r.n; k++)
            to[take_source_row(&r, k)] = (float)x[k];
    }
    return to ? WEFT_OK : w->err->code;
}

/* ---- A and B --------------------------------------------------------------------------------- */

static bool same_a(const tensor *a, const tensor *b)
{
    const size_t bytes = (size_t)rows(a) * dtype_row_bytes(a->type, cols(a)); /* bounded: of a */
    return a->type == b->type && rows(a) == rows(b) &&
           (a->data == b->data || memcmp(a->data, b->data, bytes) == 0);
}

/* May the parts of one fused module be written as one? */
static weft_status check_group(const part_lines *w, int64_t first)
{
    const adapter_part *p = w->line[first].part;
    for (int64_t i = 0; i < w->n; i++) {
        const part_line *l = &w->line[i];
        if (!lines_same(&w->line[first], l) || l->part == p)
            continue;
        if (l->part && (!same_a(&p->a, &l->part->a) || l->part->b.type != p->b.type))
            return lines_refuse(w, l->u.name,
                                "it is part of a fused module, and its A is not the A of the other "
                                "parts");
        if (l->part && l->part->scale != p->scale)
            return lines_refuse(w, l->u.name,
                                "it is part of a fused module, and its scale is not that of the "
                                "other parts");
        if (!l->part && p->gain)
            return lines_refuse(w, l->u.name,
                                "it is part of a fused module whose other parts have gains (DoRA)");
    }
    return WEFT_OK;
}

/* A table's A is transposed in GGUF. */
static weft_status put_a(part_lines *w, const part_line *l)
{
    const tensor *a = &l->part->a;
    const bool gguf = w->modules.form == AS_GGUF, turn = gguf && l->u.table;
    const int64_t shape[] = { turn ? cols(a) : rows(a), turn ? rows(a) : cols(a) };
    const char *tail = gguf         ? ".weight.lora_a"
                       : l->u.table ? ".lora_embedding_A"
                                    : ".lora_A.weight";
    char *to = lines_add(w, &l->u, tail, a->type, 2, shape, turn ? NULL : a->data);
    const size_t size = (size_t)a->type->bytes;
    for (int64_t i = 0; to && turn && i < rows(a); i++)
        for (int64_t k = 0; k < cols(a); k++) {
            const size_t from = (size_t)(i * cols(a) + k), at = (size_t)(k * rows(a) + i);
            memcpy(to + at * size, (const char *)a->data + from * size, size); /* bounded: of a */
        }
    return to ? WEFT_OK : w->err->code;
}

/* Is x times any number of this type, as a rule, a number of this type? */
static bool is_exact(double factor, const dtype *type)
{
    int exponent;
    return factor == 1 ||
           (fabs(frexp(factor, &exponent)) == 0.5 && abs(exponent) < 32 && type != &dtype_f16);
}

/* Rows of B to where the module has them, times the factor. */
static weft_status put_rows(const part_lines *w, char *to, const dtype *type, const tensor *from,
                            const take_rows_of *r, double factor)
{
    const int64_t n = cols(from);
    const size_t row = dtype_row_bytes(type, n), old = dtype_row_bytes(from->type, n);
    real *x = mem_zalloc(&w->m->host->mem, (size_t)n, sizeof *x, "an adapter", w->err);
    for (int64_t i = 0; x && i < r->n; i++) { /* bounded: inside both */
        char *at = to + (size_t)take_source_row(r, i) * row;
        const char *source = (const char *)from->data + (size_t)i * old;
        from->type->decode(x, source, 0, n);
        for (int64_t k = 0; k < n; k++)
            x[k] = (real)((double)x[k] * factor);
        if (factor == 1)
            memcpy(at, source, row);
        else
            type->encode(at, x, n);
    }
    mem_free(&w->m->host->mem, x);
    return x ? WEFT_OK : w->err->code;
}

static weft_status put_b(part_lines *w, int64_t first, double factor)
{
    const part_line *l = &w->line[first];
    const tensor *b = &l->part->b;
    const take_rows_of r = outputs(l);
    const dtype *type = is_exact(factor, b->type) ? b->type : &dtype_f32;
    const bool unchanged = factor == 1 && r.n == r.all && !r.head;
    const int64_t shape[] = { r.all, cols(b) };
    const char *tail = w->modules.form == AS_GGUF ? ".weight.lora_b"
                       : l->u.table               ? ".lora_embedding_B"
                                                  : ".lora_B.weight";
    char *to = lines_add(w, &l->u, tail, type, 2, shape, unchanged ? b->data : NULL);
    weft_status status = to ? WEFT_OK : w->err->code;
    for (int64_t i = first; status == WEFT_OK && !unchanged && i < w->n; i++)
        if (lines_same(l, &w->line[i]) && w->line[i].part) {
            const take_rows_of rows_of = outputs(&w->line[i]);
            status = put_rows(w, to, type, &w->line[i].part->b, &rows_of, factor);
        }
    return status;
}

weft_status lines_put_parts(part_lines *w, int64_t first, double factor)
{
    weft_status status = check_group(w, first);
    if (status == WEFT_OK)
        status = put_a(w, &w->line[first]);
    return status == WEFT_OK ? put_b(w, first, factor) : status;
}

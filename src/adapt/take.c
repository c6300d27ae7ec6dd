/* take.c - numbers out of a stored tensor, in the order in which a model has its rows. Tensors were
 * compared with the model's shapes before, and their bytes lie inside the file. */
#include "adapt/take.h"

#include "models/export.h"

#include <string.h>

int64_t take_source_row(const take_rows_of *r, int64_t i)
{
    const int64_t from = r->head ? export_row(i, r->head, !r->to_halves) : i;
    return r->row0 + from; /* bounded: row0 + n <= all, rows of the tensor */
}

weft_status take_check(const stored *t, int n_dim, const int64_t *shape, const char *path,
                       const char *base, weft_error *err)
{
    bool same = t->n_dim == n_dim;
    for (int d = 0; same && d < n_dim; d++)
        same = t->shape[d] == shape[d];
    if (!same) {
        char found[96], expected[96];
        shape_text(found, sizeof found, t->n_dim, t->shape);
        shape_text(expected, sizeof expected, n_dim, shape);
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: tensor %s is %s; expected %s; use the base model of the adapter "
                         "(%.100s)",
                         path, t->name, found, expected, base ? base : "not named");
    }
    if (t->type == &dtype_f32 || t->type == &dtype_f16 || t->type == &dtype_bf16)
        return WEFT_OK;
    return weft_fail(
        err, WEFT_EUNSUPPORTED,
        "%s: tensor %s is %s; expected f32, f16 or bf16; save the adapter again in one "
        "of them",
        path, t->name, t->type->name);
}

static bool is_aligned(const stored *t)
{
    return (uintptr_t)t->data % (size_t)t->type->bytes == 0;
}

weft_status take_tensor(const stored *t, const take_rows_of *r, int64_t n_col, tensor *to,
                        arena *store, weft_error *err)
{
    *to = (tensor){ .type = t->type, .n_dim = 2, .shape = { r->n, n_col }, .stride = n_col };
    if (!r->head && is_aligned(t)) {
        to->data = (void *)stored_row(t, r->row0, n_col);
        return WEFT_OK;
    }
    const size_t row = dtype_row_bytes(t->type, n_col);
    const size_t bytes = (size_t)r->n * row; /* bounded: by those of the tensor */
    uint8_t *copy = arena_alloc(store, bytes, err);
    for (int64_t i = 0; copy && i < r->n; i++)
        stored_copy_row(t, take_source_row(r, i), n_col,
                        &copy[(size_t)i * row]); /* bounded: i < n */
    to->data = copy;
    return copy ? WEFT_OK : WEFT_ENOMEM;
}

/* Number i at any alignment. */
static real number_at(const stored *t, int64_t i)
{
    uint64_t one = 0;
    real x;
    const size_t size = (size_t)t->type->bytes;
    memcpy(&one, t->data + (size_t)i * size, size); /* bounded: i is inside the tensor */
    t->type->decode(&x, &one, 0, 1);
    return x;
}

real *take_reals(const stored *t, const take_rows_of *r, int64_t n_col, arena *store,
                 weft_error *err)
{
    uint64_t n, bytes;
    if (!checked_mul((uint64_t)r->n, (uint64_t)n_col, &n) || !checked_mul(n, sizeof(real), &bytes))
        return weft_fail(err, WEFT_EFORMAT, "tensor %s is too large", t->name), NULL;
    real *to = arena_alloc(store, bytes, err);
    for (int64_t i = 0; to && i < r->n; i++)
        for (int64_t k = 0; k < n_col; k++) {                       /* bounded: inside both */
            const int64_t from = take_source_row(r, i) * n_col + k; /* bounded: inside the tensor */
            to[i * n_col + k] = number_at(t, from);                 /* bounded: by n */
        }
    return to;
}

weft_status take_flipped(const stored *t, stored *to, arena *store, weft_error *err)
{
    const int64_t n_row = t->shape[0], n_col = t->shape[1];
    const size_t size = (size_t)t->type->bytes;
    uint8_t *copy = arena_alloc(store, t->bytes, err);
    for (int64_t i = 0; copy && i < n_row; i++)
        for (int64_t k = 0; k < n_col; k++) {
            const int64_t from = i * n_col + k, at = k * n_row + i; /* bounded: by its shape */
            stored_copy_row(t, from, 1, &copy[(size_t)at * size]);  /* bounded: by its bytes */
        }
    *to = *t;
    to->shape[0] = n_col;
    to->shape[1] = n_row;
    to->data = copy;
    return copy ? WEFT_OK : WEFT_ENOMEM;
}

#define PIECE 256 /* columns that are compared at a time */

bool take_same(const tensor *a, const tensor *b)
{
    const int64_t n_col = cols(a), n_row = a->n_dim > 1 ? rows(a) : 1;
    for (int64_t i = 0; i < n_row; i++) {
        const void *x = tensor_rows(a, i, 1).data, *y = tensor_rows(b, i, 1).data;
        for (int64_t k = 0; k < n_col; k += PIECE) { /* bounded: by the columns and PIECE */
            real p[PIECE], q[PIECE];
            const int64_t n = n_col - k < PIECE ? n_col - k : PIECE;
            a->type->decode(p, x, k, n);
            b->type->decode(q, y, k, n);
            if (memcmp(p, q, (size_t)n * sizeof *p) != 0) /* bounded: n <= PIECE */
                return false;
        }
    }
    return true;
}

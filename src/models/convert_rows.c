/* convert_rows.c - the numbers of one tensor, reordered and re-encoded, a megabyte at a time. */
#include "models/convert.h"

#include <math.h>
#include <string.h>

#define PIECE (1 << 20) /* bytes */

typedef struct rows_job {
    const outgoing *t;
    int64_t n_row, n_col;
    int64_t at, n; /* rows of this piece */
    uint8_t *out;  /* [n] rows of the target's type */
    real *x;       /* the same as numbers; only where types differ */
    uint8_t *in;   /* one row of the source, where it can be read */
    bool same;     /* the source's type is the target's: bytes are moved, not numbers */
    weft_error *err;
} rows_job;

/* Which row of the source is row i: within a head, pair (a_k, b_k) is (k, k + E/2) in halves and
 * (2k, 2k + 1) where neighbours turn together. */
static int64_t row_of(const outgoing *t, int64_t i)
{
    const int64_t E = t->turned;
    if (E == 0)
        return i;
    const int64_t k = i % E, head = i - k;
    if (t->to_adjacent)
        return head + k / 2 + (k % 2 ? E / 2 : 0);
    return head + (k < E / 2 ? 2 * k : 2 * (k - E / 2) + 1);
}

/* A row of the source at an address from which its numbers can be read. */
static const void *aligned_row(const rows_job *j, int64_t i, int64_t n)
{
    const stored *s = j->t->from;
    const uint8_t *row = stored_row(s, i, n);
    const size_t align = s->type->block > 1 ? 1 : (size_t)s->type->bytes;
    if ((uintptr_t)row % align == 0)
        return row;
    return memcpy(j->in, row, dtype_row_bytes(s->type, n));
}

/* What is finite must stay finite, and a block has one scale for all its numbers. */
static weft_status check_range(const rows_job *j, const real *x)
{
    const dtype *type = j->t->type;
    if (type != &dtype_f16 && type->block == 1)
        return WEFT_OK;
    for (int64_t k = 0; k < j->n_col; k++)
        if (type->block > 1 ? !isfinite(x[k]) : isfinite(x[k]) && fabs((double)x[k]) >= 65520)
            return weft_fail(j->err, WEFT_ENUMERIC,
                             "%s: tensor %s holds %g, which %s cannot; take bf16 or f32",
                             j->t->from->path, j->t->from->name, (double)x[k], type->name);
    return WEFT_OK;
}

static weft_status encode(const rows_job *j)
{
    const size_t row = dtype_row_bytes(j->t->type, j->n_col);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < j->n && status == WEFT_OK; i++) {
        const real *x = j->x + i * j->n_col;
        status = check_range(j, x);
        j->t->type->encode(j->out + (size_t)i * row, x, j->n_col);
    }
    return status;
}

static weft_status straight(const rows_job *j)
{
    const outgoing *t = j->t;
    const size_t row = dtype_row_bytes(t->type, j->n_col);
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t from = row_of(t, j->at + i);
        if (j->same)
            memcpy(j->out + (size_t)i * row, stored_row(t->from, from, j->n_col), row);
        else
            t->from->type->decode(j->x + i * j->n_col, aligned_row(j, from, j->n_col), 0, j->n_col);
    }
    return j->same ? WEFT_OK : encode(j);
}

/* Row k of the source holds column k of the target; of it the numbers of this piece's rows are
 * taken. Types with blocks are never moved number by number: bind refuses them there. */
static weft_status flipped(const rows_job *j, real *column)
{
    const outgoing *t = j->t;
    const size_t size = (size_t)t->type->bytes;
    for (int64_t k = 0; k < j->n_col; k++) {
        if (j->same) {
            const uint8_t *from = stored_row(t->from, k, j->n_row) + (size_t)j->at * size;
            for (int64_t i = 0; i < j->n; i++)
                memcpy(j->out + (size_t)(i * j->n_col + k) * size, from + (size_t)i * size, size);
            continue;
        }
        t->from->type->decode(column, aligned_row(j, k, j->n_row), j->at, j->n);
        for (int64_t i = 0; i < j->n; i++)
            j->x[i * j->n_col + k] = column[i];
    }
    return j->same ? WEFT_OK : encode(j);
}

static weft_status each_piece(rows_job *j, int64_t step, real *column, rows_fn *put, void *ud)
{
    const size_t row = dtype_row_bytes(j->t->type, j->n_col);
    weft_status status = WEFT_OK;
    for (j->at = 0; j->at < j->n_row && status == WEFT_OK; j->at += step) {
        j->n = j->n_row - j->at < step ? j->n_row - j->at : step;
        status = j->t->flip ? flipped(j, column) : straight(j);
        if (status == WEFT_OK && !put(ud, j->out, (size_t)j->n * row))
            return WEFT_EIO;
    }
    return status;
}

weft_status outgoing_rows(const outgoing *t, mem *m, rows_fn *put, void *ud, weft_error *err)
{
    if (t->made)
        return put(ud, t->made, (size_t)t->bytes) ? WEFT_OK : WEFT_EIO;
    const bool vector = t->n_dim == 1;
    rows_job j = { .t = t,
                   .n_row = vector ? (t->turned ? t->shape[0] : 1) : t->shape[0],
                   .n_col = vector ? (t->turned ? 1 : t->shape[0]) : t->shape[1],
                   .same = t->from->type == t->type && (!t->flip || t->type->block == 1),
                   .err = err };
    const int64_t fit = PIECE / (j.n_col * (int64_t)sizeof(real));
    const int64_t step = fit < 1 ? 1 : fit < j.n_row ? fit : j.n_row;
    const size_t numbers = (size_t)(step * j.n_col);
    const size_t in = dtype_row_bytes(t->from->type, t->flip ? j.n_row : j.n_col);
    j.out = mem_alloc(m, dtype_row_bytes(t->type, j.n_col) * (size_t)step, "converting", err);
    j.in = mem_alloc(m, in, "converting", err);
    j.x = j.same ? NULL : mem_alloc(m, numbers * sizeof *j.x, "converting", err);
    real *column = mem_alloc(m, (size_t)step * sizeof *column, "converting", err);
    weft_status status = WEFT_ENOMEM;
    if (j.out && j.in && column && (j.same || j.x))
        status = each_piece(&j, step, column, put, ud);
    mem_free(m, column);
    mem_free(m, j.x);
    mem_free(m, j.in);
    mem_free(m, j.out);
    return status;
}

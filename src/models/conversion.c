/* conversion.c - shared by the writers of GGUF and of directories: reads weights, rounds or
 * quantises them on all threads, and writes them to the file in order. */
#include "models/conversion.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *convert_type_name(const convert_report *r)
{
    return r->mix ? r->mix->name : r->type->name;
}

void size_label(int64_t n_parameter, char *to, size_t size)
{
    static const char units[] = "KMBT";
    double x = (double)n_parameter / 1e3;
    int unit = 0;
    for (; x >= 1000 && unit < 3; unit++)
        x /= 1000;
    snprintf(to, size, "%.*f%c", x < 9.95 ? 1 : 0, x, units[unit]);
}

bool convert_join(char *to, size_t size, const char *directory, const char *name)
{
    const int n = snprintf(to, size, "%s%s%s", directory,
                           *directory && directory[strlen(directory) - 1] == '/' ? "" : "/", name);
    return n > 0 && (size_t)n < size;
}

/* "model.gguf" -> "model-00001-of-00003.gguf", if there are several. */
bool convert_part_name(const conversion *c, const char *path, int part, char *to, size_t size)
{
    const size_t length = strlen(path);
    const bool named = length > 5 && strcmp(path + length - 5, ".gguf") == 0;
    const int stem = (int)length - (named ? 5 : 0);
    const int n = c->n_part == 1 ? snprintf(to, size, "%s", path)
                                 : snprintf(to, size, "%.*s-%05d-of-%05d.gguf", stem, path,
                                            part + 1, c->n_part);
    return n > 0 && (size_t)n < size;
}

/* ---- one tensor, reordered and re-encoded, a megabyte at a time ------------------------------ */

#define PIECE (1 << 20) /* bytes */
#define LOOK  256       /* elements of a row that are checked together */

typedef struct rows_job {
    const outgoing *t;
    int64_t n_row, n_col;
    int64_t at, n; /* rows of this piece */
    uint8_t *out;  /* [n] rows of the target's type */
    real *x;       /* the same rows as reals; only if the types differ */
    uint8_t *in;   /* an aligned copy of one source row */
    bool same;     /* same type in source and target: copy bytes, decode nothing */
    pool *pool;
    loss_sums *lost; /* for each row of this piece, or NULL */
    weft_error *err;
} rows_job;

/* The source row of row i. */
static int64_t row_of(const outgoing *t, int64_t i)
{
    return t->permuted_head ? export_row(i, t->permuted_head, t->to_adjacent) : i;
}

/* A source row at an address that is aligned for its type. */
static const void *aligned_row(const rows_job *j, const stored *s, int64_t i, int64_t n)
{
    const size_t align = s->type->block > 1 ? 1 : (size_t)s->type->bytes;
    if (!s->spread && (uintptr_t)stored_row(s, i, n) % align == 0)
        return stored_row(s, i, n);
    stored_copy_row(s, i, n, j->in);
    return j->in;
}

/* Finite values must stay finite, and a block has one scale for all its values. */
static weft_status check_range(const rows_job *j, const real *x)
{
    const dtype *type = j->t->type;
    if (type != &dtype_f16 && type->block == 1)
        return WEFT_OK;
    for (int64_t k = 0; k < j->n_col; k++)
        if (type->block > 1 ? !isfinite(x[k]) : isfinite(x[k]) && fabs((double)x[k]) >= 65520)
            return weft_fail(j->err, WEFT_ENUMERIC,
                             "%s: tensor %s holds %g, which does not fit %s; use bf16 or f32",
                             j->t->from->path, j->t->from->name, (double)x[k], type->name);
    return WEFT_OK;
}

static loss_sums rounding_loss(const dtype *type, const uint8_t *row, const real *x, int64_t n)
{
    real back[LOOK];
    loss_sums s = { 0 };
    for (int64_t k0 = 0; k0 < n; k0 += LOOK) {
        const int64_t count = n - k0 < LOOK ? n - k0 : LOOK;
        type->decode(back, row, k0, count);
        for (int64_t k = 0; k < count; k++) {
            const double d = (double)back[k] - (double)x[k0 + k];
            s.wrong += d * d;
            s.all += (double)x[k0 + k] * (double)x[k0 + k];
        }
    }
    return s;
}

static void encode_row(void *arg, int64_t i)
{
    const rows_job *j = arg;
    const dtype *type = j->t->type;
    uint8_t *row = j->out + (size_t)i * dtype_row_bytes(type, j->n_col);
    const real *x = j->x + i * j->n_col;
    if (j->t->importance && type->fit)
        type->fit(row, x, j->t->importance, j->n_col);
    else
        type->encode(row, x, j->n_col);
    if (j->lost)
        j->lost[i] = rounding_loss(type, row, x, j->n_col);
}

/* Encodes rows on all threads; adds up their losses in row order. */
static weft_status encode_rows(rows_job *j, loss_sums *lost)
{
    for (int64_t i = 0; i < j->n; i++) {
        const weft_status status = check_range(j, j->x + i * j->n_col);
        if (status != WEFT_OK)
            return status;
    }
    pool_run(j->pool, j->n, encode_row, j);
    for (int64_t i = 0; j->lost && i < j->n; i++) {
        lost->wrong += j->lost[i].wrong;
        lost->all += j->lost[i].all;
    }
    return WEFT_OK;
}

static void straight(const rows_job *j)
{
    const outgoing *t = j->t;
    const size_t row = dtype_row_bytes(t->type, j->n_col);
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t from = row_of(t, j->at + i);
        if (j->same)
            stored_copy_row(t->from, from, j->n_col, j->out + (size_t)i * row);
        else
            t->from->type->decode(j->x + i * j->n_col, aligned_row(j, t->from, from, j->n_col), 0,
                                  j->n_col);
        for (int64_t k = 0; t->shift != 0 && k < j->n_col; k++)
            j->x[i * j->n_col + k] += t->shift;
    }
}

/* Row k of the source holds column k of the target; this takes the elements for this piece's rows.
 * Block types are never transposed: bind refuses them. */
static void flipped(const rows_job *j, real *column)
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
        t->from->type->decode(column, aligned_row(j, t->from, k, j->n_row), j->at, j->n);
        for (int64_t i = 0; i < j->n; i++)
            j->x[i * j->n_col + k] = column[i];
    }
}

static weft_status each_piece(rows_job *j, int64_t step, real *column, rows_fn *put, void *ud,
                              loss_sums *lost)
{
    const size_t row = dtype_row_bytes(j->t->type, j->n_col);
    weft_status status = WEFT_OK;
    for (j->at = 0; j->at < j->n_row && status == WEFT_OK; j->at += step) {
        j->n = j->n_row - j->at < step ? j->n_row - j->at : step;
        if (j->t->flip)
            flipped(j, column);
        else
            straight(j);
        if (!j->same)
            status = encode_rows(j, lost);
        if (status == WEFT_OK && !put(ud, j->out, (size_t)j->n * row))
            return WEFT_EIO;
    }
    return status;
}

/* Columns of several matrices in turn, the layout of gpt-oss's experts in a directory: for each of E
 * experts [I, ways O], or [ways O] of vectors. The other matrices follow t in the list, E for each
 * way. One expert is in memory at a time. */
static weft_status weave(rows_job *j, real *line, rows_fn *put, void *ud, loss_sums *lost)
{
    const outgoing *t = j->t;
    const bool vector = t->n_dim == 1;
    const int64_t O = vector ? 1 : t->shape[0], I = vector ? t->shape[0] : t->shape[1];
    for (int64_t e = 0; e < t->stack; e++) {
        for (int64_t at = 0; at < t->ways * O; at++) {
            const stored *from = t[at % t->ways * t->stack + e].from;
            from->type->decode(line, aligned_row(j, from, at / t->ways, I), 0, I);
            for (int64_t i = 0; i < I; i++)
                j->x[vector ? i * t->ways + at : i * j->n_col + at] = line[i];
        }
        const weft_status status = encode_rows(j, lost);
        if (status != WEFT_OK)
            return status;
        if (!put(ud, j->out, (size_t)j->n * dtype_row_bytes(t->type, j->n_col)))
            return WEFT_EIO;
    }
    return WEFT_OK;
}

static weft_status woven_rows(const outgoing *t, pool *p, mem *m, rows_fn *put, void *ud,
                              loss_sums *lost, weft_error *err)
{
    const bool vector = t->n_dim == 1;
    rows_job j = { .t = t, .n_col = t->ways * t->shape[0], .pool = p, .err = err };
    j.n = j.n_row = vector ? 1 : t->shape[1];
    const int64_t I = vector ? t->shape[0] : t->shape[1]; /* bounded: as stored_bytes saw */
    j.out = mem_alloc(m, dtype_row_bytes(t->type, j.n_col) * (size_t)j.n, "converting", err);
    j.in = mem_alloc(m, (size_t)I * sizeof(double), "converting", err);
    j.x = mem_alloc(m, (size_t)(j.n * j.n_col) * sizeof *j.x, "converting", err);
    j.lost = lost ? mem_alloc(m, (size_t)j.n * sizeof *j.lost, "converting", err) : NULL;
    real *line = mem_alloc(m, (size_t)I * sizeof *line, "converting", err);
    weft_status status = WEFT_ENOMEM;
    if (j.out && j.in && j.x && line && (!lost || j.lost))
        status = weave(&j, line, put, ud, lost);
    mem_free(m, line);
    mem_free(m, j.lost);
    mem_free(m, j.x);
    mem_free(m, j.in);
    mem_free(m, j.out);
    return status;
}

weft_status outgoing_rows(const outgoing *t, pool *p, mem *m, rows_fn *put, void *ud,
                          loss_sums *lost, weft_error *err)
{
    if (t->made)
        return put(ud, t->made, (size_t)t->bytes) ? WEFT_OK : WEFT_EIO;
    if (t->woven_in)
        return WEFT_OK;
    if (t->ways)
        return woven_rows(t, p, m, put, ud, lost, err);
    const bool vector = t->n_dim == 1;
    rows_job j = { .t = t,
                   .n_row = vector ? (t->permuted_head ? t->shape[0] : 1) : t->shape[0],
                   .n_col = vector ? (t->permuted_head ? 1 : t->shape[0]) : t->shape[1],
                   .same = t->from->type == t->type && t->shift == 0 &&
                           (!t->flip || (t->type->block == 1 && !t->from->spread)),
                   .pool = p,
                   .err = err };
    const int64_t fit = PIECE / (j.n_col * (int64_t)sizeof(real));
    const int64_t step = fit < 1 ? 1 : fit < j.n_row ? fit : j.n_row;
    const size_t numbers = (size_t)(step * j.n_col);
    const size_t in = dtype_row_bytes(t->from->type, t->flip ? j.n_row : j.n_col);
    j.out = mem_alloc(m, dtype_row_bytes(t->type, j.n_col) * (size_t)step, "converting", err);
    j.in = mem_alloc(m, in, "converting", err);
    j.x = j.same ? NULL : mem_alloc(m, numbers * sizeof *j.x, "converting", err);
    j.lost = lost && !j.same ? mem_alloc(m, (size_t)step * sizeof *j.lost, "converting", err)
                             : NULL;
    real *column = mem_alloc(m, (size_t)step * sizeof *column, "converting", err);
    weft_status status = WEFT_ENOMEM;
    if (j.out && j.in && column && (j.same || (j.x && (!lost || j.lost))))
        status = each_piece(&j, step, column, put, ud, lost);
    mem_free(m, column);
    mem_free(m, j.lost);
    mem_free(m, j.x);
    mem_free(m, j.in);
    mem_free(m, j.out);
    return status;
}

/* ---- all tensors of a part ------------------------------------------------------------------- */

typedef struct counted {
    conversion *c;
    rows_fn *put;
    void *ud;
} counted;

static bool put_counted(void *ud, const void *bytes, size_t n)
{
    counted *k = ud;
    conversion *c = k->c;
    k->put(k->ud, bytes, n);
    c->done += n;
    if (c->o->progress && !c->o->progress(c->o->progress_ud, c->done, c->bytes))
        save_fail(&c->save, WEFT_ESTOPPED, "%s: stopped", c->report->path);
    return c->save.status == WEFT_OK;
}

static void report_tensor(const conversion *c, const outgoing *t, const loss_sums *lost)
{
    const weft_converted_tensor done = {
        .name = t->name,
        .from = t->from ? t->from->type->name : t->type->name,
        .to = t->type->name,
        .numbers = t->bytes / (uint64_t)t->type->bytes * (uint64_t)t->type->block,
        .bytes = t->bytes,
        .error = lost->all > 0 ? sqrt(lost->wrong / lost->all) : 0,
        .instead = t->instead,
    };
    c->o->converted(c->o->converted_ud, &done);
}

void convert_data(conversion *c, int part, rows_fn *put, void *ud)
{
    counted k = { c, put, ud };
    for (int64_t i = 0; i < c->n_tensor && c->save.status == WEFT_OK; i++) {
        if (c->tensor[i].part != part || c->tensor[i].woven_in)
            continue;
        loss_sums lost = { 0 };
        const weft_status status = outgoing_rows(&c->tensor[i], c->pool, &c->host->mem, put_counted,
                                                 &k, c->o->converted ? &lost : NULL, c->err);
        if (status != WEFT_OK && c->save.status == WEFT_OK)
            c->save.status = status;
        if (c->save.status == WEFT_OK && c->o->converted)
            report_tensor(c, &c->tensor[i], &lost);
    }
}

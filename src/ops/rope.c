/* rope: rotary positions. Pair k of a head, (a, b), is rotated by the angle pos * f_k:
 *
 *     a' = a cos - b sin          f_k = theta^(-2k/n_rot),   k = 0 .. n_rot/2 - 1
 *     b' = a sin + b cos
 *
 * so the norm stays, and q_m . k_n depends on m - n only. The architecture defines which columns
 * form a pair (rope_pairing). Models with an extended context change the frequencies, by wavelength
 * lambda = 2 pi / f:
 *
 *   linear   f / s
 *   llama3   f                   lambda < old / high          the three branches of seed and paper
 *            f / s               lambda > old / low
 *            (1-t) f/s + t f     between, t = (old / lambda - low) / (high - low)
 *   yarn     (1-g) f/s + g f     g falls from 1 to 0 between the pairs that rotate beta_fast and
 *                                beta_slow times within the old context; cos and sin are multiplied
 *                                by 0.1 ln s + 1, or by the file's own factor
 *   long     f / d_k             d is one of two lists in the file: for runs of at most the old
 *                                context, and for longer ones
 *
 * Angles are computed in double: at position 100,000 a float has lost the third digit of the angle.
 * A table of all positions would be 64 MiB for 128k positions. So position 65536 i + 256 j + k
 * combines three small ones, cos(x + y) = cos x cos y - sin x sin y, in double, and only the result
 * is rounded. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

struct rope_table {
    rope_spec spec; /* what it was made of */
    rope_pairing pairing;
    int64_t n_pair, d_head, skip, n_ctx;
    double warmth, warm_ctx;
    int64_t old_ctx;       /* runs of a longer context ... */
    const rope_table *far; /* ... use this table instead; NULL: none does */
    double *table[3];      /* (cos, sin) of every pair at the positions 65536 i, 256 j and k */
};

static const double pi = 3.14159265358979323846;

double yarn_magnitude(double factor, double by)
{
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

static double scale_llama3(const rope_spec *s, double f)
{
    const double wave = 2 * pi / f;
    if (wave < s->old_ctx / s->high_freq)
        return f;
    if (wave > s->old_ctx / s->low_freq)
        return f / s->factor;
    const double t = (s->old_ctx / wave - s->low_freq) / (s->high_freq - s->low_freq);
    return (1 - t) * f / s->factor + t * f;
}

/* The pair that makes `turns` rotations within the old context. */
static double yarn_pair(const rope_spec *s, double turns)
{
    const double n = (double)s->n_rot;
    return n * log(s->old_ctx / (turns * 2 * pi)) / (2 * log(s->theta));
}

static double scale_yarn(const rope_spec *s, double f, int64_t k)
{
    const double fast = yarn_pair(s, s->beta_fast), slow = yarn_pair(s, s->beta_slow);
    const double low = fmax(s->even_ramp ? fast : floor(fast), 0);
    double high = fmin(s->even_ramp ? slow : ceil(slow), (double)(s->n_rot - 1));
    if (high == low)
        high += 0.001; /* as in the reference: a step instead of a division by zero */
    const double ramp = fmin(fmax(((double)k - low) / (high - low), 0), 1);
    return ramp * f / s->factor + (1 - ramp) * f;
}

double rope_frequencies(const rope_spec *s, double *freq)
{
    for (int64_t k = 0; k < s->n_rot / 2; k++) {
        double f = pow(s->theta, -2.0 * (double)k / (double)s->n_rot);
        if (s->scaling == ROPE_LINEAR)
            f /= s->factor;
        else if (s->scaling == ROPE_LLAMA3)
            f = scale_llama3(s, f);
        else if (s->scaling == ROPE_YARN)
            f = scale_yarn(s, f, k);
        freq[k] = s->divisor ? f / (double)s->divisor[k] : f;
    }
    if (s->scaling != ROPE_YARN && s->scaling != ROPE_LONG)
        return 1;
    if (s->attn_factor != 0)
        return s->attn_factor;
    if (s->scaling == ROPE_LONG)
        return s->factor > 1 ? sqrt(1 + log(s->factor) / log(s->old_ctx)) : 1;
    return s->mscale != 0 && s->mscale_all != 0
               ? yarn_magnitude(s->factor, s->mscale) / yarn_magnitude(s->factor, s->mscale_all)
               : yarn_magnitude(s->factor, 1);
}

static double *turns(arena *store, int64_t n, int64_t step, const double *freq, int64_t n_pair,
                     double magnitude, weft_error *err)
{
    double *t = arena_alloc(store, (size_t)n * (size_t)n_pair * 2 * sizeof *t, err);
    for (int64_t p = 0; t && p < n; p++)
        for (int64_t k = 0; k < n_pair; k++) {
            const double angle = (double)(p * step) * freq[k];
            t[(p * n_pair + k) * 2] = magnitude * cos(angle);
            t[(p * n_pair + k) * 2 + 1] = magnitude * sin(angle);
        }
    return t;
}

static rope_table *table_new(const rope_spec *s, int64_t n_ctx, arena *store, weft_error *err)
{
    assert(s->n_rot % 2 == 0 && s->skip + s->n_rot <= s->d_head && s->d_head <= MAX_HEAD);
    assert(s->warmth == 0 || s->n_rot == s->d_head);
    double freq[MAX_HEAD / 2];
    const double magnitude = rope_frequencies(s, freq);
    rope_table *t = arena_alloc(store, sizeof *t, err);
    if (!t)
        return NULL;
    *t = (rope_table){ .spec = *s,
                       .pairing = s->pairing,
                       .n_pair = s->n_rot / 2,
                       .d_head = s->d_head,
                       .skip = s->skip,
                       .n_ctx = n_ctx,
                       .warmth = s->warmth,
                       .warm_ctx = s->warm_ctx };
    t->table[0] = turns(store, (n_ctx >> 16) + 1, 1 << 16, freq, t->n_pair, 1, err);
    t->table[1] = turns(store, 256, 1 << 8, freq, t->n_pair, 1, err);
    t->table[2] = turns(store, 256, 1, freq, t->n_pair, magnitude, err);
    return t->table[0] && t->table[1] && t->table[2] ? t : NULL;
}

const rope_table *rope_new(const rope_spec *s, int64_t n_ctx, arena *store, weft_error *err)
{
    rope_table *t = table_new(s, n_ctx, store, err);
    if (!t || !s->far_divisor)
        return t;
    rope_spec beyond = *s;
    beyond.divisor = s->far_divisor;
    t->old_ctx = (int64_t)s->old_ctx;
    t->far = table_new(&beyond, n_ctx, store, err);
    return t->far ? t : NULL;
}

static const rope_table *table_for(const run *r, const rope_table *t)
{
    return t->far && (r->n_ctx ? r->n_ctx : t->n_ctx) > t->old_ctx ? t->far : t;
}

const rope_spec *rope_spec_in(const run *r, const rope_table *t)
{
    return &table_for(r, t)->spec;
}

/* (cos, sin) of every pair at position pos. */
static void rotation_at(const rope_table *t, int64_t pos, real *rotation)
{
    const int64_t row = 2 * t->n_pair;
    const double *x = t->table[0] + (pos >> 16) * row, *y = t->table[1] + (pos >> 8 & 255) * row;
    const double *z = t->table[2] + (pos & 255) * row;
    const double warm = t->warmth != 0 ? 1 + t->warmth * log(1 + floor((double)pos / t->warm_ctx))
                                       : 1;
    for (int64_t k = 0; k < row; k += 2) {
        const double c = x[k] * y[k] - x[k + 1] * y[k + 1];
        const double s = x[k + 1] * y[k] + x[k] * y[k + 1];
        rotation[k] = (real)(warm * (c * z[k] - s * z[k + 1]));
        rotation[k + 1] = (real)(warm * (s * z[k] + c * z[k + 1]));
    }
}

/* One head. */
static void rotate_head(const run *r, const rope_table *t, const real *rotation, real *y,
                        const real *x)
{
    r->kern->rope(y + t->skip, x + t->skip, rotation, t->n_pair, t->pairing);
    for (int64_t k = 0; k < t->d_head; k++)
        if (k < t->skip || k >= t->skip + 2 * t->n_pair)
            y[k] = x[k];
}

static void rope_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const rope_table *t = table_for(r, n->arg);
    real rotation[MAX_HEAD];
    for (int64_t i = i0; i < i1; i++) {
        const int64_t pos = r->at.batch->row[i].pos;
        assert(pos >= 0 && pos < t->n_ctx);
        rotation_at(t, pos, rotation);
        for (int64_t c = 0; c < cols(n->out); c += t->d_head)
            rotate_head(r, t, rotation, row(n->out, i) + c, row(n->in[0], i) + c);
    }
}

static void rope_forward(run *r, const node *n)
{
    parallel_rows(r, n, rope_rows);
}

/* The gradient is rotated back. */
static void rope_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const rope_table *t = table_for(r, n->arg);
    const tensor *x = n->in[0];
    real rotation[MAX_HEAD], back[MAX_HEAD];
    for (int64_t i = i0; i < i1; i++) {
        rotation_at(t, r->at.batch->row[i].pos, rotation);
        for (int64_t k = 1; k < 2 * t->n_pair; k += 2)
            rotation[k] = -rotation[k];
        for (int64_t c = 0; c < cols(x); c += t->d_head) {
            rotate_head(r, t, rotation, back, grad_row(n->out, i) + c);
            for (int64_t k = 0; k < t->d_head; k++)
                grad_put(grad_row(x, i) + c + k, x->grad_written, back[k]);
        }
    }
}

static void rope_backward(run *r, const node *n)
{
    parallel_rows(r, n, rope_back_rows);
}

static cost rope_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 3);
}

extern const op rope_op;
const op rope_op = { "rope", "(a, b) = (a cos t - b sin t, a sin t + b cos t),  t = pos f",
                     rope_forward, rope_backward, rope_cost };

tensor *rope(run *r, tensor *x, const rope_table *t)
{
    assert(cols(x) % t->d_head == 0);
    node n = { .op = &rope_op, .in = { x }, .arg = t };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}

/* bind_spread.c - weights that a Hugging Face directory does not store row by row.
 *
 *     woven     columns of several matrices [O, I] in turn: [n, I, ways O]
 *     mxfp4     blocks [n, ways O, I / 32, 16] and scales [n, ways O, I / 32], two tensors of bytes
 *     fp8       [O, I] of E4M3, and a factor for every 128 x 128 of them
 *
 * Each becomes a stored tensor of an ordinary type whose rows are put together when they are read:
 * once for a model that runs, piece by piece for a conversion. */
#include "kernels/half.h"
#include "models/bind.h"

#include <string.h>

/* A tensor of w's shape, whose rows s knows. */
static const stored *spread_tensor(bind *b, const want *w, const stored *from, const dtype *type,
                                   const stored_spread *s)
{
    stored *t = bind_alloc(b, 1, sizeof *t);
    stored_spread *own = bind_alloc(b, 1, sizeof *own);
    if (!t || !own)
        return NULL;
    *own = *s;
    *t = (stored){ .name = from->name, .type = type, .path = from->path, .spread = own };
    t->n_dim = w->n_dim;
    memcpy(t->shape, w->shape, sizeof t->shape);
    if (w->whole)
        t->shape[0] = w->whole_rows;
    if (w->hf_flip) {
        t->shape[0] = w->shape[1];
        t->shape[1] = w->shape[0];
    }
    if (stored_bytes(type, t->n_dim, t->shape, &t->bytes))
        return t;
    bind_misfit(b, from, WEFT_EFORMAT, "tensor %s: rows of %lld numbers, expected a multiple of %d",
                from->name, (long long)t->shape[t->n_dim - 1], type->block);
    return NULL;
}

/* ---- woven ----------------------------------------------------------------------------------- */

static void woven_row(const stored *t, int64_t i, int64_t n, uint8_t *to)
{
    const stored_spread *s = t->spread;
    const size_t size = (size_t)t->type->bytes;
    const uint8_t *from = s->data + (size_t)(i * s->row_step) * size;
    for (int64_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * size, from + (size_t)(k * s->col_step) * size, size);
}

/* bounded: the file has stack tensors of I x ways O numbers, as bind_shape_is saw */
static const stored *woven(bind *b, const want *w, const stored *t)
{
    const int64_t O = w->shape[0], I = w->n_dim > 1 ? w->shape[1] : 1;
    const int64_t first = (w->part - 1) * I * w->ways * O + w->way;
    return spread_tensor(b, w, t, t->type,
                         &(stored_spread){ .row = woven_row,
                                           .data = t->data + (size_t)first * (size_t)t->type->bytes,
                                           .row_step = w->ways,
                                           .col_step = w->n_dim > 1 ? w->ways * O : w->ways });
}

/* ---- mxfp4 ----------------------------------------------------------------------------------- */

enum { BLOCK = 32, HALF = 16 };

/* A directory has neighbours in a byte, the lower half first; GGUF has numbers k and k + 16. */
static void mxfp4_row(const stored *t, int64_t i, int64_t n, uint8_t *to)
{
    const stored_spread *s = t->spread;
    const int64_t n_block = n / BLOCK;
    const uint8_t *from = s->data + (size_t)(i * s->row_step * n_block * HALF);
    const uint8_t *scale = s->scale + (size_t)(i * s->row_step * n_block);
    for (int64_t k = 0; k < n_block; k++, from += HALF) {
        *to++ = scale[k];
        for (int j = 0; j < HALF; j++) {
            const int low = j % 2 * 4, at = j / 2;
            *to++ = (uint8_t)((from[at] >> low & 15) | (from[HALF / 2 + at] >> low & 15) << 4);
        }
    }
}

const stored *bind_packed(bind *b, const want *w)
{
    char name[FILE_NAME_BYTES], beside[FILE_NAME_BYTES];
    const stored *blocks = bind_look_beside(b, w, "_blocks", name);
    if (!blocks || w->n_dim != 2)
        return NULL;
    const stored *scales = bind_look_beside(b, w, "_scales", beside);
    const int64_t O = w->ways * w->shape[0], n_block = w->shape[1] / BLOCK;
    const int64_t shape[] = { w->stack, O, n_block, HALF };
    if (!scales)
        bind_misfit(b, blocks, WEFT_EFORMAT, "tensor %s is missing, the scales of %s", beside,
                    name);
    if (!scales || !bind_shape_is(b, blocks, name, 4, shape) ||
        !bind_shape_is(b, scales, beside, 3, shape))
        return NULL;
    if (strcmp(blocks->type->name, "u8") != 0 || strcmp(scales->type->name, "u8") != 0) {
        bind_misfit(b, blocks, WEFT_EFORMAT, "tensor %s is %s and its scales are %s, expected u8",
                    name, blocks->type->name, scales->type->name);
        return NULL;
    }
    b->used[blocks - b->m->file.tensor] = b->used[scales - b->m->file.tensor] = true;
    /* bounded: the tensor has stack x ways O rows of n_block, as bind_shape_is saw */
    const int64_t first = ((w->part - 1) * O + w->way) * n_block;
    return spread_tensor(b, w, blocks, &dtype_mxfp4,
                         &(stored_spread){ .row = mxfp4_row,
                                           .data = blocks->data + (size_t)(first * HALF),
                                           .scale = scales->data + (size_t)first,
                                           .row_step = w->ways });
}

/* ---- fp8 ------------------------------------------------------------------------------------- */

/* E4M3: a sign, four bits of exponent, three of mantissa; no infinities, one NaN. */
static float e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 127) == 127)
        return NAN;
    const float size = exponent ? ldexpf((float)(8 + mantissa), exponent - 10)
                                : ldexpf((float)mantissa, -9);
    return code & 128 ? -size : size;
}

static void fp8_row(const stored *t, int64_t i, int64_t n, uint8_t *to)
{
    const stored_spread *s = t->spread;
    const int64_t row = s->row0 + i;
    const float *factor = s->factor + row / s->block[0] * s->factor_cols;
    for (int64_t k = 0; k < n; k++) {
        const uint16_t x = bf16_encode(e4m3(s->data[row * n + k]) * factor[k / s->block[1]]);
        memcpy(to + 2 * k, &x, sizeof x);
    }
}

/* The factors as floats; NULL after an error. */
static const float *factors(bind *b, const stored *t, int64_t n)
{
    const size_t size = (size_t)t->type->bytes;
    float *x = bind_alloc(b, n, sizeof *x);
    for (int64_t i = 0; x && i < n; i++) {
        uint8_t aligned[sizeof(double)];
        real value;
        memcpy(aligned, t->data + (size_t)i * size, size);
        t->type->decode(&value, aligned, 0, 1);
        x[i] = (float)value;
        if (!isfinite(x[i])) {
            bind_misfit(b, t, WEFT_EFORMAT, "tensor %s holds %g, expected finite factors", t->name,
                        (double)x[i]);
            return NULL;
        }
    }
    return x;
}

/* quantization_config.weight_block_size: rows and columns that share a factor. */
static int64_t fp8_block(bind *b, int d)
{
    static const char *const keys[] = { "quantization_config.weight_block_size.0",
                                        "quantization_config.weight_block_size.1" };
    const meta *m = container_meta(b->m->config, keys[d]);
    if (!m)
        return 128;
    if (m->type == META_INT && m->integer >= 1 && m->integer <= 65536)
        return m->integer;
    bind_fail(b, WEFT_EFORMAT, "%s is %g; expected an integer from 1 to 65536", keys[d], m->number);
    return 128;
}

static const stored *fp8(bind *b, const want *w, const stored *t, const char *name)
{
    char beside[FILE_NAME_BYTES];
    if (w->n_dim != 2 || t->n_dim != 2 || w->as_real) {
        bind_misfit(b, t, WEFT_EUNSUPPORTED, "tensor %s is f8_e4m3; expected that of matrices only",
                    name);
        return NULL;
    }
    const stored *scale = bind_look_beside(b, w, ".weight_scale_inv", beside);
    stored_spread s = { .row = fp8_row, .data = t->data };
    s.block[0] = fp8_block(b, 0);
    s.block[1] = fp8_block(b, 1);
    s.factor_cols = (t->shape[1] + s.block[1] - 1) / s.block[1];
    const int64_t shape[] = { (t->shape[0] + s.block[0] - 1) / s.block[0], s.factor_cols };
    if (!scale)
        bind_misfit(b, t, WEFT_EFORMAT,
                    "tensor %s is missing, the scales of %s; expected one for every %lld x %lld "
                    "weights; use the BF16 model",
                    beside, name, (long long)s.block[0], (long long)s.block[1]);
    if (!scale || !bind_shape_is(b, scale, beside, 2, shape))
        return NULL;
    if (!scale->type->decode || scale->type->block != 1) {
        bind_misfit(b, scale, WEFT_EFORMAT, "tensor %s is %s, expected f32, f16 or bf16", beside,
                    scale->type->name);
        return NULL;
    }
    b->used[scale - b->m->file.tensor] = true;
    s.factor = factors(b, scale, shape[0] * shape[1]); /* bounded: fewer than the weights */
    return s.factor ? spread_tensor(b, w, t, &dtype_bf16, &s) : NULL;
}

const stored *bind_spread(bind *b, const want *w, const stored *t, const char *name)
{
    if (t->type == &dtype_f8)
        return fp8(b, w, t, name);
    return w->ways && t->type->decode && t->type->block == 1 ? woven(b, w, t) : NULL;
}

/* dtype.c - the table of formats; decoding and encoding of the float ones. */
#include "tensor/dtype.h"

#include "kernels/half.h"

static const real *f32_decode(real *to, const void *row, int64_t k0, int64_t n)
{
    const float *x = (const float *)row + k0;
    for (int64_t k = 0; k < n; k++)
        to[k] = x[k];
    return to;
}

static void f32_encode(void *row, const real *from, int64_t n)
{
    float *to = row;
    for (int64_t k = 0; k < n; k++)
        to[k] = (float)from[k];
}

/* Values that are already real are not copied. */
static const real *real_tile(real *to, const void *row, int64_t k0, int64_t n)
{
    (void)to, (void)n;
    return (const real *)row + k0;
}

#ifdef WEFT_REAL_DOUBLE
#define f32_tile f32_decode

static const real *f64_decode(real *to, const void *row, int64_t k0, int64_t n)
{
    return memcpy(to, (const real *)row + k0, (size_t)n * sizeof *to);
}

static void f64_encode(void *row, const real *from, int64_t n)
{
    memcpy(row, from, (size_t)n * sizeof *from);
}

const dtype dtype_f64 = { "f64",      "F64",     28,         1,    8,         TILE_OTHER,
                          f64_decode, real_tile, f64_encode, NULL, I8_SCALED, NULL };
#else
#define f32_tile real_tile
#endif

static const real *f16_decode_row(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint16_t *h = (const uint16_t *)row + k0;
    for (int64_t k = 0; k < n; k++)
        to[k] = f16_decode(h[k]);
    return to;
}

static void f16_encode_row(void *row, const real *from, int64_t n)
{
    uint16_t *to = row;
    for (int64_t k = 0; k < n; k++)
        to[k] = f16_encode((float)from[k]);
}

static const real *bf16_decode_row(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint16_t *h = (const uint16_t *)row + k0;
    for (int64_t k = 0; k < n; k++)
        to[k] = bf16_decode(h[k]);
    return to;
}

static void bf16_encode_row(void *row, const real *from, int64_t n)
{
    uint16_t *to = row;
    for (int64_t k = 0; k < n; k++)
        to[k] = bf16_encode((float)from[k]);
}

const dtype dtype_f32 = { "f32",      "F32",    0,          1,    4,         TILE_F32,
                          f32_decode, f32_tile, f32_encode, NULL, I8_SCALED, NULL };
const dtype dtype_f16 = {
    "f16",          "F16",          1,    1,         2,   TILE_F16, f16_decode_row,
    f16_decode_row, f16_encode_row, NULL, I8_SCALED, NULL
};
const dtype dtype_bf16 = {
    "bf16",          "BF16",          30,   1,         2,   TILE_BF16, bf16_decode_row,
    bf16_decode_row, bf16_encode_row, NULL, I8_SCALED, NULL
};

static const real *rounded_tile(real *to, const void *row, int64_t k0, int64_t n)
{
    const real *x = (const real *)row + k0;
    for (int64_t k = 0; k < n; k++)
        to[k] = bf16_decode(bf16_encode((float)x[k]));
    return to;
}

const dtype dtype_rounded = { .name = "rounded",
                              .gguf = -1,
                              .block = 1,
                              .bytes = sizeof(real),
                              .kind = TILE_ROUNDED,
                              .tile = rounded_tile };

const dtype dtype_i32 = { .name = "i32", .safetensors = "I32", .gguf = 26, .block = 1, .bytes = 4 };
const dtype dtype_f8 = { /* E4M3: weights only together with their scales, see bind_spread.c */
                         .name = "f8_e4m3",
                         .safetensors = "F8_E4M3",
                         .gguf = -1,
                         .block = 1,
                         .bytes = 1
};
static const dtype dtype_i8 = {
    .name = "i8", .safetensors = "I8", .gguf = 24, .block = 1, .bytes = 1
};
static const dtype dtype_i64 = {
    .name = "i64", .safetensors = "I64", .gguf = 27, .block = 1, .bytes = 8
};
static const dtype dtype_u8 = {
    .name = "u8", .safetensors = "U8", .gguf = -1, .block = 1, .bytes = 1
};
static const dtype dtype_bool = {
    .name = "bool", .safetensors = "BOOL", .gguf = -1, .block = 1, .bytes = 1
};

static const dtype *const table[] = {
    /* weights */
    &dtype_f32,
    &dtype_f16,
    &dtype_bf16,
    &dtype_q8_0,
    &dtype_q4_0,
    &dtype_q4_1,
    &dtype_q5_0,
    &dtype_q5_1,
    &dtype_q2_k,
    &dtype_q3_k,
    &dtype_q4_k,
    &dtype_q5_k,
    &dtype_q6_k,
    &dtype_mxfp4,
    &dtype_iq4_nl,
    &dtype_iq4_xs,
    &dtype_iq3_s,
    &dtype_iq3_xxs,
    &dtype_iq2_s,
    &dtype_iq2_xs,
    &dtype_iq2_xxs,
    /* other types in files */
    &dtype_f8,
    &dtype_i8,
    &dtype_i32,
    &dtype_i64,
    &dtype_u8,
    &dtype_bool,
};
#define N_TYPE (sizeof table / sizeof *table)

const dtype *dtype_by_name(const char *name)
{
    for (size_t i = 0; i < N_TYPE; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

const dtype *dtype_by_gguf(uint32_t number)
{
    for (size_t i = 0; i < N_TYPE; i++)
        if (table[i]->gguf >= 0 && (uint32_t)table[i]->gguf == number)
            return table[i];
    return NULL;
}

const dtype *dtype_by_safetensors(const char *name)
{
    for (size_t i = 0; i < N_TYPE; i++)
        if (table[i]->safetensors && strcmp(table[i]->safetensors, name) == 0)
            return table[i];
    return NULL;
}

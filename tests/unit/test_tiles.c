/* test_tiles.c - class bf16. The emulation of tile registers gives the bits of the instructions,
 * where they exist; products by tiles, by emulated tiles and by vectors give the bits of the
 * definition in kernels.h, for any rows, cuts and weights. */
#include "support.h"

#include "base/cpu.h"
#include "kernels/tile.h"
#include "tensor/dtype.h"

#include <inttypes.h>
#include <math.h>

/* ---- tiles ----------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

enum {
    NEAR_ONE,
    ANY_BITS,
    SMALL,
    PRODUCTS_OF_SUBNORMAL_SIZE,
    LARGE,
    INFINITE,
    SUBNORMAL,
    WHOLE,
    TIES,
    N_KIND
};

/* A bf16 of a kind. */
static uint16_t number(int kind)
{
    uint64_t r = next();
    const uint64_t sign = (r & 1) << 15, mantissa = r >> 40 & 127;
    r = r >> 1 & 0xFFFFFF;
    switch (kind) {
    case NEAR_ONE:
        return (uint16_t)(sign | (120 + r % 12) << 7 | mantissa);
    case SMALL:
        return (uint16_t)(sign | r % 80 << 7 | mantissa);
    case PRODUCTS_OF_SUBNORMAL_SIZE:
        return (uint16_t)(sign | (57 + r % 12) << 7 | mantissa);
    case LARGE:
        return (uint16_t)(sign | (180 + r % 60) << 7 | mantissa);
    case INFINITE:
        return (uint16_t)(sign | (r % 5 == 0 ? 255u << 7 : (120 + r % 12) << 7 | mantissa));
    case SUBNORMAL:
        return (uint16_t)(sign | (r % 3 == 0 ? 0 : r % 128 << 7) | mantissa);
    case WHOLE:
        return bf16_encode((float)((int)(r % 255) - 127));
    case TIES:
        return (uint16_t)(sign | (127 + r % 3 * 12) << 7 | (mantissa & 1));
    default:
        return (uint16_t)r;
    }
}

#if defined(__x86_64__)
static bool same_bits(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (float_bits(a[i]) != float_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* FNV-1a over the results of tiles of each kind, by the instructions of a Sapphire Rapids: what the
 * emulation is compared with on processors that have none. */
static const uint64_t of_instructions[N_KIND] = {
    0x3056A8FD34528658, 0x42B53F02874B83D0, 0x5741E51813C53664,
    0xCEE7241AB04B2931, 0xE2911F57D2E32800, 0x2415DA74C2632800,
    0x827DAA5D691ECE8E, 0x1D7360DD4BEE218A, 0x04BB5C863CE29836,
};

static uint64_t hash_floats(uint64_t hash, const float *x, int n)
{
    hash ^= 14695981039346656037u;
    for (int i = 0; i < n; i++)
        hash = (hash ^ (isnan(x[i]) ? 0x7FC00000u : float_bits(x[i]))) * 1099511628211u;
    return hash;
}

static void emulation_is_exact(void **state)
{
    (void)state;
    _Alignas(64) uint16_t a[512], b[512];
    _Alignas(64) float c[256], soft[256];
    _Alignas(64) float hard[256] = { 0 }; /* MemorySanitizer does not see what tiles store */
    const bool tiles = cpu_detect().amx_bf16 && cpu_tiles();
    const int n_tile = tiles && !quick() ? 9000 : 900, n_hashed = 900;
    uint64_t hash[N_KIND] = { 0 };
    seed = 88172645463325252u;
    for (int t = 0; t < n_tile; t++) {
        for (int i = 0; i < 512; i++) {
            a[i] = number(t % N_KIND);
            b[i] = number(t % N_KIND);
        }
        for (int i = 0; i < 256; i++)
            c[i] = t % 2 ? 0 : bits_float((uint32_t)number(t % N_KIND) << 16 | (next() & 0xFFFF));
        emulated_begin();
        emulated_load(0, c, 64);
        emulated_load(1, a, 64);
        emulated_load(2, b, 64);
        emulated_multiply(0, 1, 2);
        emulated_store(0, soft, 64);
        emulated_end();
        if (t < n_hashed)
            hash[t % N_KIND] = hash_floats(hash[t % N_KIND], soft, 256);
        if (!tiles)
            continue;
        amx_begin();
        amx_load(0, c, 64);
        amx_load(1, a, 64);
        amx_load(2, b, 64);
        amx_multiply(0, 1, 2);
        amx_store(0, hard, 64);
        amx_end();
        if (!same_bits(hard, soft, 256))
            print_message("tile %d, kind %d\n", t, t % N_KIND);
        assert_true(same_bits(hard, soft, 256));
    }
    for (int k = 0; k < N_KIND; k++) {
        if (hash[k] != of_instructions[k])
            print_message("kind %d: 0x%016" PRIX64 "\n", k, hash[k]);
        assert_true(hash[k] == of_instructions[k]);
    }
}
#endif

/* ---- products -------------------------------------------------------------------------------- */

typedef enum right_kind { ROWS_OF_W, PANELS_OF_W, W_AS_STORED, GRADIENT, N_SIDE } right_kind;

typedef struct shape {
    int64_t N, J, C;
} shape;

typedef struct problem {
    shape s;
    right_kind side;
    const dtype *type; /* of the right side */
    bool add, biased;
    float *a, *b;       /* both sides, rounded: [N, J] and [J, C] */
    real *x, *y, *bias; /* y before; rows of x, or columns for a gradient */
    uint8_t *w, *panels;
    size_t row_bytes;
} problem;

/* Numbers of which some products are subnormal. */
static void fill(real *to, int64_t n, int kind)
{
    for (int64_t k = 0; k < n; k++)
        to[k] = (real)bf16_decode(number(kind)) * (real)(1 + (double)(next() % 97) / 4096);
}

static void problem_init(problem *p, shape s, right_kind side, const dtype *type, int kind)
{
    const bool rows_are_columns = side == ROWS_OF_W || side == PANELS_OF_W;
    const int64_t n = rows_are_columns ? s.C : s.J, width = rows_are_columns ? s.J : s.C;
    *p = (problem){ .s = s, .side = side, .type = type, .row_bytes = dtype_row_bytes(type, width) };
    p->x = malloc((size_t)(s.N * s.J + s.N) * sizeof *p->x);
    memset(p->x + s.N * s.J, 0xFF, (size_t)s.N * sizeof *p->x); /* NaN, which nobody may read */
    p->y = malloc((size_t)(s.N * s.C) * sizeof *p->y);
    p->bias = malloc((size_t)s.C * sizeof *p->bias);
    p->w = malloc((size_t)(n + 1) * p->row_bytes);
    memset(p->w + (size_t)n * p->row_bytes, 0xFF, p->row_bytes);
    fill(p->x, s.N * s.J, kind);
    fill(p->y, s.N * s.C, kind);
    fill(p->bias, s.C, kind);
    p->a = malloc((size_t)(s.N * s.J) * sizeof *p->a);
    p->b = malloc((size_t)(s.J * s.C) * sizeof *p->b);
    for (int64_t k = 0; k < s.N * s.J; k++) {
        const int64_t at = side == GRADIENT ? k % s.J * s.N + k / s.J : k;
        p->a[k] = bf16_decode(bf16_encode((float)p->x[at]));
    }
    real *row = malloc((size_t)width * sizeof *row);
    for (int64_t i = 0; i < n; i++) {
        fill(row, width, kind);
        type->encode(p->w + (size_t)i * p->row_bytes, row, width);
        type->decode(row, p->w + (size_t)i * p->row_bytes, 0, width);
        for (int64_t k = 0; k < width; k++)
            p->b[rows_are_columns ? k * s.C + i : i * s.C + k] = bf16_decode(
                bf16_encode((float)row[k]));
    }
    free(row);
}

static void problem_free(problem *p)
{
    free(p->x), free(p->y), free(p->bias), free(p->w), free(p->panels);
    free(p->a), free(p->b);
}

static float right(const problem *p, int64_t j, int64_t c)
{
    return p->b[j * p->s.C + c];
}

static float left(const problem *p, int64_t i, int64_t j)
{
    return p->a[i * p->s.J + j];
}

/* The definition. With `chains` 1 or another `group`, what it is not. */
static real *defined(const problem *p, int chains, int64_t group)
{
    const shape s = p->s;
    real *y = malloc((size_t)(s.N * s.C) * sizeof *y);
    float *b = malloc((size_t)(s.J + group) * sizeof *b);
    for (int64_t c = 0; c < s.C; c++) {
        for (int64_t j = 0; j < s.J + group; j++)
            b[j] = j < s.J ? right(p, j, c) : 0;
        for (int64_t i = 0; i < s.N; i++) {
            float sum = p->add ? (float)p->y[i * s.C + c] : 0;
            for (int64_t j0 = 0; j0 < s.J; j0 += group) {
                float chain[2] = { 0, 0 };
                for (int64_t j = j0; j < j0 + group; j++)
                    chain[j % chains] = flushed_fma(j < s.J ? left(p, i, j) : 0, b[j],
                                                    chain[j % chains]);
                sum = flushed_fma(1, sum, flushed_fma(1, chain[0], chain[1]));
            }
            y[i * s.C + c] = (real)(p->biased ? flushed_fma(1, sum, (float)p->bias[c]) : sum);
        }
    }
    free(b);
    return y;
}

static row_set right_side(problem *p, const kernels *t)
{
    const bool rows_are_columns = p->side == ROWS_OF_W || p->side == PANELS_OF_W;
    row_set w = dtype_rows(p->side == GRADIENT ? &dtype_rounded : p->type, t, p->w,
                           rows_are_columns ? p->s.J : p->s.C);
    w.bias = p->biased ? p->bias : NULL;
    if (p->side != PANELS_OF_W || !t->pack_panel)
        return w;
    free(p->panels);
    p->panels = aligned_alloc(64, ((size_t)(p->s.C + 15) * p->row_bytes + 127) / 64 * 64);
    for (int64_t o = 0; o < p->s.C; o += PANEL_ROWS)
        t->pack_panel(p->panels + (size_t)o * p->row_bytes, &w, o, min64(PANEL_ROWS, p->s.C - o), 0,
                      p->s.J / w.block);
    w.panels = p->panels;
    return w;
}

/* In `parts` calls by columns and by rows. */
static real *computed(problem *p, const kernels *t, int64_t parts)
{
    const shape s = p->s;
    const bool gradient = p->side == GRADIENT;
    const int64_t blocks = row_blocks(s.N, t->rows_bf16), panels = row_blocks(s.C, 16);
    const row_set w = right_side(p, t);
    real *y = malloc((size_t)(s.N * s.C) * sizeof *y);
    void *packed = aligned_alloc(64, pack_bf16_bytes(s.N, s.J) + 64);
    memcpy(y, p->y, (size_t)(s.N * s.C) * sizeof *y);
    for (int64_t k = 0; k < parts; k++)
        t->pack_bf16(packed, p->x, gradient ? 1 : s.J, gradient ? s.N : 1, s.N, s.J,
                     blocks * k / parts, blocks * (k + 1) / parts);
    for (int64_t a = 0; a < parts; a++)
        for (int64_t b = 0; b < parts; b++)
            t->product_bf16(y, s.C, p->add, packed, s.N, s.J, &w,
                            p->side == ROWS_OF_W || p->side == PANELS_OF_W, blocks * a / parts,
                            blocks * (a + 1) / parts, panels * b / parts * 16,
                            min64(panels * (b + 1) / parts * 16, s.C));
    free(packed);
    return y;
}

/* The scalar table has no fused multiply-add, and NEON does not flush subnormals: they are near. */
static bool has_the_order(const kernels *t)
{
    return strcmp(t->name, "scalar") != 0 && strncmp(t->name, "neon", 4) != 0;
}

/* The first row and the last. */
static void check_near(const problem *p, const real *y, const real *want)
{
    for (int64_t i = 0; i<p->s.N; i += p->s.N> 1 ? p->s.N - 1 : 1)
        for (int64_t c = 0; c < p->s.C; c++) {
            const int64_t at = i * p->s.C + c;
            double size = fabs((double)p->y[at]) + fabs((double)p->bias[c]);
            for (int64_t j = 0; j < p->s.J; j++)
                size += fabs((double)left(p, i, j) * (double)right(p, j, c));
            assert_true(fabs((double)(y[at] - want[at])) <=
                        (double)(p->s.J + 4) * (0x1p-23 * size + 0x1p-124));
        }
}

static void check_problem(problem *p)
{
    const size_t bytes = (size_t)(p->s.N * p->s.C) * sizeof *p->y;
    real *want = defined(p, 2, TILE_TERMS);
    for (int t = 0; kernels_table(t); t++)
        for (int64_t parts = 1; parts <= 3; parts += 2) {
            if (p->s.N <= 8 && parts > 1)
                continue; /* few rows are not cut */
            real *y = computed(p, kernels_table(t), parts);
            const bool same = memcmp(y, want, bytes) == 0;
            if (has_the_order(kernels_table(t)) && !same)
                print_message("%s: %lld x %lld x %lld, side %d, %s, add %d, %lld parts\n",
                              kernels_table(t)->name, (long long)p->s.N, (long long)p->s.J,
                              (long long)p->s.C, (int)p->side, p->type->name, p->add,
                              (long long)parts);
            if (has_the_order(kernels_table(t)))
                assert_true(same);
            else
                check_near(p, y, want);
            free(y);
        }
    free(want);
}

static void every_table_has_the_order_of_tiles(void **state)
{
    (void)state;
    const shape shapes[] = { { 1, 64, 40 },   { 2, 34, 17 },   { 5, 130, 33 }, { 8, 512, 64 },
                             { 9, 32, 16 },   { 16, 31, 15 },  { 17, 33, 1 },  { 33, 100, 50 },
                             { 40, 546, 65 }, { 600, 40, 20 }, { 12, 64, 150 } };
    const int kinds[] = { NEAR_ONE, PRODUCTS_OF_SUBNORMAL_SIZE, SUBNORMAL };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int side = 0; side < N_SIDE; side++)
            for (int kind = 0; kind < 3; kind++) {
                shape s = shapes[k];
                problem p;
                if (side == PANELS_OF_W)
                    s.J = (s.J + 1) / 2 * 2; /* a panel holds pairs */
                problem_init(&p, s, (right_kind)side, side == GRADIENT ? &dtype_real : &dtype_bf16,
                             kinds[kind]);
                p.add = side >= W_AS_STORED && k % 2;
                p.biased = side < W_AS_STORED && k % 2;
                check_problem(&p);
                problem_free(&p);
            }
}

static void other_weights_are_rounded(void **state)
{
    (void)state;
    const dtype *const types[] = { &dtype_f32,   &dtype_f16,    &dtype_q8_0,  &dtype_q4_0,
                                   &dtype_q4_1,  &dtype_q5_0,   &dtype_q5_1,  &dtype_q2_k,
                                   &dtype_q3_k,  &dtype_q4_k,   &dtype_q5_k,  &dtype_q6_k,
                                   &dtype_mxfp4, &dtype_iq4_nl, &dtype_iq4_xs };
    for (size_t d = 0; d < sizeof types / sizeof *types; d++)
        for (int side = 0; side <= W_AS_STORED; side++) {
            const int64_t n[] = { 1, 20 };
            for (int k = 0; k < 2; k++) {
                problem p;
                problem_init(
                    &p, side == W_AS_STORED ? (shape){ n[k], 40, 256 } : (shape){ n[k], 512, 40 },
                    (right_kind)side, types[d], NEAR_ONE);
                check_problem(&p);
                problem_free(&p);
            }
        }
}

/* The comparison sees another order. */
static void other_orders_differ(void **state)
{
    (void)state;
    problem p;
    problem_init(&p, (shape){ 20, 640, 30 }, ROWS_OF_W, &dtype_bf16, NEAR_ONE);
    real *y = defined(&p, 2, TILE_TERMS);
    real *chain = defined(&p, 1, TILE_TERMS), *cut = defined(&p, 2, 64);
    assert_memory_not_equal(y, chain, 600 * sizeof *y);
    assert_memory_not_equal(y, cut, 600 * sizeof *y);
    for (int i = 0; i < 600; i++)
        assert_true(fabs((double)(y[i] - chain[i])) < 0.05 && fabs((double)(y[i] - cut[i])) < 0.05);
    free(y), free(chain), free(cut);
    problem_free(&p);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void a_model_says_its_class(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_options o = { .struct_size = sizeof o };
    for (int compute = WEFT_COMPUTE_DEFAULT; compute <= WEFT_COMPUTE_BF16; compute++) {
        o.compute = (weft_compute)compute;
        weft_model *m = weft_model_open(fixture("golden/llama-gqa"), &o, &err);
        assert_non_null(m);
        weft_model_get_info(m, &info);
        assert_int_equal(info.compute, compute);
        weft_model_close(m);
    }
    o.compute = (weft_compute)2;
    assert_null(weft_model_open(fixture("golden/llama-gqa"), &o, &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    assert_string_equal(err.message, "compute 2 does not exist");
}

int main(void)
{
    static _Alignas(SIDE_ALIGN) char memory[SIDE_BYTES];
    side_begin(memory);
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        TEST("tiles: the emulation has the bits of the instructions", emulation_is_exact),
#endif
        TEST("class bf16: every table has the order of tiles, for any rows and cuts",
             every_table_has_the_order_of_tiles),
        TEST("class bf16: other weights are rounded", other_weights_are_rounded),
        TEST("class bf16: one chain, and groups of 64, give other bits", other_orders_differ),
        TEST("class bf16: a model says its class", a_model_says_its_class),
    };
    return RUN(tests);
}

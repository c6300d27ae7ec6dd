/* Block formats: decoding, and encoding where the rule is the same, gives the bits of the gguf
 * package (tools/quant_golden.py); no error exceeds the bound derived in each format's file; the
 * other encoders lose less than llama.cpp. With WEFT_TEST_LONG, over 10^7 groups of each format. */
#include "support.h"

#include "base/rng.h"
#include "tensor/blocks.h"

/* The formats, and the offsets of 16-bit floats in a block. */
static const struct {
    const dtype *type;
    int halves[2], n_half;
} formats[] = {
    { &dtype_q8_0, { 0 }, 1 },   { &dtype_q4_0, { 0 }, 1 },    { &dtype_q4_1, { 0, 2 }, 2 },
    { &dtype_q5_0, { 0 }, 1 },   { &dtype_q5_1, { 0, 2 }, 2 }, { &dtype_q2_k, { 80, 82 }, 2 },
    { &dtype_q3_k, { 108 }, 1 }, { &dtype_q4_k, { 0, 2 }, 2 }, { &dtype_q5_k, { 0, 2 }, 2 },
    { &dtype_q6_k, { 208 }, 1 }, { &dtype_mxfp4, { 0 }, 0 },   { &dtype_iq4_nl, { 0 }, 1 },
    { &dtype_iq4_xs, { 0 }, 1 }, { &dtype_iq3_s, { 0 }, 1 },   { &dtype_iq3_xxs, { 0 }, 1 },
    { &dtype_iq2_s, { 0 }, 1 },  { &dtype_iq2_xs, { 0 }, 1 },  { &dtype_iq2_xxs, { 0 }, 1 },
};
#define N_FORMAT (int)(sizeof formats / sizeof *formats)

/* ---- the bits of the gguf package ------------------------------------------------------------ */

enum { N_SAME = 256, N_RANDOM = 768, N_ENCODED = 8000 };

static uint64_t draw(uint64_t stream, uint64_t i)
{
    uint64_t z = stream + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void hash(uint64_t *h, uint32_t word)
{
    *h = (*h ^ word) * 1099511628211u;
}

/* A file of tests/golden/quants as text, to be freed. */
static char *golden_text(const char *path)
{
    size_t size;
    char *bytes = read_whole(fixture(path), &size), *text = calloc(size + 1, 1);
    memcpy(text, bytes, size);
    free(bytes);
    return text;
}

static void check_golden(const char *what, const dtype *type, uint64_t got)
{
    char want[64], *text = golden_text("golden/quants/hashes.txt");
    snprintf(want, sizeof want, "%s %s %016llx\n", what, type->name, (unsigned long long)got);
    assert_that(strstr(text, want), "not in tests/golden/quants/hashes.txt: %s", want);
    free(text);
}

/* Block i of the generator: the same byte everywhere, or random ones. */
static void make_block(uint8_t *block, int format, int i)
{
    const dtype *t = formats[format].type;
    for (int k = 0; k < t->bytes; k++)
        block[k] = (uint8_t)(i < N_SAME ? (uint64_t)i
                                        : draw((uint64_t)t->gguf,
                                               (uint64_t)((i - N_SAME) * t->bytes + k)) >>
                                              56);
    for (int h = 0; h < formats[format].n_half; h++) {
        uint8_t *half = block + formats[format].halves[h];
        if (i < N_SAME)
            half[0] = 0, half[1] = 0x3C;
        else if ((half[1] & 0x7C) == 0x7C)
            half[1] &= 0xBF;
    }
}

static void decodes_as_gguf(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMAT; f++) {
        const dtype *t = formats[f].type;
        uint64_t h = 14695981039346656037u;
        for (int i = 0; i < N_SAME + N_RANDOM; i++) {
            uint8_t block[256];
            real x[LONG];
            make_block(block, f, i);
            t->decode(x, block, 0, t->block);
            for (int k = 0; k < t->block; k++)
                hash(&h, float_bits(x[k]));
        }
        check_golden("decode", t, h);
    }
}

/* Values of block i: bell-shaped; small integers with many ties; all equal; a single one. */
static void make_numbers(float *x, int i)
{
    const int e = (int)(draw(1001, (uint64_t)i) % 32) - 34;
    int bell[GROUP], small[GROUP];
    for (int k = 0; k < GROUP; k++) {
        const uint64_t d = draw(1000, (uint64_t)(i * GROUP + k));
        bell[k] = (int)((d & 0xFFFF) + (d >> 16 & 0xFFFF) + (d >> 32 & 0xFFFF) + (d >> 48)) -
                  131072;
        small[k] = ((int)(d >> 60) - 8) * 4096;
    }
    const int at = (int)(draw(1000, (uint64_t)(i * GROUP)) >> 59);
    for (int k = 0; k < GROUP; k++)
        x[k] = ldexpf((float)(i % 4 == 0   ? bell[k]
                              : i % 4 == 1 ? small[k]
                              : i % 4 == 2 ? bell[0]
                              : k == at    ? bell[1]
                                           : 0),
                      e);
}

/* The formats for 32 numbers whose scale is searched; the others follow a rule. */
static bool is_searched(const dtype *t)
{
    return t == &dtype_mxfp4 || t == &dtype_iq4_nl;
}

static void encodes_as_gguf(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMAT; f++) {
        const dtype *t = formats[f].type;
        uint64_t h = 14695981039346656037u;
        if (t->block != GROUP || is_searched(t))
            continue;
        for (int i = 0; i < N_ENCODED; i++) {
            uint8_t block[64];
            float x[GROUP];
            make_numbers(x, i);
            t->encode(block, x, GROUP);
            for (int k = 0; k < t->bytes; k++)
                hash(&h, block[k]);
        }
        check_golden("encode", t, h);
    }
}

/* ---- what llama.cpp's quantiser loses -------------------------------------------------------- */

enum { N_MEASURED = 1 << 17 };

/* Sums of four uniform numbers, or, with long tails, their cubes. */
static void make_bell(float *x, bool tails)
{
    for (int k = 0; k < N_MEASURED; k++) {
        const uint64_t d = draw(1002, (uint64_t)k);
        const int four = (int)((d & 0xFFFF) + (d >> 16 & 0xFFFF) + (d >> 32 & 0xFFFF) + (d >> 48));
        const float v = ldexpf((float)(four - 131072), -16);
        x[k] = tails ? v * v * v : v;
    }
}

/* The error of our bytes, relative to the size of the values; and how much too small they are, by
 * which products shrink. */
static double error_of(const dtype *t, const float *x, double *shrunk)
{
    uint8_t block[256];
    float back[LONG];
    double lost = 0, all = 0, both = 0;
    for (int k0 = 0; k0 < N_MEASURED; k0 += LONG) {
        t->encode(block, x + k0, LONG);
        t->decode(back, block, 0, LONG);
        for (int k = 0; k < LONG; k++) {
            const double v = (double)x[k0 + k], off = v - (double)back[k];
            lost += off * off;
            all += v * v;
            both += v * (double)back[k];
        }
    }
    *shrunk = 1 - both / all;
    return sqrt(lost / all);
}

/* Where the rule is ours, it loses less, by these ratios, and preserves the size of products. */
static void loses_less_than_ggml(void **state)
{
    (void)state;
    const struct {
        const dtype *type;
        double bell, tails, shrunk;
    } most[] = { { &dtype_q2_k, 0.94, 0.71, 0.0005 }, { &dtype_q3_k, 0.98, 0.995, 0.0005 },
                 { &dtype_q4_k, 0.99, 0.97, 0.01 },   { &dtype_q5_k, 0.96, 0.935, 0.003 },
                 { &dtype_q6_k, 0.95, 0.965, 0.001 }, { &dtype_mxfp4, 0.992, 0.992, 0.02 },
                 { &dtype_iq4_nl, 0.99, 0.99, 0.01 }, { &dtype_iq4_xs, 0.99, 0.99, 0.01 } };
    char *golden = golden_text("golden/quants/errors.txt");
    float *x = malloc(N_MEASURED * sizeof *x);
    for (int tails = 0; tails < 2; tails++) {
        make_bell(x, tails);
        for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
            char key[32];
            snprintf(key, sizeof key, "%s %s ", tails ? "tails" : "bell", most[i].type->name);
            const char *line = strstr(golden, key);
            assert_that(line, "not in tests/golden/quants/errors.txt: %s", key);
            const double theirs = strtod(line + strlen(key), NULL);
            double shrunk;
            const double ours = error_of(most[i].type, x, &shrunk);
            print_message("%sloses %.5f, llama.cpp %.5f: %.4f; products shrink by %.5f\n", key,
                          ours, theirs, ours / theirs, shrunk);
            assert_true(fabs(shrunk) < most[i].shrunk);
            assert_true(ours <= (tails ? most[i].tails : most[i].bell) * theirs);
        }
    }
    free(x);
    free(golden);
}

/* Weights of errors, from small to large. */
static float weight_of(int k)
{
    return ldexpf(1, (int)(draw(1003, (uint64_t)k) >> 60) - 8);
}

/* Where codes are searched, a given importance reduces the error that it weighs. */
static void importance_counts(void **state)
{
    (void)state;
    float *x = malloc(N_MEASURED * sizeof *x), w[LONG], back[LONG];
    uint8_t block[256];
    make_bell(x, false);
    for (int f = 0; f < N_FORMAT; f++) {
        const dtype *t = formats[f].type;
        double lost[2] = { 0 };
        for (int k0 = 0; t->fit && k0 < N_MEASURED; k0 += LONG)
            for (int known = 0; known < 2; known++) {
                for (int k = 0; k < LONG; k++)
                    w[k] = weight_of(k0 + k);
                if (known)
                    t->fit(block, x + k0, w, LONG);
                else
                    t->encode(block, x + k0, LONG);
                t->decode(back, block, 0, LONG);
                for (int k = 0; k < LONG; k++) {
                    const double off = (double)x[k0 + k] - (double)back[k];
                    lost[known] += (double)w[k] * off * off;
                }
            }
        if (!t->fit)
            continue;
        print_message("%s: importance leaves %.3f of the weighted error\n", t->name,
                      lost[1] / lost[0]);
        assert_true(lost[1] < (t == &dtype_mxfp4 ? 0.995 : 0.9) * lost[0]);
    }
    free(x);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* The terms of a bound. */
typedef struct extent {
    double min, max, size;  /* of the block; size: of the largest value */
    double widest, deepest; /* of its groups, zero included: see fit.h */
} extent;

static extent measure(const float *x, int n, int group)
{
    extent e = { (double)x[0], (double)x[0], 0, 0, 0 };
    for (int k0 = 0; k0 < n; k0 += group) {
        double low = 0, high = 0;
        for (int k = k0; k < k0 + group; k++) {
            const double v = (double)x[k];
            e.min = fmin(e.min, v), e.max = fmax(e.max, v), e.size = fmax(e.size, fabs(v));
            low = fmin(low, v), high = fmax(high, v);
        }
        e.widest = fmax(e.widest, high - low);
        e.deepest = fmax(e.deepest, -low);
    }
    return e;
}

/* Derived in the formats' files. Float arithmetic adds about 2^-20. */
static double bound_of(const dtype *t, const extent *e)
{
    const double range = e->max - e->min, shift = (range + fabs(e->min)) * 0x1p-11;
    const double asymmetric = (e->widest + e->deepest / 62) * 1.017;
    return t == &dtype_q8_0     ? e->size / 254 + e->size * 0x1p-11 + 127 * 0x1p-25
           : t == &dtype_q4_0   ? e->size / 8 + e->size * 0x1p-11 + 8 * 0x1p-25
           : t == &dtype_q5_0   ? e->size / 16 + e->size * 0x1p-11 + 16 * 0x1p-25
           : t == &dtype_q4_1   ? (range / 30 + shift) * (1 + 0x1p-20) + 16 * 0x1p-25
           : t == &dtype_q5_1   ? (range / 62 + shift) * (1 + 0x1p-20) + 32 * 0x1p-25
           : t == &dtype_q2_k   ? (e->widest + e->deepest / 14.9) / 3.55 + 0x1p-23
           : t == &dtype_q3_k   ? e->size / 3.67 + 0x1p-24
           : t == &dtype_q4_k   ? asymmetric / 30 + 0x1p-24
           : t == &dtype_q5_k   ? asymmetric / 62 + 0x1p-24
           : t == &dtype_mxfp4  ? e->size / 4
           : t == &dtype_iq4_nl ? e->size * (14.0 / 127 + 0x1p-11) + 127 * 0x1p-25
           : t == &dtype_iq4_xs ? e->size * 14 / 127 * 1.034 + 0x1p-20
                                : e->size / 61 + 0x1p-25;
}

/* Values in a group, which share a scale. */
static int group_of(const dtype *t)
{
    return t == &dtype_q2_k || t == &dtype_q3_k || t == &dtype_q6_k ? 16 : GROUP;
}

/* The values that a bound applies to: a single one, or the root mean square of a group or block. */
static int bound_span(const dtype *t)
{
    const bool few = t == &dtype_q2_k || t == &dtype_q3_k;
    return t->block == GROUP && !is_searched(t) ? 1 : few ? LONG : group_of(t);
}

/* Returns the largest error over its bound. */
static double check_block(const dtype *t, const float *x)
{
    uint8_t block[256];
    float back[LONG];
    t->encode(block, x, t->block);
    t->decode(back, block, 0, t->block);
    const extent e = measure(x, t->block, group_of(t));
    const double bound = bound_of(t, &e);
    double worst = 0;
    for (int k0 = 0, span = bound_span(t); k0 < t->block; k0 += span) {
        double sum = 0;
        for (int k = k0; k < k0 + span; k++)
            sum += ((double)x[k] - (double)back[k]) * ((double)x[k] - (double)back[k]);
        const double error = sqrt(sum / span);
        assert_that(error <= bound,
                    "%s: numbers from %d, the first %g, became %g: error %g, bound %g", t->name, k0,
                    (double)x[k0], (double)back[k0], error, bound);
        worst = fmax(worst, error / bound);
    }
    return worst;
}

#define POOL (1 << 18)

/* Block i: normal values, of one sign, with long tails, with a few large ones, or on and between
 * the codes of a scale, in one of 40 sizes. */
static void make_block_of(float *x, int n, const float *pool, uint64_t i)
{
    const rng_block r = rng_draw(22, 1, i);
    const float scale = exp2f((float)(r.word[0] % 40) - 31),
                *from = pool + r.word[1] % (POOL - LONG);
    const int levels[] = { 3, 7, 15, 31, 63, 255 }, level = levels[r.word[2] % 6];
    for (int k = 0; k < n; k++) {
        const float v = from[k];
        const int code = (int)((r.word[2] >> 8) + (uint32_t)k * 7) % (level + 1) - level / 2;
        const float between[] = { 0, 0.5f, -0.5f, 0.499f, -0.499f };
        x[k] = scale * (i % 5 == 0   ? v
                        : i % 5 == 1 ? fabsf(v) + (r.word[2] & 1 ? 0 : 3)
                        : i % 5 == 2 ? v * v * v
                        : i % 5 == 3 ? v * (k % 37 == 5 ? 30 : 1)
                                     : ((float)code + between[(r.word[3] + (uint32_t)k) % 5]) /
                                           (float)level);
    }
}

/* Every 16-bit scale but the largest, with values on and between all codes. */
static double check_scales(const dtype *t)
{
    const bool named = t->name[0] == 'q'; /* "q5_k" has five bits, and the others here four */
    const int top = t == &dtype_q8_0 ? 255 : (1 << (named ? t->name[1] - '0' : 4)) - 1;
    const int step = quick() ? 97 : t->block == GROUP ? 1 : 7;
    const bool minimum = t == &dtype_q4_1 || t == &dtype_q5_1;
    const int end = minimum ? 0x6800 : 0x7800; /* m is an f16 too */
    double worst = 0;
    for (int h = 1; h < end; h += step) {
        const float d = f16_decode((uint16_t)h);
        float x[LONG];
        for (int k = 0; k < t->block; k++) {
            const int code = (k * 5 + h) % (top + 1) - (top + 1) / 2;
            x[k] = d * ((float)code + (float)(h % 3 - 1) * 0.5f);
        }
        worst = fmax(worst, check_block(t, x));
    }
    return worst;
}

static void bounds_hold(void **state)
{
    (void)state;
    float *pool = malloc(POOL * sizeof *pool), x[LONG];
    fill_normal(pool, POOL, 22, 0, 1);
    const int groups = getenv("WEFT_TEST_LONG") ? 10000000 : quick() ? 4000 : 200000;
    for (int f = 0; f < N_FORMAT; f++) {
        const dtype *t = formats[f].type;
        if (!t->encode)
            continue;
        double worst = check_scales(t);
        const int n = groups / (t->block / GROUP);
        for (int i = 0; i < n; i++) {
            make_block_of(x, t->block, pool, (uint64_t)i);
            worst = fmax(worst, check_block(t, x));
        }
        print_message("%s: %d blocks, the largest error is %.3f of its bound\n", t->name, n, worst);
    }
    free(pool);
}

/* The largest values that a format's scale can reach. */
static void bounds_hold_at_the_edge(void **state)
{
    (void)state;
    const struct {
        const dtype *type;
        float most;
    } edge[] = {
        { &dtype_q8_0, 65504.0f * 127 },
        { &dtype_q4_0, 65504.0f * 8 },
        { &dtype_q5_0, 65504.0f * 16 },
        { &dtype_q4_1, 65504.0f },
        { &dtype_q5_1, 65504.0f },
        { &dtype_q4_k, 65504.0f * 63 },
        { &dtype_q5_k, 65504.0f * 63 },
        { &dtype_q6_k, 65504.0f * 31 * 127 },
        { &dtype_q2_k, 65504.0f * 15 },
        { &dtype_q3_k, 65504.0f * 3 * 31 },
        { &dtype_mxfp4, 0x1.fffffep127f },
        { &dtype_iq4_nl, 65504.0f * 127 },
        { &dtype_iq4_xs, 65504.0f * 127 * 31 },
    };
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        float x[LONG] = { 0 };
        check_block(edge[i].type, x);
        for (int k = 0; k < LONG; k++)
            x[k] = k % 2 ? edge[i].most : -edge[i].most;
        check_block(edge[i].type, x);
    }
}

/* Codes of q6_k go from -32 to 31 and those of q3_k from -4 to 3, but their scales have a sign:
 * values lose as much as their negatives, whichever side reaches further. */
static void both_signs_are_alike(void **state)
{
    (void)state;
    const struct {
        const dtype *type;
        int reach, stride; /* each group has all codes, or 16 of them that reach both ends */
    } signed_type[] = { { &dtype_q6_k, 32, 61 }, { &dtype_q3_k, 4, 1 } };
    for (int t = 0; t < 2; t++) {
        const int reach = signed_type[t].reach, stride = signed_type[t].stride;
        double error[2] = { 0 };
        for (int sign = 0; sign < 2; sign++) {
            float x[LONG], back[LONG];
            uint8_t block[256];
            for (int k = 0; k < LONG; k++)
                x[k] = (float)((sign ? -1 : 1) * (reach - k % 16 * stride % (2 * reach - 1)));
            signed_type[t].type->encode(block, x, LONG);
            signed_type[t].type->decode(back, block, 0, LONG);
            for (int k = 0; k < LONG; k++)
                error[sign] += ((double)x[k] - (double)back[k]) * ((double)x[k] - (double)back[k]);
        }
        assert_true(error[0] < LONG * 0.02); /* every value is a code times 1 */
        assert_true(fabs(error[0] - error[1]) <= 1e-3 * error[1]);
    }
}

/* NaN must stay NaN, and values too small become zero. */
static void strange_numbers(void **state)
{
    (void)state;
    const float strange[] = { NAN, INFINITY, -INFINITY };
    float x[LONG], back[LONG];
    uint8_t block[256];
    for (int f = 0; f < N_FORMAT; f++) {
        const dtype *t = formats[f].type;
        if (!t->encode)
            continue;
        for (int i = 0; i < 3; i++) {
            fill_normal(x, LONG, 24, 0, 1);
            x[7] = strange[i];
            t->encode(block, x, t->block);
            t->decode(back, block, 0, t->block);
            for (int k = 0; k < t->block; k++)
                assert_true(t == &dtype_mxfp4 ? isinf(back[k]) : isnan(back[k]));
        }
        for (int k = 0; k < LONG; k++)
            x[k] = k % 2 ? 1e-40f : t == &dtype_mxfp4 ? -1e-39f : -1e-38f;
        t->encode(block, x, t->block);
        t->decode(back, block, 0, t->block);
        for (int k = 0; k < t->block; k++)
            assert_true(back[k] == 0);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Attention reads heads from the middle of blocks, products read pieces of blocks. */
static void check_pieces(const dtype *t, const uint8_t *stored, int64_t n)
{
    float whole[2 * LONG], piece[2 * LONG];
    t->decode(whole, stored, 0, n);
    for (int64_t k0 = 0; k0 < n; k0 += 7)
        for (int64_t width = 1; k0 + width <= n; width += 13) {
            assert_ptr_equal(t->decode(piece, stored, k0, width), piece);
            assert_memory_equal(piece, whole + k0, (size_t)width * sizeof *piece);
        }
}

static void pieces_equal_the_whole(void **state)
{
    (void)state;
    const dtype *const single[] = { &dtype_f32, &dtype_f16, &dtype_bf16 };
    uint8_t stored_row[2 * LONG * sizeof(float)];
    float x[2 * LONG];
    fill_normal(x, 2 * LONG, 23, 0, 1);
    for (int t = 0; t < 3; t++) {
        single[t]->encode(stored_row, x, 320);
        check_pieces(single[t], stored_row, 320);
    }
    for (int f = 0; f < N_FORMAT; f++) {
        const dtype *t = formats[f].type;
        for (int b = 0; b < 2 * LONG / t->block; b++)
            make_block(stored_row + b * t->bytes, f, N_SAME + b);
        check_pieces(t, stored_row, 2 * LONG);
    }
}

/* Class i8 multiplies exactly the values of class f32. */
static void quants_are_the_numbers(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMAT; f++)
        for (int i = 0; formats[f].type->quants && i < N_SAME + N_RANDOM; i++) {
            const dtype *t = formats[f].type;
            uint8_t block[256];
            real x[LONG];
            make_block(block, f, i);
            t->decode(x, block, 0, t->block);
            for (int b = 0; b < t->block / BLOCK_I8; b++) {
                block_i8 w;
                t->quants(&w, block, b);
                for (int k = 0; k < BLOCK_I8; k++) {
                    const int g = t->form & I8_HALVES ? k / 16 : 0;
                    const real offset = t->form & I8_ASYMMETRIC ? w.offset[g] : 0;
                    assert_true(x[b * BLOCK_I8 + k] == w.scale[g] * (real)w.q[k] + offset);
                }
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("quants: every format decodes to the bits of the gguf package", decodes_as_gguf),
        TEST("quants: formats for 32 numbers encode to the bits of the gguf package",
             encodes_as_gguf),
        TEST("quants: searched codes lose less than llama.cpp's", loses_less_than_ggml),
        TEST("quants: where codes are searched, importance reduces the error it weighs",
             importance_counts),
        TEST("quants: every error is within its bound", bounds_hold),
        TEST("quants: the largest values are within the bound too", bounds_hold_at_the_edge),
        TEST("quants: values lose as much as their negatives", both_signs_are_alike),
        TEST("quants: NaN and infinity become NaN (MXFP4: infinite), the smallest values zero",
             strange_numbers),
        TEST("quants: a piece of a row equals the same piece of the whole", pieces_equal_the_whole),
        TEST("quants: integers times their scale equal the decoded values", quants_are_the_numbers),
    };
    return RUN(tests);
}

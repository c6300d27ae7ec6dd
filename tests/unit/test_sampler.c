/* Samplers: the remaining tokens equal those of transformers' processors; DRY, XTC and mirostat
 * equal their definitions in Python (tools/sampler_golden.py); draws follow their probabilities and
 * depend on seed and position only; invalid options are refused by name. */
#include "support.h"

#include "base/rng.h"
#include "engine/logprob.h"
#include "engine/sampler.h"

#include <float.h>
#include <math.h>

static mem budget;

static sampler *make(int64_t n_vocab, weft_sampler_options o)
{
    weft_error err = { 0 };
    sampler *s = sampler_new(&budget, n_vocab, &o, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

static int32_t must_pick(sampler *s, const float *z, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    int32_t id = -1;
    if (sampler_pick(s, z, ids, n, &id, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return id;
}

/* ---- the order ------------------------------------------------------------------------------- */

/* The sorted positions are in order, for any scores. */
static void order_is_sorted(void **state)
{
    (void)state;
    enum { V = 20000 };
    static float z[V];
    static uint64_t at[V];
    for (int shape = 0; shape < 6; shape++) {
        for (int i = 0; i < V; i++) {
            const double x = rng_normal(5, (uint64_t)shape, (uint64_t)i);
            const double of[] = { x, floor(x), i, -i, 0, i % 3 ? x : -INFINITY };
            z[i] = (float)of[shape];
        }
        for (int64_t m = 1; m < 3 * V; m = m * 3 + 1) {
            order o;
            order_begin(&o, z, V, at);
            order_lead(&o, m);
            const int64_t led = m < o.n ? m : o.n;
            assert_true(o.led >= led && o.led <= o.n);
            for (int64_t i = 1; i < o.led; i++)
                if (o.at[i - 1] >= o.at[i])
                    fail_msg("shape %d: places %d and %d are not in order", shape, (int)i - 1,
                             (int)i);
            int64_t better = 0; /* none was forgotten */
            for (int64_t i = 0; i < V; i++)
                better += z[i] > -INFINITY && order_place(z[i], i) < o.at[o.led - 1];
            assert_int_equal(better, o.led - 1);
        }
    }
}

/* ---- transformers ---------------------------------------------------------------------------- */

enum { N_VECTOR = 10000, MAX_V = 402, N_COLUMN = 6, N_HISTORY = 20 };

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t number(int i, int stream, int k)
{
    return mix(mix((uint64_t)i * 8 + (uint64_t)stream) + (uint64_t)k);
}

static float logit(int i, int k)
{
    const uint64_t bits = number(i, 1, k);
    int64_t sum = -131070;
    for (int b = 0; b < 64; b += 16)
        sum += (int64_t)(bits >> b & 0xFFFF);
    const double z = (double)sum;
    switch (i % 5) {
    case 0:
        return (float)(z / 16384);
    case 1:
        return (float)(z / (1 << 20));
    case 2:
        return (float)(z / 4096);
    case 3:
        return (float)(floor(z / 16384) / 2);
    default:
        return (bits & 7) == 0 && k > 0 ? -INFINITY : (float)(z / 16384);
    }
}

typedef struct vector {
    int n_vocab;
    float z[MAX_V];
    int32_t history[N_HISTORY];
    weft_sampler_options opt; /* of all processors */
} vector;

static void make_vector(vector *v, int i)
{
    static const double top_p[] = { 0.1, 0.5, 0.8, 0.9, 0.95, 0.99 };
    static const double min_p[] = { 0.01, 0.05, 0.1, 0.5 }, typical[] = { 0.2, 0.5, 0.9, 0.95 };
    static const double repetition[] = { 0.8, 1.1, 1.3, 2.0, 5.0 };
    static const double temperature[] = { 0.5, 0.8, 1.5, 2.0 };
    v->n_vocab = 2 + (int)(number(i, 0, 0) % 400);
    for (int k = 0; k < v->n_vocab; k++)
        v->z[k] = logit(i, k);
    for (int k = 0; k < N_HISTORY; k++)
        v->history[k] = (int32_t)(number(i, 2, k) % (uint64_t)v->n_vocab);
    v->opt = (weft_sampler_options){ .top_k = 1 + (int64_t)(number(i, 0, 1) % 80),
                                     .top_p = top_p[number(i, 0, 2) % 6],
                                     .min_p = min_p[number(i, 0, 3) % 4],
                                     .typical = typical[number(i, 0, 4) % 4],
                                     .repetition = repetition[number(i, 0, 5) % 5],
                                     .temperature = temperature[number(i, 0, 6) % 4] };
}

static uint16_t hash16(const void *bytes, size_t n)
{
    uint32_t h = 0x811C9DC5u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x01000193u;
    const uint16_t folded = (uint16_t)(h >> 16 ^ h);
    return folded ? folded : 1;
}

/* The remaining tokens, as bits from the highest. */
static uint16_t set_hash(sampler *s)
{
    weft_token_prob kept[MAX_V];
    uint8_t bits[MAX_V / 8 + 1] = { 0 };
    const int64_t n = sampler_kept(s, MAX_V, kept);
    for (int64_t i = 0; i < n; i++)
        bits[kept[i].id / 8] |= (uint8_t)(128 >> kept[i].id % 8);
    return hash16(bits, (size_t)(s->n_vocab + 7) / 8);
}

/* The remaining scores, best first; the order of equal ones does not matter. */
static uint16_t score_hash(sampler *s)
{
    weft_token_prob kept[MAX_V];
    float z[MAX_V];
    const int64_t n = sampler_kept(s, MAX_V, kept);
    for (int64_t i = 0; i < n; i++)
        z[i] = s->z[kept[i].id];
    return hash16(z, (size_t)n * sizeof *z);
}

static uint16_t column(const vector *v, int c)
{
    const weft_sampler_options *all = &v->opt;
    const weft_sampler_options one[N_COLUMN] = {
        { .temperature = 1, .top_k = all->top_k },
        { .temperature = 1, .top_p = all->top_p },
        { .temperature = 1, .min_p = all->min_p },
        { .temperature = 1, .typical = all->typical },
        { .temperature = 1, .repetition = all->repetition },
        *all,
    };
    sampler *s = make(v->n_vocab, one[c]);
    must_pick(s, v->z, v->history, N_HISTORY);
    const uint16_t hash = c == 4             ? hash16(s->z, (size_t)v->n_vocab * sizeof *s->z)
                          : c == 1 || c == 5 ? score_hash(s)
                                             : set_hash(s);
    sampler_free(s);
    return hash;
}

static void as_transformers(void **state)
{
    (void)state;
    static const char *const name[] = { "top_k",   "top_p",      "min_p",
                                        "typical", "repetition", "the chain" };
    size_t size;
    uint8_t *golden = (uint8_t *)read_whole(fixture("golden/sampler/kept.bin"), &size);
    assert_int_equal(size, N_VECTOR * N_COLUMN * 2);
    int wrong[N_COLUMN] = { 0 }, undecided[N_COLUMN] = { 0 }, sum = 0;
    static vector v;
    for (int i = 0; i < N_VECTOR; i += quick() ? 10 : 1) {
        make_vector(&v, i);
        for (int c = 0; c < N_COLUMN; c++) {
            const uint8_t *g = golden + 2 * (i * N_COLUMN + c);
            const int hash = g[0] | g[1] << 8;
            undecided[c] += hash == 0;
            wrong[c] += hash != 0 && column(&v, c) != hash;
        }
    }
    for (int c = 0; c < N_COLUMN; c++) {
        print_message("%s: %d of %d vectors differ; rounding decides in %d others\n", name[c],
                      wrong[c], N_VECTOR - undecided[c], undecided[c]);
        sum += wrong[c];
    }
    assert_int_equal(sum, 0);
    free(golden);
}

/* ---- the oracle of DRY, XTC and mirostat ----------------------------------------------------- */

typedef struct oracle {
    const char *at, *end;
} oracle;

static void take(oracle *r, void *to, size_t n)
{
    assert_true((size_t)(r->end - r->at) >= n);
    memcpy(to, r->at, n);
    r->at += n;
}

static void check_dry(oracle *r)
{
    int32_t head[4], ids[64];
    double of[2];
    float z[64], want[64];
    take(r, head, sizeof head);
    take(r, of, sizeof of);
    const int n_vocab = head[0], n = head[1], n_breaker = head[2];
    take(r, ids, sizeof *ids * (size_t)(n + n_breaker));
    take(r, z, sizeof *z * (size_t)n_vocab);
    take(r, want, sizeof *want * (size_t)n_vocab);
    sampler *s = make(n_vocab, (weft_sampler_options){ .dry_multiplier = of[0],
                                                       .dry_base = of[1],
                                                       .dry_length = head[3],
                                                       .breakers = ids + n,
                                                       .n_breaker = n_breaker });
    must_pick(s, z, ids, n);
    for (int i = 0; i < n_vocab; i++)
        if (!(fabs((double)(s->z[i] - want[i])) <= 1e-6 * fabs((double)want[i])))
            fail_msg("dry: token %d has %g, expected %g", i, (double)s->z[i], (double)want[i]);
    sampler_free(s);
}

static void check_xtc(oracle *r)
{
    int32_t head[4], want[64], history[256] = { 0 };
    int64_t seed;
    double of[2];
    float z[64];
    weft_token_prob kept[64];
    take(r, head, sizeof head);
    take(r, &seed, sizeof seed);
    take(r, of, sizeof of);
    take(r, z, sizeof *z * (size_t)head[0]);
    take(r, want, sizeof *want * (size_t)head[2]);
    sampler *s = make(head[0], (weft_sampler_options){ .temperature = 1,
                                                       .seed = (uint64_t)seed,
                                                       .xtc_probability = of[0],
                                                       .xtc_threshold = of[1] });
    assert_int_equal(must_pick(s, z, history, head[1]), head[3]);
    assert_int_equal(sampler_kept(s, 64, kept), head[2]);
    for (int i = 0; i < head[2]; i++)
        assert_int_equal(kept[i].id, want[i]);
    sampler_free(s);
}

static void check_mirostat(oracle *r)
{
    int32_t head[2], want[64], history[64];
    int64_t seed;
    double of[3];
    static float z[64 * 64];
    take(r, head, sizeof head);
    take(r, &seed, sizeof seed);
    take(r, of, sizeof of);
    take(r, z, sizeof *z * (size_t)(head[0] * head[1]));
    take(r, want, sizeof *want * (size_t)head[1]);
    sampler *s = make(head[0], (weft_sampler_options){ .temperature = 1,
                                                       .seed = (uint64_t)seed,
                                                       .mirostat_tau = of[0],
                                                       .mirostat_eta = of[1] });
    for (int again = 0; again < 2; again++) { /* a reset begins anew */
        for (int i = 0; i < head[1]; i++) {
            history[i] = must_pick(s, z + i * head[0], history, i);
            assert_int_equal(history[i], want[i]);
        }
        assert_true(fabs(s->mu - of[2]) <= 1e-9 * fabs(of[2]));
        sampler_reset(s);
    }
    sampler_free(s);
}

static void as_the_oracle(void **state)
{
    (void)state;
    size_t size;
    char *golden = read_whole(fixture("golden/sampler/oracle.bin"), &size);
    oracle r = { golden, golden + size };
    int32_t n[3];
    take(&r, n, sizeof n);
    for (int i = 0; i < n[0]; i++)
        check_dry(&r);
    for (int i = 0; i < n[1]; i++)
        check_xtc(&r);
    for (int i = 0; i < n[2]; i++)
        check_mirostat(&r);
    assert_ptr_equal(r.at, r.end);
    print_message("%d of dry, %d of xtc, %d texts of mirostat\n", n[0], n[1], n[2]);
    free(golden);
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* The cube root of chi squared with k degrees of freedom is nearly normal (Wilson and Hilferty):
 * returns how many standard deviations it is above its mean. */
static double deviations(double chi2, double k)
{
    return (cbrt(chi2 / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
}

/* 10^5 draws (10^4 if they are expensive), each at its own position. Five deviations: one in 3.5
 * million. */
static void check_chi2(weft_sampler_options o, const float *z, int n_vocab)
{
    enum { MOST = 100000 };
    static int32_t zeros[MOST];
    const int draws = quick() ? MOST / 10 : MOST;
    int seen[64] = { 0 };
    weft_token_prob kept[64];
    sampler *s = make(n_vocab, o);
    for (int i = 0; i < draws; i++)
        seen[must_pick(s, z, zeros, i)]++;
    const int64_t n = sampler_kept(s, 64, kept);
    double chi2 = 0, rest = draws, rest_p = 1;
    int cells = 0, left = draws;
    for (int64_t i = 0; i < n; i++) {
        const double expected = draws * kept[i].p;
        if (expected < 10)
            break; /* the rest together */
        chi2 += pow(seen[kept[i].id] - expected, 2) / expected;
        rest -= expected;
        rest_p -= kept[i].p;
        left -= seen[kept[i].id];
        cells++;
    }
    if (rest_p > 1e-4) {
        chi2 += pow(left - rest, 2) / rest;
        cells++;
    } else {
        assert_true(left <= 30);
    }
    print_message("%s: chi2 %.1f of %d cells\n", s->line, chi2, cells);
    assert_true(deviations(chi2, cells - 1) < 5);
    sampler_free(s);
}

static void chi_squared(void **state)
{
    (void)state;
    float z[64];
    for (int i = 0; i < 64; i++)
        z[i] = (float)rng_normal(9, 0, (uint64_t)i);
    check_chi2((weft_sampler_options){ .temperature = 1, .seed = 1 }, z, 64);
    check_chi2((weft_sampler_options){ .temperature = 0.5, .seed = 2 }, z, 64);
    check_chi2((weft_sampler_options){ .temperature = 2, .top_k = 10, .seed = 3 }, z, 64);
    check_chi2((weft_sampler_options){ .temperature = 1, .top_p = 0.8, .seed = 4 }, z, 64);
    check_chi2((weft_sampler_options){ .temperature = 1, .typical = 0.7, .seed = UINT64_MAX }, z,
               64);
    memset(z, 0, sizeof z);
    check_chi2((weft_sampler_options){ .temperature = 1, .seed = 5 }, z, 7);
}

/* The draw at a position does not depend on earlier draws, and differs for another seed. */
static void seed_and_position(void **state)
{
    (void)state;
    enum { N = 500 };
    float z[64];
    int32_t ids[N] = { 0 }, forwards[N];
    for (int i = 0; i < 64; i++)
        z[i] = (float)rng_normal(9, 1, (uint64_t)i);
    const weft_sampler_options o = { .temperature = 1, .seed = 11, .xtc_probability = 0.5 };
    sampler *s = make(64, o);
    int other = 0;
    for (int i = 0; i < N; i++)
        forwards[i] = must_pick(s, z, ids, i);
    for (int i = N - 1; i >= 0; i--)
        assert_int_equal(must_pick(s, z, ids, i), forwards[i]);
    sampler_free(s);
    s = make(64, (weft_sampler_options){ .temperature = 1, .seed = 12 });
    for (int i = 0; i < N; i++)
        other += must_pick(s, z, ids, i) != forwards[i];
    assert_true(other > N / 2);
    sampler_free(s);
}

/* ---- edges ----------------------------------------------------------------------------------- */

static int64_t n_kept(weft_sampler_options o, const float *z, int64_t n)
{
    sampler *s = make(n, o);
    must_pick(s, z, NULL, 0);
    const int64_t kept = sampler_kept(s, 0, NULL);
    sampler_free(s);
    return kept;
}

static void edges(void **state)
{
    (void)state;
    const float z[] = { 1, 3, 3, -INFINITY, 0 };
    sampler *s = make(5, (weft_sampler_options){ 0 });
    assert_int_equal(must_pick(s, z, NULL, 0), 1); /* greedy, the lower id of equals */
    assert_int_equal(sampler_kept(s, 0, NULL), 1);
    sampler_free(s);
    const weft_sampler_options plain = { .temperature = 1 };
    weft_sampler_options o = plain;
    assert_int_equal(n_kept(o, z, 5), 4);
    o.top_k = INT64_MAX;
    assert_int_equal(n_kept(o, z, 5), 4);
    o.top_k = 1;
    assert_int_equal(n_kept(o, z, 5), 2);
    o = plain;
    o.top_p = 1;
    assert_int_equal(n_kept(o, z, 5), 4);
    o.top_p = DBL_MIN;
    assert_int_equal(n_kept(o, z, 5), 1);
    o = plain;
    o.min_p = 1;
    assert_int_equal(n_kept(o, z, 5), 2);
    o = plain;
    o.typical = DBL_MIN;
    assert_true(n_kept(o, z, 5) >= 1);
    o = (weft_sampler_options){ .temperature = DBL_MIN, .typical = 0.5, .top_p = 0.5 };
    assert_true(n_kept(o, z, 5) >= 1);
    o = (weft_sampler_options){ .temperature = 1000, .mirostat_tau = DBL_MIN };
    assert_int_equal(n_kept(o, z, 5), 1);
    const float far[] = { FLT_MAX, -FLT_MAX, 0 };
    assert_int_equal(n_kept(plain, far, 3), 3);
    assert_int_equal(n_kept(plain, (const float[]){ -5 }, 1), 1);
}

static void refused_logits(void **state)
{
    (void)state;
    weft_error err = { 0 };
    int32_t id = 7;
    const float bad[][2] = { { 0, NAN }, { INFINITY, 0 }, { -INFINITY, -INFINITY }, { 0, 1 } };
    const char *const why[] = { "the logit of token 1 is ", "the logit of token 0 is inf",
                                "all logits are -inf; no token can be sampled",
                                "token 0 of the history is 2" };
    sampler *s = make(2, (weft_sampler_options){ .temperature = 1, .presence = 1 });
    for (int i = 0; i < 4; i++) {
        assert_int_not_equal(sampler_pick(s, bad[i], &(int32_t){ 2 }, i == 3, &id, &err), WEFT_OK);
        assert_non_null(strstr(err.message, why[i]));
        assert_int_equal(sampler_kept(s, 0, NULL), 0);
        assert_int_equal(id, 7);
    }
    sampler_free(s);
}

/* Penalties never allow a forbidden token, nor make a score infinite. */
static void extreme_scores(void **state)
{
    (void)state;
    const float z[] = { FLT_MAX, -FLT_MAX, -INFINITY, 0 };
    const int32_t ids[] = { 0, 1, 2, 0, 1, 2, 0, 1, 2 };
    const weft_bias bias[] = { { 3, -INFINITY }, { 0, FLT_MAX } };
    sampler *s = make(4, (weft_sampler_options){ .temperature = 1,
                                                 .repetition = 0.01,
                                                 .presence = -100,
                                                 .dry_multiplier = 100,
                                                 .dry_base = 10,
                                                 .bias = bias,
                                                 .n_bias = 2 });
    assert_int_equal(must_pick(s, z, ids, 9), 0);
    assert_true(isfinite(s->z[0]) && isfinite(s->z[1]));
    assert_true(s->z[2] == -INFINITY && s->z[3] == -INFINITY);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s->times[i], 0);
    sampler_free(s);
}

/* Presence and frequency count in the requested window. */
static void counted_tokens(void **state)
{
    (void)state;
    const float z[] = { 0, 0, 0, 0 };
    const int32_t ids[] = { 0, 1, 1, 2, 1 };
    sampler *s = make(
        4, (weft_sampler_options){ .frequency = 0.5, .presence = 0.25, .penalty_last_n = 4 });
    must_pick(s, z, ids, 5);
    const float want[] = { 0, -1.75f, -0.75f, 0 };
    for (int i = 0; i < 4; i++)
        assert_true(s->z[i] == want[i]);
    sampler_free(s);
}

static void refused(weft_sampler_options o, const char *why)
{
    weft_error err = { 0 };
    assert_null(sampler_new(&budget, 10, &o, &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    if (!strstr(err.message, why))
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}

static void refused_options(void **state)
{
    (void)state;
    const weft_bias bias[] = { { 10, 1 }, { 1, NAN } };
    refused((weft_sampler_options){ .temperature = -1 }, "temperature is -1, expected 0 to 1000");
    refused((weft_sampler_options){ .temperature = NAN }, "temperature is");
    refused((weft_sampler_options){ .top_p = 1.5 }, "top_p is 1.5, expected 0 to 1");
    refused((weft_sampler_options){ .min_p = -0.1 }, "min_p is -0.1");
    refused((weft_sampler_options){ .top_k = -1 }, "top_k is -1, expected 0 to");
    refused((weft_sampler_options){ .repetition = 0.001 }, "0.01 to 100, or 0 for the default");
    refused((weft_sampler_options){ .xtc_threshold = 0.6 }, "xtc_threshold is 0.6");
    refused((weft_sampler_options){ .dry_last_n = INT64_MAX }, "dry_last_n is");
    refused((weft_sampler_options){ .bias = bias, .n_bias = 1 }, "bias 0 is for token 10");
    refused((weft_sampler_options){ .bias = bias + 1, .n_bias = 1 }, "the bias of token 1 is");
    refused((weft_sampler_options){ .breakers = &(int32_t){ -1 }, .n_breaker = 1 },
            "breaker 0 is for token -1");
    refused((weft_sampler_options){ .chain = "top_k;topp" },
            "chain: unknown sampler \"topp\"; the default is");
    refused((weft_sampler_options){ .chain = "top_k;top_k" }, "top_k occurs twice");
    refused((weft_sampler_options){ .chain = "temperature;penalties" }, "penalties changes logits");
    refused((weft_sampler_options){ .chain = "top_k" }, "lacks temperature");
    refused((weft_sampler_options){ .chain = "temperature", .top_k = 4 }, "lacks top_k");
}

/* top_p sees the tokens left by top_k, or the other way round. */
static void order_of_the_chain(void **state)
{
    (void)state;
    const float z[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, -1 };
    const weft_sampler_options first = { .temperature = 1, .top_p = 0.5, .min_p = 0.5 };
    weft_sampler_options last = first;
    last.chain = "min_p;temperature;top_p";
    assert_int_equal(n_kept(first, z, 10), 5);
    assert_int_equal(n_kept(last, z, 10), 5);
    sampler *s = make(10, last);
    assert_string_equal(s->line, "min_p 0.5; temperature 1; top_p 0.5; seed 0");
    sampler_free(s);
    s = make(10, (weft_sampler_options){ .temperature = 0 });
    assert_string_equal(s->line, "greedy; seed 0");
    sampler_free(s);
}

static void takes_no_memory(void **state)
{
    (void)state;
    enum { V = 1000 };
    float z[V];
    int32_t ids[V];
    for (int i = 0; i < V; i++) {
        z[i] = (float)rng_normal(1, 1, (uint64_t)i);
        ids[i] = i % 7;
    }
    sampler *s = make(
        V, (weft_sampler_options){
               .temperature = 1, .top_p = 0.99, .repetition = 1.1, .dry_multiplier = 0.8 });
    const uint64_t before = atomic_load(&budget.n_alloc);
    for (int i = 0; i < V; i++)
        must_pick(s, z, ids, i);
    assert_int_equal(atomic_load(&budget.n_alloc), before);
    sampler_free(s);
}

static void memory_faults(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        host h;
        faults f = { .fail_at = k };
        weft_error err = { 0 };
        host_faulty(&h, &f, NULL);
        const weft_sampler_options o = { .temperature = 1, .dry_multiplier = 1 };
        sampler *s = sampler_new(&h.mem, 100, &o, &err);
        sampler_free(s);
        assert_int_equal(f.live, 0);
        if (s)
            break;
        assert_int_equal(err.code, WEFT_ENOMEM);
    }
}

static void top_logprobs(void **state)
{
    (void)state;
    const float z[] = { 0, 2, 2, 1, -INFINITY };
    const double all = log(1 + 2 * exp(2) + exp(1));
    const int32_t best[] = { 1, 2, 3, 0, 4 };
    weft_logprob out[8];
    for (int64_t k = 0; k <= 8; k++) {
        assert_int_equal(logprob_top(z, 5, k, out), k < 5 ? k : 5);
        for (int64_t i = 0; i < k && i < 4; i++) {
            assert_int_equal(out[i].id, best[i]);
            assert_true(fabs(out[i].logprob - ((double)z[best[i]] - all)) < 1e-12);
        }
    }
    assert_true(out[4].logprob == -INFINITY);
}

/* ---- the public functions -------------------------------------------------------------------- */

/* Greedy sampling, the best log-probability and weft_session_greedy agree on the token; a sampled
 * text is reproduced by its seed, and its memory is the model's. */
static void of_a_session(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    weft_engine *e = weft_engine_new(m, NULL, &err);
    weft_session *s = weft_session_new(e, &err);
    const weft_sampler_options o = {
        .struct_size = sizeof o, .temperature = 1, .repetition = 1.2, .seed = 3
    };
    weft_model_info before = { .struct_size = sizeof before }, after = before;
    weft_model_get_info(m, &before);
    weft_sampler *greedy = weft_sampler_new(m, NULL, &err), *warm = weft_sampler_new(m, &o, &err);
    weft_model_get_info(m, &after);
    if (!s || !greedy || !warm)
        fail_msg("%s", err.message);
    assert_true(after.bytes_anonymous > before.bytes_anonymous);
    int32_t id = 1, text[2][20];
    weft_logprob top[3], named[2] = { { .id = 5 }, { .id = 0 } };
    assert_int_equal(weft_sampler_next(greedy, s, &id, &err), WEFT_EINVAL);
    assert_int_equal(weft_session_logprobs(s, named, 2, &err), WEFT_EINVAL);
    assert_int_equal(weft_session_top(s, 3, top), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(weft_session_rewind(s, 0, &err), WEFT_OK);
        id = 1;
        for (int i = 0; i < 20; i++) {
            assert_int_equal(weft_session_eval(s, &id, 1, &err), WEFT_OK);
            assert_int_equal(weft_sampler_next(greedy, s, &id, &err), WEFT_OK);
            assert_int_equal(id, weft_session_greedy(s));
            assert_int_equal(weft_session_top(s, 3, top), 3);
            assert_int_equal(top[0].id, id);
            named[1].id = id;
            assert_int_equal(weft_session_logprobs(s, named, 2, &err), WEFT_OK);
            assert_true(named[1].logprob == top[0].logprob && named[0].logprob < 0);
            assert_int_equal(weft_sampler_next(warm, s, &id, &err), WEFT_OK);
            text[again][i] = id;
        }
    }
    assert_memory_equal(text[0], text[1], sizeof text[0]);
    named[0].id = 67;
    assert_int_equal(weft_session_logprobs(s, named, 1, &err), WEFT_EINVAL);
    weft_sampler_free(greedy);
    weft_sampler_free(warm);
    weft_session_free(s);
    weft_engine_free(e);
    weft_model_close(m);
}

/* A sampler for external logits; tokens that contain a breaker string end repetitions. */
static void without_a_model(void **state)
{
    (void)state;
    static const char words[] =
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":1,\"a.b\":2},"
        "\"unk_token\":\"a\"}}";
    weft_error err = { 0 };
    weft_sampler_options o = { .struct_size = sizeof o, .dry_multiplier = 1, .n_vocab = 3 };
    weft_sampler *s = weft_sampler_new(NULL, &o, &err);
    weft_tokenizer *t = weft_tokenizer_load(temp_file("tokenizer.json", words, sizeof words - 1),
                                            NULL, &err);
    if (!s || !t)
        fail_msg("%s", err.message);
    const float z[] = { 1, 2, 1.5f };
    const int32_t ids[] = { 2, 0, 1, 2, 0 };
    int32_t id;
    weft_token_prob kept;
    assert_int_equal(weft_sampler_pick(s, z, 3, ids, 5, &id, &err), WEFT_OK);
    assert_int_equal(id, 2); /* 1 would continue with "2 0 1" */
    assert_int_equal(weft_sampler_break(s, t, (const char *const[]){ "." }, 1, &err), WEFT_OK);
    assert_int_equal(weft_sampler_pick(s, z, 3, ids, 5, &id, &err), WEFT_OK);
    assert_int_equal(id, 1); /* now 2 ends repetitions */
    assert_int_equal(weft_sampler_kept(s, 1, &kept), 1);
    assert_true(kept.id == 1 && kept.p == 1);
    assert_int_equal(weft_sampler_pick(s, z, 4, NULL, 0, &id, &err), WEFT_EINVAL);
    assert_string_equal(err.message, "4 logits, but the sampler's vocabulary has 3");
    weft_sampler_reset(s);
    assert_non_null(strstr(weft_sampler_describe(s), "dry 1 * 1.75^(length - 2)"));
    weft_sampler_free(s);
    weft_sampler_free(NULL);
    weft_tokenizer_free(t);
    assert_null(weft_sampler_new(NULL, NULL, &err));
    assert_string_equal(err.message, "n_vocab is 0, expected 1 to 16777216");
    o.struct_size = sizeof o + 1;
    assert_null(weft_sampler_new(NULL, &o, NULL));
    o = (weft_sampler_options){ .struct_size = sizeof o, .n_vocab = 3, .n_bias = 1 };
    assert_null(weft_sampler_new(NULL, &o, &err));
    assert_string_equal(err.message, "no bias given");
}

int main(void)
{
    mem_init(&budget, 0, NULL);
    const struct CMUnitTest tests[] = {
        TEST("order: the sorted positions are in order", order_is_sorted),
        TEST("sampler: keeps the same tokens as transformers' processors", as_transformers),
        TEST("sampler: dry, xtc and mirostat follow their definitions", as_the_oracle),
        TEST("sampler: 10^5 draws follow their probabilities", chi_squared),
        TEST("sampler: a draw depends on seed and position only", seed_and_position),
        TEST("sampler: options at the ends of their ranges", edges),
        TEST("sampler: NaN logits, and no possible token", refused_logits),
        TEST("sampler: scores stay finite or forbidden", extreme_scores),
        TEST("sampler: penalties count in their window", counted_tokens),
        TEST("sampler: invalid options are refused by name", refused_options),
        TEST("sampler: the chain runs in its order", order_of_the_chain),
        TEST("sampler: a pick allocates no memory", takes_no_memory),
        TEST("sampler: a failed allocation leaves nothing behind", memory_faults),
        TEST("logprobs: the best of them, in order", top_logprobs),
        TEST("sampler: after a session, with its model's memory", of_a_session),
        TEST("sampler: without a model; strings that end repetitions", without_a_model),
    };
    return RUN(tests);
}

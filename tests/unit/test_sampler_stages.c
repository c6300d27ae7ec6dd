/* The stages of a draw: each equals a second computation here, straight from the formulas of weft.h;
 * the last one is what weft_sampler_pick draws from; looking changes no later draw. */
#include "support.h"

#include "base/rng.h"
#include "engine/sampler.h"

#include <math.h>

enum { V = 300, N_HISTORY = 40 };

/* ---- the second computation ------------------------------------------------------------------ */

typedef struct rest {
    int n;
    int32_t id[V];
    double z[V], p[V];
} rest;

static float scores[V];

static int better(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return scores[x] != scores[y] ? (scores[x] < scores[y] ? 1 : -1) : x - y;
}

/* All tokens in order, from their scores. */
static void all_of(rest *r, const float *z)
{
    memcpy(scores, z, sizeof scores);
    r->n = 0;
    for (int32_t i = 0; i < V; i++)
        if (z[i] > -INFINITY)
            r->id[r->n++] = i;
    qsort(r->id, (size_t)r->n, sizeof *r->id, better);
    for (int i = 0; i < r->n; i++)
        r->z[i] = (double)z[r->id[i]];
}

static void softmax(rest *r)
{
    double sum = 0;
    for (int i = 0; i < r->n; i++)
        sum += r->p[i] = exp(r->z[i] - r->z[0]);
    for (int i = 0; i < r->n; i++)
        r->p[i] /= sum;
}

/* Keeps [from, to). */
static void keep(rest *r, int from, int to)
{
    memmove(r->id, r->id + from, (size_t)(to - from) * sizeof *r->id);
    memmove(r->z, r->z + from, (size_t)(to - from) * sizeof *r->z);
    r->n = to - from;
    softmax(r);
}

static void penalise(float *z, const weft_sampler_options *o, const int32_t *ids, int n)
{
    const float r = o->repetition != 0 ? (float)o->repetition : 1;
    for (int32_t id = 0; id < V; id++) {
        int times = 0;
        for (int i = 0; i < n; i++)
            times += ids[i] == id;
        if (times == 0)
            continue;
        z[id] = z[id] < 0 ? z[id] * r : z[id] / r;
        z[id] = (float)((double)z[id] - (o->frequency * times + o->presence));
    }
}

/* For each token the longest repetition that it would extend. */
static void dry(float *z, const weft_sampler_options *o, const int32_t *ids, int n)
{
    int longest[V] = { 0 };
    for (int j = 0; j < n; j++)
        for (int length = 1; length <= j && ids[j - length] == ids[n - length]; length++)
            if (length > longest[ids[j]])
                longest[ids[j]] = length;
    for (int id = 0; id < V; id++)
        if (longest[id] >= 2)
            z[id] = (float)((double)z[id] - o->dry_multiplier * pow(1.75, longest[id] - 2));
}

static void typical(rest *r, double share)
{
    double entropy = 0, sum = 0, furthest = 0;
    bool in[V] = { false };
    for (int i = 0; i < r->n; i++)
        entropy -= r->p[i] * log(r->p[i]);
    while (sum < share) {
        int next = -1;
        for (int i = 0; i < r->n; i++)
            if (!in[i] &&
                (next < 0 || fabs(-log(r->p[i]) - entropy) < fabs(-log(r->p[next]) - entropy)))
                next = i;
        in[next] = true;
        sum += r->p[next];
        furthest = fabs(-log(r->p[next]) - entropy);
    }
    int from = 0, to = r->n;
    while (fabs(-log(r->p[from]) - entropy) > furthest + 1e-12)
        from++;
    while (fabs(-log(r->p[to - 1]) - entropy) > furthest + 1e-12)
        to--;
    keep(r, from, to);
}

/* The step whose name `stage` begins with; u is what the sampler drew. */
static void cut(rest *r, const char *stage, const weft_sampler_options *o, double u)
{
    int to = r->n;
    double sum = 0;
    if (strncmp(stage, "temperature", 11) == 0) {
        for (int i = 0; i < r->n; i++)
            r->z[i] /= o->temperature;
    } else if (strcmp(stage, "greedy") == 0) {
        to = 1;
    } else if (strncmp(stage, "top_k", 5) == 0) {
        for (to = (int)o->top_k; to < r->n && r->z[to] == r->z[o->top_k - 1];)
            to++;
    } else if (strncmp(stage, "top_p", 5) == 0) {
        for (to = 0; to < r->n && sum < o->top_p;)
            sum += r->p[to++];
    } else if (strncmp(stage, "min_p", 5) == 0) {
        for (to = 1; to < r->n && r->p[to] >= o->min_p * r->p[0];)
            to++;
    } else if (strncmp(stage, "typical", 7) == 0) {
        typical(r, o->typical);
        return;
    } else if (strncmp(stage, "xtc", 3) == 0) {
        int above = 0;
        while (u < o->xtc_probability && above < r->n && r->p[above] >= 0.1)
            above++;
        keep(r, above > 0 ? above - 1 : 0, r->n);
        return;
    } else if (strncmp(stage, "mirostat", 8) == 0) {
        for (to = 1; to < r->n && -log2(r->p[to]) <= 2 * o->mirostat_tau;)
            to++;
    } else if (strcmp(stage, "draw") != 0) {
        fail_msg("unknown stage %s", stage);
    }
    keep(r, 0, to);
}

/* ---- stages against it ----------------------------------------------------------------------- */

typedef struct check {
    const weft_sampler_options *opt;
    const int32_t *ids;
    int n_id;
    float z[V];
    rest now;
    int n_seen, stop_after;
    int64_t k;
    weft_candidate last[V];
    int64_t n_last;
    double u;
    int32_t id;
    char names[512];
} check;

static void same_rest(const check *c, const weft_sampler_stage *s)
{
    const int64_t shown = c->k < c->now.n ? c->k : c->now.n;
    if (s->n != c->now.n || s->n_best != shown)
        fail_msg("%s: %lld remain, expected %d", s->name, (long long)s->n, c->now.n);
    for (int64_t i = 0; i < shown; i++) {
        if (s->best[i].id != c->now.id[i])
            fail_msg("%s: place %d is token %d, expected %d", s->name, (int)i, (int)s->best[i].id,
                     (int)c->now.id[i]);
        const double z = c->now.z[i];
        if (fabs(s->best[i].score - z) > 1e-6 * fmax(1, fabs(z)) ||
            fabs(s->best[i].p - c->now.p[i]) > 1e-6)
            fail_msg("%s: token %d has %.9g and %.9g, expected %.9g and %.9g", s->name,
                     (int)s->best[i].id, s->best[i].score, s->best[i].p, z, c->now.p[i]);
    }
}

static bool see(void *ud, const weft_sampler_stage *s)
{
    check *c = ud;
    assert_int_equal(s->struct_size, sizeof *s);
    const size_t used = strlen(c->names);
    snprintf(c->names + used, sizeof c->names - used, "%s; ", s->name);
    const bool scores_change = strncmp(s->name, "logits", 6) == 0 ||
                               strncmp(s->name, "bias", 4) == 0 ||
                               strncmp(s->name, "penalties", 9) == 0 ||
                               strncmp(s->name, "dry", 3) == 0;
    if (strncmp(s->name, "bias", 4) == 0)
        for (int64_t i = 0; i < c->opt->n_bias; i++)
            c->z[c->opt->bias[i].id] += c->opt->bias[i].bias;
    else if (strncmp(s->name, "penalties", 9) == 0)
        penalise(c->z, c->opt, c->ids, c->n_id);
    else if (strncmp(s->name, "dry", 3) == 0)
        dry(c->z, c->opt, c->ids, c->n_id);
    if (scores_change) {
        all_of(&c->now, c->z);
        softmax(&c->now);
    } else {
        cut(&c->now, s->name, c->opt, s->u);
    }
    same_rest(c, s);
    const bool draw = strcmp(s->name, "draw") == 0;
    const bool random = (draw && s->n > 1) || strncmp(s->name, "xtc", 3) == 0;
    assert_true(random ? s->u >= 0 && s->u < 1 : s->u == -1);
    assert_true(draw == (s->id >= 0));
    c->id = s->id;
    c->u = s->u;
    c->n_last = s->n_best;
    memcpy(c->last, s->best, (size_t)s->n_best * sizeof *s->best);
    return ++c->n_seen != c->stop_after;
}

static const weft_bias biases[] = { { 3, 4 }, { 7, -INFINITY }, { 250, 1.5f } };

static const weft_sampler_options ways[] = {
    { .temperature = 0 },
    { .temperature = 0.8, .top_k = 40, .top_p = 0.95, .seed = 7 },
    { .temperature = 1.3, .min_p = 0.05 },
    { .temperature = 1, .typical = 0.7, .bias = biases, .n_bias = 3 },
    { .temperature = 0.7, .xtc_probability = 0.5, .top_k = 30, .mirostat_tau = 4 },
    { .temperature = 1.1, .mirostat_tau = 3, .repetition = 1.3, .frequency = 0.2 },
    { .temperature = 2, .dry_multiplier = 0.9, .presence = 0.5, .top_p = 0.5 },
    { .temperature = 0.5 },
    { .temperature = 1.5, .top_p = 0.8, .top_k = 9, .chain = "top_k;top_p;temperature" },
};

enum { N_WAY = sizeof ways / sizeof *ways };

static void fill(float *z, int32_t *ids, uint64_t key)
{
    for (int i = 0; i < V; i++)
        z[i] = (float)(2 * rng_normal(4, key, (uint64_t)i));
    for (int i = 0; i < N_HISTORY; i++) /* few tokens, so that they repeat */
        ids[i] = (int32_t)(rng_draw(5, key, (uint64_t)i).word[0] % 5);
}

static weft_sampler *make(const weft_sampler_options *way, uint64_t seed)
{
    weft_error err = { 0 };
    weft_sampler_options o = *way;
    o.struct_size = sizeof o;
    o.n_vocab = V;
    o.seed += seed;
    weft_sampler *s = weft_sampler_new(NULL, &o, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

/* As the draw is defined: the first token with which the sum of p passes u. */
static int32_t drawn(const rest *r, double u)
{
    double sum = 0;
    for (int i = 0; i < r->n; i++)
        if ((sum += r->p[i]) > u)
            return r->id[i];
    return r->id[r->n - 1];
}

static void one_draw(const weft_sampler_options *way, uint64_t key)
{
    check c = { .opt = way, .n_id = N_HISTORY, .k = V };
    int32_t ids[N_HISTORY], id = -1;
    weft_error err = { 0 };
    weft_token_prob kept[2][V];
    weft_sampler *s = make(way, key);
    fill(c.z, ids, key);
    c.ids = ids;
    float z[V];
    memcpy(z, c.z, sizeof z);
    if (weft_sampler_stages(s, z, V, ids, N_HISTORY, V, see, &c, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const int64_t n = weft_sampler_kept(s, V, kept[0]);
    weft_sampler_reset(s);
    assert_int_equal(weft_sampler_pick(s, z, V, ids, N_HISTORY, &id, &err), WEFT_OK);
    assert_int_equal(c.id, id);
    assert_int_equal(weft_sampler_kept(s, V, kept[1]), n);
    assert_int_equal(c.n_last, n);
    for (int64_t i = 0; i < n; i++) { /* bit by bit */
        assert_true(kept[0][i].id == kept[1][i].id && kept[0][i].id == c.last[i].id);
        assert_true(kept[0][i].p == kept[1][i].p && kept[0][i].p == c.last[i].p);
    }
    if (c.u >= 0)
        assert_int_equal(drawn(&c.now, c.u), id);
    char expected[600];
    snprintf(expected, sizeof expected, "logits; %s", weft_sampler_describe(s));
    *strstr(expected, "seed ") = '\0';
    strcat(expected, "draw; ");
    assert_string_equal(c.names, expected);
    weft_sampler_free(s);
}

static void as_the_formulas(void **state)
{
    (void)state;
    for (uint64_t key = 0; key < 40; key++)
        for (int i = 0; i < N_WAY; i++)
            one_draw(&ways[i], key);
}

static bool count_only(void *ud, const weft_sampler_stage *s)
{
    int64_t *most = ud;
    assert_true(s->n_best <= *most && (s->n_best == *most || s->n_best == s->n));
    return true;
}

/* Two samplers draw the same text and report the same bits, though only one of them is looked at, for
 * any number of tokens shown. A large vocabulary, so that most of it is never sorted. */
static void looking_changes_nothing(void **state)
{
    (void)state;
    enum { LARGE = 30000 };
    static float z[LARGE];
    static weft_token_prob kept[2][LARGE];
    for (int i = 0; i < N_WAY; i++) {
        weft_error err = { 0 };
        weft_sampler_options o = ways[i];
        o.struct_size = sizeof o;
        o.n_vocab = LARGE;
        weft_sampler *plain = weft_sampler_new(NULL, &o, &err),
                     *seen = weft_sampler_new(NULL, &o, &err);
        int32_t ids[64] = { 0 };
        for (int n = 0; n < 24; n++) {
            int32_t id[2];
            for (int k = 0; k < LARGE; k++)
                z[k] = (float)(2 * rng_normal(6, (uint64_t)n, (uint64_t)k));
            int64_t most = n % 4 == 3 ? LARGE : n * 97;
            if (weft_sampler_stages(seen, z, LARGE, ids, n, most, count_only, &most, &err))
                fail_msg("%s", err.message);
            const int64_t before = weft_sampler_kept(seen, LARGE, kept[0]);
            assert_int_equal(weft_sampler_pick(plain, z, LARGE, ids, n, &id[0], &err), WEFT_OK);
            assert_int_equal(weft_sampler_kept(plain, LARGE, kept[1]), before);
            for (int64_t k = 0; k < before; k++)
                assert_true(kept[0][k].id == kept[1][k].id && kept[0][k].p == kept[1][k].p);
            assert_int_equal(weft_sampler_pick(seen, z, LARGE, ids, n, &id[1], &err), WEFT_OK);
            assert_int_equal(id[0], id[1]);
            ids[n] = id[0];
        }
        weft_sampler_free(plain);
        weft_sampler_free(seen);
    }
}

static void stopped_and_refused(void **state)
{
    (void)state;
    check c = { .opt = &ways[1], .n_id = N_HISTORY, .k = 3, .stop_after = 2 };
    int32_t ids[N_HISTORY];
    weft_error err = { 0 };
    weft_sampler *s = make(&ways[1], 0);
    fill(c.z, ids, 1);
    c.ids = ids;
    float z[V];
    memcpy(z, c.z, sizeof z);
    assert_int_equal(weft_sampler_stages(s, z, V, ids, N_HISTORY, 3, see, &c, &err), WEFT_ESTOPPED);
    assert_string_equal(err.message, "stopped after temperature 0.8");
    assert_int_equal(c.n_seen, 2);
    assert_int_equal(weft_sampler_kept(s, 0, NULL), 0);
    assert_int_equal(weft_sampler_stages(s, z, V - 1, ids, 1, 3, see, &c, &err), WEFT_EINVAL);
    assert_int_equal(weft_sampler_stages(s, z, V, ids, 1, -1, see, &c, &err), WEFT_EINVAL);
    assert_int_equal(weft_sampler_stages(s, z, V, ids, 1, 3, NULL, &c, &err), WEFT_EINVAL);
    assert_int_equal(weft_sampler_stages(s, NULL, V, ids, 1, 3, see, &c, &err), WEFT_EINVAL);
    assert_int_equal(weft_sampler_stages(NULL, z, V, ids, 1, 3, see, &c, &err), WEFT_EINVAL);
    z[9] = NAN;
    assert_int_equal(weft_sampler_stages(s, z, V, ids, 1, 3, see, &c, &err), WEFT_ENUMERIC);
    weft_sampler_free(s);
}

/* An allocation that fails leaves nothing behind, and the sampler as it was. */
static void memory_fault(void **state)
{
    (void)state;
    host h;
    faults f = { 0 };
    weft_error err = { 0 };
    float z[V];
    int32_t ids[N_HISTORY];
    int64_t most = V;
    host_faulty(&h, &f, NULL);
    fill(z, ids, 2);
    sampler *s = sampler_new(&h.mem, V, &ways[5], &err);
    const double mu = s->mu;
    const size_t used = h.mem.used;
    f.fail_at = f.calls + 1;
    assert_int_equal(sampler_stages(s, z, ids, 3, V, count_only, &most, &err), WEFT_ENOMEM);
    f.fail_at = 0;
    assert_int_equal(sampler_stages(s, z, ids, 3, V, count_only, &most, &err), WEFT_OK);
    assert_true(s->mu == mu && h.mem.used == used && !s->watch);
    sampler_free(s);
    assert_int_equal(f.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("stages: as the formulas say; the last is what is drawn from", as_the_formulas),
        TEST("stages: looking changes no bit of later draws", looking_changes_nothing),
        TEST("stages: a callback stops them; bad arguments are refused", stopped_and_refused),
        TEST("stages: a failed allocation leaves nothing behind", memory_fault),
    };
    return RUN(tests);
}

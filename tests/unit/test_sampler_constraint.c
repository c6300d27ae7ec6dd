/* A sampler under a constraint draws what it would draw if all refused logits were -inf: asked token
 * by token or by a whole mask, with any steps. */
#include "support.h"

#include "base/rng.h"
#include "engine/sampler.h"
#include "text/constrain/grammar.h"
#include "text/constrain/token_trie.h"
#include "text/sources/source.h"

#include <math.h>

typedef struct table {
    host host;
    tokenizer tokenizer;
    token_trie trie;
    constraint_set *set;
    constraint *c;
    int64_t V;
    weft_error err;
} table;

static void open_table(table *b, const char *pattern)
{
    host_plain(&b->host);
    b->err = (weft_error){ 0 };
    const char *path = fixture("../models/shakespeare.gguf");
    if (tokenizer_load(&b->tokenizer, path, NULL, WEFT_LOAD_MAP, &b->host, &b->err) != WEFT_OK ||
        token_trie_init(&b->trie, &b->tokenizer, &b->host.mem, &b->err) != WEFT_OK)
        fail_msg("%s", b->err.message);
    b->V = b->trie.n_id;
    grammar *g = pattern_read(&b->host.mem, pattern, strlen(pattern), NULL, &b->err);
    assert_non_null(g);
    const int32_t end = b->tokenizer.eos >= 0 ? b->tokenizer.eos : 0;
    b->set = constraint_set_new(&b->host.mem, g, &b->trie, &end, 1, &b->err);
    assert_non_null(b->set);
    b->c = constraint_new(b->set, &b->err);
    assert_non_null(b->c);
}

static void close_table(table *b)
{
    constraint_free(b->c);
    constraint_set_free(b->set);
    token_trie_free(&b->trie);
    tokenizer_free(&b->tokenizer);
    assert_int_equal(b->host.mem.used, 0);
}

static const weft_sampler_options ways[] = {
    { .temperature = 0 },
    { .temperature = 0, .repetition = 1.3 },
    { .temperature = 1, .top_k = 1 },
    { .temperature = 0.8, .top_k = 40, .top_p = 0.9 },
    { .temperature = 1, .top_k = 200 },
    { .temperature = 1.5, .top_p = 0.95 },
    { .temperature = 1, .min_p = 0.05 },
    { .temperature = 1, .typical = 0.8 },
    { .temperature = 1, .xtc_probability = 0.5 },
    { .temperature = 1, .mirostat_tau = 3 },
    { .temperature = 1, .top_k = 7, .chain = "top_k;temperature" },
    { .temperature = 1, .top_k = 5, .top_p = 0.7, .chain = "top_p;top_k;temperature" },
};

/* floor: many equal scores, so that ties count. */
static void fill_logits(float *z, int64_t V, uint64_t key, bool ties)
{
    for (int64_t i = 0; i < V; i++) {
        const double x = 3 * rng_normal(9, key, (uint64_t)i);
        z[i] = (float)(ties ? floor(x) : x);
    }
}

/* One text: the two samplers draw alike, token after token. */
static void compare_text(table *b, const weft_sampler_options *o, uint64_t key)
{
    weft_sampler_options with = *o;
    with.seed = key;
    sampler *a = sampler_new(&b->host.mem, b->V, &with, &b->err);
    sampler *plain = sampler_new(&b->host.mem, b->V, &with, &b->err);
    if (!a || !plain)
        fail_msg("%s", b->err.message);
    float *z = calloc((size_t)b->V, sizeof *z), *masked = calloc((size_t)b->V, sizeof *z);
    uint64_t *bits = calloc((size_t)b->V / 64 + 1, sizeof *bits);
    int32_t history[16];
    a->constraint = b->c;
    constraint_rewind(b->c, 0);
    for (int n = 0; n < 12 && !constraint_done(b->c); n++) {
        int32_t id = -1, expected = -1;
        fill_logits(z, b->V, key * 100 + (uint64_t)n, key % 2);
        assert_int_equal(constraint_mask(b->c, bits, b->V, &b->err), WEFT_OK);
        for (int64_t i = 0; i < b->V; i++)
            masked[i] = bits[i / 64] >> i % 64 & 1 ? z[i] : -INFINITY;
        assert_int_equal(sampler_pick(a, z, history, n, &id, &b->err), WEFT_OK);
        assert_int_equal(sampler_pick(plain, masked, history, n, &expected, &b->err), WEFT_OK);
        assert_int_equal(id, expected);
        assert_true(a->mu == plain->mu && bits[id / 64] >> id % 64 & 1);
        assert_int_equal(constraint_accept(b->c, id, &b->err), WEFT_OK);
        history[n] = id;
    }
    free(z);
    free(masked);
    free(bits);
    sampler_free(a);
    sampler_free(plain);
}

static void compare_all(const char *pattern)
{
    table b;
    open_table(&b, pattern);
    for (uint64_t key = 0; key < (quick() ? 2 : 12); key++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            compare_text(&b, &ways[i], key);
    close_table(&b);
}

static void narrow(void **state)
{
    (void)state;
    compare_all("(yes|no|maybe), (my|your) (lord|king)[.!?]*");
}

static void wide(void **state)
{
    (void)state;
    compare_all("[^e]*");
}

static void nothing_left(void **state)
{
    (void)state;
    table b;
    open_table(&b, "abc");
    sampler *s = sampler_new(&b.host.mem, b.V, &ways[5], &b.err);
    float *z = calloc((size_t)b.V, sizeof *z);
    int32_t id;
    s->constraint = b.c;
    for (int64_t i = 0; i < b.V; i++)
        z[i] = constraint_allows(b.c, (int32_t)i, &b.err) ? -INFINITY : 0;
    assert_int_equal(sampler_pick(s, z, NULL, 0, &id, &b.err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(b.err.message, "no token of the vocabulary continues the text"));
    free(z);
    sampler_free(s);
    close_table(&b);
}

typedef struct seen {
    table *b;
    int64_t n_constraint, n_last;
    weft_candidate last[64];
} seen;

static bool see_stage(void *ud, const weft_sampler_stage *s)
{
    seen *c = ud;
    weft_error err = { 0 };
    const bool before = strcmp(s->name, "logits") == 0;
    for (int64_t i = 0; i < s->n_best && !before; i++)
        assert_true(constraint_allows(c->b->c, s->best[i].id, &err));
    if (strcmp(s->name, "constraint") == 0)
        c->n_constraint = s->n;
    c->n_last = s->n_best;
    memcpy(c->last, s->best, (size_t)s->n_best * sizeof *s->best);
    return true;
}

/* The stages show the whole mask, though the pick asks for the best tokens only; the end is the
 * same. */
static void stage_of_a_constraint(void **state)
{
    (void)state;
    table b;
    open_table(&b, "[^e]*"); /* wide, so that asking is enough for the pick */
    const weft_sampler_options o = { .temperature = 1, .top_k = 5 };
    sampler *s = sampler_new(&b.host.mem, b.V, &o, &b.err);
    float *z = calloc((size_t)b.V, sizeof *z);
    uint64_t *bits = calloc((size_t)b.V / 64 + 1, sizeof *bits);
    seen c = { .b = &b };
    int32_t id;
    weft_token_prob kept[64];
    s->constraint = b.c;
    for (uint64_t key = 0; key < 8; key++) {
        fill_logits(z, b.V, key, false);
        int64_t allowed = 0;
        assert_int_equal(constraint_mask(b.c, bits, b.V, &b.err), WEFT_OK);
        for (int64_t i = 0; i < b.V; i++)
            allowed += (int64_t)(bits[i / 64] >> i % 64 & 1);
        assert_int_equal(sampler_stages(s, z, NULL, 0, 64, see_stage, &c, &b.err), WEFT_OK);
        assert_int_equal(c.n_constraint, allowed);
        assert_int_equal(sampler_pick(s, z, NULL, 0, &id, &b.err), WEFT_OK);
        assert_int_equal(sampler_kept(s, 64, kept), c.n_last);
        for (int64_t i = 0; i < c.n_last; i++)
            assert_true(kept[i].id == c.last[i].id && kept[i].p == c.last[i].p);
    }
    free(z);
    free(bits);
    sampler_free(s);
    close_table(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("sampler: a narrow constraint is the same as refused logits of -inf", narrow),
        TEST("sampler: a wide constraint is the same as refused logits of -inf", wide),
        TEST("sampler: the stage of a constraint shows all it allows", stage_of_a_constraint),
        TEST("sampler: a constraint that leaves no token is an error", nothing_left),
    };
    return RUN(tests);
}

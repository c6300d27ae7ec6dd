/* sampler.c - makes a sampler and runs its chain: penalties on scores, cuts of the order, one
 * draw. */
#include "engine/sampler.h"

#include <math.h>
#include <stdio.h>

/* ---- options --------------------------------------------------------------------------------- */

#define AT(option) #option, offsetof(weft_sampler_options, option)

/* Valid ranges of options that are not 0. */
static weft_status check_reals(const weft_sampler_options *o, weft_error *err)
{
    static const struct {
        const char *name;
        size_t at;
        double low, high;
    } real[] = {
        { AT(temperature), 0, 1000 },  { AT(top_p), 0, 1 },
        { AT(min_p), 0, 1 },           { AT(typical), 0, 1 },
        { AT(repetition), 0.01, 100 }, { AT(frequency), -100, 100 },
        { AT(presence), -100, 100 },   { AT(dry_multiplier), 0, 100 },
        { AT(dry_base), 1, 10 },       { AT(xtc_probability), 0, 1 },
        { AT(xtc_threshold), 0, 0.5 }, { AT(mirostat_tau), 0, 100 },
        { AT(mirostat_eta), 0, 1 },
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        double x;
        memcpy(&x, (const char *)o + real[i].at, sizeof x);
        if (x != 0 && !(x >= real[i].low && x <= real[i].high))
            return weft_fail(err, WEFT_EINVAL, "%s is %g, expected %g to %g%s", real[i].name, x,
                             real[i].low, real[i].high,
                             real[i].low > 0 ? ", or 0 for the default" : "");
    }
    return WEFT_OK;
}

#define LONGEST_WINDOW ((int64_t)1 << 24)
#define MAX_VOCAB      ((int64_t)1 << 24) /* a sampler allocates 21 bytes for each token */

static weft_status check_integers(const weft_sampler_options *o, weft_error *err)
{
    static const struct {
        const char *name;
        size_t at;
        int64_t high;
    } integer[] = {
        { AT(top_k), INT64_MAX },           { AT(penalty_last_n), INT64_MAX },
        { AT(dry_length), LONGEST_WINDOW }, { AT(dry_last_n), LONGEST_WINDOW },
        { AT(n_bias), LONGEST_WINDOW },     { AT(n_breaker), LONGEST_WINDOW },
    };
    for (size_t i = 0; i < sizeof integer / sizeof *integer; i++) {
        int64_t x;
        memcpy(&x, (const char *)o + integer[i].at, sizeof x);
        if (x < 0 || x > integer[i].high)
            return weft_fail(err, WEFT_EINVAL, "%s is %lld, expected 0 to %lld", integer[i].name,
                             (long long)x, (long long)integer[i].high);
    }
    return WEFT_OK;
}

static weft_status no_such_token(const char *what, int64_t i, int32_t id, int64_t n_vocab,
                                 weft_error *err)
{
    return weft_fail(err, WEFT_EINVAL, "%s %lld is for token %d, the vocabulary has %lld", what,
                     (long long)i, (int)id, (long long)n_vocab);
}

static weft_status check_arrays(const weft_sampler_options *o, int64_t n_vocab, weft_error *err)
{
    for (int64_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= n_vocab)
            return no_such_token("bias", i, o->bias[i].id, n_vocab, err);
        if (!(o->bias[i].bias < INFINITY))
            return weft_fail(err, WEFT_EINVAL,
                             "the bias of token %d is %g, expected a number or -inf",
                             (int)o->bias[i].id, (double)o->bias[i].bias);
    }
    for (int64_t i = 0; i < o->n_breaker; i++)
        if (o->breakers[i] < 0 || o->breakers[i] >= n_vocab)
            return no_such_token("breaker", i, o->breakers[i], n_vocab, err);
    return WEFT_OK;
}

static void fill_defaults(weft_sampler_options *o)
{
    o->repetition = o->repetition != 0 ? o->repetition : 1;
    o->dry_base = o->dry_base != 0 ? o->dry_base : 1.75;
    o->dry_length = o->dry_length != 0 ? o->dry_length : 2;
    o->dry_last_n = o->dry_last_n != 0 ? o->dry_last_n : 4096;
    o->xtc_threshold = o->xtc_threshold != 0 ? o->xtc_threshold : 0.1;
    o->mirostat_eta = o->mirostat_eta != 0 ? o->mirostat_eta : 0.1;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static const char default_chain[] =
    "bias;penalties;dry;temperature;top_k;top_p;min_p;typical;xtc;mirostat";

static const sampler_step *find_step(const char *name, size_t length)
{
    for (int i = 0; i < SAMPLER_STEPS; i++)
        if (strlen(sampler_steps[i].name) == length &&
            memcmp(sampler_steps[i].name, name, length) == 0)
            return &sampler_steps[i];
    return NULL;
}

/* Refuses an option that is set but would have no effect. */
static weft_status check_named(const sampler *s, const char *chain, const bool *named,
                               weft_error *err)
{
    for (int i = 0; i < SAMPLER_STEPS; i++)
        if (!named[i] && sampler_steps[i].on(&s->opt))
            return weft_fail(err, WEFT_EINVAL, "the chain \"%s\" lacks %s, which the options set",
                             chain, sampler_steps[i].name);
    return WEFT_OK;
}

static weft_status read_chain(sampler *s, weft_error *err)
{
    const char *chain = s->opt.chain ? s->opt.chain : default_chain;
    bool named[SAMPLER_STEPS] = { false }, cutting = false;
    for (const char *at = chain; *at;) {
        const size_t length = strcspn(at, ";");
        const sampler_step *step = find_step(at, length);
        if (!step)
            return weft_fail(err, WEFT_EINVAL, "chain: unknown sampler \"%.*s\"; the default is %s",
                             (int)(length < 64 ? length : 64), at, default_chain);
        if (named[step - sampler_steps])
            return weft_fail(err, WEFT_EINVAL, "chain: %s occurs twice", step->name);
        if (step->scores && cutting)
            return weft_fail(
                err, WEFT_EINVAL,
                "chain: %s changes logits, so it must precede the samplers that do not",
                step->name);
        named[step - sampler_steps] = true;
        cutting = cutting || !step->scores;
        if (step->on(&s->opt))
            s->chain[s->n_step++] = step;
        at += length + (at[length] == ';');
    }
    return check_named(s, chain, named, err);
}

/* How many tokens of the history the steps use. */
static int64_t find_window(const weft_sampler_options *o)
{
    const int64_t all = o->penalty_last_n > 0 ? o->penalty_last_n : INT64_MAX;
    const int64_t counted = sampler_counts(o) ? all : 0;
    const int64_t compared = o->dry_multiplier > 0 ? o->dry_last_n : 0;
    return counted > compared ? counted : compared;
}

static void sampler_describe(sampler *s)
{
    size_t n = 0;
    for (int i = 0; i < s->n_step && n < sizeof s->line; i++) {
        n += (size_t)s->chain[i]->say(&s->opt, s->line + n, sizeof s->line - n);
        if (n < sizeof s->line)
            n += (size_t)snprintf(s->line + n, sizeof s->line - n, "; ");
    }
    if (n < sizeof s->line)
        snprintf(s->line + n, sizeof s->line - n, "seed %llu", (unsigned long long)s->opt.seed);
}

/* ---- life ------------------------------------------------------------------------------------ */

static weft_status alloc_sampler(sampler *s, weft_error *err)
{
    const weft_sampler_options *o = &s->opt;
    const size_t V = (size_t)s->n_vocab;
    s->bias = mem_zalloc(s->mem, (size_t)o->n_bias + 1, sizeof *s->bias, "a sampler", err);
    s->z = mem_zalloc(s->mem, V, sizeof *s->z, "a sampler", err);
    s->places = mem_zalloc(s->mem, V, sizeof *s->places, "a sampler", err);
    s->times = mem_zalloc(s->mem, V, sizeof *s->times, "a sampler", err);
    s->breaks = mem_zalloc(s->mem, V, sizeof *s->breaks, "a sampler", err);
    s->repeats = mem_zalloc(s->mem, o->dry_multiplier > 0 ? (size_t)o->dry_last_n : 1,
                            sizeof *s->repeats, "a sampler", err);
    s->allowed = mem_zalloc(s->mem, V / 64 + 1, sizeof *s->allowed, "a sampler", err);
    if (!s->bias || !s->z || !s->places || !s->times || !s->breaks || !s->repeats || !s->allowed)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < o->n_bias; i++)
        s->bias[i] = o->bias[i];
    for (int64_t i = 0; i < o->n_breaker; i++)
        s->breaks[o->breakers[i]] = true;
    return WEFT_OK;
}

weft_status sampler_check(int64_t n_vocab, const weft_sampler_options *o, weft_error *err)
{
    if (n_vocab < 1 || n_vocab > MAX_VOCAB)
        return weft_fail(err, WEFT_EINVAL, "n_vocab is %lld, expected 1 to %lld",
                         (long long)n_vocab, (long long)MAX_VOCAB);
    if (check_reals(o, err) != WEFT_OK || check_integers(o, err) != WEFT_OK ||
        check_arrays(o, n_vocab, err) != WEFT_OK)
        return err->code;
    sampler s = { .opt = *o };
    fill_defaults(&s.opt);
    return read_chain(&s, err);
}

sampler *sampler_new(mem *m, int64_t n_vocab, const weft_sampler_options *o, weft_error *err)
{
    if (sampler_check(n_vocab, o, err) != WEFT_OK)
        return NULL;
    sampler *s = mem_zalloc(m, 1, sizeof *s, "a sampler", err);
    if (!s)
        return NULL;
    *s = (sampler){ .opt = *o, .mem = m, .n_vocab = n_vocab };
    fill_defaults(&s->opt);
    if (read_chain(s, err) != WEFT_OK || alloc_sampler(s, err) != WEFT_OK) {
        sampler_free(s);
        return NULL;
    }
    s->opt.chain = NULL; /* the caller may free its own now */
    s->opt.bias = NULL;
    s->opt.breakers = NULL;
    s->window = find_window(&s->opt);
    sampler_describe(s);
    sampler_reset(s);
    return s;
}

void sampler_free(sampler *s)
{
    if (!s)
        return;
    mem_free(s->mem, s->bias);
    mem_free(s->mem, s->z);
    mem_free(s->mem, s->places);
    mem_free(s->mem, s->times);
    mem_free(s->mem, s->breaks);
    mem_free(s->mem, s->repeats);
    mem_free(s->mem, s->allowed);
    mem_free(s->mem, s);
}

void sampler_reset(sampler *s)
{
    s->mu = 2 * s->opt.mirostat_tau;
    s->first = s->end = 0;
}

/* ---- a pick ---------------------------------------------------------------------------------- */

/* Checks only the part of the history that steps use. */
static weft_status check_history(const sampler *s, const int32_t *ids, int64_t n, weft_error *err)
{
    if (n < 0 || n > INT32_MAX || (n > 0 && !ids && s->window > 0))
        return weft_fail(err, WEFT_EINVAL, "a history of %lld tokens: %s", (long long)n,
                         n < 0 || n > INT32_MAX ? "expected 0 to 2147483647" : "ids is NULL");
    for (int64_t i = n > s->window ? n - s->window : 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->n_vocab)
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of the history is %d, the vocabulary has %lld",
                             (long long)i, (int)ids[i], (long long)s->n_vocab);
    return WEFT_OK;
}

static weft_status take_logits(sampler *s, const float *logits, weft_error *err)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < s->n_vocab; i++) {
        s->z[i] = logits[i];
        bad += !(logits[i] < INFINITY);
    }
    for (int64_t i = 0; i < s->n_vocab && bad > 0; i++)
        if (!(logits[i] < INFINITY))
            return weft_fail(err, WEFT_ENUMERIC, "the logit of token %lld is %g", (long long)i,
                             (double)logits[i]);
    return WEFT_OK;
}

/* Walks along the remaining tokens until the sum of weights passes a uniform share of the total;
 * rounding may leave the last. */
static int64_t sampler_draw(sampler *s)
{
    if (s->end - s->first == 1)
        return s->first;
    const double share = sampler_uniform(s, SAMPLER_DRAW) * sampler_sum(s).w;
    double sum = 0;
    for (int64_t i = s->first; i < s->end - 1; i++)
        if ((sum += sampler_weight(s, i)) > share)
            return i;
    return s->end - 1;
}

/* Shows what a stage has left: a step, or one with a fixed name. */
static weft_status show(sampler *s, const sampler_step *step, const char *name, weft_error *err)
{
    char said[160];
    if (!s->watch)
        return WEFT_OK;
    if (step)
        step->say(&s->opt, said, sizeof said);
    return s->watch->see(s->watch, s, step ? said : name, err);
}

/* Runs the steps up to the draw. */
static weft_status run_chain(sampler *s, weft_error *err)
{
    weft_status status = show(s, NULL, "logits", err);
    int step = 0;
    for (; status == WEFT_OK && step < s->n_step && s->chain[step]->scores; step++) {
        s->chain[step]->apply(s);
        status = show(s, s->chain[step], NULL, err);
    }
    if (status == WEFT_OK)
        status = sampler_order(s, err);
    if (status != WEFT_OK)
        return status;
    s->end = s->order.n;
    if (s->constraint)
        status = show(s, NULL, "constraint", err);
    for (; status == WEFT_OK && step < s->n_step; step++) {
        s->u = -1;
        s->chain[step]->apply(s);
        status = show(s, s->chain[step], NULL, err);
    }
    return status;
}

weft_status sampler_pick(sampler *s, const float *logits, const int32_t *ids, int64_t n,
                         int32_t *id, weft_error *err)
{
    s->first = s->end = 0;
    weft_status status = check_history(s, ids, n, err);
    if (status == WEFT_OK)
        status = take_logits(s, logits, err);
    if (status != WEFT_OK)
        return status;
    s->ids = ids;
    s->n_id = n;
    s->temperature = 1;
    s->u = -1;
    s->chosen = -1;
    status = run_chain(s, err);
    if (status != WEFT_OK)
        return status;
    s->u = -1;
    s->chosen = sampler_draw(s);
    if (s->opt.mirostat_tau > 0)
        s->mu += s->opt.mirostat_eta *
                 (s->opt.mirostat_tau + log2(sampler_weight(s, s->chosen) / sampler_sum(s).w));
    order_lead(&s->order, s->chosen + 1);
    *id = order_id(&s->order, s->chosen);
    return show(s, NULL, "draw", err);
}

int64_t sampler_kept(sampler *s, int64_t k, weft_token_prob *out)
{
    const int64_t n = s->end - s->first;
    const double all = n > 0 ? sampler_sum(s).w : 1;
    for (int64_t i = 0; i < k && i < n; i++) {
        const double p = sampler_weight(s, s->first + i) / all;
        out[i] = (weft_token_prob){ order_id(&s->order, s->first + i), p };
    }
    return n;
}

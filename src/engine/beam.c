/* beam.c - a step of beam search: rank all continuations, move the ended ones out, fork sessions
 * for the rest. Forks share pages, so beams only pay for the tokens in which they differ. */
#include "engine/beam.h"

#include "engine/logprob.h"
#include "engine/order.h"

#include <math.h>
#include <string.h>

/* A live text and a token that may follow it. */
typedef struct choice {
    double score; /* sum of log p */
    int beam;
    int32_t id;
    bool ends; /* ends the text, or the text has reached its length limit */
} choice;

typedef struct finished {
    int32_t *ids;
    int64_t n;
    double score;
    bool ended;
} finished;

typedef struct search {
    engine *engine;
    mem *mem;
    const session *begun; /* has evaluated the prompt, or NULL */
    const weft_beam_options *opt;
    adaption adapted;         /* of all sessions, unless `begun` has its own */
    int64_t n_prompt, n_made; /* tokens of the prompt, and of every live text after it */
    session **session;        /* [n_beam], sessions of the live texts; those after n_live are
                               * spare */
    double *score;            /* [n_beam] */
    int n_live;
    choice *choice; /* [n_wide + 1], best first */
    int n_choice, n_wide;
    finished *finished; /* [n_beam + 1], best first */
    int n_finished;
    int32_t *room;    /* of their ids */
    uint64_t *places; /* [V] */
    work *work;       /* [n_beam] */
    int32_t *next;    /* [n_beam]: next tokens of the live texts */
    bool stopped;     /* by the caller's fn */
} search;

/* ---- candidates ------------------------------------------------------------------------------ */

/* False if it is not among the best. Of equal scores the first stays first. */
static bool add_choice(search *s, choice c)
{
    int at = s->n_choice;
    if (at == s->n_wide && s->choice[at - 1].score >= c.score)
        return false;
    while (at > 0 && s->choice[at - 1].score < c.score) {
        s->choice[at] = s->choice[at - 1];
        at--;
    }
    s->choice[at] = c;
    s->n_choice += s->n_choice < s->n_wide;
    return true;
}

static bool ends_text(const search *s, int32_t id)
{
    for (int i = 0; i < s->opt->n_end; i++)
        if (s->opt->ends[i] == id)
            return true;
    return false;
}

/* The best next tokens over all live texts. Each text's tokens come best first, so after the first
 * one that is not good enough, the rest of that text can be skipped. */
static void choose_tokens(search *s)
{
    const int64_t V = s->engine->model->n_vocab;
    const bool last = s->n_made + 1 == s->opt->n_new;
    s->n_choice = 0;
    for (int b = 0; b < s->n_live; b++) {
        const float *z = s->session[b]->logits;
        const double base = s->score[b] - logits_log_sum_exp(z, V);
        order o;
        order_begin(&o, z, V, s->places);
        order_lead(&o, s->n_wide);
        for (int64_t i = 0; i < s->n_wide && i < o.n; i++) {
            const int32_t id = order_id(&o, i);
            const double score = base + (double)order_score(&o, i);
            if (!add_choice(s, (choice){ score, b, id, last || ends_text(s, id) }))
                break;
        }
    }
}

/* ---- finished texts -------------------------------------------------------------------------- */

static double text_score(const search *s, double sum, int64_t length)
{
    return sum / pow((double)length, s->opt->length_penalty);
}

/* Adds the live text and its last token to the finished ones, if it is among the best n_beam. The
 * buffer of the one that drops out is reused for the next. */
static void finish_text(search *s, const choice *c)
{
    const int64_t n = s->n_made + 1;
    const double score = text_score(s, c->score, n);
    finished *f = s->finished;
    int32_t *ids = f[s->n_finished].ids;
    memcpy(ids, s->session[c->beam]->ids + s->n_prompt, (size_t)s->n_made * sizeof *ids);
    ids[s->n_made] = c->id;
    int at = s->n_finished;
    for (; at > 0 && f[at - 1].score < score; at--)
        f[at] = f[at - 1];
    f[at] = (finished){ ids, n, score, ends_text(s, c->id) };
    s->n_finished += s->n_finished < s->opt->n_beam;
}

/* Can a live text still beat the worst finished one? This is a guess, because a text may gain by
 * its length; `early` selects the guess. `best` is the best live score. */
static bool can_improve(const search *s, double best)
{
    const weft_beam_options *o = s->opt;
    if (s->n_made == o->n_new || s->n_live == 0)
        return false;
    if (s->n_finished < o->n_beam)
        return true;
    const bool longest = o->stop == WEFT_BEAM_STOP_NEVER && o->length_penalty > 0;
    return o->stop != WEFT_BEAM_STOP_FULL &&
           text_score(s, best, longest ? o->n_new : s->n_made) > s->finished[o->n_beam - 1].score;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Assigns sessions to the next live texts. The first child of a text continues in its session; each
 * further child reuses the session of a text without children, and shares pages. */
static void branch(search *s, const choice *const *child, int n)
{
    session *old[WEFT_MAX_BEAM];
    bool taken[WEFT_MAX_BEAM] = { false };
    int spare = 0;
    memcpy(old, s->session, (size_t)s->opt->n_beam * sizeof *old);
    memset(s->session, 0, (size_t)s->opt->n_beam * sizeof *old);
    for (int i = 0; i < n; i++)
        if (!taken[child[i]->beam]) {
            taken[child[i]->beam] = true;
            s->session[i] = old[child[i]->beam];
        }
    for (int i = 0; i < s->opt->n_beam; i++) {
        if (s->session[i])
            continue;
        while (taken[spare])
            spare++;
        s->session[i] = old[spare++];
        if (i < n)
            session_copy(s->session[i], old[child[i]->beam]);
        else
            session_cut(s->session[i], 0);
    }
}

/* Shows a choice that was kept: as live beam `beam`, or -1 as the end of a text. */
static void show_node(search *s, const choice *c, int beam)
{
    const double score = beam < 0 ? text_score(s, c->score, s->n_made + 1) : c->score;
    const weft_beam_node kept = {
        .struct_size = sizeof kept,
        .step = s->n_made,
        .parent = c->beam,
        .beam = beam,
        .id = c->id,
        .sum = c->score,
        .score = score,
        .ended = beam < 0 && ends_text(s, c->id),
    };
    if (s->opt->fn && !s->stopped)
        s->stopped = !s->opt->fn(s->opt->ud, &kept);
}

/* Splits the choices into finished texts and the next live ones. */
static void divide(search *s)
{
    const choice *child[WEFT_MAX_BEAM];
    int n = 0;
    for (int i = 0; i < s->n_choice; i++) {
        const choice *c = &s->choice[i];
        if (c->ends && i < s->opt->n_beam) {
            finish_text(s, c);
            show_node(s, c, -1);
        } else if (!c->ends && n < s->opt->n_beam) {
            show_node(s, c, n);
            child[n++] = c;
        }
    }
    branch(s, child, n);
    for (int i = 0; i < n; i++) {
        s->score[i] = child[i]->score;
        s->next[i] = child[i]->id;
        s->work[i] = (work){ .session = s->session[i], .ids = &s->next[i], .n = 1 };
    }
    s->n_live = n;
    s->n_made++;
}

static weft_status run_search(search *s, const int32_t *ids, int64_t n, weft_error *err)
{
    const source_text from = { s->session[0], s->opt->source, s->opt->n_source };
    weft_status ready = session_adapt(s->session[0], s->adapted.set, s->adapted.strength, err);
    if (ready == WEFT_OK && from.n > 0)
        ready = engine_encode(s->engine, &from, 1, err);
    if (ready != WEFT_OK)
        return ready;
    bool known = s->begun && s->begun->has_logits; /* the first step needs no forward */
    if (s->begun)
        session_copy(s->session[0], s->begun);
    if (s->begun && !known)
        session_cut(s->session[0], n - 1);
    const int64_t held = s->session[0]->cache.length;
    s->work[0] = (work){ .session = s->session[0], .ids = ids + held, .n = n - held };
    s->n_live = 1;
    do {
        const weft_status status = known ? WEFT_OK
                                         : engine_eval(s->engine, s->work, s->n_live, err);
        known = false;
        if (status != WEFT_OK)
            return status;
        choose_tokens(s);
        divide(s);
        if (s->stopped)
            return weft_fail(err, WEFT_ESTOPPED, "stopped after %lld tokens", (long long)s->n_made);
    } while (can_improve(s, s->score[0]));
    return WEFT_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static weft_status alloc_beams(search *s, weft_error *err)
{
    const size_t n = (size_t)s->opt->n_beam, V = (size_t)s->engine->model->n_vocab;
    const size_t n_new = (size_t)s->opt->n_new;
    s->session = mem_zalloc(s->mem, n, sizeof(session *), "beams", err);
    s->score = mem_zalloc(s->mem, n, sizeof *s->score, "beams", err);
    s->choice = mem_zalloc(s->mem, (size_t)s->n_wide + 1, sizeof *s->choice, "beams", err);
    s->finished = mem_zalloc(s->mem, n + 1, sizeof *s->finished, "beams", err);
    s->room = mem_zalloc(s->mem, n + 1, n_new * sizeof *s->room, "beams", err);
    s->places = mem_zalloc(s->mem, V, sizeof *s->places, "beams", err);
    s->work = mem_zalloc(s->mem, n, sizeof *s->work, "beams", err);
    s->next = mem_zalloc(s->mem, n, sizeof *s->next, "beams", err);
    if (!s->session || !s->score || !s->choice || !s->finished || !s->room || !s->places ||
        !s->work || !s->next)
        return WEFT_ENOMEM;
    for (size_t i = 0; i <= n; i++)
        s->finished[i].ids = s->room + i * n_new;
    for (size_t i = 0; i < n; i++)
        if (!(s->session[i] = session_new(s->engine, err)))
            return WEFT_ENOMEM;
    return WEFT_OK;
}

static void give_memory(search *s)
{
    for (int i = 0; i < s->opt->n_beam && s->session; i++)
        session_free(s->session[i]);
    mem_free(s->mem, s->session);
    mem_free(s->mem, s->score);
    mem_free(s->mem, s->choice);
    mem_free(s->mem, s->finished);
    mem_free(s->mem, s->room);
    mem_free(s->mem, s->places);
    mem_free(s->mem, s->work);
    mem_free(s->mem, s->next);
}

/* weft_beams and everything it points to in one block, preceded by its owner. */
typedef struct beams_block {
    mem *mem;
    void *owner;
    weft_beams beams;
    weft_beam beam[];
} beams_block;

static weft_beams *copy_beams(const search *s, void *owner, weft_error *err)
{
    const int n = s->n_finished < s->opt->n_best ? s->n_finished : s->opt->n_best;
    size_t n_id = 0;
    for (int i = 0; i < n; i++)
        n_id += (size_t)s->finished[i].n;
    beams_block *b = mem_alloc(
        s->mem, sizeof *b + (size_t)n * sizeof *b->beam + n_id * sizeof(int32_t), "beams", err);
    if (!b)
        return NULL;
    b->mem = s->mem;
    b->owner = owner;
    b->beams = (weft_beams){ n, b->beam };
    int32_t *at = (int32_t *)(b->beam + n);
    for (int i = 0; i < n; i++) {
        const finished *f = &s->finished[i];
        memcpy(at, f->ids, (size_t)f->n * sizeof *at);
        b->beam[i] = (weft_beam){ at, f->n, f->score, f->ended };
        at += f->n;
    }
    return &b->beams;
}

weft_beams *beam_search(engine *e, const int32_t *ids, int64_t n, const weft_beam_options *o,
                        adaption a, const session *begun, void *owner, weft_error *err)
{
    search s = { .engine = e,
                 .mem = &e->model->host->mem,
                 .opt = o,
                 .adapted = a,
                 .begun = begun,
                 .n_prompt = n };
    s.n_wide = (o->n_end > 1 ? 1 + o->n_end : 2) * o->n_beam;
    weft_beams *result = NULL;
    if (alloc_beams(&s, err) == WEFT_OK && run_search(&s, ids, n, err) == WEFT_OK)
        result = copy_beams(&s, owner, err);
    give_memory(&s);
    return result;
}

void *beams_free(weft_beams *beams)
{
    if (!beams)
        return NULL;
    beams_block *b = (beams_block *)((char *)beams - offsetof(beams_block, beams));
    void *owner = b->owner;
    mem_free(b->mem, b);
    return owner;
}

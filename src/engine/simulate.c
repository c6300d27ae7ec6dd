/* simulate.c - the loop around a scheduler: requests arrive, steps take their time. */
#include "engine/simulate.h"

#include "base/rng.h"
#include "engine/dummy_engine.h"
#include "engine/scheduler.h"
#include "engine/step_times.h"

#include <math.h>
#include <string.h>

#define STREAM_TIMES 71 /* of random numbers */

typedef struct simulation simulation;

/* A request on its way: what its callbacks need. */
typedef struct way {
    simulation *of;
    int key; /* index into n_job_of */
    double ready;
} way;

typedef struct key_count {
    const char *name;
    int64_t n_job;
} key_count;

struct simulation {
    const weft_simulation_options *opt;
    const weft_load_request *load;
    weft_load_result *result;
    int64_t n;
    mem *mem;
    step_times times;
    dummy_engine dummy;
    scheduler *scheduler;

    double now;     /* seconds since the start */
    double after;   /* what the last forward adds before the next */
    double clerk;   /* when it has done all requests so far */
    way *way;       /* [n] */
    int32_t *ids;   /* [n_ctx] */
    key_count *key; /* [n_key] */
    int n_key;
    int64_t n_job, n_ended; /* between arrival and end; ended in the last step */
    int *ended;             /* [n_running + n_waiting] their keys */
    int64_t n_arrived, n_submitted, n_done;
    int64_t n_forward;
    weft_simulation_info info;
};

int32_t load_token(uint64_t seed, int64_t i, int32_t n_vocab)
{
    return (int32_t)(rng_draw(seed, 72, (uint64_t)i / 4).word[i % 4] % (uint32_t)n_vocab);
}

/* ---- the world of the scheduler -------------------------------------------------------------- */

static double now(void *ud)
{
    return ((const simulation *)ud)->now;
}

/* What a span of time adds to the means. */
static void count_time(simulation *s, double span)
{
    const pages *p = &s->dummy.engine->pages;
    const int64_t held = (p->n_page - pages_available(p)) * PAGE_ROWS;
    weft_simulation_info *i = &s->info;
    i->busy_seconds += span;
    i->running += span * s->scheduler->n_running;
    i->waiting += span * s->scheduler->n_waiting;
    i->cached += span * (double)held;
    i->most_cached = held > i->most_cached ? held : i->most_cached;
}

/* A forward: time passes. */
static void forward(void *ud, const step_shape *shape, int64_t n_wanted)
{
    simulation *s = ud;
    const int64_t n = s->n_forward++, place = s->opt->replay ? n : -1;
    const rng_block draw = rng_draw(s->opt->seed, STREAM_TIMES, (uint64_t)n);
    const step_ratio found = step_times_pick(&s->times, shape->n_row, place, draw.word[0]);
    const double seconds = found.ratio * step_times_mean(&s->times, shape, n_wanted);
    s->now += seconds;
    s->after = found.after;
    count_time(s, seconds + found.after);
}

static bool on_token(void *ud, const weft_generated *t)
{
    const way *w = ud;
    simulation *s = w->of;
    weft_load_result *r = &s->result[w - s->way];
    if (t->id < 0)
        return true;
    r->last = s->now + s->opt->deliver_seconds;
    r->first = r->n_new++ == 0 ? r->last : r->first;
    return true;
}

static void end(simulation *s, const way *w)
{
    s->ended[s->n_ended++] = w->key;
    s->n_done++;
}

static void on_done(void *ud, const weft_generation *to, const weft_error *err)
{
    const way *w = ud;
    simulation *s = w->of;
    weft_load_result *r = &s->result[w - s->way];
    r->status = err->code == WEFT_OK ? 200 : err->code == WEFT_ECONTEXT ? 400 : 503;
    r->n_reused = to->n_reused;
    end(s, w);
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static int64_t prompt_of(const weft_load_request *q)
{
    int64_t n = 0;
    for (int i = 0; i < q->n_part; i++)
        n += q->part[i].n;
    return n;
}

static int key_of(simulation *s, const char *name)
{
    int k = 0;
    while (k < s->n_key && strcmp(s->key[k].name, name) != 0)
        k++;
    if (k == s->n_key)
        s->key[s->n_key++] = (key_count){ .name = name };
    return k;
}

/* As the server's HTTP loop: how many are there already? */
static int admit(const simulation *s, int key)
{
    const int64_t most = s->opt->n_running + s->opt->n_waiting;
    if (s->n_job >= most)
        return 503;
    return s->n_key > 1 && s->key[key].n_job >= (most + 1) / 2 ? 429 : 200;
}

static void arrive(simulation *s)
{
    const weft_load_request *q = &s->load[s->n_arrived];
    way *w = &s->way[s->n_arrived];
    weft_load_result *r = &s->result[s->n_arrived++];
    *w = (way){ .of = s, .key = key_of(s, q->key ? q->key : "") };
    *r = (weft_load_result){ .n_prompt = prompt_of(q) };
    r->status = admit(s, w->key);
    if (r->status != 200) {
        s->n_done++;
        return;
    }
    s->n_job++;
    s->key[w->key].n_job++;
    const double seconds = s->opt->arrive_seconds + s->opt->token_seconds * (double)r->n_prompt;
    s->clerk = fmax(s->clerk, q->at) + seconds;
    w->ready = s->clerk;
}

/* Into the scheduler's queue, which may be full of tokens. */
static void submit(simulation *s)
{
    const int64_t i = s->n_submitted++;
    const weft_load_request *q = &s->load[i];
    weft_error why = { 0 };
    int64_t n = 0;
    if (s->result[i].status != 200)
        return;
    if (s->result[i].n_prompt <= s->opt->n_ctx)
        for (int k = 0; k < q->n_part; k++)
            for (int64_t j = 0; j < q->part[k].n; j++)
                s->ids[n++] = load_token(q->part[k].seed, j, DUMMY_VOCAB);
    static const pieces none;
    const request_spec spec = { .opt = { .struct_size = sizeof spec.opt,
                                         .prompt = s->ids,
                                         .n_prompt = s->result[i].n_prompt,
                                         .n_new = q->n_new,
                                         .ignore_end = true },
                                .pieces = &none,
                                .key = q->key ? q->key : "",
                                .fn = on_token,
                                .done = on_done,
                                .ud = &s->way[i] };
    if (scheduler_submit(s->scheduler, &spec, &why) != 0)
        return;
    s->result[i].status = why.code == WEFT_ECONTEXT ? 400 : 503;
    end(s, &s->way[i]);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Those that came during the last step saw the requests that ended with it. */
static void take_in(simulation *s)
{
    while (s->n_arrived < s->n && s->load[s->n_arrived].at <= s->now)
        arrive(s);
    for (; s->n_ended > 0; s->n_job--)
        s->key[s->ended[--s->n_ended]].n_job--;
    while (s->n_submitted < s->n_arrived &&
           (s->result[s->n_submitted].status != 200 || s->way[s->n_submitted].ready <= s->now))
        submit(s);
    for (; s->n_ended > 0; s->n_job--) /* that the queue refused */
        s->key[s->ended[--s->n_ended]].n_job--;
}

/* Nothing is to be computed: time passes until something comes. */
static void wait_for_more(simulation *s)
{
    double next = INFINITY;
    if (s->n_submitted < s->n_arrived)
        next = s->way[s->n_submitted].ready;
    if (s->n_arrived < s->n)
        next = fmin(next, s->load[s->n_arrived].at);
    s->now = fmax(s->now, next);
}

static weft_status run_load(simulation *s, weft_error *err)
{
    bool more = false;
    while (s->n_done < s->n) {
        take_in(s);
        more = more || scheduler_info(s->scheduler).n_waiting > 0;
        if (more) {
            if (scheduler_step(s->scheduler, &more, err) != WEFT_OK)
                return err->code;
            s->now += s->after;
            s->after = 0;
        } else if (s->n_done < s->n) {
            wait_for_more(s);
        }
    }
    return WEFT_OK;
}

static void finish_info(simulation *s)
{
    const weft_scheduler_info i = scheduler_info(s->scheduler);
    weft_simulation_info *to = &s->info;
    for (int64_t k = 0; k < s->n; k++)
        to->seconds = fmax(to->seconds, s->result[k].last);
    to->running /= to->seconds > 0 ? to->seconds : 1;
    to->waiting /= to->seconds > 0 ? to->seconds : 1;
    to->cached /= to->seconds > 0 ? to->seconds : 1;
    to->n_step = i.n_step;
    to->n_preempted = i.n_preempted;
    to->n_prompt = i.n_prompt;
    to->n_new = i.n_new;
    to->n_reused = i.n_reused;
    to->n_page_left = i.n_page_used;
    to->n_knot = s->times.n_knot;
    memcpy(to->knot_rows, s->times.rows, sizeof to->knot_rows);
    memcpy(to->knot_seconds, s->times.base, sizeof to->knot_seconds);
    to->draw_seconds = s->times.slope[0];
    to->prompt_position_seconds = s->times.slope[1];
    to->new_position_seconds = s->times.slope[2];
    to->step_variance = s->times.explained;
}

static weft_status begin(simulation *s, weft_error *err)
{
    const weft_simulation_options *o = s->opt;
    const size_t jobs = (size_t)(o->n_running + o->n_waiting);
    const engine_options e = {
        .n_session = o->n_running, .n_batch = o->n_batch, .n_ctx = o->n_ctx, .n_cache = o->n_cache
    };
    const weft_scheduler_options q = { .struct_size = sizeof q,
                                       .step_ms = o->step_ms,
                                       .n_running = o->n_running,
                                       .n_waiting = (int)jobs,
                                       .share_prefixes = o->share_prefixes,
                                       .step_fn = o->step_fn,
                                       .step_ud = o->step_ud };
    s->way = mem_zalloc(s->mem, (size_t)s->n + 1, sizeof *s->way, "a simulation", err);
    s->key = mem_zalloc(s->mem, (size_t)s->n + 1, sizeof *s->key, "a simulation", err);
    s->ids = mem_zalloc(s->mem, (size_t)o->n_ctx, sizeof *s->ids, "a simulation", err);
    s->ended = mem_zalloc(s->mem, jobs, sizeof *s->ended, "a simulation", err);
    if (!s->way || !s->key || !s->ids || !s->ended)
        return WEFT_ENOMEM;
    if (step_times_fit(&s->times, o->steps, o->n_steps, s->mem, err) != WEFT_OK ||
        dummy_engine_init(&s->dummy, &e, s->mem, forward, s, err) != WEFT_OK)
        return err->code;
    s->scheduler = scheduler_new(s->dummy.engine, &q, err);
    if (!s->scheduler)
        return err->code;
    s->scheduler->now = now;
    s->scheduler->now_ud = s;
    return WEFT_OK;
}

weft_status simulate(const weft_simulation_options *options, const weft_load_request *load,
                     int64_t n, weft_load_result *result, weft_simulation_info *info, mem *m,
                     weft_error *err)
{
    simulation *s = mem_zalloc(m, 1, sizeof *s, "a simulation", err);
    if (!s)
        return WEFT_ENOMEM;
    *s = (simulation){ .opt = options, .load = load, .result = result, .n = n, .mem = m };
    weft_status status = begin(s, err);
    if (status == WEFT_OK)
        status = run_load(s, err);
    if (status == WEFT_OK)
        finish_info(s);
    *info = s->info;
    scheduler_free(s->scheduler);
    dummy_engine_free(&s->dummy);
    step_times_free(&s->times);
    mem_free(m, s->ended);
    mem_free(m, s->ids);
    mem_free(m, s->key);
    mem_free(m, s->way);
    mem_free(m, s);
    return status;
}

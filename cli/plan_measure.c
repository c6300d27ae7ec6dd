/* plan_measure.c - how long forwards take on this machine: a scheduler under made-up requests, more and
 * more of them at a time. */
#include "plan.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define SHARED_SEED 1 /* the text that all prompts begin with */
#define OWN_SEED    1000

/* ---- requests -------------------------------------------------------------------------------- */

/* A number in [0, 1), always the same for i. */
static double unit(uint64_t which, int64_t i)
{
    return (double)weft_load_token(which, i, 1 << 24) / (1 << 24);
}

/* From half of the mean to half more. */
static int64_t vary(int64_t mean, double u)
{
    const int64_t n = (int64_t)((double)mean * (0.5 + u) + 0.5);
    return n > 0 ? n : 1;
}

static weft_load_request request_of(const plan_load *l, int64_t i, weft_load_part parts[2])
{
    const int64_t n = vary(l->n_prompt, unit(11, i)), shared = (int64_t)(l->cached * (double)n);
    int k = 0;
    if (shared > 0)
        parts[k++] = (weft_load_part){ SHARED_SEED, shared };
    if (n > shared)
        parts[k++] = (weft_load_part){ OWN_SEED + (uint64_t)i, n - shared };
    return (weft_load_request){ .part = parts, .n_part = k, .n_new = vary(l->n_new, unit(12, i)) };
}

bool plan_requests(load_trace *t, const plan_load *l, int64_t n)
{
    double at = 0;
    for (int64_t i = 0; i < n; i++) {
        weft_load_part parts[2];
        weft_load_request q = request_of(l, i, parts);
        q.at = at;
        if (!load_trace_add(t, &q))
            return false;
        at -= log(1 - unit(13, i));
    }
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct measuring {
    weft_scheduler *scheduler;
    const plan_load *load;
    step_record *to;
    int32_t *ids;
    int64_t n_ctx, n_asked, n_live;
    int32_t n_vocab;
    bool failed; /* no memory for the record */
} measuring;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_step(void *ud, const weft_step *s)
{
    measuring *m = ud;
    m->failed |= !step_record_add(m->to, s);
}

static void request_done(void *ud, const weft_generation *info, const weft_error *err)
{
    measuring *m = ud;
    (void)info, (void)err;
    m->n_live--;
}

static weft_status ask(measuring *m, weft_error *err)
{
    weft_load_part parts[2];
    const weft_load_request q = request_of(m->load, m->n_asked++, parts);
    int64_t n = 0;
    for (int k = 0; k < q.n_part; k++)
        for (int64_t i = 0; i < parts[k].n && n < m->n_ctx - 1; i++)
            m->ids[n++] = weft_load_token(parts[k].seed, i, m->n_vocab);
    const weft_generate_options g = { .struct_size = sizeof g,
                                      .prompt = m->ids,
                                      .n_prompt = n,
                                      .n_new = q.n_new,
                                      .ignore_end = true };
    const weft_request r = {
        .struct_size = sizeof r, .generate = &g, .done = request_done, .ud = m
    };
    if (weft_scheduler_submit(m->scheduler, &r, err) == 0)
        return err->code;
    m->n_live++;
    return WEFT_OK;
}

/* With n requests at a time. */
static weft_status measure_with(measuring *m, int n, double seconds, weft_error *err)
{
    const double until = seconds_now() + seconds;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && seconds_now() < until && !cli_interrupted() && !m->failed) {
        while (status == WEFT_OK && m->n_live < n)
            status = ask(m, err);
        if (status == WEFT_OK)
            status = weft_scheduler_step(m->scheduler, NULL, err);
    }
    return status;
}

static weft_status measure_all(measuring *m, int n_running, double seconds, weft_error *err)
{
    int n_phase = 1;
    weft_status status = WEFT_OK;
    for (int n = 1; n < n_running; n *= 2)
        n_phase++;
    for (int n = 1; status == WEFT_OK; n = 2 * n < n_running ? 2 * n : n_running) {
        status = measure_with(m, n, seconds / n_phase, err);
        if (n == n_running)
            break;
    }
    return status;
}

int plan_measure(weft_model *model, const weft_engine_options *options, const plan_load *l,
                 double seconds, step_record *to)
{
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_engine_info made = { .struct_size = sizeof made };
    weft_model_get_info(model, &info);
    measuring m = { .load = l, .to = to, .n_vocab = (int32_t)info.n_vocab };
    weft_engine *e = weft_engine_new(model, options, &err);
    if (!e)
        return cli_fail(&err);
    weft_engine_get_info(e, &made);
    m.n_ctx = made.n_ctx;
    const weft_scheduler_options o = { .struct_size = sizeof o,
                                       .n_waiting = options->n_session, /* all come at once */
                                       .n_waiting_tokens = options->n_session * m.n_ctx,
                                       .step_fn = keep_step,
                                       .step_ud = &m };
    m.ids = cli_alloc((size_t)m.n_ctx, sizeof *m.ids, "prompts");
    m.scheduler = weft_scheduler_new(e, &o, &err);
    weft_status status = m.scheduler ? WEFT_OK : err.code;
    if (status == WEFT_OK && m.ids)
        status = measure_all(&m, options->n_session, seconds, &err);
    weft_scheduler_free(m.scheduler);
    weft_engine_free(e);
    cli_free(m.ids);
    if (cli_interrupted())
        return cli_stopped();
    if (!m.ids || m.failed)
        return cli_no_memory();
    return status == WEFT_OK ? 0 : cli_fail(&err);
}

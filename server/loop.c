/* loop.c - the worker's thread: takes jobs in, steps the scheduler, and sleeps when there is no
 * work. */
#include "worker.h"

/* Jobs that are not done. */
typedef struct work {
    server *server;
    job **at; /* [max_job] */
    int n;
    encoders encoders;
} work;

/* ---- loading --------------------------------------------------------------------------------- */

static bool make_scheduler(server *s, weft_error *err)
{
    weft_engine_info info = { .struct_size = sizeof info };
    const weft_scheduler_options o = { .struct_size = sizeof o,
                                       .step_ms = s->options.step_ms,
                                       .n_waiting = s->max_job, /* each job has one in the queue */
                                       .share_prefixes = s->options.share_prefixes };
    if (!s->model.engine) {
        s->n_ctx = s->model.info.n_ctx;
        return true;
    }
    weft_engine_get_info(s->model.engine, &info);
    s->n_ctx = info.n_ctx;
    weft_scheduler *made = weft_scheduler_new(s->model.engine, &o, err);
    atomic_store(&s->scheduler, made);
    return made;
}

static bool load(server *s)
{
    weft_error err = { 0 };
    char why[1024];
    int code = s->options.load(s->options.load_ud, &s->model);
    if (!code && !adapters_load(&s->adapters, &s->model, why, sizeof why)) {
        fprintf(stderr, "weft: %s\n", why);
        code = 1;
    }
    if (!code && s->model.generates)
        code = s->options.make_engine(s->options.load_ud, &s->model, s->adapters.rank);
    if (!code && !make_scheduler(s, &err)) {
        fprintf(stderr, "weft: %s\n", err.message);
        code = 1;
    }
    atomic_store(&s->load_code, code);
    int loading = PHASE_LOADING; /* it may be draining already */
    if (!code)
        atomic_compare_exchange_strong(&s->phase, &loading, PHASE_READY);
    ring_wake(&s->ready);
    ring_wake(&s->reload); /* a signal may have come */
    return !code;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void drop(work *w, int i)
{
    job *j = w->at[i];
    w->at[i] = w->at[--w->n];
    job_leave(j);
}

static bool is_text(const job *j)
{
    return !endpoint_encodes(j->endpoint);
}

/* How many more texts could run at once. */
static int64_t room_of(const server *s)
{
    weft_scheduler_info info = { .struct_size = sizeof info };
    if (!s->scheduler)
        return 0;
    weft_scheduler_get_info(s->scheduler, &info);
    return s->options.n_running - info.n_running - info.n_waiting;
}

/* New jobs, and the texts of older ones that have waited for room. */
static void take_in(work *w)
{
    int64_t room = room_of(w->server);
    for (int i = 0; i < w->n; i++)
        if (is_text(w->at[i]) && !worker_has_ended(w->at[i]))
            worker_submit(w->at[i], &room);
    for (job *j; (j = ring_pop(&w->server->worker));) {
        w->at[w->n++] = j; /* there are at most max_job */
        if (atomic_load(&j->cancelled))
            j->failed = true;
        else if (is_text(j))
            worker_submit(j, &room);
    }
}

/* A request that has taken all of its time gets an error. */
static bool is_late(const work *w, const job *j, double now)
{
    return now - j->began > w->server->options.request_seconds;
}

static void look_for_cancelled(work *w)
{
    const double now = server_now();
    for (int i = 0; i < w->n; i++) {
        job *j = w->at[i];
        const bool late = is_late(w, j, now);
        refusal why;
        if (j->failed || (!late && !atomic_load(&j->cancelled)))
            continue;
        if (late) {
            refuse(&why, 504, "timeout_error", "request_timeout", NULL,
                   "not done after %g seconds; ask for less, or raise --request-seconds",
                   w->server->options.request_seconds);
            job_refuse(j, &why);
        }
        worker_cancel(j);
    }
}

/* One turn of the first job for an encoder. True if there was one. */
static bool encode(work *w)
{
    for (int i = 0; i < w->n; i++) {
        job *j = w->at[i];
        if (is_text(j))
            continue;
        if (j->failed || worker_encode(j, &w->encoders))
            drop(w, i);
        return true;
    }
    return false;
}

static void drop_ended(work *w)
{
    for (int i = w->n - 1; i >= 0; i--)
        if (is_text(w->at[i]) && worker_has_ended(w->at[i]))
            drop(w, i);
}

/* A step that cannot even begin fails every request: the next ones may do better. */
static void fail_all(work *w, const weft_error *err)
{
    for (int i = 0; i < w->n; i++)
        if (is_text(w->at[i]) && !w->at[i]->failed) {
            job_refuse_error(w->at[i], err);
            worker_cancel(w->at[i]);
        }
}

/* A text waits outside of the scheduler's queue. */
static bool is_waiting(const work *w)
{
    for (int i = 0; i < w->n; i++)
        if (is_text(w->at[i]))
            return true;
    return false;
}

static void turn(work *w)
{
    weft_error err;
    bool more = false;
    take_in(w);
    look_for_cancelled(w);
    if (w->server->scheduler && weft_scheduler_step(w->server->scheduler, &more, &err) != WEFT_OK) {
        fail_all(w, &err);
        more = true;
    }
    drop_ended(w);
    if (!encode(w) && !more && !is_waiting(w))
        ring_wait(&w->server->worker, -1);
}

static void end(work *w)
{
    server *s = w->server;
    for (job *j; (j = ring_pop(&s->worker));)
        job_leave(j);
    weft_scheduler *scheduler = atomic_exchange(&s->scheduler, NULL);
    weft_scheduler_free(scheduler); /* each request gets its last call */
    while (w->n > 0)
        drop(w, 0);
    encoders_free(&w->encoders);
    weft_engine_free(s->model.engine);
    weft_template_free(s->model.template);
    weft_tokenizer_free(s->model.tokenizer);
    weft_tokenizer_free(s->model.source);
    weft_model_close(s->model.model);
    memory_give(w->at);
}

void *worker_main(void *ud)
{
    server *s = ud;
    work w = { .server = s, .at = memory_take((size_t)s->max_job * sizeof(job *)) };
    if (!w.at) {
        atomic_store(&s->load_code, 1);
        ring_wake(&s->ready);
    } else if (load(s)) {
        while (!atomic_load(&s->stopping))
            turn(&w);
    }
    end(&w);
    return NULL;
}

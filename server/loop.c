/* loop.c - the worker's thread: takes jobs in, steps the scheduler, and sleeps when there is no
 * work. */
#include "worker.h"

#include <string.h>

/* Jobs that are not done. */
typedef struct work {
    instance *of;
    server *server;
    job **at; /* [max_of_model] the oldest first */
    int n;
    bool shortest_next; /* see next_encoded */
    encoders encoders;
} work;

/* ---- loading --------------------------------------------------------------------------------- */

static bool make_scheduler(instance *i, weft_error *err)
{
    const server *s = i->server;
    weft_engine_info info = { .struct_size = sizeof info };
    const weft_scheduler_options o = {
        .struct_size = sizeof o,
        .step_ms = s->options.step_ms,
        .n_waiting = s->max_of_model, /* each job has one in the queue */
        .share_prefixes = s->options.share_prefixes,
        .step_fn = s->options.record.step,
        .step_ud = s->options.record.ud
    };
    if (!i->model.engine) {
        i->n_ctx = i->model.info.n_ctx;
        return true;
    }
    weft_engine_get_info(i->model.engine, &info);
    i->n_ctx = info.n_ctx;
    weft_scheduler *made = weft_scheduler_new(i->model.engine, &o, err);
    atomic_store(&i->scheduler, made);
    return made;
}

static bool load_parts(instance *i, encoders *e)
{
    const serve_options *o = &i->server->options;
    weft_error err = { 0 };
    char why[1024];
    i->model.name = i->service->spec->name;
    if (o->load(o->load_ud, i->service->spec, &i->model) != 0)
        return false;
    if (!adapters_load(&i->adapters, &i->model, why, sizeof why)) {
        fprintf(stderr, "weft: %s\n", why);
        return false;
    }
    if (i->model.generates && o->make_engine(o->load_ud, &i->model, i->adapters.rank) != 0)
        return false;
    if (!make_scheduler(i, &err) || !encoders_begin(i, e, &err)) {
        fprintf(stderr, "weft: %s\n", err.message);
        return false;
    }
    return true;
}

/* Models are loaded one at a time, so that none takes memory that another was about to get. */
static bool load(work *w)
{
    instance *i = w->of;
    const serve_spec *spec = i->service->spec;
    pthread_mutex_lock(&i->server->loading);
    i->stamp = spec_stamp(spec);
    bool good = !atomic_load(&i->server->stopping) && load_parts(i, &w->encoders);
    if (good && spec_stamp(spec) != i->stamp) {
        fprintf(stderr, "weft: %s changed while it was read; write elsewhere and rename\n",
                spec->path);
        good = false;
    }
    pthread_mutex_unlock(&i->server->loading);
    if (good)
        fprintf(stderr, "weft: serving %s\n", spec->name);
    instance_loaded(i, good);
    return good;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void drop(work *w, int i)
{
    job *j = w->at[i];
    w->n--;
    memmove(w->at + i, w->at + i + 1, (size_t)(w->n - i) * sizeof *w->at);
    job_leave(j);
}

static bool is_text(const job *j)
{
    return !endpoint_encodes(j->endpoint);
}

/* How many more texts could run at once. */
static int64_t room_of(const instance *i)
{
    weft_scheduler_info info = { .struct_size = sizeof info };
    if (!i->scheduler)
        return 0;
    weft_scheduler_get_info(i->scheduler, &info);
    return i->server->options.n_running - info.n_running - info.n_waiting;
}

/* New jobs, and the texts of older ones that have waited for room. */
static void take_in(work *w)
{
    int64_t room = room_of(w->of);
    for (int i = 0; i < w->n; i++)
        if (is_text(w->at[i]) && !worker_has_ended(w->at[i]))
            worker_submit(w->at[i], &room);
    for (job *j; (j = ring_pop(&w->of->ring));) {
        w->at[w->n++] = j; /* there are at most max_of_model */
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

/* Which job for an encoder is next; -1: none. The oldest and the one with the fewest texts left take turns: each ends,
 * and a short one does not wait for all of a long one. */
static int next_encoded(work *w)
{
    int oldest = -1, shortest = -1;
    int64_t fewest = INT64_MAX;
    for (int i = 0; i < w->n; i++) {
        const job *j = w->at[i];
        if (is_text(j))
            continue;
        oldest = oldest < 0 ? i : oldest;
        shortest = j->n_text - j->n_encoded < fewest ? i : shortest;
        fewest = w->at[shortest]->n_text - w->at[shortest]->n_encoded;
    }
    w->shortest_next = !w->shortest_next;
    return w->shortest_next ? oldest : shortest;
}

static void drop_ended(work *w)
{
    for (int i = w->n - 1; i >= 0; i--)
        if (is_text(w->at[i]) ? worker_has_ended(w->at[i]) : w->at[i]->failed)
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

/* A forward pass, and some texts of job `next` for an encoder, -1: of none. */
static void compute(work *w, int next)
{
    weft_error err;
    bool more;
    if (next >= 0 && worker_encode(w->at[next], &w->encoders))
        drop(w, next);
    if (w->of->scheduler && weft_scheduler_step(w->of->scheduler, &more, &err) != WEFT_OK)
        fail_all(w, &err);
    drop_ended(w);
}

/* Another model computes meanwhile; its heart beats, or stops. */
static void wait_for_cores(work *w)
{
    heart_rest(&w->of->heart);
    cores_take(&w->server->cores, &w->of->share);
    heart_wake(&w->of->heart);
}

static void pass_cores(work *w, double seconds)
{
    heart_rest(&w->of->heart);
    cores_pass(&w->server->cores, &w->of->share, seconds);
    heart_wake(&w->of->heart);
}

/* An image is decoded by one thread; other models may have the cores meanwhile. */
static void decode(work *w, job *j)
{
    if (w->of->share.turn)
        cores_give(&w->server->cores, &w->of->share, 0);
    worker_decode(j);
    heart_beat(&w->of->heart);
}

/* Between two passes, workers of other models may have the cores. */
static void turn(work *w)
{
    cores_share *share = &w->of->share;
    take_in(w);
    look_for_cancelled(w);
    drop_ended(w);
    if (w->n == 0) {
        if (share->turn)
            cores_give(&w->server->cores, share, 0);
        heart_wait(&w->of->heart, &w->of->ring);
        return;
    }
    const int next = next_encoded(w);
    if (next >= 0 && worker_decodes(w->at[next])) {
        decode(w, w->at[next]);
        return;
    }
    if (!share->turn)
        wait_for_cores(w);
    const double began = server_now();
    compute(w, next);
    const double seconds = server_now() - began;
    if (w->n == 0)
        cores_give(&w->server->cores, share, seconds);
    else
        pass_cores(w, seconds);
}

static void end(work *w)
{
    instance *i = w->of;
    for (job *j; (j = ring_pop(&i->ring));)
        job_leave(j);
    weft_scheduler_free(atomic_exchange(&i->scheduler, NULL)); /* each request gets its last call */
    while (w->n > 0)
        drop(w, 0);
    if (i->share.turn)
        cores_give(&w->server->cores, &i->share, 0);
    encoders_free(&w->encoders);
    grammars_free(&i->grammars);
    adapters_free(&i->adapters);
    weft_engine_free(i->model.engine);
    weft_template_free(i->model.template);
    weft_tokenizer_free(i->model.tokenizer);
    weft_tokenizer_free(i->model.source);
    weft_model_close(i->model.model);
    memory_give(w->at);
}

/* Until the server stops, or another instance has taken its place and no job is left. */
void *worker_main(void *ud)
{
    instance *i = ud;
    server *s = i->server;
    work w = { .of = i, .server = s, .at = memory_take((size_t)s->max_of_model * sizeof(job *)) };
    if (!w.at)
        instance_loaded(i, false);
    else if (load(&w))
        while (!atomic_load(&s->stopping) && instance_is_used(i))
            turn(&w);
    end(&w);
    instance_ended(i);
    return NULL;
}

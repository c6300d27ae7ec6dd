/* worker.c - the thread that owns the engine: it loads the model, submits requests to the
 * scheduler, and writes what they generate into their answers. */
#include "worker.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

/* ---- tokens become text ---------------------------------------------------------------------- */

static void take_thought(void *ud, bool thinks, const char *text, size_t n)
{
    job_text *p = ud;
    choice *c = &p->job->answer.choices[p->index];
    p->thinks = thinks;
    if (thinks)
        answer_thought(&p->job->answer, c, text, n);
    else if (p->calls)
        c->text.failed |= weft_call_reader_push(p->calls, text, n, NULL) != WEFT_OK;
    else
        answer_text(&p->job->answer, c, text, n);
}

/* Calls may be marked by special tokens, which are no text. */
static void take_special(job_text *p, int32_t id)
{
    size_t n = 0;
    const weft_tokenizer *t = p->job->instance->model.tokenizer;
    const char *spelled = p->calls && !p->thinks && weft_tokenizer_is_special(t, id)
                              ? weft_tokenizer_token(t, id, &n)
                              : NULL;
    if (spelled && weft_call_reader_push(p->calls, spelled, n, NULL) != WEFT_OK)
        p->job->answer.choices[p->index].text.failed = true;
}

/* id -1: the end. Models may have more ids than their tokenizers. */
static void take_translated(job_text *p, int32_t id)
{
    weft_error err;
    const char *text = "";
    size_t n = 0;
    choice *c = &p->job->answer.choices[p->index];
    if (id < 0)
        weft_decoder_flush(p->decoder, &text, &n);
    else if (weft_decoder_push(p->decoder, id, &text, &n, &err) != WEFT_OK)
        c->text.failed |= err.code != WEFT_EINVAL;
    answer_text(&p->job->answer, c, text, n);
}

static void take_text(job_text *p, int32_t id, const char *text, size_t n)
{
    answer *a = &p->job->answer;
    if (p->decoder && id >= 0)
        take_translated(p, id);
    else if (endpoint_talks(p->job->endpoint))
        think_feed(&p->think, text, n);
    else if (!p->decoder)
        answer_text(a, &a->choices[p->index], text, n);
}

static void time_token(job_text *p)
{
    job *j = p->job;
    const double now = server_now();
    if (j->first == 0)
        j->first = now;
    if (p->last == 0)
        metrics_time(&j->instance->service->metrics.first_token, now - j->began);
    else
        metrics_time(&j->instance->service->metrics.between_tokens, now - p->last);
    p->last = now;
    j->n_new++;
    atomic_fetch_add(&j->instance->service->metrics.n_new, 1);
}

/* False once nobody waits for more: the client is gone, or takes nothing of its stream. */
static bool on_token(void *ud, const weft_generated *t)
{
    job_text *p = ud;
    job *j = p->job;
    choice *c = &j->answer.choices[p->index];
    if (j->failed || atomic_load(&j->cancelled))
        return false;
    bytes *out = job_begin_write(j);
    if (t->id >= 0) {
        time_token(p);
        if (t->logprobs)
            answer_token(&j->answer, c, t->id, t->logprobs);
        c->n_thought += p->thinks;
    }
    take_text(p, t->id, t->text, t->length);
    if (t->id >= 0)
        take_special(p, t->id);
    if (j->stream)
        answer_chunk(&j->answer, c, out);
    const bool keeps_up = out->n - j->taken <= MAX_UNREAD && !out->failed;
    pthread_mutex_unlock(&j->lock);
    if (j->stream)
        job_announce(j);
    return keeps_up;
}

static void on_prompt(void *ud, int64_t i, int32_t id, const weft_logprob *lp)
{
    job_text *p = ud;
    (void)i;
    if (!p->job->failed)
        answer_token(&p->job->answer, &p->job->answer.choices[p->index], id, lp);
}

/* ---- the end of a text ----------------------------------------------------------------------- */

static void count_finish(job_text *p, const weft_generation *info, outcome how)
{
    model_metrics *m = &p->job->instance->service->metrics;
    atomic_fetch_add(&m->finished[how], 1);
    metrics_time(&m->whole, server_now() - p->job->began);
    metrics_time(&m->queued, info->queue_seconds);
}

static void add_times(answer *a, const weft_generation *info)
{
    a->queue_s = fmax(a->queue_s, info->queue_seconds);
    a->prompt_s = fmax(a->prompt_s, info->prompt_seconds);
    a->generate_s = fmax(a->generate_s, info->generate_seconds);
}

static void end_text(job_text *p, const weft_generation *info)
{
    job *j = p->job;
    choice *c = &j->answer.choices[p->index];
    const bool full = info->finish == WEFT_FINISH_LENGTH || info->finish == WEFT_FINISH_CONTEXT;
    bytes *out = job_begin_write(j);
    if (endpoint_talks(j->endpoint))
        think_end(&p->think);
    if (p->decoder)
        take_translated(p, -1);
    if (p->calls)
        c->text.failed |= weft_call_reader_finish(p->calls, NULL) != WEFT_OK;
    c->finish = full ? "length" : c->n_call > 0 ? "tool_calls" : "stop";
    c->n_new = info->n_new;
    if (info->finish == WEFT_FINISH_STOP && info->stop >= 0 && info->stop < j->request.n_stop)
        c->stopped_by = j->request.stop[info->stop];
    add_times(&j->answer, info);
    if (p->index % j->request.n == 0) { /* a prompt counts once */
        j->answer.n_cached += info->n_reused;
        j->n_cached = j->answer.n_cached;
    }
    if (j->stream)
        answer_chunk(&j->answer, c, out);
    count_finish(p, info, full ? OUTCOME_LENGTH : OUTCOME_STOP);
    job_end_write(j);
}

/* All texts have ended: the object, or the end of the stream. */
static void end_job(job *j)
{
    if (!j->failed) {
        refusal why;
        bytes *out = job_begin_write(j);
        if (j->stream)
            answer_stream_end(&j->answer, out);
        else
            answer_whole(&j->answer, out);
        const bool good = !out->failed;
        if (good)
            job_answer(j, true);
        job_end_write(j);
        if (!good) {
            refuse(&why, 503, "server_error", "no_memory", NULL, "no memory for the answer");
            job_refuse(j, &why);
        }
    }
}

static void cancel_parts(job *j)
{
    for (int i = 0; i < j->n_part; i++)
        if (j->parts[i].ticket && !j->parts[i].done)
            weft_scheduler_cancel(j->instance->scheduler, j->parts[i].ticket);
}

static void on_done(void *ud, const weft_generation *info, const weft_error *err)
{
    job_text *p = ud;
    job *j = p->job;
    p->done = true;
    j->n_done++;
    const bool gone = info->finish == WEFT_FINISH_CALLER || err->code == WEFT_ESTOPPED;
    if (!j->failed && err->code == WEFT_OK && !gone) {
        end_text(p, info);
    } else {
        count_finish(p, info, gone ? OUTCOME_ABORT : OUTCOME_ERROR);
        if (!j->failed) { /* one failed text fails the answer */
            weft_error why = *err;
            why.code = gone ? WEFT_ESTOPPED : err->code;
            job_refuse_error(j, &why);
            cancel_parts(j);
        }
    }
    if (j->n_done == j->n_part)
        end_job(j);
}

/* ---- a job is submitted ---------------------------------------------------------------------- */

/* OpenAI's parameters as the sampler's. */
static weft_sampler_options sampler_of(const request *r, uint64_t seed)
{
    weft_sampler_options o = { .struct_size = sizeof o };
    o.seed = seed;
    o.temperature = r->temperature;
    o.top_k = r->top_k < 0 ? 0 : r->top_k;
    o.top_p = r->top_p > 0 ? r->top_p : DBL_MIN; /* 0 would mean all; the best token is meant */
    o.min_p = r->min_p;
    o.repetition = r->repetition;
    o.frequency = r->frequency;
    o.presence = r->presence;
    o.bias = r->bias;
    o.n_bias = r->n_bias;
    return o;
}

static weft_generate_options generation_of(const job *j, const prompt *p,
                                           weft_constraint *constraint)
{
    const request *r = &j->request;
    weft_generate_options o = { .struct_size = sizeof o };
    const int64_t given = r->max_tokens;
    const int64_t usual = endpoint_talks(j->endpoint)         ? 0 /* no limit */
                          : j->endpoint == ENDPOINT_TRANSLATE ? 256
                                                              : 16; /* OpenAI's */
    o.prompt = p->ids;
    o.n_prompt = p->n;
    o.n_new = given < 0 ? usual : given == 0 ? -1 : given;
    o.n_min = r->min_tokens;
    o.stop = r->stop;
    o.n_stop = r->n_stop;
    o.ignore_end = r->ignore_eos;
    o.stop_ids = r->stop_ids;
    o.n_stop_id = (int)r->n_stop_id;
    o.constraint = constraint;
    o.n_top = !r->wants_logprobs ? 0 : r->n_top > 0 ? r->n_top : 1;
    return o;
}

static bool submit_part(job *j, job_text *p, uint64_t seed, weft_error *err)
{
    const instance *i = j->instance;
    const server *s = j->server;
    const request *r = &j->request;
    prompt *from = &j->prompts[p->index / r->n];
    const weft_sampler_options sampler = sampler_of(r, seed);
    const weft_generate_options generate = generation_of(j, from, p->constraint);
    const weft_request one = { .struct_size = sizeof one,
                               .generate = &generate,
                               .sampler = &sampler,
                               .tokenizer = i->model.tokenizer,
                               .source = from->source,
                               .n_source = from->n_source,
                               .adapter = j->adapter ? j->adapter->adapter : NULL,
                               .strength = j->adapter ? j->adapter->strength : 0,
                               .key = j->key < 0 ? NULL : s->keys.at[j->key].name,
                               .priority = (int)r->priority,
                               .fn = on_token,
                               .prompt_fn = r->echo && r->wants_logprobs ? on_prompt : NULL,
                               .done = on_done,
                               .ud = p };
    weft_template_info info = { .struct_size = sizeof info };
    if (endpoint_talks(j->endpoint))
        weft_template_get_info(i->model.template, &info);
    p->think = (thinking){ .fn = take_thought, .ud = p };
    think_init(&p->think, info.think_begin, info.think_end, from->inside);
    p->thinks = from->inside;
    p->ticket = weft_scheduler_submit(i->scheduler, &one, err);
    if (p->ticket && r->echo)
        answer_text(&j->answer, &j->answer.choices[p->index], from->echo.at ? from->echo.at : "",
                    from->echo.n);
    return p->ticket != 0;
}

static uint64_t seed_of(const request *r)
{
    uint64_t seed = (uint64_t)r->seed;
    if (!r->has_seed && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint64_t)(server_now() * 1e9);
    return seed;
}

/* The status of a stream is known once its first text is in the queue. */
static void begin_answer(job *j)
{
    atomic_fetch_add(&j->instance->service->metrics.n_prompt, j->n_prompt);
    if (!j->request.stream)
        return;
    job_begin_write(j);
    j->stream = true;
    job_answer(j, false);
    job_end_write(j);
}

/* Of a request with many texts, only as many are in the queue as can run, so that others find room
 * there; but always one, so that it ends. */
void worker_submit(job *j, int64_t *room)
{
    weft_error err;
    if (j->n_submitted == 0)
        j->seed = seed_of(&j->request);
    while (!j->failed && j->n_submitted < j->n_part && (*room > 0 || j->n_submitted == j->n_done)) {
        job_text *p = &j->parts[j->n_submitted];
        if (!submit_part(j, p, j->seed + (uint64_t)(p->index % j->request.n), &err)) {
            if (err.code == WEFT_EBUSY && j->n_submitted > 0)
                return; /* later */
            job_refuse_error(j, &err);
            cancel_parts(j);
            return;
        }
        if (j->n_submitted++ == 0)
            begin_answer(j);
        --*room;
    }
}

bool worker_has_ended(const job *j)
{
    return j->n_done == (j->failed ? j->n_submitted : j->n_part);
}

void worker_cancel(job *j)
{
    j->failed = true;
    cancel_parts(j);
}

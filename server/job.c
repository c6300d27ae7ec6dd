/* job.c - requests on their way; see job.h. */
#include "job.h"

#include "service.h"

#include <string.h>
#include <sys/random.h>

/* Without the system's random numbers, a counter still tells requests apart. */
void job_make_id(char to[MADE_BYTES])
{
    static atomic_ullong n;
    unsigned char random[16] = { 0 };
    const unsigned long long count = atomic_fetch_add(&n, 1);
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        memcpy(random, &count, sizeof count);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(to + 2 * i, 3, "%02x", random[i]);
}

job *job_new(server *s, endpoint e, const char *id, int key)
{
    job *j = memory_take(sizeof *j);
    if (!j)
        return NULL;
    if (pthread_mutex_init(&j->lock, NULL) != 0) {
        memory_give(j);
        return NULL;
    }
    j->server = s;
    j->endpoint = e;
    j->key = key;
    j->began = server_now();
    job_make_id(j->made);
    snprintf(j->id, sizeof j->id, "%s", id ? id : j->made);
    atomic_init(&j->refs, 1);
    atomic_fetch_add(&s->n_job, 1);
    atomic_fetch_add(&s->metrics.n_request, 1);
    atomic_fetch_add(&s->n_job_of[key < 0 ? 0 : key], 1);
    return j;
}

job *job_hold(job *j)
{
    atomic_fetch_add(&j->refs, 1);
    return j;
}

void job_count(job *j, bool counted)
{
    if (j->counted == counted)
        return;
    service *v = atomic_load(&j->instance)->service;
    const int by = counted ? 1 : -1;
    atomic_fetch_add(&v->n_job, by);
    atomic_fetch_add(&v->n_job_of[j->key < 0 ? 0 : j->key], by);
    j->counted = counted;
}

const char *job_model(const job *j)
{
    return j->adapter ? j->adapter->full : j->instance->model.name;
}

void job_cancel(job *j)
{
    atomic_store(&j->cancelled, true);
    instance *i = atomic_load(&j->instance);
    if (i)
        ring_wake(&i->ring);
}

static void free_prompts(job *j)
{
    for (int64_t i = 0; j->prompts && i < j->n_text; i++) {
        weft_tokens_free(j->prompts[i].tokens);
        weft_rendered_free(j->prompts[i].rendered);
        weft_image_free(j->prompts[i].image);
        bytes_free(&j->prompts[i].echo);
    }
}

/* How fast jobs end, for Retry-After: an average over the last few. */
static void count_end(server *s, double seconds)
{
    const double rate = atomic_load(&s->rate);
    const double now = seconds > 1e-3 ? 1 / seconds : 1000;
    atomic_store(&s->rate, rate > 0 ? 0.9 * rate + 0.1 * now : now);
}

void job_release(job *j)
{
    if (atomic_fetch_sub(&j->refs, 1) > 1)
        return;
    server *s = j->server;
    if (j->status == 200)
        count_end(s, server_now() - j->began);
    free_prompts(j);
    for (int i = 0; i < j->answer.n_choice; i++)
        choice_free(&j->answer.choices[i]);
    adapter_release(j->adapter);
    job_count(j, false);
    instance_release(j->instance);
    memory_give(j->vectors);
    bytes_free(&j->body);
    bytes_free(&j->out);
    bytes_free(&j->late);
    for (int i = 0; i < j->n_part; i++) {
        weft_constraint_free(j->parts[i].constraint);
        weft_call_reader_free(j->parts[i].calls);
        weft_decoder_free(j->parts[i].decoder);
    }
    request_free(&j->request); /* prompts, parts and choices live there */
    pthread_mutex_destroy(&j->lock);
    atomic_fetch_sub(&s->n_job_of[j->key < 0 ? 0 : j->key], 1);
    atomic_fetch_sub(&s->n_job, 1);
    atomic_fetch_sub(&s->metrics.n_request, 1);
    memory_give(j);
}

/* ---- the answer ------------------------------------------------------------------------------ */

void job_announce(job *j)
{
    pthread_mutex_lock(&j->lock);
    const bool first = !j->announced;
    j->announced = true;
    pthread_mutex_unlock(&j->lock);
    /* There is room: a job is in the ring once. */
    if (first && !ring_push(&j->server->ready, job_hold(j)))
        job_release(j);
}

bytes *job_begin_write(job *j)
{
    pthread_mutex_lock(&j->lock);
    return j->complete ? &j->late : &j->out;
}

void job_end_write(job *j)
{
    pthread_mutex_unlock(&j->lock);
    job_announce(j);
}

void job_answer(job *j, bool complete)
{
    j->status = j->status ? j->status : 200;
    j->complete = complete;
}

/* In a stream the error follows the events so far; otherwise it is the whole answer. */
void job_refuse(job *j, const refusal *why)
{
    bytes *out = job_begin_write(j);
    if (j->complete) {
        pthread_mutex_unlock(&j->lock);
        return;
    }
    if (j->status && j->stream) {
        answer_error_event(j->endpoint, why, out);
    } else {
        bytes_free(out);
        j->taken = 0;
        answer_error(j->endpoint, why, out);
        j->status = why->status;
    }
    j->failed = j->complete = true;
    job_end_write(j);
}

/* What the library says, as a status of HTTP. */
void job_refuse_error(job *j, const weft_error *err)
{
    refusal why;
    switch (err->code) {
    case WEFT_EINVAL:
    case WEFT_EUNSUPPORTED:
        refuse(&why, 400, INVALID_REQUEST, NULL, NULL, "%s", err->message);
        break;
    case WEFT_ECONTEXT:
        refuse(&why, 400, INVALID_REQUEST, "context_length_exceeded", NULL, "%s", err->message);
        break;
    case WEFT_EBUSY:
        refuse(&why, 503, "overloaded_error", "queue_full", NULL, "%s", err->message);
        break;
    case WEFT_ENOMEM:
    case WEFT_ELIMIT:
        refuse(&why, 503, "server_error", "no_memory", NULL, "%s", err->message);
        break;
    case WEFT_ESTOPPED:
        refuse(&why, 503, "server_error", "stopped", NULL, "the server is stopping; try again");
        break;
    default:
        refuse(&why, 500, "server_error", NULL, NULL, "%s", err->message);
        break;
    }
    job_refuse(j, &why);
}

void job_leave(job *j)
{
    pthread_mutex_lock(&j->lock);
    j->complete = true;
    pthread_mutex_unlock(&j->lock);
    job_announce(j);
    job_release(j);
}

/* respond.c - answers as libmicrohttpd sends them. */
#include "http.h"

#include "page.h"

#include <math.h>
#include <string.h>

/* Seconds after which there may be room again. */
static int retry_after(const server *s)
{
    const double rate = atomic_load(&s->rate);
    const double seconds = rate > 0 ? ceil((double)atomic_load(&s->n_job) / rate) : 1;
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int)seconds;
}

static void add(struct MHD_Response *r, const char *name, const char *value)
{
    mhd.add_response_header(r, name, value);
}

/* What every answer has. */
static void add_common(client *c, struct MHD_Response *r, int status, const char *type)
{
    const server *s = c->http->server;
    const char *origin = mhd.lookup_connection_value(c->connection, MHD_HEADER_KIND, "Origin");
    char seconds[16];
    add(r, "Content-Type", type);
    add(r, "x-request-id", c->x.id);
    if (strcmp(type, PAGE_TYPE) == 0) {
        add(r, "Content-Security-Policy", page_policy);
        add(r, "X-Content-Type-Options", "nosniff");
        add(r, "Referrer-Policy", "no-referrer");
        add(r, "Cache-Control", "no-store");
    }
    if (status == 401)
        add(r, "WWW-Authenticate", "Bearer");
    if (status == 405)
        add(r, "Allow", c->x.route && c->x.route->post ? "POST" : "GET, HEAD");
    if (status == 429 || status == 503) {
        snprintf(seconds, sizeof seconds, "%d", retry_after(s));
        add(r, "Retry-After", seconds);
    }
    if (s->options.cors && origin && strcmp(origin, s->options.cors) == 0) {
        add(r, "Access-Control-Allow-Origin", origin);
        add(r, "Access-Control-Allow-Headers", "authorization, content-type");
        add(r, "Access-Control-Allow-Methods", "GET, POST");
        add(r, "Vary", "Origin");
    }
    if (atomic_load(&s->phase) >= PHASE_LEAVING)
        add(r, "Connection", "close");
}

static enum MHD_Result queue(client *c, struct MHD_Response *r, int status)
{
    if (!r)
        return MHD_NO;
    const enum MHD_Result queued = mhd.queue_response(c->connection, (unsigned)status, r);
    mhd.destroy_response(r);
    c->x.status = status;
    atomic_fetch_add(&c->http->server->metrics.status[status / 100 % 6], 1);
    client_enter(c, STAGE_WRITING);
    return queued;
}

enum MHD_Result respond(client *c, int status, const char *type, const bytes *body)
{
    if (body->failed)
        return MHD_NO;
    struct MHD_Response *r = mhd.create_response_from_buffer(body->n, body->at ? body->at : "",
                                                             MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    add_common(c, r, status, type);
    c->x.sent = body->n;
    return queue(c, r, status);
}

enum MHD_Result respond_refusal(client *c, const refusal *why)
{
    bytes body = { 0 };
    answer_error(c->x.route ? c->x.route->endpoint : N_ENDPOINT, why, &body);
    const enum MHD_Result queued = respond(c, why->status, "application/json", &body);
    bytes_free(&body);
    return queued;
}

/* ---- the answer of a job --------------------------------------------------------------------- */

/* Copies the next bytes. Called by the loop's thread, under the lock. */
static size_t take(job *j, char *to, size_t most)
{
    size_t n = j->out.n - j->taken;
    n = n < most ? n : most;
    if (n > 0)
        memcpy(to, j->out.at + j->taken, n);
    j->taken += n;
    if (j->taken == j->out.n || (j->taken > (size_t)64 << 10 && j->taken > j->out.n / 2)) {
        bytes_drop(&j->out, j->taken);
        j->taken = 0;
    }
    return n;
}

/* A reader that returned 0 without suspending would be called again at once. */
static ssize_t read_job(void *ud, uint64_t position, char *to, size_t most)
{
    job *j = ud;
    client *c = j->client;
    (void)position;
    if (!c || c->x.gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    pthread_mutex_lock(&j->lock);
    const size_t n = take(j, to, most);
    const bool complete = j->complete;
    pthread_mutex_unlock(&j->lock);
    c->x.sent += n;
    if (n > 0) {
        c->progress = server_now();
        return (ssize_t)n;
    }
    if (complete)
        return MHD_CONTENT_READER_END_OF_STREAM;
    client_suspend(c);
    return 0;
}

static void free_job(void *ud)
{
    job_release(ud);
}

enum MHD_Result respond_job(client *c)
{
    job *j = c->x.job;
    pthread_mutex_lock(&j->lock);
    const int status = j->status;
    const bool stream = j->stream, failed = j->out.failed;
    const size_t n = j->out.n;
    pthread_mutex_unlock(&j->lock);
    if (failed)
        return MHD_NO;
    struct MHD_Response *r = mhd.create_response_from_callback(stream ? MHD_SIZE_UNKNOWN : n, 16384,
                                                               read_job, job_hold(j), free_job);
    if (!r) {
        job_release(j);
        return MHD_NO;
    }
    add_common(c, r, status, stream ? "text/event-stream" : "application/json");
    if (stream) {
        add(r, "Cache-Control", "no-cache");
        add(r, "X-Accel-Buffering", "no");
    }
    if (j->request.ignored[0])
        add(r, "x-weft-ignored", j->request.ignored);
    return queue(c, r, status);
}

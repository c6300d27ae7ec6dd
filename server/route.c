/* route.c - who may ask for what: paths and methods, keys, the Host field, types and sizes. */
#include "http.h"

#include "body.h"
#include "choose.h"
#include "page.h"
#include "service.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_HEADERS 64
#define MAX_URL     2048

/* ---- short answers --------------------------------------------------------------------------- */

static void get_health(client *c, bytes *to)
{
    (void)c;
    bytes_text(to, "{\"status\":\"ok\"}");
}

static void get_ready(client *c, bytes *to)
{
    const int now = atomic_load(&c->http->server->phase);
    if (now != PHASE_READY)
        refuse(&c->x.why, 503, "unavailable_error", phase_name(now), NULL, "the server is %s",
               phase_name(now));
    else if (atomic_load(&c->http->server->held))
        refuse(&c->x.why, 503, "unavailable_error", "held", NULL,
               "the server was marked not ready (admin: ready off)");
    bytes_text(to, "{\"status\":\"ready\"}");
}

/* Names and sizes are known once the models are loaded. A server that is stopped while it loads never has them. */
static bool is_loaded(client *c)
{
    if (services_loaded(c->http->server))
        return true;
    refuse(&c->x.why, 503, "unavailable_error", "loading", NULL, "the model is loading; try again");
    return false;
}

static void get_metrics(client *c, bytes *to)
{
    server *s = c->http->server;
    metered *all = memory_take((size_t)s->n_service * sizeof *all);
    instance **held = memory_take((size_t)s->n_service * sizeof *held);
    to->failed |= !all || !held;
    for (int k = 0; k < s->n_service && !to->failed; k++) {
        held[k] = service_hold(s, k);
        weft_scheduler *scheduler = held[k] ? atomic_load(&held[k]->scheduler) : NULL;
        all[k] = (metered){ .name = s->services[k].spec->name,
                            .metrics = &s->services[k].metrics,
                            .adapters = held[k] && has_adapters(s) ? &held[k]->adapters : NULL };
        all[k].info.struct_size = scheduler ? sizeof all[k].info : 0;
        if (scheduler)
            weft_scheduler_get_info(scheduler, &all[k].info);
    }
    if (!to->failed)
        metrics_write(&s->metrics, all, s->n_service, server_takes(s), to);
    sandbox_write(&s->sandbox, to);
    for (int k = 0; k < s->n_service && held; k++)
        instance_release(held[k]);
    memory_give(held);
    memory_give(all);
}

static const char *const *paths_of(const serve_model *m);

static void put_model(const instance *i, wire *w)
{
    const char *name = i->model.name;
    const served one = { .name = name,
                         .root = name,
                         .created = i->server->started,
                         .n_ctx = i->n_ctx,
                         .endpoints = paths_of(&i->model),
                         .images = i->model.info.images };
    answer_model(&one, w);
}

/* What a list of models is written with. */
typedef struct model_list {
    const instance *of;
    wire *wire;
} model_list;

static void put_adapter(void *ud, const served_adapter *a)
{
    model_list *l = ud;
    const served one = { .name = a->full,
                         .root = a->path,
                         .parent = l->of->model.name,
                         .created = l->of->server->started,
                         .n_ctx = l->of->n_ctx,
                         .endpoints = paths_of(&l->of->model),
                         .images = l->of->model.info.images };
    answer_model(&one, l->wire);
}

static void get_models(client *c, bytes *to)
{
    server *s = c->http->server;
    wire w = wire_to(to);
    if (!is_loaded(c))
        return;
    wire_object(&w, NULL);
    wire_string(&w, "object", "list");
    wire_list(&w, "data");
    for (int k = 0; k < s->n_service; k++) {
        instance *i = service_hold(s, k);
        put_model(i, &w);
        adapters_each(&i->adapters, put_adapter, &(model_list){ i, &w });
        instance_release(i);
    }
    wire_end(&w);
    wire_end(&w);
}

static void get_page(client *c, bytes *to)
{
    (void)c;
    bytes_add(to, page_html, page_size);
}

static void put_token(wire *w, const char *key, const weft_tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *token = id >= 0 ? weft_tokenizer_token(t, id, &n) : NULL;
    if (token)
        wire_text(w, key, token, n);
    else
        wire_null(w, key);
}

static void put_tokenizer(const instance *i, wire *w)
{
    const weft_tokenizer *t = i->model.tokenizer;
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_template_info template = { .struct_size = sizeof template };
    weft_tokenizer_get_info(t, &info);
    if (i->model.template)
        weft_template_get_info(i->model.template, &template);
    wire_object(w, NULL);
    put_token(w, "bos_token", t, info.bos_id);
    put_token(w, "eos_token", t, info.eos_id);
    put_token(w, "pad_token", t, info.eos_id);
    wire_int(w, "vocab_size", info.n_vocab);
    wire_int(w, "model_max_length", i->n_ctx);
    if (template.source)
        wire_text(w, "chat_template", template.source, template.source_length);
    else
        wire_null(w, "chat_template");
    wire_end(w);
}

/* What lm-eval reads to use the server's tokenizer: of the first model, or of ?model=NAME. */
static void get_tokenizer_info(client *c, bytes *to)
{
    server *s = c->http->server;
    const char *name = mhd.lookup_connection_value(c->connection, MHD_GET_ARGUMENT_KIND, "model");
    served_adapter *adapter = NULL;
    wire w = wire_to(to);
    if (!is_loaded(c))
        return;
    instance *i = name ? service_find(s, name, &adapter) : service_hold(s, 0);
    if (i && i->model.tokenizer)
        put_tokenizer(i, &w);
    else
        refuse(&c->x.why, 404, "not_found_error", "model_not_found", "model",
               "%.300s: no such model, or it has no tokenizer", i ? i->model.name : name);
    adapter_release(adapter);
    instance_release(i);
}

/* ---- paths ----------------------------------------------------------------------------------- */

#define JSON "application/json"

static const route routes[] = {
    { "/v1/completions", true, false, ENDPOINT_COMPLETIONS, NULL, JSON },
    { "/v1/chat/completions", true, false, ENDPOINT_CHAT, NULL, JSON },
    { "/v1/responses", true, false, ENDPOINT_RESPONSES, NULL, JSON },
    { "/v1/messages", true, false, ENDPOINT_MESSAGES, NULL, JSON },
    { "/v1/messages/count_tokens", true, false, ENDPOINT_COUNT, NULL, JSON },
    { "/v1/embeddings", true, false, ENDPOINT_EMBEDDINGS, NULL, JSON },
    { "/v1/score", true, false, ENDPOINT_SCORE, NULL, JSON },
    { "/v1/rerank", true, false, ENDPOINT_RERANK, NULL, JSON },
    { "/v1/classify", true, false, ENDPOINT_CLASSIFY, NULL, JSON },
    { "/v1/fill-mask", true, false, ENDPOINT_FILL, NULL, JSON },
    { "/v1/translate", true, false, ENDPOINT_TRANSLATE, NULL, JSON },
    { "/tokenize", true, false, ENDPOINT_TOKENIZE, NULL, JSON },
    { "/detokenize", true, false, ENDPOINT_DETOKENIZE, NULL, JSON },
    { "/apply-template", true, false, ENDPOINT_TEMPLATE, NULL, JSON },
    { "/v1/models", false, false, N_ENDPOINT, get_models, JSON },
    { "/tokenizer_info", false, false, N_ENDPOINT, get_tokenizer_info, JSON },
    { "/metrics", false, false, N_ENDPOINT, get_metrics, "text/plain; version=0.0.4" },
    { "/health", false, true, N_ENDPOINT, get_health, JSON },
    { "/ready", false, true, N_ENDPOINT, get_ready, JSON },
    { "/", false, true, N_ENDPOINT, get_page, PAGE_TYPE },
};

#define N_ROUTE (sizeof routes / sizeof *routes)

/* The paths that the model has an answer for; NULL ends them. Called by the loop only. */
static const char *const *paths_of(const serve_model *m)
{
    static const char *paths[N_ROUTE + 1];
    size_t n = 0;
    for (size_t i = 0; i < N_ROUTE; i++)
        if (routes[i].post && choose_answers(m, routes[i].endpoint))
            paths[n++] = routes[i].path;
    paths[n] = NULL;
    return paths;
}

#define ONE_MODEL "/v1/models/"

/* The route was found: only an adapter may be gone. */
static void get_model(client *c, bytes *to)
{
    const char *name = c->x.path + strlen(ONE_MODEL);
    served_adapter *adapter;
    wire w = wire_to(to);
    instance *i = service_find(c->http->server, name, &adapter);
    if (adapter)
        put_adapter(&(model_list){ i, &w }, adapter);
    else if (i)
        put_model(i, &w);
    else
        refuse(&c->x.why, 404, "not_found_error", "model_not_found", NULL, "%.300s: no such model",
               name);
    adapter_release(adapter);
    instance_release(i);
}

static const route one_model = { ONE_MODEL, false, false, N_ENDPOINT, get_model, JSON };

static bool is_model(server *s, const char *name)
{
    served_adapter *adapter;
    instance *i = service_find(s, name, &adapter);
    adapter_release(adapter);
    instance_release(i);
    return i;
}

static const route *find_route(server *s, const char *url)
{
    const size_t n = strlen(one_model.path);
    for (size_t i = 0; i < N_ROUTE; i++)
        if (strcmp(routes[i].path, url) == 0)
            return routes[i].get == get_page && s->options.no_page ? NULL : &routes[i];
    const bool named = strncmp(url, one_model.path, n) == 0 &&
                       atomic_load(&s->phase) != PHASE_LOADING && is_model(s, url + n);
    return named ? &one_model : NULL;
}

/* ---- the head -------------------------------------------------------------------------------- */

static const char *header(const client *c, const char *name)
{
    return mhd.lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

typedef struct head {
    int n, n_length, n_coding, n_host;
} head;

static enum MHD_Result count_header(void *ud, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    head *h = ud;
    (void)kind, (void)value;
    h->n++;
    h->n_length += strcasecmp(name, "Content-Length") == 0;
    h->n_coding += strcasecmp(name, "Transfer-Encoding") == 0;
    h->n_host += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

/* Two lengths, or a length and chunks: a proxy in front may have read another request than we. */
static bool check_framing(client *c, refusal *why)
{
    head h = { 0 };
    c->x.unclear = true;
    const char *coding = header(c, "Transfer-Encoding");
    mhd.get_connection_values(c->connection, MHD_HEADER_KIND, count_header, &h);
    if (h.n > MAX_HEADERS)
        return refuse(why, 431, INVALID_REQUEST, NULL, NULL,
                      "%d header fields; expected at most %d", h.n, MAX_HEADERS);
    if (h.n_length > 1 || h.n_coding > 1 || h.n_host > 1 || (h.n_length && h.n_coding))
        return refuse(why, 400, INVALID_REQUEST, NULL, NULL,
                      "several Content-Length, Transfer-Encoding or Host fields; expected one");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return refuse(why, 400, INVALID_REQUEST, NULL, NULL,
                      "a Transfer-Encoding that is not chunked; expected chunked");
    c->x.unclear = false;
    return true;
}

/* Without its port. */
static bool is_host(const char *given, const char *name)
{
    const size_t n = strlen(name);
    return strncasecmp(given, name, n) == 0 && (given[n] == '\0' || given[n] == ':');
}

/* A web page may point its own name at 127.0.0.1, but its browser says which name it was. */
static bool check_host(const client *c, refusal *why)
{
    static const char *const local[] = { "localhost", "127.0.0.1", "[::1]" };
    const serve_options *o = &c->http->server->options;
    const char *given = header(c, "Host");
    if (!given || (!c->http->local && o->n_host == 0))
        return true;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (is_host(given, local[i]))
            return true;
    for (int i = 0; i < o->n_host; i++)
        if (is_host(given, o->hosts[i]))
            return true;
    return refuse(why, 403, "permission_error", "unknown_host", NULL,
                  "Host: found %.100s; expected localhost, or a name of --allow-host", given);
}

static bool check_key(client *c, refusal *why)
{
    const server *s = c->http->server;
    const char *given = header(c, "Authorization");
    c->x.key = -1;
    if (s->keys.n == 0 || (c->x.route && c->x.route->open))
        return true;
    const char *other = header(c, "x-api-key"); /* Anthropic's clients */
    if (given && strncasecmp(given, "Bearer ", 7) == 0)
        c->x.key = keys_find(&s->keys, given + 7, strlen(given + 7));
    else if (!given && other)
        c->x.key = keys_find(&s->keys, other, strlen(other));
    if (c->x.key >= 0)
        return true;
    return refuse(why, 401, "authentication_error", "invalid_api_key", NULL,
                  "%s; expected Authorization: Bearer and a key of this server",
                  given || other ? "the key is not known" : "no key");
}

static bool check_method(const client *c, const char *method, refusal *why)
{
    const route *r = c->x.route;
    if (!r)
        return refuse(why, 404, "not_found_error", NULL, NULL,
                      "%.60s: no such path; see docs/SERVE.md", c->x.path);
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (r->post ? strcmp(method, "POST") != 0 : !reads)
        return refuse(why, 405, INVALID_REQUEST, "method_not_allowed", NULL,
                      "%s: found %.20s; expected %s", r->path, method, r->post ? "POST" : "GET");
    return true;
}

/* A form of a web page cannot send this type without asking first. */
static bool check_type(const client *c, refusal *why)
{
    const char *type = header(c, "Content-Type"), *coding = header(c, "Content-Encoding");
    const size_t n = strlen("application/json");
    if (!c->x.route->post)
        return true;
    if (!type || strncasecmp(type, "application/json", n) != 0 || !strchr("; \t", type[n]))
        return refuse(why, 415, INVALID_REQUEST, "unsupported_media_type", NULL,
                      "Content-Type: found %.60s; expected application/json",
                      type ? type : "nothing");
    if (coding && strcasecmp(coding, "identity") != 0)
        return refuse(why, 415, INVALID_REQUEST, "unsupported_media_type", NULL,
                      "Content-Encoding: found %.60s; expected none", coding);
    return true;
}

static bool check_size(client *c, refusal *why)
{
    const char *length = header(c, "Content-Length");
    if (!length || strtoull(length, NULL, 10) <= BODY_MAX_BYTES)
        return true;
    c->x.unclear = true; /* and long */
    return refuse(why, 413, INVALID_REQUEST, "too_large", NULL,
                  "a body of %.20s bytes; expected at most %zu", length, BODY_MAX_BYTES);
}

/* Whether there is room is known before the body is read. */
static bool check_room(const client *c, refusal *why)
{
    const server *s = c->http->server;
    const int key = c->x.key < 0 ? 0 : c->x.key;
    const int now = atomic_load(&s->phase);
    if (!c->x.route->post)
        return true;
    if (now != PHASE_READY && now != PHASE_LEAVING)
        return refuse(why, 503, "unavailable_error", now == PHASE_LOADING ? "loading" : "draining",
                      NULL, "the server is %s; try again",
                      now == PHASE_LOADING ? "loading its model" : "stopping");
    if (atomic_load(&s->n_job) >= s->max_job)
        return refuse(why, 503, "overloaded_error", "queue_full", NULL,
                      "%d requests are waiting; try again later", atomic_load(&s->n_job));
    if (s->keys.n > 1 && atomic_load(&s->n_job_of[key]) >= (s->max_job + 1) / 2)
        return refuse(why, 429, "rate_limit_error", "too_many_requests", NULL,
                      "%d requests of this key are waiting; try again later",
                      atomic_load(&s->n_job_of[key]));
    return true;
}

static bool is_id(const char *id)
{
    size_t n = 0;
    for (; id[n]; n++)
        if (n >= ID_BYTES - 1 || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                         "0123456789-_.",
                                         id[n]))
            return false;
    return n > 0;
}

void route_check(client *c, const char *url, const char *method)
{
    struct exchange *x = &c->x;
    const char *id = header(c, "x-request-id");
    char made[MADE_BYTES];
    job_make_id(made);
    *x = (struct exchange){ .begun = true, .began = server_now(), .key = -1 };
    snprintf(x->id, sizeof x->id, "%s", id && is_id(id) ? id : made);
    snprintf(x->method, sizeof x->method, "%s", method);
    snprintf(x->path, sizeof x->path, "%s", url);
    x->route = find_route(c->http->server, url);
    x->preflight = c->http->server->options.cors && strcmp(method, "OPTIONS") == 0;
    if (strlen(url) > MAX_URL)
        refuse(&x->why, 414, INVALID_REQUEST, NULL, NULL,
               "a path of %zu bytes; expected at most %d", strlen(url), MAX_URL);
    else if (check_framing(c, &x->why) && check_host(c, &x->why) && !x->preflight &&
             check_key(c, &x->why) && check_method(c, method, &x->why) && check_type(c, &x->why) &&
             check_size(c, &x->why))
        check_room(c, &x->why);
}

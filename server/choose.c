/* choose.c - which model answers a request; see choose.h. */
#include "choose.h"

#include "prompts.h"
#include "service.h"

#include <string.h>

/* Why the model has no answer there; NULL: it has. */
static const char *lack_of(const serve_model *m, endpoint e)
{
    const weft_task task = m->info.task;
    const bool generates = e == ENDPOINT_COMPLETIONS || endpoint_talks(e);
    const bool scores = e == ENDPOINT_SCORE || e == ENDPOINT_RERANK;
    if (m->info.images && e != ENDPOINT_CLASSIFY && e != ENDPOINT_EMBEDDINGS)
        return "reads images; use /v1/classify";
    if (m->source && e != ENDPOINT_TRANSLATE && (generates || endpoint_encodes(e)))
        return "is an encoder-decoder; use /v1/translate";
    if (e == ENDPOINT_TRANSLATE && !m->source)
        return "is not an encoder-decoder; expected one, such as T5 or Marian";
    if (generates && !m->engine)
        return "does not generate text; use /v1/embeddings";
    if (e == ENDPOINT_CLASSIFY && task != WEFT_TASK_CLASSIFY && task != WEFT_TASK_TAG)
        return "has no labels; expected a classifier";
    if (e == ENDPOINT_FILL && (task != WEFT_TASK_FILL || prompts_mask(m->tokenizer) < 0))
        return "is not a masked language model; expected one, such as BERT";
    if (scores && task == WEFT_TASK_CLASSIFY && m->info.n_out != 1)
        return "has several labels; expected one output, as rerankers have";
    if (scores && (task == WEFT_TASK_TAG || task == WEFT_TASK_ANSWER))
        return "scores no texts; expected a reranker, or a model that makes vectors";
    return NULL;
}

bool choose_answers(const serve_model *m, endpoint e)
{
    const bool renders = endpoint_talks(e) || e == ENDPOINT_TEMPLATE || e == ENDPOINT_COUNT;
    return (m->template || !renders) && !lack_of(m, e);
}

/* A request that names no model gets the first one that can answer it. */
static instance *usual_instance(const job *j)
{
    server *s = j->server;
    for (int k = 0; k < s->n_service; k++) {
        instance *i = service_hold(s, k);
        if (choose_answers(&i->model, j->endpoint))
            return i;
        instance_release(i);
    }
    return service_hold(s, 0);
}

/* "base:poet" would be an adapter of a model. */
static bool names_adapter(const server *s, const char *given)
{
    for (int k = 0; k < s->n_service; k++) {
        const char *base = s->services[k].spec->name;
        const size_t n = strlen(base);
        if (strncmp(given, base, n) == 0 && given[n] == ':')
            return true;
    }
    return false;
}

/* The job holds its model and its adapter. An unknown name is the usual model's only with --lenient, and never one that
 * asks for an adapter. */
static bool find_model(job *j, refusal *why)
{
    server *s = j->server;
    const char *given = j->request.model;
    instance *found = given ? service_find(s, given, &j->adapter) : usual_instance(j);
    if (!found && s->options.lenient && !names_adapter(s, given))
        found = usual_instance(j);
    if (j->adapter)
        atomic_fetch_add(&j->adapter->n_request, 1);
    atomic_store(&j->instance, found);
    const bool many = s->n_service > 1 || has_adapters(s);
    return found ||
           refuse(why, 404, "not_found_error", "model_not_found", "model",
                  many ? "model: found %.100s; expected %.200s, or another that /v1/models lists"
                       : "model: found %.100s; expected %.200s",
                  given, s->services[0].spec->name);
}

/* A model has a queue of its own, and a key at most half of it. With one model it is the server's, of which the loop
 * knows before. Only the clerk counts up. */
static bool find_room(job *j, refusal *why)
{
    const server *s = j->server;
    const service *v = atomic_load(&j->instance)->service;
    const int n = atomic_load(&v->n_job), n_of = atomic_load(&v->n_job_of[j->key < 0 ? 0 : j->key]);
    if (s->n_service == 1)
        return true;
    if (n >= s->max_of_model)
        return refuse(why, 503, "overloaded_error", "queue_full", NULL,
                      "%d requests for this model are waiting; try again later", n);
    if (s->keys.n > 1 && n_of >= (s->max_of_model + 1) / 2)
        return refuse(why, 429, "rate_limit_error", "too_many_requests", NULL,
                      "%d requests of this key for this model are waiting; try again later", n_of);
    job_count(j, true);
    return true;
}

bool choose_model(job *j, refusal *why)
{
    if (!find_model(j, why) || !find_room(j, why))
        return false;
    const char *lacks = lack_of(&j->instance->model, j->endpoint);
    return !lacks || refuse(why, 400, INVALID_REQUEST, "wrong_model", "model", "%.200s %s",
                            j->instance->model.name, lacks);
}

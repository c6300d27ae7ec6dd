/* clerk.c - the thread that reads requests: JSON, the model's name, the chat template, the
 * tokenizer. What needs no engine is answered here; the rest goes on to the worker. */
#include "choose.h"
#include "prompts.h"
#include "service.h"

#include <string.h>

/* ---- what an answer must match ---------------------------------------------------------------- */

static bool calls_tools(const request *r)
{
    return r->tools && !r->no_calls;
}

static bool check_tools(const instance *i, const request *r, refusal *why)
{
    weft_template_info info = { .struct_size = sizeof info };
    if (!calls_tools(r))
        return true;
    weft_template_get_info(i->model.template, &info);
    if (!info.tools)
        return refuse(why, 400, INVALID_REQUEST, "unsupported_parameter", "tools",
                      "tools: this model's chat template does not take them");
    if (!info.calls)
        return refuse(why, 400, INVALID_REQUEST, "unsupported_parameter", "tools",
                      "tools: the syntax in which this model calls tools is not known");
    return true;
}

static void take_call(void *ud, weft_call_event e, const char *text, size_t n)
{
    const job_text *p = ud;
    answer *a = &p->job->answer;
    answer_call(a, &a->choices[p->index], e, text, n);
}

/* Every text has a state of its own. */
static bool constrain(job *j, refusal *why)
{
    const request *r = &j->request;
    serve_model *m = &j->instance->model;
    weft_error err;
    if (!r->form.text && !calls_tools(r))
        return true;
    for (int i = 0; i < j->n_part; i++) {
        job_text *p = &j->parts[i];
        const grammar_place at = { m->model, m->tokenizer, m->template,
                                   j->prompts[i / r->n].inside };
        p->constraint = grammars_constraint(&j->instance->grammars, r, &at, why);
        if (!p->constraint)
            return false;
        if (!r->form.text)
            p->calls = weft_call_reader_new(m->template, r->tools, r->n_tools, take_call, p, &err);
        if (!r->form.text && !p->calls)
            return prompts_refused_by(&err, "tools", why);
    }
    return true;
}

/* ---- what the clerk answers itself ------------------------------------------------------------ */

static bool finish(job *j, refusal *why)
{
    const bool good = !j->out.failed;
    if (good)
        job_answer(j, true);
    job_end_write(j);
    return good || prompts_no_memory(why);
}

static bool tokenize(job *j, refusal *why)
{
    prompt p = { 0 };
    if (!prompts_encode(j, j->request.inputs, NULL, &p, why))
        return false;
    answer_ids(p.ids, p.n, j->instance->n_ctx, job_begin_write(j));
    weft_tokens_free(p.tokens);
    return finish(j, why);
}

static bool detokenize(job *j, refusal *why)
{
    bytes text = { 0 };
    const input *in = j->request.inputs;
    const prompt p = { .ids = in->ids, .n = in->n };
    const bool good = prompts_check_ids(j, &p, 0, j->instance->model.info.n_vocab, why) &&
                      prompts_decode(j->instance, in->ids, in->n, &text, why);
    if (good)
        answer_plain("prompt", text.at ? text.at : "", text.n, job_begin_write(j));
    bytes_free(&text);
    return good && finish(j, why);
}

static bool count_tokens(job *j, refusal *why)
{
    weft_rendered *text = prompts_render(j, j->instance->model.tokenizer, why);
    if (!text)
        return false;
    answer_count(text->tokens->n, job_begin_write(j));
    weft_rendered_free(text);
    return finish(j, why);
}

static bool apply_template(job *j, refusal *why)
{
    weft_rendered *text = prompts_render(j, NULL, why);
    if (!text)
        return false;
    answer_plain("prompt", text->text, text->length, job_begin_write(j));
    weft_rendered_free(text);
    return finish(j, why);
}

/* ---- what goes on to the worker --------------------------------------------------------------- */

static const char *id_prefix(endpoint e)
{
    return e == ENDPOINT_CHAT        ? "chatcmpl-"
           : e == ENDPOINT_RESPONSES ? "resp_"
           : e == ENDPOINT_MESSAGES  ? "msg_"
                                     : "cmpl-";
}

/* Ids that the model cannot generate would have no effect. */
static bool check_ids(const job *j, refusal *why)
{
    const request *r = &j->request;
    const long long V = j->instance->model.info.n_vocab;
    for (int64_t i = 0; i < r->n_bias; i++)
        if (r->bias[i].id >= V)
            return refuse(why, 400, INVALID_REQUEST, "invalid_value", "logit_bias",
                          "logit_bias: found token id %d; expected one below %lld",
                          (int)r->bias[i].id, V);
    for (int64_t i = 0; i < r->n_stop_id; i++)
        if (r->stop_ids[i] >= V)
            return refuse(why, 400, INVALID_REQUEST, "invalid_value", "stop_token_ids",
                          "stop_token_ids: found token id %d; expected one below %lld",
                          (int)r->stop_ids[i], V);
    return true;
}

static bool make_parts(job *j, refusal *why)
{
    request *r = &j->request;
    if (!check_ids(j, why))
        return false;
    answer *a = &j->answer;
    const int n = (int)(r->n_input * r->n); /* at most MAX_INPUT */
    j->parts = store_take(&r->store, (size_t)n, sizeof *j->parts);
    a->choices = store_take(&r->store, (size_t)n, sizeof *a->choices);
    if (!j->parts || !a->choices)
        return prompts_no_memory(why);
    a->endpoint = j->endpoint;
    a->created = (int64_t)time(NULL);
    a->model = job_model(j);
    a->stream = r->stream;
    a->include_usage = r->include_usage;
    a->wants_logprobs = r->wants_logprobs;
    a->n_top = r->n_top;
    a->tokenizer = j->instance->model.tokenizer;
    a->n_choice = j->n_part = n;
    a->asked = r;
    snprintf(a->id, sizeof a->id, "%s%s", id_prefix(j->endpoint), j->made);
    for (int i = 0; i < n; i++) {
        a->choices[i].index = i;
        j->parts[i] = (job_text){ .job = j, .index = i };
    }
    for (int64_t i = 0; i < r->n_input; i++)
        a->n_prompt += j->prompts[i].source ? j->prompts[i].n_source : j->prompts[i].n;
    j->n_prompt = a->n_prompt;
    return true;
}

static bool make_decoders(job *j, refusal *why)
{
    weft_error err;
    for (int i = 0; i < j->n_part; i++) {
        j->parts[i].decoder = weft_decoder_new(j->instance->model.tokenizer, false, &err);
        if (!j->parts[i].decoder)
            return prompts_refused_by(&err, NULL, why);
    }
    return true;
}

/* True if the job went on to the worker; otherwise it has its answer. */
static bool take_in(job *j, refusal *why, bool *good)
{
    *good = request_parse(&j->request, j->endpoint, j->body.at ? j->body.at : "", j->body.n,
                          j->server->options.lenient, why) &&
            choose_model(j, why);
    bytes_free(&j->body);
    if (!*good)
        return false;
    switch (j->endpoint) {
    case ENDPOINT_TOKENIZE:
        *good = tokenize(j, why);
        return false;
    case ENDPOINT_DETOKENIZE:
        *good = detokenize(j, why);
        return false;
    case ENDPOINT_TEMPLATE:
        *good = apply_template(j, why);
        return false;
    case ENDPOINT_COUNT:
        *good = count_tokens(j, why);
        return false;
    case ENDPOINT_CHAT:
    case ENDPOINT_RESPONSES:
    case ENDPOINT_MESSAGES:
        *good = prompts_chat(j, why) && check_tools(j->instance, &j->request, why) &&
                make_parts(j, why) && constrain(j, why);
        return *good;
    case ENDPOINT_EMBEDDINGS:
    case ENDPOINT_SCORE:
    case ENDPOINT_RERANK:
    case ENDPOINT_CLASSIFY:
    case ENDPOINT_FILL:
        *good = prompts_encodings(j, why);
        return *good;
    case ENDPOINT_TRANSLATE:
        *good = prompts_sources(j, why) && make_parts(j, why) && make_decoders(j, why);
        return *good;
    case ENDPOINT_COMPLETIONS:
    case N_ENDPOINT:
        break;
    }
    *good = prompts_make(j, why) && make_parts(j, why) && constrain(j, why);
    return *good;
}

static void handle(job *j)
{
    refusal why;
    bool good = true;
    const serve_record *record = &j->server->options.record;
    const double began = server_now();
    if (!atomic_load(&j->cancelled) && take_in(j, &why, &good)) {
        if (record->taken && !endpoint_encodes(j->endpoint))
            record->taken(record->ud, j->n_prompt, server_now() - began);
        if (ring_push(&j->instance->ring, j))
            return;
    }
    if (!good)
        job_refuse(j, &why);
    job_leave(j);
}

void *clerk_main(void *ud)
{
    server *s = ud;
    while (!atomic_load(&s->stopping)) {
        heart_wait(&s->clerk_heart, &s->clerk);
        for (job *j; (j = ring_pop(&s->clerk)); heart_beat(&s->clerk_heart))
            handle(j);
    }
    return NULL;
}

/* clerk.c - the thread that reads requests: JSON, the model's name, the chat template, the
 * tokenizer. What needs no engine is answered here; the rest goes on to the worker. */
#include "job.h"

#include <string.h>

/* ---- prompts --------------------------------------------------------------------------------- */

static bool no_memory(refusal *why)
{
    return refuse(why, 503, "server_error", "no_memory", NULL, "no memory for the request");
}

static bool refused_by(const weft_error *err, const char *param, refusal *why)
{
    const bool ours = err->code == WEFT_ENOMEM || err->code == WEFT_ELIMIT;
    return refuse(why, ours ? 503 : 400, ours ? "server_error" : INVALID_REQUEST, NULL, param, "%s",
                  err->message);
}

/* second: the other text of a pair, or NULL. */
static bool encode(const job *j, const input *in, const input *second, prompt *to, refusal *why)
{
    const request *r = &j->request;
    const serve_model *m = &j->server->model;
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .no_special = r->no_special,
                                      .parse_special = r->parse_special,
                                      .pair = second ? second->text : NULL,
                                      .pair_length = second ? second->length : 0 };
    weft_error err;
    if (!in->text) {
        to->ids = in->ids;
        to->n = in->n;
        return true;
    }
    to->tokens = weft_tokenizer_encode(m->source ? m->source : m->tokenizer, in->text, in->length,
                                       &o, &err);
    if (!to->tokens)
        return refused_by(&err, "prompt", why);
    to->ids = to->tokens->ids;
    to->n = to->tokens->n;
    return true;
}

/* All of ids as text. */
static bool decode(const server *s, const int32_t *ids, int64_t n, bytes *to, refusal *why)
{
    weft_error err;
    const char *text;
    size_t length;
    weft_decoder *d = weft_decoder_new(s->model.tokenizer, false, &err);
    if (!d)
        return refused_by(&err, NULL, why);
    for (int64_t i = 0; i < n; i++) {
        if (weft_decoder_push(d, ids[i], &text, &length, &err) != WEFT_OK) {
            weft_decoder_free(d);
            return refused_by(&err, NULL, why);
        }
        bytes_add(to, text, length);
    }
    weft_decoder_flush(d, &text, &length);
    bytes_add(to, text ? text : "", length);
    weft_decoder_free(d);
    return !to->failed || no_memory(why);
}

/* Of a vocabulary of V. */
static bool check_ids(const prompt *p, int64_t i, int64_t V, refusal *why)
{
    for (int64_t k = 0; k < p->n; k++)
        if (p->ids[k] >= V)
            return refuse(why, 400, INVALID_REQUEST, "invalid_value", "prompt",
                          "prompt %lld: token id %d; expected one below %lld", (long long)i,
                          (int)p->ids[k], (long long)V);
    return true;
}

/* The prompt fits the context, with a token to generate if one is wanted. */
static bool check_length(const job *j, const prompt *p, int64_t i, refusal *why)
{
    const int64_t n_ctx = j->server->n_ctx;
    const bool encodes = endpoint_encodes(j->endpoint) || j->endpoint == ENDPOINT_TRANSLATE;
    const int64_t most = encodes || j->request.max_tokens == 0 ? n_ctx : n_ctx - 1;
    if (p->n == 0)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", encodes ? "input" : "prompt",
                      "prompt %lld has no tokens; expected at least one", (long long)i);
    if (p->n > most)
        return refuse(why, 400, INVALID_REQUEST, "context_length_exceeded",
                      encodes ? "input" : "prompt",
                      "prompt %lld has %lld tokens; expected at most %lld of the context of %lld",
                      (long long)i, (long long)p->n, (long long)most, (long long)n_ctx);
    return true;
}

static bool make_echo(const job *j, const input *in, prompt *p, refusal *why)
{
    if (!j->request.echo)
        return true;
    if (!in->text)
        return decode(j->server, p->ids, p->n, &p->echo, why);
    bytes_add(&p->echo, in->text, in->length);
    return !p->echo.failed || no_memory(why);
}

static bool take_prompts(job *j, int64_t n, refusal *why)
{
    j->prompts = store_take(&j->request.store, (size_t)n, sizeof *j->prompts);
    j->n_text = j->prompts ? n : 0;
    return j->prompts || no_memory(why);
}

static bool make_prompts(job *j, refusal *why)
{
    request *r = &j->request;
    const weft_model_info *m = &j->server->model.info;
    const int64_t V = m->n_layer_src > 0 ? m->n_vocab_src : m->n_vocab;
    if (!take_prompts(j, r->n_input, why))
        return false;
    for (int64_t i = 0; i < r->n_input; i++) {
        prompt *p = &j->prompts[i];
        if (!encode(j, &r->inputs[i], NULL, p, why) || !check_ids(p, i, V, why) ||
            !check_length(j, p, i, why) || !make_echo(j, &r->inputs[i], p, why))
            return false;
        if (atomic_load(&j->cancelled))
            break;
    }
    return true;
}

/* What was read is the source; the text begins as the model, or the request, wants it. */
static bool make_sources(job *j, refusal *why)
{
    const weft_model_info *m = &j->server->model.info;
    const int64_t forced = j->request.forced_bos;
    if (forced >= m->n_vocab)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "forced_bos_token_id",
                      "forced_bos_token_id: found %lld; expected one below %lld", (long long)forced,
                      (long long)m->n_vocab);
    int32_t *begin = store_take(&j->request.store, 2, sizeof *begin);
    if (!begin)
        return no_memory(why);
    begin[0] = m->start_id;
    begin[1] = (int32_t)forced;
    if (!make_prompts(j, why))
        return false;
    for (int64_t i = 0; i < j->n_text; i++) {
        prompt *p = &j->prompts[i];
        p->source = p->ids;
        p->n_source = p->n;
        p->ids = begin;
        p->n = forced < 0 ? 1 : 2;
    }
    return true;
}

/* ---- for an encoder -------------------------------------------------------------------------- */

/* Pairs of texts, or the first ones and then the second ones. */
static bool make_pairs(job *j, refusal *why)
{
    request *r = &j->request;
    const bool pairs = serve_scores_pairs(&j->server->model);
    if (!take_prompts(j, r->n_second + (pairs ? 0 : r->n_input), why))
        return false;
    for (int64_t i = 0; i < j->n_text && !atomic_load(&j->cancelled); i++) {
        prompt *p = &j->prompts[i];
        const bool is_first = !pairs && i < r->n_input;
        const bool good = pairs ? encode(j, &r->inputs[r->n_input == 1 ? 0 : i], &r->seconds[i], p,
                                         why)
                          : is_first ? encode(j, &r->inputs[i], NULL, p, why)
                                     : encode(j, &r->seconds[i - r->n_input], NULL, p, why);
        if (!good || !check_length(j, p, i, why))
            return false;
    }
    return true;
}

/* Two spellings are in use. */
static int32_t mask_of(const weft_tokenizer *t)
{
    const int32_t bert = weft_tokenizer_id(t, "[MASK]", 6);
    return bert >= 0 ? bert : weft_tokenizer_id(t, "<mask>", 6);
}

static bool find_masks(job *j, prompt *p, int64_t i, refusal *why)
{
    const int32_t id = mask_of(j->server->model.tokenizer);
    p->mask = store_take(&j->request.store, MAX_MASK, sizeof *p->mask);
    if (!p->mask)
        return no_memory(why);
    for (int64_t k = 0; k < p->n; k++) {
        if (p->ids[k] != id)
            continue;
        if (p->n_mask == MAX_MASK)
            return refuse(why, 400, INVALID_REQUEST, "invalid_value", "input",
                          "input %lld has more than %d masks; expected fewer", (long long)i,
                          MAX_MASK);
        p->mask[p->n_mask++] = (int32_t)k;
    }
    return p->n_mask > 0 || refuse(why, 400, INVALID_REQUEST, "invalid_value", "input",
                                   "input %lld has no mask; expected [MASK] or <mask>, as the "
                                   "model's tokenizer spells it",
                                   (long long)i);
}

static bool make_encodings(job *j, refusal *why)
{
    const bool pairs = j->endpoint == ENDPOINT_SCORE || j->endpoint == ENDPOINT_RERANK;
    int64_t n_fill = 0; /* tokens that the answer would have */
    if (!(pairs ? make_pairs(j, why) : make_prompts(j, why)))
        return false;
    for (int64_t i = 0; i < j->n_text; i++) {
        j->n_prompt += j->prompts[i].n;
        if (j->endpoint == ENDPOINT_FILL && !find_masks(j, &j->prompts[i], i, why))
            return false;
        n_fill += j->prompts[i].n_mask * j->request.top_k;
    }
    return n_fill <= MAX_FILLED ||
           refuse(why, 400, INVALID_REQUEST, "invalid_value", "top_k",
                  "top_k: %lld tokens for all masks; expected at most %d in a request",
                  (long long)n_fill, MAX_FILLED);
}

/* ---- chat ------------------------------------------------------------------------------------ */

static weft_rendered *render(const job *j, const weft_tokenizer *tokenizer, refusal *why)
{
    const request *r = &j->request;
    const weft_render_options o = { .struct_size = sizeof o,
                                    .tools = r->tools,
                                    .variables = r->variables,
                                    .no_generation_prompt = r->no_generation_prompt,
                                    .continue_last = r->continue_last };
    weft_error err;
    if (!j->server->model.template) {
        refuse(why, 400, INVALID_REQUEST, "no_template", NULL,
               "the model has no chat template; use /v1/completions");
        return NULL;
    }
    weft_rendered *text = weft_template_render(j->server->model.template, tokenizer, r->messages,
                                               r->n_messages, &o, &err);
    if (!text)
        refused_by(&err, "messages", why);
    return text;
}

/* The prompt may itself have begun the thinking, with blanks after it. */
static bool ends_with(const char *text, size_t n, const char *end)
{
    const size_t length = end ? strlen(end) : 0;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    return length > 0 && n >= length && memcmp(text + n - length, end, length) == 0;
}

static bool make_chat_prompt(job *j, refusal *why)
{
    request *r = &j->request;
    weft_template_info info = { .struct_size = sizeof info };
    if (!take_prompts(j, 1, why))
        return false;
    prompt *p = j->prompts;
    r->n_input = 1;
    p->rendered = render(j, j->server->model.tokenizer, why);
    if (!p->rendered)
        return false;
    weft_template_get_info(j->server->model.template, &info);
    p->inside = ends_with(p->rendered->text, p->rendered->length, info.think_begin);
    p->ids = p->rendered->tokens->ids;
    p->n = p->rendered->tokens->n;
    return check_length(j, p, 0, why);
}

/* ---- what an answer must match ---------------------------------------------------------------- */

static bool calls_tools(const request *r)
{
    return r->tools && !r->no_calls;
}

static bool check_tools(const server *s, const request *r, refusal *why)
{
    weft_template_info info = { .struct_size = sizeof info };
    if (!calls_tools(r))
        return true;
    weft_template_get_info(s->model.template, &info);
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
    serve_model *m = &j->server->model;
    weft_error err;
    if (!r->form.text && !calls_tools(r))
        return true;
    for (int i = 0; i < j->n_part; i++) {
        job_text *p = &j->parts[i];
        const grammar_place at = { m->model, m->tokenizer, m->template,
                                   j->prompts[i / r->n].inside };
        p->constraint = grammars_constraint(&j->server->grammars, r, &at, why);
        if (!p->constraint)
            return false;
        if (!r->form.text)
            p->calls = weft_call_reader_new(m->template, r->tools, r->n_tools, take_call, p, &err);
        if (!r->form.text && !p->calls)
            return refused_by(&err, "tools", why);
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
    return good || no_memory(why);
}

static bool tokenize(job *j, refusal *why)
{
    prompt p = { 0 };
    if (!encode(j, j->request.inputs, NULL, &p, why))
        return false;
    answer_ids(p.ids, p.n, j->server->n_ctx, job_begin_write(j));
    weft_tokens_free(p.tokens);
    return finish(j, why);
}

static bool detokenize(job *j, refusal *why)
{
    bytes text = { 0 };
    const input *in = j->request.inputs;
    const prompt p = { .ids = in->ids, .n = in->n };
    const bool good = check_ids(&p, 0, j->server->model.info.n_vocab, why) &&
                      decode(j->server, in->ids, in->n, &text, why);
    if (good)
        answer_plain("prompt", text.at ? text.at : "", text.n, job_begin_write(j));
    bytes_free(&text);
    return good && finish(j, why);
}

static bool count_tokens(job *j, refusal *why)
{
    weft_rendered *text = render(j, j->server->model.tokenizer, why);
    if (!text)
        return false;
    answer_count(text->tokens->n, job_begin_write(j));
    weft_rendered_free(text);
    return finish(j, why);
}

static bool apply_template(job *j, refusal *why)
{
    weft_rendered *text = render(j, NULL, why);
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

static bool make_parts(job *j, refusal *why)
{
    request *r = &j->request;
    answer *a = &j->answer;
    const int n = (int)(r->n_input * r->n); /* at most MAX_INPUT */
    j->parts = store_take(&r->store, (size_t)n, sizeof *j->parts);
    a->choices = store_take(&r->store, (size_t)n, sizeof *a->choices);
    if (!j->parts || !a->choices)
        return no_memory(why);
    a->endpoint = j->endpoint;
    a->created = (int64_t)time(NULL);
    a->model = job_model(j);
    a->stream = r->stream;
    a->include_usage = r->include_usage;
    a->wants_logprobs = r->wants_logprobs;
    a->n_top = r->n_top;
    a->tokenizer = j->server->model.tokenizer;
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
        j->parts[i].decoder = weft_decoder_new(j->server->model.tokenizer, false, &err);
        if (!j->parts[i].decoder)
            return refused_by(&err, NULL, why);
    }
    return true;
}

/* "poet" or "base:poet" is an adapter of now, which the job keeps. Another name is the model's only
 * with --lenient, and never one that asks for an adapter. */
static bool choose_model(job *j, refusal *why)
{
    server *s = j->server;
    const char *given = j->request.model, *base = s->model.name;
    const size_t n = strlen(base);
    if (!given || strcmp(given, base) == 0)
        return true;
    j->adapter = adapters_find(&s->adapters, base, given);
    if (j->adapter)
        atomic_fetch_add(&j->adapter->n_request, 1);
    const bool adapted = strncmp(given, base, n) == 0 && given[n] == ':';
    if (j->adapter || (s->options.lenient && !adapted))
        return true;
    return refuse(why, 404, "not_found_error", "model_not_found", "model",
                  "model: found %.100s; expected %.200s%s", given, base,
                  has_adapters(s) ? ", or an adapter that /v1/models lists" : "");
}

/* Why the model cannot answer; NULL: it can. */
static const char *lacks_of(const serve_model *m, endpoint e)
{
    const weft_task task = m->info.task;
    const bool generates = e == ENDPOINT_COMPLETIONS || endpoint_talks(e);
    const bool scores = e == ENDPOINT_SCORE || e == ENDPOINT_RERANK;
    if (m->source && e != ENDPOINT_TRANSLATE && (generates || endpoint_encodes(e)))
        return "is an encoder-decoder; use /v1/translate";
    if (e == ENDPOINT_TRANSLATE && !m->source)
        return "is not an encoder-decoder; expected one, such as T5 or Marian";
    if (generates && !m->engine)
        return "does not generate text; use /v1/embeddings";
    if (e == ENDPOINT_CLASSIFY && task != WEFT_TASK_CLASSIFY && task != WEFT_TASK_TAG)
        return "has no labels; expected a classifier";
    if (e == ENDPOINT_FILL && (task != WEFT_TASK_FILL || mask_of(m->tokenizer) < 0))
        return "is not a masked language model; expected one, such as BERT";
    if (scores && task == WEFT_TASK_CLASSIFY && m->info.n_out != 1)
        return "has several labels; expected one output, as rerankers have";
    if (scores && (task == WEFT_TASK_TAG || task == WEFT_TASK_ANSWER))
        return "scores no texts; expected a reranker, or a model that makes vectors";
    return NULL;
}

static bool check_model(job *j, refusal *why)
{
    const server *s = j->server;
    if (!choose_model(j, why))
        return false;
    const char *lacks = lacks_of(&s->model, j->endpoint);
    return !lacks || refuse(why, 400, INVALID_REQUEST, "wrong_model", "model", "%.200s %s",
                            s->model.name, lacks);
}

/* True if the job went on to the worker; otherwise it has its answer. */
static bool take_in(job *j, refusal *why, bool *good)
{
    *good = request_parse(&j->request, j->endpoint, j->body.at ? j->body.at : "", j->body.n,
                          j->server->options.lenient, why) &&
            check_model(j, why);
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
        *good = make_chat_prompt(j, why) && check_tools(j->server, &j->request, why) &&
                make_parts(j, why) && constrain(j, why);
        return *good;
    case ENDPOINT_EMBEDDINGS:
    case ENDPOINT_SCORE:
    case ENDPOINT_RERANK:
    case ENDPOINT_CLASSIFY:
    case ENDPOINT_FILL:
        *good = make_encodings(j, why);
        return *good;
    case ENDPOINT_TRANSLATE:
        *good = make_sources(j, why) && make_parts(j, why) && make_decoders(j, why);
        return *good;
    case ENDPOINT_COMPLETIONS:
    case N_ENDPOINT:
        break;
    }
    *good = make_prompts(j, why) && make_parts(j, why) && constrain(j, why);
    return *good;
}

static void handle(job *j)
{
    refusal why;
    bool good = true;
    if (!atomic_load(&j->cancelled) && take_in(j, &why, &good) && ring_push(&j->server->worker, j))
        return;
    if (!good)
        job_refuse(j, &why);
    job_leave(j);
}

void *clerk_main(void *ud)
{
    server *s = ud;
    while (!atomic_load(&s->stopping)) {
        ring_wait(&s->clerk, -1);
        for (job *j; (j = ring_pop(&s->clerk));)
            handle(j);
    }
    grammars_free(&s->grammars);
    return NULL;
}

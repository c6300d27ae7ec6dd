/* prompts.c - what a request wants read, as tokens or images; see prompts.h. */
#include "prompts.h"

#include "service.h"

#include <string.h>

/* ---- texts ----------------------------------------------------------------------------------- */

bool prompts_no_memory(refusal *why)
{
    return refuse(why, 503, "server_error", "no_memory", NULL, "no memory for the request");
}

bool prompts_refused_by(const weft_error *err, const char *param, refusal *why)
{
    const bool ours = err->code == WEFT_ENOMEM || err->code == WEFT_ELIMIT;
    return refuse(why, ours ? 503 : 400, ours ? "server_error" : INVALID_REQUEST,
                  ours ? "no_memory" : NULL, ours ? NULL : param, "%s", err->message);
}

/* second: the other text of a pair, or NULL. */
bool prompts_encode(const job *j, const input *in, const input *second, prompt *to, refusal *why)
{
    const request *r = &j->request;
    const serve_model *m = &j->instance->model;
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
        return prompts_refused_by(&err, "prompt", why);
    to->ids = to->tokens->ids;
    to->n = to->tokens->n;
    return true;
}

/* All of ids as text. */
bool prompts_decode(const instance *of, const int32_t *ids, int64_t n, bytes *to, refusal *why)
{
    weft_error err;
    const char *text;
    size_t length;
    weft_decoder *d = weft_decoder_new(of->model.tokenizer, false, &err);
    if (!d)
        return prompts_refused_by(&err, NULL, why);
    for (int64_t i = 0; i < n; i++) {
        if (weft_decoder_push(d, ids[i], &text, &length, &err) != WEFT_OK) {
            weft_decoder_free(d);
            return prompts_refused_by(&err, NULL, why);
        }
        bytes_add(to, text, length);
    }
    weft_decoder_flush(d, &text, &length);
    bytes_add(to, text ? text : "", length);
    weft_decoder_free(d);
    return !to->failed || prompts_no_memory(why);
}

/* Where the request has what is read; of pairs, nothing that has a name alone. */
static const char *field_of(endpoint e)
{
    if (endpoint_talks(e))
        return "messages";
    return e == ENDPOINT_DETOKENIZE                         ? "tokens"
           : e == ENDPOINT_SCORE || e == ENDPOINT_RERANK    ? NULL
           : endpoint_encodes(e) || e == ENDPOINT_TRANSLATE ? "input"
                                                            : "prompt";
}

/* Of a vocabulary of V. */
bool prompts_check_ids(const job *j, const prompt *p, int64_t i, int64_t V, refusal *why)
{
    for (int64_t k = 0; k < p->n; k++)
        if (p->ids[k] >= V)
            return refuse(why, 400, INVALID_REQUEST, "invalid_value", field_of(j->endpoint),
                          "prompt %lld: found token id %d; expected one below %lld", (long long)i,
                          (int)p->ids[k], (long long)V);
    return true;
}

/* The prompt fits the context, with a token to generate if one is wanted. */
static bool check_length(const job *j, const prompt *p, int64_t i, refusal *why)
{
    const int64_t n_ctx = j->instance->n_ctx;
    const bool encodes = endpoint_encodes(j->endpoint) || j->endpoint == ENDPOINT_TRANSLATE;
    const int64_t most = encodes || j->request.max_tokens == 0 ? n_ctx : n_ctx - 1;
    if (p->n == 0)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", field_of(j->endpoint),
                      "prompt %lld has no tokens; expected at least one", (long long)i);
    if (p->n > most)
        return refuse(why, 400, INVALID_REQUEST, "context_length_exceeded", field_of(j->endpoint),
                      "prompt %lld has %lld tokens; expected at most %lld of the context of %lld",
                      (long long)i, (long long)p->n, (long long)most, (long long)n_ctx);
    return true;
}

static bool make_echo(const job *j, const input *in, prompt *p, refusal *why)
{
    if (!j->request.echo)
        return true;
    if (!in->text)
        return prompts_decode(j->instance, p->ids, p->n, &p->echo, why);
    bytes_add(&p->echo, in->text, in->length);
    return !p->echo.failed || prompts_no_memory(why);
}

/* Before each input: the clerk is alive, which a watchdog asks, and the client is there. */
static bool goes_on(job *j)
{
    heart_beat(&j->server->clerk_heart);
    return !atomic_load(&j->cancelled);
}

static bool take_prompts(job *j, int64_t n, refusal *why)
{
    j->prompts = store_take(&j->request.store, (size_t)n, sizeof *j->prompts);
    j->n_text = j->prompts ? n : 0;
    return j->prompts || prompts_no_memory(why);
}

bool prompts_make(job *j, refusal *why)
{
    request *r = &j->request;
    const weft_model_info *m = &j->instance->model.info;
    const int64_t V = m->n_layer_src > 0 ? m->n_vocab_src : m->n_vocab;
    if (!take_prompts(j, r->n_input, why))
        return false;
    for (int64_t i = 0; i < r->n_input && goes_on(j); i++) {
        prompt *p = &j->prompts[i];
        if (!prompts_encode(j, &r->inputs[i], NULL, p, why) ||
            !prompts_check_ids(j, p, i, V, why) || !check_length(j, p, i, why) ||
            !make_echo(j, &r->inputs[i], p, why))
            return false;
    }
    return true;
}

/* What was read is the source; the text begins as the model, or the request, wants it. */
bool prompts_sources(job *j, refusal *why)
{
    const weft_model_info *m = &j->instance->model.info;
    const int64_t forced = j->request.forced_bos;
    if (forced >= m->n_vocab)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "forced_bos_token_id",
                      "forced_bos_token_id: found %lld; expected one below %lld", (long long)forced,
                      (long long)m->n_vocab);
    int32_t *begin = store_take(&j->request.store, 2, sizeof *begin);
    if (!begin)
        return prompts_no_memory(why);
    begin[0] = m->start_id;
    begin[1] = (int32_t)forced;
    if (!prompts_make(j, why))
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
    const bool pairs = serve_scores_pairs(&j->instance->model);
    if (!take_prompts(j, r->n_second + (pairs ? 0 : r->n_input), why))
        return false;
    for (int64_t i = 0; i < j->n_text && goes_on(j); i++) {
        prompt *p = &j->prompts[i];
        const bool is_first = !pairs && i < r->n_input;
        const bool good = pairs      ? prompts_encode(j, &r->inputs[r->n_input == 1 ? 0 : i],
                                                      &r->seconds[i], p, why)
                          : is_first ? prompts_encode(j, &r->inputs[i], NULL, p, why)
                                     : prompts_encode(j, &r->seconds[i - r->n_input], NULL, p, why);
        if (!good || !check_length(j, p, i, why))
            return false;
    }
    return true;
}

int32_t prompts_mask(const weft_tokenizer *t)
{
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    return info.mask_id;
}

static bool find_masks(job *j, prompt *p, int64_t i, refusal *why)
{
    const int32_t id = prompts_mask(j->instance->model.tokenizer);
    p->mask = store_take(&j->request.store, MAX_MASK, sizeof *p->mask);
    if (!p->mask)
        return prompts_no_memory(why);
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

/* The worker decodes them: a request may have pixels for seconds, and others wait for the clerk. */
static bool make_pictures(job *j, refusal *why)
{
    request *r = &j->request;
    if (r->n_input > MAX_IMAGE)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "input",
                      "input: %lld images; expected at most %d", (long long)r->n_input, MAX_IMAGE);
    if (!take_prompts(j, r->n_input, why))
        return false;
    picture_reader reader = { .store = &r->store };
    for (int64_t i = 0; i < r->n_input && goes_on(j); i++)
        if (!picture_read(&reader, &r->inputs[i], i, &j->prompts[i].picture, why))
            return false;
    return true;
}

bool prompts_encodings(job *j, refusal *why)
{
    const bool pairs = j->endpoint == ENDPOINT_SCORE || j->endpoint == ENDPOINT_RERANK;
    const bool pictures = j->instance->model.info.images;
    int64_t n_fill = 0; /* tokens that the answer would have */
    if (!(pictures ? make_pictures(j, why) : pairs ? make_pairs(j, why) : prompts_make(j, why)))
        return false;
    j->n_ready = pictures ? 0 : j->n_text;
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

weft_rendered *prompts_render(const job *j, const weft_tokenizer *tokenizer, refusal *why)
{
    const request *r = &j->request;
    const weft_render_options o = { .struct_size = sizeof o,
                                    .tools = r->tools,
                                    .variables = r->variables,
                                    .no_generation_prompt = r->no_generation_prompt,
                                    .continue_last = r->continue_last };
    weft_error err;
    if (!j->instance->model.template) {
        refuse(why, 400, INVALID_REQUEST, "no_template", NULL,
               "the model has no chat template; use /v1/completions");
        return NULL;
    }
    weft_rendered *text = weft_template_render(j->instance->model.template, tokenizer, r->messages,
                                               r->n_messages, &o, &err);
    if (!text)
        prompts_refused_by(&err, "messages", why);
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

bool prompts_chat(job *j, refusal *why)
{
    request *r = &j->request;
    weft_template_info info = { .struct_size = sizeof info };
    if (!take_prompts(j, 1, why))
        return false;
    prompt *p = j->prompts;
    r->n_input = 1;
    p->rendered = prompts_render(j, j->instance->model.tokenizer, why);
    if (!p->rendered)
        return false;
    weft_template_get_info(j->instance->model.template, &info);
    p->inside = ends_with(p->rendered->text, p->rendered->length, info.think_begin);
    p->ids = p->rendered->tokens->ids;
    p->n = p->rendered->tokens->n;
    return check_length(j, p, 0, why);
}

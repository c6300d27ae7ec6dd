/* explain.c - the public function that makes a page of a model and a text: runs the forward that it
 * shows, and gathers what views need. */
#include "api/explain.h"
#include "api/api.h"
#include "api/explain_train.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "engine/encode.h"
#include "engine/lens.h"
#include "explain/page.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define FEW_NUMBERS (1 << 20)     /* of all layers together: a page keeps them all */
#define FEW_SHARES  (3 * 1 << 19) /* attention probabilities of all layers: 8.4 MB of a page */

/* What one call has taken; everything may be absent. */
typedef struct explanation {
    weft_model *model;
    weft_explain_options o;
    const int32_t *ids;
    int64_t n;
    record seen;
    weft_error refused; /* why the record failed; public functions would clear the caller's */
    subject subject;
    subject source; /* of an encoder-decoder */
    layer_parts *layer;
    subject_token *token; /* of the ids, then of the source */
    char *names;          /* bytes of all tokens */
    int32_t *made;        /* the model's own translation; or the rows of an image */
    float *logits, *cached, *stream, *lens;
    beam_tree beams;
    weft_tokenizer_info tokenizer, source_tokenizer;
    lesson lesson;
} explanation;

/* ---- the forward ----------------------------------------------------------------------------- */

/* All parts that a trace can show; a caller's hook changes them. */
static bool make_spec(explanation *x, watcher *at, trace_spec *to, weft_error *err)
{
    const weft_trace_options o = { .struct_size = sizeof o,
                                   .hook = x->o.hook,
                                   .hook_ud = x->o.hook_ud };
    if (!take_trace_options(NULL, NULL, &o, at, at, to, err))
        return false;
    to->observe = record_add;
    to->observe_ud = &x->seen;
    to->show = (trace_parts){ .maps = true, .open = true, .all_logits = x->o.n_source > 0 };
    return true;
}

/* What each layer would say if it were the last. */
static weft_status look_through(explanation *x, weft_engine *e, weft_error *err)
{
    const model *m = &x->model->model;
    x->lens = mem_alloc(&x->model->host.mem, (size_t)(m->n_layer * m->n_out) * sizeof *x->lens,
                        "logits", err);
    if (!x->lens)
        return err->code;
    x->subject.lens = x->lens;
    return lens_logits(m, e->inner->pool, x->stream, m->n_layer, x->lens, err);
}

/* Logits of the last token; and once more, from a forward that finds all other keys cached. A hook
 * that expects all rows would not know what to do with one. */
static weft_status take_logits(explanation *x, weft_engine *e, weft_session *s, weft_error *err)
{
    mem *m = &x->model->host.mem;
    const size_t n = (size_t)x->model->model.n_out;
    x->logits = mem_alloc(m, n * sizeof *x->logits, "logits", err);
    x->cached = mem_alloc(m, n * sizeof *x->cached, "logits", err);
    if (!x->logits || !x->cached)
        return err->code;
    memcpy(x->logits, weft_session_logits(s), n * sizeof *x->logits);
    x->subject.logits = x->logits;
    if (look_through(x, e, err) != WEFT_OK)
        return err->code;
    if (x->o.hook)
        return WEFT_OK;
    if (engine_trace(e->inner, &(trace_spec){ 0 }, err) != WEFT_OK ||
        grow_beams(e, s, x->ids, x->n, &x->o, &x->beams, err) != WEFT_OK)
        return err->code;
    x->subject.node = x->beams.at;
    x->subject.n_node = x->beams.n;
    if (x->n < 2)
        return WEFT_OK;
    if (weft_session_rewind(s, x->n - 1, err) != WEFT_OK ||
        weft_session_eval(s, x->ids + x->n - 1, 1, err) != WEFT_OK)
        return err->code;
    memcpy(x->cached, weft_session_logits(s), n * sizeof *x->cached);
    x->subject.cached = x->cached;
    return time_cache(s, x->ids, x->n, &x->subject, err);
}

static weft_status record_status(const explanation *x, weft_status status, weft_error *err)
{
    if (status != WEFT_OK || !x->seen.failed)
        return status;
    *err = x->refused;
    return err->code;
}

/* The encoder's part of the forward, then the decoder's. */
static weft_status evaluate(explanation *x, weft_session *s, weft_error *err)
{
    if (x->o.n_source > 0 && weft_session_source(s, x->o.source, x->o.n_source, err) != WEFT_OK)
        return err->code;
    return weft_session_eval(s, x->ids, x->n, err);
}

static weft_status run_decoder(explanation *x, weft_error *err)
{
    const int64_t n_ctx = page_context(&x->model->model, x->n), S = x->o.n_source;
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = x->o.threads,
                                    .n_session = 1 + BEAMS,
                                    .n_ctx = n_ctx > S ? n_ctx : S,
                                    .n_batch = (int)(x->n > S ? x->n : S),
                                    .kv_type = WEFT_KV_F32 };
    trace_spec w;
    weft_engine *e = weft_engine_new(x->model, &o, err);
    weft_session *s = e ? weft_session_new(e, err) : NULL;
    weft_status status = s ? WEFT_OK : err->code;
    if (s && (!make_spec(x, &e->watcher, &w, err) || engine_trace(e->inner, &w, err) != WEFT_OK))
        status = err->code;
    const double began = clock_seconds();
    if (status == WEFT_OK)
        status = evaluate(x, s, err);
    status = record_status(x, status, err);
    x->subject.seconds = clock_seconds() - began;
    if (status == WEFT_OK)
        status = take_logits(x, e, s, err);
    weft_session_free(s);
    weft_engine_free(e);
    return status;
}

static weft_status run_encoder(explanation *x, weft_error *err)
{
    const weft_encoder_options o = { .struct_size = sizeof o,
                                     .threads = x->o.threads,
                                     .n_ctx = x->n };
    weft_input in = { .ids = x->o.image ? NULL : x->ids,
                      .n = x->n,
                      .features = x->o.image ? x->o.image->features : NULL };
    trace_spec w;
    weft_encoder *e = weft_encoder_new(x->model, &o, err);
    weft_status status = e ? WEFT_OK : err->code;
    if (e &&
        (!make_spec(x, &e->watcher, &w, err) || encode_engine_trace(e->inner, &w, err) != WEFT_OK))
        status = err->code;
    const size_t n = e ? (size_t)(weft_encoder_rows(e, &in) * weft_encoder_width(e)) : 0;
    if (status == WEFT_OK)
        in.out = mem_zalloc(&x->model->host.mem, n, sizeof *in.out, "the output", err);
    const double began = clock_seconds();
    if (status == WEFT_OK)
        status = in.out ? weft_encoder_eval(e, &in, 1, err) : err->code;
    status = record_status(x, status, err);
    x->subject.seconds = clock_seconds() - began;
    mem_free(&x->model->host.mem, in.out);
    weft_encoder_free(e);
    return status;
}

/* ---- the subject ----------------------------------------------------------------------------- */

size_t spell_token(const void *tokenizer, int32_t id, char *to, size_t size)
{
    const weft_tokenizer *t = tokenizer;
    const int64_t n = t ? weft_tokenizer_piece(t, id, to, size) : 0;
    if (n > 0 && n <= (int64_t)size)
        return (size_t)n;
    size_t length = 0;
    const char *spelled = t ? weft_tokenizer_token(t, id, &length) : NULL;
    if (spelled && length <= size) {
        memcpy(to, spelled, length);
        return length;
    }
    return (size_t)snprintf(to, size, "%d", (int)id);
}

/* A text with its tokens: what is read, or the source of an encoder-decoder. */
typedef struct reading {
    const char *text;
    const weft_tokenizer *tokenizer;
    const int32_t *ids;
    int64_t n;
} reading;

/* Where each token is in the text: encoded again, once with special tokens read in it and once
 * without, as a caller gives ids and a text, but not how they were made. No span is shown if neither
 * gives these ids. */
static weft_status find_spans(const reading *r, subject *s, subject_token *token, weft_error *err)
{
    for (int parse = 0; parse < 2 && !s->spans; parse++) {
        const weft_tokenize_options o = { .struct_size = sizeof o,
                                          .parse_special = parse,
                                          .spans = true };
        weft_tokens *t = weft_tokenizer_encode(r->tokenizer, r->text, strlen(r->text), &o, err);
        if (!t)
            return err->code;
        s->spans = t->n == r->n && memcmp(t->ids, r->ids, (size_t)r->n * sizeof *t->ids) == 0;
        s->parse_special = s->spans && parse;
        for (int64_t i = 0; i < r->n && s->spans; i++)
            token[i].span = t->spans[i];
        weft_tokens_free(t);
    }
    return WEFT_OK;
}

static weft_status take_steps(const subject *s, weft_tokenizer_step_fn *fn, void *ud,
                              weft_error *err)
{
    const weft_tokenize_options o = { .struct_size = sizeof o, .parse_special = s->parse_special };
    return weft_tokenizer_steps(s->speller, s->text, s->n_text, &o, fn, ud, err);
}

#define MOST_BYTES 64 /* of a token that are shown */

/* Fills the fields of a subject that are about its text, and the tokens. */
static weft_status read_text(const reading *r, const model *m, subject *s, subject_token *token,
                             char *name, weft_error *err)
{
    for (int64_t i = 0; i < r->n; i++, name += MOST_BYTES) {
        token[i] = (subject_token){ .id = r->ids[i], .bytes = name };
        token[i].n = m->d_feature > 0 ? name_image_row(m, i, name, MOST_BYTES)
                                      : spell_token(r->tokenizer, r->ids[i], name, MOST_BYTES);
        if (!r->tokenizer)
            continue;
        token[i].spelled = weft_tokenizer_token(r->tokenizer, r->ids[i], &token[i].n_spelled);
        token[i].special = weft_tokenizer_is_special(r->tokenizer, r->ids[i]);
    }
    s->token = token;
    s->n_token = r->n;
    s->text = r->text;
    s->n_text = r->text ? strlen(r->text) : 0;
    s->speller = r->tokenizer;
    return r->tokenizer && r->text ? find_spans(r, s, token, err) : WEFT_OK;
}

static weft_status name_tokens(explanation *x, weft_error *err)
{
    mem *from = &x->model->host.mem;
    const model *m = &x->model->model;
    const size_t n = (size_t)(x->n + x->o.n_source);
    const reading text = { x->o.text, x->o.tokenizer, x->ids, x->n };
    const reading source = { x->o.source_text, x->o.source_tokenizer, x->o.source, x->o.n_source };
    x->token = mem_zalloc(from, n, sizeof *x->token, "tokens", err);
    x->names = mem_zalloc(from, n, MOST_BYTES, "names of tokens", err);
    if (!x->token || !x->names ||
        read_text(&text, m, &x->subject, x->token, x->names, err) != WEFT_OK || source.n == 0)
        return err->code;
    return read_text(&source, m, &x->source, x->token + x->n, x->names + x->n * MOST_BYTES, err);
}

static const weft_tokenizer_info *info_of(const weft_tokenizer *t, weft_tokenizer_info *to)
{
    to->struct_size = sizeof *to;
    if (!t)
        return NULL;
    weft_tokenizer_get_info(t, to);
    return to;
}

/* The source has all that the subject has, but for its text. */
static void describe_source(explanation *x)
{
    const subject text = x->source;
    x->source = x->subject;
    x->source.text = text.text;
    x->source.n_text = text.n_text;
    x->source.token = text.token;
    x->source.n_token = text.n_token;
    x->source.spans = text.spans;
    x->source.parse_special = text.parse_special;
    x->source.speller = text.speller;
    x->source.tokenizer = info_of(x->o.source_tokenizer, &x->source_tokenizer);
    x->source.at_token = text.n_token - 1;
    x->subject.source = &x->source;
}

/* What is known without another forward. */
static weft_status describe(explanation *x, weft_error *err)
{
    const model *m = &x->model->model;
    subject *s = &x->subject;
    s->n_layer = parts_count(m);
    x->layer = mem_zalloc(&x->model->host.mem, (size_t)s->n_layer, sizeof *x->layer, "layers", err);
    if (!x->layer || name_tokens(x, err) != WEFT_OK)
        return err->code;
    for (int64_t l = 0; l < s->n_layer; l++)
        x->layer[l] = parts_find(&x->seen, l);
    s->model = m;
    s->title = x->o.title ? x->o.title : m->name;
    s->spell = spell_token;
    s->steps = take_steps;
    s->tokenizer = info_of(x->o.tokenizer, &x->tokenizer);
    s->seen = &x->seen;
    s->layer = x->layer;
    s->at_layer = m->n_layer_src + x->o.layer;
    s->at_head = x->o.head;
    s->at_token = x->o.token;
    return WEFT_OK;
}

static weft_status gather(explanation *x, weft_error *err)
{
    const bool generates = x->model->model.task == WEFT_TASK_GENERATE;
    subject *s = &x->subject;
    s->cost.struct_size = sizeof s->cost;
    s->pool = pool_new(x->o.threads ? x->o.threads : cpu_count(), &x->model->host.mem, err);
    if (!s->pool || describe(x, err) != WEFT_OK ||
        weft_model_get_cost(x->model, generates ? x->n : 0, &s->cost, err) != WEFT_OK ||
        (generates && take_stages(x->model, x->logits, x->ids, x->n, s, err) != WEFT_OK))
        return err->code;
    if (x->o.n_source > 0)
        describe_source(x);
    return WEFT_OK;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Sets a place that may be -1, the last; false if there is none. */
static bool take_place(int64_t *at, int64_t n, const char *what, weft_error *err)
{
    *at = *at == -1 ? n - 1 : *at;
    if (*at >= 0 && *at < n)
        return true;
    weft_fail(err, WEFT_EINVAL, "%s %lld; expected 0 to %lld", what, (long long)*at,
              (long long)n - 1);
    return false;
}

/* Every name of a list must be a view's. */
static bool views_exist(const char *only, weft_error *err)
{
    while (only) {
        const char *comma = strchr(only, ',');
        const size_t n = comma ? (size_t)(comma - only) : strlen(only);
        int i = 0;
        while (i < n_view && (n == 0 || !view_named(only, n, &views[i])))
            i++;
        if (i == n_view) {
            char names[512] = "";
            for (i = 0; i < n_view; i++)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                         views[i].name);
            weft_fail(err, WEFT_EINVAL, "no view is named \"%.*s\"; there are %s",
                      (int)(n < 64 ? n : 64), only, names);
            return false;
        }
        only = comma ? comma + 1 : NULL;
    }
    return true;
}

/* Does the model read what it was given? */
static bool check_input(const explanation *x, weft_error *err)
{
    const model *m = &x->model->model;
    const weft_explain_options *o = &x->o;
    const bool images = m->d_feature > 0, both = m->n_layer_src > 0;
    if (images && !o->image)
        weft_fail(err, WEFT_EINVAL, "%s: it reads images, and there is none", m->name);
    else if (!images && o->image)
        weft_fail(err, WEFT_EINVAL, "%s: it reads text, not images", m->name);
    else if (images && (!o->image->features || o->image->n != m->n_ctx))
        weft_fail(err, WEFT_EINVAL, "an image of %lld rows; expected %lld",
                  o->image->features ? (long long)o->image->n : 0LL, (long long)m->n_ctx);
    else if (both && (!o->source || o->n_source < 1 || o->n_source > WEFT_EXPLAIN_TOKENS))
        weft_fail(err, WEFT_EINVAL, "%lld tokens of the source; expected 1 to %d",
                  o->source ? (long long)o->n_source : 0LL, WEFT_EXPLAIN_TOKENS);
    else if (!both && o->n_source != 0)
        weft_fail(err, WEFT_EINVAL, "%s: a source, but the model is no encoder-decoder", m->name);
    return err->code == WEFT_OK;
}

#define MOST_TRANSLATED 128 /* tokens of a translation that a page makes itself */

/* Without ids, those of the model's own translation, or a number for each row of an image. */
static bool take_ids(explanation *x, weft_error *err)
{
    const model *m = &x->model->model;
    const int64_t most = x->o.image                                   ? x->o.image->n
                         : m->n_ctx > 0 && m->n_ctx < MOST_TRANSLATED ? m->n_ctx
                                                                      : MOST_TRANSLATED;
    if (x->ids || x->n != 0 || (!x->o.image && m->n_layer_src == 0))
        return true;
    x->ids = x->made = mem_zalloc(&x->model->host.mem, (size_t)most, sizeof *x->made, "tokens",
                                  err);
    x->n = most;
    for (int64_t i = 0; x->made && x->o.image && i < most; i++)
        x->made[i] = (int32_t)i;
    return x->made && (x->o.image ||
                       translate_greedily(x->model, &x->o, most, x->made, &x->n, err) == WEFT_OK);
}

/* Longer texts are refused by the engine too, which speaks of its n_ctx. */
static bool fits_context(const explanation *x, weft_error *err)
{
    const int64_t most = x->model->model.n_ctx;
    const int64_t n = x->n > x->o.n_source ? x->n : x->o.n_source;
    if (most > 0 && n > most)
        weft_fail(err, WEFT_EINVAL, "%lld tokens; %s's context has %lld: give a shorter text",
                  (long long)n, x->model->model.name, (long long)most);
    return err->code == WEFT_OK;
}

static bool check(explanation *x, weft_error *err)
{
    const model *m = &x->model->model;
    if (!check_input(x, err) || !take_ids(x, err))
        return false;
    if (!x->ids || x->n < 1 || x->n > WEFT_EXPLAIN_TOKENS)
        weft_fail(err, WEFT_EINVAL, "%lld tokens; expected 1 to %d", (long long)x->n,
                  WEFT_EXPLAIN_TOKENS);
    return err->code == WEFT_OK && fits_context(x, err) &&
           take_place(&x->o.layer, m->n_layer, "layer", err) &&
           take_place(&x->o.head, m->n_head, "head", err) &&
           take_place(&x->o.token, x->n, "token", err) && views_exist(x->o.only, err) &&
           check_lesson(x->model, &x->o, x->ids, x->n, err) == WEFT_OK;
}

static weft_status write_out(explanation *x, weft_page_fn *fn, void *ud, weft_error *err)
{
    mem *m = &x->model->host.mem;
    buffer b;
    document d = { .b = &b, .page = !x->o.json, .seen = &x->seen };
    d.used = mem_zalloc(m, (size_t)x->seen.n + 1, sizeof *d.used, "the page", err);
    if (!d.used)
        return err->code;
    buffer_begin(&b, m, err);
    if (x->o.json) {
        views_write(&x->subject, x->o.only, &d);
        buffer_text(&b, "\n");
    } else {
        page_write(&x->subject, x->o.only, &d);
    }
    if (!b.failed && !fn(ud, (const char *)b.at, b.n, err) && err->code == WEFT_OK)
        weft_fail(err, WEFT_EIO, "the page could not be written");
    buffer_end(&b);
    mem_free(m, d.used);
    return err->code;
}

/* Attention probabilities of all layers together: what each row of a text sees, in every head. */
static double shares_of(const explanation *x)
{
    const model *m = &x->model->model;
    const double n = (double)x->n, S = (double)x->o.n_source, H = (double)m->n_head;
    const double own = m->task == WEFT_TASK_GENERATE ? n * (n + 1) / 2 : n * n;
    return H * ((double)m->n_layer * (own + n * S) + (double)m->n_layer_src * S * S);
}

static weft_status explain(explanation *x, const weft_explain_options *options, weft_page_fn *fn,
                           void *ud, weft_error *err)
{
    const model *m = &x->model->model;
    if (!read_options(&x->o, sizeof x->o, options, options ? options->struct_size : 0,
                      "weft_explain_options", err) ||
        !check(x, err))
        return err->code;
    const double numbers = (double)(x->n + x->o.n_source) * (double)parts_count(m) *
                           (8.0 * (double)m->d_model + 4.0 * (double)m->d_ff);
    x->stream = mem_zalloc(&x->model->host.mem, (size_t)(m->n_layer * m->d_model),
                           sizeof *x->stream, "the stream", err);
    if (!x->stream)
        return err->code;
    x->seen = (record){ .mem = &x->model->host.mem,
                        .err = &x->refused,
                        .stream = x->stream,
                        .d_model = m->d_model,
                        .n_layer_src = m->n_layer_src,
                        .n_layer = m->n_layer,
                        .keep_maps = x->o.all || shares_of(x) < FEW_SHARES,
                        .keep_all = x->o.all ||
                                    (numbers < FEW_NUMBERS && shares_of(x) < FEW_SHARES / 2),
                        .keep_layer = x->o.layer };
    if ((m->task == WEFT_TASK_GENERATE ? run_decoder(x, err) : run_encoder(x, err)) != WEFT_OK ||
        gather(x, err) != WEFT_OK)
        return err->code;
    if (x->o.train > 0) {
        if (take_lesson(x->model, &x->o, x->ids, x->n, &x->lesson, err) != WEFT_OK)
            return err->code;
        x->subject.lesson = &x->lesson;
    }
    return write_out(x, fn, ud, err);
}

static void forget(explanation *x)
{
    mem *m = &x->model->host.mem;
    pool_free(x->subject.pool);
    mem_free(m, x->made);
    mem_free(m, x->layer);
    mem_free(m, x->token);
    mem_free(m, x->names);
    mem_free(m, x->logits);
    mem_free(m, x->cached);
    mem_free(m, x->stream);
    mem_free(m, x->lens);
    mem_free(m, x->beams.at);
    lesson_free(&x->lesson);
    record_free(&x->seen);
}

weft_status weft_explain(weft_model *m, const int32_t *ids, int64_t n,
                         const weft_explain_options *options, weft_page_fn *fn, void *ud,
                         weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!m || !fn)
        return weft_fail(err, WEFT_EINVAL, m ? "nobody to give the page to" : "no model given");
    explanation x = { .model = m, .ids = ids, .n = n, .seen.mem = &m->host.mem };
    explain(&x, options, fn, ud, err);
    forget(&x);
    return err->code;
}

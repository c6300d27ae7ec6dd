/* importance.c - for weft_convert: reads a text, encodes it as the model's own tokenizer does, and
 * collects the importance of the model's columns over it. */
#include "api/importance.h"

#include "engine/importance.h"
#include "text/sources/source.h"

#define WINDOW 512 /* tokens that share a context */

static weft_status ids_of(const tokenizer *t, const file *text, mem *m, int32_t **list, int64_t *n,
                          weft_error *err)
{
    encoding e;
    encoder *made = encoder_new(t, m, err);
    weft_status status = made ? encoder_encode(made, file_text(text), text->size, NULL, 0,
                                               &(encode_options){ 0 }, &e, err)
                              : WEFT_ENOMEM;
    *list = status == WEFT_OK ? mem_zalloc(m, e.n + 1, sizeof **list, "tokens", err) : NULL;
    *n = *list ? (int64_t)e.n : 0;
    for (int64_t k = 0; k < *n; k++)
        (*list)[k] = (int32_t)e.id[k];
    encoder_free(made);
    return *list ? WEFT_OK : err->code;
}

static weft_status collect(importance *to, const model *m, const tokenizer *t, const file *text,
                           int n_thread, weft_error *err)
{
    int32_t *list = NULL;
    int64_t n = 0;
    weft_status status = ids_of(t, text, &m->host->mem, &list, &n, err);
    if (status == WEFT_OK && n < 2)
        status = weft_fail(err, WEFT_EINVAL, "%s: %lld tokens; expected a text of thousands",
                           text->path, (long long)n);
    const engine_options o = { .n_thread = n_thread,
                               .n_ctx = m->n_ctx < WINDOW ? m->n_ctx : WINDOW };
    if (status == WEFT_OK)
        status = importance_collect(to, m, list, n, &o, err);
    mem_free(&m->host->mem, list);
    return status;
}

static weft_status with_tokenizer(measured *to, const char *from, const char *path,
                                  const convert_options *o, host *h, weft_error *err)
{
    tokenizer t;
    file text = { 0 };
    if (to->model.task != WEFT_TASK_GENERATE || model_has_source(&to->model))
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: importance is measured on decoders; quantise it without", from);
    weft_status status = tokenizer_load(&t, from, NULL, o->load, h, err);
    if (status != WEFT_OK)
        return status;
    status = file_open(&text, path, WEFT_LOAD_COPY, h, err);
    if (status == WEFT_OK)
        status = collect(&to->importance, &to->model, &t, &text, o->n_thread, err);
    file_close(&text, h);
    tokenizer_free(&t);
    return status;
}

weft_status measure_importance(measured *to, const char *from, const char *path,
                               const convert_options *o, host *h, weft_error *err)
{
    *to = (measured){ 0 };
    weft_status status = model_open(&to->model, from, o->load, h, err);
    if (status != WEFT_OK)
        return status;
    to->open = true;
    status = with_tokenizer(to, from, path, o, h, err);
    if (status != WEFT_OK)
        measured_free(to);
    return status;
}

void measured_free(measured *m)
{
    importance_free(&m->importance);
    if (m->open)
        model_close(&m->model);
    m->open = false;
}

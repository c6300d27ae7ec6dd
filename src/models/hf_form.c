/* hf_form.c - holds names, shapes and the small files of a directory in memory, for checkpoints. */
#include "models/hf_form.h"

#include "formats/safetensors_write.h"
#include "text/sources/hf_write.h"

#include <string.h>

/* A model in memory has its matrices as [O, I], with the rotary pairing of the file it came
 * from. */
static weft_status keep_tensor(hf_form *f, const conversion *c, int64_t i, weft_error *err)
{
    const tensor *w = c->m.param[i];
    outgoing *t = &f->tensor[i];
    stored *from = arena_alloc(&f->store, sizeof *from, err);
    *t = c->tensor[i];
    t->name = arena_text(&f->store, t->name, strlen(t->name), err);
    t->type = &dtype_f32;
    t->flip = c->m.notes->origin[i].flip;
    t->shift = c->m.notes->origin[i].gain ? -1 : 0;
    t->from = from;
    if (!from || !t->name)
        return WEFT_ENOMEM;
    *from = (stored){ .name = t->name,
                      .type = &dtype_f32,
                      .n_dim = w->n_dim,
                      .shape = { w->shape[0], w->n_dim > 1 ? w->shape[1] : 0 },
                      .path = "memory" };
    return WEFT_OK;
}

static weft_status keep_text(hf_form *f, conversion *c, int i)
{
    buffer b;
    weft_status status = WEFT_OK;
    buffer_begin(&b, &c->host->mem, c->err);
    convert_text(c, i, &b);
    if (c->save.status != WEFT_OK)
        status = c->save.status;
    else if (b.n > 0 && !b.failed)
        f->text[i] = (small_text){ arena_text(&f->store, (char *)b.at, b.n, c->err), b.n };
    if (status == WEFT_OK && (b.failed || (b.n > 0 && !f->text[i].text)))
        status = WEFT_ENOMEM;
    buffer_end(&b);
    return status;
}

static weft_status hf_form_keep(hf_form *f, conversion *c)
{
    weft_status status = conversion_list(c);
    if (status == WEFT_OK)
        status = convert_check_texts(c);
    for (int i = 0; i < N_TEXT && status == WEFT_OK; i++)
        status = keep_text(f, c, i);
    if (status != WEFT_OK)
        return status;
    f->n_tensor = c->n_tensor;
    f->tensor = arena_alloc(&f->store, (size_t)c->n_tensor * sizeof *f->tensor, c->err);
    status = f->tensor ? WEFT_OK : WEFT_ENOMEM;
    for (int64_t i = 0; i < c->n_tensor && status == WEFT_OK; i++)
        status = keep_tensor(f, c, i, c->err);
    return status;
}

weft_status hf_form_init(hf_form *f, const char *from, weft_load load, host *h, weft_error *err)
{
    const convert_options o = { .to = WEFT_FORMAT_HF,
                                .target = quant_target_by_name("f32"),
                                .load = load };
    convert_report report = { .to = WEFT_FORMAT_HF };
    conversion c = { .o = &o, .host = h, .report = &report, .err = err };
    *f = (hf_form){ 0 };
    weft_status status = conversion_begin(&c, from);
    if (status != WEFT_OK)
        return status;
    save_begin(&c.save, h, err);
    status = arena_init(&f->store, ARENA_GROWING, &h->mem, 0, "a model's form", err);
    if (status == WEFT_OK)
        status = hf_form_keep(f, &c);
    conversion_end(&c);
    if (status != WEFT_OK)
        hf_form_free(f);
    return status;
}

weft_status hf_form_take_tokenizer(hf_form *f, const tokenizer *t, weft_error *err)
{
    static const int texts[] = { TEXT_TOKENIZER, TEXT_TOKENIZER_CONFIG };
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        small_text *to = &f->text[texts[i]];
        buffer b;
        buffer_begin(&b, &t->host->mem, err);
        if (i == 0)
            status = tokenizer_write(t, &b, err);
        else
            tokenizer_config(t, NULL, &b);
        *to = (small_text){ NULL, 0 };
        if (status == WEFT_OK && !b.failed)
            *to = (small_text){ arena_text(&f->store, (char *)b.at, b.n, err), b.n };
        if (status == WEFT_OK && !to->text)
            status = WEFT_ENOMEM;
        buffer_end(&b);
    }
    f->text[TEXT_SPECIAL] = (small_text){ NULL, 0 };
    if (status != WEFT_EUNSUPPORTED)
        return status;
    log_write(&t->host->log, WEFT_LOG_WARN, "%s; the run keeps no tokenizer", err->message);
    f->text[TEXT_TOKENIZER_CONFIG] = (small_text){ NULL, 0 };
    return WEFT_OK;
}

weft_status hf_form_take_template(hf_form *f, const char *text, size_t n, weft_error *err)
{
    f->text[TEXT_TEMPLATE] = (small_text){ arena_text(&f->store, text, n, err), n };
    return f->text[TEXT_TEMPLATE].text ? WEFT_OK : err->code;
}

void hf_form_free(hf_form *f)
{
    if (f->store.mem)
        arena_free(&f->store);
    *f = (hf_form){ 0 };
}

static bool hf_form_put_data(void *ud, const void *bytes, size_t n)
{
    safetensors_writer *w = ud;
    safetensors_writer_data(w, bytes, n);
    return w->save->status == WEFT_OK;
}

/* The tensors with these numbers, in one piece of memory; NULL if there is none. */
static outgoing *over_numbers(const hf_form *f, const float *const *numbers, save *s)
{
    const size_t n = (size_t)f->n_tensor;
    outgoing *all = mem_zalloc(&s->host->mem, n, sizeof *all + sizeof(stored), "saving", s->err);
    stored *from = all ? (stored *)(void *)(all + n) : NULL;
    if (!all && s->status == WEFT_OK)
        s->status = WEFT_ENOMEM;
    for (size_t i = 0; all && i < n; i++) {
        from[i] = stored_over(f->tensor[i].from, numbers[i]);
        all[i] = f->tensor[i];
        all[i].from = &from[i];
    }
    return all;
}

/* Only moves bytes, converts nothing, so it needs no threads. */
void hf_form_weights(const hf_form *f, const float *const *numbers, const char *path, save *s)
{
    safetensors_writer w;
    safetensors_writer_begin(&w, s);
    outgoing *all = over_numbers(f, numbers, s);
    for (int64_t i = 0; i < f->n_tensor; i++) {
        const outgoing *t = &f->tensor[i];
        if (!t->follows)
            safetensors_add(&w, t->name, &dtype_f32, t->hf_dim, t->hf_shape);
    }
    safetensors_writer_head(&w, path);
    for (int64_t i = 0; i < f->n_tensor && s->status == WEFT_OK; i++) {
        const weft_status status = outgoing_rows(&all[i], NULL, &s->host->mem, hf_form_put_data, &w,
                                                 NULL, s->err);
        if (status != WEFT_OK && s->status == WEFT_OK)
            s->status = status;
    }
    safetensors_writer_end(&w);
    mem_free(&s->host->mem, all);
}

/* template.c - the public functions of chat templates: check, translate, delegate. */
#include "api/api.h"
#include "text/sources/chat_file.h"

#include <string.h>

struct weft_template {
    host host;
    arena store;
    chat inner;
    const char *name;
    weft_budget *budget; /* referenced; or NULL */
    holders holders;
};

const chat *template_inside(const weft_template *t)
{
    return &t->inner;
}

mem *template_memory(const weft_template *t)
{
    return (mem *)&t->host.mem;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The block holds its own allocator. */
static void release(weft_template *t)
{
    host h = t->host;
    weft_budget *budget = t->budget;
    chat_close(&t->inner);
    arena_free(&t->store);
    mem_free(&h.mem, t);
    weft_budget_free(budget);
}

static weft_status load(weft_template *t, const char *path, const char *name, weft_error *err)
{
    const weft_status status = arena_init(&t->store, ARENA_GROWING, &t->host.mem, 0, "a template",
                                          err);
    t->name = status == WEFT_OK ? arena_text(&t->store, name, strlen(name), err) : NULL;
    return t->name ? chat_load(&t->inner, path, name, &t->store, &t->host, err) : err->code;
}

weft_template *weft_template_load(const char *path, const weft_template_options *options,
                                  weft_error *err)
{
    weft_template_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!path) {
        weft_fail(err, WEFT_EINVAL, "no path given");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_template_options", err))
        return NULL;
    host h = { .io = io_system };
    take_memory(&h, o.ram_max, o.budget);
    weft_template *t = mem_zalloc(&h.mem, 1, sizeof *t, "a template", err);
    if (!t)
        return NULL;
    t->host = h;
    t->budget = hold_budget(o.budget);
    if (load(t, path, o.name ? o.name : "default", err) == WEFT_OK)
        return t;
    release(t);
    return NULL;
}

void weft_template_free(weft_template *t)
{
    if (t && let_go(&t->holders))
        release(t);
}

void weft_template_get_info(const weft_template *t, weft_template_info *info)
{
    if (!info)
        return;
    weft_template_info i = { 0 };
    if (t)
        i = (weft_template_info){ .name = t->name,
                                  .source = t->inner.source,
                                  .source_length = t->inner.n,
                                  .system = t->inner.system,
                                  .tools = t->inner.tools,
                                  .thinking = t->inner.thinking,
                                  .think_begin = t->inner.think_begin,
                                  .think_end = t->inner.think_end,
                                  .calls = t->inner.calls.form != CALLS_NONE,
                                  .several = t->inner.calls.several };
    copy_result(info, info->struct_size, &i, sizeof i);
}

/* ---- rendering ------------------------------------------------------------------------------- */

/* What the caller sees, and what it points to. */
typedef struct rendering {
    weft_rendered seen;
    weft_template *template; /* referenced */
    chat_text text;
    weft_origin *origins;
    weft_span *generated, *trusted;
    size_t n_trusted;
    scratch gated;
    size_t n_gated;
    weft_tokens *tokens;
} rendering;

static void rendering_free(rendering *r)
{
    weft_template *t = r->template;
    mem *m = &t->host.mem;
    weft_tokens_free(r->tokens);
    chat_text_free(&r->text);
    mem_free(m, r->origins);
    mem_free(m, r->generated);
    mem_free(m, r->trusted);
    scratch_free(&r->gated, m);
    mem_free(m, r);
    weft_template_free(t);
}

void weft_rendered_free(weft_rendered *rendered)
{
    if (rendered)
        rendering_free((rendering *)((char *)rendered - offsetof(rendering, seen)));
}

/* Runs of one origin become one entry. */
static bool list_origins(rendering *r, mem *m, weft_error *err)
{
    const jinja_output *out = &r->text.out;
    int64_t n = 0;
    r->origins = mem_alloc(m, (out->n_run + 1) * sizeof *r->origins, "origins", err);
    r->trusted = mem_alloc(m, (out->n_run + 1) * sizeof *r->trusted, "origins", err);
    if (!r->origins || !r->trusted)
        return false;
    for (size_t i = 0; i < out->n_run; i++) {
        const chat_origin who = chat_origin_of(&r->text, out->run[i].origin);
        const uint32_t from = (uint32_t)out->run[i].begin, to = (uint32_t)out->run[i].end;
        weft_origin *last = n > 0 ? &r->origins[n - 1] : NULL;
        if (from == to)
            continue;
        if (last && last->message == who.message && last->field == who.field &&
            last->trusted == who.trusted)
            last->to = to;
        else
            r->origins[n++] = (weft_origin){ from, to, who.message, who.field, who.trusted };
    }
    r->n_trusted = chat_trusted(&r->text, r->trusted);
    r->seen.origins = r->origins;
    r->seen.n_origin = n;
    return true;
}

static bool list_generated(rendering *r, mem *m, weft_error *err)
{
    const jinja_output *out = &r->text.out;
    r->generated = mem_alloc(m, (out->n_generated + 1) * sizeof *r->generated, "spans", err);
    if (!r->generated)
        return false;
    for (size_t i = 0; i < out->n_generated; i++) {
        const size_t end = out->generated[i].end; /* the text may have been cut inside of it */
        r->generated[i] = (weft_span){ (uint32_t)out->generated[i].begin,
                                       (uint32_t)(end < out->n ? end : out->n) };
    }
    r->seen.generated = r->generated;
    r->seen.n_generated = (int64_t)out->n_generated;
    return true;
}

static bool tokenize(rendering *r, const weft_tokenizer *t, bool trust_all, mem *m, weft_error *err)
{
    if (!chat_gated(&r->template->inner, tokenizer_inside(t), &r->gated, &r->n_gated, m, err))
        return false;
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .no_special = true,
                                      .parse_special = true,
                                      .spans = true,
                                      .trusted = trust_all ? NULL : r->trusted,
                                      .n_trusted = trust_all ? 0 : r->n_trusted,
                                      .gated = trust_all ? NULL : r->gated.data,
                                      .n_gated = trust_all ? 0 : r->n_gated };
    r->tokens = weft_tokenizer_encode(t, r->seen.text, r->seen.length, &o, err);
    r->seen.tokens = r->tokens;
    return r->tokens != NULL;
}

static bool render(rendering *r, const weft_tokenizer *words, const char *messages, size_t n,
                   const weft_render_options *o, weft_error *err)
{
    weft_template *t = r->template;
    mem *m = &t->host.mem;
    chat_options how = { .tools = o->tools,
                         .variables = o->variables,
                         .no_generation_prompt = o->no_generation_prompt || o->continue_last,
                         .now = o->now };
    weft_tokenizer_info info = { .struct_size = sizeof info };
    if (words) {
        weft_tokenizer_get_info(words, &info);
        how.bos = weft_tokenizer_token(words, info.bos_id, &how.n_bos);
        how.eos = weft_tokenizer_token(words, info.eos_id, &how.n_eos);
    }
    if (chat_text_render(&t->inner, messages, n, &how, &r->text, err) != WEFT_OK)
        return false;
    if (o->continue_last && !chat_text_cut(&r->text)) {
        weft_fail(err, WEFT_EINVAL,
                  "the last message has no content that the template writes; expected content to "
                  "continue");
        return false;
    }
    r->seen.text = r->text.out.text;
    r->seen.length = r->text.out.n;
    return list_origins(r, m, err) && list_generated(r, m, err) &&
           (!words || tokenize(r, words, o->trust_all, m, err));
}

weft_rendered *weft_template_render(const weft_template *shared, const weft_tokenizer *words,
                                    const char *messages, size_t length,
                                    const weft_render_options *options, weft_error *err)
{
    weft_render_options o;
    weft_template *t = (weft_template *)shared; /* only its budget and holders change */
    weft_error local;
    err = begin_call(err, &local);
    if (!t || !messages) {
        weft_fail(err, WEFT_EINVAL, "no %s given", t ? "messages" : "template");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_render_options", err))
        return NULL;
    rendering *r = mem_zalloc(&t->host.mem, 1, sizeof *r, "a conversation", err);
    if (!r)
        return NULL;
    r->template = t;
    hold(&t->holders);
    if (render(r, words, messages, length, &o, err))
        return &r->seen;
    rendering_free(r);
    return NULL;
}

/* modules.c - the modules of an open model, by the notes that binding made. */
#include "adapt/modules.h"

#include "models/conversion.h"

#include <stdio.h>
#include <string.h>

static bool has_tail(const char *text, const char *tail)
{
    const size_t n = strlen(text), k = strlen(tail);
    return n >= k && strcmp(text + (n - k), tail) == 0; /* bounded: k <= n */
}

size_t module_tail(const char *name)
{
    return has_tail(name, ".weight") ? strlen(".weight")
           : has_tail(name, ".bias") ? strlen(".bias")
                                     : 0;
}

/* A name of the model's table as the adapted class has it, without its tail. */
static void module_name(const modules *s, const char *hf, char to[MODULE_BYTES])
{
    const char *prefix = s->plan.notes->hf_prefix;
    const size_t n = strlen(prefix);
    const bool inner = n > 0 && strncmp(hf, prefix, n) == 0;
    const char *rest = inner && (s->form == BARE || s->form == TEXT_INSIDE) ? &hf[n] : hf;
    const char *before = s->form == TEXT_AROUND            ? "language_model."
                         : s->form == TEXT_INSIDE && inner ? "language_model."
                                                           : "";
    const int length = (int)(strlen(rest) - module_tail(hf)); /* bounded: the tail is part of it */
    snprintf(to, MODULE_BYTES, "%s%s%.*s", s->form == TEXT_INSIDE && inner ? prefix : "", before,
             length, rest);
}

/* The rows of the module's tensors that belong to parameter i, in the model's order. */
static take_rows_of rows_of(const modules *s, int64_t i)
{
    const param_origin *o = &s->plan.notes->origin[i];
    const tensor *w = s->m->param[i];
    const rope_pairing other = s->m->arch->gguf_pairing;
    const bool gguf = strcmp(s->m->file.format, "gguf") == 0;
    const rope_pairing here = gguf ? other : ROPE_HALVES;
    const rope_pairing there = s->form == AS_GGUF ? other : ROPE_HALVES;
    return (take_rows_of){ .all = o->whole_rows ? o->whole_rows : rows(w),
                           .row0 = o->row0,
                           .n = rows(w),
                           .head = o->heads > 0 && here != there ? rows(w) / o->heads : 0,
                           .to_halves = here == ROPE_HALVES };
}

/* The name of a parameter in a GGUF file, without its tail. */
static void gguf_name(const modules *s, int64_t i, char to[MODULE_BYTES])
{
    const param_origin *o = &s->plan.notes->origin[i];
    const char *name = o->whole ? o->whole : s->plan.param[i]->name;
    snprintf(to, MODULE_BYTES, "%.*s", (int)(strlen(name) - module_tail(name)), name);
}

/* ---- uses ------------------------------------------------------------------------------------ */

int64_t modules_count(const modules *s)
{
    return s->plan.n_param + (s->tied >= 0); /* bounded: by the model */
}

static bool shared_head(const modules *s, module_use *u)
{
    const tied_head *t = &s->plan.notes->tied;
    *u = (module_use){ .param = s->tied,
                       .tail = ".weight",
                       .shared = true,
                       .adaptable = true,
                       .rows = rows_of(s, s->tied) };
    snprintf(u->name, sizeof u->name, "%s", t->name);
    if (s->form == AS_GGUF)
        snprintf(u->module, sizeof u->module, "%s", t->name);
    else
        module_name(s, t->hf, u->module);
    return true;
}

bool modules_use(const modules *s, int64_t i, module_use *u)
{
    if (i == s->plan.n_param)
        return shared_head(s, u);
    const param_origin *o = &s->plan.notes->origin[i];
    const tensor *w = s->plan.param[i];
    *u = (module_use){ .param = i, .rows = rows_of(s, i) };
    if (s->form == AS_GGUF)
        gguf_name(s, i, u->module);
    else if (o->hf)
        module_name(s, o->hf, u->module);
    if (!o->hf || o->stack || o->ways)
        return false;
    u->tail = o->hf + (strlen(o->hf) - module_tail(o->hf)); /* bounded: it is part of the name */
    u->adaptable = w->n_dim == 2 && !o->hf_dim && strcmp(u->tail, ".weight") == 0;
    u->table = u->adaptable && (!w->multiplied || s->tied == i);
    snprintf(u->name, sizeof u->name, "%.*s", (int)(strlen(w->name) - module_tail(w->name)),
             w->name); /* bounded: likewise */
    return true;
}

weft_status modules_open(modules *s, const model *m, weft_error *err)
{
    *s = (modules){ .m = m, .tied = -1 };
    const weft_status status = model_notes_open(&s->plan, m, err);
    if (status != WEFT_OK)
        return status;
    const tied_head *t = &s->plan.notes->tied;
    for (int64_t i = 0; t->hf && i < s->plan.n_param; i++)
        if (s->plan.param[i] == t->table)
            s->tied = i;
    const meta *bare = container_meta(&m->file, BARE_KEY); /* in a GGUF file that weft wrote */
    const bool was_bare = bare && bare->type == META_BOOL && bare->flag;
    s->form = s->plan.notes->hf_bare || was_bare ? BARE : AS_TABLE;
    return WEFT_OK;
}

weft_status modules_check_shared(const modules *s, int64_t param, const char *path, weft_error *err)
{
    if (!model_has_source(s->m) || strcmp(s->m->param[param]->name, "token_embd.weight") != 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_EUNSUPPORTED,
                     "%s: it adapts the embedding that encoder and decoder share; expected one "
                     "without; merge the adapter into its base with PEFT and open the result",
                     path);
}

void modules_close(modules *s)
{
    model_notes_close(&s->plan);
    *s = (modules){ 0 };
}

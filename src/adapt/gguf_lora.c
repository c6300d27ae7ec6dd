/* gguf_lora.c - reads an adapter from a GGUF file. */
#include "adapt/gguf_lora.h"

#include "adapt/modules.h"
#include "formats/kept.h"
#include "formats/recognise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_RANK   65536
#define TEXT_BYTES (MODULE_BYTES + 32) /* bounded: constants */

typedef struct reading {
    adapter *a;
    const model *m;
    modules modules;
    double alpha; /* 0: every scale is 1 */
    bool *used;   /* [file.n_tensor] */
    weft_error *err;
} reading;

/* ---- keys ------------------------------------------------------------------------------------ */

/* NULL if there is none, or no text. */
static const char *text_of(const container *c, const char *key)
{
    const meta *m = container_meta(c, key);
    return m && m->type == META_TEXT ? m->text : NULL;
}

bool gguf_is_lora(const container *c)
{
    const char *type = text_of(c, "general.type");
    return strcmp(c->format, "gguf") == 0 && type && strcmp(type, "adapter") == 0;
}

static weft_status check_text(const reading *r, const char *key, const char *expected,
                              const char *advice)
{
    const char *found = text_of(&r->a->file, key);
    if (found && strcmp(found, expected) == 0)
        return WEFT_OK;
    return weft_fail(r->err, WEFT_EUNSUPPORTED, "%s: %s is %.60s; expected %.60s; %s",
                     r->a->file.path, key, found ? found : "missing", expected, advice);
}

const char *gguf_lora_architecture(const model *m, char own[GGUF_ARCH_BYTES])
{
    const char *in_file = text_of(&m->file, "general.architecture");
    snprintf(own, GGUF_ARCH_BYTES, OWN_ARCH "%.50s", m->arch->hf);
    if (strcmp(m->file.format, "gguf") == 0 && in_file)
        return in_file;
    return m->arch->gguf ? m->arch->gguf : own;
}

static weft_status read_alpha(reading *r)
{
    const meta *alpha = container_meta(&r->a->file, "adapter.lora.alpha");
    const bool number = alpha && (alpha->type == META_REAL || alpha->type == META_INT);
    r->alpha = number ? alpha->number : 0;
    if (!alpha || (number && isfinite(r->alpha) && fabs(r->alpha) <= 1e9))
        return WEFT_OK;
    return weft_fail(r->err, WEFT_EFORMAT,
                     "%s: adapter.lora.alpha is %s; expected a number up to 1e9; convert the "
                     "adapter again",
                     r->a->file.path, number ? "out of range" : "not a number");
}

static weft_status read_keys(reading *r)
{
    static const char aloud[] = "adapter.alora.invocation_tokens";
    char own[GGUF_ARCH_BYTES];
    weft_status status = check_text(r, "general.type", "adapter",
                                    "give the adapter, not the model");
    if (status == WEFT_OK)
        status = check_text(r, "adapter.type", "lora", "merge the adapter into its base");
    if (status == WEFT_OK)
        status = check_text(r, "general.architecture", gguf_lora_architecture(r->m, own),
                            "use the base model of the adapter");
    if (status == WEFT_OK && container_meta(&r->a->file, aloud))
        status = weft_fail(r->err, WEFT_EUNSUPPORTED,
                           "%s: %s is set; expected LoRA without it; merge the adapter into its "
                           "base",
                           r->a->file.path, aloud);
    r->a->base = text_of(&r->a->file, "general.base_model.0.name");
    return status == WEFT_OK ? read_alpha(r) : status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const stored *find(const reading *r, const module_use *u, const char *tail,
                          char name[TEXT_BYTES])
{
    snprintf(name, TEXT_BYTES, "%s%s%s", u->module, u->tail, tail);
    return container_tensor(&r->a->file, name);
}

static weft_status missing(const reading *r, const char *name)
{
    return weft_fail(r->err, WEFT_EFORMAT,
                     "%s: tensor %s is missing; expected A and B of every weight; convert the "
                     "adapter again",
                     r->a->file.path, name);
}

static weft_status take_a(reading *r, const module_use *u, const stored *a, int64_t rank,
                          tensor *to)
{
    const take_rows_of all = { .all = rank, .n = rank };
    stored flipped = *a;
    weft_status status = u->table ? take_flipped(a, &flipped, &r->a->store, r->err) : WEFT_OK;
    if (status == WEFT_OK)
        status = take_tensor(&flipped, &all, flipped.shape[1], to, &r->a->store, r->err);
    snprintf(to->name, NAME_BYTES, "%.70s.lora_a", u->name);
    return status;
}

static weft_status add_part(reading *r, const module_use *u, const stored *a, const stored *b)
{
    const tensor *w = r->m->param[u->param];
    const int64_t rank = a->n_dim == 2 ? a->shape[u->table] : 0,
                  n_in = u->table ? rows(w) : cols(w);
    const take_rows_of out = u->table ? (take_rows_of){ .all = cols(w), .n = cols(w) } : u->rows;
    const int64_t a_shape[] = { u->table ? n_in : rank, u->table ? rank : n_in };
    const int64_t b_shape[] = { out.all, rank };
    const char *path = r->a->file.path;
    adapter_part *p = &r->a->part[r->a->n_part];
    if (a->n_dim == 2 && (rank < 1 || rank > MAX_RANK))
        return weft_fail(r->err, WEFT_EFORMAT,
                         "%s: tensor %s has rank %lld; expected 1 to 65536; convert the adapter "
                         "again",
                         path, a->name, (long long)rank);
    weft_status status = take_check(a, 2, a_shape, path, r->a->base, r->err);
    if (status == WEFT_OK)
        status = take_check(b, 2, b_shape, path, r->a->base, r->err);
    if (status == WEFT_OK && u->table)
        status = modules_check_shared(&r->modules, u->param, path, r->err);
    if (status != WEFT_OK)
        return status;
    *p = (adapter_part){ .name = arena_text(&r->a->store, u->name, strlen(u->name), r->err),
                         .param = u->param,
                         .table = u->table,
                         .scale = r->alpha != 0 ? r->alpha / (double)rank : 1 };
    status = p->name ? take_a(r, u, a, rank, &p->a) : WEFT_ENOMEM;
    if (status == WEFT_OK)
        status = take_tensor(b, &out, rank, &p->b, &r->a->store, r->err);
    snprintf(p->b.name, NAME_BYTES, "%.70s.lora_b", u->name);
    r->a->n_part += status == WEFT_OK; /* bounded: once for each use */
    return status;
}

static weft_status read_use(reading *r, const module_use *u)
{
    char a_name[TEXT_BYTES], b_name[TEXT_BYTES];
    const stored *a = find(r, u, ".lora_a", a_name), *b = find(r, u, ".lora_b", b_name);
    if (!a && !b)
        return WEFT_OK;
    if (!a || !b)
        return missing(r, a ? b_name : a_name);
    r->used[a - r->a->file.tensor] = true;
    r->used[b - r->a->file.tensor] = true;
    return add_part(r, u, a, b);
}

static weft_status refuse_leftovers(const reading *r)
{
    const container *c = &r->a->file;
    for (int64_t i = 0; i < c->n_tensor; i++)
        if (!r->used[i])
            return weft_fail(r->err, WEFT_EUNSUPPORTED,
                             "%s: tensor %.200s; expected .lora_a and .lora_b of weights that this "
                             "model has; use the base model of the adapter (%.100s)",
                             c->path, c->tensor[i].name, r->a->base ? r->a->base : "not named");
    if (r->a->n_part > 0)
        return WEFT_OK;
    return weft_fail(r->err, WEFT_EFORMAT,
                     "%s: no tensors; expected A and B of an adapter; convert the adapter again",
                     c->path);
}

/* A head that shares the embedding has no name in GGUF. */
static weft_status read_weights(reading *r)
{
    const modules *s = &r->modules;
    const size_t n = (size_t)s->plan.n_param + 1; /* bounded: by the model */
    weft_status status = arena_init(&r->a->store, ARENA_GROWING, &r->a->host->mem, 0, "", r->err);
    if (status != WEFT_OK)
        return status;
    r->a->part = arena_alloc(&r->a->store, n * sizeof *r->a->part, r->err); /* bounded: likewise */
    if (r->a->part)
        r->used = mem_zalloc(&r->a->host->mem,
                             (size_t)r->a->file.n_tensor + 1, /* bounded: parsed */
                             sizeof *r->used, "an adapter", r->err);
    status = r->used ? WEFT_OK : WEFT_ENOMEM;
    for (int64_t i = 0; status == WEFT_OK && i < s->plan.n_param; i++) {
        module_use u;
        if (modules_use(s, i, &u) && u.adaptable)
            status = read_use(r, &u);
    }
    if (status == WEFT_OK)
        status = refuse_leftovers(r);
    mem_free(&r->a->host->mem, r->used);
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static weft_status parse(reading *r, const char *path, weft_load load)
{
    adapter *a = r->a;
    weft_status status = container_begin(&a->file, "gguf", path, a->host, r->err);
    file *f = status == WEFT_OK ? container_file(&a->file, r->err) : NULL;
    if (!f)
        return WEFT_ENOMEM;
    status = file_open(f, path, load, a->host, r->err);
    if (status != WEFT_OK)
        return status;
    if (f->size < 4 || memcmp(f->data, "GGUF", 4) != 0)
        return recognise(path, f->data, f->size, "a GGUF adapter, or a directory that PEFT saved",
                         r->err);
    status = gguf_parse(&a->file, f->data, f->size, r->err);
    return status == WEFT_OK ? container_index(&a->file, r->err) : status;
}

weft_status gguf_lora_open(adapter *a, const model *m, const char *path, weft_load load,
                           weft_error *err)
{
    weft_error own = { 0 };
    reading r = { .a = a, .m = m, .err = err ? err : &own };
    *a = (adapter){ .host = m->host };
    weft_status status = parse(&r, path, load);
    if (status == WEFT_OK)
        status = read_keys(&r);
    if (status == WEFT_OK)
        status = modules_open(&r.modules, m, r.err);
    if (status == WEFT_OK) {
        r.modules.form = AS_GGUF;
        status = read_weights(&r);
        modules_close(&r.modules);
    }
    if (status != WEFT_OK)
        adapter_close(a);
    return status;
}

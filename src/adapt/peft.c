/* peft.c - a PEFT directory as changes of an open model's weights.
 *
 * Goes through the model's weights, with the names that they have in a Hugging Face file. The names
 * of the adapter's tensors begin with these:
 *
 *     base_model.model. + model.layers.0.self_attn.q_proj + .lora_A.weight           [r, I]
 *                                                           .lora_B.weight           [O, r]
 *                                                           .lora_B.bias             [O]
 *                                                           .lora_magnitude_vector   [O]
 *                         model.embed_tokens              + .lora_embedding_A        [r, V]
 *                                                           .lora_embedding_B        [D, r]
 *                         lm_head                         + .weight, .base_layer.weight
 *
 * A module that is adapted keeps its own weight and bias below .base_layer. A tensor that belongs to
 * no weight is an error. */
#include "adapt/peft.h"

#include "adapt/modules.h"
#include "adapt/peft_config.h"
#include "formats/recognise.h"

#include <stdio.h>
#include <string.h>

#define PREFIX     "base_model.model."
#define FILE_NAME  "adapter_model.safetensors"
#define TEXT_BYTES 320 /* with the prefix and the tail that adapters add */

typedef struct reading {
    adapter *a;
    const model *m;
    modules modules;
    peft_config config;
    bool *used; /* [file.n_tensor] */
    weft_error *err;
} reading;

/* ---- names ----------------------------------------------------------------------------------- */

/* The tensor of a module with this tail; NULL if there is none. `name` is its full name. */
static const stored *find(const reading *r, const char *module, const char *tail,
                          char name[TEXT_BYTES])
{
    snprintf(name, TEXT_BYTES, "%s%s%s", PREFIX, module, tail);
    return container_tensor(&r->a->file, name);
}

static void mark(reading *r, const stored *t)
{
    r->used[t - r->a->file.tensor] = true;
}

/* The form in which most of the adapter's tensors are found. */
static void choose_form(reading *r)
{
    static const char *const tails[] = { ".lora_A.weight", ".lora_embedding_A", ".weight" };
    int64_t most = 0;
    modules *s = &r->modules;
    module_form best = AS_TABLE;
    for (s->form = AS_TABLE; s->form < N_FORM; s->form++) {
        int64_t n = 0;
        for (int64_t i = 0; i < modules_count(s); i++) {
            char name[TEXT_BYTES];
            module_use u;
            if (!modules_use(s, i, &u) || u.shared || strcmp(u.tail, ".weight") != 0)
                continue;
            for (size_t k = 0; k < sizeof tails / sizeof *tails; k++)
                n += find(r, u.module, tails[k], name) != NULL; /* bounded: by the parameters */
        }
        best = n > most ? s->form : best;
        most = n > most ? n : most;
    }
    s->form = best;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static weft_status missing(const reading *r, const char *name, const char *key)
{
    return weft_fail(r->err, WEFT_EFORMAT,
                     "%s: tensor %s is missing; expected it, because %s in %s asks for it; use the "
                     "base model of the adapter (%.100s), or save the adapter again",
                     r->a->file.path, name, key, "adapter_config.json",
                     r->config.base ? r->config.base : "not named");
}

/* A tensor of a module that must be there. NULL after an error. */
static const stored *need(reading *r, const char *module, const char *tail, const char *key,
                          int n_dim, const int64_t *shape)
{
    char name[TEXT_BYTES];
    const stored *t = find(r, module, tail, name);
    if (!t) {
        missing(r, name, key);
        return NULL;
    }
    mark(r, t);
    return take_check(t, n_dim, shape, r->a->file.path, r->config.base, r->err) == WEFT_OK ? t
                                                                                           : NULL;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* A vector [n] over the outputs, as reals. NULL after an error. */
static const real *read_vector(reading *r, const module_use *u, const char *tail, const char *key,
                               const take_rows_of *out)
{
    const stored *t = need(r, u->module, tail, key, 1, &out->all);
    return t ? take_reals(t, out, 1, &r->a->store, r->err) : NULL;
}

static weft_status add_part(reading *r, const module_use *u, const peft_match *how)
{
    const tensor *w = r->m->param[u->param];
    adapter_part *p = &r->a->part[r->a->n_part];
    const int64_t n_in = u->table ? rows(w) : cols(w);
    const take_rows_of all_ranks = { .all = how->r, .n = how->r };
    const take_rows_of out = u->table ? (take_rows_of){ .all = cols(w), .n = cols(w) } : u->rows;
    const int64_t a_shape[] = { how->r, n_in }, b_shape[] = { out.all, how->r };
    const char *key = "target_modules";
    if (u->table && modules_check_shared(&r->modules, u->param, r->a->file.path, r->err) != WEFT_OK)
        return r->err->code;
    const stored *a = need(r, u->module, u->table ? ".lora_embedding_A" : ".lora_A.weight", key, 2,
                           a_shape);
    const stored *b = a ? need(r, u->module, u->table ? ".lora_embedding_B" : ".lora_B.weight", key,
                               2, b_shape)
                        : NULL;
    if (!b)
        return r->err->code;
    *p = (adapter_part){ .param = u->param, .table = u->table, .scale = how->scale };
    if (!(p->name = arena_text(&r->a->store, u->name, strlen(u->name), r->err)))
        return WEFT_ENOMEM;
    weft_status status = take_tensor(a, &all_ranks, n_in, &p->a, &r->a->store, r->err);
    if (status == WEFT_OK)
        status = take_tensor(b, &out, how->r, &p->b, &r->a->store, r->err);
    snprintf(p->a.name, NAME_BYTES, "%.70s.lora_a", u->name);
    snprintf(p->b.name, NAME_BYTES, "%.70s.lora_b", u->name);
    if (status == WEFT_OK && r->config.dora &&
        !(p->gain = read_vector(r, u, ".lora_magnitude_vector", "use_dora", &out)))
        return r->err->code;
    if (status == WEFT_OK && r->config.lora_bias &&
        !(p->bias = read_vector(r, u, ".lora_B.bias", "lora_bias", &out)))
        return r->err->code;
    r->a->n_part += status == WEFT_OK; /* bounded: once for each use */
    return status;
}

/* ---- whole weights --------------------------------------------------------------------------- */

/* Copies the tensor in the layout of the parameter. */
static weft_status take_whole(reading *r, int64_t i, const take_rows_of *rows_of, const stored *t,
                              tensor *to)
{
    const tensor *w = r->m->param[i];
    const param_origin *o = &r->modules.plan.notes->origin[i];
    const int64_t n_col = w->n_dim > 1 ? cols(w) : 1;
    weft_status status = WEFT_OK;
    stored flipped = *t;
    if (o->flip)
        status = take_flipped(t, &flipped, &r->a->store, r->err);
    if (status == WEFT_OK && w->type == &dtype_real) {
        real *x = take_reals(&flipped, rows_of, n_col, &r->a->store, r->err);
        for (int64_t k = 0; x && o->gain && k < rows_of->n; k++)
            x[k] += 1; /* bounded: a real */
        status = x ? WEFT_OK : WEFT_ENOMEM;
        *to = (tensor){ .type = &dtype_real, .data = x };
    } else if (status == WEFT_OK) {
        status = take_tensor(&flipped, rows_of, n_col, to, &r->a->store, r->err);
    }
    to->n_dim = w->n_dim;
    memcpy(to->shape, w->shape, sizeof to->shape);
    to->stride = cols(w);
    return status;
}

static weft_status add_whole(reading *r, const module_use *u, const stored *t)
{
    int64_t shape[MAX_DIM];
    const tensor *w = r->m->param[u->param];
    const char *tail = &w->name[strlen(w->name) - module_tail(w->name)];
    const int n_dim = export_shape(&r->modules.plan, u->param, shape);
    mark(r, t);
    weft_status status = take_check(t, n_dim, shape, r->a->file.path, r->config.base, r->err);
    if (status != WEFT_OK)
        return status;
    tensor value = { 0 };
    const arena_mark before = arena_at(&r->a->store);
    status = take_whole(r, u->param, &u->rows, t, &value);
    if (status == WEFT_OK && take_same(&value, w)) {
        arena_reset(&r->a->store, before);
        return WEFT_OK;
    }
    if (status == WEFT_OK && u->table)
        status = modules_check_shared(&r->modules, u->param, r->a->file.path, r->err);
    snprintf(value.name, NAME_BYTES, "%.70s%s", u->name, tail);
    char *name = status == WEFT_OK
                     ? arena_text(&r->a->store, value.name, strlen(value.name), r->err)
                     : NULL;
    if (!name)
        return r->err->code;
    r->a->whole[r->a->n_whole++] = (adapter_whole){ name, u->param, value }; /* bounded: by uses */
    return WEFT_OK;
}

/* A weight that the file has whole, under its own name or, if it is adapted too, below base_layer.
 * What is below base_layer is the model's, so a head that shares it changes too. */
static weft_status read_whole(reading *r, const module_use *u, bool saved, const module_use *shares)
{
    const char *tail = u->tail;
    char name[TEXT_BYTES], own[TEXT_BYTES], below[32];
    snprintf(below, sizeof below, ".base_layer%s", tail);
    const stored *t = find(r, u->module, tail, own);
    if (!t && saved)
        return missing(r, own, "modules_to_save");
    if (t)
        return add_whole(r, u, t);
    t = tail[0] ? find(r, u->module, below, name) : NULL;
    if (!t)
        return WEFT_OK;
    const weft_status status = add_whole(r, u, t);
    return status == WEFT_OK && shares ? add_whole(r, shares, t) : status;
}

/* ---- the model's weights, one by one --------------------------------------------------------- */

static bool is_head(const reading *r, const char *name)
{
    return strcmp(name, "output") == 0 || (r->config.classifies && strcmp(name, "cls.output") == 0);
}

static weft_status read_use(reading *r, const module_use *u, const module_use *shares)
{
    peft_match how;
    const peft_module module = { u->module, u->table, is_head(r, u->name) };
    weft_status status = peft_config_match(&r->config, &module, &how, r->err);
    if (status == WEFT_OK && how.targeted && u->adaptable)
        status = add_part(r, u, &how);
    return status == WEFT_OK ? read_whole(r, u, how.saved, shares) : status;
}

static weft_status read_weights(reading *r)
{
    const modules *s = &r->modules;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; status == WEFT_OK && i < modules_count(s); i++) {
        module_use u, other;
        const bool two = modules_use(s, i, &u) && u.param == s->tied &&
                         modules_use(s, u.shared ? s->tied : s->plan.n_param, &other);
        if (modules_use(s, i, &u))
            status = read_use(r, &u, two ? &other : NULL);
    }
    return status;
}

/* ---- other tensors --------------------------------------------------------------------------- */

/* Is it about a module whose output the model does not need, such as BERT's pooler? */
static bool is_unused(const reading *r, const char *name)
{
    const export_notes *notes = r->modules.plan.notes;
    for (int i = 0; i < notes->n_unused; i++) {
        const char *at = strstr(name, notes->unused[i]);
        const size_t n = strlen(notes->unused[i]);
        if (!at || at == name || at[-1] != '.' || at[n] != '.')
            continue;
        log_write(&r->a->host->log, WEFT_LOG_INFO,
                  "%s: tensor %.200s is left out, as the model "
                  "leaves out its module",
                  r->a->file.path, name);
        return true;
    }
    return false;
}

static weft_status refuse_leftovers(const reading *r)
{
    const container *c = &r->a->file;
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const char *name = c->tensor[i].name;
        if (r->used[i] || is_unused(r, name))
            continue;
        if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
            return weft_fail(r->err, WEFT_EFORMAT,
                             "%s: tensor %.200s; expected names that begin with " PREFIX
                             "; save the adapter with PEFT's save_pretrained",
                             c->path, name);
        return weft_fail(r->err, WEFT_EFORMAT,
                         "%s: tensor %.200s belongs to no weight that adapter_config.json targets "
                         "in this model; expected none like it; use the base model of the adapter "
                         "(%.100s), or remove the module from it",
                         c->path, name, r->config.base ? r->config.base : "not named");
    }
    return WEFT_OK;
}

/* PEFT then ties what the adapter has for embedding and head, in ways that depend on its version. */
static weft_status refuse_ties(const reading *r)
{
    const tied_head *t = &r->modules.plan.notes->tied;
    bool touched = false;
    for (int64_t i = 0; i < r->a->n_part; i++)
        touched |= r->modules.plan.param[r->a->part[i].param] == t->table;
    for (int64_t i = 0; i < r->a->n_whole; i++)
        touched |= r->modules.plan.param[r->a->whole[i].param] == t->table;
    if (!r->config.keeps_ties || !t->name || !touched)
        return WEFT_OK;
    return weft_fail(r->err, WEFT_EUNSUPPORTED,
                     "%s: ensure_weight_tying is true and the adapter changes the embedding or the "
                     "head; expected false; merge the adapter into its base with PEFT and open the "
                     "result",
                     r->config.path);
}

/* The adapter may know its base by another name than the user, so this is only said. */
static void warn_of_base(const reading *r)
{
    char name[256];
    if (!r->config.base)
        return;
    path_name(r->config.base, "", name, sizeof name);
    if (!strcasestr(r->m->file.path, name))
        log_write(&r->a->host->log, WEFT_LOG_WARN,
                  "%s: the adapter was made for %.200s, and this model is %s", r->config.path,
                  r->config.base, r->m->file.path);
}

/* ---- the files ------------------------------------------------------------------------------- */

static bool is_missing(const char *path, host *h)
{
    return !path_exists(path, h);
}

static weft_status without_weights(const char *directory, const char *path, host *h,
                                   weft_error *err)
{
    char old[4096];
    const bool pickled = path_join(old, sizeof old, directory, "adapter_model.bin") &&
                         !is_missing(old, h);
    if (pickled)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: a pickle, which can run programs; expected " FILE_NAME
                         "; load the adapter with PEFT and save it again",
                         old);
    return weft_fail(err, WEFT_EFORMAT,
                     "%s: no such file; expected the weights of the adapter; copy the whole "
                     "directory",
                     path);
}

static weft_status open_weights(adapter *a, const char *directory, weft_load load, weft_error *err)
{
    char path[4096];
    weft_error why = { 0 };
    if (!path_join(path, sizeof path, directory, FILE_NAME))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    weft_status status = container_begin(&a->file, "safetensors", path, a->host, err);
    file *f = status == WEFT_OK ? container_file(&a->file, err) : NULL;
    if (!f)
        return WEFT_ENOMEM;
    status = file_open(f, path, load, a->host, &why);
    if (status == WEFT_EIO && is_missing(path, a->host))
        return without_weights(directory, path, a->host, err);
    if (status != WEFT_OK)
        return weft_fail(err, why.code, "%s", why.message);
    if (f->size <= 8 || f->data[8] != '{') /* after the length of the header */
        return recognise(path, f->data, f->size, EXPECT_WEIGHTS, err);
    status = safetensors_parse(&a->file, f->data, f->size, err);
    return status == WEFT_OK ? container_index(&a->file, err) : err->code;
}

/* Room for a part and a whole weight of every parameter, and of a head that shares one; what is
 * below its base_layer may be said twice. */
static weft_status make_room(reading *r)
{
    const size_t n = (size_t)r->modules.plan.n_param + 4; /* bounded: by the model */
    mem *m = &r->a->host->mem;
    weft_status status = arena_init(&r->a->store, ARENA_GROWING, m, 0, "", r->err);
    if (status != WEFT_OK)
        return status;
    const uint64_t part = n * sizeof *r->a->part;   /* bounded: likewise */
    const uint64_t whole = n * sizeof *r->a->whole; /* bounded: likewise */
    r->a->part = arena_alloc(&r->a->store, part, r->err);
    if (r->a->part)
        r->a->whole = arena_alloc(&r->a->store, whole, r->err);
    if (r->a->whole)
        r->used = mem_zalloc(m, (size_t)r->a->file.n_tensor + 1, /* bounded: by MAX_TENSOR */
                             sizeof *r->used, "an adapter", r->err);
    return r->used ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status read_adapter(reading *r)
{
    weft_status status = make_room(r);
    if (status != WEFT_OK)
        return status;
    const char *base = r->config.base;
    if (base && !(r->a->base = arena_text(&r->a->store, base, strlen(base), r->err)))
        status = WEFT_ENOMEM;
    choose_form(r);
    if (status == WEFT_OK)
        status = read_weights(r);
    if (status == WEFT_OK)
        status = refuse_leftovers(r);
    if (status == WEFT_OK)
        status = refuse_ties(r);
    if (status == WEFT_OK)
        warn_of_base(r);
    mem_free(&r->a->host->mem, r->used);
    return status;
}

weft_status peft_open(adapter *a, const model *m, const char *directory, weft_load load,
                      weft_error *err)
{
    weft_error own = { 0 };
    reading r = { .a = a, .m = m, .err = err ? err : &own };
    *a = (adapter){ .host = m->host };
    weft_status status = peft_config_open(&r.config, directory, a->host, r.err);
    if (status == WEFT_OK)
        status = open_weights(a, directory, load, r.err);
    if (status == WEFT_OK)
        status = modules_open(&r.modules, m, r.err);
    if (status == WEFT_OK) {
        status = read_adapter(&r);
        modules_close(&r.modules);
    }
    peft_config_close(&r.config);
    if (status == WEFT_OK)
        return WEFT_OK;
    adapter_close(a);
    return r.err->code;
}

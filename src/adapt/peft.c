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

#include "adapt/peft_config.h"
#include "adapt/take.h"
#include "formats/recognise.h"
#include "models/export.h"

#include <stdio.h>
#include <string.h>

#define PREFIX       "base_model.model."
#define FILE_NAME    "adapter_model.safetensors"
#define MODULE_BYTES 240 /* a model's names are shorter than 160 */
#define TEXT_BYTES   320 /* with the prefix and the tail that adapters add */

/* How names in the adapter differ from those in the model's own table: the class that was adapted
 * may lack the prefix of one with a head, or have more than text. */
typedef enum name_form { AS_TABLE, BARE, TEXT_INSIDE, TEXT_AROUND, N_FORM } name_form;

typedef struct reading {
    adapter *a;
    const model *m;
    model plan; /* the same with notes */
    peft_config config;
    bool *used; /* [file.n_tensor] */
    name_form form;
    weft_error *err;
} reading;

/* ---- names ----------------------------------------------------------------------------------- */

static bool has_tail(const char *text, const char *tail)
{
    const size_t n = strlen(text), k = strlen(tail);
    return n >= k && strcmp(text + (n - k), tail) == 0; /* bounded: k <= n */
}

/* A name of the model's table as the adapted class has it, without its last `cut` bytes. */
static void module_name(const reading *r, const char *hf, size_t cut, char to[MODULE_BYTES])
{
    const char *prefix = r->plan.notes->hf_prefix;
    const size_t n = strlen(prefix);
    const bool inner = n > 0 && strncmp(hf, prefix, n) == 0;
    const char *rest = inner && (r->form == BARE || r->form == TEXT_INSIDE) ? &hf[n] : hf;
    const char *before = r->form == TEXT_AROUND            ? "language_model."
                         : r->form == TEXT_INSIDE && inner ? "language_model."
                                                           : "";
    const int length = (int)(strlen(rest) - cut); /* bounded: cut is the length of its tail */
    snprintf(to, MODULE_BYTES, "%s%s%.*s", r->form == TEXT_INSIDE && inner ? prefix : "", before,
             length, rest);
}

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

/* The weight of a parameter, its bias, or another name: how many bytes its tail has. */
static size_t tail_bytes(const char *hf)
{
    return has_tail(hf, ".weight") ? strlen(".weight")
           : has_tail(hf, ".bias") ? strlen(".bias")
                                   : 0;
}

/* The form in which most of the adapter's tensors are found. */
static void choose_form(reading *r)
{
    static const char *const tails[] = { ".lora_A.weight", ".lora_embedding_A", ".weight" };
    int64_t most = 0;
    name_form best = AS_TABLE;
    for (r->form = AS_TABLE; r->form < N_FORM; r->form++) {
        int64_t n = 0;
        for (int64_t i = 0; i < r->plan.n_param; i++) {
            const char *hf = r->plan.notes->origin[i].hf;
            char module[MODULE_BYTES], name[TEXT_BYTES];
            if (!hf || !has_tail(hf, ".weight"))
                continue;
            module_name(r, hf, strlen(".weight"), module);
            for (size_t k = 0; k < sizeof tails / sizeof *tails; k++)
                n += find(r, module, tails[k], name) != NULL; /* bounded: by the parameters */
        }
        best = n > most ? r->form : best;
        most = n > most ? n : most;
    }
    r->form = best;
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

/* A tensor must be of this shape, in numbers that are not quantised. */
static weft_status check(const reading *r, const stored *t, int n_dim, const int64_t *shape)
{
    bool same = t->n_dim == n_dim;
    for (int d = 0; same && d < n_dim; d++)
        same = t->shape[d] == shape[d];
    if (!same) {
        char found[96], expected[96];
        shape_text(found, sizeof found, t->n_dim, t->shape);
        shape_text(expected, sizeof expected, n_dim, shape);
        return weft_fail(r->err, WEFT_EFORMAT,
                         "%s: tensor %s is %s; expected %s; use the base model of the adapter "
                         "(%.100s)",
                         r->a->file.path, t->name, found, expected,
                         r->config.base ? r->config.base : "not named");
    }
    if (t->type == &dtype_f32 || t->type == &dtype_f16 || t->type == &dtype_bf16)
        return WEFT_OK;
    return weft_fail(
        r->err, WEFT_EUNSUPPORTED,
        "%s: tensor %s is %s; expected f32, f16 or bf16; save the adapter again in one "
        "of them",
        r->a->file.path, t->name, t->type->name);
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
    return check(r, t, n_dim, shape) == WEFT_OK ? t : NULL;
}

/* T5 and BART: PEFT wraps the module of one side only. */
static weft_status refuse_shared(const reading *r, int64_t i)
{
    if (!model_has_source(r->m) || strcmp(r->m->param[i]->name, "token_embd.weight") != 0)
        return WEFT_OK;
    return weft_fail(r->err, WEFT_EUNSUPPORTED,
                     "%s: it adapts the embedding that encoder and decoder share; expected one "
                     "without; merge the adapter into its base with PEFT and open the result",
                     r->a->file.path);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* A use of a parameter: the weight it belongs to, and its module in the adapted class. */
typedef struct use {
    int64_t param;
    const char *name;          /* "blk.3.attn_q" */
    char module[MODULE_BYTES]; /* "model.layers.3.self_attn.q_proj" */
    bool table;
    take_rows_of rows;
} use;

/* A vector [n] over the outputs, as reals. NULL after an error. */
static const real *read_vector(reading *r, const use *u, const char *tail, const char *key,
                               const take_rows_of *out)
{
    const stored *t = need(r, u->module, tail, key, 1, &out->all);
    return t ? take_reals(t, out, 1, &r->a->store, r->err) : NULL;
}

static weft_status add_part(reading *r, const use *u, const peft_match *how)
{
    const tensor *w = r->m->param[u->param];
    adapter_part *p = &r->a->part[r->a->n_part];
    const int64_t n_in = u->table ? rows(w) : cols(w);
    const take_rows_of all_ranks = { .all = how->r, .n = how->r };
    const take_rows_of out = u->table ? (take_rows_of){ .all = cols(w), .n = cols(w) } : u->rows;
    const int64_t a_shape[] = { how->r, n_in }, b_shape[] = { out.all, how->r };
    const char *key = "target_modules";
    if (u->table && refuse_shared(r, u->param) != WEFT_OK)
        return r->err->code;
    const stored *a = need(r, u->module, u->table ? ".lora_embedding_A" : ".lora_A.weight", key, 2,
                           a_shape);
    const stored *b = a ? need(r, u->module, u->table ? ".lora_embedding_B" : ".lora_B.weight", key,
                               2, b_shape)
                        : NULL;
    if (!b)
        return r->err->code;
    *p = (adapter_part){ .name = u->name, .param = u->param, .table = u->table };
    p->scale = how->scale;
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
    const origin *o = &r->plan.notes->origin[i];
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

static weft_status add_whole(reading *r, const use *u, const stored *t)
{
    int64_t shape[MAX_DIM];
    const tensor *w = r->m->param[u->param];
    const char *tail = &w->name[strlen(w->name) - tail_bytes(w->name)];
    const int n_dim = export_shape(&r->plan, u->param, shape);
    mark(r, t);
    weft_status status = check(r, t, n_dim, shape);
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
        status = refuse_shared(r, u->param);
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
static weft_status read_whole(reading *r, const use *u, const char *tail, bool saved,
                              const use *shares)
{
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

/* The rows of the file's tensors that belong to parameter i, in the model's order. */
static take_rows_of rows_of(const reading *r, int64_t i)
{
    const origin *o = &r->plan.notes->origin[i];
    const tensor *w = r->m->param[i];
    const bool gguf = strcmp(r->m->file.format, "gguf") == 0;
    const bool turned = gguf && r->m->arch->gguf_pairing != ROPE_HALVES && o->heads > 0;
    return (take_rows_of){ .all = o->whole_rows ? o->whole_rows : rows(w),
                           .row0 = o->row0,
                           .n = rows(w),
                           .head = turned ? rows(w) / o->heads : 0 };
}

/* "blk.3.attn_q" of "blk.3.attn_q.weight"; NULL after an error. */
static const char *weight_name(reading *r, int64_t i)
{
    const char *name = r->m->param[i]->name;
    return arena_text(&r->a->store, name, strlen(name) - tail_bytes(name), r->err);
}

static bool is_head(const reading *r, const char *name)
{
    return strcmp(name, "output") == 0 || (r->config.classifies && strcmp(name, "cls.output") == 0);
}

/* The head that shares the embedding, as if it were a parameter. */
static weft_status find_tied(reading *r, use *u)
{
    const tied_head *t = &r->plan.notes->tied;
    *u = (use){ .param = -1 };
    for (int64_t i = 0; t->hf && i < r->plan.n_param; i++)
        if (r->plan.param[i] == t->table)
            u->param = i;
    if (u->param < 0)
        return WEFT_OK;
    u->rows = rows_of(r, u->param);
    module_name(r, t->hf, tail_bytes(t->hf), u->module);
    u->name = arena_text(&r->a->store, t->name, strlen(t->name), r->err);
    return u->name ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status read_use(reading *r, const use *u, const char *tail, bool adaptable,
                            const use *shares)
{
    peft_match how;
    const peft_module module = { u->module, u->table, is_head(r, u->name) };
    weft_status status = peft_config_match(&r->config, &module, &how, r->err);
    if (status == WEFT_OK && how.targeted && adaptable)
        status = add_part(r, u, &how);
    return status == WEFT_OK ? read_whole(r, u, tail, how.saved, shares) : status;
}

static weft_status read_param(reading *r, int64_t i, const use *tied)
{
    const origin *o = &r->plan.notes->origin[i];
    const tensor *w = r->plan.param[i];
    if (!o->hf || o->stack || o->ways) /* experts are no modules */
        return WEFT_OK;
    const size_t cut = tail_bytes(o->hf);
    const char *tail = o->hf + (strlen(o->hf) - cut); /* bounded: it is the tail of the name */
    const bool adaptable = w->n_dim == 2 && !o->hf_dim && strcmp(tail, ".weight") == 0;
    use u = { .param = i, .name = weight_name(r, i), .rows = rows_of(r, i) };
    if (!u.name)
        return WEFT_ENOMEM;
    u.table = adaptable && (!w->multiplied || tied->param == i);
    module_name(r, o->hf, cut, u.module);
    return read_use(r, &u, tail, adaptable, tied->param == i ? tied : NULL);
}

static weft_status read_weights(reading *r)
{
    use tied;
    weft_status status = find_tied(r, &tied);
    for (int64_t i = 0; status == WEFT_OK && i < r->plan.n_param; i++)
        status = read_param(r, i, &tied);
    if (status == WEFT_OK && tied.param >= 0) {
        const use table = { .param = tied.param,
                            .name = weight_name(r, tied.param),
                            .table = true,
                            .rows = tied.rows };
        status = table.name ? read_use(r, &tied, ".weight", true, &table) : WEFT_ENOMEM;
    }
    return status;
}

/* ---- other tensors --------------------------------------------------------------------------- */

/* Is it about a module whose output the model does not need, such as BERT's pooler? */
static bool is_unused(const reading *r, const char *name)
{
    const export_notes *notes = r->plan.notes;
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
    const tied_head *t = &r->plan.notes->tied;
    bool touched = false;
    for (int64_t i = 0; i < r->a->n_part; i++)
        touched |= r->plan.param[r->a->part[i].param] == t->table;
    for (int64_t i = 0; i < r->a->n_whole; i++)
        touched |= r->plan.param[r->a->whole[i].param] == t->table;
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
    const size_t n = (size_t)r->plan.n_param + 4; /* bounded: by the model */
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
    choose_form(r);
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
        status = model_notes_open(&r.plan, m, r.err);
    if (status == WEFT_OK) {
        status = read_adapter(&r);
        model_notes_close(&r.plan);
    }
    peft_config_close(&r.config);
    if (status == WEFT_OK)
        return WEFT_OK;
    adapter_close(a);
    return r.err->code;
}

void adapter_close(adapter *a)
{
    arena_free(&a->store);
    container_close(&a->file);
    *a = (adapter){ 0 };
}

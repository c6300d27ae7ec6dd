/* peft_write.c - an adapter of an open model as the contents of a PEFT directory.
 *
 * A and B are made by lines.c. Whole weights are parts of modules that PEFT saves as a whole, so
 * what a module needs and the adapter does not replace is the model's own. */
#include "adapt/peft_write.h"

#include "adapt/peft_text.h"
#include "formats/safetensors_write.h"

#include <stdio.h>
#include <string.h>

/* What a PEFT directory needs beside the tensors. */
typedef struct writing {
    part_lines lines;
    peft_text_module *module; /* of each line */
    bool biases, elsewhere;   /* are there any; of modules without A and B? */
    weft_error *err;
} writing;

/* ---- parts ----------------------------------------------------------------------------------- */

static const real *gain_of(const adapter_part *p)
{
    return p->gain;
}

static const real *bias_of(const adapter_part *p)
{
    return p->bias;
}

static bool has_biases(const adapter *a)
{
    bool any = false;
    for (int64_t i = 0; i < a->n_part; i++)
        any |= a->part[i].bias != NULL;
    return any;
}

/* All parts of the module of line `first`. A part without a bias gets zeros if others have one. */
static weft_status put_parts(writing *w, int64_t first)
{
    part_lines *all = &w->lines;
    const part_line *l = &all->line[first];
    weft_status status = lines_put_parts(all, first, 1);
    if (status == WEFT_OK && all->a->part[0].gain)
        status = lines_put_vector(all, first, ".lora_magnitude_vector", gain_of);
    if (status == WEFT_OK && has_biases(all->a))
        status = lines_put_vector(all, first, ".lora_B.bias", bias_of);
    for (int64_t i = 0; i < all->n; i++) {
        if (strcmp(all->line[i].u.module, l->u.module) != 0)
            continue;
        w->module[i].targeted = true;
        w->module[i].r = rows(&l->part->a);
        w->module[i].scale = l->part->scale;
        all->line[i].done |= lines_same(l, &all->line[i]);
    }
    return status;
}

/* PEFT's flag for gains is for all parts. */
static weft_status check_gains(const writing *w)
{
    for (int64_t i = 0; i < w->lines.a->n_part; i++)
        if (!w->lines.a->part[i].gain != !w->lines.a->part[0].gain)
            return lines_refuse(
                &w->lines, w->lines.a->part[i].name,
                "some parts have gains (DoRA) and some have none; PEFT has one flag "
                "for all");
    return WEFT_OK;
}

/* ---- whole weights --------------------------------------------------------------------------- */

/* The type of the module's tensor: that of all whole weights in it, or else f32. */
static const dtype *whole_type(const writing *w, int64_t first)
{
    const dtype *type = NULL;
    for (int64_t i = first; i < w->lines.n; i++) {
        const part_line *l = &w->lines.line[i];
        if (!lines_same(&w->lines.line[first], l))
            continue;
        const dtype *own = l->whole ? l->whole->value.type : w->lines.m->param[l->u.param]->type;
        const bool fits = (!type || own == type) && own->safetensors && own->encode;
        type = fits ? own : &dtype_f32;
    }
    return type == &dtype_real || !type ? &dtype_f32 : type;
}

/* One weight into the module's tensor, row by row. In GPT-2's, rows are columns. */
static weft_status put_weight(const writing *w, const part_line *l, const dtype *type, char *to)
{
    const param_origin *o = &w->lines.modules.plan.notes->origin[l->u.param];
    const tensor *from = l->whole ? &l->whole->value : w->lines.m->param[l->u.param];
    const bool vector = from->n_dim == 1;
    const int64_t n_row = rows(from), n_col = vector ? 1 : cols(from);
    const size_t size = (size_t)type->bytes;
    real *x = mem_zalloc(&w->lines.m->host->mem, (size_t)n_col, sizeof *x, "an adapter", w->err);
    char *row = mem_zalloc(&w->lines.m->host->mem, (size_t)n_col, size, "an adapter", w->err);
    for (int64_t i = 0; x && row && i < n_row; i++) {
        const int64_t at = take_source_row(&l->u.rows, i);
        if (vector)
            from->type->decode(x, from->data, i, 1);
        else
            from->type->decode(x, tensor_rows(from, i, 1).data, 0, n_col);
        x[0] -= o->gain; /* stored less 1 */
        type->encode(row, x, n_col);
        for (int64_t k = 0; k < n_col; k++) {
            const int64_t place = o->flip ? k * l->u.rows.all + at : at * n_col + k;
            memcpy(to + (size_t)place * size, row + (size_t)k * size, size); /* bounded: inside */
        }
    }
    mem_free(&w->lines.m->host->mem, row);
    mem_free(&w->lines.m->host->mem, x);
    return x && row ? WEFT_OK : w->err->code;
}

/* The tensor of line `first` with all weights in it: replaced ones, and the model's own. */
static weft_status put_whole(writing *w, int64_t first, const char *below)
{
    char tail[32];
    int64_t shape[MAX_DIM];
    const part_line *l = &w->lines.line[first];
    const dtype *type = whole_type(w, first);
    const int n_dim = export_shape(&w->lines.modules.plan, l->u.param, shape);
    weft_status status = WEFT_OK;
    snprintf(tail, sizeof tail, "%s%s", below, l->u.tail);
    char *to = lines_add(&w->lines, &l->u, tail, type, n_dim, shape, NULL);
    if (!to)
        return w->err->code;
    for (int64_t i = first; status == WEFT_OK && i < w->lines.n; i++)
        if (lines_same(l, &w->lines.line[i])) {
            status = put_weight(w, &w->lines.line[i], type, to);
            w->lines.line[i].done = true;
        }
    return status;
}

/* Below base_layer, a head and the table that it shares are one. */
static weft_status check_shared(const writing *w, const part_line *l)
{
    const adapter_whole *other = NULL;
    if (l->u.param != w->lines.modules.tied)
        return WEFT_OK;
    for (int64_t i = 0; i < w->lines.n; i++)
        if (w->lines.line[i].u.param == l->u.param && &w->lines.line[i] != l)
            other = w->lines.line[i].whole;
    if (other && take_same(&other->value, &l->whole->value))
        return WEFT_OK;
    return lines_refuse(
        &w->lines, l->u.name,
        "both A and B and a whole weight for one use of a matrix that embedding and head "
        "share");
}

/* Whole weights of a module: its bias beside A and B, or all that it has. */
static weft_status put_module(writing *w, int64_t i)
{
    part_line *l = &w->lines.line[i];
    const bool targeted = w->module[i].targeted, bias = strcmp(l->u.tail, ".bias") == 0;
    bool matrix = false;
    for (int64_t k = 0; k < w->lines.n; k++)
        matrix |= w->lines.line[k].whole && strcmp(w->lines.line[k].u.module, l->u.module) == 0 &&
                  strcmp(w->lines.line[k].u.tail, ".bias") != 0;
    w->biases |= bias && (targeted || !matrix);
    w->elsewhere |= bias && !targeted && !matrix;
    if (targeted && !bias && check_shared(w, l) != WEFT_OK)
        return w->err->code;
    if (targeted || !matrix)
        return put_whole(w, i, targeted ? ".base_layer" : "");
    weft_status status = WEFT_OK;
    for (int64_t k = 0; status == WEFT_OK && k < w->lines.n; k++) {
        if (!w->lines.line[k].known || strcmp(w->lines.line[k].u.module, l->u.module) != 0)
            continue;
        w->module[k].saved = true;
        if (!w->lines.line[k].done)
            status = put_whole(w, k, "");
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const char *task_of(const model *m)
{
    static const char *const names[] = {
        [WEFT_TASK_GENERATE] = "CAUSAL_LM",  [WEFT_TASK_FILL] = NULL,
        [WEFT_TASK_CLASSIFY] = "SEQ_CLS",    [WEFT_TASK_TAG] = "TOKEN_CLS",
        [WEFT_TASK_ANSWER] = "QUESTION_ANS", [WEFT_TASK_EMBED] = "FEATURE_EXTRACTION",
    };
    if (m->task == WEFT_TASK_GENERATE && model_has_source(m))
        return "SEQ_2_SEQ_LM";
    const bool known = (size_t)m->task < sizeof names / sizeof *names;
    return known && !m->image.channels ? names[m->task] : NULL;
}

static weft_status put_text(const writing *w, const char *base, buffer *to)
{
    peft_text t = { .module = w->module,
                    .n = w->lines.n + w->lines.modules.plan.notes->n_unused, /* bounded: as named */
                    .base = base,
                    .task = task_of(w->lines.m),
                    .bias = w->elsewhere ? "all"
                            : w->biases  ? "lora_only"
                                         : "none",
                    .dora = w->lines.a->part[0].gain != NULL,
                    .lora_bias = has_biases(w->lines.a) };
    for (int64_t i = 0; i < w->lines.a->n_part; i++)
        t.fan_in_fan_out |= w->lines.modules.plan.notes->origin[w->lines.a->part[i].param].flip;
    peft_text_put(&t, to);
    return to->failed ? WEFT_ENOMEM : WEFT_OK;
}

/* The list of modules: of each line, and of those that the model leaves out. */
static weft_status name_modules(writing *w)
{
    const export_notes *notes = w->lines.modules.plan.notes;
    const size_t n = (size_t)w->lines.n + (size_t)notes->n_unused; /* bounded: by the model */
    w->module = mem_zalloc(&w->lines.m->host->mem, n, sizeof *w->module, "an adapter", w->err);
    if (!w->module)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < w->lines.n; i++)
        w->module[i].name = w->lines.line[i].u.module;
    for (int i = 0; i < notes->n_unused; i++)
        w->module[w->lines.n + i].name = notes->unused[i]; /* bounded: by n */
    return WEFT_OK;
}

static weft_status put_all(writing *w)
{
    weft_status status = check_gains(w);
    for (int64_t i = 0; status == WEFT_OK && i < w->lines.n; i++)
        if (w->lines.line[i].part && !w->lines.line[i].done)
            status = put_parts(w, i);
    for (int64_t i = 0; i < w->lines.n; i++)
        w->lines.line[i].done = false;
    for (int64_t i = 0; status == WEFT_OK && i < w->lines.n; i++)
        if (w->lines.line[i].whole && !w->lines.line[i].done)
            status = put_module(w, i);
    return status;
}

weft_status peft_contents_make(peft_contents *to, const adapter *a, const model *m,
                               const char *base, weft_error *err)
{
    weft_error own = { 0 };
    writing w = { .err = err ? err : &own };
    *to = (peft_contents){ 0 };
    buffer_begin(&to->config, &m->host->mem, w.err);
    weft_status status = lines_open(&w.lines, a, m, false, w.err);
    if (status == WEFT_OK)
        status = name_modules(&w);
    if (status == WEFT_OK)
        status = put_all(&w);
    if (status == WEFT_OK)
        status = put_text(&w, base, &to->config);
    to->tensor = w.lines.tensor;
    to->n_tensor = w.lines.n_tensor;
    to->store = w.lines.store;
    mem_free(&m->host->mem, w.module);
    lines_close(&w.lines);
    if (status != WEFT_OK)
        peft_contents_free(to);
    return status;
}

void peft_contents_free(peft_contents *c)
{
    buffer_end(&c->config);
    arena_free(&c->store);
    *c = (peft_contents){ 0 };
}

/* ---- files ----------------------------------------------------------------------------------- */

void peft_contents_put(const peft_contents *c, save *s, const char *path)
{
    safetensors_writer w;
    safetensors_writer_begin(&w, s);
    for (int64_t i = 0; i < c->n_tensor; i++)
        safetensors_add(&w, c->tensor[i].name, c->tensor[i].type, c->tensor[i].n_dim,
                        c->tensor[i].shape);
    safetensors_writer_head(&w, path);
    for (int64_t i = 0; i < c->n_tensor; i++)
        safetensors_writer_data(&w, c->tensor[i].data, c->tensor[i].bytes);
    safetensors_writer_end(&w);
}

weft_status peft_contents_write(const peft_contents *c, const char *directory, bool force, host *h,
                                weft_error *err)
{
    char weights[4096], config[4096];
    save s;
    if (!path_join(weights, sizeof weights, directory, PEFT_WEIGHTS) ||
        !path_join(config, sizeof config, directory, PEFT_CONFIG))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    if (!force && (path_exists(weights, h) || path_exists(config, h)))
        return weft_fail(err, WEFT_EIO, "%s: already exists; use --force to overwrite",
                         path_exists(config, h) ? config : weights);
    save_begin(&s, h, err);
    save_directory(&s, directory);
    peft_contents_put(c, &s, weights);
    save_file(&s, config);
    save_put(&s, c->config.at, c->config.n);
    return save_commit(&s);
}

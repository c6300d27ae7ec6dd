/* bind_tensor.c - finds weights in a file by name and checks their shapes.
 *
 *     want { stem, shape, how files differ } -> the stored tensor -> a tensor of the model
 *
 * One description serves three purposes: to bind weights for running, to record them for
 * conversion, or to plan them for a model that has no file yet. After this, shapes are trusted. */
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

bool bind_has(bind *b, const char *stem)
{
    char name[FILE_NAME_BYTES];
    return bind_look_up(b, &(want){ .stem = stem }, name) != NULL;
}

int64_t bind_rows_of(bind *b, const char *stem)
{
    char name[FILE_NAME_BYTES];
    const stored *t = bind_look_up(b, &(want){ .stem = stem }, name);
    return t && t->n_dim == 2 ? t->shape[0] : 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* The shape this file must have; returns the number of dimensions. */
static int file_shape(const bind *b, const want *w, int64_t *shape)
{
    memcpy(shape, w->shape, sizeof w->shape);
    if (w->stack && (b->gguf || !w->part)) {
        shape[0] = w->stack;
        shape[1] = w->part ? w->shape[0] : w->shape[0] / w->stack;
        shape[2] = w->shape[1];
        return w->n_dim + 1;
    }
    if (w->whole)
        shape[0] = w->whole_rows;
    if (!b->gguf && w->hf_flip) {
        shape[0] = w->shape[1];
        shape[1] = w->shape[0];
    }
    if (!b->gguf && w->hf_dim) {
        memcpy(shape, w->hf_shape, sizeof w->hf_shape);
        return w->hf_dim;
    }
    return w->n_dim;
}

/* ---- from the file --------------------------------------------------------------------------- */

/* A tensor of a model without a file. */
static const stored *plan_tensor(bind *b, const want *w)
{
    char name[FILE_NAME_BYTES] = "";
    if ((w->optional && !w->in_new) || !bind_hf_name(b, w, bind_suffix(w), name))
        return NULL;
    stored *t = bind_alloc(b, 1, sizeof *t);
    if (!t)
        return NULL;
    *t = (stored){ .type = &dtype_f32, .path = b->m->file.meta_path };
    t->n_dim = file_shape(b, w, t->shape);
    if (b->m->n_param == b->most || !stored_bytes(t->type, t->n_dim, t->shape, &t->bytes)) {
        bind_misfit(b, t, WEFT_EINVAL, "tensor %s is too large, or one too many", name);
        return NULL;
    }
    return t;
}

/* Matrix `part` of a tensor [stack, O, I], as if it were stored by itself. */
static const stored *stack_part(bind *b, const stored *all, const want *w)
{
    stored *t = bind_alloc(b, 1, sizeof *t);
    if (!t)
        return NULL;
    *t = *all;
    t->n_dim = w->n_dim;
    t->shape[0] = w->shape[0];
    t->shape[1] = w->shape[1];
    t->bytes = all->bytes / (uint64_t)w->stack;
    t->data = all->data + (uint64_t)(w->part - 1) * t->bytes; /* bounded: part <= stack */
    return t;
}

/* Its rows of the stored matrix, as if they were stored by themselves. */
static const stored *rows_part(bind *b, const stored *all, const want *w)
{
    stored *t = bind_alloc(b, 1, sizeof *t);
    if (!t)
        return NULL;
    *t = *all;
    const size_t row = dtype_row_bytes(all->type, w->shape[1]);
    t->shape[0] = w->shape[0];
    t->bytes = (uint64_t)w->shape[0] * row; /* bounded: row0 + O <= whole_rows, as shape_is saw */
    if (!all->spread) {
        t->data = all->data + (uint64_t)w->row0 * row;
        return t;
    }
    stored_spread *s = bind_alloc(b, 1, sizeof *s);
    if (!s)
        return NULL;
    *s = *all->spread;
    s->row0 = w->row0;
    t->spread = s;
    return t;
}

/* NULL if it is absent (an error unless optional) or has the wrong shape. */
static const stored *find_tensor(bind *b, const want *w)
{
    char name[FILE_NAME_BYTES] = "";
    int64_t shape[MAX_DIM];
    if (b->status != WEFT_OK)
        return NULL;
    if (b->is_new)
        return plan_tensor(b, w);
    const stored *t = bind_look_up(b, w, name);
    const stored *packed = !t && w->ways ? bind_packed(b, w) : NULL;
    if (packed || b->status != WEFT_OK)
        return packed;
    if (!t && !w->optional)
        bind_misfit(b, NULL, WEFT_EFORMAT, "tensor %s is missing", name);
    const int n_dim = file_shape(b, w, shape);
    if (!t || !bind_shape_is(b, t, name, n_dim, shape))
        return NULL;
    b->used[t - b->m->file.tensor] = true;
    const stored *apart = b->gguf ? NULL : bind_spread(b, w, t, name);
    if (b->status != WEFT_OK)
        return NULL;
    t = apart ? apart : t;
    if (!t->type->decode) {
        bind_misfit(b, t, WEFT_EUNSUPPORTED, "tensor %s is %s, which is not a weight type", name,
                    t->type->name);
        return NULL;
    }
    if (w->whole)
        return rows_part(b, t, w);
    return b->gguf && w->part ? stack_part(b, t, w) : t;
}

/* For conversion: records the source of the weight that is registered next. */
static void note_origin(bind *b, const want *w, const stored *from)
{
    char name[FILE_NAME_BYTES];
    param_origin *o = &b->m->notes->origin[b->m->n_param];
    *o = (param_origin){ .from = from,
                         .flip = w->hf_flip,
                         .heads = w->heads,
                         .hf_dim = w->hf_dim,
                         .stack = w->stack,
                         .expert = w->part - 1,
                         .ways = w->ways,
                         .way = w->way,
                         .whole_rows = w->whole ? w->whole_rows : 0,
                         .row0 = w->whole ? w->row0 : 0,
                         .follows = w->whole && w->row0 > 0,
                         .gain = w->gain && b->m->arch->hf_gain };
    memcpy(o->hf_shape, w->hf_shape, sizeof o->hf_shape);
    if (!bind_hf_name(b, w, bind_suffix(w), name))
        return;
    o->hf = arena_text(&b->m->store, name, strlen(name), b->err);
    if (w->whole) {
        bind_stem(b, w->whole, name);
        snprintf(name + strlen(name), sizeof ".weight", "%s", bind_suffix(w));
        o->whole = arena_text(&b->m->store, name, strlen(name), b->err);
    }
    if (!o->hf || (w->whole && !o->whole))
        b->status = WEFT_ENOMEM;
}

/* "blk.3.attn_q.weight", "blk.3.ffn_up_exps.7.weight" */
static void name_tensor(const bind *b, const want *w, char *to)
{
    char stem[NAME_BYTES], part[24] = "";
    bind_stem(b, w->stem, stem);
    if (w->part)
        snprintf(part, sizeof part, ".%lld", (long long)w->part - 1);
    const int room = (int)(NAME_BYTES - 8 - strlen(part));
    snprintf(to, NAME_BYTES, "%.*s%s%s", room, stem, part, bind_suffix(w));
}

static tensor *register_tensor(bind *b, const want *w, const stored *from)
{
    model *m = b->m;
    if (b->plan)
        note_origin(b, w, from);
    tensor *t = bind_alloc(b, 1, sizeof *t);
    if (!t)
        return NULL;
    name_tensor(b, w, t->name);
    t->type = w->as_real ? &dtype_real : from->type;
    t->n_dim = w->n_dim;
    memcpy(t->shape, w->shape, (size_t)w->n_dim * sizeof *w->shape);
    t->stride = w->shape[w->n_dim - 1];
    m->param[m->n_param++] = t;
    t->slot = m->n_param;
    m->n_parameter += w->shape[0] * (w->n_dim > 1 ? w->shape[1] : 1);
    return t;
}

/* All rows of a spread tensor, put together. */
static void *gathered(bind *b, const stored *t)
{
    const int64_t n = t->shape[t->n_dim - 1], n_row = t->n_dim > 1 ? t->shape[0] : 1;
    const size_t row = dtype_row_bytes(t->type, n);
    uint8_t *to = bind_alloc(b, n_row, row);
    for (int64_t i = 0; to && i < n_row; i++)
        stored_copy_row(t, i, n, to + (size_t)i * row);
    return to;
}

/* Weights stay in place in the mapped file, unless a kernel could not read them there. */
static void *in_place(bind *b, const stored *t)
{
    if (t->spread)
        return gathered(b, t);
    const size_t align = t->type->block > 1 ? 1 : (size_t)t->type->bytes;
    if ((uintptr_t)t->data % align == 0)
        return (void *)t->data;
    void *copy = bind_alloc(b, (int64_t)t->bytes, 1);
    return copy ? memcpy(copy, t->data, t->bytes) : NULL;
}

/* Decodes any stored type. */
static real *decoded(bind *b, const stored *t, int64_t n)
{
    real *x = bind_alloc(b, n, sizeof *x);
    const void *from = in_place(b, t);
    if (!x || !from)
        return NULL;
    t->type->decode(x, from, 0, n);
    return x;
}

/* [I, O] -> [O, I], element by element; block types are never transposed. */
static void *transposed(bind *b, const stored *t, int64_t O, int64_t I)
{
    const size_t size = (size_t)t->type->bytes;
    char *to = bind_alloc(b, O, (size_t)I * size);
    const uint8_t *from = t->spread ? gathered(b, t) : t->data;
    for (int64_t o = 0; to && from && o < O; o++)
        for (int64_t i = 0; i < I; i++)
            memcpy(to + (size_t)(o * I + i) * size, from + (size_t)(i * O + o) * size, size);
    return to;
}

tensor *bind_tensor(bind *b, const want *w)
{
    const stored *from = find_tensor(b, w);
    tensor *t = from ? register_tensor(b, w, from) : NULL;
    if (!t || b->plan)
        return t;
    const int64_t n = w->shape[0] * (w->n_dim > 1 ? w->shape[1] : 1);
    if (w->as_real) /* bounded: shape_is has compared it with the file */
        t->data = decoded(b, from, n);
    else if (w->hf_flip && !b->gguf)
        t->data = transposed(b, from, w->shape[0], w->shape[1]);
    else
        t->data = in_place(b, from);
    real *gain = w->gain && b->m->arch->hf_gain && !b->gguf ? t->data : NULL;
    for (int64_t k = 0; gain && k < n; k++)
        gain[k] += 1;
    return t->data ? t : NULL;
}

/* ---- interface for families ------------------------------------------------------------------ */

static const char *stem_text(bind *b, const char *stem)
{
    char *text = bind_alloc(b, NAME_BYTES, 1);
    if (!text)
        return "";
    bind_stem(b, stem, text);
    return text;
}

static tensor *vector(bind *b, const char *stem, const char *suffix, int64_t n)
{
    return bind_tensor(b, &(want){ .stem = stem,
                                   .suffix = suffix,
                                   .n_dim = 1,
                                   .shape = { n },
                                   .as_real = true,
                                   .gain = !suffix });
}

tensor *bind_numbers(bind *b, const char *stem, int64_t n)
{
    return bind_tensor(b, &(want){ .stem = stem, .n_dim = 1, .shape = { n }, .as_real = true });
}

/* The bias of a matrix: the file decides whether there is one, or in_new for a model without a
 * file. */
static tensor *bias_of(bind *b, const char *stem, int64_t n, int64_t heads, bind_bias in_new)
{
    return bind_tensor(b, &(want){ .stem = stem,
                                   .suffix = ".bias",
                                   .n_dim = 1,
                                   .shape = { n },
                                   .optional = true,
                                   .in_new = in_new == WITH_BIAS,
                                   .as_real = true,
                                   .heads = heads });
}

tensor *bind_table(bind *b, const char *stem, int64_t n, int64_t d)
{
    return bind_tensor(b, &(want){ .stem = stem, .n_dim = 2, .shape = { n, d } });
}

/* Marks a weight as an operand of matrix products. */
static tensor *multiplied(tensor *t)
{
    if (t)
        t->multiplied = true;
    return t;
}

tensor *bind_matrix(bind *b, const char *stem, int64_t O, int64_t I)
{
    return multiplied(bind_table(b, stem, O, I));
}

weight bind_linear(bind *b, const char *stem, int64_t O, int64_t I, bind_bias in_new)
{
    weight w = { .name = stem_text(b, stem) };
    w.w = bind_matrix(b, stem, O, I);
    w.b = bias_of(b, stem, O, 0, in_new);
    return w;
}

weight bind_conv1d(bind *b, const char *stem, int64_t O, int64_t I)
{
    weight w = { .name = stem_text(b, stem) };
    w.w = multiplied(
        bind_tensor(b, &(want){ .stem = stem, .n_dim = 2, .shape = { O, I }, .hf_flip = true }));
    w.b = bias_of(b, stem, O, 0, WITH_BIAS);
    return w;
}

weight bind_heads(bind *b, const char *stem, int64_t n_head, int64_t E, int64_t I, bind_bias in_new)
{
    const int64_t O = n_head * E;
    weight w = { .name = stem_text(b, stem) };
    w.w = multiplied(
        bind_tensor(b, &(want){ .stem = stem, .n_dim = 2, .shape = { O, I }, .heads = n_head }));
    w.b = bias_of(b, stem, O, n_head, in_new);
    return w;
}

weight bind_rows(bind *b, const char *stem, const char *whole, int64_t n, int64_t row0, int64_t O,
                 int64_t I)
{
    return (weight){ .name = stem_text(b, stem),
                     .w = multiplied(bind_tensor(b, &(want){ .stem = stem,
                                                             .n_dim = 2,
                                                             .shape = { O, I },
                                                             .whole = whole,
                                                             .whole_rows = n,
                                                             .row0 = row0 })) };
}

/* For conversion and adapters: what the head would be called if it were stored. */
static void note_tied(bind *b, const char *stem, const weight *w)
{
    char name[FILE_NAME_BYTES];
    tied_head *t = &b->m->notes->tied;
    *t = (tied_head){ .name = w->name, .table = w->w };
    if (!bind_hf_name(b, &(want){ .stem = stem }, ".weight", name))
        return;
    t->hf = arena_text(&b->m->store, name, strlen(name), b->err);
    if (!t->hf)
        b->status = WEFT_ENOMEM;
}

weight bind_tied(bind *b, const char *stem, tensor *table, bind_bias in_new)
{
    weight w = { .name = stem_text(b, stem), .w = multiplied(table) };
    if (b->plan && b->status == WEFT_OK)
        note_tied(b, stem, &w);
    if (table)
        w.b = bias_of(b, stem, rows(table), 0, in_new);
    return w;
}

weight bind_norm(bind *b, const char *stem, int64_t n, bool has_bias)
{
    weight w = { .name = stem_text(b, stem) };
    w.w = vector(b, stem, NULL, n);
    if (has_bias)
        w.b = vector(b, stem, ".bias", n);
    return w;
}

tensor *bind_head_norm(bind *b, const char *stem, int64_t E)
{
    return bind_tensor(
        b,
        &(want){
            .stem = stem, .n_dim = 1, .shape = { E }, .as_real = true, .gain = true, .heads = 1 });
}

tensor *bind_vector(bind *b, const char *stem, int64_t n)
{
    return bias_of(b, stem, n, 0, WITH_BIAS);
}

tensor *bind_bias_row(bind *b, const char *stem, int64_t n)
{
    return bind_tensor(b, &(want){ .stem = stem,
                                   .suffix = "",
                                   .n_dim = 2,
                                   .shape = { 1, n },
                                   .optional = true,
                                   .as_real = true });
}

tensor *bind_small_table(bind *b, const char *stem, int64_t n, int64_t d)
{
    return bind_tensor(b, &(want){ .stem = stem, .n_dim = 2, .shape = { n, d }, .as_real = true });
}

tensor *bind_parts(bind *b, const char *stem, int64_t n, int64_t O, int64_t I)
{
    return multiplied(
        bind_tensor(b, &(want){ .stem = stem, .n_dim = 2, .shape = { n * O, I }, .stack = n }));
}

tensor *bind_bare_table(bind *b, const char *stem, int64_t n, int64_t d)
{
    return bind_tensor(b, &(want){ .stem = stem,
                                   .suffix = "",
                                   .n_dim = 2,
                                   .shape = { n, d },
                                   .hf_dim = 3,
                                   .hf_shape = { 1, n, d } });
}

weight bind_patches(bind *b, const char *stem, int64_t O, int64_t C, int64_t P)
{
    weight w = { .name = stem_text(b, stem) };
    w.w = multiplied(bind_tensor(b, &(want){ .stem = stem,
                                             .n_dim = 2,
                                             .shape = { O, C * P * P },
                                             .hf_dim = 4,
                                             .hf_shape = { O, C, P, P } }));
    w.b = bias_of(b, stem, O, 0, WITH_BIAS);
    return w;
}

tensor *bind_made(bind *b, const char *name, int64_t n, int64_t d,
                  real (*number)(const void *of, int64_t row, int64_t col), const void *of)
{
    tensor *t = bind_alloc(b, 1, sizeof *t);
    if (!t)
        return NULL;
    t->type = &dtype_real;
    t->n_dim = 2;
    t->shape[0] = n;
    t->shape[1] = t->stride = d;
    snprintf(t->name, NAME_BYTES, "%s", name);
    if (b->plan)
        return t;
    real *x = bind_alloc(b, n, (size_t)d * sizeof *x);
    for (int64_t i = 0; x && i < n; i++)
        for (int64_t k = 0; k < d; k++)
            x[i * d + k] = number(of, i, k);
    t->data = x;
    return t;
}

const float *bind_divisors(bind *b, const char *stem, int64_t n)
{
    const want w = { .stem = stem, .n_dim = 1, .shape = { n }, .optional = true };
    const stored *t = find_tensor(b, &w);
    const void *from = t ? in_place(b, t) : NULL;
    float *x = from ? bind_alloc(b, n, sizeof *x) : NULL;
    for (int64_t i = 0; x && i < n; i++) {
        real value;
        t->type->decode(&value, from, i, 1);
        x[i] = (float)value;
        if (!(x[i] > 0) || !isfinite(x[i]))
            bind_misfit(b, t, WEFT_EFORMAT, "tensor %s holds %g, expected values above 0", t->name,
                        (double)x[i]);
    }
    return x;
}

/* ---- leftovers ------------------------------------------------------------------------------- */

void bind_ignore(bind *b, const char *hf_suffix)
{
    const container *c = &b->m->file;
    const size_t n = strlen(hf_suffix);
    for (int64_t i = 0; !b->gguf && i < c->n_tensor; i++) {
        const size_t length = strlen(c->tensor[i].name);
        if (length < n || strcmp(c->tensor[i].name + length - n, hf_suffix) != 0 || b->used[i])
            continue;
        b->used[i] = true;
        b->m->n_left_out++;
    }
}

void bind_ignore_module(bind *b, const char *hf)
{
    char name[FILE_NAME_BYTES];
    snprintf(name, sizeof name, "%s.weight", hf);
    bind_ignore(b, name);
    snprintf(name, sizeof name, "%s.bias", hf);
    bind_ignore(b, name);
    if (b->m->notes && b->m->notes->n_unused < MAX_UNUSED)
        b->m->notes->unused[b->m->notes->n_unused++] = hf;
}

void bind_ignore_layers(bind *b, int64_t n)
{
    const container *c = &b->m->file;
    for (int64_t l = b->m->n_layer; l < b->m->n_layer + n; l++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, b->gguf ? "blk.%lld." : "model.layers.%lld.", (long long)l);
        for (int64_t i = 0; i < c->n_tensor; i++) {
            if (b->used[i] || strncmp(c->tensor[i].name, prefix, strlen(prefix)) != 0)
                continue;
            b->used[i] = true;
            b->m->n_left_out++;
        }
    }
    if (b->m->notes)
        b->m->notes->n_further = n;
}

void bind_ignore_pictures(bind *b)
{
    static const char *const parts[] = { "vision_tower.",         "vision_model.", "visual.",
                                         "embed_vision.",         "audio_tower.",  "mtp.",
                                         "multi_modal_projector." };
    const container *c = &b->m->file;
    for (int64_t i = 0; !b->gguf && i < c->n_tensor; i++) {
        const char *name = c->tensor[i].name;
        name += strncmp(name, "model.", 6) == 0 ? 6 : 0;
        for (size_t k = 0; !b->used[i] && k < sizeof parts / sizeof *parts; k++)
            if (strncmp(name, parts[k], strlen(parts[k])) == 0) {
                b->used[i] = true;
                b->m->n_left_out++;
            }
    }
}

weft_status bind_finish(bind *b)
{
    const container *c = &b->m->file;
    for (int64_t i = 0; i < c->n_tensor && b->status == WEFT_OK; i++)
        if (!b->used[i])
            bind_misfit(b, &c->tensor[i], WEFT_EUNSUPPORTED, "unexpected tensor %s for a %s model",
                        c->tensor[i].name, b->m->name);
    return b->status;
}

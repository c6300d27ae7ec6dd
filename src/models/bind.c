#include "models/bind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static weft_status keep_first(bind *b, weft_status code, const char *path, const char *format,
                              va_list args) __attribute__((format(printf, 4, 0)));

static weft_status keep_first(bind *b, weft_status code, const char *path, const char *format,
                              va_list args)
{
    if (b->status != WEFT_OK)
        return b->status;
    char text[400];
    vsnprintf(text, sizeof text, format, args);
    b->status = weft_fail(b->err, code, "%s: %s", path, text);
    return b->status;
}

weft_status bind_fail(bind *b, weft_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    keep_first(b, code, b->m->file.meta_path, format, args);
    va_end(args);
    return b->status;
}

/* The same for a tensor, which may be in another file; NULL for one that is in none. */
__attribute__((format(printf, 4, 5))) static void misfit(bind *b, const stored *t, weft_status code,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    keep_first(b, code, t ? t->path : b->m->file.path, format, args);
    va_end(args);
}

/* ---- configuration --------------------------------------------------------------------------- */

typedef struct found {
    const meta *entry; /* NULL: absent */
    char key[128];
} found;

static found find(const bind *b, const char *gguf, const char *hf)
{
    found f = { 0 };
    const char *key = b->gguf ? gguf : hf;
    if (!key)
        return f;
    if (b->gguf)
        snprintf(f.key, sizeof f.key, "%s.%s", b->m->name, key);
    else
        snprintf(f.key, sizeof f.key, "%s", key);
    f.entry = container_meta(&b->m->file, f.key);
    return f;
}

/* A list has its values under other keys, "key.0" and so on, and would pass for nothing. */
static void refuse_list(bind *b, const found *f)
{
    char first[sizeof f->key + 2];
    snprintf(first, sizeof first, "%s.0", f->key);
    if (f->key[0] && !f->entry && container_meta(&b->m->file, first))
        bind_fail(b, WEFT_EFORMAT, "%s is a list; expected a number", f->key);
}

/* Keeps a value and its keys, which are constants of the program. */
static void learn(bind *b, const char *gguf, const char *hf, bool said, meta value)
{
    model *m = b->m;
    if (!b->plan || b->status != WEFT_OK)
        return;
    if (m->n_fact == MAX_FACT) {
        bind_fail(b, WEFT_EUNSUPPORTED, "a configuration of more than %d values", MAX_FACT);
        return;
    }
    m->fact[m->n_fact++] = (fact){ gguf, hf, value, said };
}

int64_t bind_int(bind *b, const char *gguf, const char *hf, int64_t otherwise, int64_t lo,
                 int64_t hi)
{
    const found f = find(b, gguf, hf);
    refuse_list(b, &f);
    if (!f.entry && otherwise == REQUIRED) {
        bind_fail(b, WEFT_EFORMAT, "%s is missing from the configuration", f.key);
        return lo;
    }
    if (f.entry && f.entry->type != META_INT) {
        bind_fail(b, WEFT_EFORMAT, "%s is not an integer", f.key);
        return lo;
    }
    const int64_t x = f.entry ? f.entry->integer : otherwise;
    learn(b, gguf, hf, f.entry, (meta){ .type = META_INT, .integer = x, .number = (double)x });
    if (x >= lo && x <= hi)
        return x;
    bind_fail(b, WEFT_EFORMAT, "%s is %lld%s, expected %lld to %lld", f.key, (long long)x,
              f.entry ? "" : " by default", (long long)lo, (long long)hi);
    return lo;
}

void bind_unused_int(bind *b, const char *hf, int64_t lo, int64_t hi)
{
    const found f = find(b, NULL, hf);
    refuse_list(b, &f);
    if (f.entry && (f.entry->type != META_INT || f.entry->integer < lo || f.entry->integer > hi))
        bind_fail(b, WEFT_EFORMAT, "%s is %g; expected %lld to %lld", f.key, f.entry->number,
                  (long long)lo, (long long)hi);
}

static double read_real(bind *b, const char *gguf, const char *hf, double otherwise, double lo,
                        double hi)
{
    const found f = find(b, gguf, hf);
    refuse_list(b, &f);
    if (!f.entry)
        return otherwise;
    if (f.entry->type != META_INT && f.entry->type != META_REAL)
        bind_fail(b, WEFT_EFORMAT, "%s is not a number", f.key);
    else if (!(f.entry->number >= lo && f.entry->number <= hi)) /* nor a NaN */
        bind_fail(b, WEFT_EFORMAT, "%s is %g; expected %g to %g", f.key, f.entry->number, lo, hi);
    else
        return f.entry->number;
    return otherwise;
}

double bind_real(bind *b, const char *gguf, const char *hf, double otherwise, double lo, double hi)
{
    const double x = read_real(b, gguf, hf, otherwise, lo, hi);
    learn(b, gguf, hf, find(b, gguf, hf).entry, (meta){ .type = META_REAL, .number = x });
    return x;
}

double bind_epsilon(bind *b, const char *gguf, const char *hf, double otherwise)
{
    return bind_real(b, gguf, hf, otherwise, 1e-37, 0.5); /* the least float is 1.2e-38 */
}

static const char *read_text(bind *b, const char *gguf, const char *hf)
{
    const found f = find(b, gguf, hf);
    if (!f.entry)
        return NULL;
    if (f.entry->type != META_TEXT)
        bind_fail(b, WEFT_EFORMAT, "%s is not text", f.key);
    return f.entry->type == META_TEXT ? f.entry->text : NULL;
}

const char *bind_text(bind *b, const char *gguf, const char *hf)
{
    const char *text = read_text(b, gguf, hf);
    if (text)
        learn(b, gguf, hf, true, (meta){ .type = META_TEXT, .text = text, .length = strlen(text) });
    return text;
}

bool bind_flag(bind *b, const char *gguf, const char *hf, bool otherwise)
{
    const found f = find(b, gguf, hf);
    if (f.entry && f.entry->type != META_BOOL)
        bind_fail(b, WEFT_EFORMAT, "%s is not true or false", f.key);
    const bool flag = f.entry ? f.entry->flag : otherwise;
    learn(b, gguf, hf, f.entry, (meta){ .type = META_BOOL, .flag = flag });
    return flag;
}

void bind_say_flag(bind *b, const char *gguf, const char *hf, bool flag)
{
    if (!(b->gguf ? gguf : hf))
        learn(b, gguf, hf, true, (meta){ .type = META_BOOL, .flag = flag });
}

void bind_say_int(bind *b, const char *gguf, const char *hf, int64_t x)
{
    if (!(b->gguf ? gguf : hf))
        learn(b, gguf, hf, true, (meta){ .type = META_INT, .integer = x, .number = (double)x });
}

void bind_say_text(bind *b, const char *gguf, const char *hf, const char *text)
{
    if (!(b->gguf ? gguf : hf))
        learn(b, gguf, hf, true, (meta){ .type = META_TEXT, .text = text, .length = strlen(text) });
}

void bind_implied(bind *b, const char *hf, bool flag)
{
    bind_say_flag(b, NULL, hf, flag);
}

bool bind_ties_head(bind *b, bool otherwise)
{
    static const char key[] = "tie_word_embeddings";
    if (!b->gguf)
        return bind_flag(b, NULL, key, otherwise);
    const bool tied = !bind_has(b, "output");
    bind_implied(b, key, tied);
    return tied;
}

act_kind bind_act(bind *b, const char *hf, act_kind otherwise)
{
    static const struct {
        const char *name;
        act_kind kind;
    } known[] = {
        { "silu", ACT_SILU }, { "swish", ACT_SILU },
        { "gelu", ACT_GELU }, { "gelu_new", ACT_GELU_TANH },
        { "relu", ACT_RELU }, { "gelu_pytorch_tanh", ACT_GELU_TANH },
    };
    const char *name = bind_text(b, NULL, hf);
    if (!name)
        return otherwise;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            if (known[i].kind != otherwise)
                b->m->unsayable = hf;
            return known[i].kind;
        }
    bind_fail(b, WEFT_EUNSUPPORTED, "%s is \"%.40s\", an activation weft does not know", hf, name);
    return otherwise;
}

/* The numbers of a rope_spec under both their names. Hugging Face has kept its own under three
 * roofs: rope_parameters.rope_type, rope_scaling.rope_type and rope_scaling.type. */
static const struct {
    size_t at; /* in rope_spec */
    const char *gguf, *hf;
    double otherwise, lo, hi;
    unsigned scalings; /* that use it */
} rope_numbers[] = {
    { offsetof(rope_spec, factor), "rope.scaling.factor", "rope_scaling.factor", 1, 1e-3, 1e6,
      1 << ROPE_LINEAR | 1 << ROPE_LLAMA3 | 1 << ROPE_YARN },
    { offsetof(rope_spec, low_freq), NULL, "rope_scaling.low_freq_factor", 1, 1e-3, 1e6,
      1 << ROPE_LLAMA3 },
    { offsetof(rope_spec, high_freq), NULL, "rope_scaling.high_freq_factor", 4, 1e-3, 1e6,
      1 << ROPE_LLAMA3 },
    { offsetof(rope_spec, beta_fast), "rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", 32,
      1e-3, 1e6, 1 << ROPE_YARN },
    { offsetof(rope_spec, beta_slow), "rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", 1,
      1e-3, 1e6, 1 << ROPE_YARN },
    { offsetof(rope_spec, attn_factor), NULL, "rope_scaling.attention_factor", 0, 0, 1e3,
      1 << ROPE_YARN },
    { offsetof(rope_spec, mscale), NULL, "rope_scaling.mscale", 0, 0, 1e3, 1 << ROPE_YARN },
    { offsetof(rope_spec, mscale_all), NULL, "rope_scaling.mscale_all_dim", 0, 0, 1e3,
      1 << ROPE_YARN },
    { offsetof(rope_spec, old_ctx), "rope.scaling.original_context_length",
      "rope_scaling.original_max_position_embeddings", 0, 1, 1 << 30,
      1 << ROPE_LLAMA3 | 1 << ROPE_YARN },
};
#define MAX_THETA     1e15
#define N_ROPE_NUMBER (sizeof rope_numbers / sizeof *rope_numbers)

static const char *const rope_names[] = { [ROPE_PLAIN] = "default",
                                          [ROPE_LINEAR] = "linear",
                                          [ROPE_LLAMA3] = "llama3",
                                          [ROPE_YARN] = "yarn" };

static double *rope_number(rope_spec *s, size_t i)
{
    return (double *)(void *)((char *)s + rope_numbers[i].at);
}

static rope_scaling scaling_by_name(bind *b, const char *name)
{
    if (!name || strcmp(name, "none") == 0)
        return ROPE_PLAIN;
    for (int i = 0; i < (int)(sizeof rope_names / sizeof *rope_names); i++)
        if (strcmp(rope_names[i], name) == 0)
            return (rope_scaling)i;
    bind_fail(b, WEFT_EUNSUPPORTED,
              "rope scaling \"%.40s\"; none, linear, llama3 and yarn are known", name);
    return ROPE_PLAIN;
}

static void rope_hf(bind *b, rope_spec *s)
{
    const bool new_roof = container_meta(&b->m->file, "rope_parameters.rope_theta") ||
                          container_meta(&b->m->file, "rope_parameters.rope_type");
    const char *roof = new_roof ? "rope_parameters" : "rope_scaling";
    char key[64];
#define UNDER(name) (snprintf(key, sizeof key, "%s.%s", roof, name), key)
    const char *kind = read_text(b, NULL, UNDER("rope_type"));
    s->scaling = scaling_by_name(b, kind ? kind : read_text(b, NULL, UNDER("type")));
    s->theta = read_real(b, NULL, new_roof ? UNDER("rope_theta") : "rope_theta", 10000, 1,
                         MAX_THETA);
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        *rope_number(s, i) = read_real(b, NULL, UNDER(strchr(rope_numbers[i].hf, '.') + 1),
                                       *rope_number(s, i), rope_numbers[i].lo, rope_numbers[i].hi);
#undef UNDER
}

static const char attn_key[] = "rope.scaling.attn_factor";
static const char log_key[] = "rope.scaling.yarn_log_multiplier"; /* a tenth of both mscales */

static void rope_gguf(bind *b, rope_spec *s)
{
    s->scaling = scaling_by_name(b, read_text(b, "rope.scaling.type", NULL));
    s->theta = read_real(b, "rope.freq_base", NULL, 10000, 1, MAX_THETA);
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        if (rope_numbers[i].gguf)
            *rope_number(s, i) = read_real(b, rope_numbers[i].gguf, NULL, *rope_number(s, i),
                                           rope_numbers[i].lo, rope_numbers[i].hi);
    s->mscale = s->mscale_all = 10 * read_real(b, log_key, NULL, 0, 0, 100);
    const double factor = read_real(b, attn_key, NULL, 1, 0, 1e3);
    if (s->scaling == ROPE_YARN && factor != 1)
        s->attn_factor = factor * (0.1 * log(s->factor) + 1);
}

/* For those who write: what the scaling in force needs, and no more. GGUF has no word for llama3:
 * its frequencies are a tensor there. */
static void learn_rope(bind *b, rope_spec *s)
{
    const bool named = s->scaling != ROPE_PLAIN, sayable = s->scaling != ROPE_LLAMA3;
    const char *name = rope_names[s->scaling];
    learn(b, "rope.freq_base", "rope_theta", true, (meta){ .type = META_REAL, .number = s->theta });
    if (named)
        learn(b, sayable ? "rope.scaling.type" : NULL, "rope_scaling.rope_type", true,
              (meta){ .type = META_TEXT, .text = name, .length = strlen(name) });
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        if (rope_numbers[i].scalings >> s->scaling & 1 && *rope_number(s, i) != 0)
            learn(b, sayable ? rope_numbers[i].gguf : NULL, rope_numbers[i].hf, true,
                  (meta){ .type = META_REAL, .number = *rope_number(s, i) });
    if (s->scaling == ROPE_YARN && s->attn_factor != 0)
        learn(b, attn_key, NULL, true,
              (meta){ .type = META_REAL, .number = s->attn_factor / (0.1 * log(s->factor) + 1) });
    if (s->scaling == ROPE_YARN && s->mscale_all != 0)
        learn(b, log_key, NULL, true, (meta){ .type = META_REAL, .number = 0.1 * s->mscale_all });
    if (s->scaling == ROPE_YARN && s->mscale_all != 0 && s->mscale != s->mscale_all)
        b->m->unsayable = "rope_scaling.mscale that differs from mscale_all_dim";
}

static void check_rope(bind *b, const rope_spec *s)
{
    if (s->theta <= 0 || s->factor <= 0 || s->old_ctx <= 0 || s->low_freq <= 0 || s->mscale < 0 ||
        s->mscale_all < 0 || s->high_freq <= s->low_freq || s->beta_slow <= 0 ||
        s->beta_fast <= s->beta_slow || (s->scaling == ROPE_YARN && s->theta == 1))
        bind_fail(b, WEFT_EFORMAT,
                  "rope parameters out of range (theta %g, factor %g, original context %g)",
                  s->theta, s->factor, s->old_ctx);
    if (s->n_rot % 2 != 0)
        bind_fail(b, WEFT_EFORMAT, "rotary positions need an even number, not %lld",
                  (long long)s->n_rot);
}

const rope_table *bind_rope(bind *b, rope_spec *s)
{
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        *rope_number(s, i) = rope_numbers[i].otherwise;
    s->old_ctx = (double)b->m->n_ctx;
    s->pairing = b->gguf ? b->m->arch->gguf_pairing : b->hf_adjacent ? ROPE_ADJACENT : ROPE_HALVES;
    if (b->gguf)
        rope_gguf(b, s);
    else
        rope_hf(b, s);
    check_rope(b, s);
    s->divisor = bind_divisors(b, "rope_freqs", s->n_rot / 2);
    learn_rope(b, s);
    if (b->status != WEFT_OK)
        return NULL;
    b->m->rope = *s;
    const rope_table *t = rope_new(s, b->m->n_ctx, &b->m->store, b->err);
    if (!t)
        b->status = WEFT_ENOMEM;
    return t;
}

/* ---- weights --------------------------------------------------------------------------------- */

void *bind_alloc(bind *b, int64_t n, size_t size)
{
    size_t bytes;
    if (b->status != WEFT_OK)
        return NULL;
    if (__builtin_mul_overflow((size_t)n, size, &bytes)) {
        bind_fail(b, WEFT_ENOMEM, "%lld objects are more than memory can hold", (long long)n);
        return NULL;
    }
    void *p = arena_alloc(&b->m->store, bytes, b->err);
    if (!p)
        b->status = WEFT_ENOMEM;
    return p ? memset(p, 0, bytes) : NULL;
}

/* "blk.3.attn_q", "enc.blk.3.attn_q", "blk.3.ffn_up_exps.7" */
static void full_stem(const bind *b, const char *stem, char *name)
{
    char expert[24] = "";
    if (b->expert >= 0)
        snprintf(expert, sizeof expert, ".%lld", (long long)b->expert);
    if (b->layer >= 0)
        snprintf(name, NAME_BYTES, "%sblk.%d.%s%s", b->part, b->layer, stem, expert);
    else
        snprintf(name, NAME_BYTES, "%s%s%s", b->part, stem, expert);
}

/* The name in a Hugging Face file of stem + suffix (".weight"); false where it has none. */
static bool hf_name(const bind *b, const char *stem, const char *suffix, char *name)
{
    const bind_name *n = b->names;
    while (n->stem && strcmp(n->stem, stem) != 0)
        n++;
    if (!n->stem)
        return false;
    char *to = name; /* names in the program are short enough */
    const char *s = n->hf;
    while (*s && *s != '=')
        if (*s == '%') {
            to += snprintf(to, 24, "%lld", s[1] == 'e' ? (long long)b->expert : b->layer);
            s += 2;
        } else {
            *to++ = *s++;
        }
    snprintf(to, sizeof ".weight", "%s", *s ? "" : suffix);
    return true;
}

/* A tensor of a directory by its name, with or without the prefix. */
static const stored *in_directory(bind *b, const char *name)
{
    const stored *t = container_tensor(&b->m->file, name);
    const size_t n = strlen(b->hf_prefix);
    if (t || strncmp(name, b->hf_prefix, n) != 0)
        return t;
    t = container_tensor(&b->m->file, name + n);
    b->m->hf_bare |= t != NULL;
    return t;
}

/* The file's tensor for stem + suffix, and the name it would have. Norms of BERT's first files have
 * TensorFlow's names for their gains and biases. */
static const stored *look_up(bind *b, const char *stem, const char *suffix, char *file_name)
{
    if (b->gguf) {
        char name[NAME_BYTES];
        full_stem(b, stem, name);
        snprintf(file_name, 2 * NAME_BYTES, "%s%s", name, suffix);
        return container_tensor(&b->m->file, file_name);
    }
    if (!hf_name(b, stem, suffix, file_name))
        return NULL;
    const stored *t = in_directory(b, file_name);
    char old[2 * NAME_BYTES];
    if (t || !hf_name(b, stem, strcmp(suffix, ".bias") == 0 ? ".beta" : ".gamma", old))
        return t;
    return in_directory(b, old);
}

static void describe(char *text, size_t size, int n_dim, const int64_t *shape)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < n_dim && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? ", " : "", (long long)shape[d]);
    if (at < size)
        snprintf(text + at, size - at, "]");
}

static bool shape_is(bind *b, const stored *t, const char *name, int n_dim, const int64_t *want)
{
    bool same = t->n_dim == n_dim;
    for (int d = 0; same && d < n_dim; d++)
        same = t->shape[d] == want[d];
    if (!same) {
        char got[96], expected[96];
        describe(got, sizeof got, t->n_dim, t->shape);
        describe(expected, sizeof expected, n_dim, want);
        misfit(b, t, WEFT_EFORMAT, "tensor %s is %s %s, expected %s", name, t->type->name, got,
               expected);
    }
    return same;
}

/* A tensor that is still to be made. What is optional comes into being where it is asked for. */
static const stored *conceive(bind *b, const char *stem, const char *suffix, int n_dim,
                              const int64_t *want, bool optional)
{
    char name[2 * NAME_BYTES] = "";
    const bool bias = strcmp(suffix, ".bias") == 0;
    if ((optional && !(bias && b->fresh_bias)) || !hf_name(b, stem, suffix, name))
        return NULL;
    stored *t = bind_alloc(b, 1, sizeof *t);
    if (!t)
        return NULL;
    *t = (stored){ .type = &dtype_f32, .n_dim = n_dim, .path = b->m->file.meta_path };
    memcpy(t->shape, want, (size_t)n_dim * sizeof *want);
    if (b->m->n_param == b->most || !stored_bytes(t->type, n_dim, t->shape, &t->bytes)) {
        misfit(b, t, WEFT_EINVAL, "tensor %s is too large, or one too many", name);
        return NULL;
    }
    return t;
}

/* Finds, checks and registers a tensor; NULL if it is absent (an error unless `optional`) or does
 * not fit. */
static const stored *claim(bind *b, const char *stem, const char *suffix, int n_dim,
                           const int64_t *want, bool optional)
{
    char name[2 * NAME_BYTES] = "";
    if (b->status != WEFT_OK)
        return NULL;
    if (b->fresh)
        return conceive(b, stem, suffix, n_dim, want, optional);
    const stored *t = look_up(b, stem, suffix, name);
    if (!t && !optional)
        misfit(b, NULL, WEFT_EFORMAT, "tensor %s is missing", name);
    if (!t || !shape_is(b, t, name, n_dim, want))
        return NULL;
    b->used[t - b->m->file.tensor] = true;
    if (!t->type->decode)
        misfit(b, t, WEFT_EUNSUPPORTED, "tensor %s is %s, which weights cannot be", name,
               t->type->name);
    return t->type->decode ? t : NULL;
}

/* For those who write: where the weight that is registered next comes from. */
static void trace_origin(bind *b, const char *stem, const char *suffix, const stored *from,
                         bool flip)
{
    char name[2 * NAME_BYTES];
    origin *o = &b->m->origin[b->m->n_param];
    *o = (origin){ .from = from, .flip = flip, .heads = b->heads, .hf_dim = b->hf_dim };
    o->stack = b->stack;
    o->expert = b->expert;
    memcpy(o->hf_shape, b->hf_shape, sizeof o->hf_shape);
    if (!hf_name(b, stem, suffix, name))
        return;
    o->hf = arena_text(&b->m->store, name, strlen(name), b->err);
    if (!o->hf)
        b->status = WEFT_ENOMEM;
}

static tensor *header(bind *b, const char *stem, const char *suffix, const dtype *type, int n_dim,
                      const int64_t *shape, const stored *from, bool flip)
{
    if (b->plan)
        trace_origin(b, stem, suffix, from, flip);
    tensor *w = bind_alloc(b, 1, sizeof *w);
    if (!w)
        return NULL;
    char name[NAME_BYTES];
    full_stem(b, stem, name);
    snprintf(w->name, NAME_BYTES, "%.*s%s", (int)(NAME_BYTES - 8), name, suffix);
    w->type = type;
    w->n_dim = n_dim;
    memcpy(w->shape, shape, (size_t)n_dim * sizeof *shape);
    w->stride = shape[n_dim - 1];

    model *m = b->m;
    m->param[m->n_param++] = w;
    m->n_parameter += shape[0] * (n_dim > 1 ? shape[1] : 1);
    return w;
}

/* Weights stay where they lie in the file, unless a kernel could not read them there. */
static void *in_place(bind *b, const stored *t)
{
    const size_t align = t->type->block > 1 ? 1 : (size_t)t->type->bytes;
    if ((uintptr_t)t->data % align == 0)
        return (void *)t->data;
    void *copy = bind_alloc(b, (int64_t)t->bytes, 1);
    return copy ? memcpy(copy, t->data, t->bytes) : NULL;
}

/* Whatever the file holds. */
static real *real_numbers(bind *b, const stored *t, int64_t n)
{
    real *x = bind_alloc(b, n, sizeof *x);
    const void *from = in_place(b, t);
    if (!x || !from)
        return NULL;
    t->type->decode(x, from, 0, n);
    return x;
}

/* A vector becomes real numbers: it is small, and ops read it as it is. */
static tensor *vector(bind *b, const char *stem, const char *suffix, int64_t n, bool optional)
{
    const stored *t = claim(b, stem, suffix, 1, &n, optional);
    if (!t)
        return NULL;
    tensor *w = header(b, stem, suffix, &dtype_real, 1, &n, t, false);
    if (!w || b->plan)
        return w;
    w->data = real_numbers(b, t, n);
    return w->data ? w : NULL;
}

static tensor *real_matrix(bind *b, const char *stem, const char *suffix, int64_t n, int64_t d,
                           bool optional)
{
    const int64_t shape[] = { n, d };
    const stored *t = claim(b, stem, suffix, 2, shape, optional);
    tensor *w = t ? header(b, stem, suffix, &dtype_real, 2, shape, t, false) : NULL;
    if (!w || b->plan)
        return w;
    w->data = real_numbers(b, t, n * d); /* bounded: shape_is has compared it with the file */
    return w->data ? w : NULL;
}

tensor *bind_bias_row(bind *b, const char *stem, int64_t n)
{
    return real_matrix(b, stem, "", 1, n, true);
}

tensor *bind_small_table(bind *b, const char *stem, int64_t n, int64_t d)
{
    return real_matrix(b, stem, ".weight", n, d, false);
}

/* [I, O] -> [O, I], number by number; stored types with blocks are never transposed. */
static void *transposed(bind *b, const stored *t, int64_t O, int64_t I)
{
    const size_t size = (size_t)t->type->bytes;
    char *to = bind_alloc(b, O, (size_t)I * size);
    for (int64_t o = 0; to && o < O; o++)
        for (int64_t i = 0; i < I; i++)
            memcpy(to + (size_t)(o * I + i) * size, t->data + (size_t)(i * O + o) * size, size);
    return to;
}

/* A matrix that a Hugging Face file has in the shape that b says, and GGUF knows nothing of. */
static tensor *reshaped(bind *b, const char *stem, const char *suffix, int64_t O, int64_t I)
{
    const int64_t shape[] = { O, I };
    const stored *t = claim(b, stem, suffix, b->hf_dim, b->hf_shape, false);
    tensor *w = t ? header(b, stem, suffix, t->type, 2, shape, t, false) : NULL;
    if (w && !b->plan)
        w->data = in_place(b, t);
    b->hf_dim = 0;
    return w;
}

/* hf_flip: a Hugging Face file has it [I, O]. */
static tensor *matrix(bind *b, const char *stem, int64_t O, int64_t I, bool hf_flip)
{
    const int64_t shape[] = { O, I }, flipped[] = { I, O };
    const bool flip = hf_flip && !b->gguf;
    const stored *t = claim(b, stem, ".weight", 2, flip ? flipped : shape, false);
    tensor *w = t ? header(b, stem, ".weight", t->type, 2, shape, t, hf_flip) : NULL;
    if (w && !b->plan)
        w->data = flip ? transposed(b, t, O, I) : in_place(b, t);
    return w;
}

static const char *stem_text(bind *b, const char *stem)
{
    char name[NAME_BYTES];
    full_stem(b, stem, name);
    char *text = bind_alloc(b, NAME_BYTES, 1);
    return text ? memcpy(text, name, NAME_BYTES) : "";
}

weight bind_linear(bind *b, const char *stem, int64_t O, int64_t I)
{
    weight w = { .name = stem_text(b, stem) };
    w.w = matrix(b, stem, O, I, b->hf_transposed);
    w.b = vector(b, stem, ".bias", O, true);
    return w;
}

weight bind_heads(bind *b, const char *stem, int64_t n_head, int64_t E, int64_t I)
{
    b->heads = n_head;
    const weight w = bind_linear(b, stem, n_head * E, I);
    b->heads = 0;
    return w;
}

weight bind_tied(bind *b, const char *stem, tensor *table)
{
    weight w = { .name = stem_text(b, stem), .w = table };
    if (table)
        w.b = vector(b, stem, ".bias", rows(table), true);
    return w;
}

weight bind_norm(bind *b, const char *stem, int64_t n, bool bias)
{
    weight w = { .name = stem_text(b, stem) };
    w.w = vector(b, stem, ".weight", n, false);
    if (bias)
        w.b = vector(b, stem, ".bias", n, false);
    return w;
}

tensor *bind_head_norm(bind *b, const char *stem, int64_t E)
{
    b->heads = 1;
    tensor *w = bind_norm(b, stem, E, false).w;
    b->heads = 0;
    return w;
}

tensor *bind_vector(bind *b, const char *stem, int64_t n)
{
    return vector(b, stem, ".bias", n, !b->fresh);
}

/* Matrix e of a tensor [n, O, I], as if the file had it so. */
static const stored *stored_part(bind *b, const char *stem, int64_t e, int64_t n, int64_t O,
                                 int64_t I)
{
    const int64_t shape[] = { n, O, I };
    const stored *all = claim(b, stem, ".weight", 3, shape, false);
    stored *t = all ? bind_alloc(b, 1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    *t = *all;
    t->n_dim = 2;
    t->shape[0] = O;
    t->shape[1] = I;
    t->bytes = all->bytes / (uint64_t)n;
    t->data = all->data + (uint64_t)e * t->bytes; /* bounded: e < n */
    return t;
}

tensor *bind_part(bind *b, const char *stem, int64_t e, int64_t n, int64_t O, int64_t I)
{
    const int64_t shape[] = { O, I };
    const stored *t = b->gguf ? stored_part(b, stem, e, n, O, I) : NULL;
    b->expert = e;
    b->stack = n;
    if (!b->gguf)
        t = claim(b, stem, ".weight", 2, shape, false);
    tensor *w = t ? header(b, stem, ".weight", t->type, 2, shape, t, false) : NULL;
    if (w && !b->plan)
        w->data = in_place(b, t);
    b->expert = -1;
    b->stack = 0;
    return w;
}

tensor *bind_parts(bind *b, const char *stem, int64_t n, int64_t O, int64_t I)
{
    const int64_t shape[] = { n, O, I }, flat[] = { n * O, I }; /* bounded: claim compares */
    const stored *t = claim(b, stem, ".weight", 3, shape, false);
    b->stack = n;
    tensor *w = t ? header(b, stem, ".weight", t->type, 2, flat, t, false) : NULL;
    b->stack = 0;
    if (w && !b->plan)
        w->data = in_place(b, t);
    return w;
}

tensor *bind_table(bind *b, const char *stem, int64_t n, int64_t d)
{
    return matrix(b, stem, n, d, false);
}

tensor *bind_bare_table(bind *b, const char *stem, int64_t n, int64_t d)
{
    const int64_t shape[MAX_DIM] = { 1, n, d };
    b->hf_dim = 3;
    memcpy(b->hf_shape, shape, sizeof shape);
    return reshaped(b, stem, "", n, d);
}

weight bind_patches(bind *b, const char *stem, int64_t O, int64_t C, int64_t P)
{
    const int64_t shape[MAX_DIM] = { O, C, P, P };
    weight w = { .name = stem_text(b, stem) };
    b->hf_dim = 4;
    memcpy(b->hf_shape, shape, sizeof shape);
    w.w = reshaped(b, stem, ".weight", O, C * P * P);
    w.b = vector(b, stem, ".bias", O, true);
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

bool bind_has(bind *b, const char *stem)
{
    char name[2 * NAME_BYTES];
    return look_up(b, stem, ".weight", name) != NULL;
}

int64_t bind_rows_of(bind *b, const char *stem)
{
    char name[2 * NAME_BYTES];
    const stored *t = look_up(b, stem, ".weight", name);
    return t && t->n_dim == 2 ? t->shape[0] : 0;
}

const float *bind_divisors(bind *b, const char *stem, int64_t n)
{
    const stored *t = claim(b, stem, ".weight", 1, &n, true);
    const void *from = t ? in_place(b, t) : NULL;
    float *x = from ? bind_alloc(b, n, sizeof *x) : NULL;
    for (int64_t i = 0; x && i < n; i++) {
        real value;
        t->type->decode(&value, from, i, 1);
        x[i] = (float)value;
        if (!(x[i] > 0) || !isfinite(x[i]))
            misfit(b, t, WEFT_EFORMAT, "tensor %s holds %g, expected numbers above 0", t->name,
                   (double)x[i]);
    }
    return x;
}

void bind_ignore(bind *b, const char *hf_suffix)
{
    const container *c = &b->m->file;
    const size_t n = strlen(hf_suffix);
    for (int64_t i = 0; !b->gguf && i < c->n_tensor; i++) {
        const size_t length = strlen(c->tensor[i].name);
        if (length >= n && strcmp(c->tensor[i].name + length - n, hf_suffix) == 0)
            b->m->n_ignored += !b->used[i], b->used[i] = true;
    }
}

weft_status bind_finish(bind *b)
{
    const container *c = &b->m->file;
    for (int64_t i = 0; i < c->n_tensor && b->status == WEFT_OK; i++)
        if (!b->used[i])
            misfit(b, &c->tensor[i], WEFT_EUNSUPPORTED,
                   "tensor %s is not part of a %s model as weft knows it", c->tensor[i].name,
                   b->m->name);
    return b->status;
}

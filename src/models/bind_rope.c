/* bind_rope.c - reads the configuration of rotary positions: base, scaling, factors.
 *
 * Separate from the other keys because both formats have moved these several times, and because
 * they are only valid together. */
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

/* The fields of a rope_spec under both their names. Hugging Face has used three places:
 * rope_parameters.rope_type, rope_scaling.rope_type and rope_scaling.type. */
static const struct {
    size_t at; /* offset in rope_spec */
    const char *gguf, *hf;
    double otherwise, lo, hi;
    unsigned scalings; /* kinds of scaling that use it */
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
      1 << ROPE_YARN | 1 << ROPE_LONG },
    { offsetof(rope_spec, mscale), NULL, "rope_scaling.mscale", 0, 0, 1e3, 1 << ROPE_YARN },
    { offsetof(rope_spec, mscale_all), NULL, "rope_scaling.mscale_all_dim", 0, 0, 1e3,
      1 << ROPE_YARN },
    { offsetof(rope_spec, old_ctx), "rope.scaling.original_context_length",
      "rope_scaling.original_max_position_embeddings", 0, 1, 1 << 30,
      1 << ROPE_LLAMA3 | 1 << ROPE_YARN | 1 << ROPE_LONG },
    { offsetof(rope_spec, warmth), "attention.temperature_scale",
      "rope_scaling.llama_4_scaling_beta", 0, 0, 1e3, 1 << ROPE_YARN },
};
#define MAX_THETA     1e15
#define N_ROPE_NUMBER (sizeof rope_numbers / sizeof *rope_numbers)

static const char *const rope_names[] = { [ROPE_PLAIN] = "default",
                                          [ROPE_LINEAR] = "linear",
                                          [ROPE_LLAMA3] = "llama3",
                                          [ROPE_YARN] = "yarn",
                                          [ROPE_LONG] = "longrope" };

static double *rope_number(rope_spec *s, size_t i)
{
    return (double *)(void *)((char *)s + rope_numbers[i].at);
}

static rope_scaling scaling_by_name(bind *b, const char *name)
{
    if (!name || strcmp(name, "none") == 0)
        return ROPE_PLAIN;
    if (strcmp(name, "su") == 0) /* its name in the first files of Phi-3 */
        return ROPE_LONG;
    for (int i = 0; i < (int)(sizeof rope_names / sizeof *rope_names); i++)
        if (strcmp(rope_names[i], name) == 0)
            return (rope_scaling)i;
    bind_fail(b, WEFT_EUNSUPPORTED,
              "unsupported rope scaling \"%.40s\"; expected none, linear, llama3, yarn or "
              "longrope",
              name);
    return ROPE_PLAIN;
}

/* The object that has the keys: Hugging Face has used four places. */
static const char *rope_roof(const bind *b)
{
    static const char *const roofs[] = { "rope_parameters.full_attention", "rope_parameters" };
    char key[64];
    for (size_t i = 0; i < sizeof roofs / sizeof *roofs; i++) {
        snprintf(key, sizeof key, "%s.rope_theta", roofs[i]);
        const bool theta = bind_has_key(b, key);
        snprintf(key, sizeof key, "%s.rope_type", roofs[i]);
        if (theta || bind_entry(b, key))
            return roofs[i];
    }
    return "rope_scaling";
}

/* A list of n factors above 0; NULL after an error. */
static const float *rope_factors(bind *b, const char *roof, const char *name, int64_t n)
{
    char key[96];
    float *x = bind_alloc(b, n, sizeof *x);
    for (int64_t i = 0; x && i < n; i++) {
        snprintf(key, sizeof key, "%s.%s.%lld", roof, name, (long long)i);
        const meta *m = bind_entry(b, key);
        const bool number = m && (m->type == META_INT || m->type == META_REAL);
        if (!number || !(m->number > 1e-6 && m->number < 1e6)) {
            bind_fail(b, WEFT_EFORMAT, "%s is missing or no factor; expected %lld numbers above 0",
                      key, (long long)n);
            return NULL;
        }
        x[i] = (float)m->number;
    }
    return x;
}

/* Phi-3 has the old context beside the object, and its factor follows from it. */
static void long_rope_hf(bind *b, rope_spec *s, const char *roof)
{
    s->old_ctx = bind_peek_real(b, NULL, "original_max_position_embeddings", s->old_ctx, 2,
                                1 << 30);
    s->factor = (double)b->m->n_ctx / s->old_ctx;
    s->divisor = rope_factors(b, roof, "short_factor", s->n_rot / 2);
    s->far_divisor = rope_factors(b, roof, "long_factor", s->n_rot / 2);
}

static void rope_hf(bind *b, rope_spec *s)
{
    const char *roof = rope_roof(b);
    const bool apart = strcmp(roof, "rope_scaling") == 0;
    const double theta = b->m->arch->hf_default.theta;
    char key[96];
#define UNDER(name) (snprintf(key, sizeof key, "%s.%s", roof, name), key)
    const char *kind = bind_peek_text(b, NULL, UNDER("rope_type"));
    s->scaling = scaling_by_name(b, kind ? kind : bind_peek_text(b, NULL, UNDER("type")));
    s->theta = bind_peek_real(b, NULL, apart ? "rope_theta" : UNDER("rope_theta"),
                              theta > 0 ? theta : s->theta, 1, MAX_THETA);
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        *rope_number(s, i) = bind_peek_real(b, NULL, UNDER(strchr(rope_numbers[i].hf, '.') + 1),
                                            *rope_number(s, i), rope_numbers[i].lo,
                                            rope_numbers[i].hi);
    const meta *cut = bind_entry(b, UNDER("truncate"));
    s->even_ramp = cut && cut->type == META_BOOL && !cut->flag;
    if (s->scaling == ROPE_LONG)
        long_rope_hf(b, s, roof);
#undef UNDER
}

static const char attn_key[] = "rope.scaling.attn_factor";
static const char log_key[] = "rope.scaling.yarn_log_multiplier"; /* 0.1 times each mscale */

static void rope_gguf(bind *b, rope_spec *s)
{
    s->scaling = scaling_by_name(b, bind_peek_text(b, "rope.scaling.type", NULL));
    s->theta = bind_peek_real(b, "rope.freq_base", NULL, s->theta, 1, MAX_THETA);
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        if (rope_numbers[i].gguf)
            *rope_number(s, i) = bind_peek_real(b, rope_numbers[i].gguf, NULL, *rope_number(s, i),
                                                rope_numbers[i].lo, rope_numbers[i].hi);
    s->mscale = s->mscale_all = 10 * bind_peek_real(b, log_key, NULL, 0, 0, 100);
    const double factor = bind_peek_real(b, attn_key, NULL, 1, 0, 1e3);
    if (s->scaling == ROPE_YARN && factor != 1)
        s->attn_factor = factor * (0.1 * log(s->factor) + 1);
    s->even_ramp = b->m->arch->even_ramp;
    s->far_divisor = bind_divisors(b, "rope_factors_long", s->n_rot / 2);
    if (!s->far_divisor)
        return;
    s->divisor = bind_divisors(b, "rope_factors_short", s->n_rot / 2);
    s->scaling = ROPE_LONG;
    s->attn_factor = factor;
    s->factor = (double)b->m->n_ctx / s->old_ctx;
    if (!s->divisor)
        bind_fail(b, WEFT_EFORMAT, "tensor rope_factors_short.weight is missing");
}

/* For conversion: records only the values that the active scaling needs. GGUF has no name for
 * llama3: it stores the frequencies as a tensor. */
static void keep_rope(bind *b, rope_spec *s)
{
    const bool named = s->scaling != ROPE_PLAIN, in_gguf = s->scaling != ROPE_LLAMA3;
    const char *name = rope_names[s->scaling];
    bind_keep(b, "rope.freq_base", "rope_theta", true,
              (meta){ .type = META_REAL, .number = s->theta });
    if (named)
        bind_keep(b, in_gguf ? "rope.scaling.type" : NULL, "rope_scaling.rope_type", true,
                  (meta){ .type = META_TEXT, .text = name, .length = strlen(name) });
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        if (rope_numbers[i].scalings >> s->scaling & 1 && *rope_number(s, i) != 0)
            bind_keep(b, in_gguf ? rope_numbers[i].gguf : NULL, rope_numbers[i].hf, true,
                      (meta){ .type = META_REAL, .number = *rope_number(s, i) });
    if (s->scaling == ROPE_YARN && s->even_ramp)
        bind_keep(b, NULL, "rope_scaling.truncate", true, (meta){ .type = META_BOOL });
    if (s->scaling == ROPE_YARN && s->even_ramp != b->m->arch->even_ramp)
        bind_not_convertible(b, "rope_scaling.truncate");
    if (s->scaling == ROPE_YARN && s->attn_factor != 0)
        bind_keep(
            b, attn_key, NULL, true,
            (meta){ .type = META_REAL, .number = s->attn_factor / (0.1 * log(s->factor) + 1) });
    if (s->scaling == ROPE_LONG)
        bind_keep(
            b, attn_key, NULL, true,
            (meta){ .type = META_REAL, .number = rope_frequencies(s, (double[MAX_HEAD]){ 0 }) });
    if (s->scaling == ROPE_YARN && s->mscale_all != 0)
        bind_keep(b, log_key, NULL, true,
                  (meta){ .type = META_REAL, .number = 0.1 * s->mscale_all });
    if (s->scaling == ROPE_YARN && s->mscale_all != 0 && s->mscale != s->mscale_all)
        bind_not_convertible(b, "rope_scaling.mscale that differs from mscale_all_dim");
}

static void check_rope(bind *b, const rope_spec *s)
{
    if (s->theta <= 0 || s->factor <= 0 || s->old_ctx <= 0 || s->low_freq <= 0 || s->mscale < 0 ||
        s->mscale_all < 0 || s->high_freq <= s->low_freq || s->beta_slow <= 0 ||
        s->beta_fast <= s->beta_slow || (s->scaling == ROPE_YARN && s->theta == 1))
        bind_fail(b, WEFT_EFORMAT,
                  "rope parameters out of range (theta %g, factor %g, original context %g)",
                  s->theta, s->factor, s->old_ctx);
    if (s->warmth != 0 && s->n_rot != s->d_head)
        bind_fail(b, WEFT_EUNSUPPORTED, "llama_4_scaling_beta where only a part of a head rotates");
    if (s->scaling == ROPE_LONG && s->old_ctx < 2)
        bind_fail(b, WEFT_EFORMAT, "original_max_position_embeddings is %g; expected 2 or more",
                  s->old_ctx);
}

static const rope_table *new_table(bind *b, const rope_spec *s)
{
    const rope_table *t = rope_new(s, b->m->n_ctx, &b->m->store, b->err);
    if (!t)
        b->status = WEFT_ENOMEM;
    return t;
}

const rope_table *bind_rope(bind *b, rope_spec *s)
{
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        *rope_number(s, i) = rope_numbers[i].otherwise;
    s->old_ctx = (double)b->m->n_ctx;
    s->theta = s->theta > 0 ? s->theta : 10000;
    s->pairing = b->gguf ? b->m->arch->gguf_pairing : b->hf_adjacent ? ROPE_ADJACENT : ROPE_HALVES;
    if (s->n_rot % 2 != 0)
        bind_fail(b, WEFT_EFORMAT, "rotary dimensions: %lld; expected an even number",
                  (long long)s->n_rot);
    if (b->gguf_keys)
        rope_gguf(b, s);
    else
        rope_hf(b, s);
    check_rope(b, s);
    const float *freqs = bind_divisors(b, "rope_freqs", s->n_rot / 2);
    s->divisor = freqs ? freqs : s->divisor;
    keep_rope(b, s);
    if (b->status != WEFT_OK)
        return NULL;
    s->warm_ctx = s->old_ctx;
    b->m->rope = *s;
    rope_spec even = *s; /* warmth is for queries alone: bind_warm_rope */
    even.warmth = 0;
    return new_table(b, &even);
}

const rope_table *bind_warm_rope(bind *b, const rope_spec *s)
{
    return b->status == WEFT_OK ? new_table(b, s) : NULL;
}

/* Their theta: of an object of its own, or beside the other's. */
static double local_theta(bind *b, const rope_spec *s)
{
    static const char roof[] = "rope_parameters.sliding_attention.rope_theta";
    const double otherwise = b->m->arch->local_theta > 0 ? b->m->arch->local_theta : s->theta;
    const char *kind = bind_peek_text(b, NULL, "rope_parameters.sliding_attention.rope_type");
    if (kind && strcmp(kind, "default") != 0)
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "rope_parameters.sliding_attention.rope_type is \"%.40s\"; expected default",
                  kind);
    const bool own = bind_has_key(b, roof);
    return bind_peek_real(b, "rope.freq_base_swa", own ? roof : "rope_local_base_freq", otherwise,
                          1, MAX_THETA);
}

const rope_table *bind_local_rope(bind *b, const rope_spec *s)
{
    rope_spec local = *s;
    local.theta = local_theta(b, s);
    local.scaling = ROPE_PLAIN;
    local.divisor = local.far_divisor = NULL;
    const bool hf_key = b->m->arch->local_theta > 0;
    bind_keep(b, "rope.freq_base_swa", hf_key ? "rope_local_base_freq" : NULL, true,
              (meta){ .type = META_REAL, .number = local.theta });
    if (b->gguf_keys && !hf_key && local.theta != s->theta)
        bind_not_convertible(b, "rope.freq_base_swa");
    return b->status == WEFT_OK ? new_table(b, &local) : NULL;
}

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
              "unsupported rope scaling \"%.40s\"; expected none, linear, llama3 or yarn", name);
    return ROPE_PLAIN;
}

static void rope_hf(bind *b, rope_spec *s)
{
    const bool new_roof = container_meta(b->m->config, "rope_parameters.rope_theta") ||
                          container_meta(b->m->config, "rope_parameters.rope_type");
    const char *roof = new_roof ? "rope_parameters" : "rope_scaling";
    char key[64];
#define UNDER(name) (snprintf(key, sizeof key, "%s.%s", roof, name), key)
    const char *kind = bind_peek_text(b, NULL, UNDER("rope_type"));
    s->scaling = scaling_by_name(b, kind ? kind : bind_peek_text(b, NULL, UNDER("type")));
    s->theta = bind_peek_real(b, NULL, new_roof ? UNDER("rope_theta") : "rope_theta", s->theta, 1,
                              MAX_THETA);
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        *rope_number(s, i) = bind_peek_real(b, NULL, UNDER(strchr(rope_numbers[i].hf, '.') + 1),
                                            *rope_number(s, i), rope_numbers[i].lo,
                                            rope_numbers[i].hi);
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
    if (s->scaling == ROPE_YARN && s->attn_factor != 0)
        bind_keep(
            b, attn_key, NULL, true,
            (meta){ .type = META_REAL, .number = s->attn_factor / (0.1 * log(s->factor) + 1) });
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
    if (s->n_rot % 2 != 0)
        bind_fail(b, WEFT_EFORMAT, "rotary dimensions: %lld; expected an even number",
                  (long long)s->n_rot);
}

const rope_table *bind_rope(bind *b, rope_spec *s)
{
    for (size_t i = 0; i < N_ROPE_NUMBER; i++)
        *rope_number(s, i) = rope_numbers[i].otherwise;
    s->old_ctx = (double)b->m->n_ctx;
    s->theta = s->theta > 0 ? s->theta : 10000;
    s->pairing = b->gguf ? b->m->arch->gguf_pairing : b->hf_adjacent ? ROPE_ADJACENT : ROPE_HALVES;
    if (b->gguf_keys)
        rope_gguf(b, s);
    else
        rope_hf(b, s);
    check_rope(b, s);
    s->divisor = bind_divisors(b, "rope_freqs", s->n_rot / 2);
    keep_rope(b, s);
    if (b->status != WEFT_OK)
        return NULL;
    b->m->rope = *s;
    const rope_table *t = rope_new(s, b->m->n_ctx, &b->m->store, b->err);
    if (!t)
        b->status = WEFT_ENOMEM;
    return t;
}

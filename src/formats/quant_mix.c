/* quant_mix.c - the rules of llama.cpp's mixes, by tensor name and layer. */
#include "formats/quant_mix.h"

#include <stdlib.h>
#include <strings.h>

/* The most sensitive layers: the first and the last eighth, and every third between. */
static bool felt_most(int64_t layer, int64_t n_layer)
{
    const int64_t eighth = n_layer / 8, last = n_layer - (n_layer + 7) / 8; /* bounded: layers */
    return layer < eighth || layer >= last || (layer - eighth) % 3 == 2;
}

/* The mixes: the type of a matrix in its layer, or NULL for the default type. */

static const dtype *mix_q2_k(quant_role role, int64_t layer, const quant_tensor *of)
{
    (void)layer;
    switch (role) {
    case ROLE_VALUES:
    case ROLE_FUSED:
    case ROLE_LATENT: /* small with grouped queries, and used by the whole group */
        return of->gqa >= 4 ? &dtype_q4_k : &dtype_q3_k;
    case ROLE_OUTPUT:
    case ROLE_DOWN:
        return &dtype_q3_k;
    default:
        return NULL;
    }
}

static const dtype *mix_q3_k_m(quant_role role, int64_t layer, const quant_tensor *of)
{
    switch (role) {
    case ROLE_VALUES:
    case ROLE_FUSED:
    case ROLE_LATENT:
        return layer < 2 ? &dtype_q5_k : &dtype_q4_k;
    case ROLE_OUTPUT:
        return &dtype_q4_k;
    case ROLE_DOWN:
        return layer < of->n_layer / 16 ? &dtype_q5_k : &dtype_q4_k;
    default:
        return NULL;
    }
}

static const dtype *mix_q3_k_l(quant_role role, int64_t layer, const quant_tensor *of)
{
    (void)layer, (void)of;
    return role == ROLE_OTHER ? NULL : &dtype_q5_k;
}

static const dtype *mix_q4_k_m(quant_role role, int64_t layer, const quant_tensor *of)
{
    if (role == ROLE_FUSED)
        return &dtype_q5_k;
    const bool finer = role == ROLE_VALUES || role == ROLE_DOWN;
    return finer && felt_most(layer, of->n_layer) ? &dtype_q6_k : NULL;
}

static const dtype *mix_q5_k_m(quant_role role, int64_t layer, const quant_tensor *of)
{
    return role == ROLE_FUSED ? &dtype_q6_k : mix_q4_k_m(role, layer, of);
}

static const dtype *mix_iq4(quant_role role, int64_t layer, const quant_tensor *of)
{
    switch (role) {
    case ROLE_VALUES:
    case ROLE_FUSED:
    case ROLE_LATENT:
        return of->gqa >= 4 ? &dtype_q5_k : NULL;
    case ROLE_DOWN:
        return layer < of->n_layer / 8 && !of->weighed ? &dtype_q5_k : NULL;
    default:
        return NULL;
    }
}

/* The form of gpt-oss: the experts are most of its weights. */
static const dtype *mix_mxfp4_moe(quant_role role, int64_t layer, const quant_tensor *of)
{
    (void)role, (void)layer;
    return strstr(of->name, "_exps.") ? NULL : &dtype_q8_0;
}

static const quant_target targets[] = {
    /* name, file_type, most, logits, mix */
    { "f32", 0, &dtype_f32, &dtype_f32, NULL },
    { "f16", 1, &dtype_f16, &dtype_f16, NULL },
    { "bf16", 32, &dtype_bf16, &dtype_bf16, NULL },
    { "q8_0", 7, &dtype_q8_0, &dtype_q8_0, NULL },
    { "q4_0", 2, &dtype_q4_0, &dtype_q6_k, NULL },
    { "q4_1", 3, &dtype_q4_1, &dtype_q6_k, NULL },
    { "q5_0", 8, &dtype_q5_0, &dtype_q6_k, NULL },
    { "q5_1", 9, &dtype_q5_1, &dtype_q6_k, NULL },
    { "q2_k", 10, &dtype_q2_k, &dtype_q6_k, mix_q2_k },
    { "q3_k_s", 11, &dtype_q3_k, &dtype_q6_k, NULL },
    { "q3_k_m", 12, &dtype_q3_k, &dtype_q6_k, mix_q3_k_m },
    { "q3_k", 12, &dtype_q3_k, &dtype_q6_k, mix_q3_k_m },
    { "q3_k_l", 13, &dtype_q3_k, &dtype_q6_k, mix_q3_k_l },
    { "q4_k_m", 15, &dtype_q4_k, &dtype_q6_k, mix_q4_k_m },
    { "q4_k", 15, &dtype_q4_k, &dtype_q6_k, mix_q4_k_m },
    { "q5_k_m", 17, &dtype_q5_k, &dtype_q6_k, mix_q5_k_m },
    { "q5_k", 17, &dtype_q5_k, &dtype_q6_k, mix_q5_k_m },
    { "q6_k", 18, &dtype_q6_k, &dtype_q6_k, NULL },
    { "iq4_nl", 25, &dtype_iq4_nl, &dtype_q6_k, mix_iq4 },
    { "iq4_xs", 30, &dtype_iq4_xs, &dtype_q6_k, mix_iq4 },
    { "mxfp4", 38, &dtype_mxfp4, &dtype_q8_0, NULL },
    { "mxfp4_moe", 38, &dtype_mxfp4, &dtype_q8_0, mix_mxfp4_moe },
};

const quant_target *quant_target_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcasecmp(targets[i].name, name) == 0)
            return &targets[i];
    return NULL;
}

/* "blk.12.attn_v.weight" is 12 and "attn_v.weight"; without a layer, -1 and the whole name. */
static int64_t split_layer(const char *name, const char **rest)
{
    *rest = name;
    if (strncmp(name, "blk.", 4) != 0)
        return -1;
    char *end;
    const long long layer = strtoll(name + 4, &end, 10); /* bounded: inside the name */
    if (end == name + 4 || *end != '.')                  /* bounded: the same */
        return -1;
    *rest = end + 1; /* bounded: after the dot */
    return layer;
}

static bool ends_in(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + (n - m), with) == 0; /* bounded: m <= n */
}

/* Tensors that are read element by element, or too small to gain anything. */
bool quant_stays_f32(const quant_tensor *of)
{
    const char *rest;
    split_layer(of->name, &rest);
    static const char *const small[] = { "position_embd.weight", "token_types.weight",
                                         "attn_rel_b.weight", "ffn_gate_inp.weight" };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strcmp(rest, small[i]) == 0)
            return true;
    return of->n_dim < 2 || !ends_in(rest, ".weight") || ends_in(rest, "_norm.weight");
}

static quant_role role_of(const char *rest)
{
    static const struct {
        const char *name;
        quant_role role;
    } known[] = {
        { "attn_v.weight", ROLE_VALUES },    { "attn_qkv.weight", ROLE_FUSED },
        { "attn_kv_b.weight", ROLE_LATENT }, { "attn_output.weight", ROLE_OUTPUT },
        { "ffn_down.weight", ROLE_DOWN },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(rest, known[i].name) == 0)
            return known[i].role;
    return strncmp(rest, "ffn_down_", 9) == 0 ? ROLE_DOWN : ROLE_OTHER;
}

const dtype *quant_wanted(const quant_target *t, const quant_tensor *of)
{
    const char *rest;
    const int64_t layer = split_layer(of->name, &rest);
    if (quant_stays_f32(of))
        return &dtype_f32;
    if (strcmp(rest, of->tied ? "token_embd.weight" : "output.weight") == 0)
        return t->logits;
    const dtype *mixed = t->mix ? t->mix(role_of(rest), layer, of) : NULL;
    return mixed ? mixed : t->most;
}

const dtype *quant_fitting(const dtype *wanted, int64_t row)
{
    const dtype *t = wanted;
    if (row % t->block != 0 && t->block > 32)
        t = t == &dtype_q2_k || t == &dtype_q3_k ? &dtype_q4_0
            : t == &dtype_iq4_xs                 ? &dtype_iq4_nl
            : t == &dtype_q4_k                   ? &dtype_q5_0
            : t == &dtype_q5_k                   ? &dtype_q5_1
                                                 : &dtype_q8_0;
    return row % t->block == 0 ? t : &dtype_f16;
}

/* quant_mix.c - the rules of llama.cpp's mixes, by a tensor's name and its layer. */
#include "formats/quant_mix.h"

#include <stdlib.h>
#include <strings.h>

static const quant_target targets[] = {
    /* name, file_type, most, finer, fused, logits */
    { "f32", 0, &dtype_f32, NULL, &dtype_f32, &dtype_f32 },
    { "f16", 1, &dtype_f16, NULL, &dtype_f16, &dtype_f16 },
    { "bf16", 32, &dtype_bf16, NULL, &dtype_bf16, &dtype_bf16 },
    { "q8_0", 7, &dtype_q8_0, NULL, &dtype_q8_0, &dtype_q8_0 },
    { "q4_0", 2, &dtype_q4_0, NULL, &dtype_q4_0, &dtype_q6_k },
    { "q4_1", 3, &dtype_q4_1, NULL, &dtype_q4_1, &dtype_q6_k },
    { "q5_0", 8, &dtype_q5_0, NULL, &dtype_q5_0, &dtype_q6_k },
    { "q5_1", 9, &dtype_q5_1, NULL, &dtype_q5_1, &dtype_q6_k },
    { "q4_k_m", 15, &dtype_q4_k, &dtype_q6_k, &dtype_q5_k, &dtype_q6_k },
    { "q4_k", 15, &dtype_q4_k, &dtype_q6_k, &dtype_q5_k, &dtype_q6_k },
    { "q5_k_m", 17, &dtype_q5_k, &dtype_q6_k, &dtype_q6_k, &dtype_q6_k },
    { "q5_k", 17, &dtype_q5_k, &dtype_q6_k, &dtype_q6_k, &dtype_q6_k },
    { "q6_k", 18, &dtype_q6_k, NULL, &dtype_q6_k, &dtype_q6_k },
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
    *rest = end + 1; /* bounded: behind the dot */
    return layer;
}

static bool ends_in(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + (n - m), with) == 0; /* bounded: m <= n */
}

/* Tensors that are read number by number, or so small that nothing is gained. */
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

/* The first and the last eighth of the layers, and every third of those between. */
static bool felt_most(int64_t layer, int64_t n_layer)
{
    const int64_t eighth = n_layer / 8, last = n_layer - (n_layer + 7) / 8; /* bounded: layers */
    return layer < eighth || layer >= last || (layer - eighth) % 3 == 2;
}

const dtype *quant_wanted(const quant_target *t, const quant_tensor *of)
{
    const char *rest;
    const int64_t layer = split_layer(of->name, &rest);
    if (quant_stays_f32(of))
        return &dtype_f32;
    if (strcmp(rest, of->tied ? "token_embd.weight" : "output.weight") == 0)
        return t->logits;
    if (strcmp(rest, "attn_qkv.weight") == 0)
        return t->fused;
    const bool felt = strcmp(rest, "attn_v.weight") == 0 || strcmp(rest, "ffn_down.weight") == 0;
    return t->finer && felt && felt_most(layer, of->n_layer) ? t->finer : t->most;
}

const dtype *quant_fitting(const dtype *wanted, int64_t row)
{
    const dtype *t = wanted;
    if (row % t->block != 0 && t->block > 32)
        t = t == &dtype_q4_k ? &dtype_q5_0 : t == &dtype_q5_k ? &dtype_q5_1 : &dtype_q8_0;
    return row % t->block == 0 ? t : &dtype_f16;
}

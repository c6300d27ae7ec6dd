/* gguf_lora.h - an adapter in a GGUF file, in llama.cpp's format:
 *
 *     general.type           "adapter"
 *     general.architecture   that of the model
 *     adapter.type           "lora"
 *     adapter.lora.alpha     f32; scale = alpha / r, or 1 if it is 0 or missing
 *
 *     blk.3.attn_q.weight.lora_a   [r, I]       token_embd.weight.lora_a   [V, r]
 *     blk.3.attn_q.weight.lora_b   [O, r]       token_embd.weight.lora_b   [D, r]
 *
 * r comes from the shapes. Rows of B are in the order that the weight has in GGUF: those of rotary
 * heads follow the architecture's pairing. The format has no gains (DoRA), biases or whole weights,
 * and one alpha for all: other scales are multiplied into B. */
#ifndef WEFT_ADAPT_GGUF_LORA_H
#define WEFT_ADAPT_GGUF_LORA_H

#include "adapt/adapter.h"

/* As peft_open. Every tensor of the file must belong to a weight of the model. */
weft_status gguf_lora_open(adapter *a, const model *m, const char *path, weft_load load,
                           weft_error *err);

typedef struct gguf_lora_report {
    int64_t n_tensor;
    uint64_t bytes; /* of the file */
} gguf_lora_report;

/* Writes one. base: the name of the model, or NULL. Without force, a file that exists is an error;
 * so is, by name, what the format does not have. */
weft_status gguf_lora_write(const adapter *a, const model *m, const char *base, const char *path,
                            bool force, gguf_lora_report *report, weft_error *err);

/* What GGUF calls the model's architecture; `own` is room for a name that only weft reads. */
#define GGUF_ARCH_BYTES 64
const char *gguf_lora_architecture(const model *m, char own[GGUF_ARCH_BYTES]);

/* Is it a file of this kind? */
bool gguf_is_lora(const container *c);

#endif

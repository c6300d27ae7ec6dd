/* hf_write.h - a tokenizer as a tokenizer.json, whatever file it came from.
 *
 *     tokenizer_write     the file
 *     tokenizer_config    the file transformers wants next to it: which tokens are special, and why
 *
 * The steps are those that hf_steps.c and hf_post.c read, so that the written file runs as the
 * original did. SentencePiece's normalizer becomes the steps that Hugging Face's own converter
 * writes for it. */
#ifndef WEFT_TEXT_SOURCES_HF_WRITE_H
#define WEFT_TEXT_SOURCES_HF_WRITE_H

#include "base/buffer.h"
#include "formats/container.h"
#include "text/tokenizer.h"

/* WEFT_EUNSUPPORTED, with an error message that names the part, if a tokenizer.json cannot express
 * something. Approximations are reported in the host's log. */
weft_status tokenizer_write(const tokenizer *t, buffer *to, weft_error *err);

/* `c` is the GGUF file that the tokenizer came from, which names more special tokens than a
 * tokenizer keeps and may have a chat template; or NULL. */
void tokenizer_config(const tokenizer *t, const container *c, buffer *to);

/* ---- shared by the two halves of the writer -------------------------------------------------- */

typedef struct hf_writer {
    const tokenizer *t;
    buffer *b;
    int n;          /* steps written so far to the current list */
    buffer spelled; /* the current token */
    weft_error *err;
    weft_status status; /* errors stick */
} hf_writer;

void hf_refuse(hf_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes text in quotes; an error if JSON cannot carry it. */
void hf_quote(hf_writer *w, const char *text, size_t n);

/* Writes "true" or "false" after a field's name. */
void hf_flag(hf_writer *w, const char *name, bool on);

void hf_write_normalizer(hf_writer *w);
void hf_write_pre_tokenizer(hf_writer *w);
void hf_write_decoder(hf_writer *w);

#endif

/* hf_write.h - a tokenizer as a tokenizer.json, whatever file it came from.
 *
 *     tokenizer_write     the file
 *     tokenizer_config    what transformers wants beside it: which tokens are special, and why
 *
 * The steps are those that hf_steps.c and hf_after.c read, so that what is written is executed as it
 * was. SentencePiece's normalizer becomes the steps that Hugging Face's own converter makes of
 * it. */
#ifndef WEFT_TEXT_SOURCES_HF_WRITE_H
#define WEFT_TEXT_SOURCES_HF_WRITE_H

#include "base/buffer.h"
#include "formats/container.h"
#include "text/tokenizer.h"

/* WEFT_EUNSUPPORTED, and a sentence that names it, where a tokenizer.json has no word for something.
 * What it says only nearly is told to the host's log. */
weft_status tokenizer_write(const tokenizer *t, buffer *to, weft_error *err);

/* `c` is the GGUF file that the tokenizer came from, which names more of its tokens than a tokenizer
 * keeps, and has a template for conversations; or NULL. */
void tokenizer_config(const tokenizer *t, const container *c, buffer *to);

/* ---- between the two halves of the writer ---------------------------------------------------- */

typedef struct hf_writer {
    const tokenizer *t;
    buffer *b;
    int n;          /* steps of the list that is being written */
    buffer spelled; /* the token that is being written */
    weft_error *err;
    weft_status status; /* errors stick */
} hf_writer;

void hf_refuse(hf_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text in quotes; refused where JSON cannot carry it. */
void hf_quote(hf_writer *w, const char *text, size_t n);

/* "true" or "false" behind a field's name. */
void hf_flag(hf_writer *w, const char *name, bool on);

void hf_write_normalizer(hf_writer *w);
void hf_write_pre_tokenizer(hf_writer *w);
void hf_write_decoder(hf_writer *w);

#endif

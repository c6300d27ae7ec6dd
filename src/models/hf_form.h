/* hf_form.h - what a model in memory looks like as a Hugging Face directory: what its parameters are
 * called there and how they lie, and the small files beside them. It is found out once, from the
 * file or directory that the model was opened from, which may then go. */
#ifndef WEFT_MODELS_HF_FORM_H
#define WEFT_MODELS_HF_FORM_H

#include "models/conversion.h"
#include "text/tokenizer.h"

typedef struct hf_form {
    arena store;
    outgoing *tensor; /* as f32; `from` has all but its data */
    int64_t n_tensor; /* the model's n_param, in the same order */
    small_text text[N_TEXT];
} hf_form;

/* With WEFT_LOAD_COPY the weights at `from` are in memory once more for a moment. */
weft_status hf_form_init(hf_form *f, const char *from, weft_load load, host *h, weft_error *err);
void hf_form_free(hf_form *f);

/* The tokenizer that the model is used with from now on, in place of its own; a sentence to the log
 * where no tokenizer.json can say it, and the form has none then. */
weft_status hf_form_take_tokenizer(hf_form *f, const tokenizer *t, weft_error *err);

/* Puts model.safetensors into a set of files; numbers[i]: those of parameter i, as the model
 * has them. */
void hf_form_weights(const hf_form *f, const float *const *numbers, const char *path, save *s);

#endif

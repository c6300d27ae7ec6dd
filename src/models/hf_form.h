/* hf_form.h - a loaded model described as a Hugging Face directory: the names and layouts of its
 * parameters, and its small files. It is built once, from the file or directory that the model was
 * opened from, which may be deleted afterwards. */
#ifndef WEFT_MODELS_HF_FORM_H
#define WEFT_MODELS_HF_FORM_H

#include "models/conversion.h"
#include "text/tokenizer.h"

typedef struct hf_form {
    arena store;
    outgoing *tensor; /* as f32; `from` has everything but the data */
    int64_t n_tensor; /* the model's n_param, in the same order */
    small_text text[N_TEXT];
} hf_form;

/* With WEFT_LOAD_COPY the weights of `from` are briefly in memory a second time. */
weft_status hf_form_init(hf_form *f, const char *from, weft_load load, host *h, weft_error *err);
void hf_form_free(hf_form *f);

/* Replaces the model's tokenizer. If tokenizer.json cannot express it, logs a warning, and the form
 * then has no tokenizer. */
weft_status hf_form_take_tokenizer(hf_form *f, const tokenizer *t, weft_error *err);

/* Replaces the model's chat template, or adds one. */
weft_status hf_form_take_template(hf_form *f, const char *text, size_t n, weft_error *err);

/* Adds model.safetensors to a set of files; numbers[i] is the data of parameter i, in the model's
 * layout. */
void hf_form_weights(const hf_form *f, const float *const *numbers, const char *path, save *s);

#endif

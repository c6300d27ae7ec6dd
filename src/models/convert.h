/* convert.h - a model from one form into another: a Hugging Face directory into a GGUF file and
 * back.
 *
 * What a tensor is called in both, and what its shape is, comes from where models are bound
 * (model_plan). The forms differ in three ways beside names: GPT-2's matrices are [I, O] in
 * a directory; the rows of q and k that turn together are E/2 apart in a directory and neighbours in
 * a GGUF file of some architectures; and vectors are f32 in GGUF.
 *
 * Tensors pass through a megabyte at a time; only the heads of files are ever in memory. */
#ifndef WEFT_MODELS_CONVERT_H
#define WEFT_MODELS_CONVERT_H

#include "models/conversion.h"

weft_status convert_model(const char *from, const char *to, const convert_options *o,
                          convert_report *report, host *h, weft_error *err);

#endif

/* convert.h - converts a model from a Hugging Face directory to a GGUF file and back.
 *
 * The names and the shape of a tensor in both formats come from binding (model_plan). Apart from
 * names, the formats differ in three ways:
 *
 * - GPT-2's matrices are [I, O] in a directory.
 * - The rows of q and k that rotate as a pair are E/2 apart in a directory, and neighbours in a
 *   GGUF file of some architectures.
 * - Vectors are f32 in GGUF.
 *
 * Tensors are streamed a megabyte at a time; only the headers of files are in memory as a whole. */
#ifndef WEFT_MODELS_CONVERT_H
#define WEFT_MODELS_CONVERT_H

#include "models/conversion.h"

weft_status convert_model(const char *from, const char *to, const convert_options *o,
                          convert_report *report, host *h, weft_error *err);

#endif

/* peft.h - reads an adapter from a directory as Hugging Face's PEFT writes it: adapter_config.json
 * and adapter_model.safetensors.
 *
 * LoRA with its ranks and scales, rsLoRA, DoRA, biases and whole modules are read; everything else
 * that a configuration can ask for is refused by name. Every module that the configuration targets
 * must be in the file, and every tensor of the file must belong to a weight of the model. */
#ifndef WEFT_ADAPT_PEFT_H
#define WEFT_ADAPT_PEFT_H

#include "adapt/adapter.h"

/* The model must be open for running, from any format, and outlive the adapter. Memory is counted in
 * the model's host. After an error the adapter is closed already. */
weft_status peft_open(adapter *a, const model *m, const char *directory, weft_load load,
                      weft_error *err);

#endif

/* adapter_life.h - opens bytes as an adapter for a small Phi-3 with every kind of weight. What opens
 * must lie inside the bytes that were given, fit the model, and leave no memory behind. */
#ifndef WEFT_TESTS_ADAPTER_LIFE_H
#define WEFT_TESTS_ADAPTER_LIFE_H

#include <stddef.h>
#include <stdint.h>

/* adapter_config.json and adapter_model.safetensors. */
void adapter_life_peft(const uint8_t *settings, size_t n_settings, const uint8_t *tensors,
                       size_t n_tensors);
void adapter_life_gguf(const uint8_t *data, size_t size);

#endif

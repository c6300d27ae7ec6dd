/* golden_adapters.h - adapters that PEFT made (tools/make_adapters.py), and the models they are for. */
#ifndef WEFT_TESTS_GOLDEN_ADAPTERS_H
#define WEFT_TESTS_GOLDEN_ADAPTERS_H

#include "adapt/adapter.h"

/* All of tests/golden/adapters. */
extern const struct adapter_golden {
    const char *name, *base;
} adapter_goldens[];
extern const size_t n_adapter_golden;

/* Paths in tests/golden and tests/golden/adapters, valid for the next eight calls. */
const char *golden_path(const char *name);
const char *adapter_path(const char *name);

typedef struct rig {
    host host;
    model model;
    adapter adapter;
} rig;

void open_model(rig *r, const char *path);
void open_both(rig *r, const char *base, const char *path);
void close_both(rig *r);

/* The part or the whole weight of this name; NULL if there is none. */
const adapter_part *part_named(const rig *r, const char *name);
const adapter_whole *whole_named(const rig *r, const char *name);
tensor *param_of(const model *m, const char *name, const char *tail);

/* The output for the golden's input is what PEFT computed. set: the adapter, or NULL. */
void check_forward(const char *name, const model *m, lora_set *set, const char *how);

/* That output, malloc'ed: n numbers. */
real *adapted_output(const char *name, const model *m, lora_set *set, int64_t *n);

/* The Llama whose head is its embedding, with a head of its own that equals it. */
const char *untied(void);

/* The directory as a temporary GGUF file. */
const char *as_gguf(const char *directory, const char *name);

#endif

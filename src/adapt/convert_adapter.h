/* convert_adapter.h - converts an adapter from a PEFT directory to a GGUF file and back.
 *
 * Names and shapes come from the base model, in either format: it is opened, and the adapter is read
 * for it as for running, then written. A and B keep their bytes; B does not if GGUF's one alpha
 * leaves a factor for it (gguf_lora.h). */
#ifndef WEFT_ADAPT_CONVERT_ADAPTER_H
#define WEFT_ADAPT_CONVERT_ADAPTER_H

#include "adapt/adapter.h"

typedef struct adapter_convert_report {
    weft_format to;
    char architecture[64];
    const dtype *type; /* of the first A */
    int64_t n_tensor, n_file;
    uint64_t bytes;
} adapter_convert_report;

/* `to` is a GGUF file if it ends in .gguf, otherwise a directory. */
weft_status adapter_convert(const char *from, const char *to, const char *base, bool force,
                            weft_load load, adapter_convert_report *report, host *h,
                            weft_error *err);

#endif

/* convert_adapter.c - reads an adapter for its base model and writes it in the other format. */
#include "adapt/convert_adapter.h"

#include "adapt/gguf_lora.h"
#include "adapt/peft_write.h"
#include "base/utf8.h"

#include <stdio.h>

static weft_status write_peft(const adapter *a, const model *m, const char *base, const char *to,
                              bool force, adapter_convert_report *r, weft_error *err)
{
    peft_contents c;
    weft_status status = peft_contents_make(&c, a, m, base, err);
    if (status != WEFT_OK)
        return status;
    status = peft_contents_write(&c, to, force, m->host, err);
    r->n_tensor = c.n_tensor;
    r->n_file = 2;
    r->bytes = c.config.n; /* bounded: all are in memory */
    for (int64_t i = 0; i < c.n_tensor; i++)
        r->bytes += c.tensor[i].bytes; /* bounded: likewise */
    peft_contents_free(&c);
    return status;
}

static weft_status write_gguf(const adapter *a, const model *m, const char *base, const char *to,
                              bool force, adapter_convert_report *r, weft_error *err)
{
    gguf_lora_report written = { 0 };
    const weft_status status = gguf_lora_write(a, m, base, to, force, &written, err);
    r->n_tensor = written.n_tensor;
    r->n_file = 1;
    r->bytes = written.bytes;
    return status;
}

weft_status adapter_convert(const char *from, const char *to, const char *base, bool force,
                            weft_load load, adapter_convert_report *report, host *h,
                            weft_error *err)
{
    model m;
    adapter a;
    *report = (adapter_convert_report){ .to = WEFT_FORMAT_HF };
    if (text_ends_with(to, ".gguf"))
        report->to = WEFT_FORMAT_GGUF;
    weft_status status = model_open(&m, base, load, h, err);
    if (status != WEFT_OK)
        return status;
    snprintf(report->architecture, sizeof report->architecture, "%s", m.name);
    status = adapter_open(&a, &m, from, load, err);
    if (status == WEFT_OK) {
        const char *name = a.base ? a.base : base;
        report->type = a.n_part ? a.part[0].a.type : &dtype_f32;
        status = (report->to == WEFT_FORMAT_GGUF ? write_gguf : write_peft)(&a, &m, name, to, force,
                                                                            report, err);
        adapter_close(&a);
    }
    model_close(&m);
    return status;
}

/* gguf_lora_write.c - writes an adapter as a GGUF file; gguf_lora.h has the format.
 *
 * One alpha is for all parts, so it is the one that most of them need, and B of the others is
 * multiplied by what is missing. llama.cpp's own converter writes a wrong scale there. */
#include "adapt/gguf_lora.h"
#include "adapt/lines.h"
#include "base/save.h"
#include "formats/gguf_write.h"
#include "formats/kept.h"

#include <math.h>
#include <string.h>

/* ---- what GGUF cannot say -------------------------------------------------------------------- */

static weft_status check_forms(const part_lines *w)
{
    const adapter *a = w->a;
    if (a->n_whole > 0)
        return lines_refuse(w, a->whole[0].name,
                            "it is replaced as a whole, and GGUF has A and B only");
    for (int64_t i = 0; i < a->n_part; i++) {
        const adapter_part *p = &a->part[i];
        if (p->gain)
            return lines_refuse(w, p->name, "it has gains (DoRA), and GGUF has A and B only");
        if (p->bias)
            return lines_refuse(w, p->name, "it has a bias beside B, and GGUF has A and B only");
        if (p->param == w->modules.tied && !p->table)
            return lines_refuse(w, p->name,
                                "the head shares the embedding, and GGUF has no name for it alone");
    }
    return WEFT_OK;
}

/* llama.cpp multiplies with every use of a table that it finds an adapter for. */
static void warn_tied(const part_lines *w, const char *path)
{
    for (int64_t i = 0; i < w->a->n_part; i++)
        if (w->a->part[i].param == w->modules.tied)
            log_write(&w->m->host->log, WEFT_LOG_WARN,
                      "%s: adapts an embedding that the head shares; weft changes the embedding "
                      "alone, and llama.cpp cannot load such an adapter",
                      path);
}

/* ---- one alpha ------------------------------------------------------------------------------- */

static double alpha_of(const adapter_part *p)
{
    return p->scale * (double)rows(&p->a);
}

/* The alpha of most parts, as f32. 0 would mean that scales are 1. */
static float most_alpha(const adapter *a)
{
    int64_t most = 0;
    float best = 1;
    for (int64_t i = 0; i < a->n_part; i++) {
        const float alpha = (float)alpha_of(&a->part[i]);
        int64_t n = 0;
        for (int64_t k = 0; k < a->n_part; k++)
            n += (float)alpha_of(&a->part[k]) == alpha; /* bounded: by the parts */
        if (n > most && isnormal(alpha)) {
            most = n;
            best = alpha;
        }
    }
    return best;
}

/* What B must be multiplied by: 1 if only rounding differs. */
static double factor_of(const adapter_part *p, float alpha)
{
    const double own = alpha_of(p);
    return (float)own == alpha ? 1 : own / (double)alpha;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void put_text(gguf_writer *w, const char *key, const char *text)
{
    gguf_add_text(w, key, text, strlen(text));
}

static void put_keys(gguf_writer *w, const model *m, const char *base, float alpha)
{
    char own[GGUF_ARCH_BYTES];
    put_text(w, "general.architecture", gguf_lora_architecture(m, own));
    put_text(w, "general.type", "adapter");
    if (base) {
        gguf_add_u32(w, "general.base_model.count", 1);
        put_text(w, "general.base_model.0.name", base);
    }
    put_text(w, "adapter.type", "lora");
    gguf_add_f32(w, "adapter.lora.alpha", alpha);
    put_text(w, "weft.converted_by", "weft " WEFT_VERSION);
}

static weft_status put_file(const part_lines *w, const char *base, float alpha, const char *path,
                            uint64_t *bytes)
{
    save s;
    gguf_writer g;
    save_begin(&s, w->m->host, w->err);
    gguf_writer_begin(&g, &s);
    put_keys(&g, w->m, base, alpha);
    for (int64_t i = 0; i < w->n_tensor; i++)
        gguf_add_tensor(&g, w->tensor[i].name, w->tensor[i].type, w->tensor[i].n_dim,
                        w->tensor[i].shape);
    gguf_writer_head(&g, path);
    for (int64_t i = 0; i < w->n_tensor; i++)
        gguf_writer_data(&g, w->tensor[i].data, w->tensor[i].bytes);
    gguf_writer_end(&g);
    *bytes = s.total;
    return save_commit(&s);
}

static weft_status put_tensors(part_lines *w, float alpha)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; status == WEFT_OK && i < w->n; i++) {
        const part_line *l = &w->line[i];
        if (!l->part || l->done)
            continue;
        status = lines_put_parts(w, i, factor_of(l->part, alpha));
        for (int64_t k = 0; k < w->n; k++)
            w->line[k].done |= lines_same(l, &w->line[k]);
    }
    return status;
}

weft_status gguf_lora_write(const adapter *a, const model *m, const char *base, const char *path,
                            bool force, gguf_lora_report *report, weft_error *err)
{
    part_lines w;
    weft_error own = { 0 };
    err = err ? err : &own;
    if (!force && path_exists(path, m->host))
        return weft_fail(err, WEFT_EIO, "%s: already exists; use --force to overwrite", path);
    const float alpha = most_alpha(a);
    weft_status status = lines_open(&w, a, m, true, err);
    if (status == WEFT_OK)
        status = check_forms(&w);
    if (status == WEFT_OK)
        status = put_tensors(&w, alpha);
    if (status == WEFT_OK)
        warn_tied(&w, path);
    if (status == WEFT_OK)
        status = put_file(&w, base, alpha, path, &report->bytes);
    report->n_tensor = w.n_tensor;
    lines_close(&w);
    arena_free(&w.store);
    return status;
}

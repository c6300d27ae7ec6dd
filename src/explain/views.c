/* views.c - the table of views, and the document they are parts of. */
#include "explain/views.h"

#include <string.h>

const page_view views[] = {
    { 1, "pipeline", "Pipeline", "003 §1, 004 §1.8", NULL, view_pipeline },
    { 2, "tokens", "Tokens", "003 §2", no_tokens, view_tokens },
    { 3, "embeddings", "Embeddings", "003 §3, 000", NULL, view_embeddings },
    { 4, "positions", "Positions", "003 §3, 004 §1.7", no_position_table, view_positions },
    { 5, "rope", "Rotary positions", "000, 001, 002, 004 Appendix", no_rope, view_rope },
    { 6, "residual", "Norm and residual", "000, 002, 003 §4", no_residual, view_residual },
    { 7, "query", "One query by hand", "003 §5, 002, 004 §1.2-1.6", no_attention, view_hand },
    { 8, "heads", "Heads", "003 §5, 004 §1.1, §1.6, §1.8", no_attention, view_heads },
    { 9, "mask", "Mask", "000, 003 §5, 004 §1.4", no_attention, view_mask },
    { 10, "root", "Why the root of d", "004 §1.4", no_attention, view_root },
    { 11, "shared", "Shared heads", "000 RepeatKV, 004", no_attention, view_shared },
    { 12, "latent", "Latent attention", "004", no_latent, view_latent },
    { 13, "feed_forward", "Feed forward", "000, 002, 003 §7", no_feed_forward, view_feed_forward },
    { 14, "cache", "Cache", "000, 001, 003 §6", no_cache, view_cache },
    { 15, "output", "Output", "000, 003 §8, §4", no_output, view_output },
    { 16, "beams", "Beams", "003 §8", no_beams, view_beams },
    { 17, "encoder-decoder", "Encoder and decoder", "004 §1.8", no_pair, view_pair },
    { 18, "alignment", "Alignment", "004 §1.4-1.5", no_alignment, view_alignment },
    { 20, "picture", "Picture", "004 Vision Transformer", no_picture, view_picture },
    { 21, "objective", "Objective", "003 §9, 004 §1.9", no_lesson, view_objective },
    { 22, "backward", "Backward", "003 §9", no_lesson, view_backward },
    { 23, "update", "Update", "003 §10", no_lesson, view_update },
    { 24, "cost", "Cost", "003 §5-7, §11", NULL, view_cost },
    { 25, "flash", "Attention in blocks", "004, 001", no_attention, view_flash },
    { 26, "checks", "Checks", "all", NULL, view_checks },
};
const int n_view = sizeof views / sizeof *views;

bool view_named(const char *names, size_t n, const page_view *v)
{
    const size_t length = strlen(v->name);
    for (size_t at = 0; at < n;) {
        const char *comma = memchr(names + at, ',', n - at);
        const size_t end = comma ? (size_t)(comma - names) : n;
        if (end - at == length && memcmp(names + at, v->name, length) == 0)
            return true;
        at = end + 1;
    }
    return !names;
}

const char *no_attention(const subject *s)
{
    return s->layer[s->at_layer].scores ? NULL
           : !no_alignment(s) ? "Attention here is additive, not by products. See view 18."
                              : "This layer has no attention by products.";
}

static void write_facts(const subject *s, document *d)
{
    const model *m = s->model;
    const struct {
        const char *name;
        int64_t value;
    } fact[] = {
        { "n_layer", m->n_layer },         { "n_head", m->n_head }, { "n_head_kv", m->n_head_kv },
        { "d_model", m->d_model },         { "d_head", m->d_head }, { "d_ff", m->d_ff },
        { "n_vocab", m->n_vocab },         { "n_ctx", m->n_ctx },   { "n_expert", m->n_expert },
        { "n_parameter", m->n_parameter },
    };
    doc_object(d, "model");
    doc_text(d, "title", s->title);
    doc_text(d, "architecture", m->name);
    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++)
        doc_int(d, fact[i].name, fact[i].value);
    doc_bool(d, "causal", m->task == WEFT_TASK_GENERATE);
    doc_real(d, "seconds", s->seconds);
    doc_end(d);
}

/* Of an encoder-decoder: whose layer each of the page's is, and which of the record. */
static void write_stacks(const subject *s, document *d)
{
    static const char *const names[] = {
        [STACK_ENCODER] = "encoder", [STACK_DECODER] = "decoder", [STACK_CROSS] = "cross"
    };
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        doc_object(d, NULL);
        doc_text(d, "stack", names[p->stack]);
        doc_int(d, "number", p->number);
        doc_int(d, "block", p->block);
        doc_int(d, "n_head", p->scores ? p->n_head : 1);
        doc_end(d);
    }
    doc_end(d);
}

static void write_tokens(const subject *s, const char *key, document *d)
{
    doc_list(d, key);
    for (int64_t i = 0; i < s->n_token; i++) {
        doc_object(d, NULL);
        doc_int(d, "id", s->token[i].id);
        doc_bytes(d, "text", s->token[i].bytes, s->token[i].n);
        doc_end(d);
    }
    doc_end(d);
}

static void write_view(const page_view *v, const subject *s, document *d)
{
    const char *why = v->why_not ? v->why_not(s) : NULL;
    doc_object(d, NULL);
    doc_int(d, "number", v->number);
    doc_text(d, "view", v->name);
    doc_text(d, "title", v->title);
    doc_text(d, "seed", v->seed);
    if (why)
        doc_text(d, "why_not", why);
    else
        v->write(s, d);
    doc_end(d);
}

void views_write(const subject *s, const char *only, document *d)
{
    doc_object(d, NULL);
    write_facts(s, d);
    if (s->text)
        doc_bytes(d, "text", s->text, s->n_text);
    write_tokens(s, "tokens", d);
    if (s->source) {
        write_tokens(s->source, "source", d);
        write_stacks(s, d);
    }
    doc_int(d, "layer", s->at_layer);
    doc_int(d, "head", s->at_head);
    doc_int(d, "token", s->at_token);
    doc_list(d, "views");
    for (int i = 0; i < n_view; i++)
        if (view_named(only, only ? strlen(only) : 0, &views[i]))
            write_view(&views[i], s, d);
    doc_end(d);
    if (d->page)
        doc_tensors(d, "tensors");
    doc_end(d);
}

/* answer_other.c - errors, models, embeddings and tokens; see answer.h. */
#include "answer.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

/* Anthropic's errors have a type outside, and fewer fields. */
void answer_error(endpoint e, const refusal *why, bytes *to)
{
    const bool messages = e == ENDPOINT_MESSAGES || e == ENDPOINT_COUNT;
    wire w = wire_to(to);
    wire_object(&w, NULL);
    if (messages)
        wire_string(&w, "type", "error");
    wire_object(&w, "error");
    wire_string(&w, "message", why->message);
    wire_string(&w, "type", why->type);
    if (!messages) {
        wire_string(&w, "param", why->param[0] ? why->param : NULL);
        wire_string(&w, "code", why->code);
    }
    wire_end(&w);
    wire_end(&w);
}

void answer_error_event(endpoint e, const refusal *why, bytes *to)
{
    bytes_text(to, endpoint_has_blocks(e) ? "event: error\ndata: " : "data: ");
    answer_error(e, why, to);
    bytes_text(to, "\n\n");
}

void answer_count(int64_t n, bytes *to)
{
    wire w = wire_to(to);
    wire_object(&w, NULL);
    wire_int(&w, "input_tokens", n);
    wire_end(&w);
}

/* ---- models ---------------------------------------------------------------------------------- */

void answer_model(const served *m, wire *w)
{
    wire_object(w, NULL);
    wire_string(w, "id", m->name);
    wire_string(w, "object", "model");
    wire_int(w, "created", m->created);
    wire_string(w, "owned_by", "weft");
    wire_string(w, "root", m->root);
    if (m->parent)
        wire_string(w, "parent", m->parent);
    else
        wire_null(w, "parent");
    wire_int(w, "max_model_len", m->n_ctx);
    if (m->images)
        wire_string(w, "input", "image");
    if (m->endpoints) {
        wire_list(w, "endpoints");
        for (const char *const *path = m->endpoints; *path; path++)
            wire_string(w, NULL, *path);
        wire_end(w);
    }
    wire_end(w);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* Numbers of 32 bits, least byte first, in base 64. */
static void put_base64(const float *vector, int64_t width, wire *w)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes text = { 0 };
    uint32_t group = 0;
    int n_in = 0; /* bytes in the group */
    bytes_text(&text, "\"");
    for (int64_t i = 0; i < width * 4; i++) {
        uint32_t bits;
        memcpy(&bits, &vector[i / 4], sizeof bits);
        group = group << 8 | (bits >> 8 * (i % 4) & 0xFF);
        n_in++;
        if (n_in < 3 && i + 1 < width * 4)
            continue;
        group <<= 8 * (3 - n_in);
        const char four[4] = { digits[group >> 18 & 63], digits[group >> 12 & 63],
                               n_in > 1 ? digits[group >> 6 & 63] : '=',
                               n_in > 2 ? digits[group & 63] : '=' };
        bytes_add(&text, four, 4);
        group = 0;
        n_in = 0;
    }
    bytes_text(&text, "\"");
    wire_raw(w, "embedding", text.at ? text.at : "", text.n);
    w->to->failed |= text.failed;
    bytes_free(&text);
}

void answer_embeddings(const char *model, const float *vectors, int64_t n, int64_t width,
                       bool base64, int64_t n_token, bytes *to)
{
    wire w = wire_to(to);
    wire_object(&w, NULL);
    wire_string(&w, "object", "list");
    wire_list(&w, "data");
    for (int64_t i = 0; i < n; i++) {
        wire_object(&w, NULL);
        wire_string(&w, "object", "embedding");
        wire_int(&w, "index", i);
        if (base64) {
            put_base64(vectors + i * width, width, &w);
        } else {
            wire_list(&w, "embedding");
            for (int64_t k = 0; k < width; k++)
                wire_real(&w, NULL, (double)vectors[i * width + k]);
            wire_end(&w);
        }
        wire_end(&w);
    }
    wire_end(&w);
    wire_string(&w, "model", model);
    wire_object(&w, "usage");
    wire_int(&w, "prompt_tokens", n_token);
    wire_int(&w, "total_tokens", n_token);
    wire_end(&w);
    wire_end(&w);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

void answer_ids(const int32_t *ids, int64_t n, int64_t n_ctx, bytes *to)
{
    wire w = wire_to(to);
    wire_object(&w, NULL);
    wire_int(&w, "count", n);
    wire_int(&w, "max_model_len", n_ctx);
    wire_list(&w, "tokens");
    for (int64_t i = 0; i < n; i++)
        wire_int(&w, NULL, ids[i]);
    wire_end(&w);
    wire_end(&w);
}

void answer_plain(const char *name, const char *text, size_t n, bytes *to)
{
    wire w = wire_to(to);
    wire_object(&w, NULL);
    wire_text(&w, name, text, n);
    wire_end(&w);
}

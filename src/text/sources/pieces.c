/* pieces.c - the two ways in which vocabularies spell bytes:
 *
 *   llama (SentencePiece)   "U+2581" is a space, "<0x0A>" is the byte 10
 *   gpt2  (byte level)      every byte has a printable stand-in: itself, or U+0100 + n for the n-th
 *                           that is not printable ("U+0120" is a space) */
#include "text/sources/pieces.h"

#include "base/utf8.h"
#include "text/sources/source.h"

#include <string.h>

static weft_status index_strings(pieces *p, const meta *tokens, arena *store, weft_error *err)
{
    const size_t n = (size_t)tokens->length;
    p->text = arena_alloc(store, n * sizeof *p->text, err);
    p->length = arena_alloc(store, n * sizeof *p->length, err);
    if (!p->text || !p->length)
        return WEFT_ENOMEM;
    const uint8_t *at = tokens->at;
    for (size_t i = 0; i < n; i++) {
        uint64_t length;
        p->text[i] = gguf_string(&at, &length);
        p->length[i] = (uint32_t)length; /* the parser allows 16 MiB */
    }
    p->n = (int64_t)n;
    return WEFT_OK;
}

weft_status pieces_init(pieces *p, const container *c, arena *store, weft_error *err)
{
    *p = (pieces){ 0 };
    const meta *kind = container_meta(c, "tokenizer.ggml.model");
    const meta *tokens = container_meta(c, "tokenizer.ggml.tokens");
    const meta *type = container_meta(c, "tokenizer.ggml.token_type");
    if (!kind || kind->type != META_TEXT || !tokens || tokens->type != META_ARRAY ||
        tokens->element != GGUF_STRING || tokens->length > INT32_MAX)
        return WEFT_OK;
    p->byte_level = strcmp(kind->text, "gpt2") == 0;
    if (!p->byte_level && strcmp(kind->text, "llama") != 0)
        return WEFT_OK;
    if (type && type->type == META_ARRAY && type->element != GGUF_STRING &&
        type->length == tokens->length)
        p->type = type;
    return index_strings(p, tokens, store, err);
}

typedef struct sink {
    char *to;
    size_t size;
    int64_t n; /* bytes requested, whether they fit or not */
} sink;

static void put(sink *s, const char *bytes, size_t n)
{
    if ((size_t)s->n + n <= s->size)
        memcpy(s->to + s->n, bytes, n);
    s->n += (int64_t)n;
}

static void spell(const pieces *p, const char *text, size_t length, sink *s)
{
    for (size_t at = 0; at < length;) {
        uint32_t point;
        size_t n = utf8_decode(text + at, length - at, &point);
        const int byte = n > 0 && p->byte_level ? byte_of_stand_in(point) : -1;
        if (byte >= 0)
            put(s, &(char){ (char)byte }, 1);
        else if (n > 0 && !p->byte_level && point == 0x2581)
            put(s, " ", 1);
        else
            put(s, text + at, n = n > 0 ? n : 1); /* bytes that are not UTF-8 are copied */
        at += n;
    }
}

static void spell_piece(const pieces *p, int32_t id, bool is_byte, sink *s)
{
    const int byte = is_byte ? byte_of_spelling(p->text[id], p->length[id]) : -1;
    if (byte >= 0)
        put(s, &(char){ (char)byte }, 1);
    else
        spell(p, p->text[id], p->length[id], s);
}

int64_t pieces_bytes(const pieces *p, int32_t id, char *bytes, size_t size)
{
    if (id < 0 || id >= p->n)
        return -1;
    const double type = p->type ? gguf_number(p->type, (uint64_t)id) : 0;
    if (type == PIECE_CONTROL)
        return 0;
    sink measure = { NULL, 0, 0 }, s = { bytes, size, 0 };
    spell_piece(p, id, type == PIECE_BYTE, &measure);
    if (measure.n > 0 && (size_t)measure.n <= size)
        spell_piece(p, id, type == PIECE_BYTE, &s);
    return measure.n;
}

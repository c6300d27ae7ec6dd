/* finish.c - the last stage of every loader: the automata that find added tokens, and the bytes of
 * every token, which the decoder supplies. */
#include "text/finish.h"

#include "text/decode.h"

#include <string.h>

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Tokens matched in normalised text are searched in their normalised form. */
static weft_status folded_text(tokenizer *t, normalize_scratch *s, added *a, trie_entry *e,
                               weft_error *err)
{
    piece p = { .s = a->content, .n = a->length };
    weft_error why = { 0 };
    if (!normalize(&t->normalizer, s, &p, false, &t->host->mem, &why))
        return weft_fail(err, why.code, "%s: added token %u: %.300s", t->path, a->id, why.message);
    e->text = tokenizer_text(t, p.s, p.n, err);
    e->length = (uint32_t)p.n;
    a->folded = e->text;
    a->folded_length = p.n;
    return e->text ? WEFT_OK : WEFT_ENOMEM;
}

/* The decoded form of tokens matched in normalised text, as Hugging Face shows them. */
static weft_status show_folded(tokenizer *t, weft_error *err)
{
    t->shown = arena_alloc(&t->store, (size_t)t->vocab.n * sizeof *t->shown, err);
    if (!t->shown)
        return WEFT_ENOMEM;
    memset(t->shown, 0xFF, (size_t)t->vocab.n * sizeof *t->shown);
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].folded)
            t->shown[t->added[i].id] = (uint32_t)i;
    return WEFT_OK;
}

/* For loaders that did not index them while reading. */
static weft_status index_added(tokenizer *t, weft_error *err)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->n_added; i++)
        bytes += t->added[i].length; /* bounded: by the vocabulary */
    const weft_status status = vocab_init(&t->contents, &t->store, (uint64_t)t->n_added, bytes,
                                          err);
    for (int i = 0; i < t->n_added && status == WEFT_OK; i++)
        vocab_add(&t->contents, (uint32_t)i, t->added[i].content, t->added[i].length);
    return status;
}

static weft_status build_added(tokenizer *t, weft_error *err)
{
    weft_status status = WEFT_OK;
    normalize_scratch s = { .regex = regex_scratch_new(&t->host->mem, err) };
    trie_entry *e = arena_alloc(&t->store, (size_t)t->n_added * 2 * sizeof *e, err);
    if (!e || !s.regex)
        status = err->code;
    else
        regex_begin(s.regex, t->contents.used);
    growth_begin(&s.growth, t->normalizer.n, t->contents.used, GROWTH_TIMES, GROWTH_MORE);
    int n[2] = { 0, 0 };
    for (int i = 0; i < t->n_added && status == WEFT_OK; i++) {
        added *a = &t->added[i];
        trie_entry *to = a->normalized ? &e[t->n_added + n[1]++] : &e[n[0]++];
        *to = (trie_entry){ a->content, (uint32_t)a->length, (uint32_t)i };
        if (a->normalized)
            status = folded_text(t, &s, a, to, err);
    }
    t->plain.n = n[0];
    t->folded.n = n[1];
    if (status == WEFT_OK)
        status = munch_init(&t->plain.munch, &t->store, e, (size_t)n[0], &t->host->mem, err);
    if (status == WEFT_OK)
        status = munch_init(&t->folded.munch, &t->store, e + t->n_added, (size_t)n[1],
                            &t->host->mem, err);
    if (status == WEFT_OK && n[1] > 0)
        status = show_folded(t, err);
    normalize_scratch_free(&s, &t->host->mem);
    regex_scratch_free(s.regex);
    return status;
}

/* ---- the bytes of tokens --------------------------------------------------------------------- */

/* All other models: the decoder's output for a token in the middle of a text. */
static weft_status bytes_from_decoder(tokenizer *t, weft_error *err)
{
    decode_stream d;
    weft_error why = { 0 };
    weft_status status = decode_begin(&d, t, true, &t->host->mem, err);
    scratch pool = { 0 };
    if (status == WEFT_OK)
        regex_begin(d.regex, t->vocab.used);
    growth_begin(&d.growth, t->decoder.n, t->vocab.used, GROWTH_TOKEN_TIMES, GROWTH_MORE);
    uint32_t *end = arena_alloc(&t->store, (size_t)t->vocab.n * sizeof *end, err);
    size_t used = 0;
    if (!end)
        status = WEFT_ENOMEM;
    for (uint32_t id = 0; id < t->vocab.n && status == WEFT_OK; id++) {
        piece p = { 0 };
        if (vocab_has(&t->vocab, id))
            status = decode_token(&d, id, &p, &why);
        if (status != WEFT_OK) {
            weft_fail(err, why.code, "%s: decoding token %u: %.300s", t->path, id, why.message);
            break;
        }
        char *to = scratch_grow(&pool, used + p.n, d.mem, err);
        if (!to) {
            status = err->code;
            break;
        }
        if (p.n)
            memcpy(to + used, p.s, p.n);
        end[id] = (uint32_t)(used += p.n);
    }
    if (status == WEFT_OK)
        status = vocab_init(&t->bytes, &t->store, t->vocab.n, used, err);
    for (uint32_t id = 0; id < t->vocab.n && status == WEFT_OK; id++)
        if (vocab_has(&t->vocab, id)) {
            const uint32_t at = id ? end[id - 1] : 0;
            vocab_name(&t->bytes, id, (char *)pool.data + at, end[id] - at);
        }
    scratch_free(&pool, &t->host->mem);
    decode_end(&d);
    return status;
}

weft_status tokenizer_finish(tokenizer *t, weft_error *err)
{
    t->n_id = t->vocab.n - t->n_silent;
    if (t->single.n == 0)
        template_simple(t, NO_ID, NO_ID);
    weft_status status = t->contents.n == 0 ? index_added(t, err) : WEFT_OK;
    if (status == WEFT_OK)
        status = build_added(t, err);
    if (status == WEFT_OK && t->bytes.n == 0)
        status = bytes_from_decoder(t, err);
    return status;
}

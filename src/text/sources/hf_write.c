/* hf_write.c - writes a tokenizer as a tokenizer.json: tokens, template, model. The steps are in
 * hf_write_steps.c. */
#include "text/sources/hf_write.h"

#include "base/utf8.h"
#include "text/sources/merges.h"
#include "text/sources/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void text(hf_writer *w, const char *s)
{
    buffer_text(w->b, s);
}

static void note(const hf_writer *w, const char *what)
{
    log_write(&w->t->host->log, WEFT_LOG_WARN, "%s: %s", w->t->path, what);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void put_token(hf_writer *w, uint32_t id)
{
    if (!vocab_has(&w->t->vocab, id)) {
        hf_refuse(w, "token %u, which has no text", id);
        return;
    }
    token_spelling(w->t, id, &w->spelled);
    hf_quote(w, (const char *)w->spelled.at, w->spelled.n);
}

/* A tokenizer.json allows one id per text. */
static void check_distinct(hf_writer *w)
{
    const vocab *v = &w->t->vocab;
    arena room;
    vocab seen;
    arena_init(&room, ARENA_GROWING, w->b->mem, 0, "", w->err);
    weft_status status = vocab_init(&seen, &room, v->n, v->used, w->err);
    for (uint32_t id = 0; id < v->n && status == WEFT_OK; id++)
        if (vocab_has(v, id) &&
            vocab_add(&seen, id, vocab_text(v, id), v->length[id]) != VOCAB_OK) {
            const uint32_t first = vocab_find(&seen, vocab_text(v, id), v->length[id]);
            hf_refuse(w, "two tokens of one text (%u and %u are \"%.*s\")", first, id,
                      (int)(v->length[id] > 64 ? 64 : v->length[id]), vocab_text(v, id));
            break;
        }
    if (status != WEFT_OK) /* err keeps the message of the last failure */
        w->status = status;
    arena_free(&room);
}

static void put_added_token(hf_writer *w, int *n, const added *a)
{
    text(w, (*n)++ ? ",\n    {\"id\": " : "\n    {\"id\": ");
    buffer_format(w->b, "%u, \"content\": ", a->id);
    hf_quote(w, a->content, a->length);
    hf_flag(w, "single_word", a->single_word);
    hf_flag(w, "lstrip", a->left);
    hf_flag(w, "rstrip", a->right);
    hf_flag(w, "normalized", a->normalized);
    hf_flag(w, "special", a->special);
    text(w, "}");
    if (a->first)
        hf_refuse(w, "a token that matches only at the start of the text");
}

static bool has_bar(const char *s, size_t n)
{
    return memmem(s, n, "\xE2\x96\x81", 3) != NULL;
}

/* SentencePiece cuts its user-defined pieces out of the text while it normalises. Hugging Face does
 * the same with tokens marked normalised, but it normalises those too: a space before the text, or
 * a table, would change them. In that case they are marked to be searched in the text as
 * written. */
static void put_user(hf_writer *w, int *n)
{
    const tokenizer *t = w->t;
    const normalizer_step *z = &t->normalizer.step[0]; /* SentencePiece's, because it has pieces */
    const bool same = !z->prefix && !z->map;
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        const char *s = vocab_text(&t->vocab, id);
        const size_t length = t->vocab.length[id];
        if (t->type[id] != PIECE_USER || length == 0)
            continue;
        if (!same && has_bar(s, length))
            hf_refuse(w, "user-defined piece %u, which has a space", id);
        put_added_token(w, n,
                        &(added){ .content = s, .length = length, .id = id, .normalized = same });
    }
    if (z->prefix)
        note(w, "the tokenizer.json puts a space before text that follows a user-defined piece");
}

static void put_added(hf_writer *w)
{
    int n = 0;
    text(w, "  \"added_tokens\": [");
    for (int i = 0; i < w->t->n_added; i++)
        put_added_token(w, &n, &w->t->added[i]);
    if (w->t->has_user)
        put_user(w, &n);
    text(w, n ? "\n  ],\n" : "],\n");
}

/* ---- lengths --------------------------------------------------------------------------------- */

static void put_fit(hf_writer *w)
{
    const tokenizer *t = w->t;
    if (t->fit.max_length > 0)
        buffer_format(
            w->b,
            "  \"truncation\": {\"direction\": \"%s\", \"max_length\": %lld, \"strategy\":"
            " \"LongestFirst\", \"stride\": 0},\n",
            t->fit.from_left ? "Left" : "Right", (long long)t->fit.max_length);
    else
        text(w, "  \"truncation\": null,\n");
    if (t->fit.pad_to == 0 && t->fit.pad_multiple == 0) {
        text(w, "  \"padding\": null,\n");
        return;
    }
    text(w, "  \"padding\": {\"strategy\": ");
    if (t->fit.pad_to > 0)
        buffer_format(w->b, "{\"Fixed\": %lld}", (long long)t->fit.pad_to);
    else
        text(w, "\"BatchLongest\"");
    buffer_format(w->b, ", \"direction\": \"%s\", \"pad_to_multiple_of\": ",
                  t->fit.pad_left ? "Left" : "Right");
    if (t->fit.pad_multiple > 0)
        buffer_format(w->b, "%lld", (long long)t->fit.pad_multiple);
    else
        text(w, "null");
    buffer_format(w->b, ", \"pad_id\": %u, \"pad_type_id\": %u, \"pad_token\": ", t->fit.pad_id,
                  t->fit.pad_type);
    put_token(w, t->fit.pad_id);
    text(w, "},\n");
}

/* ---- the template ---------------------------------------------------------------------------- */

static void put_slots(hf_writer *w, const char *field, const template *m)
{
    buffer_format(w->b, ",\n    \"%s\": [", field);
    for (int i = 0; i < m->n; i++) {
        const slot *s = &m->slot[i];
        text(w, i ? ", " : "");
        if (s->kind == SLOT_TOKEN) {
            text(w, "{\"SpecialToken\": {\"id\": ");
            put_token(w, s->id);
        } else {
            buffer_format(w->b, "{\"Sequence\": {\"id\": \"%s\"", s->kind == SLOT_A ? "A" : "B");
        }
        buffer_format(w->b, ", \"type_id\": %d}}", s->type);
    }
    text(w, "]");
}

static void put_special(hf_writer *w, const template *a, const template *b)
{
    const int most = a->n + b->n;
    int n = 0;
    text(w, ",\n    \"special_tokens\": {");
    for (int i = 0; i < most; i++) {
        const slot *s = i < a->n ? &a->slot[i] : &b->slot[i - a->n];
        bool seen = s->kind != SLOT_TOKEN;
        for (int k = 0; k < i && !seen; k++) {
            const slot *before = k < a->n ? &a->slot[k] : &b->slot[k - a->n];
            seen = before->kind == SLOT_TOKEN && before->id == s->id;
        }
        if (seen)
            continue;
        text(w, n++ ? ", " : "");
        put_token(w, s->id);
        text(w, ": {\"id\": ");
        put_token(w, s->id);
        buffer_format(w->b, ", \"ids\": [%u], \"tokens\": [", s->id);
        put_token(w, s->id);
        text(w, "]}");
    }
    text(w, "}");
}

/* For files with a template for one text only: the second text gets the same tokens. */
static template pair_of(const tokenizer *t)
{
    template both = t->pair;
    if (both.n > 0 || t->single.n > MAX_SLOT / 2)
        return both;
    both = t->single;
    for (int i = 0; i < t->single.n; i++) {
        slot s = t->single.slot[i];
        s.kind = s.kind == SLOT_A ? SLOT_B : s.kind;
        s.type = 1;
        both.slot[both.n++] = s;
    }
    return both;
}

static void put_template(hf_writer *w)
{
    const template *a = &w->t->single;
    const template b = pair_of(w->t);
    const bool usual = b.n == 2 && b.slot[0].kind == SLOT_A && b.slot[0].type == 0 &&
                       b.slot[1].kind == SLOT_B && b.slot[1].type == 1;
    if (a->n == 1 && usual) {
        text(w, "  \"post_processor\": null,\n");
        return;
    }
    text(w, "  \"post_processor\": {\"type\": \"TemplateProcessing\"");
    put_slots(w, "single", a);
    put_slots(w, "pair", &b);
    put_special(w, a, &b);
    text(w, "},\n");
}

/* ---- models ---------------------------------------------------------------------------------- */

static void put_token_or_null(hf_writer *w, const char *field, uint32_t id)
{
    buffer_format(w->b, "    \"%s\": ", field);
    if (id == NO_ID)
        text(w, "null");
    else
        put_token(w, id);
    text(w, ",\n");
}

static void put_affix(hf_writer *w, const char *field, const char *s, size_t n)
{
    buffer_format(w->b, "    \"%s\": ", field);
    if (s)
        hf_quote(w, s, n);
    else
        text(w, "null");
    text(w, ",\n");
}

static void put_vocab(hf_writer *w)
{
    const vocab *v = &w->t->vocab;
    int n = 0;
    text(w, "    \"vocab\": {");
    for (uint32_t id = 0; id < v->n; id++) {
        if (!vocab_has(v, id))
            continue;
        text(w, n++ ? ",\n      " : "\n      ");
        put_token(w, id);
        buffer_format(w->b, ": %u", id);
    }
    text(w, "\n    }");
}

static void put_merges(hf_writer *w)
{
    merge_list l;
    const weft_status status = merges_begin(&l, w->t, w->b->mem, w->err);
    if (status != WEFT_OK) /* err keeps the message of the last failure */
        w->status = status;
    text(w, ",\n    \"merges\": [");
    for (size_t i = 0; status == WEFT_OK && i < l.n; i++) {
        text(w, i ? ",\n      [" : "\n      [");
        put_token(w, l.at[i]->left);
        text(w, ", ");
        put_token(w, l.at[i]->right);
        text(w, "]");
    }
    text(w, "\n    ]");
    if (l.tied && w->t->score)
        note(w, "pieces of equal score are merged by their ids in the tokenizer.json, not from "
                "left to right");
    merges_end(&l);
}

/* SentencePiece finds unknown symbols after merging and turns a run of them into one token:
 * fuse_unk. */
static void put_bpe(hf_writer *w)
{
    const bpe *m = &w->t->bpe;
    if (m->names)
        hf_refuse(w, "two vocabularies that differ");
    text(w, "    \"type\": \"BPE\",\n    \"dropout\": null,\n");
    put_token_or_null(w, "unk_token", m->unk);
    put_affix(w, "continuing_subword_prefix", m->prefix, m->prefix_length);
    put_affix(w, "end_of_word_suffix", m->suffix, m->suffix_length);
    buffer_format(w->b,
                  "    \"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
                  m->fuse_unk || m->piece_unk ? "true" : "false", m->fallback ? "true" : "false",
                  m->whole_words ? "true" : "false");
    put_vocab(w);
    put_merges(w);
}

/* Numbers come from floats, which nine digits identify, or from a tokenizer.json. */
static void put_number(hf_writer *w, double x)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.9g", x);
    if (strtod(digits, NULL) != x)
        snprintf(digits, sizeof digits, "%.17g", x);
    text(w, digits);
    if (!strpbrk(digits, ".en"))
        text(w, ".0");
}

/* A list has no holes, and every piece in it is searched in texts. So pieces that SentencePiece
 * calls unused can only be dropped at its end. */
static uint32_t n_piece(hf_writer *w)
{
    const tokenizer *t = w->t;
    uint32_t n = t->vocab.n;
    while (n > 0 && (!vocab_has(&t->vocab, n - 1) || (t->type && t->type[n - 1] == PIECE_UNUSED)))
        n--;
    for (uint32_t id = 0; id < n; id++)
        if (!vocab_has(&t->vocab, id) || (t->type && t->type[id] == PIECE_UNUSED)) {
            hf_refuse(w, "piece %u of a unigram model, which is marked unused", id);
            break;
        }
    return n;
}

/* The lowest score sets the cost of an unknown letter: pieces that text never becomes do not
 * count. */
static double score_of(const tokenizer *t, uint32_t id)
{
    const double x = t->unigram.score[id];
    const bool counts = !t->type || t->type[id] == PIECE_NORMAL || isinf(t->unigram.min_score);
    return counts || x > t->unigram.min_score ? x : t->unigram.min_score;
}

static void put_unigram(hf_writer *w)
{
    const unigram *m = &w->t->unigram;
    const uint32_t n = n_piece(w);
    if (m->names)
        hf_refuse(w, "two vocabularies that differ");
    text(w, "    \"type\": \"Unigram\",\n    \"unk_id\": ");
    if (m->unk == NO_ID)
        text(w, "null");
    else
        buffer_format(w->b, "%u", m->unk);
    text(w, ",\n    \"vocab\": [");
    for (uint32_t id = 0; id < n; id++) {
        text(w, id ? ",\n      [" : "\n      [");
        put_token(w, id);
        text(w, ", ");
        put_number(w, score_of(w->t, id));
        text(w, "]");
    }
    buffer_format(w->b, "\n    ],\n    \"byte_fallback\": %s", m->fallback ? "true" : "false");
    if (m->in_float)
        note(w, "Hugging Face sums scores in double, SentencePiece in float: on ties the "
                "tokenizer.json may split a word differently");
}

/* Writes the continuation prefix that the decoder uses. */
static void put_wordpiece(hf_writer *w)
{
    const wordpiece *m = &w->t->wordpiece;
    const char *prefix = "##";
    size_t n = 2;
    for (int i = 0; i < w->t->decoder.n; i++)
        if (w->t->decoder.step[i].kind == DECODE_WORDPIECE) {
            prefix = w->t->decoder.step[i].text;
            n = w->t->decoder.step[i].text_length;
        }
    if (m->unk == NO_ID || wordpiece_inner(&m->trie, prefix, n) != m->inner)
        hf_refuse(w, "a WordPiece model without an unknown token or a known prefix");
    else
        put_token_or_null(w, "unk_token", m->unk);
    text(w, "    \"type\": \"WordPiece\",\n");
    put_affix(w, "continuing_subword_prefix", prefix, n);
    buffer_format(w->b, "    \"max_input_chars_per_word\": %zu,\n", m->longest);
    put_vocab(w);
}

static void put_wordlevel(hf_writer *w)
{
    text(w, "    \"type\": \"WordLevel\",\n");
    if (w->t->wordlevel.unk == NO_ID)
        hf_refuse(w, "a WordLevel model without an unknown token");
    else
        put_token_or_null(w, "unk_token", w->t->wordlevel.unk);
    put_vocab(w);
}

static void put_model(hf_writer *w)
{
    text(w, "  \"model\": {\n");
    switch (w->t->kind) {
    case MODEL_BPE:
        put_bpe(w);
        break;
    case MODEL_UNIGRAM:
        put_unigram(w);
        break;
    case MODEL_WORDPIECE:
        put_wordpiece(w);
        break;
    case MODEL_WORDLEVEL:
        put_wordlevel(w);
        break;
    }
    text(w, "\n  }\n}\n");
}

weft_status tokenizer_write(const tokenizer *t, buffer *to, weft_error *err)
{
    hf_writer w = { .t = t, .b = to, .err = err };
    buffer_begin(&w.spelled, to->mem, err);
    if (t->n_silent > 0)
        hf_refuse(&w, "pieces that are not tokens");
    check_distinct(&w);
    text(&w, "{\n  \"version\": \"1.0\",\n");
    put_fit(&w);
    put_added(&w);
    hf_write_normalizer(&w);
    hf_write_pre_tokenizer(&w);
    put_template(&w);
    hf_write_decoder(&w);
    put_model(&w);
    to->failed |= w.spelled.failed;
    buffer_end(&w.spelled);
    return to->failed ? WEFT_ENOMEM : w.status;
}

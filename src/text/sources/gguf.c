/* gguf.c - the vocabularies of GGUF files.
 *
 *     tokenizer.ggml.model   gpt2     byte-level BPE; the splitting is a name, tokenizer.ggml.pre
 *                                     (some names mean the same as gemma4)
 *                            llama    SentencePiece BPE with scores
 *                            t5       SentencePiece unigram
 *                            bert     WordPiece: words begin with U+2581, continuations are bare
 *                            gemma4   BPE over letters with merges, spaces as U+2581 */
#include "text/sources/source.h"

#include <stdio.h>
#include <string.h>

#define BAR "\xE2\x96\x81"

typedef struct gguf_vocab {
    tokenizer *t;
    const container *c;
    const meta *tokens;
    const char **text;
    uint32_t *length;
    uint8_t *type; /* [n]; all normal if the file has no types */
} gguf_vocab;

static const char *token_text(void *ud, uint32_t i, size_t *length)
{
    const gguf_vocab *g = ud;
    *length = g->length[i];
    return g->text[i];
}

static weft_status wrong(const gguf_vocab *g, const char *key, const char *expected,
                         weft_error *err)
{
    return weft_fail(err, WEFT_EFORMAT, "%s: %s is missing or not %s", g->t->path, key, expected);
}

static bool flag(const gguf_vocab *g, const char *key, bool fallback)
{
    const meta *m = container_meta(g->c, key);
    return m && m->type == META_BOOL ? m->flag : fallback;
}

/* A token given by its id; NO_ID if the file names none. */
static weft_status token_id(const gguf_vocab *g, const char *key, uint32_t fallback, uint32_t *id,
                            weft_error *err)
{
    const meta *m = container_meta(g->c, key);
    *id = fallback < g->tokens->length ? fallback : NO_ID;
    if (!m)
        return WEFT_OK;
    if (m->type != META_INT)
        return wrong(g, key, "a number", err);
    if ((uint64_t)m->integer >= g->tokens->length)
        return weft_fail(err, WEFT_EFORMAT, "%s: %s is %lld, but there are %llu tokens", g->t->path,
                         key, (long long)m->integer, (unsigned long long)g->tokens->length);
    *id = (uint32_t)m->integer;
    return WEFT_OK;
}

static weft_status read_tokens(gguf_vocab *g, weft_error *err)
{
    const meta *m = g->tokens = container_meta(g->c, "tokenizer.ggml.tokens");
    const meta *type = container_meta(g->c, "tokenizer.ggml.token_type");
    if (!m || m->type != META_ARRAY || m->element != GGUF_STRING || m->length == 0)
        return wrong(g, "tokenizer.ggml.tokens", "a list of text", err);
    if (m->length > VOCAB_MAX)
        return weft_fail(err, WEFT_EFORMAT, "%s: %llu tokens; expected at most %llu", g->t->path,
                         (unsigned long long)m->length, (unsigned long long)VOCAB_MAX);
    if (type &&
        (type->type != META_ARRAY || type->element == GGUF_STRING || type->length != m->length))
        return wrong(g, "tokenizer.ggml.token_type", "a number for each token", err);
    const size_t n = (size_t)m->length;
    arena *a = &g->t->store;
    g->text = arena_alloc(a, n * sizeof *g->text, err); /* bounded: n <= VOCAB_MAX */
    g->length = arena_alloc(a, n * sizeof *g->length, err);
    g->type = arena_alloc(a, n, err);
    if (!g->text || !g->length || !g->type)
        return WEFT_ENOMEM;
    const uint8_t *at = m->at;
    for (size_t i = 0; i < n; i++) {
        uint64_t length;
        g->text[i] = gguf_string(&at, &length);
        g->length[i] = (uint32_t)length; /* the parser allows 16 MiB */
        const double kind = type ? gguf_number(type, i) : PIECE_NORMAL;
        g->type[i] = kind >= PIECE_NORMAL && kind <= PIECE_BYTE ? (uint8_t)kind : PIECE_NORMAL;
    }
    return WEFT_OK;
}

static weft_status read_scores(const gguf_vocab *g, float **to, weft_error *err)
{
    const meta *m = container_meta(g->c, "tokenizer.ggml.scores");
    if (!m || m->type != META_ARRAY || m->element == GGUF_STRING || m->length != g->tokens->length)
        return wrong(g, "tokenizer.ggml.scores", "a number for each token", err);
    float *score = arena_alloc(&g->t->store, (size_t)m->length * sizeof *score, err);
    for (uint64_t i = 0; score && i < m->length; i++)
        score[i] = (float)gguf_number(m, i);
    *to = score;
    return score ? WEFT_OK : WEFT_ENOMEM;
}

/* The template: tokens before and after a text. */
static weft_status make_template(const gguf_vocab *g, bool bos, bool eos, uint32_t bos_id,
                                 uint32_t eos_id, weft_error *err)
{
    uint32_t first, last;
    weft_status status = token_id(g, "tokenizer.ggml.bos_token_id", bos_id, &first, err);
    if (status == WEFT_OK)
        status = token_id(g, "tokenizer.ggml.eos_token_id", eos_id, &last, err);
    if (status != WEFT_OK)
        return status;
    bos = flag(g, "tokenizer.ggml.add_bos_token", bos);
    eos = flag(g, "tokenizer.ggml.add_eos_token", eos);
    if ((bos && first == NO_ID) || (eos && last == NO_ID))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: asks for a token %s each text, but does not name it", g->t->path,
                         first == NO_ID && bos ? "before" : "after");
    g->t->bos = first == NO_ID ? -1 : (int32_t)first;
    g->t->eos = last == NO_ID ? -1 : (int32_t)last;
    template_simple(g->t, bos ? first : NO_ID, eos ? last : NO_ID);
    return WEFT_OK;
}

/* Two texts, as RoBERTa and XLM-R read them: <s> A </s> </s> B </s>, all of type 0. Files that add
 * no token between the texts say so. */
static weft_status make_pair(const gguf_vocab *g, weft_error *err)
{
    const template *one = &g->t->single;
    template *two = &g->t->pair;
    uint32_t sep;
    if (one->n != 3) /* not both a token before a text and one after it */
        return WEFT_OK;
    const uint32_t last = one->slot[2].id;
    const weft_status status = token_id(g, "tokenizer.ggml.seperator_token_id", last, &sep, err);
    if (status != WEFT_OK)
        return status;
    *two = *one;
    if (flag(g, "tokenizer.ggml.add_sep_token", true))
        two->slot[two->n++] = (slot){ SLOT_TOKEN, sep, 0 };
    two->slot[two->n++] = (slot){ SLOT_B, 0, 0 };
    two->slot[two->n++] = (slot){ SLOT_TOKEN, last, 0 };
    return WEFT_OK;
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

static bool has_bytes(const gguf_vocab *g)
{
    int n = 0;
    for (uint64_t i = 0; i < g->tokens->length; i++)
        n += g->type[i] == PIECE_BYTE;
    return n >= 256;
}

/* "[PAD32011]": an id that only the model has. Marked unused, it is not a piece of a BPE model. */
static void skip_fillers(gguf_vocab *g)
{
    for (uint64_t i = 0; i < g->tokens->length; i++) {
        char filler[24];
        const int n = snprintf(filler, sizeof filler, "[PAD%llu]", (unsigned long long)i);
        if (g->type[i] == PIECE_UNUSED && g->length[i] == (uint32_t)n &&
            memcmp(g->text[i], filler, (size_t)n) == 0)
            g->type[i] = PIECE_FOREIGN;
    }
}

static weft_status load_pieces(gguf_vocab *g, bool viterbi, weft_error *err)
{
    const meta *map = container_meta(g->c, "tokenizer.ggml.precompiled_charsmap");
    sp_spec s = { .type = g->type,
                  .unigram = viterbi,
                  .escape = true,
                  .fallback = has_bytes(g),
                  .prefix = flag(g, "tokenizer.ggml.add_space_prefix", true),
                  .squeeze = flag(g, "tokenizer.ggml.remove_extra_whitespaces", false) };
    weft_status status = read_scores(g, &s.score, err);
    if (status == WEFT_OK)
        status = token_id(g, "tokenizer.ggml.unknown_token_id", viterbi ? 2 : 0, &s.unk, err);
    if (status != WEFT_OK)
        return status;
    if (map && (map->type != META_ARRAY || map->element > 1))
        return wrong(g, "tokenizer.ggml.precompiled_charsmap", "a list of bytes", err);
    if (map) {
        s.map = map->at;
        s.map_size = (size_t)map->length;
    }
    if (!viterbi)
        skip_fillers(g);
    status = sp_vocab(g->t, g->tokens->length, g->type, token_text, g, err);
    if (status == WEFT_OK)
        status = sp_model(g->t, &s, err);
    if (status == WEFT_OK)
        status = viterbi ? make_template(g, false, true, NO_ID, 1, err)
                         : make_template(g, true, false, 1, 2, err);
    return status == WEFT_OK && viterbi ? make_pair(g, err) : status;
}

/* ---- BPE with merges ------------------------------------------------------------------------- */

typedef struct lines {
    const uint8_t *at;
    uint64_t left;
} lines;

static const char *next_merge(void *ud, size_t *length)
{
    lines *l = ud;
    uint64_t n;
    if (l->left == 0)
        return NULL;
    l->left--;
    const char *text = gguf_string(&l->at, &n);
    *length = (size_t)n;
    return text;
}

/* Tokens that are not cut out of text, special ones included, are looked up by their spelling:
 * merges lead to them. */
static weft_status plain_vocab(gguf_vocab *g, weft_error *err)
{
    tokenizer *t = g->t;
    uint64_t bytes = 0;
    const uint64_t n = g->tokens->length;
    for (uint64_t i = 0; i < n; i++)
        bytes += g->length[i]; /* bounded: by the file */
    const weft_status status = vocab_init(&t->vocab, &t->store, n, bytes, err);
    t->special = status == WEFT_OK ? arena_alloc(&t->store, n, err) : NULL;
    if (!t->special)
        return status == WEFT_OK ? WEFT_ENOMEM : status;
    for (uint32_t i = 0; i < n; i++) {
        t->special[i] = g->type[i] == PIECE_CONTROL || g->type[i] == PIECE_UNKNOWN;
        if (vocab_add(&t->vocab, i, g->text[i], g->length[i]) != VOCAB_OK)
            vocab_name(&t->vocab, i, g->text[i], g->length[i]); /* the first of equals counts */
    }
    return check_tokens(t, err);
}

static weft_status load_merges(gguf_vocab *g, weft_error *err)
{
    const meta *m = container_meta(g->c, "tokenizer.ggml.merges");
    if (!m || m->type != META_ARRAY || m->element != GGUF_STRING)
        return wrong(g, "tokenizer.ggml.merges", "a list of text", err);
    weft_status status = plain_vocab(g, err);
    if (status == WEFT_OK)
        status = bpe_from_lines(g->t, m->length, next_merge, &(lines){ m->at, m->length }, err);
    if (status == WEFT_OK)
        status = sp_added(g->t, g->type, true, err);
    return status;
}

static weft_status splitting(const gguf_vocab *g, const char **pre, weft_error *err)
{
    const meta *m = container_meta(g->c, "tokenizer.ggml.pre");
    if (*pre)
        return WEFT_OK;
    *pre = m && m->type == META_TEXT ? m->text : NULL;
    if (!*pre || strcmp(*pre, "default") == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: no pre-tokenizer (tokenizer.ggml.pre is %s); give one with --pre "
                         "(llama-bpe, qwen2, gpt-2, ...)",
                         g->t->path, *pre ? "\"default\"" : "missing");
    return WEFT_OK;
}

static weft_status load_byte_level(gguf_vocab *g, const char *pre, weft_error *err)
{
    tokenizer *t = g->t;
    weft_status status = load_merges(g, err);
    if (status == WEFT_OK)
        status = bytes_from_stand_ins(t, err);
    if (status == WEFT_OK)
        status = pre_apply(t, pre, err);
    if (status != WEFT_OK)
        return status;
    bpe_take_bytes(t);
    t->bpe.whole_words = pre_flags(pre) & PRE_WORDS;
    bpe_finish(&t->bpe);
    status = add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_LEVEL }, err);
    if (status == WEFT_OK)
        status = make_template(g, pre_flags(pre) & PRE_BOS, false, NO_ID, NO_ID, err);
    return status == WEFT_OK && strcmp(pre, "roberta-bpe") == 0 ? make_pair(g, err) : status;
}

static weft_status load_letters(gguf_vocab *g, const char *pre, weft_error *err)
{
    tokenizer *t = g->t;
    const normalizer_step bars = {
        .kind = NORM_REPLACE, .text = " ", .text_length = 1, .content = BAR, .content_length = 3
    };
    const decoder_step spaces = {
        .kind = DECODE_REPLACE, .text = BAR, .text_length = 3, .content = " ", .content_length = 1
    };
    weft_status status = pre_apply(t, pre, err);
    if (status == WEFT_OK)
        status = load_merges(g, err);
    if (status == WEFT_OK)
        status = add_normalizer(t, &bars, err);
    if (status == WEFT_OK)
        status = add_decoder(t, &spaces, err);
    if (status == WEFT_OK)
        status = add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_FALLBACK }, err);
    if (status != WEFT_OK)
        return status;
    t->bpe.fallback = true;
    for (uint32_t i = 0; i < t->vocab.n; i++) {
        const int byte = byte_of_spelling(g->text[i], g->length[i]);
        if (byte >= 0 && g->type[i] == PIECE_BYTE)
            t->bpe.spell[byte] = i;
    }
    status = token_id(g, "tokenizer.ggml.unknown_token_id", NO_ID, &t->bpe.unk, err);
    bpe_finish(&t->bpe);
    return status == WEFT_OK ? make_template(g, pre_flags(pre) & PRE_BOS, false, NO_ID, NO_ID, err)
                             : status;
}

static weft_status load_gpt2(gguf_vocab *g, const char *pre, weft_error *err)
{
    const weft_status status = splitting(g, &pre, err);
    if (status != WEFT_OK)
        return status;
    return pre_flags(pre) & PRE_LETTERS ? load_letters(g, pre, err) : load_byte_level(g, pre, err);
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* Restores BERT's spelling: in GGUF a bar marks the beginning of a word, in BERT "##" marks a
 * continuation. */
static weft_status respell(gguf_vocab *g, weft_error *err)
{
    for (uint64_t i = 0; i < g->tokens->length; i++) {
        const char *s = g->text[i];
        const uint32_t n = g->length[i];
        if (n >= 3 && memcmp(s, BAR, 3) == 0) {
            g->text[i] = s + 3;
            g->length[i] = n - 3;
        } else if (g->type[i] == PIECE_NORMAL && n > 0 && !(s[0] == '[' && s[n - 1] == ']')) {
            char *longer = arena_alloc(&g->t->store, (size_t)n + 2, err);
            if (!longer)
                return WEFT_ENOMEM;
            memcpy(longer, "##", 2);
            memcpy(longer + 2, s, n);
            g->text[i] = longer;
            g->length[i] = n + 2;
        }
    }
    return WEFT_OK;
}

static weft_status load_bert(gguf_vocab *g, weft_error *err)
{
    tokenizer *t = g->t;
    uint32_t cls, sep;
    const bool lower = flag(g, "tokenizer.ggml.normalizer.lowercase", true);
    const normalizer_step z = { .kind = NORM_BERT,
                                .clean = true,
                                .han = true,
                                .lower = lower,
                                .strip_accents = flag(g, "tokenizer.ggml.normalizer.strip_accents",
                                                      lower) };
    weft_status status = respell(g, err);
    if (status == WEFT_OK)
        status = sp_vocab(t, g->tokens->length, g->type, token_text, g, err);
    if (status == WEFT_OK)
        status = add_normalizer(t, &z, err);
    if (status == WEFT_OK)
        status = add_splitter(t, &(splitter){ .kind = SPLIT_BERT }, err);
    if (status == WEFT_OK)
        status = token_id(g, "tokenizer.ggml.unknown_token_id", 100, &t->wordpiece.unk, err);
    if (status == WEFT_OK)
        status = token_id(g, "tokenizer.ggml.cls_token_id", 101, &cls, err);
    if (status == WEFT_OK)
        status = token_id(g, "tokenizer.ggml.seperator_token_id", 102, &sep, err);
    if (status != WEFT_OK)
        return status;
    template_simple(t, cls, sep);
    return bert_model(t, g->type, err);
}

weft_status source_gguf(tokenizer *t, const container *c, const char *pre, weft_error *err)
{
    gguf_vocab g = { .t = t, .c = c };
    const meta *kind = container_meta(c, "tokenizer.ggml.model");
    if (!kind || kind->type != META_TEXT)
        return weft_fail(err, WEFT_EFORMAT, "%s: has no vocabulary (tokenizer.ggml.model)",
                         t->path);
    const weft_status status = read_tokens(&g, err);
    if (status != WEFT_OK)
        return status;
    if (strcmp(kind->text, "gpt2") == 0)
        return load_gpt2(&g, pre, err);
    if (strcmp(kind->text, "llama") == 0)
        return load_pieces(&g, false, err);
    if (strcmp(kind->text, "t5") == 0)
        return load_pieces(&g, true, err);
    if (strcmp(kind->text, "bert") == 0)
        return load_bert(&g, err);
    if (strcmp(kind->text, "gemma4") == 0)
        return load_letters(&g, "gemma4", err);
    return weft_fail(
        err, WEFT_EUNSUPPORTED,
        "%s: unsupported tokenizer.ggml.model \"%.64s\"; expected gpt2, llama, t5, bert or gemma4",
        t->path, kind->text);
}

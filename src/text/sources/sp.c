/* sp.c - SentencePiece's .model: a protocol buffer, read by hand.
 *
 *     ModelProto    1 pieces*     { 1 text  2 float score  3 type }
 *                   2 trainer     { 3 kind  24 suffix  35 byte fallback  40 unk 41 bos 42 eos }
 *                   3 normalizer  { 2 charsmap  3 prefix  4 squeeze  5 escape }
 *
 * Every field is a key (number << 3 | wire) and a value: 0 a varint, 1 eight bytes, 2 a length and
 * that many bytes, 5 four bytes.
 *
 * Marian has one such model for the source and one for the target, and a vocab.json that numbers
 * the pieces of both. */
#include "base/checked.h"
#include "base/utf8.h"
#include "text/sources/source.h"

#include <string.h>

typedef struct wire {
    const uint8_t *data;
    size_t size, at;
} wire;

typedef struct field {
    uint32_t number, kind;
    uint64_t value;      /* kind 0, 1, 5 */
    const uint8_t *data; /* kind 2 */
    size_t size;
} field;

static bool varint(wire *w, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; w->at < w->size; shift += 7) {
        const uint8_t b = w->data[w->at++];
        if (shift == 63 && b > 1)
            return false;
        *value |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80)
            return true;
    }
    return false;
}

static bool fixed(wire *w, size_t n, uint64_t *value)
{
    *value = 0;
    if (!checked_range(w->at, n, w->size))
        return false;
    memcpy(value, w->data + w->at, n);
    w->at += n;
    return true;
}

/* 1: a field, 0: the end, -1: not a protocol buffer. */
static int next_field(wire *w, field *f)
{
    uint64_t key, length;
    if (w->at == w->size)
        return 0;
    if (!varint(w, &key) || key >> 3 == 0 || key >> 3 > 0x1FFFFFFF)
        return -1;
    *f = (field){ .number = (uint32_t)(key >> 3), .kind = (uint32_t)(key & 7) };
    switch (f->kind) {
    case 0:
        return varint(w, &f->value) ? 1 : -1;
    case 1:
        return fixed(w, 8, &f->value) ? 1 : -1;
    case 5:
        return fixed(w, 4, &f->value) ? 1 : -1;
    case 2:
        if (!varint(w, &length) || !checked_range(w->at, length, w->size))
            return -1;
        f->data = w->data + w->at;
        f->size = (size_t)length;
        w->at += (size_t)length;
        return 1;
    default:
        return -1;
    }
}

static weft_status broken(const tokenizer *t, const wire *w, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_EFORMAT,
                     "%s: not a SentencePiece model: %s is truncated at byte %zu", t->path, what,
                     w->at);
}

typedef struct entry {
    const char *text;
    size_t length;
} entry;

typedef struct model_file {
    tokenizer *t;
    entry *entry;
    uint8_t *type;
    float *score;
    uint32_t n;
    sp_spec spec;
    uint64_t kind;
    bool bytes;
    int64_t bos, eos;
} model_file;

static weft_status read_piece(model_file *m, const field *f, weft_error *err)
{
    wire w = { f->data, f->size, 0 };
    field g;
    int got;
    entry *e = &m->entry[m->n];
    m->type[m->n] = PIECE_NORMAL;
    m->score[m->n] = 0;
    while ((got = next_field(&w, &g)) > 0) {
        if (g.number == 1 && g.kind == 2)
            *e = (entry){ (const char *)g.data, g.size };
        else if (g.number == 2 && g.kind == 5)
            memcpy(&m->score[m->n], &g.value, sizeof(float));
        else if (g.number == 3 && g.kind == 0 && g.value >= PIECE_NORMAL && g.value <= PIECE_BYTE)
            m->type[m->n] = (uint8_t)g.value;
        else if (g.number <= 3)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s: field %u of piece %u has a wrong type or value", m->t->path,
                             g.number, m->n);
    }
    if (got < 0)
        return broken(m->t, &w, "a piece", err);
    uint32_t point;
    size_t at = 0, step;
    while (at < e->length && (step = utf8_decode(e->text + at, e->length - at, &point)) > 0)
        at += step;
    if (e->length == 0 || at < e->length)
        return weft_fail(err, WEFT_EFORMAT, "%s: piece %u is empty or not UTF-8", m->t->path, m->n);
    if (m->type[m->n] == PIECE_UNKNOWN)
        m->spec.unk = m->n;
    m->n++;
    return WEFT_OK;
}

static weft_status read_trainer(model_file *m, const field *f, weft_error *err)
{
    wire w = { f->data, f->size, 0 };
    field g;
    int got;
    while ((got = next_field(&w, &g)) > 0) {
        if (g.kind != 0)
            continue;
        if (g.number == 3)
            m->kind = g.value;
        else if (g.number == 24)
            m->spec.suffix = g.value != 0;
        else if (g.number == 35)
            m->spec.fallback = g.value != 0;
        else if (g.number == 41)
            m->bos = (int64_t)g.value;
        else if (g.number == 42)
            m->eos = (int64_t)g.value;
    }
    return got < 0 ? broken(m->t, &w, "trainer_spec", err) : WEFT_OK;
}

static weft_status read_normalizer(model_file *m, const field *f, weft_error *err)
{
    wire w = { f->data, f->size, 0 };
    field g;
    int got;
    while ((got = next_field(&w, &g)) > 0) {
        if (g.number == 2 && g.kind == 2) {
            m->spec.map = g.data;
            m->spec.map_size = g.size;
        } else if (g.number == 3 && g.kind == 0) {
            m->spec.prefix = g.value != 0;
        } else if (g.number == 4 && g.kind == 0) {
            m->spec.squeeze = g.value != 0;
        } else if (g.number == 5 && g.kind == 0) {
            m->spec.escape = g.value != 0;
        }
    }
    return got < 0 ? broken(m->t, &w, "normalizer_spec", err) : WEFT_OK;
}

static weft_status read_fields(model_file *m, const uint8_t *data, size_t size, weft_error *err)
{
    wire w = { data, size, 0 };
    field f;
    int got;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (got = next_field(&w, &f)) != 0) {
        if (got < 0)
            return broken(m->t, &w, "the file", err);
        if (f.kind != 2)
            continue;
        if (f.number == 1)
            status = read_piece(m, &f, err);
        else if (f.number == 2)
            status = read_trainer(m, &f, err);
        else if (f.number == 3)
            status = read_normalizer(m, &f, err);
    }
    return status;
}

static const char *piece_text(void *ud, uint32_t i, size_t *length)
{
    const model_file *m = ud;
    *length = m->entry[i].length;
    return m->entry[i].text;
}

/* Counts the pieces in the file, to allocate room for them at once. */
static uint64_t count_pieces(const uint8_t *data, size_t size)
{
    wire w = { data, size, 0 };
    field f;
    uint64_t n = 0;
    while (next_field(&w, &f) > 0)
        n += f.number == 1 && f.kind == 2;
    return n;
}

static bool room_for(model_file *m, uint64_t n, weft_error *err)
{
    arena *store = &m->t->store;
    m->entry = arena_alloc(store, n * sizeof *m->entry, err); /* bounded: n <= 2 VOCAB_MAX */
    m->type = arena_alloc(store, n, err);
    m->score = arena_alloc(store, n * sizeof *m->score, err);
    if (!m->entry || !m->type || !m->score)
        return false;
    memset(m->entry, 0, n * sizeof *m->entry);
    return true;
}

static weft_status read_model(model_file *m, const uint8_t *data, size_t size, weft_error *err)
{
    const tokenizer *t = m->t;
    const uint64_t n = count_pieces(data, size);
    if (n == 0 || n > VOCAB_MAX)
        return weft_fail(err, WEFT_EFORMAT, "%s: not a SentencePiece model: %llu pieces", t->path,
                         (unsigned long long)n);
    if (!room_for(m, n, err))
        return WEFT_ENOMEM;
    m->kind = 1;
    m->bos = 1;
    m->eos = 2;
    m->spec = (sp_spec){ .prefix = true, .squeeze = true, .escape = true, .unk = NO_ID };
    const weft_status status = read_fields(m, data, size, err);
    if (status != WEFT_OK)
        return status;
    if (m->kind != 1 && m->kind != 2)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: unsupported SentencePiece model type %llu; expected unigram (1) or BPE (2)",
            t->path, (unsigned long long)m->kind);
    if (m->spec.unk == NO_ID)
        return weft_fail(err, WEFT_EFORMAT, "%s: no unknown piece", t->path);
    m->spec.suffix = m->spec.suffix && m->spec.prefix;
    m->spec.prefix = m->spec.prefix && !m->spec.suffix;
    m->spec.unigram = m->kind == 1;
    return WEFT_OK;
}

static weft_status make_model(model_file *m, weft_error *err)
{
    m->spec.type = m->type;
    m->spec.score = m->score;
    const weft_status status = sp_vocab(m->t, m->n, m->type, piece_text, m, err);
    return status == WEFT_OK ? sp_model(m->t, &m->spec, err) : status;
}

weft_status source_sentencepiece(tokenizer *t, const uint8_t *data, size_t size, weft_error *err)
{
    model_file m = { .t = t };
    weft_status status = read_model(&m, data, size, err);
    if (status != WEFT_OK)
        return status;
    status = make_model(&m, err);
    t->bos = m.bos >= 0 && m.bos < m.n && m.type[m.bos] == PIECE_CONTROL ? (int32_t)m.bos : -1;
    t->eos = m.eos >= 0 && m.eos < m.n && m.type[m.eos] == PIECE_CONTROL ? (int32_t)m.eos : -1;
    return status;
}

/* ---- Marian ---------------------------------------------------------------------------------- */

/* Reads the vocabulary that numbers the pieces; every id has a text. */
static weft_status read_numbers(tokenizer *t, vocab *to, const uint8_t *data, size_t size,
                                const char *path, weft_error *err)
{
    json_section_begin(&t->host->mem);
    json_t *root = json_read(data, size, false, path, err);
    const weft_status status = root ? hf_vocab(t, root, NULL, "vocab", err) : err->code;
    json_section_end();
    if (status != WEFT_OK)
        return status;
    *to = t->vocab;
    for (uint32_t id = 0; id < to->n; id++)
        if (!vocab_has(to, id) || to->length[id] == 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: id %u has no piece", path, id);
    return WEFT_OK;
}

/* The id of a token with this text, or NO_ID. */
static uint32_t mark(model_file *m, const vocab *v, const char *text, uint8_t type)
{
    const uint32_t id = vocab_find(v, text, strlen(text));
    if (id != NO_ID)
        m->type[id] = type;
    return id;
}

/* Gives pieces the ids of a vocabulary. Other entries of the vocabulary belong to the other model.
 * Pieces that it lacks get ids after all others, and encode as the unknown token. */
static weft_status renumber(model_file *m, const vocab *v, const char *path, weft_error *err)
{
    const model_file old = *m;
    uint32_t next = v->n;
    if (!room_for(m, (uint64_t)v->n + old.n, err))
        return WEFT_ENOMEM;
    for (uint32_t id = 0; id < v->n; id++) {
        m->entry[id] = (entry){ vocab_text(v, id), v->length[id] };
        m->type[id] = PIECE_FOREIGN;
        m->score[id] = 0;
    }
    for (uint32_t i = 0; i < old.n; i++) {
        const uint32_t found = vocab_find(v, old.entry[i].text, old.entry[i].length);
        const uint32_t id = found != NO_ID ? found : next++;
        m->entry[id] = old.entry[i];
        m->type[id] = old.type[i];
        m->score[id] = old.score[i];
    }
    m->n = next;
    m->t->n_silent = next - v->n;
    m->spec.unk = mark(m, v, "<unk>", PIECE_UNKNOWN);
    const uint32_t eos = mark(m, v, "</s>", PIECE_CONTROL);
    mark(m, v, "<pad>", PIECE_CONTROL);
    m->t->eos = (int32_t)eos;
    if (m->spec.unk == NO_ID || eos == NO_ID)
        return weft_fail(err, WEFT_EFORMAT, "%s: has no %s", path, eos == NO_ID ? "</s>" : "<unk>");
    return WEFT_OK;
}

/* Letters that the model does not know may be a token of the other side, but never a special one:
 * no text becomes that by itself. */
static weft_status name_unknown(tokenizer *t, const vocab *v, weft_error *err)
{
    vocab *names = arena_alloc(&t->store, sizeof *names, err);
    const weft_status status = names ? vocab_init(names, &t->store, v->n, v->used, err)
                                     : WEFT_ENOMEM;
    for (uint32_t id = 0; id < v->n && status == WEFT_OK; id++)
        if (!t->special[id])
            vocab_add(names, id, vocab_text(v, id), v->length[id]);
    t->unigram.names = t->bpe.names = names;
    return status;
}

static bool is_language(const char *s, size_t n)
{
    return n > 4 && memcmp(s, ">>", 2) == 0 && memcmp(s + n - 2, "<<", 2) == 0;
}

/* ">>fra<<": the target language, before a source text. */
static weft_status add_languages(tokenizer *t, const vocab *v, weft_error *err)
{
    size_t n = 0;
    for (uint32_t id = 0; id < v->n; id++)
        n += is_language(vocab_text(v, id), v->length[id]);
    if (n == 0)
        return WEFT_OK;
    added *all = arena_alloc(&t->store, ((size_t)t->n_added + n) * sizeof *all, err);
    if (!all)
        return WEFT_ENOMEM;
    if (t->n_added > 0)
        memcpy(all, t->added, (size_t)t->n_added * sizeof *all);
    t->added = all;
    for (uint32_t id = 0; id < v->n; id++)
        if (is_language(vocab_text(v, id), v->length[id]))
            all[t->n_added++] = (added){
                .content = vocab_text(v, id), .length = v->length[id], .id = id, .first = true
            };
    return WEFT_OK;
}

weft_status source_marian(tokenizer *t, const uint8_t *data, size_t size, const uint8_t *table,
                          size_t table_size, const char *table_path, weft_error *err)
{
    model_file m = { .t = t };
    vocab numbers = { 0 };
    weft_status status = read_numbers(t, &numbers, table, table_size, table_path, err);
    if (status == WEFT_OK)
        status = read_model(&m, data, size, err);
    if (status == WEFT_OK)
        status = renumber(&m, &numbers, table_path, err);
    if (status == WEFT_OK)
        status = make_model(&m, err);
    if (status == WEFT_OK)
        status = name_unknown(t, &numbers, err);
    if (status == WEFT_OK)
        status = add_languages(t, &numbers, err);
    if (status == WEFT_OK)
        template_simple(t, NO_ID, (uint32_t)t->eos);
    return status;
}

/* train.c - from files to words, from words to symbols.
 *
 *     files -> chunks -> (texts between special tokens) -> normalizer -> splitter -> words, counted
 *
 * All threads count chunks, each into its own table. The tables are then merged and the words
 * sorted, so that the result does not depend on which thread counted what. */
#include "text/train/train.h"

#include "base/cpu.h"
#include "base/pool.h"
#include "base/utf8.h"
#include "formats/recognise.h"
#include "formats/unpack.h"
#include "text/hash.h"
#include "text/split.h"

#include <limits.h>
#include <stdatomic.h>

#define CHUNK_BYTES ((size_t)256 << 10)
#define MAX_SPECIAL 1024

typedef struct chunk {
    const char *s;
    size_t n;
} chunk;

typedef struct corpus {
    const train_options *o;
    host *host;
    normalizer normalizer;
    splitters splitters;
    scratch chunk_room;
    chunk *chunks;
    size_t n_chunk;
    _Atomic size_t next; /* next chunk to count */
} corpus;

/* One thread's working state. */
typedef struct counter {
    corpus *c;
    words words;
    regex_scratch *regex;
    writer writer;
    growth growth;
    normalize_scratch normal;
    weft_error err;
    bool failed;
} counter;

/* ---- the pipeline ---------------------------------------------------------------------------- */

static weft_status pipeline_init(corpus *c, weft_error *err)
{
    c->splitters.n = 1;
    if (c->o->wordpiece) {
        c->splitters.step[0] = (splitter){ .kind = SPLIT_BERT };
        c->normalizer.step[0] = (normalizer_step){ .kind = NORM_BERT,
                                                   .clean = true,
                                                   .han = true,
                                                   .strip_accents = !c->o->cased,
                                                   .lower = !c->o->cased };
        c->normalizer.n = 1;
        return WEFT_OK;
    }
    const char *pattern = c->o->pattern ? c->o->pattern : pattern_gpt2;
    const size_t n = strlen(pattern);
    regex *re = regex_new(pattern, n, &c->host->mem, err);
    c->splitters.step[0] = (splitter){ .kind = SPLIT_PATTERN,
                                       .behavior = SPLIT_ISOLATED,
                                       .pattern = re,
                                       .scan = scan_of_pattern(pattern, n) };
    return re ? WEFT_OK : err->code;
}

/* ---- counting -------------------------------------------------------------------------------- */

static bool count_word(void *ud, const piece *p)
{
    counter *k = ud;
    return p->n == 0 || words_add(&k->words, p->s, p->n, 1, &k->err);
}

static bool count_text(counter *k, const char *s, size_t n)
{
    mem *m = &k->c->host->mem;
    piece p = { .s = s, .n = n };
    if (n == 0)
        return true;
    regex_begin(k->regex, n);
    growth_begin(&k->normal.growth, k->c->normalizer.n, n, GROWTH_TIMES, GROWTH_MORE);
    growth_begin(&k->growth, k->c->splitters.n, n, GROWTH_TIMES, GROWTH_MORE);
    if (!normalize(&k->c->normalizer, &k->normal, &p, false, m, &k->err))
        return false;
    const split_run run = { &k->c->splitters, k->regex, &k->writer, &k->growth, false, m,
                            count_word,       k,        &k->err };
    return p.n == 0 || split_text(&run, &p);
}

/* The first special token in s, and its length; s + n if there is none. The longer of two that
 * begin at the same place. */
static const char *find_special(const train_options *o, const char *s, size_t n, size_t *length)
{
    const char *first = s + n;
    *length = 0;
    for (int i = 0; i < o->n_special; i++) {
        const size_t m = strlen(o->special[i]), before = (size_t)(first - s);
        const size_t room = n - before < m ? n : before + m; /* also one that begins at `first` */
        const char *at = memmem(s, room, o->special[i], m);
        if (at && (at < first || (at == first && m > *length))) {
            first = at;
            *length = m;
        }
    }
    return first;
}

/* Counts the text between special tokens, line by line if requested. */
static bool count_chunk(counter *k, const chunk *c)
{
    const char *s = c->s, *end = c->s + c->n;
    while (s < end && !k->failed) {
        const char *stop = end;
        if (k->c->o->lines) {
            const char *line = memchr(s, '\n', (size_t)(end - s));
            stop = line ? line + 1 : end;
        }
        while (s < stop) {
            size_t length;
            const char *at = find_special(k->c->o, s, (size_t)(stop - s), &length);
            if (!count_text(k, s, (size_t)(at - s)))
                return false;
            s = at + length;
        }
    }
    return true;
}

/* One thread's share: takes chunks until none are left. */
static void count_chunks(void *arg, int64_t i)
{
    counter *k = &((counter *)arg)[i];
    for (size_t n; !k->failed && (n = atomic_fetch_add(&k->c->next, 1)) < k->c->n_chunk;)
        k->failed = !count_chunk(k, &k->c->chunks[n]);
}

static void counter_free(counter *k)
{
    mem *m = &k->c->host->mem;
    words_free(&k->words);
    regex_scratch_free(k->regex);
    writer_free(&k->writer, m);
    normalize_scratch_free(&k->normal, m);
}

/* Counts all chunks, and merges the tables into the first counter's. */
static weft_status count_all(corpus *c, counter *k, int n, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        k[i].c = c;
        k[i].words.mem = &c->host->mem;
        k[i].regex = regex_scratch_new(&c->host->mem, err);
        k[i].normal.regex = k[i].regex;
        status = k[i].regex ? WEFT_OK : err->code;
    }
    pool *p = status == WEFT_OK ? pool_new(n, &c->host->mem, err) : NULL;
    if (!p)
        return err->code;
    pool_run(p, n, count_chunks, k);
    pool_free(p);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (k[i].failed) {
            *err = k[i].err;
            status = err->code;
        } else if (i > 0 && !words_unite(&k[0].words, &k[i].words, err)) {
            status = err->code;
        }
    }
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static weft_status check_utf8(const file *f, weft_error *err)
{
    const size_t at = utf8_find_wrong(file_text(f), f->size);
    if (at < f->size)
        return weft_fail(err, WEFT_EFORMAT, "%s: byte %zu is not UTF-8", f->path, at);
    return WEFT_OK;
}

/* The end of a chunk of at least CHUNK_BYTES, if the text is that long: after a line or a special
 * token, since no word crosses those. */
static size_t text_chunk_end(const train_options *o, const char *s, size_t n)
{
    size_t end = 0;
    if (o->lines) {
        const char *line = n > CHUNK_BYTES ? memchr(s + CHUNK_BYTES, '\n', n - CHUNK_BYTES) : NULL;
        return line ? (size_t)(line - s) + 1 : n;
    }
    while (end < n && end < CHUNK_BYTES) {
        size_t length;
        const char *at = find_special(o, s + end, n - end, &length);
        end = (size_t)(at - s) + length;
    }
    return end;
}

static weft_status cut_file(corpus *c, const file *f, weft_error *err)
{
    const char *s = (const char *)f->data;
    for (size_t at = 0, n; at < f->size; at += n) {
        chunk *chunks = scratch_grow(&c->chunk_room, (c->n_chunk + 1) * sizeof *chunks,
                                     &c->host->mem, err);
        if (!chunks)
            return err->code;
        c->chunks = chunks;
        n = text_chunk_end(c->o, s + at, f->size - at);
        chunks[c->n_chunk++] = (chunk){ s + at, n };
    }
    return WEFT_OK;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static bool add_token(merger *l, const char *s, size_t n, weft_error *err)
{
    return tokens_add(&l->tokens, s, n, err) != NO_ID;
}

/* Bytes get their ids in the order of their stand-ins: the printable ones first. */
static bool byte_alphabet(merger *l, weft_error *err)
{
    for (uint32_t c = 0; c < 0x200; c++) {
        const int byte = byte_of_stand_in(c);
        if (byte >= 0 && !add_token(l, &(char){ (char)byte }, 1, err))
            return false;
    }
    return true;
}

static bool byte_words(merger *l, const words *w, word *const *sorted, weft_error *err)
{
    uint32_t id[256];
    for (int byte = 0; byte < 256; byte++)
        id[byte] = tokens_find(&l->tokens, &(char){ (char)byte }, 1);
    for (uint64_t i = 0; i < w->n; i++) {
        const char *s = w->text + sorted[i]->at;
        for (size_t k = 0; k < sorted[i]->n; k++)
            if (!merger_put(l, id[(uint8_t)s[k]], err))
                return false;
        if (!merger_end_word(l, sorted[i]->count, err))
            return false;
    }
    return true;
}

/* "##" and a code point. */
static size_t inside_word(char to[6], const char *s, size_t n)
{
    memcpy(to, "##", 2);
    memcpy(to + 2, s, n);
    return n + 2;
}

/* Calls add for every code point of every word, with whether it begins the word. */
typedef bool point_fn(merger *l, const char *s, size_t n, bool begins, void *ud, weft_error *err);

static bool each_point(merger *l, const words *w, word *const *sorted, point_fn *add, void *ud,
                       bool ends, weft_error *err)
{
    for (uint64_t i = 0; i < w->n; i++) {
        const char *s = w->text + sorted[i]->at;
        for (size_t at = 0, n; at < sorted[i]->n; at += n) {
            uint32_t c;
            n = utf8_decode(s + at, sorted[i]->n - at, &c);
            if (n == 0 || !add(l, s + at, n, at == 0, ud, err))
                return false;
        }
        if (ends && !merger_end_word(l, sorted[i]->count, err))
            return false;
    }
    return true;
}

/* Bit 0: the code point occurs; bit 1: inside a word. */
static bool mark_point(merger *l, const char *s, size_t n, bool begins, void *ud, weft_error *err)
{
    (void)l, (void)err;
    uint32_t c;
    utf8_decode(s, n, &c);
    ((uint8_t *)ud)[c] |= begins ? 1 : 3;
    return true;
}

static bool put_point(merger *l, const char *s, size_t n, bool begins, void *ud, weft_error *err)
{
    (void)ud;
    char inside[6];
    const size_t m = begins ? n : inside_word(inside, s, n);
    return merger_put(l, tokens_find(&l->tokens, begins ? s : inside, m), err);
}

/* First every code point, then those inside words. Hugging Face gives the latter their ids in the
 * order of a hash table with a new seed in every run; weft uses code point order. */
static bool point_words(merger *l, const words *w, word *const *sorted, weft_error *err)
{
    uint8_t *seen = mem_zalloc(l->mem, 0x110000, 1, "code points", err);
    bool good = seen && each_point(l, w, sorted, mark_point, seen, false, err);
    for (int inside = 0; inside < 2 && good; inside++)
        for (uint32_t c = 0; c < 0x110000 && good; c++) {
            if (!(seen[c] >> inside & 1))
                continue;
            char s[4], spelled[6];
            const size_t n = utf8_encode(c, s), m = inside ? inside_word(spelled, s, n) : n;
            good = add_token(l, inside ? spelled : s, m, err);
        }
    mem_free(l->mem, seen);
    return good && each_point(l, w, sorted, put_point, NULL, true, err);
}

static bool make_symbols(merger *l, const train_options *o, const words *w, weft_error *err)
{
    for (int i = 0; i < o->n_special; i++)
        if (!add_token(l, o->special[i], strlen(o->special[i]), err))
            return false;
    for (int i = 0; i < o->n_first; i++)
        if (!add_token(l, o->first[i], strlen(o->first[i]), err))
            return false;
    if (!o->wordpiece && !byte_alphabet(l, err))
        return false;
    word **sorted = words_sorted(w, err);
    const bool good = sorted && (o->wordpiece ? point_words(l, w, sorted, err)
                                              : byte_words(l, w, sorted, err));
    mem_free(l->mem, sorted);
    return good;
}

/* ---- training -------------------------------------------------------------------------------- */

static weft_status check_options(const train_options *o, int n_path, weft_error *err)
{
    if (n_path < 1)
        return weft_fail(err, WEFT_EINVAL, "no text to train on");
    if (o->n_vocab < 1 || o->n_vocab > (1u << 24))
        return weft_fail(err, WEFT_EINVAL, "a vocabulary of %u tokens, expected 1 to %u",
                         o->n_vocab, 1u << 24);
    if (o->n_special < 0 || o->n_special > MAX_SPECIAL || o->n_thread < 0)
        return weft_fail(err, WEFT_EINVAL, "%d special tokens, expected up to %d", o->n_special,
                         MAX_SPECIAL);
    for (int i = 0; i < o->n_special; i++) {
        const char *s = o->special[i];
        uint32_t c;
        if (!s[0])
            return weft_fail(err, WEFT_EINVAL, "special token %d is empty", i);
        for (int k = 0; k < i; k++)
            if (strcmp(o->special[k], s) == 0)
                return weft_fail(err, WEFT_EINVAL, "special token %s is given twice", s);
        for (size_t n; *s; s += n)
            if ((n = utf8_decode(s, strlen(s), &c)) == 0)
                return weft_fail(err, WEFT_EINVAL, "special token %d is not UTF-8", i);
    }
    return WEFT_OK;
}

static weft_status learn_words(trained *t, const train_options *o, const words *w, weft_error *err)
{
    merger *l = &t->merger;
    l->n_vocab = o->n_vocab;
    l->min_frequency = o->min_frequency;
    l->by_bytes = o->by_bytes;
    l->prefix = o->wordpiece ? "##" : NULL;
    t->n_word = w->n;
    for (uint64_t i = 0; i < w->size; i++)
        t->n_occurrence += w->slot[i].count;
    return make_symbols(l, o, w, err) ? merger_run(l, err) : err->code;
}

/* Marks the code points of all texts, and counts them as words. */
static void mark_characters(trained *t, const corpus *c, uint8_t *seen)
{
    for (size_t i = 0; i < c->n_chunk; i++) {
        const char *s = c->chunks[i].s, *end = s + c->chunks[i].n;
        while (s < end) {
            size_t length;
            const char *stop = find_special(c->o, s, (size_t)(end - s), &length);
            for (; s < stop; t->n_occurrence++) {
                uint32_t point;
                s += utf8_decode(s, (size_t)(stop - s), &point); /* checked: all is UTF-8 */
                t->n_word += !seen[point];
                seen[point] = 1;
            }
            s = stop + length;
        }
    }
}

/* Ids in code point order, after the special tokens. */
static weft_status learn_characters(trained *t, const corpus *c, weft_error *err)
{
    uint8_t *seen = mem_zalloc(&c->host->mem, 0x110000, 1, "code points", err);
    if (!seen)
        return err->code;
    mark_characters(t, c, seen);
    weft_status status = WEFT_OK;
    if (t->n_word + (uint64_t)c->o->n_special > c->o->n_vocab)
        status = weft_fail(err, WEFT_EINVAL,
                           "%llu characters and %d special tokens in a vocabulary of %u",
                           (unsigned long long)t->n_word, c->o->n_special, c->o->n_vocab);
    for (int i = 0; i < c->o->n_special && status == WEFT_OK; i++)
        if (!add_token(&t->merger, c->o->special[i], strlen(c->o->special[i]), err))
            status = err->code;
    for (uint32_t point = 0; point < 0x110000 && status == WEFT_OK; point++) {
        char s[4];
        if (seen[point] && !add_token(&t->merger, s, utf8_encode(point, s), err))
            status = err->code;
    }
    mem_free(&c->host->mem, seen);
    return status;
}

static weft_status train_on(trained *t, corpus *c, weft_error *err)
{
    if (c->o->characters)
        return learn_characters(t, c, err);
    const int most = c->n_chunk < INT_MAX ? (int)c->n_chunk : INT_MAX;
    int n = c->o->n_thread > 0 ? c->o->n_thread : cpu_count();
    n = n < most ? n : most > 0 ? most : 1;
    counter *k = mem_zalloc(&c->host->mem, (size_t)n, sizeof *k, "counters of words", err);
    if (!k)
        return err->code;
    for (int i = 0; i < n; i++)
        k[i].c = c;
    weft_status status = count_all(c, k, n, err);
    for (int i = 1; i < n; i++)
        counter_free(&k[i]);
    if (status == WEFT_OK)
        status = learn_words(t, c->o, &k[0].words, err);
    counter_free(&k[0]);
    mem_free(&c->host->mem, k);
    return status;
}

weft_status train_tokenizer(trained *t, const char *const *path, int n_path, const train_options *o,
                            host *h, weft_error *err)
{
    *t = (trained){ .merger = { .mem = &h->mem, .tokens = { .mem = &h->mem } } };
    weft_status status = check_options(o, n_path, err);
    if (status != WEFT_OK)
        return status;
    corpus c = { .o = o, .host = h };
    file *files = mem_zalloc(&h->mem, (size_t)n_path, sizeof *files, "files", err);
    status = files ? pipeline_init(&c, err) : err->code;
    int n_open = 0;
    while (status == WEFT_OK && n_open < n_path) {
        status = file_open_unpacked(&files[n_open], path[n_open], "text", o->load, h, err);
        if (status != WEFT_OK)
            break;
        n_open++;
        status = recognise_known(path[n_open - 1], files[n_open - 1].data, files[n_open - 1].size,
                                 "text", err);
        if (status == WEFT_OK)
            status = check_utf8(&files[n_open - 1], err);
        if (status == WEFT_OK)
            status = cut_file(&c, &files[n_open - 1], err);
    }
    if (status == WEFT_OK)
        status = train_on(t, &c, err);
    regex_free(c.splitters.step[0].pattern);
    scratch_free(&c.chunk_room, &h->mem);
    while (n_open > 0)
        file_close(&files[--n_open], h);
    mem_free(&h->mem, files);
    if (status != WEFT_OK)
        trained_free(t);
    return status;
}

void trained_free(trained *t)
{
    merger_free(&t->merger);
}

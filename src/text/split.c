/* split.c - one function per pre-tokenizer; regex/ runs the regular expressions. */
#include "text/split.h"

#include <string.h>

typedef struct frame {
    const split_run *run;
    const splitter *step;
    int at; /* index of this step */
    const piece *in;
} frame;

static bool step_from(const split_run *run, int at, const piece *p);

static bool hand_on(const frame *f, size_t begin, size_t end)
{
    if (begin == end)
        return true;
    const piece p = piece_cut(f->in, begin, end);
    return step_from(f->run, f->at + 1, &p);
}

/* ---- matches and pieces ---------------------------------------------------------------------- */

/* Joins stretches, alternately matched and unmatched, into pieces. */
typedef struct fold {
    const frame *frame;
    size_t begin, end; /* the piece that may still grow */
    bool open, matched;
} fold;

static bool fold_close(fold *f)
{
    const bool open = f->open;
    f->open = false;
    return !open || hand_on(f->frame, f->begin, f->end);
}

static bool fold_push(fold *f, size_t begin, size_t end, bool match)
{
    match ^= f->frame->step->invert;
    const bool before = f->matched;
    bool join = false;
    f->matched = match;
    switch (f->frame->step->behavior) {
    case SPLIT_REMOVED:
        return match || hand_on(f->frame, begin, end);
    case SPLIT_ISOLATED:
        return hand_on(f->frame, begin, end);
    case SPLIT_CONTIGUOUS:
        join = match == before;
        break;
    case SPLIT_MERGED_WITH_PREVIOUS:
        join = match && !before;
        break;
    case SPLIT_MERGED_WITH_NEXT:
        join = before && !match;
        break;
    }
    if (!join || !f->open) {
        if (!fold_close(f))
            return false;
        f->begin = begin;
    }
    f->end = end;
    f->open = true;
    return true;
}

static bool by_pattern(const frame *f)
{
    const piece *p = f->in;
    fold g = { .frame = f };
    regex_walk walk = { 0 };
    size_t at = 0, begin, end;
    int found;
    while ((found = regex_next(f->step->pattern, f->run->regex, &walk, p->s, p->n, &begin, &end,
                               f->run->err)) > 0) {
        if (at < begin && !fold_push(&g, at, begin, false))
            return false;
        if (!fold_push(&g, begin, end, true))
            return false;
        at = end;
    }
    if (found < 0 || (at < p->n && !fold_push(&g, at, p->n, false)))
        return false;
    return fold_close(&g);
}

/* An isolated pattern that leaves no gaps: most pieces come from the hand-written scanner. */
static bool by_scan(const frame *f)
{
    const piece *p = f->in;
    for (size_t at = 0, end; at < p->n; at = end) {
        end = f->step->scan(p->s, p->n, at);
        if (end == 0) {
            size_t begin;
            const int found = regex_find(f->step->pattern, f->run->regex, p->s, p->n, at, &begin,
                                         &end, f->run->err);
            if (found < 0)
                return false;
            if (found == 0 || end == at)
                end = p->n;
            else if (begin > at)
                end = begin;
        }
        if (!hand_on(f, at, end))
            return false;
    }
    return true;
}

static bool by_text(const frame *f)
{
    const piece *p = f->in;
    fold g = { .frame = f };
    size_t at = 0;
    while (at < p->n) {
        const char *hit = memmem(p->s + at, p->n - at, f->step->text, f->step->text_length);
        const size_t begin = hit ? (size_t)(hit - p->s) : p->n;
        if (at < begin && !fold_push(&g, at, begin, false))
            return false;
        if (!hit)
            break;
        at = begin + f->step->text_length;
        if (!fold_push(&g, begin, at, true))
            return false;
    }
    return fold_close(&g);
}

static bool is_found(const splitter *s, uint32_t point)
{
    switch (s->kind) {
    case SPLIT_SPACE:
        return unicode_is_space(point);
    case SPLIT_PUNCTUATION:
        return unicode_is_punctuation(point);
    case SPLIT_NUMERIC:
        return unicode_is_numeric(point);
    default:
        return point == s->point;
    }
}

static bool by_point(const frame *f)
{
    const piece *p = f->in;
    fold g = { .frame = f };
    size_t last = 0;
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = piece_point(p, at, &point);
        if (!is_found(f->step, point))
            continue;
        if ((last < at && !fold_push(&g, last, at, false)) || !fold_push(&g, at, at + n, true))
            return false;
        last = at + n;
    }
    return (last == p->n || fold_push(&g, last, p->n, false)) && fold_close(&g);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool by_words(const frame *f)
{
    const piece *p = f->in;
    size_t begin = 0;
    int before = 0; /* 1 in a word, 2 in other letters, 0 between */
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = piece_point(p, at, &point);
        const int now = unicode_is_word(point) ? 1 : unicode_is_space(point) ? 0 : 2;
        if (now == before)
            continue;
        if (before && !hand_on(f, begin, at))
            return false;
        begin = at;
        before = now;
    }
    return !before || hand_on(f, begin, p->n);
}

/* The class of a code point in BertPreTokenizer: 0 part of a word, 1 space, 2 punctuation. */
static const uint8_t bert_ascii[128] = {
    [9 ... 13] = 1,    [' '] = 1,         ['!' ... '/'] = 2,
    [':' ... '@'] = 2, ['[' ... '`'] = 2, ['{' ... '~'] = 2,
};

static int bert_class(uint32_t c)
{
    return c < 128 ? bert_ascii[c] : unicode_is_space(c) ? 1 : unicode_is_punctuation(c) ? 2 : 0;
}

static bool by_bert(const frame *f)
{
    const piece *p = f->in;
    size_t begin = 0;
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = piece_point(p, at, &point);
        const int now = bert_class(point);
        if (now == 0)
            continue;
        if (!hand_on(f, begin, at) || (now == 2 && !hand_on(f, at, at + n)))
            return false;
        begin = at + n;
    }
    return hand_on(f, begin, p->n);
}

/* Drops the text before the first letter that has a script, as Hugging Face does. */
static bool by_scripts(const frame *f)
{
    const piece *p = f->in;
    size_t begin = SIZE_MAX;
    int before = -1;
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = piece_point(p, at, &point);
        const int script = unicode_script(point);
        if (script == 0)
            continue;
        if (script != before) {
            if (begin != SIZE_MAX && !hand_on(f, begin, at))
                return false;
            begin = at;
        }
        before = script;
    }
    return begin == SIZE_MAX || hand_on(f, begin, p->n);
}

static bool by_length(const frame *f)
{
    const piece *p = f->in;
    size_t begin = 0, count = 0;
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = piece_point(p, at, &point);
        if (++count < f->step->length)
            continue;
        if (!hand_on(f, begin, at + n))
            return false;
        begin = at + n;
        count = 0;
    }
    return hand_on(f, begin, p->n);
}

/* ---- steps that write new text --------------------------------------------------------------- */

static writer *fresh(const frame *f)
{
    writer *w = &f->run->writer[f->at];
    writer_begin(w, f->run->maps, f->run->growth->left[f->at], f->run->mem, f->run->err);
    return w;
}

/* The text written so far, unless writing failed. */
static bool written(const frame *f, const writer *w, piece *p)
{
    f->run->growth->left[f->at] -= w->failed ? 0 : w->n;
    *p = writer_piece(w);
    return !w->failed;
}

static bool starts_with(const piece *p, const char *text, size_t n)
{
    return p->n >= n && memcmp(p->s, text, n) == 0;
}

static bool by_metaspace(const frame *f)
{
    const splitter *s = f->step;
    const piece *p = f->in;
    writer *w = fresh(f);
    const bool first = s->prepend == PREPEND_FIRST && (p->n == 0 || piece_from(p, 0) == 0);
    if ((s->prepend == PREPEND_ALWAYS || first) && !starts_with(p, " ", 1) &&
        !starts_with(p, s->text, s->text_length))
        writer_replace(w, s->text, s->text_length, p, 0, 1);
    for (size_t at = 0, end; at < p->n; at = end) {
        const char *space = memchr(p->s + at, ' ', p->n - at);
        end = space ? (size_t)(space - p->s) : p->n;
        writer_copy(w, p, at, end);
        if (space)
            writer_replace(w, s->text, s->text_length, p, end, end + 1);
        end += space != NULL;
    }
    piece out;
    if (!written(f, w, &out))
        return false;
    if (!s->cut)
        return step_from(f->run, f->at + 1, &out);
    const splitter by = { .kind = SPLIT_TEXT,
                          .behavior = SPLIT_MERGED_WITH_NEXT,
                          .text = s->text,
                          .text_length = s->text_length };
    return by_text(&(frame){ f->run, &by, f->at, &out });
}

static bool by_prefix_space(const frame *f)
{
    const piece *p = f->in;
    if (starts_with(p, " ", 1))
        return step_from(f->run, f->at + 1, p);
    writer *w = fresh(f);
    writer_replace(w, " ", 1, p, 0, 1);
    writer_copy(w, p, 0, p->n);
    piece out;
    return written(f, w, &out) && step_from(f->run, f->at + 1, &out);
}

static bool by_bytes(const frame *f)
{
    writer *w = fresh(f);
    for (size_t i = 0; i < f->in->n; i++)
        writer_point(w, byte_stand_in((uint8_t)f->in->s[i]), f->in, i, i + 1);
    piece out;
    return written(f, w, &out) && step_from(f->run, f->at + 1, &out);
}

static bool step_from(const split_run *run, int at, const piece *p)
{
    if (at == run->steps->n)
        return run->emit(run->ud, p);
    const frame f = { run, &run->steps->step[at], at, p };
    switch (f.step->kind) {
    case SPLIT_PATTERN:
        return f.step->scan ? by_scan(&f) : by_pattern(&f);
    case SPLIT_TEXT:
        return by_text(&f);
    case SPLIT_SPACE:
    case SPLIT_PUNCTUATION:
    case SPLIT_NUMERIC:
    case SPLIT_POINT:
        return by_point(&f);
    case SPLIT_WORDS:
        return by_words(&f);
    case SPLIT_BERT:
        return by_bert(&f);
    case SPLIT_METASPACE:
        return by_metaspace(&f);
    case SPLIT_PREFIX_SPACE:
        return by_prefix_space(&f);
    case SPLIT_BYTES:
        return by_bytes(&f);
    case SPLIT_SCRIPTS:
        return by_scripts(&f);
    case SPLIT_LENGTH:
        return by_length(&f);
    }
    return false;
}

bool split_text(const split_run *run, const piece *p)
{
    return step_from(run, 0, p);
}

/* normal.c - the four normal forms, and the origin of each of their bytes.
 *
 *     text -> decompose -> order marks -> (compose) -> text, from
 *
 * Code points are streamed. Only the marks after one starter are buffered. There may be as many as
 * the text is long, so they are ordered by counting sort.
 *
 * The decompositions are utf8proc's. A code point newer than the tables that Hugging Face
 * normalises with is left unchanged (unicode_is_inert).
 *
 * Origins are computed as Hugging Face does. Each code point carries by how many it changed the
 * count of code points: 0 replaces one, 1 was inserted, -n swallows n. The origin follows from
 * counting. That is not always right: marks that changed places keep the origins of the places. But
 * users of those tokenizers see these offsets. */
#include "base/utf8.h"
#include "text/unicode/tables.h"
#include "text/unicode/unicode.h"

#include <string.h>
#include <utf8proc.h>

typedef struct unit {
    uint32_t point;
    int32_t change;
    uint8_t order; /* canonical combining class; 0 is a starter */
} unit;

typedef struct units {
    unit *at;
    size_t n, room;
} units;

typedef struct stream {
    unicode_text *to;
    weft_error *err;
    bool compose;
    utf8proc_option_t options;
    const char *text; /* the input */
    size_t n, source; /* the origin of the next code point that replaces one */
    size_t before;    /* the origin before it */
    units waiting;    /* decomposed, not yet ordered: one starter and its marks */
    units sorted;     /* scratch for ordering them */
    units held;       /* marks after `base` that did not compose with it */
    unit base;        /* the starter that may still compose */
    bool has_base;
    int last; /* class of the last held mark, -1 if none is held */
} stream;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Room for n objects, at least doubled; keeps the first `used`. */
static void *more(mem *m, void *block, size_t used, size_t *room, size_t n, size_t size,
                  weft_error *err)
{
    size_t count = *room < 64 ? 64 : *room * 2;
    count = count < n ? n : count;
    if (count > SIZE_MAX / size) {
        weft_fail(err, WEFT_ENOMEM, "text: %zu x %zu bytes are more than memory can hold", count,
                  size);
        return NULL;
    }
    void *bigger = mem_alloc(m, count * size, "normalised text", err);
    if (!bigger)
        return NULL;
    if (used > 0)
        memcpy(bigger, block, used * size);
    mem_free(m, block);
    *room = count;
    return bigger;
}

static weft_status keep_unit(stream *s, units *u, unit x)
{
    if (u->n == u->room) {
        unit *at = more(s->to->mem, u->at, u->n, &u->room, u->n + 1, sizeof x, s->err);
        if (!at)
            return WEFT_ENOMEM;
        u->at = at;
    }
    u->at[u->n++] = x;
    return WEFT_OK;
}

/* Makes room for n bytes of output. */
static weft_status reserve(unicode_text *t, size_t n, weft_error *err)
{
    if (t->room - t->n >= n)
        return WEFT_OK;
    size_t room = t->room, room_from = t->room;
    char *text = more(t->mem, t->text, t->n, &room, t->n + n, 1, err);
    if (!text)
        return WEFT_ENOMEM;
    t->text = text;
    uint32_t *from = more(t->mem, t->from, t->n, &room_from, t->n + n, sizeof *from, err);
    if (!from)
        return WEFT_ENOMEM; /* t->room still holds for both */
    t->from = from;
    t->room = room;
    return WEFT_OK;
}

void unicode_text_free(unicode_text *t)
{
    mem_free(t->mem, t->text);
    mem_free(t->mem, t->from);
    *t = (unicode_text){ .mem = t->mem };
}

/* ---- origins --------------------------------------------------------------------------------- */

static size_t length_at(const stream *s, size_t at)
{
    uint32_t c;
    return at < s->n ? utf8_decode(s->text + at, s->n - at, &c) : 0;
}

static weft_status emit(stream *s, unit x)
{
    if (reserve(s->to, 4, s->err) != WEFT_OK)
        return WEFT_ENOMEM;
    const size_t origin = x.change > 0 || s->source == s->n ? s->before : s->source;
    const size_t n = utf8_encode(x.point, s->to->text + s->to->n);
    for (size_t i = 0; i < n; i++)
        s->to->from[s->to->n + i] = (uint32_t)origin;
    s->to->n += n;
    for (int32_t k = x.change; k <= 0 && s->source < s->n; k++) {
        s->before = s->source;
        s->source += length_at(s, s->source);
    }
    return WEFT_OK;
}

/* ---- composing ------------------------------------------------------------------------------- */

/* The code point that two compose to, or 0. No second half is below U+0300. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    if (b < 0x300)
        return 0;
    utf8proc_int32_t pair[2] = { (utf8proc_int32_t)a, (utf8proc_int32_t)b };
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) != 1)
        return 0;
    return unicode_is_inert((uint32_t)pair[0]) ? 0 : (uint32_t)pair[0];
}

static weft_status release_base(stream *s)
{
    weft_status status = s->has_base ? emit(s, s->base) : WEFT_OK;
    for (size_t i = 0; i < s->held.n && status == WEFT_OK; i++)
        status = emit(s, s->held.at[i]);
    s->held.n = 0;
    s->has_base = false;
    s->last = -1;
    return status;
}

static weft_status compose(stream *s, unit x)
{
    if (!s->has_base) {
        if (x.order != 0)
            return emit(s, x);
        s->base = x;
        s->has_base = true;
        return WEFT_OK;
    }
    const bool blocked = s->last >= x.order;
    const uint32_t both = blocked ? 0 : composed(s->base.point, x.point);
    if (both) {
        s->base.point = both;
        s->base.change += x.change - 1;
        return WEFT_OK;
    }
    if (x.order == 0) {
        const weft_status status = release_base(s);
        s->base = x;
        s->has_base = true;
        return status;
    }
    s->last = x.order;
    return keep_unit(s, &s->held, x);
}

/* ---- ordering -------------------------------------------------------------------------------- */

/* Sorts the waiting marks by class, stably. */
static weft_status order_marks(stream *s)
{
    units *u = &s->waiting;
    bool sorted = true;
    for (size_t i = 1; i < u->n && sorted; i++)
        sorted = u->at[i - 1].order <= u->at[i].order;
    if (sorted)
        return WEFT_OK;
    size_t place[257] = { 0 };
    for (size_t i = 0; i < u->n; i++)
        place[u->at[i].order + 1]++;
    for (int k = 0; k < 256; k++)
        place[k + 1] += place[k];
    if (s->sorted.room < u->n) {
        unit *at = more(s->to->mem, s->sorted.at, 0, &s->sorted.room, u->n, sizeof *at, s->err);
        if (!at)
            return WEFT_ENOMEM;
        s->sorted.at = at;
    }
    for (size_t i = 0; i < u->n; i++)
        s->sorted.at[place[u->at[i].order]++] = u->at[i];
    memcpy(u->at, s->sorted.at, u->n * sizeof *u->at);
    return WEFT_OK;
}

static weft_status release_waiting(stream *s)
{
    weft_status status = order_marks(s);
    for (size_t i = 0; i < s->waiting.n && status == WEFT_OK; i++)
        status = s->compose ? compose(s, s->waiting.at[i]) : emit(s, s->waiting.at[i]);
    s->waiting.n = 0;
    return status;
}

/* ---- decomposing ----------------------------------------------------------------------------- */

static weft_status wait_for(stream *s, uint32_t c, bool inert, bool first)
{
    const uint8_t order =
        inert ? 0 : (uint8_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
    weft_status status = order == 0 ? release_waiting(s) : WEFT_OK;
    if (status == WEFT_OK)
        status = keep_unit(s, &s->waiting, (unit){ c, first ? 0 : 1, order });
    return status;
}

static weft_status decompose(stream *s, uint32_t c)
{
    if (c < 0x80 || unicode_is_inert(c))
        return wait_for(s, c, true, true);
    utf8proc_int32_t parts[32]; /* the longest decomposition has 18 */
    int bound = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32, s->options,
                                                       &bound);
    if (n < 1 || n > 32)
        return wait_for(s, c, true, true);
    weft_status status = WEFT_OK;
    for (utf8proc_ssize_t i = 0; i < n && status == WEFT_OK; i++)
        status = wait_for(s, (uint32_t)parts[i], false, i == 0);
    return status;
}

/* ASCII before ASCII is final in every form. */
static weft_status copy_ascii(stream *s, size_t *at)
{
    size_t end = *at;
    while (end < s->n && (uint8_t)s->text[end] < 0x80)
        end++;
    end -= end < s->n && end > *at ? 1 : 0; /* the last one may have marks after it */
    if (end - *at < 2)
        return WEFT_OK;
    weft_status status = release_waiting(s);
    if (status == WEFT_OK)
        status = release_base(s);
    if (status == WEFT_OK)
        status = reserve(s->to, end - *at, s->err);
    if (status != WEFT_OK)
        return status;
    unicode_text *to = s->to;
    memcpy(to->text + to->n, s->text + *at, end - *at);
    for (size_t i = *at; i < end; i++) {
        to->from[to->n++] = (uint32_t)s->source;
        s->before = s->source;
        s->source += length_at(s, s->source);
    }
    *at = end;
    return WEFT_OK;
}

weft_status unicode_normalize(unicode_form form, const char *text, size_t n, unicode_text *to,
                              weft_error *err)
{
    to->n = 0;
    if (n > UINT32_MAX)
        return weft_fail(err, WEFT_ELIMIT, "text of %zu bytes, more than 4 GiB", n);
    stream s = { .to = to, .err = err, .text = text, .n = n, .last = -1 };
    s.compose = form == UNICODE_NFC || form == UNICODE_NFKC;
    const bool compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    s.options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);

    weft_status status = WEFT_OK;
    for (size_t at = 0, length; at < n && status == WEFT_OK; at += length) {
        uint32_t c;
        status = copy_ascii(&s, &at);
        length = at < n ? utf8_decode(text + at, n - at, &c) : 0;
        if (status == WEFT_OK && length > 0)
            status = decompose(&s, c);
        else if (length == 0)
            break;
    }
    if (status == WEFT_OK)
        status = release_waiting(&s);
    if (status == WEFT_OK)
        status = release_base(&s);
    mem_free(to->mem, s.waiting.at);
    mem_free(to->mem, s.sorted.at);
    mem_free(to->mem, s.held.at);
    return status;
}

/* ---- quick check ----------------------------------------------------------------------------- */

/* Starters that no form decomposes and that do not compose with the text before them. A mark that
 * composes with a starter is not in this set. */
static bool settled(unicode_form form, uint32_t c)
{
    static const uint32_t below[] = {
        [UNICODE_NFC] = 0x300, [UNICODE_NFD] = 0xC0, [UNICODE_NFKC] = 0xA0, [UNICODE_NFKD] = 0xA0
    };
    if (c < below[form] || (c >= 0x3400 && c < 0xA000)) /* Han */
        return true;
    switch (form) {
    case UNICODE_NFC:
        return (c >= 0x400 && c < 0x483) || (c >= 0x2010 && c < 0x205F) ||   /* Cyrillic, dashes */
               (c >= 0x3000 && c < 0x302A) || (c >= 0x3040 && c < 0x3099) || /* kana */
               (c >= 0xAC00 && c < 0xD7A4) || (c >= 0x1F300 && c < 0x1FB00); /* Hangul, emoji */
    case UNICODE_NFD:
        return c >= 0x1F300 && c < 0x1FB00;
    case UNICODE_NFKC:
        return c >= 0xAC00 && c < 0xD7A4;
    default:
        return false;
    }
}

bool unicode_is_normal(unicode_form form, const char *text, size_t n)
{
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t c = (uint8_t)text[at];
        length = c < 0x80 ? 1 : utf8_decode(text + at, n - at, &c);
        if (length == 0 || !settled(form, c))
            return false;
    }
    return true;
}

/* cases.c - operations on whole strings that methods and filters share: cases, classes, strip,
 * replace. Each byte of the result keeps the origin of the byte that it comes from. */
#include "text/jinja/value.h"

#include "base/utf8.h"
#include "text/jinja/chars.h"
#include "text/unicode/unicode.h"

#include <string.h>

#define SIGMA       0x3a3
#define SIGMA_SMALL 0x3c3
#define SIGMA_FINAL 0x3c2

/* Is the sigma at [at, end) the last letter of a word? */
static bool is_final(const jstr *s, uint32_t at, uint32_t end)
{
    uint32_t c;
    bool before = false;
    while (at > 0 && !before) {
        do
            at--;
        while (at > 0 && (s->at[at] & 0xc0) == 0x80);
        jstr_point(s, at, &c);
        const int bits = jchar_bits(c);
        if (bits & CHAR_IGNORABLE)
            continue;
        if (!(bits & CHAR_CASED))
            return false;
        before = true;
    }
    while (before && end < s->n) {
        const uint32_t n = jstr_point(s, end, &c);
        const int bits = jchar_bits(c);
        end += n ? n : 1;
        if (!(bits & CHAR_IGNORABLE))
            return !(bits & CHAR_CASED);
    }
    return before;
}

static int lower_at(const jstr *s, uint32_t at, uint32_t n, uint32_t c, uint32_t to[3])
{
    if (c != SIGMA)
        return unicode_lower(c, to);
    to[0] = is_final(s, at, at + n) ? SIGMA_FINAL : SIGMA_SMALL;
    return 1;
}

/* Code points on their way into a builder, many at a time. */
typedef struct batch {
    jbuild *b;
    char bytes[64];
    size_t n;
    jrun like;
} batch;

static void flush(batch *k)
{
    jbuild_as(k->b, k->bytes, k->n, k->like);
    k->n = 0;
}

static void add_point(batch *k, uint32_t c, jrun like)
{
    if (k->n + 4 > sizeof k->bytes || like.origin != k->like.origin || like.block != k->like.block)
        flush(k);
    k->like = like;
    k->n += utf8_encode(c, k->bytes + k->n);
}

const jstr *jstr_case(jrender *r, const jstr *s, jcasing how)
{
    jbuild b;
    batch k = { .b = &b };
    bool inside = false; /* of a word, for CASE_TITLE; of the string, for CASE_CAPITAL */
    jbuild_begin(&b, r);
    if (!jcost(r, s->n / 2))
        return NULL;
    for (uint32_t at = 0, n; at < s->n && !b.failed; at += n ? n : 1) {
        uint32_t c, to[3];
        int made;
        n = jstr_point(s, at, &c);
        const int bits = jchar_bits(c);
        if (how == CASE_UPPER || (how == CASE_SWAP && bits & CHAR_LOWER))
            made = jchar_upper(c, to);
        else if (how == CASE_LOWER || (how == CASE_SWAP && bits & CHAR_UPPER) || inside)
            made = lower_at(s, at, n, c, to);
        else if (how == CASE_SWAP)
            made = (to[0] = c, 1);
        else
            made = jchar_title(c, to);
        inside = how == CASE_CAPITAL || (how == CASE_TITLE && bits & CHAR_CASED);
        const jrun like = jstr_run_at(s, at);
        for (int i = 0; i < made; i++)
            add_point(&k, to[i], like);
    }
    flush(&k);
    return jbuild_end(&b);
}

bool jstr_all(const jstr *s, int bits)
{
    for (uint32_t at = 0, n; at < s->n; at += n ? n : 1) {
        uint32_t c;
        n = jstr_point(s, at, &c);
        if (!(jchar_bits(c) & bits))
            return false;
    }
    return s->n > 0;
}

bool jstr_is_case(const jstr *s, int wanted, int unwanted)
{
    bool found = false;
    for (uint32_t at = 0, n; at < s->n; at += n ? n : 1) {
        uint32_t c;
        n = jstr_point(s, at, &c);
        const int bits = jchar_bits(c);
        if (bits & unwanted)
            return false;
        found = found || bits & wanted;
    }
    return found;
}

/* ---- strip ----------------------------------------------------------------------------------- */

static bool is_stripped(const jstr *s, uint32_t at, uint32_t n, uint32_t c, const jstr *chars)
{
    if (!chars)
        return jchar_is_space(c);
    for (uint32_t i = 0; i + n <= chars->n; i++)
        if (memcmp(chars->at + i, s->at + at, n) == 0)
            return true;
    return false;
}

const jstr *jstr_strip(jrender *r, const jstr *s, const jstr *chars, bool left, bool right)
{
    uint32_t begin = 0, end = s->n, c;
    const uint64_t each = chars ? chars->n / 32 + 1 : 1;
    while (left && begin < end && jcost(r, each)) {
        const uint32_t n = jstr_point(s, begin, &c);
        if (!is_stripped(s, begin, n, c, chars))
            break;
        begin += n;
    }
    while (right && end > begin && jcost(r, each)) {
        uint32_t at = end;
        do
            at--;
        while (at > begin && (s->at[at] & 0xc0) == 0x80);
        jstr_point(s, at, &c);
        if (!is_stripped(s, at, end - at, c, chars))
            break;
        end = at;
    }
    return r->steps > 0 ? jstr_slice(r, s, begin, end) : NULL;
}

/* ---- replace --------------------------------------------------------------------------------- */

/* `with` before every code point and at the end, as Python does for an empty `old`. */
static const jstr *interleave(jrender *r, const jstr *s, const jstr *with, int64_t most)
{
    jbuild b;
    uint32_t at = 0, c;
    jbuild_begin(&b, r);
    for (; most > 0 && !b.failed; most--) {
        jbuild_str(&b, with);
        if (at >= s->n || !jcost(r, 1))
            break;
        const uint32_t n = jstr_point(s, at, &c);
        jbuild_part(&b, s, at, at + n);
        at += n;
    }
    jbuild_part(&b, s, at, s->n);
    return r->steps > 0 ? jbuild_end(&b) : NULL;
}

const jstr *jstr_replace(jrender *r, const jstr *s, const jstr *old, const jstr *with, int64_t most)
{
    if (!jcost_bytes(r, s->n))
        return NULL;
    most = most < 0 ? INT64_MAX : most;
    if (old->n == 0)
        return interleave(r, s, with, most);
    uint32_t from = 0, hit = most > 0 ? jstr_find(s, old, 0, s->n) : UINT32_MAX;
    if (hit == UINT32_MAX)
        return s;
    jbuild b;
    jbuild_begin(&b, r);
    for (; hit != UINT32_MAX && !b.failed; most--) {
        jbuild_part(&b, s, from, hit);
        jbuild_str(&b, with);
        from = hit + old->n;
        hit = most > 1 && jcost(r, 1) ? jstr_find(s, old, from, s->n) : UINT32_MAX;
    }
    jbuild_part(&b, s, from, s->n);
    return r->steps > 0 ? jbuild_end(&b) : NULL;
}

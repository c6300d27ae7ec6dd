/* text.c - strings that know where each byte came from: slices share bytes and origins, builders
 * join them. */
#include "text/jinja/value.h"

#include "base/utf8.h"

#include <string.h>

#define LONGEST ((size_t)1 << 30)

static uint32_t count_points(const char *at, uint32_t n)
{
    uint32_t points = 0;
    for (uint32_t i = 0; i < n; i++)
        points += (at[i] & 0xc0) != 0x80;
    return points;
}

const jstr *jstr_new(jrender *r, const char *at, size_t n, uint32_t origin)
{
    if (n > LONGEST) {
        jfail(r, WEFT_ELIMIT, "a string of %zu bytes; the limit is %zu", n, LONGEST);
        return NULL;
    }
    jstr *s = jalloc(r, 1, sizeof *s);
    if (!s)
        return NULL;
    *s = (jstr){ .at = at,
                 .n = (uint32_t)n,
                 .points = count_points(at, (uint32_t)n),
                 .n_run = 1,
                 .one = { (uint32_t)n, origin, 0 } };
    s->run = &s->one;
    return s;
}

/* The run that holds byte `at`, or the last. */
static uint32_t run_of(const jstr *s, uint32_t at)
{
    uint32_t low = 0, high = s->n_run - 1;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (s->run[middle].end <= s->skip + at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

jval jtext(jrender *r, const char *text)
{
    return jstr_value(jstr_new(r, text, strlen(text), 0));
}

const jstr *jstr_slice(jrender *r, const jstr *s, uint32_t begin, uint32_t end)
{
    if (begin == 0 && end == s->n)
        return s;
    jstr *part = jalloc(r, 1, sizeof *part);
    if (!part || !jcost_bytes(r, end - begin))
        return NULL;
    *part = (jstr){ .at = s->at + begin, .n = end - begin, .skip = s->skip + begin };
    part->points = s->points == s->n ? part->n : count_points(part->at, part->n);
    const uint32_t first = run_of(s, begin);
    part->run = s->run + first;
    part->n_run = s->n_run - first;
    if (s->run == &s->one) {
        part->one = s->one;
        part->run = &part->one;
    }
    return part;
}

bool jstr_is(const jstr *s, const char *text)
{
    return s->n == strlen(text) && memcmp(s->at, text, s->n) == 0;
}

bool jstr_same(const jstr *a, const jstr *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

int jstr_compare(const jstr *a, const jstr *b)
{
    const int order = memcmp(a->at, b->at, a->n < b->n ? a->n : b->n);
    if (order)
        return order < 0 ? -1 : 1;
    return a->n < b->n ? -1 : a->n > b->n;
}

uint32_t jstr_offset(const jstr *s, uint32_t point)
{
    if (point >= s->points)
        return s->n;
    if (s->points == s->n)
        return point;
    uint32_t at = 0;
    for (uint32_t left = point; left > 0; left--)
        do
            at++;
        while (at < s->n && (s->at[at] & 0xc0) == 0x80);
    return at;
}

uint32_t jstr_point(const jstr *s, uint32_t at, uint32_t *point)
{
    return (uint32_t)utf8_decode(s->at + at, s->n - at, point);
}

uint32_t jstr_find(const jstr *s, const jstr *part, uint32_t from, uint32_t to)
{
    if (from > to || part->n > to - from)
        return UINT32_MAX;
    if (part->n == 0)
        return from;
    const char *hit = memmem(s->at + from, to - from, part->at, part->n);
    return hit ? (uint32_t)(hit - s->at) : UINT32_MAX;
}

uint32_t jstr_rfind(const jstr *s, const jstr *part, uint32_t from, uint32_t to)
{
    if (from > to || part->n > to - from)
        return UINT32_MAX;
    for (uint32_t at = to - part->n;; at--) {
        if (memcmp(s->at + at, part->at, part->n) == 0)
            return at;
        if (at == from)
            return UINT32_MAX;
    }
}

jrun jstr_run_at(const jstr *s, uint32_t at)
{
    return s->run[run_of(s, at)];
}

/* ---- building -------------------------------------------------------------------------------- */

void jbuild_begin(jbuild *b, jrender *r)
{
    *b = (jbuild){ .r = r };
}

/* Room for n more bytes. */
static bool make_room(jbuild *b, size_t n)
{
    if (b->failed)
        return false;
    if (b->most && n > b->most - b->n) {
        jfail(b->r, WEFT_ELIMIT,
              "the output is more than %zu bytes longer than the input; use another template",
              JINJA_OUTPUT);
        b->failed = true;
        return false;
    }
    if (n <= b->room - b->n)
        return true;
    size_t room = b->room ? 2 * (size_t)b->room : 64;
    while (room - b->n < n && room < LONGEST)
        room *= 2;
    if (b->at && room < LONGEST && jpool_grow(b->r->pool, b->at + b->room, room - b->room)) {
        b->room = (uint32_t)room;
        return true;
    }
    char *more = n < LONGEST && room < LONGEST ? jalloc(b->r, room, 1) : NULL;
    if (!more && (n >= LONGEST || room >= LONGEST))
        jfail(b->r, WEFT_ELIMIT, "a string of more than %zu bytes; use less input", LONGEST);
    b->failed = !more || !jcost_bytes(b->r, b->n);
    if (b->failed)
        return false;
    if (b->n)
        memcpy(more, b->at, b->n);
    b->at = more;
    b->room = (uint32_t)room;
    return true;
}

static bool add_run(jbuild *b, uint32_t origin, uint32_t block)
{
    jrun *last = b->n_run ? &b->run[b->n_run - 1] : NULL;
    if (last && last->origin == origin && last->block == block) {
        last->end = b->n;
        return true;
    }
    if (b->n_run == b->room_run) {
        const uint32_t room = b->room_run ? 2 * b->room_run : 4;
        jrun *more = jalloc(b->r, room, sizeof *more);
        if (!more)
            return false;
        if (b->n_run)
            memcpy(more, b->run, b->n_run * sizeof *more);
        b->run = more;
        b->room_run = room;
    }
    b->run[b->n_run++] = (jrun){ b->n, origin, block };
    return true;
}

void jbuild_put(jbuild *b, const char *bytes, size_t n, uint32_t origin, uint32_t block)
{
    if (n == 0 || !make_room(b, n))
        return;
    memcpy(b->at + b->n, bytes, n);
    b->n += (uint32_t)n;
    b->failed = !add_run(b, origin, block) || !jcost(b->r, n / 32 + 1);
}

void jbuild_text(jbuild *b, const char *text)
{
    jbuild_put(b, text, strlen(text), 0, 0);
}

void jbuild_part(jbuild *b, const jstr *s, uint32_t begin, uint32_t end)
{
    uint32_t i = run_of(s, begin);
    while (begin < end && !b->failed) {
        const uint32_t stop = s->run[i].end - s->skip;
        const uint32_t to = i + 1 == s->n_run || stop > end ? end : stop;
        jbuild_put(b, s->at + begin, to - begin, s->run[i].origin, s->run[i].block);
        begin = to;
        i++;
    }
}

void jbuild_str(jbuild *b, const jstr *s)
{
    if (s->n_run == 1)
        jbuild_put(b, s->at, s->n, s->run->origin, s->run->block);
    else
        jbuild_part(b, s, 0, s->n);
}

void jbuild_as(jbuild *b, const char *bytes, size_t n, jrun like)
{
    jbuild_put(b, bytes, n, like.origin, like.block);
}

void jbuild_point(jbuild *b, uint32_t point, jrun like)
{
    char bytes[4];
    jbuild_as(b, bytes, utf8_encode(point, bytes), like);
}

const jstr *jbuild_end(jbuild *b)
{
    if (b->failed)
        return NULL;
    jstr *s = jalloc(b->r, 1, sizeof *s);
    if (!s)
        return NULL;
    *s = (jstr){ .at = b->n ? b->at : "",
                 .n = b->n,
                 .points = b->n ? count_points(b->at, b->n) : 0,
                 .n_run = b->n_run ? b->n_run : 1,
                 .run = b->run };
    if (b->n_run <= 1) {
        s->one = b->n_run ? b->run[0] : (jrun){ 0 };
        s->run = &s->one;
    }
    return s;
}

jval jbuild_value(jbuild *b)
{
    return jstr_value(jbuild_end(b));
}

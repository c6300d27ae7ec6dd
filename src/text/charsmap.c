/* charsmap.c - walks the double array for the longest replacement at a place. Every offset is
 * checked, because the array comes from a file. */
#include "text/charsmap.h"

#include <string.h>

/* Bytes of a key, and of a replacement. Longer keys are not searched. The longest known have 12 and
 * 33. */
#define KEY_MOST         64
#define REPLACEMENT_MOST 1024

weft_status charsmap_init(charsmap *c, arena *store, const uint8_t *blob, size_t n, weft_error *err)
{
    uint32_t bytes = 0;
    *c = (charsmap){ 0 };
    if (n >= sizeof bytes)
        memcpy(&bytes, blob, sizeof bytes);
    if (n < sizeof bytes || bytes % 4 != 0 || bytes == 0 || bytes > n - sizeof bytes)
        return weft_fail(err, WEFT_EFORMAT,
                         "a precompiled_charsmap of %zu bytes that announces a trie of %u", n,
                         bytes);
    uint32_t *unit = arena_alloc(store, bytes, err);
    c->n_text = n - sizeof bytes - bytes;
    c->text = unit ? arena_text(store, (const char *)blob + sizeof bytes + bytes, c->n_text, err)
                   : NULL;
    if (!c->text)
        return WEFT_ENOMEM;
    for (size_t at = 0, n_text; at < c->n_text; at += n_text + 1) {
        n_text = strnlen(c->text + at, c->n_text - at);
        if (n_text > REPLACEMENT_MOST)
            return weft_fail(
                err, WEFT_EFORMAT,
                "a precompiled_charsmap with a replacement of %zu bytes; expected at most %d",
                n_text, REPLACEMENT_MOST);
    }
    memcpy(unit, blob + sizeof bytes, bytes);
    c->unit = unit;
    c->n_unit = bytes / 4;
    return WEFT_OK;
}

void charsmap_put(const charsmap *c, buffer *to)
{
    const uint32_t bytes = (uint32_t)(c->n_unit * sizeof *c->unit); /* bounded: read from a u32 */
    buffer_put(to, &bytes, sizeof bytes);
    buffer_put(to, c->unit, bytes);
    buffer_put(to, c->text, c->n_text);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Walks the keys that are prefixes of text, shortest first: *node and *at are the state, 0 at the
 * start. Returns the length of the next key and where its replacement is, or 0. */
static size_t next_key(const charsmap *c, const char *text, size_t n, size_t *node, size_t *at,
                       uint32_t *value)
{
    if (*at == 0)
        *node = offset_of(c->unit[0]);
    while (*at < n && *at < KEY_MOST) {
        const uint8_t byte = (uint8_t)text[*at];
        *node ^= byte;
        if (byte == 0 || *node >= c->n_unit)
            return 0;
        const uint32_t unit = c->unit[*node];
        if ((unit & (1u << 31 | 0xFF)) != byte)
            return 0;
        *node ^= offset_of(unit);
        ++*at;
        if ((unit >> 8 & 1) && *node < c->n_unit) {
            *value = c->unit[*node] & ~(1u << 31);
            return *at;
        }
    }
    return 0;
}

/* Text up to the NUL; a place outside the table is the empty text. */
static void replacement(const charsmap *c, uint32_t at, const char **to, size_t *length)
{
    *to = at < c->n_text ? c->text + at : "";
    *length = at < c->n_text ? strnlen(*to, c->n_text - at) : 0;
}

size_t charsmap_longest(const charsmap *c, const char *text, size_t n, const char **to,
                        size_t *length)
{
    size_t node = 0, at = 0, longest = 0;
    uint32_t value = 0, last = 0;
    for (size_t found; (found = next_key(c, text, n, &node, &at, &value)) > 0;) {
        longest = found;
        last = value;
    }
    if (longest)
        replacement(c, last, to, length);
    return longest;
}

bool charsmap_shortest(const charsmap *c, const char *text, size_t n, const char **to,
                       size_t *length)
{
    size_t node = 0, at = 0;
    uint32_t value = 0;
    if (!next_key(c, text, n, &node, &at, &value))
        return false;
    replacement(c, value, to, length);
    return true;
}

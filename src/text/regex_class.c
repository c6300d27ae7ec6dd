/* regex_class.c - what stands for one code point: escapes, properties, classes in brackets.
 *
 * PCRE2 has a class of items, [...], and its negation. Oniguruma's classes nest, intersect and hold
 * negations of properties:
 *
 *     [\p{L}&&[^\p{Han}]]     letters that are not Han          [\D\n]     \n or what is no digit
 *
 * Such a set is written down as look-aheads and alternatives, tried on every code point once, and
 * becomes a list of ranges. A repeated class needs no memory to go back into, a repeated group
 * does: that is why the list is worth making. */
#include "base/utf8.h"
#include "text/regex.h"
#include "text/regex_tables.h"
#include "text/regex_translate.h"

#include <string.h>

#define CLASS_DEPTH 8

/* ---- properties ------------------------------------------------------------------------------ */

static const regex_property *find_property(const char *name)
{
    int low = 0, high = n_regex_properties;
    while (low < high) {
        const int middle = (low + high) / 2;
        const int order = strcmp(name, regex_properties[middle].name);
        if (order == 0)
            return &regex_properties[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool regex_put_property(regex_text *t, const char *name, size_t n)
{
    char key[64];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (name[i] == ' ' || name[i] == '_' || name[i] == '-')
            continue;
        if (length == sizeof key - 1)
            return false;
        key[length++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    }
    key[length] = 0;
    const regex_property *p = find_property(key);
    if (!p)
        return false;
    regex_puts(t, p->items);
    t->word = t->word || strcmp(p->name, "word") == 0;
    for (int i = p->first; i < p->first + p->n; i++)
        regex_put_range(t, regex_extra[i][0], regex_extra[i][1]);
    return true;
}

/* ---- escapes --------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        return (c & 7) + 9;
    return -1;
}

/* Up to `most` digits at s->at; how many there were. */
static int read_hex(regex_source *s, int most, uint32_t *c)
{
    int n = 0;
    for (*c = 0; n < most && hex_digit(regex_peek(s, 0)) >= 0; n++, s->at++)
        *c = *c << 4 | (uint32_t)hex_digit(regex_peek(s, 0));
    return n;
}

/* "\x41", "\x{1F600}", "\u3042", behind the letter. */
static weft_status read_code(regex_source *s, char kind, size_t from, uint32_t *c)
{
    bool good;
    if (kind == 'u') {
        good = read_hex(s, 4, c) == 4;
    } else if (regex_peek(s, 0) == '{') {
        s->at++;
        good = read_hex(s, 6, c) > 0 && regex_peek(s, 0) == '}';
        s->at += good;
    } else {
        good = read_hex(s, 2, c) > 0 && *c < 0x80; /* above it is a byte, not a code point */
    }
    if (!good || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000))
        return regex_refuse(s, from, WEFT_EFORMAT, "not a code point");
    return WEFT_OK;
}

/* "{Han}", "{^L}", behind the p or P. */
static weft_status read_property(regex_source *s, size_t from, regex_set *set)
{
    if (regex_peek(s, 0) != '{')
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a property without braces");
    s->at++;
    if (regex_peek(s, 0) == '^') {
        set->negated = !set->negated;
        s->at++;
    }
    const char *name = s->pattern + s->at;
    const char *close = memchr(name, '}', s->n - s->at);
    if (!close)
        return regex_refuse(s, from, WEFT_EFORMAT, "a property without its '}'");
    s->at += (size_t)(close - name) + 1;
    if (!regex_put_property(&set->items, name, (size_t)(close - name)))
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "unknown property");
    return WEFT_OK;
}

bool regex_read_escape(regex_source *s, regex_set *set, uint32_t *c, weft_status *status)
{
    static const char letters[] = "tnrfvae", meant[] = "\t\n\r\f\v\a\x1B";
    static const char *const shorthand[] = {
        ['d'] = "digit", ['s'] = "space", ['w'] = "word", ['h'] = "xdigit"
    };
    const size_t from = s->at - 1;
    const char kind = regex_peek(s, 0);
    const char small = (char)(kind | 0x20);
    const bool letter = small >= 'a' && small <= 'z';
    *status = WEFT_OK;
    *c = REGEX_CLASS;
    if (kind && strchr(letters, kind)) {
        s->at++;
        *c = (uint8_t)meant[strchr(letters, kind) - letters];
    } else if (kind == 'x' || kind == 'u') {
        s->at++;
        *status = read_code(s, kind, from, c);
    } else if (small == 'p') {
        s->at++;
        set->negated = kind == 'P';
        *status = read_property(s, from, set);
    } else if (letter && small <= 'w' && shorthand[(int)small]) {
        s->at++;
        set->negated = kind != small;
        regex_put_property(&set->items, shorthand[(int)small], strlen(shorthand[(int)small]));
    } else if (letter || (kind >= '0' && kind <= '9')) {
        return false;
    } else if (!regex_read(s, c)) {
        *status = regex_refuse(s, from, WEFT_EFORMAT, "a '\\' before nothing");
    }
    return true;
}

/* ---- sets that PCRE2 cannot spell ------------------------------------------------------------- */

#define CHUNK 1024 /* code points tried at a time */

/* Appends to `to` the ranges of what `re`, which matches runs of a set, finds in [first, first +
 * CHUNK). */
static weft_status list_chunk(const regex *re, regex_scratch *scratch, uint32_t first,
                              uint32_t last[2], regex_text *to, weft_error *err)
{
    char text[4 * CHUNK];
    size_t n = 0;
    for (uint32_t c = first; c < first + CHUNK; c++)
        n += utf8_encode(c, text + n); /* a surrogate writes nothing */
    for (size_t at = 0, start, end; at < n; at = end) {
        const int rc = regex_find(re, scratch, text, n, at, &start, &end, err);
        if (rc < 0)
            return WEFT_ELIMIT;
        if (rc == 0)
            break;
        uint32_t a, b;
        size_t back = 1;
        utf8_decode(text + start, n - start, &a);
        while (((uint8_t)text[end - back] & 0xC0) == 0x80)
            back++;
        utf8_decode(text + end - back, back, &b);
        if (last[0] <= last[1] && a == last[1] + 1) {
            last[1] = b;
            continue;
        }
        if (last[0] <= last[1])
            regex_put_range(to, last[0], last[1]);
        last[0] = a;
        last[1] = b;
    }
    return WEFT_OK;
}

/* The items of the set whose members `expression` matches. */
static weft_status list_members(const regex_source *s, const regex_text *expression,
                                regex_text *items)
{
    regex_text runs = { .mem = s->mem, .err = s->err };
    regex_puts(&runs, "(?:");
    regex_put(&runs, expression->text, expression->n);
    regex_puts(&runs, ")++");
    regex *re = runs.failed ? NULL : regex_compile(runs.text, runs.n, s->mem, s->err);
    regex_scratch *scratch = re ? regex_scratch_new(s->mem, s->err) : NULL;
    weft_status status = scratch ? WEFT_OK : WEFT_ENOMEM;
    uint32_t last[2] = { 1, 0 }; /* the range that may still grow; none yet */
    for (uint32_t first = 0; first < 0x110000 && status == WEFT_OK; first += CHUNK)
        status = list_chunk(re, scratch, first, last, items, s->err);
    if (last[0] <= last[1])
        regex_put_range(items, last[0], last[1]);
    regex_scratch_free(scratch);
    regex_free(re);
    regex_text_free(&runs);
    return status;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* A class as it is read: (items or others) and all of met. */
typedef struct parts {
    regex_text items;  /* inside [ ] */
    regex_text others; /* "|[^...]" for each member set that is a negation */
    regex_text met;    /* "(?=...)" for each operand of && that is complete */
} parts;

static bool failed(const parts *p)
{
    return p->items.failed || p->others.failed || p->met.failed;
}

static void add_set(parts *p, const regex_set *set)
{
    p->items.failed = p->items.failed || set->items.failed;
    if (!set->negated) {
        regex_put(&p->items, set->items.text, set->items.n);
        return;
    }
    regex_puts(&p->others, "|[^");
    regex_put(&p->others, set->items.text, set->items.n);
    regex_puts(&p->others, "]");
}

/* The operand read so far as one expression: "[items]|[^...]" */
static void put_operand(const parts *p, regex_text *to)
{
    if (p->items.n > 0) {
        regex_puts(to, "[");
        regex_put(to, p->items.text, p->items.n);
        regex_puts(to, "]");
    }
    const size_t skip = p->items.n > 0 || p->others.n == 0 ? 0 : 1; /* the first bar */
    regex_put(to, p->others.text + skip, p->others.n - skip);
}

static weft_status end_operand(regex_source *s, size_t from, parts *p)
{
    if (failed(p))
        return WEFT_ENOMEM;
    if (p->items.n == 0 && p->others.n == 0)
        return regex_refuse(s, from, WEFT_EFORMAT, "an empty class");
    regex_puts(&p->met, "(?=");
    put_operand(p, &p->met);
    regex_puts(&p->met, ")");
    p->items.n = p->others.n = 0;
    return WEFT_OK;
}

static weft_status end_class(regex_source *s, size_t from, parts *p, regex_text *items)
{
    if (failed(p))
        return WEFT_ENOMEM;
    if (p->items.n == 0 && p->others.n == 0)
        return regex_refuse(s, from, WEFT_EFORMAT, "an empty class");
    if (p->others.n == 0 && p->met.n == 0) {
        regex_put(items, p->items.text, p->items.n);
        return WEFT_OK;
    }
    regex_puts(&p->met, "(?:");
    put_operand(p, &p->met);
    regex_puts(&p->met, ")");
    if (failed(p))
        return WEFT_ENOMEM;
    const size_t before = items->n;
    const weft_status status = list_members(s, &p->met, items);
    if (status == WEFT_OK && items->n == before && !items->failed)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a class that nothing is in");
    return status;
}

/* "[:alpha:]" or "[:^alpha:]" at s->at. */
static weft_status read_posix(regex_source *s, regex_set *set)
{
    static const char *const names[] = { "alnum", "alpha", "ascii", "blank", "cntrl",
                                         "digit", "graph", "lower", "print", "punct",
                                         "space", "upper", "word",  "xdigit" };
    const size_t from = s->at;
    s->at += 2;
    set->negated = regex_peek(s, 0) == '^';
    s->at += set->negated;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (s->n - s->at >= n + 2 && memcmp(s->pattern + s->at, names[i], n) == 0 &&
            memcmp(s->pattern + s->at + n, ":]", 2) == 0) {
            s->at += n + 2;
            regex_put_property(&set->items, names[i], n);
            if (strcmp(names[i], "punct") == 0) /* symbols too, unlike \p{punct} */
                regex_put_property(&set->items, "s", 1);
            return WEFT_OK;
        }
    }
    return regex_refuse(s, from, WEFT_EUNSUPPORTED, "unknown POSIX bracket");
}

/* One code point of a class, or with *c = REGEX_CLASS a set of them. */
static weft_status read_member(regex_source *s, regex_set *set, uint32_t *c)
{
    const size_t from = s->at;
    weft_status status = WEFT_OK;
    if (!regex_read(s, c))
        return regex_refuse(s, from, WEFT_EFORMAT, "a class without its ']'");
    if (*c != '\\')
        return WEFT_OK;
    if (regex_peek(s, 0) == 'b') {
        s->at++;
        *c = '\b';
    } else if (!regex_read_escape(s, set, c, &status)) {
        status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "unknown escape in a class");
    }
    return status;
}

/* A code point, a range, or an escape that is a set. */
static weft_status read_range(regex_source *s, parts *p, bool plain)
{
    const size_t from = s->at;
    const bool dash = regex_peek(s, 0) == '-', first = regex_peek(s, 1) == '-' || p->items.n == 0;
    regex_set set = { .items = { .mem = s->mem, .err = s->err } };
    uint32_t a, b;
    weft_status status = read_member(s, &set, &a);
    if (status == WEFT_OK && a == REGEX_CLASS) {
        add_set(p, &set);
        if (plain)
            status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "a set without regard to case");
        else if (regex_peek(s, 0) == '-' && regex_peek(s, 1) != ']')
            status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "a range that begins with a set");
    } else if (status == WEFT_OK) {
        if (dash && !first && regex_peek(s, 0) != ']')
            status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "a '-' that is not a range");
        b = a;
        if (status == WEFT_OK && regex_peek(s, 0) == '-' && regex_peek(s, 1) != ']') {
            s->at++;
            if (regex_peek(s, 0) == '[')
                status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "a range that ends in a set");
            else
                status = read_member(s, &set, &b);
        }
        if (status == WEFT_OK && b == REGEX_CLASS)
            status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "a range that ends in a set");
        else if (status == WEFT_OK && b < a)
            status = regex_refuse(s, from, WEFT_EFORMAT, "a range that runs backwards");
        else if (status == WEFT_OK && plain && b >= 0x80)
            status = regex_refuse(s, from, WEFT_EUNSUPPORTED,
                                  "more than ASCII without regard to case");
        else if (status == WEFT_OK)
            regex_put_range(&p->items, a, b);
    }
    regex_text_free(&set.items);
    return status;
}

static weft_status read_class(regex_source *s, regex_set *to, bool plain, int depth);

/* A nested class or a POSIX bracket. */
static weft_status read_nested(regex_source *s, parts *p, bool plain, int depth)
{
    const size_t from = s->at;
    if (plain)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a set without regard to case");
    regex_set set = { .items = { .mem = s->mem, .err = s->err } };
    weft_status status;
    if (regex_peek(s, 1) == ':') {
        status = read_posix(s, &set);
    } else if (depth == CLASS_DEPTH) {
        status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "a class nested too deep");
    } else {
        s->at++;
        status = read_class(s, &set, false, depth + 1);
    }
    if (status == WEFT_OK)
        add_set(p, &set);
    regex_text_free(&set.items);
    return status;
}

static weft_status read_parts(regex_source *s, parts *p, bool plain, int depth)
{
    const size_t from = s->at;
    weft_status status = WEFT_OK;
    for (bool first = true; status == WEFT_OK; first = false) {
        const char c = regex_peek(s, 0);
        if (s->at == s->n)
            return regex_refuse(s, from - 1, WEFT_EFORMAT, "a class without its ']'");
        if (c == ']' && !first)
            break;
        if (c == '[') {
            status = read_nested(s, p, plain, depth);
        } else if (c == '&' && regex_peek(s, 1) == '&') {
            s->at += 2;
            status = end_operand(s, from - 1, p);
        } else {
            status = read_range(s, p, plain);
        }
    }
    return status;
}

/* Behind the '['. Recurses by the nesting of classes in the pattern, which CLASS_DEPTH bounds. */
static weft_status read_class(regex_source *s, regex_set *to, bool plain, int depth)
{
    const size_t from = s->at - 1;
    to->negated = regex_peek(s, 0) == '^';
    s->at += to->negated;
    if (plain && to->negated)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a negation without regard to case");
    const regex_text empty = { .mem = s->mem, .err = s->err };
    parts p = { empty, empty, empty };
    weft_status status = read_parts(s, &p, plain, depth);
    if (status == WEFT_OK) {
        s->at++; /* the ']' */
        status = end_class(s, from, &p, &to->items);
    }
    regex_text_free(&p.items);
    regex_text_free(&p.others);
    regex_text_free(&p.met);
    return status;
}

weft_status regex_read_class(regex_source *s, regex_set *set, bool plain)
{
    return read_class(s, set, plain, 0);
}

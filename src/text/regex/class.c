/* class.c - constructs that match one code point: escapes, properties, bracket classes.
 *
 * PCRE2 has a class of items, [...], and its negation. Oniguruma's classes nest, intersect and hold
 * negations of properties:
 *
 *     [\p{L}&&[^\p{Han}]]     letters that are not Han          [\D\n]     \n or anything but a digit
 *
 * So a class is read as items, which are fast and short. If items cannot express it, the class is
 * read again as a set of code points, and the ranges of the set are written instead. */
#include "base/utf8.h"
#include "text/regex/set.h"

#include <string.h>

#define CLASS_DEPTH 8

/* ---- properties ------------------------------------------------------------------------------ */

static const regex_property *find_key(const char *key)
{
    int low = 0, high = n_regex_properties;
    while (low < high) {
        const int middle = (low + high) / 2;
        const int order = strcmp(key, regex_properties[middle].name);
        if (order == 0)
            return &regex_properties[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const regex_property *regex_find_property(const char *name, size_t n)
{
    char key[64];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (name[i] == ' ' || name[i] == '_' || name[i] == '-')
            continue;
        if (length == sizeof key - 1)
            return NULL;
        key[length++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    }
    key[length] = 0;
    return find_key(key);
}

void regex_put_property(regex_text *t, const regex_property *p)
{
    regex_puts(t, p->items);
    for (int i = p->first; i < p->first + p->n; i++)
        regex_put_range(t, regex_extra[i][0], regex_extra[i][1]);
}

/* ---- escapes --------------------------------------------------------------------------------- */

/* Up to `most` digits at s->at; returns how many there were. */
static int read_hex(regex_source *s, int most, uint32_t *c)
{
    int n = 0;
    for (*c = 0; n < most && text_hex(regex_peek(s, 0)) >= 0; n++, s->at++)
        *c = *c << 4 | (uint32_t)text_hex(regex_peek(s, 0));
    return n;
}

/* "\x41", "\x{1F600}", "\u3042", after the letter. */
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
        good = read_hex(s, 2, c) > 0 && *c < 0x80; /* 0x80 and above is a byte, not a code point */
    }
    if (!good || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000))
        return regex_refuse(s, from, WEFT_EFORMAT, "not a code point");
    return WEFT_OK;
}

/* "{Han}", "{^L}", after the p or P. */
static weft_status read_property(regex_source *s, size_t from, regex_escape *e)
{
    if (regex_peek(s, 0) != '{')
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a property without braces");
    s->at++;
    if (regex_peek(s, 0) == '^') {
        e->negated = !e->negated;
        s->at++;
    }
    const char *name = s->pattern + s->at;
    const char *close = memchr(name, '}', s->n - s->at);
    if (!close)
        return regex_refuse(s, from, WEFT_EFORMAT, "a property without its '}'");
    s->at += (size_t)(close - name) + 1;
    e->property = regex_find_property(name, (size_t)(close - name));
    if (!e->property)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "unknown property");
    return WEFT_OK;
}

/* \d \s \w \h in lower or upper case; NULL for any other letter. */
static const char *shorthand(char kind)
{
    switch (kind | 0x20) {
    case 'd':
        return "digit";
    case 's':
        return "space";
    case 'w':
        return "word";
    case 'h':
        return "xdigit";
    default:
        return NULL;
    }
}

bool regex_read_escape(regex_source *s, regex_escape *e, weft_status *status)
{
    static const char letters[] = "tnrfvae", meant[] = "\t\n\r\f\v\a\x1B";
    const size_t from = s->at - 1;
    const char kind = regex_peek(s, 0), small = (char)(kind | 0x20);
    const bool letter = small >= 'a' && small <= 'z';
    *status = WEFT_OK;
    *e = (regex_escape){ 0 };
    if (kind && strchr(letters, kind)) {
        s->at++;
        e->point = (uint8_t)meant[strchr(letters, kind) - letters];
    } else if (kind == 'x' || kind == 'u') {
        s->at++;
        *status = read_code(s, kind, from, &e->point);
    } else if (small == 'p') {
        s->at++;
        e->negated = kind == 'P';
        *status = read_property(s, from, e);
    } else if (letter && shorthand(kind)) {
        s->at++;
        e->negated = kind != small;
        e->property = find_key(shorthand(kind));
    } else if (letter || (kind >= '0' && kind <= '9')) {
        return false;
    } else if (!regex_read(s, &e->point)) {
        *status = regex_refuse(s, from, WEFT_EFORMAT, "a '\\' at the end");
    }
    return true;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* A class while it is being read. */
typedef struct level {
    regex_text items; /* the current operand of &&, in PCRE2 syntax, */
    bool sets;        /* or, on the second pass, */
    uint64_t *some;   /* as a bit set */
    uint64_t *common; /* intersection of the operands before it; NULL if it is the first */
    bool spelled;     /* items express all of it */
    bool empty;       /* nothing read yet */
    bool negated;
} level;

static weft_status level_init(level *l, bool sets, regex_source *s)
{
    *l = (level){ .items = { .mem = s->mem, .err = s->err }, .spelled = true, .empty = true };
    l->sets = sets;
    l->some = sets ? points_new(s->mem, s->err) : NULL;
    return l->some || !sets ? WEFT_OK : WEFT_ENOMEM;
}

static void level_free(level *l)
{
    mem *m = l->items.mem;
    mem_free(m, l->some);
    mem_free(m, l->common);
    regex_text_free(&l->items);
}

/* Adds code points that have either property (`other` may be NULL), or neither. */
static weft_status add_property(level *l, const regex_property *p, const regex_property *other,
                                bool negated)
{
    l->empty = false;
    l->spelled = l->spelled && !negated;
    if (!l->sets) {
        regex_put_property(&l->items, p);
        if (other)
            regex_put_property(&l->items, other);
        return WEFT_OK;
    }
    uint64_t *set = negated ? points_new(l->items.mem, l->items.err) : l->some;
    if (!set)
        return WEFT_ENOMEM;
    points_add_property(set, p);
    if (other)
        points_add_property(set, other);
    if (negated) {
        points_unite(l->some, set, true);
        mem_free(l->items.mem, set);
    }
    return WEFT_OK;
}

static void add_range(level *l, uint32_t first, uint32_t last)
{
    l->empty = false;
    if (l->sets)
        points_add(l->some, first, last);
    else
        regex_put_range(&l->items, first, last);
}

static void add_level(level *l, const level *nested)
{
    l->empty = false;
    l->spelled = l->spelled && nested->spelled && !nested->negated;
    if (l->sets)
        points_unite(l->some, nested->some, nested->negated);
    else
        regex_put(&l->items, nested->items.text, nested->items.n);
    l->items.failed = l->items.failed || nested->items.failed;
}

/* Called after each operand of && and at the end of the class. */
static weft_status end_operand(regex_source *s, size_t from, level *l)
{
    if (l->empty)
        return regex_refuse(s, from, WEFT_EFORMAT, "an empty class");
    if (l->common)
        points_keep(l->some, l->common);
    return WEFT_OK;
}

static weft_status begin_operand(regex_source *s, level *l)
{
    l->spelled = false;
    l->empty = true;
    if (!l->sets)
        return WEFT_OK;
    mem_free(s->mem, l->common);
    l->common = l->some;
    l->some = points_new(s->mem, s->err);
    return l->some ? WEFT_OK : WEFT_ENOMEM;
}

/* "[:alpha:]" or "[:^alpha:]" at s->at. */
static weft_status read_posix(regex_source *s, level *l)
{
    static const char *const names[] = { "alnum", "alpha", "ascii", "blank", "cntrl",
                                         "digit", "graph", "lower", "print", "punct",
                                         "space", "upper", "word",  "xdigit" };
    const size_t from = s->at;
    s->at += 2;
    const bool negated = regex_peek(s, 0) == '^';
    s->at += negated;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (s->n - s->at < n + 2 || memcmp(s->pattern + s->at, names[i], n) != 0 ||
            memcmp(s->pattern + s->at + n, ":]", 2) != 0)
            continue;
        s->at += n + 2;
        const bool punct = strcmp(names[i], "punct") == 0; /* includes symbols, unlike \p{punct} */
        return add_property(l, find_key(names[i]), punct ? find_key("s") : NULL, negated);
    }
    return regex_refuse(s, from, WEFT_EUNSUPPORTED, "unknown POSIX bracket");
}

/* One code point of a class, or a property. */
static weft_status read_member(regex_source *s, regex_escape *e)
{
    const size_t from = s->at;
    weft_status status = WEFT_OK;
    *e = (regex_escape){ 0 };
    if (!regex_read(s, &e->point))
        return regex_refuse(s, from, WEFT_EFORMAT, "a class without its ']'");
    if (e->point != '\\')
        return WEFT_OK;
    if (regex_peek(s, 0) == 'b') {
        s->at++;
        e->point = '\b';
    } else if (!regex_read_escape(s, e, &status)) {
        status = regex_refuse(s, from, WEFT_EUNSUPPORTED, "unknown escape in a class");
    }
    return status;
}

/* After the first code point: "-z", if it begins a range. */
static weft_status read_last(regex_source *s, size_t from, uint32_t first, uint32_t *last)
{
    *last = first;
    if (regex_peek(s, 0) != '-' || regex_peek(s, 1) == ']')
        return WEFT_OK;
    s->at++;
    const bool nested = regex_peek(s, 0) == '[';
    regex_escape e;
    const weft_status status = read_member(s, &e);
    if (status != WEFT_OK)
        return status;
    if (e.property || nested)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a range that ends in a set");
    if (e.point < first)
        return regex_refuse(s, from, WEFT_EFORMAT, "a range that runs backwards");
    *last = e.point;
    return WEFT_OK;
}

/* A code point, a range, or an escape that is a set. */
static weft_status read_range(regex_source *s, level *l, bool plain)
{
    const size_t from = s->at;
    const bool dash = regex_peek(s, 0) == '-' && regex_peek(s, 1) != '-' && !l->empty;
    regex_escape e;
    weft_status status = read_member(s, &e);
    if (status != WEFT_OK)
        return status;
    if (e.property) {
        if (plain)
            return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a case-insensitive set");
        if (regex_peek(s, 0) == '-' && regex_peek(s, 1) != ']')
            return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a range that begins with a set");
        return add_property(l, e.property, NULL, e.negated);
    }
    if (dash && regex_peek(s, 0) != ']')
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a '-' that is not a range");
    uint32_t last;
    status = read_last(s, from, e.point, &last);
    if (status != WEFT_OK)
        return status;
    if (plain && last >= 0x80)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "case-insensitive non-ASCII letters");
    add_range(l, e.point, last);
    return WEFT_OK;
}

static weft_status read_class(regex_source *s, level *l, bool plain, int depth);

/* A nested class or a POSIX bracket. */
static weft_status read_nested(regex_source *s, level *l, bool plain, int depth)
{
    if (plain)
        return regex_refuse(s, s->at, WEFT_EUNSUPPORTED, "a case-insensitive set");
    if (regex_peek(s, 1) == ':')
        return read_posix(s, l);
    if (depth == CLASS_DEPTH)
        return regex_refuse(s, s->at, WEFT_EUNSUPPORTED, "a class nested too deep");
    s->at++;
    level nested;
    weft_status status = level_init(&nested, l->sets, s);
    if (status == WEFT_OK)
        status = read_class(s, &nested, false, depth + 1);
    if (status == WEFT_OK)
        add_level(l, &nested);
    level_free(&nested);
    return status;
}

/* After the '['. Recurses with the nesting of classes in the pattern, which CLASS_DEPTH bounds. */
static weft_status read_class(regex_source *s, level *l, bool plain, int depth)
{
    const size_t from = s->at - 1;
    weft_status status = WEFT_OK;
    l->negated = regex_peek(s, 0) == '^';
    s->at += l->negated;
    if (plain && l->negated)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "a case-insensitive negation");
    for (bool first = true; status == WEFT_OK; first = false) {
        const char c = regex_peek(s, 0);
        if (s->at == s->n)
            return regex_refuse(s, from, WEFT_EFORMAT, "a class without its ']'");
        if (c == ']' && !first)
            break;
        if (c == '[') {
            status = read_nested(s, l, plain, depth);
        } else if (c == '&' && regex_peek(s, 1) == '&') {
            s->at += 2;
            status = end_operand(s, from, l);
            if (status == WEFT_OK)
                status = begin_operand(s, l);
        } else {
            status = read_range(s, l, plain);
        }
    }
    if (status != WEFT_OK)
        return status;
    s->at++; /* the ']' */
    return end_operand(s, from, l);
}

/* Writes the class in PCRE2 syntax. */
static weft_status put_class(regex_source *s, size_t from, level *l, regex_text *to)
{
    if (l->sets)
        points_put(l->some, &l->items);
    if (l->items.failed)
        return WEFT_ENOMEM;
    if (l->items.n == 0)
        return regex_refuse(s, from, WEFT_EUNSUPPORTED, "an empty class");
    regex_puts(to, l->negated ? "[^" : "[");
    regex_put(to, l->items.text, l->items.n);
    regex_puts(to, "]");
    return WEFT_OK;
}

weft_status regex_read_class(regex_source *s, bool plain, regex_text *to)
{
    const size_t from = s->at;
    weft_status status = WEFT_OK;
    bool spelled = false;
    for (int sets = 0; sets < 2 && status == WEFT_OK && !spelled; sets++) {
        level l;
        s->at = from;
        status = level_init(&l, sets, s);
        if (status == WEFT_OK)
            status = read_class(s, &l, plain, 0);
        spelled = l.spelled;
        if (status == WEFT_OK && l.items.failed)
            status = WEFT_ENOMEM;
        if (status == WEFT_OK && (spelled || sets))
            status = put_class(s, from - 1, &l, to);
        level_free(&l);
    }
    return status;
}

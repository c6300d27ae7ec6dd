/* gbnf.c - reads llama.cpp's grammar language.
 *
 *     root  ::= "yes" | "no" tail{1,3}      # alternatives, literals, counts
 *     tail  ::= [a-z] | (" " [^\n\x00])* .  # classes of code points, groups, any code point
 *     think ::= <think> !</think>* <[12]>   # tokens: by text, any but one, by number
 *
 * Every group becomes a rule; grammar_finish turns what is regular back into single lexemes. The
 * text may be hostile: nesting is limited, and so is all that it builds. */
#include "base/utf8.h"
#include "text/constrain/rules.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

#define COUNT_MOST 1000000000u

typedef struct gbnf {
    grammar *g;
    const char *text;
    size_t n, at;
    const tokenizer *tokenizer; /* or NULL */
    uint32_t depth;
    arena store;
    vocab names;  /* of rules, by index in */
    list rules;   /* named_rule */
    list stack;   /* symbol: sequences that are being read */
    list ranges;  /* uint32_t[2]: a class that is being read */
    buffer bytes; /* a literal that is being read */
    weft_error *err;
} gbnf;

typedef struct named_rule {
    symbol symbol;
    size_t used; /* where it is first used */
    bool defined;
} named_rule;

/* ---- places and errors ----------------------------------------------------------------------- */

static bool failed(const gbnf *p)
{
    return p->err->code != WEFT_OK || p->g->failure.code != WEFT_OK;
}

/* "line 3, column 7: found "x"; expected ..." */
static void fail_at(gbnf *p, size_t at, const char *expected)
{
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    char found[32] = "the end";
    const uint8_t c = at < p->n ? (uint8_t)p->text[at] : 0;
    if (at < p->n)
        snprintf(found, sizeof found, c > ' ' && c < 0x7F ? "\"%c\"" : "byte 0x%02X", c);
    if (!failed(p))
        weft_fail(p->err, WEFT_EFORMAT, "line %u, column %u: found %s; expected %s", line, column,
                  found, expected);
}

static int peek(const gbnf *p)
{
    return p->at < p->n ? (uint8_t)p->text[p->at] : -1;
}

static bool take(gbnf *p, char c)
{
    const bool is = peek(p) == (uint8_t)c;
    p->at += is;
    return is;
}

/* Blanks and comments; across lines inside groups and between rules. */
static void skip_space(gbnf *p, bool lines)
{
    for (int c = peek(p); c >= 0; c = peek(p)) {
        if (c == '#')
            while (peek(p) >= 0 && peek(p) != '\n' && peek(p) != '\r')
                p->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            p->at++;
        else
            return;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t name_length(const gbnf *p)
{
    size_t n = 0;
    while (p->at + n < p->n && is_name((uint8_t)p->text[p->at + n]))
        n++;
    return n;
}

/* The rule of the name at the current place, made on its first use. */
static named_rule *take_name(gbnf *p)
{
    const size_t n = name_length(p), at = p->at;
    if (n == 0 || n > 255) {
        fail_at(p, at, n == 0 ? "the name of a rule" : "a name of at most 255 bytes");
        return NULL;
    }
    p->at += n;
    const uint32_t known = vocab_find(&p->names, p->text + at, n);
    if (known != NO_ID)
        return (named_rule *)p->rules.room.data + known;
    char name[256];
    memcpy(name, p->text + at, n);
    name[n] = 0;
    vocab_add(&p->names, p->rules.n, name, n);
    named_rule *r = grammar_append(p->g, &p->rules, sizeof *r);
    if (!r)
        return NULL;
    *r = (named_rule){ .symbol = grammar_rule(p->g, name), .used = at };
    return r;
}

/* ---- code points ----------------------------------------------------------------------------- */

static bool take_hex(gbnf *p, int digits, uint32_t *point)
{
    *point = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        static const char all[] = "0123456789abcdef";
        const int c = peek(p);
        const char *digit = c > 0 ? strchr(all, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!digit) {
            fail_at(p, p->at, "a hexadecimal digit");
            return false;
        }
        *point = *point << 4 | (uint32_t)(digit - all);
    }
    return true;
}

static bool take_escape(gbnf *p, uint32_t *point)
{
    const size_t at = p->at;
    const int c = peek(p);
    p->at += c >= 0;
    switch (c) {
    case 'x':
        return take_hex(p, 2, point);
    case 'u':
        return take_hex(p, 4, point);
    case 'U':
        return take_hex(p, 8, point);
    case 't':
        *point = '\t';
        return true;
    case 'r':
        *point = '\r';
        return true;
    case 'n':
        *point = '\n';
        return true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        *point = (uint32_t)c;
        return true;
    default:
        fail_at(p, at, "one of x u U t r n \\ \" [ ] - ^ after the backslash");
        return false;
    }
}

static bool take_point(gbnf *p, uint32_t *point)
{
    const size_t at = p->at;
    if (take(p, '\\')) {
        char bytes[4];
        if (!take_escape(p, point))
            return false;
        if (utf8_encode(*point, bytes) == 0)
            fail_at(p, at, "a code point, which is no surrogate and at most 10FFFF");
        return !failed(p);
    }
    const size_t n = utf8_decode(p->text + p->at, p->n - p->at, point);
    if (n == 0)
        fail_at(p, at, p->at < p->n ? "UTF-8" : "the end of a literal or a class");
    p->at += n;
    return n > 0;
}

/* ---- items ----------------------------------------------------------------------------------- */

static symbol read_literal(gbnf *p)
{
    p->bytes.n = 0;
    while (!failed(p) && !take(p, '"')) {
        uint32_t point;
        char bytes[4];
        if (take_point(p, &point))
            buffer_put(&p->bytes, bytes, utf8_encode(point, bytes));
    }
    if (failed(p))
        return NO_SYMBOL;
    return grammar_lexeme(p->g,
                          rx_literal(grammar_pool(p->g), (const char *)p->bytes.at, p->bytes.n));
}

static symbol read_class(gbnf *p)
{
    const bool negated = take(p, '^');
    const size_t from = p->at;
    p->ranges.n = 0;
    while (!failed(p) && !take(p, ']')) {
        const size_t at = p->at;
        uint32_t first, last;
        if (!take_point(p, &first))
            return NO_SYMBOL;
        last = first;
        if (peek(p) == '-' && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            if (!take_point(p, &last))
                return NO_SYMBOL;
        }
        if (last < first)
            fail_at(p, at, "a range whose first code point is not above its last");
        uint32_t(*range)[2] = grammar_append(p->g, &p->ranges, sizeof *range);
        if (range) {
            (*range)[0] = first;
            (*range)[1] = last;
        }
    }
    if (p->ranges.n == 0)
        fail_at(p, from, "a code point in the class");
    if (failed(p))
        return NO_SYMBOL;
    const uint32_t(*range)[2] = (const uint32_t(*)[2])p->ranges.room.data;
    rx_pool *pool = grammar_pool(p->g);
    return grammar_lexeme(p->g, negated ? rx_not_points(pool, range, p->ranges.n)
                                        : rx_points(pool, range, p->ranges.n));
}

/* A decimal number, which is there. */
static uint32_t read_number(gbnf *p, const char *expected)
{
    const size_t at = p->at;
    uint32_t x = 0;
    while (peek(p) >= '0' && peek(p) <= '9' && x <= COUNT_MOST / 10 - 1)
        x = 10 * x + (uint32_t)(p->text[p->at++] - '0');
    if (p->at == at || (peek(p) >= '0' && peek(p) <= '9'))
        fail_at(p, at, expected);
    return x;
}

/* <[12]>, <text>, and both after "!". */
static symbol read_token(gbnf *p)
{
    const bool negated = take(p, '!');
    const size_t at = p->at;
    uint32_t id = NO_ID;
    if (!take(p, '<'))
        fail_at(p, at, "a token, as <[12]> or <text>, after \"!\"");
    if (take(p, '[')) {
        id = read_number(p, "the number of a token");
        if (!failed(p) && (!take(p, ']') || !take(p, '>')))
            fail_at(p, p->at, "]> after the number of a token");
    } else {
        while (peek(p) >= 0 && peek(p) != '>' && peek(p) != '\n')
            p->at++;
        if (!take(p, '>'))
            fail_at(p, p->at, "> at the end of a token");
        if (p->tokenizer)
            id = tokenizer_find(p->tokenizer, p->text + at, p->at - at);
        if (id == NO_ID)
            fail_at(p, at, "a token of the vocabulary, or its number as <[12]>");
    }
    return failed(p) ? NO_SYMBOL : grammar_token(p->g, id, negated);
}

static symbol read_group(gbnf *p);

/* One item; NO_SYMBOL without an error if there is none here. */
static symbol read_item(gbnf *p)
{
    const int c = peek(p);
    if (take(p, '"'))
        return read_literal(p);
    if (take(p, '['))
        return read_class(p);
    if (c == '<' || c == '!')
        return read_token(p);
    if (take(p, '('))
        return read_group(p);
    if (take(p, '.'))
        return grammar_lexeme(p->g, rx_not_points(grammar_pool(p->g), NULL, 0));
    if (!is_name(c))
        return NO_SYMBOL;
    const named_rule *r = take_name(p);
    return r ? r->symbol : NO_SYMBOL;
}

/* {m} {m,} {m,n}, after the brace. */
static symbol read_counts(gbnf *p, symbol of, bool lines)
{
    skip_space(p, lines);
    const size_t at = p->at;
    const uint32_t min = read_number(p, "a count below 1000000000");
    uint32_t max = min;
    skip_space(p, lines);
    if (take(p, ',')) {
        skip_space(p, lines);
        max = peek(p) == '}' ? RX_MANY : read_number(p, "a count below 1000000000, or }");
        skip_space(p, lines);
    }
    if (!failed(p) && !take(p, '}'))
        fail_at(p, p->at, "} after the counts");
    if (!failed(p) && max < min)
        fail_at(p, at, "a first count that is not above the second");
    return failed(p) ? NO_SYMBOL : grammar_repeat(p->g, of, min, max);
}

/* An item with its repetitions. */
static symbol read_repeated(gbnf *p, bool lines)
{
    symbol s = read_item(p);
    while (s != NO_SYMBOL && !failed(p)) {
        skip_space(p, lines);
        if (take(p, '*'))
            s = grammar_repeat(p->g, s, 0, RX_MANY);
        else if (take(p, '+'))
            s = grammar_repeat(p->g, s, 1, RX_MANY);
        else if (take(p, '?'))
            s = grammar_repeat(p->g, s, 0, 1);
        else if (take(p, '{'))
            s = read_counts(p, s, lines);
        else
            break;
    }
    return s;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Alternatives up to what cannot belong to them. */
static void read_alternatives(gbnf *p, symbol to, bool lines)
{
    const uint32_t base = p->stack.n;
    do {
        skip_space(p, true);
        for (;;) {
            const symbol s = read_repeated(p, lines);
            symbol *top = s == NO_SYMBOL || failed(p)
                              ? NULL
                              : grammar_append(p->g, &p->stack, sizeof *top);
            if (!top)
                break;
            *top = s;
        }
        if (failed(p))
            return;
        const symbol *right = p->stack.room.data;
        grammar_add(p->g, to, right ? right + base : NULL, p->stack.n - base);
        p->stack.n = base;
        skip_space(p, lines);
    } while (take(p, '|'));
}

static symbol read_group(gbnf *p)
{
    if (++p->depth > grammar_bounds(p->g)->depth) {
        char expected[64];
        snprintf(expected, sizeof expected, "at most %u nested groups",
                 (unsigned)grammar_bounds(p->g)->depth);
        fail_at(p, p->at - 1, expected);
        return NO_SYMBOL;
    }
    const symbol s = grammar_rule(p->g, "group");
    read_alternatives(p, s, true);
    p->depth--;
    if (!failed(p) && !take(p, ')'))
        fail_at(p, p->at, "an item, | or )");
    return failed(p) ? NO_SYMBOL : s;
}

static void read_rule(gbnf *p)
{
    const size_t at = p->at;
    named_rule *r = take_name(p);
    if (!r)
        return;
    const symbol s = r->symbol;
    if (r->defined)
        fail_at(p, at, "another name: this rule is defined already");
    r->defined = true;
    skip_space(p, false);
    if (!failed(p) && !(take(p, ':') && take(p, ':') && take(p, '=')))
        fail_at(p, p->at, "::= after the name of a rule");
    if (failed(p))
        return;
    read_alternatives(p, s, false);
    const int c = peek(p);
    if (c >= 0 && c != '\n' && c != '\r')
        fail_at(p, p->at, "an item, | or the end of the line");
    skip_space(p, true);
}

static void read_rules(gbnf *p)
{
    skip_space(p, true);
    while (p->at < p->n && !failed(p))
        read_rule(p);
    const named_rule *r = p->rules.room.data;
    for (uint32_t i = 0; i < p->rules.n && !failed(p); i++)
        if (!r[i].defined)
            fail_at(p, r[i].used, "the name of a rule that is defined");
    const uint32_t root = failed(p) ? NO_ID : vocab_find(&p->names, "root", 4);
    if (root == NO_ID)
        fail_at(p, p->n, "a rule named root");
    else
        grammar_finish(p->g, r[root].symbol, p->err);
}

grammar *gbnf_read(mem *m, const char *text, size_t n, const tokenizer *t,
                   const grammar_limits *limits, weft_error *err)
{
    gbnf p = { .text = text, .n = n, .tokenizer = t, .err = err };
    p.g = grammar_begin(m, n, limits, err);
    if (!p.g)
        return NULL;
    buffer_begin(&p.bytes, m, err);
    if (arena_init(&p.store, ARENA_GROWING, m, 0, "a grammar", err) == WEFT_OK &&
        vocab_init(&p.names, &p.store, n / 2 + 2, n, err) == WEFT_OK)
        read_rules(&p);
    if (err->code == WEFT_OK && p.g->failure.code != WEFT_OK)
        *err = p.g->failure;
    scratch_free(&p.rules.room, m);
    scratch_free(&p.stack.room, m);
    scratch_free(&p.ranges.room, m);
    buffer_end(&p.bytes);
    arena_free(&p.store);
    if (err->code == WEFT_OK)
        return p.g;
    grammar_free(p.g);
    return NULL;
}

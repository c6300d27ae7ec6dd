/* squeeze.c - the tokens of a script, one after the other.
 *
 * It knows as much of JavaScript as the scripts of page/ use: strings, templates with expressions in
 * them, regular expressions after an operator, comments to the end of a line. A line end stays
 * where a statement may end there. */
#include "explain/squeeze.h"

#include <assert.h>
#include <string.h>

#define MOST_NESTED 8 /* templates in expressions of templates */

typedef struct squeezer {
    buffer *b;
    const char *at, *end;
    char last;                       /* written */
    int depth;                       /* of braces */
    int outer[MOST_NESTED], n_outer; /* depths at which the expressions of open templates end */
} squeezer;

static bool one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Letters of names and numbers; all bytes of UTF-8 are. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

static void put(squeezer *s, size_t n)
{
    buffer_put(s->b, s->at, n);
    s->last = s->at[n - 1];
    s->at += n;
}

static size_t quoted(const squeezer *s)
{
    const char *to = s->at + 1;
    while (to < s->end && *to != *s->at)
        to += *to == '\\' ? 2 : 1;
    assert(to < s->end);
    return (size_t)(to + 1 - s->at);
}

/* The text of a template, from the end of ` or }, to ` or ${. */
static void put_template(squeezer *s)
{
    const char *to = s->at;
    while (*to != '`' && !(to[0] == '$' && to[1] == '{')) {
        to += *to == '\\' ? 2 : 1;
        assert(to < s->end);
    }
    if (*to == '`') {
        put(s, (size_t)(to + 1 - s->at));
        return;
    }
    put(s, (size_t)(to + 2 - s->at));
    assert(s->n_outer < MOST_NESTED);
    s->outer[s->n_outer++] = s->depth;
}

/* Two words, and two signs that would be another operator, need a blank between them. */
static void skip_blanks(squeezer *s)
{
    bool line = false;
    for (; s->at < s->end && one_of(*s->at, " \t\n"); s->at++)
        line = line || *s->at == '\n';
    const char next = s->at < s->end ? *s->at : '\n';
    const bool apart = (is_word(s->last) && is_word(next)) ||
                       (one_of(s->last, "+-") && next == s->last);
    const char *blank = !line ? " " : "\n";
    if (line ? !one_of(s->last, "\n,;{([") : apart) {
        buffer_put(s->b, blank, 1);
        s->last = *blank;
    }
}

static void put_brace(squeezer *s)
{
    const bool ends = *s->at == '}' && s->n_outer > 0 && s->outer[s->n_outer - 1] == s->depth;
    s->depth += *s->at == '{' ? 1 : ends ? 0 : -1;
    put(s, 1);
    if (!ends)
        return;
    s->n_outer--;
    put_template(s);
}

void squeeze_script(buffer *b, const char *at, size_t n)
{
    squeezer s = { .b = b, .at = at, .end = at + n, .last = '\n' };
    while (s.at < s.end) {
        const char c = *s.at;
        const char next = s.at + 1 < s.end ? s.at[1] : '\0';
        if (one_of(c, " \t\n")) {
            skip_blanks(&s);
        } else if (c == '/' && next == '/') {
            while (s.at < s.end && *s.at != '\n')
                s.at++;
        } else if (one_of(c, "\"'") || (c == '/' && one_of(s.last, "(,=:?&|!"))) {
            put(&s, quoted(&s));
        } else if (c == '`') {
            put(&s, 1);
            put_template(&s);
        } else if (one_of(c, "{}")) {
            put_brace(&s);
        } else {
            put(&s, 1);
        }
    }
}

/* lex.c - the source of a template as tokens, with Jinja's rules for white space around tags: a
 * block or comment takes the blanks before it on its line and the newline after it; `-` takes all
 * white space on its side, `+` none. */
#include "text/jinja/tree.h"

#include "base/utf8.h"
#include "text/jinja/chars.h"

#include <string.h>

#define MOST_OPEN (JINJA_DEPTH + 1)

typedef struct lexer {
    jrender *r;
    jpool *tokens;
    const char *s;
    uint32_t at, n;
    jtoken *token;
    uint32_t n_token, room;
    char open[MOST_OPEN]; /* brackets that wait for their other half */
    int n_open;
    bool line_start; /* what came before ended a line */
    bool failed;
} lexer;

static void fail(lexer *x, uint32_t at, const char *text)
{
    if (!x->failed) {
        x->r->where = at;
        jfail(x->r, WEFT_EFORMAT, "%s", text);
    }
    x->failed = true;
}

static jtoken *add(lexer *x, jtoken_kind kind, uint32_t begin, uint32_t end)
{
    if (x->failed)
        return NULL;
    if (x->n_token == x->room) {
        const uint32_t room = x->room ? 2 * x->room : 64;
        weft_error why = { 0 };
        jtoken *more = room <= JINJA_TOKENS ? jpool_alloc(x->tokens, room * sizeof *more, &why)
                                            : NULL;
        if (!more) {
            x->r->where = begin;
            jfail(x->r, why.code ? why.code : WEFT_ELIMIT,
                  "no room for more tokens; the limit is %d %s", JINJA_TOKENS, why.message);
            x->failed = true;
            return NULL;
        }
        if (x->n_token)
            memcpy(more, x->token, x->n_token * sizeof *more);
        x->token = more;
        x->room = room;
    }
    jtoken *t = &x->token[x->n_token++];
    *t = (jtoken){ .kind = (uint8_t)kind, .at = begin, .end = end };
    return t;
}

static uint32_t skip_space(const lexer *x, uint32_t at)
{
    uint32_t c;
    while (at < x->n) {
        const uint32_t step = (uint32_t)utf8_decode(x->s + at, x->n - at, &c);
        if (!jchar_is_space(c))
            break;
        at += step;
    }
    return at;
}

/* Where text [begin, end) ends without white space at its end. */
static uint32_t without_tail(const lexer *x, uint32_t begin, uint32_t end)
{
    while (end > begin) {
        uint32_t at = end, c;
        do
            at--;
        while (at > begin && (x->s[at] & 0xc0) == 0x80);
        utf8_decode(x->s + at, x->n - at, &c);
        if (!jchar_is_space(c))
            break;
        end = at;
    }
    return end;
}

static bool starts_with(const lexer *x, uint32_t at, const char *text)
{
    const size_t n = strlen(text);
    return n <= x->n - at && memcmp(x->s + at, text, n) == 0;
}

/* ---- text outside tags ----------------------------------------------------------------------- */

static uint32_t find_tag(const lexer *x)
{
    for (uint32_t i = x->at; i + 1 < x->n; i++)
        if (x->s[i] == '{' && (x->s[i + 1] == '{' || x->s[i + 1] == '%' || x->s[i + 1] == '#'))
            return i;
    return x->n;
}

/* lstrip_blocks: only blanks between the start of the line and the tag go. */
static uint32_t without_blanks(const lexer *x, uint32_t begin, uint32_t end)
{
    uint32_t line = end;
    while (line > begin && x->s[line - 1] != '\n')
        line--;
    if (line == begin && !x->line_start)
        return end;
    return without_tail(x, line, end) == line ? line : end;
}

static void after_tag(lexer *x, uint32_t at, char sign, bool trims)
{
    const uint32_t from = at;
    if (sign == '-')
        at = skip_space(x, at);
    else if (sign != '+' && trims && at < x->n && x->s[at] == '\n')
        at++;
    x->line_start = at > from && x->s[at - 1] == '\n';
    x->at = at;
}

static void skip_comment(lexer *x, uint32_t tag)
{
    for (uint32_t i = x->at; i + 1 < x->n; i++)
        if (x->s[i] == '#' && x->s[i + 1] == '}') {
            const char sign = i > x->at ? x->s[i - 1] : '\0';
            after_tag(x, i + 2, sign == '-' || sign == '+' ? sign : '\0', true);
            return;
        }
    if (x->at < x->n) /* jinja2 forgives one that ends the template at once */
        fail(x, tag, "the comment has no end; expected #}");
}

/* Text up to the next tag, and the tag's beginning. Returns the closing half, or NULL. */
static const char *lex_text(lexer *x)
{
    const uint32_t begin = x->at, tag = find_tag(x);
    uint32_t end = tag;
    const char kind = tag < x->n ? x->s[tag + 1] : '\0';
    const char sign = tag + 2 < x->n ? x->s[tag + 2] : '\0';
    if (kind && sign == '-')
        end = without_tail(x, begin, tag);
    else if (kind && kind != '{' && sign != '+')
        end = without_blanks(x, begin, tag);
    if (end > begin)
        add(x, T_DATA, begin, end);
    x->at = tag;
    if (!kind)
        return NULL;
    x->at = tag + 2 + (sign == '-' || sign == '+');
    x->line_start = false;
    if (kind == '#') {
        skip_comment(x, tag);
        return NULL;
    }
    add(x, kind == '{' ? T_VARIABLE_BEGIN : T_BLOCK_BEGIN, tag, x->at);
    return kind == '{' ? "}}" : "%}";
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* digits with single underscores between them */
static uint32_t digits(const lexer *x, uint32_t at)
{
    while (at < x->n &&
           (is_digit(x->s[at]) || (x->s[at] == '_' && at + 1 < x->n && is_digit(x->s[at + 1]))))
        at++;
    return at;
}

/* The end of a float at `at`, or `at` if there is none. */
static uint32_t float_end(const lexer *x, uint32_t at)
{
    uint32_t end = digits(x, at);
    bool is_float = false;
    if (end == at || (at > 0 && x->s[at - 1] == '.'))
        return at;
    if (end + 1 < x->n && x->s[end] == '.' && is_digit(x->s[end + 1])) {
        end = digits(x, end + 1);
        is_float = true;
    }
    if (end + 1 < x->n && (x->s[end] | 32) == 'e') {
        uint32_t e = end + 1;
        e += e + 1 < x->n && (x->s[e] == '+' || x->s[e] == '-');
        if (is_digit(x->s[e])) {
            end = digits(x, e);
            is_float = true;
        }
    }
    return is_float ? end : at;
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static uint32_t int_end(const lexer *x, uint32_t at, int *base)
{
    *base = 10;
    if (x->s[at] != '0')
        return digits(x, at);
    const char c = at + 1 < x->n ? x->s[at + 1] | 32 : '\0';
    *base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    uint32_t end = at + 2;
    if (*base != 10) {
        while (end < x->n &&
               (digit_value(x->s[end]) < *base ||
                (x->s[end] == '_' && end + 1 < x->n && digit_value(x->s[end + 1]) < *base)))
            end++;
        if (end > at + 2)
            return end;
        *base = 10;
    }
    for (end = at + 1; end < x->n; end++)
        if (x->s[end] != '0' && !(x->s[end] == '_' && end + 1 < x->n && x->s[end + 1] == '0'))
            break;
    return end;
}

static void lex_number(lexer *x)
{
    const uint32_t at = x->at, real = float_end(x, at);
    jval v;
    int base;
    if (real > at) {
        x->at = real;
        if (!jfloat_parse(x->s + at, real - at, &v.f))
            fail(x, at, "a number of more digits than weft reads; use fewer");
        v = jfloat(v.f);
    } else {
        x->at = int_end(x, at, &base);
        const uint32_t skip = base == 10 ? 0 : 2;
        v = jint(0);
        if (!jint_parse(x->s + at + skip, x->at - at - skip, base, &v.i))
            fail(x, at, "an integer beyond 64 bits; weft computes with 64");
    }
    jtoken *t = add(x, v.kind == V_INT ? T_INT : T_FLOAT, at, x->at);
    if (t)
        t->value = v;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* \xHH, \uHHHH, \UHHHHHHHH at `at`, which is after the letter. */
static bool hex_escape(lexer *x, jbuild *b, uint32_t *at, uint32_t end, int n)
{
    uint32_t c = 0;
    for (int i = 0; i < n; i++) {
        const int d = *at < end ? digit_value(x->s[*at]) : 99;
        if (d > 15)
            return false;
        c = c << 4 | (uint32_t)d;
        ++*at;
    }
    char bytes[4];
    const size_t size = utf8_encode(c, bytes);
    jbuild_put(b, bytes, size, 0, 0);
    return size > 0;
}

static void octal_escape(lexer *x, jbuild *b, uint32_t *at, uint32_t end)
{
    uint32_t c = 0;
    for (int i = 0; i < 3 && *at < end && x->s[*at] >= '0' && x->s[*at] <= '7'; i++)
        c = c << 3 | (uint32_t)(x->s[(*at)++] - '0');
    jbuild_point(b, c, (jrun){ 0 });
}

/* A backslash before a character beyond ASCII: Python escapes that first, so the backslash meets
 * another one. */
static void wide_escape(lexer *x, jbuild *b, uint32_t *at)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t c;
    char text[12] = "\\";
    *at += (uint32_t)utf8_decode(x->s + *at, x->n - *at, &c);
    const int n = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    text[1] = n == 2 ? 'x' : n == 4 ? 'u' : 'U';
    for (int i = 0; i < n; i++)
        text[2 + i] = hex[c >> (4 * (n - 1 - i)) & 15];
    jbuild_put(b, text, (size_t)n + 2, 0, 0);
}

static bool escape(lexer *x, jbuild *b, uint32_t *at, uint32_t end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = x->s[*at];
    const char *hit = c ? strchr(from, c) : NULL;
    if (c & 0x80) {
        wide_escape(x, b, at);
        return true;
    }
    if (c >= '0' && c <= '7') {
        octal_escape(x, b, at, end);
        return true;
    }
    ++*at;
    if (hit)
        jbuild_put(b, &to[hit - from], 1, 0, 0);
    else if (c == 'x' || c == 'u' || c == 'U')
        return hex_escape(x, b, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    else if (c == 'N')
        return false;
    else if (c != '\n') {
        jbuild_put(b, "\\", 1, 0, 0);
        jbuild_put(b, &c, 1, 0, 0);
    }
    return true;
}

static void lex_string(lexer *x)
{
    const uint32_t begin = x->at;
    const char quote = x->s[begin];
    uint32_t end = begin + 1;
    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n) {
        fail(x, begin, "the string has no end; expected its quote");
        return;
    }
    jbuild b;
    jbuild_begin(&b, x->r);
    for (uint32_t at = begin + 1; at < end && !x->failed;) {
        const char *hit = memchr(x->s + at, '\\', end - at);
        const uint32_t stop = hit ? (uint32_t)(hit - x->s) : end;
        jbuild_put(&b, x->s + at, stop - at, 0, 0);
        at = stop + 1;
        if (hit && !escape(x, &b, &at, end))
            fail(x, stop, "an escape that is no character, or \\N, which weft does not have");
    }
    x->at = end + 1;
    const jval v = jbuild_value(&b);
    jtoken *t = add(x, T_STRING, begin, x->at);
    x->failed = x->failed || jbad(v);
    if (t)
        t->value = v;
}

/* ---- operators ------------------------------------------------------------------------------- */

static void balance(lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_open == MOST_OPEN - 1)
            fail(x, x->at, "brackets nested too deeply; expected 64 at most");
        else
            x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (x->n_open == 0 || x->open[--x->n_open] != c)
            fail(x, x->at, "a closing bracket that closes nothing");
    }
}

static void lex_operator(lexer *x)
{
    static const char *const two[] = { "//", "**", "==", "!=", ">=", "<=" };
    const uint32_t at = x->at;
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (starts_with(x, at, two[i]))
            n = 2;
    if (n == 0 && x->s[at] && strchr("+-/*%~[](){}><=.:|,;", x->s[at]))
        n = 1;
    if (n == 0) {
        fail(x, at, "a character that Jinja does not know");
        return;
    }
    balance(x, x->s[at]);
    x->at = at + n;
    jtoken *t = add(x, T_OPERATOR, at, x->at);
    if (t)
        memcpy(t->op, x->s + at, n);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* The end of the tag, if it is here. */
static bool lex_end(lexer *x, const char *close)
{
    const uint32_t at = x->at;
    const bool block = *close == '%';
    const char sign = x->s[at] == '-' || (block && x->s[at] == '+') ? x->s[at] : '\0';
    const uint32_t tag = at + (sign != '\0');
    if (x->n_open > 0 || !starts_with(x, tag, close))
        return false;
    add(x, block ? T_BLOCK_END : T_VARIABLE_END, at, tag + 2);
    after_tag(x, tag + 2, sign, block);
    return true;
}

static void lex_tag(lexer *x, const char *close)
{
    while (!x->failed) {
        x->at = skip_space(x, x->at);
        if (x->at >= x->n || lex_end(x, close))
            return;
        const uint32_t at = x->at;
        const char c = x->s[at];
        if (is_digit(c))
            lex_number(x);
        else if (is_letter(c)) {
            while (x->at < x->n && (is_letter(x->s[x->at]) || is_digit(x->s[x->at])))
                x->at++;
            add(x, T_NAME, at, x->at);
        } else if (c == '"' || c == '\'')
            lex_string(x);
        else
            lex_operator(x);
    }
}

jtoken *jinja_lex(jrender *r, jpool *tokens, uint32_t *n)
{
    lexer x = {
        .r = r, .tokens = tokens, .s = r->source, .n = (uint32_t)r->n_source, .line_start = true
    };
    while (x.at < x.n && !x.failed) {
        const char *close = lex_text(&x);
        if (close && !x.failed)
            lex_tag(&x, close);
    }
    add(&x, T_END, x.n, x.n);
    *n = x.n_token;
    return x.failed ? NULL : x.token;
}

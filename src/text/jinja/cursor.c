/* cursor.c - what both halves of the parser need: the token that comes next, errors, new nodes. */
#include "text/jinja/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const jtoken *jpeek(const jparser *p)
{
    return &p->token[p->at];
}

bool jtoken_is_name(const jparser *p, const jtoken *t, const char *name)
{
    const size_t n = strlen(name);
    return t->kind == T_NAME && t->end - t->at == n && memcmp(p->r->source + t->at, name, n) == 0;
}

bool jis_name(const jparser *p, const char *name)
{
    return jtoken_is_name(p, jpeek(p), name);
}

bool jis_operator(const jparser *p, const char *op)
{
    return jpeek(p)->kind == T_OPERATOR && strcmp(jpeek(p)->op, op) == 0;
}

void jadvance(jparser *p)
{
    p->at += p->at + 1 < p->n;
}

bool jskip_name(jparser *p, const char *name)
{
    const bool is = jis_name(p, name);
    if (is)
        jadvance(p);
    return is;
}

bool jskip_operator(jparser *p, const char *op)
{
    const bool is = jis_operator(p, op);
    if (is)
        jadvance(p);
    return is;
}

jnode *jparse_fail(jparser *p, weft_status code, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!p->failed) {
        p->r->where = jpeek(p)->at;
        jfail(p->r, code, "%s", text);
    }
    p->failed = true;
    return NULL;
}

/* What stands here, for a message. */
static const char *found_here(const jparser *p, char to[32])
{
    const jtoken *t = jpeek(p);
    const int n = (int)(t->end - t->at < 24 ? t->end - t->at : 24);
    snprintf(to, 32, "%.*s", t->kind == T_END ? 15 : n,
             t->kind == T_END ? "the end of file" : p->r->source + t->at);
    return to;
}

jnode *jparse_unexpected(jparser *p, const char *expected)
{
    char text[32];
    return jparse_fail(p, WEFT_EFORMAT, "%s; expected %s", found_here(p, text), expected);
}

bool jexpect_operator(jparser *p, const char *op)
{
    if (jskip_operator(p, op))
        return true;
    jparse_unexpected(p, op);
    return false;
}

const jstr *jexpect_name(jparser *p)
{
    const jtoken *t = jpeek(p);
    if (t->kind != T_NAME) {
        jparse_unexpected(p, "a name");
        return NULL;
    }
    jadvance(p);
    const jstr *s = jstr_new(p->r, p->r->source + t->at, t->end - t->at, 0);
    p->failed = p->failed || !s;
    return s;
}

bool jparse_enter(jparser *p)
{
    if (++p->depth <= JINJA_DEPTH)
        return true;
    jparse_fail(p, WEFT_ELIMIT, "nested deeper than %d; use a flatter template", JINJA_DEPTH);
    return false;
}

jnode *jnode_new(jparser *p, jnode_kind kind)
{
    jnode *n = p->failed ? NULL : jalloc(p->r, 1, sizeof *n);
    if (!n) {
        p->failed = true;
        return NULL;
    }
    *n = (jnode){ .kind = (uint8_t)kind, .at = jpeek(p)->at };
    return n;
}

/* Kids lie in blocks of a power of two; the count says when the next is needed. */
bool jnode_add(jparser *p, jnode *n, jnode *kid)
{
    if (p->failed || !n)
        return false;
    if ((n->n & (n->n - 1)) == 0 && n->n != 1) {
        const uint32_t room = n->n ? 2 * n->n : 2;
        jnode **more = jalloc(p->r, room, sizeof *more);
        p->failed = !more;
        if (!more)
            return false;
        if (n->n)
            memcpy(more, n->kid, n->n * sizeof *more);
        n->kid = more;
    }
    n->kid[n->n++] = kid;
    return true;
}

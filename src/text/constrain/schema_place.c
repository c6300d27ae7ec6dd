/* schema_place.c - JSON pointers: from a $ref to its schema, and from a schema to the pointer that
 * stands in a message. */
#include "text/constrain/schema.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- where a schema is ------------------------------------------------------------------------- */

typedef struct path {
    char text[256];
    size_t n;
} path;

static void put_step(path *p, const char *key)
{
    size_t n = p->n;
    if (n + 1 < sizeof p->text)
        p->text[n++] = '/';
    for (; *key && n + 2 < sizeof p->text; key++) {
        const bool escaped = *key == '~' || *key == '/';
        if (escaped)
            p->text[n++] = '~';
        p->text[n++] = (char)(*key == '~' ? '0' : *key == '/' ? '1' : *key);
    }
    n -= utf8_unfinished(p->text, n);
    p->text[n] = 0;
    p->n = n;
}

static bool find(const json_t *in, const json_t *what, path *p);

static bool find_below(const json_t *child, const json_t *what, path *p, const char *key)
{
    const size_t n = p->n;
    if (!json_is_object(child) && !json_is_array(child))
        return false;
    put_step(p, key);
    if (find(child, what, p))
        return true;
    p->text[p->n = n] = 0;
    return false;
}

/* A document is at most JSON_DEPTH deep. */
static bool find(const json_t *in, const json_t *what, path *p)
{
    const char *key;
    json_t *child;
    size_t i;
    if (in == what)
        return true;
    json_object_foreach((json_t *)in, key, child) if (find_below(child, what, p, key)) return true;
    json_array_foreach(in, i, child)
    {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        if (find_below(child, what, p, index))
            return true;
    }
    return false;
}

static void find_place(const schema *s, const json_t *at, const char *keyword, path *p)
{
    *p = (path){ 0 };
    if (at)
        find(s->root, at, p);
    if (keyword)
        put_step(p, keyword);
}

bool schema_refuse(schema *s, weft_status code, const json_t *at, const char *keyword,
                   const char *format, ...)
{
    path p;
    char what[240];
    va_list args;
    if (s->failed)
        return false;
    s->failed = true;
    find_place(s, at, keyword, &p);
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const size_t n = strlen(what);
    what[n - utf8_unfinished(what, n)] = 0;
    weft_fail(s->err, code, "schema: %s: %s", p.n ? p.text : "the root", what);
    return false;
}

bool schema_unsupported(schema *s, const json_t *at, const char *keyword, const char *why)
{
    path p;
    if (!s->options->lenient)
        return schema_refuse(s, WEFT_EUNSUPPORTED, at, keyword,
                             "%s; change the schema, or have it ignored (strict false)", why);
    find_place(s, at, keyword, &p);
    if (s->options->ignored)
        s->options->ignored(s->options->user, p.text, keyword);
    return true;
}

/* ---- $ref ---------------------------------------------------------------------------------------- */

/* The next step of a pointer, with ~0, ~1 and %20 undone; NULL if it is malformed or too long. */
static const char *read_step(const char **ref, char *to, size_t room)
{
    size_t n = 0;
    const char *c = *ref;
    for (; *c && *c != '/'; c++) {
        if (n + 1 >= room)
            return NULL;
        if (*c == '~' && (c[1] == '0' || c[1] == '1')) {
            to[n++] = *++c == '0' ? '~' : '/';
        } else if (*c == '%' && text_hex(c[1]) >= 0 && text_hex(c[2]) >= 0) {
            to[n++] = (char)(text_hex(c[1]) << 4 | text_hex(c[2]));
            c += 2;
        } else {
            to[n++] = *c;
        }
    }
    to[n] = 0;
    *ref = c;
    return to;
}

static const json_t *child_of(const json_t *in, const char *step)
{
    size_t index = 0;
    if (json_is_object(in))
        return json_object_get(in, step);
    if (!json_is_array(in) || !*step || strlen(step) > 6)
        return NULL;
    for (; *step; step++) {
        if (*step < '0' || *step > '9')
            return NULL;
        index = index * 10 + (size_t)(*step - '0');
    }
    return json_array_get(in, index);
}

const json_t *schema_target(schema *s, const json_t *at, const char *ref)
{
    const json_t *to = s->root;
    const char *rest = ref + 1;
    char step[512];
    if (ref[0] != '#' || (ref[1] && ref[1] != '/')) {
        schema_refuse(s, WEFT_EUNSUPPORTED, at, "$ref",
                      "\"%.80s\" is not in this schema; only #/... is supported", ref);
        return NULL;
    }
    while (to && *rest == '/') {
        rest++;
        to = read_step(&rest, step, sizeof step) ? child_of(to, step) : NULL;
    }
    if (!json_is_object(to) && !json_is_boolean(to)) {
        schema_refuse(s, WEFT_EFORMAT, at, "$ref", "\"%.80s\" names no schema", ref);
        return NULL;
    }
    return to;
}

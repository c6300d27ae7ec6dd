/* body.c - a body becomes a tree of JSON; see body.h. */
#include "body.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

static json_malloc_t outer_malloc;
static json_free_t outer_free;
static _Thread_local store *current;
static _Thread_local jmp_buf *leave; /* where a refused allocation goes */

static void *store_malloc(size_t size)
{
    if (!current)
        return outer_malloc(size);
    void *block = store_take(current, 1, size);
    if (!block && leave)
        longjmp(*leave, 1);
    return block;
}

static void store_no_free(void *block)
{
    if (!current)
        outer_free(block);
}

void body_init(void)
{
    if (outer_malloc)
        return;
    json_get_alloc_funcs(&outer_malloc, &outer_free);
    json_set_alloc_funcs(store_malloc, store_no_free);
    json_object_seed(0); /* from a file, which a sandbox forbids later */
}

/* ---- before parsing -------------------------------------------------------------------------- */

/* The byte after the string that begins at i, or n. */
static size_t after_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        i += text[i] == '\\'; /* bounded: n + 1 */
    return i < n ? i + 1 : n; /* bounded: n */
}

/* Values are counted by what separates them; good JSON has at most one more. */
static bool within_limits(const char *text, size_t n, char *why, size_t size)
{
    int depth = 0, deepest = 0;
    size_t values = 0;
    for (size_t i = 0; i < n;) {
        const char c = text[i];
        if (c == '"') {
            i = after_string(text, n, i);
            continue;
        }
        depth += (c == '{' || c == '[') - (c == '}' || c == ']'); /* bounded: BODY_MAX_BYTES */
        deepest = depth > deepest ? depth : deepest;
        values += c == '{' || c == '[' || c == ',' || c == ':'; /* bounded: BODY_MAX_BYTES */
        i++;
    }
    if (deepest > BODY_MAX_DEPTH)
        snprintf(why, size, "JSON is nested %d deep; expected at most %d", deepest, BODY_MAX_DEPTH);
    else if (values > BODY_MAX_VALUES)
        snprintf(why, size, "JSON has %zu values; expected at most %d", values, BODY_MAX_VALUES);
    return deepest <= BODY_MAX_DEPTH && values <= BODY_MAX_VALUES;
}

/* ---- parsing and writing --------------------------------------------------------------------- */

body_status body_parse(store *s, const char *text, size_t n, json_t **root, char *why, size_t size)
{
    jmp_buf out;
    json_error_t error = { 0 };
    json_t *volatile tree = NULL;
    volatile bool refused = true;
    *root = NULL;
    if (n > BODY_MAX_BYTES) {
        snprintf(why, size, "a body of %zu bytes; expected at most %zu", n, BODY_MAX_BYTES);
        return BODY_BAD;
    }
    if (!within_limits(text, n, why, size))
        return BODY_BAD;
    s->most = BODY_MAX_MEMORY;
    current = s;
    if (setjmp(out) == 0) {
        leave = &out;
        tree = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        refused = false;
    }
    leave = NULL;
    current = NULL;
    if (refused) {
        snprintf(why, size, "no memory to read %zu bytes of JSON", n);
        return BODY_NO_MEMORY;
    }
    if (!tree)
        snprintf(why, size, "not JSON: line %d column %d: %s", error.line, error.column,
                 error.text);
    *root = tree;
    return tree ? BODY_GOOD : BODY_BAD;
}

static int append(const char *text, size_t n, void *to)
{
    bytes_add(to, text, n);
    return ((bytes *)to)->failed ? -1 : 0;
}

/* Jansson's writer takes memory of its own for the path to a value, from the store too. A function
 * of its own, because a longjmp leaves the variables of the function that called setjmp
 * undefined. */
static bool write_tree(store *s, const json_t *tree, bytes *to)
{
    jmp_buf out;
    volatile bool good = false;
    current = s;
    if (setjmp(out) == 0) {
        leave = &out;
        good = json_dump_callback(tree, append, to, JSON_COMPACT | JSON_ENCODE_ANY) == 0;
    }
    leave = NULL;
    current = NULL;
    return good && !to->failed;
}

char *body_write(store *s, const json_t *tree, size_t *n)
{
    bytes b = { 0 };
    char *copy = write_tree(s, tree, &b) ? store_text(s, b.at, b.n) : NULL;
    *n = b.n;
    bytes_free(&b);
    return copy;
}

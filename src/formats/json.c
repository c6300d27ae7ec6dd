#include "formats/json.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

static pthread_mutex_t borrowed = PTHREAD_MUTEX_INITIALIZER;
static json_malloc_t outer_malloc;
static json_free_t outer_free;
static _Thread_local mem *budget;
static _Thread_local weft_status refused; /* why memory was refused; jansson itself cannot tell */

/* A text becomes many small blocks that all go together: they are cut from chunks. */
#define CHUNK ((size_t)64 << 10)
#define ALIGN 16u
#define MOST  ((size_t)1 << 31) /* twice the table of a list of as many numbers as a text can hold */

typedef struct chunk {
    struct chunk *older;
    size_t size, at;
    _Alignas(ALIGN) char bytes[];
} chunk;

static _Thread_local chunk *newest;

/* jansson's lexer ignores that the text of a token could not grow, and then asserts, or reads behind
 * what it has. So its parser never sees memory refused: we jump out of it, and what it made goes
 * with the chunks. */
static _Thread_local jmp_buf *parsing;

static void *refuse(weft_status why)
{
    refused = why;
    if (parsing)
        longjmp(*parsing, 1);
    return NULL;
}

static bool add_chunk(size_t size)
{
    weft_error why = { 0 };
    const size_t least = budget->hooks.chunk ? budget->hooks.chunk : CHUNK;
    size = size < least ? least : size;
    chunk *c = mem_alloc(budget, sizeof *c + size, "JSON", &why); /* bounded: MOST */
    if (!c)
        return refuse(why.code);
    *c = (chunk){ .older = newest, .size = size };
    newest = c;
    return true;
}

static void *counted_malloc(size_t size)
{
    if (!budget)
        return outer_malloc(size);
    if (size > MOST)
        return refuse(WEFT_ENOMEM);
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1); /* bounded: MOST */
    if ((!newest || size > newest->size - newest->at) && !add_chunk(size))
        return NULL;
    void *block = newest->bytes + newest->at; /* bounded: by the chunk, as the next */
    newest->at += size;                       /* bounded: above */
    return block;
}

static void counted_free(void *block)
{
    if (!budget)
        outer_free(block);
}

/* A fork while a section is open elsewhere must not leave the child with a lock that nobody
 * holds. */
static void lock(void)
{
    pthread_mutex_lock(&borrowed);
}

static void unlock(void)
{
    pthread_mutex_unlock(&borrowed);
}

static void watch_fork(void)
{
    pthread_atfork(lock, unlock, unlock);
}

void json_section_begin(mem *m)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    lock();
    json_get_alloc_funcs(&outer_malloc, &outer_free);
    budget = m;
    refused = WEFT_OK;
    json_set_alloc_funcs(counted_malloc, counted_free);
}

void json_section_end(void)
{
    json_set_alloc_funcs(outer_malloc, outer_free);
    while (newest) {
        chunk *older = newest->older;
        mem_free(budget, newest);
        newest = older;
    }
    budget = NULL;
    unlock();
}

/* The deepest nesting of brackets outside strings. jansson recurses, so depth is limited before it
 * runs. */
static int depth_of(const uint8_t *data, uint64_t size)
{
    int depth = 0, deepest = 0;
    bool quoted = false;
    for (uint64_t i = 0; i < size; i++) {
        const uint8_t c = data[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            deepest = ++depth > deepest ? depth : deepest;
        else if (!quoted && (c == '}' || c == ']'))
            depth--;
        if (deepest > JSON_DEPTH)
            break;
    }
    return deepest;
}

/* NULL also where memory was refused. */
static json_t *load(const uint8_t *data, uint64_t size, size_t flags, json_error_t *why)
{
    jmp_buf out;
    json_t *root = NULL;
    if (setjmp(out) == 0) {
        parsing = &out;
        root = json_loadb((const char *)data, size, flags, why);
    }
    parsing = NULL;
    return refused == WEFT_OK ? root : NULL;
}

json_t *json_read(const uint8_t *data, uint64_t size, bool big_integers, const char *path,
                  weft_error *err)
{
    return json_read_root(data, size, big_integers, false, path, err);
}

json_t *json_read_root(const uint8_t *data, uint64_t size, bool big_integers, bool array,
                       const char *path, weft_error *err)
{
    if (size > JSON_MAX_BYTES) {
        weft_fail(err, WEFT_EFORMAT, "%s: JSON of %llu bytes, more than the %u allowed", path,
                  (unsigned long long)size, JSON_MAX_BYTES);
        return NULL;
    }
    if (depth_of(data, size) > JSON_DEPTH) {
        weft_fail(err, WEFT_EFORMAT, "%s: JSON nested deeper than %d", path, JSON_DEPTH);
        return NULL;
    }
    json_error_t why = { 0 };
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *root = load(data, size, flags, &why);
    if (!root && big_integers && json_error_code(&why) == json_error_numeric_overflow)
        root = load(data, size, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (refused != WEFT_OK) {
        weft_fail(err, refused, "%s: %s no memory to read its %llu bytes of JSON", path,
                  refused == WEFT_ELIMIT ? "the memory cap leaves" : "the system gives",
                  (unsigned long long)size);
    } else if (!root) {
        weft_fail(err, WEFT_EFORMAT, "%s: line %d column %d: %s", path, why.line, why.column,
                  why.text);
    } else if (!json_is_object(root) && !(array && json_is_array(root))) {
        weft_fail(err, WEFT_EFORMAT, "%s: JSON is not an object%s", path, array ? " or array" : "");
        root = NULL;
    }
    return root;
}

#include "formats/json.h"

#include "base/checked.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

/* What malloc adds to a block; charged so that many small nodes are not counted too low. */
#define OVERHEAD 16

static pthread_mutex_t borrowed = PTHREAD_MUTEX_INITIALIZER;
static json_malloc_t outer_malloc;
static json_free_t outer_free;
static _Thread_local mem *budget;
static _Thread_local size_t charged;
static _Thread_local weft_status refused; /* why memory was refused; jansson itself cannot tell */

/* jansson's lexer ignores that a buffer could not grow, and then writes behind the string that it
 * makes of it. So its parser never sees memory refused: we jump out of it, and free its blocks
 * ourselves, which are chained for that. */
typedef struct block {
    struct block *next, *before;
} block;
static _Thread_local block *blocks; /* the newest first */
static _Thread_local jmp_buf *parsing;

static void *refuse(weft_status why)
{
    refused = why;
    if (parsing)
        longjmp(*parsing, 1);
    return NULL;
}

static void *counted_malloc(size_t size)
{
    if (!budget)
        return outer_malloc(size);
    uint64_t whole;
    if (!checked_add(size, sizeof(block) + 2 * OVERHEAD - 1, &whole)) /* bounded: constants */
        return refuse(WEFT_ENOMEM);
    whole &= ~(uint64_t)(OVERHEAD - 1);
    if (!mem_charge(budget, whole))
        return refuse(WEFT_ELIMIT);
    block *b = budget->hooks.alloc(budget->hooks.ud, OVERHEAD, whole);
    if (!b) {
        mem_uncharge(budget, whole);
        return refuse(WEFT_ENOMEM);
    }
    *b = (block){ .next = blocks };
    if (blocks)
        blocks->before = b;
    blocks = b;
    charged += whole; /* bounded: by what mem_charge accepted */
    return &b[1];
}

static void counted_free(void *memory)
{
    if (!budget || !memory) {
        if (!budget)
            outer_free(memory);
        return;
    }
    block *b = (block *)memory - 1;
    *(b->before ? &b->before->next : &blocks) = b->next;
    if (b->next)
        b->next->before = b->before;
    budget->hooks.release(budget->hooks.ud, b);
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
    blocks = NULL;
    charged = 0;
    refused = WEFT_OK;
    json_set_alloc_funcs(counted_malloc, counted_free);
}

void json_section_end(void)
{
    json_set_alloc_funcs(outer_malloc, outer_free);
    mem_uncharge(budget, charged);
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

/* NULL where memory was refused, and nothing is left then. */
static json_t *load(const uint8_t *data, uint64_t size, size_t flags, json_error_t *why)
{
    jmp_buf out;
    block *const mark = blocks;
    if (setjmp(out) != 0) {
        parsing = NULL;
        while (blocks != mark)
            counted_free(&blocks[1]);
        return NULL;
    }
    parsing = &out;
    json_t *root = json_loadb((const char *)data, size, flags, why);
    parsing = NULL;
    return root;
}

json_t *json_read(const uint8_t *data, uint64_t size, bool big_integers, const char *path,
                  weft_error *err)
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
    if (!root && refused == WEFT_OK && big_integers &&
        json_error_code(&why) == json_error_numeric_overflow)
        root = load(data, size, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (refused != WEFT_OK) {
        weft_fail(err, refused, "%s: %s no memory to read its %llu bytes of JSON", path,
                  refused == WEFT_ELIMIT ? "the memory cap leaves" : "the system gives",
                  (unsigned long long)size);
    } else if (!root) {
        weft_fail(err, WEFT_EFORMAT, "%s: line %d column %d: %s", path, why.line, why.column,
                  why.text);
    } else if (!json_is_object(root)) {
        weft_fail(err, WEFT_EFORMAT, "%s: JSON is not an object", path);
        json_decref(root);
        root = NULL;
    }
    return root;
}

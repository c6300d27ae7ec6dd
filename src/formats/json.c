/* json.c - jansson with a memory budget. Its allocator is a global, hence the thread-local
 * section. */
#include "formats/json.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

static pthread_mutex_t borrowed = PTHREAD_MUTEX_INITIALIZER;
static json_malloc_t outer_malloc;
static json_free_t outer_free;
static _Thread_local mem *budget;
static _Thread_local weft_status refused; /* why an allocation failed; jansson cannot say */

/* A document becomes many small blocks that are freed together, so they are cut from chunks. */
#define CHUNK ((size_t)64 << 10)
#define ALIGN 16u
#define MAX_TABLE                                                                                  \
    ((size_t)1 << 31) /* twice the table of the longest list that a document can hold */

typedef struct chunk {
    struct chunk *older;
    size_t size, at;
    _Alignas(ALIGN) char bytes[];
} chunk;

static _Thread_local chunk *newest;

/* jansson's lexer ignores a failed allocation while it grows a token, and then asserts, or reads
 * past its buffer. So its parser never sees a failed allocation: we longjmp out of it, and its
 * blocks are freed with the chunks. */
static _Thread_local jmp_buf *parsing;

static void *json_refused(weft_status why)
{
    refused = why;
    if (parsing)
        longjmp(*parsing, 1);
    return NULL;
}

static bool add_chunk(size_t size)
{
    weft_error why = { 0 };
    const size_t min_chunk = budget->hooks.chunk ? budget->hooks.chunk : CHUNK;
    size = size < min_chunk ? min_chunk : size;
    chunk *c = mem_alloc(budget, sizeof *c + size, "JSON", &why); /* bounded: MAX_TABLE */
    if (!c)
        return json_refused(why.code);
    *c = (chunk){ .older = newest, .size = size };
    newest = c;
    return true;
}

static void *counted_malloc(size_t size)
{
    if (!budget)
        return outer_malloc(size);
    if (size > MAX_TABLE)
        return json_refused(WEFT_ENOMEM);
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1); /* bounded: MAX_TABLE */
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

/* A fork while another thread has a section open must not leave the child with a lock that nobody
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

/* ---- before parsing -------------------------------------------------------------------------- */

/* Memory that jansson allocates, measured: an empty object comes with eight buckets, an empty list
 * with eight places, and tables that grow leave their old copies in the chunks. test_config checks
 * these numbers. */
#define OBJECT_BYTES 208u
#define LIST_BYTES   112u
#define KEY_BYTES    96u /* in addition to its text, twice */
#define PLACE_BYTES  24u
#define TEXT_BYTES   64u /* in addition to the text */
#define NUMBER_BYTES 32u

typedef struct survey {
    int depth;      /* the deepest nesting of brackets outside strings */
    uint64_t bytes; /* estimated size of the tree */
} survey;

/* The quote that ends the string that begins at i, or the last byte. */
static uint64_t string_end(const uint8_t *data, uint64_t size, uint64_t i)
{
    uint64_t end = i + 1; /* bounded: JSON_MAX_BYTES, as the next */
    while (end < size && data[end] != '"')
        end += data[end] == '\\' ? 2 : 1; /* bounded: above */
    return end < size ? end : size - 1;
}

static bool in_number(uint8_t c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* The cost of a byte outside strings, after a string of `last` bytes. */
static uint64_t cost_of(uint8_t before, uint8_t c, uint64_t last)
{
    switch (c) {
    case '{':
        return OBJECT_BYTES;
    case '[':
        return LIST_BYTES;
    case ':':
        return KEY_BYTES + last; /* bounded: JSON_MAX_BYTES */
    case ',':
        return PLACE_BYTES;
    default:
        return in_number(c) && !in_number(before) ? NUMBER_BYTES : 0;
    }
}

/* jansson recurses, and allocates forty times the bytes of a list of empty lists: both are checked
 * before it runs. */
static survey survey_json(const uint8_t *data, uint64_t size)
{
    survey v = { 0 };
    uint64_t last = 0; /* bytes of the last string */
    int depth = 0;
    for (uint64_t i = 0; i < size && v.depth <= JSON_DEPTH; i++) {
        const uint8_t c = data[i];
        if (c == '"') {
            last = string_end(data, size, i) - i;
            i += last;                    /* bounded: it ends before `size` */
            v.bytes += TEXT_BYTES + last; /* bounded: the square of JSON_MAX_BYTES, as the next */
            continue;
        }
        v.bytes += cost_of(i ? data[i - 1] : 0, c, last);                  /* bounded: above */
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0; /* bounded: size */
        v.depth = depth > v.depth ? depth : v.depth;
    }
    return v;
}

static bool check_survey(const uint8_t *data, uint64_t size, const char *path, weft_error *err)
{
    const survey v = survey_json(data, size);
    if (v.depth > JSON_DEPTH) {
        weft_fail(err, WEFT_EFORMAT, "%s: JSON nested deeper than %d", path, JSON_DEPTH);
        return false;
    }
    const uint64_t most = size * JSON_TREE_TIMES + JSON_TREE_MORE; /* bounded: JSON_MAX_BYTES */
    if (v.bytes > MAX_JSON_TREE || v.bytes > most) {
        weft_fail(err, WEFT_EFORMAT,
                  "%s: %llu bytes of JSON would take %llu bytes of memory; the limit is %u per "
                  "byte of the file plus %u",
                  path, (unsigned long long)size, (unsigned long long)v.bytes, JSON_TREE_TIMES,
                  JSON_TREE_MORE);
        return false;
    }
    return true;
}

/* NULL also if an allocation failed. */
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
    if (!check_survey(data, size, path, err))
        return NULL;
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

/* Its writer leaves out what it has no memory for. */
const char *json_write(const json_t *value, size_t flags, const char *what, weft_error *err)
{
    jmp_buf out;
    const char *volatile text = NULL;
    if (setjmp(out) == 0) {
        parsing = &out;
        text = json_dumps(value, flags);
    }
    parsing = NULL;
    if (refused != WEFT_OK) {
        weft_fail(err, refused, "%s: no memory to write its JSON", what);
        return NULL;
    }
    return text;
}

bool json_is_value(const char *text, size_t n, mem *m, weft_error *err)
{
    json_error_t why;
    json_section_begin(m);
    const bool good = load((const uint8_t *)text, n, JSON_DECODE_ANY, &why) != NULL;
    if (refused != WEFT_OK)
        weft_fail(err, refused, "no memory to read a value of %zu bytes", n);
    json_section_end();
    return good;
}

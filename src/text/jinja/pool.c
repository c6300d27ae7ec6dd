/* pool.c - memory of a template or a rendering: chunks, freed together; errors and the budget of
 * steps, which everything that allocates or loops asks. */
#include "text/jinja/value.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_FIRST ((size_t)16 << 10)
#define CHUNK_MOST  ((size_t)256 << 10)

struct jchunk {
    jchunk *older;
    size_t size, at;
    _Alignas(16) char bytes[];
};

void jpool_init(jpool *p, mem *within, size_t cap)
{
    *p = (jpool){ .least = within->hooks.chunk ? within->hooks.chunk : CHUNK_FIRST };
    mem_init(&p->mem, cap, &within->hooks);
    p->mem.within = within;
}

void jpool_free(jpool *p)
{
    while (p->chunk) {
        jchunk *older = p->chunk->older;
        mem_free(&p->mem, p->chunk);
        p->chunk = older;
    }
}

void *jpool_alloc(jpool *p, size_t size, weft_error *err)
{
    size = (size + 7) & ~(size_t)7;
    if (!p->chunk || size > p->chunk->size - p->chunk->at) {
        const size_t whole = size > p->least ? size : p->least;
        jchunk *c = mem_alloc(&p->mem, sizeof *c + whole, "a chat template", err);
        if (!c)
            return NULL;
        *c = (jchunk){ .older = p->chunk, .size = whole };
        p->chunk = c;
        if (p->least >= CHUNK_FIRST && p->least < CHUNK_MOST)
            p->least *= 2;
    }
    void *block = p->chunk->bytes + p->chunk->at;
    p->chunk->at += size;
    return block;
}

bool jpool_grow(jpool *p, const char *end, size_t more)
{
    jchunk *c = p->chunk;
    if (!c || end != c->bytes + c->at || more > c->size - c->at)
        return false;
    c->at += more; /* a multiple of 8 already: builders double */
    return true;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void jinja_place(const char *source, size_t at, int *row, int *column)
{
    *row = 1, *column = 1;
    for (size_t i = 0; i < at; i++) {
        if (source[i] == '\n') {
            ++*row;
            *column = 1;
        } else if ((source[i] & 0xc0) != 0x80)
            ++*column;
    }
}

jval jfail(jrender *r, weft_status code, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int row, column;
    jinja_place(r->source, r->where, &row, &column);
    weft_fail(r->err, code, "%s: row %d, column %d: %s", r->name, row, column, text);
    return (jval){ .kind = V_FAIL };
}

jval jfail_undefined(jrender *r, jval v)
{
    if (!v.why)
        return jfail(r, WEFT_EINVAL, "the value is undefined; expected one");
    return jfail(r, WEFT_EINVAL, "'%.*s' is undefined; expected a value",
                 (int)(v.why->n < 100 ? v.why->n : 100), v.why->at);
}

bool jcost(jrender *r, uint64_t steps)
{
    if (steps < (uint64_t)r->steps) { /* 0 are left only after a failure */
        r->steps -= (int64_t)steps;
        return true;
    }
    r->steps = 0;
    jfail(r, WEFT_ELIMIT, "the template runs for more than %d steps; use a template that ends",
          JINJA_STEPS);
    return false;
}

bool jcost_bytes(jrender *r, uint64_t n)
{
    return jcost(r, n / 32);
}

void *jalloc(jrender *r, uint64_t n, size_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n, (uint64_t)size, &bytes) || bytes > JINJA_VALUES) {
        jfail(r, WEFT_ELIMIT,
              "a value of the template needs more than %zu bytes of memory; use a smaller one",
              JINJA_VALUES);
        return NULL;
    }
    weft_error why = { 0 };
    void *block = jpool_alloc(r->pool, bytes, &why);
    if (!block && why.code == WEFT_ELIMIT)
        jfail(r, why.code, "values need more than %zu bytes of memory (%s); use less input",
              JINJA_VALUES, why.message);
    else if (!block)
        weft_fail(r->err, why.code, "%s: %s", r->name, why.message);
    return block;
}

const char *jkind_name(jval v)
{
    static const char *const name[] = { "an error", "nothing",     "undefined",  "None",
                                        "bool",     "int",         "float",      "str",
                                        "list",     "tuple",       "dict",       "a view of a dict",
                                        "range",    "a generator", "Namespace",  "the loop",
                                        "a macro",  "a method",    "a function", "slice" };
    return name[v.kind];
}

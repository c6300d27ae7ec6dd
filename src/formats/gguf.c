/* gguf.c - the model file of ggml, versions 2 and 3, little-endian.
 *
 *     "GGUF"  u32 version  u64 n_tensor  u64 n_entry
 *     n_entry  x { text key, u32 type, value }                     text = u64 length, bytes
 *     n_tensor x { text name, u32 n_dim, u64 dim[], u32 type, u64 offset }    innermost dim first
 *     zeros up to a multiple of general.alignment (32 if absent)
 *     data: each tensor at its offset, a multiple of the alignment
 *
 * Strict: every count is limited, every length is checked against the remaining bytes, every tensor
 * lies inside the file and overlaps no other, and no name occurs twice. */
#include "base/checked.h"
#include "base/sort.h"
#include "formats/container.h"

#include <stdio.h>
#include <string.h>

#define MAX_ENTRY     65536u
#define MAX_KEY       65535u
#define MAX_ALIGNMENT 65536u
#define MAX_NAME      64u
#define MIN_ENTRY     14u /* bytes of the shortest entry: u64, one letter, u32, one byte */
#define MIN_TENSOR    33u /* bytes of the shortest tensor: u64, one letter, u32, u64, u32, u64 */

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_KIND };

static const uint8_t width_of[N_KIND] = {
    [U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
    [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8
};

/* Names of types that users ask about, for errors. */
static const char *type_name(uint32_t number)
{
    static const char *const names[] = {
        "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
        "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
        "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
        "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
        "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
        "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
        "Q2_0",
    };
    return number < sizeof names / sizeof *names ? names[number] : "an unknown type";
}

typedef struct cursor {
    container *c;
    const uint8_t *data;
    uint64_t size, at;
    uint64_t alignment;
    weft_error *err;
} cursor;

static weft_status cut_short(const cursor *p, const char *what)
{
    return weft_fail(
        p->err, WEFT_EFORMAT,
        "%s: the file ends inside %s (byte %llu of %llu); is it cut off? Download it again",
        p->c->path, what, (unsigned long long)p->at, (unsigned long long)p->size);
}

/* The next n bytes, or NULL if the file does not have them. */
static const uint8_t *gguf_take(cursor *p, uint64_t n)
{
    if (!checked_range(p->at, n, p->size))
        return NULL;
    const uint8_t *bytes = &p->data[p->at];
    p->at += n; /* bounded: by size */
    return bytes;
}

static bool take_u32(cursor *p, uint32_t *x)
{
    const uint8_t *b = gguf_take(p, sizeof *x);
    return b && memcpy(x, b, sizeof *x);
}

static bool take_u64(cursor *p, uint64_t *x)
{
    const uint8_t *b = gguf_take(p, sizeof *x);
    return b && memcpy(x, b, sizeof *x);
}

static weft_status take_text(cursor *p, const char *what, uint64_t limit, const uint8_t **text,
                             uint64_t *length)
{
    if (!take_u64(p, length))
        return cut_short(p, what);
    if (*length > limit)
        return weft_fail(p->err, WEFT_EFORMAT, "%s: %s of %llu bytes; expected at most %llu",
                         p->c->path, what, (unsigned long long)*length, (unsigned long long)limit);
    *text = gguf_take(p, *length);
    return *text ? WEFT_OK : cut_short(p, what);
}

/* A key or a tensor's name: not empty, no NUL inside, copied with a terminator. */
static weft_status take_name(cursor *p, const char *what, uint64_t limit, const char **name)
{
    const uint8_t *text = NULL;
    uint64_t length = 0;
    const weft_status status = take_text(p, what, limit, &text, &length);
    if (status != WEFT_OK)
        return status;
    if (length == 0 || memchr(text, 0, length))
        return weft_fail(p->err, WEFT_EFORMAT, "%s: %s is empty or contains a NUL", p->c->path,
                         what);
    *name = arena_text(p->c->store, (const char *)text, length, p->err);
    return *name ? WEFT_OK : WEFT_ENOMEM;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void decode_number(meta *m, uint32_t kind, const uint8_t *b)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } x;
    memcpy(&x, b, width_of[kind]);
    m->type = META_INT;
    switch (kind) {
    case U8:
        m->integer = x.u8;
        break;
    case I8:
        m->integer = x.i8;
        break;
    case U16:
        m->integer = x.u16;
        break;
    case I16:
        m->integer = x.i16;
        break;
    case U32:
        m->integer = x.u32;
        break;
    case I32:
        m->integer = x.i32;
        break;
    case U64: /* a value that a signed integer cannot hold is stored as a real */
        m->type = x.u64 <= INT64_MAX ? META_INT : META_REAL;
        m->integer = x.u64 <= INT64_MAX ? (int64_t)x.u64 : 0;
        m->number = (double)x.u64;
        return;
    case I64:
        m->integer = x.i64;
        break;
    case BOOL:
        m->type = META_BOOL;
        m->flag = x.u8 != 0;
        return;
    case F32:
        m->type = META_REAL;
        m->number = (double)x.f32;
        return;
    default:
        m->type = META_REAL;
        m->number = x.f64;
        return;
    }
    m->number = (double)m->integer;
}

double gguf_number(const meta *array, uint64_t i)
{
    meta m = { 0 };
    const uint64_t at = i * width_of[array->element]; /* bounded: i < length, checked when read */
    decode_number(&m, array->element, &array->at[at]);
    return m.type == META_BOOL ? m.flag : m.number;
}

const char *gguf_string(const uint8_t **at, uint64_t *length)
{
    memcpy(length, *at, sizeof *length);
    const char *text = (const char *)&(*at)[sizeof *length];
    *at = (const uint8_t *)&text[*length];
    return text;
}

static weft_status take_array(cursor *p, meta *m)
{
    if (!take_u32(p, &m->element) || !take_u64(p, &m->length))
        return cut_short(p, m->key);
    if (m->element >= N_KIND || m->element == ARRAY)
        return weft_fail(
            p->err, WEFT_EFORMAT,
            "%s: %.64s is an array of type %u, expected numbers or text (0 to 12 without 9)",
            p->c->path, m->key, m->element);
    m->type = META_ARRAY;
    m->at = &p->data[p->at];
    if (m->element != STRING) {
        uint64_t bytes;
        if (!checked_mul(m->length, width_of[m->element], &bytes) || !gguf_take(p, bytes))
            return cut_short(p, m->key);
        return WEFT_OK;
    }
    for (uint64_t i = 0; i < m->length; i++) {
        const uint8_t *text;
        uint64_t length;
        const weft_status status = take_text(p, "a string of an array", GGUF_MAX_TEXT, &text,
                                             &length);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status take_value(cursor *p, meta *m)
{
    uint32_t kind;
    if (!take_u32(p, &kind))
        return cut_short(p, m->key);
    if (kind >= N_KIND)
        return weft_fail(p->err, WEFT_EFORMAT, "%s: %.64s has type %u, expected 0 to %d",
                         p->c->path, m->key, kind, N_KIND - 1);
    if (kind == ARRAY)
        return take_array(p, m);
    if (kind == STRING) {
        const uint8_t *text;
        m->type = META_TEXT;
        const weft_status status = take_text(p, m->key, GGUF_MAX_TEXT, &text, &m->length);
        if (status == WEFT_OK)
            m->text = arena_text(p->c->store, (const char *)text, m->length, p->err);
        return status != WEFT_OK ? status : m->text ? WEFT_OK : WEFT_ENOMEM;
    }
    const uint8_t *b = gguf_take(p, width_of[kind]);
    if (!b)
        return cut_short(p, m->key);
    decode_number(m, kind, b);
    return WEFT_OK;
}

static weft_status take_entry(cursor *p, meta *m)
{
    weft_status status = take_name(p, "a key", MAX_KEY, &m->key);
    const uint64_t begin = p->at;
    if (status == WEFT_OK)
        status = take_value(p, m);
    m->raw = &p->data[begin];
    m->raw_bytes = p->at - begin;
    return status;
}

static weft_status take_entries(cursor *p, uint64_t n)
{
    container *c = p->c;
    for (uint64_t i = 0; i < n; i++) {
        meta *m = &c->entry[c->n_entry];
        const weft_status status = take_entry(p, m);
        if (status != WEFT_OK)
            return status;
        c->n_entry++;
        if (strcmp(m->key, "general.alignment") != 0)
            continue;
        const uint64_t a = (uint64_t)m->integer;
        if (m->type != META_INT || a < 8 || a > MAX_ALIGNMENT || (a & (a - 1)) != 0)
            return weft_fail(p->err, WEFT_EFORMAT,
                             "%s: general.alignment is %lld, expected a power of two from 8 to %u",
                             c->path, (long long)m->integer, MAX_ALIGNMENT);
        p->alignment = a;
    }
    return WEFT_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Returns the offset separately: the start of the data is known only after the last tensor. */
static weft_status read_tensor(cursor *p, stored *t, uint64_t *offset)
{
    uint32_t n_dim, number;
    t->path = p->c->path;
    weft_status status = take_name(p, "a tensor's name", MAX_NAME, &t->name);
    if (status != WEFT_OK)
        return status;
    if (!take_u32(p, &n_dim))
        return cut_short(p, t->name);
    if (n_dim < 1 || n_dim > MAX_DIM)
        return weft_fail(p->err, WEFT_EFORMAT, "%s: tensor %s has %u dimensions, expected 1 to %d",
                         p->c->path, t->name, n_dim, MAX_DIM);
    t->n_dim = (int)n_dim;
    for (int d = t->n_dim - 1; d >= 0; d--) {
        uint64_t size;
        if (!take_u64(p, &size))
            return cut_short(p, t->name);
        if (size < 1 || size > INT64_MAX)
            return weft_fail(p->err, WEFT_EFORMAT,
                             "%s: tensor %s has a dimension of %llu, expected 1 to %lld",
                             p->c->path, t->name, (unsigned long long)size, (long long)INT64_MAX);
        t->shape[d] = (int64_t)size;
    }
    if (!take_u32(p, &number) || !take_u64(p, offset))
        return cut_short(p, t->name);
    t->type = dtype_by_gguf(number);
    if (!t->type)
        return weft_fail(p->err, WEFT_EUNSUPPORTED,
                         "%s: tensor %s is %s (type %u), which weft does not support; expected a "
                         "type from F32 to IQ2_XXS; use the model's file in another type, such as "
                         "Q4_K_M",
                         p->c->path, t->name, type_name(number), number);
    if (!stored_bytes(t->type, t->n_dim, t->shape, &t->bytes))
        return weft_fail(p->err, WEFT_EFORMAT,
                         "%s: tensor %s: rows of %lld values are not a multiple of the %s block, "
                         "or the shape overflows 64 bits",
                         p->c->path, t->name, (long long)t->shape[n_dim - 1], t->type->name);
    return WEFT_OK;
}

static weft_status place_tensor(cursor *p, stored *t, uint64_t offset, const uint8_t *data,
                                uint64_t size)
{
    if ((offset & (p->alignment - 1)) != 0)
        return weft_fail(p->err, WEFT_EFORMAT,
                         "%s: tensor %s at offset %llu, not a multiple of %llu", p->c->path,
                         t->name, (unsigned long long)offset, (unsigned long long)p->alignment);
    if (!checked_range(offset, t->bytes, size))
        return weft_fail(p->err, WEFT_EFORMAT,
                         "%s: tensor %s takes %llu bytes at offset %llu of the %llu bytes of data; "
                         "is the file cut off? Download it again",
                         p->c->path, t->name, (unsigned long long)t->bytes,
                         (unsigned long long)offset, (unsigned long long)size);
    t->data = &data[offset];
    return WEFT_OK;
}

static int order_place(const void *a, const void *b)
{
    const stored *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

static weft_status check_overlap(cursor *p, stored *t, int64_t n, stored **order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = &t[i];
    sort_pointers((void **)order, n, order_place);
    for (int64_t i = 1; i < n; i++)
        if ((uint64_t)(order[i]->data - order[i - 1]->data) < order[i - 1]->bytes)
            return weft_fail(p->err, WEFT_EFORMAT, "%s: tensors %s and %s overlap", p->c->path,
                             order[i - 1]->name, order[i]->name);
    return WEFT_OK;
}

/* An array of n zeroed objects. */
static void *objects(cursor *p, uint64_t n, uint64_t size)
{
    const uint64_t bytes = n * size; /* bounded: n <= MAX_ENTRY, MAX_TENSOR */
    void *a = arena_alloc(p->c->store, bytes, p->err);
    return a ? memset(a, 0, bytes) : NULL;
}

static weft_status read_tensors(cursor *p, uint64_t n)
{
    container *c = p->c;
    weft_status status = container_room(c, n, p->err);
    if (status != WEFT_OK)
        return status;
    stored *t = c->tensor;
    uint64_t *offset = objects(p, n, sizeof *offset);
    stored **order = objects(p, n, sizeof *order);
    if (!offset || !order)
        return WEFT_ENOMEM;
    for (uint64_t i = 0; i < n && status == WEFT_OK; i++)
        status = read_tensor(p, &t[i], &offset[i]);
    if (status != WEFT_OK)
        return status;

    uint64_t start;
    if (!checked_align(p->at, p->alignment, &start) || start > p->size)
        start = p->size; /* no data section: only a file without tensors passes the checks below */
    for (uint64_t i = 0; i < n && status == WEFT_OK; i++)
        status = place_tensor(p, &t[i], offset[i], &p->data[start], p->size - start);
    c->n_tensor += (int64_t)n; /* bounded: there was room */
    return status == WEFT_OK ? check_overlap(p, t, (int64_t)n, order) : status;
}

weft_status gguf_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err)
{
    cursor p = { .c = c, .data = data, .size = size, .alignment = 32, .err = err };
    const uint8_t *magic = gguf_take(&p, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return weft_fail(err, WEFT_EFORMAT, "%s: does not begin with \"GGUF\"", c->path);
    uint32_t version;
    uint64_t n_tensor, n_entry;
    if (!take_u32(&p, &version))
        return cut_short(&p, "its header");
    if (version != 2 && version != 3)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: GGUF version %u; expected little-endian version 2 or 3", c->path,
                         version);
    if (!take_u64(&p, &n_tensor) || !take_u64(&p, &n_entry))
        return cut_short(&p, "its header");
    if (n_tensor > MAX_TENSOR || n_entry > MAX_ENTRY)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %llu tensors and %llu keys; expected at most %d and %u", c->path,
                         (unsigned long long)n_tensor, (unsigned long long)n_entry, MAX_TENSOR,
                         MAX_ENTRY);
    if (n_entry > (size - p.at) / MIN_ENTRY || n_tensor > (size - p.at) / MIN_TENSOR)
        return cut_short(&p, "the keys and tensors its header announces");
    c->entry = objects(&p, n_entry, sizeof(meta));
    if (!c->entry)
        return WEFT_ENOMEM;
    const weft_status status = take_entries(&p, n_entry);
    return status == WEFT_OK ? read_tensors(&p, n_tensor) : status;
}

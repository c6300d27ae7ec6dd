/* GGUF: each rule of the reader by name, then extreme values in every number of a file, alone and
 * in pairs. */
#include "gguf_build.h"
#include "hostile.h"
#include "support.h"

enum {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q8_0 = 8,
    Q4_K = 12,
    IQ3_S = 21,
    INT8 = 24,
    INT32 = 26,
    BF16 = 30,
    MXFP4 = 39
};
enum { U8, I8, U16, I16, U32, I32, FLOAT32, BOOL, TEXT, ARRAY, U64, I64, FLOAT64 };

/* ---- files, field by field ------------------------------------------------------------------- */

static void entry(gguf_build *g, const char *key, uint32_t kind, const void *value, size_t size)
{
    put_text(&g->entries, key);
    put_u32(&g->entries, kind);
    put(&g->entries, value, size);
    g->n_entry++;
}

static void tensor_at(gguf_build *g, const char *name, uint32_t n_dim, const uint64_t *dim,
                      uint32_t type, uint64_t offset)
{
    put_text(&g->headers, name);
    put_u32(&g->headers, n_dim);
    for (uint32_t d = 0; d < n_dim; d++)
        put_u64(&g->headers, dim[d]);
    put_u32(&g->headers, type);
    put_u64(&g->headers, offset);
    g->n_tensor++;
}

static void data(gguf_build *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(&g->data, "", 1);
}

/* A file in which every kind of field occurs, whose last tensor ends at its end. */
static bytes seed_file(void)
{
    gguf_build g = { 0 };
    entry(&g, "general.alignment", U64, &(uint64_t){ 32 }, 8);
    gguf_text(&g, "general.architecture", "llama");
    gguf_texts(&g, "names", (const char *const[]){ "one", "two" }, 2);
    gguf_i32s(&g, "numbers", (const int32_t[]){ 1, 2, 3 }, 3);
    tensor_at(&g, "a", 2, (const uint64_t[]){ 32, 2 }, F32, 0);
    tensor_at(&g, "b", 2, (const uint64_t[]){ 64, 1 }, F32, 256);
    data(&g, 512);
    return gguf_finish(&g);
}

/* Shrinks a buffer to its bytes, so that a sanitizer reports an overrun. */
static bytes exact(bytes b)
{
    uint8_t *copy = malloc(b.n ? b.n : 1);
    assert_non_null(copy);
    if (b.n)
        memcpy(copy, b.at, b.n);
    free(b.at);
    return (bytes){ copy, b.n, b.n };
}

static weft_status parse(bytes b, weft_error *err)
{
    weft_status status;
    const char *why = parse_and_check(gguf_parse, b.at, b.n, &status, err);
    assert_that(!why, "%s (status %d: %s)", why, (int)status, err->message);
    return status;
}

static void refused_bytes(bytes b, weft_status code, const char *says)
{
    weft_error err;
    b = exact(b);
    parse(b, &err);
    free(b.at);
    assert_that(err.code == code && strstr(err.message, says), "got %d \"%s\", expected %d \"%s\"",
                (int)err.code, err.message, (int)code, says);
}

static void refused(gguf_build *g, weft_status code, const char *says)
{
    refused_bytes(gguf_finish(g), code, says);
}

static void accepted(gguf_build *g)
{
    weft_error err;
    const bytes b = exact(gguf_finish(g));
    assert_that(parse(b, &err) == WEFT_OK, "refused: %s", err.message);
    free(b.at);
}

/* A container over a built file, for tests that look inside. */
typedef struct opened {
    host host;
    container c;
    bytes b;
} opened;

static void open_built(opened *o, gguf_build *g)
{
    weft_error err;
    o->b = exact(gguf_finish(g));
    host_plain(&o->host);
    assert_int_equal(container_begin(&o->c, "gguf", "input", &o->host, &err), WEFT_OK);
    assert_int_equal(gguf_parse(&o->c, o->b.at, o->b.n, &err), WEFT_OK);
    assert_int_equal(container_index(&o->c, &err), WEFT_OK);
}

static void close_built(opened *o)
{
    container_close(&o->c);
    free(o->b.at);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void reads_numbers(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    entry(&g, "u8", U8, &(uint8_t){ 200 }, 1);
    entry(&g, "i8", I8, &(int8_t){ -7 }, 1);
    entry(&g, "u16", U16, &(uint16_t){ 60000 }, 2);
    entry(&g, "i16", I16, &(int16_t){ -300 }, 2);
    entry(&g, "u32", U32, &(uint32_t){ 4000000000u }, 4);
    entry(&g, "i32", I32, &(int32_t){ -70000 }, 4);
    entry(&g, "i64", I64, &(int64_t){ INT64_MIN }, 8);
    entry(&g, "u64", U64, &(uint64_t){ INT64_MAX }, 8);
    entry(&g, "wide", U64, &(uint64_t){ UINT64_MAX }, 8);
    entry(&g, "f32", FLOAT32, &(float){ 0.5f }, 4);
    entry(&g, "f64", FLOAT64, &(double){ -0.1 }, 8);
    entry(&g, "no", BOOL, &(uint8_t){ 0 }, 1);
    entry(&g, "yes", BOOL, &(uint8_t){ 1 }, 1);
    opened o;
    open_built(&o, &g);
    static const struct {
        const char *key;
        int64_t integer;
    } want[] = {
        { "u8", 200 },         { "i8", -7 },      { "u16", 60000 },     { "i16", -300 },
        { "u32", 4000000000 }, { "i32", -70000 }, { "i64", INT64_MIN }, { "u64", INT64_MAX },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const meta *m = container_meta(&o.c, want[i].key);
        assert_int_equal(m->type, META_INT);
        assert_true(m->integer == want[i].integer && m->number == (double)want[i].integer);
    }
    assert_int_equal(container_meta(&o.c, "wide")->type, META_REAL);
    assert_true(container_meta(&o.c, "wide")->number == 0x1p64);
    assert_true(container_meta(&o.c, "f32")->number == 0.5);
    assert_true(container_meta(&o.c, "f64")->number == -0.1);
    assert_true(container_meta(&o.c, "yes")->flag && !container_meta(&o.c, "no")->flag);
    assert_null(container_meta(&o.c, "absent"));
    close_built(&o);
}

static void reads_arrays(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    const uint8_t flags[] = { 7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
    gguf_i32s(&g, "numbers", (const int32_t[]){ 5, -6 }, 2);
    gguf_texts(&g, "names", (const char *const[]){ "", "two" }, 2);
    entry(&g, "flags", ARRAY, flags, sizeof flags);
    opened o;
    open_built(&o, &g);
    assert_true(gguf_number(container_meta(&o.c, "numbers"), 1) == -6);
    assert_true(gguf_number(container_meta(&o.c, "flags"), 0) == 0);
    assert_true(gguf_number(container_meta(&o.c, "flags"), 1) == 1);
    const uint8_t *at = container_meta(&o.c, "names")->at;
    uint64_t n;
    gguf_string(&at, &n);
    assert_int_equal(n, 0);
    assert_memory_equal(gguf_string(&at, &n), "two", 3);
    assert_int_equal(n, 3);
    close_built(&o);
}

static void reads_tensors(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "q", 2, (const uint64_t[]){ 64, 3 }, Q8_0, 32);
    tensor_at(&g, "h", 1, (const uint64_t[]){ 5 }, F16, 0);
    data(&g, 32 + 3 * 68);
    opened o;
    open_built(&o, &g);
    const stored *q = container_tensor(&o.c, "q");
    assert_int_equal(q->n_dim, 2);
    assert_int_equal(q->shape[0], 3);
    assert_int_equal(q->shape[1], 64);
    assert_int_equal(q->bytes, 3 * 68);
    assert_int_equal(q->data - container_tensor(&o.c, "h")->data, 32);
    assert_ptr_equal(q->data + q->bytes, o.b.at + o.b.n);
    close_built(&o);
}

static void empty_file(void **state)
{
    (void)state;
    accepted(&(gguf_build){ 0 });
}

static void version_2(void **state)
{
    (void)state;
    weft_error err;
    const bytes b = exact(seed_file());
    b.at[4] = 2;
    assert_int_equal(parse(b, &err), WEFT_OK);
    free(b.at);
}

static void largest_alignment(void **state)
{
    (void)state;
    for (uint32_t a = 8; a <= 65536; a *= 2) {
        gguf_build g = { .alignment = a };
        gguf_u32(&g, "general.alignment", a);
        tensor_at(&g, "a", 1, (const uint64_t[]){ 4 }, F32, 0);
        data(&g, 16);
        accepted(&g);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void bad_magic(void **state)
{
    (void)state;
    const char *wrong[] = { "GGUX....", "GGU", "", "ggml....", "GGUF" };
    const char *says[] = { "begin with \"GGUF\"", "begin with \"GGUF\"", "begin with \"GGUF\"",
                           "begin with \"GGUF\"", "ends inside its header" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bytes b = { 0 };
        put(&b, wrong[i], strlen(wrong[i]));
        refused_bytes(b, WEFT_EFORMAT, says[i]);
    }
}

static void bad_version(void **state)
{
    (void)state;
    const uint32_t wrong[] = { 0, 1, 4, 3u << 24, UINT32_MAX };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bytes b = seed_file();
        char says[64];
        memcpy(b.at + 4, &wrong[i], 4);
        snprintf(says, sizeof says, "GGUF version %u; expected little-endian version 2 or 3",
                 wrong[i]);
        refused_bytes(b, WEFT_EUNSUPPORTED, says);
    }
}

static void too_many(void **state)
{
    (void)state;
    gguf_build g = { .n_tensor = 65537 };
    refused(&g, WEFT_EFORMAT, "65537 tensors and 0 keys; expected at most 65536 and 65536");
    g.n_entry = 65537;
    refused(&g, WEFT_EFORMAT, "0 tensors and 65537 keys");
    g.n_entry = 65536;
    refused(&g, WEFT_EFORMAT, "ends inside the keys and tensors its header announces");
    gguf_build t = { .n_tensor = 65536 };
    refused(&t, WEFT_EFORMAT, "ends inside the keys and tensors its header announces");
}

static void duplicate_tensor(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "same", 1, (const uint64_t[]){ 8 }, F32, 0);
    tensor_at(&g, "same", 1, (const uint64_t[]){ 8 }, F32, 32);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "input: tensor same occurs twice");
}

static void duplicate_key(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    gguf_u32(&g, "same", 1);
    gguf_text(&g, "same", "x");
    refused(&g, WEFT_EFORMAT, "input: key same occurs twice");
}

static void overlap(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "a", 1, (const uint64_t[]){ 9 }, F32, 0);
    tensor_at(&g, "b", 1, (const uint64_t[]){ 8 }, F32, 32);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "tensors a and b overlap");
}

static void hole(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "a", 1, (const uint64_t[]){ 1 }, F32, 0);
    tensor_at(&g, "b", 1, (const uint64_t[]){ 1 }, F32, 64);
    data(&g, 128);
    accepted(&g);
}

static void past_the_end(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "a", 1, (const uint64_t[]){ 8 }, F32, 32);
    data(&g, 63);
    refused(&g, WEFT_EFORMAT, "tensor a takes 32 bytes at offset 32 of the 63 bytes of data");
    tensor_at(&g, "a", 1, (const uint64_t[]){ 1 }, F32, 0);
    refused(&g, WEFT_EFORMAT, "of the 0 bytes of data");
}

static void misaligned(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "a", 1, (const uint64_t[]){ 1 }, F32, 16);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "tensor a at offset 16, not a multiple of 32");
}

static void nested_array(void **state)
{
    (void)state;
    for (uint32_t element = 0; element < 16; element++) {
        if (element <= FLOAT64 && element != ARRAY)
            continue;
        gguf_build g = { 0 };
        bytes b = { 0 };
        char says[64];
        put_u32(&b, element);
        put_u64(&b, 0);
        entry(&g, "k", ARRAY, b.at, b.n);
        snprintf(says, sizeof says, "k is an array of type %u, expected numbers or text", element);
        refused(&g, WEFT_EFORMAT, says);
        free(b.at);
    }
}

static void unknown_kind(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    entry(&g, "some.key", 13, "", 1);
    refused(&g, WEFT_EFORMAT, "some.key has type 13, expected 0 to 12");
}

static void unknown_dtype(void **state)
{
    (void)state;
    static const struct {
        uint32_t number;
        const char *says;
    } type[] = {
        { 9, "tensor a is Q8_1 (type 9), which weft does not support" },
        { 19, "tensor a is IQ1_S (type 19), which weft does not support; expected" },
        { 29, "tensor a is IQ1_M (type 29)" },
        { 31, "tensor a is Q4_0_4_4 (type 31)" },
        { 34, "tensor a is TQ1_0 (type 34)" },
        { 35, "tensor a is TQ2_0 (type 35)" },
        { 40, "tensor a is NVFP4 (type 40)" },
        { 41, "tensor a is Q1_0 (type 41)" },
        { 42,
          "tensor a is Q2_0 (type 42), which weft does not support; expected a type from F32 to "
          "IQ2_XXS; use the model's file in another type" },
        { 43, "tensor a is an unknown type (type 43), which weft does not support" },
        { UINT32_MAX, "tensor a is an unknown type (type 4294967295)" },
    };
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        gguf_build g = { 0 };
        tensor_at(&g, "a", 1, (const uint64_t[]){ 256 }, type[i].number, 0);
        data(&g, 1024);
        refused(&g, WEFT_EUNSUPPORTED, type[i].says);
    }
}

static void nul_and_empty(void **state)
{
    (void)state;
    gguf_build g = { .n_entry = 1 };
    put_u64(&g.entries, 3);
    put(&g.entries, "a\0b\7\0\0\0\1", 8);
    refused(&g, WEFT_EFORMAT, "a key is empty or contains a NUL");
    gguf_bool(&g, "", true);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "a key is empty or contains a NUL");
    tensor_at(&g, "", 1, (const uint64_t[]){ 1 }, F32, 0);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "a tensor's name is empty or contains a NUL");
}

static void ranks(void **state)
{
    (void)state;
    const uint64_t dim[] = { 1, 1, 1, 1, 1 };
    for (uint32_t n = 0; n <= 5; n++) {
        gguf_build g = { 0 };
        char says[64];
        tensor_at(&g, "t", n, dim, F32, 0);
        data(&g, 64);
        snprintf(says, sizeof says, "tensor t has %u dimensions, expected 1 to 4", n);
        if (n >= 1 && n <= 4)
            accepted(&g);
        else
            refused(&g, WEFT_EFORMAT, says);
    }
}

static void bad_dimension(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "t", 2, (const uint64_t[]){ 4, 0 }, F32, 0);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "tensor t has a dimension of 0, expected 1 to");
    tensor_at(&g, "t", 2, (const uint64_t[]){ 1ull << 40, 1ull << 40 }, F32, 0);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "the shape overflows 64 bits");
}

static void broken_block(void **state)
{
    (void)state;
    gguf_build g = { 0 };
    tensor_at(&g, "t", 2, (const uint64_t[]){ 48, 2 }, Q8_0, 0);
    data(&g, 256);
    refused(&g, WEFT_EFORMAT,
            "tensor t: rows of 48 values are not a multiple of the q8_0 block, or the shape "
            "overflows 64 bits");
    tensor_at(&g, "t", 2, (const uint64_t[]){ 33, 2 }, MXFP4, 0);
    data(&g, 256);
    refused(&g, WEFT_EFORMAT, "tensor t: rows of 33 values are not a multiple of the mxfp4 block");
    tensor_at(&g, "t", 2, (const uint64_t[]){ 128, 2 }, IQ3_S, 0);
    data(&g, 256);
    refused(&g, WEFT_EFORMAT, "tensor t: rows of 128 values are not a multiple of the iq3_s block");
    tensor_at(&g, "t", 2, (const uint64_t[]){ 288, 2 }, Q4_K, 0);
    data(&g, 512);
    refused(&g, WEFT_EFORMAT,
            "tensor t: rows of 288 values are not a multiple of the q4_k block, or the shape "
            "overflows 64 bits");
}

static void bad_alignment(void **state)
{
    (void)state;
    const uint32_t wrong[] = { 0, 1, 4, 7, 24, 33, 65535, 65537, 131072, UINT32_MAX };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gguf_build g = { 0 };
        char says[96];
        gguf_u32(&g, "general.alignment", wrong[i]);
        snprintf(says, sizeof says,
                 "general.alignment is %u, expected a power of two from 8 to 65536", wrong[i]);
        refused(&g, WEFT_EFORMAT, says);
    }
    gguf_build g = { 0 };
    gguf_text(&g, "general.alignment", "32");
    refused(&g, WEFT_EFORMAT, "general.alignment");
}

static void long_texts(void **state)
{
    (void)state;
    char *text = malloc((16 << 20) + 2);
    assert_non_null(text);
    memset(text, 'x', (16 << 20) + 1);
    text[(16 << 20) + 1] = '\0';
    gguf_build g = { 0 };
    gguf_text(&g, "text", text);
    refused(&g, WEFT_EFORMAT, "text of 16777217 bytes; expected at most 16777216");
    gguf_text(&g, "text", text + 1);
    accepted(&g);
    text[65536] = '\0';
    gguf_u32(&g, text, 1);
    refused(&g, WEFT_EFORMAT, "a key of 65536 bytes; expected at most 65535");
    gguf_u32(&g, text + 1, 1);
    accepted(&g);
    text[65] = '\0';
    tensor_at(&g, text, 1, (const uint64_t[]){ 1 }, F32, 0);
    data(&g, 64);
    refused(&g, WEFT_EFORMAT, "a tensor's name of 65 bytes; expected at most 64");
    tensor_at(&g, text + 1, 1, (const uint64_t[]){ 1 }, F32, 0);
    data(&g, 64);
    accepted(&g);
    free(text);
}

static void retyped(void **state)
{
    (void)state;
    weft_error err;
    const bytes b = exact(seed_file());
    fields f;
    gguf_fields(&f, b.at, b.n);
    for (int i = 0; i < f.n; i++)
        for (uint32_t kind = 0; kind < 16 && f.field[i].width == 4; kind++) {
            uint32_t old;
            memcpy(&old, b.at + f.field[i].at, 4);
            memcpy(b.at + f.field[i].at, &kind, 4);
            parse(b, &err);
            memcpy(b.at + f.field[i].at, &old, 4);
        }
    assert_int_equal(parse(b, &err), WEFT_OK);
    free(b.at);
}

/* ---- every byte, every bit, every number ----------------------------------------------------- */

static void truncated(void **state)
{
    (void)state;
    const bytes b = exact(seed_file());
    for (size_t n = 0; n < b.n; n++) {
        weft_error err;
        bytes cut = { 0 };
        put(&cut, b.at, n);
        cut = exact(cut);
        assert_that(parse(cut, &err) != WEFT_OK, "%zu of %zu bytes were accepted", n, b.n);
        free(cut.at);
    }
    print_message("%zu truncations\n", b.n);
    free(b.at);
}

static void flipped(void **state)
{
    (void)state;
    const bytes b = exact(seed_file());
    const size_t header = b.n - 512;
    int accepted_too = 0;
    for (size_t bit = 0; bit < 8 * header; bit++) {
        weft_error err;
        b.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        accepted_too += parse(b, &err) == WEFT_OK;
        b.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    print_message("%zu flips, %d of them harmless\n", 8 * header, accepted_too);
    free(b.at);
}

typedef struct tally {
    int64_t files, accepted;
} tally;

static void try_file(bytes b, tally *n)
{
    weft_error err;
    n->accepted += parse(b, &err) == WEFT_OK;
    n->files++;
}

static uint64_t value_of(const field *f, int i)
{
    return i < N_HOSTILE ? hostile[i] : f->limit + (uint64_t)(i - N_HOSTILE);
}

#define N_VALUE (N_HOSTILE + 2) /* the limit and one more */

static void write_field(bytes b, const field *f, uint64_t x)
{
    memcpy(b.at + f->at, &x, (size_t)f->width);
}

static uint64_t read_field(bytes b, const field *f)
{
    uint64_t x = 0;
    memcpy(&x, b.at + f->at, (size_t)f->width);
    return x;
}

/* All values of one field, with all values of another unless that is NULL. */
static void vary(bytes b, const field *f, const field *other, tally *n)
{
    const uint64_t old = read_field(b, f);
    for (int i = 0; i < N_VALUE; i++) {
        write_field(b, f, value_of(f, i));
        if (other)
            vary(b, other, NULL, n);
        else
            try_file(b, n);
    }
    write_field(b, f, old);
}

static void matrix(void **state)
{
    (void)state;
    static const uint32_t dtypes[] = { F32,  F16,  BF16,  Q8_0,  INT32, Q4_0,
                                       Q4_K, INT8, IQ3_S, MXFP4, 31,    UINT32_MAX };
    const bytes b = exact(seed_file());
    fields f;
    tally n = { 0 };
    gguf_fields(&f, b.at, b.n);
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t += quick() ? 4 : 1) {
        for (int i = 0; i < f.n; i++)
            if (f.field[i].dtype)
                write_field(b, &f.field[i], dtypes[t]);
        for (int i = 0; i < f.n; i++) {
            vary(b, &f.field[i], NULL, &n);
            for (int k = 0; k < i; k++)
                vary(b, &f.field[i], &f.field[k], &n);
        }
    }
    print_message("%lld files from %d fields, %lld of them consistent\n", (long long)n.files, f.n,
                  (long long)n.accepted);
    assert_true(n.accepted > 0 && n.accepted < n.files);
    free(b.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("gguf: every kind of number is read with its sign and width", reads_numbers),
        TEST("gguf: arrays of numbers, booleans and text are read in place", reads_arrays),
        TEST("gguf: a tensor's shape is outermost first and its data is at its offset",
             reads_tensors),
        TEST("gguf: a file without keys and tensors is legal", empty_file),
        TEST("gguf: version 2 is read like version 3", version_2),
        TEST("gguf: alignments from 8 to 65536 are legal", largest_alignment),
        TEST("gguf: other magic is refused", bad_magic),
        TEST("gguf: versions other than 2 and 3 are refused by number", bad_version),
        TEST("gguf: more than 65536 tensors or keys, or more than the file can hold, are refused",
             too_many),
        TEST("gguf: a duplicate tensor name is refused", duplicate_tensor),
        TEST("gguf: a duplicate key is refused", duplicate_key),
        TEST("gguf: overlapping tensors are refused", overlap),
        TEST("gguf: a hole between tensors is padding and legal", hole),
        TEST("gguf: a tensor past the end is refused", past_the_end),
        TEST("gguf: a misaligned offset is refused", misaligned),
        TEST("gguf: a nested array is refused, and arrays of unknown types", nested_array),
        TEST("gguf: an unknown type of value is refused by number", unknown_kind),
        TEST("gguf: an unreadable type of tensor is refused by name and number", unknown_dtype),
        TEST("gguf: a key with a NUL, an empty key and an empty tensor name are refused",
             nul_and_empty),
        TEST("gguf: 1 to 4 dimensions are legal, 0 and 5 are refused", ranks),
        TEST("gguf: a dimension of 0 and a product past 64 bits are refused", bad_dimension),
        TEST("gguf: a row that is not a multiple of the block is refused", broken_block),
        TEST("gguf: an alignment that is no power of two from 8 to 65536 is refused",
             bad_alignment),
        TEST("gguf: keys, texts and names are read up to their limits and refused one byte beyond",
             long_texts),
        TEST("gguf: any type written over any other gives an error or a consistent file", retyped),
        TEST("gguf: a file cut off at any byte is refused", truncated),
        TEST("gguf: any flipped bit of the header gives an error or a consistent file", flipped),
        TEST("gguf: hostile numbers in any two fields give an error or a consistent file", matrix),
    };
    return RUN(tests);
}

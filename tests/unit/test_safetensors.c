/* safetensors: each rule of the reader by name, then extreme values in every number of a header,
 * alone and in pairs. */
#include "formats/json.h"
#include "gguf_build.h"
#include "hostile.h"
#include "support.h"

/* A file of this header and N bytes of data; `length` is its header length field. */
static bytes build_lying(const char *header, size_t n_data, uint64_t length)
{
    bytes b = { 0 };
    put_u64(&b, length);
    put(&b, header, strlen(header));
    for (size_t i = 0; i < n_data; i++)
        put(&b, "", 1);
    uint8_t *exact = malloc(b.n);
    assert_non_null(exact);
    memcpy(exact, b.at, b.n);
    free(b.at);
    return (bytes){ exact, b.n, b.n };
}

static bytes build(const char *header, size_t n_data)
{
    return build_lying(header, n_data, strlen(header));
}

static weft_status parse(bytes b, weft_error *err)
{
    weft_status status;
    const char *why = parse_and_check(safetensors_parse, b.at, b.n, &status, err);
    assert_that(!why, "%s (status %d: %s)", why, (int)status, err->message);
    return status;
}

static void expect(bytes b, weft_status code, const char *says)
{
    weft_error err;
    parse(b, &err);
    assert_that(err.code == code && strstr(err.message, says),
                "%.60s: got %d \"%s\", expected %d \"%s\"", (char *)b.at + 8, (int)err.code,
                err.message, (int)code, says);
    free(b.at);
}

static void refused(const char *header, size_t n_data, const char *says)
{
    expect(build(header, n_data), WEFT_EFORMAT, says);
}

static void accepted(const char *header, size_t n_data)
{
    expect(build(header, n_data), WEFT_OK, "");
}

#define TENSOR(name, shape, offsets)                                                               \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* ---- what is read ---------------------------------------------------------------------------- */

static void reads_tensors(void **state)
{
    (void)state;
    const bytes b = build("{\"__metadata__\":{\"format\":\"pt\"},"
                          "\"y\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]},"
                          "\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
                          36);
    host h;
    container c;
    weft_error err;
    host_plain(&h);
    assert_int_equal(container_begin(&c, "safetensors", "input", &h, &err), WEFT_OK);
    assert_int_equal(safetensors_parse(&c, b.at, b.n, &err), WEFT_OK);
    assert_int_equal(container_index(&c, &err), WEFT_OK);
    const stored *x = container_tensor(&c, "x"), *y = container_tensor(&c, "y");
    assert_int_equal(c.n_tensor, 2);
    assert_int_equal(x->shape[0], 2);
    assert_int_equal(x->shape[1], 3);
    assert_ptr_equal(x->type, &dtype_f32);
    assert_ptr_equal(y->data, x->data + 24);
    assert_ptr_equal(y->data + y->bytes, b.at + b.n);
    container_close(&c);
    free(b.at);
}

static void empties(void **state)
{
    (void)state;
    accepted("{}", 0);
    accepted("{" TENSOR("none", "[0]", "[0,0]") "}", 0);
    accepted("{" TENSOR("none", "[3,0,9223372036854775807]", "[0,0]") "}", 0);
    accepted("{" TENSOR("end", "[0]", "[4,4]") "," TENSOR("scalar", "[]", "[0,4]") "}", 4);
    accepted("{" TENSOR("none", "[0]", "[0,0]") "," TENSOR("scalar", "[]", "[0,4]") "}", 4);
    accepted("{\"__metadata__\":{}}", 0);
}

static void padded(void **state)
{
    (void)state;
    accepted("{" TENSOR("x", "[1]", "[0,4]") "}       ", 4);
}

static void four_dimensions(void **state)
{
    (void)state;
    accepted("{" TENSOR("x", "[1,1,1,1]", "[0,4]") "}", 4);
    expect(build("{" TENSOR("x", "[1,1,1,1,1]", "[0,4]") "}", 4), WEFT_EUNSUPPORTED,
           "tensor x has 5 dimensions; expected at most 4");
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void bad_length(void **state)
{
    (void)state;
    weft_error err;
    for (size_t n = 0; n < 8; n++) {
        bytes b = { malloc(n ? n : 1), n, n };
        memset(b.at, 0, n);
        assert_int_equal(parse(b, &err), WEFT_EFORMAT);
        free(b.at);
    }
    expect(build_lying("{}", 0, 3), WEFT_EFORMAT, "a header of 3 bytes in a file of 10");
    expect(build_lying("{}", 0, JSON_MAX_BYTES + 1), WEFT_EFORMAT,
           "a header of 100000001 bytes in a file of 10");
    expect(build_lying("{}", 0, UINT64_MAX), WEFT_EFORMAT,
           "a header of 18446744073709551615 bytes in a file of 10");
}

static void bad_begin(void **state)
{
    (void)state;
    refused(" {}", 0, "header does not begin with '{'");
    refused("[]", 0, "header does not begin with '{'");
    refused("", 0, "header does not begin with '{'");
}

static void bad_json(void **state)
{
    (void)state;
    refused("{", 0, "line 1");
    refused("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", 4, "line 1");
    refused("{} x", 0, "line 1");
    refused("{\"\\u0000\":{}}", 0, "NUL");
}

static void duplicate_name(void **state)
{
    (void)state;
    refused("{" TENSOR("x", "[1]", "[0,4]") "," TENSOR("x", "[1]", "[4,8]") "}", 8,
            "duplicate object key");
    refused("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
            "duplicate object key");
}

static void depth_bomb(void **state)
{
    (void)state;
    char header[4096] = "{\"x\":";
    memset(header + 5, '[', sizeof header - 6);
    refused(header, 0, "JSON nested deeper than 64");
}

static void overlap(void **state)
{
    (void)state;
    refused("{" TENSOR("x", "[2]", "[0,8]") "," TENSOR("y", "[1]", "[4,8]") "}", 8,
            "tensor y begins at 4, before where the one before it ends (8)");
    refused("{" TENSOR("x", "[1]", "[0,4]") "," TENSOR("y", "[1]", "[0,4]") "}", 4,
            "begins at 0, before");
    refused("{" TENSOR("none", "[0]", "[2,2]") "," TENSOR("x", "[1]", "[0,4]") "}", 4,
            "tensor none begins at 2");
}

static void hole(void **state)
{
    (void)state;
    refused("{" TENSOR("x", "[1]", "[0,4]") "," TENSOR("y", "[1]", "[8,12]") "}", 12,
            "tensor y begins at 8, beyond where the one before it ends (4)");
    refused("{" TENSOR("x", "[1]", "[4,8]") "}", 8, "tensor x begins at 4, beyond");
}

static void past_the_end(void **state)
{
    (void)state;
    refused("{" TENSOR("x", "[2]", "[0,8]") "}", 7,
            "tensor x: data_offsets [0, 8] are outside the 7 bytes of data");
    refused("{" TENSOR("x", "[2]", "[8,0]") "}", 8, "data_offsets [8, 0] are outside");
    refused("{" TENSOR("x", "[2]", "[-8,0]") "}", 8, "data_offsets [-8, 0] are outside");
}

static void trailing(void **state)
{
    (void)state;
    refused("{" TENSOR("x", "[1]", "[0,4]") "}", 5, "1 bytes after the last tensor");
    refused("{}", 1, "1 bytes after the last tensor");
}

static void wrong_size(void **state)
{
    (void)state;
    refused("{" TENSOR("x", "[3]", "[0,8]") "}", 8,
            "tensor x: 8 bytes of data, its shape takes 12");
    refused("{" TENSOR("x", "[4294967296,4294967296]", "[0,0]") "}", 0,
            "the shape overflows 64 bits");
    refused("{" TENSOR("x", "[4611686018427387904]", "[0,0]") "}", 0,
            "the shape overflows 64 bits");
}

static void bad_spec(void **state)
{
    (void)state;
    refused("{\"x\":1}", 0,
            "tensor x: expected an object of \"dtype\", \"shape\" and \"data_offsets\"");
    refused("{\"x\":{}}", 0, "tensor x: expected an object");
    refused("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
            "expected an object");
    refused("{\"x\":{\"type\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
            "\"dtype\" is missing or not text");
    refused("{\"x\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
            "\"dtype\" is missing or not text");
    refused("{" TENSOR("x", "1", "[0,4]") "}", 4, "\"shape\" is not a list");
    refused("{" TENSOR("x", "[-1]", "[0,4]") "}", 4,
            "\"shape\" holds something that is not a count");
    refused("{" TENSOR("x", "[1.0]", "[0,4]") "}", 4,
            "\"shape\" holds something that is not a count");
    refused("{" TENSOR("x", "[1]", "[0]") "}", 4, "\"data_offsets\" is not a pair of integers");
    refused("{" TENSOR("x", "[1]", "[0,4,4]") "}", 4, "\"data_offsets\" is not a pair");
    refused("{" TENSOR("x", "[1]", "{}") "}", 4, "\"data_offsets\" is not a pair");
    refused("{" TENSOR("x", "[1]", "[\"0\",4]") "}", 4, "\"data_offsets\" is not a pair");
    refused("{" TENSOR("x", "[1]", "[0,4.0]") "}", 4, "\"data_offsets\" is not a pair");
    refused("{" TENSOR("x", "[99999999999999999999]", "[0,4]") "}", 4, "too big integer");
}

static void bad_dtype(void **state)
{
    (void)state;
    static const char *const types[] = { "F8_E5M2", "F4", "C64", "Q8_0", "f32", "" };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[128], says[96];
        snprintf(header, sizeof header,
                 "{\"x\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,8]}}", types[i]);
        snprintf(says, sizeof says, "input: tensor x has dtype %s, which weft does not support",
                 types[i]);
        expect(build(header, 8), WEFT_EUNSUPPORTED, says);
    }
}

static void bad_metadata(void **state)
{
    (void)state;
    refused("{\"__metadata__\":{\"n\":1}}", 0, "__metadata__ n is not text");
    refused("{\"__metadata__\":{\"n\":{\"m\":\"text\"}}}", 0, "__metadata__ n is not text");
    refused("{\"__metadata__\":[]}", 0, "__metadata__ is not an object");
}

static void bad_names(void **state)
{
    (void)state;
    char header[512];
    refused("{" TENSOR("", "[1]", "[0,4]") "}", 4, "a tensor name of 0 bytes; expected 1 to 255");
    snprintf(header, sizeof header,
             "{\"%0256d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 0);
    refused(header, 4, "a tensor name of 256 bytes; expected 1 to 255");
    snprintf(header, sizeof header,
             "{\"%0255d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 0);
    accepted(header, 4);
}

static void too_many(void **state)
{
    (void)state;
    const int n = 65537;
    char *header = malloc((size_t)n * 64), *at = header;
    assert_non_null(header);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%c\"%d\":0", i ? ',' : '{', i);
    sprintf(at, "}");
    refused(header, 0, "65537 tensors; expected at most 65536");
    free(header);
}

/* ---- every byte, every bit, every number ----------------------------------------------------- */

static const char seed[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                           "\"y\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[24,40]}}   ";

static void truncated(void **state)
{
    (void)state;
    const bytes b = build(seed, 40);
    for (size_t n = 0; n < b.n; n++) {
        weft_error err;
        bytes cut = { malloc(n ? n : 1), n, n };
        memcpy(cut.at, b.at, n);
        assert_that(parse(cut, &err) != WEFT_OK, "%zu of %zu bytes were accepted", n, b.n);
        free(cut.at);
    }
    print_message("%zu truncations\n", b.n);
    free(b.at);
}

static void flipped(void **state)
{
    (void)state;
    const bytes b = build(seed, 40);
    int harmless = 0;
    for (size_t bit = 0; bit < 8 * (b.n - 40); bit++) {
        weft_error err;
        b.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        harmless += parse(b, &err) == WEFT_OK;
        b.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    print_message("%zu flips, %d of them harmless\n", 8 * (b.n - 40), harmless);
    free(b.at);
}

/* The numbers of a file: two shapes of two, two pairs of offsets, the length of the header. */
enum { X_ROWS, X_COLS, X_BEGIN, X_END, Y_ROWS, Y_COLS, Y_BEGIN, Y_END, LENGTH, N_FIELD };

typedef struct numbers {
    const char *dtype;
    uint64_t field[N_FIELD];
} numbers;

typedef struct tally {
    int64_t files, accepted;
} tally;

static void try_file(const numbers *f, tally *n)
{
    char header[512];
    unsigned long long x[N_FIELD];
    for (int i = 0; i < N_FIELD; i++)
        x[i] = f->field[i];
    snprintf(header, sizeof header,
             "{\"x\":{\"dtype\":\"%s\",\"shape\":[%llu,%llu],\"data_offsets\":[%llu,%llu]},"
             "\"y\":{\"dtype\":\"%s\",\"shape\":[%llu,%llu],\"data_offsets\":[%llu,%llu]}}",
             f->dtype, x[X_ROWS], x[X_COLS], x[X_BEGIN], x[X_END], f->dtype, x[Y_ROWS], x[Y_COLS],
             x[Y_BEGIN], x[Y_END]);
    weft_error err;
    const bytes b = build_lying(header, 40, x[LENGTH] ? x[LENGTH] : strlen(header));
    n->accepted += parse(b, &err) == WEFT_OK;
    n->files++;
    free(b.at);
}

#define N_VALUE (N_HOSTILE + 2) /* the limit and one more */

/* All values of one field, with all values of another unless that is -1. */
static void vary(numbers *f, int which, int other, tally *n)
{
    const uint64_t old = f->field[which], limit = which == LENGTH ? JSON_MAX_BYTES : old;
    for (int i = 0; i < N_VALUE; i++) {
        f->field[which] = i < N_HOSTILE ? hostile[i] : limit + (uint64_t)(i - N_HOSTILE);
        if (other >= 0)
            vary(f, other, -1, n);
        else
            try_file(f, n);
    }
    f->field[which] = old;
}

static void matrix(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        uint64_t bytes;
    } type[] = { { "F32", 4 }, { "F16", 2 },     { "BF16", 2 },
                 { "I32", 4 }, { "F8_E4M3", 1 }, { "C64", 8 } };
    tally n = { 0 };
    for (size_t t = 0; t < sizeof type / sizeof *type; t++) {
        const uint64_t rows = 20 / type[t].bytes, end = rows * type[t].bytes;
        numbers f = { type[t].dtype,
                      { rows, 1, 0, end, 1, (40 - end) / type[t].bytes, end, 40, 0 } };
        for (int i = 0; i < N_FIELD; i++) {
            vary(&f, i, -1, &n);
            for (int k = 0; k < i; k++)
                vary(&f, i, k, &n);
        }
    }
    print_message("%lld files from %d fields, %lld of them consistent\n", (long long)n.files,
                  N_FIELD, (long long)n.accepted);
    assert_true(n.accepted > 0 && n.accepted < n.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("safetensors: tensors are found by name, whatever their order", reads_tensors),
        TEST("safetensors: zero-size and rank-0 tensors are legal", empties),
        TEST("safetensors: a header padded with spaces is legal", padded),
        TEST("safetensors: 4 dimensions are legal, 5 are refused", four_dimensions),
        TEST("safetensors: a header longer than the file or than 100,000,000 bytes is refused",
             bad_length),
        TEST("safetensors: a header that does not begin with a brace is refused", bad_begin),
        TEST("safetensors: malformed JSON is refused with its line", bad_json),
        TEST("safetensors: a duplicate name is refused", duplicate_name),
        TEST("safetensors: a depth bomb is refused", depth_bomb),
        TEST("safetensors: overlapping tensors are refused", overlap),
        TEST("safetensors: a hole before or between tensors is refused", hole),
        TEST("safetensors: a tensor outside the data is refused", past_the_end),
        TEST("safetensors: trailing bytes are refused", trailing),
        TEST("safetensors: a shape that does not match its bytes is refused", wrong_size),
        TEST(
            "safetensors: a tensor is dtype, shape and data_offsets, each of its type, and no more",
            bad_spec),
        TEST("safetensors: an unreadable dtype is refused by name", bad_dtype),
        TEST("safetensors: __metadata__ that is not text to text is refused", bad_metadata),
        TEST("safetensors: an empty and a long name are refused", bad_names),
        TEST("safetensors: more than 65536 tensors are refused", too_many),
        TEST("safetensors: a file cut off at any byte is refused", truncated),
        TEST("safetensors: any flipped bit of the header gives an error or a consistent file",
             flipped),
        TEST("safetensors: hostile numbers in any two fields give an error or a consistent file",
             matrix),
    };
    return RUN(tests);
}

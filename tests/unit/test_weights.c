/* Rows of weights by name: the file's numbers in f32, and the expansion that ggml's formats define in
 * q8_0 and q4_k, written down here a second time; packing changes nothing. */
#include "kernels/half.h"
#include "small_model.h"

/* ---- the formats, a second time -------------------------------------------------------------- */

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void expand_f32(float *to, const uint8_t *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

/* 32 numbers: d, then 32 signed bytes. x = d q */
static void expand_q8_0(float *to, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *block = from + i / 32 * 34;
        to[i] = f16_decode(u16(block)) * (float)(int8_t)block[2 + i % 32];
    }
}

/* 256 numbers: d, e, twelve bytes of scales and minima of six bits, 128 bytes of two codes each.
 * x = d s q - e m */
static void expand_q4_k(float *to, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *block = from + i / 256 * 144, *six = block + 4;
        const int at = (int)(i % 256), g = at / 32;
        const int s = g < 4 ? six[g] & 63 : (six[g + 4] & 15) | six[g - 4] >> 6 << 4;
        const int m = g < 4 ? six[g + 4] & 63 : six[g + 4] >> 4 | six[g] >> 6 << 4;
        const int byte = block[16 + at / 64 * 32 + at % 32];
        const int q = at / 32 % 2 ? byte >> 4 : byte & 15;
        to[i] = f16_decode(u16(block)) * (float)s * (float)q -
                f16_decode(u16(block + 2)) * (float)m;
    }
}

typedef void expand_fn(float *to, const uint8_t *from, int64_t n);

/* ---- rows ------------------------------------------------------------------------------------ */

/* All rows at once, one by one, and some from the middle. */
static void check_weight(const weft_model *m, const tensor *t, int64_t i, expand_fn *expand)
{
    weft_error err = { 0 };
    weft_tensor_info info = { .struct_size = sizeof info };
    assert_int_equal(weft_model_find_tensor(m, t->name), i);
    assert_int_equal(weft_model_get_tensor(m, i, &info), WEFT_OK);
    const int64_t n = info.n_dim > 1 ? info.shape[0] : 1, width = info.shape[info.n_dim - 1];
    const size_t row_bytes = dtype_row_bytes(t->type, width), size = (size_t)(n * width);
    float *want = calloc(size, sizeof *want), *got = calloc(size + 1, sizeof *got);
    for (int64_t r = 0; r < n; r++)
        (t->type == &dtype_f32 ? expand_f32 : expand)(
            want + r * width, (const uint8_t *)t->data + (size_t)r * row_bytes, width);
    got[size] = 77;
    assert_int_equal(weft_model_get_rows(m, i, 0, n, got, size, &err), WEFT_OK);
    assert_memory_equal(got, want, size * sizeof *got);
    assert_true(got[size] == 77);
    for (int64_t r = 0; r < n; r += 1 + n / 7) {
        const int64_t some = n - r < 3 ? n - r : 3, room = some * width;
        assert_int_equal(weft_model_get_rows(m, i, r, some, got, (size_t)room, &err), WEFT_OK);
        assert_memory_equal(got, want + r * width, (size_t)room * sizeof *got);
    }
    assert_int_equal(weft_model_get_rows(m, i, n, 0, got, 0, &err), WEFT_OK);
    assert_int_equal(weft_model_get_rows(m, i, 1, n, got, size, &err), WEFT_EINVAL);
    assert_int_equal(weft_model_get_rows(m, i, 0, n + 1, got, 2 * size, &err), WEFT_EINVAL);
    assert_int_equal(weft_model_get_rows(m, i, -1, 1, got, size, &err), WEFT_EINVAL);
    assert_int_equal(weft_model_get_rows(m, i, 0, n, got, size - 1, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, t->name));
    free(want);
    free(got);
}

static void check_type(const dtype *type, expand_fn *expand)
{
    llama_shape shape = small_shape;
    shape.type = type;
    shape.d_model = shape.d_ff = 256;
    bytes image = gguf_llama(&shape);
    const char *path = temp_file("weights.gguf", image.at, image.n);
    free(image.at);
    host h;
    model inside;
    weft_error err = { 0 };
    host_plain(&h);
    weft_model *m = weft_model_open(path, NULL, &err);
    if (!m || model_open(&inside, path, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    int64_t typed = 0;
    for (int packed = 0; packed < 2; packed++) { /* an engine packs them */
        weft_engine *e = packed ? weft_engine_new(m, NULL, &err) : NULL;
        assert_int_equal(!e, !packed);
        for (int64_t i = 0; i < inside.n_param; i++) {
            check_weight(m, inside.param[i], i, expand);
            typed += inside.param[i]->type == type;
        }
        weft_engine_free(e);
    }
    assert_true(typed > 10);
    float x;
    assert_int_equal(weft_model_get_rows(m, inside.n_param, 0, 1, &x, 1, &err), WEFT_EINVAL);
    assert_int_equal(weft_model_find_tensor(m, "blk.99.attn_q.weight"), -1);
    assert_int_equal(weft_model_find_tensor(m, NULL), -1);
    assert_int_equal(weft_model_find_tensor(NULL, "token_embd.weight"), -1);
    model_close(&inside);
    weft_model_close(m);
}

static void f32(void **state)
{
    (void)state;
    check_type(&dtype_f32, expand_f32);
}

static void q8_0(void **state)
{
    (void)state;
    check_type(&dtype_q8_0, expand_q8_0);
}

static void q4_k(void **state)
{
    (void)state;
    check_type(&dtype_q4_k, expand_q4_k);
}

/* ---- in a forward ----------------------------------------------------------------------------- */

static void first_tensor(void *ud, const weft_trace_tensor *t)
{
    float *to = ud;
    if (strcmp(t->name, "token_embd") == 0)
        memcpy(to, t->data, (size_t)t->cols * sizeof *to);
}

/* The row of a token in the embedding is what a forward begins with. */
static void embedding_of_a_token(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    weft_engine *e = weft_engine_new(m, NULL, &err);
    weft_session *s = weft_session_new(e, &err);
    if (!s)
        fail_msg("%s", err.message);
    float traced[1024] = { 0 }, held[1024] = { 1 };
    const int32_t id = 17;
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    weft_engine_trace(e, first_tensor, traced, false, &err);
    assert_int_equal(weft_session_eval(s, &id, 1, &err), WEFT_OK);
    const int64_t at = weft_model_find_tensor(m, "token_embd.weight");
    assert_int_equal(weft_model_get_rows(m, at, id, 1, held, 1024, &err), WEFT_OK);
    assert_memory_equal(traced, held, (size_t)info.d_model * sizeof *held);
    weft_session_free(s);
    weft_engine_free(e);
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("weights: rows of f32 are the file's", f32),
        TEST("weights: rows of q8_0 are its expansion", q8_0),
        TEST("weights: rows of q4_k are its expansion", q4_k),
        TEST("weights: a row of the embedding is what a forward begins with", embedding_of_a_token),
    };
    return RUN(tests);
}

/* Sessions on disk: a loaded session continues with the same bits; a file that does not fit or is
 * incomplete is refused with the reason. */
#include "hostile.h"
#include "small_model.h"

#include "base/checksum.h"

enum { V = 61, HEADER = 80 };

/* Offsets of the numbers of a header. */
enum {
    AT_VERSION = 8,
    AT_HAS_LOGITS = 12,
    AT_MODEL = 16,
    AT_TOKENS = 24,
    AT_VOCAB = 32,
    AT_ROW_BYTES = 40,
    AT_CACHE = 48,
    AT_KERNELS = 64
};

static engine *engine_of(fixture_model *f, const dtype *kv)
{
    return make_engine(f, (engine_options){ .n_thread = 1, .n_ctx = 200, .kv = kv });
}

static session *must_restore(engine *e, const char *path)
{
    weft_error err = { 0 };
    session *s = session_restore(e, path, (adaption){ 0 }, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

static const char *must_save(const session *s)
{
    weft_error err = { 0 };
    const char *path = temp_path("saved.session");
    if (session_save(s, path, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return path;
}

/* ---- there and back -------------------------------------------------------------------------- */

static void round_trip(fixture_model *f, const dtype *kv, int n)
{
    int32_t ids[200];
    story(ids, 200, 1);
    engine *e = engine_of(f, kv), *later = engine_of(f, kv);
    session *s = make_session(e);
    if (n > 0)
        must_feed(s, ids, n);
    session *t = must_restore(later, must_save(s));
    assert_int_equal(t->cache.length, n);
    assert_int_equal(t->cache.n_page, pages_for(n));
    assert_memory_equal(t->ids, ids, (size_t)n * sizeof *ids);
    assert_int_equal(t->has_logits, n > 0);
    assert_memory_equal(t->logits, s->logits, sizeof(float[V]));
    must_feed(s, ids + n, 200 - n);
    must_feed(t, ids + n, 200 - n);
    assert_memory_equal(t->logits, s->logits, sizeof(float[V]));
    session_free(s);
    session_free(t);
    engine_free(e);
    engine_free(later);
}

static void there_and_back(void **state)
{
    (void)state;
    const dtype *const caches[] = { &dtype_f32, &dtype_f16, &dtype_bf16, &dtype_q8_0 };
    fixture_model f;
    open_typed(&f, &dtype_q8_0);
    for (int i = 0; i < 4; i++) {
        round_trip(&f, caches[i], 0);
        round_trip(&f, caches[i], 1);
        round_trip(&f, caches[i], 64);
        round_trip(&f, caches[i], 130);
    }
    close_llama(&f);
}

/* A session without logits is restored without them, and its file has none. */
static void without_logits(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[10];
    size_t with, without;
    story(ids, 10, 2);
    open_typed(&f, &dtype_f32);
    engine *e = engine_of(&f, NULL);
    session *s = make_session(e);
    must_feed(s, ids, 10);
    must_feed(s, ids, 1);
    free(read_whole(must_save(s), &with));
    assert_int_equal(session_rewind(s, 10, &err), WEFT_OK);
    free(read_whole(must_save(s), &without));
    assert_int_equal(with - without, sizeof(float[V]) + 4 + 512); /* and a token's rows */
    session *t = must_restore(e, must_save(s));
    assert_false(t->has_logits);
    session_free(s);
    session_free(t);
    engine_free(e);
    close_llama(&f);
}

/* ---- what does not belong -------------------------------------------------------------------- */

static void refused(engine *e, const char *path, weft_status code, const char *says)
{
    weft_error err = { 0 };
    const size_t used = e->model->host->mem.used;
    const int64_t n_free = e->pages.n_free;
    if (session_restore(e, path, (adaption){ 0 }, &err))
        fail_msg("restored, expected \"%s\"", says);
    if (err.code != code || !strstr(err.message, says) || !strstr(err.message, path))
        fail_msg("got %d \"%s\", expected %d \"%s\"", (int)err.code, err.message, (int)code, says);
    assert_int_equal(e->model->host->mem.used, used);
    assert_int_equal(e->pages.n_free, n_free);
}

static const char *save_one(fixture_model *f, const dtype *kv, int n)
{
    int32_t ids[200];
    story(ids, 200, 3);
    engine *e = engine_of(f, kv);
    session *s = make_session(e);
    must_feed(s, ids, n);
    const char *path = must_save(s);
    session_free(s);
    engine_free(e);
    return path;
}

static void strangers_are_refused(void **state)
{
    (void)state;
    fixture_model f, other;
    open_typed(&f, &dtype_f32);
    const char *path = save_one(&f, &dtype_f16, 150);
    engine *e = engine_of(&f, &dtype_f32);
    refused(e, path, WEFT_EINVAL, "its KV cache is f16, that of this engine f32");
    refused(e, "/nonexistent/saved", WEFT_EIO, "cannot open");
    refused(e, "/", WEFT_EIO, "cannot read");
    engine_free(e);
    e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = 149, .kv = &dtype_f16 });
    refused(e, path, WEFT_ECONTEXT, "has 150 tokens; the context of this engine is 149");
    engine_free(e);
    e = make_engine(&f, (engine_options){ .n_thread = 1, .n_cache = 128, .kv = &dtype_f16 });
    refused(e, path, WEFT_ECONTEXT, "3 cache pages are needed, but 2 of 2 are free");
    engine_free(e);

    real *gain = f.model.param[1]->data; /* one bit of one weight */
    const real kept = gain[5];
    gain[5] = nextafterf(kept, 2);
    e = engine_of(&f, &dtype_f16);
    refused(e, path, WEFT_EINVAL, "saved from another model");
    engine_free(e);
    gain[5] = kept;

    model_compute_bf16(&f.model);
    e = engine_of(&f, &dtype_f16);
    refused(e, path, WEFT_EINVAL, "saved from another model");
    engine_free(e);

    llama_shape s = small_shape; /* the same weights, another window */
    s.type = &dtype_f32;
    s.window = 70;
    open_llama(&other, s);
    e = engine_of(&other, &dtype_f16);
    refused(e, path, WEFT_EINVAL, "saved from another model");
    engine_free(e);
    close_llama(&other);
    close_llama(&f);
}

/* ---- what is not whole ----------------------------------------------------------------------- */

typedef struct image {
    uint8_t *at;
    size_t n;
} image;

static image image_of(fixture_model *f)
{
    image i;
    i.at = (uint8_t *)read_whole(save_one(f, &dtype_q8_0, 3), &i.n);
    return i;
}

static void resum(image *i)
{
    const uint64_t end = xxh64_of(i->at, i->n - sizeof end);
    memcpy(i->at + i->n - sizeof end, &end, sizeof end);
}

static void truncated(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_f32);
    image i = image_of(&f);
    engine *e = engine_of(&f, &dtype_q8_0);
    for (size_t n = 0; n < i.n; n++)
        refused(e, temp_file("cut", i.at, n), WEFT_EFORMAT,
                n < HEADER ? "too short for a saved session"
                           : "bytes after the header do not match");
    uint8_t *longer = malloc(i.n + 1);
    memcpy(longer, i.at, i.n);
    longer[i.n] = 0;
    refused(e, temp_file("cut", longer, i.n + 1), WEFT_EFORMAT,
            "bytes after the header do not match");
    print_message("%zu lengths of a file of %zu bytes are refused\n", i.n + 1, i.n);
    free(longer);
    free(i.at);
    engine_free(e);
    close_llama(&f);
}

/* Every byte with one bit flipped. */
static void flipped(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_f32);
    image i = image_of(&f);
    engine *e = engine_of(&f, &dtype_q8_0);
    for (size_t at = 0; at < i.n; at++) {
        weft_error err = { 0 };
        const uint8_t kept = i.at[at];
        i.at[at] ^= (uint8_t)(1 << draw(5, at) % 8);
        assert_null(session_restore(e, temp_file("flipped", i.at, i.n), (adaption){ 0 }, &err));
        if (!err.message[0] || (at >= HEADER && err.code != WEFT_EFORMAT))
            fail_msg("byte %zu: %d \"%s\"", at, (int)err.code, err.message);
        i.at[at] = kept;
    }
    session_free(must_restore(e, temp_file("whole", i.at, i.n)));
    print_message("a bit of each of %zu bytes: all seen\n", i.n);
    free(i.at);
    engine_free(e);
    close_llama(&f);
}

/* One number changed in an otherwise valid file, with a correct checksum. */
static void altered(engine *e, image *i, size_t at, const void *x, size_t n, weft_status code,
                    const char *says)
{
    uint8_t kept[16];
    memcpy(kept, i->at + at, n);
    memcpy(i->at + at, x, n);
    resum(i);
    refused(e, temp_file("altered", i->at, i->n), code, says);
    memcpy(i->at + at, kept, n);
    resum(i);
}

static void hostile_numbers(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_f32);
    image i = image_of(&f);
    engine *e = engine_of(&f, &dtype_q8_0);
    for (int k = 0; k < N_HOSTILE; k++) {
        const uint64_t x = hostile[k];
        const uint32_t low = (uint32_t)x;
        if (low != 1) {
            altered(e, &i, AT_VERSION, &low, 4, WEFT_EUNSUPPORTED, "expected version 1");
            altered(e, &i, AT_HAS_LOGITS, &low, 4, WEFT_EFORMAT,
                    low ? "contradicts" : "after the header");
        }
        altered(e, &i, AT_MODEL, &x, 8, WEFT_EINVAL, "another model");
        altered(e, &i, AT_TOKENS, &x, 8, x > 200 ? WEFT_ECONTEXT : WEFT_EFORMAT,
                x > 200 ? "the context of this engine"
                : x     ? "after the header"
                        : "contradicts");
        altered(e, &i, AT_VOCAB, &x, 8, WEFT_EFORMAT, "contradicts itself");
        altered(e, &i, AT_ROW_BYTES, &x, 8, WEFT_EFORMAT, "contradicts itself");
    }
    altered(e, &i, 0, "WEFTSESt", 8, WEFT_EFORMAT, "not a saved session");
    altered(e, &i, AT_CACHE, "q8_0.............", 16, WEFT_EINVAL, "its KV cache is q8_0...");
    altered(e, &i, HEADER + 4, &(int32_t){ V }, 4, WEFT_EFORMAT, "token 1 is 61");
    altered(e, &i, HEADER + 8, &(int32_t){ -1 }, 4, WEFT_EFORMAT, "token 2 is -1");
    altered(e, &i, HEADER + 12, &(float){ NAN }, 4, WEFT_EFORMAT, "non-finite logits");
    free(i.at);
    engine_free(e);
    close_llama(&f);
}

static void hear(void *ud, weft_log_level level, const char *line)
{
    (void)level;
    snprintf(ud, 200, "%s", line);
}

/* Rows of other kernels are accepted; those that add in another order, with a log line. */
static void other_kernels_are_said(void **state)
{
    (void)state;
    fixture_model f;
    char heard[200] = "";
    open_typed(&f, &dtype_f32);
    image i = image_of(&f);
    f.host.log = (log_sink){ hear, heard };
    engine *e = engine_of(&f, &dtype_q8_0);
    const bool scalar = memcmp(i.at + AT_KERNELS, "scalar", 7) == 0;
    const char vector[16] = "vector", portable[16] = "scalar";
    memcpy(i.at + AT_KERNELS, scalar ? portable : vector, 16);
    resum(&i);
    session_free(must_restore(e, temp_file("same", i.at, i.n)));
    assert_string_equal(heard, "");
    memcpy(i.at + AT_KERNELS, scalar ? vector : portable, 16);
    resum(&i);
    session_free(must_restore(e, temp_file("other", i.at, i.n)));
    assert_non_null(strstr(heard, scalar ? "computed by vector kernels; continuing with"
                                         : "computed by scalar kernels; continuing with"));
    free(i.at);
    engine_free(e);
    close_llama(&f);
}

/* Longrope: an engine rotates keys by one of two lists, as its context says. */
static void contexts_of_longrope(void **state)
{
    (void)state;
    static const int32_t ids[] = { 3, 1, 4, 1, 5 };
    fixture_model f;
    weft_error err = { 0 };
    open_golden(&f, "phi3-long"); /* 64 positions, 20 before scaling */
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = 16 });
    session *s = make_session(e);
    must_feed(s, ids, 5);
    const char *path = must_save(s);
    session_free(s);
    engine_free(e);
    e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = 20 });
    s = must_restore(e, path);
    session_free(s);
    engine_free(e);
    e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = 21 });
    assert_null(session_restore(e, path, (adaption){ 0 }, &err));
    assert_int_equal(err.code, WEFT_EINVAL);
    engine_free(e);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("file: a restored session continues with the same bits, in every format of the cache",
             there_and_back),
        TEST("file: without logits", without_logits),
        TEST("file: other models, caches and contexts are refused with the reason",
             strangers_are_refused),
        TEST("file: a longrope model of the other range of contexts is refused",
             contexts_of_longrope),
        TEST("file: truncated anywhere", truncated),
        TEST("file: any byte flipped", flipped),
        TEST("file: hostile numbers under a correct checksum", hostile_numbers),
        TEST("file: rows of other kernels are accepted, with a log line", other_kernels_are_said),
    };
    return RUN(tests);
}

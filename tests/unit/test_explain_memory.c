/* Pages where memory is refused: every allocation of a page fails once. */
#include "api/api.h"
#include "support.h"

/* Memory that refuses the k-th request from now on, once. */
typedef struct refusal {
    mem_hooks real;
    int64_t left;
} refusal;

static void *alloc_or_refuse(void *ud, size_t align, size_t size)
{
    refusal *r = ud;
    return --r->left == 0 ? NULL : r->real.alloc(r->real.ud, align, size);
}

static void release_always(void *ud, void *block)
{
    const refusal *r = ud;
    r->real.release(r->real.ud, block);
}

static bool write_nowhere(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)bytes, (void)err;
    *(size_t *)ud = n;
    return true;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    static const int32_t text_ids[] = { 1, 5, 7, 2, 9, 4, 3, 5, 7 };
    static const char *const of[] = { "golden/gpt2", "golden/deepseek-v3", "golden/bert-fill",
                                      "golden/t5",   "golden/bahdanau",    "golden/vit" };
    for (int i = 0; i < 6; i++) {
        weft_error err = { 0 };
        size_t n = 0;
        weft_model *m = weft_model_open(fixture(of[i]), NULL, &err);
        weft_image *image = i == 5 ? weft_image_open(m, fixture("golden/images/photo.png"), &err)
                                   : NULL;
        const bool pair = m->model.n_layer_src > 0;
        const int32_t *ids = image || pair ? NULL : text_ids;
        const int64_t n_id = ids ? 9 : 0;
        const weft_explain_options o = {
            .struct_size = sizeof o,
            .only =
                "tokens,embeddings,positions,rope,residual,feed_forward,encoder-decoder,alignment,"
                "picture",
            .threads = 1,
            .source = pair ? text_ids : NULL,
            .n_source = pair ? 9 : 0,
            .image = image
        };
        mem *from = &m->host.mem;
        assert_int_equal(weft_explain(m, ids, n_id, &o, write_nowhere, &n, &err), WEFT_OK);
        refusal r = { .real = from->hooks };
        const size_t used = from->used;
        from->hooks.alloc = alloc_or_refuse;
        from->hooks.release = release_always;
        from->hooks.ud = &r;
        int64_t k = 0;
        do {
            r.left = ++k;
            n = 0;
            if (weft_explain(m, ids, n_id, &o, write_nowhere, &n, &err) != WEFT_OK)
                assert_true(err.code == WEFT_ENOMEM && n == 0);
            assert_int_equal(from->used, used);
        } while (r.left <= 0);
        assert_true(k > 100 && n > 0);
        from->hooks = r.real;
        weft_image_free(image);
        weft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("explain: a refusal of memory is an error, and nothing leaks", no_memory_is_an_error),
    };
    return RUN(tests);
}

/* Random models: all architectures load in every type and give finite logits; impossible shapes
 * are refused. */
#include "support.h"

#include "engine/session.h"
#include "random_gguf.h"

static const random_shape tiny_llama = { "tiny", "llama", 2,     64, 96, 4, 2, 300,
                                         32,     false,   10000, 0,  0,  0, 0 };
static const random_shape tiny_gpt2 = { "tiny", "gpt2", 2, 64, 128, 4, 4, 300,
                                        32,     false,  0, 0,  0,   0, 0 };

static const random_shape tiny_moe = { "tiny", "qwen3moe", 2,     64, 96, 4, 2, 300,
                                       32,     true,       10000, 8,  4,  2, 32 };

static const char *const type_names[] = { "f32",  "f16",  "bf16", "q8_0", "q4_0", "q4_1",
                                          "q5_0", "q5_1", "q4_k", "q5_k", "q6_k" };
#define N_TYPE (sizeof type_names / sizeof *type_names)

/* A path in the test's own directory, not yet existing. */
static const char *fresh(const char *name)
{
    const char *path = temp_file(name, "", 0);
    assert_int_equal(remove(path), 0);
    return path;
}

/* Loads the file, evaluates three tokens, and fails unless the logits are finite and differ. */
static void check_runs(const char *path, const random_shape *s, const dtype *type)
{
    weft_error err = { 0 };
    host h;
    host_plain(&h);
    model m;
    if (model_open(&m, path, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_string_equal(m.name, s->arch);
    assert_int_equal(m.n_layer, s->n_layer);
    assert_int_equal(m.n_head_kv, s->n_head_kv);
    assert_int_equal(m.n_vocab, s->n_vocab);
    const stored *up = container_tensor(&m.file, s->n_expert ? "blk.1.ffn_up_exps.weight"
                                                             : "blk.1.ffn_up.weight");
    assert_ptr_equal(up->type, type);
    const stored *embd = container_tensor(&m.file, "token_embd.weight");
    assert_ptr_equal(embd->type, type->block > 1 && !s->untied ? &dtype_q8_0 : type);
    assert_int_equal(container_tensor(&m.file, "output.weight") != NULL, s->untied);

    engine *e = engine_new(&m, &(engine_options){ .n_thread = 2 }, &err);
    assert_non_null(e);
    session *one = session_new(e, &err);
    const int32_t ids[] = { 1, 299, 7 };
    work w = { .session = one, .ids = ids, .n = 3 };
    if (engine_eval(e, &w, 1, &err) != WEFT_OK)
        fail_msg("%s %s: %s", s->arch, type->name, err.message);
    bool differ = false;
    for (int64_t k = 1; k < s->n_vocab; k++)
        differ = differ || one->logits[k] != one->logits[0];
    assert_true(differ);
    session_free(one);
    engine_free(e);
    model_close(&m);
}

static void all_types_run(void **state)
{
    (void)state;
    weft_error err = { 0 };
    for (size_t t = 0; t < N_TYPE; t++)
        for (int k = 0; k < 5; k++) {
            const dtype *type = dtype_by_name(type_names[t]);
            random_shape s = k < 2 ? tiny_llama : k < 4 ? tiny_gpt2 : tiny_moe;
            s.untied = k % 2 || k == 4;
            if (type->block > 32) {
                s.d_model = s.d_ff = 256;
                s.d_expert = k < 4 ? 0 : 256;
                s.d_head = k < 4 ? 0 : 64;
            }
            const char *path = fresh("model.gguf");
            uint64_t bytes = 0;
            if (random_gguf_write(path, &s, type, NULL, 1, &bytes, &err) != WEFT_OK)
                fail_msg("%s", err.message);
            size_t size;
            free(read_whole(path, &size));
            assert_int_equal(size, bytes);
            check_runs(path, &s, type);
        }
}

/* Rows of 256 use the mix's own types, rows of 64 its fallback. */
static void mixes_run(void **state)
{
    (void)state;
    weft_error err = { 0 };
    for (int wide = 0; wide < 2; wide++) {
        random_shape s = tiny_llama;
        s.untied = true;
        s.d_model = wide ? 256 : 64;
        s.d_ff = wide ? 512 : 96;
        const char *path = fresh("model.gguf");
        if (random_gguf_write_mix(path, &s, quant_target_by_name("q4_k_m"), 1, NULL, &err) !=
            WEFT_OK)
            fail_msg("%s", err.message);
        check_runs(path, &s, wide ? &dtype_q4_k : &dtype_q5_0);
    }
}

static void function_of_seed(void **state)
{
    (void)state;
    char *got[3];
    size_t size[3];
    const uint64_t seed[] = { 4, 4, 5 };
    for (int i = 0; i < 3; i++) {
        const char *path = fresh("model.gguf");
        assert_int_equal(
            random_gguf_write(path, &tiny_llama, &dtype_q8_0, NULL, seed[i], NULL, NULL), WEFT_OK);
        got[i] = read_whole(path, &size[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(got[0], got[1], size[0]);
    assert_int_equal(size[0], size[2]);
    assert_memory_not_equal(got[0], got[2], size[0]);
    for (int i = 0; i < 3; i++)
        free(got[i]);
}

static void rows_differ(void **state)
{
    (void)state;
    weft_error err = { 0 };
    host h;
    host_plain(&h);
    model m;
    const char *path = fresh("model.gguf");
    assert_int_equal(random_gguf_write(path, &tiny_llama, &dtype_f32, NULL, 1, NULL, &err),
                     WEFT_OK);
    assert_int_equal(model_open(&m, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    const stored *t = container_tensor(&m.file, "token_embd.weight");
    const float *x = (const float *)t->data;
    double sum = 0, squares = 0;
    const int64_t D = tiny_llama.d_model, n = tiny_llama.n_vocab * D;
    for (int64_t k = 0; k < n; k++) {
        sum += (double)x[k];
        squares += (double)x[k] * (double)x[k];
    }
    assert_true(fabs(sum / (double)n) < 0.002);
    assert_true(fabs(sqrt(squares / (double)n) - 0.02) < 0.002);
    for (int64_t i = 1; i < tiny_llama.n_vocab; i++)
        assert_memory_not_equal(x + (i - 1) * D, x + i * D, (size_t)D * sizeof *x);
    model_close(&m);
}

/* Fails unless the shape is refused with a message that contains `because`, and no file is left. */
static void check_refused(random_shape s, const dtype *type, const char *because)
{
    weft_error err = { 0 };
    const char *path = fresh("model.gguf");
    assert_int_equal(random_gguf_write(path, &s, type, NULL, 1, NULL, &err), WEFT_EINVAL);
    if (!strstr(err.message, because))
        fail_msg("\"%s\" does not say \"%s\"", err.message, because);
    assert_null(fopen(path, "rb"));
}

static void refuses(void **state)
{
    (void)state;
    random_shape s = tiny_llama;
    s.n_head = 3;
    check_refused(s, &dtype_f32, "3 heads cannot divide a width of 64");
    s = tiny_llama;
    s.n_head_kv = 3;
    check_refused(s, &dtype_f32, "4 heads cannot share 3 key-value heads");
    s = tiny_llama;
    s.d_ff = 90;
    check_refused(s, &dtype_q8_0, "do not make whole q8_0 blocks of 32");
    s = tiny_llama;
    s.arch = "mamba";
    check_refused(s, &dtype_f32, "\"mamba\", expected llama, gpt2 or qwen3moe");
    check_refused(tiny_llama, &dtype_q4_k, "do not make whole q4_k blocks of 256");
    check_refused(tiny_llama, &dtype_i32, "i32 is no type of weights");
}

static void cannot_write(void **state)
{
    (void)state;
    weft_error err = { 0 };
    assert_int_equal(
        random_gguf_write("/nowhere/model.gguf", &tiny_llama, &dtype_f32, NULL, 1, NULL, &err),
        WEFT_EIO);
    assert_non_null(strstr(err.message, "/nowhere/model.gguf: cannot be written"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("random model: all architectures run in every type, tied and untied", all_types_run),
        TEST("random model: a mix runs, with rows that fill blocks and rows that do not",
             mixes_run),
        TEST("random model: the file is a function of the seed", function_of_seed),
        TEST("random model: rows differ, with a deviation of 0.02", rows_differ),
        TEST("random model: impossible shapes are refused with a reason", refuses),
        TEST("random model: reports a path that cannot be written", cannot_write),
    };
    return RUN(tests);
}

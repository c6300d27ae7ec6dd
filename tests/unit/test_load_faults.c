/* A full life cycle - open, engine, sessions that are evaluated, forked, saved and restored - with
 * each allocation and each file call failed in turn. */
#include "engine/session.h"
#include "gguf_build.h"
#include "hostile.h"
#include "support.h"

#include <sys/stat.h>

/* Evaluates, forks, evaluates both, saves one, loads it and switches it to another text. */
static void timelines(engine *e, weft_error *err)
{
    static const int32_t ids[] = { 3, 1, 4, 1, 5 };
    const char *path = temp_path("life.session");
    int64_t reused;
    session *s = session_new(e, err), *fork = NULL, *back = NULL;
    if (s && engine_eval(e, &(work){ .session = s, .ids = ids, .n = 3 }, 1, err) == WEFT_OK)
        fork = session_fork(s, err);
    work both[] = { { .session = s, .ids = ids + 3, .n = 1 },
                    { .session = fork, .ids = ids + 4, .n = 1 } };
    if (fork && engine_eval(e, both, 2, err) == WEFT_OK && session_save(s, path, err) == WEFT_OK)
        back = session_restore(e, path, (adaption){ 0 }, err);
    if (back && session_sync(back, ids, 5, &reused, err) == WEFT_OK)
        assert_true(reused == 4 && session_greedy(back) >= 0);
    session_free(back);
    session_free(fork);
    session_free(s);
}

/* OK, or err is set. In any case nothing is left. */
static weft_status life(const char *path, weft_load load, host *h, weft_error *err)
{
    const engine_options o = { .n_thread = 1, .n_batch = 4, .n_ctx = 16, .n_cache = 3 * 64 };
    model m;
    *err = (weft_error){ 0 };
    if (model_open(&m, path, load, h, err) != WEFT_OK)
        return err->code;
    engine *e = engine_new(&m, &o, err);
    if (e)
        timelines(e, err);
    engine_free(e);
    model_close(&m);
    return err->code;
}

static const char *gguf_file(void)
{
    static const llama_shape shape = { .n_layer = 2,
                                       .d_model = 32,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .d_ff = 64,
                                       .n_vocab = 40,
                                       .n_ctx = 64,
                                       .type = &dtype_q8_0 };
    const bytes b = gguf_llama(&shape);
    const char *path = temp_file("model.gguf", b.at, b.n);
    free(b.at);
    return path;
}

typedef struct tally {
    int64_t points, survived;
} tally;

/* One life cycle in which the k-th call of one kind fails. False if there were fewer calls. */
static bool fault(const char *path, weft_load load, bool files, int64_t k, bool sticky, tally *n)
{
    host h;
    faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
    weft_error err;
    *chosen = (faults){ .fail_at = k, .sticky = sticky };
    host_faulty(&h, &memory, &io);
    const weft_status status = life(path, load, &h, &err);
    const weft_status want = files ? WEFT_EIO : WEFT_ENOMEM;
    if (status != WEFT_OK && (status != want || !err.message[0]))
        fail_msg("%s: call %lld failed: got %d \"%s\", expected %d", path, (long long)k,
                 (int)status, err.message, (int)want);
    if (memory.live || io.live || atomic_load(&h.mem.used))
        fail_msg("%s: call %lld failed: %lld blocks, %lld files and %zu bytes are left", path,
                 (long long)k, (long long)memory.live, (long long)io.live,
                 (size_t)atomic_load(&h.mem.used));
    if (chosen->calls < k)
        return false;
    n->points++;
    n->survived += status == WEFT_OK;
    return true;
}

static void all_faults(const char *path)
{
    for (int load = WEFT_LOAD_COPY; load <= WEFT_LOAD_MAP; load++)
        for (int files = 0; files < 2; files++) {
            tally n = { 0 };
            for (int sticky = 0; sticky < 2; sticky++)
                for (int64_t k = 1; fault(path, (weft_load)load, files, k, sticky, &n); k++) {}
            print_message("%s, %s: %lld fault points in %s, %lld survived\n",
                          strrchr(path, '/') + 1, load == WEFT_LOAD_COPY ? "copied" : "mapped",
                          (long long)n.points, files ? "files" : "memory", (long long)n.survived);
            assert_true(n.points > 0 && n.survived < n.points);
        }
}

static void faults_gguf(void **state)
{
    (void)state;
    all_faults(gguf_file());
}

static void faults_llama(void **state)
{
    (void)state;
    all_faults(fixture("golden/llama-gqa"));
}

static void faults_gpt2(void **state)
{
    (void)state;
    all_faults(fixture("golden/gpt2"));
}

static void faults_spread(void **state)
{
    (void)state;
    all_faults(fixture("golden/gpt-oss-mxfp4"));
    all_faults(fixture("golden/qwen3-fp8"));
}

/* ---- the cap --------------------------------------------------------------------------------- */

typedef struct watch {
    size_t largest; /* request */
} watch;

static void *watched_alloc(void *ud, size_t align, size_t size)
{
    watch *w = ud;
    if (size > w->largest)
        w->largest = size;
    return aligned_alloc(align, size);
}

static void plain_release(void *ud, void *block)
{
    (void)ud;
    free(block);
}

static weft_status capped(const char *path, weft_load load, size_t cap, size_t *peak)
{
    host h;
    watch w = { 0 };
    weft_error err;
    host_plain(&h);
    mem_init(&h.mem, cap, &(mem_hooks){ watched_alloc, plain_release, &w, 0 });
    const weft_status status = life(path, load, &h, &err);
    *peak = atomic_load(&h.mem.peak);
    assert_true(status != WEFT_OK || w.largest > 0);
    if (cap && (w.largest > cap || *peak > cap))
        fail_msg("a cap of %zu, but %zu were requested and %zu in use", cap, w.largest, *peak);
    if (status != WEFT_OK && !strstr(err.message, "memory cap"))
        fail_msg("a cap of %zu: %d \"%s\"", cap, (int)status, err.message);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return status;
}

static void cap(void **state)
{
    (void)state;
    const char *path[] = { gguf_file(), fixture("golden/llama-gqa"), fixture("golden/gpt2") };
    for (size_t i = 0; i < sizeof path / sizeof *path; i++)
        for (int load = WEFT_LOAD_COPY; load <= WEFT_LOAD_MAP; load++) {
            size_t need, peak;
            int refusals = 0;
            assert_int_equal(capped(path[i], (weft_load)load, 0, &need), WEFT_OK);
            for (size_t room = 1; room < need; room += need / 200, refusals++)
                assert_int_equal(capped(path[i], (weft_load)load, room, &peak), WEFT_ELIMIT);
            assert_int_equal(capped(path[i], (weft_load)load, need - 1, &peak), WEFT_ELIMIT);
            assert_int_equal(capped(path[i], (weft_load)load, need, &peak), WEFT_OK);
            print_message("%s, %s: needs %zu bytes; %d smaller caps were refused\n",
                          strrchr(path[i], '/') + 1, load == WEFT_LOAD_COPY ? "copied" : "mapped",
                          need, refusals + 1);
        }
}

/* ---- files that are not what they should be -------------------------------------------------- */

static void refused(const char *path, weft_status code, const char *says)
{
    host h;
    weft_error err;
    host_plain(&h);
    const weft_status status = life(path, WEFT_LOAD_COPY, &h, &err);
    if (status != code || !strstr(err.message, says) ||
        strncmp(err.message, path, strlen(path)) != 0)
        fail_msg("got %d \"%s\", expected %d \"%s: ... %s\"", (int)status, err.message, (int)code,
                 path, says);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void wrong_files(void **state)
{
    (void)state;
    refused("/nonexistent/model.gguf", WEFT_EIO, "cannot open: No such file or directory");
    refused(temp_file("empty.gguf", "", 0), WEFT_EFORMAT, "the file is empty");
    refused(temp_file("text.gguf", "hello", 5), WEFT_EFORMAT,
            "a text that begins with \"hello\"; expected");
    refused(temp_file("model.pt", "PK\3\4....", 8), WEFT_EUNSUPPORTED, "PyTorch pickle");
    refused(temp_file("old.bin", "\x80\2}q", 4), WEFT_EUNSUPPORTED, "PyTorch pickle");
    refused(temp_file("bytes.gguf", "\1\2", 2), WEFT_EFORMAT, "an unknown kind of file; expected");
    refused(temp_file("model.safetensors", "\2\0\0\0\0\0\0\0{}", 10), WEFT_EUNSUPPORTED,
            "config.json");
    refused("/dev/null", WEFT_EIO, "cannot read");
}

static const char *directory(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", temp_file(name, "", 0));
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static void wrong_directories(void **state)
{
    (void)state;
    const char *dir = directory("hf");
    refused(dir, WEFT_EIO, ": an empty directory; ");
    temp_file("hf/readme.txt", "", 0);
    refused(dir, WEFT_EIO, ": a directory without config.json; ");
    temp_file("hf/config.json", "{}", 2);
    refused(dir, WEFT_EIO, ": config.json without weights; ");
    temp_file("hf/model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    refused(dir, WEFT_EFORMAT, "model_type is missing or not text");
    temp_file("hf/config.json", "{\"model_type\": \"zebra\"}", 23);
    refused(dir, WEFT_EUNSUPPORTED, "model_type \"zebra\"; weft supports llama");
    temp_file("hf/config.json", "{", 1);
    refused(dir, WEFT_EFORMAT, "/config.json: line 1");
    temp_file("hf/config.json", "{}", 2);
    temp_file("hf/model.safetensors", "\1\0\0\0\0\0\0\0{}", 10);
    refused(dir, WEFT_EFORMAT, "/model.safetensors: line 1");

    char deep[4096]; /* the longest path the system opens: too long for a file inside it */
    host h;
    weft_error err;
    memset(deep, '/', sizeof deep);
    strcpy(deep + sizeof deep - 1 - strlen(dir), dir);
    host_plain(&h);
    assert_int_equal(life(deep, WEFT_LOAD_COPY, &h, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "the path is too long"));
}

/* Headers of any length put the data at any address; kernels need aligned values. */
static void unaligned(void **state)
{
    (void)state;
    size_t n_config, n_weights;
    char *config = read_whole(fixture("golden/llama-gqa/config.json"), &n_config);
    char *weights = read_whole(fixture("golden/llama-gqa/model.safetensors"), &n_weights);
    const char *dir = directory("odd");
    temp_file("odd/config.json", config, n_config);
    for (int pad = 0; pad < 4; pad++) {
        bytes b = { 0 };
        uint64_t n;
        host h;
        weft_error err;
        memcpy(&n, weights, sizeof n);
        put_u64(&b, n + (uint64_t)pad);
        put(&b, weights + 8, n);
        put(&b, "   ", (size_t)pad);
        put(&b, weights + 8 + n, n_weights - 8 - n);
        temp_file("odd/model.safetensors", b.at, b.n);
        host_plain(&h);
        assert_int_equal(life(dir, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        assert_int_equal(life(dir, WEFT_LOAD_MAP, &h, &err), WEFT_OK);
        free(b.at);
    }
    free(config);
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("load: a GGUF file with any failed allocation or file call is a clean error",
             faults_gguf),
        TEST("load: a Llama directory with any failed allocation or file call is a clean error",
             faults_llama),
        TEST("load: a GPT-2 directory with any failed allocation or file call is a clean error",
             faults_gpt2),
        TEST("load: MXFP4 and FP8 directories with any failed call are a clean error",
             faults_spread),
        TEST("load: a memory cap refuses before memory is requested, and its lowest value is exact",
             cap),
        TEST("load: files that are not models are refused with their kind", wrong_files),
        TEST("load: directories that are not models are refused by the file at fault",
             wrong_directories),
        TEST("load: weights at any address are read", unaligned),
    };
    return RUN(tests);
}

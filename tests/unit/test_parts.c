/* Models in several files: safetensors by an index, GGUF in parts. What must agree is made to
 * disagree, field by field; files are cut at every byte of their heads; every call fails once. */
#include "gguf_build.h"
#include "hostile.h"
#include "models/convert.h"
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

#define INDEX "shards/model.safetensors.index.json"
#define FIRST "shards/model-00001-of-00003.safetensors"
#define LAST  "shards/model-00003-of-00003.safetensors"

static void make(const char *to, weft_format form, uint64_t most)
{
    host h;
    convert_report r;
    weft_error err = { 0 };
    const convert_options o = { .to = form, .max_shard = most, .force = true };
    host_plain(&h);
    if (convert_model(WEFT_TESTS_DIR "/golden/llama-gqa", to, &o, &r, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void make_shards(void)
{
    make(temp_path("shards"), WEFT_FORMAT_HF, 45000);
    assert_int_equal(access(temp_path(LAST), F_OK), 0);
}

/* In three parts, the first of which this gives. */
static const char *make_split(void)
{
    make(temp_path("m.gguf"), WEFT_FORMAT_GGUF, 45000);
    return temp_path("m-00001-of-00003.gguf");
}

static weft_status open_once(const char *path, weft_load load, host *h, weft_error *err)
{
    model m;
    *err = (weft_error){ 0 };
    const weft_status status = model_open(&m, path, load, h, err);
    if (status == WEFT_OK)
        model_close(&m);
    return status;
}

static void opens(const char *path, weft_status code, const char *says)
{
    host h;
    weft_error err;
    host_plain(&h);
    const weft_status status = open_once(path, WEFT_LOAD_COPY, &h, &err);
    if (status != code || !strstr(err.message, says))
        fail_msg("got %d \"%s\", expected %d \"%s\"", (int)status, err.message, (int)code, says);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* The file with the first `from` replaced by `to`, which is as long. */
static void edit(const char *name, const char *from, const char *to)
{
    size_t n;
    char *data = read_whole(temp_path(name), &n);
    char *at = memmem(data, n, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    temp_file(name, data, n);
    free(data);
}

/* ---- the index ------------------------------------------------------------------------------- */

static void index_and_files(void **state)
{
    (void)state;
    make_shards();
    opens(temp_path("shards"), WEFT_OK, "");
    edit(INDEX, "00001-of", "00002-of");
    opens(temp_path("shards"), WEFT_EFORMAT, "the index says model-00002");
    make_shards();
    edit(INDEX, "model.norm.weight", "model.norm.height");
    opens(temp_path("shards"), WEFT_EFORMAT, "tensor model.norm.height is not in model-0000");
    make_shards();
    edit(FIRST, "model.norm.weight", "model.norm.height");
    opens(temp_path("shards"), WEFT_EFORMAT, "model.norm.");
    make_shards();
    remove(temp_path(LAST));
    opens(temp_path("shards"), WEFT_EIO, "model-00003-of-00003.safetensors: cannot open");
    make_shards();
    temp_file(INDEX, "{\"weight_map\": {}}", 18);
    opens(temp_path("shards"), WEFT_EFORMAT, "weight_map is missing or names no tensor");
    static const char *const names[] = {
        "\"../model.safetensors\"",
        "\"/etc/x.safetensors\"",
        "\"x.bin\"",
        "\"\"",
        "\".safetensors\"",
        "7",
        "null",
        "\"..safetensors\"",
        "\"a\\u0000.safetensors\"",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"weight_map\": {\"a\": %s}}", names[i]);
        temp_file(INDEX, text, strlen(text));
        opens(temp_path("shards"), WEFT_EFORMAT, "is not the name of a .safetensors file");
    }
    make_shards();
    temp_file("shards/model.safetensors", "", 0); /* it comes first, whatever it is */
    opens(temp_path("shards"), WEFT_EFORMAT, "model.safetensors: the file is empty");
    remove(temp_path("shards/model.safetensors"));
    make_shards();
}

/* A tensor in two files is one too many, wherever the index puts it. */
static void twice(void **state)
{
    (void)state;
    size_t n;
    make_shards();
    char *data = read_whole(temp_path(FIRST), &n);
    temp_file("shards/model-00002-of-00003.safetensors", data, n);
    free(data);
    opens(temp_path("shards"), WEFT_EFORMAT, "occurs twice");
    make_shards();
}

/* ---- parts of a GGUF file -------------------------------------------------------------------- */

static void put_u16(const char *name, const char *key, uint16_t value)
{
    size_t n;
    char *data = read_whole(temp_path(name), &n);
    char *at = memmem(data, n, key, strlen(key));
    assert_non_null(at);
    memcpy(at + strlen(key) + 4, &value, sizeof value);
    temp_file(name, data, n);
    free(data);
}

static void parts_agree(void **state)
{
    (void)state;
    static const char second[] = "m-00002-of-00003.gguf", first[] = "m-00001-of-00003.gguf";
    opens(make_split(), WEFT_OK, "");
    opens(temp_path(second), WEFT_EINVAL, "part 2 of 3; give the first one");
    put_u16(second, "split.no", 2);
    opens(temp_path(first), WEFT_EFORMAT, "does not say that it is part 2 of 3");
    make_split();
    put_u16(second, "split.count", 4);
    opens(temp_path(first), WEFT_EFORMAT, "split.count is not what the first part says");
    make_split();
    put_u16(second, "split.tensors.count", 9);
    opens(temp_path(first), WEFT_EFORMAT, "split.tensors.count is not what the first part says");
    for (int part = 1; part <= 3; part++) {
        char name[32];
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", part);
        put_u16(name, "split.tensors.count", 9);
    }
    opens(temp_path(first), WEFT_EFORMAT, "hold 21 tensors, split.tensors.count says 9");
    make_split();
    static const uint16_t counts[] = { 0, 2, 4, 65535 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        put_u16(first, "split.count", counts[i]);
        opens(temp_path(first), WEFT_EFORMAT, counts[i] ? "its name does not end in" : "split.no");
    }
    make_split();
    remove(temp_path(second));
    opens(temp_path(first), WEFT_EIO, "m-00002-of-00003.gguf: cannot open");
    make_split();
    edit(second, "split.no", "split.xy");
    opens(temp_path(first), WEFT_EFORMAT, "does not say that it is part 2");
    make_split();
    edit(first, "split.no", "split.xy");
    opens(temp_path(first), WEFT_EFORMAT, "split.no");
    make_split();
    rename(temp_path(first), temp_path("other.gguf"));
    opens(temp_path("other.gguf"), WEFT_EFORMAT, "does not end in -00001-of-00003.gguf");
}

/* ---- cut anywhere, any call failed ----------------------------------------------------------- */

static void cut(const char *model_path, const char *name, size_t step)
{
    size_t n;
    int refused = 0;
    char *data = read_whole(temp_path(name), &n);
    char path[1024];
    snprintf(path, sizeof path, "%s", model_path);
    for (size_t k = 0; k < n; k += k < 600 ? 1 + 6 * (size_t)quick() : step, refused++) {
        host h;
        weft_error err;
        temp_file(name, data, k);
        host_plain(&h);
        const weft_status status = open_once(path, WEFT_LOAD_COPY, &h, &err);
        if (status != WEFT_EFORMAT || !err.message[0])
            fail_msg("%s cut at %zu: %d \"%s\"", name, k, (int)status, err.message);
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
    temp_file(name, data, n);
    free(data);
    print_message("%s: refused when cut at %d places\n", name, refused);
}

static void cut_anywhere(void **state)
{
    (void)state;
    make_shards();
    cut(temp_path("shards"), INDEX, 97);
    cut(temp_path("shards"), FIRST, 4001);
    cut(temp_path("shards"), LAST, 4001);
    const char *first = make_split();
    cut(first, "m-00002-of-00003.gguf", 4001);
    cut(first, "m-00003-of-00003.gguf", 4001);
}

static void faults_of(const char *model_path)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", model_path);
    for (int load = WEFT_LOAD_COPY; load <= WEFT_LOAD_MAP; load++)
        for (int files = 0; files < 2; files++) {
            int points = 0;
            for (int64_t k = 1;; k++, points++) {
                host h;
                faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
                weft_error err;
                chosen->fail_at = k;
                host_faulty(&h, &memory, &io);
                const weft_status status = open_once(path, (weft_load)load, &h, &err);
                if (status != WEFT_OK && err.code != (files ? WEFT_EIO : WEFT_ENOMEM))
                    fail_msg("call %lld: %d \"%s\"", (long long)k, (int)err.code, err.message);
                if (memory.live || io.live || atomic_load(&h.mem.used))
                    fail_msg("call %lld: something is left", (long long)k);
                if (chosen->calls < k)
                    break;
                if (status == WEFT_OK && !files)
                    fail_msg("call %lld: memory was refused, and nobody noticed", (long long)k);
            }
            print_message("%s: %d fault points in %s\n", strrchr(path, '/') + 1, points,
                          files ? "files" : "memory");
        }
}

static void any_call_fails(void **state)
{
    (void)state;
    make_shards();
    faults_of(temp_path("shards"));
    faults_of(make_split());
}

/* ---- the index by itself --------------------------------------------------------------------- */

static void hostile_index(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"weight_map\":[]}",
        "{\"weight_map\":{\"a\":{}}}",
        "{\"weight_map\":{\"\":\"a.safetensors\"}}",
        "{\"weight_map\":{\"a\":\"a.safetensors\",\"a\":\"b.safetensors\"}}",
        "{\"metadata\":{\"total_size\":99999999999999999999},\"weight_map\":{\"a\":\"x\"}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        weft_error err;
        weft_status status;
        const char *why = parse_and_check(index_parse, (const uint8_t *)texts[i], strlen(texts[i]),
                                          &status, &err);
        if (why || status != WEFT_EFORMAT)
            fail_msg("%s: %d \"%s\" %s", texts[i], (int)status, err.message, why ? why : "");
    }
    bytes b = { 0 }; /* one tensor too many, in many files */
    char line[96];
    put(&b, "{\"weight_map\":{", 15);
    for (int i = 0; i <= MAX_TENSOR; i++)
        put(&b, line,
            (size_t)snprintf(line, sizeof line, "%s\"t%d\":\"f%d.safetensors\"", i ? "," : "", i,
                             i % 7000));
    put(&b, "}}", 2);
    weft_error err;
    weft_status status;
    assert_null(parse_and_check(index_parse, b.at, b.n, &status, &err));
    assert_non_null(strstr(err.message, "65537 tensors, at most 65536"));
    free(b.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("parts: an index and its files must agree, and name files only", index_and_files),
        TEST("parts: a tensor in two files is refused", twice),
        TEST("parts: the parts of a GGUF file must agree", parts_agree),
        TEST("parts: files cut anywhere are refused", cut_anywhere),
        TEST("parts: any allocation or file call failed is a clean error", any_call_fails),
        TEST("parts: a hostile index is refused", hostile_index),
    };
    return RUN(tests);
}

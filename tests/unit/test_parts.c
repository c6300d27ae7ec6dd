/* Models in several files: safetensors by an index, GGUF in parts. Fields that must agree are made
 * to disagree, one by one; files are truncated at every byte of their headers; every call fails
 * once. */
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

/* Writes three parts and returns the first. */
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

/* The file with the first `from` replaced by `to`, of the same length. */
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

/* A file of weights, one value each; their names are separated by spaces. */
static void write_weights(const char *name, const char *tensors)
{
    bytes head = { 0 }, b = { 0 };
    char line[128];
    uint32_t at = 0;
    for (const char *t = tensors; *t; t += strcspn(t, " "), t += *t == ' ', at += 4)
        put(&head, line,
            (size_t)snprintf(line, sizeof line,
                             "%c\"%.*s\":{\"dtype\":\"F32\",\"shape\":[1],"
                             "\"data_offsets\":[%u,%u]}",
                             at ? ',' : '{', (int)strcspn(t, " "), t, at, at + 4));
    put(&head, "}", 1);
    put_u64(&b, head.n);
    put(&b, head.at, head.n);
    for (; at > 0; at -= 4)
        put_u32(&b, 0);
    temp_file(name, b.at, b.n);
    free(head.at);
    free(b.at);
}

/* The error of opening a path as a container. */
static void contains(const char *path, weft_status code, const char *says)
{
    host h;
    container c;
    weft_error err = { 0 };
    host_plain(&h);
    const weft_status status = container_open(&c, path, WEFT_LOAD_COPY, &h, &err);
    if (status == WEFT_OK)
        container_close(&c);
    if (status != code || !strstr(err.message, says))
        fail_msg("%s: got %d \"%s\", expected %d \"%s\"", path, (int)status, err.message, (int)code,
                 says);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void tensors_of_an_index(void **state)
{
    (void)state;
    static const struct {
        const char *map, *a, *b; /* contents of a.safetensors and b.safetensors */
        const char *says;        /* NULL: it opens */
    } cases[] = {
        { "\"t1\":\"a.safetensors\",\"t2\":\"b.safetensors\"", "t1", "t2", NULL },
        { "\"t1\":\"a.safetensors\",\"t2\":\"b.safetensors\"", "t1 t3", "t2",
          "a.safetensors: tensor t3 is not in the index" },
        { "\"t1\":\"a.safetensors\",\"t2\":\"b.safetensors\"", "t0 t1", "t2",
          "a.safetensors: tensor t0 is not in the index" },
        { "\"t1\":\"a.safetensors\",\"t2\":\"b.safetensors\"", "t1", "t3",
          "index.json: tensor t2 is not in b.safetensors" },
        { "\"t1\":\"a.safetensors\",\"t2\":\"a.safetensors\"", "t1", "t2",
          "index.json: tensor t2 is not in a.safetensors" },
        { "\"t1\":\"b.safetensors\",\"t2\":\"a.safetensors\"", "t1", "t2",
          "a.safetensors, the index says b.safetensors" },
        { "\"\":\"a.safetensors\"", "t1", "t2", "weight_map holds a tensor without a name" },
        { "\"t1\":\".safetensors\"", "t1", "t2",
          "weight_map: the file of t1 is not the name of a .safetensors file" },
        { "\"t1\":\"a.safetensor\"", "t1", "t2",
          "weight_map: the file of t1 is not the name of a .safetensors file" },
        { "\"t1\":\"weights.safetensors.bin\"", "t1", "t2",
          " is not the name of a .safetensors file" },
    };
    mkdir(temp_path("index"), 0700);
    temp_file("index/config.json", "{}", 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        const int n = snprintf(text, sizeof text, "{\"weight_map\":{%s}}", cases[i].map);
        temp_file("index/model.safetensors.index.json", text, (size_t)n);
        write_weights("index/a.safetensors", cases[i].a);
        write_weights("index/b.safetensors", cases[i].b);
        contains(temp_path("index"), cases[i].says ? WEFT_EFORMAT : WEFT_OK,
                 cases[i].says ? cases[i].says : "");
    }
    for (int length = 255; length <= 256;
         length++) { /* the longest that a file system accepts, and one more */
        char text[512];
        const int n = snprintf(text, sizeof text, "{\"weight_map\":{\"t\":\"%0*d.safetensors\"}}",
                               length - 12, 0);
        temp_file("index/model.safetensors.index.json", text, (size_t)n);
        contains(temp_path("index"), length == 255 ? WEFT_EIO : WEFT_EFORMAT,
                 length == 255 ? "cannot open: No such file" : "is not the name of a");
    }
}

/* The directory can be opened, but not the files in it. */
static void long_paths(void **state)
{
    (void)state;
    char path[4096];
    size_t n = 0;
    mkdir(temp_path("long"), 0700);
    temp_file("long/config.json", "{}", 2);
    assert_int_equal(chdir(temp_path("long")), 0);
    contains(".", WEFT_EIO, ".: config.json without weights");
    while (n < 4090)
        n += (size_t)sprintf(path + n, "./");
    contains(path, WEFT_EINVAL, "...: the path is too long");
    path[4080] = '\0'; /* room for config.json, not for the weights */
    contains(path, WEFT_EINVAL, "...: the path is too long");
    assert_int_equal(chdir("/"), 0);
}

/* A tensor in two files is refused, whichever the index names. */
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
    opens(temp_path(second), WEFT_EINVAL, "part 2 of 3 of a model; give the first one");
    put_u16(second, "split.no", 2);
    opens(temp_path(first), WEFT_EFORMAT, "split.no and split.count do not say part 2 of 3");
    make_split();
    put_u16(second, "split.count", 4);
    opens(temp_path(first), WEFT_EFORMAT, "split.count differs from the first part");
    make_split();
    put_u16(second, "split.tensors.count", 9);
    opens(temp_path(first), WEFT_EFORMAT, "split.tensors.count differs from the first part");
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
    opens(temp_path(first), WEFT_EFORMAT, "split.no and split.count do not say part 2 of");
    make_split();
    edit(first, "split.no", "split.xy");
    opens(temp_path(first), WEFT_EFORMAT, "split.no");
    make_split();
    rename(temp_path(first), temp_path("other.gguf"));
    opens(temp_path("other.gguf"), WEFT_EFORMAT, "does not end in -00001-of-00003.gguf");
}

/* What a key holds. */
typedef enum kind { NOTHING, U32, I32, F32, BOOL, TEXT, LIST } kind;

typedef struct value {
    kind kind;
    int number;
    const char *text;
} value;

static void write_key(gguf_build *g, const char *key, value v)
{
    switch (v.kind) {
    case U32:
        gguf_u32(g, key, (uint32_t)v.number);
        break;
    case I32:
        put_text(&g->entries, key);
        put_u32(&g->entries, 5);
        put_u32(&g->entries, (uint32_t)v.number);
        g->n_entry++;
        break;
    case F32:
        gguf_f32(g, key, (float)v.number);
        break;
    case BOOL:
        gguf_bool(g, key, v.number);
        break;
    case TEXT:
        gguf_text(g, key, v.text);
        break;
    case LIST:
        gguf_i32s(g, key, &v.number, 1);
        break;
    case NOTHING:
        break;
    }
}

/* A part with one tensor, and a key on which parts may disagree. */
static void write_part(const char *name, value no, value count, value tensors, value opinion)
{
    gguf_build g = { 0 };
    write_key(&g, "split.no", no);
    write_key(&g, "split.count", count);
    write_key(&g, "split.tensors.count", tensors);
    write_key(&g, "opinion", opinion);
    gguf_tensor(&g, name, &dtype_f32, 0, 4, 1, 0);
    const bytes b = gguf_finish(&g);
    temp_file(name, b.at, b.n);
    free(b.at);
}

#define N(x)                                                                                       \
    {                                                                                              \
        U32, x, NULL                                                                               \
    }
#define NONE                                                                                       \
    {                                                                                              \
        NOTHING, 0, NULL                                                                           \
    }

/* The keys that make a file the first part of several. */
static void keys_of_a_split(void **state)
{
    (void)state;
    static const char *const numbers = "split.no or split.count is invalid; expected 1 to";
    static const char *const missing = "split.tensors.count is missing or not an integer";
    static const struct {
        value no, count, tensors;
        const char *says; /* NULL: it opens */
    } cases[] = {
        { N(0), N(1), NONE, NULL },
        { N(0), N(1), N(1), NULL },
        { NONE, NONE, N(9), NULL }, /* it is none of several */
        { N(0), N(1), N(2), "its 1 parts hold 1 tensors, split.tensors.count says 2" },
        { N(0), N(1), { TEXT, 0, "1" }, missing },
        { N(0), N(2), NONE, missing },
        { N(0), N(2), { F32, 2, NULL }, missing },
        { NONE, N(2), N(2), numbers },
        { { TEXT, 0, "0" }, N(2), N(2), numbers },
        { { F32, 0, NULL }, N(2), N(2), numbers },
        { { I32, -1, NULL }, N(2), N(2), numbers },
        { N(2), N(2), N(2), numbers },
        { N(0), { TEXT, 0, "2" }, N(2), numbers },
        { N(0), { BOOL, 1, NULL }, N(2), numbers },
        { N(0), { I32, -2, NULL }, N(2), numbers },
        { N(0), N(0), N(2), numbers },
        { N(0), N(65536), N(2), numbers },
        { N(0), N(65535), N(2), "the first of 65535 parts, but its name does not end in" },
        { N(0), N(2), N(2), "s-00002-of-00002.gguf: cannot open" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_part("s-00001-of-00002.gguf", cases[i].no, cases[i].count, cases[i].tensors,
                   (value)NONE);
        const bool absent = i + 1 == sizeof cases / sizeof *cases;
        contains(temp_path("s-00001-of-00002.gguf"),
                 !cases[i].says ? WEFT_OK
                 : absent       ? WEFT_EIO
                                : WEFT_EFORMAT,
                 cases[i].says ? cases[i].says : "");
    }
    write_part("s.gguf", (value)N(0), (value)N(2), (value)N(2), (value)NONE);
    char root[256];
    snprintf(root, sizeof root, "%s", temp_path("s.gguf"));
    *strrchr(root, '/') = '\0';
    assert_int_equal(chdir(root), 0); /* the name is shorter than its end should be */
    contains("s.gguf", WEFT_EFORMAT, "but its name does not end in -00001-of-00002.gguf");
    assert_int_equal(chdir("/"), 0);
}

/* A later part repeats what the first says. */
static void opinions_of_parts(void **state)
{
    (void)state;
    static const char *const number = "split.no and split.count do not say part 2 of 2";
    static const char *const opinion = "s-00002-of-00002.gguf: opinion differs from the first part";
    static const struct {
        value no, first, second;
        const char *says; /* NULL: it opens */
    } cases[] = {
        { N(1), NONE, NONE, NULL },
        { N(1), N(7), NONE, NULL },
        { N(1), N(7), N(7), NULL },
        { N(1), N(7), { I32, 7, NULL }, NULL },
        { N(1), { TEXT, 0, "yes" }, { TEXT, 0, "yes" }, NULL },
        { N(1), { BOOL, 1, NULL }, { BOOL, 1, NULL }, NULL },
        { N(1), NONE, N(7), opinion },
        { N(1), N(7), N(8), opinion },
        { N(1), N(7), { F32, 7, NULL }, opinion },
        { N(1), { TEXT, 0, "yes" }, { TEXT, 0, "yet" }, opinion },
        { N(1), { TEXT, 0, "yes" }, { TEXT, 0, "yes, but" }, opinion },
        { N(1), { BOOL, 1, NULL }, { BOOL, 0, NULL }, opinion },
        { N(1), { LIST, 7, NULL }, { LIST, 7, NULL }, opinion }, /* lists are not compared */
        { NONE, NONE, NONE, number },
        { N(0), NONE, NONE, number },
        { N(2), NONE, NONE, number },
        { { TEXT, 0, "1" }, NONE, NONE, number },
        { { F32, 1, NULL }, NONE, NONE, number },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_part("s-00001-of-00002.gguf", (value)N(0), (value)N(2), (value)N(2), cases[i].first);
        write_part("s-00002-of-00002.gguf", cases[i].no, (value)N(2), (value)N(2), cases[i].second);
        contains(temp_path("s-00001-of-00002.gguf"), cases[i].says ? WEFT_EFORMAT : WEFT_OK,
                 cases[i].says ? cases[i].says : "");
    }
    remove(temp_path("s-00002-of-00002.gguf"));
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
    assert_non_null(strstr(err.message, "65537 tensors; expected at most 65536"));
    free(b.at);
}

/* Quantised directories are refused by the name of their method; MXFP4 reaches the weights. */
static void quantised_directories(void **state)
{
    (void)state;
    mkdir(temp_path("method"), 0700);
    static const char *const methods[] = { "gptq", "awq", "bitsandbytes", "compressed-tensors" };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char config[128], says[192];
        const int n = snprintf(config, sizeof config,
                               "{\"quantization_config\":{\"quant_method\":\"%s\"}}", methods[i]);
        temp_file("method/config.json", config, (size_t)n);
        snprintf(
            says, sizeof says,
            "method/config.json: quantization_config.quant_method is %s; expected mxfp4, fp8 or "
            "weights in F32, F16 or BF16; use the model's GGUF file",
            methods[i]);
        contains(temp_path("method"), WEFT_EUNSUPPORTED, says);
    }
    static const char number[] = "{\"compression_config\":{\"quant_method\":4}}";
    temp_file("method/config.json", number, sizeof number - 1);
    contains(temp_path("method"), WEFT_EUNSUPPORTED, "compression_config.quant_method is not text");
    static const char passes[] = "{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}";
    temp_file("method/config.json", passes, sizeof passes - 1);
    contains(temp_path("method"), WEFT_EIO, "config.json without weights");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("parts: an index and its files must agree, and name files only", index_and_files),
        TEST("parts: a tensor is in the file that the index names, and in the index",
             tensors_of_an_index),
        TEST("parts: a path that becomes too long is refused", long_paths),
        TEST("parts: a tensor in two files is refused", twice),
        TEST("parts: keys that do not describe a split are refused", keys_of_a_split),
        TEST("parts: keys of a later part equal those of the first", opinions_of_parts),
        TEST("parts: the parts of a GGUF file must agree", parts_agree),
        TEST("parts: files truncated anywhere are refused", cut_anywhere),
        TEST("parts: any failed allocation or file call is a clean error", any_call_fails),
        TEST("parts: a hostile index is refused", hostile_index),
        TEST("parts: a quantised directory is refused by its method", quantised_directories),
    };
    return RUN(tests);
}

/* Recognises files and directories that are not models: each kind by its bytes, truncated at every
 * byte, without reading beyond; every file call of the check of a directory fails once. */
#include "support.h"

#include "formats/container.h"
#include "formats/recognise.h"

#include <sys/stat.h>

#define BYTES(text) text, sizeof text - 1
#define LFS         "version https://git-lfs.github.com/spec/v1\n"

typedef struct example {
    const char *path, *bytes;
    size_t n;
    size_t min_bytes; /* bytes needed to recognise it */
    weft_status code;
    const char *says;
} example;

/* The name, unused fields, and the magic. */
#define FIELDS32 "................................"
#define TAR      FIELDS32 FIELDS32 FIELDS32 FIELDS32 FIELDS32 FIELDS32 FIELDS32 FIELDS32 ".ustar\0"

static const example examples[] = {
    { "a.gguf", BYTES(LFS "oid sha256:0\nsize 4661211328\n"), sizeof LFS - 1, WEFT_EFORMAT,
      "a Git LFS pointer to a file" },
    { "a.gguf", BYTES("<!doctype HTML>"), 14, WEFT_EFORMAT, "a web page" },
    { "a.gguf", BYTES("\xEF\xBB\xBF \r\n<HTML>"), 11, WEFT_EFORMAT, "a web page" },
    { "a", BYTES("PK\3\4..........................archive/data.pkl"), 46, WEFT_EUNSUPPORTED,
      "PyTorch pickle" },
    { "a.pt", BYTES("PK\3\4"), 4, WEFT_EUNSUPPORTED, "PyTorch pickle" },
    { "a.pth", BYTES("PK\3\4"), 4, WEFT_EUNSUPPORTED, "PyTorch pickle" },
    { "a.bin", BYTES("PK\3\4"), 4, WEFT_EUNSUPPORTED, "PyTorch pickle" },
    { "a.ckpt", BYTES("PK\3\4"), 4, WEFT_EUNSUPPORTED, "PyTorch pickle" },
    { "a", BYTES("\x80\4\x95"), 3, WEFT_EUNSUPPORTED, "PyTorch pickle" },
    { "a.zip", BYTES("PK\3\4"), 4, WEFT_EUNSUPPORTED, "a zip archive" },
    { "a.gz", BYTES("\x1F\x8B"), 2, WEFT_EUNSUPPORTED, "a compressed file" },
    { "a.tar", BYTES(TAR), 263, WEFT_EUNSUPPORTED, "a tar archive" },
    { "a.zst", BYTES("\x28\xB5\x2F\xFD"), 4, WEFT_EUNSUPPORTED, "decompress it first" },
    { "a.xz", BYTES("\xFD\x37\x7A\x58\x5A"), 5, WEFT_EUNSUPPORTED, "decompress it first" },
    { "a.bz2", BYTES("BZh"), 3, WEFT_EUNSUPPORTED, "decompress it first" },
    { "a.7z", BYTES("7z\xBC\xAF\x27\x1C"), 6, WEFT_EUNSUPPORTED, "decompress it first" },
    { "a", BYTES("lmgg"), 4, WEFT_EUNSUPPORTED, "a GGML file from before GGUF" },
    { "a", BYTES("fmgg"), 4, WEFT_EUNSUPPORTED, "a GGML file from before GGUF" },
    { "a", BYTES("tjgg"), 4, WEFT_EUNSUPPORTED, "a GGML file from before GGUF" },
    { "a", BYTES("algg"), 4, WEFT_EUNSUPPORTED, "a GGML file from before GGUF" },
    { "a.onnx", BYTES("?"), 0, WEFT_EUNSUPPORTED, "an ONNX graph" },
    { "a", BYTES("\10\7\22\7pytorch"), 5, WEFT_EUNSUPPORTED, "an ONNX graph" },
    { "a", BYTES("\x89HDF\r\n\x1A\n"), 8, WEFT_EUNSUPPORTED, "an HDF5 file" },
};

/* In memory of its exact size, so that a sanitizer reports an overrun. */
static weft_status known(const example *x, size_t n, weft_error *err)
{
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, x->bytes, n);
    *err = (weft_error){ 0 };
    const weft_status status = recognise_known(x->path, exact, n, EXPECT_MODEL, err);
    weft_error other = { 0 };
    assert_true(recognise(x->path, exact, n, EXPECT_MODEL, &other) != WEFT_OK);
    assert_non_null(strstr(other.message, "; expected a GGUF file or a directory with config"));
    free(exact);
    return status;
}

static void kinds(void **state)
{
    (void)state;
    weft_error err;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *x = &examples[i];
        for (size_t n = 0; n <= x->n; n++) {
            const weft_status status = known(x, n, &err),
                              want = n < x->min_bytes ? WEFT_OK : x->code;
            const bool other = strcmp(x->path, "a") == 0 && n >= 4 && n < x->min_bytes &&
                               status == WEFT_EUNSUPPORTED; /* a zip, until the name is complete */
            if (status != want && !other)
                fail_msg("%s: with %zu of %zu bytes %d \"%s\"", x->says, n, x->n, (int)status,
                         err.message);
            if (n >= x->min_bytes)
                assert_non_null(strstr(err.message, x->says));
        }
    }
}

/* Files that weft reads are not mistaken for others. */
static void readable(void **state)
{
    (void)state;
    static const example fine[] = {
        { "m.gguf", BYTES("GGUF\3\0\0\0"), 0, WEFT_OK, "" },
        { "m.safetensors", BYTES("\2\0\0\0\0\0\0\0{}"), 0, WEFT_OK, "" },
        { "tokenizer.model", BYTES("\12\16\12\5<unk>\25\0\0\0\0\30\2"), 0, WEFT_OK, "" },
        { "tokenizer.bin", BYTES("\33\0\0\0\0\0\0\0"), 0, WEFT_OK, "" },
        { "tokenizer.bin", BYTES("\x80\2\0\0"), 0, WEFT_OK, "" },
        { "tokenizer.bin", BYTES("\x80\1\1\1"), 0, WEFT_OK, "" },
        { "tokenizer.bin", BYTES("\x80\6\1\1"), 0, WEFT_OK, "" },
        { "tokenizer.bin", BYTES("\10\41\22\7pytorch"), 0, WEFT_OK, "" },
        { "tokenizer.bin", BYTES("\10\7\22\0pytorch"), 0, WEFT_OK, "" },
        { "vocab.txt", BYTES("[PAD]\n[unused0]\n"), 0, WEFT_OK, "" },
        { "qwen.tiktoken", BYTES("IQ== 0\nIg== 1\n"), 0, WEFT_OK, "" },
        { "tokenizer.json", BYTES("{\"version\": \"1.0\"}"), 0, WEFT_OK, "" },
        { "tokenizer.json", BYTES("version https://git-lfs.github.com/spec/v2\n"), 0, WEFT_OK, "" },
    };
    weft_error err;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        for (size_t n = 0; n <= fine[i].n; n++)
            if (known(&fine[i], n, &err) != WEFT_OK)
                fail_msg("%s", err.message);
}

/* A tar has its magic in the middle of its first block. */
static void tar(void **state)
{
    (void)state;
    char block[512] = "model/config.json";
    weft_error err;
    memcpy(&block[257], "ustar", 5);
    const example whole = { "a.tar", block, sizeof block, 263, WEFT_EUNSUPPORTED, "" };
    for (size_t n = 250; n <= sizeof block; n++)
        assert_int_equal(known(&whole, n, &err), n < whole.min_bytes ? WEFT_OK : whole.code);
    block[260] = 'A';
    assert_int_equal(known(&whole, sizeof block, &err), WEFT_OK);
}

static void says(const char *path, const char *bytes, size_t n, const char *sentence)
{
    weft_error err = { 0 };
    recognise(path, (const uint8_t *)bytes, n, "X", &err);
    assert_string_equal(err.message, sentence);
}

/* Only printable characters of a file reach the terminal. */
static void quotes(void **state)
{
    (void)state;
    says("a", BYTES("red \033[31m\xC3\xA9\nmore"),
         "a: a text that begins with \"red ?[31m??\"; expected X; check the path, or download the "
         "file "
         "again");
    says("a", BYTES("zero\0"),
         "a: an unknown kind of file; expected X; check the path, or download the file again");
    says("a", BYTES(LFS "size 4661211328\n"),
         "a: a Git LFS pointer to a file of 4.7 GB; expected X; run \"git lfs pull\" in the clone, "
         "or "
         "download the file itself");
    says("a", BYTES(LFS "size -1\n"),
         "a: a Git LFS pointer to a file; expected X; run \"git lfs pull\" in the "
         "clone, or download the file itself");
    char digits[1024] = LFS "size ";
    memset(digits + strlen(digits), '9', 900); /* longer than any number: reading stops */
    weft_error err = { 0 };
    assert_int_equal(recognise("a", (const uint8_t *)digits, 900, "X", &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "a Git LFS pointer to a file; expected"));
}

/* ---- directories ----------------------------------------------------------------------------- */

static const char *directory(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", temp_path(name));
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static weft_status try_directory(const char *path, host *h, weft_error *err)
{
    container c;
    *err = (weft_error){ 0 };
    const weft_status status = container_open(&c, path, WEFT_LOAD_COPY, h, err);
    assert_true(status != WEFT_OK && err->message[0]);
    return status;
}

/* Counts all names and shows the first three, sorted. */
static void names(void **state)
{
    (void)state;
    static const char *const files[] = { "d/m.gguf",
                                         "d/c.gguf",
                                         "d/z.gguf",
                                         "d/b.gguf",
                                         "d/x-00002-of-00003.gguf",
                                         "d/x-00001-of-00003.gguf" };
    host h;
    weft_error err;
    host_plain(&h);
    const char *path = directory("d");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        temp_file(files[i], "", 0);
    assert_int_equal(try_directory(path, &h, &err), WEFT_EIO);
    assert_non_null(
        strstr(err.message, "give one of the files: b.gguf, c.gguf, m.gguf and 2 more"));
    temp_file("d/config.json", "{}", 2);
    assert_int_equal(try_directory(path, &h, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "no model.safetensors, but GGUF files"));
}

/* Contents of directories that are not models, each with its message. */
static void listings(void **state)
{
    (void)state;
    static const struct {
        const char *files[4]; /* a name that ends in "/" is a directory */
        weft_status code;
        const char *says;
    } cases[] = {
        { { NULL }, WEFT_EIO, "an empty directory" },
        { { "notes.txt" }, WEFT_EIO, "a directory without config.json" },
        { { "snapshots/", "blobs/", "refs/" }, WEFT_EIO, "an entry of the Hugging Face cache" },
        { { "snapshots/" }, WEFT_EIO, "a directory without config.json" },
        { { "adapter_config.json", "z" }, WEFT_EUNSUPPORTED, "an adapter (adapter_config.json)" },
        { { "a.safetensors" }, WEFT_EIO, "weights without config.json; expected both" },
        { { "-of-.gguf" }, WEFT_EIO, "give one of the files: -of-.gguf" },
        { { "x100002-of-2.gguf" }, WEFT_EIO, "give one of the files: x100002-of-2.gguf" },
        { { "x-00002-of-2.gguf" }, WEFT_EIO, "a directory without config.json" },
        { { "config.json" }, WEFT_EIO, "config.json without weights" },
        { { "config.json", "b.safetensors", "a.safetensors" },
          WEFT_EIO,
          "weights in a.safetensors, b.safetensors; expected model.safetensors, or" },
        { { "config.json", "a.bin" },
          WEFT_EUNSUPPORTED,
          "PyTorch pickles, which can run code (a.bin)" },
        { { "config.json", "a.pt", "b.pth", "c.ckpt" },
          WEFT_EUNSUPPORTED,
          "pickles, which can run code (a.pt, b.pth, c.ckpt)" },
        { { "config.json", "a.onnx", "b.h5", "c.msgpack" },
          WEFT_EUNSUPPORTED,
          "weights only in an unsupported format (a.onnx, b.h5, c.msgpack); expected "
          "model.safetensors; download that" },
        { { "config.json", "a.ot" },
          WEFT_EUNSUPPORTED,
          "weights only in an unsupported format (a.ot); expected model.safetensors; download "
          "that" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64], path[1024];
        host h;
        weft_error err;
        host_plain(&h);
        snprintf(name, sizeof name, "list%zu", i);
        snprintf(path, sizeof path, "%s", directory(name));
        for (int k = 0; k < 4 && cases[i].files[k]; k++) {
            snprintf(name, sizeof name, "list%zu/%s", i, cases[i].files[k]);
            if (name[strlen(name) - 1] == '/')
                directory(name);
            else
                temp_file(name, "{}", 2);
        }
        if (try_directory(path, &h, &err) != cases[i].code || !strstr(err.message, cases[i].says))
            fail_msg("\"%s\", expected \"%s\"", err.message, cases[i].says);
    }
}

/* Three names of the maximum length are truncated to the buffer. */
static void long_listing(void **state)
{
    (void)state;
    host h;
    weft_error err;
    char path[1024], name[300];
    host_plain(&h);
    snprintf(path, sizeof path, "%s", directory("long"));
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "long/%d%0200d.gguf", i, 0);
        temp_file(name, "", 0);
    }
    assert_int_equal(try_directory(path, &h, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "give one of the files: 0000"));
}

static void faults_in_directories(void **state)
{
    (void)state;
    const char *path = directory("faulty");
    temp_file("faulty/config.json", "{}", 2);
    for (int64_t k = 1;; k++) {
        faults memory = { .fail_at = k }, io = { .fail_at = k };
        host h;
        weft_error err;
        host_faulty(&h, &memory, NULL);
        try_directory(path, &h, &err);
        assert_true(memory.live == 0 && atomic_load(&h.mem.used) == 0);
        host_faulty(&h, NULL, &io);
        try_directory(path, &h, &err);
        assert_int_equal(io.live, 0);
        if (memory.calls < k && io.calls < k)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("recognise: each kind by its first bytes, truncated at every byte", kinds),
        TEST("recognise: files that weft reads are not mistaken for others", readable),
        TEST("recognise: a tar by the middle of its first block", tar),
        TEST("recognise: messages contain printable characters only", quotes),
        TEST("recognise: a directory of GGUF files names the first three", names),
        TEST("recognise: names the files that a directory lacks", listings),
        TEST("recognise: names that are too long to be shown are truncated", long_listing),
        TEST("recognise: a failed call gives an error and leaves nothing", faults_in_directories),
    };
    return RUN(tests);
}

/* Models by name: edge cases of names, references, tags and manifests. test_stores.c has the stores
 * themselves. */
#include "support.h"

#include "formats/find.h"

#define HEX  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TYPE "application/vnd.ollama.image.model"

/* ---- names ----------------------------------------------------------------------------------- */

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good, hf;
        const char *name, *tag;
    } cases[] = {
        { "smollm2", true, false, "smollm2", "" },
        { "llama3.2:1b", true, false, "llama3.2", "1b" },
        { "org/name:Q4_K_M", true, false, "org/name", "Q4_K_M" },
        { "hf.co/org/name", true, true, "org/name", "" },
        { "HF.CO/org/name:a.gguf", true, true, "org/name", "a.gguf" },
        { "huggingface.co/gpt2", true, true, "gpt2", "" },
        { "a/b/c", true, false, "a/b/c", "" },
        { "a/b/c/d", false, false, "", "" },
        { "", false, false, "", "" },
        { ":", false, false, "", "" },
        { "a:", false, false, "", "" },
        { "a:b:c", false, false, "", "" },
        { "a:b/c", false, false, "", "" },
        { "a:..", false, false, "", "" },
        { "a:../b", false, false, "", "" },
        { "..", false, false, "", "" },
        { ".", false, false, "", "" },
        { "../a", false, false, "", "" },
        { "a/../b", false, false, "", "" },
        { "a/..", false, false, "", "" },
        { "a//b", false, false, "", "" },
        { "/a", false, false, "", "" },
        { "a/", false, false, "", "" },
        { "hf.co/", false, false, "", "" },
        { "hf.co/../b", false, false, "", "" },
        { "a b", false, false, "", "" },
        { "a\nb", false, false, "", "" },
        { "a\\b", false, false, "", "" },
        { "a\x7F", false, false, "", "" },
        { "a\xFF", false, false, "", "" },
        { "\xC3\xA9", true, false, "\xC3\xA9", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wanted w;
        if (wanted_parse(&w, cases[i].text) != cases[i].good)
            fail_msg("\"%s\" is %s", cases[i].text, cases[i].good ? "refused" : "a name");
        if (!cases[i].good)
            continue;
        assert_true(w.hf == cases[i].hf);
        assert_string_equal(w.name, cases[i].name);
        assert_string_equal(w.tag, cases[i].tag);
    }
}

/* Of any length, with and without a tag: no name is longer than a file name, and none is
 * truncated. */
static void long_names(void **state)
{
    (void)state;
    for (size_t n = 1; n < 1200; n++) {
        char text[2500] = "";
        wanted w;
        memset(text, 'a', n);
        assert_int_equal(wanted_parse(&w, text), n <= 255);
        text[n] = ':';
        memset(text + n + 1, 'b', n);
        assert_int_equal(wanted_parse(&w, text), n <= 255);
        if (n <= 255)
            assert_true(strlen(w.name) == n && strlen(w.tag) == n);
        memmove(text, "b:", 2);
        memset(text + 2, 'a', n);
        text[n + 2] = '\0';
        assert_int_equal(wanted_parse(&w, text), n <= 255);
    }
}

static void references(void **state)
{
    (void)state;
    char to[8];
    const struct {
        const char *text;
        size_t n;
        const char *ref; /* NULL: refused */
    } cases[] = {
        { "0a1b", 4, "0a1b" },
        { "0a1b\n", 5, "0a1b" },
        { "0a \r\n\t", 6, "0a" },
        { "", 0, NULL },
        { "\n", 1, NULL },
        { "a\nb", 3, NULL },
        { "a b", 3, NULL },
        { "..", 2, NULL },
        { ".a", 2, NULL },
        { "a/b", 3, NULL },
        { "/", 1, NULL },
        { "a\0b", 3, NULL },
        { "1234567", 7, "1234567" },
        { "12345678", 8, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *exact = malloc(cases[i].n + 1);
        assert_non_null(exact);
        memcpy(exact, cases[i].text, cases[i].n);
        const bool good = store_ref(exact, cases[i].n, to, sizeof to);
        free(exact);
        if (good != (cases[i].ref != NULL))
            fail_msg("\"%s\" is %s", cases[i].text, good ? "a reference" : "refused");
        if (good)
            assert_string_equal(to, cases[i].ref);
    }
}

static void tags(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "SmolLM2-135M.Q4_K_M.gguf", "Q4_K_M" },
        { "model-q8_0.gguf", "q8_0" },
        { "m-IQ2_XXS.gguf", "IQ2_XXS" },
        { "m-TQ1_0-00001-of-00012.gguf", "TQ1_0" },
        { "m-UD-Q4_K_XL.gguf", "Q4_K_XL" },
        { "Q4_0.gguf", "Q4_0" },
        { "m.BF16.gguf", "BF16" },
        { "m-f32.gguf", "f32" },
        { "m-Q9_0.gguf", "m-Q9_0" },
        { "m-Quick.gguf", "m-Quick" },
        { "m-Q.gguf", "m-Q" },
        { "m-Q0_0.gguf", "m-Q0_0" },
        { "m-Q4/0.gguf", "m-Q4/0" },
        { "m-I.gguf", "m-I" },
        { "m-Q4_0-0000/-of-00012.gguf", "m-Q4_0-0000/-of-00012" },
        { "m-Q4_0-0000a-of-00012.gguf", "m-Q4_0-0000a-of-00012" },
        { "m-.gguf", "m-" },
        { ".gguf", "" },
        { "story.gguf", "story" },
    };
    char tag[64], small[4];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        store_tag(cases[i][0], tag, sizeof tag);
        assert_string_equal(tag, cases[i][1]);
        store_tag(cases[i][0], small, sizeof small);
        assert_true(strlen(small) < sizeof small && strncmp(small, tag, strlen(small)) == 0);
    }
    assert_true(store_is_gguf("a.gguf") && store_is_gguf("a-00001-of-00002.gguf"));
    assert_false(store_is_gguf("a-00002-of-00002.gguf") || store_is_gguf(".gguf"));
    assert_false(store_is_gguf("mmproj-a.gguf") || store_is_gguf("a.gguf.etag"));
    assert_true(store_is_gguf("a-0002-of-00002.gguf") && store_is_gguf("-00002-of-00002.gguf"));
}

/* ---- manifests ------------------------------------------------------------------------------- */

static const char good_manifest[] = "{\"schemaVersion\":2,\"layers\":[{\"mediaType\":\"x\"},7,"
                                    "{\"mediaType\":\"" TYPE "\",\"digest\":\"sha256:" HEX "\"}]}";

/* In memory of its exact size, so that a sanitizer reports an overrun. */
static weft_status parse(const char *text, size_t n, char digest[STORE_DIGEST])
{
    host h;
    weft_error err = { 0 };
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, text, n);
    host_plain(&h);
    const weft_status status = ollama_manifest(exact, n, "manifest", digest, &h, &err);
    free(exact);
    assert_true(status == WEFT_OK || (err.code == status && err.message[0]));
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return status;
}

static void manifests(void **state)
{
    (void)state;
    char digest[STORE_DIGEST] = "";
    const size_t n = sizeof good_manifest - 1;
    assert_int_equal(parse(good_manifest, n, digest), WEFT_OK);
    assert_string_equal(digest, "sha256-" HEX);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(parse(good_manifest, cut, digest), WEFT_EFORMAT);
    assert_int_equal(parse(good_manifest, sizeof good_manifest, digest), WEFT_EFORMAT);
}

/* Each byte of the digest with each value: only 64 hex digits are accepted. */
static void digests(void **state)
{
    (void)state;
    char text[sizeof good_manifest], digest[STORE_DIGEST];
    const size_t at = (size_t)(strstr(good_manifest, "sha256:") - good_manifest);
    for (size_t i = 0; i < 7 + 64; i++)
        for (int c = 0; c < 256; c++) {
            memcpy(text, good_manifest, sizeof text);
            text[at + i] = (char)c;
            memset(digest, 0, sizeof digest);
            const bool same = c == (unsigned char)good_manifest[at + i];
            const bool hex = i >= 7 && c && strchr("0123456789abcdef", c);
            const weft_status status = parse(text, sizeof text - 1, digest);
            assert_true((status == WEFT_OK) == (same || hex));
            if (status == WEFT_OK)
                assert_true(strlen(digest) == 71 && strspn(digest + 7, "0123456789abcdef") == 64);
        }
}

static weft_status layers(const char *list)
{
    char text[2048], digest[STORE_DIGEST];
    const int n = snprintf(text, sizeof text, "{\"layers\":%s}", list);
    return parse(text, (size_t)n, digest);
}

#define LAYER(type)                                                                                \
    "{\"mediaType\":\"application/vnd.ollama.image." type "\",\"digest\":\"sha256:" HEX "\"}"

static void other_layers(void **state)
{
    (void)state;
    assert_int_equal(layers("[" LAYER("model") "]"), WEFT_OK);
    assert_int_equal(layers("[" LAYER("model") "," LAYER("projector") "]"), WEFT_OK);
    assert_int_equal(layers("[" LAYER("model") "," LAYER("adapter") "]"), WEFT_EUNSUPPORTED);
    assert_int_equal(layers("[" LAYER("tensor") "," LAYER("tensor") "]"), WEFT_EUNSUPPORTED);
    assert_int_equal(layers("[" LAYER("model") "," LAYER("model") "]"), WEFT_EFORMAT);
    assert_int_equal(layers("[]"), WEFT_EFORMAT);
    assert_int_equal(layers("{}"), WEFT_EFORMAT);
    assert_int_equal(layers("null"), WEFT_EFORMAT);
    assert_int_equal(layers("[{\"mediaType\":7}]"), WEFT_EFORMAT);
    assert_int_equal(layers("[{\"mediaType\":\"" TYPE "\"}]"), WEFT_EFORMAT);
    assert_int_equal(layers("[{\"mediaType\":\"" TYPE "\",\"digest\":null}]"), WEFT_EFORMAT);
    assert_int_equal(layers("[{\"mediaType\":\"" TYPE "\",\"digest\":[\"sha256:" HEX "\"]}]"),
                     WEFT_EFORMAT);
    assert_int_equal(layers("[{\"mediaType\":\"" TYPE "\\u0000\",\"digest\":\"sha256:" HEX "\"}]"),
                     WEFT_EFORMAT);
}

/* The maximum number of layers and bytes, and one more. */
static void limits(void **state)
{
    (void)state;
    char digest[STORE_DIGEST];
    const size_t room = STORE_MAX_MANIFEST + 1;
    char *text = malloc(room);
    assert_non_null(text);
    memset(text, ' ', room);
    memcpy(text, good_manifest, sizeof good_manifest - 1);
    assert_int_equal(parse(text, STORE_MAX_MANIFEST, digest), WEFT_OK);
    assert_int_equal(parse(text, room, digest), WEFT_EFORMAT);
    for (int n = 1023; n <= 1025; n++) {
        size_t at = (size_t)sprintf(text, "{\"layers\":[" LAYER("model"));
        for (int i = 1; i < n; i++)
            at += (size_t)sprintf(text + at, ",0");
        at += (size_t)sprintf(text + at, "]}");
        assert_int_equal(parse(text, at, digest), n <= 1024 ? WEFT_OK : WEFT_EFORMAT);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("find: names are never paths", names),
        TEST("find: long names are refused, not truncated", long_names),
        TEST("find: refs/main names one directory", references),
        TEST("find: tags are types or file names", tags),
        TEST("find: a manifest truncated at any byte is refused", manifests),
        TEST("find: a digest is 64 digits and nothing else", digests),
        TEST("find: layers of other types, or too many of one", other_layers),
        TEST("find: limits of manifests", limits),
    };
    return RUN(tests);
}

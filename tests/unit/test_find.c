/* Models by name: names, references, tags and manifests at their edges; made-up stores; every call that
 * can fail fails once. The program's side is tests/cli/cases/models.sh. */
#include "support.h"

#include "formats/find.h"

#include <sys/stat.h>
#include <unistd.h>

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

/* Of any length, with and without a tag: no name is longer than a file's, and none is cut. */
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
        { "m-I.gguf", "m-I" },
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

/* In memory of exactly its size, so that a sanitizer sees one byte too many. */
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

/* Each byte of the digest with each value: what passes is a name of 64 digits. */
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

/* As many layers and bytes as are read, and one more. */
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

/* ---- stores ---------------------------------------------------------------------------------- */

static void make_directory(const char *name)
{
    assert_int_equal(mkdir(temp_path(name), 0700), 0);
}

static store stores[4];

/* One model and one that is broken in each. */
static void make_stores(void)
{
    static char path[4][1024];
    static bool made;
    static const char *const roots[] = { "own", "hub", "llama", "ollama" };
    for (int i = 0; i < 4; i++) {
        snprintf(path[i], sizeof path[i], "%s", temp_path(roots[i]));
        stores[i] = (store){ (store_kind)i, path[i] };
        if (!made)
            make_directory(roots[i]);
    }
    if (made)
        return;
    made = true;
    static const char *const dirs[] = {
        "own/org",
        "own/org/deep",
        "hub/models--org--name",
        "hub/models--org--name/refs",
        "hub/models--org--name/snapshots",
        "hub/models--org--name/snapshots/1a",
        "hub/models--org--broken",
        "ollama/blobs",
        "ollama/manifests",
        "ollama/manifests/registry.ollama.ai",
        "ollama/manifests/registry.ollama.ai/library",
        "ollama/manifests/registry.ollama.ai/library/small",
    };
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        make_directory(dirs[i]);
    temp_file("own/plain.gguf", "", 0);
    temp_file("own/org/deep/deep-Q4_0.gguf", "", 0);
    temp_file("hub/models--org--name/refs/main", "1a\n", 3);
    temp_file("hub/models--org--name/snapshots/1a/x-Q4_0.gguf", "", 0);
    temp_file("hub/models--org--name/snapshots/1a/x-Q8_0.gguf", "", 0);
    temp_file("llama/org_cached_c-Q4_0.gguf", "", 0);
    temp_file("ollama/blobs/sha256-" HEX, "", 0);
    temp_file("ollama/manifests/registry.ollama.ai/library/small/1b", good_manifest,
              sizeof good_manifest - 1);
    temp_file("ollama/manifests/registry.ollama.ai/library/small/bad", "{", 1);
}

static weft_status find(const char *name, host *h, char path[STORE_MAX_PATH], weft_error *err)
{
    *err = (weft_error){ 0 };
    return find_model(name, stores, 4, h, path, STORE_MAX_PATH, NULL, NULL, err);
}

static const char *const findable[][2] = {
    { "plain", "own/plain.gguf" },
    { "PLAIN.gguf", "own/plain.gguf" },
    { "org/deep", "own/org/deep/deep-Q4_0.gguf" },
    { "deep:q4_0", "own/org/deep/deep-Q4_0.gguf" },
    { "org/deep/deep-Q4_0.gguf", "own/org/deep/deep-Q4_0.gguf" },
    { "hf.co/org/name:q8_0", "hub/models--org--name/snapshots/1a/x-Q8_0.gguf" },
    { "name:x-q4_0", "hub/models--org--name/snapshots/1a/x-Q4_0.gguf" },
    { "org/cached", "llama/org_cached_c-Q4_0.gguf" },
    { "hf.co/org/cached:Q4_0", "llama/org_cached_c-Q4_0.gguf" },
    { "small:1b", "ollama/blobs/sha256-" HEX },
};

static void finds(void **state)
{
    (void)state;
    host h;
    weft_error err;
    char path[STORE_MAX_PATH], tight[8];
    make_stores();
    host_plain(&h);
    for (size_t i = 0; i < sizeof findable / sizeof *findable; i++) {
        if (find(findable[i][0], &h, path, &err) != WEFT_OK)
            fail_msg("%s: %s", findable[i][0], err.message);
        assert_string_equal(path, temp_path(findable[i][1]));
    }
    static const struct {
        const char *name;
        weft_status code;
        const char *says;
    } refused[] = {
        { "nothing", WEFT_EIO, "neither a file or directory nor a model" },
        { "hf.co/plain", WEFT_EIO, "neither a file" },
        { "hf.co/name", WEFT_EIO, "neither a file" },
        { "hf.co/cached", WEFT_EIO, "neither a file" },
        { "other/name", WEFT_EIO, "neither a file" },
        { "org/name", WEFT_EINVAL, "2 models in" },
        { "org/name:Q5_0", WEFT_EINVAL, "give one of org/name:Q4_0, org/name:Q8_0" },
        { "org/broken", WEFT_EIO, "it has no refs/main" },
        { "small:bad", WEFT_EIO, "but line 1 column 1" },
        { "../own/plain.gguf", WEFT_EINVAL, "not a name" },
        { "small:../1b", WEFT_EINVAL, "not a name" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (find(refused[i].name, &h, path, &err) != refused[i].code ||
            !strstr(err.message, refused[i].says))
            fail_msg("%s: %d \"%s\"", refused[i].name, (int)err.code, err.message);
    assert_int_equal(find("small", &h, path, &err), WEFT_OK); /* the other is broken */
    err = (weft_error){ 0 };
    assert_int_equal(find_model("plain", stores, 4, &h, tight, sizeof tight, NULL, NULL, &err),
                     WEFT_EINVAL);
    assert_non_null(strstr(err.message, "there is room for 7"));
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* A model that is found is found by the name under which it is listed. */
typedef struct walked {
    int n, n_problem;
} walked;

static bool find_again(void *ud, const store *s, const store_model *m)
{
    walked *w = ud;
    host h;
    weft_error err;
    char name[512], path[STORE_MAX_PATH];
    host_plain(&h);
    w->n++;
    w->n_problem += m->problem != NULL;
    snprintf(name, sizeof name, "%s%s%s", m->name, m->tag[0] ? ":" : "", m->tag);
    const weft_status status = find(name, &h, path, &err);
    if ((status == WEFT_OK) != (m->problem == NULL) || (!m->problem && strcmp(path, m->path) != 0))
        fail_msg("%s in %s: %s", name, s->path, err.message);
    return true;
}

static void lists(void **state)
{
    (void)state;
    host h;
    weft_error err = { 0 };
    walked w = { 0 };
    make_stores();
    host_plain(&h);
    for (int i = 0; i < 4; i++)
        assert_int_equal(store_each(&stores[i], &h, find_again, &w, &err), WEFT_OK);
    assert_int_equal(w.n, 8);
    assert_int_equal(w.n_problem, 2);
}

static bool stop_at_first(void *ud, const store *s, const store_model *m)
{
    (void)s, (void)m;
    ++*(int *)ud;
    return false;
}

static void stops(void **state)
{
    (void)state;
    host h;
    weft_error err = { 0 };
    make_stores();
    host_plain(&h);
    for (int i = 0; i < 4; i++) {
        int n = 0;
        assert_int_equal(store_each(&stores[i], &h, stop_at_first, &n, &err), WEFT_OK);
        assert_int_equal(n, 1);
    }
}

/* The path of the model or an error, and nothing left behind; what was refused memory says so. */
static void faults_everywhere(void **state)
{
    (void)state;
    char path[STORE_MAX_PATH];
    make_stores();
    for (size_t i = 0; i < sizeof findable / sizeof *findable; i++)
        for (int64_t k = 1;; k++) {
            faults memory = { .fail_at = k }, io = { .fail_at = k };
            host h;
            weft_error err;
            host_faulty(&h, &memory, NULL);
            h.mem.hooks.chunk = 1;
            const weft_status status = find(findable[i][0], &h, path, &err);
            assert_true(memory.calls < k ? status == WEFT_OK : status == WEFT_ENOMEM);
            assert_true(memory.live == 0 && atomic_load(&h.mem.used) == 0);
            host_faulty(&h, NULL, &io);
            char there[256]; /* what cannot be looked at may be there: its opener will tell */
            snprintf(there, sizeof there, "own/%s", findable[i][0]);
            if (find(findable[i][0], &h, path, &err) == WEFT_OK)
                assert_true(strcmp(path, temp_path(findable[i][1])) == 0 ||
                            (io.calls >= k && strcmp(path, temp_path(there)) == 0));
            else
                assert_true(err.message[0] && io.calls >= k);
            assert_int_equal(io.live, 0);
            if (memory.calls < k && io.calls < k)
                break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("find: names are names, and never paths", names),
        TEST("find: long names are refused, not cut", long_names),
        TEST("find: refs/main names one directory", references),
        TEST("find: tags are types or names of files", tags),
        TEST("find: a manifest that is cut at any byte is refused", manifests),
        TEST("find: a digest is 64 digits and nothing else", digests),
        TEST("find: layers of other types, or too many of one", other_layers),
        TEST("find: limits of manifests", limits),
        TEST("find: by name, by organisation, by tag, by file", finds),
        TEST("find: what is listed is found", lists),
        TEST("find: a walk stops when it is told to", stops),
        TEST("find: every call that fails gives an error, and leaves nothing", faults_everywhere),
    };
    return RUN(tests);
}

/* Models by name in test stores, complete and broken; every call that can fail fails once.
 * test_find.c has names and manifests, tests/cli/cases/models.sh the program's side. */
#include "support.h"

#include "formats/find.h"

#include <sys/stat.h>
#include <unistd.h>

#define HEX  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TYPE "application/vnd.ollama.image.model"

static const char good_manifest[] = "{\"schemaVersion\":2,\"layers\":[{\"mediaType\":\"x\"},7,"
                                    "{\"mediaType\":\"" TYPE "\",\"digest\":\"sha256:" HEX "\"}]}";

/* Creates all parent directories, then the file. */
static void put(const char *name, const char *text)
{
    char dir[1024];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - name), name);
        mkdir(temp_path(dir), 0700);
    }
    if (name[strlen(name) - 1] != '/')
        temp_file(name, text, strlen(text));
}

/* One valid and one broken model in each. */
static store stores[4];

static void make_stores(void)
{
    static char path[4][1024];
    static const char *const roots[] = { "own", "hub", "llama", "ollama" };
    for (int i = 0; i < 4; i++) {
        snprintf(path[i], sizeof path[i], "%s", temp_path(roots[i]));
        stores[i] = (store){ (store_kind)i, path[i] };
    }
    put("own/plain.gguf", "");
    put("own/org/deep/deep-Q4_0.gguf", "");
    put("hub/models--org--name/refs/main", "1a\n");
    put("hub/models--org--name/snapshots/1a/x-Q4_0.gguf", "");
    put("hub/models--org--name/snapshots/1a/x-Q8_0.gguf", "");
    put("hub/models--org--broken/", "");
    put("llama/org_cached_c-Q4_0.gguf", "");
    put("ollama/blobs/sha256-" HEX, "");
    put("ollama/manifests/registry.ollama.ai/library/small/1b", good_manifest);
    put("ollama/manifests/registry.ollama.ai/library/small/bad", "{");
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
        { "nothing", WEFT_EIO, "no such file" },
        { "hf.co/plain", WEFT_EIO, "no such file" },
        { "hf.co/name", WEFT_EIO, "no such file" },
        { "hf.co/cached", WEFT_EIO, "no such file" },
        { "other/name", WEFT_EIO, "no such file" },
        { "org/name", WEFT_EINVAL, "matches 2 models in" },
        { "org/name:Q5_0", WEFT_EINVAL, "give one of org/name:Q4_0, org/name:Q8_0" },
        { "org/broken", WEFT_EIO, "it has no refs/main" },
        { "small:bad", WEFT_EIO, "but line 1 column 1" },
        { "../own/plain.gguf", WEFT_EINVAL, "not a model name" },
        { "small:../1b", WEFT_EINVAL, "not a model name" },
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

/* A listed model is found by its listed name. */
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

/* ---- stores as programs leave them ------------------------------------------------------------ */

#define LIBRARY "o2/manifests/registry.ollama.ai/library/"
#define ABSENT  "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void make_odd_stores(store odd[4])
{
    static char path[4][1024], large[STORE_MAX_MANIFEST + 2];
    static const char *const roots[] = { "d2", "h2", "l2", "o2" };
    static const char *const files[][2] = {
        { "d2/whole/config.json", "{}" },
        { "d2/whole/model.safetensors", "" },
        { "d2/parts/config.json", "{}" },
        { "d2/parts/model.safetensors.index.json", "{}" },
        { "d2/bare/config.json", "{}" },
        { "d2/org/whole/config.json", "{}" },
        { "d2/org/whole/model.safetensors", "" },
        { "d2/notes.txt", "" },
        { "h2/version.txt", "1" },
        { "h2/models----x/refs/main", "1" },
        { "h2/models--x--/refs/main", "1" },
        { "h2/models--gpt2/refs/main", "1" },
        { "h2/models--gpt2/snapshots/1/config.json", "{}" },
        { "h2/models--gpt2/snapshots/1/model.safetensors", "" },
        { "h2/models--o--only/snapshots/1/only-Q8_0.gguf", "" },
        { "h2/models--o--two/snapshots/1/two.gguf", "" },
        { "h2/models--o--two/snapshots/2/two.gguf", "" },
        { "h2/models--o--gone/refs/main", "1" },
        { "h2/models--o--path/refs/main", "../../x" },
        { "h2/models--o--none/refs/main", "1" },
        { "h2/models--o--none/snapshots/1/README.md", "" },
        { "h2/models--o--deep/refs/main", "1" },
        { "h2/models--o--deep/snapshots/1/README.md", "" },
        { "h2/models--o--deep/snapshots/1/Q8_0/d-Q8_0-00001-of-00002.gguf", "" },
        { "h2/models--o--deep/snapshots/1/Q8_0/d-Q8_0-00002-of-00002.gguf", "" },
        { "l2/org_far_f-Q4_0.gguf", "" },
        { "l2/org_far_f-Q4_0.gguf.json", "{}" },
        { "l2/own.gguf", "" },
        { "o2/blobs/sha256-" HEX, "" },
        { LIBRARY "tiny/latest", good_manifest },
        { LIBRARY "tiny/other", good_manifest },
        { LIBRARY "lost/latest",
          "{\"layers\":[{\"mediaType\":\"" TYPE "\",\"digest\":\"sha256:" ABSENT "\"}]}" },
        { LIBRARY "large/latest", large },
        { "o2/manifests/registry.ollama.ai/user/mine/latest", good_manifest },
        { "o2/manifests/hf.co/org/gg/Q4_0", good_manifest },
    };
    memset(large, ' ', STORE_MAX_MANIFEST + 1);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put(files[i][0], files[i][1]);
    for (int i = 0; i < 4; i++) {
        snprintf(path[i], sizeof path[i], "%s", temp_path(roots[i]));
        odd[i] = (store){ (store_kind)i, path[i] };
    }
    unlink(temp_path("d2/link.gguf"));
    assert_int_equal(symlink("nowhere", temp_path("d2/link.gguf")), 0);
}

static void finds_in_odd_stores(void **state)
{
    (void)state;
    static const struct {
        const char *name, *path; /* or NULL and the message */
        const char *says;
    } cases[] = {
        { "whole", "d2/whole", NULL },
        { "org/whole", "d2/org/whole", NULL },
        { "parts", "d2/parts", NULL },
        { "bare", NULL, "no such file" },
        { "link", NULL, "its file is a broken link" },
        { "gpt2", "h2/models--gpt2/snapshots/1", NULL },
        { "hf.co/gpt2", "h2/models--gpt2/snapshots/1", NULL },
        { "o/only", "h2/models--o--only/snapshots/1/only-Q8_0.gguf", NULL },
        { "o/only:only-Q8_0.gguf", "h2/models--o--only/snapshots/1/only-Q8_0.gguf", NULL },
        { "o/only:only", NULL, "but not with this tag; give one of o/only:Q8_0" },
        { "o/two", NULL, "it has no refs/main, and no single snapshot" },
        { "o/gone", NULL, "the snapshot named by refs/main is missing" },
        { "o/path", NULL, "refs/main does not name a snapshot" },
        { "o/none", NULL, "neither config.json and model.safetensors nor a GGUF file" },
        { "o/deep", "h2/models--o--deep/snapshots/1/Q8_0/d-Q8_0-00001-of-00002.gguf", NULL },
        { "far", "l2/org_far_f-Q4_0.gguf", NULL },
        { "far:Q4_0", "l2/org_far_f-Q4_0.gguf", NULL },
        { "own", "l2/own.gguf", NULL },
        { "own.gguf", "l2/own.gguf", NULL },
        { "tiny", "o2/blobs/sha256-" HEX, NULL },
        { "tiny:other", "o2/blobs/sha256-" HEX, NULL },
        { "lost", NULL, "its weights are missing" },
        { "large", NULL, "a manifest of 1048577 bytes; expected at most" },
        { "user/mine", "o2/blobs/sha256-" HEX, NULL },
        { "hf.co/org/gg:Q4_0", "o2/blobs/sha256-" HEX, NULL },
        { "hf.co/tiny", NULL, "no such file" },
    };
    store odd[4];
    host h;
    make_odd_stores(odd);
    host_plain(&h);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[STORE_MAX_PATH];
        weft_error err = { 0 };
        const weft_status status = find_model(cases[i].name, odd, 4, &h, path, sizeof path, NULL,
                                              NULL, &err);
        if ((status == WEFT_OK) != (cases[i].path != NULL) ||
            (cases[i].says && !strstr(err.message, cases[i].says)))
            fail_msg("%s: %d \"%s\"", cases[i].name, (int)status, err.message);
        if (cases[i].path)
            assert_string_equal(path, temp_path(cases[i].path));
    }
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* Counts all of one name, though a message has room for a few. */
static void many_of_one_name(void **state)
{
    (void)state;
    char name[400], root[1024], path[STORE_MAX_PATH];
    weft_error err = { 0 };
    host h;
    host_plain(&h);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "d3/many/%0*d-Q4_0.gguf", i == 0 ? 200 : 40, i);
        put(name, "");
    }
    snprintf(root, sizeof root, "%s", temp_path("d3"));
    const store s = { STORE_DIRECTORY, root };
    assert_int_equal(find_model("many:Q4_0", &s, 1, &h, path, sizeof path, NULL, NULL, &err),
                     WEFT_EINVAL);
    assert_non_null(strstr(err.message, "matches 20 models in"));
    assert_non_null(strstr(err.message, " ..."));
}

/* Where it looked, store by store; -hf does not look into the user's own directories. */
static void note_store(void *ud, const store *s, const char *found)
{
    char *text = ud;
    snprintf(&text[strlen(text)], 200 - strlen(text), "%d %s; ", (int)s->kind, found);
}

static void tells_where_it_looked(void **state)
{
    (void)state;
    char noted[200] = "", path[STORE_MAX_PATH];
    weft_error err = { 0 };
    store some[4];
    host h;
    host_plain(&h);
    make_odd_stores(some);
    some[2].path = "/nonexistent";
    assert_int_equal(find_model("no", some, 4, &h, path, sizeof path, note_store, noted, &err),
                     WEFT_EIO);
    assert_string_equal(noted, "0 no model of this name; 1 no model of this name; 2 no such "
                               "directory; 3 no model of this name; ");
    noted[0] = '\0';
    assert_int_equal(
        find_model("hf.co/no", some, 3, &h, path, sizeof path, note_store, noted, &err), WEFT_EIO);
    assert_string_equal(noted, "1 no model of this name; 2 no such directory; ");
}

/* A path without room for another name gives no model, and no truncated path. */
static void long_paths(void **state)
{
    (void)state;
    host h;
    weft_error err = { 0 };
    char root[1024], longer[STORE_MAX_PATH + 64];
    make_odd_stores((store[4]){ { 0 } });
    host_plain(&h);
    snprintf(root, sizeof root, "%s", temp_path("d2"));
    for (size_t n = STORE_MAX_PATH - 40; n < STORE_MAX_PATH + 8; n++) {
        int given = 0;
        memset(longer, '/', sizeof longer); /* the same directory, by a long path */
        memcpy(longer, root, strlen(root));
        longer[n] = '\0';
        const store s = { STORE_DIRECTORY, longer };
        const weft_status status = store_each(&s, &h, stop_at_first, &given, &err);
        assert_true(status == WEFT_OK || status == WEFT_EIO);
    }
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* The model's path or an error, and nothing left behind; a failed allocation is reported. */
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
            char there[256]; /* a path that cannot be inspected may exist: opening it will tell */
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
        TEST("stores: by name, by organisation, by tag, by file", finds),
        TEST("stores: every listed model is found", lists),
        TEST("stores: a walk stops on request", stops),
        TEST("stores: stores of other programs, complete and broken", finds_in_odd_stores),
        TEST("stores: more of one name than a message holds", many_of_one_name),
        TEST("stores: prints where it looked", tells_where_it_looked),
        TEST("stores: paths that are too long", long_paths),
        TEST("stores: every failed call gives an error, and leaves nothing", faults_everywhere),
    };
    return RUN(tests);
}

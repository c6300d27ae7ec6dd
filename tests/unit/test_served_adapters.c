/* test_served_adapters.c - the set of adapters of a server (server/adapters.c): what stays, what is
 * loaded again, and that a load that fails at any allocation leaves the old set. */
#include "support.h"

#include "adapters.h"
#include "lora_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT ((size_t)64 << 20)

typedef struct rig {
    weft_budget *budget;
    serve_model model;
    adapters adapters;
    char list[256];
    char why[1024];
} rig;

static const char *golden(const char *name)
{
    static char path[4][512];
    static int at;
    char *to = path[at++ % 4];
    char inner[128];
    snprintf(inner, sizeof inner, "golden/adapters/%s", name);
    snprintf(to, sizeof path[0], "%s", fixture(inner));
    return to;
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void open_rig(rig *r, serve_lora o)
{
    weft_error err = { 0 };
    *r = (rig){ .budget = weft_budget_new(LIMIT, &err) };
    snprintf(r->list, sizeof r->list, "%s", temp_path("list"));
    put_text(r->list, "");
    o.list = r->list;
    memory_budget = r->budget;
    const weft_model_options m = { .struct_size = sizeof m, .budget = r->budget };
    r->model.model = weft_model_open(fixture("golden/llama-gqa"), &m, &err);
    r->model.name = "base";
    assert_non_null(r->model.model);
    assert_true(adapters_init(&r->adapters, &o));
}

/* Nothing is left, of the server's memory and of the model's. */
static void close_rig(rig *r)
{
    adapters_free(&r->adapters);
    weft_model_close(r->model.model);
    assert_int_equal(atomic_load(&memory_used), 0);
    weft_budget_free(r->budget);
    memory_budget = NULL;
}

static bool load(rig *r)
{
    return adapters_load(&r->adapters, &r->model, r->why, sizeof r->why);
}

static void must_load(rig *r, const char *list)
{
    put_text(r->list, list);
    if (!load(r))
        fail_msg("%s", r->why);
}

static served_adapter *find(rig *r, const char *name)
{
    return adapters_find(&r->adapters, r->model.name, name);
}

static const char *two(void)
{
    static char text[1200];
    snprintf(text, sizeof text, "# ours\n\n  a=%s  \nb=%s:0.5", golden("llama-lora"),
             golden("llama-rslora"));
    return text;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void found_by_name(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, (serve_lora){ 0 });
    must_load(&r, two());
    assert_int_equal(r.adapters.n, 2);
    assert_int_equal(r.adapters.rank, 64);
    served_adapter *a = find(&r, "a"), *full = find(&r, "base:a"), *b = find(&r, "base:b");
    assert_true(a && a == full && b && b != a);
    assert_string_equal(b->full, "base:b");
    assert_true(a->strength == 1 && b->strength == 0.5);
    assert_null(find(&r, "c"));
    assert_null(find(&r, "base:"));
    assert_null(find(&r, "bas:a"));
    assert_null(find(&r, "base"));
    must_load(&r, "");
    assert_null(find(&r, "a"));
    assert_string_equal(a->name, "a"); /* whoever has it keeps it */
    adapter_release(a);
    adapter_release(full);
    adapter_release(b);
    close_rig(&r);
}

static void *load_in_thread(void *ud)
{
    load(ud);
    return NULL;
}

/* Whoever waits for the count finds the new set: it does not change while the set is being replaced. */
static void counted_when_served(void **state)
{
    (void)state;
    rig r;
    pthread_t thread;
    open_rig(&r, (serve_lora){ 0 });
    put_text(r.list, two());
    pthread_mutex_lock(&r.adapters.lock);
    assert_int_equal(pthread_create(&thread, NULL, load_in_thread, &r), 0);
    usleep(300000); /* it waits for the lock by now */
    const long long n = atomic_load(&r.adapters.n_load);
    pthread_mutex_unlock(&r.adapters.lock);
    pthread_join(thread, NULL);
    assert_true(n == 0 && atomic_load(&r.adapters.n_load) == 1 && r.adapters.n == 2);
    close_rig(&r);
}

/* One list for two models: "base:a" is of base, "other:b" of other, and what names none, of the first. */
static void of_their_models(void **state)
{
    (void)state;
    static const serve_spec models[] = { { .name = "base" }, { .name = "other" } };
    const char *const dir = golden("llama-lora");
    rig r;
    char list[2048];
    for (int second = 0; second < 2; second++) {
        open_rig(&r, (serve_lora){ .models = models, .n_model = 2 });
        r.model.name = models[second].name;
        snprintf(list, sizeof list, "base:a=%s\nother:b=%s\nc=%s:0.5\n", dir, dir, dir);
        must_load(&r, list);
        assert_int_equal(r.adapters.n, second ? 1 : 2);
        served_adapter *a = find(&r, "a"), *b = find(&r, "b"), *c = find(&r, "c");
        assert_true(second ? !a && b && !c : a && !b && c);
        assert_string_equal(second ? b->full : a->full, second ? "other:b" : "base:a");
        adapter_release(a);
        adapter_release(b);
        adapter_release(c);
        snprintf(list, sizeof list, "bas:a=%s\n", dir);
        put_text(r.list, list);
        assert_false(load(&r));
        assert_non_null(strstr(r.why, "found the model \"bas\""));
        close_rig(&r);
    }
}

static void split(const char *given, const char *path, double strength)
{
    double found;
    const size_t n = lora_split(given, &found);
    assert_int_equal(n, strlen(path));
    assert_memory_equal(given, path, n);
    assert_true(found == strength);
}

static void paths_and_strengths(void **state)
{
    (void)state;
    split("dir", "dir", 1);
    split("dir:0.5", "dir", 0.5);
    split("dir:-2", "dir", -2);
    split("c:dir", "c:dir", 1);
    split("c:dir:2", "c:dir", 2);
    split("dir:", "dir:", 1);
    split("dir:0.5x", "dir:0.5x", 1);
}

/* ---- what stays ------------------------------------------------------------------------------ */

/* A copy of an adapter that a test may change. */
static const char *own_copy(const char *of, char to[256])
{
    static const char *const names[] = { "adapter_config.json", "adapter_model.safetensors" };
    char from[600], into[600];
    snprintf(to, 256, "%s", temp_path("own"));
    mkdir(to, 0700);
    for (int i = 0; i < 2; i++) {
        static char copy[1 << 20];
        snprintf(from, sizeof from, "%s/%s", golden(of), names[i]);
        snprintf(into, sizeof into, "%s/%s", to, names[i]);
        FILE *f = fopen(from, "r"), *g = fopen(into, "w");
        assert_true(f && g);
        const size_t n = fread(copy, 1, sizeof copy, f);
        assert_int_equal(fwrite(copy, 1, n, g), n);
        fclose(f);
        fclose(g);
    }
    return to;
}

static void only_changes_are_loaded(void **state)
{
    (void)state;
    rig r;
    char own[256], text[1200];
    open_rig(&r, (serve_lora){ 0 });
    own_copy("llama-lora", own);
    snprintf(text, sizeof text, "a=%s\nb=%s\n", golden("llama-lora"), own);
    must_load(&r, text);
    served_adapter *a = find(&r, "a"), *b = find(&r, "b");
    atomic_store(&b->n_request, 7);
    must_load(&r, text);
    served_adapter *same = find(&r, "b");
    assert_ptr_equal(same, b);
    adapter_release(same);
    own_copy("llama-lora", own); /* written again */
    must_load(&r, text);
    served_adapter *again_a = find(&r, "a"), *again_b = find(&r, "b");
    assert_ptr_equal(again_a, a);
    assert_ptr_not_equal(again_b, b);
    assert_int_equal(atomic_load(&again_b->n_request), 7);
    adapter_release(again_b);
    snprintf(text, sizeof text, "a=%s:0.25\nb=%s\n", golden("llama-lora"), own);
    must_load(&r, text);
    again_b = find(&r, "a");
    assert_ptr_not_equal(again_b, a);
    assert_true(again_b->strength == 0.25 && a->strength == 1);
    adapter_release(again_b);
    adapter_release(again_a);
    adapter_release(a);
    adapter_release(b);
    close_rig(&r);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(rig *r, const char *list, const char *says)
{
    served_adapter *before = find(r, "a");
    put_text(r->list, list);
    assert_false(load(r));
    if (!strstr(r->why, says))
        fail_msg("found \"%s\", expected \"%s\"", r->why, says);
    served_adapter *after = find(r, "a");
    assert_ptr_equal(before, after);
    assert_int_equal(r->adapters.n, 2);
    adapter_release(before);
    adapter_release(after);
}

static void wrong_lists(void **state)
{
    (void)state;
    rig r;
    static char text[8192];
    char own[256], path[600];
    const char *lora = golden("llama-lora");
    open_rig(&r, (serve_lora){ .rank = 4 });
    must_load(&r, two());
    assert_int_equal(r.adapters.rank, 4);
    refused(&r, "x\n", "list:1: found \"x\"; expected NAME=DIR");
    refused(&r, "\n\nx y=z\n", "list:3: found the name \"x y\"");
    refused(&r, "=z\n", "found the name \"\"");
    refused(&r, "x=\n", "x: found \"\"; expected DIR");
    refused(&r, "x=y:nan\n", "expected DIR or DIR:STRENGTH");
    refused(&r, "x=/nonexistent\n", "x: /nonexistent");
    snprintf(text, sizeof text, "base=%s\n", lora);
    refused(&r, text, "base is the name of the model");
    snprintf(text, sizeof text, "x=%s\nx=%s\n", lora, lora);
    refused(&r, text, "list:2: the name x is there twice");
    snprintf(text, sizeof text, "x=%s:0.5\n", golden("llama-untied"));
    refused(&r, text, "x: found strength 0.5; expected 0 or 1");
    memset(text, 'x', 5000);
    strcpy(text + 5000, "=y\n");
    refused(&r, text, "a line of more than");
    memset(text, 'x', 65);
    snprintf(text + 65, sizeof text - 65, "=%s\n", lora);
    refused(&r, text, "expected 1 to 64 letters");
    own_copy("llama-lora", own);
    snprintf(path, sizeof path, "%s/chat_template.jinja", own);
    put_text(path, "{{ messages }}");
    snprintf(text, sizeof text, "x=%s\n", own);
    refused(&r, text, "but the model has none; --lora-any-template serves it all the same");
    unlink(path);
    unlink(r.list);
    assert_false(load(&r));
    assert_int_equal(r.adapters.n, 2);
    close_rig(&r);
}

static void large_ranks(void **state)
{
    (void)state;
    rig r;
    char text[600];
    open_rig(&r, (serve_lora){ .rank = 2 });
    must_load(&r, "");
    snprintf(text, sizeof text, "x=%s\n", golden("llama-rslora"));
    put_text(r.list, text);
    assert_false(load(&r));
    assert_non_null(strstr(r.why, "x: found rank 4; the server was started for ranks up to 2"));
    close_rig(&r);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* The old set is there, and nothing of the new one. */
static void check_old(rig *r, const served_adapter *a, size_t used)
{
    served_adapter *now = find(r, "a");
    assert_ptr_equal(now, a);
    assert_int_equal(r->adapters.n, 2);
    assert_null(find(r, "c"));
    assert_int_equal(weft_budget_used(r->budget), used);
    adapter_release(now);
}

/* Every allocation of the server fails in turn. */
static void failed_loads(void **state)
{
    (void)state;
    rig r;
    char text[1200];
    int n = 0;
    open_rig(&r, (serve_lora){ 0 });
    must_load(&r, two());
    served_adapter *a = find(&r, "a");
    snprintf(text, sizeof text, "c=%s\na=%s\n", golden("llama-patterns"), golden("llama-layers"));
    put_text(r.list, text);
    const size_t used = weft_budget_used(r.budget);
    for (long long k = 1;; k++) {
        atomic_store(&memory_fail_at, k);
        const bool good = load(&r);
        const bool failed = atomic_load(&memory_fail_at) < 0;
        atomic_store(&memory_fail_at, 0);
        assert_int_equal(good, !failed);
        if (good)
            break;
        check_old(&r, a, used);
        n++;
    }
    assert_true(n >= 9);
    adapter_release(a);
    close_rig(&r);
}

/* The library's allocations fail, with ever more memory left under the limit. */
static void loads_without_memory(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    char text[1200];
    int n = 0;
    open_rig(&r, (serve_lora){ 0 });
    must_load(&r, two());
    served_adapter *a = find(&r, "a");
    snprintf(text, sizeof text, "c=%s\na=%s\n", golden("llama-patterns"), golden("llama-layers"));
    put_text(r.list, text);
    const size_t used = weft_budget_used(r.budget);
    bool good = false;
    for (size_t left = 0; !good; left += 256) {
        const size_t taken = LIMIT - used - left;
        assert_int_equal(weft_budget_take(r.budget, taken, "a test", &err), WEFT_OK);
        good = load(&r);
        weft_budget_give(r.budget, taken);
        if (good)
            break;
        check_old(&r, a, used);
        n++;
    }
    print_message("%d loads failed, and the old adapters stayed\n", n);
    assert_true(n >= 20);
    adapter_release(a);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("served adapters: each is of the model that its line names", of_their_models),
        TEST("served adapters: found by their names, plain and with the model's", found_by_name),
        TEST("served adapters: a load is counted once its set is served", counted_when_served),
        TEST("served adapters: a path may have colons", paths_and_strengths),
        TEST("served adapters: only what changed is loaded again", only_changes_are_loaded),
        TEST("served adapters: a list that is wrong leaves the old set", wrong_lists),
        TEST("served adapters: a rank above the engine's is refused", large_ranks),
        TEST("served adapters: a load that fails at any allocation leaves the old set",
             failed_loads),
        TEST("served adapters: a load without memory leaves the old set", loads_without_memory),
    };
    return RUN(tests);
}

/* adapters.c - loads adapters and finds them by name; see adapters.h. */
#include "adapters.h"

#include "lora_dir.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES   64
#define LINE_BYTES   4352 /* a name and a path */
#define USUAL_RANK   64   /* of adapters that a list may get later */
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

/* A set on its way. */
typedef struct loading {
    adapters *of;
    const serve_model *model;
    served_adapter *at[MAX_ADAPTERS];
    int n, n_new;
    char *why;
    size_t room;
} loading;

static bool fail(const loading *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(const loading *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(l->why, l->room, format, args);
    va_end(args);
    return false;
}

/* ---- life ------------------------------------------------------------------------------------ */

bool adapters_init(adapters *a, const serve_lora *options)
{
    *a = (adapters){ .options = *options, .rank = -1 };
    return pthread_mutex_init(&a->lock, NULL) == 0;
}

static served_adapter *adapter_hold(served_adapter *one)
{
    atomic_fetch_add(&one->refs, 1);
    return one;
}

void adapter_release(served_adapter *one)
{
    if (!one || atomic_fetch_sub(&one->refs, 1) > 1)
        return;
    weft_adapter_close(one->adapter);
    memory_give(one->name);
    memory_give(one->full);
    memory_give(one->path);
    memory_give(one);
}

static void release_all(served_adapter **at, int n)
{
    for (int i = 0; i < n; i++)
        adapter_release(at[i]);
}

void adapters_free(adapters *a)
{
    release_all(a->at, a->n);
    memory_give(a->at);
    pthread_mutex_destroy(&a->lock);
    *a = (adapters){ 0 };
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Of a file that is an adapter itself, or of those in its directory. */
static void stamp_files(const char *path, file_stamp to[LORA_FILES])
{
    static const char *const names[LORA_FILES] = { "", "/adapter_config.json",
                                                   "/adapter_model.safetensors",
                                                   "/chat_template.jinja",
                                                   "/tokenizer_config.json" };
    for (int i = 0; i < LORA_FILES; i++) {
        char full[LINE_BYTES];
        const int n = snprintf(full, sizeof full, "%s%s", path, names[i]);
        to[i] = n > 0 && n < (int)sizeof full ? stamp_file(full) : (file_stamp){ 0 };
    }
}

/* ---- one adapter ----------------------------------------------------------------------------- */

static char *copy_text(const char *text, size_t n)
{
    char *copy = memory_take(n + 1);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

/* The rank is known to fit, or the engine is not made yet. */
static bool check_adapter(const loading *l, const served_adapter *one)
{
    const adapters *a = l->of;
    const int64_t asked = a->options.rank ? a->options.rank : INT64_MAX;
    const int64_t most = a->rank >= 0 ? a->rank : asked;
    weft_adapter_info info = { .struct_size = sizeof info };
    weft_adapter_get_info(one->adapter, &info);
    if (info.rank > most)
        return fail(l,
                    "%s: found rank %lld; the server was started for ranks up to %lld: raise "
                    "--lora-rank",
                    one->name, (long long)info.rank, (long long)most);
    if ((info.gains || info.n_whole > 0) && one->strength != 0 && one->strength != 1)
        return fail(l, "%s: found strength %g; expected 0 or 1, as it has gains or whole weights",
                    one->name, one->strength);
    return true;
}

static bool open_files(const loading *l, served_adapter *one)
{
    file_stamp after[LORA_FILES];
    weft_error err = { 0 };
    char other[512];
    stamp_files(one->path, one->stamp);
    one->adapter = weft_adapter_open(l->model->model, one->path, &err);
    if (!one->adapter)
        return fail(l, "%s: %s", one->name, err.message);
    if (!l->of->options.any_template &&
        lora_template_differs(one->path, l->model->template, other, sizeof other))
        return fail(l, "%s: %s; --lora-any-template serves it all the same", one->name, other);
    stamp_files(one->path, after);
    if (memcmp(after, one->stamp, sizeof after) != 0)
        return fail(l, "%s: %s changed while it was read; write elsewhere and rename", one->name,
                    one->path);
    return check_adapter(l, one);
}

static served_adapter *open_one(const loading *l, const char *name, const char *path, size_t n_path,
                                double strength)
{
    const char *base = l->model->name;
    const size_t n_name = strlen(name), n_full = strlen(base) + 1 + n_name;
    served_adapter *one = memory_take(sizeof *one);
    if (!one) {
        fail(l, "no memory for an adapter");
        return NULL;
    }
    atomic_init(&one->refs, 1);
    one->strength = strength;
    one->name = copy_text(name, n_name);
    one->path = copy_text(path, n_path);
    one->full = memory_take(n_full + 1);
    if (one->name && one->path && one->full) {
        snprintf(one->full, n_full + 1, "%s:%s", base, name);
        if (open_files(l, one))
            return one;
    } else {
        fail(l, "no memory for an adapter");
    }
    adapter_release(one);
    return NULL;
}

/* One of the set of now with this name. Only the thread that loads changes the set. */
static served_adapter *now_served(const adapters *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->at[i]->name, name) == 0)
            return a->at[i];
    return NULL;
}

static bool is_unchanged(const served_adapter *one, const char *path, size_t n_path,
                         double strength)
{
    file_stamp now[LORA_FILES];
    stamp_files(one->path, now);
    return strlen(one->path) == n_path && memcmp(one->path, path, n_path) == 0 &&
           one->strength == strength && memcmp(now, one->stamp, sizeof now) == 0;
}

static bool check_name(const loading *l, const char *name, const char *from)
{
    const size_t n = strlen(name);
    if (n == 0 || n > NAME_BYTES || strspn(name, NAME_LETTERS) != n)
        return fail(l, "%s: found the name \"%.80s\"; expected 1 to %d letters, digits, - _ or .",
                    from, name, NAME_BYTES);
    if (strcmp(name, l->model->name) == 0)
        return fail(l, "%s: %s is the name of the model", from, name);
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->at[i]->name, name) == 0)
            return fail(l, "%s: the name %s is there twice", from, name);
    return l->n < MAX_ADAPTERS || fail(l, "%s: more than %d adapters", from, MAX_ADAPTERS);
}

static bool is_name(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

/* Of which model an adapter is: "base:poet=DIR" says so, up to its colon; other adapters are of the first one. */
static bool is_ours(const loading *l, const char **spec, const char *from, bool *ours)
{
    const serve_lora *o = &l->of->options;
    const char *equals = strchr(*spec, '='), *colon = strchr(*spec, ':');
    *ours = o->n_model == 0 || strcmp(o->models[0].name, l->model->name) == 0;
    if (!equals || !colon || colon > equals)
        return true;
    const char *base = *spec;
    const size_t n = (size_t)(colon - base);
    bool known = is_name(l->model->name, base, n);
    *ours = known;
    for (int i = 0; i < o->n_model && !known; i++)
        known = is_name(o->models[i].name, base, n);
    *spec = colon + 1;
    return known || fail(l, "%s: found the model \"%.*s\"; expected one that is served", from,
                         n > 200 ? 200 : (int)n, base);
}

/* "poet=DIR:0.5" */
static bool add_spec(loading *l, const char *spec, const char *from)
{
    char name[NAME_BYTES + 2];
    double strength;
    bool ours;
    if (!is_ours(l, &spec, from, &ours))
        return false;
    if (!ours)
        return true;
    const char *equals = strchr(spec, '=');
    const size_t n = equals ? (size_t)(equals - spec) : 0;
    if (!equals)
        return fail(l, "%s: found \"%.200s\"; expected NAME=DIR or NAME=DIR:STRENGTH", from, spec);
    snprintf(name, sizeof name, "%.*s", n > NAME_BYTES ? NAME_BYTES + 1 : (int)n, spec);
    const char *path = equals + 1;
    const size_t n_path = lora_split(path, &strength);
    if (!check_name(l, name, from))
        return false;
    if (n_path == 0 || n_path >= LINE_BYTES - 64 || !isfinite(strength))
        return fail(l, "%s: %s: found \"%.200s\"; expected DIR or DIR:STRENGTH", from, name, path);
    served_adapter *old = now_served(l->of, name), *one;
    if (old && is_unchanged(old, path, n_path, strength)) {
        one = adapter_hold(old);
    } else {
        one = open_one(l, name, path, n_path, strength);
        if (one && old) /* goes on counting */
            atomic_store(&one->n_request, atomic_load(&old->n_request));
        l->n_new++;
    }
    if (!one)
        return false;
    l->at[l->n++] = one;
    return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Without blanks at both ends, in place. */
static char *trim(char *line)
{
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        line[--n] = '\0';
    return line + strspn(line, " \t");
}

static bool add_lines(loading *l, FILE *f, const char *path)
{
    char line[LINE_BYTES], from[512];
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        snprintf(from, sizeof from, "%.480s:%d", path, number);
        if (!strchr(line, '\n') && !feof(f))
            return fail(l, "%s: a line of more than %d bytes", from, LINE_BYTES - 2);
        const char *spec = trim(line);
        if (*spec && *spec != '#' && !add_spec(l, spec, from))
            return false;
    }
    return !ferror(f) || fail(l, "%s: %s", path, strerror(errno));
}

static bool add_listed(loading *l)
{
    const char *path = l->of->options.list;
    if (!path)
        return true;
    FILE *f = fopen(path, "re");
    if (!f)
        return fail(l, "%s: %s", path, strerror(errno));
    const bool good = add_lines(l, f, path);
    fclose(f);
    return good;
}

/* ---- the set --------------------------------------------------------------------------------- */

/* What the engine is made for: before it, all ranks are allowed unless one was given. */
static int64_t rank_for(const loading *l)
{
    const serve_lora *o = &l->of->options;
    int64_t most = o->list ? USUAL_RANK : 0;
    for (int i = 0; i < l->n; i++) {
        weft_adapter_info info = { .struct_size = sizeof info };
        weft_adapter_get_info(l->at[i]->adapter, &info);
        most = info.rank > most ? info.rank : most;
    }
    return o->rank ? o->rank : most;
}

/* How many of the old set are in the new one, loaded anew or as they were. */
static int n_kept_names(const loading *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += now_served(l->of, l->at[i]->name) != NULL;
    return n;
}

/* The new set takes the place of the old one. */
static void replace_set(loading *l, served_adapter **list)
{
    adapters *a = l->of;
    if (l->n > 0 || a->n > 0)
        fprintf(stderr, "weft: %d adapters are served: %d loaded now, %d unloaded\n", l->n,
                l->n_new, a->n - n_kept_names(l));
    pthread_mutex_lock(&a->lock);
    served_adapter **old = a->at;
    const int n_old = a->n;
    a->at = list;
    a->n = l->n;
    pthread_mutex_unlock(&a->lock);
    release_all(old, n_old);
    memory_give(old);
}

bool adapters_load(adapters *a, const serve_model *m, char *why, size_t room)
{
    loading l = { .of = a, .model = m, .why = why, .room = room };
    served_adapter **list = NULL;
    bool good = true;
    for (int i = 0; i < a->options.n_given && good; i++)
        good = add_spec(&l, a->options.given[i], "--lora");
    good = good && add_listed(&l);
    if (good && !(list = memory_take((size_t)(l.n + 1) * sizeof *list)))
        good = fail(&l, "no memory for the adapters");
    if (!good) {
        atomic_fetch_add(&a->n_failed, 1);
        release_all(l.at, l.n);
        return false;
    }
    a->rank = a->rank >= 0 ? a->rank : rank_for(&l);
    memcpy(list, l.at, (size_t)l.n * sizeof *list);
    replace_set(&l, list);
    atomic_fetch_add(&a->n_load, 1); /* whoever sees it finds the new set */
    return true;
}

served_adapter *adapters_find(adapters *a, const char *base, const char *name)
{
    const size_t n = strlen(base);
    served_adapter *found = NULL;
    if (strncmp(name, base, n) == 0 && name[n] == ':')
        name += n + 1;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n && !found; i++)
        if (strcmp(a->at[i]->name, name) == 0)
            found = adapter_hold(a->at[i]);
    pthread_mutex_unlock(&a->lock);
    return found;
}

void adapters_each(adapters *a, void (*fn)(void *ud, const served_adapter *one), void *ud)
{
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n; i++)
        fn(ud, a->at[i]);
    pthread_mutex_unlock(&a->lock);
}

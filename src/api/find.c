/* find.c - the public functions that find models by name. The stores are where this user's programs
 * keep models, by the environment variables that those programs read. */
#include "api/api.h"

#include "formats/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STORE 40
#define TEXT_ROOM 16384 /* for all paths together */

/* The stores in search order. The paths point into `text`. */
typedef struct places {
    store at[MAX_STORE];
    int n;
    char text[TEXT_ROOM];
    size_t used;
} places;

static void add(places *p, store_kind kind, const char *directory, size_t n, const char *tail)
{
    char *to = &p->text[p->used];
    const size_t room = sizeof p->text - p->used;
    const int length = snprintf(to, room, "%.*s%s", (int)n, directory, tail);
    if (n == 0 || length < 0 || (size_t)length >= room || length >= STORE_MAX_PATH ||
        p->n == MAX_STORE)
        return;
    p->at[p->n++] = (store){ kind, to };
    p->used += (size_t)length + 1;
}

/* The first of these variables that is set, with the path appended to it. */
typedef struct from_variable {
    const char *variable, *tail;
} from_variable;

static void add_first(places *p, store_kind kind, const from_variable *from, int n)
{
    for (int i = 0; i < n; i++) {
        const char *value = getenv(from[i].variable);
        if (value && value[0]) {
            add(p, kind, value, strlen(value), from[i].tail);
            return;
        }
    }
}

static void find_places(places *p)
{
    static const from_variable hub[] = { { "HF_HUB_CACHE", "" },
                                         { "HF_HOME", "/hub" },
                                         { "XDG_CACHE_HOME", "/huggingface/hub" },
                                         { "HOME", "/.cache/huggingface/hub" } };
    static const from_variable llama[] = { { "LLAMA_CACHE", "" },
                                           { "XDG_CACHE_HOME", "/llama.cpp" },
                                           { "HOME", "/.cache/llama.cpp" } };
    static const from_variable ollama[] = { { "OLLAMA_MODELS", "" },
                                            { "HOME", "/.ollama/models" } };
    static const char shared[] = "/usr/share/ollama/.ollama/models"; /* if it runs as a service */
    const char *own = getenv("WEFT_MODELS");
    for (const char *at = own ? own : ""; *at; at += *at == ':') {
        const size_t n = strcspn(at, ":");
        add(p, STORE_DIRECTORY, at, n, "");
        at += n;
    }
    add_first(p, STORE_HF, hub, 4);
    add_first(p, STORE_LLAMA, llama, 3);
    add_first(p, STORE_OLLAMA, ollama, 2);
    add(p, STORE_OLLAMA, shared, sizeof shared - 1, "");
}

/* Sets up the call's own host and stores in *p. */
static weft_status begin_search(const weft_find_options *options, weft_find_options *o, host *h,
                                places **p, weft_error *err)
{
    if (!read_options(o, sizeof *o, options, options ? options->struct_size : 0,
                      "weft_find_options", err))
        return err->code;
    *h = (host){ .io = io_system };
    take_memory(h, o->ram_max, o->budget);
    *p = mem_zalloc(&h->mem, 1, sizeof **p, "stores of models", err);
    if (!*p)
        return err->code;
    find_places(*p);
    return WEFT_OK;
}

static void note(void *ud, const store *s, const char *result)
{
    const weft_find_options *o = ud;
    if (o->searched)
        o->searched(o->searched_ud, store_title(s->kind), s->path, result);
}

weft_status weft_model_find(const char *name, const weft_find_options *options, char *path,
                            size_t size, weft_error *err)
{
    weft_find_options o;
    host h;
    places *p = NULL;
    weft_error local;
    err = begin_call(err, &local);
    if (!name || !path || size == 0)
        return weft_fail(err, WEFT_EINVAL, "no %s given", name ? "room for a path" : "name");
    weft_status status = begin_search(options, &o, &h, &p, err);
    if (status == WEFT_OK)
        status = find_model(name, p->at, p->n, &h, path, size, note, &o, err);
    mem_free(&h.mem, p);
    return status;
}

typedef struct giver {
    weft_model_entry_fn *fn;
    void *ud;
    bool stopped;
} giver;

static bool give_found(void *ud, const store *s, const store_model *m)
{
    giver *g = ud;
    char name[FIND_MAX_NAME];
    snprintf(name, sizeof name, "%s%s%s", m->name, m->tag[0] ? ":" : "", m->tag);
    const weft_model_entry f = { sizeof f, .store = store_word(s->kind), .name = name,
                                 .path = m->problem ? NULL : m->path, .problem = m->problem };
    g->stopped = !g->fn(g->ud, &f);
    return !g->stopped;
}

weft_status weft_model_list(weft_model_entry_fn *fn, void *ud, const weft_find_options *options,
                            weft_error *err)
{
    weft_find_options o;
    host h;
    places *p = NULL;
    weft_error local;
    err = begin_call(err, &local);
    if (!fn)
        return weft_fail(err, WEFT_EINVAL, "no function given");
    giver g = { .fn = fn, .ud = ud };
    weft_status status = begin_search(options, &o, &h, &p, err);
    for (int i = 0; status == WEFT_OK && i < p->n && !g.stopped; i++) {
        weft_error why = { 0 };
        status = store_each(&p->at[i], &h, give_found, &g, &why);
        if (status == WEFT_EIO) {
            note(&o, &p->at[i], "no such directory");
            status = WEFT_OK;
        } else if (status != WEFT_OK) {
            weft_fail(err, status, "%s", why.message);
        }
    }
    mem_free(&h.mem, p);
    return status == WEFT_OK && g.stopped ? weft_fail(err, WEFT_ESTOPPED, "stopped by the caller")
                                          : status;
}

/* stores.c - walks the stores of stores.h. A walk lists a directory, sorts its names and visits
 * each. An error in one model is reported as that model's problem, and the walk continues. Only
 * lack of memory ends it. */
#include "formats/stores.h"

#include "base/sort.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_NAME  255
#define MAX_NAMES 65536 /* in a directory; further names are ignored */
#define MAX_REF   256   /* bytes of refs/main */

/* ---- names ----------------------------------------------------------------------------------- */

const char *store_title(store_kind kind)
{
    static const char *const titles[] = { "WEFT_MODELS", "Hugging Face cache", "llama.cpp cache",
                                          "Ollama" };
    return titles[kind];
}

const char *store_word(store_kind kind)
{
    static const char *const words[] = { "directory", "huggingface", "llama.cpp", "ollama" };
    return words[kind];
}

bool store_name_ok(const char *name, size_t n)
{
    if (n == 0 || n > MAX_NAME || name[0] == '.' || utf8_find_wrong(name, n) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == 127 || name[i] == '/' || name[i] == '\\')
            return false;
    return true;
}

bool store_ref(const uint8_t *text, size_t n, char *to, size_t room)
{
    while (n > 0 && memchr(" \t\r\n", text[n - 1], 4))
        n--;
    if (n >= room || !store_name_ok((const char *)text, n))
        return false;
    memcpy(to, text, n);
    to[n] = '\0';
    return true;
}

/* Where the suffix "-00001-of-00003" begins; the length of the name if there is none. */
static size_t before_part(const char *stem, size_t n)
{
    static const char form[] = "-#####-of-#####";
    const size_t tail = sizeof form - 1;
    if (n <= tail)
        return n;
    for (size_t i = 0; i < tail; i++) {
        const char c = stem[n - tail + i]; /* bounded: below n */
        if (form[i] == '#' ? c < '0' || c > '9' : c != form[i])
            return n;
    }
    return n - tail;
}

/* Is it the name of a GGUF type: Q4_K_M, IQ2_XS, BF16 ...? */
static bool is_type(const char *word, size_t n)
{
    static const char *const plain[] = { "F16", "F32", "BF16", "FP16", "MXFP4" };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (n == strlen(plain[i]) && strncasecmp(word, plain[i], n) == 0)
            return true;
    const size_t at = n > 0 && strchr("IiTt", word[0]) ? 1 : 0;
    if (n < at + 2 || !strchr("Qq", word[at])) /* bounded: at is 0 or 1, as the next */
        return false;
    const char bits = word[at + 1]; /* bounded: above */
    if (bits < '1' || bits > '8')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("QqIiTtKkSsMmLlXxNn_012345678", word[i]))
            return false;
    return true;
}

void store_tag(const char *gguf, char *to, size_t room)
{
    size_t n = strlen(gguf), begin;
    n = text_ends_with(gguf, ".gguf") ? n - 5 : n;
    n = before_part(gguf, n);
    for (begin = n; begin > 0 && gguf[begin - 1] != '-' && gguf[begin - 1] != '.';)
        begin--;
    begin = is_type(&gguf[begin], n - begin) ? begin : 0;
    snprintf(to, room, "%.*s", (int)(n - begin), &gguf[begin]);
}

bool store_is_gguf(const char *gguf)
{
    const size_t n = strlen(gguf);
    if (n <= 5 || !text_ends_with(gguf, ".gguf") || strstr(gguf, "mmproj"))
        return false;
    const size_t stem = before_part(gguf, n - 5);
    return stem == n - 5 || strncmp(&gguf[stem], "-00001", 6) == 0;
}

/* ---- the walk -------------------------------------------------------------------------------- */

typedef struct walk {
    const store *s;
    host *host;
    arena names;
    store_fn *fn;
    void *ud;
    weft_error *err;
    weft_status status; /* an allocation failed */
    bool stopped;
} walk;

static bool ended(const walk *w)
{
    return w->stopped || w->status != WEFT_OK;
}

static void give_model(walk *w, const char *name, const char *tag, const char *gguf,
                       const char *path)
{
    const bool there = path_exists(path, w->host);
    const store_model m = { name, tag, gguf, there ? path : "",
                            there ? NULL : "its file is a broken link" };
    if (!ended(w))
        w->stopped = !w->fn(w->ud, w->s, &m);
}

static void give_problem(walk *w, const char *name, const char *tag, const char *problem)
{
    const store_model m = { name, tag, "", "", problem };
    if (!ended(w))
        w->stopped = !w->fn(w->ud, w->s, &m);
}

/* The names in a directory, sorted. */
typedef struct name_node {
    struct name_node *next;
    char *text;
} name_node;

typedef struct name_list {
    walk *w;
    name_node *first;
    int64_t n;
    char **at;
} name_list;

static void keep_name(void *ud, const char *name)
{
    name_list *l = ud;
    walk *w = l->w;
    if (w->status != WEFT_OK || l->n == MAX_NAMES || !store_name_ok(name, strlen(name)))
        return;
    name_node *node = arena_alloc(&w->names, sizeof *node, w->err);
    char *text = node ? arena_text(&w->names, name, strlen(name), w->err) : NULL;
    if (!text) {
        w->status = w->err->code;
        return;
    }
    *node = (name_node){ l->first, text };
    l->first = node;
    l->n++;
}

static int store_by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* False if the directory cannot be listed, or without memory. Skips names that store_name_ok
 * refuses: no store creates them. */
static bool list_names(walk *w, const char *path, name_list *l)
{
    *l = (name_list){ .w = w };
    const bool good = w->host->io.list(w->host->io.ud, path, keep_name, l) == 0;
    if (!good || w->status != WEFT_OK)
        return false;
    l->at = arena_alloc(&w->names, ((size_t)l->n + 1) * sizeof *l->at, /* bounded: MAX_NAMES */
                        w->err);
    if (!l->at) {
        w->status = w->err->code;
        return false;
    }
    name_node *node = l->first;
    for (int64_t i = 0; i < l->n; i++, node = node->next)
        l->at[i] = node->text;
    sort_pointers((void **)l->at, l->n, store_by_name);
    return true;
}

static bool has_name(const name_list *l, const char *name)
{
    return find_pointer((void *const *)l->at, l->n, name, store_by_name) != NULL;
}

/* "dir/name" in the walk's memory, so that deep walks need little stack; NULL if it is too long for
 * a path, or without memory. */
static const char *join_store_path(walk *w, const char *dir, const char *name)
{
    const size_t room = strlen(dir) + strlen(name) + 2; /* bounded: paths and names */
    if (room > STORE_MAX_PATH || w->status != WEFT_OK)
        return NULL;
    char *to = arena_alloc(&w->names, room, w->err);
    if (to)
        path_join(to, room, dir, name);
    else
        w->status = w->err->code;
    return to;
}

/* Reads a file of at most `room` bytes; returns its size, or -1. */
static int64_t read_small(walk *w, const char *path, uint8_t *to, size_t room)
{
    reader r;
    weft_error unread = { 0 };
    if (reader_open(&r, path, w->host, &unread) != WEFT_OK)
        return -1;
    const uint64_t n = r.left;
    const bool good = n <= room && reader_get(&r, to, (size_t)n, &unread) == WEFT_OK;
    reader_close(&r);
    return good ? (int64_t)n : -1;
}

/* ---- a directory that is a model, or contains GGUF files ------------------------------------- */

static int64_t give_ggufs(walk *w, const char *dir, const char *name, const name_list *l)
{
    char tag[MAX_NAME + 1]; /* bounded: a constant */
    int64_t n = 0;
    for (int64_t i = 0; i < l->n && !ended(w); i++) {
        const char *path = store_is_gguf(l->at[i]) ? join_store_path(w, dir, l->at[i]) : NULL;
        if (!path)
            continue;
        store_tag(l->at[i], tag, sizeof tag);
        give_model(w, name, tag, l->at[i], path);
        n++;
    }
    return n;
}

static bool has_weights(const name_list *l)
{
    return has_name(l, "config.json") &&
           (has_name(l, "model.safetensors") || has_name(l, "model.safetensors.index.json"));
}

/* Returns how many models it reported. Large ones have their parts in subdirectories:
 * Q8_0/NAME-Q8_0-... */
static int64_t walk_model(walk *w, const char *dir, const char *name, bool deep)
{
    name_list l, inner;
    const arena_mark mark = arena_at(&w->names);
    int64_t n = 0;
    if (list_names(w, dir, &l)) {
        if (has_weights(&l)) {
            give_model(w, name, "", "", dir);
            n++;
        }
        n += give_ggufs(w, dir, name, &l); /* bounded: names in a directory, as below */
        for (int64_t i = 0; i < l.n && deep && n == 0 && !ended(w); i++) {
            const char *path = join_store_path(w, dir, l.at[i]);
            if (path && path_is_directory(path, w->host) && list_names(w, path, &inner))
                n += give_ggufs(w, path, name, &inner); /* bounded: above */
        }
    }
    arena_reset(&w->names, mark);
    return n;
}

/* DIR/NAME.gguf, DIR/NAME/ and DIR/ORG/NAME/; ignores anything else. */
static void walk_directory(walk *w, const char *dir, const char *org)
{
    char name[2 * MAX_NAME + 2]; /* bounded: constants */
    name_list l;
    const arena_mark mark = arena_at(&w->names);
    const bool listed = list_names(w, dir, &l);
    for (int64_t i = 0; listed && i < l.n && !ended(w); i++) {
        const char *at = l.at[i], *path = join_store_path(w, dir, at);
        if (path && store_is_gguf(at)) {
            snprintf(name, sizeof name, "%s%.*s", org, (int)before_part(at, strlen(at) - 5), at);
            give_model(w, name, "", at, path);
        } else if (path && path_is_directory(path, w->host)) {
            snprintf(name, sizeof name, "%s%s", org, at);
            if (walk_model(w, path, name, false) > 0 || org[0])
                continue;
            snprintf(name, sizeof name, "%s/", at);
            walk_directory(w, path, name);
        }
    }
    arena_reset(&w->names, mark);
}

/* ---- Hugging Face ---------------------------------------------------------------------------- */

/* The directory of the snapshot, or NULL with a problem. If refs/main is missing (a download of
 * another revision), uses the only snapshot. */
static const char *find_snapshot(walk *w, const char *entry, const char **problem)
{
    char rev[MAX_NAME + 1]; /* bounded: a constant */
    uint8_t text[MAX_REF];
    name_list l;
    const char *ref = join_store_path(w, entry, "refs/main"),
               *all = join_store_path(w, entry, "snapshots");
    *problem = "its path is too long";
    if (!ref || !all)
        return NULL;
    const int64_t n = read_small(w, ref, text, sizeof text);
    *problem = "refs/main does not name a snapshot";
    if (n < 0 ? path_exists(ref, w->host) : !store_ref(text, (size_t)n, rev, sizeof rev))
        return NULL;
    *problem = "it has no refs/main, and no single snapshot";
    if (n < 0 && (!list_names(w, all, &l) || l.n != 1))
        return NULL;
    const char *snapshot = join_store_path(w, all, n < 0 ? l.at[0] : rev);
    *problem = "the snapshot named by refs/main is missing";
    return snapshot && path_is_directory(snapshot, w->host) ? snapshot : NULL;
}

static void walk_entry(walk *w, const char *entry, const char *name)
{
    const char *problem;
    const arena_mark mark = arena_at(&w->names);
    const char *snapshot = find_snapshot(w, entry, &problem);
    if (!snapshot)
        give_problem(w, name, "", problem);
    else if (walk_model(w, snapshot, name, true) == 0)
        give_problem(w, name, "",
                     "its snapshot has neither config.json and model.safetensors nor a GGUF file");
    arena_reset(&w->names, mark);
}

/* models--ORG--NAME; repositories without an organisation have one name. */
static void walk_hub(walk *w)
{
    static const char head[] = "models--";
    char name[MAX_NAME + 1]; /* bounded: a constant */
    name_list l;
    const bool listed = list_names(w, w->s->path, &l);
    for (int64_t i = 0; listed && i < l.n && !ended(w); i++) {
        const bool model = strncmp(l.at[i], head, sizeof head - 1) == 0;
        const char *path = model ? join_store_path(w, w->s->path, l.at[i]) : NULL;
        if (!path)
            continue;
        const char *rest = &l.at[i][sizeof head - 1], *cut = strstr(rest, "--");
        const size_t org = cut ? (size_t)(cut - rest) : strlen(rest);
        if (!store_name_ok(rest, org) || (cut && !store_name_ok(&cut[2], strlen(&cut[2]))))
            continue; /* not from the hub */
        if (cut)
            snprintf(name, sizeof name, "%.*s/%s", (int)(cut - rest), rest, &cut[2]);
        else
            snprintf(name, sizeof name, "%s", rest);
        walk_entry(w, path, name);
    }
}

/* ---- llama.cpp ------------------------------------------------------------------------------- */

/* ORG_NAME_FILE.gguf: the boundaries are ambiguous, so all of it is the name. */
static void walk_llama(walk *w)
{
    char name[MAX_NAME + 1]; /* bounded: a constant */
    name_list l;
    const bool listed = list_names(w, w->s->path, &l);
    for (int64_t i = 0; listed && i < l.n && !ended(w); i++) {
        const char *at = l.at[i],
                   *path = store_is_gguf(at) ? join_store_path(w, w->s->path, at) : NULL;
        if (!path)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)before_part(at, strlen(at) - 5), at);
        give_model(w, name, "", at, path);
    }
}

/* ---- Ollama ---------------------------------------------------------------------------------- */

#define MANIFEST_LEVELS 4 /* HOST/NAMESPACE/NAME/TAG */

/* The name that Ollama shows: without the default host and namespace. */
static void ollama_name(const char *const part[MANIFEST_LEVELS], char *to, size_t room)
{
    const bool usual = strcmp(part[0], "registry.ollama.ai") == 0;
    if (usual && strcmp(part[1], "library") == 0)
        snprintf(to, room, "%s", part[2]);
    else if (usual)
        snprintf(to, room, "%s/%s", part[1], part[2]);
    else
        snprintf(to, room, "%s/%s/%s", part[0], part[1], part[2]);
}

/* Strips the manifest's path from the text of a problem, since the name already identifies it. */
static const char *after_path(const weft_error *err, const char *path)
{
    const size_t n = strlen(path);
    const bool begins = strncmp(err->message, path, n) == 0 && err->message[n] == ':';
    return begins ? &err->message[n] + 2 : err->message; /* bounded: text follows ": " */
}

/* The name of the blob, in `digest`; or a problem, in *why. */
static weft_status read_manifest(walk *w, const char *path, char digest[STORE_DIGEST],
                                 weft_error *why)
{
    reader r;
    struct file f;
    if (reader_open(&r, path, w->host, why) != WEFT_OK)
        return why->code;
    const uint64_t size = r.left; /* checked before allocating */
    reader_close(&r);
    if (size > STORE_MAX_MANIFEST)
        return weft_fail(why, WEFT_EFORMAT, "a manifest of %llu bytes; expected at most %u",
                         (unsigned long long)size, STORE_MAX_MANIFEST);
    weft_status status = file_open(&f, path, WEFT_LOAD_COPY, w->host, why);
    if (status != WEFT_OK)
        return status;
    status = ollama_manifest(f.data, f.size, path, digest, w->host, why);
    file_close(&f, w->host);
    return status;
}

static void give_manifest(walk *w, const char *path, const char *name, const char *tag)
{
    char digest[STORE_DIGEST], blob[16 + STORE_DIGEST]; /* bounded: constants */
    weft_error why = { 0 };
    const weft_status status = read_manifest(w, path, digest, &why);
    if (status == WEFT_ENOMEM || status == WEFT_ELIMIT) {
        w->status = weft_fail(w->err, status, "%s", why.message);
        return;
    }
    if (status != WEFT_OK) {
        give_problem(w, name, tag, after_path(&why, path));
        return;
    }
    snprintf(blob, sizeof blob, "blobs/%s", digest);
    const char *whole = join_store_path(w, w->s->path, blob);
    if (whole && path_exists(whole, w->host))
        give_model(w, name, tag, "", whole);
    else
        give_problem(w, name, tag, "its weights are missing");
}

static void walk_manifests(walk *w, const char *dir, const char **part, int level)
{
    char name[3 * MAX_NAME + 3]; /* bounded: constants */
    name_list l;
    const arena_mark mark = arena_at(&w->names);
    const bool listed = list_names(w, dir, &l);
    for (int64_t i = 0; listed && i < l.n && !ended(w); i++) {
        const char *path = join_store_path(w, dir, l.at[i]);
        part[level] = l.at[i];
        if (path && level < MANIFEST_LEVELS - 1) {
            walk_manifests(w, path, part, level + 1); /* bounded: MANIFEST_LEVELS */
        } else if (path) {
            ollama_name(part, name, sizeof name);
            give_manifest(w, path, name, l.at[i]);
        }
    }
    arena_reset(&w->names, mark);
}

/* ---- all stores ------------------------------------------------------------------------------ */

static void walk_ollama(walk *w)
{
    const char *part[MANIFEST_LEVELS];
    const char *path = join_store_path(w, w->s->path, "manifests");
    if (path)
        walk_manifests(w, path, part, 0);
}

weft_status store_each(const store *s, host *h, store_fn *fn, void *ud, weft_error *err)
{
    walk w = { .s = s, .host = h, .fn = fn, .ud = ud, .err = err };
    if (!path_is_directory(s->path, h))
        return weft_fail(err, WEFT_EIO, "%s: no such directory", s->path);
    const weft_status status = arena_init(&w.names, ARENA_GROWING, &h->mem, 0, "names", err);
    if (status != WEFT_OK)
        return status;
    switch (s->kind) {
    case STORE_DIRECTORY:
        walk_directory(&w, s->path, "");
        break;
    case STORE_HF:
        walk_hub(&w);
        break;
    case STORE_LLAMA:
        walk_llama(&w);
        break;
    case STORE_OLLAMA:
        walk_ollama(&w);
        break;
    }
    arena_free(&w.names);
    return w.status;
}

/* find.c - finds the model that a name means. Names are compared case-insensitively, as Hugging
 * Face does; a name without an organisation matches a model of that name from any. */
#include "formats/find.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- names ----------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

/* One to three names with slashes between them. */
static bool are_names(const char *text)
{
    int n = 0;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, "/");
        if (!store_name_ok(at, length) || ++n > 3)
            return false;
        at = &at[length];
        if (!*at)
            return true;
    }
}

/* Skips "hf.co/" and similar. */
static const char *after_host(const char *text, bool *hf)
{
    static const char *const hosts[] = { "hf.co/", "huggingface.co/" };
    for (int i = 0; i < 2; i++)
        if (strncasecmp(text, hosts[i], strlen(hosts[i])) == 0) {
            *hf = true;
            return &text[strlen(hosts[i])];
        }
    return text;
}

bool wanted_parse(wanted *w, const char *text)
{
    *w = (wanted){ 0 };
    text = after_host(text, &w->hf);
    const char *colon = strchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    if (n >= sizeof w->name || (colon && strlen(colon) > sizeof w->tag))
        return false;
    memcpy(w->name, text, n);
    if (colon)
        strcpy(w->tag, &colon[1]);
    return are_names(w->name) &&
           (!colon || (store_name_ok(w->tag, strlen(w->tag)) && !strchr(w->tag, ':')));
}

static const char *last_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? &slash[1] : name;
}

/* ---- matching -------------------------------------------------------------------------------- */

enum { FITS_NOT, FITS_LAST = 1, FITS_WHOLE = 2 };

/* llama.cpp joins all three as ORG_NAME_FILE.gguf. *rest is the part left for FILE. */
static int llama_fits(const wanted *w, const char *gguf, const char **rest)
{
    char head[FIND_MAX_NAME + 2]; /* bounded: constants */
    const size_t n = (size_t)snprintf(head, sizeof head, "_%s_", w->name);
    for (char *c = head; *c; c++)
        *c = *c == '/' ? '_' : *c;
    if (strchr(w->name, '/') && strncasecmp(gguf, &head[1], n - 1) == 0) {
        *rest = &gguf[n - 1];
        return FITS_WHOLE;
    }
    const char *at = w->hf || strchr(w->name, '/') ? NULL
                                                   : strcasestr(&gguf[gguf[0] != '\0'], head);
    *rest = at ? &at[n] : *rest;
    return at ? FITS_LAST : FITS_NOT;
}

static int name_fits(const wanted *w, const store *s, const store_model *m, const char **gguf)
{
    *gguf = m->file;
    if (s->kind == STORE_LLAMA && !same(m->name, w->name) && !same(m->file, w->name))
        return llama_fits(w, m->file, gguf);
    const char *name = m->name;
    if (w->hf && s->kind == STORE_OLLAMA) {
        bool hf = false;
        name = after_host(name, &hf);
        return hf && same(name, w->name) ? FITS_WHOLE : FITS_NOT;
    }
    if (same(name, w->name) || (s->kind != STORE_HF && same(m->file, w->name)))
        return w->hf && s->kind == STORE_DIRECTORY ? FITS_NOT : FITS_WHOLE;
    return !w->hf && !strchr(w->name, '/') && same(last_name(name), w->name) ? FITS_LAST : FITS_NOT;
}

/* A tag is a type, or the name of the file with or without ".gguf". */
static bool tag_fits(const char *tag, const char *own, const char *gguf)
{
    const size_t n = strlen(tag);
    return same(tag, own) || same(tag, gguf) ||
           (strncasecmp(tag, gguf, n) == 0 && same(&gguf[n], ".gguf"));
}

int wanted_fits(const wanted *w, const store *s, const store_model *m, bool *named)
{
    char tag[FIND_MAX_NAME];
    const char *gguf;
    const int fits = name_fits(w, s, m, &gguf);
    if (fits == FITS_NOT)
        return 0;
    snprintf(tag, sizeof tag, "%s", m->tag);
    if (gguf != m->file)
        store_tag(gguf, tag, sizeof tag);
    const bool usual = !m->tag[0] || same(m->tag, "latest"); /* the default if no tag is given */
    if (w->tag[0] && !tag_fits(w->tag, tag, gguf)) {
        *named = true;
        return 0;
    }
    return 2 * fits + (!w->tag[0] && usual); /* bounded: 5 */
}

/* ---- searching ------------------------------------------------------------------------------- */

/* The best match so far, and its equals. */
typedef struct search {
    wanted w;
    int best;
    int64_t n, n_broken; /* best matches: usable, and broken */
    int64_t n_named;     /* same name, other tag */
    char path[STORE_MAX_PATH], problem[256], shown[300];
    size_t n_shown;
    int64_t n_listed; /* in `shown` */
} search;

/* Adds "a/b:Q4_K_M, a/b:Q8_0", while there is room. */
static void add_shown(search *f, const store_model *m, bool by_file)
{
    char text[160];
    const char *tag = by_file && m->file[0] ? m->file : m->tag;
    const int n = snprintf(text, sizeof text, "%s%s%s%s", f->n_shown ? ", " : "", m->name,
                           tag[0] ? ":" : "", tag);
    if (n < 0 || (size_t)n >= sizeof text || (size_t)n >= sizeof f->shown - f->n_shown)
        return;
    memcpy(&f->shown[f->n_shown], text, (size_t)n + 1); /* bounded: sizeof text */
    f->n_shown += (size_t)n;                            /* bounded: by shown */
    f->n_listed++;
}

static bool match_model(void *ud, const store *s, const store_model *m)
{
    search *f = ud;
    bool named = false;
    const int fits = wanted_fits(&f->w, s, m, &named);
    if (named && f->best == 0) {
        f->n_named++;
        add_shown(f, m, false);
    }
    if (fits == 0 || fits < f->best)
        return true;
    if (fits > f->best) {
        f->best = fits;
        f->n = f->n_broken = 0;
        f->n_shown = 0;
        f->n_listed = 0;
    }
    if (m->problem) {
        f->n_broken++;
        snprintf(f->problem, sizeof f->problem, "%s", m->problem);
        return true;
    }
    f->n++;
    add_shown(f, m, f->w.tag[0] != '\0');
    snprintf(f->path, sizeof f->path, "%s", m->path);
    return true;
}

/* Tries DIR/TEXT as a path: any file, and names of several directories. */
static bool lies_there(const char *text, const store *s, host *h, char *path, size_t size)
{
    return s->kind == STORE_DIRECTORY && path_join(path, size, s->path, text) &&
           path_exists(path, h) && !path_is_directory(path, h);
}

static weft_status conclude(const char *text, const search *f, const store *s, weft_error *err)
{
    if (f->n > 1)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: matches %lld models in %s; expected one; give one of %s%s", text,
                         (long long)f->n, s->path, f->shown, f->n > f->n_listed ? " ..." : "");
    if (f->n == 0 && f->n_broken > 0)
        return weft_fail(err, WEFT_EIO,
                         "%s: found in %s, but %s; expected a complete model; download it again",
                         text, s->path, f->problem);
    if (f->n == 0)
        return weft_fail(err, WEFT_EINVAL, "%s: found in %s, but not with this tag; give one of %s",
                         text, s->path, f->shown);
    return WEFT_OK;
}

static weft_status copy_path(const char *text, const char *from, char *path, size_t size,
                             weft_error *err)
{
    if (strlen(from) >= size)
        return weft_fail(err, WEFT_EINVAL, "%s: its path has %zu bytes, there is room for %zu",
                         text, strlen(from), size > 0 ? size - 1 : 0);
    memmove(path, from, strlen(from) + 1); /* bounded: size */
    return WEFT_OK;
}

/* Sets f->path if the store has the model; *decided if it has anything of that name. */
static weft_status search_store(const char *text, search *f, const store *s, host *h, bool *decided,
                                weft_error *err)
{
    weft_error why = { 0 };
    if (f->w.hf && s->kind == STORE_DIRECTORY)
        return WEFT_OK;
    if (lies_there(text, s, h, f->path, sizeof f->path)) {
        *decided = true;
        return WEFT_OK;
    }
    const weft_status seen = store_each(s, h, match_model, f, &why);
    if (seen != WEFT_OK && seen != WEFT_EIO)
        return weft_fail(err, seen, "%s", why.message);
    *decided = f->best > 0 || f->n_named > 0;
    return *decided ? conclude(text, f, s, err) : WEFT_OK;
}

static weft_status not_found(const wanted *w, const char *text, const store *stores, int n_store,
                             host *h, find_note_fn *note, void *ud, weft_error *err)
{
    for (int i = 0; i < n_store && note; i++)
        if (!w->hf || stores[i].kind != STORE_DIRECTORY)
            note(ud, &stores[i],
                 path_is_directory(stores[i].path, h) ? "no model of this name"
                                                      : "no such directory");
    return weft_fail(err, WEFT_EIO,
                     "%s: no such file, directory or downloaded model; expected a path, or a name "
                     "listed by \"weft models\"; download the model, or give its path",
                     text);
}

weft_status find_model(const char *text, const store *stores, int n_store, host *h, char *path,
                       size_t size, find_note_fn *note, void *ud, weft_error *err)
{
    search *f = mem_zalloc(&h->mem, 1, sizeof *f, "a search", err);
    if (!f)
        return err->code;
    weft_status status = WEFT_OK;
    bool decided = false;
    if (!wanted_parse(&f->w, text))
        status = weft_fail(
            err, WEFT_EINVAL,
            "%.200s: not a model name; expected NAME, ORG/NAME, NAME:TAG or ORG/NAME:TAG", text);
    for (int i = 0; i < n_store && status == WEFT_OK && !decided; i++)
        status = search_store(text, f, &stores[i], h, &decided, err);
    if (status == WEFT_OK)
        status = decided ? copy_path(text, f->path, path, size, err)
                         : not_found(&f->w, text, stores, n_store, h, note, ud, err);
    mem_free(&h->mem, f);
    return status;
}

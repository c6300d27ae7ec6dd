/* checkpoint.c - writes a checkpoint so that a crash at any call leaves the last one whole, and
 * finds the newest intact one. */
#include "train/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS_FILE  "model.safetensors"
#define MANIFEST_FILE "manifest.json"
#define MAX_PATH      4096
#define MAX_FILE      (N_TEXT + 3) /* weights, state and texts */
#define READ_BYTES    ((size_t)1 << 20)
#define MAX_BLOCK     16

/* ---- names ----------------------------------------------------------------------------------- */

/* "RUN/step-00000200-2": the second checkpoint of step 200. */
typedef struct step_name {
    int64_t step, nth;
} step_name;

static weft_status join_path(char *to, const char *directory, const char *name, weft_error *err)
{
    if (convert_join(to, MAX_PATH, directory, name))
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
}

#define NAME_SIZE 64

static void step_dir_name(step_name n, char *to)
{
    if (n.nth == 1)
        snprintf(to, NAME_SIZE, "step-%08" PRId64, n.step);
    else
        snprintf(to, NAME_SIZE, "step-%08" PRId64 "-%" PRId64, n.step, n.nth);
}

static weft_status step_path(char *to, const char *root, step_name n, weft_error *err)
{
    char name[NAME_SIZE];
    step_dir_name(n, name);
    return join_path(to, root, name, err);
}

/* Reads digits from *at on; -1 if there are none, or too many. */
static int64_t read_digits(const char **at)
{
    const size_t n = strspn(*at, "0123456789");
    const int64_t value = n > 0 && n < 19 ? strtoll(*at, NULL, 10) : -1;
    *at += n;
    return value;
}

/* Accepts only our own spelling of the name. */
static bool read_step_name(const char *name, step_name *to)
{
    char again[NAME_SIZE];
    const char *at = name + 5;
    if (strncmp(name, "step-", 5) != 0)
        return false;
    *to = (step_name){ read_digits(&at), 1 };
    if (*at == '-' && at++)
        to->nth = read_digits(&at);
    step_dir_name(*to, again);
    return to->step >= 0 && to->nth >= 1 && strcmp(name, again) == 0;
}

/* A file of a checkpoint, or its unfinished temporary file. */
static bool is_ours(const char *name)
{
    enum { N_OWN = 5 };
    static const char *const ours[N_OWN] = { WEIGHTS_FILE, STATE_FILE, MANIFEST_FILE, PEFT_WEIGHTS,
                                             PEFT_CONFIG };
    const size_t stem = part_stem(name), n = stem ? stem : strlen(name);
    for (int i = 0; i < N_TEXT + N_OWN; i++) {
        const char *of = i < N_TEXT ? text_files[i] : ours[i - N_TEXT];
        if (strlen(of) == n && memcmp(name, of, n) == 0)
            return true;
    }
    return false;
}

/* ---- listing a run ---------------------------------------------------------------------------- */

static int compare_steps(step_name a, step_name b)
{
    if (a.step != b.step)
        return a.step < b.step ? -1 : 1;
    return a.nth < b.nth ? -1 : a.nth > b.nth;
}

typedef struct search {
    step_name below, best;
    bool any;
} search;

static void note_checkpoint(void *ud, const char *name)
{
    search *s = ud;
    step_name n;
    if (!read_step_name(name, &n) || compare_steps(n, s->below) >= 0 ||
        (s->any && compare_steps(n, s->best) < 0))
        return;
    s->best = n;
    s->any = true;
}

static const step_name beyond_all = { INT64_MAX, INT64_MAX };

/* Replaces *n by the newest checkpoint directory older than *n; *any is false if there is none. A
 * run directory that does not exist has none. */
static weft_status next_older(const char *root, step_name *n, bool *any, host *h, weft_error *err)
{
    search s = { .below = *n };
    *any = false;
    if (h->io.list(h->io.ud, root, note_checkpoint, &s) != 0 && errno != ENOENT)
        return weft_fail(err, WEFT_EIO, "%s: cannot list: %s", root, strerror(errno));
    *n = s.best;
    *any = s.any;
    return WEFT_OK;
}

static bool has_manifest(const char *directory, host *h)
{
    char path[MAX_PATH];
    return join_path(path, directory, MANIFEST_FILE, NULL) == WEFT_OK && path_exists(path, h);
}

/* ---- removing -------------------------------------------------------------------------------- */

typedef struct sweeping {
    const char *directory;
    bool parts; /* only temporary files */
    host *host;
} sweeping;

static void sweep_file(void *ud, const char *name)
{
    const sweeping *s = ud;
    const io_hooks *io = &s->host->io;
    char path[MAX_PATH];
    if (is_ours(name) && (part_stem(name) > 0 || !s->parts) &&
        join_path(path, s->directory, name, NULL) == WEFT_OK)
        io->remove(io->ud, path);
}

static void sweep(const char *directory, bool parts, host *h)
{
    sweeping s = { directory, parts, h };
    h->io.list(h->io.ud, directory, sweep_file, &s);
}

void checkpoint_sweep(const char *root, host *h)
{
    sweep(root, true, h);
}

void checkpoint_remove(const char *directory, host *h)
{
    char path[MAX_PATH];
    if (join_path(path, directory, MANIFEST_FILE, NULL) == WEFT_OK)
        h->io.remove(h->io.ud, path);
    sweep(directory, false, h);
    if (h->io.remove(h->io.ud, directory) != 0 && errno != ENOENT)
        log_write(&h->log, WEFT_LOG_WARN, "%s: cannot remove: %s", directory, strerror(errno));
}

/* Removes checkpoints older than `newest`, except `keep` - 1 of other steps and the one of step
 * `spared`. Always removes the remains of a crash. */
static weft_status retire(const char *root, step_name newest, int keep, int64_t spared, host *h,
                          weft_error *err)
{
    step_name n = newest;
    int64_t kept = 1, last = newest.step;
    for (;;) {
        char path[MAX_PATH];
        bool any;
        weft_status status = next_older(root, &n, &any, h, err);
        if (status != WEFT_OK || !any)
            return status;
        status = step_path(path, root, n, err);
        if (status != WEFT_OK)
            return status;
        const bool whole = has_manifest(path, h);
        const bool stays = keep == 0 || kept < keep || (spared > 0 && n.step == spared);
        if (whole && n.step != last && stays) {
            last = n.step;
            kept++;
        } else if (!whole || keep > 0) {
            checkpoint_remove(path, h);
        }
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writing {
    const checkpoint_view *v;
    char path[MAX_PATH]; /* the checkpoint's directory */
    host *host;
    save save;
    chunk_sums sums[MAX_FILE]; /* one per file, in the order of writing */
    manifest_file file[MAX_FILE];
    int n_file;
    weft_error *err;
} writing;

/* Starts the next file of the checkpoint and its checksums. */
static bool next_file(writing *w, const char *name, char *path)
{
    const weft_status status = join_path(path, w->path, name, w->err);
    if (status != WEFT_OK && w->save.status == WEFT_OK)
        w->save.status = status;
    if (w->save.status != WEFT_OK)
        return false;
    chunk_sums *sums = &w->sums[w->n_file];
    w->file[w->n_file++].name = name;
    chunk_sums_begin(sums, &w->host->mem, w->err);
    save_summed(&w->save, sums);
    return true;
}

static void write_state(writing *w)
{
    char path[MAX_PATH];
    if (!next_file(w, STATE_FILE, path))
        return;
    save_file(&w->save, path);
    for (int i = 0; i < w->v->n_block && w->save.status == WEFT_OK; i++) {
        const checkpoint_block *b = &w->v->block[i];
        if (b->fill)
            w->save.status = b->fill(b->ud, b->name, w->err);
        save_put(&w->save, b->data, b->bytes);
    }
}

static void write_text(writing *w, const char *name, const void *text, size_t n)
{
    char path[MAX_PATH];
    if (!next_file(w, name, path))
        return;
    save_file(&w->save, path);
    save_put(&w->save, text, n);
}

/* A directory with these files would be taken for a model. */
static bool is_of_model(int text)
{
    return text == TEXT_CONFIG || text == TEXT_GENERATION || text == TEXT_PREPROCESSOR;
}

static void write_files(writing *w, const char *root)
{
    const hf_form *form = w->v->form;
    char path[MAX_PATH];
    save_directory(&w->save, root);
    save_directory(&w->save, w->path);
    const peft_contents *peft = w->v->adapter;
    if (peft && next_file(w, PEFT_WEIGHTS, path))
        peft_contents_put(peft, &w->save, path);
    if (!peft && next_file(w, WEIGHTS_FILE, path))
        hf_form_weights(form, w->v->weight, path, &w->save);
    write_state(w);
    for (int i = N_TEXT - 1; i >= 0; i--)
        if (form->text[i].text && !(peft && is_of_model(i)))
            write_text(w, text_files[i], form->text[i].text, form->text[i].length);
    if (peft)
        write_text(w, PEFT_CONFIG, peft->config.at, peft->config.n);
}

static weft_status close_sums(writing *w)
{
    for (int i = 0; i < w->n_file; i++) {
        manifest_file *f = &w->file[i];
        f->bytes = w->sums[i].bytes;
        f->sum = chunk_sums_end(&w->sums[i], &f->n_sum);
        if (!f->sum && f->bytes > 0)
            return WEFT_ENOMEM;
    }
    return WEFT_OK;
}

/* Never writes a manifest that the reader would refuse. */
static weft_status write_manifest(writing *w)
{
    char path[MAX_PATH];
    manifest_block block[MAX_BLOCK];
    for (int i = 0; i < w->v->n_block; i++)
        block[i] = (manifest_block){ .name = w->v->block[i].name, .bytes = w->v->block[i].bytes };
    const manifest m = { .counters = w->v->counters,
                         .options = w->v->options,
                         .file = w->file,
                         .n_file = w->n_file,
                         .block = block,
                         .n_block = w->v->n_block };
    manifest again = { 0 };
    buffer text;
    weft_status status = join_path(path, w->path, MANIFEST_FILE, w->err);
    if (status != WEFT_OK)
        return status;
    buffer_begin(&text, &w->host->mem, w->err);
    manifest_text(&m, &text);
    status = text.failed ? WEFT_ENOMEM
                         : manifest_parse(&again, text.at, text.n, path, w->host, w->err);
    manifest_free(&again);
    if (status == WEFT_OK)
        status = save_whole(path, text.at, text.n, w->host, w->err);
    buffer_end(&text);
    return status;
}

/* Makes the run's directory the model of a checkpoint, file by file; config.json and the tokenizer
 * are the same in all of them. On failure the directory keeps the earlier model. */
static void publish(const char *root, const char *directory, const manifest_file *f, int64_t n,
                    host *h)
{
    save s;
    weft_error err = { 0 };
    char from[MAX_PATH], to[MAX_PATH];
    save_begin(&s, h, &err);
    for (int64_t i = 0; i < n; i++)
        if (strcmp(f[i].name, STATE_FILE) != 0 &&
            join_path(from, directory, f[i].name, NULL) == WEFT_OK &&
            join_path(to, root, f[i].name, NULL) == WEFT_OK)
            save_link(&s, from, to);
    if (save_commit(&s) != WEFT_OK)
        log_write(&h->log, WEFT_LOG_WARN, "%s: the model was not updated: %s", root, err.message);
}

static weft_status write_checkpoint_files(writing *w, const char *root)
{
    save_begin(&w->save, w->host, w->err);
    write_files(w, root);
    weft_status status = save_commit(&w->save);
    if (status != WEFT_OK)
        return status;
    status = close_sums(w);
    if (status == WEFT_OK)
        status = write_manifest(w);
    if (status != WEFT_OK)
        checkpoint_remove(w->path, w->host);
    return status;
}

/* Finds a name that no checkpoint of this step has. */
static weft_status new_name(const char *root, int64_t step, step_name *to, host *h, weft_error *err)
{
    bool any;
    *to = (step_name){ step, INT64_MAX };
    const weft_status status = next_older(root, to, &any, h, err);
    *to = (step_name){ step, any && to->step == step ? to->nth + 1 : 1 };
    return status;
}

weft_status checkpoint_write(const char *root, const checkpoint_view *v, int keep, host *h,
                             weft_error *err)
{
    writing w = { .v = v, .host = h, .err = err };
    step_name name;
    weft_error why = { 0 };
    assert(v->n_block <= MAX_BLOCK);
    weft_status status = new_name(root, v->counters.step, &name, h, err);
    if (status == WEFT_OK)
        status = step_path(w.path, root, name, err);
    if (status == WEFT_OK)
        status = write_checkpoint_files(&w, root);
    for (int i = 0; i < w.n_file; i++)
        chunk_sums_free(&w.sums[i]);
    if (status != WEFT_OK)
        return status;
    publish(root, w.path, w.file, w.n_file, h);
    if (retire(root, name, keep, v->spared, h, &why) != WEFT_OK)
        log_write(&h->log, WEFT_LOG_WARN, "%s: old checkpoints were not removed: %s", root,
                  why.message);
    return WEFT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A file of the checkpoint, read in order; its checksums are compared at the end. */
typedef struct reading {
    const manifest_file *of;
    char path[MAX_PATH];
    int fd;
    chunk_sums sums;
    host *host;
    weft_error *err;
} reading;

static weft_status read_begin(reading *r, const char *directory, const manifest_file *of, host *h,
                              weft_error *err)
{
    uint64_t size;
    *r = (reading){ .of = of, .fd = -1, .host = h, .err = err };
    chunk_sums_begin(&r->sums, &h->mem, err);
    const weft_status status = join_path(r->path, directory, of->name, err);
    if (status != WEFT_OK)
        return status;
    r->fd = h->io.open(h->io.ud, r->path);
    if (r->fd < 0 || h->io.size(h->io.ud, r->fd, &size) != 0)
        return weft_fail(err, WEFT_EIO, "%s: cannot read: %s", r->path, strerror(errno));
    if (size != of->bytes)
        return weft_fail(err, WEFT_EFORMAT, "%s: %" PRIu64 " bytes, but %" PRIu64 " were written",
                         r->path, size, of->bytes);
    return WEFT_OK;
}

static weft_status read_into(reading *r, void *to, size_t size)
{
    const io_hooks *io = &r->host->io;
    for (size_t at = 0; at < size;) {
        const ssize_t n = io->read(io->ud, r->fd, (char *)to + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return weft_fail(r->err, WEFT_EIO, "%s: cannot read: %s", r->path,
                             n < 0 ? strerror(errno) : "it ends early");
        chunk_sums_add(&r->sums, (char *)to + at, (size_t)n);
        at += (size_t)n;
    }
    return WEFT_OK;
}

static weft_status compare_sums(reading *r)
{
    uint64_t n;
    const uint64_t *sum = chunk_sums_end(&r->sums, &n);
    if (!sum && r->of->bytes > 0)
        return WEFT_ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        if (sum[i] != r->of->sum[i])
            return weft_fail(r->err, WEFT_EFORMAT,
                             "%s: chunk %" PRIu64 " of %" PRIu64 " (bytes from %" PRIu64
                             " on) is not what was written",
                             r->path, i + 1, n, i * CHUNK_BYTES);
    return WEFT_OK;
}

static weft_status read_end(reading *r, weft_status status)
{
    if (status == WEFT_OK)
        status = compare_sums(r);
    if (r->fd >= 0)
        r->host->io.close(r->host->io.ud, r->fd);
    chunk_sums_free(&r->sums);
    return status;
}

static weft_status check_file(const char *directory, const manifest_file *of, uint8_t *room,
                              host *h, weft_error *err)
{
    reading r;
    weft_status status = read_begin(&r, directory, of, h, err);
    for (uint64_t left = of->bytes; left > 0 && status == WEFT_OK;) {
        const size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
        status = read_into(&r, room, n);
        left -= n;
    }
    return read_end(&r, status);
}

weft_status checkpoint_open(checkpoint *c, host *h, weft_error *err)
{
    char path[MAX_PATH];
    file f;
    weft_status status = join_path(path, c->path, MANIFEST_FILE, err);
    if (status == WEFT_OK)
        status = file_open(&f, path, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    status = manifest_parse(&c->manifest, f.data, f.size, path, h, err);
    file_close(&f, h);
    return status;
}

/* Reads and checks every byte. */
static weft_status check_files(checkpoint *c, host *h, weft_error *err)
{
    weft_status status = checkpoint_open(c, h, err);
    if (status != WEFT_OK)
        return status;
    uint8_t *room = mem_alloc(&h->mem, READ_BYTES, "reading a checkpoint", err);
    status = room ? WEFT_OK : WEFT_ENOMEM;
    for (int64_t i = 0; i < c->manifest.n_file && status == WEFT_OK; i++)
        status = check_file(c->path, &c->manifest.file[i], room, h, err);
    mem_free(&h->mem, room);
    if (status != WEFT_OK)
        manifest_free(&c->manifest);
    return status;
}

/* A damaged checkpoint is skipped. Other errors stop the search: they may be transient, or the file
 * may need another version of weft. */
static bool is_damage(weft_status status)
{
    return status == WEFT_EFORMAT || status == WEFT_EIO;
}

weft_status checkpoint_find(checkpoint *c, const char *root, host *h, weft_error *err)
{
    step_name n = beyond_all;
    weft_status worst = WEFT_OK;
    *c = (checkpoint){ 0 };
    for (;;) {
        weft_error why = { 0 };
        bool any;
        weft_status status = next_older(root, &n, &any, h, err);
        if (status == WEFT_OK && any)
            status = step_path(c->path, root, n, err);
        if (status != WEFT_OK || !any) {
            c->path[0] = '\0';
            return status != WEFT_OK ? status : worst;
        }
        if (!has_manifest(c->path, h))
            continue;
        status = check_files(c, h, &why);
        if (status == WEFT_OK)
            return WEFT_OK;
        if (worst == WEFT_OK || !is_damage(status))
            worst = weft_fail(err, status, "%s", why.message);
        if (!is_damage(status)) {
            c->path[0] = '\0';
            return status;
        }
        log_write(&h->log, WEFT_LOG_WARN, "%s; trying an older checkpoint", why.message);
    }
}

void checkpoint_publish(const checkpoint *c, const char *root, host *h)
{
    publish(root, c->path, c->manifest.file, c->manifest.n_file, h);
}

static weft_status check_blocks(const checkpoint *c, const checkpoint_block *block, int n_block,
                                weft_error *err)
{
    const manifest *m = &c->manifest;
    if (m->n_block != n_block)
        return weft_fail(err, WEFT_EFORMAT, "%s: %" PRId64 " blocks of state, expected %d", c->path,
                         m->n_block, n_block);
    for (int i = 0; i < n_block; i++)
        if (strcmp(m->block[i].name, block[i].name) != 0 || m->block[i].bytes != block[i].bytes)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s: block %s of %" PRIu64 " bytes, expected %s of %zu", c->path,
                             m->block[i].name, m->block[i].bytes, block[i].name, block[i].bytes);
    return WEFT_OK;
}

weft_status checkpoint_read(const checkpoint *c, const checkpoint_block *block, int n_block,
                            host *h, weft_error *err)
{
    reading r;
    weft_status status = check_blocks(c, block, n_block, err);
    const manifest_file *state = manifest_find(&c->manifest, STATE_FILE);
    if (status != WEFT_OK || !state)
        return status;
    status = read_begin(&r, c->path, state, h, err);
    for (int i = 0; i < n_block && status == WEFT_OK; i++) {
        status = read_into(&r, block[i].data, block[i].bytes);
        if (block[i].take && status == WEFT_OK)
            block[i].take(block[i].ud, block[i].name);
    }
    return read_end(&r, status);
}

void checkpoint_free(checkpoint *c)
{
    manifest_free(&c->manifest);
    c->path[0] = '\0';
}

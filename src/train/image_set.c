/* image_set.c - lists and loads labelled images, from directories or IDX files. */
#include "train/image_set.h"

#include "base/rng.h"
#include "base/sort.h"
#include "formats/unpack.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_PICTURE (INT64_C(1) << 31)
#define MAX_CLASS   65536

/* ---- directories ------------------------------------------------------------------------------ */

/* Names of a directory, listed one by one; the first error sticks. */
typedef struct name {
    struct name *before;
    char *text;
} name;

typedef struct names {
    arena *store;
    name *last;
    int64_t n;
    weft_error *err;
    bool failed;
} names;

static void keep_class_name(void *ud, const char *text)
{
    names *l = ud;
    if (l->failed || text[0] == '.')
        return;
    name *n = arena_alloc(l->store, sizeof *n, l->err);
    char *copy = n ? arena_text(l->store, text, strlen(text), l->err) : NULL;
    l->failed = !copy;
    if (l->failed)
        return;
    *n = (name){ l->last, copy };
    l->last = n;
    l->n++;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sorted, so that the order of the file system does not matter. NULL after an error. */
static char **names_in(const char *path, image_set *p, int64_t *n, weft_error *err)
{
    names l = { .store = &p->store, .err = err };
    const io_hooks *io = &p->host->io;
    if (io->list(io->ud, path, keep_class_name, &l) != 0 && !l.failed) {
        weft_fail(err, WEFT_EIO, "%s: cannot be listed", path);
        return NULL;
    }
    char **list = l.failed ? NULL : arena_alloc(&p->store, (size_t)(l.n + 1) * sizeof *list, err);
    *n = l.n;
    for (int64_t i = l.n; list && i > 0; i--, l.last = l.last->before)
        list[i - 1] = l.last->text;
    if (list)
        sort_pointers((void **)list, l.n, by_text);
    return list;
}

static char *joined(image_set *p, const char *directory, const char *text, weft_error *err)
{
    char path[4096];
    if (!path_join(path, sizeof path, directory, text)) {
        weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
        return NULL;
    }
    return arena_text(&p->store, path, strlen(path), err);
}

/* A list that grows while classes are read. */
typedef struct gathering {
    image_set *p;
    image_entry **all;
    int64_t room;
    weft_error *err;
} gathering;

static bool gather_files(gathering *g, const char *directory, const char *text, int32_t label)
{
    image_set *p = g->p;
    if (p->n == g->room) {
        const int64_t room = g->room ? 2 * g->room : 1024;
        image_entry **more = arena_alloc(&p->store, (size_t)room * sizeof *more, g->err);
        if (!more)
            return false;
        if (p->n > 0)
            memcpy(more, g->all, (size_t)p->n * sizeof *more);
        g->all = more;
        g->room = room;
    }
    image_entry *f = arena_alloc(&p->store, sizeof *f, g->err);
    if (!f)
        return false;
    *f = (image_entry){ joined(p, directory, text, g->err), label };
    g->all[p->n++] = f;
    return f->path != NULL;
}

/* 1: a directory; 0: something else; -1: it cannot be opened, and skipping it would silently lose a
 * class. */
static int is_class(const char *path, host *h, weft_error *err)
{
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0) {
        weft_fail(err, WEFT_EIO, "%s: cannot open: %s", path, strerror(errno));
        return -1;
    }
    h->io.close(h->io.ud, fd);
    return path_is_directory(path, h);
}

static bool list_class(gathering *g, const char *directory, const char *text)
{
    image_set *p = g->p;
    int64_t n = 0;
    const int64_t before = p->n;
    char *path = joined(p, directory, text, g->err);
    const int kind = path ? is_class(path, p->host, g->err) : -1;
    if (kind != 1)
        return kind == 0;
    char **list = names_in(path, p, &n, g->err);
    for (int64_t i = 0; list && i < n; i++)
        if (image_is_name(list[i]) && !gather_files(g, path, list[i], (int32_t)p->n_class))
            return false;
    if (!list)
        return false;
    if (p->n > before)
        p->class_name[p->n_class++] = text;
    return true;
}

static weft_status list_directory(image_set *p, const char *path, weft_error *err)
{
    int64_t n = 0;
    gathering g = { .p = p, .err = err };
    char **list = names_in(path, p, &n, err);
    if (list && n > MAX_CLASS)
        return weft_fail(err, WEFT_EINVAL, "%s: %lld classes", path, (long long)n);
    p->class_name = list ? arena_alloc(&p->store, (size_t)(n + 1) * sizeof *p->class_name, err)
                         : NULL;
    for (int64_t i = 0; p->class_name && i < n; i++)
        if (!list_class(&g, path, list[i]))
            return err->code;
    if (!p->class_name)
        return err->code;
    p->file = g.all;
    return p->n > 0
               ? WEFT_OK
               : weft_fail(
                     err, WEFT_EFORMAT,
                     "%s: no images; expected one directory per class, with .png and .jpg files",
                     path);
}

/* ---- IDX --------------------------------------------------------------------------------------- */

static weft_status open_idx(file *f, idx *to, const char *path, weft_load load, host *h,
                            weft_error *err)
{
    const weft_status status = file_open_unpacked(f, path, "an IDX file", load, h, err);
    return status == WEFT_OK ? idx_parse(to, f->data, f->size, path, err) : status;
}

/* Images are [n, height, width] or [n, height, width, 3]. */
static weft_status check_pair(image_set *p, const idx_pair *q, const char *path, weft_error *err)
{
    const int64_t channels = q->image.n_dim == 4 ? q->image.size[3] : 1;
    if (q->image.n_dim < 3 || q->label.n_dim != 1 || (channels != 1 && channels != 3) ||
        q->image.size[1] > IMAGE_MAX_SIDE || q->image.size[2] > IMAGE_MAX_SIDE)
        return weft_fail(err, WEFT_EFORMAT, "%s: expected pairs of files, images and then labels",
                         path);
    if (q->image.size[0] != q->label.size[0])
        return weft_fail(err, WEFT_EFORMAT, "%s: %lld images, but %lld labels", path,
                         (long long)q->image.size[0], (long long)q->label.size[0]);
    if (p->n > 0 &&
        (p->height != q->image.size[1] || p->width != q->image.size[2] || p->channels != channels))
        return weft_fail(err, WEFT_EFORMAT, "%s: images of another size than the previous ones",
                         path);
    p->height = q->image.size[1];
    p->width = q->image.size[2];
    p->channels = channels;
    p->n += q->image.size[0];
    for (int64_t i = 0; i < q->label.size[0]; i++)
        p->n_class = q->label.item[i] >= p->n_class ? q->label.item[i] + 1 : p->n_class;
    return WEFT_OK;
}

/* Names classes by their numbers. */
static weft_status number_classes(image_set *p, weft_error *err)
{
    p->class_name = arena_alloc(&p->store, 256 * sizeof *p->class_name, err);
    for (int64_t i = 0; p->class_name && i < p->n_class; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", (int)i);
        p->class_name[i] = arena_text(&p->store, text, strlen(text), err);
        if (!p->class_name[i])
            return err->code;
    }
    return p->class_name ? WEFT_OK : err->code;
}

static weft_status list_idx(image_set *p, const char *const *path, int n_path, weft_load load,
                            weft_error *err)
{
    if (n_path % 2 != 0)
        return weft_fail(err, WEFT_EINVAL, "%s: no labels; give the file of its labels after it",
                         path[0]);
    p->pair = arena_alloc(&p->store, (size_t)n_path / 2 * sizeof *p->pair, err);
    if (!p->pair)
        return err->code;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n_path / 2 && status == WEFT_OK; i++) {
        idx_pair *q = &p->pair[p->n_pair++];
        *q = (idx_pair){ 0 };
        status = open_idx(&q->image_file, &q->image, path[2 * i], load, p->host, err);
        if (status == WEFT_OK)
            status = open_idx(&q->label_file, &q->label, path[2 * i + 1], load, p->host, err);
        if (status == WEFT_OK)
            status = check_pair(p, q, path[2 * i], err);
    }
    return status == WEFT_OK ? number_classes(p, err) : status;
}

/* ---- both -------------------------------------------------------------------------------------- */

/* Replaces the first bytes of a compressed file by those of its contents. */
static void unpack_magic(const char *path, uint8_t magic[4], host *h)
{
    file f;
    if (!is_packed(magic, 4) || file_open(&f, path, WEFT_LOAD_MAP, h, NULL) != WEFT_OK)
        return;
    unpack_head(f.data, f.size, magic, 4, &h->mem);
    file_close(&f, h);
}

bool is_image_set(const char *path, host *h)
{
    uint8_t magic[4] = { 1 };
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0)
        return false;
    const bool read = h->io.read(h->io.ud, fd, magic, sizeof magic) == sizeof magic;
    h->io.close(h->io.ud, fd);
    if (read)
        unpack_magic(path, magic, h);
    return (read && magic[0] == 0 && magic[1] == 0 && magic[2] == 8) || path_is_directory(path, h);
}

weft_status image_set_list(image_set *p, const char *const *path, int n_path, weft_load load,
                           host *h, weft_error *err)
{
    *p = (image_set){ .host = h };
    weft_status status = arena_init(&p->store, ARENA_GROWING, &h->mem, 0, "pictures", err);
    if (status != WEFT_OK)
        return status;
    if (!path_is_directory(path[0], h))
        status = list_idx(p, path, n_path, load, err);
    else if (n_path > 1)
        status = weft_fail(err, WEFT_EINVAL, "%s: expected one directory of images", path[0]);
    else
        status = list_directory(p, path[0], err);
    if (status == WEFT_OK && p->n_class < 2)
        status = weft_fail(err, WEFT_EFORMAT, "%s: one class only; nothing to train on", path[0]);
    if (status != WEFT_OK)
        image_set_close(p);
    return status;
}

void image_set_close(image_set *p)
{
    for (int i = 0; i < p->n_pair; i++) {
        file_close(&p->pair[i].image_file, p->host);
        file_close(&p->pair[i].label_file, p->host);
    }
    mem_free(&p->host->mem, p->pixel);
    mem_free(&p->host->mem, p->label);
    mem_free(&p->host->mem, p->moved);
    if (p->store.mem)
        arena_free(&p->store);
    *p = (image_set){ .host = p->host };
}

/* ---- loading ----------------------------------------------------------------------------------- */

static size_t bytes_of_one(const image_shape *s)
{
    return (size_t)(s->height * s->width * s->channels);
}

/* Loads image i of the list in its original size, into its own memory. */
static weft_status load_original(const image_set *p, int64_t i, image *im, const char **path,
                                 int32_t *label, weft_error *err)
{
    if (p->file) {
        *path = p->file[i]->path;
        *label = p->file[i]->label;
        return image_open(im, *path, p->host, err);
    }
    const idx_pair *q = p->pair;
    for (; i >= q->image.size[0]; q++)
        i -= q->image.size[0];
    *path = q->image_file.path;
    *label = q->label.item[i];
    const weft_status status = image_take(im, (uint64_t)p->height, (uint64_t)p->width,
                                          (uint64_t)p->channels, *path, p->host, err);
    if (status == WEFT_OK)
        memcpy(im->pixel, q->image.item + i * q->image.item_bytes, (size_t)q->image.item_bytes);
    return status;
}

static weft_status load_one(image_set *p, int64_t i, weft_error *err)
{
    image im = { 0 };
    const char *path;
    const size_t bytes = bytes_of_one(&p->shape);
    weft_status status = load_original(p, i, &im, &path, &p->label[i], err);
    if (status == WEFT_OK)
        status = image_input_fit(&im, &p->recipe, &p->shape, path, p->host, err);
    if (status == WEFT_OK)
        memcpy(p->pixel + (size_t)i * bytes, im.pixel, bytes);
    image_free(&im, p->host);
    return status;
}

/* Maps class names to the model's classes: a model that resumes training has its own order. */
static weft_status match_classes(image_set *p, const model *m, weft_error *err)
{
    if (m->n_out != p->n_class)
        return weft_fail(err, WEFT_EINVAL, "images of %lld classes; the model has %lld",
                         (long long)p->n_class, (long long)m->n_out);
    for (int64_t i = 0; m->label && p->file && i < p->n_class; i++)
        if (strcmp(m->label[i], p->class_name[i]) != 0)
            return weft_fail(err, WEFT_EINVAL, "class %lld is \"%.60s\"; the model has \"%.60s\"",
                             (long long)i, p->class_name[i], m->label[i]);
    return WEFT_OK;
}

weft_status image_set_load(image_set *p, const model *m, weft_error *err)
{
    mem *from = &p->host->mem;
    p->shape = m->image;
    weft_status status = match_classes(p, m, err);
    if (status == WEFT_OK)
        status = image_input_recipe(&p->recipe, m, err);
    if (status != WEFT_OK)
        return status;
    const size_t n = (size_t)p->n, bytes = bytes_of_one(&p->shape);
    if (p->n > MAX_PICTURE)
        return weft_fail(err, WEFT_EINVAL, "%lld pictures", (long long)p->n);
    p->label = mem_zalloc(from, n, sizeof *p->label, "labels", err);
    p->moved = p->label ? mem_zalloc(from, 1, bytes, "a picture", err) : NULL;
    p->pixel = p->moved ? mem_zalloc(from, n, bytes, "pictures", err) : NULL;
    if (!p->pixel)
        return err->code;
    for (int64_t i = 0; i < p->n && status == WEFT_OK; i++)
        status = load_one(p, i, err);
    return status;
}

/* ---- samples ----------------------------------------------------------------------------------- */

static int64_t within(int64_t x, int64_t n)
{
    return x < 0 ? 0 : x < n ? x : n - 1;
}

/* Shifts by some pixels; the edge pixels are repeated. */
static void move(const image_set *p, const uint8_t *from, int64_t down, int64_t right)
{
    const image_shape *s = &p->shape;
    uint8_t *to = p->moved;
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++, to += s->channels) {
            const int64_t at = within(y - down, s->height) * s->width + within(x - right, s->width);
            memcpy(to, from + at * s->channels, (size_t)s->channels);
        }
}

void image_set_add(const image_set *p, int64_t i, bool learned, uint64_t key, uint64_t number,
                   batch *b, real *features)
{
    const image_shape *s = &p->shape;
    const int32_t T = (int32_t)(s->n_lead + (s->height / s->patch) * (s->width / s->patch));
    const int32_t first = b->n_row, seq = b->n_seq++;
    uint8_t *pixel = p->pixel + (size_t)i * bytes_of_one(s);
    if (learned && p->shift > 0) {
        const rng_block r = rng_draw(key, number, 0);
        const uint32_t span = (uint32_t)(2 * p->shift + 1);
        move(p, pixel, (int64_t)(r.word[0] % span) - p->shift,
             (int64_t)(r.word[1] % span) - p->shift);
        pixel = p->moved;
    }
    const image im = { s->height, s->width, s->channels, pixel };
    image_input_rows(&im, &p->recipe, s, features + first * s->channels * s->patch * s->patch);
    b->seq[seq] = (sequence){ .first = first, .n = T, .source = -1 };
    for (int32_t k = 0; k < T; k++)
        b->row[first + k] = (batch_row){
            .seq = seq, .pos = k, .target = k ? NO_TARGET : p->label[i], .weight = 1, .wanted = !k
        };
    b->n_row += T;
    b->n_wanted++;
}

#include "crash_disk.h"

#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODE  1024
#define MAX_ENTRY 64
#define MAX_FD    64
#define SECTOR    512

typedef struct bytes {
    uint8_t *at;
    size_t n;
} bytes;

typedef struct entry {
    char name[96]; /* "": free */
    int node;
} entry;

typedef struct names {
    entry entry[MAX_ENTRY];
} names;

/* A directory change that may or may not have happened: up to two names. */
typedef struct change {
    entry set;     /* "": none */
    char gone[96]; /* "": none */
} change;

typedef struct node {
    bool used, directory;
    bytes now, safe;         /* of a file */
    names *list, *safe_list; /* of a directory */
    change *change;
    int n_change;
} node;

struct crash_disk {
    node node[MAX_NODE]; /* 0: where all paths begin */
    int n_node;
    struct {
        bool used;
        int node;
        size_t at;
    } fd[MAX_FD];
    bool lies;
    crash_fn *watch;
    void *watch_ud;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The disk is too small for the test. */
static void must(bool fits)
{
    if (!fits)
        abort();
}

static void *grab(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    must(p != NULL);
    return p;
}

static bytes copy_of(bytes b)
{
    bytes c = { grab(b.n, 1), b.n };
    if (b.n)
        memcpy(c.at, b.at, b.n);
    return c;
}

static int add_node(crash_disk *d, bool directory)
{
    must(d->n_node < MAX_NODE);
    node *n = &d->node[d->n_node];
    *n = (node){ .used = true, .directory = directory };
    if (directory) {
        n->list = grab(1, sizeof *n->list);
        n->safe_list = grab(1, sizeof *n->safe_list);
    }
    return d->n_node++;
}

static entry *find(names *l, const char *name)
{
    for (int i = 0; i < MAX_ENTRY; i++)
        if (l->entry[i].name[0] && strcmp(l->entry[i].name, name) == 0)
            return &l->entry[i];
    return NULL;
}

static void apply(names *l, const change *c)
{
    entry *e = c->gone[0] ? find(l, c->gone) : NULL;
    if (e)
        *e = (entry){ 0 };
    if (!c->set.name[0])
        return;
    e = find(l, c->set.name);
    for (int i = 0; !e && i < MAX_ENTRY; i++)
        if (!l->entry[i].name[0])
            e = &l->entry[i];
    must(e != NULL);
    *e = c->set;
}

static void alter(crash_disk *d, int directory, const change *c)
{
    node *n = &d->node[directory];
    apply(n->list, c);
    n->change = realloc(n->change, (size_t)(n->n_change + 1) * sizeof *n->change);
    n->change[n->n_change++] = *c;
}

/* The directory of a path, and its last component; -1 if there is none. */
static int parent_of(crash_disk *d, const char *path, char *name)
{
    int at = 0;
    for (;;) {
        path += strspn(path, "/");
        const size_t n = strcspn(path, "/");
        must(n < 96);
        snprintf(name, 96, "%.*s", (int)n, path);
        path += n;
        if (!path[strspn(path, "/")])
            return at;
        const entry *e = find(d->node[at].list, name);
        if (!e || !d->node[e->node].directory)
            return errno = ENOENT, -1;
        at = e->node;
    }
}

/* -1 if the path does not exist. */
static int node_at(crash_disk *d, const char *path)
{
    char name[96];
    const int in = parent_of(d, path, name);
    if (in < 0 || !name[0] || strcmp(name, ".") == 0)
        return in;
    const entry *e = find(d->node[in].list, name);
    return e ? e->node : (errno = ENOENT, -1);
}

static void called(crash_disk *d)
{
    if (d->watch)
        d->watch(d->watch_ud, d);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int give_fd(crash_disk *d, int n)
{
    for (int i = 0; i < MAX_FD; i++)
        if (!d->fd[i].used) {
            d->fd[i].used = true;
            d->fd[i].node = n;
            d->fd[i].at = 0;
            return i;
        }
    return errno = EMFILE, -1;
}

static int do_open(void *ud, const char *path)
{
    const int n = node_at(ud, path);
    return n < 0 ? -1 : give_fd(ud, n);
}

static int do_size(void *ud, int fd, uint64_t *size)
{
    const crash_disk *d = ud;
    const node *n = &d->node[d->fd[fd].node];
    if (n->directory)
        return errno = EISDIR, -1;
    *size = n->now.n;
    return 0;
}

static ssize_t do_read(void *ud, int fd, void *to, size_t size)
{
    crash_disk *d = ud;
    const node *n = &d->node[d->fd[fd].node];
    const size_t left = n->now.n - d->fd[fd].at, take = size < left ? size : left;
    if (take)
        memcpy(to, n->now.at + d->fd[fd].at, take);
    d->fd[fd].at += take;
    return (ssize_t)take;
}

static void do_close(void *ud, int fd)
{
    ((crash_disk *)ud)->fd[fd].used = false;
}

static int do_create(void *ud, const char *path, const char *like)
{
    crash_disk *d = ud;
    (void)like;
    change c = { 0 };
    called(d);
    const int in = parent_of(d, path, c.set.name);
    if (in < 0 || find(d->node[in].list, c.set.name))
        return errno = in < 0 ? ENOENT : EEXIST, -1;
    c.set.node = add_node(d, false);
    alter(d, in, &c);
    return give_fd(d, c.set.node);
}

/* At most 4096 bytes at once, so that a file is written in several calls. */
static ssize_t do_write(void *ud, int fd, const void *from, size_t size)
{
    crash_disk *d = ud;
    called(d);
    node *n = &d->node[d->fd[fd].node];
    size = size < 4096 ? size : 4096;
    n->now.at = realloc(n->now.at, n->now.n + size);
    memcpy(n->now.at + n->now.n, from, size);
    n->now.n += size;
    return (ssize_t)size;
}

static int do_sync(void *ud, int fd)
{
    crash_disk *d = ud;
    called(d);
    node *n = &d->node[d->fd[fd].node];
    if (d->lies)
        return 0;
    if (n->directory) {
        *n->safe_list = *n->list;
        n->n_change = 0;
    } else {
        free(n->safe.at);
        n->safe = copy_of(n->now);
    }
    return 0;
}

/* Only within one directory; weft needs no more. */
static int do_rename(void *ud, const char *from, const char *to)
{
    crash_disk *d = ud;
    change c = { 0 };
    called(d);
    const int in = parent_of(d, from, c.gone), into = parent_of(d, to, c.set.name);
    const entry *e = in >= 0 ? find(d->node[in].list, c.gone) : NULL;
    if (!e || in != into)
        return errno = e ? EXDEV : ENOENT, -1;
    c.set.node = e->node;
    alter(d, in, &c);
    return 0;
}

static int do_remove(void *ud, const char *path)
{
    crash_disk *d = ud;
    change c = { 0 };
    called(d);
    const int in = parent_of(d, path, c.gone);
    const entry *e = in >= 0 ? find(d->node[in].list, c.gone) : NULL;
    if (!e)
        return errno = ENOENT, -1;
    const node *n = &d->node[e->node];
    for (int i = 0; n->directory && i < MAX_ENTRY; i++)
        if (n->list->entry[i].name[0])
            return errno = ENOTEMPTY, -1;
    alter(d, in, &c);
    return 0;
}

static int do_mkdir(void *ud, const char *path)
{
    crash_disk *d = ud;
    change c = { 0 };
    called(d);
    const int in = parent_of(d, path, c.set.name);
    if (in < 0 || find(d->node[in].list, c.set.name))
        return errno = in < 0 ? ENOENT : EEXIST, -1;
    c.set.node = add_node(d, true);
    alter(d, in, &c);
    return 0;
}

static int do_link(void *ud, const char *from, const char *to)
{
    crash_disk *d = ud;
    change c = { 0 };
    called(d);
    const int n = node_at(d, from), in = parent_of(d, to, c.set.name);
    if (n < 0 || in < 0 || find(d->node[in].list, c.set.name))
        return errno = n < 0 || in < 0 ? ENOENT : EEXIST, -1;
    c.set.node = n;
    alter(d, in, &c);
    return 0;
}

/* Names may be removed during the listing. */
static int do_list(void *ud, const char *path, io_name_fn *name, void *name_ud)
{
    crash_disk *d = ud;
    const int n = node_at(d, path);
    if (n < 0 || !d->node[n].directory)
        return errno = n < 0 ? ENOENT : ENOTDIR, -1;
    const names was = *d->node[n].list;
    for (int i = 0; i < MAX_ENTRY; i++)
        if (was.entry[i].name[0])
            name(name_ud, was.entry[i].name);
    return 0;
}

/* There is no other process. */
static int do_lock(void *ud, int fd)
{
    (void)ud, (void)fd;
    return 0;
}

static bool is_open(const crash_disk *d, int n)
{
    for (int i = 0; i < MAX_FD; i++)
        if (d->fd[i].used && d->fd[i].node == n)
            return true;
    return false;
}

/* A part that is not open has no writer. */
static void do_sweep(void *ud, const char *directory)
{
    crash_disk *d = ud;
    const int in = node_at(d, directory);
    if (in < 0 || !d->node[in].directory)
        return;
    const names was = *d->node[in].list;
    for (int i = 0; i < MAX_ENTRY; i++) {
        change c = { 0 };
        if (part_stem(was.entry[i].name) == 0 || is_open(d, was.entry[i].node))
            continue;
        called(d);
        snprintf(c.gone, sizeof c.gone, "%s", was.entry[i].name);
        alter(d, in, &c);
    }
}

void host_crash_disk(host *h, crash_disk *d)
{
    *h = (host){ .io = { .open = do_open,
                         .size = do_size,
                         .read = do_read,
                         .close = do_close,
                         .create = do_create,
                         .write = do_write,
                         .sync = do_sync,
                         .rename = do_rename,
                         .remove = do_remove,
                         .mkdir = do_mkdir,
                         .link = do_link,
                         .list = do_list,
                         .lock = do_lock,
                         .sweep = do_sweep,
                         .ud = d } };
    mem_init(&h->mem, 0, NULL);
}

/* ---- life and death -------------------------------------------------------------------------- */

crash_disk *crash_disk_new(void)
{
    crash_disk *d = grab(1, sizeof *d);
    add_node(d, true);
    return d;
}

void crash_disk_free(crash_disk *d)
{
    for (int i = 0; i < d->n_node; i++) {
        free(d->node[i].now.at);
        free(d->node[i].safe.at);
        free(d->node[i].list);
        free(d->node[i].safe_list);
        free(d->node[i].change);
    }
    free(d);
}

void crash_disk_watch(crash_disk *d, crash_fn *fn, void *ud)
{
    d->watch = fn;
    d->watch_ud = ud;
}

void crash_disk_lie(crash_disk *d, bool lies)
{
    d->lies = lies;
}

typedef struct chance {
    uint64_t seed, n;
} chance;

/* An integer below n. */
static uint32_t draw(chance *c, uint32_t n)
{
    return rng_draw(c->seed, 77, c->n++).word[0] % n;
}

/* Files only grow: the synced bytes are a prefix of the written ones. */
static bytes survive(const node *n, chance *c)
{
    if (c->seed < 2)
        return copy_of(c->seed ? n->now : n->safe);
    bytes b = copy_of(n->now);
    const size_t more = n->now.n - n->safe.n;
    if (more == 0)
        return b;
    const uint32_t end = draw(c, 4);
    b.n = end == 0 ? n->safe.n : end == 1 ? n->safe.n + draw(c, (uint32_t)more) : n->now.n;
    for (size_t at = n->safe.n; at < b.n;) {
        const size_t next = (at / SECTOR + 1) * SECTOR, to = next < b.n ? next : b.n;
        const uint32_t fate = draw(c, 4); /* kept twice as often as lost or garbled */
        for (size_t i = at; i < to && fate < 2; i++)
            b.at[i] = fate ? (uint8_t)draw(c, 256) : 0;
        at = to;
    }
    return b;
}

static void survive_names(names *to, const node *n, chance *c)
{
    *to = *n->safe_list;
    for (int i = 0; i < n->n_change; i++)
        if (c->seed == 1 || (c->seed > 1 && draw(c, 2)))
            apply(to, &n->change[i]);
}

crash_disk *crash_disk_crash(const crash_disk *d, uint64_t seed)
{
    crash_disk *to = grab(1, sizeof *to);
    chance c = { seed, 0 };
    for (int i = 0; i < d->n_node; i++) {
        const node *n = &d->node[i];
        node *m = &to->node[add_node(to, n->directory)];
        if (n->directory) {
            survive_names(m->list, n, &c);
            *m->safe_list = *m->list;
        } else {
            m->now = survive(n, &c);
            m->safe = copy_of(m->now);
        }
    }
    return to;
}

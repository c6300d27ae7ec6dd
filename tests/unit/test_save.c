/* Files written completely or not at all: the order of the calls, the message and clean-up of each
 * failure; and the two writers of weights on top. */
#include "formats/gguf_write.h"
#include "formats/safetensors_write.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a disk that only records the calls ---------------------------------------------------------- */

typedef struct disk {
    char log[2048];
    const char *fails; /* the failing call, as in the log */
    int why;           /* errno; 0: a write of nothing */
    bool once;
    int read; /* bytes */
} disk;

/* Records a call, with the name of a temporary file as "name.part"; true if it fails. */
static bool asked(disk *d, const char *verb, const char *what)
{
    char call[256];
    const size_t stem = part_stem(what);
    snprintf(call, sizeof call, "%s %.*s%s", verb, (int)(stem ? stem : strlen(what)), what,
             stem ? ".part" : "");
    strncat(d->log, d->log[0] ? ", " : "", sizeof d->log - strlen(d->log) - 1);
    strncat(d->log, call, sizeof d->log - strlen(d->log) - 1);
    if (!d->fails || strcmp(d->fails, call) != 0)
        return false;
    d->fails = d->once ? NULL : d->fails;
    errno = d->why;
    return true;
}

static int disk_open(void *ud, const char *path)
{
    return asked(ud, "open", path) ? -1 : 8;
}

static int disk_create(void *ud, const char *path, const char *like)
{
    assert_memory_equal(path, like, strlen(like));
    return asked(ud, "create", path) ? -1 : 7;
}

/* Seven is a file, eight a directory. */
static int disk_sync(void *ud, int fd)
{
    return asked(ud, "sync", fd == 7 ? "file" : "directory") ? -1 : 0;
}

static void disk_close(void *ud, int fd)
{
    (void)ud, (void)fd;
}

static ssize_t disk_write(void *ud, int fd, const void *from, size_t size)
{
    char what[32];
    (void)fd, (void)from;
    snprintf(what, sizeof what, "%zu", size);
    return !asked(ud, "write", what) ? (ssize_t)size : errno ? -1 : 0;
}

static int disk_rename(void *ud, const char *from, const char *to)
{
    (void)from;
    return asked(ud, "rename", to) ? -1 : 0;
}

static int disk_remove(void *ud, const char *path)
{
    return asked(ud, "remove", path) ? -1 : 0;
}

static int disk_link(void *ud, const char *from, const char *to)
{
    (void)from;
    return asked(ud, "link", to) ? -1 : 0;
}

/* Three bytes, then the end. */
static ssize_t disk_read(void *ud, int fd, void *to, size_t size)
{
    disk *d = ud;
    (void)fd, (void)size;
    memcpy(to, "abc", 3);
    d->read += 3;
    return asked(ud, "read", "some") ? -1 : d->read > 3 ? 0 : 3;
}

static int disk_mkdir(void *ud, const char *path)
{
    return asked(ud, "mkdir", path) ? -1 : 0;
}

static void disk_sweep(void *ud, const char *directory)
{
    asked(ud, "sweep", directory);
}

static void host_disk(host *h, disk *d)
{
    host_plain(h);
    h->io = (io_hooks){ .open = disk_open,
                        .read = disk_read,
                        .close = disk_close,
                        .create = disk_create,
                        .write = disk_write,
                        .sync = disk_sync,
                        .rename = disk_rename,
                        .remove = disk_remove,
                        .mkdir = disk_mkdir,
                        .link = disk_link,
                        .sweep = disk_sweep,
                        .ud = d };
}

/* "d/" is a directory, "-f" is removed, anything else is a file of one byte. */
static weft_status save_set(const char *const *path, host *h, weft_error *err)
{
    save s;
    *err = (weft_error){ 0 };
    save_begin(&s, h, err);
    for (; *path; path++) {
        if ((*path)[strlen(*path) - 1] == '/') {
            save_directory(&s, *path);
        } else if (**path == '-') {
            save_retire(&s, *path + 1);
        } else {
            save_file(&s, *path);
            save_put(&s, "x", 1);
        }
    }
    const weft_status status = save_commit(&s);
    assert_int_equal(atomic_load(&h->mem.used), 0);
    return status;
}

static void order_of_calls(void **state)
{
    (void)state;
    host h;
    disk d = { .log = "" };
    weft_error err;
    static const char *const set[] = { "d/", "d/a", "d/b", "e/c", "f", "/g", "-/h", NULL };
    host_disk(&h, &d);
    assert_int_equal(save_set(set, &h, &err), WEFT_OK);
    assert_string_equal(d.log,
                        "mkdir d/, sweep d, create d/a.part, write 1, sync file, create d/b.part, "
                        "write 1, sync file, sweep e, create e/c.part, write 1, sync file, "
                        "sweep ., create f.part, write 1, sync file, sweep /, create /g.part, "
                        "write 1, sync file, rename d/a, rename d/b, rename e/c, rename f, rename "
                        "/g, remove /h, open d, sync directory, "
                        "open e, sync directory, open ., sync directory, open /, sync directory");
}

static void failures(void **state)
{
    (void)state;
    static const char *const set[] = { "new/", "new/a", "newer/b", "out/c", "-old", NULL };
    static const struct {
        const char *fails;
        int why;
        bool once;
        const char *says; /* NULL: saved nevertheless */
        const char *ends; /* the last calls */
    } cases[] = {
        { "write 1", EINTR, true, NULL, "sync directory" },
        { "write 1", 0, true, "new/a: cannot write: No space left",
          "remove new/a.part, remove new/" },
        { "write 1", EIO, true, "new/a: cannot write: Input/output", "remove new/" },
        { "sync file", EIO, true, "new/a: cannot write: Input/output", "remove new/" },
        { "mkdir new/", EEXIST, false, NULL, "sync directory" },
        { "mkdir new/", EACCES, false, "new/: cannot create: Permission", "mkdir new/" },
        { "create new/a.part", EACCES, false, "new/a: cannot create: Permission", "remove new/" },
        { "create new/a.part", EEXIST, true, NULL, "sync directory" }, /* another name is free */
        { "create new/a.part", EEXIST, false, "new/a: cannot create: File exists", "remove new/" },
        { "rename new/a", EACCES, false, "new/a: cannot replace: Permission",
          "remove out/c.part, remove newer/b.part, remove new/a.part, remove new/" },
        { "rename out/c", EACCES, false, "out/c: cannot replace: Permission",
          "rename out/c, remove out/c.part, remove new/a, remove new/" },
        { "remove old", ENOENT, false, NULL, "sync directory" },
        { "remove old", EACCES, false, "old: cannot remove: Permission",
          "remove old, remove new/a, remove new/" },
        { "open new", EMFILE, false, "new/a: cannot reach the directory of: Too many",
          "remove new/" },
        { "sync directory", EINVAL, false, NULL, "sync directory" }, /* not every file system can */
        { "sync directory", EIO, false, "new/a: cannot write the directory of: Input/output",
          "remove new/a, remove new/" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        weft_error err;
        disk d = { .log = "", .fails = cases[i].fails, .why = cases[i].why, .once = cases[i].once };
        host_disk(&h, &d);
        const weft_status status = save_set(set, &h, &err);
        const size_t n = strlen(d.log), k = strlen(cases[i].ends);
        if (status != (cases[i].says ? WEFT_EIO : WEFT_OK) ||
            !strstr(err.message, cases[i].says ? cases[i].says : "") ||
            strcmp(d.log + (n > k ? n - k : 0), cases[i].ends) != 0)
            fail_msg("%s: %d \"%s\" after %s", cases[i].fails, (int)status, err.message, d.log);
    }
}

/* An existing directory is not emptied; it may be given without its slash. */
static void what_is_taken_back(void **state)
{
    (void)state;
    for (int there = 0; there < 2; there++) {
        host h;
        save s;
        weft_error err = { 0 };
        disk d = { .log = "", .fails = there ? "mkdir new" : NULL, .why = EEXIST, .once = true };
        host_disk(&h, &d);
        save_begin(&s, &h, &err);
        save_directory(&s, "new");
        d.fails = "rename newer/b";
        d.why = EACCES;
        save_file(&s, "newest");
        save_file(&s, "new/a");
        save_file(&s, "newer/b");
        assert_int_equal(save_commit(&s), WEFT_EIO);
        assert_string_equal(strstr(d.log, "rename newer/b"),
                            there
                                ? "rename newer/b, remove newer/b.part"
                                : "rename newer/b, remove newer/b.part, remove new/a, remove new");
    }
}

static int no_links(void *ud, const char *from, const char *to)
{
    (void)ud, (void)from, (void)to;
    errno = EOPNOTSUPP;
    return -1;
}

/* A hard link; or a copy if there can be none. */
static void links(void **state)
{
    (void)state;
    static const struct {
        const char *fails;
        int why;
        const char *says; /* NULL: saved nevertheless */
        const char *log;
    } cases[] = {
        { NULL, 0, NULL, "sweep ., link b.part, rename b, remove b.part, open ., sync directory" },
        { "link b.part", EPERM, NULL,
          "sweep ., link b.part, create b.part, open a, read some, write 3, read some, sync file, "
          "rename b, open ., sync directory" },
        { "link b.part", ENOSPC, "b: cannot create: No space left", "sweep ., link b.part" },
        { "rename b", EACCES, "b: cannot replace: Permission",
          "sweep ., link b.part, rename b, remove b.part" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        save s;
        weft_error err = { 0 };
        disk d = { .log = "", .fails = cases[i].fails, .why = cases[i].why };
        host_disk(&h, &d);
        save_begin(&s, &h, &err);
        save_link(&s, "a", "b");
        const weft_status status = save_commit(&s);
        if (status != (cases[i].says ? WEFT_EIO : WEFT_OK) || strcmp(d.log, cases[i].log) != 0 ||
            !strstr(err.message, cases[i].says ? cases[i].says : ""))
            fail_msg("%zu: %d \"%s\" after %s", i, (int)status, err.message, d.log);
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
}

/* The copy fails at each of its calls; an interrupted read is not a failure. */
static void failed_copies(void **state)
{
    (void)state;
    static const struct {
        const char *fails;
        int why;
        const char *says;
    } cases[] = { { "open a", ENOENT, "a: cannot open: No such file" },
                  { "read some", EIO, "a: cannot read: Input/output" },
                  { "write 3", ENOSPC, "b: cannot write: No space left" },
                  { "create b.part", EACCES, "b: cannot create: Permission" },
                  { "read some", EINTR, NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        save s;
        weft_error err = { 0 };
        disk d = { .log = "", .fails = cases[i].fails, .why = cases[i].why, .once = true };
        host_disk(&h, &d);
        h.io.link = no_links;
        save_begin(&s, &h, &err);
        save_link(&s, "a", "b");
        const weft_status status = save_commit(&s);
        if (status != (cases[i].says ? WEFT_EIO : WEFT_OK) ||
            !strstr(err.message, cases[i].says ? cases[i].says : ""))
            fail_msg("%zu: %d \"%s\" after %s", i, (int)status, err.message, d.log);
    }
}

/* Part files in a directory of the test's. */
static int count_parts(const char *directory)
{
    int n = 0;
    DIR *d = opendir(temp_path(directory));
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += part_stem(e->d_name) > 0;
    closedir(d);
    return n;
}

/* Two names of one file: rename leaves both, and the temporary one is removed nevertheless. */
static void link_again(void **state)
{
    (void)state;
    host h;
    save s;
    weft_error err = { 0 };
    const char *a = temp_file("linked-a", "a", 1), *b = temp_path("linked-b");
    host_plain(&h);
    for (int i = 0; i < 2; i++) {
        save_begin(&s, &h, &err);
        save_link(&s, a, b);
        assert_int_equal(save_commit(&s), WEFT_OK);
        assert_int_equal(count_parts(""), 0);
    }
}

static void touch(const char *directory, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* Temporary files of a killed process are removed by the next save into the directory, whatever
 * their names; those of a running writer and other files stay. */
static void parts_are_swept(void **state)
{
    (void)state;
    host h;
    save live;
    weft_error err = { 0 };
    char path[512];
    const char *in = temp_path("swept");
    host_plain(&h);
    assert_int_equal(h.io.mkdir(NULL, in), 0);
    touch(in, "a.weft-0123456789abcdef.part");
    touch(in, "b.c.weft-ffffffffffffffff.part");
    static const char *const others[] = { "a.part", "a.weft-0123456789abcdeX.part",
                                          "a.weft-0123456789abcdef0.part",
                                          ".weft-0123456789abcdef.part", "a.17.part" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        touch(in, others[i]);
    assert_int_equal(count_parts("swept"), 2);
    char link_part[600];
    snprintf(path, sizeof path, "%s/a.part", in);
    snprintf(link_part, sizeof link_part, "%s/linked.weft-0000000000000000.part", in);
    assert_int_equal(link(path, link_part), 0); /* about to replace a link, and not locked */

    save_begin(&live, &h, &err);
    snprintf(path, sizeof path, "%s/live", in);
    save_file(&live, path);
    save_put(&live, "live", 4);
    assert_int_equal(count_parts("swept"), 2);
    snprintf(path, sizeof path, "%s/live2", in);
    save_file(&live, path); /* the first is written and waits for the end of the set */
    assert_int_equal(count_parts("swept"), 3);
    snprintf(path, sizeof path, "%s/other", in);
    assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
    assert_int_equal(count_parts("swept"), 3);
    assert_int_equal(save_commit(&live), WEFT_OK);
    assert_int_equal(count_parts("swept"), 1);
    assert_int_equal(remove(link_part), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", in, others[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void modes_are_kept(void **state)
{
    (void)state;
    static const mode_t modes[] = { 0600, 0640, 0644, 0666, 0400 };
    host h;
    weft_error err = { 0 };
    const char *path = temp_path("mode");
    host_plain(&h);
    const mode_t mask = umask(022);
    assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
    assert_int_equal(mode_of(path), 0644);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
        assert_int_equal(mode_of(path), modes[i]);
    }
    umask(mask);
}

/* printf would write into a file with the descriptor of standard output. */
static void standard_descriptors_stay_free(void **state)
{
    (void)state;
    const char *path = temp_file("numbers", "x", 1), *new = temp_path("numbers-new");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO;
         fd += 2) { /* the tests print to the one between */
        const int kept = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        close(fd);
        const int a = io_system.open(NULL, path), b = io_system.create(NULL, new, new);
        const bool above = a > STDERR_FILENO && b > STDERR_FILENO;
        close(a);
        close(b);
        remove(new);
        if (kept >= 0) {
            dup2(kept, fd);
            close(kept);
        }
        assert_true(above);
    }
}

/* Checksums cover one file of the set, and all its bytes. */
static void summed(void **state)
{
    (void)state;
    host h;
    save s;
    chunk_sums sums;
    uint64_t n;
    weft_error err = { 0 };
    disk d = { .log = "" };
    host_disk(&h, &d);
    chunk_sums_begin(&sums, &h.mem, &err);
    save_begin(&s, &h, &err);
    save_file(&s, "a");
    save_put(&s, "first", 5);
    save_summed(&s, &sums);
    save_put(&s, "first", 5);
    save_file(&s, "b");
    save_put(&s, "sec", 3);
    save_put(&s, "ond", 3);
    save_file(&s, "c");
    save_put(&s, "third", 5);
    assert_int_equal(save_commit(&s), WEFT_OK);
    assert_true(*chunk_sums_end(&sums, &n) == xxh64_of("second", 6));
    assert_int_equal(n, 1);
    chunk_sums_free(&sums);
}

static void first_error_is_kept(void **state)
{
    (void)state;
    host h;
    save s;
    weft_error err = { 0 };
    disk d = { .log = "" };
    host_disk(&h, &d);
    save_begin(&s, &h, &err);
    assert_int_equal(save_fail(&s, WEFT_ENUMERIC, "%d is odd", 7), WEFT_ENUMERIC);
    assert_int_equal(save_fail(&s, WEFT_EINVAL, "another"), WEFT_ENUMERIC);
    save_directory(&s, "d");
    save_file(&s, "a");
    save_put(&s, "x", 1);
    save_retire(&s, "b");
    assert_int_equal(save_commit(&s), WEFT_ENUMERIC);
    assert_string_equal(err.message, "7 is odd");
    assert_string_equal(d.log, "");
}

static void long_path(void **state)
{
    (void)state;
    host h;
    weft_error err = { 0 };
    disk d = { .log = "" };
    char path[4097];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    host_disk(&h, &d);
    assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "xxx...: the path is too long"));
    assert_string_equal(d.log, "");
}

/* Less than the buffer holds, more, and exactly as much. */
static void sizes(void **state)
{
    (void)state;
    static const size_t size[] = { 10, (1 << 20) - 5, (1 << 20) - 1, 1 << 20, 3, (1 << 20) + 1, 7 };
    host h;
    save s;
    weft_error err = { 0 };
    uint8_t *all = malloc(5 << 20), *to = all;
    for (size_t i = 0; i < 5 << 20; i++)
        all[i] = (uint8_t)(i * 2654435761u >> 24);
    host_plain(&h);
    save_begin(&s, &h, &err);
    save_file(&s, temp_path("sizes"));
    for (size_t i = 0; i < sizeof size / sizeof *size; to += size[i++])
        save_put(&s, to, size[i]);
    assert_int_equal(s.bytes, to - all);
    assert_int_equal(save_commit(&s), WEFT_OK);
    size_t n;
    char *got = read_whole(temp_path("sizes"), &n);
    assert_int_equal(n, to - all);
    assert_memory_equal(got, all, n);
    free(got);
    free(all);
}

/* ---- writers ------------------------------------------------------------------------------------- */

#define HUGE ((INT64_C(1) << 62) - 1) /* numbers of four bytes: all but the last of a 64-bit size */

static void gguf_too_large(void **state)
{
    (void)state;
    static const struct {
        int64_t first;
        const dtype *type;
        int64_t second;
    } cases[] = {
        { 8, &dtype_q8_0, 33 },         /* no whole block */
        { 8, &dtype_f32, HUGE + 1 },    /* its bytes do not fit */
        { HUGE, &dtype_f32, 8 },        /* nor does where it begins */
        { HUGE / 2, &dtype_f32, HUGE }, /* nor where it ends */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        save s;
        gguf_writer w;
        weft_error err = { 0 };
        disk d = { .log = "" };
        host_disk(&h, &d);
        save_begin(&s, &h, &err);
        gguf_writer_begin(&w, &s);
        gguf_add_tensor(&w, "first", &dtype_f32, 1, &cases[i].first);
        assert_int_equal(s.status, WEFT_OK);
        gguf_add_tensor(&w, "second", cases[i].type, 1, &cases[i].second);
        gguf_writer_head(&w, "model.gguf");
        gguf_writer_data(&w, "12345678", 8); /* does nothing */
        gguf_writer_end(&w);
        assert_int_equal(save_commit(&s), WEFT_EINVAL);
        assert_non_null(strstr(err.message, "tensor second: its rows are not a multiple of the"));
        assert_string_equal(d.log, "");
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
}

static void safetensors_too_large(void **state)
{
    (void)state;
    static const int64_t size[][2] = { { 8, HUGE + 1 }, { HUGE, 8 } };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        host h;
        save s;
        safetensors_writer w;
        weft_error err = { 0 };
        disk d = { .log = "" };
        host_disk(&h, &d);
        save_begin(&s, &h, &err);
        safetensors_writer_begin(&w, &s);
        safetensors_add(&w, "first", &dtype_f32, 1, &size[i][0]);
        assert_int_equal(s.status, WEFT_OK);
        safetensors_add(&w, "second", &dtype_f32, 1, &size[i][1]);
        safetensors_writer_head(&w, "model.safetensors");
        safetensors_writer_end(&w);
        assert_int_equal(save_commit(&s), WEFT_EINVAL);
        assert_string_equal(err.message, "tensor second is too large");
        assert_string_equal(d.log, "");
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
}

static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };

/* A vector and a matrix, piece by piece. */
static weft_status write_gguf(const char *path, host *h, weft_error *err)
{
    save s;
    gguf_writer w;
    *err = (weft_error){ 0 };
    save_begin(&s, h, err);
    gguf_writer_begin(&w, &s);
    gguf_add_text(&w, "general.architecture", "none", 4);
    gguf_add_tensor(&w, "vector", &dtype_f32, 1, (const int64_t[]){ 3 });
    gguf_add_tensor(&w, "matrix", &dtype_f32, 2, (const int64_t[]){ 3, 2 });
    gguf_writer_head(&w, path);
    gguf_writer_data(&w, numbers, 12);
    gguf_writer_data(&w, numbers, 8);
    gguf_writer_data(&w, numbers + 2, 16);
    gguf_writer_end(&w);
    return save_commit(&s);
}

static weft_status write_safetensors(const char *path, host *h, weft_error *err)
{
    save s;
    safetensors_writer w;
    *err = (weft_error){ 0 };
    save_begin(&s, h, err);
    safetensors_writer_begin(&w, &s);
    safetensors_add(&w, "vector", &dtype_f32, 1, (const int64_t[]){ 3 });
    safetensors_add(&w, "matrix", &dtype_f32, 2, (const int64_t[]){ 3, 2 });
    safetensors_writer_head(&w, path);
    safetensors_writer_data(&w, numbers, 12);
    safetensors_writer_data(&w, numbers, 8);
    safetensors_writer_data(&w, numbers + 2, 16);
    safetensors_writer_end(&w);
    return save_commit(&s);
}

typedef weft_status write_fn(const char *path, host *h, weft_error *err);
typedef weft_status parse_fn(container *c, const uint8_t *data, uint64_t size, weft_error *err);

static void reads_back(const char *path, parse_fn *parse)
{
    host h;
    container c;
    weft_error err = { 0 };
    size_t n;
    char *data = read_whole(path, &n);
    host_plain(&h);
    assert_int_equal(container_begin(&c, "test", path, &h, &err), WEFT_OK);
    if (parse(&c, (const uint8_t *)data, n, &err) != WEFT_OK ||
        container_index(&c, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const stored *vector = container_tensor(&c, "vector"), *matrix = container_tensor(&c, "matrix");
    assert_int_equal(vector->bytes, 12);
    assert_memory_equal(vector->data, numbers, 12);
    assert_true(matrix->n_dim == 2 && matrix->shape[0] == 3 && matrix->shape[1] == 2);
    assert_memory_equal(matrix->data, numbers, 24);
    assert_int_equal((matrix->data - (const uint8_t *)data) % 4, 0);
    container_close(&c);
    free(data);
}

/* Any call may fail: no new file is left, and existing files stay. */
static void writer_faults(const char *name, write_fn *write, parse_fn *parse)
{
    const char *path = temp_path(name);
    for (int files = 0; files < 2; files++)
        for (int64_t k = 1;; k++) {
            host h;
            faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
            weft_error err;
            size_t n;
            temp_file(name, "old", 3);
            chosen->fail_at = k;
            host_faulty(&h, &memory, &io);
            const weft_status status = write(path, &h, &err);
            assert_true(memory.live == 0 && io.live == 0);
            if (chosen->calls < k) {
                assert_int_equal(status, WEFT_OK);
                break;
            }
            if (status != (files ? WEFT_EIO : WEFT_ENOMEM) || err.code != status)
                fail_msg("%s, call %lld: %d \"%s\"", name, (long long)k, (int)status, err.message);
            char *now = read_whole(path, &n);
            if (strcmp(now, "old") != 0 && !strstr(err.message, "the directory of"))
                fail_msg("%s, call %lld: the old file is gone (%s)", name, (long long)k,
                         err.message);
            free(now);
        }
    reads_back(path, parse);
}

static void writers(void **state)
{
    (void)state;
    writer_faults("written.gguf", write_gguf, gguf_parse);
    writer_faults("written.safetensors", write_safetensors, safetensors_parse);
}

/* The first error is reported, even if memory fails after it. */
static void no_memory_behind_an_error(void **state)
{
    (void)state;
    static const int64_t size = HUGE + 1;
    for (int form = 0; form < 2; form++) {
        host h;
        save s;
        gguf_writer g;
        safetensors_writer t;
        weft_error err = { 0 };
        faults memory = { .fail_at = 1, .sticky = true };
        host_faulty(&h, &memory, NULL);
        save_begin(&s, &h, &err);
        if (form == 0) {
            gguf_writer_begin(&g, &s);
            gguf_add_tensor(&g, "large", &dtype_f32, 1, &size);
            gguf_add_u32(&g, "key", 1);
            gguf_writer_head(&g, temp_path("none"));
            gguf_writer_end(&g);
        } else {
            safetensors_writer_begin(&t, &s);
            safetensors_add(&t, "large", &dtype_f32, 1, &size);
            safetensors_writer_head(&t, temp_path("none"));
            safetensors_writer_end(&t);
        }
        assert_int_equal(save_commit(&s), WEFT_EINVAL);
        assert_int_equal(access(temp_path("none"), F_OK), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("save: every byte is on the disk before a name points to it", order_of_calls),
        TEST("save: a failure names the call, and removes new files", failures),
        TEST("save: existing directories are not removed", what_is_taken_back),
        TEST("save: a hard link, or a copy if links are not supported", links),
        TEST("save: a copy may fail at every call", failed_copies),
        TEST("save: the part file is removed even if nothing was renamed", link_again),
        TEST("save: parts of killed writers are swept, others stay", parts_are_swept),
        TEST("save: a file keeps the mode of the one it replaces", modes_are_kept),
        TEST("io: no file gets the number of a standard descriptor",
             standard_descriptors_stay_free),
        TEST("save: checksums of one file of a set", summed),
        TEST("save: the first error is kept, and nothing is done after it", first_error_is_kept),
        TEST("save: a path that is too long is refused", long_path),
        TEST("save: pieces of any size", sizes),
        TEST("GGUF writer: a tensor too large for a file is refused", gguf_too_large),
        TEST("safetensors writer: a tensor too large for a file is refused", safetensors_too_large),
        TEST("writers: read back what they wrote; any failed call leaves the old file", writers),
        TEST("writers: an error is kept if memory fails after it", no_memory_behind_an_error),
    };
    return RUN(tests);
}

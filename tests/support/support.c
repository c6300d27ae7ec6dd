#define SET_UP
#include "support.h"

#include "base/rng.h"

#include <errno.h>
#include <ftw.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- assertions are counted ------------------------------------------------------------------ */

static atomic_llong n_assertion; /* a test's other threads assert too */
static bool skipped;

int count_begin(void **state)
{
    (void)state;
    n_assertion = 0;
    skipped = false;
    return 0;
}

/* Not called if the test failed. */
int count_end(void **state)
{
    (void)state;
    if (skipped || n_assertion > 0)
        return 0;
    print_error("nothing was asserted\n");
    return -1;
}

void count_assertion(void)
{
    atomic_fetch_add_explicit(&n_assertion, 1, memory_order_relaxed);
}

void count_skip(void)
{
    skipped = true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *joined(const char *root, const char *relative)
{
    static char text[8][1024];
    static unsigned next;
    char *to = text[next++ % 8];
    snprintf(to, sizeof text[0], "%s/%s", root, relative);
    return to;
}

const char *asset(const char *relative)
{
    const char *root = getenv("WEFT_ASSETS");
    if (!root) {
        print_message("skipped: WEFT_ASSETS is not set\n");
        skip();
    }
    return joined(root, relative);
}

bool quick(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return getenv("WEFT_TEST_QUICK") != NULL;
#endif
}

double float_bound(double tolerance)
{
    return strcmp(kernels_select(NULL)->name, "scalar") == 0 ? 4 * tolerance : tolerance;
}

/* Without its name and what other classes have. */
static kernels part_of_table(int i, bool i8)
{
    kernels part;
    memcpy(&part, kernels_table(i), sizeof part);
    part.name = NULL;
    part.rows_bf16 = 0;
    part.pack_bf16 = NULL;
    part.product_bf16 = NULL;
    part.pairs = NULL;
    if (!i8) {
        part.rows_i8 = 0;
        part.pack_i8 = NULL;
        part.product_i8 = NULL;
    }
    return part;
}

static bool is_new_table(int i, bool i8)
{
    const kernels part = part_of_table(i, i8);
    for (int before = 0; before < i; before++) {
        const kernels other = part_of_table(before, i8);
        if (memcmp(&part, &other, sizeof part) == 0)
            return false;
    }
    return true;
}

/* They are looked for once: asking the processor takes long in a virtual machine. */
static const kernels *new_table(int i, bool i8)
{
    static const kernels *found[2][16];
    if (!found[i8][0])
        for (int t = 0, n = 0; kernels_table(t); t++)
            if (is_new_table(t, i8))
                found[i8][n++] = kernels_table(t);
    return found[i8][i];
}

const kernels *table_f32(int i)
{
    return new_table(i, false);
}

const kernels *table_i8(int i)
{
    return new_table(i, true);
}

const char *fixture(const char *relative)
{
    return joined(WEFT_TESTS_DIR, relative);
}

static char temp_root[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static pid_t temp_owner;

static void remove_temp(void)
{
    if (getpid() == temp_owner)
        nftw(temp_root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_temp(void)
{
    if (temp_root[0])
        return;
    strcpy(temp_root, "/tmp/weft-test-XXXXXX");
    assert_non_null(mkdtemp(temp_root));
    temp_owner = getpid();
    atexit(remove_temp);
}

const char *temp_path(const char *name)
{
    static char text[16][256];
    static unsigned next;
    char *to = text[next++ % 16];
    make_temp();
    snprintf(to, sizeof text[0], "%s/%s", temp_root, name);
    return to;
}

const char *temp_file(const char *name, const void *bytes, size_t size)
{
    make_temp();
    const char *path = joined(temp_root, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *asset_head(const char *relative, size_t size)
{
    const char *path = asset(relative);
    size_t n;
    char *bytes = read_whole(path, &n);
    const char *head = temp_file("head", bytes, n < size ? n : size);
    free(bytes);
    return head;
}

uint32_t crc32_of(const uint8_t *data, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: %s", path, strerror(errno));
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = '\0';
    fclose(f);
    return bytes;
}

void host_plain(host *h)
{
    *h = (host){ .io = io_system };
    mem_init(&h->mem, 0, NULL);
}

static bool failing(faults *f)
{
    f->calls++;
    return f->fail_at && (f->sticky ? f->calls >= f->fail_at : f->calls == f->fail_at);
}

static void *faulty_alloc(void *ud, size_t align, size_t size)
{
    faults *f = ud;
    if (failing(f))
        return NULL;
    f->live++;
    return aligned_alloc(align, size);
}

static void faulty_release(void *ud, void *block)
{
    ((faults *)ud)->live--;
    free(block);
}

static int faulty_open(void *ud, const char *path)
{
    faults *f = ud;
    if (failing(f))
        return errno = EMFILE, -1;
    const int fd = io_system.open(NULL, path);
    f->live += fd >= 0;
    return fd;
}

static int faulty_size(void *ud, int fd, uint64_t *size)
{
    return failing(ud) ? (errno = EIO, -1) : io_system.size(NULL, fd, size);
}

/* Reads are deliberately short, at most 4096 bytes, as on a network file system. */
static ssize_t faulty_read(void *ud, int fd, void *to, size_t size)
{
    faults *f = ud;
    if (failing(f))
        return errno = f->calls % 2 ? EIO : 0,
               f->calls % 2 ? -1 : 0; /* an error, or an early end */
    return io_system.read(NULL, fd, to, size < 4096 ? size : 4096);
}

static void *faulty_map(void *ud, int fd, size_t size)
{
    faults *f = ud;
    if (failing(f))
        return errno = ENOMEM, NULL;
    void *at = io_system.map(NULL, fd, size);
    f->live += at != NULL;
    return at;
}

static void faulty_unmap(void *ud, void *at, size_t size)
{
    ((faults *)ud)->live--;
    io_system.unmap(NULL, at, size);
}

static void faulty_close(void *ud, int fd)
{
    ((faults *)ud)->live--;
    io_system.close(NULL, fd);
}

static int faulty_create(void *ud, const char *path, const char *like)
{
    faults *f = ud;
    if (failing(f))
        return errno = ENOSPC, -1;
    const int fd = io_system.create(NULL, path, like);
    f->live += fd >= 0;
    return fd;
}

/* Writes are deliberately short too; a failing one reports a full disk. */
static ssize_t faulty_write(void *ud, int fd, const void *from, size_t size)
{
    return failing(ud) ? (errno = ENOSPC, -1)
                       : io_system.write(NULL, fd, from, size < 4096 ? size : 4096);
}

static int faulty_sync(void *ud, int fd)
{
    return failing(ud) ? (errno = EIO, -1) : io_system.sync(NULL, fd);
}

static int faulty_rename(void *ud, const char *from, const char *to)
{
    return failing(ud) ? (errno = EACCES, -1) : io_system.rename(NULL, from, to);
}

static int faulty_mkdir(void *ud, const char *path)
{
    return failing(ud) ? (errno = EACCES, -1) : io_system.mkdir(NULL, path);
}

static int faulty_link(void *ud, const char *from, const char *to)
{
    return failing(ud) ? (errno = EACCES, -1) : io_system.link(NULL, from, to);
}

static int faulty_list(void *ud, const char *path, io_name_fn *name, void *name_ud)
{
    return failing(ud) ? (errno = EMFILE, -1) : io_system.list(NULL, path, name, name_ud);
}

/* Never fails: a failed clean-up could not be cleaned up. */
static int faulty_remove(void *ud, const char *path)
{
    (void)ud;
    return io_system.remove(NULL, path);
}

void host_faulty(host *h, faults *memory, faults *io)
{
    host_plain(h);
    if (memory)
        h->mem.hooks = (mem_hooks){ faulty_alloc, faulty_release, memory, .chunk = 1 };
    if (io)
        h->io = (io_hooks){ .open = faulty_open,
                            .size = faulty_size,
                            .read = faulty_read,
                            .map = faulty_map,
                            .unmap = faulty_unmap,
                            .rest = io_system.rest,
                            .close = faulty_close,
                            .create = faulty_create,
                            .write = faulty_write,
                            .sync = faulty_sync,
                            .rename = faulty_rename,
                            .remove = faulty_remove,
                            .mkdir = faulty_mkdir,
                            .link = faulty_link,
                            .list = faulty_list,
                            .lock = io_system.lock,
                            .sweep = io_system.sweep,
                            .ud = io };
}

void fill_normal(real *x, int64_t n, uint64_t key, uint64_t stream, double scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (real)(scale * rng_normal(key, stream, (uint64_t)i));
}

double assert_close(const char *name, const real *a, const real *b, int64_t n, double tolerance)
{
    double largest = 0, worst = 0;
    int64_t at = 0;
    count_assertion();
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs((double)a[i] - (double)b[i]);
        if (fabs((double)b[i]) > largest)
            largest = fabs((double)b[i]);
        if (!(e <= worst)) { /* NaN is the worst of all */
            worst = e;
            at = i;
        }
    }
    if (!(worst <= tolerance * largest))
        fail_msg("%s: element %lld is %.9g, expected %.9g: off by %.3g of the largest (%.3g), "
                 "allowed %.3g",
                 name, (long long)at, (double)a[at], (double)b[at], worst / largest, largest,
                 tolerance);
    return largest > 0 ? worst / largest : 0;
}

void assert_linear(const char *name, size_t at_n, size_t at_2n, size_t at_4n)
{
    const size_t rounding = 8 << 10;
    count_assertion();
    print_message("%-58s %9zu %9zu %9zu bytes\n", name, at_n, at_2n, at_4n);
    if (at_2n < at_n || at_4n < at_2n || at_4n - at_2n > 2 * (at_2n - at_n) + rounding)
        fail_msg("%s: %zu, %zu and %zu bytes at n, 2 n and 4 n are not linear", name, at_n, at_2n,
                 at_4n);
}

/* test_npy.c - NumPy's files (cli/npy.c): the shape is that of the numbers, or the file is
 * refused. */
#include "support.h"

#include "cli.h"
#include "hostile.h"
#include "npy.h"

#include <sys/mman.h>

#define HEAD(type, order, shape)                                                                   \
    "{'descr': " type ", 'fortran_order': " order ", 'shape': " shape ", }"

/* A file of `count` numbers, with a dictionary in a head of that version; its length is put there
 * as it is, unless `said` is another. */
typedef struct npy_file {
    int version;
    const char *head;
    size_t count;
    uint64_t said; /* 0: the length of the head */
} npy_file;

static size_t begin(const npy_file *f, uint8_t *to)
{
    const int width = f->version == 1 ? 2 : 4;
    const uint64_t said = f->said ? f->said : strlen(f->head);
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (uint8_t)f->version;
    to[7] = 0;
    for (int i = 0; i < width; i++)
        to[8 + i] = (uint8_t)(said >> (8 * i));
    memcpy(to + 8 + width, f->head, strlen(f->head));
    return 8 + (size_t)width + strlen(f->head);
}

#define ROOM ((size_t)1 << 19)

/* The reader's answer. The bytes end where memory that may be read does. */
static const char *parse(const uint8_t *bytes, size_t n, npy_array *to)
{
    static uint8_t *room;
    size_t data = SIZE_MAX;
    if (!room) {
        room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(room != MAP_FAILED && mprotect(room + ROOM, ROOM, PROT_NONE) == 0);
    }
    memcpy(room + ROOM - n, bytes, n);
    const char *found = npy_parse((const char *)room + ROOM - n, n, to, &data);
    if (!found)
        assert_int_equal(data + (size_t)to->n * sizeof(float), n);
    return found;
}

static const char *parse_file(const npy_file *f, npy_array *to)
{
    static uint8_t bytes[ROOM];
    const size_t from = begin(f, bytes);
    memset(bytes + from, 0, f->count * sizeof(float));
    return parse(bytes, from + f->count * sizeof(float), to);
}

static void reads(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int n_dim;
        int64_t size[NPY_DIM];
    } cases[] = { { "()", 0, { 0 } },
                  { "(1,)", 1, { 1 } },
                  { "(24,)", 1, { 24 } },
                  { "(3, 8)", 2, { 3, 8 } },
                  { "(3,8)", 2, { 3, 8 } },
                  { "(3 ,  8 )", 2, { 3, 8 } },
                  { "(2, 3, 4)", 3, { 2, 3, 4 } },
                  { "(1, 2, 3, 4)", 4, { 1, 2, 3, 4 } } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int version = 1; version <= 3; version++) {
            char head[128];
            npy_array a;
            int64_t n = 1;
            snprintf(head, sizeof head, HEAD("'<f4'", "False", "%s") "   \n", cases[k].shape);
            for (int i = 0; i < cases[k].n_dim; i++)
                n *= cases[k].size[i];
            const char *found = parse_file(&(npy_file){ version, head, (size_t)n, 0 }, &a);
            assert_null(found);
            assert_int_equal(a.n_dim, cases[k].n_dim);
            assert_int_equal(a.n, n);
            for (int i = 0; i < a.n_dim; i++)
                assert_int_equal(a.shape[i], cases[k].size[i]);
        }
}

/* Cut anywhere, or with bytes after its end, a file is refused. */
static void truncation(void **state)
{
    (void)state;
    npy_array a;
    for (int version = 1; version <= 3; version++) {
        uint8_t bytes[256] = { 0 };
        const npy_file f = { version, HEAD("'<f4'", "False", "(2, 3)") "\n", 6, 0 };
        const size_t n = begin(&f, bytes) + 6 * sizeof(float);
        assert_null(parse(bytes, n, &a));
        for (size_t cut = 0; cut < n; cut++)
            assert_true(parse(bytes, cut, &a) != NULL);
        for (size_t more = 1; more <= 8; more++)
            assert_string_equal(parse(bytes, n + more, &a),
                                "a shape that is not that of its numbers");
    }
}

/* Every dimension and the length of the head with numbers at which arithmetic wraps. */
static void boundaries(void **state)
{
    (void)state;
    npy_array a;
    char head[256];
    for (int x = 0; x < N_HOSTILE; x++)
        for (int y = 0; y < N_HOSTILE; y++)
            for (int place = 0; place < 3; place++) {
                snprintf(head, sizeof head, HEAD("'<f4'", "False", "(%s%llu, %llu%s)"),
                         place == 1 ? "2, " : "", (unsigned long long)hostile[x],
                         (unsigned long long)hostile[y], place == 2 ? ", 2" : "");
                const bool fits = place == 0 && hostile[x] == 1 && hostile[y] == 1;
                const char *found = parse_file(&(npy_file){ 1, head, 1, 0 }, &a);
                assert_int_equal(found == NULL, fits);
            }
    for (int version = 1; version <= 3; version++)
        for (int x = 1; x < N_HOSTILE; x++) {
            const npy_file f = { version, HEAD("'<f4'", "False", "(1,)"), 1, hostile[x] };
            assert_true(parse_file(&f, &a) != NULL);
        }
}

/* The longest head, and one that is longer by a byte. */
static void long_heads(void **state)
{
    (void)state;
    static char head[4098];
    npy_array a;
    memset(head, ' ', sizeof head);
    memcpy(head, HEAD("'<f4'", "False", "(5,)"), strlen(HEAD("'<f4'", "False", "(5,)")));
    head[4096] = '\0';
    for (int version = 1; version <= 3; version++)
        assert_null(parse_file(&(npy_file){ version, head, 5, 0 }, &a));
    head[4096] = ' ';
    head[4097] = '\0';
    for (int version = 1; version <= 3; version++)
        assert_string_equal(parse_file(&(npy_file){ version, head, 5, 0 }, &a), "not a NumPy file");
}

static void refused(void **state)
{
    (void)state;
    static const char type[] = "numbers of another type", order[] = "numbers in Fortran's order",
                      shape[] = "a shape that is not that of its numbers",
                      none[] = "not a NumPy file";
    static const struct {
        npy_file file;
        const char *found;
    } cases[] = {
        { { 0, HEAD("'<f4'", "False", "(1,)"), 1, 0 }, none },
        { { 4, HEAD("'<f4'", "False", "(1,)"), 1, 0 }, none },
        { { 1, "", 1, 0 }, none },
        { { 1, HEAD("'<f8'", "False", "(1,)"), 2, 0 }, type },
        { { 1, HEAD("'>f4'", "False", "(1,)"), 1, 0 }, type },
        { { 1, HEAD("'<f4", "False", "(1,)"), 1, 0 }, type },
        { { 1, "{'fortran_order': False, 'shape': (1,), }", 1, 0 }, type },
        { { 1, HEAD("'<f4'", "True", "(1,)"), 1, 0 }, order },
        { { 1, HEAD("'<f4'", "Fal", "(1,)"), 1, 0 }, order },
        { { 1, "{'descr': '<f4', 'shape': (1,), }", 1, 0 }, order },
        { { 1, "{'descr': '<f4', 'fortran_order': False, }", 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "1"), 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "( 1,)"), 1, 0 }, shape }, /* as numpy never writes */
        { { 1, HEAD("'<f4'", "False", "(0,)"), 0, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(-1,)"), 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(+1,)"), 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(2,)"), 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(1,)"), 2, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(1;)"), 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(1, x)"), 1, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(2 3)"), 6, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(65536, 65536, 65536, 65536)"), 65536, 0 }, shape },
        { { 1, HEAD("'<f4'", "False", "(1, 1, 1, 1, 1)"), 1, 0 }, shape },
        { { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1", 1, 0 }, shape },
        { { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,", 1, 0 }, shape },
        { { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (", 1, 0 }, shape },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        npy_array a;
        const char *found = parse_file(&cases[i].file, &a);
        assert_non_null(found);
        assert_string_equal(found, cases[i].found);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* npy_read, whose words go to `said`. */
static int read_quietly(const char *path, npy_array *to, char *said, size_t size)
{
    FILE *before = stderr;
    stderr = fmemopen(said, size, "w");
    const int code = npy_read(path, to);
    fclose(stderr);
    stderr = before;
    return code;
}

static void files(void **state)
{
    (void)state;
    static const char bad[] = HEAD("'<f8'", "False", "(3,)");
    static const float numbers[] = { 1.5f, -2, 0.25f };
    uint8_t bytes[256];
    char said[512] = "", expected[512];
    npy_array a;
    size_t from = begin(&(npy_file){ 1, HEAD("'<f4'", "False", "(3,)"), 3, 0 }, bytes);
    memcpy(bytes + from, numbers, sizeof numbers);
    const char *path = temp_file("good.npy", bytes, from + sizeof numbers);
    assert_int_equal(read_quietly(path, &a, said, sizeof said), 0);
    assert_true(a.n == 3 && a.n_dim == 1 && a.shape[0] == 3);
    assert_memory_equal(a.at, numbers, sizeof numbers);
    assert_string_equal(said, "");
    cli_free(a.at);

    from = begin(&(npy_file){ 1, bad, 3, 0 }, bytes);
    path = temp_file("bad.npy", bytes, from + sizeof numbers);
    assert_int_equal(read_quietly(path, &a, said, sizeof said), 1);
    snprintf(expected, sizeof expected,
             "weft: %s: numbers of another type; expected float32 numbers in C order: "
             "numpy.save(file, numpy.ascontiguousarray(x, 'float32'))\n",
             path);
    assert_string_equal(said, expected);
    assert_null(a.at);
    assert_int_equal(read_quietly(temp_path("none.npy"), &a, said, sizeof said), 1);
    assert_non_null(strstr(said, "none.npy"));
}

/* Less and less memory, until there is enough for neither the file nor its numbers. Runs last: the
 * limit is for the rest of the process. */
static void no_memory(void **state)
{
    (void)state;
    static uint8_t bytes[40000];
    char said[512] = ""; /* MemorySanitizer does not see what fmemopen writes */
    npy_array a;
    bool whole = false, only_file = false, nothing = false;
    const size_t from = begin(&(npy_file){ 1, HEAD("'<f4'", "False", "(8000,)"), 8000, 0 }, bytes);
    const char *path = temp_file("large.npy", bytes, from + 8000 * sizeof(float));
    cli_ram_max = (size_t)1 << 20;
    cli_cap_memory();
    for (size_t taken = (size_t)1 << 19; taken < cli_ram_max - 4096; taken += 4096) {
        void *block = cli_alloc(taken, 1, "the test");
        assert_non_null(block);
        const int code = read_quietly(path, &a, said, sizeof said);
        assert_true(code == 0 || code == 1);
        assert_int_equal(code == 0, a.at != NULL);
        whole |= code == 0;
        only_file |= code == 1 && strstr(said, "the numbers of a patch");
        nothing |= code == 1 && !strstr(said, "the numbers of a patch");
        cli_free(a.at);
        cli_free(block);
    }
    assert_true(whole && only_file && nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("npy: shapes of no to four dimensions, in all versions", reads),
        TEST("npy: truncated at any byte, or too long, it is refused", truncation),
        TEST("npy: sizes and lengths that wrap are refused", boundaries),
        TEST("npy: a head of 4096 bytes is the longest", long_heads),
        TEST("npy: refuses other types, orders, shapes and versions", refused),
        TEST("npy: a file is read, or refused by its name", files),
        TEST("npy: without memory for a file or its numbers there are none", no_memory),
    };
    return RUN(tests);
}

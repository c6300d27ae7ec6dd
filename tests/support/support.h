/* support.h - shared by all tests: named tests, assets, a host with injected faults, random
 * numbers, comparisons that print the difference. */
#ifndef WEFT_TESTS_SUPPORT_H
#define WEFT_TESTS_SUPPORT_H

#include "base/host.h"
#include "tensor/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A test is a sentence: TEST("arena: a mark is undone by a reset", mark_reset). One that is neither
 * skipped nor asserts anything fails. */
#define TEST(sentence, fn)                                                                         \
    {                                                                                              \
        sentence, fn, count_begin, count_end, NULL                                                 \
    }

/* ---- assertions are counted ------------------------------------------------------------------ */

/* That a call succeeded (WEFT_OK, a pointer that is not NULL) is set-up and not counted, nor are
 * the assertions of the support files themselves, which define SET_UP. assert_close and
 * golden_finish are counted. Nothing is counted in a child process. */
int count_begin(void **state);
int count_end(void **state);
void count_assertion(void);
void count_skip(void);

#ifdef SET_UP
#define COUNT_IF(counts) ((void)(counts))
#else
#define COUNT_IF(counts) ((counts) ? count_assertion() : (void)0)
#endif

/* A macro is not expanded inside itself: these are cmocka's functions. */
#define _assert_true(...)             (COUNT_IF(true), _assert_true(__VA_ARGS__))
#define _assert_int_equal(...)        (COUNT_IF(true), _assert_int_equal(__VA_ARGS__))
#define _assert_int_not_equal(...)    (COUNT_IF(true), _assert_int_not_equal(__VA_ARGS__))
#define _assert_string_equal(...)     (COUNT_IF(true), _assert_string_equal(__VA_ARGS__))
#define _assert_string_not_equal(...) (COUNT_IF(true), _assert_string_not_equal(__VA_ARGS__))
#define _assert_memory_equal(...)     (COUNT_IF(true), _assert_memory_equal(__VA_ARGS__))
#define _assert_memory_not_equal(...) (COUNT_IF(true), _assert_memory_not_equal(__VA_ARGS__))
#define _assert_in_range(...)         (COUNT_IF(true), _assert_in_range(__VA_ARGS__))
#define _skip(...)                    (count_skip(), _skip(__VA_ARGS__))

#undef assert_int_equal
#define assert_int_equal(a, b)                                                                     \
    (COUNT_IF(strcmp(#b, "WEFT_OK") != 0),                                                         \
     (_assert_int_equal)(cast_to_largest_integral_type(a), cast_to_largest_integral_type(b),       \
                         __FILE__, __LINE__))

#undef assert_non_null /* counts where a text is searched */
#define assert_non_null(c)                                                                         \
    (COUNT_IF(strncmp(#c, "str", 3) == 0),                                                         \
     (_assert_true)(cast_ptr_to_largest_integral_type(c), #c, __FILE__, __LINE__))

/* Fails with the given message unless the condition holds. */
#define assert_that(holds, ...)                                                                    \
    do {                                                                                           \
        COUNT_IF(true);                                                                            \
        if (!(holds))                                                                              \
            fail_msg(__VA_ARGS__);                                                                 \
    } while (0)

/* ---- the program ----------------------------------------------------------------------------- */

/* With WEFT_TEST, runs only tests whose name matches it; * matches anything. */
#define RUN(tests)                                                                                 \
    (cmocka_set_test_filter(getenv("WEFT_TEST")),                                                  \
     cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL))

/* Path of a file under WEFT_ASSETS; skips the test with a message if that is unset. The text is
 * valid for the next eight calls. */
const char *asset(const char *relative);

/* The first `size` bytes of an asset, as a temporary file. */
const char *asset_head(const char *relative, size_t size);

/* True if instructions are expensive (a sanitizer, an emulator with WEFT_TEST_QUICK set): use fewer
 * repetitions. */
bool quick(void);

/* A bound on the distance from another program's floats. The scalar kernels, which have neither
 * fused products nor partial sums, may be four times as far. */
double float_bound(double tolerance);

/* Tables of kernels_table() that share all functions of a class compute the same. These leave out a
 * table whose functions for class f32 (and i8, in the second) are those of one before it. What
 * concerns class bf16, such as emulated tiles, takes kernels_table(). */
const kernels *table_f32(int i);
const kernels *table_i8(int i);

/* Path of a file under tests/. */
const char *fixture(const char *relative);

/* A file with these bytes in the test's own temporary directory, which is removed when the process
 * exits. */
const char *temp_file(const char *name, const void *bytes, size_t size);

/* A path in that directory, which need not exist; the text is valid until the next sixteen
 * calls. */
const char *temp_path(const char *name);

/* The CRC-32 of gzip and PNG. */
uint32_t crc32_of(const uint8_t *data, size_t n);

/* The whole file, malloc'ed; fails the test if it cannot be read. */
char *read_whole(const char *path, size_t *size);

/* A host with the system's memory and files, without a cap. */
void host_plain(host *h);

/* The k-th call (from 1) fails; with `sticky` all later ones too. k = 0 never fails, but counts. */
typedef struct faults {
    int64_t calls, fail_at;
    bool sticky;
    int64_t live; /* blocks or descriptors not released */
} faults;

/* A host whose allocations and file calls pass through these. Either may be NULL. */
void host_faulty(host *h, faults *memory, faults *io);

/* n standard normal numbers times scale, a function of (key, stream) only. */
void fill_normal(real *x, int64_t n, uint64_t key, uint64_t stream, double scale);

/* Fails, naming the first and the worst, unless max|a-b| <= tolerance * max|b|. Returns max|a-b| /
 * max|b|. */
double assert_close(const char *name, const real *a, const real *b, int64_t n, double tolerance);

/* Fails unless the bytes at n, 2 n and 4 n are a constant plus a part proportional to n: the second
 * doubling may add twice as much as the first, plus some rounding. */
void assert_linear(const char *name, size_t at_n, size_t at_2n, size_t at_4n);

#endif

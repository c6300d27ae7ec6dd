/* support.h - what tests share: sentences as names, assets, a host whose memory and files can be
 * made to fail, random numbers, comparisons that say what differs. */
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

/* A test is a sentence: TEST("arena: a mark is undone by a reset", mark_reset). */
#define TEST(sentence, fn)                                                                         \
    {                                                                                              \
        sentence, fn, NULL, NULL, NULL                                                             \
    }

/* With WEFT_TEST only those whose sentence fits it, in which * stands for anything. */
#define RUN(tests)                                                                                 \
    (cmocka_set_test_filter(getenv("WEFT_TEST")),                                                  \
     cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL))

/* Path of a file under WEFT_ASSETS; skips the test, saying so, where that is unset. The text lives
 * until the next eight calls. */
const char *asset(const char *relative);

/* True where every instruction is dear (a sanitizer, an emulator with WEFT_TEST_QUICK set): fewer
 * repetitions then. */
bool quick(void);

/* Path of a file under tests/. */
const char *fixture(const char *relative);

/* A file with these bytes in the test's own temporary directory, which goes when the process
 * exits. */
const char *temp_file(const char *name, const void *bytes, size_t size);

/* A path in that directory, where nothing need be; the text lives until the next sixteen calls. */
const char *temp_path(const char *name);

/* The whole file, malloc'ed; fails the test if it cannot be read. */
char *read_whole(const char *path, size_t *size);

/* A host on the system's memory and files, without cap. */
void host_plain(host *h);

/* The k-th call (from 1) fails; with `sticky` all later ones too. k = 0 never fails, but counts. */
typedef struct faults {
    int64_t calls, fail_at;
    bool sticky;
    int64_t live; /* blocks or descriptors not given back */
} faults;

/* A host whose allocations and file calls pass through these. Either may be NULL. */
void host_faulty(host *h, faults *memory, faults *io);

/* n standard normal numbers times scale, a function of (key, stream) only. */
void fill_normal(real *x, int64_t n, uint64_t key, uint64_t stream, double scale);

/* Fails, naming the first and the worst, unless max|a-b| <= tolerance * max|b|. Returns max|a-b| /
 * max|b|. */
double assert_close(const char *name, const real *a, const real *b, int64_t n, double tolerance);

/* Bytes at n, 2 n and 4 n of something fail unless they are a constant and a part proportional to n:
 * the second doubling may add twice what the first added, and a little for rounding. */
void assert_linear(const char *name, size_t at_n, size_t at_2n, size_t at_4n);

#endif

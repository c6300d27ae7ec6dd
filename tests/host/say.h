/* say.h - shared by the host programs, which use only <weft.h>, as any user would.
 *
 * Prints one line per check, in cmocka's format, which CI counts; the exit code is non-zero if any
 * failed. */
#ifndef WEFT_TESTS_HOST_SAY_H
#define WEFT_TESTS_HOST_SAY_H

#include <weft.h>

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_failed;

static inline void skip(const char *sentence, const char *why)
{
    printf("[  SKIPPED ] host: %s: %s\n", sentence, why);
    fflush(stdout);
}

/* `why` describes the finding; it is printed if the check fails. */
static inline bool __attribute__((format(printf, 3, 4)))
check(bool holds, const char *sentence, const char *why, ...)
{
    printf(holds ? "[       OK ] host: %s\n" : "[  FAILED  ] host: %s: ", sentence);
    if (!holds) {
        va_list args;
        va_start(args, why);
        vprintf(why, args);
        va_end(args);
        putchar('\n');
        n_failed++;
    }
    fflush(stdout);
    return holds;
}

/* For set-up that must succeed before a check. */
static inline void must(bool holds, const char *what, const weft_error *err)
{
    if (holds)
        return;
    check(false, what, "%s", err && err->code ? err->message : "failed");
    exit(1);
}

/* A line of /proc/self/status in bytes: "VmHWM", "VmRSS"; 0 if it is not there. */
static inline size_t status_bytes(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            kib = strtoull(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return kib << 10;
}

/* Threads of this process. */
static inline int n_task(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* tests/golden/NAME, in one of a few buffers. */
static inline const char *golden(const char *name)
{
    static char path[4][4096];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", WEFT_GOLDEN, name);
    return path[at];
}

/* Sanitizers use memory and threads of their own. */
#ifdef __has_feature
#define CLANG_HAS(feature) __has_feature(feature)
#else
#define CLANG_HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || CLANG_HAS(thread_sanitizer)
#define THREAD_SANITIZED 1
#else
#define THREAD_SANITIZED 0
#endif
#if THREAD_SANITIZED || defined(__SANITIZE_ADDRESS__) || CLANG_HAS(address_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif

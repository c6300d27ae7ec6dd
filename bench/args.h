/* args.h - the command lines of benches and tools: one table describes a program's options; parsing
 * and help read it. Exit codes are those of weft: 0 success, 1 failure, 2 usage error. */
#ifndef WEFT_BENCH_ARGS_H
#define WEFT_BENCH_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#define EXIT_USAGE 2

typedef enum arg_kind { ARG_FLAG, ARG_INT, ARG_REAL, ARG_TEXT } arg_kind;

typedef struct arg {
    const char *name; /* "threads", given as --threads */
    arg_kind kind;
    void *to;          /* bool, int64_t, double or const char * */
    const char *value; /* what help calls it: "N" */
    const char *help;
    int64_t lo, hi; /* of an integer; both 0: any */
} arg;

typedef struct program {
    const char *name;        /* "generate" */
    const char *arguments;   /* "MODEL", or NULL */
    const char *summary;     /* sentences, each line ended by \n */
    const arg *args;         /* ends with { 0 } */
    int n_positional;        /* exactly this many ... */
    const char **positional; /* ... are put here */
} program;

/* Returns -1 to continue, or the exit code, after printing help or an error. */
int args_parse(const program *p, int argc, char **argv);

/* Prints what is wrong with the command line on stderr; returns EXIT_USAGE. */
int args_usage(const program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

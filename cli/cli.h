/* cli.h - the program's vocabulary: commands, options, and how it fails.
 *
 * One table describes everything a command takes; parsing, help and completions read it. stdout is
 * data, stderr is everything else. Exit codes: 0 done, 1 failed, 2 asked for something that does
 * not exist or is out of range, 130 interrupted. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <weft.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EXIT_USAGE       2
#define EXIT_INTERRUPTED 130

typedef enum option_kind { OPT_FLAG, OPT_INT, OPT_REAL, OPT_TEXT, OPT_SIZE, OPT_LIST } option_kind;

/* Values of an option that may be given several times. */
#define MAX_LIST 256

typedef struct text_list {
    const char *at[MAX_LIST];
    int n;
} text_list;

typedef struct option {
    char letter;      /* 'n', or 0 */
    const char *name; /* "ctx-size" */
    option_kind kind;
    void *to;          /* bool, int64_t, double, const char *, size_t or text_list */
    const char *value; /* what help calls it: "N" */
    const char *env;   /* "WEFT_THREADS", or NULL */
    const char *help;
} option;

typedef struct command {
    const char *name;
    const char *arguments; /* "MODEL" */
    const char *summary;
    const char *examples;    /* lines, each ended by \n */
    const option *options;   /* ends with { 0 } */
    int n_positional;        /* at most this many ... */
    const char **positional; /* ... are put here */
    int (*main)(void);
} command;

extern const command command_run, command_inspect, command_eval, command_verify, command_convert,
    command_quantize, command_tokenize, command_train, command_train_tokenizer, command_report,
    command_version;
extern const command *const commands[]; /* ends with NULL */

/* Reads the environment, then argv. Returns 0, or EXIT_USAGE after saying on stderr what is
 * wrong. */
int options_parse(const command *c, int argc, char **argv);
void help_command(const command *c);

/* True if `name` is near enough to `given` to be what was meant, and nearer than `*least`, which
 * starts at INT_MAX. */
bool cli_resembles(const char *given, const char *name, int *least);

/* Says the error on stderr and returns the exit code for it. */
int cli_fail(const weft_error *err);
int cli_no_memory(void);
int cli_usage(const command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True once the user has pressed Ctrl-C; a second press kills the program at once. */
bool cli_interrupted(void);
void cli_catch_interrupt(void);

/* "1.5 GiB" */
const char *cli_bytes(size_t n, char *text, size_t size);

/* Length of the UTF-8 sequence that text begins with, or 0 if it begins with none. */
size_t cli_utf8(const char *text, size_t length);

/* Writes text as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD. */
void cli_json_text(const char *text, size_t length);
void cli_json_put(FILE *to, const char *text, size_t length);

/* Seconds on a clock that only goes forward. */
double cli_now(void);

/* A whole file, or standard input for "-", which the caller frees. Returns 0, or an exit code after
 * saying what is wrong. */
int cli_read(const char *path, char **text, size_t *n);

/* "1,2,3" -> ids, which the caller frees. Returns 0, or an exit code after saying what is wrong. */
int cli_parse_ids(const command *c, const char *text, int32_t **ids, int64_t *n);

/* A bar on stderr where that is a terminal, from the second second on. Begin with a zeroed one and
 * a label. */
typedef struct cli_bar {
    const char *label;
    const char *unit;    /* what is counted: "tokens"; NULL: bytes */
    double start, shown; /* seconds */
    bool drawn;
} cli_bar;

void cli_bar_show(cli_bar *b, uint64_t done, uint64_t total);
void cli_bar_end(cli_bar *b);

/* The options by which commands load a model and lay out an engine; each takes those that it names
 * in its table. */
typedef struct load_options {
    const char *path;
    bool no_mmap;
    size_t ram_max;
} load_options;

typedef struct shape_options {
    int64_t n_ctx, n_batch, threads;
    const char *kv_type;
} shape_options;

/* What a run with these options would learn from, with n_show samples; written to a file of ids, if
 * one is named. Returns an exit code. */
int cli_check_data(const weft_train_options *o, int64_t n_show, const char *ids);

weft_model *cli_open(const load_options *o, weft_error *err);

/* What the library says, on stderr. */
void cli_log(void *ud, weft_log_level level, const char *line);

/* Returns 0, or EXIT_USAGE after saying what is out of range. */
int cli_engine_options(const command *c, const shape_options *from, weft_engine_options *to);

#endif

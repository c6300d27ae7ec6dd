/* cli.h - the program's vocabulary: commands, options, and how it fails.
 *
 * One table describes everything a command takes; parsing, help, manual pages and completions read
 * it. stdout is data, stderr is everything else. Exit codes: 0 done, 1 failed, 2 asked for
 * something that does not exist or is out of range, 128 + N stopped by signal N: 130 by Ctrl-C. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <weft.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EXIT_USAGE  2
#define EXIT_SIGNAL 128 /* and the signal's number */

typedef enum option_kind {
    OPT_FLAG,
    OPT_INT,
    OPT_REAL,
    OPT_TEXT,
    OPT_SIZE,
    OPT_CHOICE, /* one of the words in `value`, separated by |: 1 for the first, and so on */
    OPT_LIST,   /* text, each time it is given */
} option_kind;

/* What else there is to say of an option. */
#define SETTING 1 /* comes from the environment and the config file too */
#define RARE    2 /* only `weft help all` shows it */

typedef struct option {
    char letter;      /* 'n', or 0 */
    const char *name; /* "ctx-size" */
    option_kind kind;
    void *to;          /* bool, int64_t, double, const char *, size_t, int or text_list */
    const char *value; /* what help calls it: "N"; files are PATH, FILE or DIR */
    unsigned marks;
    const char *help; /* ends with the default, in parentheses, where there is one */
} option;

#define MAX_LIST 256

typedef struct text_list {
    const char *at[MAX_LIST];
    int n;
    bool flagged; /* from the command line, where the first replaces what settings say */
} text_list;

typedef struct command {
    const char *name;
    const char *arguments; /* "MODEL" */
    const char *summary;
    const char *examples;    /* lines, each ended by \n */
    const char *about;       /* lines that say more, or NULL */
    const option *options;   /* ends with { 0 } */
    const option *more;      /* others that it shares with commands like it, or NULL */
    int n_positional;        /* at most this many ... */
    const char **positional; /* ... are put here */
    int (*main)(void);
    bool hidden; /* from the list of commands */
} command;

extern const command command_run, command_inspect, command_trace, command_explain, command_bench,
    command_eval, command_verify, command_convert, command_quantize, command_tokenize,
    command_template, command_train, command_train_tokenizer, command_report, command_config,
    command_version, command_help, command_man, command_completions, command_embed, command_rerank,
    command_fill_mask, command_classify, command_translate, command_models, command_chat,
    command_serve, command_plan;
extern const command *const all_commands[]; /* ends with NULL */

/* The list that is in use: help, manual pages and settings go through it. */
extern const command *const *commands;

/* The command of that name, or NULL; and the name of the one that may have been meant, or NULL. */
const command *command_find(const char *name);
const char *command_near(const char *name);
int command_unknown(const char *name);
bool cli_is_help(const char *arg); /* --help or -h */

/* ---- options --------------------------------------------------------------------------------- */

/* Reads argv. Returns 0, or EXIT_USAGE after saying on stderr what is wrong. */
int options_parse(const command *c, int argc, char **argv);

/* The option after o, the first one after NULL; NULL after the last. */
const option *option_next(const command *c, const option *o);

/* The option of that name, or NULL. */
const option *option_named(const command *c, const char *name, size_t length);

/* Stores a value; false if it is not of the option's kind. */
bool option_store(const option *o, const char *text, bool flag);

/* True if the command line set it, or a resumed run did (option_keep); option_kept tells the two
 * apart. */
bool option_given(const option *o);
bool option_give(const option *o, const char *text);
bool option_keep(const option *o, const char *text);
bool option_kept(const option *o);

/* Writes what the command line said into RUN/options, and reads it where it says nothing. False
 * where it cannot be written; 0, or an exit code after printing an error. */
bool run_options_write(const command *c, const char *run);
int run_options_read(const command *c, const char *run);

/* "an integer": what the option takes, in text of at most `size` bytes where it must be made. */
const char *option_takes(const option *o, char *text, size_t size);

/* Where an option's value is a file or a directory. */
bool option_is_path(const option *o);

/* "WEFT_CTX_SIZE" */
const char *setting_variable(const option *o, char *text, size_t size);

/* Puts what the environment and the config file say into the options of a command, before its
 * command line is read. */
int settings_apply(const command *c);

/* True if `name` is near enough to `given` to be what was meant, and nearer than `*least`, which
 * starts at INT_MAX. */
bool cli_resembles(const char *given, const char *name, int *least);

void help_command(const command *c, bool all);

/* "  -c, --ctx-size N" without the blanks before it. */
const char *help_option(const option *o, char *text, size_t size);

/* ---- failing --------------------------------------------------------------------------------- */

/* Says the error on stderr and returns the exit code for it. */
int cli_fail(const weft_error *err);

/* Lines that belong to the next error: cli_fail prints them after it. */
void cli_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_no_details(void);
void cli_print_details(void);
int cli_cannot_write(const char *path);
int cli_usage(const command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_which_model(const command *c);

/* After cli_catch_interrupt: true once the user has pressed Ctrl-C, or someone sent SIGTERM or
 * SIGHUP; a second one ends the program at once. */
bool cli_interrupted(void);
void cli_catch_interrupt(void);

/* For a command that continues after Ctrl-C: true if that was the signal, which is forgotten. */
bool cli_forget_interrupt(void);

/* The exit code of a command that was interrupted. */
int cli_stopped(void);

/* ---- memory ---------------------------------------------------------------------------------- */

/* The --ram-max limit, 0 for none; and the budget of the program and its library objects, NULL
 * without a limit. */
extern size_t cli_ram_max;

/* After the options, which have the last word: from here on there may be a budget. */
void cli_cap_memory(void);
weft_budget *cli_budget(void);

/* Memory that counts in the budget; NULL where it, or the system, refuses. cli_no_memory says on
 * stderr why, `what` being the subject of that sentence, and returns the exit code. */
void *cli_alloc(size_t n, size_t size, const char *what);
void *cli_zalloc(size_t n, size_t size, const char *what);
void *cli_grow(void *block, size_t size, const char *what);
void cli_free(void *block);
int cli_no_memory(void);
weft_error cli_refusal(void); /* what cli_no_memory would say */

/* The most that this process has had, files that are mapped too. */
size_t cli_peak_memory(void);

/* ---- the screen ------------------------------------------------------------------------------ */

/* "1.5 GiB", "1.24 G" */
const char *cli_bytes(size_t n, char *text, size_t size);
const char *cli_count(double x, char *text, size_t size);

/* "64x128" */
const char *cli_shape(const int64_t *shape, int n_dim, char *text, size_t size);

/* A column of a table of numbers, after a blank: three digits, or what of them fits. */
#define CLI_NUMBER 8 /* columns of a number: -0.00123 */
void cli_print_number(double x);

/* Length of the UTF-8 sequence that text begins with, or 0 if it begins with none. */
size_t cli_utf8(const char *text, size_t length);

/* Bytes in quotes: letters as they are, the others as \n, \t or \xFF. */
void cli_print_bytes(const char *bytes, size_t n);

/* Text from a model, a file or a user. On a terminal, control characters other than line ends and
 * tabs are shown as \x1B, so that a text cannot command the terminal. */
void cli_put(FILE *f, const char *bytes, size_t n);

/* Seconds on a clock that only goes forward. */
double cli_now(void);

/* Columns of the terminal that f is, or 100. */
int cli_columns(FILE *f);

/* What makes letters bold, pale, green, or plain again on a terminal; nothing elsewhere, and
 * nothing where NO_COLOR is set. */
typedef enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_PALE, STYLE_GREEN } style;
const char *cli_style(FILE *f, style s);

/* What is being done and how far it is, on stderr where that is a terminal, from the second second
 * on; one thing at a time. unit: what is counted, "tokens"; NULL: bytes. Until something is set,
 * the seconds are shown. Clear before printing in between. */
void cli_progress_begin(const char *label, const char *unit);
void cli_progress_set(uint64_t done, uint64_t total);
void cli_progress_clear(void);
void cli_progress_end(void);

/* The head of a NumPy file of float32 numbers in this shape; they follow it. */
bool cli_npy_header(FILE *f, int n_dim, const int64_t *shape);

/* Standard output goes to this file from now on. False after saying why not. */
bool cli_write_to(const char *path);

/* A file that appears only when complete; until then, and after a failure, the existing file
 * stays. */
typedef struct out_file {
    FILE *f;
    const char *path;
    char part[4096]; /* where it is meanwhile; "": it is no regular file */
} out_file;

/* NULL, with errno set, where it cannot be written. */
FILE *out_begin(out_file *o, const char *path);

/* good: nothing has failed so far, and it is to stay. True if it does; errno where that failed. */
bool out_end(out_file *o, bool good);

/* What the library says, on stderr. */
void cli_log(void *ud, weft_log_level level, const char *line);

/* ---- what goes in ---------------------------------------------------------------------------- */

/* The most that is read whole: of a prompt, which no context could hold beyond that; and of
 * anything else where no --ram-max says how much there is for it. */
#define CLI_MAX_PROMPT ((size_t)64 << 20)
#define CLI_MAX_TEXT   ((size_t)1 << 30)

/* A whole file, or standard input for "-", and a '\0' after it, decompressed if it is gzip or zstd;
 * cli_free frees it. most: bytes, or
 * CLI_MAX_TEXT. Returns 0, or an exit code after printing an error. */
int cli_read(const char *path, size_t most, char **text, size_t *n);

/* Ids that become more; zeroed at the beginning. False without memory. cli_free frees `at`. */
typedef struct id_list {
    int32_t *at;
    int64_t n, room;
} id_list;

bool cli_add_ids(id_list *to, const int32_t *ids, int64_t n);

/* n ids to measure with, the same each time: what a text says has no bearing on its speed. cli_free
 * frees them; NULL without memory. */
int32_t *cli_any_ids(int64_t n, int64_t n_vocab);

/* The next number of a list such as 1,16,256; *rest is what follows it, NULL after the last. False
 * if there is none from `least` to `most`. */
bool cli_next_number(const char **rest, int64_t least, int64_t most, int64_t *x);

/* "1,2,3" -> ids, which cli_free frees; errors name the option. Returns 0, or an exit code after printing an error. */
int cli_parse_ids(const command *c, const char *name, const char *text, int32_t **ids, int64_t *n);

/* The lists of a file, one in a line, without those that are empty: `end` is called after each. The
 * text is not kept. Returns 0, or an exit code after printing an error. */
typedef bool cli_list_fn(void *ud);
int cli_read_ids(const char *path, id_list *to, cli_list_fn *end, void *ud);

/* The options by which commands load a model, lay out an engine and take a text; each takes those
 * that it names in its table. */
typedef struct load_options {
    const char *path;
    const char *tokenizer; /* in place of the model's own */
    bool no_mmap, no_pack;
    int compute; /* the choice of OPTION_COMPUTE, from 1; 0: none was made */
} load_options;

typedef struct shape_options {
    int64_t n_ctx, n_batch, threads;
    int kv_type;
} shape_options;

typedef struct prompt_options {
    const char *text, *file, *ids, *pre;
    bool parse_special; /* special tokens spelled in the text are meant */
    bool goes_on;       /* the text follows another: nothing is put before it */
    weft_side side;     /* whose tokenizer encodes it, where a model has two */

    bool chat; /* the text is a user's message, which the model's chat template puts into form */
    const char *system, *template, *variables; /* or NULL */
} prompt_options;

/* What the decoder of a translation model reads after its start token: a text, or ids. */
typedef struct target_options {
    const char *text, *ids;
} target_options;

#define OPTION_TARGET(target)                                                                      \
    {                                                                                              \
        0, "target", OPT_TEXT, &(target).text, "TEXT", RARE,                                       \
            "what the decoder of a translation model reads"                                        \
    }
#define OPTION_TARGET_IDS(target)                                                                  \
    {                                                                                              \
        0, "target-ids", OPT_TEXT, &(target).ids, "N,N,...", RARE, "the same as token ids"         \
    }
#define OPTION_HF                                                                                  \
    {                                                                                              \
        0, "hf", OPT_TEXT, &cli_hf, "NAME", RARE, "MODEL by Hugging Face name: ORG/NAME[:QUANT]"   \
    }
#define OPTION_TOKENIZER(load)                                                                     \
    {                                                                                              \
        0, "tokenizer", OPT_TEXT, &(load).tokenizer, "PATH", RARE,                                 \
            "use the tokenizer in this file or directory (the model's)"                            \
    }
#define OPTION_MODEL(load)                                                                         \
    { 'm',                                                                                         \
      "model",                                                                                     \
      OPT_TEXT,                                                                                    \
      &(load).path,                                                                                \
      "PATH",                                                                                      \
      SETTING,                                                                                     \
      "GGUF file, directory, or name; or -hf ORG/NAME" },                                          \
        OPTION_HF
#define OPTION_NO_MMAP(flag)                                                                       \
    {                                                                                              \
        0, "no-mmap", OPT_FLAG, &(flag), NULL, SETTING | RARE,                                     \
            "copy the file instead of mapping it"                                                  \
    }
#define OPTION_NO_PACK(flag)                                                                       \
    {                                                                                              \
        0, "no-pack", OPT_FLAG, &(flag), NULL, SETTING | RARE,                                     \
            "use the weights as mapped: slower, less memory"                                       \
    }
#define OPTION_COMPUTE(load)                                                                       \
    {                                                                                              \
        0, "compute", OPT_CHOICE, &(load).compute, "default|bf16", SETTING | RARE,                 \
            "class of matrix products (default: by weight type)"                                   \
    }
#define OPTION_RAM_MAX                                                                             \
    {                                                                                              \
        0, "ram-max", OPT_SIZE, &cli_ram_max, "SIZE", SETTING,                                     \
            "memory limit, such as 4G (the container's)"                                           \
    }
#define OPTION_THREADS(n)                                                                          \
    {                                                                                              \
        't', "threads", OPT_INT, &(n), "N", SETTING,                                               \
            "number of threads (OMP_NUM_THREADS, or one per core)"                                 \
    }
#define OPTION_CTX_SIZE(shape)                                                                     \
    {                                                                                              \
        'c', "ctx-size", OPT_INT, &(shape).n_ctx, "N", SETTING,                                    \
            "context length in tokens (the model's, up to 4096)"                                   \
    }
#define OPTION_BATCH_SIZE(shape)                                                                   \
    {                                                                                              \
        'b', "batch-size", OPT_INT, &(shape).n_batch, "N", SETTING | RARE,                         \
            "maximum tokens per forward pass (256)"                                                \
    }
#define OPTION_KV_TYPE(shape) OPTION_KV_TYPE_OR(shape, "f16")
/* Of a command with another default. */
#define OPTION_KV_TYPE_OR(shape, usual)                                                            \
    {                                                                                              \
        0, "kv-type", OPT_CHOICE, &(shape).kv_type, "f32|f16|bf16|q8_0", SETTING | RARE,           \
            "type of the KV cache (" usual ")"                                                     \
    }
#define OPTION_PRE(text)                                                                           \
    {                                                                                              \
        0, "pre", OPT_TEXT, &(text), "NAME", SETTING | RARE,                                       \
            "pre-tokenizer, for models that do not name theirs"                                    \
    }
#define OPTION_PROMPT(prompt)                                                                      \
    {                                                                                              \
        'p', "prompt", OPT_TEXT, &(prompt).text, "TEXT", 0,                                        \
            "the prompt, or the source to translate"                                               \
    }
#define OPTION_FILE(prompt)                                                                        \
    {                                                                                              \
        'f', "file", OPT_TEXT, &(prompt).file, "FILE", 0,                                          \
            "read the text from FILE (standard input)"                                             \
    }
#define OPTION_IDS(prompt)                                                                         \
    {                                                                                              \
        0, "ids", OPT_TEXT, &(prompt).ids, "N,N,...", 0, "token ids instead of text"               \
    }
#define OPTION_PARSE_SPECIAL(flag)                                                                 \
    {                                                                                              \
        0, "parse-special", OPT_FLAG, &(flag), NULL, RARE,                                         \
            "parse special tokens such as <|user|> in the text"                                    \
    }
#define OPTION_JSON(flag, what)                                                                    \
    {                                                                                              \
        0, "json", OPT_FLAG, &(flag), NULL, 0, what                                                \
    }

/* The path of a model: the argument itself if it exists, otherwise the model of that name, which is
 * printed on stderr. NULL with an error if there is none. */
const char *cli_model_path(const char *given, weft_error *err);

/* -hf NAME: it stands in place of the first argument, as "hf.co/NAME". */
extern const char *cli_hf;

weft_model *cli_open(const load_options *o, weft_error *err);
/* The tokenizer of --tokenizer or of the model; and a tokenizer by path, of one side if a model has
 * two. */
weft_tokenizer *cli_tokenizer(const load_options *o, const char *pre, weft_error *err);
weft_tokenizer *cli_tokenizer_of(const char *path, weft_side side, const char *pre,
                                 weft_error *err);

/* Opens an encoder-decoder, or a decoder. Call it before opening the tokenizer, so that errors of
 * the model come first. Returns 0, or an exit code after printing an error; the caller closes the
 * model either way. */
int cli_open_kind(const load_options *o, bool source, weft_model **model);

/* Prints which command a model is for. Returns 1, the exit code. */
int cli_wrong_task(const char *path, const weft_model_info *info);

/* Returns 0, or EXIT_USAGE after printing an error. */
int cli_engine_options(const command *c, const shape_options *from, weft_engine_options *to);
int cli_threads(const command *c, int64_t given, int *threads);

/* Bytes of weights that a forward reads. */
bool cli_weight_bytes(weft_model *model, double *bytes);
double cli_share_of_bandwidth(weft_model *model, const weft_engine_options *o, double rate,
                              double seconds);

/* True where standard input is a pipe or a file. */
bool cli_is_piped(void);

/* True where there is a text or ids, standard input being one where it is a pipe or a file. */
bool cli_has_prompt(const prompt_options *p);

/* A text that stands alone on the command line is that of -p. */
int cli_take_prompt(const command *c, prompt_options *p, const char *given);

/* Is there one prompt? Asked before the model is opened: returns 0, or EXIT_USAGE after printing an
 * error. */
int cli_check_prompt(const command *c, const prompt_options *p);

/* The text of -p, then that of the file, in a line of its own; cli_free frees it. A file's text ends
 * before its last line end, which editors and echo put there. */
int cli_prompt_text(const command *c, const prompt_options *p, char **text, size_t *n);

/* The ids of the prompt (freed by cli_free), and the tokenizer if the prompt is text or
 * --tokenizer is set. Call it after opening the model, so that errors of the model come first.
 * Returns 0, or an exit code after printing an error. */
int cli_prompt(const command *c, const prompt_options *p, const load_options *load,
               weft_tokenizer **tokenizer, int32_t **ids, int64_t *n);

/* Prints an error if both are given, or the model has no such decoder. */
int cli_check_target(const command *c, const target_options *o, const load_options *load,
                     const weft_model_info *info);

/* Adds the start token, and what is given without the end that a tokenizer adds. The tokenizer of
 * this side names tokens even if nothing is given, unless the source is one of ids. */
int cli_target(const command *c, const target_options *o, const prompt_options *source,
               const load_options *load, int32_t start, id_list *to, weft_tokenizer **t);

/* The ids of a text, which cli_free frees; a text without tokens is an error. */
int cli_encode(const command *c, const weft_tokenizer *t, const char *text, size_t length,
               const weft_tokenize_options *o, int32_t **ids, int64_t *n);

/* How the next token is chosen: the options, and what they make. NULL after printing an error,
 * with *code to exit with. */
extern const option sampling_options[];
weft_sampler *cli_sampler(const command *c, weft_model *model, const weft_tokenizer *tokenizer,
                          int *code);

/* The form that a text must have: --grammar, --regex, --schema. cli_constraint makes one of it, or
 * NULL without such an option. `with`: whose ends count, and how the model thinks. Returns 0, or an
 * exit code after printing an error. */
typedef struct form_options {
    const char *grammar, *regex, *schema;
} form_options;

extern form_options cli_form;
bool cli_has_form(void);
int cli_constraint(const command *c, const weft_grammar_options *with, weft_tokenizer *tokenizer,
                   weft_constraint **to);

/* True if an option asks for sampling instead of greedy decoding. */
bool cli_samples(void);

/* The number that cli_sampler's draws begin with, or -1 where nothing is drawn. */
int64_t cli_seed(void);

/* Converts and says what was written. Fills in what is the same for all conversions. With path, a
 * buffer of 4096 bytes, stores where, and leaves the JSON object open. */
int cli_convert(const char *from, const char *to, weft_convert_options *o, const char *label,
                bool json, char *path);

/* What a run with these options would learn from, with n_show samples; written to a file of ids, if
 * one is named. Returns an exit code. */
int cli_check_data(const weft_train_options *o, int64_t n_show, const char *ids);

#endif

/* weft - transformers on CPUs, from the command line. */
#include "cli.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const command *const commands[] = { &command_run,      &command_inspect, &command_eval,
                                    &command_verify,   &command_convert, &command_quantize,
                                    &command_tokenize, &command_train,   &command_train_tokenizer,
                                    &command_report,   &command_version, NULL };

/* ---- what commands share --------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    if (interrupted)
        _exit(EXIT_INTERRUPTED);
    interrupted = 1;
}

void cli_catch_interrupt(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted;
}

int cli_fail(const weft_error *err)
{
    fprintf(stderr, "weft: %s\n", err->message);
    return err->code == WEFT_EINVAL ? EXIT_USAGE : 1;
}

int cli_no_memory(void)
{
    fputs("weft: out of memory\n", stderr);
    return 1;
}

const char *cli_bytes(size_t n, char *text, size_t size)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double x = (double)n;
    int unit = 0;
    for (; x >= 1024 && unit < 4; unit++)
        x /= 1024;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return text;
}

/* The second byte of some sequences has a narrower range: overlong forms and surrogates are no
 * UTF-8. */
size_t cli_utf8(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 0 || s[0] < 0x80)
        return length > 0;
    const size_t n = s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (n == 0 || n > length)
        return 0;
    const unsigned char lo = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char hi = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < lo || s[1] > hi)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return n;
}

void cli_json_put(FILE *to, const char *text, size_t length)
{
    putc('"', to);
    for (size_t i = 0; i < length;) {
        const size_t n = cli_utf8(text + i, length - i);
        const unsigned char c = (unsigned char)text[i];
        if (n == 0)
            fputs("\\ufffd", to);
        else if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            fprintf(to, "\\u%04x", c);
        else
            fwrite(text + i, 1, n, to);
        i += n ? n : 1;
    }
    putc('"', to);
}

void cli_json_text(const char *text, size_t length)
{
    cli_json_put(stdout, text, length);
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *amount(const cli_bar *b, uint64_t n, char *text, size_t size)
{
    if (!b->unit)
        return cli_bytes((size_t)n, text, size);
    snprintf(text, size, "%llu", (unsigned long long)n);
    return text;
}

void cli_bar_show(cli_bar *b, uint64_t done, uint64_t total)
{
    static const char bar[] = "########################################";
    const int width = sizeof bar - 1;
    const double t = cli_now();
    b->start = b->start > 0 ? b->start : t;
    if (t - b->start < 1 || t - b->shown < 0.1 || total == 0 || !isatty(STDERR_FILENO))
        return;
    const double share = (double)done / (double)total;
    char a[32], z[32];
    fprintf(stderr, "\r%s [%-*.*s] %3.0f %%  %s of %s%s%s\x1b[K", b->label, width,
            (int)(share * width), bar, share * 100, amount(b, done, a, sizeof a),
            amount(b, total, z, sizeof z), b->unit ? " " : "", b->unit ? b->unit : "");
    b->shown = t;
    b->drawn = true;
}

void cli_bar_end(cli_bar *b)
{
    if (b->drawn)
        fputs("\r\x1b[K", stderr);
    b->drawn = false;
}

void cli_log(void *ud, weft_log_level level, const char *line)
{
    (void)ud;
    fprintf(stderr, "weft: %s%s\n", level == WEFT_LOG_WARN ? "warning: " : "", line);
}

weft_model *cli_open(const load_options *o, weft_error *err)
{
    const weft_model_options options = { .struct_size = sizeof options,
                                         .load = o->no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                                         .ram_max = o->ram_max,
                                         .log = cli_log };
    return weft_model_open(o->path, &options, err);
}

static bool kv_type(const char *name, weft_kv_type *type)
{
    static const char *const names[] = { "", "f32", "f16", "bf16", "q8_0" };
    for (int i = WEFT_KV_F32; i <= WEFT_KV_Q8_0; i++)
        if (strcmp(name, names[i]) == 0) {
            *type = (weft_kv_type)i;
            return true;
        }
    return false;
}

/* What the library checks against the model is left to it; here only what does not fit its
 * types. */
int cli_engine_options(const command *c, const shape_options *from, weft_engine_options *to)
{
    *to = (weft_engine_options){ .struct_size = sizeof *to, .n_ctx = from->n_ctx };
    if (from->kv_type && !kv_type(from->kv_type, &to->kv_type))
        return cli_usage(c, "--kv-type: \"%s\" is none of f32, f16, bf16, q8_0", from->kv_type);
    if (from->n_batch < 0 || from->n_batch > INT_MAX)
        return cli_usage(c, "--batch-size: %lld is out of range", (long long)from->n_batch);
    if (from->threads < 0 || from->threads > INT_MAX)
        return cli_usage(c, "--threads: %lld is out of range", (long long)from->threads);
    to->n_batch = (int)from->n_batch;
    to->threads = (int)from->threads;
    return 0;
}

/* ---- weft version ---------------------------------------------------------------------------- */

static bool version_json;

static const option version_options[] = {
    { 0, "json", OPT_FLAG, &version_json, NULL, NULL, "print one JSON object" },
    { 0 },
};

static int version_main(void)
{
    printf(version_json
               ? "{\"version\":\"%s\",\"parts\":\"%s\",\"kernels\":\"%s\",\"threads\":%d}\n"
               : "weft %s\nparts    %s\nkernels  %s\nthreads  %d\n",
           weft_version(), weft_build_parts(), weft_kernels_name(), weft_cpu_count());
    return 0;
}

const command command_version = {
    .name = "version",
    .arguments = "",
    .summary = "tell what this build has and found",
    .examples = "  weft --version\n",
    .options = version_options,
    .main = version_main,
};

/* ---- choosing the command -------------------------------------------------------------------- */

static void help(void)
{
    puts("weft - transformers on CPUs\n\n"
         "Examples:\n"
         "  weft inspect model.gguf\n"
         "  weft run model.gguf -p \"Once upon a time\" -n 64\n"
         "  weft convert ./model-directory model.gguf --type f16\n"
         "  weft tokenize model.gguf \"Hello world\"\n"
         "  weft eval model-q4_0.gguf text.txt --against model-f32.gguf\n\n"
         "Commands:");
    for (int i = 0; commands[i]; i++)
        printf("  %-15s %s\n", commands[i]->name, commands[i]->summary);
    puts("\n'weft help COMMAND' tells its options.");
}

static const command *find(const char *name)
{
    if (strcmp(name, "--version") == 0)
        return &command_version;
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (int i = 0; commands[i]; i++)
        if (cli_resembles(name, commands[i]->name, &least))
            best = commands[i]->name;
    if (best)
        fprintf(stderr, "weft: no command \"%s\"; did you mean %s?\n", name, best);
    else
        fprintf(stderr, "weft: no command \"%s\"\n", name);
    fputs("Try 'weft help'.\n", stderr);
    return EXIT_USAGE;
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

static int run_command(const command *c, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (is_help(argv[i])) {
            help_command(c);
            return 0;
        }
    const int bad = options_parse(c, argc, argv);
    return bad ? bad : c->main();
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2 || is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        const command *of = argc > 2 ? find(argv[2]) : NULL;
        if (argc > 2 && !of)
            return unknown_command(argv[2]);
        if (of)
            help_command(of);
        else
            help();
        return 0;
    }
    const command *c = find(argv[1]);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(argv[1]);
}

/* Data that could not be written is a failure, even if the last bytes were only buffered. */
int main(int argc, char **argv)
{
    const int code = dispatch(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("weft: cannot write to standard output\n", stderr);
    return code ? code : 1;
}

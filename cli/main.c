/* weft - transformers on CPUs, from the command line. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

const command *const commands[] = { &command_run,
                                    &command_translate,
                                    &command_embed,
                                    &command_fill_mask,
                                    &command_classify,
                                    &command_inspect,
                                    &command_trace,
                                    &command_bench,
                                    &command_eval,
                                    &command_verify,
                                    &command_convert,
                                    &command_quantize,
                                    &command_tokenize,
                                    &command_train,
                                    &command_train_tokenizer,
                                    &command_report,
                                    &command_config,
                                    &command_version,
                                    &command_help,
                                    &command_man,
                                    &command_completions,
                                    NULL };

/* ---- stopping and failing -------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted; /* the signal that did it */

static void on_interrupt(int signal)
{
    if (interrupted)
        _exit(EXIT_SIGNAL + signal);
    interrupted = signal;
}

/* A signal that our parent has us ignore stays ignored: nohup ignores SIGHUP. But a shell starts
 * its background jobs deaf to Ctrl-C, and `kill -INT` should reach them. */
static void catch_signal(int signal)
{
    struct sigaction action = { .sa_handler = on_interrupt }, before;
    sigaction(signal, NULL, &before);
    if (signal == SIGINT || before.sa_handler != SIG_IGN)
        sigaction(signal, &action, NULL);
}

void cli_catch_interrupt(void)
{
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    catch_signal(SIGHUP);
}

bool cli_interrupted(void)
{
    return interrupted;
}

int cli_stopped(void)
{
    return EXIT_SIGNAL + interrupted;
}

static const char *advice(weft_status code)
{
    return code == WEFT_ELIMIT     ? "Allow more with --ram-max, or ask for less.\n"
           : code == WEFT_ECONTEXT ? "Ask for a larger --ctx-size, if the model has it.\n"
                                   : "";
}

int cli_fail(const weft_error *err)
{
    fprintf(stderr, "weft: %s\n%s", err->message, advice(err->code));
    return err->code == WEFT_EINVAL ? EXIT_USAGE : 1;
}

int cli_cannot_write(const char *path)
{
    fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
    return 1;
}

int cli_which_model(const command *c)
{
    return cli_usage(c, "which model? Give a GGUF file or a Hugging Face directory");
}

/* ---- weft version ---------------------------------------------------------------------------- */

static bool version_json;

static const option version_options[] = {
    OPTION_JSON(version_json, "print one JSON object"),
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

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

const command *command_find(const char *name)
{
    if (strcmp(name, "--version") == 0)
        return &command_version;
    if (is_help(name))
        return &command_help;
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const char *command_near(const char *name)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (int i = 0; commands[i]; i++)
        if (cli_resembles(name, commands[i]->name, &least))
            best = commands[i]->name;
    return best;
}

int command_unknown(const char *name)
{
    const char *best = command_near(name);
    if (best)
        fprintf(stderr, "weft: no command \"%s\"; did you mean %s?\n", name, best);
    else if (strpbrk(name, "./"))
        fprintf(stderr, "weft: no command \"%s\"; to run it: weft run %s -p TEXT\n", name, name);
    else
        fprintf(stderr, "weft: no command \"%s\"\n", name);
    fputs("Try 'weft help'.\n", stderr);
    return EXIT_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return command_help.main();
    const command *c = command_find(argv[1]);
    if (!c)
        return command_unknown(argv[1]);
    for (int i = 2; i < argc; i++)
        if (is_help(argv[i])) {
            help_command(c, false);
            return 0;
        }
    const int bad = options_parse(c, argc - 2, argv + 2);
    return bad ? bad : c->main();
}

/* ---- the edge of the process ----------------------------------------------------------------- */

/* A file that is opened while a standard descriptor is closed gets its number, and then what we
 * print. So each is taken, with /dev/null opened the wrong way around: to use it stays an error. */
static void reserve_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            _exit(1);
}

/* Data that could not be written is a failure, even if the last bytes were only buffered. */
int main(int argc, char **argv)
{
    reserve_descriptors();
    signal(SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` is an error like a full disk */
    const int code = dispatch(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("weft: cannot write to standard output\n", stderr);
    return code ? code : 1;
}

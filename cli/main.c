/* main.c - weft, transformers on CPUs, from the command line: the list of commands, and what
 * chooses one of them. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

const command *const all_commands[] = { &command_run,
                                        &command_chat,
                                        &command_serve,
                                        &command_translate,
                                        &command_embed,
                                        &command_rerank,
                                        &command_fill_mask,
                                        &command_classify,
                                        &command_inspect,
                                        &command_models,
                                        &command_trace,
                                        &command_explain,
                                        &command_bench,
                                        &command_eval,
                                        &command_verify,
                                        &command_convert,
                                        &command_quantize,
                                        &command_tokenize,
                                        &command_template,
                                        &command_train,
                                        &command_plan,
                                        &command_train_tokenizer,
                                        &command_report,
                                        &command_config,
                                        &command_version,
                                        &command_help,
                                        &command_man,
                                        &command_completions,
                                        NULL };

/* ---- choosing the command -------------------------------------------------------------------- */

static int dispatch(int argc, char **argv)
{
    commands = all_commands;
    if (argc < 2)
        return command_help.main();
    const command *c = command_find(argv[1]);
    if (!c)
        return command_unknown(argv[1]);
    for (int i = 2; i < argc; i++)
        if (cli_is_help(argv[i])) {
            help_command(c, false);
            return 0;
        }
    int bad = settings_apply(c); /* the command line has the last word */
    if (!bad)
        bad = options_parse(c, argc - 2, argv + 2);
    if (bad)
        return bad;
    cli_cap_memory();
    return c->main();
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

/* fail.c - how the program stops: what it says on stderr, and the exit code. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* ---- interrupted ----------------------------------------------------------------------------- */

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

bool cli_forget_interrupt(void)
{
    if (interrupted != SIGINT)
        return false;
    interrupted = 0;
    return true;
}

int cli_stopped(void)
{
    return EXIT_SIGNAL + interrupted;
}

/* ---- failed ---------------------------------------------------------------------------------- */

static const char *advice(weft_status code)
{
    return code == WEFT_ELIMIT     ? "Raise --ram-max, or use a smaller context or batch.\n"
           : code == WEFT_ECONTEXT ? "Use a larger --ctx-size, up to the model's.\n"
                                   : "";
}

static char details[8192];

void cli_detail(const char *format, ...)
{
    const size_t n = strlen(details);
    va_list args;
    va_start(args, format);
    vsnprintf(details + n, sizeof details - n, format, args);
    va_end(args);
}

void cli_no_details(void)
{
    details[0] = '\0';
}

void cli_print_details(void)
{
    fputs(details, stderr);
    cli_no_details();
}

int cli_fail(const weft_error *err)
{
    fprintf(stderr, "weft: %s\n%s", err->message, advice(err->code));
    cli_print_details();
    return err->code == WEFT_EINVAL ? EXIT_USAGE : 1;
}

int cli_cannot_write(const char *path)
{
    fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
    return 1;
}

int cli_usage(const command *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "weft %s: ", c->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry 'weft help %s'.\n", c->name);
    va_end(args);
    return EXIT_USAGE;
}

int cli_which_model(const command *c)
{
    return cli_usage(c, "no model; give a GGUF file, a Hugging Face directory or a name");
}

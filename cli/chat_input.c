/* chat_input.c - bytes of standard input, and the signals that may come while one is waited for. */
#include "chat.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool terminal;
    char bytes[1 << 16]; /* read ahead from a pipe, or typed ahead */
    size_t at, n;
} in;

void chat_input_open(bool terminal)
{
    in.terminal = terminal;
    chat_input_forget();
}

void chat_input_forget(void)
{
    in.at = in.n = 0;
}

static sigset_t others; /* the mask while signals are not held */

void chat_input_hold_signals(void)
{
    static const int held[] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH };
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        sigaddset(&set, held[i]);
    sigprocmask(SIG_BLOCK, &set, &others);
}

void chat_input_release_signals(void)
{
    sigprocmask(SIG_SETMASK, &others, NULL);
}

bool chat_input_wait(void)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    if (cli_interrupted()) /* before signals were held */
        return false;
    if (in.at < in.n)
        return true;
    int n;
    do /* Ctrl-C drops what was typed: a read would then wait, with the signal held */
        n = ppoll(&input, 1, NULL, &others);
    while (n > 0 && in.terminal && poll(&input, 1, 0) == 0);
    return n >= 0 || errno != EINTR;
}

/* One byte at a time from a terminal: what follows may be for an editor that /edit starts. */
int chat_input_byte(char *to)
{
    if (in.at == in.n) {
        const ssize_t n = read(STDIN_FILENO, in.bytes, in.terminal ? 1 : sizeof in.bytes);
        if (n <= 0)
            return (int)n;
        in.at = 0;
        in.n = (size_t)n;
    }
    *to = in.bytes[in.at++];
    return 1;
}

void chat_input_take_ahead(void)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    memmove(in.bytes, in.bytes + in.at, in.n - in.at);
    in.n -= in.at;
    in.at = 0;
    while (in.n < sizeof in.bytes && poll(&input, 1, 0) == 1) {
        const ssize_t n = read(STDIN_FILENO, in.bytes + in.n, sizeof in.bytes - in.n);
        if (n <= 0)
            return;
        for (char *s = in.bytes + in.n; s < in.bytes + in.n + n; s++)
            *s = (char)(*s == '\n' ? '\r' : *s == '\0' ? 4 : *s);
        in.n += (size_t)n;
    }
}

/* chat_line.c - a message from the user: a line of a pipe; or what is typed, which may be several
 * lines: between """, after a backslash, or written in an editor.
 *
 * A line that is piped in is always a message: a text from elsewhere must not be able to /save. */
#include "chat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    bool terminal; /* lines are typed */
    bool edits;    /* the line editor is there */
    bool history;
    int code;
} in;

/* ---- lines without an editor ----------------------------------------------------------------- */

static line_end fail(int code)
{
    in.code = code;
    return LINE_FAILED;
}

int chat_line_code(void)
{
    return in.code;
}

static line_end read_failed(void)
{
    fprintf(stderr, "weft: standard input: %s\n", strerror(errno));
    return fail(1);
}

static line_end too_long(void)
{
    char most[32];
    fprintf(stderr, "weft: standard input: a line of more than %s, the limit\n",
            cli_bytes(CLI_MAX_PROMPT, most, sizeof most));
    return fail(1);
}

/* With signals held. */
static line_end gather_line(cli_text *to)
{
    char c = 0;
    for (size_t n = 0;; n++) {
        while (!chat_input_wait())
            if (cli_interrupted())
                return LINE_CLEARED;
        const int got = chat_input_byte(&c);
        if (got < 0 && errno != EINTR && errno != EIO)
            return read_failed();
        if (got <= 0)
            return n ? LINE_TEXT : LINE_END;
        if (c == '\n')
            return LINE_TEXT;
        if (n == CLI_MAX_PROMPT)
            return too_long();
        if (!cli_text_add(to, &c, 1))
            return fail(cli_no_memory());
    }
}

static line_end plain_line(const char *prompt, cli_text *to)
{
    if (in.terminal)
        fputs(prompt, stderr);
    chat_input_hold_signals();
    const line_end end = gather_line(to);
    chat_input_release_signals();
    if (in.terminal && end != LINE_TEXT)
        fputc('\n', stderr);
    return end;
}

/* A line; Ctrl-C is forgotten once it has cleared the line. */
static line_end next_line(const char *prompt, cli_text *to)
{
    line_end end = in.edits ? chat_edit_line(prompt, to) : plain_line(prompt, to);
    if (end == LINE_CLEARED)
        chat_input_forget();
    if (end == LINE_CLEARED && !(in.terminal && cli_forget_interrupt()))
        end = fail(cli_stopped());
    if (end == LINE_FAILED && !in.code)
        in.code = cli_no_memory();
    return end;
}

/* ---- several lines --------------------------------------------------------------------------- */

#define QUOTES "\"\"\""

static bool ends_with(const cli_text *t, size_t from, const char *end)
{
    const size_t n = strlen(end);
    return t->n >= from + n && memcmp(t->at + t->n - n, end, n) == 0;
}

static void cut(cli_text *t, size_t n)
{
    t->n -= n;
    t->at[t->n] = '\0';
}

/* From """ to """, which are not part of it. */
static line_end read_block(cli_text *to)
{
    line_end end = LINE_TEXT;
    memmove(to->at, to->at + 3, to->n - 3 + 1);
    to->n -= 3;
    while (end == LINE_TEXT && !ends_with(to, 0, QUOTES)) {
        if (to->n && !cli_text_add(to, "\n", 1))
            return fail(cli_no_memory());
        end = next_line("... ", to);
    }
    if (end != LINE_TEXT)
        return end;
    cut(to, 3);
    if (ends_with(to, 0, "\n"))
        cut(to, 1);
    return LINE_MESSAGE;
}

/* A backslash at the end of a line: another one follows. */
static line_end read_more(cli_text *to)
{
    line_end end = LINE_TEXT;
    while (end == LINE_TEXT && ends_with(to, 0, "\\")) {
        to->at[to->n - 1] = '\n';
        end = next_line("... ", to);
    }
    return end;
}

static line_end typed_message(const char *prompt, cli_text *to)
{
    line_end end = next_line(prompt, to);
    if (end != LINE_TEXT)
        return end;
    end = strncmp(to->at, QUOTES, 3) == 0 ? read_block(to) : read_more(to);
    if (to->n && (end == LINE_TEXT || end == LINE_MESSAGE)) {
        if (in.edits)
            chat_edit_remember(to->at);
        if (in.history)
            chat_history_add(to->at, to->n);
    }
    return end;
}

line_end chat_line_message(const char *prompt, cli_text *to)
{
    to->n = 0;
    in.code = 0;
    if (!cli_text_add(to, "", 0))
        return fail(cli_no_memory());
    if (in.terminal)
        return typed_message(prompt, to);
    const line_end end = next_line("", to);
    if (to->n && to->at[to->n - 1] == '\r')
        cut(to, 1);
    return end == LINE_TEXT ? LINE_MESSAGE : end;
}

void chat_line_open(bool terminal, bool history)
{
    in.terminal = terminal;
    chat_input_open(terminal);
    in.edits = terminal && chat_edit_open();
    in.history = in.edits && history;
    if (in.history)
        chat_history_open(chat_edit_remember);
}

void chat_line_close(void)
{
    if (in.edits)
        chat_edit_close();
    if (in.history)
        chat_history_close();
    in.edits = in.history = false;
}

/* ---- a message from an editor ---------------------------------------------------------------- */

/* As git does it: the variable is a command with arguments. It has the terminal even where our
 * standard output is a file. */
static void run_editor(const char *editor, const char *path)
{
    char line[1024];
    const int terminal = open("/dev/tty", O_RDWR);
    if (terminal >= 0) {
        dup2(terminal, STDIN_FILENO);
        dup2(terminal, STDOUT_FILENO);
    }
    if ((size_t)snprintf(line, sizeof line, "%s \"$1\"", editor) < sizeof line)
        execl("/bin/sh", "sh", "-c", line, "sh", path, (char *)NULL);
    _exit(127);
}

/* Ctrl-C belongs to the editor meanwhile. */
static bool edit_file(const char *editor, const char *path)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
    int status = -1;
    sigaction(SIGINT, &ignore, &before);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        run_editor(editor, path);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    sigaction(SIGINT, &before, NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    fprintf(stderr, "weft: /edit: %s failed; nothing is sent\n", editor);
    return false;
}

static bool take_file(const char *path, cli_text *to)
{
    char *bytes;
    size_t n = 0;
    if (cli_read(path, CLI_MAX_PROMPT, &bytes, &n) != 0)
        return false;
    n -= n > 0 && bytes[n - 1] == '\n';
    to->n = 0;
    const bool good = cli_text_add(to, bytes, n);
    cli_free(bytes);
    if (!good)
        cli_no_memory();
    return good;
}

bool chat_line_compose(cli_text *to)
{
    const char *visual = getenv("VISUAL"), *directory = getenv("TMPDIR");
    const char *editor = visual && *visual ? visual : getenv("EDITOR");
    char path[4096];
    if (!editor || !*editor) {
        fputs("weft: /edit: neither VISUAL nor EDITOR is set; set one, as in EDITOR=vi\n", stderr);
        return false;
    }
    snprintf(path, sizeof path, "%s/weft-chat-XXXXXX.txt",
             directory && *directory ? directory : "/tmp");
    const int file = mkstemps(path, 4);
    if (file < 0) {
        cli_cannot_write(path);
        return false;
    }
    close(file);
    const bool good = edit_file(editor, path) && take_file(path, to);
    unlink(path);
    return good;
}

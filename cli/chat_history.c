/* chat_history.c - $XDG_STATE_HOME/weft/chat_history: the lines of earlier chats.
 *
 * One line each, oldest first, with line ends as \n and backslashes as \\. A line is added when it
 * is sent, in one write, so that a crash loses none and two chats may share the file. Only its
 * owner can read it. */
#include "chat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HISTORY ((size_t)1 << 20) /* bytes; a longer file begins again with its later half */

static int file = -1;

/* "~/.local/state/weft/chat_history". False without a home. */
static bool history_path(char *path, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const bool set = state && state[0] == '/';
    const int n = set ? snprintf(path, size, "%s/weft/chat_history", state)
                      : snprintf(path, size, "%s/.local/state/weft/chat_history", home ? home : "");
    return (set || home) && n > 0 && (size_t)n < size;
}

/* The directories above the file, for its owner only. */
static bool make_directories(char *path)
{
    for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = '\0';
        const bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *s = '/';
        if (!there)
            return false;
    }
    return true;
}

/* In place. */
static void unescape(char *line)
{
    char *to = line;
    for (const char *s = line; *s; s++) {
        const bool escaped = *s == '\\' && s[1];
        s += escaped;
        *to++ = escaped && *s == 'n' ? '\n' : *s;
    }
    *to = '\0';
}

/* The later half of a file that has grown long. */
static bool shorten(const char *path, const char *bytes, size_t n)
{
    out_file o;
    const char *from = memchr(bytes + n / 2, '\n', n - n / 2);
    if (!from || !out_begin(&o, path))
        return false;
    fwrite(from + 1, 1, n - (size_t)(from + 1 - bytes), o.f);
    return out_end(&o, fchmod(fileno(o.f), 0600) == 0);
}

static void each_line(char *bytes, history_fn *fn)
{
    for (char *line = bytes, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        unescape(line);
        fn(line);
    }
}

static void warn_off(const char *path)
{
    fprintf(stderr, "weft: no history: %s: %s; --no-history does without\n", path, strerror(errno));
}

void chat_history_open(history_fn *fn)
{
    char path[4096], *bytes = NULL;
    size_t n = 0;
    struct stat st;
    if (!history_path(path, sizeof path)) {
        fputs("weft: no history: neither XDG_STATE_HOME nor HOME is set\n", stderr);
        return;
    }
    if (make_directories(path))
        file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file < 0 || fstat(file, &st) != 0 || !S_ISREG(st.st_mode) || fchmod(file, 0600) != 0) {
        warn_off(path);
        chat_history_close();
        return;
    }
    if (cli_read(path, 4 * MAX_HISTORY, &bytes, &n) != 0)
        return;
    if (n > MAX_HISTORY && shorten(path, bytes, n)) {
        chat_history_close();
        file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    each_line(bytes, fn);
    cli_free(bytes);
}

void chat_history_add(const char *line, size_t n)
{
    cli_text t = { 0 };
    bool good = file >= 0;
    for (size_t i = 0; i < n && good; i++)
        good = line[i] == '\n'   ? cli_text_add(&t, "\\n", 2)
               : line[i] == '\\' ? cli_text_add(&t, "\\\\", 2)
                                 : cli_text_add(&t, line + i, 1);
    good = good && cli_text_add(&t, "\n", 1);
    if (good && write(file, t.at, t.n) != (ssize_t)t.n) {
        warn_off("chat_history");
        chat_history_close();
    }
    cli_text_free(&t);
}

void chat_history_close(void)
{
    if (file >= 0)
        close(file);
    file = -1;
}

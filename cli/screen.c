/* screen.c - how numbers, bytes and progress look. */
#include "cli.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int cli_columns(FILE *f)
{
    struct winsize w = { 0 };
    const bool known = ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 0;
    return known ? w.ws_col : 100;
}

const char *cli_style(FILE *f, style s)
{
    static const char *const codes[] = { "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m" };
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool plain = (no_color && *no_color) || !term || !isatty(fileno(f));
    return plain ? "" : codes[s];
}

/* ---- numbers --------------------------------------------------------------------------------- */

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

const char *cli_count(double x, char *text, size_t size)
{
    static const char *const units[] = { "", "k", "M", "G", "T", "P" };
    int unit = 0;
    for (; x >= 1000 && unit < 5; unit++)
        x /= 1000;
    snprintf(text, size, unit ? "%.2f %s" : "%.0f %s", x, units[unit]);
    return text;
}

const char *cli_shape(const int64_t *shape, int n_dim, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (int d = 0; d < n_dim && n < size; d++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", d ? "x" : "", (long long)shape[d]);
    return text;
}

void cli_print_number(double x)
{
    char text[32];
    if (snprintf(text, sizeof text, "%.3g", x) > CLI_NUMBER)
        snprintf(text, sizeof text, "%.2g", x);
    printf(" %*s", CLI_NUMBER, text);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

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

void cli_print_bytes(const char *s, size_t n)
{
    putchar('"');
    for (size_t i = 0; i < n;) {
        const size_t step = cli_utf8(s + i, n - i);
        const unsigned char c = (unsigned char)s[i], next = (unsigned char)s[i + (step > 1)];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c == '\n')
            fputs("\\n", stdout);
        else if (c == '\t')
            fputs("\\t", stdout);
        else if (step == 0 || c < 0x20 || c == 0x7F || (c == 0xC2 && next < 0xA0))
            for (size_t k = 0; k < (step ? step : 1); k++)
                printf("\\x%02X", (unsigned char)s[i + k]);
        else
            fwrite(s + i, 1, step, stdout);
        i += step ? step : 1;
    }
    putchar('"');
}

/* U+0080 to U+009F command a terminal too. */
static bool is_control(const char *s, size_t n)
{
    const unsigned char c = (unsigned char)s[0];
    return n == 0 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F ||
           (n == 2 && c == 0xC2 && (unsigned char)s[1] < 0xA0);
}

void cli_put(FILE *f, const char *bytes, size_t n)
{
    if (!isatty(fileno(f))) {
        fwrite(bytes, 1, n, f);
        return;
    }
    for (size_t i = 0; i < n;) {
        const size_t step = cli_utf8(bytes + i, n - i), used = step ? step : 1;
        if (is_control(bytes + i, step))
            for (size_t k = 0; k < used; k++)
                fprintf(f, "\\x%02X", (unsigned char)bytes[i + k]);
        else
            fwrite(bytes + i, 1, step, f);
        i += used;
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

#define PATIENCE 1    /* seconds in which nothing is shown */
#define TICK     0.25 /* seconds from one picture to the next */

static struct {
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t ended;
    const char *label, *unit;
    uint64_t done, total;
    double start;
    bool running, over, drawn;
} bar_now = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

static const char *amount(uint64_t n, char *text, size_t size)
{
    if (!bar_now.unit)
        return cli_bytes((size_t)n, text, size);
    snprintf(text, size, "%llu", (unsigned long long)n);
    return text;
}

static void draw(void)
{
    static const char bar[] = "##############################";
    const int width = sizeof bar - 1;
    char a[32], z[32];
    if (bar_now.total == 0) {
        fprintf(stderr, "\r%s ... %.0f s\x1b[K", bar_now.label, cli_now() - bar_now.start);
    } else {
        const double share = (double)bar_now.done / (double)bar_now.total;
        fprintf(stderr, "\r%s [%-*.*s] %3.0f %%  %s of %s%s%s\x1b[K", bar_now.label, width,
                (int)(share * width), bar, share * 100, amount(bar_now.done, a, sizeof a),
                amount(bar_now.total, z, sizeof z), bar_now.unit ? " " : "",
                bar_now.unit ? bar_now.unit : "");
    }
    bar_now.drawn = true;
}

static void erase(void)
{
    if (bar_now.drawn)
        fputs("\r\x1b[K", stderr);
    bar_now.drawn = false;
}

/* Sleeps on a clock that can be waited for, until it is over at the latest. */
static void sleep_for(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const long ns = t.tv_nsec + (long)((seconds - (double)(long)seconds) * 1e9);
    t.tv_sec += (time_t)seconds + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    while (!bar_now.over && pthread_cond_timedwait(&bar_now.ended, &bar_now.lock, &t) == 0)
        continue;
}

/* A thread of its own shows that weft is alive even while nothing can be told. */
static void *show_progress(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&bar_now.lock);
    for (sleep_for(PATIENCE); !bar_now.over; sleep_for(TICK))
        draw();
    erase();
    pthread_mutex_unlock(&bar_now.lock);
    return NULL;
}

void cli_progress_begin(const char *label, const char *unit)
{
    if (!isatty(STDERR_FILENO) || bar_now.running)
        return;
    bar_now.label = label;
    bar_now.unit = unit;
    bar_now.done = bar_now.total = 0;
    bar_now.start = cli_now();
    bar_now.over = bar_now.drawn = false;
    bar_now.running = pthread_create(&bar_now.thread, NULL, show_progress, NULL) == 0;
}

void cli_progress_set(uint64_t done, uint64_t total)
{
    pthread_mutex_lock(&bar_now.lock);
    bar_now.done = done;
    bar_now.total = total;
    pthread_mutex_unlock(&bar_now.lock);
}

void cli_progress_clear(void)
{
    pthread_mutex_lock(&bar_now.lock);
    erase();
    pthread_mutex_unlock(&bar_now.lock);
}

void cli_progress_end(void)
{
    if (!bar_now.running)
        return;
    pthread_mutex_lock(&bar_now.lock);
    bar_now.over = true;
    pthread_cond_signal(&bar_now.ended);
    pthread_mutex_unlock(&bar_now.lock);
    pthread_join(bar_now.thread, NULL);
    bar_now.running = false;
}

bool cli_write_to(const char *path)
{
    const bool ended = fflush(stdout) == 0;
    if (ended && freopen(path, "w", stdout))
        return true;
    fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
    return false;
}

void cli_log(void *ud, weft_log_level level, const char *line)
{
    (void)ud;
    cli_progress_clear();
    fprintf(stderr, "weft: %s%s\n", level == WEFT_LOG_WARN ? "warning: " : "", line);
}

/* Version 1 of the format: magic, version, length of a Python dictionary, the dictionary padded
 * with blanks to a multiple of 64, data. */
bool cli_npy_header(FILE *f, int n_dim, const int64_t *shape)
{
    const uint16_t probe = 1;
    const char order = *(const uint8_t *)&probe ? '<' : '>';
    char text[256];
    int n = snprintf(text, sizeof text, "{'descr': '%cf4', 'fortran_order': False, 'shape': (",
                     order);
    for (int d = 0; d < n_dim; d++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d ? ", " : "",
                      (long long)shape[d]);
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    const int padded = (10 + n + 1 + 63) / 64 * 64 - 10;
    fwrite("\x93NUMPY\x01\x00", 1, 8, f);
    putc(padded & 0xFF, f);
    putc(padded >> 8, f);
    return fprintf(f, "%-*s\n", padded - 1, text) == padded;
}

/* chat_edit.c - the line editor: libedit, with what it lacks.
 *
 * It has no bracketed paste: the terminal marks pasted text with ESC[200~ and ESC[201~, and a
 * function bound to the first reads up to the second, so that pasted lines are one message. Its
 * own handling of signals would send them to the whole process group; ours waits for them beside
 * the keys. Text is decoded here: it is UTF-8 whatever the locale says.
 *
 * The terminal is in the editor's state only inside chat_edit_line. */
#include "chat.h"

#ifdef WEFT_EDIT

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define MAX_REMEMBERED 1000

static EditLine *el;
static HistoryW *past;
static FILE *screen; /* the terminal, for prompts and what is typed */
static struct termios before;
static wchar_t prompt[CHAT_MAX_PROMPT];
static volatile sig_atomic_t asked_to_suspend, resized;

/* ---- the terminal's state -------------------------------------------------------------------- */

static void paste_marks(bool on)
{
    fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", screen);
    fflush(screen);
}

static void on_signal(int number)
{
    if (number == SIGTSTP)
        asked_to_suspend = 1;
    else
        resized = 1;
}

/* Ctrl-Z: the shell gets its terminal as it was, and we ours when we are back. */
static void suspend(void)
{
    struct sigaction usual = { .sa_handler = SIG_DFL }, ours;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    paste_marks(false);
    fputc('\n', screen);
    fflush(screen);
    el_wset(el, EL_PREP_TERM, 0);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    sigaction(SIGTSTP, &usual, &ours);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* here it stops */
    sigprocmask(SIG_BLOCK, &one, NULL);
    sigaction(SIGTSTP, &ours, NULL);
    el_wset(el, EL_PREP_TERM, 1);
    paste_marks(true);
    el_resize(el);
    el_wset(el, EL_REFRESH);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A byte, once there is one. -1: Ctrl-C or another signal that ends the line. */
static int next_byte(char *to)
{
    for (;;) {
        if (chat_input_wait())
            return chat_input_byte(to);
        if (cli_interrupted())
            return -1;
        if (asked_to_suspend)
            suspend();
        else if (resized)
            el_resize(el);
        asked_to_suspend = resized = 0;
    }
}

/* A code point; bytes that are none become U+FFFD. */
static int next_char(EditLine *editor, wchar_t *to)
{
    char bytes[4];
    size_t n = 1;
    (void)editor;
    const int got = next_byte(bytes);
    if (got <= 0)
        return got;
    const unsigned char lead = (unsigned char)bytes[0];
    const size_t length = lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1;
    while (n < length && next_byte(bytes + n) == 1)
        n++;
    *to = length == 1 ? lead : lead & (0x7F >> length);
    for (size_t i = 1; i < n; i++)
        *to = *to << 6 | (bytes[i] & 0x3F);
    if (cli_utf8(bytes, n) != length)
        *to = 0xFFFD;
    return 1;
}

static unsigned char insert_line_end(EditLine *editor, int key)
{
    (void)key;
    return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* Terminals send a carriage return for each end of a pasted line. */
static bool add_pasted(wchar_t **pasted, size_t *n, wchar_t c)
{
    if (c == L'\n' && *n && (*pasted)[*n - 1] == L'\r') {
        (*pasted)[*n - 1] = L'\n';
        return true;
    }
    if ((*n & (*n - 1)) == 0) {
        wchar_t *longer = *n < CLI_MAX_PROMPT / 4
                              ? cli_grow(*pasted, (2 * *n + 2) * sizeof *longer, "pasted text")
                              : NULL;
        if (!longer)
            return false;
        *pasted = longer;
    }
    (*pasted)[(*n)++] = c;
    (*pasted)[*n] = L'\0';
    return true;
}

/* Everything up to ESC[201~, as it is. */
static unsigned char take_paste(EditLine *editor, int key)
{
    static const wchar_t end[] = L"\x1b[201~";
    const size_t length = sizeof end / sizeof *end - 1;
    wchar_t *pasted = NULL, c;
    size_t n = 0;
    bool good = true, ended = false;
    (void)key;
    while (!ended && next_char(editor, &c) == 1) {
        good = good && c != L'\0' && add_pasted(&pasted, &n, c);
        ended = n >= length && wmemcmp(pasted + n - length, end, length) == 0;
    }
    if (ended)
        pasted[n -= length] = L'\0';
    for (size_t i = 0; i < n; i++)
        pasted[i] = pasted[i] == L'\r' ? L'\n' : pasted[i];
    good = good && (n == 0 || el_winsertstr(editor, pasted) == 0);
    cli_free(pasted);
    return good ? CC_REFRESH : CC_ERROR;
}

static void bind_keys(void)
{
    static const wchar_t *const keys[][2] = {
        { L"^J", L"weft-newline" },
        { L"\x1b\r", L"weft-newline" },
        { L"\x1b[200~", L"weft-paste" },
        { L"^R", L"em-inc-search-prev" },
        { L"\x1b[1;5C", L"em-next-word" },
        { L"\x1b[1;5D", L"ed-prev-word" },
        { L"\x1b[3~", L"ed-delete-next-char" },
    };
    el_wset(el, EL_ADDFN, L"weft-newline", L"Insert a line end", insert_line_end);
    el_wset(el, EL_ADDFN, L"weft-paste", L"Insert pasted text", take_paste);
    el_wset(el, EL_SETTY, L"-d", L"-inlcr", L"-icrnl", NULL); /* Ctrl-J is not Enter */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_wset(el, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static wchar_t *show_prompt(EditLine *editor)
{
    (void)editor;
    return prompt;
}

static bool add_utf8(cli_text *to, wchar_t w)
{
    const uint32_t c = (uint32_t)w;
    char b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1;)
        b[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3F));
    b[0] = (char)(n == 1 ? c : (0xF00u >> n & 0xFF) | c >> (6 * (n - 1)));
    return cli_text_add(to, b, n);
}

static line_end take_line(cli_text *to)
{
    int n = 0;
    const wchar_t *line = el_wgets(el, &n);
    if (!line)
        return cli_interrupted() ? LINE_CLEARED : LINE_END;
    n -= n > 0 && line[n - 1] == L'\n';
    for (int i = 0; i < n; i++)
        if (!add_utf8(to, line[i]))
            return LINE_FAILED;
    return LINE_TEXT;
}

line_end chat_edit_line(const char *shown, cli_text *to)
{
    struct sigaction ours = { .sa_handler = on_signal }, sleeping, resizing;
    mbstowcs(prompt, shown, sizeof prompt / sizeof *prompt);
    tcgetattr(STDIN_FILENO, &before);
    chat_input_hold_signals();
    sigaction(SIGTSTP, &ours, &sleeping);
    sigaction(SIGWINCH, &ours, &resizing);
    el_wset(el, EL_PREP_TERM, 1);
    chat_input_take_ahead();
    paste_marks(true);
    const line_end end = take_line(to);
    paste_marks(false);
    if (end != LINE_TEXT)
        fputc('\n', screen);
    fflush(screen);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    sigaction(SIGTSTP, &sleeping, NULL);
    sigaction(SIGWINCH, &resizing, NULL);
    chat_input_release_signals();
    return end;
}

void chat_edit_remember(const char *line)
{
    HistEventW event;
    const size_t n = strlen(line);
    wchar_t *wide = cli_alloc(n + 1, sizeof *wide, "history");
    if (wide && mbstowcs(wide, line, n + 1) <= n)
        history_w(past, &event, H_ENTER, wide);
    cli_free(wide);
}

/* ---- its beginning and end ------------------------------------------------------------------- */

/* libedit shows characters by the locale; ours are UTF-8. */
static void choose_locale(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

bool chat_edit_open(void)
{
    HistEventW event;
    choose_locale();
    screen = isatty(STDERR_FILENO) ? stderr : fopen("/dev/tty", "we");
    tcgetattr(STDIN_FILENO, &before);
    el = screen ? el_init("weft", stdin, screen, screen) : NULL; /* which changes the state */
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    past = el ? history_winit() : NULL;
    if (!past) {
        chat_edit_close();
        return false;
    }
    history_w(past, &event, H_SETSIZE, MAX_REMEMBERED);
    history_w(past, &event, H_SETUNIQUE, 1);
    el_wset(el, EL_EDITOR, L"emacs");
    el_wset(el, EL_HIST, history_w, past);
    el_wset(el, EL_PROMPT, show_prompt);
    el_wset(el, EL_SIGNAL, 0);
    el_wset(el, EL_GETCFN, next_char);
    el_source(el, NULL); /* ~/.editrc */
    bind_keys();
    return true;
}

void chat_edit_close(void)
{
    if (past)
        history_wend(past);
    if (el) {
        el_end(el);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
    if (screen && screen != stderr)
        fclose(screen);
    el = NULL;
    past = NULL;
    screen = NULL;
}

#else

/* Without libedit, chat_line.c reads the lines. */
bool chat_edit_open(void)
{
    return false;
}

void chat_edit_close(void)
{
}

line_end chat_edit_line(const char *shown, cli_text *to)
{
    (void)shown, (void)to;
    return LINE_END;
}

void chat_edit_remember(const char *line)
{
    (void)line;
}

#endif

/* chat_pty.c - weft chat at a terminal: every key and command, through a pseudo-terminal.
 *
 *     host_chat_pty WEFT
 *
 * A leader of a session plays the shell: it starts weft as a foreground job, and when that stops
 * (Ctrl-Z), reports the terminal's state and continues it once told to. The test types, waits for
 * words on the screen, and looks at standard output (a file), at saved files and at the terminal's
 * state. Answers come from tests/golden/chat. */
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ENOUGH 30 /* seconds to wait for words on the screen */

static const char *weft;
static char work[512];

/* ---- a terminal with weft in it -------------------------------------------------------------- */

static struct {
    int master, slave;
    int told[2], asked[2]; /* pipes from and to the leader */
    pid_t leader, weft;
    struct termios before;
    char screen[1 << 20]; /* everything that came */
    size_t n, seen;       /* bytes before `seen` have been waited for */
} t;

/* What the leader says: weft's pid, then 'S' at each stop, then 'X' and the status. */
static void lead(char *const *argument)
{
    int status;
    char go;
    setsid();
    ioctl(t.slave, TIOCSCTTY, 0);
    signal(SIGTTOU, SIG_IGN);
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        tcsetpgrp(t.slave, getpid());
        signal(SIGTTOU, SIG_DFL);
        dup2(t.slave, STDIN_FILENO);
        dup2(t.slave, STDERR_FILENO);
        const int out = open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(getenv("WEFT_TEST_TTY_OUT") ? t.slave : out, STDOUT_FILENO);
        execv(weft, argument);
        _exit(127);
    }
    bool good = write(t.told[1], &child, sizeof child) == sizeof child;
    while (good && waitpid(child, &status, WUNTRACED) == child) {
        const char what = WIFSTOPPED(status) ? 'S' : 'X';
        good = write(t.told[1], &what, 1) == 1;
        if (what == 'X') {
            good = write(t.told[1], &status, sizeof status) == sizeof status;
            _exit(!good);
        }
        good = good && read(t.asked[0], &go, 1) == 1;
        tcsetpgrp(t.slave, child);
        kill(-child, SIGCONT);
    }
    _exit(1);
}

static void start(const char *const *more)
{
    const char *argument[40] = {
        weft, "chat", golden("chat/chat.gguf"), "--template", golden("chat/template.jinja"),
        "-t", "1"
    };
    int n = 7;
    for (; *more; more++)
        argument[n++] = *more;
    argument[n] = NULL;
    const struct winsize size = { .ws_row = 40, .ws_col = 100 };
    must(openpty(&t.master, &t.slave, NULL, NULL, &size) == 0 && pipe(t.told) == 0 &&
             pipe(t.asked) == 0,
         "a terminal", NULL);
    tcgetattr(t.slave, &t.before); /* with a state that no program would choose by itself */
    t.before.c_lflag &= ~(tcflag_t)(ECHOCTL | ECHOE);
    tcsetattr(t.slave, TCSANOW, &t.before);
    t.n = t.seen = 0;
    fflush(stdout);
    t.leader = fork();
    if (t.leader == 0)
        lead((char *const *)argument);
    must(read(t.told[0], &t.weft, sizeof t.weft) == sizeof t.weft, "weft starts", NULL);
}

/* Takes what has come to the screen, waiting for a part of a second. */
static void look(void)
{
    struct pollfd p = { .fd = t.master, .events = POLLIN };
    if (poll(&p, 1, 50) <= 0)
        return;
    const ssize_t n = read(t.master, t.screen + t.n, sizeof t.screen - 1 - t.n);
    t.n += n > 0 ? (size_t)n : 0;
    t.screen[t.n] = '\0';
}

static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (double)s.tv_sec + 1e-9 * (double)s.tv_nsec;
}

/* The words appear after those that were waited for before. */
static bool shows(const char *words)
{
    for (const double end = now() + ENOUGH; now() < end; look()) {
        const char *at = t.n > t.seen
                             ? memmem(t.screen + t.seen, t.n - t.seen, words, strlen(words))
                             : NULL;
        if (at) {
            t.seen = (size_t)(at - t.screen) + strlen(words);
            return true;
        }
    }
    return false;
}

static void see(const char *sentence, const char *words)
{
    if (!check(shows(words), sentence, "no \"%s\" after: %s", words, t.screen + t.seen)) {
        kill(t.weft, SIGKILL);
        exit(1);
    }
}

static void type(const char *keys)
{
    must(write(t.master, keys, strlen(keys)) == (ssize_t)strlen(keys), "typing", NULL);
}

/* A line, and the prompt after it. */
static void enter(const char *line)
{
    type(line);
    type("\r");
}

static bool same_state(void)
{
    struct termios s;
    tcgetattr(t.slave, &s);
    return s.c_iflag == t.before.c_iflag && s.c_oflag == t.before.c_oflag &&
           s.c_cflag == t.before.c_cflag && s.c_lflag == t.before.c_lflag &&
           memcmp(s.c_cc, t.before.c_cc, sizeof s.c_cc) == 0;
}

/* The exit code as a shell has it; -1 if it does not end. */
static int end(void)
{
    struct pollfd p = { .fd = t.told[0], .events = POLLIN };
    char what = 0;
    int status = 0;
    for (const double until = now() + ENOUGH; now() < until && poll(&p, 1, 0) == 0;)
        look();
    if (poll(&p, 1, 0) <= 0 || read(t.told[0], &what, 1) != 1 || what != 'X' ||
        read(t.told[0], &status, sizeof status) != sizeof status) {
        kill(t.weft, SIGKILL);
        return -1;
    }
    waitpid(t.leader, NULL, 0);
    while (poll(&(struct pollfd){ .fd = t.master, .events = POLLIN }, 1, 0) > 0 &&
           t.n + 1 < sizeof t.screen) {
        const size_t n = t.n;
        look();
        if (t.n == n)
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void leaves(const char *sentence, int code)
{
    const int got = end();
    check(got == code && same_state(), sentence, "exit %d, expected %d; the terminal is %s", got,
          code, same_state() ? "as before" : "changed");
    close(t.master);
    close(t.slave);
    for (int i = 0; i < 2; i++) {
        close(t.told[i]);
        close(t.asked[i]);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *file(const char *path)
{
    static char text[2][1 << 16];
    static int at;
    FILE *f = fopen(path, "rb");
    at = !at;
    text[at][f ? fread(text[at], 1, sizeof text[at] - 1, f) : 0] = '\0';
    if (f)
        fclose(f);
    return text[at];
}

static void is(const char *sentence, const char *path, const char *wanted)
{
    check(strcmp(file(path), wanted) == 0, sentence, "%s has \"%s\"; expected \"%s\"", path,
          file(path), wanted);
}

static void has(const char *sentence, const char *path, const char *part)
{
    check(strstr(file(path), part) != NULL, sentence, "%s has \"%s\"; expected \"%s\" in it", path,
          file(path), part);
}

/* ---- the tests ------------------------------------------------------------------------------- */

#define NONE      ((const char *const[]){ NULL })
#define WITH(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define HISTORY   "state/weft/chat_history"

static void first_words(void)
{
    start(WITH("--timing"));
    see("chat: a prompt", "> ");
    enter("hi");
    see("chat: the first turn computes everything", "9 tokens: 0 reused, 9 computed");
    see("chat: a second prompt", "> ");
    enter("bye");
    see("chat: the second turn computes what is new", "22 tokens: 11 reused, 11 computed");
    see("chat: a third prompt", "> ");
    enter("/save two.json");
    see("chat: /save says how much", "two.json: 4 messages");
    type("\x04");
    leaves("chat: Ctrl-D leaves, and the terminal is as before", 0);
    is("chat: standard output has the answers only", "stdout", "Hello!\nSee you.\n");
    is("chat: /save writes messages", "two.json",
       "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
       "{\"role\":\"assistant\",\"content\":\"Hello!\"},"
       "{\"role\":\"user\",\"content\":\"bye\"},"
       "{\"role\":\"assistant\",\"content\":\"See you.\"}]}\n");
    is("chat: the history has the lines", HISTORY, "hi\nbye\n/save two.json\n");
    struct stat s = { 0 };
    stat(HISTORY, &s);
    check((s.st_mode & 07777) == 0600, "chat: the history is its owner's", "mode %o", s.st_mode);
}

static void loaded(void)
{
    start(WITH("--load", "two.json", "--timing", "--no-history"));
    see("chat: --load, then a prompt", "> ");
    enter("hi");
    see("chat: a loaded conversation is the prompt", "36 tokens: 0 reused, 36 computed");
    enter("/regen");
    see("chat: /regen reuses the prompt", "36 tokens: 35 reused, 1 computed");
    enter("/undo");
    see("chat: /undo takes back a message and its answer", "gone; 4 left");
    enter("/load absent.json");
    see("chat: /load of a missing file says so", "absent.json: No such file");
    enter("/load two.json");
    see("chat: /load says how much", "two.json: 4 messages");
    enter("/clear");
    see("chat: /clear starts again", "a new conversation");
    enter("/undo");
    see("chat: /undo without a message says so", "no message to take back");
    enter("/regen");
    see("chat: /regen without a message says so", "no message yet");
    enter("/quit");
    leaves("chat: /quit leaves", 0);
    is("chat: a fresh process answers a loaded conversation alike", "stdout", "Hello!\nHello!\n");
    is("chat: --no-history keeps nothing", HISTORY, "hi\nbye\n/save two.json\n");
}

static void several_lines(void)
{
    start(WITH("-n", "1"));
    see("chat: a prompt for lines", "> ");
    type("one\ntwo");
    enter("");
    see("chat: Ctrl-J continues the message", "cut after 1 token");
    enter("\"\"\"three");
    see("chat: three quotes continue it", "... ");
    enter("/four");
    enter("five\"\"\"");
    see("chat: three quotes end it", "cut after 1 token");
    enter("six\\");
    see("chat: a backslash continues it", "... ");
    enter("seven");
    see("chat: a line without one ends it", "cut after 1 token");
    see("chat: a prompt before the paste", "> ");
    type("\x1b[200~eight\r/quit\r\n\xd1\x91n\xe8\xaa\x9e\xf0\x9f\x98\x80\xff\tten\x1b[201~");
    type("!\r");
    see("chat: pasted lines are one message", "cut after 1 token");
    enter(" /quit");
    see("chat: a blank before a slash makes a message", "cut after 1 token");
    enter("/usr/bin");
    see("chat: a path is a message", "cut after 1 token");
    type("\x1b[A");
    see("chat: the up arrow brings the line back", "/usr/bin");
    type("\r");
    see("chat: and it can be sent again", "cut after 1 token");
    enter("/edit");
    see("chat: /edit sends what the editor wrote", "from the editor");
    see("chat: and it is answered", "cut after 1 token");
    enter("/save lines.json");
    see("chat: lines are saved", "16 messages");
    type("\x04");
    leaves("chat: Ctrl-D leaves after lines", 0);
    has("chat: Ctrl-J is a line end", "lines.json", "\"one\\u000atwo\"");
    has("chat: quotes keep a slash", "lines.json", "\"three\\u000a/four\\u000afive\"");
    has("chat: a backslash becomes a line end", "lines.json", "\"six\\u000aseven\"");
    has("chat: a paste keeps line ends, tabs and UTF-8", "lines.json",
        "\"eight\\u000a/quit\\u000a\xd1\x91n\xe8\xaa\x9e\xf0\x9f\x98\x80\xef\xbf\xbd\\u0009ten!\"");
    has("chat: /edit keeps its lines", "lines.json", "\"from the editor\\u000aline two\"");
    has("chat: the history keeps a message in a line", HISTORY, "\nthree\\n/four\\nfive\n");
}

static void settings(void)
{
    start(NONE);
    see("chat: a prompt for commands", "> ");
    enter("/help");
    see("chat: /help lists commands", "/regen");
    see("chat: /help lists keys", "Ctrl-J");
    enter("/undp");
    see("chat: an unknown command is near another", "no command /undp; did you mean /undo?");
    enter("/xyzzy");
    see("chat: an unknown command", "no command /xyzzy; /help lists them");
    enter("/save");
    see("chat: /save without a file says what is missing", "expected /save FILE");
    enter("/undo it");
    see("chat: /undo with more says so", "/undo takes nothing after it");
    enter("/system be kind");
    enter("/system");
    see("chat: /system shows the message", "system: be kind");
    enter("/tokens");
    see("chat: /tokens shows ids and special tokens", "1\t<|im_start|>\tspecial");
    see("chat: /tokens counts", " tokens\r\n");
    enter("/set tmp 1");
    see("chat: /set with a wrong name is near another", "no setting \"tmp\"; did you mean temp?");
    enter("/set temp warm");
    see("chat: /set with a wrong value says what is expected", "\"warm\"; expected a number");
    enter("/set predict 0");
    see("chat: /set predict 0 is refused", "expected -1, or a number of tokens");
    enter("/set top-k 5");
    see("chat: /set top-k needs a temperature", "--top-k needs a temperature");
    enter("/set temp 0.5");
    enter("/set seed 7");
    enter("/show");
    see("chat: /show has the sampler", "temperature 0.5");
    see("chat: /show has the seed", "seed 7");
    enter("/set temp 0");
    enter("/set predict 2");
    enter("count");
    see("chat: /set predict limits an answer", "cut after 2 tokens");
    enter("/set predict -1");
    enter("/think sideways");
    see("chat: /think with a wrong word says what is expected", "expected on, off or hide");
    enter("/clear");
    see("chat: /clear keeps the system message", "with the same system message");
    type("\x04");
    leaves("chat: Ctrl-D leaves after commands", 0);
    is("chat: commands write nothing to standard output", "stdout", "one two\n");
}

static void thoughts(void)
{
    start(NONE);
    see("chat: a prompt for thoughts", "> ");
    enter("think");
    see("chat: thinking is shown dim", "\x1b[2mHm, a riddle.");
    see("chat: and then plain again", "\x1b[0m");
    enter("/think hide");
    enter("think");
    see("chat: hidden thinking, then a prompt", "> think");
    see("chat: a prompt after hidden thinking", "> ");
    enter("/save thoughts.json");
    see("chat: thoughts are saved", "thoughts.json: 4 messages");
    const char *once = memmem(t.screen, t.n, "riddle", 6);
    check(once && !memmem(once + 6, t.n - (size_t)(once + 6 - t.screen), "riddle", 6),
          "chat: /think hide hides it", "%s", t.screen);
    enter("/quit");
    leaves("chat: /quit leaves after thoughts", 0);
    is("chat: thinking is not on standard output", "stdout", "It is four.\nIt is four.\n");
    has("chat: thinking is kept beside the answer", "thoughts.json",
        "\"content\":\"It is four.\",\"reasoning_content\":\"Hm, a riddle.\"");
}

/* Without thinking, the template closes it before the answer begins. */
static void without_thoughts(void)
{
    start(WITH("-n", "1", "--timing"));
    see("chat: a prompt for /think off", "> ");
    enter("/think off");
    enter("hi");
    see("chat: /think off is in the prompt", "prompt 20 tokens");
    enter("/clear");
    enter("/think on");
    enter("hi");
    see("chat: /think on is not", "prompt 9 tokens");
    type("\x04");
    leaves("chat: Ctrl-D leaves after /think", 0);
}

static void typed_ahead(void)
{
    start(NONE);
    type("hi\r\x04");
    see("chat: a line typed before the prompt", "> hi");
    leaves("chat: and Ctrl-D, too", 0);
    is("chat: are taken", "stdout", "Hello!\n");
}

/* An answer that does not end, and is slow enough to be stopped. */
#define ENDLESS "-c", "60000", "--logit-bias", "0-inf"

static void stopped(void)
{
    start(WITH(ENDLESS));
    see("chat: a prompt for Ctrl-C", "> ");
    enter("count");
    for (const double until = now() + ENOUGH; now() < until && !*file("stdout");)
        look();
    check(same_state(), "chat: the terminal is as before while it answers", "changed");
    type("\x03");
    see("chat: Ctrl-C stops an answer", "stopped; the part above is kept");
    see("chat: a prompt after Ctrl-C", "> ");
    enter("/save part.json");
    see("chat: the part is kept", "part.json: 2 messages");
    see("chat: a prompt to be cleared", "> ");
    type("half a line");
    see("chat: half a line", "half a line");
    type("\x03");
    see("chat: Ctrl-C clears the line", "Ctrl-C again leaves");
    enter("/show");
    see("chat: after Ctrl-C, a command is read alone", "messages  2");
    see("chat: a prompt to be left", "> ");
    type("\x03");
    see("chat: once more Ctrl-C", "Ctrl-C again leaves");
    type("\x03");
    leaves("chat: Ctrl-C twice leaves, and the terminal is as before", 130);
    has("chat: the kept part is the answer's beginning", "part.json", "\"one two three one two");
}

static void asleep(void)
{
    char what = 0;
    start(WITH("-n", "2"));
    see("chat: a prompt for Ctrl-Z", "> ");
    type("cou");
    see("chat: a line begun", "cou");
    type("\x1a");
    check(read(t.told[0], &what, 1) == 1 && what == 'S', "chat: Ctrl-Z stops the program", "%c",
          what);
    check(same_state(), "chat: stopped, it leaves the terminal as before", "changed");
    must(write(t.asked[1], "c", 1) == 1, "continue", NULL);
    see("chat: continued, it shows the line again", "cou");
    enter("nt");
    see("chat: and the line goes on", "cut after 2 tokens");
    see("chat: a prompt after Ctrl-Z", "> ");
    kill(t.weft, SIGTERM);
    leaves("chat: SIGTERM at the prompt leaves, and the terminal is as before", 143);
    is("chat: the line that was interrupted is answered", "stdout", "one two\n");

    start(WITH(ENDLESS));
    see("chat: a prompt for SIGTERM", "> ");
    enter("count");
    for (const double until = now() + ENOUGH; now() < until && !*file("stdout");)
        look();
    type("\x1a");
    what = 0;
    check(read(t.told[0], &what, 1) == 1 && what == 'S', "chat: Ctrl-Z stops an answer", "%c",
          what);
    check(same_state(), "chat: stopped in an answer, the terminal is as before", "changed");
    must(write(t.asked[1], "c", 1) == 1, "continue", NULL);
    kill(t.weft, SIGTERM);
    leaves("chat: SIGTERM during an answer leaves, and the terminal is as before", 143);
}

static void full(void)
{
    start(WITH("-c", "32"));
    see("chat: a prompt in a small context", "> ");
    enter("hi");
    see("chat: a first turn fits", "> ");
    enter("hi");
    see("chat: a second turn fits", "> ");
    enter("hi");
    see("chat: a third does not", "35 tokens; the context holds 32");
    see("chat: what to do", "/undo takes back");
    enter("/undo");
    see("chat: /undo makes room", "2 left");
    enter("bye");
    enter("/show");
    see("chat: and there is an answer", "messages  4");
    type("\x04");
    leaves("chat: Ctrl-D leaves a full context", 0);
    is("chat: the answers of a small context", "stdout", "Hello!\nHello!\nSee you.\n");

    start(WITH("-c", "32", "--when-full", "drop", "-p", "hi", "-i"));
    see("chat: -p -i stays", "> ");
    enter("hi");
    see("chat: a second turn fits, too", "> ");
    enter("bye");
    see("chat: --when-full drop says so", "forgotten: the oldest 2 messages");
    type("\x04");
    leaves("chat: Ctrl-D leaves after a drop", 0);
    is("chat: --when-full drop goes on", "stdout", "Hello!\nHello!\nSee you.\n");
}

static void on_a_terminal(void)
{
    setenv("WEFT_TEST_TTY_OUT", "1", 1);
    start(NONE);
    see("chat: a prompt for red", "> ");
    enter("red");
    see("chat: a model cannot command the terminal", "\\x1B[31mred\\x1B[0m");
    enter("hi");
    see("chat: an answer on the screen", "Hello!");
    type("\x04");
    leaves("chat: Ctrl-D leaves the screen", 0);
    setenv("NO_COLOR", "1", 1);
    start(WITH("-p", "think", "-i"));
    see("chat: thinking on the screen", "Hm, a riddle.");
    see("chat: the answer on the screen", "It is four.");
    type("\x04");
    leaves("chat: Ctrl-D leaves without colour", 0);
    check(!memmem(t.screen, t.n, "\x1b[2m", 4), "chat: NO_COLOR is honoured", "%s", t.screen);
    unsetenv("NO_COLOR");
    unsetenv("WEFT_TEST_TTY_OUT");
}

static void not_a_model(void)
{
    start(WITH("-c", "99999999"));
    leaves("chat: a failed load leaves the terminal as before", 2);
}

static void results(void)
{
    start(WITH("--load", "calls.json", "--no-history"));
    see("chat: a call asks for its result", "result of f (2 of 2)> ");
    enter("hi");
    see("chat: the last result is answered", "> ");
    enter("/save after.json");
    see("chat: /save after calls", "after.json: 5 messages");
    has("chat: a result has its call", "after.json", "\"tool_call_id\":\"b\",\"name\":\"f\"");
    enter("/regen");
    see("chat: /regen answers the results again", "> ");
    enter("/undo");
    see("chat: /undo takes calls and results, too", "gone; 0 left");
    enter("/quit");
    leaves("chat: /quit leaves after results", 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    must(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, 0755) == 0, path, NULL);
}

int main(int argc, char **argv)
{
    weft = argc == 2 ? realpath(argv[1], NULL) : NULL;
    const char *temporary = getenv("TMPDIR");
    snprintf(work, sizeof work, "%s/weft-chat-XXXXXX", temporary ? temporary : "/tmp");
    must(weft && mkdtemp(work) && chdir(work) == 0, "host_chat_pty WEFT", NULL);
    write_file("editor", "#!/bin/sh\nprintf 'from the editor\\nline two\\n' >\"$1\"\n");
    write_file("calls.json",
               "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"tool_calls\":["
               "{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
               "{\"id\":\"b\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
               "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"y\"}]");
    setenv("TERM", "xterm", 1);
    char state[600];
    snprintf(state, sizeof state, "%s/state", work);
    setenv("XDG_STATE_HOME", state, 1);
    setenv("VISUAL", "./editor", 1);
    setenv("WEFT_CONFIG", "", 1);
    setenv("HOME", work, 1);
    unsetenv("NO_COLOR");
    first_words();
    loaded();
    several_lines();
    settings();
    thoughts();
    without_thoughts();
    typed_ahead();
    stopped();
    asleep();
    full();
    on_a_terminal();
    not_a_model();
    results();
    char remove[600];
    snprintf(remove, sizeof remove, "rm -rf '%s'", work);
    must(chdir("/") == 0 && system(remove) == 0, "cleaning", NULL);
    return n_failed > 0;
}

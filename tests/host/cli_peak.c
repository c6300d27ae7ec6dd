/* cli_peak.c - the program keeps to --ram-max while reading and training, takes the memory that it
 * planned for an adapter, refuses endless input, and leaves nothing behind if a run fails to start.
 * Each case runs in its own process; the system reports its peak.
 *
 *     host_cli_peak WEFT */
#include "say.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENT 20
#define MAX_PROCESS  ((rlim_t)2 << 30) /* a failing case must not exhaust the machine */
#define MAX_FILE     ((rlim_t)1 << 30) /* nor its disk */
#define SLACK        24 /* MiB: the program itself, its libraries, and malloc's rounding */

static const char *program;

typedef struct outcome {
    int code;
    double mib, seconds;
    char said[4096];
} outcome;

static double now(void)
{
    struct timeval t;
    gettimeofday(&t, NULL);
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Writes `unit` again and again, until the reader closes or `most` bytes were written. */
static _Noreturn void feed(int to, const char *unit, size_t most)
{
    static char part[1 << 16];
    size_t n = strlen(unit), room = sizeof part / n * n;
    for (size_t i = 0; i < room; i++)
        part[i] = unit[i % n];
    for (size_t all = 0; all < most; all += room)
        if (write(to, part, room) < 0)
            break;
    _exit(0);
}

static pid_t start_feeder(int *from, const char *unit, size_t most)
{
    int ends[2];
    must(pipe(ends) == 0, "memory: a pipe is made", NULL);
    const pid_t pid = fork();
    must(pid >= 0, "memory: a process is made", NULL);
    if (pid == 0) {
        close(ends[0]);
        feed(ends[1], unit, most);
    }
    close(ends[1]);
    *from = ends[0];
    return pid;
}

static outcome run(const char *unit, size_t most, const char *const *arguments)
{
    outcome o = { 0 };
    int in = -1, status;
    char *argv[MAX_ARGUMENT + 2] = { (char *)program };
    for (int i = 0; arguments[i] && i < MAX_ARGUMENT; i++)
        argv[i + 1] = (char *)arguments[i];
    FILE *said = tmpfile();
    must(said != NULL, "memory: a file is made", NULL);
    const pid_t feeder = start_feeder(&in, unit, most);
    const double from = now();
    const pid_t pid = fork();
    must(pid >= 0, "memory: a process is made", NULL);
    if (pid == 0) {
        dup2(in, STDIN_FILENO);
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(fileno(said), STDERR_FILENO);
        close(in);
        setrlimit(RLIMIT_AS, &(struct rlimit){ MAX_PROCESS, MAX_PROCESS });
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ MAX_FILE, MAX_FILE });
        execv(program, argv);
        _exit(127);
    }
    close(in);
    struct rusage usage = { 0 };
    must(wait4(pid, &status, 0, &usage) == pid, "memory: the program ends", NULL);
    waitpid(feeder, NULL, 0);
    o.seconds = now() - from;
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    o.mib = (double)usage.ru_maxrss / 1024;
    rewind(said);
    o.said[fread(o.said, 1, sizeof o.said - 1, said)] = '\0';
    fclose(said);
    return o;
}

/* Endless input is refused with this message, using at most this many MiB. */
static void refused(const char *sentence, const char *unit, const char *words, double most,
                    const char *const *arguments)
{
    const outcome o = run(unit, SIZE_MAX, arguments);
    printf("memory: weft %s: peak %.1f MiB, %.2f s\n", arguments[0], o.mib, o.seconds);
    check(o.code == 1 && strstr(o.said, words) && o.mib <= most, sentence,
          "exit code %d, peak %.1f MiB of at most %.0f, said: %s", o.code, o.mib, most, o.said);
}

#define ARGS(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* A directory with the smallest possible tokenizer. */
static void make_tokenizer(char *directory)
{
    static const char small[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"y\":0,\"\\n\":1},"
                                "\"merges\":[]}}";
    char path[4096];
    must(mkdtemp(directory) != NULL, "memory: a directory is made", NULL);
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    FILE *f = fopen(path, "w");
    must(f && fputs(small, f) >= 0 && fclose(f) == 0, "memory: a tokenizer is written", NULL);
}

static void remove_tokenizer(const char *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    remove(path);
    remove(directory);
}

static void endless_input(const char *text)
{
    static const char cap[] = "byte memory cap";
    char bert[4096], ids[4096];
    snprintf(bert, sizeof bert, "%s", golden("bert"));
    snprintf(ids, sizeof ids, "%s", golden("llama-gqa"));

    refused("memory: a prompt counts in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("run", ids, "--tokenizer", text, "--ram-max", "32M"));
    refused("memory: lists of ids count in --ram-max", "1,2,3\n", cap, 32 + SLACK,
            ARGS("eval", ids, "--ids", "-", "--ram-max", "32M"));
    refused("memory: one list without an end counts in --ram-max", "1,", cap, 32 + SLACK,
            ARGS("eval", ids, "--ids", "-", "--ram-max", "32M"));
    refused("memory: a text counts in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("eval", ids, "-", "--tokenizer", text, "--ram-max", "32M"));
    refused("memory: a text for the tokenizer counts in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("tokenize", text, "-", "--ram-max", "32M"));
    refused("memory: lines count in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("embed", bert, "-", "--ram-max", "32M"));
    refused("memory: a prompt without an end is refused without a cap, too", "y\n",
            "more than 64.0 MiB", 64 + SLACK, ARGS("run", ids, "--tokenizer", text));
}

/* Input that fits under the cap is read, so the cases above are refused for their length. */
static void enough_input(const char *text)
{
    const outcome o = run("y\n", 1 << 16,
                          ARGS("tokenize", text, "--count", "-", "--ram-max", "32M"));
    check(o.code == 0, "memory: a text that fits under --ram-max is read", "exit code %d, said: %s",
          o.code, o.said);
}

/* ---- runs that do not begin ------------------------------------------------------------------ */

static bool exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

static void make_text(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 2000; i++)
        fputs("the cat sat on the mat.\n", f);
    must(f && fclose(f) == 0, "memory: a text is written", NULL);
}

/* 53 billion parameters under a cap of 100 MB: refused before anything is written. */
static void too_large(const char *text, const char *out)
{
    const outcome o = run("\n", 0,
                          ARGS("train", "--data", text, "--out", out, "--width", "16384", "--heads",
                               "128", "--ram-max", "100M"));
    printf("memory: weft train, too large: peak %.1f MiB, %.2f s\n", o.mib, o.seconds);
    check(o.code == 1 && strstr(o.said, "byte memory cap") && o.mib <= 100 + SLACK,
          "train: a model that cannot be trained under --ram-max is refused",
          "exit code %d, peak %.1f MiB, said: %s", o.code, o.mib, o.said);
    check(o.seconds < 2 && !exists(out), "train: ... before anything is written",
          "%.2f s, and %s is there", o.seconds, exists(out) ? out : "nothing");
}

/* A failure after the new model was written: all its weights are frozen. */
static void fails_later(const char *text, const char *out, bool was_there)
{
    char note[8192];
    snprintf(note, sizeof note, "%s/note", out);
    FILE *f = was_there && mkdir(out, 0777) == 0 ? fopen(note, "w") : NULL;
    must(!was_there || (f && fclose(f) == 0), "train: a directory with a file is made", NULL);
    const outcome o = run("\n", 0,
                          ARGS("train", "--data", text, "--out", out, "--width", "32", "--heads",
                               "2", "--layers", "1", "--freeze", "*", "--steps", "1"));
    char start[8192];
    snprintf(start, sizeof start, "%s/start", out);
    check(o.code != 0 && !exists(start) && exists(out) == was_there && exists(note) == was_there,
          was_there ? "train: a run that fails at once leaves its directory as it was"
                    : "train: a run that fails at once leaves no directory",
          "exit code %d, said: %s; %s is %s", o.code, o.said, start,
          exists(start) ? "there" : "not there");
    remove(note);
    remove(out);
}

/* Ctrl-C while a new model of gigabytes is written. */
static void interrupted(const char *text, const char *out)
{
    char start[8192];
    int status;
    snprintf(start, sizeof start, "%s/start", out);
    const pid_t pid = fork();
    must(pid >= 0, "train: a process is made", NULL);
    if (pid == 0) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ MAX_FILE, MAX_FILE });
        dup2(open("/dev/null", O_RDWR), STDERR_FILENO);
        execl(program, program, "train", "--data", text, "--out", out, "--width", "4096", "--heads",
              "32", "--layers", "12", (char *)NULL);
        _exit(127);
    }
    for (const double from = now(); !exists(start) && now() < from + 20;)
        usleep(1000);
    usleep(100000); /* by now it is writing weights */
    const double asked = now();
    kill(pid, SIGINT);
    must(waitpid(pid, &status, 0) == pid, "train: the program ends", NULL);
    const double seconds = now() - asked;
    printf("memory: weft train, interrupted: %.3f s\n", seconds);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 130 && seconds < 1,
          "train: the first Ctrl-C is obeyed while a new model is written", "status %d, %.3f s",
          status, seconds);
    check(!exists(out), "train: ... and nothing is left of it", "%s is there", out);
}

/* ---- the plan of a run ----------------------------------------------------------------------- */

typedef struct taken {
    double planned, peak; /* MiB */
} taken;

static void remove_all(const char *directory)
{
    char command[1024];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    must(system(command) == 0, "memory: a directory is removed", NULL);
}

/* One step with an adapter of the model: `sequences` of 256 tokens. */
static taken adapter_step(const char *text, const char *model, const char *out,
                          const char *sequences, const char *more)
{
    const outcome o = run("\n", 0,
                          ARGS("train", model, "--lora", "r=8", "--data", text, "--out", out, "-c",
                               "256", "-b", sequences, "-n", "1", "--sample", "0", more));
    const char *at = strstr(o.said, "; ");
    taken t = { .peak = o.mib };
    char unit[4] = "";
    must(o.code == 0 && at && sscanf(at, "; %lf %3s of memory", &t.planned, unit) == 2 &&
             strcmp(unit, "MiB") == 0,
         "memory: an adapter is trained", NULL);
    remove_all(out);
    return t;
}

/* The difference of two runs, a small and a large one: the program's own memory is in both. */
static void keeps_to_plan(const char *text, const char *model, const char *out, const char *more)
{
    const taken a = adapter_step(text, model, out, "1", more),
                b = adapter_step(text, model, out, "24", more);
    const double planned = b.planned - a.planned, took = b.peak - a.peak;
    printf("memory: an adapter%s%s: %.1f MiB planned, %.1f taken\n", more ? ", " : "",
           more ? more : "", planned, took);
    check(planned > 64 && took > 0.9 * planned && took < 1.1 * planned,
          "train: an adapter takes the memory that was planned, within 10 %",
          "%.1f MiB planned, %.1f taken", planned, took);
}

/* 4000 different characters, three times, so that the vocabulary is wider than all else. */
static void make_wide_text(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 3 * 4000; i++) {
        const int c = 0x4e00 + i % 4000;
        fprintf(f, "%c%c%c", 0xe0 | c >> 12, 0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f));
    }
    must(f && fclose(f) == 0, "memory: a text is written", NULL);
}

static void adapter_runs(const char *directory)
{
    char text[512], model[512], out[512];
    snprintf(text, sizeof text, "%s/wide", directory);
    snprintf(model, sizeof model, "%s/model", directory);
    snprintf(out, sizeof out, "%s/adapter", directory);
    make_wide_text(text);
    const outcome o = run("\n", 0,
                          ARGS("train", "--data", text, "--out", model, "--arch", "llama", "-c",
                               "256", "-b", "1", "-n", "1", "--sample", "0", "--characters"));
    must(o.code == 0, "memory: a model is trained", NULL);
    keeps_to_plan(text, model, out, NULL);
    keeps_to_plan(text, model, out, "--recompute");
    remove_all(model);
    remove(text);
}

static void runs(const char *directory)
{
    char text[512], out[512];
    snprintf(text, sizeof text, "%s/text", directory);
    snprintf(out, sizeof out, "%s/run", directory);
    make_text(text);
    too_large(text, out);
    fails_later(text, out, false);
    fails_later(text, out, true);
    interrupted(text, out);
    adapter_runs(directory);
    remove(text);
}

int main(int argc, char **argv)
{
    must(argc == 2, "memory: told where the program is", NULL);
    program = argv[1];
    signal(SIGPIPE, SIG_DFL);
    char directory[] = "/tmp/weft-cli-peak-XXXXXX";
    make_tokenizer(directory);
    enough_input(directory);
    endless_input(directory);
    runs(directory);
    remove_tokenizer(directory);
    return n_failed > 0;
}

/* cli_peak.c - the program keeps to --ram-max with all that it reads, and input without an end does
 * not fill the machine. Each case is a process of its own, whose peak the system tells.
 *
 *   host_cli_peak WEFT */
#include "say.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENT 16
#define MAX_PROCESS  ((rlim_t)2 << 30) /* what fails here must not take the machine with it */
#define SLACK        24 /* MiB: the program itself, its libraries, and what malloc rounds up to */

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

/* `unit` again and again, until nobody reads or `most` bytes were written. */
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

/* Endless input is refused with these words, in no more than so many MiB. */
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

/* A directory with the smallest tokenizer there is: texts are read before the model. */
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
            ARGS("run", text, "--ram-max", "32M"));
    refused("memory: lists of ids count in --ram-max", "1,2,3\n", cap, 32 + SLACK,
            ARGS("eval", ids, "--ids", "-", "--ram-max", "32M"));
    refused("memory: one list without an end counts in --ram-max", "1,", cap, 32 + SLACK,
            ARGS("eval", ids, "--ids", "-", "--ram-max", "32M"));
    refused("memory: a text counts in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("eval", text, "-", "--ram-max", "32M"));
    refused("memory: a text for the tokenizer counts in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("tokenize", text, "-", "--ram-max", "32M"));
    refused("memory: lines count in --ram-max", "y\n", cap, 32 + SLACK,
            ARGS("embed", bert, "-", "--ram-max", "32M"));
    refused("memory: a prompt without an end is refused without a cap, too", "y\n",
            "more than 64.0 MiB", 64 + SLACK, ARGS("run", text));
}

/* What fits under the cap is read, so that the cases above are refused for their length. */
static void enough_input(const char *text)
{
    const outcome o = run("y\n", 1 << 16,
                          ARGS("tokenize", text, "--count", "-", "--ram-max", "32M"));
    check(o.code == 0, "memory: a text that fits under --ram-max is read", "exit code %d, said: %s",
          o.code, o.said);
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
    remove_tokenizer(directory);
    return n_failed > 0;
}

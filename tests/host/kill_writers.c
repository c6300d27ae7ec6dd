/* kill_writers.c - kill -9, SIGTERM and Ctrl-C at random moments of the commands that write files.
 *
 *     host_kill_writers WEFT [MOMENTS [SEED]]
 *
 * Each of train, convert, quantize and a saved session is started MOMENTS / 4 times over files of an
 * older run, and gets one of the three signals at a moment drawn from the time it takes. Then:
 * every file is the old one or the new one, byte by byte; the exit code is the documented one; and
 * the same command, run to its end, leaves the new files and nothing else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARG  40
#define MAX_FILE 16

typedef struct bytes {
    char *at;
    size_t n;
} bytes;

/* A command and the files it leaves; a run's own files change and are judged by their weights. */
typedef struct job {
    const char *name;
    const char *argument[MAX_ARG];
    const char *file[MAX_FILE]; /* in the working directory */
    bool stops_early;           /* a signal ends it early: a different file, but complete */
    bool goes_on;               /* from what its file has */
    bytes old[MAX_FILE], new[MAX_FILE];
    double seconds;
    int n_killed, n_stopped, n_done;
} job;

static const char *weft;
static uint64_t seed = 1;

static uint32_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void quit(const job *j, const char *why, const char *what)
{
    printf("[  FAILED  ] kill_writers: %s: %s%s\n", j ? j->name : "setup", why, what);
    exit(system("cat err") == 0 ? 1 : 2);
}

static pid_t start(const char *const *argument)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    const int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(weft, (char *const *)argument);
    _exit(127);
}

/* The exit code as a shell reports it. */
static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run(const char *const *argument)
{
    return wait_for(start(argument));
}

static bytes contents(const char *path)
{
    struct stat st;
    bytes b = { 0 };
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0)
        return b;
    b.at = malloc((size_t)st.st_size + 1);
    b.n = (size_t)read(fd, b.at, (size_t)st.st_size);
    close(fd);
    return b;
}

static bool equal(bytes a, bytes b)
{
    return a.n == b.n && (a.at != NULL) == (b.at != NULL) && (!a.n || memcmp(a.at, b.at, a.n) == 0);
}

static void put(const char *path, bytes b)
{
    if (!b.at) {
        remove(path);
        return;
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b.at, 1, b.n, f) != b.n || fclose(f) != 0)
        quit(NULL, "cannot write ", path);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* Finds the first .part file below a directory; false if there is none. */
static bool find_part(const char *directory, char *found, size_t size)
{
    bool any = false;
    DIR *d = opendir(directory);
    for (const struct dirent *e = d ? readdir(d) : NULL; e && !any; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(found, size, "%s/%s", directory, e->d_name);
        any = ends_with(e->d_name, ".part");
        if (!any && e->d_type == DT_DIR) {
            char deeper[1024];
            any = strlen(found) < sizeof deeper - 300 && find_part(found, deeper, sizeof deeper);
            if (any)
                snprintf(found, size, "%s", deeper);
        }
    }
    if (d)
        closedir(d);
    return any;
}

/* ---- a job ----------------------------------------------------------------------------------- */

static void put_old(const job *j)
{
    for (int i = 0; j->file[i]; i++)
        put(j->file[i], j->old[i]);
}

/* Old or new; an interrupted command may have left another complete file. */
static void check_files(job *j, bool told)
{
    for (int i = 0; j->file[i]; i++) {
        bytes b = contents(j->file[i]);
        if (!equal(b, j->old[i]) && !equal(b, j->new[i]) && !(told && j->stops_early))
            quit(j, "damaged: ", j->file[i]);
        free(b.at);
    }
}

static void check_code(job *j, int code, int signal)
{
    if (code == 128 + signal && signal == SIGKILL)
        j->n_killed++;
    else if (code == 128 + signal)
        j->n_stopped++;
    else if (code == 0)
        j->n_done++;
    else {
        char text[32];
        snprintf(text, sizeof text, "%d", code);
        quit(j, "exit code ", text);
    }
}

/* Runs to the end: the new files and nothing else. */
static void check_again(job *j, bool told)
{
    char part[1024];
    const double began = now();
    if (j->goes_on)
        put_old(j);
    if (run(j->argument) != 0)
        quit(j, "the next run fails", "");
    j->seconds = now() - began; /* under the machine's current load */
    if (find_part(".", part, sizeof part))
        quit(j, "left behind: ", part);
    for (int i = 0; j->file[i]; i++) {
        bytes b = contents(j->file[i]);
        if (!equal(b, j->new[i]) && !(told && j->stops_early))
            quit(j, "not as if nothing had happened: ", j->file[i]);
        free(b.at);
    }
}

static void strike(job *j)
{
    static const int signals[] = { SIGKILL, SIGTERM, SIGINT };
    const int signal = signals[draw() % 3];
    const double delay = j->seconds * 1.05 * (double)(draw() % 100000) / 1e5;
    put_old(j);
    const pid_t child = start(j->argument);
    usleep((useconds_t)(1e6 * delay));
    kill(child, signal);
    check_code(j, wait_for(child), signal);
    check_files(j, signal != SIGKILL);
    check_again(j, signal != SIGKILL);
}

/* The files as they are now are the old ones; the command's are the new ones. */
static void prepare(job *j)
{
    for (int i = 0; j->file[i]; i++)
        j->old[i] = contents(j->file[i]);
    const double began = now();
    if (run(j->argument) != 0)
        quit(j, "fails without being disturbed", "");
    j->seconds = now() - began;
    for (int i = 0; j->file[i]; i++) {
        j->new[i] = contents(j->file[i]);
        if (!j->new[i].at || equal(j->old[i], j->new[i]))
            quit(j, "is no test: the same before and after: ", j->file[i]);
    }
}

/* ---- training, which resumes instead of starting over ---------------------------------------- */

#define TRAIN                                                                                      \
    "weft", "train", "--data", "text", "--characters", "--layers", "2", "--width", "32",           \
        "--heads", "2", "--hidden", "64", "-c", "16", "-b", "2", "--dropout", "0.1",               \
        "--eval-every", "1000", "--sample", "0", "--threads", "1", "--save-every", "1", "-n",      \
        "30", "--resume", "--out"

static void strike_training(job *whole, job *j, int moments)
{
    char part[1024];
    whole->file[0] = "whole/model.safetensors";
    prepare(whole);
    for (int i = 0; i < moments; i++) {
        static const int signals[] = { SIGKILL, SIGTERM, SIGINT };
        const int signal = signals[draw() % 3];
        const pid_t child = start(j->argument);
        usleep((useconds_t)(whole->seconds * 4e5 * (double)(draw() % 100000) / 1e5));
        kill(child, signal);
        const int code = wait_for(child);
        check_code(j, code, signal);
        if (code == 0 && system("rm -r run") != 0)
            quit(j, "cannot begin again", "");
    }
    if (run(j->argument) != 0)
        quit(j, "the last run fails", "");
    if (find_part("run", part, sizeof part) || access("run/start", F_OK) == 0)
        quit(j, "left behind in run", "");
    if (!equal(contents("run/model.safetensors"), whole->new[0]))
        quit(j, "not the weights of a run that was left alone", "");
}

static void make_text(void)
{
    FILE *f = fopen("text", "w");
    for (int i = 0; f && i < 2000; i++)
        fprintf(f, "%s ", &"the cat sat on a mat and saw"[draw() % 20]);
    if (!f || fclose(f) != 0)
        quit(NULL, "cannot write ", "text");
}

static void tell(const job *j)
{
    printf("%-9s %3d killed, %3d stopped by their signal, %3d done before it\n", j->name,
           j->n_killed, j->n_stopped, j->n_done);
}

int main(int argc, char **argv)
{
    char directory[] = "kill_writers.XXXXXX";
    const char *const other[] = { "weft",     "train", "--data",   "text", "--characters",
                                  "--layers", "4",     "--width",  "128",  "-c",
                                  "32",       "-b",    "2",        "-n",   "1",
                                  "--seed",   "9",     "--sample", "0",    "--out",
                                  "other",    NULL };
    const char *const first[] = { "weft",     "train", "--data",   "text", "--characters",
                                  "--layers", "4",     "--width",  "128",  "-c",
                                  "32",       "-b",    "2",        "-n",   "1",
                                  "--seed",   "8",     "--sample", "0",    "--out",
                                  "first",    NULL };
    const char *const old_gguf[] = { "weft", "quantize", "other", "q.gguf", "q8_0", NULL };
    const char *const old_hf[] = { "weft", "convert", "q.gguf", "hf", NULL };
    const char *const old_session[] = { "weft", "run", "first",     "-p",     "sat",
                                        "-n",   "3",   "--session", "s.weft", NULL };
    job whole = { .name = "train", .argument = { TRAIN, "whole" } };
    job train = { .name = "train", .argument = { TRAIN, "run" } };
    job jobs[] = {
        { .name = "quantize",
          .argument = { "weft", "quantize", "first", "q.gguf", "q8_0", "--force" },
          .file = { "q.gguf" } },
        { .name = "convert",
          .argument = { "weft", "convert", "q.gguf", "hf", "--force" },
          .file = { "hf/model.safetensors" } },
        { .name = "session",
          .argument = { "weft", "run", "first", "-p", "the cat sat", "-n", "8", "--session",
                        "s.weft" },
          .file = { "s.weft" },
          .stops_early = true,
          .goes_on = true },
    };
    const int moments = argc > 2 ? atoi(argv[2]) : 200;
    seed = argc > 3 ? (uint64_t)atoll(argv[3]) : 1;
    weft = argc > 1 ? realpath(argv[1], NULL) : NULL;
    const char *top = getenv("TMPDIR");
    if (!weft || chdir(top ? top : "/tmp") != 0 || !mkdtemp(directory) || chdir(directory) != 0)
        quit(NULL, "usage: host_kill_writers WEFT [MOMENTS [SEED]]", "");
    signal(SIGINT, SIG_DFL); /* independent of the calling shell */
    signal(SIGTERM, SIG_DFL);
    puts("[ RUN      ] kill_writers");
    make_text();
    if (run(other) != 0 || run(first) != 0 || run(old_gguf) != 0 || run(old_hf) != 0 ||
        run(old_session) != 0)
        quit(NULL, "cannot make models", "");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        prepare(&jobs[i]);
        for (int k = 0; k < moments / 4; k++)
            strike(&jobs[i]);
        tell(&jobs[i]);
    }
    strike_training(&whole, &train, moments - moments / 4 * 3);
    tell(&train);
    if (chdir("..") == 0) {
        char remove_all[64];
        snprintf(remove_all, sizeof remove_all, "rm -r '%s'", directory);
        if (system(remove_all) != 0)
            return 1;
    }
    printf("[       OK ] kill_writers: %d moments, no damaged file, nothing left behind\n",
           moments);
    return 0;
}

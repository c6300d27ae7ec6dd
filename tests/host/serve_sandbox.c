/* serve_sandbox.c - what a running weft serve can no longer do. In each thread of the real server, sandbox_probe.c tries it,
 * and the same attempts succeed with --sandbox off. Then: files that the server still has to find, kernels that lack a part,
 * and how long a hostile model takes to be refused.
 *
 *     host_serve_sandbox WEFT MODEL TEMPLATE PROBE.so GOLDEN */
#include "serve_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_ATTEMPT 45 /* of sandbox_probe.c */

typedef struct setting {
    const char *weft, *template, *probe, *golden;
    char directory[64], model[128]; /* ours: a copy of the model, alone in its directory */
} setting;

static void copy(const char *from, const char *to, size_t most)
{
    char some[65536];
    FILE *a = fopen(from, "r"), *b = fopen(to, "w");
    must(a && b, "serve: a copy", NULL);
    for (size_t n; most > 0 && (n = fread(some, 1, most < sizeof some ? most : sizeof some, a));
         most -= n)
        must(fwrite(some, 1, n, b) == n, "serve: a copy", NULL);
    fclose(a);
    must(fclose(b) == 0, "serve: a copy", NULL);
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* What the sandbox says of an attempt; what is not here: EPERM. */
static int expected(const char *attempt)
{
    static const struct {
        const char *name;
        int why;
    } others[] = { { "open a file outside", EACCES },
                   { "open its own memory", EACCES },
                   { "list a directory outside", EACCES },
                   { "make a process with clone3", ENOSYS },
                   { "read the model", 0 },
                   { "make machine code", 0 },
                   { "make machine code of a file", 0 },
                   { "make a thread", 0 },
                   { "keep its memory out of dumps", 0 } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, attempt) == 0)
            return others[i].why;
    return EPERM;
}

/* These the system refuses to all but root, sandbox or not. */
static bool is_for_root(const char *attempt)
{
    return strcmp(attempt, "load a BPF program") == 0 || strcmp(attempt, "mount") == 0;
}

typedef struct results {
    int n_thread, n_loop; /* attempts */
    int n_wrong;
    char wrong[512]; /* the first ones */
} results;

static bool is_right(const char *attempt, int why, bool off)
{
    if (!off)
        return why == expected(attempt);
    if (strcmp(attempt, "keep its memory out of dumps") == 0)
        return why == 1;
    return (why != EPERM && why != EACCES) || (is_for_root(attempt) && geteuid() != 0);
}

static void read_results(FILE *f, bool off, results *r)
{
    char line[256], thread[16], attempt[128];
    int why;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%15s %d %127[^\n]", thread, &why, attempt) != 3)
            continue;
        r->n_thread += strcmp(thread, "thread") == 0;
        r->n_loop += strcmp(thread, "loop") == 0;
        if (is_right(attempt, why, off))
            continue;
        const size_t n = strlen(r->wrong);
        if (r->n_wrong++ < 4)
            snprintf(r->wrong + n, sizeof r->wrong - n, "%s: %s: %s; ", thread, attempt,
                     strerror(why));
    }
}

static results attempts_of(const setting *s, const char *mode)
{
    results r = { 0 };
    int ends[2];
    char number[16];
    const char *const args[] = { s->model,    "--sandbox", mode, "--template",
                                 s->template, "--threads", "2",  NULL };
    must(pipe(ends) == 0 && fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0, "serve: a pipe", NULL);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("PROBE_FD", number, 1);
    setenv("PROBE_MODEL", s->model, 1);
    setenv("LD_PRELOAD", s->probe, 1);
    child server = server_start(s->weft, args);
    unsetenv("LD_PRELOAD");
    close(ends[1]);
    char *answer = ask(&server, "/v1/completions", "",
                       "{\"model\":\"model\",\"prompt\":\"To\",\"max_tokens\":8,\"seed\":1}");
    check(status_of(answer) == 200, "serve: it answers after the attempts", "%d",
          status_of(answer));
    free(answer);
    check(server_stop(&server, SIGTERM, 30) == 0, "serve: it stops after the attempts", "no");
    FILE *f = fdopen(ends[0], "r");
    read_results(f, strcmp(mode, "off") == 0, &r);
    fclose(f);
    return r;
}

static void test_attempts(const setting *s)
{
    const results on = attempts_of(s, "required"), off = attempts_of(s, "off");
    printf("sandbox: %d attempts in %d threads, %d with another result than expected\n",
           on.n_thread + on.n_loop, on.n_thread / N_ATTEMPT + 1, on.n_wrong);
    printf("without: %d attempts in %d threads, %d refused\n", off.n_thread + off.n_loop,
           off.n_thread / N_ATTEMPT + 1, off.n_wrong);
    check(on.n_loop == N_ATTEMPT && on.n_thread >= 4 * N_ATTEMPT && on.n_thread % N_ATTEMPT == 0,
          "serve: each attempt is made in the loop, the clerk, the worker and its pool", "%d, %d",
          on.n_loop, on.n_thread);
    check(on.n_wrong == 0, "serve: the sandbox refuses each attempt in each thread", "%s",
          on.wrong);
    check(off.n_loop == on.n_loop && off.n_thread == on.n_thread && off.n_wrong == 0,
          "serve: none of them is refused without a sandbox", "%d, %d: %s", off.n_loop,
          off.n_thread, off.wrong);
}

/* ---- answers --------------------------------------------------------------------------------- */

static char *answer_of(const setting *s, const char *mode)
{
    const char *const args[] = { s->model,    "--sandbox", mode,        "--compute", "bf16",
                                 "--threads", "3",         "--ram-max", "300M",      NULL };
    child server = server_start(s->weft, args);
    char *answer = ask(&server, "/v1/completions", "",
                       "{\"prompt\":\"To be or not\",\"max_tokens\":40,\"temperature\":0,"
                       "\"logprobs\":3}");
    char *choices = choices_of(answer);
    free(answer);
    server_stop(&server, SIGTERM, 30);
    return choices;
}

/* With the kernels of this processor (AMX asks the system for leave when it is first used) and without,
 * and under a limit of memory. */
static void test_answers(const setting *s)
{
    for (int scalar = 0; scalar < 2; scalar++) {
        if (scalar)
            setenv("WEFT_ISA", "scalar", 1);
        char *in = answer_of(s, "required"), *out = answer_of(s, "off");
        check(in && out && strcmp(in, out) == 0,
              scalar ? "serve: answers of scalar kernels are the same in the sandbox"
                     : "serve: answers of this processor's kernels are the same in the sandbox",
              "%s", in ? in : "none");
        free(in);
        free(out);
    }
    unsetenv("WEFT_ISA");
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Serves it and stops. */
static void serves(const setting *s, const char *sentence, const char *const *args)
{
    child server = server_start(s->weft, args);
    const double parts = metric(&server, "weft_sandbox");
    const int code = server_stop(&server, SIGTERM, 30);
    check(parts > 0 && code == 0, sentence, "landlock %g, exit code %d", parts, code);
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    must(f && fputs(text, f) >= 0 && fclose(f) == 0, "serve: a file", NULL);
}

static void make_tokenizer(const setting *s)
{
    char corpus[256], command[1024];
    snprintf(corpus, sizeof corpus, "%s/corpus", s->directory);
    put_text(corpus, "to be or not to be that is the question\nwhether it is nobler in the mind\n");
    snprintf(command, sizeof command,
             "%s train-tokenizer %s --model wordpiece --vocab-size 60 -o %s/tokenizer.json "
             "2>/dev/null >/dev/null",
             s->weft, corpus, s->directory);
    must(system(command) == 0, "serve: a tokenizer", NULL);
}

/* As in the cache of Hugging Face: a directory of links to files elsewhere. */
static void test_links(const setting *s)
{
    static const char *const files[] = { "config.json", "model.safetensors" };
    char real[PATH_MAX], link[PATH_MAX], directory[128];
    snprintf(directory, sizeof directory, "%s/links", s->directory);
    mkdir(directory, 0700);
    for (int i = 0; i < 2; i++) {
        snprintf(real, sizeof real, "%s/llama-gqa/%s", s->golden, files[i]);
        snprintf(link, sizeof link, "%s/%s", directory, files[i]);
        must(symlink(real, link) == 0, "serve: a link", NULL);
    }
    snprintf(real, sizeof real, "%s/tokenizer.json", s->directory);
    snprintf(link, sizeof link, "%s/tokenizer.json", directory);
    must(symlink(real, link) == 0, "serve: a link", NULL);
    snprintf(real, sizeof real, "%s/adapters", s->golden); /* must stay closed: see test_reload */
    snprintf(link, sizeof link, "%s/adapters", directory);
    must(symlink(real, link) == 0, "serve: a link", NULL);
    serves(s, "serve: a directory of links to files elsewhere is read",
           (const char *const[]){ directory, "--sandbox", "required", NULL });
}

/* A list that gets an adapter from another directory after the start. That the model's directory has a link to that
 * directory does not open it. */
static void test_reload(const setting *s, bool allowed)
{
    char model[128], list[128], line[2 * PATH_MAX], elsewhere[PATH_MAX];
    snprintf(model, sizeof model, "%s/links", s->directory);
    snprintf(elsewhere, sizeof elsewhere, "%s/adapters", s->golden);
    snprintf(line, sizeof line, "x=%s/llama-lora\n", elsewhere);
    snprintf(list, sizeof list, "%s/lists", s->directory);
    mkdir(list, 0700);
    snprintf(list, sizeof list, "%s/lists/now", s->directory);
    put_text(list, "");
    const char *const args[] = { model,     "--lora-list", list, allowed ? "--allow-read" : NULL,
                                 elsewhere, NULL };
    child server = server_start(s->weft, args);
    unlink(list); /* the new list is another file, as editors write them */
    put_text(list, line);
    kill(server.pid, SIGHUP);
    if (allowed)
        check(metric_becomes(&server, "weft_lora_loads_total", 2, 20),
              "serve: a reload reads what --allow-read allows", "%g loads, %g failed",
              metric(&server, "weft_lora_loads_total"),
              metric(&server, "weft_lora_failed_loads_total"));
    else
        check(metric_becomes(&server, "weft_lora_failed_loads_total", 1, 20),
              "serve: a reload does not read elsewhere", "%g loads",
              metric(&server, "weft_lora_loads_total"));
    server_stop(&server, SIGTERM, 30);
    unlink(list);
}

/* ---- kernels that lack a part ---------------------------------------------------------------- */

/* From now on this call does not exist, here and in what is started. */
static bool without(int call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* Runs `weft serve` to its end. Returns the exit code; its standard error in `text`. */
static int run(const setting *s, const char *model, const char *mode, char *text, size_t size)
{
    int ends[2], status = 0;
    size_t n = 0;
    must(pipe2(ends, O_CLOEXEC) == 0, "serve: a pipe", NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        alarm(60); /* if it serves after all */
        execl(s->weft, s->weft, "serve", model, "--port", "0", "--sandbox", mode, NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t more; n < size - 1 && (more = read(ends[0], text + n, size - 1 - n)) > 0;)
        n += (size_t)more;
    text[n] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void lacks(const setting *s, int call, const char *name)
{
    char text[4096], sentence[128];
    must(without(call), "serve: a system call is taken away", NULL);
    const int code = run(s, s->model, "required", text, sizeof text);
    snprintf(sentence, sizeof sentence, "serve: --sandbox required without %s is an error", name);
    check(code == 1 && strstr(text, "--sandbox required") && strstr(text, name), sentence,
          "exit code %d: %s", code, text);
    const char *const args[] = { s->model, "--template", s->template, NULL };
    child server = server_start(s->weft, args);
    char *metrics = ask(&server, "/metrics", "", NULL);
    const char *part = strcmp(name, "Landlock") == 0 ? "\nweft_sandbox{part=\"landlock\"} 0\n"
                                                     : "\nweft_sandbox{part=\"seccomp\"} 0\n";
    snprintf(sentence, sizeof sentence, "serve: it serves without %s, and says so", name);
    check(strstr(metrics, part) != NULL, sentence, "%s",
          strstr(metrics, "weft_sandbox") ? strstr(metrics, "weft_sandbox") : "no metric");
    free(metrics);
    server_stop(&server, SIGTERM, 30);
}

/* A filter stays for ever: each in a child. */
static void test_lacking(const setting *s)
{
    static const struct {
        int call;
        const char *name;
    } parts[] = { { SYS_landlock_create_ruleset, "Landlock" }, { SYS_seccomp, "seccomp" } };
    for (int i = 0; i < 2; i++) {
        int status = 0;
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            n_failed = 0;
            lacks(s, parts[i].call, parts[i].name);
            exit(n_failed > 0);
        }
        waitpid(pid, &status, 0);
        n_failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
}

/* ---- hostile models -------------------------------------------------------------------------- */

/* The time from the start of the process to its end, refused: the best of a few, as the machine may
 * be busy. -1: it was not refused. */
static double refusal_of(const setting *s, const char *path)
{
    char text[4096];
    double best = 1e9;
    for (int i = 0; i < 8; i++) {
        const double begun = now();
        const int code = run(s, path, "auto", text, sizeof text);
        const double time = now() - begun;
        if (code != 1 || !strstr(text, path))
            return -1;
        best = time < best ? time : best;
    }
    return best;
}

/* A copy of the model with eight bytes of its head replaced, or cut. */
static void test_hostile(const setting *s)
{
    static const struct {
        const char *what;
        long at; /* -1: nowhere */
        uint64_t number;
        size_t cut;
    } kinds[] = { { "2^64 - 1 tensors", 8, UINT64_MAX, SIZE_MAX },
                  { "2^62 keys", 16, 1ull << 62, SIZE_MAX },
                  { "a key of 2^63 bytes", 24, 1ull << 63, SIZE_MAX },
                  { "cut in its head", -1, 0, 500 },
                  { "cut in its tensors", -1, 0, 100000 },
                  { "no GGUF at all", 0, 0x4142434445464748, SIZE_MAX } };
    char path[PATH_MAX];
    double worst = 0;
    bool all = true;
    snprintf(path, sizeof path, "%s/hostile.gguf", s->directory);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        copy(s->model, path, kinds[i].cut);
        FILE *f = fopen(path, "r+");
        if (kinds[i].at >= 0)
            must(f && fseek(f, kinds[i].at, SEEK_SET) == 0 &&
                     fwrite(&kinds[i].number, 8, 1, f) == 1,
                 "serve: a hostile model", NULL);
        fclose(f);
        const double t = refusal_of(s, path);
        printf("hostile model: %s: %s in %.1f ms\n", kinds[i].what, t < 0 ? "served" : "refused",
               t * 1e3);
        all = all && t >= 0;
        worst = t > worst ? t : worst;
    }
    check(all, "serve: hostile models are refused", "one is not");
    check(worst < 0.05, "serve: from a hostile model to its refusal, less than 50 ms", "%g ms",
          worst * 1e3);
}

int main(int argc, char **argv)
{
    setting s = { 0 };
    if (argc != 6) {
        fprintf(stderr, "usage: host_serve_sandbox WEFT MODEL TEMPLATE PROBE.so GOLDEN\n");
        return 2;
    }
    s.weft = argv[1];
    s.template = argv[3];
    s.probe = argv[4];
    s.golden = argv[5];
    signal(SIGPIPE, SIG_IGN);
    snprintf(s.directory, sizeof s.directory, "/tmp/weft-sandbox-XXXXXX");
    must(mkdtemp(s.directory) != NULL, "serve: a directory", NULL);
    snprintf(s.model, sizeof s.model, "%s/model.gguf", s.directory);
    copy(argv[2], s.model, SIZE_MAX);
    test_attempts(&s);
    test_answers(&s);
    make_tokenizer(&s);
    test_links(&s);
    test_reload(&s, false);
    test_reload(&s, true);
    test_lacking(&s);
    test_hostile(&s);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", s.directory);
    return system(command) != 0 || n_failed > 0;
}

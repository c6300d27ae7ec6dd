/* fork_eval.c - evaluates, forks, and continues in both processes with the same engine. The child
 * has lost the worker threads and must start its own; the parent is not affected. An alarm turns a
 * hang into a failure. */
#include "say.h"

#include <sys/wait.h>
#include <unistd.h>

#define STEPS     16
#define NO_WORKER 3 /* exit code of a child that continued alone */

typedef struct trail {
    weft_model *model;
    weft_engine *engine;
    weft_session *session;
    size_t n_vocab;
} trail;

static trail trail_new(void)
{
    weft_error err = { 0 };
    trail t = { .model = weft_model_open(golden("llama-gqa"), NULL, &err) };
    must(t.model, "fork: the model opens", &err);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(t.model, &info);
    t.n_vocab = (size_t)info.n_vocab;
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 2 };
    t.engine = weft_engine_new(t.model, &o, &err);
    must(t.engine, "fork: the engine is made", &err);
    t.session = weft_session_new(t.engine, &err);
    must(t.session, "fork: the session is made", &err);
    return t;
}

static void trail_free(trail *t)
{
    weft_session_free(t->session);
    weft_engine_free(t->engine);
    weft_model_close(t->model);
}

/* STEPS greedy steps after 40 tokens that begin with `first`; all logits go to `to`, [STEPS, V]. */
static bool go_on(trail *t, int32_t first, float *to)
{
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = (first + 7 * i) % (int32_t)t->n_vocab;
    if (weft_session_eval(t->session, ids, 40, NULL) != WEFT_OK)
        return false;
    for (int i = 0; i < STEPS; i++) {
        const int32_t id = weft_session_greedy(t->session);
        memcpy(to + (size_t)i * t->n_vocab, weft_session_logits(t->session),
               t->n_vocab * sizeof *to);
        if (weft_session_eval(t->session, &id, 1, NULL) != WEFT_OK)
            return false;
    }
    return true;
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    for (ssize_t k; n > 0; bytes += k, n -= (size_t)k)
        if ((k = write(fd, bytes, n)) <= 0)
            return false;
    return true;
}

static bool read_all(int fd, char *bytes, size_t n)
{
    for (ssize_t k; n > 0; bytes += k, n -= (size_t)k)
        if ((k = read(fd, bytes, n)) <= 0)
            return false;
    return true;
}

int main(void)
{
    alarm(120);
    trail plain = trail_new(), forked = trail_new();
    const size_t n = STEPS * plain.n_vocab, bytes = n * sizeof(float);
    float *want = malloc(2 * bytes), *got = malloc(2 * bytes), *child = malloc(bytes);
    must(want && got && child, "fork: memory for the logits", NULL);
    must(go_on(&plain, 1, want) && go_on(&plain, 2, want + n), "fork: evaluates without a fork",
         NULL);
    must(go_on(&forked, 1, got), "fork: evaluates before the fork", NULL);

    int pipe_fd[2];
    must(pipe(pipe_fd) == 0, "fork: a pipe", NULL);
    const pid_t pid = fork();
    must(pid >= 0, "fork: a child", NULL);
    if (pid == 0) {
        const bool done = go_on(&forked, 2, child) && write_all(pipe_fd[1], (char *)child, bytes);
        const bool has_worker = SANITIZED || n_task() == 2;
        if (!THREAD_SANITIZED) {
            trail_free(&forked);
            trail_free(&plain);
        }
        _exit(!done ? 1 : has_worker ? 0 : NO_WORKER);
    }
    close(pipe_fd[1]);
    const bool parent_done = go_on(&forked, 2, got + n);
    const bool child_wrote = read_all(pipe_fd[0], (char *)child, bytes);
    int status = -1;
    waitpid(pid, &status, 0);

    check(child_wrote && memcmp(child, want + n, bytes) == 0,
          "fork: the child evaluates with the parent's engine, bit for bit",
          child_wrote ? "the logits differ" : "it wrote no logits");
    check(WIFEXITED(status) && WEXITSTATUS(status) != NO_WORKER,
          "fork: the child has a worker again", "it went on alone");
    const char *frees = "fork: the child frees what it inherited and exits";
    if (THREAD_SANITIZED)
        skip(frees, "ThreadSanitizer of gcc 12 dies when a forked child joins a thread of its own");
    else
        check(WIFEXITED(status) && WEXITSTATUS(status) == 0, frees, "status %d", status);
    check(parent_done && memcmp(got, want, 2 * bytes) == 0, "fork: the parent continues unaffected",
          parent_done ? "the logits differ" : "an eval failed");
    free(want);
    free(got);
    free(child);
    trail_free(&forked);
    trail_free(&plain);
    return n_failed > 0;
}

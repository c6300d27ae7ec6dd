/* open - time to first token from a cold start: opens a model's file, creates an engine, packs the
 * weights and generates one token. Compares this with a lower bound: reading the file once into
 * fresh memory, and one token of a loaded model.
 *
 *     build/bench/open MODEL.gguf [--threads N] [--cold] [--no-pack] [--json]
 *
 * One after the other, again and again, with the file in the page cache; with --cold it is dropped
 * from there before each (the kernel may decline: what it kept is printed). */
#include "args.h"
#include "bench.h"

#include "engine/session.h"
#include "models/pack.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path;
static int64_t n_thread, n_repeat = 5;
static bool json, cold, no_pack;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "samples of each (5)", 1, 60 },
    { "cold", ARG_FLAG, &cold, NULL, "drop the file from the page cache before each", 0, 0 },
    { "no-pack", ARG_FLAG, &no_pack, NULL, "leave the weights as they are stored", 0, 0 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = { "open",
                              "MODEL",
                              "Measures the time from opening a file to the first token, beside "
                              "reading the file once.\n",
                              args,
                              1,
                              &path };

static int open_or_die(void)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    perror(path);
    exit(1);
}

static double file_bytes(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 ? (double)s.st_size : 0;
}

/* Share of the file that the page cache holds. */
static double cached(void)
{
    const int fd = open_or_die();
    const size_t size = (size_t)file_bytes(fd), page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t n = (size + page - 1) / page;
    void *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *in = malloc(n);
    size_t there = 0;
    if (at != MAP_FAILED && in && mincore(at, size, in) == 0)
        for (size_t i = 0; i < n; i++)
            there += in[i] & 1;
    if (at != MAP_FAILED)
        munmap(at, size);
    free(in);
    close(fd);
    return n ? (double)there / (double)n : 0;
}

static void drop(void)
{
    const int fd = open_or_die();
    if (cold)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* Into memory that is as fresh as that of a model, from the same allocator. */
static double read_once(void)
{
    weft_error err = { 0 };
    mem from;
    mem_init(&from, 0, NULL);
    drop();
    const int fd = open_or_die();
    const size_t size = (size_t)file_bytes(fd);
    const double began = bench_now();
    char *all = bench_must(mem_alloc(&from, size, "the file", &err), &err);
    for (size_t at = 0; at < size;) {
        const ssize_t n = read(fd, all + at, size - at);
        if (n <= 0)
            bench_check(WEFT_EIO, &(weft_error){ WEFT_EIO, "the file cannot be read" });
        at += (size_t)n;
    }
    const double seconds = bench_now() - began;
    close(fd);
    mem_free(&from, all);
    return seconds;
}

static engine *layout(const model *m)
{
    weft_error err = { 0 };
    const engine_options o = { .n_thread = (int)n_thread, .n_session = 1, .n_ctx = 64 };
    return bench_must(engine_new(m, &o, &err), &err);
}

static double token(engine *e, session *s)
{
    weft_error err = { 0 };
    const int32_t id = 1;
    work w = { .session = s, .ids = &id, .n = 1 };
    const double began = bench_now();
    bench_check(session_rewind(s, 0, &err), &err);
    bench_check(engine_eval(e, &w, 1, &err), &err);
    return bench_now() - began;
}

/* The whole start; then one more token of the loaded model. */
static double first_token(double *one_token)
{
    drop();
    host h = { .io = io_system };
    weft_error err = { 0 };
    model m;
    mem_init(&h.mem, 0, NULL);
    const double began = bench_now();
    bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    if (no_pack)
        pack_never(&m);
    engine *e = layout(&m);
    session *s = bench_must(session_new(e, &err), &err);
    token(e, s);
    const double seconds = bench_now() - began;
    *one_token = token(e, s);
    session_free(s);
    engine_free(e);
    model_close(&m);
    return seconds;
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    samples reading = { 0 }, one = { 0 }, all = { 0 }, ratio = { 0 };
    double kept = 0, t;
    const int fd = open_or_die();
    const double bytes = file_bytes(fd);
    close(fd);
    if (!cold)
        first_token(&t); /* fills the page cache */
    for (int64_t i = 0; i < n_repeat; i++) {
        drop();
        const double now = cached();
        kept = cold && now > kept ? now : kept;
        const double r = read_once(), a = first_token(&t);
        samples_add(&reading, r);
        samples_add(&one, t);
        samples_add(&all, a);
        samples_add(&ratio, a / (r + t));
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    const double peak = (double)use.ru_maxrss * 1024;
    const char *const how = cold ? "cold" : "warm";
    if (json)
        printf("{\"work\":\"open\",\"cache\":\"%s\",\"bytes\":%.0f,\"read_seconds\":%.4g,"
               "\"token_seconds\":%.4g,\"first_token_seconds\":%.4g,\"ratio\":%.3f,"
               "\"kept\":%.3f,\"peak_bytes\":%.0f}\n",
               how, bytes, samples_median(&reading), samples_median(&one), samples_median(&all),
               samples_median(&ratio), kept, peak);
    else
        printf("%s, %s: %.2f GB\n"
               "reading it once     %8.3f s  %6.2f GB/s\n"
               "one token           %8.3f s\n"
               "open + first token  %8.3f s  %.2f x the two together\n"
               "peak RAM            %8.2f GB, the mapped file included\n",
               path, how, bytes / 1e9, samples_median(&reading),
               bytes / 1e9 / samples_median(&reading), samples_median(&one), samples_median(&all),
               samples_median(&ratio), peak / 1e9);
    if (!json && cold && kept > 0.01)
        printf("the page cache kept up to %.0f %% of the file: not as cold as asked\n", 100 * kept);
    return 0;
}

/* step - T(rows, context): the time of one forward, as a scheduler sees it.
 *
 *     build/bench/step MODEL [--repeat 5] [--longest 4096] [--rows 256] [--kv TYPE] [--json]
 *
 * Two tables. Prompt: r rows of one session after a context of c tokens. Generation: one row of
 * each of r sessions after c tokens; they are forks, so their pages are the same memory, and the
 * cost of a context is that of its arithmetic, not of memory. Each round visits all cells, so that
 * other load on the machine affects them alike; medians are printed. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>

static const char *path, *kv_name = "f16";
static int64_t n_thread, longest = 4096, most_rows = 256, n_repeat = 5;
static bool json;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "longest", ARG_INT, &longest, "N", "tokens of the longest context (4096)", 16, 1 << 24 },
    { "rows", ARG_INT, &most_rows, "N", "most rows of a forward (256)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "forwards for each cell (5)", 1, 64 },
    { "kv", ARG_TEXT, &kv_name, "TYPE", "of cached keys and values (f16)", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "step",
    "MODEL",
    "Measures the time of one forward against its rows and their context: "
    "rows of a prompt,\nand one row of each of several sessions.\n",
    args,
    1,
    &path
};

#define MAX_ROWS    11 /* 1, 2, 4 ... 1024 */
#define MAX_CONTEXT 4

typedef struct table {
    int64_t rows[MAX_ROWS], context[MAX_CONTEXT];
    int n_rows, n_context;
    samples prompt[MAX_ROWS][MAX_CONTEXT], generate[MAX_ROWS][MAX_CONTEXT];
} table;

typedef struct job {
    engine *engine;
    session **fork; /* [most_rows] */
    work *todo;     /* [most_rows] */
    int32_t *ids;   /* [longest + most_rows] */
    table table;
} job;

static void choose_cells(table *t)
{
    for (int64_t r = 1; r <= most_rows && t->n_rows < MAX_ROWS; r *= 2)
        t->rows[t->n_rows++] = r;
    t->context[t->n_context++] = 0;
    for (int64_t c = longest / 16; c <= longest && t->n_context < MAX_CONTEXT; c *= 4)
        t->context[t->n_context++] = c;
}

static double time_works(job *j, int n)
{
    weft_error err = { 0 };
    const double began = bench_now();
    bench_check(engine_step(j->engine, j->todo, n, &err), &err);
    return bench_now() - began;
}

/* One forward of r rows after the session's tokens. */
static double time_prompt(job *j, session *s, int64_t r)
{
    weft_error err = { 0 };
    const int64_t length = s->cache.length;
    j->todo[0] = (work){ .session = s, .ids = j->ids + length, .n = r };
    const double took = time_works(j, 1);
    bench_check(session_rewind(s, length, &err), &err);
    return took;
}

/* One forward with a row of each of r forks. */
static double time_generation(job *j, const session *s, int64_t r)
{
    for (int64_t i = 0; i < r; i++) {
        session_copy(j->fork[i], s);
        j->todo[i] = (work){ .session = j->fork[i], .ids = j->ids + i, .n = 1 };
    }
    const double took = time_works(j, (int)r);
    for (int64_t i = 0; i < r; i++)
        session_cut(j->fork[i], 0);
    return took;
}

static void measure(job *j)
{
    weft_error err = { 0 };
    table *t = &j->table;
    session *s = bench_must(session_new(j->engine, &err), &err);
    for (int64_t round = 0; round <= n_repeat; round++) /* the first warms up */
        for (int c = 0; c < t->n_context; c++) {
            int64_t unused;
            if (t->context[c] > 0)
                bench_check(session_sync(s, j->ids, t->context[c], &unused, &err), &err);
            else
                session_cut(s, 0);
            for (int r = 0; r < t->n_rows; r++) {
                const double prompt = time_prompt(j, s, t->rows[r]);
                const double generate = time_generation(j, s, t->rows[r]);
                if (round > 0) {
                    samples_add(&t->prompt[r][c], prompt);
                    samples_add(&t->generate[r][c], generate);
                }
            }
        }
    session_free(s);
}

static void print_table(table *t, const char *what, samples cell[MAX_ROWS][MAX_CONTEXT])
{
    if (!json) {
        printf("\n%s, ms\n| rows | ", what);
        for (int c = 0; c < t->n_context; c++)
            printf("context %lld | ", (long long)t->context[c]);
        printf("\n|---|");
        for (int c = 0; c < t->n_context; c++)
            printf("---|");
        printf("\n");
    }
    for (int r = 0; r < t->n_rows; r++) {
        if (!json)
            printf("| %lld | ", (long long)t->rows[r]);
        for (int c = 0; c < t->n_context; c++) {
            const double ms = 1e3 * samples_median(&cell[r][c]);
            if (json)
                printf("{\"rows_of\":\"%s\",\"rows\":%lld,\"context\":%lld,\"ms\":%.3f}\n", what,
                       (long long)t->rows[r], (long long)t->context[c], ms);
            else
                printf("%.1f | ", ms);
        }
        printf(json ? "" : "\n");
    }
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    host h = { .io = io_system };
    model m;
    engine_options o = { .n_thread = (int)n_thread,
                         .n_batch = (int)most_rows,
                         .n_session = (int)most_rows,
                         .n_ctx = longest + most_rows,
                         .n_cache = longest + most_rows + (most_rows + 2) * PAGE_ROWS,
                         .kv = dtype_by_name(kv_name) };
    if (!o.kv || !o.kv->encode)
        return args_usage(&self, "--kv is \"%s\", a type that weft does not cache in", kv_name);
    mem_init(&h.mem, 0, NULL);
    bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    job j = { .engine = bench_must(engine_new(&m, &o, &err), &err) };
    j.fork = bench_must(calloc((size_t)most_rows, sizeof *j.fork), NULL);
    j.todo = bench_must(calloc((size_t)most_rows, sizeof *j.todo), NULL);
    j.ids = bench_must(calloc((size_t)(longest + most_rows), sizeof *j.ids), NULL);
    for (int64_t i = 0; i < longest + most_rows; i++)
        j.ids[i] = (int32_t)(rng_draw(7, 0, (uint64_t)i).word[0] % (uint32_t)m.n_vocab);
    for (int64_t i = 0; i < most_rows; i++)
        j.fork[i] = bench_must(session_new(j.engine, &err), &err);
    choose_cells(&j.table);
    bench_print_machine(j.engine->pool, m.kern->name, json);
    measure(&j);
    print_table(&j.table, "prompt", j.table.prompt);
    print_table(&j.table, "generation", j.table.generate);
    for (int64_t i = 0; i < most_rows; i++)
        session_free(j.fork[i]);
    free(j.ids);
    free(j.todo);
    free(j.fork);
    engine_free(j.engine);
    model_close(&m);
    return 0;
}

/* cache_cost.c - measures cache_cost.h's table. One session does both: evaluated from its first
 * token, a text leaves a cache behind, and rewinding by one token makes room for the next. */
#include "cache_cost.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define ALL    7u   /* coefficients that may not be below 0: no part of a cost is */
#define MOMENT 0.02 /* seconds: a short evaluation is repeated for so long and averaged */

typedef struct job {
    const cache_work *work;
    cache_table *table;
    weft_model *model;
    weft_engine *engine;
    weft_session *session;
    int64_t longest;
    int32_t *ids; /* [longest + 1] */
} job;

/* ---- FLOPs ----------------------------------------------------------------------------------- */

static weft_status stopped(weft_error *err)
{
    *err = (weft_error){ WEFT_ESTOPPED, "stopped" };
    return WEFT_ESTOPPED;
}

/* FLOPs of the row at position n - 1, of all n rows, and of all prefixes of 1 to n rows: without
 * the head, which only the last row of a forward needs. */
typedef struct flop_sums {
    double last, rows, prefixes;
    double head;
} flop_sums;

static void note_flops(const job *j, const flop_sums *s, int64_t n)
{
    for (int i = 0; i < j->work->n_length; i++) {
        cache_cost *c = j->table->cost[i];
        const int64_t t = j->work->length[i];
        if (n == t) {
            c[CACHE_ON].text_flops = s->rows + (double)t * s->head;
            c[CACHE_OFF].text_flops = s->prefixes + (double)t * s->head;
        }
        if (n == t + 1) {
            c[CACHE_ON].flops = s->last + s->head;
            c[CACHE_OFF].flops = s->rows + s->head;
        }
    }
}

/* Attention over one key more costs the same at every position, until the window of a layer is
 * full. */
static weft_status count_flops(const job *j, weft_error *err)
{
    flop_sums s = { 0 };
    double before = 0, key = 0;
    for (int64_t n = 1; n <= j->longest + 1; n++) {
        weft_model_cost c = { .struct_size = sizeof c };
        const weft_status status = weft_model_get_cost(j->model, n, &c, err);
        if (status != WEFT_OK)
            return status;
        if (cli_interrupted())
            return stopped(err);
        s.last = c.embedding.flops + c.attention.flops + c.feed_forward.flops;
        s.rows += s.last;
        s.prefixes += s.rows;
        s.head = c.head.flops;
        note_flops(j, &s, n);
        if (n == 2)
            key = s.last - before;
        j->table->window = n > 2 && s.last - before < key;
        before = s.last;
    }
    return WEFT_OK;
}

/* ---- rows and time --------------------------------------------------------------------------- */

/* Counts the rows of all forwards: those of the tensor that each of them computes first. */
typedef struct row_count {
    char first[64];
    int64_t n;
} row_count;

static void count_rows(void *ud, const weft_trace_tensor *t)
{
    row_count *c = ud;
    if (!c->first[0])
        snprintf(c->first, sizeof c->first, "%s", t->name);
    if (strcmp(c->first, t->name) == 0)
        c->n += t->rows;
}

/* The token at position t, with the first `kept` tokens in the cache: all others are evaluated. */
static weft_status evaluate(const job *j, int64_t t, int64_t kept, double *seconds, weft_error *err)
{
    weft_status status = weft_session_rewind(j->session, kept, err);
    const double start = cli_now();
    if (status == WEFT_OK)
        status = weft_session_eval(j->session, j->ids + kept, t + 1 - kept, err);
    *seconds = cli_now() - start;
    return status == WEFT_OK && cli_interrupted() ? stopped(err) : status;
}

static int64_t kept_of(cache_way way, int64_t t)
{
    return way == CACHE_ON ? t : 0;
}

static weft_status sample(const job *j, int64_t t, cache_way way, double *mean, weft_error *err)
{
    double total = 0, seconds;
    int n = 0;
    do {
        const weft_status status = evaluate(j, t, kept_of(way, t), &seconds, err);
        if (status != WEFT_OK)
            return status;
        total += seconds;
        n++;
    } while (total < MOMENT);
    *mean = total / n;
    return WEFT_OK;
}

/* Evaluates everything once under a trace, which also touches all memory before it is timed. */
static weft_status count_all_rows(const job *j, weft_error *err)
{
    row_count count = { 0 };
    double seconds;
    weft_status status = weft_engine_trace(j->engine, count_rows, &count, false, err);
    for (int i = 0; i < j->work->n_length; i++)
        for (int way = CACHE_OFF; way >= CACHE_ON && status == WEFT_OK; way--) {
            const int64_t t = j->work->length[i];
            count.n = 0;
            status = evaluate(j, t, kept_of((cache_way)way, t), &seconds, err);
            j->table->cost[i][way].rows = j->work->way[way] ? count.n : 0;
        }
    const weft_status ended = weft_engine_trace(j->engine, NULL, NULL, false,
                                                status == WEFT_OK ? err : NULL);
    return status == WEFT_OK ? ended : status;
}

static weft_status take_turn(const job *j, int turn, weft_error *err)
{
    const cache_work *w = j->work;
    weft_status status = WEFT_OK;
    for (int i = 0; i < w->n_length && status == WEFT_OK; i++) {
        const int64_t t = w->length[i];
        cache_cost *c = j->table->cost[i];
        double ignored;
        cli_progress_set((uint64_t)(turn * w->n_length + i), (uint64_t)(w->n_turn * w->n_length));
        status = w->way[CACHE_OFF] ? sample(j, t, CACHE_OFF, &c[CACHE_OFF].seconds[turn], err)
                                   : evaluate(j, t, 0, &ignored, err);
        if (status == WEFT_OK && w->way[CACHE_ON])
            status = sample(j, t, CACHE_ON, &c[CACHE_ON].seconds[turn], err);
    }
    return status;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A curve says something about points only if they could have missed it: there must be more
 * different lengths than it has coefficients. */
static void fit_way(const job *j, cache_way way)
{
    const int degree = way == CACHE_ON ? 1 : 2, n = j->work->n_length;
    double x[CACHE_LENGTHS], seconds[CACHE_LENGTHS], flops[CACHE_LENGTHS];
    int different = 0;
    for (int i = 0; i < n; i++) {
        int before = 0;
        while (before < i && j->work->length[before] != j->work->length[i])
            before++;
        different += before == i;
        x[i] = (double)j->work->length[i];
        seconds[i] = j->table->cost[i][way].median;
        flops[i] = j->table->cost[i][way].flops;
    }
    j->table->fits[way] = different > degree + 1 &&
                          fit_polynomial(x, seconds, n, degree, ALL, &j->table->seconds[way]) &&
                          fit_polynomial(x, flops, n, degree, ALL, &j->table->flops[way]);
}

static void summarise(const job *j)
{
    const int n = j->work->n_turn;
    for (cache_way way = CACHE_ON; way < N_CACHE_WAY; way++) {
        for (int i = 0; i < j->work->n_length && j->work->way[way]; i++) {
            cache_cost *c = &j->table->cost[i][way];
            qsort(c->seconds, (size_t)n, sizeof *c->seconds, ascending);
            c->median = (c->seconds[(n - 1) / 2] + c->seconds[n / 2]) / 2;
        }
        if (j->work->way[way])
            fit_way(j, way);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

/* One forward has room for the longest text. */
static weft_status prepare(job *j, weft_error *err)
{
    weft_engine_options o = j->work->engine;
    weft_model_info info = { .struct_size = sizeof info };
    for (int i = 0; i < j->work->n_length; i++)
        j->longest = j->work->length[i] > j->longest ? j->work->length[i] : j->longest;
    o.n_session = 1;
    o.n_ctx = j->longest + 1;
    o.n_batch = (int)(j->longest + 1);
    o.n_cache = 0;
    j->engine = weft_engine_new(j->model, &o, err);
    j->session = j->engine ? weft_session_new(j->engine, err) : NULL;
    if (!j->session)
        return err->code;
    weft_model_get_info(j->model, &info);
    j->ids = cli_any_ids(j->longest + 1, info.n_vocab);
    if (j->ids)
        return WEFT_OK;
    *err = cli_refusal();
    return err->code;
}

weft_status cache_measure(weft_model *model, const cache_work *w, cache_table *to, weft_error *err)
{
    job j = { .work = w, .table = to, .model = model };
    memset(to, 0, sizeof *to);
    weft_status status = prepare(&j, err);
    if (status == WEFT_OK)
        status = count_flops(&j, err);
    cli_progress_begin("bench", "lengths");
    if (status == WEFT_OK)
        status = count_all_rows(&j, err);
    for (int turn = 0; turn < w->n_turn && status == WEFT_OK; turn++)
        status = take_turn(&j, turn, err);
    cli_progress_end();
    if (status == WEFT_OK)
        summarise(&j);
    weft_session_free(j.session);
    weft_engine_free(j.engine);
    cli_free(j.ids);
    return status;
}

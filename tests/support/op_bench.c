#define SET_UP
#include "op_bench.h"

const kernels *kern;

void bench_init(bench *b, int threads)
{
    weft_error err = { 0 };
    host_plain(&b->host);
    assert_int_equal(run_init(&b->run, &b->host.mem, 1 << 20, 64 << 20, 64 << 20, &err), WEFT_OK);
    b->run.kern = kern;
    b->pool = pool_new(threads, &b->host.mem, &err);
    b->run.pool = b->pool;
    b->run.fork_cost = 0; /* every op forks */
    b->batch = (batch){ .row = b->row, .seq = b->seq };
}

void bench_free(bench *b)
{
    run_free(&b->run);
    pool_free(b->pool);
    assert_int_equal(b->host.mem.used, 0);
}

void bench_rows(bench *b, int n, int length, int start)
{
    b->batch.n_row = n * length;
    b->batch.n_seq = n;
    b->batch.n_wanted = 0;
    for (int i = 0; i < n * length; i++)
        b->row[i] = (batch_row){ .seq = i / length, .pos = start + i % length };
    for (int s = 0; s < n; s++)
        b->seq[s] = (sequence){ .first = s * length, .n = length, .source = -1 };
    run_begin(&b->run, &b->batch);
}

tensor *normal(bench *b, const char *name, int64_t n_row, int64_t n_col, uint64_t key)
{
    tensor *t = tensor_new(&b->run, n_row, n_col);
    snprintf(t->name, sizeof t->name, "%s", name);
    fill_normal(row(t, 0), n_row * n_col, 11, key, 1);
    return t;
}

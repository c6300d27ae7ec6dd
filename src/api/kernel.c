/* kernel.c - the public functions for Nadaraya-Watson regression: check, then call
 * ops/kernel_pool.c for some queries at a time. */
#include "api/api.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

#define AT_ONCE 1024 /* queries at a time, so that memory does not grow with their number */

typedef struct regression {
    kernel_kind kind;
    tensor key, value, log_width;
    real width; /* log_width is its only element */
} regression;

static tensor column(const float *at, int64_t n)
{
    return (tensor){
        .type = &dtype_real, .n_dim = 2, .shape = { n, 1 }, .stride = 1, .data = (void *)at
    };
}

static const tensor *pool_some(run *r, regression *g, const float *query, int64_t n)
{
    static const batch nobody;
    tensor q = column(query, n);
    run_begin(r, &nobody);
    return kernel_pool(r, &q, &g->key, &g->value, &g->log_width, g->kind, false);
}

static weft_status pool_all(regression *g, const float *query, int64_t n, float *out,
                            weft_error *err)
{
    mem from;
    run dry, r;
    log_sink nowhere = { 0 };
    mem_init(&from, 0, NULL);
    if (run_init_dry(&dry, &from, 1, err) != WEFT_OK)
        return err->code;
    pool_some(&dry, g, query, n < AT_ONCE ? n : AT_ONCE);
    const weft_status status = run_init(&r, &from, dry.meta.peak, dry.data.peak, dry.scratch_peak,
                                        err);
    run_free(&dry);
    if (status != WEFT_OK)
        return status;
    r.kern = kernels_select(&nowhere);
    for (int64_t i = 0; i < n; i += AT_ONCE) {
        const int64_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
        const tensor *y = pool_some(&r, g, query + i, some);
        memcpy(out + i, row(y, 0), (size_t)some * sizeof *out);
    }
    run_free(&r);
    return WEFT_OK;
}

weft_status weft_kernel_pool(weft_kernel kernel, double width, const float *queries,
                             int64_t n_query, const float *keys, const float *values, int64_t n_key,
                             float *out, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if ((unsigned)kernel > WEFT_KERNEL_CONSTANT)
        return weft_fail(err, WEFT_EINVAL, "unknown kernel %d", (int)kernel);
    if (!(width >= 1e-18 && width <= 1e18))
        return weft_fail(err, WEFT_EINVAL, "a kernel of width %g; expected 1e-18 to 1e18", width);
    if (!queries || !keys || !values || !out || n_query < 1 || n_key < 1)
        return weft_fail(
            err, WEFT_EINVAL,
            "%lld queries and %lld keys; expected at least one of each, and queries, keys, values "
            "and out that are not NULL",
            (long long)n_query, (long long)n_key);
    regression g = { .kind = (kernel_kind)kernel,
                     .key = column(keys, n_key),
                     .value = column(values, n_key),
                     .width = (real)log(width) };
    g.log_width = column(&g.width, 1);
    return pool_all(&g, queries, n_query, out, err);
}

/* simulate.c - the public functions of simulations: check, translate, delegate. */
#include "engine/simulate.h"

#include "api/api.h"

#include <math.h>
#include <string.h>

#define MOST_RUNNING 1024
#define MOST_WAITING 65536
#define MOST_BATCH   65536
#define MOST_CONTEXT (1 << 20)
#define MOST_CACHE   (1 << 25)

int32_t weft_load_token(uint64_t seed, int64_t i, int32_t n_vocab)
{
    return n_vocab > 0 && i >= 0 ? load_token(seed, i, n_vocab) : 0;
}

static bool is_time(double x)
{
    return x >= 0 && x <= 1e6;
}

static weft_status check_load(const weft_load_request *q, int64_t n, weft_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t n_prompt = 0;
        if (!(q[i].at >= (i > 0 ? q[i - 1].at : 0) && q[i].at <= 1e9))
            return weft_fail(err, WEFT_EINVAL,
                             "request %lld arrives at %g s; expected a time after the one before",
                             (long long)i, q[i].at);
        if (q[i].n_part < 1 || q[i].n_part > 1 << 16 || !q[i].part)
            return weft_fail(err, WEFT_EINVAL, "request %lld has a prompt of %d parts",
                             (long long)i, q[i].n_part);
        for (int k = 0; k < q[i].n_part; k++) {
            if (q[i].part[k].n < 1 || q[i].part[k].n > MOST_CONTEXT - n_prompt)
                return weft_fail(err, WEFT_EINVAL, "part %d of request %lld has %lld tokens", k,
                                 (long long)i, (long long)q[i].part[k].n);
            n_prompt += q[i].part[k].n;
        }
        if (q[i].n_new < 1 || q[i].n_new > MOST_CONTEXT)
            return weft_fail(err, WEFT_EINVAL,
                             "request %lld is for %lld tokens; expected 1 or more", (long long)i,
                             (long long)q[i].n_new);
        if (q[i].key && strlen(q[i].key) >= 256)
            return weft_fail(err, WEFT_EINVAL, "the key of request %lld has more than 255 bytes",
                             (long long)i);
    }
    return WEFT_OK;
}

static weft_status fill(weft_simulation_options *o, weft_error *err)
{
    o->n_running = o->n_running ? o->n_running : 32;
    o->n_waiting = o->n_waiting ? o->n_waiting : 128;
    if (!o->n_batch) /* a row for each that runs, as in weft serve */
        o->n_batch = o->n_running > 256 ? o->n_running : 256;
    o->n_ctx = o->n_ctx ? o->n_ctx : 4096;
    if (o->n_running < 1 || o->n_running > MOST_RUNNING || o->n_waiting < 1 ||
        o->n_waiting > MOST_WAITING)
        return weft_fail(err, WEFT_EINVAL,
                         "%d requests run and %d wait, expected 1 to %d and 1 to %d", o->n_running,
                         o->n_waiting, MOST_RUNNING, MOST_WAITING);
    if (o->n_batch < o->n_running || o->n_batch > MOST_BATCH)
        return weft_fail(err, WEFT_EINVAL, "n_batch is %d, expected n_running (%d) to %d",
                         o->n_batch, o->n_running, MOST_BATCH);
    if (o->n_ctx < 1 || o->n_ctx > MOST_CONTEXT)
        return weft_fail(err, WEFT_EINVAL, "n_ctx is %lld, expected 1 to %d", (long long)o->n_ctx,
                         MOST_CONTEXT);
    o->n_cache = o->n_cache ? o->n_cache : 4 * o->n_ctx;
    if (o->n_cache < 1 || o->n_cache > MOST_CACHE)
        return weft_fail(err, WEFT_EINVAL, "n_cache is %lld, expected 1 to %d",
                         (long long)o->n_cache, MOST_CACHE);
    if (!is_time(o->step_ms) || !is_time(o->arrive_seconds) || !is_time(o->token_seconds) ||
        !is_time(o->deliver_seconds))
        return weft_fail(err, WEFT_EINVAL, "a time that is negative, or above 10^6");
    if (o->n_steps < 1 || !o->steps)
        return weft_fail(err, WEFT_EINVAL, "no recorded steps; expected one or more");
    return WEFT_OK;
}

weft_status weft_simulate(const weft_simulation_options *options, const weft_load_request *request,
                          int64_t n, weft_load_result *result, weft_simulation_info *info,
                          weft_error *err)
{
    weft_budget budget;
    weft_simulation_options o;
    weft_simulation_info i = { 0 };
    weft_error local;
    err = begin_call(err, &local);
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_simulation_options", err) ||
        (info && !result_fits(info, "weft_simulation_info", err)) || fill(&o, err) != WEFT_OK)
        return err->code;
    if (n < 1 || !request || !result)
        return weft_fail(err, WEFT_EINVAL, "a load of %lld requests; expected one or more",
                         (long long)n);
    if (check_load(request, n, err) != WEFT_OK)
        return err->code;
    take_budget(&budget, 0, o.budget);
    const weft_status status = simulate(&o, request, n, result, &i, &budget.mem, err);
    if (info && status == WEFT_OK)
        copy_result(info, info->struct_size, &i, sizeof i);
    return status;
}

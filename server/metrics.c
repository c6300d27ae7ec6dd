/* metrics.c - counters and histograms as text; see metrics.h. */
#include "metrics.h"

#include "wire.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const double limits[N_BUCKET] = { 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                         0.25,  0.5,   0.75, 1,    2.5,  5,    10,   60 };

void metrics_time(histogram *h, double seconds)
{
    int i = 0;
    while (i < N_BUCKET && seconds > limits[i])
        i++;
    atomic_fetch_add(&h->bucket[i], 1);
    atomic_fetch_add(&h->microseconds, (long long)(seconds * 1e6));
}

/* The name of a model in quotes, as Prometheus escapes it: backslash, quote and line end. */
static void put_label(const char *model, bytes *to)
{
    bytes_text(to, "model_name=\"");
    for (const char *c = model; *c; c++)
        if (*c == '\\' || *c == '"')
            bytes_format(to, "\\%c", *c);
        else if (*c == '\n')
            bytes_text(to, "\\n");
        else
            bytes_add(to, c, 1);
    bytes_text(to, "\"");
}

static void put_head(const char *name, const char *type, const char *help, bytes *to)
{
    bytes_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* "name{model_name="a",MORE} " */
static void put_name(const char *name, const char *model, const char *more, bytes *to)
{
    bytes_format(to, "%s{", name);
    put_label(model, to);
    bytes_format(to, "%s} ", more);
}

/* ---- of each model --------------------------------------------------------------------------- */

/* The lines of a name stand together, one for each model. */
typedef struct models {
    const metered *at;
    int n;
} models;

static void put_count(const char *name, const char *help, models all, size_t at, bytes *to)
{
    put_head(name, "counter", help, to);
    for (int i = 0; i < all.n; i++) {
        const atomic_llong *x = (const void *)((const char *)all.at[i].metrics + at);
        put_name(name, all.at[i].name, "", to);
        bytes_format(to, "%lld\n", atomic_load(x));
    }
}

static void put_times(const char *name, const char *model, const histogram *h, bytes *to)
{
    char part[96], limit[32];
    long long n = 0;
    snprintf(part, sizeof part, "%s_bucket", name);
    for (int i = 0; i <= N_BUCKET; i++) {
        n += atomic_load(&h->bucket[i]);
        snprintf(limit, sizeof limit, i < N_BUCKET ? ",le=\"%g\"" : ",le=\"+Inf\"",
                 limits[i % N_BUCKET]);
        put_name(part, model, limit, to);
        bytes_format(to, "%lld\n", n);
    }
    snprintf(part, sizeof part, "%s_sum", name);
    put_name(part, model, "", to);
    bytes_format(to, "%.6f\n", (double)atomic_load(&h->microseconds) / 1e6);
    snprintf(part, sizeof part, "%s_count", name);
    put_name(part, model, "", to);
    bytes_format(to, "%lld\n", n);
}

static void put_histogram(const char *name, const char *help, models all, size_t at, bytes *to)
{
    put_head(name, "histogram", help, to);
    for (int i = 0; i < all.n; i++)
        put_times(name, all.at[i].name, (const void *)((const char *)all.at[i].metrics + at), to);
}

static void put_finished(models all, bytes *to)
{
    static const char *const reasons[N_OUTCOME] = { ",finished_reason=\"stop\"",
                                                    ",finished_reason=\"length\"",
                                                    ",finished_reason=\"abort\"",
                                                    ",finished_reason=\"error\"" };
    put_head("vllm:request_success_total", "counter", "Generations that ended, by reason.", to);
    for (int i = 0; i < all.n; i++)
        for (int k = 0; k < N_OUTCOME; k++) {
            put_name("vllm:request_success_total", all.at[i].name, reasons[k], to);
            bytes_format(to, "%lld\n", atomic_load(&all.at[i].metrics->finished[k]));
        }
}

/* ---- of its scheduler ------------------------------------------------------------------------ */

typedef double scheduler_number(const weft_scheduler_info *i);

static double n_running(const weft_scheduler_info *i)
{
    return (double)i->n_running;
}

static double n_waiting(const weft_scheduler_info *i)
{
    return (double)i->n_waiting;
}

static double cache_use(const weft_scheduler_info *i)
{
    return i->n_page ? (double)i->n_page_used / (double)i->n_page : 0;
}

static double n_queried(const weft_scheduler_info *i)
{
    return (double)i->n_queried;
}

static double n_reused(const weft_scheduler_info *i)
{
    return (double)i->n_reused;
}

static double n_preempted(const weft_scheduler_info *i)
{
    return (double)i->n_preempted;
}

static double n_step(const weft_scheduler_info *i)
{
    return (double)i->n_step;
}

static double step_seconds(const weft_scheduler_info *i)
{
    return i->step_seconds;
}

double metrics_queue_seconds(const weft_scheduler_info *i)
{
    const double done = (double)(i->n_prompt - i->n_reused + i->n_new);
    const double each = i->n_done > 0 ? (double)i->n_new / (double)i->n_done : 0;
    const double waiting = (double)i->n_waiting_tokens + (double)i->n_waiting * each;
    return done > 0 ? waiting * i->step_seconds / done : 0;
}

static double n_page(const weft_scheduler_info *i)
{
    return (double)i->n_page;
}

static double n_page_idle(const weft_scheduler_info *i)
{
    return (double)i->n_page_idle;
}

/* Those that are vLLM's have its names. */
static const struct {
    const char *name, *type, *help;
    scheduler_number *number;
} of_scheduler[] = {
    { "vllm:num_requests_running", "gauge", "Requests that generate.", n_running },
    { "vllm:num_requests_waiting", "gauge", "Requests that wait.", n_waiting },
    { "vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use by requests.", cache_use },
    { "vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in cached prefixes.",
      n_queried },
    { "vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in cached prefixes.",
      n_reused },
    { "vllm:num_preemptions_total", "counter", "Requests that gave their pages back.",
      n_preempted },
    { "weft_steps_total", "counter", "Forward passes.", n_step },
    { "weft_step_seconds_total", "counter", "Time in forward passes.", step_seconds },
    { "weft_queue_seconds", "gauge",
      "Time that the requests that wait will take, at the speed so far.", metrics_queue_seconds },
    { "weft_cache_pages", "gauge", "Pages of the KV cache.", n_page },
    { "weft_cache_pages_idle", "gauge", "Pages that only keep prefixes.", n_page_idle },
};

static void put_schedulers(models all, bytes *to)
{
    for (size_t k = 0; k < sizeof of_scheduler / sizeof *of_scheduler; k++) {
        put_head(of_scheduler[k].name, of_scheduler[k].type, of_scheduler[k].help, to);
        for (int i = 0; i < all.n; i++) {
            if (!all.at[i].info.struct_size)
                continue;
            put_name(of_scheduler[k].name, all.at[i].name, "", to);
            bytes_format(to, "%.10g\n", of_scheduler[k].number(&all.at[i].info));
        }
    }
}

/* ---- of its adapters ------------------------------------------------------------------------- */

typedef struct adapter_lines {
    const char *model;
    bytes *to;
} adapter_lines;

/* A name of an adapter needs no escapes. */
static void put_requests(void *ud, const served_adapter *one)
{
    const adapter_lines *l = ud;
    char label[128];
    snprintf(label, sizeof label, ",adapter=\"%s\"", one->name);
    put_name("weft_lora_requests_total", l->model, label, l->to);
    bytes_format(l->to, "%lld\n", atomic_load(&one->n_request));
}

static void put_lists(const char *name, const char *help, models all, size_t at, bytes *to)
{
    put_head(name, "counter", help, to);
    for (int i = 0; i < all.n; i++) {
        if (!all.at[i].adapters)
            continue;
        const atomic_llong *x = (const void *)((const char *)all.at[i].adapters + at);
        put_name(name, all.at[i].name, "", to);
        bytes_format(to, "%lld\n", atomic_load(x));
    }
}

static void put_adapters(models all, bytes *to)
{
    put_head("weft_lora_requests_total", "counter", "Requests, by the adapter they named.", to);
    for (int i = 0; i < all.n; i++)
        if (all.at[i].adapters)
            adapters_each(all.at[i].adapters, put_requests, &(adapter_lines){ all.at[i].name, to });
    put_lists("weft_lora_loads_total", "Lists of adapters that were loaded.", all,
              offsetof(adapters, n_load), to);
    put_lists("weft_lora_failed_loads_total",
              "Lists of adapters that were refused; the old ones stayed.", all,
              offsetof(adapters, n_failed), to);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void put_http(const metrics *m, bytes *to)
{
    put_head("weft_http_responses_total", "counter", "Answers, by class of status.", to);
    for (int i = 2; i <= 5; i++)
        bytes_format(to, "weft_http_responses_total{status=\"%dxx\"} %lld\n", i,
                     atomic_load(&m->status[i]));
    put_head("weft_requests", "gauge", "Requests that are not answered in full.", to);
    bytes_format(to, "weft_requests %lld\n", atomic_load(&m->n_request));
    put_head("weft_http_connections", "gauge", "Open connections.", to);
    bytes_format(to, "weft_http_connections %lld\n", atomic_load(&m->n_connection));
    put_head("weft_http_dropped_total", "counter", "Connections that passed a deadline.", to);
    bytes_format(to, "weft_http_dropped_total %lld\n", atomic_load(&m->n_dropped));
    put_head("weft_log_lost_total", "counter", "Lines of the access log that found no room.", to);
    bytes_format(to, "weft_log_lost_total %lld\n", atomic_load(&m->n_log_lost));
    put_head("weft_server_bytes", "gauge", "Memory of requests and answers.", to);
    bytes_format(to, "weft_server_bytes %lld\n", atomic_load(&memory_used));
}

static void put_models(models all, bytes *to)
{
    put_schedulers(all, to);
    put_count("vllm:prompt_tokens_total", "Tokens of prompts.", all,
              offsetof(model_metrics, n_prompt), to);
    put_count("vllm:generation_tokens_total", "Tokens generated.", all,
              offsetof(model_metrics, n_new), to);
    put_count("weft_model_loads_total", "Loads of the model.", all, offsetof(model_metrics, n_load),
              to);
    put_count("weft_model_failed_loads_total", "Loads that failed; the old model stayed.", all,
              offsetof(model_metrics, n_failed_load), to);
    put_finished(all, to);
    put_histogram("vllm:time_to_first_token_seconds", "From the request to its first token.", all,
                  offsetof(model_metrics, first_token), to);
    put_histogram("vllm:inter_token_latency_seconds", "Between two tokens of a text.", all,
                  offsetof(model_metrics, between_tokens), to);
    put_histogram("vllm:e2e_request_latency_seconds", "From the request to its last token.", all,
                  offsetof(model_metrics, whole), to);
    put_histogram("vllm:request_queue_time_seconds", "Before the first forward pass.", all,
                  offsetof(model_metrics, queued), to);
}

void metrics_write(const metrics *m, const metered *at, int n, bool ready, bytes *to)
{
    const models all = { at, n };
    bool adapted = false;
    for (int i = 0; i < n; i++)
        adapted |= at[i].adapters != NULL;
    put_head("weft_ready", "gauge", "1 if requests are taken.", to);
    bytes_format(to, "weft_ready %d\n", ready);
    put_http(m, to);
    put_models(all, to);
    if (adapted)
        put_adapters(all, to);
}

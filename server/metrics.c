/* metrics.c - counters and histograms as text; see metrics.h. */
#include "metrics.h"

#include "wire.h"

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
    atomic_fetch_add(&h->n, 1);
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

static void put(const char *name, const char *type, const char *help, const char *model, double x,
                bytes *to)
{
    put_head(name, type, help, to);
    bytes_format(to, "%s{", name);
    put_label(model, to);
    bytes_format(to, "} %.10g\n", x);
}

static void put_histogram(const char *name, const char *help, const char *model, const histogram *h,
                          bytes *to)
{
    long long n = 0;
    put_head(name, "histogram", help, to);
    for (int i = 0; i <= N_BUCKET; i++) {
        n += atomic_load(&h->bucket[i]);
        bytes_format(to, "%s_bucket{", name);
        put_label(model, to);
        if (i < N_BUCKET)
            bytes_format(to, ",le=\"%g\"} %lld\n", limits[i], n);
        else
            bytes_format(to, ",le=\"+Inf\"} %lld\n", n);
    }
    bytes_format(to, "%s_sum{", name);
    put_label(model, to);
    bytes_format(to, "} %.6f\n%s_count{", (double)atomic_load(&h->microseconds) / 1e6, name);
    put_label(model, to);
    bytes_format(to, "} %lld\n", n);
}

/* Of the scheduler, under vLLM's names. */
static void put_scheduler(const char *model, const weft_scheduler_info *i, bytes *to)
{
    const double used = i->n_page ? (double)i->n_page_used / (double)i->n_page : 0;
    put("vllm:num_requests_running", "gauge", "Requests that generate.", model,
        (double)i->n_running, to);
    put("vllm:num_requests_waiting", "gauge", "Requests that wait.", model, (double)i->n_waiting,
        to);
    put("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use by requests.", model,
        used, to);
    put("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in cached prefixes.",
        model, (double)i->n_queried, to);
    put("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in cached prefixes.", model,
        (double)i->n_reused, to);
    put("vllm:num_preemptions_total", "counter", "Requests that gave their pages back.", model,
        (double)i->n_preempted, to);
    put("weft_steps_total", "counter", "Forward passes.", model, (double)i->n_step, to);
    put("weft_step_seconds_total", "counter", "Time in forward passes.", model, i->step_seconds,
        to);
    put("weft_cache_pages", "gauge", "Pages of the KV cache.", model, (double)i->n_page, to);
    put("weft_cache_pages_idle", "gauge", "Pages that only keep prefixes.", model,
        (double)i->n_page_idle, to);
}

static void put_finished(const metrics *m, const char *model, bytes *to)
{
    static const char *const names[N_OUTCOME] = { "stop", "length", "abort", "error" };
    put_head("vllm:request_success_total", "counter", "Generations that ended, by reason.", to);
    for (int i = 0; i < N_OUTCOME; i++) {
        bytes_text(to, "vllm:request_success_total{");
        put_label(model, to);
        bytes_format(to, ",finished_reason=\"%s\"} %lld\n", names[i], atomic_load(&m->finished[i]));
    }
}

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

void metrics_write(const metrics *m, const char *model, const weft_scheduler_info *info, bool ready,
                   bytes *to)
{
    put_head("weft_ready", "gauge", "1 if requests are taken.", to);
    bytes_format(to, "weft_ready %d\n", ready);
    put_http(m, to);
    if (info)
        put_scheduler(model, info, to);
    put("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", model,
        (double)atomic_load(&m->n_prompt), to);
    put("vllm:generation_tokens_total", "counter", "Tokens generated.", model,
        (double)atomic_load(&m->n_new), to);
    put_finished(m, model, to);
    put_histogram("vllm:time_to_first_token_seconds", "From the request to its first token.", model,
                  &m->first_token, to);
    put_histogram("vllm:inter_token_latency_seconds", "Between two tokens of a text.", model,
                  &m->between_tokens, to);
    put_histogram("vllm:e2e_request_latency_seconds", "From the request to its last token.", model,
                  &m->whole, to);
    put_histogram("vllm:request_queue_time_seconds", "Before the first forward pass.", model,
                  &m->queued, to);
}

/* A name of an adapter needs no escapes. */
static void put_requests(void *ud, const served_adapter *one)
{
    bytes_format(ud, "weft_lora_requests_total{adapter=\"%s\"} %lld\n", one->name,
                 atomic_load(&one->n_request));
}

void metrics_write_adapters(adapters *a, bytes *to)
{
    put_head("weft_lora_requests_total", "counter", "Requests, by the adapter they named.", to);
    adapters_each(a, put_requests, to);
    put_head("weft_lora_loads_total", "counter", "Lists of adapters that were loaded.", to);
    bytes_format(to, "weft_lora_loads_total %lld\n", atomic_load(&a->n_load));
    put_head("weft_lora_failed_loads_total", "counter",
             "Lists of adapters that were refused; the old ones stayed.", to);
    bytes_format(to, "weft_lora_failed_loads_total %lld\n", atomic_load(&a->n_failed));
}

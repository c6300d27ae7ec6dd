/* load_report.c - percentiles of load_report.h, as lines or as JSON. */
#include "load_report.h"

#include "load_file.h"

#include <stdio.h>
#include <stdlib.h>

void list_add(list *l, double x)
{
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 1024;
        l->x = realloc(l->x, l->room * sizeof *l->x);
        if (!l->x)
            abort();
    }
    l->x[l->n++] = x;
}

/* Of a sorted list, in milliseconds. */
static double percentile(const list *l, double p)
{
    return 1e3 * load_percentile(l->x, (int64_t)l->n, p);
}

static void print_list(const char *name, list *l, bool json)
{
    if (l->n > 0)
        qsort(l->x, l->n, sizeof *l->x, load_by_value);
    if (json && l->n > 0)
        printf(",\"%s_ms\":{\"p50\":%.2f,\"p90\":%.2f,\"p99\":%.2f,\"max\":%.2f}", name,
               percentile(l, 0.5), percentile(l, 0.9), percentile(l, 0.99), percentile(l, 1));
    else if (l->n > 0)
        printf("  %-5s p50 %8.1f  p90 %8.1f  p99 %8.1f  max %8.1f ms\n", name, percentile(l, 0.5),
               percentile(l, 0.9), percentile(l, 0.99), percentile(l, 1));
}

static void print_refused(const load_counts *t, bool json)
{
    if (json)
        printf(",\"refused_429\":%lld,\"refused_503\":%lld", (long long)t->n_429,
               (long long)t->n_503);
    else if (t->n_429 + t->n_503 > 0)
        printf("  refused: %lld with 429, %lld with 503\n", (long long)t->n_429,
               (long long)t->n_503);
}

void print_tally(const char *name, load_counts *t, int64_t n_stream, double took, bool json)
{
    if (json)
        printf(
            "{\"loop\":\"%s\",\"streams\":%lld,\"requests\":%lld,\"failed\":%lld,\"seconds\":%.3f,"
            "\"tokens\":%lld,\"tokens_per_second\":%.2f,\"prompt_tokens\":%lld",
            name, (long long)n_stream, (long long)t->n_request, (long long)t->n_failed, took,
            (long long)t->n_token, (double)t->n_token / took, (long long)t->n_prompt);
    else
        printf(
            "%s: %lld requests, %lld failed, in %.1f s: %.1f tokens/s generated, %.1f of prompts\n",
            name, (long long)t->n_request, (long long)t->n_failed, took, (double)t->n_token / took,
            (double)t->n_prompt / took);
    print_refused(t, json);
    print_list("ttft", &t->ttft, json);
    print_list("tpot", &t->tpot, json);
    print_list("gap", &t->gap, json);
    if (json)
        printf("}\n");
    if (*t->error)
        fprintf(stderr, "load: %s\n", t->error);
    free(t->ttft.x);
    free(t->tpot.x);
    free(t->gap.x);
}

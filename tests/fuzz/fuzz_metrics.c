/* fuzz_metrics.c - bytes as a run's metrics, and the report made from them. */
#include "explain/report.h"
#include "hostile.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    abort();
}

/* The page contains only its own tags, and no NaN. */
static void check_page(const buffer *b)
{
    static const char *const never[] = { "<script", "nan", "inf", "<p><", "javascript:" };
    char *text = malloc(b->n + 1);
    if (!text)
        return;
    memcpy(text, b->at, b->n);
    text[b->n] = '\0';
    char *samples = strstr(text, "<h2>Samples");
    if (samples)
        *samples = '\0'; /* a model may generate any word */
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(text, never[i]))
            stop(never[i]);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    host h = { .io = io_system };
    metrics m;
    buffer b;
    weft_error err = { 0 };
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    mem_init(&h.mem, (size_t)64 << 20, NULL);
    if (metrics_parse(&m, data, size, "input", &h, &err) == WEFT_OK) {
        buffer_begin(&b, &h.mem, &err);
        if (m.n > 0)
            report_html(&(report_facts){ .title = "title" }, &m, &b);
        if (m.n > 0 && !b.failed)
            check_page(&b);
        buffer_end(&b);
        metrics_free(&m);
    } else if (!err.message[0]) {
        stop("an error without a message");
    }
    if (atomic_load(&h.mem.used) != 0)
        stop("memory is left");
    return 0;
}

/* fuzz_load.c - bytes as a trace of requests, and as a record of steps. */
#include "load_file.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Declared as in hostile.h, whose `rows` conflicts with the program's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_requests(const load_trace *t)
{
    must(t->n > 0);
    for (int64_t i = 0; i < t->n; i++) {
        const weft_load_request *q = &t->at[i];
        must(isfinite(q->at) && q->at >= 0 && (i == 0 || q->at >= q[-1].at));
        must(q->n_new >= 1 && q->n_part >= 1 && (!q->key || q->key[0]));
        for (int k = 0; k < q->n_part; k++)
            must(q->part[k].n >= 1);
    }
}

/* What was read can be written and read again: as many requests, as many parts. */
static void write_again(const load_trace *t, const char *path, int fd)
{
    weft_error err;
    load_trace again;
    FILE *to = fopen(path, "we");
    must(to && ftruncate(fd, 0) == 0);
    must(load_trace_write(t, to) && fclose(to) == 0);
    must(load_trace_read(&again, path, &err) == WEFT_OK);
    must(again.n == t->n && again.n_part == t->n_part && again.n_key == t->n_key);
    load_trace_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    weft_error err;
    load_trace t;
    step_record r = { 0 };
    if (fd < 0)
        fd = memfd_create("load", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (step_record_read(&r, path, &err) == WEFT_OK)
        for (int64_t i = 0; i < r.n; i++)
            must(isfinite(r.step[i].seconds) && r.step[i].seconds >= 0 && r.step[i].n_row >= 0);
    else
        must(err.message[0]);
    step_record_free(&r);
    if (load_trace_read(&t, path, &err) == WEFT_OK) {
        check_requests(&t);
        write_again(&t, path, fd);
        load_trace_free(&t);
    } else {
        must(err.message[0]);
    }
    return 0;
}

/* fuzz_resume.c - bytes as the metrics.jsonl of a resumed run: only lines up to the checkpoint's
 * step are kept. */
#include "train/metrics_log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* In two parts, as when reading a file. */
static uint64_t kept_of(const uint8_t *data, size_t size, size_t cut, int64_t step)
{
    line_scan s = { .limit = step, .step = -1 };
    if (line_scan_add(&s, data, cut))
        line_scan_add(&s, data + cut, size - cut);
    return s.kept;
}

/* The result is whole lines, each with its step; a second pass keeps them all; more steps keep no
 * less; the cut between reads does not matter. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const int64_t step = data[0] < 200 ? data[0] : INT64_MAX - data[0];
    const size_t cut = data[0] % size;
    data++, size--;
    const uint64_t kept = kept_of(data, size, cut, step);
    must(kept <= size);
    must(kept == 0 || data[kept - 1] == '\n');
    must(kept_of(data, size, 0, step) == kept);
    for (uint64_t at = 0; at < kept;) {
        const uint8_t *end = memchr(data + at, '\n', (size_t)(kept - at));
        must(end && kept - at > 8 && memcmp(data + at, "{\"step\":", 8) == 0);
        must(data[at + 8] >= '0' && data[at + 8] <= '9');
        must(strtoll((const char *)data + at + 8, NULL, 10) <= step); /* a line end follows */
        at = (uint64_t)(end - data) + 1;
    }
    must(kept == 0 || kept_of(data, (size_t)kept, 0, step) == kept);
    must(step == INT64_MAX || kept_of(data, size, cut, step + 1) >= kept);
    return 0;
}

/* fuzz_resume.c - bytes as the metrics.jsonl of a run that is resumed: of its lines those stay that
 * begin with a step up to the checkpoint's. */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static long kept_of(const uint8_t *data, size_t size, int64_t step)
{
    FILE *f = fmemopen((void *)data, size, "r");
    if (!f)
        return 0;
    const long kept = metrics_kept(f, step);
    fclose(f);
    return kept;
}

/* Whole lines, each with its step; once more they are all kept; and more steps keep no less. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const int64_t step = data[0] < 200 ? data[0] : INT64_MAX - data[0];
    data++, size--;
    const long kept = kept_of(data, size, step);
    must(kept >= 0 && (size_t)kept <= size);
    must(kept == 0 || data[kept - 1] == '\n');
    for (long at = 0; at < kept;) {
        const uint8_t *end = memchr(data + at, '\n', (size_t)(kept - at));
        must(end && kept - at > 8 && memcmp(data + at, "{\"step\":", 8) == 0);
        must(data[at + 8] >= '0' && data[at + 8] <= '9');
        must(strtoll((const char *)data + at + 8, NULL, 10) <= step); /* a line end follows */
        at = end - data + 1;
    }
    must(kept == 0 || kept_of(data, (size_t)kept, step) == kept);
    must(step == INT64_MAX || kept_of(data, size, step + 1) >= kept);
    return 0;
}

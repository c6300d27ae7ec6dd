/* memory.c - what the program itself takes, under the same cap as what the library takes for it. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

size_t cli_ram_max;

/* Why the last request was refused. */
static weft_error refused = { WEFT_ENOMEM, "out of memory" };

weft_error cli_refusal(void)
{
    return refused;
}

int cli_no_memory(void)
{
    return cli_fail(&refused);
}

static size_t cap; /* 0: none */

/* Without --ram-max the limit is that of the container, so that the user gets an error message
 * before the kernel kills the process. */
void cli_cap_memory(void)
{
    cap = cli_ram_max > 0 ? cli_ram_max : weft_memory_limit();
}

/* Made when it is first needed. */
weft_budget *cli_budget(void)
{
    static weft_budget *budget;
    weft_error err;
    if (!budget && cap > 0 && !(budget = weft_budget_new(cap, &err)))
        exit(cli_fail(&err));
    return budget;
}

/* Before each block: how many bytes of it the budget knows, which is none of those that were taken
 * before there was a cap. */
typedef union header {
    size_t counted;
    max_align_t align;
} header;

void *cli_grow(void *block, size_t size, const char *what)
{
    const bool capped = cli_budget() != NULL;
    const size_t whole = size + sizeof(header);
    header *old = block ? (header *)block - 1 : NULL;
    const size_t before = old ? old->counted : 0;
    if (whole < size) {
        refused = (weft_error){ WEFT_ENOMEM, "out of memory" };
        return NULL;
    }
    if (weft_budget_take(cli_budget(), whole, what, &refused) != WEFT_OK)
        return NULL;
    header *grown = realloc(old, whole); /* both are there until it is copied */
    if (!grown) {
        refused = (weft_error){ WEFT_ENOMEM, "out of memory" };
        weft_budget_give(cli_budget(), whole);
        return NULL;
    }
    weft_budget_give(cli_budget(), before);
    grown->counted = capped ? whole : 0;
    return grown + 1;
}

void *cli_alloc(size_t n, size_t size, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        bytes = SIZE_MAX;
    return cli_grow(NULL, bytes, what);
}

void *cli_zalloc(size_t n, size_t size, const char *what)
{
    void *block = cli_alloc(n, size, what);
    return block ? memset(block, 0, n * size) : NULL;
}

void cli_free(void *block)
{
    header *h = block ? (header *)block - 1 : NULL;
    if (!h)
        return;
    weft_budget_give(cli_budget(), h->counted);
    free(h);
}

size_t cli_peak_memory(void)
{
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? (size_t)used.ru_maxrss * 1024 : 0;
}

/* fuzz_manifest.c - bytes as a checkpoint's manifest: as they are, and with a correct checksum,
 * which an attacker can compute too. */
#include "formats/manifest.h"
#include "hostile.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL 32 /* the checksum line and the bracket */

static void stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    abort();
}

/* An accepted manifest can be written and read again. */
static void again(const manifest *m, host *h)
{
    buffer b;
    manifest n;
    weft_error err = { 0 };
    buffer_begin(&b, &h->mem, &err);
    manifest_text(m, &b);
    if (manifest_parse(&n, b.at, b.n, "again", h, &err) != WEFT_OK)
        stop(err.message);
    if (n.n_file != m->n_file || n.n_block != m->n_block || strcmp(n.options, m->options) != 0 ||
        memcmp(&n.counters, &m->counters, sizeof n.counters) != 0)
        stop("another manifest was read than was written");
    manifest_free(&n);
    buffer_end(&b);
}

static void parse(const uint8_t *data, size_t size)
{
    host h = { .io = io_system };
    manifest m;
    weft_error err = { 0 };
    mem_init(&h.mem, (size_t)64 << 20, NULL);
    const weft_status status = manifest_parse(&m, data, size, "input", &h, &err);
    if (status == WEFT_OK) {
        again(&m, &h);
        manifest_free(&m);
    } else if (!err.message[0]) {
        stop("an error without a message");
    }
    if (atomic_load(&h.mem.used) != 0)
        stop("memory is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    parse(data, size);
    if (size < TAIL)
        return 0;
    char tail[TAIL + 1];
    uint8_t *mended = malloc(size);
    if (!mended)
        return 0;
    memcpy(mended, data, size);
    snprintf(tail, sizeof tail, "  \"xxh64\": \"%016" PRIx64 "\"\n}\n",
             xxh64_of(data, size - TAIL));
    memcpy(mended + size - TAIL, tail, TAIL);
    parse(mended, size);
    free(mended);
    return 0;
}

/* fake.c - a module as comm_mpi.c is one, for test_comm_load: it has FAKE_RANKS ranks, and with
 * FAKE_VERSION it was made for another comm.h. */
#include "base/comm.h"

#include <stdio.h>
#include <stdlib.h>

static comm fake;

static void close_fake(comm *c)
{
    c->size = 0;
}

__attribute__((visibility("default"))) comm_open_fn weft_comm_open;

weft_status weft_comm_open(int version, comm **to, weft_error *err)
{
    const char *ranks = getenv("FAKE_RANKS"), *other = getenv("FAKE_VERSION");
    *to = NULL;
    if (version != (other ? atoi(other) : COMM_VERSION)) {
        err->code = WEFT_EUNSUPPORTED;
        snprintf(err->message, sizeof err->message, "version %s", other);
        return err->code;
    }
    fake = (comm){ .size = ranks ? atoi(ranks) : 1, .name = "fake", .close = close_fake };
    *to = &fake;
    return WEFT_OK;
}

/* clock.c - the time, for deadlines and metrics. */
#include "server.h"

#include <time.h>

double server_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#include "text/hash.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static hash_secret secret;

/* A system that gives no random numbers (no such call, a filter) leaves what differs from run to
 * run: the time, and where the system put us. */
static void draw(void)
{
    struct timespec now = { 0 };
    if (getentropy(&secret, sizeof secret) != 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        secret.a = hash_mix((uint64_t)now.tv_nsec, (uint64_t)(uintptr_t)&now);
        secret.b = hash_mix((uint64_t)now.tv_sec, (uint64_t)(uintptr_t)&secret);
    }
    secret.b |= 1; /* a product with it loses nothing */
}

hash_secret hash_secret_draw(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw);
    return secret;
}

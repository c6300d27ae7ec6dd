/* hash.c - the per-process secret that keys the hash tables of tokenizers. */
#include "text/hash.h"

#include "base/rng.h"

#include <pthread.h>

static hash_secret secret;

static void draw(void)
{
    secret = (hash_secret){ rng_entropy(), rng_entropy() | 1 }; /* an odd factor loses no bits */
}

hash_secret hash_secret_draw(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw);
    return secret;
}

/* cores.h - whose turn it is to compute, where several models are served.
 *
 * Each model's worker computes with all threads. Two at a time would only get in each other's way, so one of
 * them has the cores, for a forward pass at a time, and a model that is alone has them all the time. Among those that
 * want them, the one goes first that has had the least time for its weight (start-time fair queuing: Goyal, Vin,
 * Cheng, 1996). A model that was idle begins where the others are: it has saved up nothing.
 *
 *     cores_take; { compute; cores_pass } ...; cores_give; sleep */
#ifndef WEFT_SERVER_CORES_H
#define WEFT_SERVER_CORES_H

#include <pthread.h>
#include <stdbool.h>

/* What one worker has had. */
typedef struct cores_share {
    double weight; /* > 0 */
    double used;   /* seconds / weight; what an idle time was worth is added */
    bool turn;     /* it has been given the cores */
    pthread_cond_t given;
    struct cores_share *next; /* of those that wait */
} cores_share;

typedef struct cores {
    pthread_mutex_t lock;
    bool taken;
    cores_share *waiting;
    double clock; /* `used` of the last one that began */
} cores;

bool cores_init(cores *c);
void cores_free(cores *c);
bool cores_share_init(cores_share *s, double weight);
void cores_share_free(cores_share *s);

/* Waits for the cores. */
void cores_take(cores *c, cores_share *s);

/* After so many seconds of computing, with more to do: somebody else may be next, then this waits. */
void cores_pass(cores *c, cores_share *s, double seconds);

/* After so many seconds, with nothing more to do. */
void cores_give(cores *c, cores_share *s, double seconds);

#endif

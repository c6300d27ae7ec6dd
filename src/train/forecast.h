/* forecast.h - how long a step takes on R ranks, from what one rank and its network do in a second.
 *
 *     rank     part  part  part ........... | wait | norm, AdamW | values
 *                          last backward
 *     network                  bucket bucket bucket               bucket bucket bucket
 *                              hidden        exposed              exposed
 *
 * Buckets leave as reduce.h says: in their order, N_FLIGHT at once, each as soon as all its gradients are
 * there. They share one line out of each rank, which sends and receives at the same time, so that they
 * arrive one after the other; ranks do not get into each other's way. A bucket's messages take their
 * latency one after the other.
 *
 * Not in it: evaluation, checkpoints, ranks that are slower than others. */
#ifndef WEFT_TRAIN_FORECAST_H
#define WEFT_TRAIN_FORECAST_H

#include "train/reduce.h"

typedef struct forecast_pace {
    double part;      /* seconds of forward and backward of a part */
    double update;    /* seconds a float of the norm and AdamW */
    double bandwidth; /* bytes a second out of a rank, while as many come in */
    double latency;   /* seconds from one rank to another, of an empty message */
} forecast_pace;

typedef struct forecast_run {
    const reduce_options
        *reduce;    /* its ranks have a comm with rank and size, whose functions are not
                                     called; not fast */
    int64_t n;      /* floats in the flat block */
    int64_t n_part; /* of this rank in a step, ... */
    int n_group;    /* ... in so many groups */

    /* The last backward, if it is known: when each bucket was complete and when all of it was, in
     * seconds since any moment before. NULL: two thirds of a part, evenly spread over the buckets. */
    const double *ready; /* [bucket] */
    double end;
} forecast_run;

typedef struct forecast {
    double compute;         /* seconds of parts, sums and AdamW */
    double hidden, exposed; /* seconds of exchanging, during the last backward and besides */
    double seconds;         /* of the step: compute and exposed */
    uint64_t sent;          /* bytes by this rank */
} forecast;

forecast forecast_step(const forecast_run *r, const forecast_pace *p);

#endif

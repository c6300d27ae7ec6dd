/* loop_comm.h - ranks that are threads of one process: a comm whose messages are copies in memory. */
#ifndef WEFT_LOOP_COMM_H
#define WEFT_LOOP_COMM_H

#include "base/comm.h"

typedef struct loop loop;

loop *loop_new(int size);
comm *loop_rank(loop *l, int rank);
void loop_free(loop *l);

/* From now on, each poll of a transfer says k times that it is not over, so that messages overtake
 * each other as they do between machines. */
void loop_delay(loop *l, int k);

/* From its first message with this tag on (-1: any tag), this rank's messages stay where they are: it
 * looks as if it were stopped. */
void loop_mute(loop *l, int rank, int tag);

/* From now on, messages with this tag from ranks a and b to the others change their places: each has
 * the other's sender. */
void loop_cross(loop *l, int a, int b, int tag);

/* Runs `fn` once for each rank, on a thread of its own; ud[rank * each] is its argument. */
typedef void loop_fn(comm *c, void *ud);
void loop_run(loop *l, loop_fn *fn, void *ud, size_t each);

#endif

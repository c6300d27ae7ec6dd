/* train_ranks.c - joins the job once in a process, and leaves it when the process ends: MPI can be
 * begun only once. */
#include "api/train_ranks.h"

#include "dist/load.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static comm *job;
static bool joined;

static void leave_job(void)
{
    if (job)
        job->close(job);
}

static weft_status join_job(comm **to, const char *which, weft_error *err)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    if (!joined) {
        status = comm_load(&job, which, err);
        joined = status == WEFT_OK;
        if (job)
            atexit(leave_job);
    }
    *to = job;
    pthread_mutex_unlock(&lock);
    return status;
}

weft_status train_job_begin(train_job *j, weft_train_options *o, weft_error *err)
{
    *j = (train_job){ .log = { o->log, o->log_ud } };
    const weft_status status = join_job(&j->ranks.comm, o->mpi, err);
    j->ranks.limit = o->rank_limit > 0 ? o->rank_limit : FIRST_LIMIT;
    j->ranks.follows = o->rank_limit <= 0;
    if (status != WEFT_OK || n_rank(&j->ranks) == 1)
        return status;
    if (n_rank(&j->ranks) > MAX_RANK)
        return weft_fail(err, WEFT_EINVAL, "%d ranks; expected a power of two up to %d",
                         n_rank(&j->ranks), MAX_RANK);
    if (o->tensor)
        return weft_fail(err, WEFT_EINVAL,
                         "%d ranks, and each has the moments of a part of the weights; tensors are "
                         "shown by a run of one",
                         n_rank(&j->ranks));
    if (rank_of(&j->ranks) > 0)
        o->log = NULL;
    return WEFT_OK;
}

weft_status train_job_start(train_job *j, weft_status status, bool *made, char *checkpoint,
                            size_t size, weft_error *err)
{
    struct {
        weft_status status;
        int made;
    } start = { status, *made };
    weft_status told = ranks_tell(&j->ranks, &start, sizeof start, true, err);
    if (told == WEFT_OK)
        told = ranks_tell(&j->ranks, checkpoint, size, false, err);
    *made = start.made;
    if (told != WEFT_OK || start.status == WEFT_OK || rank_of(&j->ranks) == 0)
        return told;
    return weft_fail(err, start.status, "rank 0 could not begin the run");
}

static void say(const train_job *j, const weft_error *err)
{
    log_write(&j->log, WEFT_LOG_WARN, "rank %d of %d: %s", rank_of(&j->ranks), n_rank(&j->ranks),
              err->message);
}

/* One rank may read its data for longer than a step takes. */
static weft_status share_status(train_job *j, weft_status *all, weft_error *err)
{
    const double limit = j->ranks.limit;
    j->ranks.limit = fmax(limit, FIRST_LIMIT);
    const weft_status status = ranks_share(&j->ranks, all, sizeof *all, err);
    j->ranks.limit = limit;
    return status;
}

weft_status train_job_agree(train_job *j, weft_status status, weft_error *err)
{
    const int R = n_rank(&j->ranks), rank = rank_of(&j->ranks);
    weft_status all[MAX_RANK] = { WEFT_OK };
    weft_error lost = { 0 };
    int first = 0;
    if (R == 1)
        return status;
    all[rank] = status;
    const weft_status shared = share_status(j, all, &lost);
    if (shared != WEFT_OK)
        return weft_fail(err, shared, "%s", lost.message);
    while (first < R && all[first] == WEFT_OK)
        first++;
    j->over = first < R;
    if (rank > 0 && rank == first)
        say(j, err);
    if (first == R || status != WEFT_OK)
        return status;
    return weft_fail(err, all[first], "rank %d of %d could not begin the run", first, R);
}

void train_job_end(train_job *j, weft_status status, const weft_error *err)
{
    if (status == WEFT_OK || n_rank(&j->ranks) == 1 || j->over)
        return;
    say(j, err);
    j->ranks.comm->stop(j->ranks.comm, status == WEFT_EIO ? EX_TEMPFAIL : EXIT_FAILURE);
}

/* pace.c - a learner with weights and tokens made up, and a clock. */
#include "train/pace.h"

#include "base/clock.h"

/* The first touches memory for the first time; of the others the fastest counts. There is one of them if
 * it takes long. */
#define TRIALS 4
#define LONG   10 /* seconds */

void pace_make_up(params *p)
{
    for (int64_t k = 0; k < p->n; k++)
        p->value[k] = (real)0.002 * (real)((uint32_t)k * 2654435761U >> 28) - (real)0.015;
    params_round(p, 0, p->n);
}

/* One row in seven is masked, and predicted, where that is what a model learns. */
#define MASKED 7

static void make_up_tokens(batch *b, int64_t n_vocab, bool masks)
{
    b->n_wanted = masks ? (b->n_row + MASKED - 1) / MASKED : b->n_row;
    for (int64_t i = 0; i < b->n_row; i++) {
        const uint32_t any = (uint32_t)i * 2654435761U >> 8;
        b->row[i].id = (int32_t)(any % (uint64_t)n_vocab);
        b->row[i].target = (int32_t)((any >> 3) % (uint64_t)n_vocab);
        b->row[i].wanted = !masks || i % MASKED == 0;
    }
}

static double seconds_of_update(learner *l)
{
    const double began = clock_seconds();
    learner_update(l, 1e-6);
    return clock_seconds() - began;
}

weft_status pace_measure(pace *to, model *m, const learner_options *o, batch *b,
                         weft_wait_fn *waiting, void *ud, weft_error *err)
{
    learner l;
    *to = (pace){ 0 };
    weft_status status = learner_init(&l, m, o, b, err);
    if (status != WEFT_OK)
        return status;
    pace_make_up(&l.params);
    make_up_tokens(b, m->n_vocab, m->task == WEFT_TASK_FILL);
    if (b->src)
        make_up_tokens((batch *)b->src, m->n_vocab_src, false);
    double part = INFINITY, update = INFINITY;
    bool goes_on = true;
    const double first = clock_seconds();
    for (int i = 0; i < TRIALS && goes_on && status == WEFT_OK; i++) {
        if (i > 1 && clock_seconds() - first > LONG)
            break;
        const double began = clock_seconds();
        status = learner_begin(&l, err);
        if (status == WEFT_OK)
            learner_backward(&l, b);
        const double took = clock_seconds() - began, more = seconds_of_update(&l);
        part = i > 0 ? fmin(part, took) : part;
        update = i > 0 ? fmin(update, more) : update;
        goes_on = !waiting || waiting(ud);
    }
    if (goes_on)
        *to = (pace){ part / b->n_seq, update / (double)l.params.n };
    learner_free(&l);
    return status;
}

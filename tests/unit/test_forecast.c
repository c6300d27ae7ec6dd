/* The time of a step in several ranks, against times worked out by hand. Four buckets of two chunks; of
 * each, rank 0 of 2 sends one chunk, and owns the other. */
#include "support.h"

#include "train/forecast.h"
#include "train/trainer.h"

#define N_BUCKET 4
#define CHUNK    ((double)PARAM_CHUNK * sizeof(real)) /* bytes: they take a second */
#define LATENCY  0.01
#define EACH     (1 + LATENCY) /* seconds of a bucket in the line */

typedef struct asked {
    int R, n_group;
    double part, update, bandwidth;
    const double *ready;
    double end;
} asked;

static forecast ask(const asked *a)
{
    comm job = { .size = a->R };
    ranks all = { .comm = a->R > 1 ? &job : NULL };
    const reduce_options o = { .ranks = &all, .bucket_chunks = 2 };
    const forecast_run r = { .reduce = &o,
                             .n = (int64_t)N_BUCKET * 2 * PARAM_CHUNK,
                             .n_part = 3,
                             .n_group = a->n_group,
                             .ready = a->ready,
                             .end = a->end };
    const forecast_pace p = { a->part, a->update, a->bandwidth > 0 ? a->bandwidth : CHUNK,
                              LATENCY };
    return forecast_step(&r, &p);
}

/* Small messages: the sums of a group, of four chunks, and whether to go on. */
static double share_seconds(double bandwidth)
{
    return (double)(sizeof(sample_sums) + 4 * sizeof(double)) / bandwidth + 3 * LATENCY;
}

static void near(double x, double expected)
{
    assert_that(fabs(x - expected) < 1e-9 * (1 + fabs(expected)), "%.12g, expected %.12g", x,
                expected);
}

static void alone(void **state)
{
    (void)state;
    const double update = 1e-6 * N_BUCKET * 2 * PARAM_CHUNK;
    const forecast f = ask(&(asked){ .R = 1, .n_group = 4, .part = 2, .update = 1e-6 });
    near(f.compute, 3 * 2 + 3 * update * 3 / 8 + update);
    near(f.seconds, f.compute);
    assert_true(f.hidden == 0 && f.exposed == 0 && f.sent == 0);
}

/* Nothing is hidden where there is no backward: all buckets wait for the line, twice. */
static void nothing_is_hidden(void **state)
{
    (void)state;
    static const double at_once[N_BUCKET];
    const forecast f = ask(&(asked){ .R = 2, .n_group = 1, .part = 1, .ready = at_once });
    near(f.hidden, 0);
    near(f.exposed, 2 * N_BUCKET * EACH + share_seconds(CHUNK));
    near(f.compute, 3);
    near(f.seconds, f.compute + f.exposed);
    assert_int_equal(f.sent,
                     2 * N_BUCKET * (uint64_t)CHUNK + sizeof(sample_sums) + 4 * sizeof(double));
}

static void all_gradients_are_hidden(void **state)
{
    (void)state;
    static const double at_once[N_BUCKET];
    const forecast f = ask(&(asked){ .R = 2, .n_group = 1, .ready = at_once, .end = 100 });
    near(f.hidden, N_BUCKET * EACH);
    near(f.exposed, N_BUCKET * EACH + share_seconds(CHUNK));
}

/* Buckets 3 and 2 meet in the line, 1 travels alone, and 0 is complete at the end. */
static void the_last_bucket_is_seen(void **state)
{
    (void)state;
    static const double ready[N_BUCKET] = { 10, 5, 0.5, 0 };
    const forecast f = ask(&(asked){ .R = 2, .n_group = 1, .ready = ready, .end = 10 });
    near(f.hidden, 3 * EACH);
    near(f.exposed, EACH + N_BUCKET * EACH + share_seconds(CHUNK));
}

/* Adding a slice takes three seconds, and only two buckets are under way at once: bucket 1 leaves when
 * 3 has been added, and 0 when 2 has. */
static void two_flights(void **state)
{
    (void)state;
    static const double at_once[N_BUCKET];
    const double sum = 3, update = 8.0 / 3 * sum / PARAM_CHUNK;
    const forecast f = ask(&(asked){ .R = 2, .n_group = 1, .update = update, .ready = at_once });
    const double third = EACH + sum, second = 2 * EACH + sum, first = third + EACH + sum;
    const double over = fmax(second, third + EACH) + EACH + sum;
    assert_true(over > first);
    near(f.exposed, over + N_BUCKET * EACH + share_seconds(CHUNK));
    near(f.compute, update * N_BUCKET * 2 * PARAM_CHUNK / 2);
}

/* Where it is not known, backward is two thirds of a part, and completes buckets evenly. */
static void buckets_are_spread(void **state)
{
    (void)state;
    const double fast = 10 * CHUNK, each = 0.1 + LATENCY;
    const forecast f = ask(&(asked){ .R = 2, .n_group = 1, .part = 3, .bandwidth = fast });
    near(f.hidden, 3 * each);
    near(f.exposed, each + N_BUCKET * each + share_seconds(fast));
}

/* More ranks: a bucket's two chunks cannot be cut into eight, so that buckets have a chunk for each; a
 * rank sends seven of them, one message after the other, and adds seven to its own. */
static void eight_ranks(void **state)
{
    (void)state;
    static const double at_once[1];
    const forecast f = ask(&(asked){ .R = 8, .n_group = 2, .ready = at_once });
    const double small = 7 * (2 * sizeof(sample_sums) + sizeof(double));
    near(f.exposed, 2 * (7 + 7 * LATENCY) + small / CHUNK + 3 * 7 * LATENCY);
    assert_int_equal(f.sent, 14 * (uint64_t)CHUNK + (uint64_t)small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("forecast: one rank computes, and exchanges nothing", alone),
        TEST("forecast: all waits for the line where there is no backward", nothing_is_hidden),
        TEST("forecast: a long backward hides all gradients", all_gradients_are_hidden),
        TEST("forecast: the bucket that is complete last is seen", the_last_bucket_is_seen),
        TEST("forecast: two buckets are under way at once", two_flights),
        TEST("forecast: buckets are spread over backward", buckets_are_spread),
        TEST("forecast: eight ranks", eight_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

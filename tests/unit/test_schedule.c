/* schedule.c and step_cost.c on states that are made up: who starts, who gives pages back, who gets
 * rows; and a simulator with a clock of its own, in which keys are served fairly and nobody starves. */
#include "base/rng.h"
#include "engine/fair_keys.h"
#include "engine/schedule.h"
#include "engine/session.h"
#include "support.h"

#include <math.h>

#define MOST 256

typedef struct board {
    schedule_entry entry[MOST];
    double served[8];
    step_cost cost;
    schedule_state state;
} board;

static board *new_board(void)
{
    board *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->state = (schedule_state){ .entry = b->entry,
                                 .served = b->served,
                                 .n_available = 1000,
                                 .n_seat = 16,
                                 .n_batch = 256,
                                 .seconds = 0.2,
                                 .cost = &b->cost };
    return b;
}

static schedule_entry *add(board *b, schedule_entry e)
{
    e.order = e.order ? e.order : (uint64_t)b->state.n + 1;
    if (e.runs) {
        e.n_page = pages_for(e.length);
        e.n_own = e.n_page;
    }
    e.claim = e.claim ? e.claim : pages_for(e.length + e.left + CLAIM_ROWS);
    b->entry[b->state.n] = e;
    return &b->entry[b->state.n++];
}

static schedule_entry *waiting(board *b, int key, int64_t left)
{
    return add(b, (schedule_entry){ .key = key, .left = left, .charge = left });
}

static schedule_entry *running(board *b, int64_t length, int64_t left)
{
    return add(b, (schedule_entry){ .runs = true, .length = length, .left = left });
}

static int64_t rows_of(const board *b)
{
    int64_t n = 0;
    for (int i = 0; i < b->state.n; i++)
        n += b->entry[i].take;
    return n;
}

/* A machine on which a forward takes 10 ms and 1 ms for each row. */
static void know_cost(step_cost *c)
{
    for (int round = 0; round < 4; round++)
        for (int64_t r = 1; r <= 256; r *= 2)
            step_cost_learn(c, &(step_shape){ .n_row = r }, 0.010 + 0.001 * (double)r);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void prompts_within_the_time(void **state)
{
    (void)state;
    board *b = new_board();
    const schedule_entry *g[4], *p;
    for (int i = 0; i < 4; i++)
        g[i] = running(b, 100 + i, 1);
    p = running(b, 64, 4000);
    schedule_step(&b->state);
    for (int i = 0; i < 4; i++)
        assert_int_equal(g[i]->take, 1);
    assert_int_equal(p->take, LEAST_PROMPT_ROWS); /* nothing is known of the machine */
    know_cost(&b->cost);
    schedule_step(&b->state);
    for (int i = 0; i < 4; i++)
        assert_int_equal(g[i]->take, 1);
    assert_true(b->served[0] ==
                2 * 4 * NEW_TOKEN_CHARGE);  /* of both steps; prompts are at starts */
    assert_in_range(4 + p->take, 185, 195); /* 10 ms + 190 rows */
    assert_int_equal(b->state.shape.n_row, 4 + p->take);
    b->state.seconds = 0.005;
    schedule_step(&b->state);
    assert_int_equal(p->take, LEAST_PROMPT_ROWS);
    free(b);
}

static void whole_batches_without_generation(void **state)
{
    (void)state;
    board *b = new_board();
    know_cost(&b->cost);
    b->state.seconds = 0.001;
    running(b, 0, 4000);
    schedule_step(&b->state);
    assert_int_equal(b->entry[0].take, 256);
    free(b);
}

static void oldest_and_shortest(void **state)
{
    (void)state;
    board *b = new_board();
    const schedule_entry *oldest = running(b, 0, 4000), *middle = running(b, 0, 3000),
                         *shortest = running(b, 0, 200), *other = running(b, 0, 500);
    schedule_step(&b->state);
    assert_int_equal(shortest->take, 128);
    assert_int_equal(oldest->take, 128);
    assert_int_equal(middle->take, 0);
    assert_int_equal(other->take, 0);
    b->entry[2].left = 20; /* what the shortest does not need is the oldest's */
    schedule_step(&b->state);
    assert_int_equal(shortest->take, 20);
    assert_int_equal(oldest->take, 236);
    b->entry[0].left = 100; /* and then that of the next */
    schedule_step(&b->state);
    assert_int_equal(oldest->take, 100);
    assert_int_equal(middle->take, 136);
    assert_int_equal(other->take, 0);
    free(b);
}

/* Rows of a prompt stop where the pages do. */
static void rows_have_pages(void **state)
{
    (void)state;
    board *b = new_board();
    know_cost(&b->cost);
    running(b, 70, 4000); /* two pages, 58 rows free */
    b->state.n_available = 2;
    schedule_step(&b->state);
    assert_int_equal(b->entry[0].take, 58 + 2 * PAGE_ROWS);
    b->state.n_available = 1;
    const schedule_entry *second = running(b, 64, 1);
    schedule_step(&b->state);
    assert_int_equal(second->take, 1);
    assert_int_equal(b->entry[0].take, 58);
    free(b);
}

/* ---- starts ---------------------------------------------------------------------------------- */

static void least_served_first(void **state)
{
    (void)state;
    board *b = new_board();
    b->state.n_seat = 2;
    b->served[0] = 100;
    b->served[1] = 50;
    const schedule_entry *a = waiting(b, 0, 10), *c = waiting(b, 1, 60), *d = waiting(b, 1, 10);
    schedule_step(&b->state);
    assert_int_equal(c->move, SCHEDULE_START); /* and then key 1 has 110 */
    assert_int_equal(a->move, SCHEDULE_START);
    assert_int_equal(d->move, SCHEDULE_STAY);
    assert_true(b->served[1] == 110 && b->served[0] == 110);
    assert_int_equal(c->take, 60);
    free(b);
}

static void priority_within_a_key(void **state)
{
    (void)state;
    board *b = new_board();
    b->state.n_seat = 1;
    b->served[1] = 5;
    const schedule_entry *a = waiting(b, 0, 10);
    schedule_entry *urgent = waiting(b, 0, 10), *other = waiting(b, 1, 10);
    urgent->priority = 1;
    other->priority = 9; /* of another key, which was served more */
    schedule_step(&b->state);
    assert_int_equal(urgent->move, SCHEDULE_START);
    assert_int_equal(a->move, SCHEDULE_STAY);
    assert_int_equal(other->move, SCHEDULE_STAY);
    free(b);
}

static void starts_need_pages(void **state)
{
    (void)state;
    board *b = new_board();
    b->state.n_available = 20;
    running(b, 640, 1); /* may still claim 5: rows 641 to 897 */
    b->entry[0].claim = 15;
    schedule_entry *large = waiting(b, 0, 1024), *small = waiting(b, 0, 10);
    large->claim = 16;
    schedule_step(&b->state);
    assert_int_equal(large->move, SCHEDULE_STAY); /* 15 are left */
    assert_int_equal(small->move, SCHEDULE_STAY); /* or the large would starve */
    large->n_found = 4;                           /* a prefix that others hold costs nothing */
    schedule_step(&b->state);
    assert_int_equal(large->move, SCHEDULE_START);
    assert_int_equal(large->length, 4 * PAGE_ROWS);
    assert_int_equal(large->left, 1024 - 4 * PAGE_ROWS);
    *large = (schedule_entry){ .left = 1024, .claim = 16, .order = 2 };
    large->n_found = large->n_found_idle = 4; /* one that nobody holds is no gain */
    b->state.n_available = 20;
    schedule_step(&b->state);
    assert_int_equal(large->move, SCHEDULE_STAY);
    b->state.n_available = 21;
    schedule_step(&b->state);
    assert_int_equal(large->move, SCHEDULE_START);
    free(b);
}

static void cached_prefixes_overtake_for_a_while(void **state)
{
    (void)state;
    board *b = new_board();
    int steps = 0;
    b->state.n_seat = 1;
    schedule_entry *cold = waiting(b, 0, 500);
    for (; steps < 20 && cold->move != SCHEDULE_START; steps++) {
        b->state.n = 1;
        schedule_entry *warm = waiting(b, 0, 500);
        warm->n_found = 2;
        schedule_step(&b->state);
        assert_int_equal(warm->move == SCHEDULE_START, cold->move != SCHEDULE_START);
    }
    assert_int_equal(steps, PASSED_STEPS + 1);
    *cold = (schedule_entry){ .left = 500, .order = 1 };
    b->state.n = 1;
    b->served[1] = b->served[0] + 1;
    waiting(b, 1, 500)->n_found = 2; /* another key's does not */
    schedule_step(&b->state);
    assert_int_equal(cold->move, SCHEDULE_START);
    free(b);
}

/* ---- preemption ------------------------------------------------------------------------------ */

static void victims(void **state)
{
    (void)state;
    board *b = new_board();
    b->state.n_available = 1;
    const schedule_entry *oldest = running(b, 64, 1), *much = running(b, 640, 1),
                         *least = running(b, 128, 1), *waits = waiting(b, 0, 4);
    schedule_step(&b->state);
    assert_int_equal(least->move, SCHEDULE_PREEMPT);
    assert_int_equal(least->take, 0);
    assert_int_equal(oldest->take, 1); /* although it has computed less */
    assert_int_equal(much->take, 1);
    assert_int_equal(waits->move, SCHEDULE_STAY); /* nobody starts in such a step */
    free(b);
}

/* The last one cannot give its pages to itself. */
static void the_last_is_stuck(void **state)
{
    (void)state;
    board *b = new_board();
    b->state.n_available = 0;
    running(b, 64, 1);
    schedule_step(&b->state);
    assert_int_equal(b->entry[0].move, SCHEDULE_STAY);
    assert_int_equal(b->entry[0].take, 0);
    running(b, 64, 1);
    b->entry[1].n_own = 0; /* all of its pages are the other's too */
    schedule_step(&b->state);
    assert_int_equal(b->entry[1].move, SCHEDULE_PREEMPT);
    assert_int_equal(b->entry[0].take, 0);
    b->state.n_available = 0;
    b->entry[1].n_own = 1;
    schedule_step(&b->state);
    assert_int_equal(b->entry[0].take, 1);
    free(b);
}

/* Below n, element k of a stream. */
static int64_t any(uint64_t seed, int k, int64_t n)
{
    return (int64_t)(rng_draw(seed, 77, (uint64_t)k).word[0] % (uint32_t)n);
}

static void make_up(board *b, uint64_t seed)
{
    const int n_run = (int)any(seed, 0, 8), n_wait = (int)any(seed, 1, 8);
    b->state.n = 0;
    b->state.n_available = any(seed, 2, 60);
    b->state.n_seat = n_run + (int)any(seed, 3, 4);
    for (int i = 0; i < n_run; i++) {
        const int k = 10 + 3 * i;
        const int64_t left = any(seed, k, 3) * any(seed, k + 1, 200);
        running(b, any(seed, k + 2, 400), 1 + left)->order = (uint64_t)(1000 - i);
    }
    for (int i = 0; i < n_wait; i++) {
        const int k = 100 + 4 * i;
        schedule_entry *e = waiting(b, (int)any(seed, k, 3), 1 + any(seed, k + 1, 900));
        e->n_found = any(seed, k + 2, 2) * ((e->left - 1) / PAGE_ROWS);
        e->n_found_idle = any(seed, k + 3, e->n_found + 1);
    }
}

/* Made-up states, many of them: what holds of every decision. */
static void every_decision(void **state)
{
    (void)state;
    board *b = new_board();
    know_cost(&b->cost);
    for (uint64_t seed = 0; seed < 3000; seed++) {
        make_up(b, seed);
        const int64_t available = b->state.n_available;
        schedule_step(&b->state);
        int64_t taken = 0, given = 0;
        int n_in = 0;
        for (int i = 0; i < b->state.n; i++) {
            const schedule_entry *e = &b->entry[i];
            const bool in = e->runs ? e->move == SCHEDULE_STAY : e->move == SCHEDULE_START;
            assert_true(e->take >= 0 && e->take <= e->left);
            assert_true(in || e->take == 0);
            n_in += in;
            given += e->move == SCHEDULE_PREEMPT ? e->n_own : 0;
            if (e->take > 0)
                taken += pages_for(e->length + e->take) - e->n_page;
            taken += e->move == SCHEDULE_START ? e->n_found_idle : 0;
        }
        assert_true(taken <= available + given);
        assert_true(n_in <= b->state.n_seat);
        assert_true(rows_of(b) <= b->state.n_batch);
    }
    free(b);
}

/* ---- the cost of a step ---------------------------------------------------------------------- */

static double true_cost(const step_shape *s)
{
    const double r = (double)s->n_row;
    return 0.006 + 0.0006 * r + 0.001 * sqrt(r) + 0.8e-6 * s->prompt + 2.4e-6 * s->fresh;
}

static void cost_is_learned(void **state)
{
    (void)state;
    step_cost c = { 0 };
    double worst = 0;
    assert_true(step_cost_predict(&c, &(step_shape){ .n_row = 4 }) == 0);
    for (uint64_t i = 0; i < 4000; i++) {
        const rng_block any = rng_draw(5, 6, i);
        const int64_t prompt = any.word[0] % 2 ? 0 : 16 + any.word[1] % 200,
                      fresh = any.word[2] % 32;
        const step_shape s = { prompt + fresh, (double)prompt * (any.word[3] % 2000),
                               (double)fresh * (any.word[3] / 7 % 2000) };
        if (s.n_row == 0)
            continue;
        const double was = true_cost(&s), guess = step_cost_predict(&c, &s);
        if (i > 2000)
            worst = fmax(worst, fabs(guess / was - 1));
        step_cost_learn(&c, &s, was * (0.95 + 0.1 * rng_unit(any.word[2])));
    }
    assert_that(worst < 0.25, "a prediction was off by %.2f", worst);
    assert_that(fabs(c.g_prompt / 0.8e-6 - 1) < 0.2, "prompts: %g", c.g_prompt);
    assert_that(fabs(c.g_fresh / 2.4e-6 - 1) < 0.2, "new tokens: %g", c.g_fresh);
}

/* More rows than ever ran are taken to cost in proportion; fewer, as many as the fewest. */
static void unknown_sizes_are_not_underrated(void **state)
{
    (void)state;
    step_cost c = { 0 };
    step_cost_learn(&c, &(step_shape){ .n_row = 16 }, 0.1);
    assert_true(step_cost_predict(&c, &(step_shape){ .n_row = 4 }) == 0.1);
    assert_true(step_cost_predict(&c, &(step_shape){ .n_row = 64 }) == 0.4);
    step_cost_learn(&c, &(step_shape){ .n_row = 64 }, 0.2);
    assert_true(fabs(step_cost_predict(&c, &(step_shape){ .n_row = 40 }) - 0.15) < 1e-12);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void keys_that_pause(void **state)
{
    (void)state;
    weft_error err;
    mem m;
    fair_keys k;
    mem_init(&m, 0, NULL);
    assert_int_equal(fair_keys_init(&k, 3, &m, &err), WEFT_OK);
    const int a = fair_keys_enter(&k, "a"), b = fair_keys_enter(&k, "b");
    k.served[a] = 100;
    k.served[b] = 40;
    assert_int_equal(fair_keys_enter(&k, "a"), a);
    const int c = fair_keys_enter(&k, "c");
    assert_true(k.served[c] == 40); /* it has not saved up */
    fair_keys_leave(&k, a);
    fair_keys_leave(&k, a);
    assert_int_equal(fair_keys_enter(&k, "a"), a);
    assert_true(k.served[a] == 100); /* nor is its debt gone */
    fair_keys_leave(&k, c);
    const uint64_t salt = k.key[c].salt;
    const int d = fair_keys_enter(&k, "d"); /* takes the place of c */
    assert_int_equal(d, c);
    assert_true(k.key[d].salt != salt && k.key[d].salt != k.key[a].salt);
    fair_keys_leave(&k, a);
    fair_keys_leave(&k, b);
    k.served[d] = 500;
    fair_keys_leave(&k, d);
    assert_int_equal(fair_keys_enter(&k, "b"), b);
    assert_true(k.served[b] == 500); /* nobody else was there: as the last one */
    fair_keys_free(&k, &m);
    assert_int_equal(m.used, 0);
}

/* ---- the simulator --------------------------------------------------------------------------- */

#define N_KEY 4

typedef struct sim_request {
    int64_t n_prompt, n_new, made; /* tokens: of the prompt, to make, made */
    double came, first;            /* seconds: arrival, first token or 0 */
    bool began, done;
} sim_request;

typedef struct sim {
    board *b;
    sim_request of[MOST];
    double clock, tokens[N_KEY], longest_wait[N_KEY], longest_step;
    int64_t n_page, n_done, n_preempted;
    uint64_t order;
} sim;

static void sim_add(sim *s, int key, int64_t n_prompt, int64_t n_new)
{
    board *b = s->b;
    s->of[b->state.n] = (sim_request){ .n_prompt = n_prompt, .n_new = n_new, .came = s->clock };
    add(b,
        (schedule_entry){ .key = key, .left = n_prompt, .charge = n_prompt, .order = ++s->order });
}

static void sim_claim(schedule_entry *e, const sim_request *r)
{
    const int64_t more = r->n_new - r->made;
    e->claim = pages_for(r->n_prompt + r->made + (more < CLAIM_ROWS ? more : CLAIM_ROWS));
}

/* Moves a request as decided; its rows are computed. */
static void sim_move(sim *s, schedule_entry *e, sim_request *r)
{
    if (e->move == SCHEDULE_PREEMPT) {
        *e = (schedule_entry){ .key = e->key, .order = e->order, .left = r->n_prompt + r->made };
        s->n_preempted++;
    }
    if (e->move == SCHEDULE_START)
        e->runs = r->began = true;
    e->length += e->take;
    e->left -= e->take;
    e->n_page = e->n_own = e->runs ? pages_for(e->length) : 0;
    if (e->take > 0 && e->left == 0) {
        if (r->made++ == 0) {
            r->first = s->clock;
            s->longest_wait[e->key] = fmax(s->longest_wait[e->key], s->clock - r->came);
        }
        e->left = 1;
        r->done = r->made == r->n_new;
        s->tokens[e->key] += NEW_TOKEN_CHARGE;
    }
    s->tokens[e->key] += e->take > 1 ? (double)e->take : 0;
    e->take = 0;
    e->move = SCHEDULE_STAY;
}

static void sim_step(sim *s)
{
    board *b = s->b;
    b->state.n_available = s->n_page;
    for (int i = 0; i < b->state.n; i++) {
        b->state.n_available -= b->entry[i].n_page;
        if (!b->entry[i].runs)
            sim_claim(&b->entry[i], &s->of[i]);
    }
    schedule_step(&b->state);
    assert_true(b->state.n == 0 || b->state.shape.n_row > 0); /* somebody always gets on */
    const double took = true_cost(&b->state.shape);
    bool generates = false;
    for (int i = 0; i < b->state.n; i++)
        generates = generates || (b->entry[i].take == 1 && s->of[i].made > 0);
    if (generates && b->state.shape.n_row > LEAST_PROMPT_ROWS + 40)
        s->longest_step = fmax(s->longest_step, took);
    step_cost_learn(&b->cost, &b->state.shape, took);
    s->clock += took;
    for (int i = 0; i < b->state.n; i++)
        sim_move(s, &b->entry[i], &s->of[i]);
    for (int i = b->state.n - 1; i >= 0; i--)
        if (s->of[i].done) {
            b->entry[i] = b->entry[--b->state.n];
            s->of[i] = s->of[b->state.n];
            s->n_done++;
        }
}

static int sim_count(const sim *s, int key)
{
    int n = 0;
    for (int i = 0; i < s->b->state.n; i++)
        n += s->b->entry[i].key == key;
    return n;
}

/* (sum x)^2 / (n sum x^2): 1 if all are equal, 1 / n if one has everything. */
static double jain(const double *x, int n)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    return sum * sum / (n * squares);
}

/* Each key always has `load` requests of up to so many new tokens; simulates so many seconds. */
static void simulate(sim *s, const int *load, uint32_t n_new, double seconds)
{
    uint64_t at = 0;
    while (s->clock < seconds) {
        for (int key = 0; key < N_KEY; key++)
            while (sim_count(s, key) < load[key]) {
                const rng_block dice = rng_draw(11, (uint64_t)key, at++);
                sim_add(s, key, 1 + dice.word[0] % 1000, 1 + dice.word[1] % n_new);
            }
        sim_step(s);
    }
}

static sim *new_sim(int64_t n_page)
{
    sim *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->b = new_board();
    s->n_page = n_page;
    return s;
}

static void free_sim(sim *s)
{
    free(s->b);
    free(s);
}

static void equal_keys_are_served_equally(void **state)
{
    (void)state;
    sim *s = new_sim(400);
    simulate(s, (const int[]){ 8, 8, 8, 8 }, 300, 600);
    const double index = jain(s->tokens, N_KEY);
    printf("equal keys: Jain's index %.4f; %lld requests, longest wait %.1f s\n", index,
           (long long)s->n_done, s->longest_wait[0]);
    assert_that(index >= 0.95, "Jain's index is %.4f", index);
    assert_true(s->n_done > 500);
    free_sim(s);
}

/* One key has ten times as many requests as the others, which always have some. */
static void a_greedy_key_takes_no_more(void **state)
{
    (void)state;
    sim *s = new_sim(400);
    simulate(s, (const int[]){ 80, 8, 8, 8 }, 300, 600);
    const double index = jain(s->tokens, N_KEY);
    printf("a greedy key: Jain's index %.4f; longest wait %.1f s, of others %.1f s\n", index,
           s->longest_wait[0], s->longest_wait[1]);
    assert_that(index >= 0.9, "Jain's index is %.4f", index);
    free_sim(s);
}

/* A small pool, long prompts: preempted, but nobody waits for ever, and steps keep their time. */
static void nobody_starves(void **state)
{
    (void)state;
    sim *s = new_sim(60);
    simulate(s, (const int[]){ 30, 10, 5, 1 }, 1500, 300);
    assert_true(s->n_preempted > 0);
    const int64_t before = s->n_done;
    for (int i = 0; i < 100000 && s->b->state.n > 0; i++)
        sim_step(s);
    assert_int_equal(s->b->state.n, 0);
    assert_true(s->n_done > before);
    printf(
        "small pool: %lld requests, %lld preempted, longest step %.3f s; longest waits %.0f, %.0f, "
        "%.0f, %.0f s\n",
        (long long)s->n_done, (long long)s->n_preempted, s->longest_step, s->longest_wait[0],
        s->longest_wait[1], s->longest_wait[2], s->longest_wait[3]);
    assert_that(s->longest_step < 1.5 * s->b->state.seconds, "a step took %.3f s", s->longest_step);
    assert_that(s->longest_wait[3] < 60, "a request waited %.1f s", s->longest_wait[3]);
    free_sim(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("schedule: prompts get what remains of the step's time, at least 16 rows",
             prompts_within_the_time),
        TEST("schedule: prompts get whole batches while nobody generates",
             whole_batches_without_generation),
        TEST("schedule: the oldest and the shortest prompt share the rows", oldest_and_shortest),
        TEST("schedule: no row without a page", rows_have_pages),
        TEST("schedule: the least served key starts first", least_served_first),
        TEST("schedule: priority counts only within a key", priority_within_a_key),
        TEST("schedule: a start needs pages, and nobody passes who has to wait for them",
             starts_need_pages),
        TEST("schedule: a cached prefix overtakes its key for eight steps",
             cached_prefixes_overtake_for_a_while),
        TEST("schedule: who has computed least gives pages back, but never the oldest", victims),
        TEST("schedule: the last one keeps its pages and gets no row", the_last_is_stuck),
        TEST("schedule: any state gives a step that fits rows, seats and pages", every_decision),
        TEST("step_cost: rows and contexts are learned from steps", cost_is_learned),
        TEST("step_cost: sizes that never ran are not underrated",
             unknown_sizes_are_not_underrated),
        TEST("fair_keys: a key that pauses neither saves up nor loses its debt", keys_that_pause),
        TEST("simulator: equal keys are served equally", equal_keys_are_served_equally),
        TEST("simulator: a greedy key gets no more than the others", a_greedy_key_takes_no_more),
        TEST("simulator: nobody starves in a small pool, and steps keep their time",
             nobody_starves),
    };
    return RUN(tests);
}

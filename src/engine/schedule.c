/* schedule.c - the four decisions of schedule.h, in that order. */
#include "engine/schedule.h"

#include "tensor/cache.h"

#include <stddef.h>

typedef bool entry_fn(const schedule_entry *e);

static int64_t pages_of(int64_t n_row)
{
    return (n_row + PAGE_ROWS - 1) / PAGE_ROWS;
}

static bool waits(const schedule_entry *e)
{
    return !e->runs && e->move == SCHEDULE_STAY;
}

/* Takes part in this step. */
static bool is_in(const schedule_entry *e)
{
    return e->runs ? e->move == SCHEDULE_STAY : e->move == SCHEDULE_START;
}

static bool generates(const schedule_entry *e)
{
    return is_in(e) && e->left == 1;
}

static bool reads_prompt(const schedule_entry *e)
{
    return is_in(e) && e->left > 1;
}

static bool before(const schedule_state *s, const schedule_entry *a, const schedule_entry *b)
{
    if (s->served[a->key] != s->served[b->key])
        return s->served[a->key] < s->served[b->key];
    if (a->key != b->key)
        return a->key < b->key; /* not by arrival: with priorities there would be circles */
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->order < b->order;
}

/* The first in order of those that a function accepts and that come after `last`. */
static schedule_entry *next_in_order(const schedule_state *s, entry_fn *accepts,
                                     const schedule_entry *last)
{
    schedule_entry *first = NULL;
    for (int i = 0; i < s->n; i++) {
        schedule_entry *e = &s->entry[i];
        if (accepts(e) && (!last || before(s, last, e)) && (!first || before(s, e, first)))
            first = e;
    }
    return first;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static schedule_entry *oldest_running(const schedule_state *s)
{
    schedule_entry *oldest = NULL;
    for (int i = 0; i < s->n; i++) {
        schedule_entry *e = &s->entry[i];
        if (e->runs && is_in(e) && (!oldest || e->order < oldest->order))
            oldest = e;
    }
    return oldest;
}

/* Pages for the next row of every request that generates, and of the oldest. */
static int64_t pages_needed(const schedule_state *s)
{
    const schedule_entry *oldest = oldest_running(s);
    int64_t need = 0;
    for (int i = 0; i < s->n; i++) {
        const schedule_entry *e = &s->entry[i];
        if (e->runs && (generates(e) || e == oldest))
            need += pages_of(e->length + 1) - e->n_page;
    }
    return need;
}

/* The one that has computed least, the youngest of equals; NULL if only the oldest runs. */
static schedule_entry *find_victim(const schedule_state *s)
{
    const schedule_entry *oldest = oldest_running(s);
    schedule_entry *victim = NULL;
    for (int i = 0; i < s->n; i++) {
        schedule_entry *e = &s->entry[i];
        if (e->runs && is_in(e) && e != oldest &&
            (!victim || e->length < victim->length ||
             (e->length == victim->length && e->order > victim->order)))
            victim = e;
    }
    return victim;
}

/* True if some request had to give its pages back. */
static bool preempt(schedule_state *s)
{
    bool any = false;
    while (pages_needed(s) > s->n_available) {
        schedule_entry *victim = find_victim(s);
        if (!victim)
            break;
        victim->move = SCHEDULE_PREEMPT;
        s->n_available += victim->n_own;
        any = true;
    }
    return any;
}

/* ---- starts ---------------------------------------------------------------------------------- */

/* Available pages that no running request may still claim. */
static int64_t pages_unclaimed(const schedule_state *s)
{
    int64_t n = s->n_available;
    for (int i = 0; i < s->n; i++) {
        const schedule_entry *e = &s->entry[i];
        if (e->runs && is_in(e) && e->claim > e->n_page)
            n -= e->claim - e->n_page;
    }
    return n;
}

/* Pages that its start takes from those available: what it must compute, and what it finds idle. */
static int64_t pages_to_start(const schedule_entry *e)
{
    return e->claim - e->n_found + e->n_found_idle;
}

/* The next in order, or one of the same key that may overtake it. */
static schedule_entry *choose_start(const schedule_state *s, int64_t unclaimed)
{
    schedule_entry *first = next_in_order(s, waits, NULL);
    if (!first || first->n_found > 0 || first->n_passed >= PASSED_STEPS)
        return first;
    for (schedule_entry *e = first; e; e = next_in_order(s, waits, e))
        if (e->key == first->key && e->priority == first->priority && e->n_found > 0 &&
            pages_to_start(e) <= unclaimed)
            return e;
    return first;
}

static void start(schedule_state *s)
{
    int64_t unclaimed = pages_unclaimed(s);
    int seats = s->n_seat;
    for (int i = 0; i < s->n; i++)
        seats -= s->entry[i].runs && is_in(&s->entry[i]);
    schedule_entry *passed = NULL;
    while (seats > 0) {
        schedule_entry *first = next_in_order(s, waits, NULL);
        schedule_entry *e = choose_start(s, unclaimed);
        if (!e || pages_to_start(e) > unclaimed)
            break;
        passed = e != first ? first : passed;
        e->move = SCHEDULE_START;
        e->length = e->n_found * PAGE_ROWS;
        e->left -= e->length;
        e->n_page = e->n_found;
        unclaimed -= pages_to_start(e);
        s->n_available -= e->n_found_idle + e->n_source;
        s->served[e->key] += (double)e->charge;
        seats--;
    }
    if (passed && passed->move == SCHEDULE_STAY)
        passed->n_passed++;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds rows to a request's share: at most n, as many as there are pages for. */
static void give_rows(schedule_entry *e, int64_t n, int64_t *budget, int64_t *n_available)
{
    const int64_t held = pages_of(e->length + e->take);
    const int64_t own = held > e->n_page ? held : e->n_page;
    const int64_t fit = (own + *n_available) * PAGE_ROWS - e->length - e->take;
    int64_t more = e->left - e->take;
    more = more < n ? more : n;
    more = more < fit ? more : fit;
    e->take += more;
    *budget -= more;
    const int64_t now = pages_of(e->length + e->take);
    *n_available -= now > own ? now - own : 0;
}

static schedule_entry *shortest_prompt(const schedule_state *s)
{
    schedule_entry *shortest = NULL;
    for (int i = 0; i < s->n; i++) {
        schedule_entry *e = &s->entry[i];
        if (reads_prompt(e) && (!shortest || e->left < shortest->left ||
                                (e->left == shortest->left && e->order < shortest->order)))
            shortest = e;
    }
    return shortest;
}

/* Splits a budget of rows among the prompts. */
static void share_prompts(schedule_state *s, int64_t budget, int64_t n_available)
{
    for (int i = 0; i < s->n; i++)
        if (reads_prompt(&s->entry[i]))
            s->entry[i].take = 0;
    schedule_entry *shortest = shortest_prompt(s);
    if (shortest)
        give_rows(shortest, (budget + 1) / 2, &budget, &n_available);
    for (schedule_entry *e = next_in_order(s, reads_prompt, NULL); e && budget > 0;
         e = next_in_order(s, reads_prompt, e))
        give_rows(e, budget, &budget, &n_available);
}

static step_shape step_shape_of(const schedule_state *s)
{
    step_shape shape = { 0 };
    for (int i = 0; i < s->n; i++) {
        const schedule_entry *e = &s->entry[i];
        const double context = (double)e->take * ((double)e->length + 0.5 * (double)(e->take + 1));
        if (e->take == 0)
            continue;
        shape.n_row += e->take;
        *(e->take > 1 ? &shape.prompt : &shape.fresh) += context;
    }
    return shape;
}

/* The most rows of prompts that keep the step within its time, by bisection. */
static void fill_prompts(schedule_state *s, int64_t room, int64_t n_available, bool hurry)
{
    int64_t low = LEAST_PROMPT_ROWS < room ? LEAST_PROMPT_ROWS : room, high = room;
    while (hurry && low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        share_prompts(s, middle, n_available);
        const step_shape shape = step_shape_of(s);
        const double seconds = step_cost_predict(s->cost, &shape);
        if (seconds > 0 && seconds <= s->seconds)
            low = middle;
        else
            high = middle - 1;
    }
    share_prompts(s, hurry ? low : high, n_available);
}

static void share_rows(schedule_state *s)
{
    int64_t room = s->n_batch, n_available = s->n_available;
    bool anybody = false;
    for (int i = 0; i < s->n; i++) {
        schedule_entry *e = &s->entry[i];
        if (!generates(e) || room == 0)
            continue;
        anybody = true;
        give_rows(e, 1, &room, &n_available);
        s->served[e->key] += (double)(NEW_TOKEN_CHARGE * e->take);
    }
    fill_prompts(s, room, n_available, anybody);
}

void schedule_step(schedule_state *s)
{
    for (int i = 0; i < s->n; i++) {
        s->entry[i].move = SCHEDULE_STAY;
        s->entry[i].take = 0;
    }
    if (!preempt(s))
        start(s);
    share_rows(s);
    s->shape = step_shape_of(s);
}

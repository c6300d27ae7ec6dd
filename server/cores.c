/* cores.c - models take turns with the processor; see cores.h. */
#include "cores.h"

bool cores_init(cores *c)
{
    *c = (cores){ 0 };
    return pthread_mutex_init(&c->lock, NULL) == 0;
}

void cores_free(cores *c)
{
    pthread_mutex_destroy(&c->lock);
}

bool cores_share_init(cores_share *s, double weight)
{
    *s = (cores_share){ .weight = weight };
    return pthread_cond_init(&s->given, NULL) == 0;
}

void cores_share_free(cores_share *s)
{
    pthread_cond_destroy(&s->given);
}

/* ---- under the lock -------------------------------------------------------------------------- */

/* The link to the one that has had least; the first that came, of equals. */
static cores_share **least_served(cores *c)
{
    cores_share **least = &c->waiting;
    for (cores_share **at = &c->waiting; *at; at = &(*at)->next)
        if ((*at)->used < (*least)->used)
            least = at;
    return least;
}

static void begin_turn(cores *c, cores_share *s)
{
    c->taken = true;
    c->clock = s->used;
    s->turn = true;
}

static void hand_over(cores *c)
{
    cores_share **link = least_served(c), *next = *link;
    if (!next)
        return;
    *link = next->next;
    begin_turn(c, next);
    pthread_cond_signal(&next->given);
}

static void wait_for_turn(cores *c, cores_share *s)
{
    cores_share **end = &c->waiting;
    while (*end)
        end = &(*end)->next;
    s->next = NULL;
    *end = s;
    while (!s->turn)
        pthread_cond_wait(&s->given, &c->lock);
}

static void end_turn(cores *c, cores_share *s, double seconds)
{
    s->used += seconds / s->weight;
    s->turn = c->taken = false;
}

/* ---- turns ----------------------------------------------------------------------------------- */

void cores_take(cores *c, cores_share *s)
{
    pthread_mutex_lock(&c->lock);
    s->used = s->used > c->clock ? s->used : c->clock;
    if (c->taken)
        wait_for_turn(c, s);
    else
        begin_turn(c, s);
    pthread_mutex_unlock(&c->lock);
}

void cores_pass(cores *c, cores_share *s, double seconds)
{
    pthread_mutex_lock(&c->lock);
    end_turn(c, s, seconds);
    const cores_share *next = *least_served(c);
    if (next && next->used <= s->used) {
        hand_over(c);
        wait_for_turn(c, s);
    } else {
        begin_turn(c, s);
    }
    pthread_mutex_unlock(&c->lock);
}

void cores_give(cores *c, cores_share *s, double seconds)
{
    pthread_mutex_lock(&c->lock);
    end_turn(c, s, seconds);
    hand_over(c);
    pthread_mutex_unlock(&c->lock);
}

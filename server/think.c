/* think.c - separates a model's thinking from its answer while the text arrives. See think.h.
 *
 *   START --fence--> OPEN --word--> THINK --fence--> AFTER --word--> ANSWER
 *     '------------------------word-----------------------------------'
 *
 * What may be the start of a fence is kept back. It is equal to the fence so far, so that only its
 * length is kept. */
#include "think.h"

#include <string.h>

enum { START, OPEN, THINK, AFTER, ANSWER };

void think_init(thinking *t, const char *begin, const char *end, bool inside)
{
    t->begin = begin;
    t->end = end;
    t->state = !begin || !end ? ANSWER : inside ? OPEN : START;
    t->matched = 0;
    t->n_before = 0;
}

static void give(thinking *t, const char *bytes, size_t n)
{
    if (n)
        t->fn(t->ud, t->state == THINK, bytes, n);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The text was `n` bytes of the fence, and then c. How many bytes of the fence does it end with
 * now? */
static size_t next_match(const char *fence, size_t n, char c)
{
    for (size_t k = n + 1; k > 0; k--)
        if (fence[k - 1] == c && memcmp(fence, fence + n + 1 - k, k - 1) == 0)
            return k;
    return 0;
}

/* Inside the thinking: up to its end, or all of the bytes. Returns how many were used. */
static size_t feed_thought(thinking *t, const char *bytes, size_t n)
{
    const size_t length = strlen(t->end);
    size_t from = 0; /* bytes before it are emitted, or are the start of the fence */
    for (size_t i = 0; i < n; i++) {
        const size_t old = t->matched, now = next_match(t->end, old, bytes[i]);
        if (now == 1 && old == 0)
            give(t, bytes + from, i - from);
        else if (now != old + 1) /* the part of the fence that turned out to be text */
            give(t, t->end, old - (now ? now - 1 : 0));
        from = now ? i + 1 : from;
        t->matched = now;
        if (now == length) {
            t->matched = 0;
            t->state = AFTER;
            return i + 1;
        }
    }
    give(t, bytes + from, n - from);
    return n;
}

/* What was kept back was no fence. */
static void begin_answer(thinking *t)
{
    t->state = ANSWER;
    give(t, t->before, t->n_before);
    give(t, t->begin, t->matched);
    t->n_before = t->matched = 0;
}

/* Before the first word: a blank, a byte of the fence, or the answer. True if it was used. */
static bool feed_start(thinking *t, char c)
{
    if (t->matched == 0 && is_blank(c) && t->n_before < sizeof t->before) {
        t->before[t->n_before++] = c;
        return true;
    }
    if (t->begin[t->matched] != c) {
        begin_answer(t);
        return false;
    }
    if (!t->begin[++t->matched]) {
        t->matched = t->n_before = 0;
        t->state = OPEN;
    }
    return true;
}

void think_feed(thinking *t, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;)
        if (t->state == THINK) {
            i += feed_thought(t, bytes + i, n - i);
        } else if (t->state == START) {
            i += feed_start(t, bytes[i]);
        } else if (t->state != ANSWER && is_blank(bytes[i])) {
            i++;
        } else if (t->state == OPEN) {
            t->state = THINK;
        } else {
            t->state = ANSWER;
            give(t, bytes + i, n - i);
            return;
        }
}

void think_end(thinking *t)
{
    if (t->state == START)
        begin_answer(t);
    else if (t->state == THINK)
        give(t, t->end, t->matched);
    t->matched = 0;
}

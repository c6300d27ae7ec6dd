/* pairs.c - draws spans and builds the source and target of a sample. */
#include "train/pairs.h"

#include "base/rng.h"

#include <math.h>

#define MEAN_SPAN 3

/* ---- how many -------------------------------------------------------------------------------- */

/* Number of ids used of a piece: both sides need room for the end token. */
static int64_t used(int64_t n)
{
    return n - 2;
}

static int64_t between(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* The number of spans and of masked ids for T ids, T >= 2. */
static void count_spans(const pairing *p, int64_t T, int64_t *n_noise, int64_t *n_span)
{
    const bool infill = p->objective == WEFT_OBJECTIVE_INFILL;
    const int64_t most = infill ? T : p->n_sentinel;
    *n_noise = between((int64_t)round((double)T * (infill ? 0.3 : 0.15)), 1, T - 1);
    const int64_t fit = *n_noise < T - *n_noise ? *n_noise : T - *n_noise;
    *n_span = between((int64_t)round((double)*n_noise / MEAN_SPAN), 1, fit < most ? fit : most);
}

int64_t pair_targets(const pairing *p, int64_t n, int64_t n_prompt)
{
    int64_t n_noise, n_span;
    if (p->objective == WEFT_OBJECTIVE_PAIRS)
        return n_prompt > 0 && n > n_prompt ? n - n_prompt : 0;
    if (used(n) < 2)
        return 0;
    if (p->objective == WEFT_OBJECTIVE_INFILL)
        return used(n) + (p->eos >= 0);
    count_spans(p, used(n), &n_noise, &n_span);
    return n_noise + n_span + (p->eos >= 0);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void hear(pair_writer *p, int32_t id)
{
    sequence *s = &p->src->seq[p->src->n_seq - 1];
    p->src->row[p->src->n_row++] = (batch_row){
        .id = id, .seq = p->src->n_seq - 1, .pos = s->n++, .target = NO_TARGET
    };
}

/* Appends a row that has this id as its target; its input is the previous target. */
static void put_target(pair_writer *p, int32_t id)
{
    batch *b = p->b;
    sequence *s = &b->seq[b->n_seq - 1];
    const int32_t before = s->n > 0 ? b->row[b->n_row - 1].target : p->of->start;
    b->row[b->n_row++] = (batch_row){
        .id = before, .seq = b->n_seq - 1, .pos = s->n++, .target = id, .weight = 1, .wanted = true
    };
    b->n_wanted++;
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* A random integer below n. */
static uint64_t draw_below(pair_writer *p, uint64_t n)
{
    const rng_block b = rng_draw(p->key, p->number, p->n_draw++);
    return ((uint64_t)b.word[0] << 32 | b.word[1]) % n;
}

/* Length of the first of k parts of n ids, with all partitions equally likely. Each of the n - 1
 * borders is one of the k - 1 cuts, with the probability it has among the remaining ones. */
static int64_t first_part(pair_writer *p, int64_t n, int64_t k)
{
    int64_t length = 1;
    while (k > 1 && (int64_t)draw_below(p, (uint64_t)(n - length)) >= k - 1)
        length++;
    return k > 1 ? length : n;
}

static void next_part(pair_writer *p)
{
    int64_t *ids = p->noise ? &p->n_kept : &p->n_noise, *parts = p->noise ? &p->n_gap : &p->n_span;
    p->noise = !p->noise;
    p->left = first_part(p, *ids, *parts);
    *ids -= p->left;
    --*parts;
    if (!p->noise)
        return;
    if (p->of->objective == WEFT_OBJECTIVE_INFILL) {
        hear(p, p->of->mask);
        return;
    }
    hear(p, p->of->sentinel[p->sentinel]);
    put_target(p, p->of->sentinel[p->sentinel++]);
}

/* ---- a pair ---------------------------------------------------------------------------------- */

void pair_begin(pair_writer *p, const pairing *of, batch *b, batch *src, int64_t n,
                int64_t n_prompt, uint64_t key, uint64_t number)
{
    *p = (pair_writer){ .of = of, .b = b, .src = src, .key = key, .number = number };
    p->n = pair_targets(of, n, n_prompt) == 0      ? 0
           : of->objective == WEFT_OBJECTIVE_PAIRS ? n
                                                   : used(n);
    p->n_prompt = n_prompt;
    if (p->n == 0)
        return;
    b->seq[b->n_seq] = (sequence){ .first = b->n_row, .source = src->n_seq };
    src->seq[src->n_seq] = (sequence){ .first = src->n_row, .source = -1 };
    b->n_seq++;
    src->n_seq++;
    if (of->objective == WEFT_OBJECTIVE_PAIRS)
        return;
    count_spans(of, p->n, &p->n_noise, &p->n_span);
    p->n_gap = p->n_span;
    p->n_kept = p->n - p->n_noise;
    p->noise = true; /* so that no span comes next */
}

void pair_add(pair_writer *p, int32_t id)
{
    const weft_objective goal = p->of->objective;
    if (p->at >= p->n)
        return;
    if (goal != WEFT_OBJECTIVE_PAIRS && p->left == 0)
        next_part(p);
    const bool heard = goal == WEFT_OBJECTIVE_PAIRS ? p->at < p->n_prompt : !p->noise;
    const bool said = goal == WEFT_OBJECTIVE_PAIRS ? !heard
                                                   : p->noise || goal == WEFT_OBJECTIVE_INFILL;
    if (heard)
        hear(p, id);
    if (said)
        put_target(p, id);
    p->left--;
    p->at++;
}

/* Pairs already have their end tokens. */
void pair_end(pair_writer *p)
{
    if (p->n == 0 || p->of->objective == WEFT_OBJECTIVE_PAIRS || p->of->eos < 0)
        return;
    hear(p, p->of->eos);
    put_target(p, p->of->eos);
}

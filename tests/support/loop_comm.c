/* loop_comm.c - mailboxes between threads. Sums are made in the order in which ranks arrive. */
#include "loop_comm.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOOP 16

typedef struct letter {
    struct letter *next;
    int tag;
    size_t bytes;
    char text[];
} letter;

typedef struct transfer {
    enum { FREE, SENT, AWAITED, SUMMED } kind;
    void *to;
    size_t bytes;
    int from, tag, delay;
    int64_t number; /* of a sum; of a receive, the order in which they began */
} transfer;

/* A sum under way. */
typedef struct total {
    real *x;
    int64_t n, n_done;
    int n_in, n_out;
} total;

typedef struct loop_comm {
    comm base;
    loop *of;
    transfer *transfer;
    int n_transfer;
    int64_t n_sum, n_receive;
    enum { SPEAKS, MUTE_FROM_TAG, MUTE } speech;
    int mute_tag; /* of MUTE_FROM_TAG */
} loop_comm;

struct loop {
    pthread_mutex_t lock;
    int size, delay;
    int crossed[2], cross_tag;       /* crossed[0] == crossed[1]: none */
    letter *box[MAX_LOOP][MAX_LOOP]; /* [to][from], oldest first */
    total *sum;
    int64_t n_sum;
    loop_comm rank[MAX_LOOP];
};

static int new_ticket(loop_comm *c, transfer t)
{
    int i = 0;
    while (i < c->n_transfer && c->transfer[i].kind != FREE)
        i++;
    if (i == c->n_transfer) {
        c->n_transfer = 2 * c->n_transfer + 8;
        c->transfer = realloc(c->transfer, (size_t)c->n_transfer * sizeof *c->transfer);
        memset(c->transfer + i, 0, (size_t)(c->n_transfer - i) * sizeof *c->transfer);
    }
    t.delay = c->of->delay;
    c->transfer[i] = t;
    return i;
}

static weft_status loop_send(comm *base, const void *at, size_t bytes, int to, int tag, int *ticket,
                             weft_error *err)
{
    (void)err;
    loop_comm *c = (loop_comm *)base;
    letter *l = malloc(sizeof *l + bytes);
    *l = (letter){ .tag = tag, .bytes = bytes };
    memcpy(l->text, at, bytes);
    pthread_mutex_lock(&c->of->lock);
    letter **end = &c->of->box[to][base->rank];
    while (*end)
        end = &(*end)->next;
    if (c->speech == MUTE_FROM_TAG && tag == c->mute_tag)
        c->speech = MUTE;
    if (c->speech == MUTE)
        free(l);
    else
        *end = l;
    base->sent += bytes;
    base->n_sent++;
    *ticket = new_ticket(c, (transfer){ .kind = SENT });
    pthread_mutex_unlock(&c->of->lock);
    return WEFT_OK;
}

static int sender_of(const loop_comm *c, int from, int tag)
{
    const int a = c->of->crossed[0], b = c->of->crossed[1];
    if (a == b || tag != c->of->cross_tag || c->base.rank == a || c->base.rank == b)
        return from;
    return from == a ? b : from == b ? a : from;
}

static weft_status loop_receive(comm *base, void *at, size_t bytes, int from, int tag, int *ticket,
                                weft_error *err)
{
    (void)err;
    loop_comm *c = (loop_comm *)base;
    from = sender_of(c, from, tag);
    pthread_mutex_lock(&c->of->lock);
    *ticket = new_ticket(c, (transfer){ AWAITED, at, bytes, from, tag, 0, c->n_receive++ });
    pthread_mutex_unlock(&c->of->lock);
    return WEFT_OK;
}

static weft_status loop_sum(comm *base, real *x, int64_t n, int *ticket, weft_error *err)
{
    (void)err;
    loop_comm *c = (loop_comm *)base;
    loop *l = c->of;
    pthread_mutex_lock(&l->lock);
    const int64_t i = c->n_sum++;
    if (i == l->n_sum) {
        l->sum = realloc(l->sum, (size_t)++l->n_sum * sizeof *l->sum);
        l->sum[i] = (total){ .x = calloc((size_t)n, sizeof *x), .n = n };
    }
    total *t = &l->sum[i];
    assert(t->n == n);
    for (int64_t k = 0; k < n; k++)
        t->x[k] += x[k];
    t->n_in++;
    *ticket = new_ticket(c, (transfer){ SUMMED, x, (size_t)n * sizeof *x, 0, 0, 0, i });
    pthread_mutex_unlock(&l->lock);
    return WEFT_OK;
}

/* The oldest letter with this tag goes to the oldest transfer that awaits it. */
static bool take_letter(loop_comm *c, const transfer *t)
{
    letter **at = &c->of->box[c->base.rank][t->from];
    while (*at && (*at)->tag != t->tag)
        at = &(*at)->next;
    letter *l = *at;
    if (!l)
        return false;
    assert(l->bytes == t->bytes);
    memcpy(t->to, l->text, l->bytes);
    *at = l->next;
    free(l);
    return true;
}

static bool is_first(const loop_comm *c, const transfer *t, int ticket)
{
    for (int i = 0; i < c->n_transfer; i++) {
        const transfer *o = &c->transfer[i];
        if (i != ticket && o->kind == AWAITED && o->from == t->from && o->tag == t->tag &&
            o->number < t->number)
            return false;
    }
    return true;
}

static bool is_over(loop_comm *c, transfer *t, int ticket)
{
    if (t->delay-- > 0)
        return false;
    if (t->kind == SENT)
        return true;
    if (t->kind == AWAITED)
        return is_first(c, t, ticket) && take_letter(c, t);
    total *sum = &c->of->sum[t->number];
    if (sum->n_in < c->of->size)
        return false;
    memcpy(t->to, sum->x, t->bytes);
    if (++sum->n_out == c->of->size) {
        free(sum->x);
        sum->x = NULL;
    }
    return true;
}

static weft_status loop_poll(comm *base, int ticket, bool *done, weft_error *err)
{
    (void)err;
    loop_comm *c = (loop_comm *)base;
    pthread_mutex_lock(&c->of->lock);
    transfer *t = &c->transfer[ticket];
    assert(ticket < c->n_transfer && t->kind != FREE);
    *done = is_over(c, t, ticket);
    if (*done)
        t->kind = FREE;
    pthread_mutex_unlock(&c->of->lock);
    return WEFT_OK;
}

static void loop_stop(comm *base, int code)
{
    (void)base, (void)code;
}

static void loop_close(comm *base)
{
    (void)base;
}

loop *loop_new(int size)
{
    loop *l = calloc(1, sizeof *l);
    assert(size <= MAX_LOOP);
    pthread_mutex_init(&l->lock, NULL);
    l->size = size;
    for (int i = 0; i < size; i++) {
        l->rank[i] = (loop_comm){ .base = { .rank = i,
                                            .size = size,
                                            .name = "threads",
                                            .send = loop_send,
                                            .receive = loop_receive,
                                            .sum = loop_sum,
                                            .poll = loop_poll,
                                            .stop = loop_stop,
                                            .close = loop_close },
                                  .of = l };
    }
    return l;
}

comm *loop_rank(loop *l, int rank)
{
    return &l->rank[rank].base;
}

void loop_delay(loop *l, int k)
{
    l->delay = k;
}

void loop_mute(loop *l, int rank, int tag)
{
    l->rank[rank].speech = tag < 0 ? MUTE : MUTE_FROM_TAG;
    l->rank[rank].mute_tag = tag;
}

void loop_cross(loop *l, int a, int b, int tag)
{
    l->crossed[0] = a;
    l->crossed[1] = b;
    l->cross_tag = tag;
}

void loop_free(loop *l)
{
    for (int i = 0; i < l->size; i++) {
        free(l->rank[i].transfer);
        for (int k = 0; k < l->size; k++)
            for (letter *next, *p = l->box[i][k]; p; p = next) {
                next = p->next;
                free(p);
            }
    }
    for (int64_t i = 0; i < l->n_sum; i++)
        free(l->sum[i].x);
    free(l->sum);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

typedef struct task {
    loop_fn *fn;
    comm *comm;
    void *ud;
} task;

static void *run_task(void *arg)
{
    const task *t = arg;
    t->fn(t->comm, t->ud);
    return NULL;
}

void loop_run(loop *l, loop_fn *fn, void *ud, size_t each)
{
    pthread_t thread[MAX_LOOP];
    task all[MAX_LOOP];
    for (int i = 0; i < l->size; i++) {
        all[i] = (task){ fn, loop_rank(l, i), (char *)ud + (size_t)i * each };
        pthread_create(&thread[i], NULL, run_task, &all[i]);
    }
    for (int i = 0; i < l->size; i++)
        pthread_join(thread[i], NULL);
}

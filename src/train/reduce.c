/* reduce.c - slices of buckets, on their way to their owners and back. */
#include "train/reduce.h"

#include "base/clock.h"

#include <string.h>

/* ---- cutting --------------------------------------------------------------------------------- */

typedef struct span {
    int64_t c0, c1; /* chunks */
} span;

/* At least four buckets, so that the first can leave early, and a chunk for each rank. */
static int64_t bucket_chunks(const reduce_options *o, int64_t n_chunk)
{
    const int64_t quarter = (n_chunk + 3) / 4;
    const int64_t usual = quarter < BUCKET_CHUNKS ? quarter : BUCKET_CHUNKS;
    const int64_t n = o->bucket_chunks > 0 ? o->bucket_chunks : usual;
    return n > n_rank(o->ranks) ? n : n_rank(o->ranks);
}

static span bucket_of(const reduce_options *o, int64_t n_chunk, int64_t bucket)
{
    const int64_t each = bucket_chunks(o, n_chunk), end = (bucket + 1) * each;
    return (span){ bucket * each, end < n_chunk ? end : n_chunk };
}

static span slice_of(const reduce_options *o, int64_t n_chunk, int64_t bucket, int rank)
{
    const span b = bucket_of(o, n_chunk, bucket);
    const int64_t n = b.c1 - b.c0, R = n_rank(o->ranks);
    return (span){ b.c0 + n * rank / R, b.c0 + n * (rank + 1) / R };
}

static bool is_alone(const reduce_options *o)
{
    return !o->ranks || !o->ranks->comm;
}

static span slice_at(const reduce *r, int64_t bucket, int rank)
{
    return slice_of(&r->opt, params_chunks(r->p), bucket, rank);
}

/* The largest slice of a bucket, in chunks; and of the whole block. */
static int64_t slice_most(const reduce_options *o, int64_t n_chunk)
{
    return (bucket_chunks(o, n_chunk) + n_rank(o->ranks) - 1) / n_rank(o->ranks);
}

/* Where a flight has the slice of rank q. */
static real *flight_slice(const reduce *r, const flight *f, int q)
{
    return f->from + q * slice_most(&r->opt, params_chunks(r->p)) * PARAM_CHUNK;
}

static int64_t buckets_for(const reduce_options *o, int64_t n_chunk)
{
    return (n_chunk + bucket_chunks(o, n_chunk) - 1) / bucket_chunks(o, n_chunk);
}

static int64_t own_most(const reduce_options *o, int64_t n_chunk)
{
    return buckets_for(o, n_chunk) * slice_most(o, n_chunk);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int64_t floats_of(span s, int64_t n)
{
    const int64_t end = s.c1 * PARAM_CHUNK < n ? s.c1 * PARAM_CHUNK : n;
    return s.c1 > s.c0 ? end - s.c0 * PARAM_CHUNK : 0;
}

int64_t reduce_own(const reduce_options *o, int64_t n)
{
    int64_t own = 0;
    if (is_alone(o))
        return n;
    for (int64_t b = 0; b < reduce_buckets(o, n); b++)
        own += floats_of(slice_of(o, chunks_of(n), b, rank_of(o->ranks)), n);
    return own;
}

int64_t reduce_buckets(const reduce_options *o, int64_t n)
{
    return buckets_for(o, chunks_of(n));
}

bucket_traffic reduce_traffic(const reduce_options *o, int64_t n, int64_t bucket)
{
    const int64_t all = floats_of(bucket_of(o, chunks_of(n), bucket), n);
    const int64_t own = floats_of(slice_of(o, chunks_of(n), bucket, rank_of(o->ranks)), n);
    return (bucket_traffic){ .gradients = (uint64_t)(all - own) * sizeof(real),
                             .values = (uint64_t)own * sizeof(real) *
                                       (uint64_t)(n_rank(o->ranks) - 1),
                             .own = own };
}

uint64_t reduce_shared(const reduce_options *o, int64_t n)
{
    return (uint64_t)own_most(o, chunks_of(n)) * sizeof(double);
}

static size_t flight_floats(const reduce_options *o, int64_t n_chunk)
{
    return (size_t)(n_rank(o->ranks) * slice_most(o, n_chunk) *
                    PARAM_CHUNK); /* bounded: a bucket */
}

uint64_t reduce_bytes(const reduce_options *o, int64_t n)
{
    if (is_alone(o))
        return 0;
    const int64_t n_chunk = chunks_of(n), R = n_rank(o->ranks);
    const uint64_t flights = N_FLIGHT * ((o->fast ? 0 : flight_floats(o, n_chunk) * sizeof(real)) +
                                         2 * (uint64_t)R * sizeof(int));
    return flights + (uint64_t)buckets_for(o, n_chunk) * 2 * sizeof(int) +
           (uint64_t)own_most(o, n_chunk) * (sizeof(int64_t) + (uint64_t)R * sizeof(double));
}

/* Buckets in which a tensor has gradients. */
static span buckets_of(const reduce *r, int64_t i)
{
    const int64_t each = bucket_chunks(&r->opt, params_chunks(r->p)) * PARAM_CHUNK;
    return (span){ r->p->at[i] / each, (r->p->at[i + 1] - 1) / each + 1 };
}

static void count_tensors(reduce *r)
{
    for (int64_t i = 0; i < r->p->n_tensor; i++) {
        const span b = buckets_of(r, i);
        for (int64_t k = b.c0; r->p->tensor[i]->needs_grad && k < b.c1; k++)
            r->n_tensor[k]++;
    }
}

static bool take_flight(flight *f, const reduce_options *o, int64_t n_chunk, mem *m,
                        weft_error *err)
{
    const size_t R = (size_t)n_rank(o->ranks);
    f->bucket = -1;
    f->in = mem_zalloc(m, 2 * R, sizeof *f->in, "messages", err);
    if (f->in && !o->fast)
        f->from = mem_zalloc(m, flight_floats(o, n_chunk), sizeof *f->from, "gradients of ranks",
                             err);
    f->out = f->in + R;
    return f->in && (o->fast || f->from);
}

static bool take_reduce_room(reduce *r, weft_error *err)
{
    mem *m = r->p->mem;
    const reduce_options *o = &r->opt;
    const size_t most = (size_t)own_most(o, params_chunks(r->p)), R = (size_t)n_rank(o->ranks);
    r->n_tensor = mem_zalloc(m, 2 * (size_t)r->n_bucket, sizeof *r->n_tensor, "buckets", err);
    r->missing = r->n_tensor + r->n_bucket;
    r->own = r->n_tensor ? mem_zalloc(m, most, sizeof *r->own, "slices", err) : NULL;
    r->sums = r->own ? mem_zalloc(m, most * R, sizeof *r->sums, "sums of ranks", err) : NULL;
    for (int i = 0; i < N_FLIGHT && r->sums; i++)
        if (!take_flight(&r->flight[i], o, params_chunks(r->p), m, err))
            return false;
    return r->sums != NULL;
}

weft_status reduce_init(reduce *r, const reduce_options *o, params *p, pool *threads,
                        weft_error *err)
{
    *r = (reduce){ .opt = *o, .p = p, .threads = threads };
    if (is_alone(o))
        return WEFT_OK;
    r->n_bucket = buckets_for(o, params_chunks(p));
    if (!take_reduce_room(r, err)) {
        reduce_free(r);
        return WEFT_ENOMEM;
    }
    count_tensors(r);
    p->n_own = 0;
    p->own = r->own;
    for (int64_t b = 0; b < r->n_bucket; b++) {
        const span s = slice_at(r, b, rank_of(o->ranks));
        for (int64_t c = s.c0; c < s.c1; c++)
            r->own[p->n_own++] = c;
    }
    p->n_moment = reduce_own(o, p->n);
    return WEFT_OK;
}

void reduce_free(reduce *r)
{
    if (!r->p)
        return;
    mem *m = r->p->mem;
    for (int i = 0; i < N_FLIGHT; i++) {
        mem_free(m, r->flight[i].from);
        mem_free(m, r->flight[i].in);
    }
    mem_free(m, r->n_tensor);
    mem_free(m, r->own);
    mem_free(m, r->sums);
    *r = (reduce){ 0 };
}

/* ---- one bucket ------------------------------------------------------------------------------ */

/* What a slice of the bucket becomes: the sum along the tree over ranks. */
typedef struct tree {
    const reduce *r;
    const flight *f;
    span own;
} tree;

static void add_tree(void *arg, int64_t i)
{
    const tree *t = arg;
    const int R = n_rank(t->r->opt.ranks), rank = rank_of(t->r->opt.ranks);
    const int64_t chunk = t->own.c0 + i, from = chunk * PARAM_CHUNK;
    const int64_t n = chunk_end(t->r->p, chunk) - from;
    real *v[MAX_RANK];
    for (int q = 0; q < R; q++)
        v[q] = flight_slice(t->r, t->f, q) + i * PARAM_CHUNK;
    real *own = t->f->block + from;
    v[rank] = own;
    for (int step = 1; step < R; step *= 2)
        for (int q = 0; q + step < R; q += 2 * step)
            for (int64_t k = 0; k < n; k++)
                v[q][k] += v[q + step][k];
    if (rank != 0)
        memcpy(own, v[0], (size_t)n * sizeof *own);
}

static void note_failure(reduce *r, weft_status status)
{
    if (r->status == WEFT_OK)
        r->status = status;
}

static void depart_fast(reduce *r, flight *f)
{
    comm *c = r->opt.ranks->comm;
    const span b = bucket_of(&r->opt, params_chunks(r->p), f->bucket);
    note_failure(r, c->sum(c, f->block + b.c0 * PARAM_CHUNK, floats_of(b, r->p->n), &f->in[c->rank],
                           &r->err));
}

static void begin_flight(const reduce *r, flight *f, int64_t bucket)
{
    f->bucket = bucket;
    for (int q = 0; q < n_rank(r->opt.ranks); q++)
        f->in[q] = f->out[q] = -1;
}

/* Starts to receive n_in floats from rank q and to send it n_out; both may be 0. */
static weft_status trade(const reduce *r, flight *f, int q, rank_tag tag, real *in, int64_t n_in,
                         const real *out, int64_t n_out, weft_error *err)
{
    comm *c = r->opt.ranks->comm;
    weft_status status = WEFT_OK;
    if (n_in > 0)
        status = c->receive(c, in, (size_t)n_in * sizeof *in, q, tag, &f->in[q], err);
    if (n_out > 0 && status == WEFT_OK)
        status = c->send(c, out, (size_t)n_out * sizeof *out, q, tag, &f->out[q], err);
    return status; /* bounded: both are in memory */
}

static void depart_exact(reduce *r, flight *f)
{
    const int rank = rank_of(r->opt.ranks);
    const int64_t own = floats_of(slice_at(r, f->bucket, rank), r->p->n);
    for (int q = 0; q < n_rank(r->opt.ranks) && r->status == WEFT_OK; q++) {
        const span theirs = slice_at(r, f->bucket, q);
        if (q != rank)
            note_failure(r, trade(r, f, q, TAG_GRADIENT, flight_slice(r, f, q), own,
                                  f->block + theirs.c0 * PARAM_CHUNK, floats_of(theirs, r->p->n),
                                  &r->err));
    }
}

static void depart(reduce *r, flight *f, int64_t bucket)
{
    const span b = bucket_of(&r->opt, params_chunks(r->p), bucket);
    f->block = params_merge(r->p, b.c0 * PARAM_CHUNK, r->threads);
    begin_flight(r, f, bucket);
    if (r->n_flying++ == 0)
        r->since = clock_seconds();
    if (r->opt.fast)
        depart_fast(r, f);
    else
        depart_exact(r, f);
}

static void arrive(reduce *r, flight *f)
{
    tree t = { r, f, slice_at(r, f->bucket, rank_of(r->opt.ranks)) };
    if (!r->opt.fast && t.own.c1 > t.own.c0)
        pool_run(r->threads, t.own.c1 - t.own.c0, add_tree, &t);
    f->bucket = -1;
    if (--r->n_flying == 0 && !r->all)
        r->hidden += clock_seconds() - r->since;
}

static bool has_landed(reduce *r, int *ticket)
{
    comm *c = r->opt.ranks->comm;
    bool done = *ticket < 0;
    if (!done)
        note_failure(r, c->poll(c, *ticket, &done, &r->err));
    if (done)
        *ticket = -1;
    return done;
}

/* Asks for one transfer under way at most: a poll moves all of them, and takes a microsecond. */
static bool poll_flight(reduce *r, flight *f)
{
    for (int q = 0; q < n_rank(r->opt.ranks); q++)
        if (!has_landed(r, &f->in[q]) || !has_landed(r, &f->out[q]))
            return false;
    return r->status == WEFT_OK;
}

static weft_status wait_flight(reduce *r, flight *f, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int q = 0; q < n_rank(r->opt.ranks) && status == WEFT_OK; q++) {
        if (f->in[q] >= 0)
            status = ranks_wait(r->opt.ranks, f->in[q], q, err);
        if (f->out[q] >= 0 && status == WEFT_OK)
            status = ranks_wait(r->opt.ranks, f->out[q], q, err);
        f->in[q] = f->out[q] = -1;
    }
    return status;
}

/* ---- the gradient ---------------------------------------------------------------------------- */

/* Buckets take the flights in turn. */
static flight *flight_of(reduce *r, int64_t bucket)
{
    return &r->flight[bucket % N_FLIGHT];
}

static void move_along(reduce *r)
{
    for (int i = 0; i < N_FLIGHT && r->status == WEFT_OK; i++)
        if (r->flight[i].bucket >= 0 && poll_flight(r, &r->flight[i]))
            arrive(r, &r->flight[i]);
    while (r->status == WEFT_OK && r->started > 0 && flight_of(r, r->started - 1)->bucket < 0 &&
           (r->all || r->missing[r->started - 1] == 0)) {
        r->started--;
        depart(r, flight_of(r, r->started), r->started);
    }
}

void reduce_arm(reduce *r)
{
    if (is_alone(&r->opt))
        return;
    r->armed = true;
    r->all = false;
    r->n_flying = 0;
    r->started = r->n_bucket;
    memcpy(r->missing, r->n_tensor,
           (size_t)r->n_bucket * sizeof *r->missing); /* bounded: buckets */
}

static int64_t find_tensor(const params *p, const tensor *t)
{
    int64_t low = 0, high = p->n_tensor - 1;
    const int64_t at = t->grad - p->grad;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (p->at[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void reduce_ready(void *reduce_of, tensor *t)
{
    reduce *r = reduce_of;
    if (!r->armed)
        return;
    grad_clear(t);
    t->grad_written = true;
    const span b = buckets_of(r, find_tensor(r->p, t));
    for (int64_t k = b.c0; k < b.c1; k++)
        r->missing[k]--;
    move_along(r);
}

void reduce_poll(void *reduce_of)
{
    reduce *r = reduce_of;
    if (r->armed && r->status == WEFT_OK)
        move_along(r);
}

/* The chunks' sums of all ranks, from where each rank has its own one after the other. */
static weft_status share_sums(reduce *r, weft_error *err)
{
    const params *p = r->p;
    const int64_t most = own_most(&r->opt, params_chunks(p));
    const int R = n_rank(r->opt.ranks);
    params_norm_own(p, r->threads);
    for (int64_t i = 0; i < p->n_own; i++)
        r->sums[rank_of(r->opt.ranks) * most + i] = p->chunk_sum[p->own[i]];
    const weft_status status = ranks_share(r->opt.ranks, r->sums, (size_t)most * sizeof *r->sums,
                                           err);
    for (int q = 0; q < R && status == WEFT_OK; q++) {
        const double *from = r->sums + q * most;
        for (int64_t b = 0; b < r->n_bucket; b++) {
            const span s = slice_at(r, b, q);
            for (int64_t c = s.c0; c < s.c1; c++)
                p->chunk_sum[c] = *from++;
        }
    }
    return status;
}

weft_status reduce_finish(reduce *r, weft_error *err)
{
    const double began = clock_seconds();
    if (is_alone(&r->opt))
        return WEFT_OK;
    if (r->n_flying > 0)
        r->hidden += began - r->since;
    params_end(r->p);
    r->all = true;
    weft_status status = WEFT_OK;
    for (int64_t b = r->n_bucket - 1; b >= 0 && status == WEFT_OK; b--) {
        flight *f = flight_of(r, b);
        move_along(r);
        if (r->status == WEFT_OK && f->bucket == b) {
            status = wait_flight(r, f, err);
            if (status == WEFT_OK)
                arrive(r, f);
        }
    }
    r->armed = false;
    if (r->status != WEFT_OK)
        return weft_fail(err, r->status, "%s", r->err.message);
    if (status == WEFT_OK)
        status = share_sums(r, err);
    r->exposed += clock_seconds() - began;
    return status;
}

/* ---- values and moments ---------------------------------------------------------------------- */

static weft_status send_values(reduce *r, flight *f, int64_t bucket, weft_error *err)
{
    real *value = r->p->value;
    const int rank = rank_of(r->opt.ranks);
    const span own = slice_at(r, bucket, rank);
    weft_status status = WEFT_OK;
    begin_flight(r, f, bucket);
    for (int q = 0; q < n_rank(r->opt.ranks) && status == WEFT_OK; q++) {
        const span theirs = slice_at(r, bucket, q);
        if (q != rank)
            status = trade(r, f, q, TAG_VALUE, value + theirs.c0 * PARAM_CHUNK,
                           floats_of(theirs, r->p->n), value + own.c0 * PARAM_CHUNK,
                           floats_of(own, r->p->n), err);
    }
    return status;
}

static void round_chunk(void *arg, int64_t chunk)
{
    params *p = arg;
    params_round(p, chunk * PARAM_CHUNK, chunk_end(p, chunk));
}

weft_status reduce_values(reduce *r, weft_error *err)
{
    const double began = clock_seconds();
    weft_status status = WEFT_OK;
    if (is_alone(&r->opt))
        return WEFT_OK;
    for (int64_t b = 0; b < r->n_bucket + N_FLIGHT && status == WEFT_OK; b++) {
        flight *f = flight_of(r, b);
        if (b >= N_FLIGHT && b - N_FLIGHT < r->n_bucket)
            status = wait_flight(r, f, err);
        f->bucket = -1;
        if (status == WEFT_OK && b < r->n_bucket)
            status = send_values(r, f, b, err);
    }
    for (int i = 0; i < N_FLIGHT; i++)
        r->flight[i].bucket = -1;
    if (status == WEFT_OK && r->p->bf16_copy)
        pool_run(r->threads, params_chunks(r->p), round_chunk, r->p);
    r->exposed += clock_seconds() - began;
    return status;
}

/* The moments of rank `of`, slice by slice: rank 0 receives them into a block, and rank `of` sends
 * them from where they lie one after the other. */
static weft_status move_moments(reduce *r, int of, const real *own, real *to, weft_error *err)
{
    comm *c = r->opt.ranks->comm;
    weft_status status = WEFT_OK;
    for (int64_t b = 0; b < r->n_bucket && status == WEFT_OK; b++) {
        const span s = slice_at(r, b, of);
        const size_t bytes = (size_t)floats_of(s, r->p->n) * sizeof *own; /* bounded: in memory */
        int ticket;
        if (bytes == 0)
            continue;
        status = c->rank == 0
                     ? c->receive(c, to + s.c0 * PARAM_CHUNK, bytes, of, TAG_MOMENT, &ticket, err)
                     : c->send(c, own, bytes, 0, TAG_MOMENT, &ticket, err);
        if (status == WEFT_OK)
            status = ranks_wait(r->opt.ranks, ticket, c->rank == 0 ? of : 0, err);
        if (c->rank != 0)
            own += floats_of(s, r->p->n);
    }
    return status;
}

/* Copies this rank's chunks between a block and where they lie one after the other. */
static void copy_own(const reduce *r, real *block, real *own, bool out)
{
    const params *p = r->p;
    for (int64_t i = 0; i < p->n_own; i++) {
        real *in_block = block + own_chunk(p, i) * PARAM_CHUNK, *in_own = own + i * PARAM_CHUNK;
        const int64_t n = chunk_end(p, own_chunk(p, i)) - own_chunk(p, i) * PARAM_CHUNK;
        memcpy(out ? in_own : in_block, out ? in_block : in_own,
               (size_t)n * sizeof *own); /* bounded: a chunk */
    }
}

weft_status reduce_collect(reduce *r, const real *own, real *to, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (rank_of(r->opt.ranks) != 0)
        return move_moments(r, rank_of(r->opt.ranks), own, NULL, err);
    copy_own(r, to, (real *)own, false);
    for (int q = 1; q < n_rank(r->opt.ranks) && status == WEFT_OK; q++)
        status = move_moments(r, q, own, to, err);
    return status;
}

void reduce_pick(const reduce *r, const real *block, real *own)
{
    copy_own(r, (real *)block, own, true);
}

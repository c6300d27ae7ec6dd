/* mpi.c - one rank of several: messages and sums over the MPI whose mpirun started it. mpi.sh runs
 * it with several numbers of ranks.
 *
 *     host_mpi all RANKS    every check; each rank has its part in each
 *     host_mpi alone        was started alone
 *     host_mpi one          is the only rank of a run
 *     host_mpi stop CODE    the last rank stops all, while the others wait
 *     host_mpi short        the last rank sends less than is expected */
#include "dist/load.h"
#include "say.h"

#include <math.h>
#include <sched.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

static comm *c;

/* The checks of all ranks are one check: rank 0 says that it holds, and each rank if it does not. */
#define agree(holds, ...)                                                                          \
    do {                                                                                           \
        if (!(holds) || c->rank == 0)                                                              \
            check(holds, __VA_ARGS__);                                                             \
    } while (0)

/* An error would leave the other ranks waiting. */
static void need(weft_status status, const weft_error *err)
{
    if (status == WEFT_OK)
        return;
    check(false, "mpi: a transfer", "rank %d: %s", c->rank, err->message);
    c->stop(c, 1);
}

static int send_to(const void *at, size_t bytes, int to, int tag)
{
    weft_error err = { 0 };
    int ticket = -1;
    need(c->send(c, at, bytes, to, tag, &ticket, &err), &err);
    return ticket;
}

static int receive_from(void *at, size_t bytes, int from, int tag)
{
    weft_error err = { 0 };
    int ticket = -1;
    need(c->receive(c, at, bytes, from, tag, &ticket, &err), &err);
    return ticket;
}

static bool poll_once(int ticket)
{
    weft_error err = { 0 };
    bool done = false;
    need(c->poll(c, ticket, &done, &err), &err);
    return done;
}

/* There are fewer processors here than ranks. */
static void wait_for(int ticket)
{
    while (!poll_once(ticket))
        sched_yield();
}

static void *room(size_t n)
{
    void *at = malloc(n ? n : 1);
    must(at, "mpi: memory", NULL);
    return at;
}

/* Byte i of a message; no two messages are alike. */
static uint8_t byte_of(int from, int to, int tag, size_t i)
{
    const uint64_t key = (uint64_t)from << 40 | (uint64_t)to << 32 | (uint64_t)tag << 24;
    const uint64_t mixed = (key + i + 1) * 0x9E3779B97F4A7C15u;
    return (uint8_t)(mixed >> 56);
}

static uint8_t *fill(uint8_t *at, size_t n, int from, int to, int tag)
{
    for (size_t i = 0; i < n; i++)
        at[i] = byte_of(from, to, tag, i);
    return at;
}

static size_t n_wrong(const uint8_t *at, size_t n, int from, int to, int tag)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += at[i] != byte_of(from, to, tag, i);
    return wrong;
}

static const size_t sizes[] = { 0, 1, 7, 64 << 10, 3 << 20 };

#define N_SIZE (int)(sizeof sizes / sizeof *sizes)

/* ---- messages ------------------------------------------------------------------------------------ */

static void ring(void)
{
    const int to = (c->rank + 1) % c->size, from = (c->rank + c->size - 1) % c->size;
    uint8_t *out = room(3 * MIB), *in = room(3 * MIB);
    size_t wrong = 0;
    for (int s = 0; s < N_SIZE; s++) {
        memset(in, 0, sizes[s]);
        const int coming = receive_from(in, sizes[s], from, s);
        const int going = send_to(fill(out, sizes[s], c->rank, to, s), sizes[s], to, s);
        wait_for(going);
        wait_for(coming);
        wrong += n_wrong(in, sizes[s], from, c->rank, s);
    }
    agree(wrong == 0, "mpi: messages of 0 bytes to 3 MiB go round a ring", "%zu bytes are wrong",
          wrong);
    free(out);
    free(in);
}

/* All messages of one size are under way at once, of which each rank receives before it sends or
 * the other way round. */
static size_t all_to_all_of(size_t n, int tag)
{
    uint8_t *out = room(n * c->size), *in = room(n * c->size);
    int *going = room(sizeof *going * c->size), *coming = room(sizeof *coming * c->size);
    size_t wrong = 0;
    memset(in, 0, n * c->size);
    for (int i = 0; i < 2 * c->size; i++) {
        const int other = (c->rank + i) % c->size;
        if ((i < c->size) == (c->rank % 2 == 0))
            coming[other] = receive_from(in + n * other, n, other, tag);
        else
            going[other] = send_to(fill(out + n * other, n, c->rank, other, tag), n, other, tag);
    }
    for (int other = 0; other < c->size; other++) {
        wait_for(coming[other]);
        wait_for(going[other]);
        wrong += n_wrong(in + n * other, n, other, c->rank, tag);
    }
    free(coming);
    free(going);
    free(in);
    free(out);
    return wrong;
}

static void all_to_all(void)
{
    size_t wrong = 0;
    for (int s = 0; s < N_SIZE; s++)
        wrong += all_to_all_of(sizes[s], 1023 - s);
    agree(wrong == 0, "mpi: every rank sends to every rank", "%zu bytes are wrong", wrong);
}

/* Message k of a thousand has k bytes. Odd ones have one tag, even ones many. */
#define N_MANY 1000

static int tag_of(int k)
{
    return k % 2 ? 5 : 6 + k / 4;
}

static void send_many(uint8_t *out, int to, int *ticket)
{
    for (int k = 0; k < N_MANY; k++) {
        fill(out + k * N_MANY, k, c->rank, to, k % 199);
        ticket[k] = send_to(out + k * N_MANY, k, to, tag_of(k));
    }
}

/* The odd ones first: only tags tell which is which. */
static void receive_many(uint8_t *in, int from, int *ticket)
{
    for (int i = 0; i < N_MANY; i++) {
        const int k = i < N_MANY / 2 ? 2 * i + 1 : 2 * i - N_MANY;
        ticket[k] = receive_from(in + k * N_MANY, k, from, tag_of(k));
    }
}

static size_t many_at_once(int *highest, bool *unique)
{
    const int to = (c->rank + 1) % c->size, from = (c->rank + c->size - 1) % c->size;
    uint8_t *out = room(N_MANY * N_MANY), *in = room(N_MANY * N_MANY), used[4 * N_MANY] = { 0 };
    int ticket[2 * N_MANY];
    size_t wrong = 0;
    if (c->rank % 2)
        receive_many(in, from, ticket + N_MANY);
    send_many(out, to, ticket);
    if (c->rank % 2 == 0)
        receive_many(in, from, ticket + N_MANY);
    for (int i = 0; i < 2 * N_MANY; i++) {
        *highest = ticket[i] > *highest ? ticket[i] : *highest;
        *unique &= ticket[i] >= 0 && ticket[i] < 4 * N_MANY && !used[ticket[i]];
        if (*unique)
            used[ticket[i]] = 1;
    }
    for (int i = 0; i < 2 * N_MANY; i++) /* 7 has no factor in common with their number */
        wait_for(ticket[i * 7 % (2 * N_MANY)]);
    for (int k = 0; k < N_MANY; k++)
        wrong += n_wrong(in + k * N_MANY, k, from, c->rank, k % 199);
    free(out);
    free(in);
    return wrong;
}

static void many(void)
{
    int first = 0, highest = 0;
    bool unique = true;
    size_t wrong = many_at_once(&first, &unique);
    for (int i = 0; i < 5; i++)
        wrong += many_at_once(&highest, &unique);
    agree(wrong == 0, "mpi: of 1,000 messages under way, those with one tag keep their order",
          "%zu bytes are wrong", wrong);
    agree(unique, "mpi: tickets of transfers under way differ", "two are the same");
    agree(first < 2048 && highest<2048, "mpi: tickets are used again",
                                  "2,000 transfers at once, six times: a ticket of %d", highest>
                              first
              ? highest
              : first);
}

/* A poll from time to time is all that a transfer needs, and a poll does not wait: rank 0 sends
 * only after all others have polled in vain. */
static void poll_while_computing(void)
{
    uint8_t *at = room(3 * MIB), nothing[1];
    double x = 1;
    int polls = 0, n = 0;
    if (c->rank == 0) {
        for (int other = 1; other < c->size; other++)
            wait_for(receive_from(nothing, 0, other, 8));
        fill(at, 3 * MIB, 0, 0, 9);
        int ticket[64];
        for (int other = 1; other < c->size; other++)
            ticket[other] = send_to(at, 3 * MIB, other, 9);
        for (int other = 1; other < c->size; other++)
            wait_for(ticket[other]);
        n = 1;
    } else {
        const int ticket = receive_from(at, 3 * MIB, 0, 9);
        while (polls < 100 && !poll_once(ticket))
            polls++;
        const int ready = send_to(nothing, 0, 0, 8);
        for (; n < 2000000 && !poll_once(ticket); n++)
            for (int i = 0; i < 1000; i++)
                x = x * 0.999 + 0.001;
        wait_for(ready);
    }
    agree(n < 2000000 && (c->rank == 0 || (polls == 100 && n_wrong(at, 3 * MIB, 0, 0, 9) == 0)),
          "mpi: 3 MiB arrive while a rank computes and polls", "rank %d: %d polls, then %d",
          c->rank, polls, n);
    agree(fabs(x - 1) < 1e-9, "mpi: what it computes is not disturbed", "%.17g", x);
    free(at);
}

/* Polls for a message that comes last move one along that needs its receiver: rank 0 sends the last
 * only when the other has left. If they do not, this waits forever. */
static void poll_for_another(void)
{
    uint8_t *at = room(3 * MIB), nothing[1];
    size_t wrong = 0;
    if (c->rank == 0) {
        fill(at, 3 * MIB, 0, 0, 10);
        for (int other = 1; other < c->size; other++) {
            wait_for(send_to(at, 3 * MIB, other, 10));
            wait_for(send_to(nothing, 0, other, 11));
        }
    } else {
        const int first = receive_from(at, 3 * MIB, 0, 10);
        wait_for(receive_from(nothing, 0, 0, 11));
        wait_for(first);
        wrong = n_wrong(at, 3 * MIB, 0, 0, 10);
    }
    agree(wrong == 0, "mpi: a poll moves all transfers along", "%zu bytes are wrong", wrong);
    free(at);
}

/* ---- sums ---------------------------------------------------------------------------------------- */

static float term(int rank, int64_t i)
{
    const uint64_t mixed = ((uint64_t)rank << 40 | (uint64_t)(i + 1)) * 0x9E3779B97F4A7C15u;
    return (float)((double)(int64_t)mixed / 9223372036854775808.0);
}

/* How far a sum is from that in double, in units of what size - 1 roundings may make of it. */
static double distance(const float *x, int64_t n, int64_t first)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, magnitude = 0;
        for (int r = 0; r < c->size; r++) {
            sum += (double)term(r, first + i);
            magnitude += fabs((double)term(r, first + i));
        }
        const double may = magnitude * 5.9604644775390625e-8 * (c->size > 1 ? c->size - 1 : 1);
        most = fmax(most, fabs((double)x[i] - sum) / may);
    }
    return most;
}

static void sums(void)
{
    static const int64_t counts[] = { 0, 1, 7, 100003, 786432 };
    enum { N = sizeof counts / sizeof *counts };
    weft_error err = { 0 };
    float *x[N];
    int ticket[N];
    double most = 0;
    for (int k = 0; k < N; k++) {
        x[k] = room(sizeof(float) * (size_t)counts[k]);
        for (int64_t i = 0; i < counts[k]; i++)
            x[k][i] = term(c->rank, k + i);
        need(c->sum(c, x[k], counts[k], &ticket[k], &err), &err);
    }
    for (int k = 0; k < N; k++) {
        wait_for(ticket[k]);
        most = fmax(most, distance(x[k], counts[k], k));
        free(x[k]);
    }
    agree(most <= 1, "mpi: five sums at once are those in double, rounded",
          "%.3g times what rounding explains", most);
}

/* ---- counters and names -------------------------------------------------------------------------- */

static void counters(void)
{
    uint64_t bytes = 0, n = N_SIZE * (1 + (uint64_t)c->size) + 6 * N_MANY;
    for (int s = 0; s < N_SIZE; s++)
        bytes += sizes[s] * (1 + (uint64_t)c->size);
    bytes += 6 * (uint64_t)N_MANY * (N_MANY - 1) / 2;
    if (c->rank == 0) {
        bytes += 6 * MIB * (uint64_t)(c->size - 1);
        n += 3 * (uint64_t)(c->size - 1);
    } else {
        n++;
    }
    agree(c->sent == bytes && c->n_sent == n, "mpi: what is sent is counted",
          "rank %d: %llu bytes in %llu messages, expected %llu in %llu", c->rank,
          (unsigned long long)c->sent, (unsigned long long)c->n_sent, (unsigned long long)bytes,
          (unsigned long long)n);
}

static void name_and_ranks(int ranks)
{
    const bool is_known = strncmp(c->name, "Open MPI ", 9) == 0 ||
                          strncmp(c->name, "MPICH ", 6) == 0;
    agree(c->size == ranks && c->rank >= 0 && c->rank < ranks, "mpi: the ranks are those started",
          "rank %d of %d, expected %d", c->rank, c->size, ranks);
    agree(is_known, "mpi: the library says its name", "it is '%s'", c->name);
    if (c->rank == 0)
        printf("mpi: %d ranks over %s\n", c->size, c->name);
}

static void all(int ranks)
{
    name_and_ranks(ranks);
    ring();
    all_to_all();
    many();
    poll_while_computing();
    poll_for_another();
    sums();
    counters();
}

/* ---- ends ---------------------------------------------------------------------------------------- */

static void stop_all(int code)
{
    uint8_t never[1];
    if (c->rank == c->size - 1)
        c->stop(c, code);
    const int ticket = receive_from(never, 1, (c->rank + 1) % c->size, 3);
    const time_t start = time(NULL);
    while (!poll_once(ticket) && time(NULL) < start + 60)
        sched_yield();
}

static void too_short(void)
{
    uint8_t at[16] = { 0 };
    weft_error err = { 0 };
    bool done = false;
    weft_status status = WEFT_OK;
    if (c->rank == c->size - 1)
        wait_for(send_to(at, 7, 0, 4));
    if (c->rank != 0)
        return;
    const int ticket = receive_from(at, 8, c->size - 1, 4);
    while (status == WEFT_OK && !done)
        status = c->poll(c, ticket, &done, &err);
    check(status == WEFT_ESYSTEM && !done && strstr(err.message, "a message of 7 bytes"),
          "mpi: a message that is too short is an error", "%s", err.message);
}

int main(int argc, char **argv)
{
    weft_error err = { 0 };
    const char *what = argc > 1 ? argv[1] : "";
    if (comm_load(&c, NULL, &err) != WEFT_OK) {
        fprintf(stderr, "host_mpi: %s\n", err.message);
        return 2;
    }
    if (strcmp(what, "alone") == 0) {
        check(c == NULL, "mpi: a process that was started alone has no comm", "it has one");
        return n_failed > 0;
    }
    must(c, "mpi: this is a rank of several", NULL);
    if (strcmp(what, "all") == 0 && argc == 3)
        all(atoi(argv[2]));
    else if (strcmp(what, "stop") == 0 && argc == 3)
        stop_all(atoi(argv[2]));
    else if (strcmp(what, "short") == 0)
        too_short();
    else
        must(false, "mpi: a known mode", NULL);
    c->close(c);
    return n_failed > 0;
}

/* comm_mpi.c - messages between ranks over MPI: a module that dist/load.c loads.
 *
 * It is compiled once for each MPI, as Open MPI and MPICH agree in their functions but not in their
 * binary interface, and it exports weft_comm_open and nothing else. It needs no symbol of libweft:
 * base/err.c is compiled into it.
 *
 * A ticket is the number of a slot. A slot whose transfer is over goes back to the list of free
 * ones, so that there are never more slots than transfers were under way at once, rounded up to a
 * power of two.
 *
 * poll() asks for one request: MPI moves all of them along whenever it finds that one not done yet.
 * Testing all at each poll would cost their number each time.
 *
 * Modules are built for float, as every build that ships is: another real has another MPI type. */
#include "base/comm.h"

#include <assert.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef WEFT_REAL_DOUBLE
#error "the modules for MPI are built for float"
#endif

#define N_TAG      1024
#define FIRST_SLOT 64

/* Free slots are a list. */
typedef struct slot {
    MPI_Request request; /* MPI_REQUEST_NULL in a free slot */
    int expected;        /* bytes of a message that comes, else -1 */
    int next;            /* of a free slot: the next free one, or -1 */
} slot;

typedef struct mpi {
    comm c;
    MPI_Comm world; /* a copy of MPI_COMM_WORLD: our tags and errors are ours alone */
    bool began;     /* by us, so that we end it */
    slot *slots;
    int n_slot, first_free;
} mpi;

/* WEFT_OK, or the text of MPI's error. */
static weft_status judge(int code, const char *call, weft_error *err)
{
    char why[MPI_MAX_ERROR_STRING + 1];
    int n = 0;
    if (code == MPI_SUCCESS)
        return WEFT_OK;
    if (MPI_Error_string(code, why, &n) != MPI_SUCCESS)
        n = 0;
    why[n] = '\0';
    return weft_fail(err, WEFT_ESYSTEM, "%s failed with %d: %s", call, code, n ? why : "no text");
}

/* ---- slots --------------------------------------------------------------------------------------- */

static weft_status more_slots(mpi *m, weft_error *err)
{
    const int n = m->n_slot ? m->n_slot * 2 : FIRST_SLOT;
    slot *grown = n > m->n_slot ? realloc(m->slots, (size_t)n * sizeof *grown) : NULL;
    if (!grown)
        return weft_fail(err, WEFT_ENOMEM, "no memory for %d transfers under way at once", n);
    for (int i = m->n_slot; i < n; i++)
        grown[i] = (slot){ MPI_REQUEST_NULL, -1, i + 1 < n ? i + 1 : -1 };
    m->first_free = m->n_slot;
    m->slots = grown;
    m->n_slot = n;
    return WEFT_OK;
}

/* Before a transfer starts: one that MPI has started cannot be without a slot. */
static weft_status need_slot(mpi *m, weft_error *err)
{
    return m->first_free >= 0 ? WEFT_OK : more_slots(m, err);
}

static int take_slot(mpi *m, MPI_Request request, int expected)
{
    const int ticket = m->first_free;
    m->first_free = m->slots[ticket].next;
    m->slots[ticket] = (slot){ request, expected, -1 };
    return ticket;
}

static void free_slot(mpi *m, int ticket)
{
    m->slots[ticket] = (slot){ MPI_REQUEST_NULL, -1, m->first_free };
    m->first_free = ticket;
}

/* ---- the comm ------------------------------------------------------------------------------------ */

static weft_status mpi_send(comm *c, const void *at, size_t bytes, int to, int tag, int *ticket,
                            weft_error *err)
{
    mpi *m = (mpi *)c;
    MPI_Request request;
    assert(bytes <= COMM_MOST && to >= 0 && to < c->size && tag >= 0 && tag < N_TAG);
    weft_status status = need_slot(m, err);
    if (status == WEFT_OK)
        status = judge(MPI_Isend(at, (int)bytes, MPI_BYTE, to, tag, m->world, &request),
                       "MPI_Isend", err);
    if (status != WEFT_OK)
        return status;
    *ticket = take_slot(m, request, -1);
    c->sent += bytes;
    c->n_sent++;
    return WEFT_OK;
}

static weft_status mpi_receive(comm *c, void *at, size_t bytes, int from, int tag, int *ticket,
                               weft_error *err)
{
    mpi *m = (mpi *)c;
    MPI_Request request;
    assert(bytes <= COMM_MOST && from >= 0 && from < c->size && tag >= 0 && tag < N_TAG);
    weft_status status = need_slot(m, err);
    if (status == WEFT_OK)
        status = judge(MPI_Irecv(at, (int)bytes, MPI_BYTE, from, tag, m->world, &request),
                       "MPI_Irecv", err);
    if (status == WEFT_OK)
        *ticket = take_slot(m, request, (int)bytes);
    return status;
}

static weft_status mpi_sum(comm *c, real *x, int64_t n, int *ticket, weft_error *err)
{
    mpi *m = (mpi *)c;
    MPI_Request request;
    assert(n >= 0 && n <= (int64_t)(COMM_MOST / sizeof *x));
    weft_status status = need_slot(m, err);
    if (status == WEFT_OK)
        status = judge(
            MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, m->world, &request),
            "MPI_Iallreduce", err);
    if (status == WEFT_OK)
        *ticket = take_slot(m, request, -1);
    return status;
}

/* MPI refuses a message that is too long for its place, but not one that is too short. */
static weft_status check_length(const slot *s, const MPI_Status *arrived, weft_error *err)
{
    int n = 0;
    if (s->expected < 0)
        return WEFT_OK;
    const weft_status status = judge(MPI_Get_count(arrived, MPI_BYTE, &n), "MPI_Get_count", err);
    if (status != WEFT_OK || n == s->expected)
        return status;
    return weft_fail(err, WEFT_ESYSTEM,
                     "a message of %d bytes from rank %d with tag %d; expected %d: run the same "
                     "weft with the same options in all ranks",
                     n, arrived->MPI_SOURCE, arrived->MPI_TAG, s->expected);
}

static weft_status mpi_poll(comm *c, int ticket, bool *done, weft_error *err)
{
    mpi *m = (mpi *)c;
    MPI_Status arrived;
    int over = 0;
    assert(ticket >= 0 && ticket < m->n_slot);
    *done = false;
    slot *s = &m->slots[ticket];
    weft_status status = judge(MPI_Test(&s->request, &over, &arrived), "MPI_Test", err);
    if (status != WEFT_OK || !over)
        return status;
    status = check_length(s, &arrived, err);
    free_slot(m, ticket);
    *done = status == WEFT_OK;
    return status;
}

/* MPICH's launcher drops what it has not forwarded when it hears of the end, and the reason for it would
 * be lost: it gets time to forward that. */
static void mpi_stop(comm *c, int code)
{
    (void)c;
    fflush(NULL);
    nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

static void mpi_close(comm *c)
{
    mpi *m = (mpi *)c;
    MPI_Comm_free(&m->world);
    if (m->began)
        MPI_Finalize();
    free(m->slots);
    free(m);
}

/* ---- open ---------------------------------------------------------------------------------------- */

/* MPI may be running already, if the program that embeds weft uses it. */
static weft_status begin(mpi *m, weft_error *err)
{
    int running = 0, over = 0, level = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&over);
    if (over)
        return weft_fail(err, WEFT_ESYSTEM,
                         "MPI has ended in this process; expected one run in it, as MPI cannot "
                         "begin twice");
    weft_status status = running ? judge(MPI_Query_thread(&level), "MPI_Query_thread", err)
                                 : judge(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level),
                                         "MPI_Init_thread", err);
    m->began = !running && status == WEFT_OK;
    if (status == WEFT_OK && level < MPI_THREAD_FUNNELED)
        status = weft_fail(err, WEFT_ESYSTEM,
                           "MPI runs without threads; expected MPI_THREAD_FUNNELED: give that to "
                           "MPI_Init_thread, or use an MPI that has it");
    return status;
}

/* "Open MPI v4.1.4" of "Open MPI v4.1.4, package: ..."; "MPICH Version: 4.0.2", whose line goes on in
 * the next. */
static void put_name(comm *c)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\r\n")] = '\0';
    size_t at = 0;
    for (char *word = strtok(text, " \t"); word && at < sizeof c->name; word = strtok(NULL, " \t"))
        at += (size_t)snprintf(c->name + at, sizeof c->name - at, at ? " %s" : "%s", word);
}

static weft_status join(mpi *m, weft_error *err)
{
    weft_status status = judge(MPI_Comm_dup(MPI_COMM_WORLD, &m->world), "MPI_Comm_dup", err);
    if (status == WEFT_OK)
        status = judge(MPI_Comm_set_errhandler(m->world, MPI_ERRORS_RETURN),
                       "MPI_Comm_set_errhandler", err);
    if (status == WEFT_OK)
        status = judge(MPI_Comm_rank(m->world, &m->c.rank), "MPI_Comm_rank", err);
    if (status == WEFT_OK)
        status = judge(MPI_Comm_size(m->world, &m->c.size), "MPI_Comm_size", err);
    return status;
}

__attribute__((visibility("default"))) comm_open_fn weft_comm_open;

weft_status weft_comm_open(int version, comm **to, weft_error *err)
{
    *to = NULL;
    if (version != COMM_VERSION)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "a module for version %d of comm.h, weft has %d; install both from the "
                         "same build",
                         COMM_VERSION, version);
    mpi *m = calloc(1, sizeof *m);
    if (!m)
        return weft_fail(err, WEFT_ENOMEM, "no memory for the ranks of a run");
    *m = (mpi){ .c = { .send = mpi_send,
                       .receive = mpi_receive,
                       .sum = mpi_sum,
                       .poll = mpi_poll,
                       .stop = mpi_stop,
                       .close = mpi_close },
                .first_free = -1 };
    weft_status status = begin(m, err);
    if (status == WEFT_OK)
        status = join(m, err);
    if (status != WEFT_OK) {
        if (m->began)
            MPI_Finalize();
        free(m);
        return status;
    }
    put_name(&m->c);
    *to = &m->c;
    return WEFT_OK;
}

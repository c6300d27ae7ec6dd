/* load.c - chooses, finds and opens the module for messages between ranks; see load.h. */
#include "dist/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define OPEN_MPI "comm-openmpi.so"
#define MPICH    "comm-mpich.so"

#define MOST_RANKS 1000000

/* ---- which --------------------------------------------------------------------------------------- */

/* Digits only: a number that somebody made by hand is not repaired. */
static weft_status read_ranks(const char *name, int *n, weft_error *err)
{
    const char *value = getenv(name);
    *n = 0;
    for (const char *s = value; *s >= '0' && *s <= '9' && *n <= MOST_RANKS; s++)
        *n = *n * 10 + (*s - '0');
    if (*n > 0 && *n <= MOST_RANKS && strspn(value, "0123456789") == strlen(value))
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL,
                     "%s is '%.40s'; expected the number of ranks, 1 to %d, as a launcher sets it; "
                     "unset it, or set WEFT_MPI=none",
                     name, value, MOST_RANKS);
}

/* The innermost of several launchers is not to be known; the first of this table counts. */
static weft_status ask_launcher(comm_choice *to, weft_error *err)
{
    static const struct {
        const char *ranks, *with, *module; /* `with`: must be set too */
    } launchers[] = {
        { "OMPI_COMM_WORLD_SIZE", NULL, OPEN_MPI },
        { "PMI_SIZE", NULL, MPICH },
        { "SLURM_NTASKS", "PMIX_RANK", OPEN_MPI }, /* without PMIX_RANK: the job's shell script */
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (!getenv(launchers[i].ranks) || (launchers[i].with && !getenv(launchers[i].with)))
            continue;
        to->by = launchers[i].ranks;
        to->module = launchers[i].module;
        return read_ranks(to->by, &to->ranks, err);
    }
    return WEFT_OK;
}

weft_status comm_choose(const char *which, comm_choice *to, weft_error *err)
{
    const char *own = getenv("WEFT_MPI");
    *to = (comm_choice){ 0 };
    if (own && *own)
        which = own;
    if (which && strcmp(which, "none") == 0)
        return WEFT_OK;
    const weft_status status = ask_launcher(to, err);
    if (status != WEFT_OK)
        return status;
    if (!which)
        to->module = to->ranks > 1 ? to->module : NULL;
    else if (strchr(which, '/'))
        to->module = which;
    else if (strcmp(which, "openmpi") == 0)
        to->module = OPEN_MPI;
    else if (strcmp(which, "mpich") == 0)
        to->module = MPICH;
    else
        return weft_fail(err, WEFT_EINVAL,
                         "%s'%.80s' is no MPI; expected none, openmpi, mpich, or the path of a "
                         "module with a slash in it",
                         which == own ? "WEFT_MPI: " : "", which);
    return WEFT_OK;
}

/* ---- where --------------------------------------------------------------------------------------- */

#define N_PLACE 4

typedef struct places {
    char program[PATH_MAX]; /* this program's file */
    struct {
        const char *file, *tail; /* the directory of `file`, and `tail` below it */
    } at[N_PLACE];
} places;

/* The file that contains this code. The loader knows the program by what its caller named it, which
 * need not be a path. */
static const char *own_file(const char *program)
{
    Dl_info here, head;
    if (!dladdr((void *)(uintptr_t)comm_load, &here) || !here.dli_fname)
        return program;
    if (dladdr((void *)getauxval(AT_PHDR), &head) && head.dli_fbase == here.dli_fbase)
        return program;
    return here.dli_fname;
}

/* Beside the library or the program, as in a build directory; where they are installed, also if the
 * tree was moved. */
static void find_places(places *p)
{
    const ssize_t n = readlink("/proc/self/exe", p->program, sizeof p->program - 1);
    p->program[n > 0 ? n : 0] = '\0';
    const char *own = own_file(p->program);
    p->at[0].file = p->at[1].file = own;
    p->at[0].tail = "";
    p->at[1].tail = "/weft";
    p->at[2].file = p->program;
    p->at[2].tail = "/" COMM_FROM_PROGRAM;
    p->at[3].file = COMM_INSTALLED "/";
    p->at[3].tail = "";
}

static int put_place(const places *p, int i, char *to, size_t size)
{
    const char *file = p->at[i].file, *slash = strrchr(file, '/');
    return snprintf(to, size, "%.*s%s", slash ? (int)(slash - file) : 0, file, p->at[i].tail);
}

static weft_status not_found(const comm_choice *c, const places *p, weft_error *err)
{
    char where[2 * PATH_MAX] = "", started[64] = "";
    size_t at = 0;
    for (int i = 0; i < N_PLACE && at + 2 < sizeof where; i++) {
        at += (size_t)snprintf(where + at, sizeof where - at, i ? ", " : "");
        at += (size_t)put_place(p, i, where + at, sizeof where - at);
    }
    if (c->ranks > 1)
        snprintf(started, sizeof started, "started as %d ranks (%s), but ", c->ranks, c->by);
    return weft_fail(err, WEFT_EIO,
                     "%s%s was not found; expected it in one of %s; install weft-mpi, or set "
                     "WEFT_MPI=none",
                     started, c->module, where);
}

/* The path of the module. */
static weft_status find(const comm_choice *c, char *path, size_t size, weft_error *err)
{
    places p;
    if (strchr(c->module, '/')) {
        snprintf(path, size, "%s", c->module);
        return WEFT_OK;
    }
    find_places(&p);
    for (int i = 0; i < N_PLACE; i++) {
        const size_t n = (size_t)put_place(&p, i, path, size);
        if (n >= size || (size_t)snprintf(path + n, size - n, "/%s", c->module) >= size - n)
            continue;
        if (access(path, F_OK) == 0)
            return WEFT_OK;
    }
    return not_found(c, &p, err);
}

/* ---- open ---------------------------------------------------------------------------------------- */

/* Global, because the plugins of an MPI may look for its symbols where a program that is linked with
 * it has them. (Those of Open MPI 4.1.4 do without.) */
static weft_status load(const char *path, comm_open_fn **open, weft_error *err)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!module)
        return weft_fail(err, WEFT_EIO,
                         "%s; expected a module of weft and the libraries of its MPI; install "
                         "them, or set WEFT_MPI=none",
                         dlerror());
    *open = (comm_open_fn *)(uintptr_t)dlsym(module, COMM_OPEN);
    if (!*open)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s has no " COMM_OPEN "; expected a module of weft for an MPI", path);
    return WEFT_OK;
}

/* A launcher of the other MPI starts processes that find themselves alone. */
static weft_status check_ranks(const comm_choice *c, const comm *found, const char *path,
                               weft_error *err)
{
    if (c->ranks == 0 || c->ranks == found->size)
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL,
                     "%s (%s) finds %d of the %d ranks of %s; expected all of them; start weft "
                     "with the mpirun of that MPI, or set WEFT_MPI to the MPI of this one",
                     path, found->name, found->size, c->ranks, c->by);
}

weft_status comm_load(comm **to, const char *which, weft_error *err)
{
    comm_choice choice;
    char path[PATH_MAX];
    comm_open_fn *open = NULL;
    comm *c = NULL;
    *to = NULL;
    weft_status status = comm_choose(which, &choice, err);
    if (status != WEFT_OK || !choice.module)
        return status;
    status = find(&choice, path, sizeof path, err);
    if (status == WEFT_OK)
        status = load(path, &open, err);
    if (status == WEFT_OK)
        status = open(COMM_VERSION, &c, err);
    if (status != WEFT_OK)
        return status;
    status = check_ranks(&choice, c, path, err);
    if (status == WEFT_OK)
        *to = c;
    else
        c->close(c);
    return status;
}

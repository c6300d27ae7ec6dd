/* test_comm_load.c - whether a process is one rank of several, and which module it loads
 * (dist/load.c). The modules are tests/comm/fake.c; real ones are for tests/host/mpi.c. */
#include "support.h"

#include "dist/load.h"

/* Nothing of the launcher of this test counts, nor of the case before. */
static void clear_environment(void)
{
    static const char *const names[] = { "WEFT_MPI",    "OMPI_COMM_WORLD_SIZE",
                                         "PMI_SIZE",    "SLURM_NTASKS",
                                         "PMIX_RANK",   "FAKE_RANKS",
                                         "FAKE_VERSION" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* "NAME=VALUE NAME=VALUE" and nothing else that a launcher sets. */
static void set_environment(const char *text)
{
    char copy[256], *rest = NULL;
    clear_environment();
    snprintf(copy, sizeof copy, "%s", text);
    for (char *s = strtok_r(copy, " ", &rest); s; s = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(s, '=');
        *value = '\0';
        setenv(s, value + 1, 1);
    }
}

#define OPEN_MPI "comm-openmpi.so"
#define MPICH    "comm-mpich.so"

/* ---- which --------------------------------------------------------------------------------------- */

typedef struct example {
    const char *which, *environment;
    const char *module; /* NULL: alone */
    int ranks;
} example;

static void chooses_by_the_environment(void **state)
{
    (void)state;
    static const example examples[] = {
        { NULL, "", NULL, 0 },
        { NULL, "OMPI_COMM_WORLD_SIZE=4", OPEN_MPI, 4 },
        { NULL, "OMPI_COMM_WORLD_SIZE=1", NULL, 1 },
        { NULL, "PMI_SIZE=2", MPICH, 2 },
        { NULL, "PMI_SIZE=1", NULL, 1 },
        { NULL, "PMIX_RANK=0 SLURM_NTASKS=1000", OPEN_MPI, 1000 },
        { NULL, "PMIX_RANK=0 SLURM_NTASKS=1", NULL, 1 },
        /* The shell script of a job is no rank, nor is what it starts by itself. */
        { NULL, "SLURM_NTASKS=8", NULL, 0 },
        { NULL, "PMIX_RANK=0", NULL, 0 },
        { NULL, "OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 SLURM_NTASKS=8", NULL, 1 },
        { NULL, "OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=3 SLURM_NTASKS=8", OPEN_MPI, 4 },
        { NULL, "PMI_SIZE=2 SLURM_NTASKS=8", MPICH, 2 },
        /* The caller chooses. */
        { "none", "OMPI_COMM_WORLD_SIZE=4", NULL, 0 },
        { "none", "OMPI_COMM_WORLD_SIZE=x", NULL, 0 },
        { "openmpi", "", OPEN_MPI, 0 },
        { "openmpi", "OMPI_COMM_WORLD_SIZE=1", OPEN_MPI, 1 },
        { "mpich", "", MPICH, 0 },
        { "mpich", "OMPI_COMM_WORLD_SIZE=4", MPICH, 4 },
        { "./own.so", "PMI_SIZE=3", "./own.so", 3 },
        /* WEFT_MPI counts more. */
        { NULL, "WEFT_MPI=none PMI_SIZE=2", NULL, 0 },
        { "openmpi", "WEFT_MPI=none", NULL, 0 },
        { "none", "WEFT_MPI=mpich", MPICH, 0 },
        { NULL, "WEFT_MPI=mpich PMI_SIZE=2", MPICH, 2 },
        { NULL, "WEFT_MPI=/a/b.so", "/a/b.so", 0 },
        { NULL, "WEFT_MPI= PMI_SIZE=2", MPICH, 2 },
        { "openmpi", "WEFT_MPI=", OPEN_MPI, 0 },
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        weft_error err = { 0 };
        comm_choice found;
        print_message("%s, %s\n", e->which ? e->which : "-", e->environment);
        set_environment(e->environment);
        assert_int_equal(comm_choose(e->which, &found, &err), WEFT_OK);
        assert_string_equal(found.module ? found.module : "", e->module ? e->module : "");
        assert_int_equal(found.ranks, e->ranks);
    }
}

static void refuses_other_numbers(void **state)
{
    (void)state;
    static const char *const numbers[] = { "",   "0",   "-4",  "+4",  "4 ",      "4x",
                                           "x4", "4.0", "\t4", "0x4", "1000001", "4294967298" };
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS" };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            weft_error err = { 0 };
            comm_choice found;
            clear_environment();
            setenv("PMIX_RANK", "0", 1);
            setenv(names[k], numbers[i], 1);
            assert_int_equal(comm_choose(NULL, &found, &err), WEFT_EINVAL);
            assert_true(strncmp(err.message, names[k], strlen(names[k])) == 0);
            assert_non_null(strstr(err.message, "expected the number of ranks, 1 to 1000000"));
        }
}

static void refuses_other_names(void **state)
{
    (void)state;
    weft_error err = { 0 };
    comm_choice found;
    clear_environment();
    assert_int_equal(comm_choose("OpenMPI", &found, &err), WEFT_EINVAL);
    assert_string_equal(err.message, "'OpenMPI' is no MPI; expected none, openmpi, mpich, or the "
                                     "path of a module with a slash in it");
    set_environment("WEFT_MPI=own.so");
    assert_int_equal(comm_choose("none", &found, &err), WEFT_EINVAL);
    assert_true(strncmp(err.message, "WEFT_MPI: 'own.so' is no MPI; ", 30) == 0);
}

/* ---- where: paths and modules -------------------------------------------------------------------- */

static void loads_what_is_installed(void **state)
{
    (void)state;
    weft_error err = { 0 };
    comm *c = NULL;
    set_environment("OMPI_COMM_WORLD_SIZE=4 FAKE_RANKS=4");
    assert_int_equal(comm_load(&c, NULL, &err), WEFT_OK);
    assert_true(c && c->size == 4);
    c->close(c);
    set_environment("");
    assert_int_equal(comm_load(&c, COMM_INSTALLED "/" OPEN_MPI, &err), WEFT_OK);
    assert_true(c && c->size == 1);
    c->close(c);
    assert_int_equal(comm_load(&c, NULL, &err), WEFT_OK);
    assert_true(c == NULL);
}

static void names_the_missing_module(void **state)
{
    (void)state;
    weft_error err = { 0 };
    comm *c = NULL;
    set_environment("PMI_SIZE=4");
    assert_int_equal(comm_load(&c, NULL, &err), WEFT_EIO);
    assert_true(c == NULL);
    assert_true(strncmp(err.message,
                        "started as 4 ranks (PMI_SIZE), but comm-mpich.so was not found; expected "
                        "it in one of /",
                        87) == 0);
    assert_non_null(strstr(err.message, COMM_INSTALLED "; install weft-mpi, or set WEFT_MPI=none"));
    set_environment("");
    assert_int_equal(comm_load(&c, "mpich", &err), WEFT_EIO);
    assert_true(strncmp(err.message, "comm-mpich.so was not found; ", 29) == 0);
    assert_int_equal(comm_load(&c, "/nowhere/comm.so", &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "/nowhere/comm.so: "));
    assert_non_null(strstr(err.message, "; expected a module of weft"));
}

static void refuses_what_is_no_module(void **state)
{
    (void)state;
    weft_error err = { 0 };
    comm *c = NULL;
    set_environment("");
    assert_int_equal(comm_load(&c, COMM_INSTALLED "/comm_empty.so", &err), WEFT_EFORMAT);
    assert_non_null(
        strstr(err.message, "comm_empty.so has no weft_comm_open; expected a module of weft"));
    set_environment("FAKE_VERSION=2");
    assert_int_equal(comm_load(&c, "openmpi", &err), WEFT_EUNSUPPORTED);
    assert_string_equal(err.message, "version 2");
    assert_true(c == NULL);
}

/* Ranks that cannot see each other would all train, and write the same files. */
static void refuses_a_launcher_of_another_mpi(void **state)
{
    (void)state;
    weft_error err = { 0 };
    comm *c = NULL;
    set_environment("PMI_SIZE=4 WEFT_MPI=openmpi FAKE_RANKS=1");
    assert_int_equal(comm_load(&c, NULL, &err), WEFT_EINVAL);
    assert_true(c == NULL);
    assert_non_null(strstr(err.message, "(fake) finds 1 of the 4 ranks of PMI_SIZE; expected all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("comm_load: the launcher's environment and WEFT_MPI choose",
             chooses_by_the_environment),
        TEST("comm_load: numbers of ranks are read strictly", refuses_other_numbers),
        TEST("comm_load: a name that is no MPI is refused", refuses_other_names),
        TEST("comm_load: an installed module and one by path are loaded", loads_what_is_installed),
        TEST("comm_load: a module that is missing is named", names_the_missing_module),
        TEST("comm_load: a library that is no module is refused", refuses_what_is_no_module),
        TEST("comm_load: ranks that do not see each other stop", refuses_a_launcher_of_another_mpi),
    };
    return RUN(tests);
}

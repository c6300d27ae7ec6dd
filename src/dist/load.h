/* load.h - finds out whether this process is one rank of several, and loads the module that reaches
 * the others. Open MPI and MPICH differ in their binary interface, so that weft links neither. */
#ifndef WEFT_DIST_LOAD_H
#define WEFT_DIST_LOAD_H

#include "base/comm.h"

/* What to load, and why. */
typedef struct comm_choice {
    const char *module; /* "comm-openmpi.so", or a path with a slash; NULL: this process is alone */
    const char *by;     /* the variable in which a launcher gave the number of ranks, or NULL */
    int ranks;          /* that number; 0: no launcher gave one */
} comm_choice;

/* `which`: "openmpi", "mpich", "none", or the path, with a slash, of a module; NULL: by what the
 * launcher left in the environment, where mpirun of Open MPI sets OMPI_COMM_WORLD_SIZE, mpirun of
 * MPICH and srun --mpi=pmi2 set PMI_SIZE, and srun --mpi=pmix, which is taken for Open MPI, sets
 * PMIX_RANK and SLURM_NTASKS. One rank is alone. WEFT_MPI in the environment has the same values as
 * `which` and overrides it; empty, it is not there. */
weft_status comm_choose(const char *which, comm_choice *to, weft_error *err);

/* *to = NULL if this process was started alone. It is an error if the module sees another number of
 * ranks than the launcher started: each would train alone and write the same files.
 *
 * A module stays loaded when its comm is closed. MPI begins once in a process, so that after that
 * there is no second comm. */
weft_status comm_load(comm **to, const char *which, weft_error *err);

#endif

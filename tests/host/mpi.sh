#!/bin/sh
# mpi.sh NAME PROGRAM BUILD MPIRUN... - runs host_mpi with several numbers of ranks. NAME is openmpi or mpich, MPIRUN its
# launcher and flags. What a rank prints is passed on: its checks count.
set -u
name=$1 program=$2 build=$3
shift 3
. "$(dirname "$0")/say.sh"
unset WEFT_MPI

# passes SENTENCE COMMAND...: the exit code is 0; shows what the command prints.
passes()
{
    sentence=$1
    shift
    timeout 200 "$@"
    check "mpi: $name: $sentence" [ $? -eq 0 ]
}

for n in 2 3 4 8; do
    passes "$n ranks end well" "$@" -n $n "$program" all $n
done
passes "one rank is alone" "$@" -n 1 "$program" alone
passes "WEFT_MPI gives a single rank a comm" env WEFT_MPI="$name" "$@" -n 1 "$program" all 1
passes "WEFT_MPI=none leaves ranks alone" env WEFT_MPI=none "$@" -n 2 "$program" alone
passes "a short message is refused" "$@" -n 2 "$program" short

# One rank stops all while the others wait.
start=$(date +%s)
timeout 60 "$@" -n 4 "$program" stop 7 >"$work/stopped" 2>&1
code=$?
seconds=$(($(date +%s) - start))
echo "mpi: $name: stop() ended 4 ranks in $seconds s with code $code"
check "mpi: $name: stop() ends all ranks with its code" [ $code -eq 7 ]
check "mpi: $name: stop() takes seconds" [ $seconds -lt 10 ]

# The module is found where it is installed, also after the tree was moved.
cmake --install "$build" --prefix "$work/made" >"$work/installed" 2>&1
mv "$work/made" "$work/moved"
cp "$program" "$work/moved/bin/host_mpi"
passes "the module of an installed tree is found" "$@" -n 2 "$work/moved/bin/host_mpi" all 2
exit $n_failed

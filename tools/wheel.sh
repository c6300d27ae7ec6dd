#!/bin/sh
# wheel.sh - the Python wheel of the committed tree: the package and one library, which needs nothing but glibc.
#
#     tools/wheel.sh [--libraries DIR] OUT
#
# jansson, PCRE2, utf8proc, libpng, libjpeg, zlib and zstd are linked in, from Debian's sources (tools/libraries.sh; into
# ~/.cache/weft-wheel, once), and none of their names leaves the library, so that another copy in the process is another
# copy; their licences are in the wheel. The tag says the oldest glibc that has all symbols: a wheel made on Debian 12 runs
# on RHEL 9 and Ubuntu 22.04 and newer; for older ones, run this on an older system. The same commit gives the same bytes.
set -eu
to=${XDG_CACHE_HOME:-$HOME/.cache}/weft-wheel
if [ "${1:-}" = --libraries ]; then
    to=$(realpath -m "$2")
    shift 2
fi
[ $# = 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
jobs=${JOBS:-2}

CFLAGS="-O2 -fvisibility=hidden" JOBS=$jobs tools/libraries.sh "$to"
source=$to/source
build=$to/weft
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf "$source" "$build" # git archive dates files by their commit: ninja could keep objects of another one
mkdir -p "$source"
git archive HEAD | tar -x -C "$source"
PKG_CONFIG_LIBDIR=$to/lib/pkgconfig cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_TESTS=OFF -DWEFT_EXAMPLES=OFF \
    -DWEFT_BENCH=OFF -DWEFT_MPI=OFF -DCMAKE_C_FLAGS="-ffile-prefix-map=$source=. -ffile-prefix-map=$build=." \
    -DCMAKE_SHARED_LINKER_FLAGS="-Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--as-needed -Wl,-s"
PKG_CONFIG_LIBDIR=$to/lib/pkgconfig cmake --build "$build" -j "$jobs" --target weft_shared
python3 "$source/tools/make_wheel.py" "$build/libweft.so.1" "$to/licenses" "$out"

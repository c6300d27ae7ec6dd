#!/bin/sh
# tarball.sh - the program, the libraries and the manual of the committed tree in one archive that needs nothing but glibc.
#
#     tools/tarball.sh [--libraries DIR] OUT
#
# The libraries are those of tools/wheel.sh, with their licences. The program is then run in a clean system of Debian, if
# tools/wheel_check.sh has left one in ROOTS (/var/tmp/weft-roots), and on this machine.
set -eu
to=${XDG_CACHE_HOME:-$HOME/.cache}/weft-wheel
if [ "${1:-}" = --libraries ]; then
    to=$(realpath -m "$2")
    shift 2
fi
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
roots=${ROOTS:-/var/tmp/weft-roots}

CFLAGS="-O2 -fvisibility=hidden" tools/libraries.sh "$to"
source=$to/source
rm -rf "$source" "$to/program" # git archive dates files by their commit: ninja could keep objects of another one
mkdir -p "$source"
git archive HEAD | tar -x -C "$source"
version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' "$source/include/weft.h")
name=weft-$version-linux-$(uname -m)
build=$to/program
tree=$to/tree/$name
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# The header of libmicrohttpd is the system's; the library is loaded when a server starts.
mkdir -p "$to/system"
cp "$(pkg-config --variable=pcfiledir libmicrohttpd)/libmicrohttpd.pc" "$to/system"
PKG_CONFIG_LIBDIR=$to/lib/pkgconfig:$to/system cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_TESTS=OFF \
    -DWEFT_EXAMPLES=OFF -DWEFT_BENCH=OFF -DWEFT_MPI=OFF -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_C_FLAGS="-ffile-prefix-map=$source=. -ffile-prefix-map=$build=." \
    -DCMAKE_SHARED_LINKER_FLAGS="-Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--as-needed" -DCMAKE_EXE_LINKER_FLAGS="-Wl,--as-needed"
PKG_CONFIG_LIBDIR=$to/lib/pkgconfig:$to/system cmake --build "$build" -j "${JOBS:-2}" --target weft weft_shared weft_static_file weft_share
rm -rf "$to/tree"
cmake --install "$build" --strip --prefix "$tree" >/dev/null
(cd "$source" && cp -r README.md LICENSE CHANGELOG.md deploy "$tree")
cp -r "$to/licenses" "$tree/LICENSES"
if readelf -d "$tree/bin/weft" "$tree/lib/libweft.so" | grep NEEDED | grep -v -E '\[(libc|libm|ld-linux-.*)\.so'; then
    echo "tarball.sh: the program needs a library that is not glibc's" >&2
    exit 1
fi
mkdir -p "$out"
tar -C "$to/tree" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" | gzip -9n >"$out/$name.tar.gz"
ls -l "$out/$name.tar.gz"
for root in / "$roots"/bookworm "$roots"/trixie; do
    [ -d "$root/usr" ] || continue
    work=$(mktemp -d "$root/tmp/tarball.XXXXXX")
    tar -C "$work" -xf "$out/$name.tar.gz"
    cp "$source/models/shakespeare.gguf" "$work"
    (cd / && chroot "$root" sh -ec "cd '${work#"${root%/}"}' && $name/bin/weft run shakespeare.gguf ROMEO: -n 20 --quiet") || exit 1
    rm -rf "$work"
done

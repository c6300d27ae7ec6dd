#!/bin/sh
# libraries.sh - the libraries that weft uses, built from Debian's own sources with flags of one's own.
#
#     CC=clang CFLAGS="-fsanitize=memory" tools/libraries.sh DIR
#
# For what Debian's own builds cannot give: libraries instrumented for MemorySanitizer (tools/msan.sh), and static ones that
# can go into a shared library (tools/wheel.sh). Installs into DIR, once; needs apt, cmake, ninja, dpkg-dev. DIR/licenses has the
# licences of those that end up in what others install. PCRE2_JIT=OFF leaves out what makes machine code, JPEG_SIMD=OFF assembly.
set -eu
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
to=$(realpath -m "$1")
CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
jobs=${JOBS:-2}
[ -e "$to/done" ] && [ -d "$to/licenses" ] && exit 0

# apt with lists of its own, which have sources where those of the system have packages.
private_apt() {
    apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$to/apt/parts" -o Dir::State::Lists="$to/apt/lists" \
        -o APT::Sandbox::User=root "$@"
}

private_lists() {
    rm -rf "$to/apt/parts"
    mkdir -p "$to/apt/lists/partial" "$to/apt/parts"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$list" ] && sed -n 's/^deb /deb-src /p' "$list" >>"$to/apt/parts/system.list"
    done
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -e "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" >"$to/apt/parts/$(basename "$list")"
    done
    private_apt update
}

# The newest; where a mirror lacks the sources of an update, those of the release.
sources() {
    mkdir -p "$to/src"
    private_lists
    (cd "$to/src" && private_apt source "$@") ||
        (cd "$to/src" && private_apt -t "$(. /etc/os-release && echo "$VERSION_CODENAME")" source "$@")
}

# library SOURCE [CMAKE OPTION...]
library() {
    name=$1
    shift
    [ -e "$to/done-$name" ] && return 0
    from=$(find "$to/src" -maxdepth 1 -type d -name "$name-*" | head -n 1)
    [ "$name" = libzstd ] && from=$(find "$to/src" -maxdepth 1 -type d -name 'libzstd-*')/build/cmake
    cmake -S "$from" -B "$to/build/$name" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$to" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$to" -DBUILD_SHARED_LIBS=OFF "$@"
    cmake --build "$to/build/$name" -j "$jobs" --target install
    touch "$to/done-$name"
}

# Its utf8_encode is not ours: only the names of its interface stay global.
jansson() {
    [ -e "$to/done-jansson" ] && return 0
    library jansson -DJANSSON_BUILD_SHARED_LIBS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON
    (cd "$to/lib" && ld -r --whole-archive libjansson.a -o jansson.o &&
        objcopy --wildcard --keep-global-symbol='json*_*' --keep-global-symbol='jansson_*' jansson.o &&
        rm libjansson.a && ar rcs libjansson.a jansson.o && rm jansson.o)
}

# Debian's record of every file's authors and terms, one file for each library.
licenses() {
    rm -rf "$to/licenses.part"
    mkdir -p "$to/licenses.part"
    for name; do
        cp "$(find "$to/src" -maxdepth 1 -type d -name "$name-*" | head -n 1)/debian/copyright" "$to/licenses.part/$name.txt"
    done
    mv "$to/licenses.part" "$to/licenses"
}

sources jansson pcre2 utf8proc cmocka zlib libzstd libpng1.6 libjpeg-turbo
jansson
library pcre2 -DPCRE2_SUPPORT_JIT="${PCRE2_JIT:-ON}" -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF
library utf8proc
library cmocka -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF
if ! [ -e "$to/done-zlib" ]; then # Debian leaves out what its cmake needs
    (cd "$to"/src/zlib-* && CC=$CC CFLAGS="$CFLAGS -fPIC" ./configure --static --prefix="$to" && make -j "$jobs" install)
    touch "$to/done-zlib"
fi
library libzstd -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_TESTS=OFF
library libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_HARDWARE_OPTIMIZATIONS=OFF
library libjpeg-turbo -DCMAKE_INSTALL_LIBDIR="$to/lib" -DENABLE_SHARED=OFF -DWITH_SIMD="${JPEG_SIMD:-ON}" -DWITH_TURBOJPEG=OFF
[ -d "$to/licenses" ] || licenses jansson pcre2 utf8proc zlib libzstd libpng1.6 libjpeg-turbo
touch "$to/done"

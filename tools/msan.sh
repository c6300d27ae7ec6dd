#!/bin/sh
# msan.sh - the unit tests under MemorySanitizer.
#
#     tools/msan.sh [--libraries DIR] [REGEX of tests]
#
# MemorySanitizer knows only memory that instrumented code wrote. So the libraries that weft uses are built from Debian's
# own sources into DIR (~/.cache/weft-msan), once; needs apt, clang, cmake, ninja, dpkg-dev. The C library is covered by
# clang's interceptors. JIT code and vector instructions are not: PCRE2 is built without JIT, libjpeg without SIMD, and
# weft with its scalar kernels. Prints the tests that ran and the findings.
set -eu
to=${XDG_CACHE_HOME:-$HOME/.cache}/weft-msan
if [ "${1:-}" = --libraries ]; then
    to=$(realpath -m "$2")
    shift 2
fi
cd "$(dirname "$0")/.."
tests=${1:-^test_}
jobs=${JOBS:-2}
flags="-O1 -g -fno-omit-frame-pointer -fsanitize=memory -fsanitize-memory-track-origins"

# The library's flags stay out of the tree's build: only pkg-config leads there.
build() {
    PKG_CONFIG_LIBDIR=$to/lib/pkgconfig cmake --preset msan
    PKG_CONFIG_LIBDIR=$to/lib/pkgconfig cmake --build --preset msan -j "$jobs"
}

# It can find something: a branch on an integer that nobody wrote.
canary() {
    echo 'int main(int n, char **v) { (void)v; int x[2]; return x[n] ? 1 : 0; }' >"$to/canary.c"
    clang -fsanitize=memory -w "$to/canary.c" -o "$to/canary"
    if "$to/canary" 2>/dev/null; then
        echo "msan.sh: MemorySanitizer does not find a planted fault" >&2
        exit 1
    fi
}

CC=clang CFLAGS=$flags JOBS=$jobs PCRE2_JIT=OFF JPEG_SIMD=OFF tools/libraries.sh "$to"
canary
build
log=$to/tests.log
code=0
WEFT_TEST_QUICK=1 ctest --preset msan -R "$tests" -j "$jobs" -V >"$log" 2>&1 || code=$?
printf 'MemorySanitizer: %d tests in %d programs, %d failed, %d skipped, %d findings (%s)\n' \
    "$(grep -c -F '[       OK ]' "$log")" "$(grep -c -E 'Test +#[0-9]+: .* (Passed|\*\*\*)' "$log")" \
    "$(grep -c -F '[  FAILED  ]' "$log")" "$(grep -c -F '[  SKIPPED ]' "$log")" \
    "$(grep -c 'WARNING: MemorySanitizer' "$log")" "$log"
grep -A 12 'WARNING: MemorySanitizer' "$log" | head -n 60
exit $code

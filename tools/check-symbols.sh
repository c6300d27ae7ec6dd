#!/bin/sh
# check-symbols.sh BUILD_DIR - what leaves the library is what weft.h declares, no more and no less: in libweft.so by
# nm -D, in libweft.a by its global symbols. A module for MPI (comm-*.so), if there is one, exports weft_comm_open. For
# builds without sanitizers, which add symbols of their own.
set -u
if [ $# -ne 1 ] || [ ! -f "$1/libweft.so" ] || [ ! -f "$1/libweft.a" ]; then
    echo "usage: check-symbols.sh BUILD_DIR (with libweft.so and libweft.a in it)" >&2
    exit 2
fi
header=$(dirname "$0")/../include/weft.h
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# The first weft_name( of each WEFT_API declaration, which may take several lines.
awk '
/^WEFT_API/ { declaration = ""; inside = 1 }
inside { declaration = declaration " " $0 }
inside && /;/ {
    inside = 0
    if (match(declaration, /weft_[a-z0-9_]+\(/))
        print substr(declaration, RSTART, RLENGTH - 1)
}' "$header" | LC_ALL=C sort >"$work/declared"

nm -D --defined-only "$1/libweft.so" | awk '{ print $NF }' | LC_ALL=C sort >"$work/libweft.so"
nm -g --defined-only "$1/libweft.a" | awk 'NF >= 3 { print $NF }' | LC_ALL=C sort >"$work/libweft.a"

n=$(wc -l <"$work/declared")
failed=0
if [ "$n" -eq 0 ]; then
    echo "weft.h declares no function with WEFT_API"
    failed=1
fi
for library in libweft.so libweft.a; do
    LC_ALL=C comm -13 "$work/declared" "$work/$library" >"$work/extra"
    LC_ALL=C comm -23 "$work/declared" "$work/$library" >"$work/missing"
    sed "s/^/$library: exports what weft.h does not declare: /" "$work/extra"
    sed "s/^/$library: lacks what weft.h declares: /" "$work/missing"
    if [ -s "$work/extra" ] || [ -s "$work/missing" ]; then
        failed=1
    else
        echo "$library: the $n functions of weft.h and nothing else"
    fi
done
for module in "$1"/comm-*.so; do
    [ -f "$module" ] || continue
    exported=$(nm -D --defined-only "$module" | awk '{ print $NF }')
    if [ "$exported" = weft_comm_open ]; then
        echo "$(basename "$module"): weft_comm_open and nothing else"
    else
        echo "$(basename "$module"): exports $(echo "$exported" | tr '\n' ' '); expected weft_comm_open"
        failed=1
    fi
done
exit $failed

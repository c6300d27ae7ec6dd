#!/bin/sh
# check-abi.sh - a program built against an older libweft still runs with this one.
#
#   tools/check-abi.sh BUILD           compares BUILD/libweft.so (compiled with -g) with tools/weft.abi
#   tools/check-abi.sh BUILD --write   writes tools/weft.abi anew: functions that were added, or a new ABI version
#
# Functions may be added, and option structs may grow at their end: they carry their size. Anything else is another
# WEFT_ABI_VERSION and soname. What handles point to is not looked at.
set -eu
cd "$(dirname "$0")/.."
library=${1:?usage: tools/check-abi.sh BUILD [--write]}/libweft.so
readelf -S "$library" | grep -q debug_info || {
    echo "$library has no debug information: configure with -DCMAKE_C_FLAGS=-g"
    exit 1
}
if [ "${2:-}" = --write ]; then
    abidw --exported-interfaces-only --suppr tools/abi.suppr --no-corpus-path --no-comp-dir-path --no-show-locs "$library" |
        sed "s|path='$PWD/|path='|" >tools/weft.abi
else
    abidiff --suppr tools/abi.suppr --no-added-syms tools/weft.abi "$library"
fi

#!/bin/sh
# header.sh SOURCE CC [CXX] - strict C and C++ compilers accept weft.h.
set -u
source=$1 cc=$2 cxx=${3:-}
. "$source/tests/host/say.sh"

echo '#include <weft.h>' >"$work/use.c"
cp "$work/use.c" "$work/use.cpp"
strict="-fsyntax-only -Wall -Wextra -pedantic -Werror -I$source/include"
# shellcheck disable=SC2086 # one word per option
{
    check "weft.h is C99" "$cc" $strict -std=c99 "$work/use.c"
    check "weft.h is C11" "$cc" $strict -std=c11 "$work/use.c"
    if [ -n "$cxx" ]; then
        check "weft.h is C++11" "$cxx" $strict -std=c++11 "$work/use.cpp"
        check "weft.h is C++20" "$cxx" $strict -std=c++20 "$work/use.cpp"
    else
        skip "weft.h is C++11 and C++20" "no C++ compiler here"
    fi
}
exit $n_failed

#!/bin/sh
# install.sh SOURCE BUILD CC LIBDIR [CXX] - installs into an empty prefix, moves it, and builds the program of weft.h's
# first comment against it in every supported way: pkg-config, pkg-config --static, find_package; as C and as C++.
set -u
source=$1 build=$2 cc=$3 libdir=$4 cxx=${5:-}
. "$source/tests/host/say.sh"

model=$work/model
speaking_model "$source/tests/golden" "$model"
header_program "$source/include/weft.h" >"$work/program.c"
check "install: cmake --install succeeds" cmake --install "$build" --prefix "$work/made"
mv "$work/made" "$work/moved"
prefix=$work/moved
PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
LD_LIBRARY_PATH=$prefix/$libdir
export PKG_CONFIG_PATH LD_LIBRARY_PATH

check "install: the only header is weft.h" [ "$(ls "$prefix/include")" = weft.h ]
check "install: the installed weft runs" "$prefix/bin/weft" inspect "$model"
for file in man/man1/weft.1 man/man1/weft-run.1 bash-completion/completions/weft zsh/site-functions/_weft \
    fish/vendor_completions.d/weft.fish; do
    check "install: share/$file is there" [ -s "$prefix/share/$file" ]
done

# shellcheck disable=SC2046 # one word per flag
build_shared() { "$cc" "$work/program.c" $(pkg-config --cflags --libs weft) -o "$work/shared"; }
check "install: builds with pkg-config" build_shared
check "install: runs with pkg-config" prints_text "$work/shared" "$model" abc
cp "$work/text" "$work/text.shared"

# shellcheck disable=SC2046
build_cxx() { "$cxx" -Wall -Wextra -pedantic -x c++ "$work/program.c" $(pkg-config --cflags --libs weft) -o "$work/cxx"; }
# shellcheck disable=SC2046
build_example() { "$cxx" "$source/examples/cpp.cpp" $(pkg-config --cflags --libs weft) -o "$work/example"; }
if [ -n "$cxx" ]; then
    check "install: builds as C++ with pkg-config" build_cxx
    check "install: runs as C++" prints_text "$work/cxx" "$model" abc
    check "install: C and C++ print the same text" cmp "$work/text" "$work/text.shared"
    check "install: examples/cpp.cpp builds" build_example
    check "install: examples/cpp.cpp runs" "$work/example" "$model" "abc"
else
    skip "install: builds as C++ with pkg-config" "no C++ compiler here"
fi

# shellcheck disable=SC2046
build_static() { "$cc" -static "$work/program.c" $(pkg-config --static --cflags --libs weft) -o "$work/static"; }
echo 'int main(void) { return 0; }' >"$work/empty.c"
if "$cc" -static "$work/empty.c" -ljansson -lpcre2-8 -lutf8proc -o "$work/empty" 2>/dev/null; then
    check "install: builds with pkg-config --static" build_static
    check "install: runs with pkg-config --static" prints_text "$work/static" "$model" abc
    check "install: static and shared print the same text" cmp "$work/text" "$work/text.shared"
else
    skip "install: builds with pkg-config --static" "no static libc or libraries here"
fi

mkdir "$work/project"
cp "$work/program.c" "$work/project/"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(weft 0.1 REQUIRED)
add_executable(by_shared program.c)
target_link_libraries(by_shared PRIVATE weft::weft)
add_executable(by_static program.c)
target_link_libraries(by_static PRIVATE weft::static)
END
configure() { cmake -S "$work/project" -B "$work/project/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix"; }
check "install: find_package(weft) finds it" configure
check "install: builds with find_package" cmake --build "$work/project/build"
for target in by_shared by_static; do
    check "install: runs with find_package, $target" prints_text "$work/project/build/$target" "$model" abc
    check "install: $target prints the same text" cmp "$work/text" "$work/text.shared"
done
exit $n_failed

#!/bin/sh
# deb.sh - Debian's packages of the committed tree, built in a clean system, checked, built again, installed and tested.
#
#     tools/deb.sh OUT [RELEASE]      RELEASE: bookworm
#
# Steps: dpkg-buildpackage, lintian, a second build that must give the same bytes, and debian/tests by autopkgtest in another
# clean system. Needs root, debootstrap, lintian and autopkgtest; ROOTS says where the systems are kept (/var/tmp/weft-roots), MIRROR
# where they come from (that of this machine's apt), STEPS which steps run ("build lintian again test").
set -eu
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(realpath -m "$1")
release=${2:-bookworm}
cd "$(dirname "$0")/.."
roots=${ROOTS:-/var/tmp/weft-roots}
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}
steps=${STEPS:-build lintian again test}
commit=$(git rev-parse HEAD)
version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft.h)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH

system() { # NAME: a clean system of that name
    [ -e "$roots/$1/.done" ] && return 0
    rm -rf "${roots:?}/$1"
    mkdir -p "$roots"
    debootstrap --variant="${2:-minbase}" "$release" "$roots/$1" "$mirror" >"$roots/$1.log" 2>&1 || { tail "$roots/$1.log"; exit 1; }
    touch "$roots/$1/.done"
}

within() { # NAME COMMAND
    chroot "$roots/$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "DEB_BUILD_OPTIONS=parallel=${JOBS:-2}${NOCHECK:+ nocheck}" sh -ec "$2"
}

# The source: what is committed, with packaging/debian where Debian looks for it.
source_in() { # DIRECTORY
    rm -rf "$1"
    mkdir -p "$1"
    git archive --prefix="weft-$version/" "$commit" | tar -x -C "$1"
    tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --exclude='weft-*/packaging' \
        -c "weft-$version" | gzip -9n >"$1/weft_$version.orig.tar.gz"
    mv "$1/weft-$version/packaging/debian" "$1/weft-$version/debian"
    rm -rf "$1/weft-$version/packaging"
}

build() { # DIRECTORY IN THE SYSTEM
    source_in "$roots/build$1"
    within build "cd $1/weft-$version && dpkg-buildpackage -us -uc"
}

for step in $steps; do
    case $step in
    build)
        system build buildd
        [ -e "$roots/build/.deps" ] || {
            source_in "$roots/build/build"
            within build "apt-get update -qq && apt-get build-dep -y -qq --no-install-recommends /build/weft-$version && touch /.deps"
        } >"$out.deps.log" 2>&1 || { tail -n 20 "$out.deps.log"; exit 1; }
        build /build >"$out.build.log" 2>&1 || { tail -n 30 "$out.build.log"; exit 1; }
        rm -rf "$out"
        mkdir -p "$out"
        cp "$roots"/build/build/*.deb "$roots"/build/build/*.dsc "$roots"/build/build/*.tar.* "$roots"/build/build/*.changes \
            "$roots"/build/build/*.buildinfo "$out"
        ls -l "$out"/*.deb
        ;;
    lintian)
        lintian --fail-on error,warning --allow-root "$out"/*.changes
        echo "lintian: no error, no warning"
        ;;
    again) # in another directory, later, without the tests
        NOCHECK=1 build /var/tmp/again >"$out.again.log" 2>&1 || { tail -n 30 "$out.again.log"; exit 1; }
        for deb in "$out"/*.deb; do
            cmp "$deb" "$roots/build/var/tmp/again/$(basename "$deb")"
        done
        echo "built twice: the same bytes"
        ;;
    test)
        system test
        within test "apt-get update -qq"
        autopkgtest --no-built-binaries "$out"/*.deb "$out"/*.dsc -- chroot "$roots/test" >"$out.test.log" 2>&1 ||
            { tail -n 60 "$out.test.log"; exit 1; }
        sed -n '/@@@@.* summary/,$p' "$out.test.log"
        ;;
    esac
done

#!/bin/sh
# wheel_check.sh - installs a wheel where nothing was made for it, and uses it.
#
#     tools/wheel_check.sh WHEEL [RELEASE...]
#
# For each release of Debian (bookworm and trixie) a clean system from debootstrap, without a compiler: pip install, generate,
# embed, train a step, in less than a minute. The same with each Python in PYTHONS (names or paths). Needs root and debootstrap;
# ROOTS says where the systems are kept (/var/tmp/weft-roots), MIRROR where they come from (that of this machine's apt).
set -eu
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
wheel=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
roots=${ROOTS:-/var/tmp/weft-roots}
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}
files="$wheel tests/python/check_wheel.py models/shakespeare.gguf README.md"

for release in ${*:-bookworm trixie}; do
    root=$roots/$release
    if ! [ -e "$root/.done" ]; then
        mkdir -p "$roots"
        debootstrap --variant=minbase --include=python3-venv "$release" "$root" "$mirror" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
        touch "$root/.done"
    fi
    rm -rf "$root/check"
    mkdir "$root/check"
    # shellcheck disable=SC2086
    cp $files "$root/check"
    printf '%-10s ' "$release"
    chroot "$root" sh -ec "cd /check && python3 -m venv v && v/bin/pip -q install --no-index ./*.whl &&
        v/bin/python check_wheel.py shakespeare.gguf README.md"
done
for python in ${PYTHONS:-}; do
    d=$(mktemp -d)
    printf '%-10s ' python
    "$python" -m venv "$d/v" && "$d/v/bin/pip" -q --disable-pip-version-check install --no-index "$wheel"
    # shellcheck disable=SC2086
    cp $files "$d"
    (cd "$d" && env -u WEFT_LIBRARY -u PYTHONPATH v/bin/python check_wheel.py shakespeare.gguf README.md)
    rm -rf "$d"
done

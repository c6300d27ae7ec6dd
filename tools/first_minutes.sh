#!/bin/sh
# first_minutes.sh [ROOT] - README's commands, and only those, in a clean Debian 12: makes one in a folder with debootstrap
# (or takes the one that is there), clones this repository into it, and runs the block of `apt` and `cmake` and then every
# console command, as README prints them. Each must succeed and print what README says. Tells the processor time from the
# clone to the first text (the bound is three minutes, without what apt takes) and of all.
# Needs root and debootstrap; MIRROR is the Debian mirror that it asks (that of this machine's apt).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
root=${1:-$(mktemp -d)/debian}
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}

if [ ! -d "$root/usr" ]; then
    debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 5 "$root.log"; exit 1; }
fi
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
for f in /etc/apt/apt.conf.d/*proxy*; do [ ! -f "$f" ] || cp "$f" "$root/etc/apt/apt.conf.d/"; done
rm -rf "$root/weft"
git clone -q "$here" "$root/weft"
mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT

inside() { chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }

# The first block of shell: apt, then cmake.
awk '/^```sh$/ && !done { inside = 1; next } /^```$/ && inside { exit } inside' "$here/README.md" >"$root/weft.sh"
grep '^apt ' "$root/weft.sh" | sed 's/apt install/apt-get install -y -qq/' >"$root/packages.sh"
grep -v '^apt ' "$root/weft.sh" | sed 's/^/set -e; /' >"$root/build.sh"
inside sh -c 'apt-get update -qq && sh /packages.sh' >"$root.apt" 2>&1 || { tail -n 5 "$root.apt"; exit 1; }
inside sh -c 'cd /weft && { times; sh /build.sh >/build.log 2>&1 || { tail -n 20 /build.log; exit 1; }
    build/weft run models/shakespeare.gguf "ROMEO:" -n 40; times; }' >"$root.build" || { cat "$root.build"; exit 1; }
sed -n '3,$p' "$root.build" | grep -v '^[0-9]*m[0-9.]*s'
tail -n 1 "$root.build" | awk '{ split($1, u, /[ms]/); split($2, s, /[ms]/); printf "processor time from clone to text: %.0f s\n", u[1] * 60 + u[2] + s[1] * 60 + s[2] }'
inside sh -c 'cd /weft && sh tests/cli/readme.sh README.md build/weft'

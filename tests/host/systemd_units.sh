#!/bin/sh
# systemd_units.sh SOURCE WEFT - systemd's own checks of deploy/systemd, with the program of this build.
set -u
source=$1
weft=$2
. "$source/tests/host/say.sh"

if ! systemd-analyze --version >/dev/null 2>&1; then
    skip "systemd: the units of deploy/systemd are valid" "systemd-analyze is not installed"
    exit 0
fi
sed "s,/usr/bin/weft,$weft," "$source/deploy/systemd/weft.service" >"$work/weft.service"
cp "$source/deploy/systemd/weft.socket" "$work"

# valid: without a word, as systemd only warns of names that it does not know. The manual is not installed here.
valid()
{
    systemd-analyze verify --man=no "$work/weft.service" "$work/weft.socket" >"$work/words" 2>&1 && [ ! -s "$work/words" ] ||
        { cat "$work/words"; return 1; }
}
exposed_below() { # TENTHS
    systemd-analyze security --offline=true --threshold="$1" "$work/weft.service"
}

check "systemd: the units of deploy/systemd are valid" valid
systemd-analyze security --offline=true "$work/weft.service" | tail -n 1
check "systemd: the service's exposure is 1.0 or less" exposed_below 10

# Both checks can fail.
cp "$work/weft.service" "$work/good"
echo 'ProtectNothing=yes' >>"$work/weft.service"
fails() { ! "$@"; }
check "systemd: an unknown setting is found" fails valid
grep -v -E '^(DynamicUser|Protect|Private|Capability|Restrict|SystemCall)' "$work/good" >"$work/weft.service"
check "systemd: an open service is found" fails exposed_below 10
exit $n_failed

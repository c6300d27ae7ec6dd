#!/bin/sh
# check-format.sh - every C file is as clang-format 14 with .clang-format leaves it, and no line ends in a blank or
# holds a tab. To mend: clang-format -i FILE.
set -u
cd "$(dirname "$0")/.." || exit 2
for tool in clang-format-14 clang-format; do
    command -v "$tool" >/dev/null 2>&1 && "$tool" --version | grep -q 'version 14\.' && break
    tool=
done
if [ -z "$tool" ]; then
    echo "check-format: clang-format 14 is needed: another version formats otherwise" >&2
    exit 2
fi

files=$(find src include cli server tests bench examples tools -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
failed=0
# shellcheck disable=SC2086 # one word per file
"$tool" --dry-run -Werror $files || failed=1
# shellcheck disable=SC2086
awk '
/[ \t]$/ { print FILENAME ":" FNR ": blank at the end of the line"; bad++ }
/\t/     { print FILENAME ":" FNR ": tab"; bad++ }
END      { exit (bad > 0) }' $files || failed=1
[ $failed -eq 0 ] && echo "check-format: $(echo "$files" | wc -l) files are in form"
exit $failed

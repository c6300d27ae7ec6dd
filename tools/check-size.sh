#!/bin/sh
# Files of src/, cli/ and server/ begin with a comment that says what they are, have at most 600 lines, and no function over 60.
# Left out: generated tables.
#
#     tools/check-size.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 1
find src cli server -name '*.[ch]' ! -name tables.c | LC_ALL=C sort | xargs awk -v most_lines=600 -v most_body=60 '
function say(text) { print FILENAME ": " text; bad = 1 }
function file_end() {
    if (file != "" && n > most_lines) {
        print file ": " n " lines, expected " most_lines " at most; cut it by what it is about"
        bad = 1
    }
}
FNR == 1 {
    file_end()
    file = FILENAME
    if ($0 !~ /^\/\*/)
        say("begins with \"" $0 "\"; expected a comment: what it is, and why")
}
{ n = FNR }
/^{$/ { begin = FNR }
/^}$/ && begin {
    if (FNR - begin + 1 > most_body)
        say("line " begin ": a function of " FNR - begin + 1 " lines, expected " most_body " at most")
    begin = 0
}
END { file_end(); exit bad }' || exit 1

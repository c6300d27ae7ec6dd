#!/bin/sh
# Finds the phrases of tools/riddles.txt in docs, header, help, messages, comments and test names, also across line ends.
#
#     tools/check-words.sh [PATH...]       files or directories (default: all of them)
#
# Prints 'path:line: phrase -> better word' for each and fails if there is one. RIDDLES names another list.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
list=${RIDDLES:-tools/riddles.txt}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs include cli server src tests bench examples tools

# Not data: golden models, inputs of fuzzers, generated tables; nor the test of this script, which has riddles to find.
find "$@" -type f \( -name '*.md' -o -name '*.[ch]' -o -name '*.sh' -o -name '*.out' -o -name '*.py' \) \
    ! -path '*/golden/*' ! -path '*/corpus/*' ! -name tables.c \
    ! -path '*tests/host/docs.sh' | sort >"$work/files"
[ -s "$work/files" ] || { echo "check-words: no file to read in: $*; expected documents or source" >&2; exit 2; }

# One stream of all files, as long as they are: byte K of it is byte K of them, so a hit's place is its line. Paragraphs
# become one line each: line ends between two lines with text are spaces, and so are the signs that begin lines of
# comments and end pieces of strings. 'index' says at which byte each line begins.
tr '\n' '\0' <"$work/files" | xargs -0 awk -v index_file="$work/index" '
BEGIN { at = 0 }
function spaces(n) { return n > 0 ? sprintf("%" n "s", "") : "" }
FNR == 1 && NR > 1 { printf "\n" }
FNR > 1 { printf "%s", (blank || $0 ~ /^[ \t]*$/) ? "\n" : " " }
{
    print at, FILENAME, FNR >index_file
    at += length($0) + 1
    line = $0
    if (match(line, /^[ \t]*(\/?\*+|\/\/|#|")?/))
        line = spaces(RLENGTH) substr(line, RLENGTH + 1)
    if (match(line, /( |\\n)*"[ \t]*$/))
        line = substr(line, 1, RSTART - 1) spaces(RLENGTH)
    gsub(/\t/, " ", line)
    blank = line ~ /^ *$/
    printf "%s", line
}
END { printf "\n" }' >"$work/stream" || exit 2

number=0
while IFS='	' read -r pattern better; do
    case $pattern in
    '' | '#'*) continue ;;
    *[A-Z]*) any_case= ;;
    *) any_case=-i ;;
    esac
    number=$((number + 1))
    grep -obaE $any_case -- "$(printf '%s' "$pattern" | sed 's/ / +/g')" "$work/stream" >"$work/hits"
    [ $? -le 1 ] || { echo "check-words: $list: '$pattern' is not a pattern that grep -E takes" >&2; exit 2; }
    sed "s|\$|	$number|" "$work/hits" >>"$work/all"
    printf '%s\n' "$better" >>"$work/better"
done <"$list"
[ $number -gt 0 ] || { echo "check-words: $list: no patterns; expected PATTERN <tab> BETTER" >&2; exit 2; }

sort -n "$work/all" | awk -v better_file="$work/better" -v index_file="$work/index" '
BEGIN {
    FS = "\t"
    while ((getline word <better_file) > 0)
        better[++n] = word
    more = (getline next_line <index_file) > 0
}
{
    at = $1
    sub(/:.*/, "", at)
    phrase = $1
    sub(/^[0-9]*:/, "", phrase)
    gsub(/ +/, " ", phrase)
    while (more && next_line + 0 <= at + 0) {
        split(next_line, place, " ")
        more = (getline next_line <index_file) > 0
    }
    print place[2] ":" place[3] ": " phrase " -> " better[$2]
    hits++
}
END { exit hits > 0 }'

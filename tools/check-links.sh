#!/bin/sh
# Every relative link in Markdown leads to a file that exists, and every #anchor to a heading of that file. Links to other
# sites are not followed.
#
#     tools/check-links.sh [ROOT [FILE...]]      FILE: below ROOT; without any, README.md, docs/ and the other documents
set -u
LC_ALL=C
export LC_ALL
cd "${1:-$(dirname "$0")/..}" || exit 2
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- $(find . -name '*.md' ! -path './build*' ! -path '*/.*/*' | sed 's|^\./||' | sort)
[ $# -gt 0 ] || { echo "check-links: no Markdown in $PWD; expected README.md and docs/" >&2; exit 2; }

# anchors FILE: what GitHub calls its headings: lower case, without punctuation, spaces as hyphens; -1, -2 for the second
# and third of one name.
anchors()
{
    awk '/^[ ]*```/ { code = !code } !code && /^#+ / {
        sub(/^#+ +/, "")
        gsub(/\]\([^)]*\)/, "")
        gsub(/[][`*]/, "")
        name = tolower($0)
        gsub(/[!-,.\/:-@^`{-~]/, "", name)
        gsub(/ /, "-", name)
        print seen[name]++ ? name "-" seen[name] - 1 : name
    }' "$1"
}

# links FILE: 'line target' for each, those in code left out.
links()
{
    awk '/^[ ]*```/ { code = !code } code { next } {
        line = $0
        gsub(/`[^`]*`/, "", line)
        while (match(line, /\]\([^) ]+/)) {
            print NR, substr(line, RSTART + 2, RLENGTH - 2)
            line = substr(line, RSTART + RLENGTH)
        }
    }' "$1"
}

check()
{
    links "$1" | while read -r line target; do
        case $target in
        *://* | mailto:*) continue ;;
        esac
        path=${target%%#*}
        case $path in
        '') to=$1 ;;
        *) to=$(dirname "$1")/$path ;;
        esac
        if [ ! -e "$to" ]; then
            echo "$1:$line: a link to $path, which does not exist; correct the path or remove the link"
        elif [ "$target" != "$path" ] && [ "${to%.md}" != "$to" ] && ! anchors "$to" | grep -q -x -F -e "${target#*#}"; then
            echo "$1:$line: a link to ${target#*#}, but $to has no such heading; its headings: $(anchors "$to" | tr '\n' ' ')"
        fi
    done
}

broken=$(for file; do check "$file"; done)
[ -z "$broken" ] || { printf '%s\n' "$broken"; exit 1; }

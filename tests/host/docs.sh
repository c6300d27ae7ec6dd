#!/bin/sh
# docs.sh SOURCE - the links of the documents resolve, and the checks of documents can fail: tools/check-links.sh finds a broken
# link, tools/check-words.sh a riddle, each planted in a small tree.
set -u
source=$1
. "$source/tests/host/say.sh"

# page TEXT: docs/A.md with this text, beside docs/B.md.
page()
{
    rm -rf "$work/tree"
    mkdir -p "$work/tree/docs"
    printf '# B\n\n## What goes where?\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n' >"$work/tree/docs/B.md"
    printf '%b' "$1" >"$work/tree/docs/A.md"
}

links() { "$source/tools/check-links.sh" "$work/tree"; }
broken() { ! links >"$work/report" && cat "$work/report" && grep -q "$1" "$work/report"; }

check "docs: every link of the documents resolves" "$source/tools/check-links.sh" "$source"
page '[a](B.md) [b](B.md#what-goes-where) [c](#here) [d](B.md#twice-1) [e](https://x.example/y)\n# Here\n'
check "docs: links to files and headings pass" links
page 'one\n[a](C.md)\n'
check "docs: a link to a file that does not exist" broken '^docs/A.md:2: a link to C.md'
page '[a](B.md#what-goes)\n'
check "docs: a link to a heading that does not exist" broken '^docs/A.md:1: a link to what-goes'
page '[a](B.md#twice-2)\n'
check "docs: a link to a third heading where there are two" broken '^docs/A.md:1: a link to twice-2'
page '[a](B.md#no-heading)\n'
check "docs: a comment in a code block is no heading" broken '^docs/A.md:1: a link to no-heading'
page '`[a](C.md)`\n\n```\n[b](C.md)\n```\n'
check "docs: code is not followed" links

check "words: docs/ has no riddles" "$source/tools/check-words.sh" docs
words() { RIDDLES="$work/list" "$source/tools/check-words.sh" "$work/tree"; }
riddle() { ! words >"$work/report" && cat "$work/report" && grep -q "^$work/tree/docs/$1\$" "$work/report"; }
printf '# a comment\n\\bgoes on with\\b\tcontinue\n\\bKept is\\b\tsubject first\n' >"$work/list"

page 'It goes on.\n\nWith care: kept is kept.\n'
check "words: correct English passes" words
page 'one\nIt Goes on with it.\n'
check "words: a riddle, in any case, with its line" riddle 'A.md:2: Goes on with -> continue'
page 'one\nIt goes\non with it.\n'
check "words: a riddle that a line end cuts" riddle 'A.md:2: goes on with -> continue'
page 'one\n\nIt goes\n\non with it.\n'
check "words: an empty line is the end of a sentence" words
page 'Kept is this.\n'
check "words: a pattern with a capital is exact" riddle 'A.md:1: Kept is -> subject first'
page ''
printf 'int x; /* It goes\n        * on with it. */\nchar *s = "it goes "\n    "on with";\n' >"$work/tree/docs/a.c"
check "words: a riddle in a comment" riddle 'a.c:1: goes on with -> continue'
check "words: a riddle in a string" riddle 'a.c:3: goes on with -> continue'
printf '(\tx\n' >"$work/list"
check "words: a list with a broken pattern is an error" sh -c '! "$@"' sh env RIDDLES="$work/list" "$source/tools/check-words.sh" docs
: >"$work/list"
check "words: an empty list is an error" sh -c '! "$@"' sh env RIDDLES="$work/list" "$source/tools/check-words.sh" docs

# total FILE: the counts of readability.py, without the spaces between them.
total() { "$source/tools/readability.py" "$1" >"$work/report" && sed -n 's/^total *//p' "$work/report" | tr -s ' '; }
counts() { [ "$(total "$1")" = "$2" ] || { cat "$work/report"; return 1; }; }
some() { i=0; while [ $i -lt "$1" ]; do printf 'Word '; i=$((i + 1)); done; }
if command -v python3 >/dev/null; then
    page "Code and tables count nothing.\n\n\`\`\`\n$(some 40)\n\`\`\`\n\n| $(some 40) |\n|---|\n\n    $(some 40)\n"
    check "readability: code and tables are not sentences" counts "$work/tree/docs/A.md" '0 0 0 0'
    page "$(some 35).\n\n- $(some 36).\n"
    check "readability: a sentence of 36 words is long" counts "$work/tree/docs/A.md" '1 0 0 0'
    page "The model goes\non with it.\n"
    check "readability: a riddle that a line end cuts" counts "$work/tree/docs/A.md" '0 1 0 0'
    page "A is written. Written is B; what is C. Is it?\n"
    check "readability: an inversion" counts "$work/tree/docs/A.md" '0 1 1 0'
    page "$(for i in 1 2 3 4; do some 30; printf 'End. '; done)\n"
    check "readability: a paragraph of 124 words is long" counts "$work/tree/docs/A.md" '0 0 0 1'
    printf '/* %s. */\nint x;\n/* A drawing:\n *\n *     %s\n */\nchar *s = "goes on "\n    "with it";\n' "$(some 36)" "$(some 40)" >"$work/tree/docs/a.c"
    check "readability: comments and strings of C, without drawings" counts "$work/tree/docs/a.c" '1 1 0 0'
else
    skip "readability: counts" "no python3"
fi
exit $n_failed

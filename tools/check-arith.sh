#!/bin/sh
# check-arith.sh - no bare `+` or `*` in the parsers: sizes that wrap are how model loaders get exploited.
#
# A sum or product in src/formats, in the reader of adapters, in a saved session or in a request goes through base/checked.h, or its line says why it cannot wrap:
#
#     at = begin + order[i]->bytes; /* bounded: inside the file */
#
# clang-format puts spaces around binary operators and none after a unary star, so they can be told apart. Other files
# may be given as arguments.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- src/formats/*.c src/formats/*.h src/adapt/peft.c src/adapt/peft_config.c src/adapt/peft_keys.c src/adapt/peft_match.c src/adapt/gguf_lora.c src/adapt/modules.c src/adapt/take.c src/engine/session_file.c server/body.c server/request.c \
    server/request_values.c

awk '
# The line without comments, strings and characters; `inside` carries a comment over to the next line.
function code(line,    out, c, two, quote) {
    out = ""
    while (line != "") {
        c = substr(line, 1, 1)
        two = substr(line, 1, 2)
        if (inside) {
            if (two == "*/") { inside = 0; line = substr(line, 3) } else line = substr(line, 2)
        } else if (quote != "") {
            if (c == "\\") line = substr(line, 3)
            else { if (c == quote) quote = ""; line = substr(line, 2) }
        } else if (two == "/*") { inside = 1; line = substr(line, 3) }
        else if (two == "//") line = ""
        else if (c == "\"" || c == "\047") { quote = c; out = out "x"; line = substr(line, 2) }
        else { out = out c; line = substr(line, 2) }
    }
    return out
}
FNR == 1 { inside = 0 }
{
    text = code($0)
    if (text ~ /(^| )[*+]( |$)|[*+]=/ && $0 !~ /\/\* bounded: .*\*\//) {
        print FILENAME ":" FNR ": " $0
        bad = 1
    }
    n++
}
END {
    if (bad) print "use base/checked.h, or say on the line why it is bounded"
    else print n " lines of parser: every sum and product is checked or bounded"
    exit bad
}' "$@"

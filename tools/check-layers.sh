#!/bin/sh
# check-layers.sh [ROOT] - who may include whom. Reads the #include lines of src/, cli/ and server/ and names every
# breach as file:line: rule. The law, room by room:
#
#     base <- kernels <- tensor <- ops <- models <- adapt <- engine, train, explain <- api
#
#   - formats and text see base and tensor (kernels only through tensor); text sees formats; models, engine, train,
#     explain and api see both. dist sees base; train and api see dist. dist/mpi, which are modules of
#     their own, sees base, and nobody sees it. engine and train never see each other, and explain does not see adapt.
#   - Inside text: unicode <- regex, jinja <- text <- sources, train, constrain, which do not see each other.
#   - cli and server see <weft.h> and their own headers; cli also sees its serve.h, think.h and lora_dir.h. Anyone in src may see weft.h.
#   - Only kernels/dnnl.c includes dnnl, only dist/mpi mpi.h. Headers do not include each other in a circle.
#   - A file of models, bind_tensor.c, bind_spread.c and arch.c apart, never touches a tensor's data: that is what ops are for.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2

files=$(find src cli server -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
if [ -z "$files" ]; then
    echo "check-layers: no sources under $(pwd)" >&2
    exit 2
fi

# shellcheck disable=SC2086 # one word per file
awk '
BEGIN {
    may_include["base"]    = "base"
    may_include["kernels"] = "base kernels"
    may_include["tensor"]  = "base kernels tensor"
    may_include["ops"]     = "base kernels tensor ops"
    may_include["formats"] = "base tensor formats"
    may_include["text/unicode"] = "base text/unicode"
    may_include["text/regex"]   = may_include["text/unicode"] " text/regex"
    may_include["text/jinja"]   = may_include["text/unicode"] " text/jinja"
    may_include["text"]         = may_include["text/regex"] " text/jinja tensor formats text"
    may_include["text/sources"] = may_include["text"] " text/sources"
    may_include["text/constrain"] = "base text/unicode text/regex formats text text/constrain"
    may_include["text/train"]   = may_include["text"] " text/train"
    may_include["dist"]    = "base dist"
    may_include["dist/mpi"] = "base"
    may_include["models"]  = may_include["text/sources"] " text/train text/constrain kernels ops models"
    may_include["adapt"]   = may_include["models"] " adapt"
    may_include["engine"]  = may_include["adapt"] " engine"
    may_include["explain"] = may_include["models"] " explain"
    may_include["train"]   = may_include["adapt"] " dist train"
    may_include["api"]     = may_include["adapt"] " engine explain dist train api"
}

function breach(at, rule) { print at ": " rule; breaches++ }

# src/ops/rope.c -> ops; src/text/regex/set.c -> text/regex; cli/main.c -> cli
function room_of(path) {
    sub(/^src\//, "", path)
    sub(/\/[^\/]*$/, "", path)
    return path
}

function judge(at, from, name,    to) {
    if (name == "weft.h")
        return
    if (from == "cli" || from == "server") {
        if (from == "cli" && (name == "serve.h" || name == "think.h" || name == "lora_dir.h"))
            return
        if (name ~ /\// || !((from "/" name) in known))
            breach(at, from " sees only <weft.h> and its own headers, not \"" name "\"")
        return
    }
    if (!(("src/" name) in known)) {
        breach(at, "\"" name "\" is no header under src")
        return
    }
    to = room_of("src/" name)
    if (!(from in may_include))
        breach(at, "the law knows no room " from)
    else if ((" " may_include[from] " ") !~ (" " to " "))
        breach(at, from " may not see " to " (\"" name "\")")
}

# The line without its comments; a comment may span several lines.
function code_of(line,    code, end) {
    code = ""
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            if (!end)
                return code
            line = substr(line, end + 2)
            in_comment = 0
        } else {
            end = index(line, "/*")
            if (!end)
                return code line
            code = code substr(line, 1, end - 1) " "
            line = substr(line, end + 2)
            in_comment = 1
        }
    }
    return code
}

# Depth first: a header met again while it is still open closes a circle. The include that closes it is blamed.
function visit(header, trail,    i, n, next_of) {
    state[header] = "open"
    n = split(edges[header], next_of, " ")
    for (i = 1; i <= n; i++) {
        if (state[next_of[i]] == "open")
            breach(edge_line[header, next_of[i]], "headers include each other in a circle: " \
                   trail " -> " next_of[i])
        else if (state[next_of[i]] != "done")
            visit(next_of[i], trail " -> " next_of[i])
    }
    state[header] = "done"
}

NR == 1 { for (i = 1; i < ARGC; i++) known[ARGV[i]] = 1 }
FNR == 1 { in_comment = 0; room = room_of(FILENAME); base = FILENAME; sub(/.*\//, "", base) }

{
    code = code_of($0)
    at = FILENAME ":" FNR
}

code ~ /^[ \t]*#[ \t]*include/ {
    name = code
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    quoted = name ~ /^"/
    sub(/^["<]/, "", name)
    sub(/[">].*/, "", name)
    if (name ~ /dnnl/ && FILENAME != "src/kernels/dnnl.c")
        breach(at, "only src/kernels/dnnl.c includes dnnl")
    else if (name == "mpi.h" && room != "dist/mpi")
        breach(at, "only src/dist/mpi includes mpi.h")
    else if (quoted)
        judge(at, room, name)
    target = (room == "cli" || room == "server" ? room : "src") "/" name
    if (quoted && FILENAME ~ /\.h$/ && target in known) {
        edges[FILENAME] = edges[FILENAME] " " target
        edge_line[FILENAME, target] = at
    }
}

room == "models" && base ~ /\.c$/ && base !~ /^bind_(tensor|spread)\.c$/ && base != "arch.c" &&
code ~ /(->|\.)data([^A-Za-z0-9_]|$)/ {
    breach(at, "a model file never touches data: make it an op")
}

END {
    for (i = 1; i < ARGC; i++)
        if (ARGV[i] ~ /\.h$/ && !(ARGV[i] in state))
            visit(ARGV[i], ARGV[i])
    if (breaches)
        print "check-layers: " breaches " breaches of the law in " (ARGC - 1) " files"
    else
        print "check-layers: " (ARGC - 1) " files keep the law"
    exit (breaches > 0)
}' $files

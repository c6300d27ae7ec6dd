# Machines for numbers of users, from a record that is made up: 5 ms a forward, 0.5 ms a row.
awk 'BEGIN { print "# made up"; for (i = 0; i < 300; i++) { r = 1 + i * 37 % 200
    printf "step %d %d %d %d %.6f %s\n", r, 1 + i % 16, 100 * (i % 5), 200 * (i % 3), 0.005 + 0.0005 * r, i % 9 ? 0.0001 : -1 }
    print "request 100 0.0011"; print "request 200 0.0021" }' >steps
# Numbers may differ in their last digits from one mathematical library to another: only their shape counts here.
numbers() { sed -E 's/[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?/N/g; s/ +/ /g'; }
# The beginning of a line of JSON.
short() { sed -E 's/^(\{.{59}).*/\1/'; }
try $WEFT plan serve --record steps -c 1024 --users 100,1000,10000 --prompt-tokens 200 --cached 0.5 --new-tokens 30 --cores 4 --price 0.05 | numbers
try $WEFT plan serve --record steps -c 1024 --users 1000 --prompt-tokens 200 --new-tokens 30 --json | numbers
# As many machines for ten times the users, within one; fewer for a higher load; more for a limit.
machines() { $WEFT plan serve --record steps -c 1024 --prompt-tokens 200 --new-tokens 30 --json "$@" | sed 's/.*"machines":\([0-9]*\).*/\1/'; }
few=$(machines --users 10000) many=$(machines --users 100000) full=$(machines --users 100000 --load 0.9)
tight=$(machines --users 100000 --tpot 12) cheap=$(machines --users 100000 --cached 0.9)
[ "$many" -gt $((10 * few - 10)) ] && [ "$many" -le $((10 * few)) ] && echo "ten times the users: ten times the machines"
[ "$full" -lt "$many" ] && echo "more load: fewer machines"
[ "$tight" -gt "$many" ] && echo "a limit for further tokens: more machines"
[ "$cheap" -lt "$many" ] && echo "a cached prefix: fewer machines"
positions() { $WEFT plan serve --record steps -c 1024 --prompt-tokens 200 --new-tokens 30 --users 1000 --json "$@" | sed 's/.*"most_cached_positions":\([0-9]*\).*/\1/'; }
[ "$(positions --cached 0.9)" -gt "$(positions --prompt-tokens 20)" ] && echo "a cached prefix: it is in the cache"
printf '0 5 - 1:20\n0.5 6 a 1:20 2:7\n1 7 - 3:40\n' >trace
try $WEFT plan serve --record steps -c 256 --trace trace --users 50 | numbers
# A prompt that no machine takes, before anything is measured.
try $WEFT plan serve --record steps -c 256 --users 10 --prompt-tokens 200 --new-tokens 5
try $WEFT plan serve --record steps -c 30 --trace trace --users 50
try $WEFT plan serve "$GOLDEN/../../models/shakespeare.gguf" --users 10
# A record that is measured, kept and used again.
ln -s "$GOLDEN/../../models/shakespeare.gguf" .
try $WEFT plan serve shakespeare.gguf -c 128 -t 1 --parallel 4 --prompt-tokens 20 --new-tokens 5 --measure 0.5 --save-record kept --users 10 | numbers |
    sed 's/rows, ms:.*; a draw/rows, ms: ...; a draw/; s/explains -N/explains N/' # half a second is little
grep -c '^# ' kept
try $WEFT plan serve --record kept -c 128 --parallel 4 --prompt-tokens 20 --new-tokens 5 --users 10 --json | numbers | short
# More prompts wait at a time than four contexts have tokens.
try $WEFT plan serve shakespeare.gguf -t 1 --prompt-tokens 80 --cached 0.6 --new-tokens 5 --measure 1 --users 10 --json | numbers | short
# More at a time than the rows that a forward usually has.
try $WEFT plan serve --record steps -c 1024 --parallel 512 --prompt-tokens 20 --new-tokens 5 --users 10 --json | numbers | short
# The cores of this machine are those that the process may use.
taskset -c "$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)" $WEFT plan serve --record steps -c 1024 --users 10 --json | grep -o '"machine":{"cores":1,'
# Ctrl-C ends the simulations.
awk 'BEGIN { for (i = 0; i < 4000; i++) print i / 100, 200, "-", i ":" 400 }' >long
$WEFT plan serve --record steps -c 1024 --trace long >out 2>&1 &
pid=$!
until grep -q '^SigCgt:.*[4-7c-f]..[37bf]$' /proc/$pid/status; do sleep 0.02; done
sleep 0.1
kill -INT $pid
wait $pid
echo "-> $?"
cat out
awk 'BEGIN { for (i = 0; i < 4097; i++) print i, 1, "key" i, "1:1" }' >keys
try $WEFT plan serve --record steps --trace keys
try $WEFT plan serve
try $WEFT plan serve --record nothing
echo word >word
try $WEFT plan serve --record word
try $WEFT plan serve --record steps --trace word
try $WEFT plan serve --record steps --save-record other
try $WEFT plan serve --record steps --users 10,x
try $WEFT plan serve --record steps --requests 0
try $WEFT plan serve --record steps --prompt-tokens 0
try $WEFT plan serve --record steps --cached 1
try $WEFT plan serve --record steps --load 1.5
try $WEFT plan serve --record steps --ttft -1
try $WEFT plan serve --record steps --cores -1
try $WEFT plan serve --record steps --parallel 2000
try $WEFT plan serve --record steps -c 64 --prompt-tokens 500
try $WEFT plan serve --record steps -c 1024 --ttft 1
try $WEFT plan serve --record steps --ranks 2
try $WEFT plan train --users 10

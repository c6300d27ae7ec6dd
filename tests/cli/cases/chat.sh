# weft chat without a terminal: -p, lines from a pipe, saved conversations, a full context; and what it refuses.
model=$GOLDEN/chat/chat.gguf
template=$GOLDEN/chat/template.jinja
chat() { "$WEFT" chat "$model" --template "$template" -t 1 "$@"; }

echo "one answer, on stdout and nothing else there"
chat -p hi 2>stderr
cat stderr
chat -p hi --system "be kind" -sys "be brief"

echo "each line is a message, a command is none"
printf 'hi\n\n/save stolen\n/quit\nbye' | chat 2>/dev/null | sed -n '1p;$p'
ls
printf 'hi\r\n' | chat

echo "control characters pass where there is no terminal"
chat -p red | od -c | head -2

echo "thinking is on stderr, unless it is hidden or off"
chat -p think 2>stderr
sed 's/^/stderr: /' stderr
chat -p think --think hide 2>stderr
cat stderr
chat -p think --think off --timing -n 1 2>&1 >/dev/null

echo "a second turn computes what is new"
printf 'hi\nbye\n' | chat --timing 2>stderr
cat stderr

echo "a fresh process answers the same conversation alike"
echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Hello!"}]}' >saved.json
chat --load saved.json -p bye --timing 2>stderr
cat stderr
echo '[{"role":"system","content":"be kind"},{"role":"user","content":"hi"},{"role":"assistant","content":"Hello!"}]' >list.json
chat --load list.json -p think --think hide
echo bye | chat -p hi -i

echo "limits of an answer"
chat -p count -n 4
chat -p count --stop three
chat -p count -c 32

echo "a full context"
yes hi | head -4 >four
chat -c 32 --when-full stop <four
echo "-> $?"
chat -c 32 --when-full drop <four
echo "-> $?"
echo '[{"role":"user","content":"hi"},{"role":"user","content":"hi"},{"role":"assistant","content":"Hello!"}]' >unanswered.json
chat -c 32 --when-full drop --load unanswered.json -p bye --timing
chat -c 9 -p hi
chat -c 10 -p hi
try chat -c 32 --when-full drop -p "hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi"

echo "files that are no conversation"
refuse() { printf '%s' "$1" >bad.json; chat --load bad.json -p hi; echo "-> $?"; }
refuse ''
refuse '{"messages":7}'
refuse '[7]'
refuse '[{"role":"user"}]'
refuse '[{"role":"tool","content":"x"}]'
refuse '[{"role":"user","content":["x"]}]'
refuse '[{"role":"user","content":"x","tool_calls":"y"}]'
refuse '[{"role":"user","content":"x","content":"y"}]'
refuse '[{"role":"user","content":"x"},{"role":"system","content":"y"}]'
refuse "$(printf '[%.0s' $(seq 1 40))"
refuse "$(printf '[%.0s' $(seq 1 32))"
awk 'BEGIN { printf "["; for (i = 0; i < 200001; i++) printf "1,"; print "1]" }' >many.json
try chat --load many.json -p hi
head -c 16777217 /dev/zero >large.json
try chat --load large.json -p hi
try chat --load absent.json -p hi

echo "usage"
try "$WEFT" chat
try chat -p ""
try chat -n 0
try chat --date tomorrow
try chat --think maybe
try chat --when-full slide
try chat --template absent.jinja -p hi
try "$WEFT" chat "$model" "$template" extra
try "$WEFT" chat "$GOLDEN/bert" -p hi
try "$WEFT" help chat
try "$WEFT" chat "$GOLDEN/../../models/shakespeare.gguf" -p hi

# weft chat --tools: calls are lines on stdout, and the next line is a result; saved conversations keep them; --tool-run; what it refuses.
model=$GOLDEN/chat/chat.gguf
chat() { "$WEFT" chat "$model" --template one.jinja -t 1 "$@"; }
demand() { chat --tools tools.json --tool-choice look_up "$@"; }
call() { sed -n '1s/":"/": "/p; 1s/": "/": "/p' answers | head -1; } # the blank is the model's choice
prompts() { sed -n 's/^weft: \(prompt [0-9]* tokens\).*/\1/p' stderr; }

# A syntax with one call, and arguments that leave no choice: the call is the same on every machine.
sed "s/in m\['tool_calls'\] or \[\]/in (m['tool_calls'] or [])[:1]/; s/'.n' }}/'\\\\n' + (m['name'] or '') }}/" "$GOLDEN/chat/tools.jinja" >one.jinja
cat >tools.json <<'END'
[{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object",
  "properties": {"word": {"const": "\u001b[31m"}}, "required": ["word"], "additionalProperties": false}}},
 {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
  "properties": {"a": {"const": "one"}}, "required": ["a"], "additionalProperties": false}}}]
END

echo "a call is one line of stdout; without a result, that is the end"
demand -p hi </dev/null >answers
echo "-> $?"
call
wc -l <answers

echo "the next line is its result, whatever it begins with: role, name and content go into the conversation"
printf '/save stolen\n' | demand -p hi -n 120 --timing 2>stderr >answers
call
prompts
printf '/save stolen, and more\n' | demand -p hi -n 120 --timing >/dev/null 2>stderr
prompts
printf 'hi\n\nbye\n\n' | demand -n 120 --timing 2>stderr | grep -c '^call look_up '
prompts | head -2
ls

echo "without a demand the model answers as it likes; none: it knows the tools"
chat --tools tools.json -p hi -n 3 --timing >answer 2>stderr
prompts
chat --tools tools.json --tool-choice auto -p hi -n 3 | cmp - answer
chat --tools tools.json --tool-choice none -p hi -n 3 --timing 2>stderr >/dev/null
prompts

echo "several calls; one that is cut is dropped"
"$WEFT" chat "$model" --template "$GOLDEN/chat/tools.jinja" -t 1 --tools tools.json --tool-choice add -p hi -n 200 </dev/null 2>stderr >calls
sed -n 's/^call add {"a": *"one"}$/a call/p' calls | head -2
demand -p hi -n 50 </dev/null

echo "a saved conversation keeps its calls: what awaits a result gets it first"
saved() {
    cat <<END
{"messages": [{"role": "user", "content": "hi"},
  {"role": "assistant", "content": null, "tool_calls": [
    {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{\\"word\\": \\"x\\"}"}},
    {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}]},
  {"role": "tool", "tool_call_id": "$1", "content": "one"}]}
END
}
saved a >saved.json
chat --load saved.json -p two --timing -n 1 >/dev/null 2>stderr
prompts
saved c >saved.json
printf 'three\n' | chat --load saved.json --timing -p two -n 1 >/dev/null 2>stderr
prompts

echo "--tool-run runs a command for each call: its name, and its arguments on standard input"
cat >tool.sh <<'END'
echo "ran $1 $(cat)" >&2
echo four
END
demand --tool-run "sh tool.sh" -p hi -n 120 --timing 2>stderr >answers
call
grep ran stderr | sed 's/":"/": "/'
prompts
demand --tool-run "exit 3; :" -p hi >answers
echo "-> $?"
demand --tool-run yes -p hi >answers
echo "-> $?"

echo "refused"
try "$WEFT" chat "$model" --template "$GOLDEN/chat/template.jinja" --tools tools.json -p hi
printf '%s' '{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | length }}{% endif %}{% endfor %}{{ tools | tojson }}' >odd.jinja
try "$WEFT" chat "$model" --template odd.jinja --tools tools.json -p hi
try chat --tools tools.json --tool-choice nobody -p hi
try chat --tools absent.json -p hi
refuse() { printf '%s' "$1" >bad.json; chat --tools bad.json -p hi; echo "-> $?"; }
refuse '['
refuse '[{}]'
refuse '[{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object", "not": {}}}}]'
try chat --tools tools.json --regex a -p hi
try chat --tool-choice required -p hi
try chat --tool-run true -p hi
refuse() { printf '%s' "$1" >bad.json; chat --load bad.json -p hi; echo "-> $?"; }
refuse '[{"role":"user","content":"x","tool_calls":[]}]'
refuse '[{"role":"assistant","tool_calls":{}}]'
refuse '[{"role":"assistant","tool_calls":[7]}]'
refuse '[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]}]'
refuse '[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]}]'
refuse '[{"role":"assistant","tool_calls":[{"id":"a","index":"0","function":{"name":"f","arguments":"{}"}}]}]'
refuse '[{"role":"tool","content":"x"}]'
refuse '[{"role":"user","content":"x","tool_call_id":"y"}]'
refuse '[{"role":"user","content":"x","name":"y"}]'

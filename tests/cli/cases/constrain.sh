# Text of a given form: --grammar, --regex and --schema on run and chat; and what they refuse.
model=$GOLDEN/../../models/shakespeare.gguf
run() { "$WEFT" run "$model" "ROMEO:" -t 1 -q "$@"; }

cat >answer.gbnf <<'END'
root   ::= "{" pair ("," pair){0,2} "}"
pair   ::= "\"" [a-z]{1,8} "\":" (number | "true" | "null")
number ::= "-"? [1-9] [0-9]{0,3}
END
cat >person.json <<'END'
{"type": "object",
 "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
 "required": ["name", "age"], "additionalProperties": false}
END

echo "greedy, and drawn with steps that need the best tokens or all of them"
run --grammar answer.gbnf
run --regex '(yes|no), my (lord|liege)[.!]'
run --schema person.json
run --schema person.json --temp 1 --top-k 20 --seed 1
run --schema person.json --temp 1 --top-p 0.95 --seed 2
run --grammar answer.gbnf --temp 1.5 --seed 3 --json | grep -o '"text":.*"finish_reason":"[a-z]*"' | grep -o 'finish_reason.*'

echo "a text that is cut is not closed"
run --schema person.json -n 3

echo "in a chat, thinking comes first"
"$WEFT" chat "$GOLDEN/chat/chat.gguf" --template "$GOLDEN/chat/template.jinja" -t 1 -p think --regex '[A-Z][a-z]{2,5}!' 2>stderr
sed 's/^/stderr: /' stderr

echo "what is refused"
try run --regex '(yes'
try run --regex 'a' --schema person.json
try run --schema none.json
echo 'root ::= "a' >wrong.gbnf
try run --grammar wrong.gbnf
echo '{"not": {"type": "string"}}' >not.json
try run --schema not.json
try run --grammar answer.gbnf --beams 2

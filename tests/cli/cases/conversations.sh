# Training on conversations: what is learned, which template the run keeps, and what is refused.
model=$GOLDEN/../../models/shakespeare.gguf
cp "$GOLDEN/templates/chatml-generation.jinja" own.jinja
cat >plain.jinja <<'END'
{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
END
cat >chat.jsonl <<'END'
{"messages": [{"role": "user", "content": "Who comes there?"}, {"role": "assistant", "content": "A friend."}]}
{"conversations": [{"from": "human", "value": "Stand!"}, {"from": "gpt", "value": "I stand.", "weight": 0}, {"from": "human", "value": "Speak!"}, {"from": "gpt", "value": "I speak."}]}
{"instruction": "Translate.", "input": "Anon", "output": "Soon"}
{"text": "A plain line."}
END
try "$WEFT" train "$model" --data chat.jsonl --template own.jinja --check-data --show 1 --validation 0
try "$WEFT" train "$model" --data chat.jsonl --template plain.jinja --check-data --show 1 --validation 0
echo "--- a run keeps the template that it was given, and resumes with it"
"$WEFT" quantize "$model" s.gguf f32 >log 2>&1 || cat log
"$WEFT" train s.gguf --data chat.jsonl --validation 0 --template plain.jinja -c 64 -b 1 -n 2 -o run --sample 0 >log 2>&1 || cat log
cmp plain.jinja run/chat_template.jinja && echo "the same template"
grep template run/options | sed 's|=.*/|=|'
"$WEFT" train s.gguf --data chat.jsonl --validation 0 --template plain.jinja -c 64 -b 1 -n 4 -o whole --sample 0 >log 2>&1 || cat log
"$WEFT" train s.gguf --data chat.jsonl --validation 0 --template plain.jinja -c 64 -b 1 -n 4 -o stopped --sample 0 --save-every 2 >log 2>&1 || cat log
cmp whole/model.safetensors stopped/model.safetensors && echo "the same model"
"$WEFT" train s.gguf --data chat.jsonl --template plain.jinja --validation 0 --save-ids chat.ids >log 2>&1 || cat log
"$WEFT" train s.gguf --data chat.ids --validation 0 -c 64 -b 1 -n 4 -o ids --sample 0 >log 2>&1 || cat log
cmp whole/model.safetensors ids/model.safetensors && echo "the same model from ids"
echo "--- errors"
try "$WEFT" train "$model" --data chat.jsonl --check-data
try "$WEFT" train "$model" --data chat.jsonl --template nowhere.jinja --check-data
echo '{"messages": [{"role": "user", "text": "hi"}]}' >wrong.jsonl
try "$WEFT" train "$model" --data wrong.jsonl --template own.jinja --check-data
echo '{"conversations": [{"from": "robot", "value": "hi"}]}' >wrong.jsonl
try "$WEFT" train "$model" --data wrong.jsonl --template own.jinja --check-data
echo '{% if' >broken.jinja
try "$WEFT" train "$model" --data chat.jsonl --template broken.jinja --check-data

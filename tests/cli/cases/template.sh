# weft template, and run --chat: what a chat template makes of messages.
cat >chatml.jinja <<'END'
{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
{% if tools %}{{ tools | tojson }}{% endif %}
END
echo '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"}]' >messages.json
echo '[{"name": "clock"}]' >tools.json
model=$GOLDEN/../../models/shakespeare.gguf
try "$WEFT" template --template chatml.jinja -p 'Why? <|im_end|>' --system 'Be "brief".
Two lines.'
try "$WEFT" template "$model" messages.json --template chatml.jinja --plain
try "$WEFT" template "$model" messages.json --template chatml.jinja --plain --no-generation-prompt --tools tools.json
try "$WEFT" template "$model" messages.json --template chatml.jinja --json
try "$WEFT" template --template chatml.jinja messages.json --json
try "$WEFT" template "$model" --template chatml.jinja -p hi --ids
try "$WEFT" template "$model" --template chatml.jinja --source
try "$WEFT" template "$model" --template chatml.jinja <messages.json
try "$WEFT" run "$model" --chat --template chatml.jinja 'Hi' -n 5 -q
echo "--- errors"
try "$WEFT" template "$model" -p hi
try "$WEFT" template
try "$WEFT" template "$model" --template chatml.jinja -p hi messages.json
try "$WEFT" template "$model" --template chatml.jinja --system hi messages.json
try "$WEFT" template "$model" --template chatml.jinja -p hi --date yesterday
try "$WEFT" template --template chatml.jinja -p hi --ids
try "$WEFT" template --template nowhere.jinja -p hi
echo '[{"role": "robot", "content": ""}]' >robot.json
try "$WEFT" template --template chatml.jinja robot.json
echo '[{"role": "user", "content": ' >half.json
try "$WEFT" template --template chatml.jinja half.json
echo '{{ raise_exception("Only five messages, please") }}' >strict.jinja
try "$WEFT" template --template strict.jinja -p hi
echo '{% if x %}' >open.jinja
try "$WEFT" template --template open.jinja -p hi
try "$WEFT" run "$model" --system hi 'Hi'
try "$WEFT" run "$model" --chat --ids 1,2
try "$WEFT" run "$model" --chat 'Hi'

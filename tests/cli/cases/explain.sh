# A page, its JSON, and what is refused. Numbers are compared in test_explain; here only what does not depend on kernels.
export WEFT_ISA=scalar
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO: I love" -o page.html
grep -c '<script' page.html
grep -o 'http[s]*:[^"]*' page.html | grep -v w3.org | head -1
"$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO: I love" --only mask,shared --json | tr ',' '\n' | grep -E '"(view|title|causal|window|n_head|n_head_kv)"' | sort | uniq -c
"$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO: I love" --only checks --json | grep -o '"holds":[a-z]*' | sort | uniq -c
"$WEFT" explain "$GOLDEN/bert-fill" --ids 1,5,7 --only beams,cache,latent --json | grep -o '"why_not":"[^"]*"'
try "$WEFT" explain
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf"
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO" --only heds
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO" --layer 3
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO" --token 9
"$WEFT" explain "$GOLDEN/bart" --ids 4,5,6 --target-ids 9,10 --only encoder-decoder --json | tr ',{' '\n\n' | grep -E '"(stack|name|rows|cols)"'
"$WEFT" explain "$GOLDEN/bart" --ids 4,5,6 --only tokens --json | grep -o '"source":\[.*"layers"' | grep -o '"id":[0-9]*'
"$WEFT" explain "$GOLDEN/bahdanau" --ids 4,5,6 --target-ids 9,10 --only heads,residual,cache --json | grep -o '"why_not":"[^"]*"'
"$WEFT" explain "$GOLDEN/vit" "$GOLDEN/images/photo.png" --only picture,tokens --json | grep -oE '"(why_not|patch|n_lead|token)":("[^"]*"|[0-9]*)'
try "$WEFT" explain "$GOLDEN/bart" --ids 4,5 --target-ids 9 --target word
try "$WEFT" explain "$GOLDEN/gpt2" --ids 4,5 --target-ids 9
try "$WEFT" explain "$GOLDEN/bart" --ids 4,5 --layer 2
try "$WEFT" explain "$GOLDEN/vit" --ids 4,5
try "$WEFT" explain "$GOLDEN/vit" missing.png
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO" -o missing/page.html
try "$WEFT" explain nothing.gguf "ROMEO"
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO: I love" --train
try "$WEFT" explain "$GOLDEN/gpt2" --ids 4,5,6 --target-ids 7
try "$WEFT" explain "$GOLDEN/gpt2" --ids 4,5,6 --target the --train
try "$WEFT" explain "$GOLDEN/bert-fill" --ids 4,5,6 --target-ids 7,8 --train
"$WEFT" explain "$GOLDEN/gpt2" --ids 4,5,6 --target-ids 7,8 --train --only objective --json | grep -o '"target":-*[0-9]*'
"$WEFT" explain --kernels "$GOLDEN/points.csv" -o kernels.html 2>&1 | sed 's/[0-9.]* MB/N MB/'
"$WEFT" explain --kernels "$GOLDEN/points.csv" --json -o kernels.json 2>&1 >out | sed 's/[0-9.]* MB/N MB/'
wc -c <out
# /dev/stdout has the JSON and nothing else.
"$WEFT" explain --kernels "$GOLDEN/points.csv" --json -o /dev/stdout 2>err | tail -c 3
"$WEFT" explain --kernels "$GOLDEN/points.csv" --json | grep -o '"rms_error":[0-9]*.[0-9]'
"$WEFT" explain --kernels "$GOLDEN/points.csv" --json | grep -o '"name":"[a-z]*"' | sort
printf 'x,y\n1,2\nabc,3\n' >bad.csv
try "$WEFT" explain --kernels bad.csv
try "$WEFT" explain --kernels bad.csv a-model
for option in --train --all '--layer 1' '--head 1' '--token 0' '--ids 1,2' '--target the' '--target-ids 1' '--only heads' '-m a-model' '-p text'; do
    "$WEFT" explain --kernels "$GOLDEN/points.csv" $option 2>&1 | head -1
done
try "$WEFT" explain "$GOLDEN/bart" --ids 4,5 --target-ids ''
try "$WEFT" explain "$GOLDEN/gpt2" --ids 4,5 --target-ids x --train
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO" --target ''
try "$WEFT" explain "$GOLDEN/gpt2" --ids 4,5 --target '' --train
try "$WEFT" explain "$GOLDEN/bert-fill" --ids 4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33
"$WEFT" explain "$GOLDEN/vit" "$GOLDEN/images/photo.png" --only update --json | grep -o '"why_not":"[^"]*"'

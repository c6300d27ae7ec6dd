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
try "$WEFT" explain "$GOLDEN/bart" --ids 1,5
try "$WEFT" explain "$GOLDEN/../../models/shakespeare.gguf" "ROMEO" -o missing/page.html
try "$WEFT" explain nothing.gguf "ROMEO"

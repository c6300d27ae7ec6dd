# weft serve: what is refused before it serves. tests/host/serve.c has the rest.
case $("$WEFT" --version) in
*libmicrohttpd*) ;;
*) echo "SKIP this build has no server"; exit 0 ;;
esac
export WEFT_SANDBOX=off # sanitizers make calls of their own; serve_sandbox.c has it on
# It listens while the model loads, so that line may come before or after the error.
loading() { grep -v listening; }
try "$WEFT" serve
try "$WEFT" serve m.gguf --port 65536
try "$WEFT" serve m.gguf --parallel 1025
try "$WEFT" serve m.gguf --parallel 0
try "$WEFT" serve m.gguf --queue 0
try "$WEFT" serve m.gguf --connections 0
try "$WEFT" serve m.gguf --drain -1
try "$WEFT" serve m.gguf --step-ms -1
try "$WEFT" serve m.gguf --ping-seconds nan
try "$WEFT" serve m.gguf --connections-per-address -1
try "$WEFT" serve m.gguf --model a=
try "$WEFT" serve m.gguf --cors '*'
try "$WEFT" serve m.gguf --cors https://example.org/page
try "$WEFT" serve m.gguf --allow-host https://example.org
try "$WEFT" serve m.gguf --host 0.0.0.0 --port 0
try "$WEFT" serve m.gguf --host nowhere.invalid --port 0 | sed 's/invalid: .*/invalid: WHY/'
try "$WEFT" serve m.gguf --api-key-file none
printf 'a key-of-a-user\n' >keys
chmod 644 keys
try "$WEFT" serve m.gguf --api-key-file keys
chmod 600 keys
printf 'a short\n' >keys
try "$WEFT" serve m.gguf --api-key-file keys
printf '# nobody\n' >keys
try "$WEFT" serve m.gguf --api-key-file keys
printf 'a key-of-a-user\na key-of-another\n' >keys
try "$WEFT" serve m.gguf --api-key-file keys
try "$WEFT" serve m.gguf --port 0 | loading
try "$WEFT" serve "$GOLDEN/t5" --port 0 | loading
# A model is served once all of it is there; without a template, it says what that means.
try "$WEFT" serve "$GOLDEN/../../models/shakespeare.gguf" --port 0 --cache-tokens 1000000000 --ram-max 64M |
    loading | sed -e "s|$GOLDEN|GOLDEN|" -e 's/needs.*/needs TOO MUCH/'
# A port that is not free leaves an old record alone.
echo old >record
"$WEFT" serve "$GOLDEN/../../models/shakespeare.gguf" --record-steps record --host 192.0.2.1 --insecure --port 1 2>/dev/null
echo "-> $?"
cat record
# A weight of the settings may be for a model that the command line has replaced; one of the command line may not.
(export WEFT_MODEL=a=other.gguf WEFT_WEIGHT=a=2; try "$WEFT" serve "$GOLDEN/t5" --port 0) | loading
try "$WEFT" serve "$GOLDEN/t5" --weight a=2
try "$WEFT" serve "$GOLDEN/t5" --parallel 64 --batch-size 32
# A forward has room for all that run.
"$WEFT" serve "$GOLDEN/t5" --port 0 --parallel 512 --record-steps record 2>/dev/null
cat record

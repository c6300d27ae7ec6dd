# weft serve: what is refused before it serves. tests/host/serve.c has the rest.
case $("$WEFT" --version) in
*libmicrohttpd*) ;;
*) echo "SKIP this build has no server"; exit 0 ;;
esac
# It listens while the model loads, so that line may come before or after the error.
loading() { grep -v listening; }
try "$WEFT" serve
try "$WEFT" serve m.gguf --port 65536
try "$WEFT" serve m.gguf --parallel 1025
try "$WEFT" serve m.gguf --queue -1
try "$WEFT" serve m.gguf --drain -1
try "$WEFT" serve m.gguf --step-ms -1
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

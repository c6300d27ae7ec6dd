# Every command on a stack of 128 KiB, which is the program's and, where we do not say otherwise, its threads'.
# Sanitizers have larger frames.
limit=128
grep -q -a -e __asan_init -e __tsan_init "$WEFT" && limit=4096
ulimit -s $limit
i=0
while [ $i -lt 40 ]; do
    echo "the cat sat on a mat, and dog $i had it all"
    i=$((i + 1))
done >text.txt
quiet() { "$@" >out 2>err && echo "ok: $1 $2" | sed "s|$WEFT|weft|" || { echo "-> $?: $*"; cat err; }; }
quiet "$WEFT" train --data text.txt --out run --layers 1 --width 256 --heads 4 --ctx-size 16 --vocab-size 280 --steps 2 --threads 2
quiet "$WEFT" run run --prompt "the cat" --predict 4 --threads 2
quiet "$WEFT" convert run model.gguf
quiet "$WEFT" quantize model.gguf q.gguf q8_0
quiet "$WEFT" run q.gguf --prompt "the cat" --predict 4 --threads 2
quiet "$WEFT" tokenize run "the cat"
quiet "$WEFT" eval run text.txt
quiet "$WEFT" inspect run
quiet "$WEFT" report run
quiet "$WEFT" trace run --prompt "the cat"
quiet "$WEFT" train --arch bert --data text.txt --out words --layers 1 --width 256 --heads 4 --ctx-size 16 --vocab-size 280 --steps 2
quiet "$WEFT" embed words "the cat"
quiet "$WEFT" translate "$GOLDEN/bart" --ids 3,4,5

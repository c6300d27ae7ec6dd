# A run stores its options: --resume needs no others, from any directory; changed options are reported.
for i in 1 2 3 4 5 6 7 8 9 10; do echo "the bread is warm and the tea is hot $i"; done >text.txt
quiet() { grep -v -e 'tok/s' -e 'tokens/s' -e '^time' -e '^memory' -e ' of memory, ' -e '^loss' -e validation -e '^---' | sed "s|$(pwd)|HERE|g"; }
train() { (try "$WEFT" train "$@" 2>&1) | quiet; }
train --data text.txt --out run --characters -n 4 -b 2 -c 16 --save-every 2 --prompt 'a
b\c' --sample 0
sed "s|$(pwd)|HERE|" run/options
train --out run --resume
train --out run --resume -n 6
mkdir elsewhere && cd elsewhere && train --out ../run --resume -n 7 --lr 1e-4 --batch-size 2
cd ..
grep lr run/options
train --out run --resume --batch-size 3
train --out run --resume --data text.txt --seed 5
train --out nothing --resume
echo '--frobnicate=1' >>run/options
train --out run --resume
printf -- '--steps=many\n' >run/options
train --out run --resume
train --out run --resume --data text.txt --characters -n 8 -b 2 -c 16 --sample 0
rm run/options
train --out run --resume --data text.txt --characters -n 9 -b 2 -c 16 --sample 0

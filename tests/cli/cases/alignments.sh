# A small GRU with additive attention learns to reverse words; the attention map shows each letter attending to its
# source.
awk 'function draw(n) { x = x * 16807 % 2147483647; return int(x / 1000) % n }
     BEGIN { x = 7
             for (i = 0; i < 3000; i++) {
                 w = r = ""
                 for (k = 2 + draw(3); k > 0; k--) { c = substr("abcdef", 1 + draw(6), 1); w = w c; r = c r }
                 print w "\t" r } }' >words.tsv
"$WEFT" train -d words.tsv -o run --arch bahdanau --characters --width 32 -c 16 -b 16 -n 200 --lr 1e-2 -t 1 --sample 0 \
    >/dev/null 2>&1 || echo "-> $?"
for word in fade bed; do
    try "$WEFT" translate run -p $word --attention map.svg
    # The largest weight of each row, and the sum of the row.
    sed -n 's/.*>\(.\) looks at \(.\): \([0-9.]*\)<.*/\1 \2 \3/p' map.svg |
        awk '{ if ($1 != row) { if (row) say(); row = $1; top = sum = 0 }
               if ($3 > top) { top = $3; at = $2 }
               sum += $3 }
             function say() { printf "%s looks at %s most; in all %.1f\n", row, at, sum }
             END { say() }'
done

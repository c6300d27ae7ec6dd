#!/bin/sh
# reversal.sh N [SEED] - N words of 10 to 20 letters and, behind a tab, the same backwards: the task of docs/ATTENTION.md.
# The same on every machine: the random numbers are Lehmer's, in awk's doubles.
awk -v n="${1:?how many lines?}" -v x="${2:-1}" '
function draw(m) { x = (x * 48271) % 2147483647; return int(x / 2147483647 * m) }
BEGIN {
    x = x * 7919 + 1
    for (i = 0; i < 20; i++) draw(2)
    for (i = 0; i < n; i++) {
        word = back = ""
        for (k = 10 + draw(11); k > 0; k--) {
            c = substr("abcdefghijklmnopqrstuvwxyz", 1 + draw(26), 1)
            word = word c
            back = c back
        }
        print word "\t" back
    }
}'

#!/bin/sh
# reversal_check.sh WEFT MODEL FILE - translates each word of FILE (tools/reversal.sh makes them) and counts the words and the
# letters that are right.
weft=${1:?which weft?} model=${2:?which model?} file=${3:?which words?}
tab=$(printf '\t')
while IFS=$tab read -r word want; do
    printf '%s\t%s\n' "$want" "$("$weft" translate "$model" -p "$word" -t 1 </dev/null)"
done <"$file" | awk -F'\t' '
{
    words++
    right += $1 == $2
    for (i = 1; i <= length($1); i++)
        same += substr($1, i, 1) == substr($2, i, 1)
    letters += length($1)
}
END { printf "%d words: %.2f %% right; %d letters: %.2f %% right\n", words, 100 * right / words, letters, 100 * same / letters }'

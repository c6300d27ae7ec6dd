# Help is for one screen: examples first, exit 0, on stdout.
try "$WEFT"
try "$WEFT" help
try "$WEFT" help run
try "$WEFT" inspect --help
try "$WEFT" help version
try "$WEFT" help nonsense
"$WEFT" help run | awk 'length > 80 { print "too wide: " $0 } END { if (NR > 28) print "too long" }'

# The same of all commands, and nothing of the table is left out of `help all`.
for name in $("$WEFT" help all | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
    "$WEFT" help all $name | awk -v name=$name 'length > 84 { print name ": too wide: " $0 }'
    "$WEFT" help $name | awk -v name=$name 'END { if (NR > 28) print name ": too long" }'
done
try "$WEFT" help all version
try "$WEFT" run -h

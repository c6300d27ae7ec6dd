# Help is for one screen: examples first, exit 0, on stdout.
try "$WEFT"
try "$WEFT" help
try "$WEFT" help run
try "$WEFT" inspect --help
try "$WEFT" help version
try "$WEFT" help nonsense
"$WEFT" help run | awk 'length > 80 { print "too wide: " $0 } END { if (NR > 24) print "too long" }'

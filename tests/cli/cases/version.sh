# Only the shape: kernels and threads depend on the machine.
"$WEFT" --version | sed 's/[0-9][0-9]*\.[0-9]*\.[0-9]*/V/; s/^\(kernels *\).*/\1K/; s/^\(threads *\)[0-9][0-9]*$/\1N/; s/^\(parts *\).*/\1P/'
"$WEFT" version --json | sed 's/"\(version\|parts\|kernels\)":"[^"]*"/"\1":"T"/g; s/"threads":[0-9][0-9]*/"threads":N/'

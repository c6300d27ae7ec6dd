# The page of a run, and the error if there is no run.
mkdir run
try $WEFT report
try $WEFT report run
printf '{"step":0,"val_loss":4.2}\n{"step":1,"loss":4.1,"tokens":10,"tokens_per_second":5,"sample":"<b>"}\n{"st' \
    >run/metrics.jsonl
try $WEFT report run
try $WEFT report run --title 'A & B' -o page.html --json | sed 's/"bytes":[0-9]*/"bytes":N/'
grep -c '<h1>A &amp; B</h1>' page.html
grep -o '<pre>.*</pre>' page.html
printf '{"step":0}\nx\n' >run/metrics.jsonl
try $WEFT report run
try $WEFT report run -o nowhere/page.html
printf '{"step":0}\n' >run/metrics.jsonl
try $WEFT report run -o nowhere/page.html
ls run

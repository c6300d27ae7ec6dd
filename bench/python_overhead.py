#!/usr/bin/env python3
"""python_overhead.py - the time of a generation that is not in the library, as a share of all.

    build/tools/random_model --shape 135m --type q8_0 135m.gguf
    WEFT_LIBRARY=build/libweft.so.1 PYTHONPATH=python python3 bench/python_overhead.py 135m.gguf [TOKENS [TEXTS]]

Inside: the forwards, less the callbacks that they make. Outside: callbacks, the queue, threads that hand over to each other.
"""
import statistics
import sys
import time

import weft
from weft import _api, engine

clock = time.perf_counter
inside = 0.0
running = 0  # calls that have begun; the last forward goes on for a moment after it has said that the text is done


def timed(fn, sign):
    """`fn`, whose time counts as inside, or where it calls back, as outside."""

    def run(*args):
        global inside, running
        running += 1
        began = clock()
        try:
            return fn(*args)
        finally:
            inside += sign * (clock() - began)
            running -= 1

    return run


real_step = engine.lib.weft_scheduler_step
make_token, make_done = engine._token_fn, _api.weft_done_fn


def main():
    global inside
    n_token = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    n_text = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    engine.lib.weft_scheduler_step = timed(real_step, 1)
    engine._token_fn = lambda fn: make_token(timed(fn, -1))
    _api.weft_done_fn = lambda fn: make_done(timed(fn, -1))
    model = weft.Model(sys.argv[1], load="map", n_ctx=max(256, 16 + n_token))
    shares, tokens = [], n_token * n_text
    for k in range(7):
        inside, began = 0.0, clock()
        requests = [model._request([7 + i] * 16, dict(max_new_tokens=n_token, ignore_end=True)) for i in range(n_text)]
        engine.together(requests)
        seconds = clock() - began
        while running:  # otherwise its time would be missing here, and be in the next round's
            time.sleep(0.001)
        if k > 0:
            shares.append((1 - inside / seconds, seconds))
    share = statistics.median(s for s, _ in shares)
    seconds = statistics.median(s for _, s in shares)
    print(f"{n_text} text(s) of {n_token} tokens: {tokens / seconds:.1f} tokens/s; outside the library {100 * share:.2f} % "
          f"({1e6 * share * seconds / tokens:.0f} us a token)")
    return share > 0.01


sys.exit(main())

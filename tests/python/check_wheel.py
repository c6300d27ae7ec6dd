"""check_wheel.py - what a user does first with an installed wheel: generate, embed, train a step, in less than a minute.

    python3 check_wheel.py MODEL.gguf TEXT     (tools/wheel_check.sh runs it in clean systems)
"""
import os
import shutil
import sys
import tempfile
import threading
import time

began = time.monotonic()
import weft

model_path, text_path = sys.argv[1:]
assert os.path.dirname(weft.__file__) in weft.lib._name, weft.lib._name
compilers = [c for c in ("cc", "gcc", "clang") if shutil.which(c)]
with weft.Model.from_pretrained(model_path) as model:
    text = model.generate("ROMEO:", max_new_tokens=20).text
    assert len(text) > 20, text
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(model.generate("ROMEO:", max_new_tokens=20).text)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert texts == [text] * 8
    vectors = model.embed(["a cat", "a dog"])
    assert len(vectors) == 2 and len(vectors[0]) == model.info["d_model"]
with tempfile.TemporaryDirectory() as d:
    run = weft.train(text_path, os.path.join(d, "run"), steps=1, n_layer=1, d_model=32, n_head=2, n_head_kv=2, d_ff=64, n_ctx=32, n_sample=2)
    assert run.step == 1
    with weft.Model(run.out) as model:
        model.generate("a", max_new_tokens=2)
free_threaded = getattr(sys, "_is_gil_enabled", lambda: True)() is False
print(f"python {sys.version.split()[0]}{' without a GIL' if free_threaded else ''}, compilers {compilers or 'none'}: "
      f"generate, embed, train: {time.monotonic() - began:.1f} s")
assert time.monotonic() - began < 60

#!/usr/bin/env python3
"""peft_check.py - PEFT loads the adapters that weft writes, and transformers the models that weft
merges, and both compute what PEFT computed for the originals.

    peft_check.py [--weft build/weft] [NAME ...]     all of tests/golden/adapters, or the named ones

Each adapter goes into GGUF and back where GGUF has a form for it (`weft convert --base`, twice), and
otherwise from its directory into another. PEFT loads the result onto a fresh base; every tensor
must be used. `weft convert --lora` merges the original. The largest difference from the golden
output, relative to the largest output, must be at most 1e-5.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import safetensors.torch
import torch
import transformers
from peft import PeftModel, get_peft_model_state_dict

import make_adapters
from make_adapters import ADAPTERS, GOLDEN_DIR, OUTPUT, open_base, output_of

TOLERANCE = 1e-5


def weft(program, *arguments):
    done = subprocess.run([program, "convert", *map(str, arguments), "--force"],
                          capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def rewrite(program, path, base, work):
    """The adapter through a GGUF file, or, where GGUF refuses it by name, without one."""
    gguf, back = work / "adapter.gguf", work / "adapter"
    shutil.rmtree(back, ignore_errors=True)
    why = weft(program, path, gguf, "--base", base)
    if why and "of the adapter:" not in why:
        sys.exit(f"{path.name}: {why}")
    why_back = weft(program, path if why else gguf, back, "--base", base)
    if why_back:
        sys.exit(f"{path.name}: {why_back}")
    return back, "PEFT" if why else "GGUF"


def difference(y, want):
    return ((y - want).abs().max() / want.abs().max()).item()


def load_adapter(base, path):
    """The adapted model; every tensor of the file must be in it, with the same numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no base of this name on the hub
        model = PeftModel.from_pretrained(open_base(base), path).eval()
        state = {**model.state_dict(), **get_peft_model_state_dict(model)}
    for name, t in safetensors.torch.load_file(path / "adapter_model.safetensors").items():
        if name not in state or not torch.equal(state[name].float(), t.float()):
            sys.exit(f"{path}: PEFT does not use {name}")
    return model


def check(program, name, work):
    adapter = ADAPTERS[name]
    path, base = GOLDEN_DIR / "adapters" / name, GOLDEN_DIR / adapter.base
    trace = safetensors.torch.load_file(path / "trace.safetensors")
    told = {key: trace[key] for key in ("ids", "types", "source") if key in trace}
    want = trace[OUTPUT.get(adapter.base, "output")]
    back, form = rewrite(program, path, base, work)
    ours = difference(output_of(load_adapter(adapter.base, back), told), want)

    hf = work / "merged"
    shutil.rmtree(hf, ignore_errors=True)
    why = weft(program, base, hf, "--lora", path, "--to", "hf")
    if why:
        print(f"{name:22} {form:5} {ours:9.2e}   {why[:90]}")
        return ours, None
    model = make_adapters.CLASSES[adapter.base].from_pretrained(
        hf, dtype=torch.float32, attn_implementation="eager").eval()
    whole = difference(output_of(model, told), want)
    print(f"{name:22} {form:5} {ours:9.2e} {whole:9.2e}")
    return ours, whole


def main():
    parser = argparse.ArgumentParser(description="Load weft's adapters with PEFT.")
    parser.add_argument("--weft", default="build/weft")
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(ADAPTERS)}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    print(f"{'name':22} {'by':5} {'adapter':>9} {'merged':>9}")
    worst, n_merged = 0.0, 0
    with tempfile.TemporaryDirectory() as work:
        for name in options.name or ADAPTERS:
            ours, whole = check(options.weft, name, Path(work))
            worst = max(worst, ours, whole or 0.0)
            n_merged += whole is not None
    n = len(options.name or ADAPTERS)
    print(f"{n} adapters, {n_merged} merged: worst {worst:.2e}")
    sys.exit(0 if worst <= TOLERANCE else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""llama_lora_check.py - llama.cpp with the GGUF adapters that weft writes, against the models that
weft merges.

    llama_lora_check.py MODEL.gguf --llama DIR [--weft build/weft] [--tokens 200]

DIR has llama-completion. MODEL is expanded to f32 (`weft convert --type f32`) and written as a
directory, for which PEFT makes an adapter with random weights; the adapter becomes a GGUF file
(`weft convert --base`) and is merged (`weft convert --lora`). llama.cpp then continues prompts
greedily: the base with --lora against the merged file. The texts must be the same to the last
token, and others than the base's. llama.cpp never takes the end of the text here (--ignore-eos);
weft itself stops there, and its text must be a prefix.

Adapters: plain LoRA on all linear layers; and one with rank and alpha patterns and rsLoRA, of which
GGUF has no notion, so that weft folds the scales into B.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, get_peft_model

PROMPTS = ("The capital of France is", "Once upon a time")

ADAPTERS = {
    "all linear": dict(target_modules="all-linear", r=8, lora_alpha=16),
    "patterns, rsLoRA": dict(
        target_modules=["q_proj", "k_proj", "v_proj", "down_proj"], r=8, lora_alpha=6,
        use_rslora=True, rank_pattern={"q_proj": 4}, alpha_pattern={"k_proj": 9, "down_proj": 5}),
}


def weft(args, *arguments):
    subprocess.run([args.weft, "convert", *map(str, arguments)], check=True, capture_output=True)


def make_adapter(directory, to, config):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(**config))
    for name, p in adapted.named_parameters():
        if "lora_" in name:
            p.data.normal_(0, 0.03 if "lora_B" in name else 0.05)
    adapted.save_pretrained(to)


def theirs(args, model, prompt, *more):
    said = subprocess.run(
        [args.llama / "llama-completion", "-m", model, "-p", prompt, "-n", str(args.tokens),
         "--temp", "0", "-no-cnv", "--no-display-prompt", "--ignore-eos", "-ctk", "f32", "-ctv",
         "f32", "-fa", "off", "-c", "512", *map(str, more)],
        capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return said.stdout.decode(errors="replace").strip()


def ours(args, model, prompt, *more):
    said = subprocess.run(
        [args.weft, "run", model, prompt, "-n", str(args.tokens), "--temp", "0", "--kv-type", "f32",
         *map(str, more)],
        capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return said.stdout.decode(errors="replace").strip()


def same_until(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check(args, name, config, base, directory, work):
    peft, lora, merged = work / "adapter", work / "adapter.gguf", work / "merged.gguf"
    make_adapter(directory, peft, config)
    weft(args, peft, lora, "--base", base, "--force")
    weft(args, base, merged, "--lora", peft, "--force")
    failed = 0
    for prompt in PROMPTS:
        adapted, whole = theirs(args, base, prompt, "--lora", lora), theirs(args, merged, prompt)
        mine, plain = ours(args, base, prompt, "--lora", lora), theirs(args, base, prompt)
        same = adapted.startswith(mine)
        failed += adapted != whole or adapted == plain or not same
        verdict = "the same" if adapted == whole else f"differ at {same_until(adapted, whole)}"
        at = same_until(mine, adapted)
        weft_says = f"the same up to its end, {at}" if same else f"differs at {at}"
        print(f"{name}, {prompt!r}: {verdict} ({len(adapted)} characters); weft {weft_says}; "
              f"the base leaves it at {same_until(adapted, plain)}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--llama", type=Path, required=True)
    parser.add_argument("--weft", default="build/weft")
    parser.add_argument("--tokens", type=int, default=200)
    args = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as there:
        work = Path(there)
        base, directory = work / "base.gguf", work / "base"
        weft(args, args.model, base, "--type", "f32")
        weft(args, base, directory)
        failed = sum(check(args, name, config, base, directory, work)
                     for name, config in ADAPTERS.items())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

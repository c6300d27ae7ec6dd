#!/usr/bin/env python3
"""train_check.py - a run of weft train in transformers: does it load, and is its validation loss the
one that weft wrote down?

    train_check.py RUN TEXT [--validation 0.1] [--ctx 64]

RUN was trained on the one file TEXT in windows. The end of its ids is read in windows of --ctx, as
weft does; exits 1 where the mean loss is not that of the last line of RUN/metrics.jsonl to 1e-4.
"""

import argparse
import json
import sys

import torch
from torch.nn import functional as F
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM


def main():
    p = argparse.ArgumentParser()
    p.add_argument("run")
    p.add_argument("text")
    p.add_argument("--validation", type=float, default=0.1)
    p.add_argument("--ctx", type=int, default=64)
    o = p.parse_args()

    model = AutoModelForCausalLM.from_pretrained(o.run).eval()
    with open(o.text, encoding="utf-8", newline="") as f:
        ids = Tokenizer.from_file(o.run + "/tokenizer.json").encode(f.read()).ids
    eos = model.config.eos_token_id
    if eos is not None and eos < model.config.vocab_size:
        ids.append(eos)
    kept = torch.tensor(ids[int(len(ids) * (1 - o.validation)):])

    count = len(kept) - 1
    whole = count // o.ctx * o.ctx
    parts = [(kept[:whole].view(-1, o.ctx), kept[1 : whole + 1].view(-1, o.ctx))]
    parts.append((kept[None, whole:-1], kept[None, whole + 1 :]))
    total = 0.0
    with torch.no_grad():
        for x, y in parts:
            for x, y in zip(x.split(64), y.split(64)):
                if x.numel() > 0:
                    z = model(x).logits.flatten(0, 1)
                    total += F.cross_entropy(z, y.flatten(), reduction="sum").item()
    loss = total / count

    with open(o.run + "/metrics.jsonl", encoding="utf-8") as f:
        written = [m for m in map(json.loads, f) if "val_loss" in m][-1]
    off = abs(loss - written["val_loss"])
    print(f"step {written['step']}: transformers {loss:.6f}, weft {written['val_loss']:.6f}, "
          f"{off:.1e} apart on {count} tokens")
    return 0 if off <= 1e-4 else 1


sys.exit(main())

#!/usr/bin/env python3
"""torch_char.py - nanoGPT's recipe for a processor in PyTorch: what weft train is compared with.

    torch_char.py TEXT [--seed 1] [--steps 2000] [--threads N]

transformers' GPT-2 over characters: 4 layers, 4 heads, width 128, context 64, batches of 12,
no dropout; AdamW from 1e-3 to 1e-4 by a cosine after 100 steps of warm-up, beta2 0.99, weight decay
0.1, clipping at 1. Prints the seconds of all steps, and the mean loss over the last tenth of the text
in windows of 64.
"""

import argparse
import math
import time

import torch
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

T, BATCH, WARM_UP, MOST, LEAST = 64, 12, 100, 1e-3, 1e-4


def rate(step, steps):
    if step < WARM_UP:
        return MOST * step / WARM_UP
    return LEAST + (MOST - LEAST) * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("text")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--threads", type=int)
    o = p.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)

    with open(o.text, encoding="utf-8", newline="") as f:
        text = f.read()
    order = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([order[c] for c in text])
    train, kept = ids[: int(len(ids) * 0.9)], ids[int(len(ids) * 0.9):]

    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=len(order), n_positions=T, n_embd=128, n_layer=4, n_head=4,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    matrices = [w for w in model.parameters() if w.dim() > 1]
    vectors = [w for w in model.parameters() if w.dim() == 1]
    adamw = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}],
        lr=MOST, betas=(0.9, 0.99))

    began = time.monotonic()
    for step in range(1, o.steps + 1):
        for group in adamw.param_groups:
            group["lr"] = rate(step, o.steps)
        at = torch.randint(len(train) - T, (BATCH,))
        x = torch.stack([train[i : i + T + 1] for i in at])
        z = model(x[:, :-1]).logits
        loss = F.cross_entropy(z.flatten(0, 1), x[:, 1:].flatten())
        adamw.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
    seconds = time.monotonic() - began

    model.eval()
    whole = (len(kept) - 1) // T * T
    x, y = kept[:whole].view(-1, T), kept[1 : whole + 1].view(-1, T)
    with torch.no_grad():
        sums = [F.cross_entropy(model(a).logits.flatten(0, 1), b.flatten(), reduction="sum").item()
                for a, b in zip(x.split(64), y.split(64))]
    print(f"seed {o.seed}: {o.steps} steps in {seconds:.1f} s, validation {sum(sums) / whole:.4f}")


main()

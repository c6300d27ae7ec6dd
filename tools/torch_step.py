#!/usr/bin/env python3
"""torch_step.py - one step of training of a GPT-2 in PyTorch, for bench/versus to compare with.

    torch_step.py [--type f32|bf16] [--sequences 4] [--tokens 256] [--threads N] [--repeat 3]

Forward, backward, clipping and AdamW on random tokens, with the sizes of GPT-2 124M unless told
otherwise; bf16 is autocast over f32 weights, as training on CPUs is done. Prints one JSON object
with the seconds of every step after the first, which is not counted.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attn_norm = nn.LayerNorm(width)
        self.attn_qkv = nn.Linear(width, 3 * width)
        self.attn_output = nn.Linear(width, width)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn_up = nn.Linear(width, 4 * width)
        self.ffn_down = nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        qkv = self.attn_qkv(self.attn_norm(x)).split(width, dim=2)
        q, k, v = (h.view(n, t, self.heads, -1).transpose(1, 2) for h in qkv)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(h.transpose(1, 2).reshape(n, t, width))
        h = F.gelu(self.ffn_up(self.ffn_norm(x)), approximate="tanh")
        return x + self.ffn_down(h)


class GPT2(nn.Module):
    def __init__(self, layers, width, heads, vocab, context):
        super().__init__()
        self.token_embd = nn.Embedding(vocab, width)
        self.position_embd = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.output_norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.token_embd(ids) + self.position_embd(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.output_norm(x), self.token_embd.weight)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


def step(model, optimiser, ids, targets, bf16):
    start = time.perf_counter()
    optimiser.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = model(ids, targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return time.perf_counter() - start, loss.item()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--type", choices=["f32", "bf16"], default="f32")
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--vocab", type=int, default=50257)
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--sequences", type=int, default=4)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--threads", type=int, default=0, help="0: as PyTorch chooses")
    p.add_argument("--repeat", type=int, default=3)
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT2(a.layers, a.width, a.heads, a.vocab, a.context)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1
    )
    ids = torch.randint(a.vocab, (a.sequences, a.tokens))
    targets = torch.randint(a.vocab, (a.sequences, a.tokens))
    step(model, optimiser, ids, targets, a.type == "bf16")
    runs = [step(model, optimiser, ids, targets, a.type == "bf16") for _ in range(a.repeat)]
    seconds = [s for s, _ in runs]
    print(
        json.dumps(
            {
                "work": "train_step",
                "type": a.type,
                "sequences": a.sequences,
                "tokens": a.tokens,
                "seconds": statistics.median(seconds),
                "all": seconds,
                "loss": runs[-1][1],
                "threads": torch.get_num_threads(),
                "version": f"PyTorch {torch.__version__}",
                "capability": torch.backends.cpu.get_cpu_capability()
                if hasattr(torch.backends, "cpu")
                else "",
                "mkldnn": torch.backends.mkldnn.is_available(),
            }
        )
    )


if __name__ == "__main__":
    main()

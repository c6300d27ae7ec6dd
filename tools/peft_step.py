#!/usr/bin/env python3
"""peft_step.py - steps of training a LoRA adapter with PEFT, for bench/versus to compare with.

    peft_step.py DIRECTORY IDS [--type f32|bf16] [--rank 16] [--sequences 2] [--tokens 256]
                 [--threads N] [--repeat 2] [--recompute]

DIRECTORY is a decoder that transformers loads in f32, IDS a file of token ids of two bytes each. An
adapter of this rank on all linear layers takes one step that is not counted and then --repeat steps:
forward, backward, clipping and AdamW. bf16 is autocast over f32 weights. Prints one JSON object.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import peft
import torch
import transformers


def open_model(a):
    base = transformers.AutoModelForCausalLM.from_pretrained(a.directory, dtype=torch.float32)
    if a.recompute:
        base.gradient_checkpointing_enable({"use_reentrant": False})
        base.enable_input_require_grads()
    config = peft.LoraConfig(r=a.rank, lora_alpha=2 * a.rank, target_modules="all-linear")
    return peft.get_peft_model(base, config).train()


def step(model, optimiser, ids, bf16):
    start = time.perf_counter()
    optimiser.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    optimiser.step()
    return time.perf_counter() - start, loss.item()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("directory")
    p.add_argument("ids")
    p.add_argument("--type", choices=["f32", "bf16"], default="f32")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--sequences", type=int, default=2)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--threads", type=int, default=0, help="0: as PyTorch chooses")
    p.add_argument("--repeat", type=int, default=2)
    p.add_argument("--recompute", action="store_true", help="gradient checkpointing")
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(1)
    model = open_model(a)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=2e-4, betas=(0.9, 0.99), weight_decay=0)
    n = a.sequences * a.tokens
    ids = np.fromfile(Path(a.ids), dtype="<u2", count=n).astype(np.int64)
    ids = torch.from_numpy(ids).view(a.sequences, a.tokens)
    step(model, optimiser, ids, a.type == "bf16")
    runs = [step(model, optimiser, ids, a.type == "bf16") for _ in range(a.repeat)]
    print(json.dumps({
        "work": "lora_step",
        "type": a.type,
        "seconds": statistics.median(s for s, _ in runs),
        "loss": runs[-1][1],
        "parameters": sum(p.numel() for p in trained),
        "threads": torch.get_num_threads(),
        "version": f"PEFT {peft.__version__}, transformers {transformers.__version__}, "
                   f"PyTorch {torch.__version__}",
        "capability": torch.backends.cpu.get_cpu_capability(),
    }))


if __name__ == "__main__":
    main()

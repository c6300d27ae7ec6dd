#!/usr/bin/env python3
"""make_lora_train.py - the losses of 50 steps of PEFT, for weft's tests to compare with.

    make_lora_train.py        writes tests/golden/lora-train.safetensors

Each of the adapters below, of tests/golden/adapters, continues to train on the same random ids
(`ids` [N_BATCH, N_SEQ, LENGTH], batch after batch, again from the first), with AdamW as it is
written here, in f32. `NAME.loss` [50] are the losses, each before its step.
"""

from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import GPT2LMHeadModel, LlamaForCausalLM, Phi3ForCausalLM

GOLDEN_DIR = Path(__file__).resolve().parents[1] / "tests" / "golden"
RUNS = {"llama-lora": ("llama-gqa", LlamaForCausalLM), "gpt2-lora": ("gpt2", GPT2LMHeadModel),
        "phi3-fused": ("phi3", Phi3ForCausalLM), "llama-dora": ("llama-mqa", LlamaForCausalLM),
        "phi3-fused-dora": ("phi3", Phi3ForCausalLM)}
N_STEP, N_BATCH, N_SEQ, LENGTH, N_VOCAB = 50, 3, 4, 12, 48
LR, CLIP = 5e-3, 1.0


def losses(name, base, model_class, ids):
    torch.manual_seed(0)
    model = model_class.from_pretrained(GOLDEN_DIR / base, dtype=torch.float32,
                                        attn_implementation="eager")
    model = PeftModel.from_pretrained(model, GOLDEN_DIR / "adapters" / name, is_trainable=True)
    model.eval()  # no dropout; gradients as in training
    trained = [p for p in model.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW(trained, lr=LR, betas=(0.9, 0.99), eps=1e-8, weight_decay=0)
    found = []
    for step in range(N_STEP):
        batch = ids[step % N_BATCH]
        loss = model(input_ids=batch, labels=batch).loss
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, CLIP)
        adamw.step()
        found.append(loss.item())
    print(f"{name}: {found[0]:.4f} to {found[-1]:.4f}")
    return torch.tensor(found, dtype=torch.float32)


def main():
    torch.set_num_threads(1)
    ids = np.random.default_rng(11).integers(0, N_VOCAB, (N_BATCH, N_SEQ, LENGTH))
    tensors = {"ids": torch.tensor(ids, dtype=torch.int32).reshape(N_BATCH, -1)}
    for name, (base, model_class) in RUNS.items():
        tensors[f"{name}.loss"] = losses(name, base, model_class, torch.tensor(ids))
    save_file(tensors, GOLDEN_DIR / "lora-train.safetensors")


if __name__ == "__main__":
    main()

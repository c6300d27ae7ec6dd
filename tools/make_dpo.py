#!/usr/bin/env python3
"""make_dpo.py - what TRL's DPO computes for 20 pairs, for weft's tests to compare with.

    make_dpo.py        writes tests/golden/dpo.safetensors

The model is tests/golden/llama-gqa with the adapter tests/golden/adapters/llama-lora, the reference
the same model without it. The file has the pairs (`ids` [40, n], chosen and rejected in turn, padded
with -1; `n_prompt` [20]), and what DPOTrainer gives for all of them in one batch: `loss`, `logp` and
`reference` [40], and the gradient of every A and B under weft's names, blk.0.attn_q.lora_a.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from peft import PeftModel
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

GOLDEN_DIR = Path(__file__).resolve().parents[1] / "tests" / "golden"
N_PAIR, BETA = 20, 0.3


WEFT_NAME = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}


def weft_name(name):
    """base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight: blk.0.ffn_up.lora_a"""
    _, _, _, _, layer, block, matrix, which, _, _ = name.split(".")
    return f"blk.{layer}.{WEFT_NAME[f'{block}.{matrix}']}.{which.lower()}"


def make_pairs(n_vocab):
    rng = np.random.default_rng(7)
    ids = lambda least, most: rng.integers(3, n_vocab, rng.integers(least, most + 1)).tolist()
    return [dict(prompt_ids=ids(1, 5), chosen_ids=ids(1, 8), rejected_ids=ids(1, 8))
            for _ in range(N_PAIR)]


def make_trainer(directory):
    base = lambda: LlamaForCausalLM.from_pretrained(GOLDEN_DIR / "llama-gqa", dtype=torch.float32)
    model = PeftModel.from_pretrained(base(), GOLDEN_DIR / "adapters" / "llama-lora",
                                      is_trainable=True)
    words = {f"w{i}": i for i in range(model.config.vocab_size)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "w0")),
                                        pad_token="w0", eos_token="w1")
    options = DPOConfig(output_dir=directory, beta=BETA, use_cpu=True, report_to=[], bf16=False,
                        gradient_checkpointing=False, disable_dropout=True)
    unused = Dataset.from_list([dict(prompt="w3", chosen="w4", rejected="w5")])
    return DPOTrainer(model=model, ref_model=base(), args=options, train_dataset=unused,
                      processing_class=tokenizer)


def main():
    with tempfile.TemporaryDirectory() as directory:
        trainer = make_trainer(directory)
        pairs = make_pairs(trainer.model.config.vocab_size)
        inputs = trainer.data_collator(pairs)
        trainer.model.train()
        loss = trainer.compute_loss(trainer.model, inputs)
        loss.backward()
        with torch.no_grad():
            labels = inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, -100)
            given = dict(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
                         labels=labels, fused_lm_head=True)
            logp = trainer.model(**given).log_probs.sum(dim=1)
            reference = trainer.ref_model(**given).log_probs.sum(dim=1)

    in_turn = lambda x: torch.stack([x[:N_PAIR], x[N_PAIR:]], dim=1).reshape(-1)
    sides = [p["prompt_ids"] + p[side] for p in pairs for side in ("chosen_ids", "rejected_ids")]
    longest = max(map(len, sides))
    tensors = {
        "ids": torch.tensor([s + [-1] * (longest - len(s)) for s in sides], dtype=torch.int32),
        "n_prompt": torch.tensor([len(p["prompt_ids"]) for p in pairs], dtype=torch.int32),
        "beta": torch.tensor([BETA]),
        "loss": loss.detach().reshape(1),
        "logp": in_turn(logp),
        "reference": in_turn(reference),
    }
    for name, p in trainer.model.named_parameters():
        if p.requires_grad:
            tensors[weft_name(name)] = p.grad.contiguous()
    save_file(tensors, GOLDEN_DIR / "dpo.safetensors")
    print(f"loss {loss.item():.6f}, {len(tensors) - 6} gradients")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""make_adapters.py - adapters as PEFT writes them, and what the adapted models compute, for weft's
tests to compare with.

    make_adapters.py [NAME ...]        remake all, or the named ones

Each directory of tests/golden/adapters has adapter_config.json and adapter_model.safetensors, as
PEFT's save_pretrained leaves them, and trace.safetensors: the input of the base's own trace (`ids`;
`types` for BERT, `source` for T5) and the output with the adapter on, under weft's name. The base
is a golden of its own, tests/golden/BASE, where base_model_name_or_path says BASE.

Nothing here computes a reference value: the directory is read back by PEFT onto a fresh base, and
that model's output is what is written. A, B and all else that the adapter trains get numbers from
numpy, since PEFT begins with an adapter that changes nothing.
"""

import argparse
import json
import shutil
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import peft
import safetensors
import safetensors.torch
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import BertForSequenceClassification, BertModel, Gemma2ForCausalLM, GPT2LMHeadModel
from transformers import LlamaForCausalLM, Phi3ForCausalLM, Qwen2ForCausalLM
from transformers import T5ForConditionalGeneration

GOLDEN_DIR = Path(__file__).resolve().parents[1] / "tests" / "golden"
MAX_BYTES = 600 * 1024  # of all adapters; they live in git

CLASSES = {
    "llama-gqa": LlamaForCausalLM,  # its head is the embedding
    "llama-mqa": LlamaForCausalLM,
    "qwen2": Qwen2ForCausalLM,
    "phi3": Phi3ForCausalLM,
    "gemma2": Gemma2ForCausalLM,  # the gains of its norms are stored less 1
    "gpt2": GPT2LMHeadModel,
    "bert": BertModel,
    "bert-classify": BertForSequenceClassification,
    "t5": T5ForConditionalGeneration,
}

OUTPUT = {"bert": "blk.1.layer_output_norm", "bert-classify": "cls.output",
          "gemma2": "output.softcap"}  # of others: output


@dataclass
class Adapter:
    base: str
    lora: dict = field(default_factory=dict)
    bf16: bool = False  # the file's numbers


ADAPTERS = {
    "llama-lora": Adapter("llama-gqa", dict(target_modules="all-linear", r=2, lora_alpha=4)),
    "llama-rslora": Adapter("llama-gqa", dict(target_modules=["q_proj", "v_proj", "down_proj"], r=4,
                                              lora_alpha=6, use_rslora=True), bf16=True),
    "llama-dora": Adapter("llama-mqa", dict(
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj"], r=2, lora_alpha=3,
        use_dora=True)),
    "llama-patterns": Adapter("llama-gqa", dict(
        target_modules=["q_proj", "k_proj", "up_proj", "down_proj"], r=2, lora_alpha=4,
        # save_pretrained sorts the keys, and the first that matches counts: so they are in order here
        rank_pattern={"1.mlp.up_proj": 4, "k_proj": 3, r"layers\.1\.mlp\.(up|gate)_proj": 1},
        alpha_pattern={r"^model\.layers\.0\..*down_proj": 1, "k_proj": 9, "self_attn.k_proj": 5},
        exclude_modules=["layers.1.self_attn.q_proj"])),
    "llama-layers": Adapter("llama-gqa", dict(
        target_modules=["o_proj", "up_proj"], r=3, lora_alpha=3, layers_to_transform=[1],
        layers_pattern="layers")),
    "llama-regex": Adapter("llama-mqa", dict(
        target_modules=r".*\.(0\.self_attn\.[qv]|1\.mlp\.gate)_proj", r=2, lora_alpha=2)),
    "llama-saved": Adapter("llama-mqa", dict(
        target_modules=["q_proj", "v_proj"], r=2, lora_alpha=2,
        modules_to_save=["embed_tokens", "lm_head"])),
    "llama-untied": Adapter("llama-gqa", dict(
        target_modules=["k_proj"], r=2, lora_alpha=2, modules_to_save=["embed_tokens", "lm_head"])),
    "llama-embedding": Adapter("llama-gqa", dict(
        target_modules=["embed_tokens", "o_proj"], r=3, lora_alpha=2)),
    "llama-head": Adapter("llama-gqa", dict(target_modules=["lm_head"], r=2, lora_alpha=2)),
    "llama-embedding-dora": Adapter("llama-mqa", dict(
        target_modules=["embed_tokens", "lm_head"], r=2, lora_alpha=2, use_dora=True)),
    "qwen2-bias-all": Adapter("qwen2", dict(
        target_modules=["q_proj", "o_proj"], r=2, lora_alpha=4, bias="all")),
    "qwen2-bias-lora": Adapter("qwen2", dict(
        target_modules=["q_proj", "o_proj"], r=2, lora_alpha=4, bias="lora_only")),
    "qwen2-lora-bias": Adapter("qwen2", dict(
        target_modules=["q_proj", "k_proj", "v_proj"], r=2, lora_alpha=4, lora_bias=True)),
    "phi3-fused": Adapter("phi3", dict(
        target_modules=["qkv_proj", "gate_up_proj", "down_proj"], r=2, lora_alpha=4)),
    "phi3-fused-dora": Adapter("phi3", dict(
        target_modules=["qkv_proj", "gate_up_proj"], r=2, lora_alpha=4, use_dora=True)),
    "gpt2-lora": Adapter("gpt2", dict(
        target_modules=["c_attn", "c_fc", "c_proj"], r=2, lora_alpha=4, fan_in_fan_out=True)),
    "gpt2-dora": Adapter("gpt2", dict(
        target_modules=["c_attn", "mlp.c_proj"], r=2, lora_alpha=4, fan_in_fan_out=True,
        use_dora=True, bias="lora_only")),
    "gpt2-saved": Adapter("gpt2", dict(  # [in, out]
        target_modules=["attn.c_proj"], r=2, lora_alpha=4, fan_in_fan_out=True,
        modules_to_save=["c_attn", "ln_f"])),
    "gemma2-saved": Adapter("gemma2", dict(
        target_modules=["q_proj"], r=2, lora_alpha=4, modules_to_save=["layernorm", "norm"])),
    "bert-lora": Adapter("bert", dict(
        target_modules=["query", "value", "dense"], r=2, lora_alpha=4, bias="all")),
    "bert-classify": Adapter("bert-classify", dict(
        target_modules=["query", "value"], r=2, lora_alpha=4, task_type="SEQ_CLS")),
    "t5-lora": Adapter("t5", dict(
        target_modules=["q", "v", "wi", "wo"], r=2, lora_alpha=4, task_type="SEQ_2_SEQ_LM")),
    "t5-dora": Adapter("t5", dict(
        target_modules=r".*EncDecAttention\.[kvo]", r=2, lora_alpha=4, use_dora=True)),
}


def open_base(name):
    return CLASSES[name].from_pretrained(GOLDEN_DIR / name, dtype=torch.float32,
                                         attn_implementation="eager").eval()


def make_random(model, rng):
    """Numbers for all that the adapter trains, so large that none can be left out unnoticed."""
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        x = torch.from_numpy(rng.standard_normal(p.shape).astype(np.float32))
        with torch.no_grad():
            if "magnitude" in name:
                p.mul_(1 + x / 4)
            elif "lora_B" in name and name.endswith(".bias"):
                p.copy_(x / 8)
            elif "lora_" in name:
                p.copy_(x / 4)
            elif name.endswith("bias"):
                p.add_(x / 4)
            else:
                p.add_(x * p.std() / 2)


def in_order(path, base):
    """The configuration with sets in order, and the base's name instead of a path."""
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = base
    for key, value in config.items():
        if isinstance(value, list) and all(isinstance(x, str) for x in value):
            config[key] = sorted(value)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def round_file(path):
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file({name: t.bfloat16() for name, t in tensors.items()}, path,
                                {"format": "pt"})


def output_of(model, told):
    row = {name: t.long()[None] for name, t in told.items()}
    with torch.no_grad():
        if "source" in row:
            out = model(input_ids=row["source"], decoder_input_ids=row["ids"])
        elif "types" in row:
            out = model(input_ids=row["ids"], token_type_ids=row["types"])
        else:
            out = model(input_ids=row["ids"])
    y = out.logits if hasattr(out, "logits") else out.last_hidden_state
    return y.reshape(-1, y.shape[-1]).contiguous()


def make(name):
    adapter = ADAPTERS[name]
    path = GOLDEN_DIR / "adapters" / name
    rng = np.random.default_rng(zlib.crc32(name.encode()))  # its own, whatever else is made
    trace = safetensors.torch.load_file(GOLDEN_DIR / adapter.base / "trace.safetensors")
    told = {key: trace[key] for key in ("ids", "types", "source") if key in trace}

    shutil.rmtree(path, ignore_errors=True)
    model = get_peft_model(open_base(adapter.base), LoraConfig(**adapter.lora)).eval()
    make_random(model, rng)
    model.save_pretrained(path)
    (path / "README.md").unlink()
    in_order(path / "adapter_config.json", adapter.base)
    if adapter.bf16:
        round_file(path / "adapter_model.safetensors")

    back = PeftModel.from_pretrained(open_base(adapter.base), path).eval()
    y, plain = output_of(back, told), output_of(open_base(adapter.base), told)
    change = ((y - plain).abs().max() / plain.abs().max()).item()
    assert change > 0.02, f"{name} changes the output by {change} only"
    assert adapter.bf16 or torch.equal(y, output_of(model, told)), f"{name} is not read as written"
    safetensors.torch.save_file({**told, OUTPUT.get(adapter.base, "output"): y},
                                path / "trace.safetensors")
    n = sum(f.stat().st_size for f in path.iterdir())
    print(f"{name:22} {adapter.base:14} {change:8.3f} {n:8}")


def main():
    parser = argparse.ArgumentParser(description="Make adapters with PEFT.")
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(ADAPTERS)}")
    names = parser.parse_args().name or list(ADAPTERS)
    for name in names:
        if name not in ADAPTERS:
            parser.error(f"no adapter is called {name}")

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"peft {peft.__version__}, safetensors {safetensors.__version__}, numpy {np.__version__}")
    print(f"{'name':22} {'base':14} {'change':>8} {'bytes':>8}")
    for name in names:
        make(name)
    n = sum(f.stat().st_size for f in (GOLDEN_DIR / "adapters").rglob("*") if f.is_file())
    assert n < MAX_BYTES, f"{n} bytes in all; expected fewer than {MAX_BYTES}"


if __name__ == "__main__":
    main()

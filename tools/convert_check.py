#!/usr/bin/env python3
"""convert_check.py - what weft writes, read by those it is written for.

    convert_check.py WEFT [--tokenizers DIR]

Makes a small random model of every architecture with transformers, in f32, bf16 and f16, in one file
and in several; converts it with weft to GGUF and back; and checks that

  - gguf.GGUFReader reads the file, and finds the tensors that the gguf package's own table of names
    expects, with transformers' numbers in them (q and k permuted as llama.cpp's converter does it);
  - tensors survive the round trip bit for bit;
  - transformers loads the directory converted back, also if its config.json was made from GGUF's keys,
    and computes the same logits within 1e-4;
  - tokenizers survive the round trip, and GGUF's own keys hold the vocabulary (with --tokenizers: a directory of
    directories that have a tokenizer.json).

Exit status 1 where anything differs.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers

TOLERANCE = 1e-4

LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=8192)
SMALL = dict(vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)

MODELS = {
    "llama2": (transformers.LlamaConfig, SMALL),
    "llama3.2": (transformers.LlamaConfig,
                 SMALL | dict(rope_parameters=LLAMA3, tie_word_embeddings=True,
                              max_position_embeddings=131072)),
    "llama-bias": (transformers.LlamaConfig, SMALL | dict(attention_bias=True, mlp_bias=True)),
    "llama-yarn": (transformers.LlamaConfig, SMALL | dict(rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64))),
    "smollm": (transformers.LlamaConfig, SMALL | dict(tie_word_embeddings=True)),
    "tinyllama": (transformers.LlamaConfig, SMALL | dict(tie_word_embeddings=False)),
    "mistral": (transformers.MistralConfig, SMALL | dict(sliding_window=5)),
    "qwen2": (transformers.Qwen2Config, SMALL),
    "qwen3": (transformers.Qwen3Config, SMALL | dict(head_dim=24)),
    "gpt2": (transformers.GPT2Config, dict(vocab_size=300, n_embd=64, n_layer=2, n_head=4,
                                           n_positions=64, bos_token_id=0, eos_token_id=0)),
}

failures = 0


def check(holds, what):
    """Counts and names what does not hold."""
    global failures
    if not holds:
        failures += 1
        print(f"FAILED  {what}")
    return holds


def weft(program, *arguments):
    done = subprocess.run([program, "convert", *map(str, arguments), "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"weft convert {' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)


def make(config_class, options, dtype, directory, shard):
    """A random model, saved; weights large enough that a wrong one shows."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config_class(**options))
    for name, p in model.named_parameters():
        if p.dim() == 1 and not name.endswith("bias"):
            p.data = 1 + 0.2 * torch.randn_like(p)
        else:
            p.data = torch.randn_like(p) * (1.2 / p.shape[-1] ** 0.5 if p.dim() > 1 else 0.1)
    model = model.to(dtype).eval()
    model.save_pretrained(directory, max_shard_size=shard)
    return model


def logits(model):
    ids = torch.tensor([[1, 5, 3, 250, 7, 7, 30, 11, 4, 299, 0, 12]])
    with torch.no_grad():
        return model.float()(input_ids=ids).logits


def load(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def tensors(directory):
    files = sorted(Path(directory).glob("*.safetensors"))
    return {k: v for f in files for k, v in safetensors.torch.load_file(f).items()}


def same_tensors(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and
        torch.equal(a[k].view(torch.uint8), b[k].view(torch.uint8)) for k in a)


def permute(w, n_head):
    """As llama.cpp's converter reorders the rows of q and k."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def check_gguf(name, path, model):
    """Every tensor has the gguf package's name for it, and its numbers."""
    reader = gguf.GGUFReader(path)
    config = model.config
    arch_name = bytes(reader.fields["general.architecture"].parts[-1]).decode()
    arch = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch_name)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    ours = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) if t.tensor_type != 0 else t.data
            for t in reader.tensors}
    theirs = {k: v.float().numpy() for k, v in model.state_dict().items()
              if not (k == "lm_head.weight" and config.tie_word_embeddings)}
    met = set()
    for key, value in theirs.items():
        if key.endswith((".attn.bias", ".attn.masked_bias", "inv_freq")):
            continue
        want = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if not check(want in ours, f"{name}: {key} is not in the file as {want}"):
            continue
        if arch_name == "llama" and ".q_proj." in key:
            value = permute(value, config.num_attention_heads)
        if arch_name == "llama" and ".k_proj." in key:
            value = permute(value, config.num_key_value_heads)
        if arch_name == "gpt2" and "c_" in key and value.ndim == 2:
            value = value.T
        check(np.array_equal(ours[want].reshape(value.shape), value), f"{name}: numbers of {want}")
        met.add(want)
    rest = set(ours) - met - {"rope_freqs.weight"}
    check(not rest, f"{name}: tensors nobody asked for: {rest}")
    check(("rope_freqs.weight" in ours) == (name.startswith("llama3")), f"{name}: rope_freqs")


def forget(path):
    """The file as one that never was a directory."""
    data = bytearray(Path(path).read_bytes())
    for key in (b"weft.huggingface.", b"tokenizer.huggingface."):
        data = data.replace(key, b"x" + key[1:])
    Path(path).write_bytes(data)


def check_model(program, name, dtype, shard, room):
    config_class, options = MODELS[name]
    label = f"{name} {str(dtype).removeprefix('torch.')}{' in parts' if shard != '1GB' else ''}"
    there, file, back, facts = room / "there", room / "model.gguf", room / "back", room / "facts"
    model = make(config_class, options, dtype, there, shard)
    before = failures
    weft(program, there, file)
    check_gguf(name, file, model)
    weft(program, file, back)
    check(same_tensors(tensors(there), tensors(back)), f"{label}: tensors that came back")
    check(json.loads((there / "config.json").read_text()) ==
          json.loads((back / "config.json").read_text()), f"{label}: config.json")
    split = weft(program, there, room / "split.gguf", "--max-shard-size", "100K")
    check(split["n_file"] > 1, f"{label}: parts")
    weft(program, split["path"], room / "joined", "--max-shard-size", "100K")
    check(same_tensors(tensors(there), tensors(room / "joined")), f"{label}: tensors of parts")
    forget(file)
    weft(program, file, facts, "--type", "f32")
    want = logits(load(there))
    scale = want.abs().max()
    worst = max(float((logits(load(d)) - want).abs().max() / scale)
                for d in (back, room / "joined", facts))
    check(worst <= TOLERANCE, f"{label}: transformers' logits differ by {worst:.1e}")
    if failures == before:
        print(f"ok      {label}: logits within {worst:.1e}")


def check_tokenizer(program, directory, room):
    """A tokenizer of the field on a random model with a row for each token."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))
    there, file, back = room / "there", room / "model.gguf", room / "back"
    n = len(tokenizer) + 3
    make(transformers.LlamaConfig, SMALL | dict(vocab_size=n, hidden_size=8, intermediate_size=8,
                                                num_attention_heads=2, num_key_value_heads=1),
         torch.float32, there, "1GB")
    for path in directory.glob("*.json"):
        shutil.copy(path, there)
    weft(program, there, file)
    weft(program, file, back)
    for path in ("tokenizer.json", "tokenizer_config.json"):
        if (there / path).exists():
            check((there / path).read_bytes() == (back / path).read_bytes(), f"{directory.name}: {path}")
    fields = gguf.GGUFReader(file).fields
    if "tokenizer.ggml.tokens" not in fields:
        print(f"ok      tokenizer {directory.name}: only as tokenizer.json")
        return
    tokens = fields["tokenizer.ggml.tokens"].contents()
    check(len(tokens) == n, f"{directory.name}: {len(tokens)} tokens")
    ours = [tokens[i] for i in range(len(tokenizer))]
    check(ours == tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))),
          f"{directory.name}: tokens")
    pre = fields["tokenizer.ggml.pre"].contents() if "tokenizer.ggml.pre" in fields else None
    print(f"ok      tokenizer {directory.name}: {fields['tokenizer.ggml.model'].contents()}, {pre}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weft")
    parser.add_argument("--tokenizers", type=Path)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    for name in MODELS:
        for dtype, shard in ((torch.float32, "1GB"), (torch.bfloat16, "60KB"), (torch.float16, "1GB")):
            with tempfile.TemporaryDirectory() as room:
                check_model(options.weft, name, dtype, shard, Path(room))
    for path in sorted(options.tokenizers.glob("*/tokenizer.json")) if options.tokenizers else []:
        with tempfile.TemporaryDirectory() as room:
            check_tokenizer(options.weft, path.parent, Path(room))
    print(f"{failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()

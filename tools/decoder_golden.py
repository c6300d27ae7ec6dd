#!/usr/bin/env python3
"""decoder_golden.py - what transformers computes, for the decoders of llama.c that are not Llamas.

    decoder_golden.py [NAME ...]        regenerate all goldens, or the named ones
    decoder_golden.py --rounding NAME   how far torch's f32 is from f64 in the second step of train-NAME

As tools/golden.py, whose functions it uses: small random models in tests/golden/NAME with
trace.safetensors, and models called train-* with train.safetensors.

Gains that a model stores less 1 are multiples of 1/1024, so that the sum is exact and the way to
GGUF and back gives the same bytes; what training leaves of them is saved with the 1.
"""

import argparse
import copy
import json
import sys
import zlib
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from unittest import mock

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers import Exaone4ForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextModel
from transformers import Glm4ForCausalLM, GptOssForCausalLM, GraniteForCausalLM
from transformers import Ministral3ForCausalLM
from transformers import MixtralForCausalLM, Qwen3MoeForCausalLM
from transformers import Qwen3ForCausalLM, Qwen3ForSequenceClassification
from transformers import Olmo2ForCausalLM, Olmo3ForCausalLM, Phi3ForCausalLM, SmolLM3ForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import golden
from golden import GOLDEN_DIR, rows

# ---- names ------------------------------------------------------------------------------------

LAYER = "{p}layers.{l}"
SELF = LAYER + ".self_attn"


def taps(before="input_layernorm", behind=None, ffn="post_attention_layernorm", last=None,
         norms=False, fused=False, scaled=False, up=("gate_proj", "up_proj"), experts=False,
         router="gate", ffn_norm="ffn_norm"):
    """Taps of a block whose norms have these names, None where there is none."""
    stem = behind and "post_attention_norm" or ("attn_output.scale" if scaled else "attn_output")
    end = last and "post_ffw_norm" or ("ffn_down.scale" if scaled else "ffn_down")
    t = [("{p}embed_tokens", "out", "token_embd"),
         (SELF + ".o_proj", "in", "blk.{l}.attention"),
         (SELF + ".o_proj", "out", "blk.{l}.attn_output"),
         (LAYER + ".mlp.down_proj", "in", "blk.{l}.glu"),
         (LAYER + ".mlp.down_proj", "out", "blk.{l}.ffn_down"),
         (LAYER + (f".{ffn}" if ffn else ".mlp"), "in", "blk.{l}." + stem + ".residual"),
         (LAYER, "out", "blk.{l}." + end + ".residual"),
         ("{p}norm", "out", "output_norm")]
    if experts:
        t = [tap for tap in t if "down_proj" not in tap[0] and tap[0] != LAYER]
        t += [(LAYER, "out", "blk.{l}.moe.residual"),
              (LAYER + ".mlp.experts", "rows", "blk.{l}.moe"),
              (f"{LAYER}.mlp.{router}", "own", "blk.{l}.ffn_gate_inp")]
        up = ()
    for module, name in ((before, "attn_norm"), (behind, "post_attention_norm"), (ffn, ffn_norm),
                         (last, "post_ffw_norm")):
        t += [(f"{LAYER}.{module}", "out", "blk.{l}." + name)] if module else []
    for x in ("qkv",) if fused else "qkv":
        t.append((f"{SELF}.{x}_proj", "out", "blk.{l}.attn_" + x))
    for x in "qk" if norms else "":
        t.append((f"{SELF}.{x}_norm", "out", "blk.{l}.attn_" + x + "_norm"))
    for module in up:
        name = {"gate_proj": "ffn_gate", "up_proj": "ffn_up"}.get(module, "ffn_gate_up")
        t.append((f"{LAYER}.mlp.{module}", "own", "blk.{l}." + name))
    return tuple(t)


AROUND = dict(behind="post_attention_layernorm", ffn="pre_feedforward_layernorm",
              last="post_feedforward_layernorm")
BEHIND = dict(before=None, behind="post_attention_layernorm", ffn=None,
              last="post_feedforward_layernorm", norms=True)
GLM4 = dict(behind="post_self_attn_layernorm", last="post_mlp_layernorm", up=("gate_up_proj",))


@dataclass(frozen=True)
class Kind:
    """Where the intermediates of a class are, and how it differs."""

    model: type
    taps: tuple
    gain: bool = False  # norms multiply by 1 + w
    embd: str = "token_embd"  # what the embedding module gives
    first: str = ""  # what enters the first block, if that is something else
    logits: str = "output"
    prefix: str = "model."


GEMMA2 = Kind(Gemma2ForCausalLM, taps(**AROUND), gain=True, embd="token_embd.scale",
              logits="output.softcap")
GEMMA3 = Kind(Gemma3ForCausalLM, taps(**AROUND, norms=True), gain=True, embd="token_embd.scale")
GEMMA3_TEXT = Kind(Gemma3TextModel, taps(**AROUND, norms=True), gain=True,
                   embd="token_embd.scale", prefix="", logits="")
GRANITE = Kind(GraniteForCausalLM, taps(scaled=True), first="token_embd.scale")
SMOLLM3 = Kind(SmolLM3ForCausalLM, taps())
OLMO2 = Kind(Olmo2ForCausalLM, taps(**BEHIND))
OLMO3 = Kind(Olmo3ForCausalLM, taps(**BEHIND))
PHI3 = Kind(Phi3ForCausalLM, taps(fused=True, up=("gate_up_proj",)))
EXAONE4 = Kind(Exaone4ForCausalLM, taps(**BEHIND))
GLM_4 = Kind(Glm4ForCausalLM, taps(**GLM4))
QWEN3_MOE = Kind(Qwen3MoeForCausalLM, taps(norms=True, experts=True))
QWEN3 = Kind(Qwen3ForCausalLM, taps(norms=True))
QWEN3_RANK = Kind(Qwen3ForSequenceClassification,
                  (*taps(norms=True), ("score", "out", "cls.output")), logits="")
MIXTRAL = Kind(MixtralForCausalLM, taps(experts=True))
GPT_OSS = Kind(GptOssForCausalLM, (*taps(experts=True, router="router",
                                         ffn_norm="post_attention_norm"),
                                   (SELF, "own", "blk.{l}.attn_sinks")))
MINISTRAL3 = Kind(Ministral3ForCausalLM, taps())

# ---- models -----------------------------------------------------------------------------------

SMALL = dict(vocab_size=67, hidden_size=24, intermediate_size=31, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
LESS = dict(SMALL, vocab_size=23, hidden_size=12, intermediate_size=11, num_hidden_layers=2,
            num_attention_heads=3, num_key_value_heads=1)
S, F = "sliding_attention", "full_attention"
DEFAULT = dict(rope_type="default", rope_theta=10000.0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
            original_max_position_embeddings=16)
LOCAL = dict(full_attention=dict(rope_type="linear", rope_theta=5000.0, factor=8.0),
             sliding_attention=dict(rope_type="default", rope_theta=100.0))
WARM = dict(YARN, factor=8.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4,
            original_max_position_embeddings=8)
# A ramp whose ends are inside of pairs.
EVEN = dict(YARN, rope_theta=50.0, factor=2.0, beta_fast=4.0, original_max_position_embeddings=32,
            truncate=False)
LONG = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
            short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 4.0, 9.0],
            original_max_position_embeddings=20)

# Caps far below those of published models, so that they bend.

GOLDENS = {
    "gemma2": (GEMMA2, 19, dict(
        SMALL, head_dim=8, query_pre_attn_scalar=8, sliding_window=5, attn_logit_softcapping=2.0,
        final_logit_softcapping=4.0)),
    # Five layers with a window, one without, one with.
    "gemma3": (GEMMA3, 17, dict(
        SMALL, hidden_size=16, intermediate_size=21, num_hidden_layers=7, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8, sliding_window=5,
        rope_parameters=LOCAL)),
    "gemma3-layers": (GEMMA3, 17, dict(
        SMALL, head_dim=8, query_pre_attn_scalar=11, sliding_window=4, layer_types=[F, S, F],
        final_logit_softcapping=None)),
    "gemma3-text": (GEMMA3_TEXT, 17, dict(
        SMALL, head_dim=8, query_pre_attn_scalar=8, sliding_window=5)),
    "granite": (GRANITE, 19, dict(
        SMALL, embedding_multiplier=3.0, residual_multiplier=0.375, attention_multiplier=0.3125,
        logits_scaling=4.0)),
    "smollm3": (SMOLLM3, 19, dict(SMALL, num_hidden_layers=5, hidden_size=16,
                                  intermediate_size=21, use_sliding_window=False)),
    "olmo2": (OLMO2, 19, dict(SMALL, num_hidden_layers=2)),
    "olmo3": (OLMO3, 19, dict(
        SMALL, hidden_size=16, intermediate_size=21, num_hidden_layers=5, sliding_window=5,
        rope_parameters=dict(full_attention=YARN, sliding_attention=DEFAULT))),
    "phi3": (PHI3, 19, dict(
        SMALL, hidden_size=32, num_hidden_layers=2, sliding_window=6,
        rope_parameters=dict(DEFAULT, partial_rotary_factor=0.75))),
    "phi3-short": (PHI3, 19, dict(
        SMALL, hidden_size=32, num_hidden_layers=2, original_max_position_embeddings=20,
        rope_parameters=LONG)),
    "phi3-long": (PHI3, 23, dict(
        SMALL, hidden_size=32, num_hidden_layers=2, original_max_position_embeddings=20,
        rope_parameters=LONG)),
    "exaone4": (EXAONE4, 19, dict(
        SMALL, hidden_size=16, intermediate_size=21, num_hidden_layers=5, head_dim=6,
        sliding_window=5, sliding_window_pattern=4, rope_parameters=DEFAULT)),
    "glm4": (GLM_4, 19, dict(
        SMALL, num_hidden_layers=2, head_dim=8, attention_bias=True,
        rope_parameters=dict(DEFAULT, partial_rotary_factor=0.5))),
    "qwen3-moe": (QWEN3_MOE, 19, dict(
        SMALL, num_hidden_layers=2, head_dim=6, num_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=9, norm_topk_prob=True)),
    "qwen3-rank": (QWEN3_RANK, 19, dict(
        SMALL, num_hidden_layers=2, head_dim=8, pad_token_id=None, id2label={0: "yes", 1: "no"},
        label2id=dict(yes=0, no=1))),
    # Matrices that end inside a block of 128 x 128.
    "qwen3-fp8": (QWEN3, 19, dict(
        SMALL, hidden_size=132, intermediate_size=130, num_hidden_layers=1, head_dim=8)),
    "mixtral": (MIXTRAL, 19, dict(
        SMALL, num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2,
        intermediate_size=13)),
    "gpt-oss": (GPT_OSS, 19, dict(
        SMALL, head_dim=8, num_local_experts=4, num_experts_per_tok=2, intermediate_size=13,
        sliding_window=5, rope_parameters=EVEN)),
    "gpt-oss-mxfp4": (GPT_OSS, 19, dict(
        SMALL, hidden_size=64, num_hidden_layers=2, head_dim=8, num_local_experts=3,
        num_experts_per_tok=2, intermediate_size=32, sliding_window=5, rope_parameters=EVEN)),
    "ministral3": (MINISTRAL3, 27, dict(
        SMALL, num_hidden_layers=2, head_dim=8, sliding_window=None, rope_parameters=WARM)),
}

TRAININGS = {
    "train-gemma2": (GEMMA2, dict(
        LESS, head_dim=4, query_pre_attn_scalar=4, sliding_window=5, attn_logit_softcapping=1.5,
        final_logit_softcapping=2.0)),
    "train-gemma3": (GEMMA3, dict(
        LESS, head_dim=4, query_pre_attn_scalar=4, sliding_window=5, layer_types=[S, F],
        rope_parameters=LOCAL)),
    "train-granite": (GRANITE, dict(
        LESS, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.25,
        logits_scaling=2.0)),
    "train-smollm3": (SMOLLM3, dict(LESS, tie_word_embeddings=False, no_rope_layer_interval=2, use_sliding_window=False)),
    "train-olmo2": (OLMO2, LESS),
    "train-olmo3": (OLMO3, dict(
        LESS, sliding_window=5, layer_types=[S, F],
        rope_parameters=dict(full_attention=YARN, sliding_attention=DEFAULT))),
    "train-phi3": (PHI3, dict(
        LESS, hidden_size=16, num_attention_heads=2, sliding_window=6,
        rope_parameters=dict(DEFAULT, partial_rotary_factor=0.75))),
    "train-exaone4": (EXAONE4, dict(
        LESS, head_dim=4, sliding_window=5, layer_types=[S, F],
        rope_parameters=DEFAULT)),
    "train-glm4": (GLM_4, dict(
        LESS, head_dim=4, attention_bias=False,
        rope_parameters=dict(DEFAULT, partial_rotary_factor=0.5))),
    "train-qwen3-moe": (QWEN3_MOE, dict(
        LESS, head_dim=4, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=5,
        norm_topk_prob=True)),
    "train-mixtral": (MIXTRAL, dict(
        LESS, num_local_experts=3, num_experts_per_tok=2, intermediate_size=5)),
    "train-gpt-oss": (GPT_OSS, dict(
        LESS, head_dim=4, num_local_experts=3, num_experts_per_tok=2, intermediate_size=5,
        sliding_window=5, rope_parameters=EVEN)),
    "train-ministral3": (MINISTRAL3, dict(
        LESS, head_dim=4, sliding_window=None, rope_parameters=WARM)),
}


@dataclass(frozen=True)
class Build:
    """What golden.build reads."""

    model: type
    config: dict
    embd_std: float = 1.0
    gain: float = 1.5
    rotated: tuple = ("attn_q.rope", "attn_k.rope")
    d_rope: int = 0


def small_gains(model):
    """Gains that are stored less 1: around 0, and exact when the 1 is added."""
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            p.data = torch.round((p.data - 1) * 1024) / 1024


def build(kind, config, rng, **scales):
    """A random model of the class; in traces the limits of gpt-oss cut."""
    model = golden.build(Build(kind.model, config, **scales), rng)
    if kind.gain:
        small_gains(model)
    for name, p in model.named_parameters():
        if kind is GPT_OSS and name.endswith("gate_up_proj") and not scales:
            p.data *= 4
    return model


def pack(model, path, rng):
    """Gives the experts random blocks and scales, in the model and in the saved directory."""
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        E, inner, outer = tensors.pop(name).shape
        blocks = torch.from_numpy(rng.integers(0, 256, (E, outer, inner // 32, 16), np.uint8))
        scales = torch.from_numpy(rng.integers(121, 127, (E, outer, inner // 32), np.uint8))
        model.get_parameter(name).data = convert_moe_packed_tensors(
            blocks, scales, dtype=torch.float32).contiguous()
        tensors.update({name + "_blocks": blocks, name + "_scales": scales})
    save_quantised(model, path, tensors, dict(
        quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"]))


def save_quantised(model, path, tensors, quantisation):
    """The directory of a model that transformers would save otherwise."""
    model.config.save_pretrained(path)
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = quantisation
    config["architectures"] = [type(model).__name__]
    (path / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    safetensors.torch.save_file(tensors, path / "model.safetensors", dict(format="pt"))


def blocks_of_128(model, path):
    """The matrices of layers as E4M3 with a scale for every 128 x 128, which the model then has as
    BF16. Scales are F32 as DeepSeek's in attention, BF16 as Qwen's elsewhere."""
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        w = tensors[name]
        rows, cols = (-(-n // 128) for n in w.shape)
        scale = torch.empty(rows, cols)
        for i in range(rows):
            for k in range(cols):
                block = w[128 * i:128 * i + 128, 128 * k:128 * k + 128]
                scale[i, k] = block.abs().max() / 448
        if "mlp" in name:
            scale = scale.bfloat16()
        wide = scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)
        wide = wide[:w.shape[0], :w.shape[1]]
        codes = (w / wide).clamp(-448, 448).to(torch.float8_e4m3fn)
        model.get_parameter(name).data = (codes.float() * wide).bfloat16().float()
        tensors[name], tensors[name + "_scale_inv"] = codes, scale
    save_quantised(model, path, tensors, dict(
        quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128]))


def with_prefix(kind):
    """The taps of the class, with its prefix."""
    head = (("lm_head", "own", "output"),) if kind.logits else ()
    return golden.with_prefix(kind.taps, kind.prefix) + head


# ---- traces -----------------------------------------------------------------------------------

def by_row(x, n_token):
    """A copy of [1, T, ...] or of heads [1, H, T, E] as [T, cols]."""
    return rows(x.transpose(1, 2) if x.dim() == 4 and x.shape[2] == n_token else x)


def tap_modules(kind, model, trace, n_token):
    def hook(side, name):
        def record(module, args, kwargs, output):
            x = args[0] if side == "in" and args else kwargs.get("hidden_states")
            if side == "rows":
                trace[name] = output.detach().clone()
            else:
                trace[name] = by_row(x if side == "in" else output, n_token)
        return record

    for path, side, name in golden.all_layers(model, with_prefix(kind)):
        if side != "own":
            name = kind.embd if name == "token_embd" else name
            model.get_submodule(path).register_forward_hook(hook(side, name), with_kwargs=True)


def split_fused(trace, config):
    """Name the three parts of a fused projection."""
    E = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    H, K = config.num_attention_heads * E, config.num_key_value_heads * E
    for name in [name for name in trace if name.endswith(".attn_qkv")]:
        for x, part in zip("qkv", trace.pop(name).split((H, K, K), dim=1)):
            trace[name.replace("attn_qkv", f"attn_{x}")] = part.contiguous()


def is_bare(model, l):
    """Does layer l rotate nothing?"""
    attention = model.get_submodule(f"model.layers.{l}.self_attn")
    if getattr(attention, "use_rope", 1) == 0:
        return True
    config = model.config
    return type(model) is Exaone4ForCausalLM and config.sliding_window and \
        config.layer_types[l] == F


def forward(kind, model, config, ids):
    """Every named intermediate of one forward pass over ids [T]."""
    trace = {}
    normed = any(name == "blk.{l}.attn_q_norm" for _, _, name in kind.taps)
    rotated = tuple(f"attn_{x}{'_norm' if normed else ''}.rope" for x in "qk")
    tap_modules(kind, model, trace, len(ids))
    with golden.tap_attention(Build(kind.model, config, rotated=rotated), model, trace), \
            torch.no_grad():
        out = model(input_ids=ids[None].long(), use_cache=False)
    if kind.first:
        trace[kind.first] = trace["token_embd"] * model.config.embedding_multiplier
    if kind.logits:
        trace[kind.logits] = rows(out.logits)
    if kind is QWEN3_RANK:  # the last row scores the text
        trace.update({name: trace[name][-1:].clone() for name in ("output_norm", "cls.output")})
    split_fused(trace, model.config)
    for l in range(model.config.num_hidden_layers):
        for x in rotated if kind.prefix and is_bare(model, l) else ():
            del trace[f"blk.{l}.{x}"]
    return trace


def make_trace(name, rng):
    kind, n_token, config = GOLDENS[name]
    model = build(kind, config, rng)
    path = GOLDEN_DIR / name
    if name.endswith("mxfp4"):
        pack(model, path, rng)
    elif name.endswith("fp8"):
        blocks_of_128(model, path)
    else:
        golden.save_model(model, path)
    ids = torch.from_numpy(rng.integers(0, config["vocab_size"], n_token, np.int32))
    trace = forward(kind, model, config, ids)
    golden.check_trace(name, trace)
    safetensors.torch.save_file({"ids": ids, **trace}, path / "trace.safetensors")
    golden.print_row(name, model, trace)


# ---- training ---------------------------------------------------------------------------------

def named(kind):
    """golden.by_weft_name with fused matrices cut, and final gains with their 1."""
    inner = golden.by_weft_name

    def by_name(model, taps, value):
        first = next(model.parameters())
        tensors = inner(model, taps, value)
        E = getattr(model.config, "head_dim", None) or \
            model.config.hidden_size // model.config.num_attention_heads
        H, K = model.config.num_attention_heads * E, model.config.num_key_value_heads * E
        for name in list(tensors):
            if name.endswith("attn_sinks.sinks"):
                tensors[name.replace(".sinks", ".weight")] = tensors.pop(name)
            elif ".moe." in name:  # the biases of gpt-oss's experts
                tensors.update(split_biases(name, tensors.pop(name)))
            elif name.endswith("attn_qkv.weight"):
                for x, part in zip("qkv", tensors.pop(name).split((H, K, K))):
                    tensors[name.replace("qkv", x)] = part.contiguous()
            elif name.endswith("ffn_gate_up.weight"):
                for x, part in zip(("gate", "up"), tensors.pop(name).chunk(2)):
                    tensors[name.replace("gate_up", x)] = part.contiguous()
            elif kind.gain and name.endswith("norm.weight") and value(first) is first:
                tensors[name] = tensors[name] + 1
        return tensors

    return mock.patch.object(golden, "by_weft_name", by_name)


def woven(name, kind, x):
    """golden.by_expert for gpt-oss: [E, D, 2 F] with gates and ups in turn, [E, F, D] downs."""
    blk, x = name.rpartition(".")[0], x.transpose(1, 2)
    parts = dict(down=x) if kind == "down_proj" else dict(gate=x[:, ::2], up=x[:, 1::2])
    return {f"{blk}.ffn_{part}_exps.{e}.weight": y.contiguous()
            for part, stack in parts.items() for e, y in enumerate(stack)}


def split_biases(name, x):
    """The same for biases [E, 2 F] and [E, D]."""
    blk = name.partition(".moe.")[0]
    down = name.endswith("down_proj_bias")
    parts = dict(down=x) if down else dict(gate=x[:, ::2], up=x[:, 1::2])
    return {f"{blk}.ffn_{part}_exps.{e}.bias": y[None].contiguous()
            for part, stack in parts.items() for e, y in enumerate(stack)}


def noise(training, model, batches):
    """How far torch's gradients in f32 are from those in f64, relative as the test compares them."""
    worst = 0
    for ids, target, weight in batches:
        model.zero_grad()
        with mock.patch.object(golden, "wide", nullcontext):
            golden.packed_loss(training, model, ids, target, weight).backward()
        with double():
            exact = golden.widen(model)
            golden.packed_loss(training, exact, ids, target, weight.double()).backward()
        largest = max(p.grad.abs().max() for p in exact.parameters())
        for p, q in zip(model.parameters(), exact.parameters()):
            error = (p.grad.double() - q.grad).abs().max()
            worst = max(worst, float(error / max(q.grad.abs().max(), largest / 100)))
    return worst


@contextmanager
def double():
    """Numbers made without a type are f64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_training(name, rng):
    """A norm after a branch that is small amplifies rounding; takes the first model that is not
    like that, by torch's own rounding."""
    kind, config = TRAININGS[name]
    gain = kind is GEMMA2 or kind is GEMMA3
    training = golden.Training(
        kind.model, config, taps=with_prefix(kind), smoothing=0.1, clip=1.0,
        embd_std=0.32 if gain else 0.8, peak_lr=0.002,
        kwargs=dict(use_cache=False))
    for _ in range(100):
        model = build(kind, config, rng, embd_std=training.embd_std, gain=1.0)
        ids, target, weight = golden.random_batches(model.config.vocab_size, rng, 0)
        if noise(training, model, zip(ids, target, weight)) > 3e-6:
            continue
        by_expert = woven if kind is GPT_OSS else golden.by_expert
        with named(kind), double(), mock.patch.object(golden, "by_expert", by_expert):
            exact = golden.widen(model)
            tensors = golden.train(training, exact, ids, target, weight)
        if tensors["loss"][-1] < tensors["loss"][0]:
            break
    else:
        sys.exit(f"{name}: no model of 100 has gradients that float32 finds and a loss that falls")
    for key in ("loss", "norm"):
        tensors[key] = tensors[key].float()
    golden.check_training(name, training, model, tensors)

    path = GOLDEN_DIR / name
    golden.save_model(model, path)
    batches = dict(ids=ids, target=target, weight=weight,
                   length=torch.tensor(golden.LENGTHS, dtype=torch.int32))
    metadata = dict(beta1=golden.BETAS[0], beta2=golden.BETAS[1], eps=golden.EPS,
                    decay=golden.DECAY, clip=training.clip, smoothing=training.smoothing)
    golden.save_with_metadata({**batches, **tensors}, path / "train.safetensors", metadata)
    golden.print_row(name, model, tensors)
    for row in ("loss", "norm"):
        print(f"  {row}", *(f"{x:.4f}" for x in tensors[row].flatten().tolist()))


def two_steps(training, model, batches, dtype, eps):
    """The gradients of the second step in this type."""
    wide = dtype == torch.float64
    model = golden.widen(model) if wide else copy.deepcopy(model)
    params = list(model.parameters())
    adamw = torch.optim.AdamW(params, betas=golden.BETAS, eps=eps, weight_decay=golden.DECAY)
    adamw.param_groups[0]["lr"] = golden.learning_rates(training.peak_lr)[0].item()
    for k, (ids, target, weight) in enumerate(batches):
        adamw.zero_grad()
        with nullcontext() if wide else mock.patch.object(golden, "wide", nullcontext):
            golden.packed_loss(training, model, ids, target, weight.to(dtype)).backward()
        if k == 1:
            return [p.grad.double() for p in params]
        torch.nn.utils.clip_grad_norm_(params, training.clip)
        adamw.step()


def print_rounding(name):
    """AdamW's first step is g / (|g| + eps): a weight whose gradient is below the rounding of the
    others moves by another share of the rate in f32 than in f64, unless eps is larger."""
    kind, config = TRAININGS[name]
    for lr in (0.01, 0.002):
        for eps in (1e-8, 1e-4):
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            training = golden.Training(kind.model, config, taps=with_prefix(kind), smoothing=0.1,
                                       clip=1.0, embd_std=0.8, peak_lr=lr,
                                       kwargs=dict(use_cache=False))
            model = build(kind, config, rng, embd_std=training.embd_std, gain=1.0)
            batches = list(zip(*golden.random_batches(model.config.vocab_size, rng, 0)))
            narrow = two_steps(training, model, batches, torch.float32, eps)
            with double():
                exact = two_steps(training, model, batches, torch.float64, eps)
            least = max(g.abs().max() for g in exact) / 100
            worst = max(float((a - b).abs().max() / max(b.abs().max(), least))
                        for a, b in zip(narrow, exact))
            print(f"{name}: lr {lr}, eps {eps}: gradients of the second step differ by {worst:.1e}")


def main():
    known = [*GOLDENS, *TRAININGS]
    parser = argparse.ArgumentParser(description="Make golden traces of decoders.")
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(known)}")
    parser.add_argument("--rounding", metavar="NAME", choices=[*TRAININGS])
    given = parser.parse_args()
    names = given.name or known
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    if given.rounding:
        return print_rounding(given.rounding)
    for name in names:
        if name not in known:
            parser.error(f"no golden is called {name}")
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        make_training(name, rng) if name in TRAININGS else make_trace(name, rng)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""encdec_golden.py - what transformers and torch.nn.Transformer compute, for encoder-decoders.

    encdec_golden.py [NAME ...]        regenerate all goldens, or the named ones

As tools/golden.py, whose functions it uses: small random models in tests/golden/NAME with trace.safetensors (`source` and
`ids` of one pair of sequences, every intermediate under weft's name) and generate.txt (what generate() gives), and models
called train-* with train.safetensors (ten steps of AdamW in f64).

Bahdanau's model is torch's GRUs in weft's own file. The Transformer of 2017 is torch.nn.Transformer between embeddings and a head; its files have BART's names, with the three
parts of its fused projections under q, k and v.

A line of generate.txt is a search: num_beams (1: greedy), num_return_sequences, max_new_tokens, length_penalty, the source,
the ends, and for each text its score and the ids behind the start:

    4 2 12 1.0 | 5 17 3 | 2 40 | -2.81 9 4 ... 2 | -2.93 ...
"""

import argparse
import json
import math
import re
import sys
import zlib
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np
import safetensors.torch
import torch
import transformers
from torch import nn
from transformers import BartForConditionalGeneration, M2M100ForConditionalGeneration, MarianMTModel
from transformers import T5ForConditionalGeneration

import golden
from golden import GOLDEN_DIR, N_STEP, rows

# ---- names ------------------------------------------------------------------------------------------------------------

BART_NAMES = (  # parameters of transformers -> weft
    (r"model\.shared", "token_embd"),
    (r"lm_head", "output"),
    (r"model\.(enc|dec)oder\.embed_tokens", r"\1.token_embd"),
    (r"model\.(enc|dec)oder\.embed_positions", r"\1.position_embd"),
    (r"model\.(enc|dec)oder\.layernorm_embedding", r"\1.token_embd_norm"),
    (r"model\.(enc|dec)oder\.layer_norm", r"\1.output_norm"),
    (r"model\.(enc|dec)oder\.layers\.(\d+)\.self_attn\.([qkv])_proj", r"\1.blk.\2.attn_\3"),
    (r"model\.(enc|dec)oder\.layers\.(\d+)\.self_attn\.out_proj", r"\1.blk.\2.attn_o"),
    (r"model\.(enc|dec)oder\.layers\.(\d+)\.self_attn_layer_norm", r"\1.blk.\2.attn_norm"),
    (r"model\.decoder\.layers\.(\d+)\.encoder_attn\.([qkv])_proj", r"dec.blk.\1.cross_attn_\2"),
    (r"model\.decoder\.layers\.(\d+)\.encoder_attn\.out_proj", r"dec.blk.\1.cross_attn_o"),
    (r"model\.decoder\.layers\.(\d+)\.encoder_attn_layer_norm", r"dec.blk.\1.cross_attn_norm"),
    (r"model\.(enc|dec)oder\.layers\.(\d+)\.fc1", r"\1.blk.\2.ffn_up"),
    (r"model\.(enc|dec)oder\.layers\.(\d+)\.fc2", r"\1.blk.\2.ffn_down"),
    (r"model\.(enc|dec)oder\.layers\.(\d+)\.final_layer_norm", r"\1.blk.\2.ffn_norm"),
)

T5_NAMES = (
    (r"shared", "token_embd"),
    (r"lm_head", "output"),
    (r"(enc|dec)oder\.embed_tokens", r"\1.token_embd"),
    (r"(enc|dec)oder\.final_layer_norm", r"\1.output_norm"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.0\.SelfAttention\.relative_attention_bias", r"\1.blk.\2.attn_rel_b"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.0\.SelfAttention\.([qkvo])", r"\1.blk.\2.attn_\3"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.0\.layer_norm", r"\1.blk.\2.attn_norm"),
    (r"decoder\.block\.(\d+)\.layer\.1\.EncDecAttention\.([qkvo])", r"dec.blk.\1.cross_attn_\2"),
    (r"decoder\.block\.(\d+)\.layer\.1\.layer_norm", r"dec.blk.\1.cross_attn_norm"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.\d\.DenseReluDense\.wi_0", r"\1.blk.\2.ffn_gate"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.\d\.DenseReluDense\.(wi|wi_1)", r"\1.blk.\2.ffn_up"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.\d\.DenseReluDense\.wo", r"\1.blk.\2.ffn_down"),
    (r"(enc|dec)oder\.block\.(\d+)\.layer\.[12]\.layer_norm", r"\1.blk.\2.ffn_norm"),
)


def weft_name(path, names):
    """What weft calls the module, or None."""
    for pattern, name in names:
        match = re.fullmatch(pattern, path)
        if match:
            return match.expand(name)
    return None


# ---- the Transformer of 2017 ------------------------------------------------------------------------------------------

class Transformer(nn.Module):
    """torch.nn.Transformer between shared embeddings with interleaved sines and a tied head."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.core = nn.Transformer(
            config.d_model, config.encoder_attention_heads, config.encoder_layers, config.decoder_layers,
            config.encoder_ffn_dim, dropout=0.0, batch_first=True, norm_first=config.normalize_before)
        pos = torch.arange(config.max_position_embeddings).double()[:, None]
        rate = torch.exp(torch.arange(0, config.d_model, 2).double() * (-math.log(10000.0) / config.d_model))
        table = torch.zeros(config.max_position_embeddings, config.d_model)
        table[:, 0::2] = torch.sin(pos * rate)
        table[:, 1::2] = torch.cos(pos * rate)
        self.register_buffer("positions", table)

    def embed(self, ids):
        return self.shared(ids) * math.sqrt(self.config.d_model) + self.positions[:ids.shape[1]]

    def forward(self, input_ids, decoder_input_ids, **_):
        mask = nn.Transformer.generate_square_subsequent_mask(decoder_input_ids.shape[1], dtype=self.shared.weight.dtype)
        x = self.core(self.embed(input_ids), self.embed(decoder_input_ids), tgt_mask=mask, tgt_is_causal=True)
        return mock.Mock(logits=nn.functional.linear(x, self.shared.weight))


class Config2017(mock.Mock):
    """A bag of sizes."""


TORCH_NAMES = (
    (r"core\.(enc|dec)oder\.norm", r"\1.output_norm"),
    (r"core\.(enc|dec)oder\.layers\.(\d+)\.self_attn\.out_proj", r"\1.blk.\2.attn_o"),
    (r"core\.decoder\.layers\.(\d+)\.multihead_attn\.out_proj", r"dec.blk.\1.cross_attn_o"),
    (r"core\.(enc|dec)oder\.layers\.(\d+)\.linear1", r"\1.blk.\2.ffn_up"),
    (r"core\.(enc|dec)oder\.layers\.(\d+)\.linear2", r"\1.blk.\2.ffn_down"),
    (r"core\.(enc|dec)oder\.layers\.(\d+)\.norm1", r"\1.blk.\2.attn_norm"),
    (r"core\.encoder\.layers\.(\d+)\.norm2", r"enc.blk.\1.ffn_norm"),
    (r"core\.decoder\.layers\.(\d+)\.norm2", r"dec.blk.\1.cross_attn_norm"),
    (r"core\.decoder\.layers\.(\d+)\.norm3", r"dec.blk.\1.ffn_norm"),
    (r"shared", "token_embd"),
)


def split_fused(tensors):
    """Parameters of torch's attention: [3 D, ...] as three, by their names in weft."""
    out = {}
    for name, x in tensors.items():
        match = re.fullmatch(r"core\.(enc|dec)oder\.layers\.(\d+)\.(self_attn|multihead_attn)\.in_proj_(weight|bias)", name)
        if not match:
            stem, _, kind = name.rpartition(".")
            out[f"{weft_name(stem, TORCH_NAMES)}.{kind}"] = x
            continue
        side, layer, which, kind = match.groups()
        prefix = "attn" if which == "self_attn" else "cross_attn"
        for part, y in zip("qkv", x.chunk(3)):
            out[f"{side}.blk.{layer}.{prefix}_{part}.{kind}"] = y.contiguous()
    return out


def bart_name(name):
    """The name in a file of what weft calls so."""
    stem, _, kind = name.rpartition(".")
    side = dict(enc="encoder", dec="decoder").get(stem[:3])
    rest = re.sub(r"^(enc|dec)\.(blk\.\d+\.)?", "", stem)
    layer = re.search(r"blk\.(\d+)", stem)
    known = {"token_embd": "model.shared", "output_norm": "layer_norm", "attn_norm": "self_attn_layer_norm",
             "cross_attn_norm": "encoder_attn_layer_norm", "ffn_norm": "final_layer_norm", "ffn_up": "fc1",
             "ffn_down": "fc2", "attn_o": "self_attn.out_proj", "cross_attn_o": "encoder_attn.out_proj"}
    for part in "qkv":
        known[f"attn_{part}"] = f"self_attn.{part}_proj"
        known[f"cross_attn_{part}"] = f"encoder_attn.{part}_proj"
    if not side:
        return f"{known[rest]}.{kind}"
    where = f"model.{side}." + (f"layers.{layer.group(1)}." if layer else "")
    return f"{where}{known[rest]}.{kind}"


# ---- Bahdanau, Cho and Bengio -----------------------------------------------------------------------------------------

class Bahdanau(nn.Module):
    """GRUs of torch and additive attention between them, a step at a time as the papers write it."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        n_vocab, d, a = config.vocab_size, config.hidden_size, config.attention_size
        self.source_embed, self.target_embed = nn.Embedding(n_vocab, d), nn.Embedding(n_vocab, d)
        self.encoder = nn.GRU(d, d, batch_first=True)
        self.query, self.key = nn.Linear(d, a, bias=False), nn.Linear(d, a, bias=False)
        self.score = nn.Linear(a, 1, bias=False)
        self.cell = nn.GRUCell(2 * d, d)
        self.output = nn.Linear(d, n_vocab)
        self.trace = {}

    def forward(self, input_ids, decoder_input_ids, **_):
        x, e = self.source_embed(input_ids), self.target_embed(decoder_input_ids)
        h, _ = self.encoder(x)
        key, s = self.key(h), h[:, -1]
        states, probs = [], []
        for t in range(e.shape[1]):
            p = self.score(torch.tanh(self.query(s)[:, None] + key)).softmax(1)  # [1, S, 1]
            s = self.cell(torch.cat([(p * h).sum(1), e[:, t]], 1), s)
            states.append(s)
            probs.append(p[:, :, 0])
        gates = nn.functional.linear
        self.trace = {
            "enc.token_embd": x, "enc.blk.0.gru": h, "dec.token_embd": e, "dec.blk.0.attn_k": key,
            "enc.blk.0.gru_input": gates(x, self.encoder.weight_ih_l0, self.encoder.bias_ih_l0),
            "dec.blk.0.gru_input": gates(e, self.cell.weight_ih[:, x.shape[2]:], self.cell.bias_ih),
            "dec.blk.0.gru_attend": torch.stack(states, 1), "dec.blk.0.cross_attention.probs": torch.stack(probs, 1)}
        return mock.Mock(logits=self.output(torch.stack(states, 1)))


BAHDANAU_NAMES = {
    "source_embed.weight": "enc.token_embd.weight", "target_embed.weight": "dec.token_embd.weight",
    "encoder.weight_ih_l0": "enc.blk.0.gru_input.weight", "encoder.bias_ih_l0": "enc.blk.0.gru_input.bias",
    "encoder.weight_hh_l0": "enc.blk.0.gru_state.weight", "encoder.bias_hh_l0": "enc.blk.0.gru_state.bias",
    "query.weight": "dec.blk.0.attn_q.weight", "key.weight": "dec.blk.0.attn_k.weight",
    "score.weight": "dec.blk.0.attn_score.weight", "cell.bias_ih": "dec.blk.0.gru_input.bias",
    "cell.weight_hh": "dec.blk.0.gru_state.weight", "cell.bias_hh": "dec.blk.0.gru_state.bias",
    "output.weight": "output.weight", "output.bias": "output.bias",
}


def split_cell(tensors):
    """By weft's names; the cell's matrix for what it saw and for the token before is two there."""
    out = {BAHDANAU_NAMES[name]: x for name, x in tensors.items() if name != "cell.weight_ih"}
    both = tensors["cell.weight_ih"]
    d = both.shape[1] // 2
    out["dec.blk.0.gru_context.weight"], out["dec.blk.0.gru_input.weight"] = both[:, :d], both[:, d:]
    return out


def bahdanau_name(name):
    """The name in a file of what weft calls so."""
    stem, _, kind = name.rpartition(".")
    known = {"token_embd": "embed_tokens", "gru_input": "gru.input", "gru_state": "gru.state", "gru_context": "gru.context",
             "attn_q": "attention.query", "attn_k": "attention.key", "attn_score": "attention.score"}
    if stem == "output":
        return f"lm_head.{kind}"
    return f"{dict(enc='encoder', dec='decoder')[stem[:3]]}.{known[stem.rpartition('.')[2]]}.{kind}"


# ---- the goldens ------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Golden:
    model: type
    config: dict
    names: tuple = BART_NAMES
    embd_std: float = 0.5
    gain: float = 1.5
    pre_norm: bool = False
    act: str = "gelu"
    smoothing: float = 0.0
    clip: float = math.inf
    peak_lr: float = 0.02
    untied: bool = False  # T5: the head has weights of its own


def bart_sizes(vocab, d, layers, heads, ffn, positions, **more):
    return dict(vocab_size=vocab, d_model=d, encoder_layers=layers[0], decoder_layers=layers[1],
                encoder_attention_heads=heads[0], decoder_attention_heads=heads[1], encoder_ffn_dim=ffn[0],
                decoder_ffn_dim=ffn[1], max_position_embeddings=positions, dropout=0.0, attention_dropout=0.0,
                encoder_layerdrop=0.0, decoder_layerdrop=0.0, bos_token_id=0, eos_token_id=2, pad_token_id=1,
                forced_eos_token_id=None, **more)


def t5_sizes(vocab, d, kv, heads, ffn, layers, **more):
    return dict(vocab_size=vocab, d_model=d, d_kv=kv, num_heads=heads, d_ff=ffn, num_layers=layers[0],
                num_decoder_layers=layers[1], dropout_rate=0.0, decoder_start_token_id=0,
                **{**dict(relative_attention_num_buckets=8, relative_attention_max_distance=15), **more})


def bahdanau_sizes(vocab, d, a):
    return dict(vocab_size=vocab, hidden_size=d, attention_size=a, max_position_embeddings=48, decoder_start_token_id=2,
                eos_token_id=2)


@dataclass(frozen=True)
class Own:
    """A model that is torch's, in a file that is weft's own."""
    model_type: str
    split: callable  # parameters -> by weft's names
    name: callable  # weft's name -> that of the file
    more: dict  # of config.json


OWN = {
    Transformer: Own("transformer", split_fused, bart_name, dict(
        scale_embedding=True, activation_function="relu", tie_word_embeddings=True)),
    Bahdanau: Own("bahdanau", split_cell, bahdanau_name, dict(tie_word_embeddings=False)),
}

GOLDENS = {
    "bart": Golden(BartForConditionalGeneration, bart_sizes(
        61, 20, (2, 2), (5, 2), (31, 27), 40, decoder_start_token_id=2)),
    "marian": Golden(MarianMTModel, bart_sizes(
        67, 22, (2, 2), (1, 2), (29, 33), 48, decoder_start_token_id=1, activation_function="swish",
        scale_embedding=True), act="silu", embd_std=0.2),
    "m2m": Golden(M2M100ForConditionalGeneration, bart_sizes(
        59, 21, (2, 2), (3, 7), (30, 27), 48, decoder_start_token_id=2), pre_norm=True, act="relu", embd_std=0.2),
    "transformer-2017": Golden(Transformer, bart_sizes(
        63, 24, (2, 2), (3, 3), (34, 34), 50, decoder_start_token_id=2, normalize_before=False),
        names=TORCH_NAMES, act="relu", embd_std=0.2),
    "t5": Golden(T5ForConditionalGeneration, t5_sizes(64, 22, 7, 3, 35, (2, 2), relative_attention_num_buckets=32,
                                                       relative_attention_max_distance=128),
                 names=T5_NAMES, act="relu", pre_norm=True, gain=0.8),
    "flan-t5": Golden(T5ForConditionalGeneration, t5_sizes(
        62, 27, 5, 4, 41, (2, 1), feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        names=T5_NAMES, act="glu", pre_norm=True, gain=0.8, untied=True),
    "bahdanau": Golden(Bahdanau, bahdanau_sizes(61, 20, 13), embd_std=1.0),
}

TRAININGS = {
    "train-bart": Golden(BartForConditionalGeneration, bart_sizes(
        31, 8, (2, 2), (2, 2), (13, 11), 24, decoder_start_token_id=2), embd_std=0.3, gain=1.0, smoothing=0.1, clip=1.0),
    "train-m2m": Golden(M2M100ForConditionalGeneration, bart_sizes(
        31, 8, (2, 2), (2, 2), (13, 11), 24, decoder_start_token_id=2), embd_std=0.2, gain=1.0, clip=1.0),
    "train-transformer": Golden(Transformer, bart_sizes(
        31, 8, (2, 2), (2, 2), (13, 13), 24, decoder_start_token_id=2, normalize_before=False),
        names=TORCH_NAMES, embd_std=0.2, gain=1.0, smoothing=0.1),
    "train-t5": Golden(T5ForConditionalGeneration, t5_sizes(31, 9, 4, 2, 14, (2, 2)),
                       names=T5_NAMES, embd_std=1.0, gain=0.6, clip=1.0),
    "train-flan-t5": Golden(T5ForConditionalGeneration, t5_sizes(
        29, 8, 3, 2, 12, (1, 2), feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        names=T5_NAMES, embd_std=0.5, gain=0.6, smoothing=0.1, untied=True),
    "train-bahdanau": Golden(Bahdanau, bahdanau_sizes(31, 9, 7), embd_std=1.0, smoothing=0.1, clip=1.0),
}


# ---- models -----------------------------------------------------------------------------------------------------------

def make_config(g):
    if g.model not in OWN:
        config = g.model.config_class(**g.config)
        config._attn_implementation = "eager"
        return config
    config = Config2017()
    for key, x in g.config.items():
        setattr(config, key, x)
    return config


def random_weights(g, model, rng):
    """Fill the parameters that learn; and BART's bias of logits, which does not."""
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        x = torch.from_numpy(rng.standard_normal(p.shape, dtype=np.float32))
        owner = model.get_submodule(name.rpartition(".")[0])
        if name.endswith("bias") or "bias_" in name:
            x *= 0.1
        elif isinstance(owner, nn.Embedding):
            x *= g.embd_std
        elif p.dim() == 2:
            x *= g.gain / p.shape[1] ** 0.5
        else:
            x = 1 + 0.2 * x
        p.data.copy_(x)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.copy_(torch.from_numpy(
            0.3 * rng.standard_normal(model.final_logits_bias.shape, dtype=np.float32)))


def build(g, rng):
    model = g.model(make_config(g)).float()
    model.train(g.model is Transformer)  # torch.nn.Transformer has another path for evaluation
    if g.untied:
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    random_weights(g, model, rng)
    return model


def save_model(g, model, path):
    if g.model not in OWN:
        golden.save_model(model, path)
        return
    own = OWN[g.model]
    path.mkdir(exist_ok=True)
    config = dict(architectures=[g.model.__name__], model_type=own.model_type, **own.more,
                  **{k: x for k, x in g.config.items() if x is not None})
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    named = own.split({name: p.detach() for name, p in model.named_parameters()})
    safetensors.torch.save_file({own.name(name): x.clone().contiguous() for name, x in named.items()},
                                path / "model.safetensors", {"format": "pt"})


# ---- traces -----------------------------------------------------------------------------------------------------------

def first(x):
    return x[0] if isinstance(x, tuple) else x


def tap(model, path, side, name, trace):
    """A hook that leaves what the module takes or gives in the trace."""
    def record(module, args, kwargs, output):
        x = first(output) if side == "out" else args[0] if args else kwargs["hidden_states"]
        trace[name] = rows(x if x.dim() > 2 else x[None])

    model.get_submodule(path).register_forward_hook(record, with_kwargs=True)


def tap_residuals(g, path, name, put):
    """The sums between the sublayers, which are inputs and outputs of norms and layers."""
    stem, _, last = name.rpartition(".")
    if g.names is T5_NAMES:
        layer = path.rpartition(".")[0]
        last == "attn_norm" and put(layer, "out", f"{stem}.attn_o.residual")
        last == "cross_attn_norm" and put(layer, "out", f"{stem}.cross_attn_o.residual")
        last == "ffn_norm" and put(layer, "out", f"{stem}.ffn_down.residual")
    elif not g.pre_norm:
        before = dict(attn_norm="attn_o", cross_attn_norm="cross_attn_o", ffn_norm="ffn_down").get(last)
        before and put(path, "in", f"{stem}.{before}.residual")
    else:
        before = dict(cross_attn_norm="attn_o", ffn_norm="cross_attn_o" if stem.startswith("dec") else "attn_o").get(last)
        before and put(path, "in", f"{stem}.{before}.residual")
        last == "ffn_norm" and put(path.rpartition(".")[0], "out", f"{stem}.ffn_down.residual")


def tap_model(g, model, trace):
    put = partial(tap, model, trace=trace)
    scaled = g.model is M2M100ForConditionalGeneration  # inside the module that is tapped
    for path, _ in model.named_modules():
        name = weft_name(path, g.names)
        if not name or name in ("token_embd", "output") or name.endswith("attn_rel_b"):
            continue
        if g.act == "glu" and name.endswith(("ffn_gate", "ffn_up")):  # weft fuses them
            continue
        if name.endswith("token_embd"):
            put(path, "out", name + (".scale" if scaled else ""))
            continue
        if g.names is TORCH_NAMES and name.endswith("attn_o"):
            put(path.rpartition(".")[0], "out", name)  # torch calls a function, not its module
            continue
        put(path, "out", name)
        if name.endswith("attn_o"):
            put(path, "in", name.replace("cross_attn_o", "cross_attention").replace("attn_o", "attention"))
        if name.endswith("ffn_down"):
            put(path, "in", name.replace("ffn_down", "glu" if g.act == "glu" else f"ffn_up.{g.act}"))
        if name.endswith("token_embd_norm"):
            put(path, "in", name[:3] + ".position_embd.residual")
        tap_residuals(g, path, name, put)


def tap_attention(g, model, trace):
    """Probabilities, by patching the attention function of the modeling file."""
    modeling = sys.modules[g.model.__module__]
    attend = modeling.eager_attention_forward
    names = {}
    for path, module in model.named_modules():
        o = weft_name(path + (".o" if g.names is T5_NAMES else ".out_proj"), g.names)
        if o:
            names[module] = o.replace("cross_attn_o", "cross_attention").replace("attn_o", "attention")

    def tapped(module, *args, **kwargs):
        output, probs = attend(module, *args, **kwargs)
        by_query = probs[0].transpose(0, 1)  # [T, H, S]
        trace[f"{names[module]}.probs"] = by_query.flatten(0, 1).detach().clone()
        return output, probs

    return mock.patch.object(modeling, "eager_attention_forward", tapped)


def make_trace(name, rng):
    g = GOLDENS[name]
    model = build(g, rng)
    n_vocab, trace = g.config["vocab_size"], {}
    source, ids = (torch.from_numpy(rng.integers(3, n_vocab, n, np.int32)) for n in (19, 14))
    ids[0] = g.config["decoder_start_token_id"]
    tap_model(g, model, trace)
    patch = mock.patch.object(golden, "N_STEP", N_STEP) if g.model in OWN else tap_attention(g, model, trace)
    with patch, torch.no_grad():
        out = model(input_ids=source[None].long(), decoder_input_ids=ids[None].long(), use_cache=False)
    trace["output"] = rows(out.logits)
    if g.model is Bahdanau:
        trace.update({name: rows(x) for name, x in model.trace.items()})
    golden.check_trace(name, trace)

    path = GOLDEN_DIR / name
    save_model(g, model, path)
    safetensors.torch.save_file({"source": source, "ids": ids, **trace}, path / "trace.safetensors")
    if g.model not in OWN:
        (path / "generate.txt").write_text(generate(g, path, rng))
    golden.print_row(name, model, trace)


# ---- generation -------------------------------------------------------------------------------------------------------

N_SEARCH = 24


def likely_tokens(model, source, n, rng):
    ids, found = torch.tensor([[model.config.decoder_start_token_id]]), []
    for _ in range(10):
        logits = model(input_ids=source, decoder_input_ids=ids).logits[0, -1]
        found += logits.topk(3).indices.tolist()
        ids = torch.cat([ids, logits.argmax().view(1, 1)], 1)
    found = sorted(set(found))
    return sorted(int(i) for i in rng.choice(found, min(n, len(found)), replace=False))


def search(model, source, n_beam, n_best, n_new, penalty, ends):
    out = model.generate(
        source, attention_mask=torch.ones_like(source), do_sample=False, num_beams=n_beam, num_return_sequences=n_best,
        max_new_tokens=n_new, length_penalty=penalty, eos_token_id=ends or None, pad_token_id=-1,
        decoder_start_token_id=model.config.decoder_start_token_id, return_dict_in_generate=True, output_scores=True)
    texts = []
    for k, ids in enumerate(out.sequences[:, 1:].tolist()):
        ids = [i for i in ids if i >= 0]
        if n_beam > 1:
            score = out.sequences_scores[k].item()
        else:
            score = sum(z[k].log_softmax(-1)[i].item() for z, i in zip(out.scores, ids))
        texts.append((score, ids))
    return texts


def load(g, path, dtype):
    """The saved model again; its head too, which transformers would tie to the embedding."""
    model = g.model.from_pretrained(path, dtype=dtype, attn_implementation="eager").eval()
    if g.untied:
        head = safetensors.torch.load_file(path / "model.safetensors")["lm_head.weight"]
        model.lm_head.weight = nn.Parameter(head.to(dtype))
    model.generation_config = transformers.GenerationConfig()
    return model


def generate(g, path, rng):
    """The lines of generate.txt. f32 and f64 have to find the same texts; the scores are those of f64."""
    torch.set_grad_enabled(False)
    model, wide = (load(g, path, dtype) for dtype in (torch.float32, torch.float64))
    lines = []
    for k in range(N_SEARCH):
        n_beam = 1 if k % 4 == 0 else int(rng.choice([2, 3, 4, 6]))
        n_best = int(rng.integers(1, n_beam + 1))
        n_new, penalty = int(rng.integers(1, 17)), float(rng.choice([0, 0.6, 1, 2]))
        source = torch.from_numpy(rng.integers(3, g.config["vocab_size"], (1, int(rng.integers(1, 24)))))
        ends = likely_tokens(model, source, int(rng.choice([1, 1, 2])), rng)
        o = n_beam, n_best, n_new, penalty
        texts = search(wide, source, *o, ends)
        assert [i for _, i in texts] == [i for _, i in search(model, source, *o, ends)], "f32 and f64 differ"
        numbers = " ".join(map(str, source[0].tolist()))
        lines.append(" | ".join([" ".join(map(str, o)), numbers, " ".join(map(str, ends))]
                                + [" ".join([f"{score:.9g}", *map(str, ids)]) for score, ids in texts]))
    torch.set_grad_enabled(True)
    return "\n".join(lines) + "\n"


# ---- training ---------------------------------------------------------------------------------------------------------

SOURCES, LENGTHS = (11, 7, 14), (12, 17, 6)  # of the pairs in every batch


def random_batches(n_vocab, start, rng):
    """source [N_STEP, S]; ids, target and weight [N_STEP, N]: the target of a row is the id of the next."""
    small = lambda shape: (3 + (n_vocab - 3) * rng.random(shape) ** 3).astype(np.int32)
    source, target = small((N_STEP, sum(SOURCES))), small((N_STEP, sum(LENGTHS)))
    ids = np.roll(target, 1, axis=1)
    ids[:, np.cumsum((0, *LENGTHS[:-1]))] = start
    target = np.where(rng.random(target.shape) < 0.1, -100, target).astype(np.int32)
    weight = rng.choice(np.float32([0.5, 1, 2]), target.shape, p=[0.15, 0.7, 0.15])
    return tuple(torch.from_numpy(x) for x in (source, ids, target, weight))


def packed_loss(model, source, ids, target, weight, smoothing):
    with golden.wide():
        pairs = zip(source.long().split(SOURCES), ids.long().split(LENGTHS))
        logits = torch.cat([model(input_ids=s[None], decoder_input_ids=t[None], use_cache=False).logits[0]
                            for s, t in pairs])
    entropy = nn.functional.cross_entropy(logits, target.long(), label_smoothing=smoothing, reduction="none")
    weight = weight * (target != -100)
    return (weight * entropy).sum() / weight.sum()


def by_weft_name(g, model, value):
    tensors = {name: value(p) for name, p in model.named_parameters() if p.requires_grad}
    if g.model in OWN:
        named = OWN[g.model].split(tensors)
    else:
        named = {}
        for name, x in tensors.items():
            stem, _, kind = name.rpartition(".")
            named[f"{weft_name(stem, g.names)}.{kind}"] = x
    return {name: x.detach().to(torch.float32, copy=True).reshape(-1, x.shape[-1]).contiguous()
            for name, x in named.items()}


def train(g, model, batches):
    params = [p for p in model.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW(
        [dict(params=[p for p in params if p.dim() >= 2]),
         dict(params=[p for p in params if p.dim() < 2], weight_decay=0.0)],
        betas=golden.BETAS, eps=golden.EPS, weight_decay=golden.DECAY)
    lr = golden.learning_rates(g.peak_lr)
    losses, norms, tensors = [], [], {}
    for k, (source, ids, target, weight) in enumerate(zip(*batches)):
        adamw.zero_grad()
        loss = packed_loss(model, source, ids, target, weight.double(), g.smoothing)
        loss.backward()
        tensors.update({f"step.{k}.{name}": x for name, x in by_weft_name(g, model, lambda p: p.grad).items()})
        losses.append(loss.item())
        norms.append(nn.utils.clip_grad_norm_(params, g.clip).item())
        for group in adamw.param_groups:
            group["lr"] = lr[k].item()
        adamw.step()
    tensors.update({f"final.{name}": x for name, x in by_weft_name(g, model, lambda p: p).items()})
    return dict(lr=lr, loss=torch.tensor(losses)[:, None], norm=torch.tensor(norms)[:, None], **tensors)


def widen(g, model):
    """The model again in f64."""
    with golden.wide():
        wide = g.model(model.config).double().train(model.training)
    if g.untied:
        wide.lm_head.weight = nn.Parameter(torch.empty_like(wide.lm_head.weight))
    wide.load_state_dict(model.state_dict(), strict=False)
    for (name, a), (_, b) in zip(model.named_parameters(), wide.named_parameters()):
        assert torch.equal(a.double(), b), name
    return wide


def make_training(name, rng):
    g = TRAININGS[name]
    model = build(g, rng)
    batches = random_batches(g.config["vocab_size"], g.config["decoder_start_token_id"], rng)
    tensors = train(g, widen(g, model), batches)
    assert tensors["loss"][-1] < tensors["loss"][0], f"{name}: the loss does not fall"
    path = GOLDEN_DIR / name
    save_model(g, model, path)
    source, ids, target, weight = batches
    lengths = dict(source_length=torch.tensor(SOURCES, dtype=torch.int32), length=torch.tensor(LENGTHS, dtype=torch.int32))
    metadata = dict(beta1=golden.BETAS[0], beta2=golden.BETAS[1], eps=golden.EPS, decay=golden.DECAY, clip=g.clip,
                    smoothing=g.smoothing)
    golden.save_with_metadata(dict(source=source, ids=ids, target=target, weight=weight, **lengths, **tensors),
                              path / "train.safetensors", metadata)
    golden.print_row(name, model, tensors)
    for row in ("loss", "norm"):
        print(f"  {row}", *(f"{x:.4f}" for x in tensors[row].flatten().tolist()))


def main():
    known = [*GOLDENS, *TRAININGS]
    parser = argparse.ArgumentParser(description="Make goldens of encoder-decoders.")
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(known)}")
    names = parser.parse_args().name or known
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, numpy {np.__version__}")
    for name in names:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        if name in TRAININGS:
            make_training(name, rng)
        else:
            make_trace(name, rng)


if __name__ == "__main__":
    main()

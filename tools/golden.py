#!/usr/bin/env python3
"""golden.py - what Hugging Face transformers computes, for weft's tests to compare with.

    golden.py [NAME ...]        regenerate all goldens, or the named ones

Each golden is a small random model in tests/golden/NAME, laid out as Hugging Face lays it out
(config.json, model.safetensors), and trace.safetensors: the token ids of one sequence and every
intermediate of its forward pass, under the names that weft gives its tensors. The goldens called
train-* have train.safetensors instead: some steps of AdamW from those weights, with the batches,
losses and gradients.

Nothing here computes a reference value. Taps on the modules, and on the attention function of
the modeling file, copy what transformers computes; the tables below say which tap has which
name. The weights come from numpy, since torch draws normals differently with and without AVX2;
the traces are sums in torch, and may differ in the last bits on another processor. Training runs
in f64 and is rounded to f32 at the end, so that it has no noise of its own.
"""

import argparse
import json
import math
import sys
import zlib
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import safetensors
import safetensors.torch
import torch
import transformers
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AttentionInterface, AttentionMaskInterface
from transformers import BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification
from transformers import BertForTokenClassification, BertModel, CamembertForMaskedLM
from transformers import DeepseekV2ForCausalLM, DeepseekV3ForCausalLM
from transformers import DistilBertForMaskedLM, DistilBertForQuestionAnswering
from transformers import DistilBertForSequenceClassification, DistilBertForTokenClassification
from transformers import ElectraForMaskedLM, ElectraForPreTraining
from transformers import ElectraForSequenceClassification, ElectraModel
from transformers import GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM
from transformers import Glm4MoeLiteForCausalLM
from transformers import GteForMaskedLM, GteForSequenceClassification
from transformers import MPNetForMaskedLM, MPNetForSequenceClassification, MPNetModel
from transformers import NomicBertForMaskedLM, NomicBertForSequenceClassification, NomicBertModel
from transformers import Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3Model
from transformers import RobertaForMaskedLM, RobertaForQuestionAnswering
from transformers import RobertaForSequenceClassification, RobertaForTokenClassification
from transformers import XLMRobertaForMaskedLM, XLMRobertaForSequenceClassification
from transformers import XLMRobertaModel
from transformers.masking_utils import eager_mask
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.pytorch_utils import Conv1D

GOLDEN_DIR = Path(__file__).resolve().parents[1] / "tests" / "golden"
MAX_BYTES = 300_000  # of one golden; they live in git


# Taps: (module, its input or output, weft's name). {l} is the layer.

LLAMA_TAPS = (
    ("model.embed_tokens", "out", "token_embd"),
    ("model.layers.{l}.input_layernorm", "out", "blk.{l}.attn_norm"),
    ("model.layers.{l}.self_attn.q_proj", "out", "blk.{l}.attn_q"),
    ("model.layers.{l}.self_attn.k_proj", "out", "blk.{l}.attn_k"),
    ("model.layers.{l}.self_attn.v_proj", "out", "blk.{l}.attn_v"),
    ("model.layers.{l}.self_attn.o_proj", "in", "blk.{l}.attention"),
    ("model.layers.{l}.self_attn.o_proj", "out", "blk.{l}.attn_output"),
    ("model.layers.{l}.post_attention_layernorm", "in", "blk.{l}.attn_output.residual"),
    ("model.layers.{l}.post_attention_layernorm", "out", "blk.{l}.ffn_norm"),
    ("model.layers.{l}.mlp.down_proj", "in", "blk.{l}.glu"),
    ("model.layers.{l}.mlp.down_proj", "out", "blk.{l}.ffn_down"),
    ("model.layers.{l}", "out", "blk.{l}.ffn_down.residual"),
    ("model.norm", "out", "output_norm"),
    ("lm_head", "out", "output"),
)

LLAMA_TRAIN_TAPS = LLAMA_TAPS + (
    ("model.layers.{l}.mlp.gate_proj", "out", "blk.{l}.ffn_gate"),
    ("model.layers.{l}.mlp.up_proj", "out", "blk.{l}.ffn_up"),
)

QWEN3_TAPS = LLAMA_TAPS + (
    ("model.layers.{l}.self_attn.q_norm", "out", "blk.{l}.attn_q_norm"),
    ("model.layers.{l}.self_attn.k_norm", "out", "blk.{l}.attn_k_norm"),
)

# Without a head, and without the prefix of the class that has one.

QWEN3_BARE_TAPS = tuple((path.removeprefix("model."), side, name) for path, side, name in QWEN3_TAPS
                        if path != "lm_head")

GPT2_ROPE_TAPS = (
    ("transformer.wte", "out", "token_embd"),
    ("transformer.h.{l}.ln_1", "out", "blk.{l}.attn_norm"),
    ("transformer.h.{l}.attn.c_attn", "out", "blk.{l}.attn_qkv"),
    ("transformer.h.{l}.attn.c_proj", "in", "blk.{l}.attention"),
    ("transformer.h.{l}.attn.c_proj", "out", "blk.{l}.attn_output"),
    ("transformer.h.{l}.ln_2", "in", "blk.{l}.attn_output.residual"),
    ("transformer.h.{l}.ln_2", "out", "blk.{l}.ffn_norm"),
    ("transformer.h.{l}.mlp.c_fc", "out", "blk.{l}.ffn_up"),
    ("transformer.h.{l}.mlp.act", "out", "blk.{l}.ffn_up.gelu_tanh"),
    ("transformer.h.{l}.mlp.c_proj", "out", "blk.{l}.ffn_down"),
    ("transformer.h.{l}", "out", "blk.{l}.ffn_down.residual"),
    ("transformer.ln_f", "out", "output_norm"),
    ("lm_head", "out", "output"),
)

GPT2_TAPS = GPT2_ROPE_TAPS + (
    ("transformer.wpe", "out", "position_embd"),
    ("transformer.h.0", "in", "position_embd.residual"),
)

# Encoders. {p} is the prefix of the class that has a head: "bert.", or nothing.

BERT_TAPS = (
    ("{p}embeddings.word_embeddings", "out", "token_embd"),
    ("{p}embeddings.position_embeddings", "out", "position_embd"),
    ("{p}embeddings.token_type_embeddings", "out", "token_types"),
    ("{p}embeddings.LayerNorm", "in", "position_embd.residual"),
    ("{p}embeddings.LayerNorm", "out", "token_embd_norm"),
    ("{p}encoder.layer.{l}.attention.self.query", "out", "blk.{l}.attn_q"),
    ("{p}encoder.layer.{l}.attention.self.key", "out", "blk.{l}.attn_k"),
    ("{p}encoder.layer.{l}.attention.self.value", "out", "blk.{l}.attn_v"),
    ("{p}encoder.layer.{l}.attention.output.dense", "in", "blk.{l}.attention"),
    ("{p}encoder.layer.{l}.attention.output.dense", "out", "blk.{l}.attn_output"),
    ("{p}encoder.layer.{l}.attention.output.LayerNorm", "in", "blk.{l}.attn_output.residual"),
    ("{p}encoder.layer.{l}.attention.output.LayerNorm", "out", "blk.{l}.attn_output_norm"),
    ("{p}encoder.layer.{l}.intermediate.dense", "out", "blk.{l}.ffn_up"),
    ("{p}encoder.layer.{l}.output.dense", "in", "blk.{l}.ffn_up.gelu"),
    ("{p}encoder.layer.{l}.output.dense", "out", "blk.{l}.ffn_down"),
    ("{p}encoder.layer.{l}.output.LayerNorm", "in", "blk.{l}.ffn_down.residual"),
    ("{p}encoder.layer.{l}.output.LayerNorm", "out", "blk.{l}.layer_output_norm"),
)

DISTILBERT_TAPS = (
    ("{p}embeddings.word_embeddings", "out", "token_embd"),
    ("{p}embeddings.position_embeddings", "out", "position_embd"),
    ("{p}embeddings.LayerNorm", "in", "position_embd.residual"),
    ("{p}embeddings.LayerNorm", "out", "token_embd_norm"),
    ("{p}transformer.layer.{l}.attention.q_lin", "out", "blk.{l}.attn_q"),
    ("{p}transformer.layer.{l}.attention.k_lin", "out", "blk.{l}.attn_k"),
    ("{p}transformer.layer.{l}.attention.v_lin", "out", "blk.{l}.attn_v"),
    ("{p}transformer.layer.{l}.attention.out_lin", "in", "blk.{l}.attention"),
    ("{p}transformer.layer.{l}.attention.out_lin", "out", "blk.{l}.attn_output"),
    ("{p}transformer.layer.{l}.sa_layer_norm", "in", "blk.{l}.attn_output.residual"),
    ("{p}transformer.layer.{l}.sa_layer_norm", "out", "blk.{l}.attn_output_norm"),
    ("{p}transformer.layer.{l}.ffn.lin1", "out", "blk.{l}.ffn_up"),
    ("{p}transformer.layer.{l}.ffn.lin2", "in", "blk.{l}.ffn_up.gelu"),
    ("{p}transformer.layer.{l}.ffn.lin2", "out", "blk.{l}.ffn_down"),
    ("{p}transformer.layer.{l}.output_layer_norm", "in", "blk.{l}.ffn_down.residual"),
    ("{p}transformer.layer.{l}.output_layer_norm", "out", "blk.{l}.layer_output_norm"),
)

BERT_FILL = (
    ("cls.predictions.transform.dense", "out", "mlm"),
    ("cls.predictions.transform.LayerNorm", "in", "mlm.gelu"),
    ("cls.predictions.transform.LayerNorm", "out", "mlm_norm"),
    ("cls.predictions.decoder", "out", "output"),
)
ROBERTA_FILL = (
    ("lm_head.dense", "out", "mlm"),
    ("lm_head.layer_norm", "in", "mlm.gelu"),
    ("lm_head.layer_norm", "out", "mlm_norm"),
    ("lm_head.decoder", "out", "output"),
)
DISTILBERT_FILL = (
    ("vocab_transform", "out", "mlm"),
    ("vocab_layer_norm", "in", "mlm.gelu"),
    ("vocab_layer_norm", "out", "mlm_norm"),
    ("vocab_projector", "out", "output"),
)
BERT_CLASSIFY = (
    ("bert.pooler.dense", "out", "cls"),
    ("bert.pooler", "out", "cls.tanh"),
    ("classifier", "out", "cls.output"),
)
ROBERTA_CLASSIFY = (
    ("classifier.dense", "out", "cls"),
    ("classifier.out_proj", "in", "cls.tanh"),
    ("classifier.out_proj", "out", "cls.output"),
)
DISTILBERT_CLASSIFY = (
    ("pre_classifier", "out", "cls"),
    ("classifier", "in", "cls.relu"),
    ("classifier", "out", "cls.output"),
)
# MPNet's attention is inside its module; its dropout takes the probabilities.

MPNET_TAPS = (
    ("{p}embeddings.word_embeddings", "out", "token_embd"),
    ("{p}embeddings.position_embeddings", "out", "position_embd"),
    ("{p}embeddings.LayerNorm", "in", "position_embd.residual"),
    ("{p}embeddings.LayerNorm", "out", "token_embd_norm"),
    ("{p}encoder.layer.{l}.attention.attn.q", "out", "blk.{l}.attn_q"),
    ("{p}encoder.layer.{l}.attention.attn.k", "out", "blk.{l}.attn_k"),
    ("{p}encoder.layer.{l}.attention.attn.v", "out", "blk.{l}.attn_v"),
    ("{p}encoder.layer.{l}.attention.attn.dropout", "probs", "blk.{l}.attention.probs"),
    ("{p}encoder.layer.{l}.attention.attn.o", "in", "blk.{l}.attention"),
    ("{p}encoder.layer.{l}.attention.attn.o", "out", "blk.{l}.attn_output"),
    ("{p}encoder.layer.{l}.attention.LayerNorm", "in", "blk.{l}.attn_output.residual"),
    ("{p}encoder.layer.{l}.attention.LayerNorm", "out", "blk.{l}.attn_output_norm"),
) + BERT_TAPS[12:]

MPNET_TRAIN_TAPS = MPNET_TAPS + (
    ("{p}encoder.relative_attention_bias", "none", "attn_rel_b"),
)

ELECTRA_TAPS = BERT_TAPS + (("{p}embeddings_project", "out", "embd_proj"),)

NOMIC_TAPS = (
    ("{p}embeddings.word_embeddings", "out", "token_embd"),
    ("{p}embeddings.token_type_embeddings", "out", "token_types"),
    ("{p}embeddings.LayerNorm", "in", "token_types.residual"),
    ("{p}embeddings.LayerNorm", "out", "token_embd_norm"),
    ("{p}layers.{l}.self_attn.q_proj", "out", "blk.{l}.attn_q"),
    ("{p}layers.{l}.self_attn.k_proj", "out", "blk.{l}.attn_k"),
    ("{p}layers.{l}.self_attn.v_proj", "out", "blk.{l}.attn_v"),
    ("{p}layers.{l}.self_attn.o_proj", "in", "blk.{l}.attention"),
    ("{p}layers.{l}.self_attn.o_proj", "out", "blk.{l}.attn_output"),
    ("{p}layers.{l}.post_attention_layernorm", "in", "blk.{l}.attn_output.residual"),
    ("{p}layers.{l}.post_attention_layernorm", "out", "blk.{l}.attn_output_norm"),
    ("{p}layers.{l}.mlp.down_proj", "in", "blk.{l}.glu"),
    ("{p}layers.{l}.mlp.down_proj", "out", "blk.{l}.ffn_down"),
    ("{p}layers.{l}.post_mlp_layernorm", "in", "blk.{l}.ffn_down.residual"),
    ("{p}layers.{l}.post_mlp_layernorm", "out", "blk.{l}.layer_output_norm"),
)

NOMIC_TRAIN_TAPS = NOMIC_TAPS + (
    ("{p}layers.{l}.mlp.gate_proj", "out", "blk.{l}.ffn_gate"),
    ("{p}layers.{l}.mlp.up_proj", "out", "blk.{l}.ffn_up"),
)

ELECTRA_FILL = (
    ("generator_predictions.dense", "out", "mlm"),
    ("generator_predictions.LayerNorm", "in", "mlm.gelu"),
    ("generator_predictions.LayerNorm", "out", "mlm_norm"),
    ("generator_lm_head", "out", "output"),
)
ELECTRA_DETECT = (
    ("discriminator_predictions.dense", "out", "detect"),
    ("discriminator_predictions.dense_prediction", "in", "detect.gelu"),
    ("discriminator_predictions.dense_prediction", "out", "detect.output"),
)
ELECTRA_CLASSIFY = (
    ("classifier.dense", "out", "cls"),
    ("classifier.out_proj", "in", "cls.gelu"),
    ("classifier.out_proj", "out", "cls.output"),
)
NOMIC_FILL = (
    ("cls.predictions.transform.dense", "out", "mlm"),
    ("cls.predictions.transform.layer_norm", "in", "mlm.silu"),
    ("cls.predictions.transform.layer_norm", "out", "mlm_norm"),
    ("cls.predictions.decoder", "out", "output"),
)
GTE_FILL = ROBERTA_FILL
GTE_CLASSIFY = (
    ("gte.pooler.dense", "out", "cls"),
    ("gte.pooler", "out", "cls.tanh"),
    ("classifier", "out", "cls.output"),
)
NOMIC_CLASSIFY = (
    ("nomic_bert.pooler.dense", "out", "cls"),
    ("nomic_bert.pooler", "out", "cls.tanh"),
    ("classifier", "out", "cls.output"),
)
TAG = (("classifier", "out", "tag.output"),)
ANSWER = (("qa_outputs", "out", "qa.output"),)




def deepseek_taps(n_dense, n_layer, q_lora):
    """Taps of a DeepSeek whose first layers have no experts, with and without a latent of queries."""
    taps = [("model.embed_tokens", "out", "token_embd"), ("model.norm", "out", "output_norm"),
            ("lm_head", "out", "output")]
    for l in range(n_layer):
        layer, blk = f"model.layers.{l}", f"blk.{l}"
        queries = (("q_a_proj", "attn_q_a"), ("q_a_layernorm", "attn_q_a_norm"),
                   ("q_b_proj", "attn_q_b"))
        for module, name in (queries if q_lora else (("q_proj", "attn_q"),)) + (
                ("kv_a_proj_with_mqa", "attn_kv_a_mqa"), ("kv_a_layernorm", "attn_kv_a_norm"),
                ("o_proj", "attn_output")):
            taps.append((f"{layer}.self_attn.{module}", "out", f"{blk}.{name}"))
        experts = l >= n_dense
        mlp, tail = (f"{layer}.mlp.shared_experts", "_shexp") if experts else (f"{layer}.mlp", "")
        taps += [
            (f"{layer}.input_layernorm", "out", f"{blk}.attn_norm"),
            (f"{layer}.self_attn.o_proj", "in", f"{blk}.attention"),
            (f"{layer}.post_attention_layernorm", "in", f"{blk}.attn_output.residual"),
            (f"{layer}.post_attention_layernorm", "out", f"{blk}.ffn_norm"),
            (f"{mlp}.down_proj", "in", f"{blk}.glu"),
            (f"{mlp}.down_proj", "out", f"{blk}.ffn_down{tail}"),
            (layer, "out", f"{blk}.ffn_down{tail}.residual")]
        if experts:
            taps.append((f"{layer}.mlp.experts", "rows", f"{blk}.moe"))
    return tuple(taps)


def deepseek_train_taps(n_dense, n_layer, q_lora):
    """The same, with all modules that have parameters."""
    taps = list(deepseek_taps(n_dense, n_layer, q_lora))
    for l in range(n_layer):
        layer, blk = f"model.layers.{l}", f"blk.{l}"
        taps.append((f"{layer}.self_attn.kv_b_proj", "out", f"{blk}.attn_kv_b"))
        experts = l >= n_dense
        mlp, tail = (f"{layer}.mlp.shared_experts", "_shexp") if experts else (f"{layer}.mlp", "")
        taps += [(f"{mlp}.{x}_proj", "out", f"{blk}.ffn_{x}{tail}") for x in ("gate", "up")]
        if experts:
            taps.append((f"{layer}.mlp.gate", "out", f"{blk}.ffn_gate_inp"))
    return tuple(taps)


@dataclass(frozen=True)
class Golden:
    """A model to make, the length of its sequence, and where its intermediates are found."""

    model: type
    n_token: int
    config: dict
    taps: tuple = LLAMA_TAPS
    rotated: tuple = ("attn_q.rope", "attn_k.rope")  # what q and k are called inside attention
    embd_std: float = 1.0
    gain: float = 1.5  # of matrices
    n_type: int = 0  # token types of an encoder; 0: a decoder
    d_rope: int = 0  # rotary values at the end of a key, shared by all heads
    modules: bool = False  # saved by sentence-transformers: the last token's vector, of length 1


def with_prefix(taps, prefix):
    """The taps with it for {p}."""
    return tuple((path.replace("{p}", prefix), side, name) for path, side, name in taps)


def encoder(model, n_token, config, taps, prefix, n_type=1, rotated=()):
    """A golden of an encoder, whose tensors begin with a prefix."""
    return Golden(model, n_token, config, taps=with_prefix(taps, prefix), rotated=rotated,
                  n_type=n_type)


# Three heads of eight numbers; the norms of BERT would hide nothing at this size.

BERT = dict(
    vocab_size=67, hidden_size=24, intermediate_size=31, num_hidden_layers=2,
    num_attention_heads=3, max_position_embeddings=29, type_vocab_size=2, pad_token_id=0)
ROBERTA = dict(BERT, type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5)
DISTILBERT = dict(
    vocab_size=67, dim=24, hidden_dim=31, n_layers=2, n_heads=3, max_position_embeddings=29,
    pad_token_id=0)

# Smaller still. MPNet's sequence is longer than the 8 distances that have a bucket each.

SMALL = dict(
    vocab_size=67, hidden_size=18, intermediate_size=25, num_hidden_layers=2,
    num_attention_heads=3, max_position_embeddings=23)
XLM_ROBERTA = dict(SMALL, type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5)
MPNET = dict(SMALL, max_position_embeddings=34, pad_token_id=1, layer_norm_eps=1e-5)
ELECTRA = dict(SMALL, embedding_size=11, type_vocab_size=2, pad_token_id=0)
GTE = dict(SMALL, type_vocab_size=1, pad_token_id=1)
NOMIC = dict(SMALL, type_vocab_size=2, pad_token_id=0)
ONE = dict(id2label={0: "score"}, label2id=dict(score=0))
TURNED = ("attn_q.rope", "attn_k.rope")

# Keys of 16 numbers, values of 7; six experts of which a row has two or three.

DEEPSEEK = dict(
    vocab_size=67, hidden_size=24, intermediate_size=31, num_hidden_layers=2,
    num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=128, kv_lora_rank=14,
    qk_nope_head_dim=10,
    qk_rope_head_dim=6, v_head_dim=7, n_routed_experts=6, moe_intermediate_size=9,
    first_k_dense_replace=1)
DEEPSEEK_V2 = dict(
    DEEPSEEK, q_lora_rank=11, n_shared_experts=2, num_experts_per_tok=3,
    topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=1.5,
    rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=0.707, mscale_all_dim=0.707,
        beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=32))
DEEPSEEK_V3 = dict(
    DEEPSEEK, q_lora_rank=11, n_shared_experts=1, num_experts_per_tok=2, n_group=3, topk_group=2,
    routed_scaling_factor=2.5, norm_topk_prob=True, num_nextn_predict_layers=0)
GLM4_LITE = dict(
    {key: x for key, x in DEEPSEEK.items() if key != "first_k_dense_replace"}, q_lora_rank=11,
    n_shared_experts=1, num_experts_per_tok=2, n_group=1, topk_group=1, routed_scaling_factor=1.8,
    norm_topk_prob=True, rope_parameters=dict(rope_type="default", rope_theta=1000.0))
THREE = dict(id2label={0: "no", 1: "perhaps", 2: "yes"}, label2id=dict(no=0, perhaps=1, yes=2))

# Sizes are small and mutually odd, so that a wrong stride or a transposed index shows.

GOLDENS = {
    # Wavelengths 6, 30, 140, 664 against bounds of 16 and 64: kept, interpolated, scaled twice.
    "llama-gqa": Golden(LlamaForCausalLM, 23, dict(
        vocab_size=67, hidden_size=48, intermediate_size=53, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=512,
        tie_word_embeddings=True, rope_parameters=dict(
            rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
            high_freq_factor=4.0, original_max_position_embeddings=64))),

    "llama-mqa": Golden(LlamaForCausalLM, 22, dict(
        vocab_size=71, hidden_size=35, intermediate_size=58, num_hidden_layers=2,
        num_attention_heads=5, num_key_value_heads=1, head_dim=10, max_position_embeddings=64,
        rms_norm_eps=1e-5)),

    "llama-linear": Golden(LlamaForCausalLM, 25, dict(
        vocab_size=66, hidden_size=40, intermediate_size=51, num_hidden_layers=2,
        num_attention_heads=5, max_position_embeddings=256, attention_bias=True, mlp_bias=True,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),

    # The ramp over six frequencies is 0, 1/2, 1, 1, 1, 1; the sequence outgrows the original 32.
    "llama-yarn": Golden(LlamaForCausalLM, 37, dict(
        vocab_size=65, hidden_size=36, intermediate_size=45, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=128,
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                             original_max_position_embeddings=32))),

    "mistral-window": Golden(MistralForCausalLM, 40, dict(
        vocab_size=65, hidden_size=32, intermediate_size=46, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        sliding_window=7)),

    "qwen2": Golden(Qwen2ForCausalLM, 26, dict(
        vocab_size=83, hidden_size=40, intermediate_size=57, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        tie_word_embeddings=True)),

    "qwen3": Golden(Qwen3ForCausalLM, 24, dict(
        vocab_size=77, hidden_size=45, intermediate_size=50, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64),
        taps=QWEN3_TAPS, rotated=("attn_q_norm.rope", "attn_k_norm.rope")),

    # As Qwen3-Embedding: no head, although the configuration says that it is not shared.
    "qwen3-embed": Golden(Qwen3Model, 18, dict(
        vocab_size=41, hidden_size=21, intermediate_size=26, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=6, max_position_embeddings=64,
        tie_word_embeddings=False),
        taps=QWEN3_BARE_TAPS, rotated=("attn_q_norm.rope", "attn_k_norm.rope"), modules=True),

    "gpt2": Golden(GPT2LMHeadModel, 21, dict(
        vocab_size=69, n_positions=29, n_embd=33, n_layer=2, n_head=3,
        bos_token_id=0, eos_token_id=0),
        taps=GPT2_TAPS, rotated=(), embd_std=0.5),

    "gpt2-rope": Golden(GPT2LMHeadModel, 19, dict(
        vocab_size=73, n_positions=64, n_embd=40, n_layer=2, n_head=5, n_inner=90,
        bos_token_id=0, eos_token_id=0, position_embedding_type="rope", rope_theta=10000.0),
        taps=GPT2_ROPE_TAPS, embd_std=0.5),

    # mscale and mscale_all_dim differ, which GGUF cannot express.
    "deepseek-v2-lite": Golden(DeepseekV2ForCausalLM, 29, dict(
        DEEPSEEK_V2, q_lora_rank=None, topk_method="greedy", n_group=None, topk_group=None,
        rope_parameters=dict(DEEPSEEK_V2["rope_parameters"], mscale=1.0)),
        taps=deepseek_taps(1, 2, False), rotated=("attn_q.rope", "k_rope.rope"), d_rope=6),
    "deepseek-v2": Golden(DeepseekV2ForCausalLM, 37, DEEPSEEK_V2,
        taps=deepseek_taps(1, 2, True), rotated=("attn_q_b.rope", "k_rope.rope"), d_rope=6),
    "deepseek-v3": Golden(DeepseekV3ForCausalLM, 26, DEEPSEEK_V3,
        taps=deepseek_taps(1, 2, True), rotated=("attn_q_b.rope", "k_rope.rope"), d_rope=6),
    "glm4-moe-lite": Golden(Glm4MoeLiteForCausalLM, 26, GLM4_LITE,
        taps=deepseek_taps(1, 2, True), rotated=("attn_q_b.rope", "k_rope.rope"), d_rope=6),
    "deepseek-v3-dense": Golden(DeepseekV3ForCausalLM, 23, dict(
        DEEPSEEK_V3, q_lora_rank=None, first_k_dense_replace=2, tie_word_embeddings=True),
        taps=deepseek_taps(2, 2, False), rotated=("attn_q.rope", "k_rope.rope"), d_rope=6),

    "bert": encoder(BertModel, 19, BERT, BERT_TAPS, "", 2),
    "bert-fill": encoder(BertForMaskedLM, 19, BERT, BERT_TAPS + BERT_FILL, "bert.", 2),
    "bert-classify": encoder(BertForSequenceClassification, 20, BERT | THREE,
                             BERT_TAPS + BERT_CLASSIFY, "bert.", 2),
    "bert-tag": encoder(BertForTokenClassification, 17, BERT | THREE, BERT_TAPS + TAG, "bert.", 2),
    "bert-answer": encoder(BertForQuestionAnswering, 16, BERT, BERT_TAPS + ANSWER, "bert.", 2),

    "roberta-fill": encoder(RobertaForMaskedLM, 19, ROBERTA, BERT_TAPS + ROBERTA_FILL, "roberta."),
    "roberta-classify": encoder(RobertaForSequenceClassification, 18, ROBERTA | THREE,
                                BERT_TAPS + ROBERTA_CLASSIFY, "roberta."),
    "roberta-tag": encoder(RobertaForTokenClassification, 17, ROBERTA | THREE,
                           BERT_TAPS + TAG, "roberta."),
    "roberta-answer": encoder(RobertaForQuestionAnswering, 16, ROBERTA, BERT_TAPS + ANSWER,
                              "roberta."),

    "distilbert-fill": encoder(DistilBertForMaskedLM, 19, DISTILBERT,
                               DISTILBERT_TAPS + DISTILBERT_FILL, "distilbert."),
    "distilbert-classify": encoder(DistilBertForSequenceClassification, 18, DISTILBERT | THREE,
                                   DISTILBERT_TAPS + DISTILBERT_CLASSIFY, "distilbert."),
    "distilbert-tag": encoder(DistilBertForTokenClassification, 17, DISTILBERT | THREE,
                              DISTILBERT_TAPS + TAG, "distilbert."),
    "distilbert-answer": encoder(DistilBertForQuestionAnswering, 16, DISTILBERT,
                                 DISTILBERT_TAPS + ANSWER, "distilbert."),

    "xlm-roberta": encoder(XLMRobertaModel, 15, XLM_ROBERTA, BERT_TAPS, ""),
    "xlm-roberta-fill": encoder(XLMRobertaForMaskedLM, 12, XLM_ROBERTA, BERT_TAPS + ROBERTA_FILL,
                                "roberta."),
    "xlm-roberta-rank": encoder(XLMRobertaForSequenceClassification, 14, XLM_ROBERTA | ONE,
                                BERT_TAPS + ROBERTA_CLASSIFY, "roberta."),
    "camembert-fill": encoder(CamembertForMaskedLM, 13, XLM_ROBERTA, BERT_TAPS + ROBERTA_FILL,
                              "roberta."),

    "mpnet": encoder(MPNetModel, 30, MPNET, MPNET_TAPS, ""),
    "mpnet-fill": encoder(MPNetForMaskedLM, 17, MPNET, MPNET_TAPS + ROBERTA_FILL, "mpnet."),
    "mpnet-classify": encoder(MPNetForSequenceClassification, 16, MPNET | THREE,
                              MPNET_TAPS + ROBERTA_CLASSIFY, "mpnet."),

    "electra": encoder(ElectraModel, 15, ELECTRA, ELECTRA_TAPS, "", 2),
    "electra-fill": encoder(ElectraForMaskedLM, 14, ELECTRA, ELECTRA_TAPS + ELECTRA_FILL,
                            "electra.", 2),
    "electra-detect": encoder(ElectraForPreTraining, 13, ELECTRA, ELECTRA_TAPS + ELECTRA_DETECT,
                              "electra.", 2),
    "electra-classify": encoder(ElectraForSequenceClassification, 12, ELECTRA | THREE,
                                ELECTRA_TAPS + ELECTRA_CLASSIFY, "electra.", 2),

    "gte-fill": encoder(GteForMaskedLM, 21, GTE, NOMIC_TAPS + GTE_FILL, "gte.", 1, TURNED),
    "gte-rank": encoder(GteForSequenceClassification, 14, GTE | ONE, NOMIC_TAPS + GTE_CLASSIFY,
                        "gte.", 1, TURNED),

    "nomic": encoder(NomicBertModel, 21, NOMIC, NOMIC_TAPS, "", 2, TURNED),
    "nomic-fill": encoder(NomicBertForMaskedLM, 15, NOMIC, NOMIC_TAPS + NOMIC_FILL, "nomic_bert.",
                          2, TURNED),
    "nomic-classify": encoder(NomicBertForSequenceClassification, 14, NOMIC | THREE,
                              NOMIC_TAPS + NOMIC_CLASSIFY, "nomic_bert.", 2, TURNED),
}


@dataclass(frozen=True)
class Training:
    """A model to train, and how."""

    model: type
    config: dict
    taps: tuple  # the names of the modules' outputs are the names of their parameters
    smoothing: float
    clip: float
    embd_std: float = 0.3  # the heads are tied: small, for a first loss near ln V
    gain: float = 1.0
    peak_lr: float = 0.02
    n_label: int = 0  # of the whole sequence, whose first row has the target; 0: every row has one
    kwargs: dict = field(default_factory=dict)  # of the forward


N_STEP = 10
LENGTHS = (17, 23, 10)  # of the sequences packed into every batch
BETAS = (0.9, 0.95)
EPS = 1e-8
DECAY = 0.1  # of matrices; vectors do not decay

TRAININGS = {
    # Wavelengths 6, 50, 396 against bounds of 16 and 64, as in llama-gqa.
    "train-llama": Training(LlamaForCausalLM, dict(
        vocab_size=41, hidden_size=12, intermediate_size=21, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=6, max_position_embeddings=512,
        tie_word_embeddings=True, rope_parameters=dict(
            rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
            high_freq_factor=4.0, original_max_position_embeddings=64)),
        taps=LLAMA_TRAIN_TAPS, smoothing=0.1, clip=1.0, kwargs=dict(use_cache=False)),

    # Positions 23 and 24 do not occur, and 22 is always a last row: those three only decay.
    "train-gpt2": Training(GPT2LMHeadModel, dict(
        vocab_size=43, n_positions=25, n_embd=15, n_layer=2, n_head=3, n_inner=22,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0),
        taps=GPT2_TAPS, smoothing=0.0, clip=math.inf, kwargs=dict(use_cache=False)),

    "train-deepseek-v2": Training(DeepseekV2ForCausalLM, dict(
        DEEPSEEK_V2, vocab_size=31, hidden_size=12, intermediate_size=17, moe_intermediate_size=5,
        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, kv_lora_rank=8, q_lora_rank=None, tie_word_embeddings=True),
        taps=deepseek_train_taps(1, 2, False), smoothing=0.1, clip=1.0, peak_lr=0.01, gain=0.8,
        kwargs=dict(use_cache=False)),
    "train-deepseek-v3": Training(DeepseekV3ForCausalLM, dict(
        DEEPSEEK_V3, vocab_size=31, hidden_size=12, intermediate_size=17, moe_intermediate_size=5,
        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, kv_lora_rank=8, tie_word_embeddings=True),
        taps=deepseek_train_taps(1, 2, True), smoothing=0.0, clip=math.inf, peak_lr=0.01, gain=0.5,
        kwargs=dict(use_cache=False)),

    "train-glm4-moe-lite": Training(Glm4MoeLiteForCausalLM, dict(
        GLM4_LITE, vocab_size=31, hidden_size=12, intermediate_size=17, moe_intermediate_size=5,
        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, kv_lora_rank=8),
        taps=deepseek_train_taps(1, 2, True), smoothing=0.0, clip=math.inf, peak_lr=0.01, gain=0.5,
        kwargs=dict(use_cache=False)),

    "train-bert": Training(BertForMaskedLM, dict(
        BERT, vocab_size=37, hidden_size=12, intermediate_size=19, num_attention_heads=2),
        taps=with_prefix(BERT_TAPS + BERT_FILL, "bert."), smoothing=0.1, clip=1.0,
        peak_lr=0.005),

    "train-roberta": Training(RobertaForSequenceClassification, dict(
        ROBERTA | THREE, vocab_size=37, hidden_size=12, intermediate_size=19,
        num_attention_heads=2),
        taps=with_prefix(BERT_TAPS + ROBERTA_CLASSIFY, "roberta."), smoothing=0.0, clip=math.inf,
        peak_lr=0.01, n_label=3),

    "train-mpnet": Training(MPNetForMaskedLM, dict(
        MPNET, vocab_size=31, hidden_size=12, intermediate_size=17, num_attention_heads=2,
        max_position_embeddings=27),
        taps=with_prefix(MPNET_TRAIN_TAPS + ROBERTA_FILL, "mpnet."), smoothing=0.1, clip=1.0,
        peak_lr=0.005),

    "train-electra": Training(ElectraForSequenceClassification, dict(
        ELECTRA | THREE, vocab_size=31, hidden_size=12, intermediate_size=17,
        num_attention_heads=2, max_position_embeddings=27, embedding_size=7),
        taps=with_prefix(ELECTRA_TAPS + ELECTRA_CLASSIFY, "electra."), smoothing=0.0,
        clip=math.inf, peak_lr=0.01, gain=0.6, n_label=3),

    # With the usual theta a third of the keys hardly turns, and the gradient of its bias is noise.
    "train-gte": Training(GteForMaskedLM, dict(
        GTE, vocab_size=31, hidden_size=12, intermediate_size=17, num_attention_heads=2,
        max_position_embeddings=27,
        rope_parameters=dict(rope_type="default", rope_theta=20.0)),
        taps=with_prefix(NOMIC_TRAIN_TAPS + GTE_FILL, "gte."), smoothing=0.0,
        clip=math.inf, peak_lr=0.005),

    "train-nomic": Training(NomicBertForMaskedLM, dict(
        NOMIC, vocab_size=31, hidden_size=12, intermediate_size=17, num_attention_heads=2,
        max_position_embeddings=27),
        taps=with_prefix(NOMIC_TRAIN_TAPS + NOMIC_FILL, "nomic_bert."), smoothing=0.0,
        clip=math.inf, peak_lr=0.005),
}


# The GPT that transformers lacks: GPT-2 without learned positions, q and k rotated as in Llama.

class NoPositions(nn.Module):
    """Stands where wpe stood: adds nothing to the stream and has no weights to save."""

    def forward(self, position_ids):
        return torch.zeros(*position_ids.shape, 1)


def rope_attention(module, query, key, value, mask, **kwargs):
    """GPT-2's attention on q and k [1, H, T, E] that Llama's functions rotated first."""
    rotary = LlamaRotaryEmbedding(LlamaConfig(
        head_dim=module.head_dim,
        rope_parameters=dict(rope_type="default", rope_theta=module.config.rope_theta)))
    cos, sin = rotary(query, torch.arange(query.shape[2])[None])
    query, key = apply_rotary_pos_emb(query, key, cos, sin)
    return modeling_gpt2.eager_attention_forward(module, query, key, value, mask, **kwargs)


AttentionInterface.register("rope", rope_attention)
AttentionMaskInterface.register("rope", eager_mask)


def is_rope_gpt(config):
    """Whether config asks for that GPT, by the two keys weft reads and transformers ignores."""
    return getattr(config, "position_embedding_type", None) == "rope"


# The model.

def random_weights(model, rng, embd_std, gain):
    """Fill the parameters; larger than an initialisation, so that every nonlinearity bends."""
    for name, p in model.named_parameters():
        x = torch.from_numpy(rng.standard_normal(p.shape, dtype=np.float32))
        owner = model.get_submodule(name.rpartition(".")[0])
        if name.endswith("bias"):
            x *= 0.1
        elif isinstance(owner, nn.Embedding):
            x *= embd_std
        elif isinstance(owner, nn.Linear):
            x *= gain / p.shape[1] ** 0.5
        elif isinstance(owner, Conv1D):
            x *= gain / p.shape[0] ** 0.5
        elif p.dim() > 1:  # of a router, or experts of one layer
            x *= gain / p.shape[-1] ** 0.5
        else:
            x = 1 + 0.2 * x
        p.data.copy_(x)
    for name, x in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            x.copy_(0.1 * torch.from_numpy(rng.standard_normal(x.shape, dtype=np.float32)))


def build(golden, rng):
    """The golden's model with random weights, in evaluation mode."""
    config = golden.model.config_class(**golden.config)
    config._attn_implementation = "rope" if is_rope_gpt(config) else "eager"
    config._experts_implementation = "eager"
    model = golden.model(config).float().eval()
    if is_rope_gpt(config):
        model.transformer.wpe = NoPositions()
    random_weights(model, rng, golden.embd_std, golden.gain)
    return model


# The trace.

def rows(x):
    """A copy of x [1, T, ...] as [T, cols]; [1, cols] stays as it is."""
    return x.detach().reshape(x.shape[1] if x.dim() > 2 else 1, -1).clone()


def all_layers(model, taps):
    """The taps with every layer for {l}."""
    layers = range(model.config.num_hidden_layers)
    return dict.fromkeys(tuple(s.format(l=l) for s in tap) for l in layers for tap in taps)


def tap_modules(model, taps, trace):
    """Hook the modules so that a forward pass leaves what they take or give in trace."""
    def record(module, args, output, side, name):
        x = args[0] if side == "in" else output
        if side == "probs":  # [1, H, T, T]
            x = x[0].transpose(0, 1).flatten(0, 1)
        trace[name] = x.detach().clone() if side in ("rows", "probs") else rows(x)

    for path, side, name in all_layers(model, taps):
        model.get_submodule(path).register_forward_hook(partial(record, side=side, name=name))


def tap_attention(golden, model, trace):
    """Patch the attention function of the modeling file: only it sees the rotated q and k."""
    modeling = sys.modules[golden.model.__module__]
    if not hasattr(modeling, "eager_attention_forward"):
        return nullcontext()
    attend = modeling.eager_attention_forward
    paths = {module: path for path, module in model.named_modules()}

    def tapped(module, query, key, value, mask, **kwargs):
        output, probs = attend(module, query, key, value, mask, **kwargs)
        if golden.d_rope:
            key = key[:, :1, :, -golden.d_rope:]
        block = next(f"blk.{part}" for part in paths[module].split(".") if part.isdigit())
        for name, x in zip(golden.rotated, (query, key)):
            trace[f"{block}.{name}"] = rows(x.transpose(1, 2))
        by_query = probs[0].transpose(0, 1)  # [T, H, T]
        trace[f"{block}.attention.probs"] = by_query.flatten(0, 1).detach().clone()
        return output, probs

    return mock.patch.object(modeling, "eager_attention_forward", tapped)


def split_qkv(trace):
    """Name the three thirds of GPT-2's fused projection."""
    for name in [name for name in trace if name.endswith(".attn_qkv")]:
        for x, part in zip("qkv", trace[name].chunk(3, dim=1)):
            trace[name.replace("attn_qkv", f"attn_{x}")] = part.contiguous()


def token_types(golden, ids):
    """Token types of ids [T]: the second half is another sentence."""
    return (torch.arange(len(ids)) >= len(ids) // 2).int() * (golden.n_type - 1)


def trace_forward(golden, model, ids):
    """Every named intermediate of one forward pass over ids [T]."""
    trace = {}
    kwargs = dict(use_cache=False)
    if golden.n_type > 1:
        kwargs = dict(token_type_ids=token_types(golden, ids)[None].long())
    elif golden.n_type:
        kwargs = {}
    tap_modules(model, golden.taps, trace)
    with tap_attention(golden, model, trace), torch.no_grad():
        model(input_ids=ids[None].long(), **kwargs)
    split_qkv(trace)
    return trace


def check_trace(name, trace):
    """Stop on a trace that could not be a reference."""
    for tensor, x in trace.items():
        assert x.dtype == torch.float32 and x.dim() == 2, f"{name}: {tensor} is not F32 2-D"
        assert x.isfinite().all(), f"{name}: {tensor} is not finite"
        if tensor.endswith(".probs"):
            least = 0 if name.startswith("gpt-oss") else 1 - 1e-5  # its sinks have a share
            assert x.sum(1).max() < 1 + 1e-5 and x.sum(1).min() > least, \
                f"{name}: {tensor} does not sum to 1"


# The training.

@contextmanager
def wide():
    """Patch torch so that those who ask for f32 get f64: Llama's rope, RMSNorm and softmax."""
    with (mock.patch.multiple(torch, float=torch.float64, float32=torch.float64),
          mock.patch.object(torch.Tensor, "float", torch.Tensor.double)):
        yield


class OnlyDouble(TorchDispatchMode):
    """Stop on an op whose result is a float other than f64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        for x in tree_leaves(output):
            if isinstance(x, torch.Tensor) and x.is_floating_point():
                assert x.dtype == torch.float64, f"{func} gives {x.dtype}"
        return output


def widen(model):
    """The model again, in f64, its rope frequencies computed in f64."""
    with wide():
        reference = type(model)(model.config).double().eval()
    reference.load_state_dict(model.state_dict())
    return reference


def random_batches(n_vocab, rng, pad):
    """ids, target and weight [N_STEP, N]. Small ids are frequent: something to learn quickly."""
    shape = N_STEP, sum(LENGTHS)
    least = 0 if pad is None else pad + 1  # torch does not learn the embedding of padding
    ids = (least + (n_vocab - least) * rng.random(shape) ** 3).astype(np.int32)
    ignored = rng.random(shape) < 0.1
    ignored[:, np.cumsum(LENGTHS) - 1] = True
    target = np.where(ignored, -100, np.roll(ids, -1, axis=1)).astype(np.int32)
    weight = rng.choice(np.float32([0.5, 1, 2]), shape, p=[0.15, 0.7, 0.15])
    return tuple(torch.from_numpy(x) for x in (ids, target, weight))


def label_sequences(target):
    """In place of target: the first row of each sequence gets a label; 1 is the most frequent."""
    target.fill_(-100)
    target[:, [0, *np.cumsum(LENGTHS)[:-1]]] = torch.tensor([1, 2, 1], dtype=torch.int32)


def learning_rates(peak):
    """[N_STEP, 1]: three steps up, then half a cosine down to a tenth of the peak."""
    step = torch.arange(N_STEP, dtype=torch.float64)
    cosine = 0.55 + 0.45 * torch.cos(math.pi * (step - 2) / (N_STEP - 3))
    return (peak * torch.where(step < 2, (step + 1) / 3, cosine)).float()[:, None]


def packed_loss(training, model, ids, target, weight):
    """The mean cross entropy of the rows that have a target, each with its weight."""
    with wide():
        logits = [model(input_ids=s[None], **training.kwargs).logits
                  for s in ids.long().split(LENGTHS)]
    if training.n_label:
        starts = [0, *np.cumsum(LENGTHS)[:-1]]
        logits, target, weight = torch.cat(logits), target[starts], weight[starts]
    else:
        logits = torch.cat([z[0] for z in logits])
    entropy = nn.functional.cross_entropy(
        logits, target.long(), label_smoothing=training.smoothing, reduction="none")
    weight = weight * (target != -100)
    return (weight * entropy).sum() / weight.sum()


def by_expert(name, kind, x):
    """The experts of a layer one by one: [E, 2 F, D] are gates and ups, [E, D, F] downs."""
    blk = name.rpartition(".")[0]
    parts = dict(down=x) if kind == "down_proj" else dict(zip(("gate", "up"), x.chunk(2, dim=1)))
    return {f"{blk}.ffn_{part}_exps.{e}.weight": y.contiguous()
            for part, stack in parts.items() for e, y in enumerate(stack)}


def by_weft_name(model, taps, value):
    """value of every parameter as weft keeps it: matrices [out, in], vectors [1, n], f32."""
    tensors, seen = {}, set()
    for path, side, name in all_layers(model, taps):
        if side == "in":
            continue
        module = model.get_submodule(path)
        for kind, p in module.named_parameters(recurse=False):
            if p in seen:  # a head that is tied
                continue
            seen.add(p)
            x = value(p).detach().to(torch.float32, copy=True)
            if x.dim() == 3:
                tensors.update(by_expert(name, kind, x))
                continue
            if isinstance(module, Conv1D) and x.dim() == 2:
                x = x.T.contiguous()
            tensors[f"{name}.{kind}"] = x.reshape(-1, x.shape[-1])
    return joined(tensors) if model.config.model_type in ("nomic_bert", "gte") else tensors


def joined(tensors):
    """The tensors with q, k and v as one, which files of this model have."""
    for name in [name for name in tensors if ".attn_q." in name]:
        tensors[name.replace("attn_q", "attn_qkv")] = torch.cat(
            [tensors.pop(name.replace("attn_q", f"attn_{x}")) for x in "qkv"])
    return tensors


def train(training, model, ids, target, weight):
    """N_STEP steps of AdamW on the model: the schedule, every loss and gradient, the weights."""
    params = list(model.parameters())
    vectors = [p for name, p in model.named_parameters() if p.dim() < 2 or name.endswith("_bias")]
    matrices = [p for p in params if all(p is not v for v in vectors)]
    adamw = torch.optim.AdamW([dict(params=matrices), dict(params=vectors, weight_decay=0.0)],
                              betas=BETAS, eps=EPS, weight_decay=DECAY)
    lr = learning_rates(training.peak_lr)
    losses, norms, tensors = [], [], {}
    for k, batch in enumerate(zip(ids, target, weight.double())):
        adamw.zero_grad()
        with OnlyDouble():
            loss = packed_loss(training, model, *batch)
            loss.backward()
        gradients = by_weft_name(model, training.taps, lambda p: p.grad)
        tensors.update({f"step.{k}.{name}": x for name, x in gradients.items()})
        losses.append(loss.item())
        norms.append(nn.utils.clip_grad_norm_(params, training.clip).item())
        for group in adamw.param_groups:
            group["lr"] = lr[k].item()
        adamw.step()

    weights = by_weft_name(model, training.taps, lambda p: p)
    tensors.update({f"final.{name}": x for name, x in weights.items()})
    return dict(lr=lr, loss=torch.tensor(losses)[:, None], norm=torch.tensor(norms)[:, None],
                **tensors)


def check_training(name, training, model, tensors):
    """Stop on a training that could not be a reference."""
    for tensor, x in tensors.items():
        assert x.dtype == torch.float32 and x.dim() == 2, f"{name}: {tensor} is not F32 2-D"
        assert x.isfinite().all(), f"{name}: {tensor} is not finite"
    for prefix in ("step.0.", f"step.{N_STEP - 1}.", "final."):
        n = sum(x.numel() for tensor, x in tensors.items() if tensor.startswith(prefix))
        assert n == sum(p.numel() for p in model.parameters()), f"{name}: {prefix}* has {n} values"
    uniform = math.log(training.n_label or model.config.vocab_size)
    assert tensors["loss"][0] < 1.5 * uniform, f"{name}: the first loss is far from ln V"
    assert tensors["loss"][-1] < tensors["loss"][0], f"{name}: the loss does not fall"


# The files.

def save_model(model, path):
    """What save_pretrained writes, without generation_config.json, which no test reads."""
    model.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)


def save_modules(path):
    """The files of sentence-transformers around a decoder."""
    kinds = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")
    modules = [dict(idx=k, name=str(k), path=place, type=f"sentence_transformers.models.{name}")
               for k, (place, name) in enumerate(kinds)]
    (path / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (path / "1_Pooling").mkdir(exist_ok=True)
    (path / "1_Pooling" / "config.json").write_text(
        json.dumps(dict(pooling_mode_lasttoken=True), indent=2) + "\n")


def save_with_metadata(tensors, path, metadata):
    """What save_file writes, which orders metadata differently each time, with it in order."""
    safetensors.torch.save_file(tensors, path, {key: str(x) for key, x in metadata.items()})
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode().ljust(end - 8)
    assert len(text) == end - 8, f"{path}: the header grew"
    path.write_bytes(data[:8] + text + data[end:])


def check_size(path):
    """The size of a golden in bytes; a directory over the limit is an error."""
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    if size > MAX_BYTES:
        sys.exit(f"golden: {path.name} has {size} bytes, more than {MAX_BYTES}")
    return size


def print_row(name, model, tensors):
    """Its line of the table."""
    n_parameter = sum(p.numel() for p in model.parameters())
    print(f"{name:16} {n_parameter:10} {len(tensors):8} {check_size(GOLDEN_DIR / name):8}")


def make_trace(name, rng):
    """Write one golden with a trace."""
    golden = GOLDENS[name]
    model = build(golden, rng)
    least = 2 if golden.n_type else 0  # RoBERTa does not count the positions of padding
    ids = torch.from_numpy(
        rng.integers(least, golden.config["vocab_size"], golden.n_token, np.int32))
    trace = trace_forward(golden, model, ids)
    check_trace(name, trace)

    path = GOLDEN_DIR / name
    save_model(model, path)
    if golden.modules:
        save_modules(path)
    told = {"ids": ids, "types": token_types(golden, ids)} if golden.n_type else {"ids": ids}
    safetensors.torch.save_file({**told, **trace}, path / "trace.safetensors")
    print_row(name, model, trace)


def make_training(name, rng):
    """Write one golden with a training; print its losses and gradient norms too."""
    training = TRAININGS[name]
    model = build(training, rng)
    ids, target, weight = random_batches(
        model.config.vocab_size, rng, None if training.kwargs else model.config.pad_token_id)
    if training.n_label:
        label_sequences(target)
    tensors = train(training, widen(model), ids, target, weight)
    check_training(name, training, model, tensors)

    path = GOLDEN_DIR / name
    save_model(model, path)
    batches = dict(ids=ids, target=target, weight=weight,
                   length=torch.tensor(LENGTHS, dtype=torch.int32))
    metadata = dict(beta1=BETAS[0], beta2=BETAS[1], eps=EPS, decay=DECAY, clip=training.clip,
                    smoothing=training.smoothing)
    save_with_metadata({**batches, **tensors}, path / "train.safetensors", metadata)
    print_row(name, model, tensors)
    for row in ("loss", "norm"):
        print(f"  {row}", *(f"{x:.4f}" for x in tensors[row].flatten().tolist()))


def make(name):
    """Write one golden and print its line of the table."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))  # its own, whatever else is made
    if name in TRAININGS:
        make_training(name, rng)
    else:
        make_trace(name, rng)


def main():
    known = [*GOLDENS, *TRAININGS]
    parser = argparse.ArgumentParser(description="Make golden traces with transformers.")
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(known)}")
    names = parser.parse_args().name or known
    for name in names:
        if name not in known:
            parser.error(f"no golden is called {name}")

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"safetensors {safetensors.__version__}, numpy {np.__version__}")
    print(f"{'name':16} {'parameters':>10} {'tensors':>8} {'bytes':>8}")
    for name in names:
        make(name)


if __name__ == "__main__":
    main()

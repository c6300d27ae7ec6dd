#!/usr/bin/env python3
"""shapes_golden.py - names and shapes of published models, from transformers on the meta device.

    shapes_golden.py [NAME ...]        regenerate tests/golden/shapes, or the named files

A file has the config.json that transformers writes for the configuration, and the tensors of a
directory as save_pretrained would write it, without their values. Numbers in names are collapsed:

    "tensors": [["model.layers.{0-27}.mlp.experts.{0-63}.gate_proj.weight", [1408, 2048]], ...]

tests/host/shapes.c writes such a directory, with holes for values, and runs weft inspect on it.
"parameters" is what transformers counts, without towers for pictures and unused poolers, which weft
leaves out ("left_out" tensors).
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path

import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion

OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "shapes"
LEFT_OUT = ("vision_tower.", "model.vision_tower.", "multi_modal_projector.",
            "model.multi_modal_projector.", "pooler.")


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta) | more)


def decoder(d, ff, layers, heads, kv, vocab, ctx, **more):
    return dict(hidden_size=d, intermediate_size=ff, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=kv, vocab_size=vocab,
                max_position_embeddings=ctx) | more


def encoder(d, ff, layers, heads, vocab, ctx, **more):
    return dict(hidden_size=d, intermediate_size=ff, num_hidden_layers=layers,
                num_attention_heads=heads, vocab_size=vocab, max_position_embeddings=ctx) | more


LLAMA3 = rope(500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
GEMMA3_ROPE = dict(rope_parameters=dict(
    full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
    sliding_attention=dict(rope_type="default", rope_theta=10000.0)))

MODELS = {
    "llama-3.1-8b": ("Llama", decoder(4096, 14336, 32, 32, 8, 128256, 131072, **LLAMA3)),
    "mistral-7b-v0.1": ("Mistral", decoder(4096, 14336, 32, 32, 8, 32000, 32768,
                                           sliding_window=4096, **rope(10000.0))),
    "qwen2.5-7b": ("Qwen2", decoder(3584, 18944, 28, 28, 4, 152064, 32768, use_sliding_window=False,
                                    **rope(1000000.0))),
    "qwen3-8b": ("Qwen3", decoder(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128,
                                  **rope(1000000.0))),
    "qwen3-30b-a3b": ("Qwen3Moe", decoder(
        2048, 6144, 48, 32, 4, 151936, 40960, head_dim=128, num_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=768, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
        **rope(1000000.0))),
    "mixtral-8x7b": ("Mixtral", decoder(4096, 14336, 32, 32, 8, 32000, 32768, num_local_experts=8,
                                        num_experts_per_tok=2, sliding_window=None,
                                        **rope(1000000.0))),
    "gemma-2-9b": ("Gemma2", decoder(3584, 14336, 42, 16, 8, 256000, 8192, head_dim=256,
                                     query_pre_attn_scalar=256, sliding_window=4096)),
    "gemma-3-270m": ("Gemma3", decoder(640, 2048, 18, 4, 1, 262144, 32768, head_dim=256,
                                       query_pre_attn_scalar=256, sliding_window=512)),
    "gemma-3-4b": ("Gemma3Conditional", dict(
        text_config=decoder(2560, 10240, 34, 8, 4, 262208, 131072, head_dim=256,
                            query_pre_attn_scalar=256, sliding_window=1024, **GEMMA3_ROPE),
        vision_config=dict(hidden_size=1152, intermediate_size=4304, num_attention_heads=16,
                           num_hidden_layers=27, image_size=896, patch_size=14,
                           vision_use_head=False),
        mm_tokens_per_image=256)),
    "phi-3-mini-4k": ("Phi3", decoder(3072, 8192, 32, 32, 32, 32064, 4096, sliding_window=2047,
                                      original_max_position_embeddings=4096, **rope(10000.0))),
    "phi-4": ("Phi3", decoder(5120, 17920, 40, 40, 10, 100352, 16384, sliding_window=None,
                              original_max_position_embeddings=16384, **rope(250000.0))),
    "phi-4-mini": ("Phi3", decoder(
        3072, 8192, 32, 24, 8, 200064, 131072, original_max_position_embeddings=4096,
        sliding_window=262144, tie_word_embeddings=True,
        **rope(10000.0, rope_type="longrope", partial_rotary_factor=0.75,
               short_factor=[1.0] * 48, long_factor=[1.0 + i for i in range(48)],
               original_max_position_embeddings=4096))),
    "granite-3.3-8b": ("Granite", decoder(
        4096, 12800, 40, 32, 8, 49159, 131072, embedding_multiplier=12.0, residual_multiplier=0.22,
        attention_multiplier=0.0078125, logits_scaling=16.0, tie_word_embeddings=True,
        **rope(10000000.0))),
    "smollm3-3b": ("SmolLM3", decoder(2048, 11008, 36, 16, 4, 128256, 65536,
                                      tie_word_embeddings=True, **rope(5000000.0))),
    "olmo-2-7b": ("Olmo2", decoder(4096, 11008, 32, 32, 32, 100352, 4096, **rope(500000.0))),
    "olmo-3-7b": ("Olmo3", decoder(
        4096, 11008, 32, 32, 32, 100278, 65536, sliding_window=4096,
        rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=8.0, beta_fast=32.0,
                                beta_slow=1.0, original_max_position_embeddings=8192),
            sliding_attention=dict(rope_type="default", rope_theta=500000.0)))),
    "exaone-4.0-32b": ("Exaone4", decoder(
        5120, 27392, 64, 40, 8, 102400, 131072, sliding_window=4096, sliding_window_pattern=4,
        layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16,
        **rope(1000000.0, rope_type="llama3", factor=16.0, low_freq_factor=1.0,
               high_freq_factor=4.0, original_max_position_embeddings=8192))),
    "glm-4-9b": ("Glm4", decoder(4096, 13696, 40, 32, 2, 151552, 32768, head_dim=128,
                                 attention_bias=True,
                                 **rope(10000.0, partial_rotary_factor=0.5))),
    "ministral-3-8b": ("Ministral3", decoder(
        4096, 14336, 34, 32, 8, 131072, 262144, head_dim=128,
        **rope(1000000.0, rope_type="yarn", factor=16.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
               mscale_all_dim=1.0, llama_4_scaling_beta=0.1,
               original_max_position_embeddings=16384))),
    "deepseek-v2-lite": ("DeepseekV2", decoder(
        2048, 10944, 27, 16, 16, 102400, 163840, q_lora_rank=None, kv_lora_rank=512,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=64,
        n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408,
        first_k_dense_replace=1, norm_topk_prob=False, topk_method="greedy", n_group=1,
        topk_group=1, routed_scaling_factor=1.0, **rope(10000.0))),
    # One layer of 24: its experts are rearranged in memory when they are bound.
    "gpt-oss-20b-part": ("GptOss", decoder(
        2880, 2880, 1, 64, 8, 201088, 131072, head_dim=64, num_local_experts=32,
        num_experts_per_tok=4, sliding_window=128, **rope(
            150000.0, rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=4096))),
    "glm-4.7-flash": ("Glm4MoeLite", decoder(
        2048, 10240, 47, 20, 20, 154880, 202752, q_lora_rank=768, kv_lora_rank=512,
        qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256, n_routed_experts=64,
        n_shared_experts=1, num_experts_per_tok=4, moe_intermediate_size=1536,
        first_k_dense_replace=1, norm_topk_prob=True, n_group=1, topk_group=1,
        routed_scaling_factor=1.8, **rope(1000000.0))),
    "bge-m3": ("XLMRobertaModel", encoder(1024, 4096, 24, 16, 250002, 8194, type_vocab_size=1,
                                          layer_norm_eps=1e-5)),
    "all-mpnet-base-v2": ("MPNetModel", encoder(768, 3072, 12, 12, 30527, 514,
                                                layer_norm_eps=1e-5)),
    "electra-base": ("ElectraModel", encoder(768, 3072, 12, 12, 30522, 512, embedding_size=768)),
    "nomic-embed-text-v1.5": ("NomicBertModel", encoder(768, 3072, 12, 12, 30528, 2048)),
    "gte-multilingual-base": ("GteModel", encoder(768, 3072, 12, 12, 250048, 8192)),
    "qwen3-embedding-0.6b": ("Qwen3Model", decoder(1024, 3072, 28, 16, 8, 151669, 32768,
                                                   head_dim=128, tie_word_embeddings=True,
                                                   **rope(1000000.0))),
}


def on_meta(kind, values):
    """The model of these values without memory."""
    name = {"Gemma3Conditional": "Gemma3ForConditionalGeneration"}.get(kind)
    name = name or (kind if kind.endswith("Model") else kind + "ForCausalLM")
    cls = getattr(transformers, name)
    with torch.device("meta"):
        return cls(cls.config_class(**values))


def saved(model):
    """Names and tensors as save_pretrained writes them: renamed, tied ones once."""
    state = {k: v for k, v in model.state_dict().items() if k not in tied(model)}
    return {k: list(v.shape) for k, v in revert_weight_conversion(model, state).items()}


def tied(model):
    return set(getattr(model, "all_tied_weights_keys", None) or {})


def collapsed(shapes):
    """Lists names whose numbers run from 0 in all combinations as one."""
    groups = defaultdict(list)
    for name, shape in shapes.items():
        groups[re.sub(r"(?<=\.)\d+(?=\.)", "#", name), tuple(shape)].append(
            tuple(int(i) for i in re.findall(r"(?<=\.)\d+(?=\.)", name)))
    out = []
    for (name, shape), numbers in groups.items():
        spans = [(min(column), max(column)) for column in zip(*numbers)]
        whole = 1
        for low, high in spans:
            whole *= high - low + 1
        if whole == len(numbers):
            for low, high in spans:
                name = name.replace("#", f"{{{low}-{high}}}", 1)
            out.append([name, list(shape)])
        else:
            for each in numbers:
                out.append([re.sub("#", lambda _, i=iter(each): str(next(i)), name), list(shape)])
    return out


def write(name):
    model = on_meta(*MODELS[name])
    shapes = saved(model)
    count, left_out = 0, 0
    for key, shape in shapes.items():
        if key.startswith(LEFT_OUT):
            left_out += 1
        else:
            count += torch.Size(shape).numel()
    config = model.config.to_dict()
    config["architectures"] = [type(model).__name__]
    for extra in ("_name_or_path", "transformers_version", "id2label", "label2id"):
        config.pop(extra, None)
    lines = ",\n".join("  " + json.dumps(t) for t in collapsed(shapes))
    (OUT / f"{name}.json").write_text(
        f'{{"parameters": {count}, "left_out": {left_out},\n"config": {json.dumps(config)},\n'
        f'"tensors": [\n{lines}\n]}}\n')
    print(f"{name}: {count} parameters in {len(shapes) - left_out} tensors, {left_out} left out")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or MODELS
    OUT.mkdir(exist_ok=True)
    for name in names:
        write(name)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""vit_golden.py - small random ViTs, and what transformers and PyTorch compute with them.

    python tools/vit_golden.py tests/golden

vit, deit    a model, preprocessor_config.json, trace.safetensors with the rows of patches and every named intermediate of
             one image, and logits.safetensors: those of tests/golden/images/photo.png
train-vit    a model, and train.safetensors with some steps of AdamW in double, as tools/golden.py has them
"""
import math
import sys
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from torch import nn
from transformers import DeiTForImageClassification, ViTForImageClassification
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import golden
from golden import BETAS, DECAY, EPS, N_STEP, Golden, OnlyDouble, learning_rates, rows, wide, widen

TAPS = (
    ("{p}layers.0", "in", "position_embd.residual"),
    ("{p}layers.{l}.layernorm_before", "out", "blk.{l}.attn_norm"),
    ("{p}layers.{l}.attention.q_proj", "out", "blk.{l}.attn_q"),
    ("{p}layers.{l}.attention.k_proj", "out", "blk.{l}.attn_k"),
    ("{p}layers.{l}.attention.v_proj", "out", "blk.{l}.attn_v"),
    ("{p}layers.{l}.attention.o_proj", "in", "blk.{l}.attention"),
    ("{p}layers.{l}.attention.o_proj", "out", "blk.{l}.attn_output"),
    ("{p}layers.{l}.layernorm_after", "in", "blk.{l}.attn_output.residual"),
    ("{p}layers.{l}.layernorm_after", "out", "blk.{l}.ffn_norm"),
    ("{p}layers.{l}.mlp.fc1", "out", "blk.{l}.ffn_up"),
    ("{p}layers.{l}.mlp.fc2", "in", "blk.{l}.ffn_up.gelu"),
    ("{p}layers.{l}.mlp.fc2", "out", "blk.{l}.ffn_down"),
    ("{p}layers.{l}", "out", "blk.{l}.ffn_down.residual"),
    ("classifier", "out", "cls.output"),
)
THREE = dict(id2label={0: "cat", 1: "dog", 2: "neither"}, label2id=dict(cat=0, dog=1, neither=2))
VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=37,
           num_channels=3, image_size=(12, 20), patch_size=4) | THREE
DEIT = VIT | dict(image_size=15, patch_size=5, qkv_bias=False, layer_norm_eps=1e-6)
TRAIN = VIT | dict(hidden_size=12, intermediate_size=17, image_size=(8, 12), num_channels=1)
N_IMAGE = 3


def patches(images, config, n_lead):
    """Images [B, C, H, W] as rows [B, T, C P P]; those of learned vectors are zero."""
    b, c, p = images.shape[0], config.num_channels, config.patch_size
    x = images.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).reshape(b, -1, c * p * p)
    return torch.cat([x.new_zeros(b, n_lead, x.shape[2]), x], 1)


def build(model_class, config, rng):
    """The model with random weights, in evaluation mode, its embeddings and its number of learned rows."""
    config = model_class.config_class(**config)
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    golden.random_weights(model, rng, 1.0, 1.5)
    e = model.base_model.embeddings
    leads = [e.cls_token] + ([e.distillation_token] if hasattr(e, "distillation_token") else [])
    for p in (*leads, e.position_embeddings):
        p.data.copy_(torch.from_numpy(rng.standard_normal(p.shape, dtype=np.float32)))
    conv = e.patch_embeddings.projection
    conv.weight.data.copy_(torch.from_numpy(
        rng.standard_normal(conv.weight.shape, dtype=np.float32) / conv.weight[0].numel() ** 0.5))
    return model, e, len(leads)


def trace_image(model, e, n_lead, image):
    prefix = model.base_model_prefix + "."
    g = Golden(type(model), 0, {}, rotated=(),
               taps=tuple((path.replace("{p}", prefix), side, name) for path, side, name in TAPS))
    trace = {}
    golden.tap_modules(model, g.taps, trace)
    with golden.tap_attention(g, model, trace), torch.no_grad():
        states = model.base_model(image).last_hidden_state
        model(image)
        x = rows(e.patch_embeddings(image))
        bias = e.patch_embeddings.projection.bias.detach()
        trace["features"] = patches(image, model.config, n_lead)[0]
        trace["patch_embd"] = torch.cat([bias.expand(n_lead, -1), x])
        trace["class_embd"] = trace["patch_embd"].clone()
        trace["class_embd"][0] = e.cls_token[0, 0]
        if n_lead == 2:
            trace["distill_embd"] = trace["class_embd"].clone()
            trace["distill_embd"][1] = e.distillation_token[0, 0]
        trace["position_embd"] = rows(e.position_embeddings)
        trace["output_norm"] = states[0, :1].clone()
    golden.check_trace(type(model).__name__, trace)
    return trace


def make_trace(to, model_class, config, processor, rng):
    model, e, n_lead = build(model_class, config, rng)
    h, w = e.image_size if hasattr(e, "image_size") else e.patch_embeddings.image_size
    image = torch.from_numpy(rng.standard_normal((1, 3, h, w), dtype=np.float32))
    trace = trace_image(model, e, n_lead, image)
    to.mkdir(parents=True, exist_ok=True)
    golden.save_model(model, to)
    processor.save_pretrained(to)
    safetensors.torch.save_file({k: v.contiguous() for k, v in trace.items()}, to / "trace.safetensors")
    photo = Image.open(to.parent / "images" / "photo.png")
    with torch.no_grad():
        logits = model(processor(photo, return_tensors="pt")["pixel_values"]).logits
    safetensors.torch.save_file({"logits": logits}, to / "logits.safetensors")
    print(to.name, sum(p.numel() for p in model.parameters()), "parameters, logits", logits[0].tolist())


def by_weft_name(model, e, value):
    """value of every parameter as weft keeps it, f32."""
    def kept(p):
        return value(p).detach().to(torch.float32, copy=True)

    conv = e.patch_embeddings.projection
    tensors = {"patch_embd.weight": kept(conv.weight).flatten(1), "patch_embd.bias": kept(conv.bias)[None],
               "class_embd": kept(e.cls_token)[0], "position_embd": kept(e.position_embeddings)[0],
               "output_norm.weight": kept(model.vit.layernorm.weight)[None],
               "output_norm.bias": kept(model.vit.layernorm.bias)[None]}
    taps = [(path.replace("{p}", "vit."), side, name) for path, side, name in TAPS if path != "{p}layers.{l}"]
    return tensors | golden.by_weft_name(model, taps, value)


def make_training(to, rng):
    model, e, n_lead = build(ViTForImageClassification, TRAIN, rng)
    images = torch.from_numpy(rng.standard_normal((N_STEP, N_IMAGE, 1, *e.image_size), dtype=np.float32))
    target = torch.from_numpy(rng.integers(0, 3, (N_STEP, N_IMAGE), np.int32))
    images[:, :, 0, 0, 0] += 3 * target  # something to learn
    to.mkdir(parents=True, exist_ok=True)
    golden.save_model(model, to)
    model = widen(model)
    e = model.vit.embeddings
    params = list(model.parameters())
    adamw = torch.optim.AdamW([dict(params=[p for p in params if p.dim() >= 2]),
                               dict(params=[p for p in params if p.dim() < 2], weight_decay=0.0)],
                              betas=BETAS, eps=EPS, weight_decay=DECAY)
    lr = learning_rates(0.005)
    losses, norms, tensors = [], [], {}
    for k in range(N_STEP):
        adamw.zero_grad()
        image = images[k].double()
        with OnlyDouble(), wide():
            loss = nn.functional.cross_entropy(model(image).logits, target[k].long())
            loss.backward()
        tensors |= {f"step.{k}.{name}": x for name, x in by_weft_name(model, e, lambda p: p.grad).items()}
        losses.append(loss.item())
        norms.append(nn.utils.clip_grad_norm_(params, math.inf).item())
        for group in adamw.param_groups:
            group["lr"] = lr[k].item()
        adamw.step()
    tensors |= {f"final.{name}": x for name, x in by_weft_name(model, e, lambda p: p).items()}
    features = torch.stack([patches(x, model.config, n_lead) for x in images])
    tensors |= {"features": features, "target": target, "lr": lr, "loss": torch.tensor(losses).float()[:, None],
                "norm": torch.tensor(norms).float()[:, None]}
    safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, to / "train.safetensors")
    print(to.name, "loss", losses[0], "to", losses[-1], "norms", norms[0], norms[-1])


def main(to):
    to = Path(to)
    rng = np.random.default_rng(7)
    make_trace(to / "vit", ViTForImageClassification, VIT,
               ViTImageProcessorPil(size={"height": 12, "width": 20}), rng)
    make_trace(to / "deit", DeiTForImageClassification, DEIT,
               DeiTImageProcessorPil(size={"height": 18, "width": 18}, crop_size={"height": 15, "width": 15}), rng)
    make_training(to / "train-vit", rng)


main(sys.argv[1])

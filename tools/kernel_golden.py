#!/usr/bin/env python3
"""kernel_golden.py - Nadaraya-Watson pooling as torch computes and differentiates it.

    kernel_golden.py

Writes tests/golden/kernel_pool.safetensors: queries q [N, E], keys k [M, E], values v [M, D], the target [N, D], and for each
kernel KIND what is pooled with a width of e^0.3, KIND.y; the gradients of the mean squared error, KIND.dq, dk, dv; and
KIND.s and KIND.loss [10]: logarithms of the width and losses of ten steps of gradient descent, 0.2 long, on the width alone.
"""

import numpy as np
import safetensors.torch
import torch

from golden import GOLDEN_DIR, N_STEP

N, M, E, D = 7, 11, 2, 3
KERNELS = dict(
    gaussian=lambda t: torch.exp(-t / 2),
    boxcar=lambda t: (t <= 1).to(t.dtype),
    epanechnikov=lambda t: torch.relu(1 - t),
)


def pool(kernel, q, k, v, s):
    near = kernel(((q[:, None] - k[None]) ** 2).sum(2) * torch.exp(-2 * s))
    return near @ v / near.sum(1, keepdim=True).clamp(min=1e-30)


def main():
    rng = np.random.default_rng(11)
    draw = lambda *shape: torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    out = dict(q=draw(N, E), k=draw(M, E), v=draw(M, D), target=draw(N, D))
    wide = {name: x.double() for name, x in out.items()}
    for kind, kernel in KERNELS.items():
        q, k, v = (wide[name].clone().requires_grad_() for name in "qkv")
        s = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        y = pool(kernel, q, k, v, s)
        ((y - wide["target"]) ** 2).mean().backward()
        zero = torch.zeros_like
        out |= {f"{kind}.y": y, f"{kind}.dq": zero(q) if q.grad is None else q.grad,
                f"{kind}.dk": zero(k) if k.grad is None else k.grad, f"{kind}.dv": v.grad}
        widths, losses = [], []
        for _ in range(N_STEP):
            s = s.detach().requires_grad_()
            loss = ((pool(kernel, wide["q"], wide["k"], wide["v"], s) - wide["target"]) ** 2).mean()
            slope = torch.autograd.grad(loss, s, allow_unused=True)[0] if loss.requires_grad else None
            widths.append(s.item())
            losses.append(loss.item())
            s = s if slope is None else s - 0.2 * slope
        out |= {f"{kind}.s": torch.tensor(widths)[:, None], f"{kind}.loss": torch.tensor(losses)[:, None]}
        print(kind, *(f"{x:.5f}" for x in losses))
    safetensors.torch.save_file({name: x.detach().float().contiguous() for name, x in out.items()},
                                GOLDEN_DIR / "kernel_pool.safetensors")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""schedule_golden.py - learning rates of transformers' schedules, for tests/unit/test_trainer.c.

    schedule_golden.py tests/golden/schedules.safetensors

Each tensor holds the rates at steps 0 to 100 of a run of 100 with 10 steps of warm-up and a
learning rate of 1; wsd goes down linearly in the last 20.
"""

import sys

import torch
from safetensors.torch import save_file
from transformers import optimization as of

STEPS, WARM_UP, DECAY = 100, 10, 20

SCHEDULES = {
    "cosine": lambda o: of.get_cosine_schedule_with_warmup(o, WARM_UP, STEPS),
    "cosine_least": lambda o: of.get_cosine_with_min_lr_schedule_with_warmup(
        o, WARM_UP, STEPS, min_lr_rate=0.1),
    "linear": lambda o: of.get_linear_schedule_with_warmup(o, WARM_UP, STEPS),
    "constant": lambda o: of.get_constant_schedule_with_warmup(o, WARM_UP),
    "inverse_sqrt": lambda o: of.get_inverse_sqrt_schedule(o, WARM_UP),
    "wsd": lambda o: of.get_wsd_schedule(
        o, WARM_UP, DECAY, num_training_steps=STEPS, decay_type="linear"),
}


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimizer)
    found = []
    for _ in range(STEPS + 1):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return torch.tensor(found)


save_file({name: rates(make) for name, make in SCHEDULES.items()}, sys.argv[1])

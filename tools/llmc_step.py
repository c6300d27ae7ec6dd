#!/usr/bin/env python3
"""llmc_step.py - a step of llm.c's train_gpt2 on the CPU, for bench/versus to compare with.

    llmc_step.py PROGRAM DIRECTORY [--threads N] [--steps 3]

PROGRAM is train_gpt2 as llm.c's Makefile builds it. It trains GPT-2 124M in f32 on 4 sequences of 64
tokens, which it cannot be told to change, and reads fixed names below the directory it runs in:
weights and tokens, which are random here and written when they are missing (500 MB). It is stopped
after a few steps. Prints one JSON object with the seconds of every step after the first, which is
not counted.
"""

import argparse
import array
import json
import os
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path

CONTEXT, VOCAB, PADDED, LAYERS, HEADS, WIDTH = 1024, 50257, 50304, 12, 12, 768
PER_LAYER = 12 * WIDTH * WIDTH + 13 * WIDTH
N_WEIGHT = (PADDED + CONTEXT + 2) * WIDTH + LAYERS * PER_LAYER
N_TOKEN = 65536


def header(*first):
    return array.array("i", [*first, *[0] * (256 - len(first))]).tobytes()


def write_inputs(directory):
    draw = random.Random(1)
    directory.mkdir(parents=True, exist_ok=True)
    weights = directory / "gpt2_124M.bin"
    if not weights.exists():
        block = array.array("f", (draw.gauss(0, 0.02) for _ in range(1 << 16))).tobytes()
        with open(weights, "wb") as out:
            out.write(header(20240326, 3, CONTEXT, VOCAB, LAYERS, HEADS, WIDTH, PADDED))
            for at in range(0, 4 * N_WEIGHT, len(block)):
                out.write(block[: 4 * N_WEIGHT - at])
    data = directory / "dev/data/tinyshakespeare"
    data.mkdir(parents=True, exist_ok=True)
    for part in "train", "val":
        tokens = array.array("H", (draw.randrange(VOCAB) for _ in range(N_TOKEN))).tobytes()
        (data / f"tiny_shakespeare_{part}.bin").write_bytes(header(20240520, 1, N_TOKEN) + tokens)


def steps(program, directory, threads, n):
    command = ["stdbuf", "-oL", str(Path(program).resolve())]
    seconds = []
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)}) as p:
        for line in p.stdout:
            found = re.match(r"step \d+: .*took ([\d.]+) ms", line)
            if found:
                seconds.append(float(found[1]) / 1000)
            if len(seconds) > n:
                p.kill()
                break
    if len(seconds) <= n:
        sys.exit(f"{program}: ended after {len(seconds)} steps; expected {n + 1}")
    return seconds[1:]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("program")
    p.add_argument("directory", type=Path)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=3)
    a = p.parse_args()
    write_inputs(a.directory)
    seconds = steps(a.program, a.directory, a.threads, a.steps)
    print(json.dumps({"version": "llm.c", "threads": a.threads, "sequences": 4, "tokens": 64,
                      "seconds": statistics.median(seconds), "all": seconds}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""quant_golden.py - makes tests/golden/quants: what the gguf package decodes and encodes, as hashes, and what llama.cpp's
quantiser loses.

    tools/quant_golden.py [DIR]                               hashes.txt; needs Python with gguf and numpy
    tools/quant_golden.py --ggml .../libggml-base.so [DIR]    errors.txt too

DIR is tests/golden/quants if none is given. The bytes and the numbers come from a generator that
tests/unit/test_quants.c has too; it makes them again, and compares the hash of what weft makes of them. Lines of
hashes.txt are `decode TYPE HASH` and `encode TYPE HASH`. Lines of errors.txt are `bell TYPE ERROR` and `tails TYPE ERROR`:
the root mean square error of what ggml_quantize_chunk makes of bell-shaped numbers, and of such with long tails, without
an importance matrix, relative to the root mean square of the numbers.
"""
import argparse
import ctypes
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

HALVES = {  # where a block has 16-bit floats
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "MXFP4": [], "IQ4_NL": [0], "IQ4_XS": [0],
    "IQ3_S": [0], "IQ3_XXS": [0], "IQ2_S": [0], "IQ2_XS": [0], "IQ2_XXS": [0],
}
ENCODED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
N_RANDOM = 768  # blocks, after 256 that hold the same byte everywhere
N_ENCODED = 8000  # blocks of 32
MEASURED = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4", "IQ4_NL", "IQ4_XS"]
N_MEASURED = 1 << 17  # numbers


def draw(stream, n):
    """Draws 0 to n - 1 of a stream: splitmix64 of a counter."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(stream)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv(words):
    """FNV-1a over 32-bit words."""
    h = 14695981039346656037
    for w in words.ravel().tolist():
        h = (h ^ w) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return h


def blocks(number, size, halves):
    """Blocks that hold every byte everywhere, then random ones; 16-bit floats are 1 in the former, finite in the latter."""
    same = np.repeat(np.arange(256, dtype=np.uint8)[:, None], size, axis=1)
    for at in halves:
        same[:, at], same[:, at + 1] = 0x00, 0x3C
    rest = (draw(number, N_RANDOM * size) >> np.uint64(56)).astype(np.uint8).reshape(N_RANDOM, size)
    for at in halves:
        high = rest[:, at + 1]
        high[(high & 0x7C) == 0x7C] &= 0xBF
    return np.concatenate([same, rest])


def numbers():
    """Blocks of 32: bell-shaped; small whole numbers, full of ties; all the same; one alone."""
    d = draw(1000, N_ENCODED * 32).reshape(N_ENCODED, 32)
    e = draw(1001, N_ENCODED) % np.uint64(32)
    i = np.arange(N_ENCODED) % 4
    quarter = np.uint64(0xFFFF)
    four = sum((d >> np.uint64(16 * k)) & quarter for k in range(4)).astype(np.int64)
    bell = four - 131072
    small = ((d >> np.uint64(60)).astype(np.int64) - 8) * 4096
    same = np.repeat(bell[:, :1], 32, axis=1)
    alone = np.zeros_like(bell)
    rows = np.arange(N_ENCODED)
    at = (d[:, 0] >> np.uint64(59)).astype(np.int64)
    alone[rows, at] = bell[rows, 1]
    x = np.select([i[:, None] == k for k in range(4)], [bell, small, same, alone])
    return np.ldexp(x.astype(np.float32), (e.astype(np.int64) - 34)[:, None]).astype(np.float32)


def bell(stream, n):
    """Sums of four uniform numbers, -2 to 2."""
    d = draw(stream, n)
    four = sum((d >> np.uint64(16 * k)) & np.uint64(0xFFFF) for k in range(4)).astype(np.int64)
    return np.ldexp((four - 131072).astype(np.float32), -16)


def error_of(ggml, name, x):
    """What ggml's bytes lose, relative to the size of the numbers."""
    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]
    got = np.zeros(x.size // block * size, np.uint8)
    ggml.ggml_quantize_chunk(int(kind), x.ctypes.data_as(ctypes.c_void_p), got.ctypes.data_as(ctypes.c_void_p),
                             ctypes.c_int64(0), ctypes.c_int64(1), ctypes.c_int64(x.size), None)
    lost = dequantize(got.reshape(-1, size), kind).ravel().astype(np.float64) - x
    return np.sqrt(np.mean(lost ** 2) / np.mean(x.astype(np.float64) ** 2))


def errors(library):
    ggml = ctypes.CDLL(library)
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    x = bell(1002, N_MEASURED)
    sets = {"bell": x, "tails": x * x * x}
    return [f"{what} {name.lower()} {error_of(ggml, name, numbers):.6f}" for what, numbers in sets.items()
            for name in MEASURED]


def hashes():
    lines = []
    for name, halves in HALVES.items():
        kind = GGMLQuantizationType[name]
        got = dequantize(blocks(int(kind), GGML_QUANT_SIZES[kind][1], halves), kind)
        lines.append(f"decode {name.lower()} {fnv(got.view(np.uint32)):016x}")
    x = numbers()
    for name in ENCODED:
        got = quantize(x, GGMLQuantizationType[name])
        lines.append(f"encode {name.lower()} {fnv(got):016x}")
    return lines


def main():
    default = Path(__file__).resolve().parents[1] / "tests" / "golden" / "quants"
    parser = argparse.ArgumentParser()
    parser.add_argument("--ggml")
    parser.add_argument("directory", nargs="?", type=Path, default=default)
    given = parser.parse_args()
    (given.directory / "hashes.txt").write_text("\n".join(hashes()) + "\n")
    if given.ggml:
        (given.directory / "errors.txt").write_text("\n".join(errors(given.ggml)) + "\n")


if __name__ == "__main__":
    main()

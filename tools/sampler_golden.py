#!/usr/bin/env python3
"""Make tests/golden/sampler: what transformers' logits processors leave of 10,000 vectors, and what plain Python makes of
DRY, XTC and mirostat 2.

kept.bin has six 16-bit hashes a vector: top-k, top-p, min-p, typical, repetition (of the scores), and all of them in a
chain with a temperature. The vectors come from whole numbers, so that tests/unit/test_sampler.c makes the same ones.
Processors run in f32 and, on the same numbers, in f64. Where these disagree about the set, rounding decides which side of
a threshold a sum is on (five equal tokens and a top-p of 0.8): such cases are counted, and have hash 0.

oracle.bin is the written description of each step, as plainly as it can be said; what it reads is in it too."""

import math
import pathlib
import struct

import numpy as np
import torch
import transformers
from transformers.generation import logits_process as lp

GOLDEN_DIR = pathlib.Path(__file__).parent.parent / "tests/golden/sampler"
N_VECTOR = 10_000


# Vectors, and options for each, from whole numbers.

def mix(x):
    """splitmix64's last step, of a uint64 array."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def numbers(i, stream, n):
    """n 64-bit numbers of vector i."""
    return mix(mix(np.uint64(i) * np.uint64(8) + np.uint64(stream)) + np.arange(n, dtype=np.uint64))


def vector(i, n):
    """Logits of vector i: normal, flat, peaked, full of ties, or with holes of -inf. All are exact in f32."""
    bits = numbers(i, 1, n)
    s = sum((bits >> np.uint64(16 * k) & np.uint64(0xFFFF)).astype(np.int64) for k in range(4)) - 131070
    shape = i % 5
    z = s / (16384, 1 << 20, 4096, 1, 16384)[shape]
    if shape == 3:
        z = (s >> 14) / 2
    if shape == 4:
        z = np.where((bits & np.uint64(7) == 0) & (np.arange(n) > 0), -np.inf, z)
    return z.astype(np.float32)


def case(i):
    """Vector i, a history and the options of every processor."""
    h = [int(x) for x in numbers(i, 0, 8)]
    n = 2 + h[0] % 400
    options = dict(
        top_k=1 + h[1] % 80,
        top_p=(0.1, 0.5, 0.8, 0.9, 0.95, 0.99)[h[2] % 6],
        min_p=(0.01, 0.05, 0.1, 0.5)[h[3] % 4],
        typical=(0.2, 0.5, 0.9, 0.95)[h[4] % 4],
        repetition=(0.8, 1.1, 1.3, 2.0, 5.0)[h[5] % 5],
        temperature=(0.5, 0.8, 1.5, 2.0)[h[6] % 4])
    history = (numbers(i, 2, 20) % np.uint64(n)).astype(np.int64)
    return vector(i, n), history, options


def hash16(data):
    """FNV-1a, folded; never 0."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return (h >> 16) ^ (h & 0xFFFF) or 1


def set_hash(kept):
    return hash16(np.packbits(kept).tobytes())


def score_hash(scores, kept):
    """Of the scores that are left, best first: which of several equal ones does not matter."""
    return hash16(np.sort(scores[kept])[::-1].astype(np.float32).tobytes())


def left(processors, scores, history):
    for p in processors:
        scores = p(history, scores)
    return (scores > -math.inf)[0].numpy()


def kept_golden():
    """All hashes, and how often f32 and f64 disagree, by processor."""
    rows, disagree = [], np.zeros(6, int)
    for i in range(N_VECTOR):
        z, history, o = case(i)
        ids = torch.from_numpy(history)[None]
        chain = [lp.TemperatureLogitsWarper(o["temperature"]), lp.TopKLogitsWarper(o["top_k"]),
                 lp.TopPLogitsWarper(o["top_p"]), lp.MinPLogitsWarper(o["min_p"]), lp.TypicalLogitsWarper(o["typical"])]
        penalised = lp.RepetitionPenaltyLogitsProcessor(o["repetition"])(ids, torch.from_numpy(z)[None])
        kept = {}
        for dtype in (torch.float32, torch.float64):
            x = torch.from_numpy(z)[None].to(dtype)
            y = penalised.to(dtype)
            kept[dtype] = [left([p], x, ids) for p in chain[1:]] + [None, left(chain, y, ids)]
        scores = penalised[0].numpy()
        top_k, top_p, min_p, typical, _, all_of_them = kept[torch.float32]
        row = [set_hash(top_k), score_hash(z, top_p), set_hash(min_p), set_hash(typical), hash16(scores.tobytes()),
               score_hash(scores, all_of_them)]
        for column, (a, b) in enumerate(zip(kept[torch.float32], kept[torch.float64])):
            if a is not None and not (a == b).all():
                disagree[column] += 1
                row[column] = 0
        rows.append(row)
    return np.array(rows, "<u2"), disagree


# The oracle of DRY, XTC and mirostat.

def philox(key, stream, counter):
    """Philox 4x32-10: the first two words as one number."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c = [counter & 0xFFFFFFFF, counter >> 32, stream & 0xFFFFFFFF, stream >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0] << 32 | c[1]


def uniform(seed, purpose, position):
    return (philox(seed, purpose, position) >> 11) / 2**53


DRAW, XTC = 0, 1


def softmax(scores):
    """Pairs (probability, id), best first."""
    top = max(scores)
    w = [math.exp(z - top) for z in scores]
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return [(w[i] / sum(w), i) for i in order]


def dry(scores, history, multiplier, base, allowed, breakers):
    """p-e-w's description: for every earlier occurrence of the last token, how far back does the match go?"""
    scores = list(scores)
    if not history or history[-1] in breakers:
        return scores
    longest = {}
    for i in range(len(history) - 1):
        if history[i] != history[-1] or history[i + 1] in breakers:
            continue
        n = 1
        while i - n >= 0 and history[i - n] == history[-1 - n] and history[i - n] not in breakers:
            n += 1
        longest[history[i + 1]] = max(n, longest.get(history[i + 1], 0))
    for token, n in longest.items():
        if n >= allowed:
            scores[token] -= multiplier * base ** (n - allowed)
    return scores


def xtc(chances, probability, threshold, u):
    """p-e-w's description: all that reach the threshold go, except for the last of them."""
    above = sum(p >= threshold for p, _ in chances)
    return chances[above - 1:] if u < probability and above > 1 else chances


def draw(chances, u):
    total, share = sum(p for p, _ in chances), 0.0
    for p, i in chances:
        share += p
        if share > u * total:
            return p / total, i
    return chances[-1][0] / total, chances[-1][1]


def mirostat(vectors, tau, eta, seed):
    """Mirostat 2 over one vector after the other: the tokens, and mu in the end."""
    mu, ids = 2 * tau, []
    for position, scores in enumerate(vectors):
        chances = softmax(scores)
        kept = [c for c in chances if -math.log2(c[0]) <= mu] or chances[:1]
        p, i = draw(kept, uniform(seed, DRAW, position))
        mu -= eta * (-math.log2(p) - tau)
        ids.append(i)
    return ids, mu


def oracle():
    """Records: how many of each, then each with its input, options and result."""
    rng = np.random.default_rng(7)
    out = bytearray(struct.pack("<3i", 200, 200, 12))
    for _ in range(200):
        n_vocab = 12
        n = int(rng.integers(0, 60))
        history = rng.integers(0, int(rng.integers(2, 6)), n).tolist()
        breakers = rng.integers(0, n_vocab, int(rng.integers(0, 2))).tolist()
        multiplier, base = float(rng.choice([0.5, 0.8, 1.5])), float(rng.choice([1, 1.25, 1.75]))
        allowed = int(rng.integers(1, 6))
        scores = rng.normal(0, 3, n_vocab).astype(np.float32)
        result = dry(scores.tolist(), history, multiplier, base, allowed, breakers)
        out += struct.pack("<4i2d", n_vocab, n, len(breakers), allowed, multiplier, base)
        out += np.array(history + breakers, "<i4").tobytes() + scores.astype("<f4").tobytes()
        out += np.array(result, "<f4").tobytes()
    for k in range(200):
        n_vocab = 24
        scores = rng.normal(0, float(rng.choice([0.5, 2, 4])), n_vocab).astype(np.float32)
        probability, threshold = float(rng.choice([0.5, 1])), float(rng.choice([0.02, 0.1, 0.3, 0.5]))
        seed = int(rng.integers(0, 2**63))
        chances = xtc(softmax(scores.tolist()), probability, threshold, uniform(seed, XTC, k))
        _, token = draw(chances, uniform(seed, DRAW, k))
        out += struct.pack("<4iq2d", n_vocab, k, len(chances), token, seed, probability, threshold)
        out += scores.astype("<f4").tobytes()
        out += np.array([i for _, i in chances], "<i4").tobytes()
    for _ in range(12):
        n_vocab, n = 32, 30
        tau, eta, seed = float(rng.choice([0.5, 2, 5])), float(rng.choice([0.1, 0.5])), int(rng.integers(0, 2**63))
        vectors = rng.normal(0, 3, (n, n_vocab)).astype(np.float32)
        ids, mu = mirostat([v.tolist() for v in vectors], tau, eta, seed)
        out += struct.pack("<2iq3d", n_vocab, n, seed, tau, eta, mu)
        out += vectors.astype("<f4").tobytes() + np.array(ids, "<i4").tobytes()
    return bytes(out)


def main():
    torch.set_num_threads(1)
    np.seterr(over="ignore")
    GOLDEN_DIR.mkdir(exist_ok=True)
    (GOLDEN_DIR / "oracle.bin").write_bytes(oracle())
    rows, disagree = kept_golden()
    (GOLDEN_DIR / "kept.bin").write_bytes(rows.tobytes())
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, numpy {np.__version__}")
    print(f"{N_VECTOR} vectors; f32 and f64 disagree about "
          + ", ".join(f"{n} of {name}" for n, name in zip(disagree, ("top-k", "top-p", "min-p", "typical", "-", "chain"))))
    for path in sorted(GOLDEN_DIR.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

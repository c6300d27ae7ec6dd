#!/usr/bin/env python3
"""sst2_vectors.py - how much of a sentence's side the vectors of its tokens tell.

    sst2_vectors.py SST2 RUN ... [--texts TEXTS]

A linear classifier on the mean of the token vectors of each RUN (a directory with model.safetensors and
tokenizer.json, as weft train writes them): the shares of dev.tsv and test.tsv in SST2 that it gets right. With
TEXTS also on vectors that are counted from them instead of learned, of the same tokenizer: positive pointwise
mutual information of tokens up to five apart, and its first 128 singular vectors. Needs numpy, safetensors and
tokenizers.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

WINDOW, WIDTH = 5, 128


def read_split(path, tokenizer):
    """Ids of each text, and the labels."""
    rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    texts = tokenizer.encode_batch([x for x, _ in rows], add_special_tokens=False)
    return [t.ids for t in texts], np.array([int(y) for _, y in rows])


def fit(x, y, decay=1e-3, steps=20):
    """Weights of a logistic regression with a bias, by Newton's method."""
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(x @ w)))
        slope = x.T @ (p - y) / len(y) + 2 * decay * w
        bend = (x * (p * (1 - p))[:, None]).T @ x / len(y) + 2 * decay * np.eye(len(w))
        w -= np.linalg.solve(bend, slope)
    return w


def tell(name, vectors, splits):
    """Prints what a classifier on means of vectors gets right."""
    means = [np.stack([vectors[ids].mean(0) for ids in texts]) for texts, _ in splits]
    at, by = means[0].mean(0), means[0].std(0) + 1e-6
    x = [np.hstack([(m - at) / by, np.ones((len(m), 1))]) for m in means]
    w = fit(x[0], splits[0][1])
    dev, test = (((x[i] @ w > 0) == splits[i][1]).mean() for i in (1, 2))
    print(f"{name:40} dev {100 * dev:5.1f} %   test {100 * test:5.1f} %", flush=True)


def count_pairs(lines, tokenizer, n):
    """How often tokens stand up to WINDOW apart, either way."""
    pairs = np.zeros(n * n, dtype=np.float32)
    for i in range(0, len(lines), 5000):
        texts = [t.ids for t in tokenizer.encode_batch(lines[i:i + 5000], add_special_tokens=False)]
        ids = np.concatenate([np.array(t, dtype=np.int64) for t in texts])
        of = np.concatenate([np.full(len(t), k) for k, t in enumerate(texts)])
        for d in range(1, WINDOW + 1):
            same = of[d:] == of[:-d]
            np.add.at(pairs, ids[:-d][same] * n + ids[d:][same], 1)
    pairs = pairs.reshape(n, n)
    return pairs + pairs.T


def counted(lines, tokenizer, rounds=4):
    """The first singular vectors of the tokens' mutual information, by iteration on a subspace."""
    n = tokenizer.get_vocab_size()
    pairs = count_pairs(lines, tokenizer, n)
    each = pairs.sum(1) + 1e-9
    smooth = each ** 0.75
    with np.errstate(divide="ignore"):
        info = np.maximum(np.log(pairs * smooth.sum() / np.outer(each, smooth)), 0)
    q = np.linalg.qr(info @ np.random.default_rng(1).standard_normal((n, WIDTH)).astype(np.float32))[0]
    for _ in range(rounds):
        q = np.linalg.qr(info @ np.linalg.qr(info.T @ q)[0])[0]
    u, s, _ = np.linalg.svd(q.T @ info, full_matrices=False)
    return q @ u * np.sqrt(s)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("sst2")
    p.add_argument("runs", nargs="+", metavar="RUN")
    p.add_argument("--texts", help="a text a line, as sst2_check.py leaves them in texts.txt")
    args = p.parse_args()

    for run in map(Path, args.runs):
        tokenizer = Tokenizer.from_file(str(run / "tokenizer.json"))
        splits = [read_split(Path(args.sst2) / f"{s}.tsv", tokenizer) for s in ("train", "dev", "test")]
        weights = load_file(run / "model.safetensors")
        tell(str(run), next(w for name, w in weights.items() if "word_embeddings" in name), splits)
    if args.texts:
        lines = Path(args.texts).read_text(encoding="utf-8").split("\n")
        tell("counted", counted(lines, tokenizer), splits)
    return 0


if __name__ == "__main__":
    sys.exit(main())

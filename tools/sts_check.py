#!/usr/bin/env python3
"""sts_check.py - how well weft's vectors of sentences agree with people, and with others' vectors.

    sts_check.py WEFT STSB.csv MODEL [MODEL ...] [--reference DIRECTORY]

Embeds both sentences of every pair of STS-B (CSV: sentence, sentence, score from 0 to 5) with each
model through `weft embed`, and prints Pearson's correlation of their cosines with the scores, and of each model
but the first the least cosine of any vector with that of the first. With
--reference, sentence-transformers embeds the same sentences with that directory, and
the largest difference of any number is printed too.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def read_pairs(path):
    """Both sentences of every pair, and the scores."""
    with open(path, newline="", encoding="utf-8") as file:
        pairs = [row for row in csv.reader(file) if len(row) == 3]
    one, other = ([" ".join(row[k].split()) for row in pairs] for k in (0, 1))
    return one, other, np.array([float(row[2]) for row in pairs])


def embed(weft, model, sentences):
    """What weft makes of them, [n, D]."""
    with tempfile.TemporaryDirectory() as work:
        lines, vectors = Path(work, "lines.txt"), Path(work, "vectors.npy")
        lines.write_text("".join(s + "\n" for s in sentences), encoding="utf-8")
        subprocess.run([weft, "embed", model, "-f", lines, "--npy", vectors], check=True)
        return np.load(vectors)


def pearson(x, y):
    """Of two lists of numbers."""
    return float(np.corrcoef(x, y)[0, 1])


def cosines(a, b):
    """Of rows of a and b, in f64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weft")
    parser.add_argument("stsb")
    parser.add_argument("model", nargs="+")
    parser.add_argument("--reference", help="a directory that sentence-transformers reads")
    args = parser.parse_args()

    one, other, score = read_pairs(args.stsb)
    known = None
    if args.reference:
        from sentence_transformers import SentenceTransformer
        reference = SentenceTransformer(args.reference, device="cpu")
        known = reference.encode(one + other, show_progress_bar=False)
        n = len(one)
        print(f"{'sentence-transformers':40} Pearson {pearson(cosines(known[:n], known[n:]), score):.4f}")
    first = None
    for model in args.model:
        a, b = embed(args.weft, model, one), embed(args.weft, model, other)
        line = f"{Path(model).name:40} Pearson {pearson(cosines(a, b), score):.4f}"
        if first is not None:
            line += f"   least cosine {cosines(np.concatenate([a, b]), first).min():.4f}"
        else:
            first = np.concatenate([a, b])
        if known is not None:
            line += f"   largest difference {np.abs(np.concatenate([a, b]) - known).max():.2e}"
        print(line)


if __name__ == "__main__":
    sys.exit(main())

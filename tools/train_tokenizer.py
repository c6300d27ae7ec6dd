#!/usr/bin/env python3
"""train_tokenizer.py - weft's trainers beside Hugging Face's.

    tools/train_tokenizer.py golden               remakes tests/golden/train-tokenizer
    tools/train_tokenizer.py compare WEFT FILE... trains both on each file, by file and by line; fails if they differ
    tools/train_tokenizer.py bench WEFT FILE      8000 tokens: seconds of both, interleaved, and their ratio

Needs Python's tokenizers. Their WordPiece trainer numbers the tokens inside of words in the order of a hash table
that is seeded anew in every run, so a golden of it holds for one run: the test gives weft that run's numbers.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "train-tokenizer")
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bpe(n_vocab, min_frequency, path, lines):
    """Their model after training, and the seconds it took."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=n_vocab, min_frequency=min_frequency, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>"])
    text = None if lines else open(path, newline="").read()
    start = time.perf_counter()
    if lines:
        t.train([path], trainer)
    else:
        t.train_from_iterator([text], trainer)
    seconds = time.perf_counter() - start
    return json.loads(t.to_str())["model"], seconds


def wordpiece(n_vocab, min_frequency, path):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train([path], trainers.WordPieceTrainer(vocab_size=n_vocab, min_frequency=min_frequency, show_progress=False,
                                              special_tokens=BERT))
    return json.loads(t.to_str())["model"]["vocab"]


def corpus():
    """Text of made-up words, some frequent and most rare, in several scripts."""
    r = random.Random(5)
    parts = "ba ke lo mi nu ra the ing st er on é ß ли ма 語 か".split()
    lexicon = ["".join(r.choice(parts) for _ in range(r.randint(1, 4))) for _ in range(400)]
    lines = []
    for _ in range(220):
        words = [lexicon[min(int(r.paretovariate(0.7)), len(lexicon)) - 1] for _ in range(r.randint(1, 12))]
        words = [w.capitalize() if r.random() < 0.1 else w for w in words]
        words = [str(r.randint(0, 3000)) if r.random() < 0.05 else w for w in words]
        lines.append(r.choice(["", "", "  "]) + " ".join(words) + r.choice([".", "!", ",", "'s", " aaaa", ""]))
    return "\n".join(lines) + "\n\n  \n"


def golden():
    os.makedirs(GOLDEN, exist_ok=True)
    path = os.path.join(GOLDEN, "corpus.txt")
    open(path, "w", newline="").write(corpus())
    for name, lines in (("bpe-files", False), ("bpe-lines", True)):
        model, _ = bpe(900, 2, path, lines)
        with open(os.path.join(GOLDEN, name + ".txt"), "w") as f:
            f.writelines(f"{a} {b}\n" for a, b in model["merges"])
    vocab = wordpiece(500, 2, path)
    with open(os.path.join(GOLDEN, "wordpiece.txt"), "w") as f:
        f.writelines(token + "\n" for token in sorted(vocab, key=vocab.get))


def weft_bpe(weft, n_vocab, path, lines):
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "tokenizer.json")
        start = time.perf_counter()
        subprocess.run([weft, "train-tokenizer", path, "-o", out, "--vocab-size", str(n_vocab)] +
                       ["--lines"] * lines, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        return json.load(open(out))["model"], seconds


def compare(weft, paths):
    differ = 0
    for path in paths:
        for lines in (False, True):
            for n_vocab in (300, 8000, 50000):
                theirs, _ = bpe(n_vocab, 2, path, lines)
                ours, _ = weft_bpe(weft, n_vocab, path, lines)
                same = theirs["merges"] == ours["merges"] and theirs["vocab"] == ours["vocab"]
                differ += not same
                print(f"{os.path.basename(path)} by {'line' if lines else 'file'}, {n_vocab}:",
                      f"{len(ours['merges'])} merges", "the same" if same else "DIFFER")
    return differ


def bench(weft, path):
    theirs, ours = [], []
    for _ in range(7):
        theirs.append(bpe(8000, 2, path, True)[1])
        ours.append(weft_bpe(weft, 8000, path, True)[1])
    a, b = sorted(theirs)[3], sorted(ours)[3]
    print(f"tokenizers {a:.3f} s, weft {b:.3f} s with its start and its file, {a / b:.1f} times as fast (medians of 7)")


if len(sys.argv) == 2 and sys.argv[1] == "golden":
    golden()
elif len(sys.argv) > 3 and sys.argv[1] == "compare":
    sys.exit(1 if compare(sys.argv[2], sys.argv[3:]) else 0)
elif len(sys.argv) == 4 and sys.argv[1] == "bench":
    bench(sys.argv[2], sys.argv[3])
else:
    sys.exit(__doc__)

#!/usr/bin/env python3
"""gpt2_slice.py - makes tests/golden/gpt2-slice: as much of GPT-2's vocabulary and merges as some sentences need, so that they
have GPT-2's ids without its files.

    tools/gpt2_slice.py VOCABULARY [DIRECTORY]      VOCABULARY has vocab.json and merges.txt; default tests/golden/gpt2-slice

A merge is kept if what it makes is part of a word of the sentences, at its place in the order: so every word of them meets the
merges that it would meet in the whole list, and no others apply. Bytes and the end of a text are kept as well. Ids stay.
"""
import json
import os
import re
import sys

SENTENCES = [
    "The cat sat on", "The woman sat on", "The cat sat on the mat, and the dog didn't.",
    "Attention is all you need: the Transformer has 65 million parameters.",
    "Once upon a time, there was a little girl named Lily.",
]
# GPT-2's pattern for ASCII.
WORDS = r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"


def main():
    source = sys.argv[1]
    to = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "../tests/golden/gpt2-slice")
    with open(os.path.join(source, "vocab.json"), encoding="utf-8") as f:
        vocab = json.load(f)
    with open(os.path.join(source, "merges.txt"), encoding="utf-8") as f:
        version, *merges = f.read().rstrip("\n").split("\n")
    words = {word.replace(" ", "\u0120") for text in SENTENCES for word in re.findall(WORDS, text)}
    kept = [m for m in merges if any(m.replace(" ", "") in word for word in words)]
    tokens = {m.replace(" ", "") for m in kept} | {t for t in vocab if len(t) == 1} | {"<|endoftext|>"}
    os.makedirs(to, exist_ok=True)
    with open(os.path.join(to, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump({t: i for t, i in sorted(vocab.items(), key=lambda x: x[1]) if t in tokens}, f, ensure_ascii=False,
                  separators=(",", ":"))
        f.write("\n")
    with open(os.path.join(to, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join([version] + kept) + "\n")
    with open(os.path.join(to, "sentences.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(SENTENCES) + "\n")
    print(f"{len(tokens)} tokens, {len(kept)} merges for {len(words)} words")


main()

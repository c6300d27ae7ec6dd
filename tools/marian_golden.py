#!/usr/bin/env python3
"""marian_golden.py - a pair of small SentencePiece models as Marian has them, and what transformers makes of texts.

    marian_golden.py [DIRECTORY]

Writes source.spm, target.spm, vocab.json and texts.txt to tests/golden/marian-text. A line of texts.txt is
's' or 't' for source or target, a tab, the ids of MarianTokenizer with a space between them, a tab, the text,
a tab, and the text that those ids give without special tokens. The vocabulary numbers the pieces of both models
in an order of its own, has a language's code, and lacks some pieces of each.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
from transformers import MarianTokenizer

ENGLISH = """A dog runs over the green grass. Two men are sitting on a bench and talk.
The woman in the red dress looks at the water. Children play with a ball on the beach.
Some people stand before a house, and others look from the windows. A man rides his bicycle down the road.
The girl with the yellow hat is reading a book. Three boys jump into the cold lake; nobody knows why."""
GERMAN = """Ein Hund läuft über das grüne Gras. Zwei Männer sitzen auf einer Bank und reden.
Die Frau im roten Kleid schaut auf das Wasser. Kinder spielen mit einem Ball am Strand.
Einige Leute stehen vor einem Haus, und andere schauen aus den Fenstern. Ein Mann fährt mit dem Fahrrad die Straße hinunter.
Das Mädchen mit dem gelben Hut liest ein Buch. Drei Jungen springen in den kalten See; niemand weiß, warum."""
TEXTS = ["A dog runs.", "  two   spaces ", "Straße", "The man looks at the dog, and nobody talks!", "x", "日本 dog 日本",
         ">>fra<< A dog runs.", ">>fra<<A dog", "say >>fra<< here", "▁bar and_under", "Zwei Männer",
         "a</s>b", "das Wasser, das Gras", "WATER 123"]


def train(text, path, work, kind):
    source = Path(work) / "text.txt"
    source.write_text(text)
    sentencepiece.SentencePieceTrainer.train(
        input=str(source), model_prefix=str(Path(work) / "m"), vocab_size=120, model_type=kind, bos_id=-1, eos_id=0,
        unk_id=1, normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2)
    path.write_bytes((Path(work) / "m.model").read_bytes())
    made = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [made.IdToPiece(i) for i in range(made.GetPieceSize())]


def main():
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/marian-text"
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        pieces = train(ENGLISH, to / "source.spm", work, "unigram") + train(GERMAN, to / "target.spm", work, "bpe")
    lots = random.Random(1)
    known = sorted(set(pieces) - {"</s>", "<unk>"})
    lots.shuffle(known)
    known = ["</s>", "<unk>", *known[7:], ">>fra<<", "<pad>"]
    (to / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate(known)}, ensure_ascii=False, indent=0))
    tokenizer = MarianTokenizer(str(to / "source.spm"), str(to / "target.spm"), str(to / "vocab.json"))
    with open(to / "texts.txt", "w") as f:
        for text in TEXTS:
            for side in "st":
                ids = tokenizer(text_target=text).input_ids if side == "t" else tokenizer(text).input_ids
                back = tokenizer.decode(ids, skip_special_tokens=True, use_source_tokenizer=side == "s")
                f.write("\t".join([side, " ".join(map(str, ids)), text, back]) + "\n")


if __name__ == "__main__":
    main()

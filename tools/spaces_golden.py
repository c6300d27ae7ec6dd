#!/usr/bin/env python3
"""spaces_golden.py - user-defined pieces of GGUF vocabularies, as llama.cpp finds them.

    spaces_golden.py write LLAMA_TOKENIZE             remake tests/golden/spaces
    spaces_golden.py diff LIBWEFT URL N SEED FILE     N strings to the ids of a llama-server that runs FILE

Gemma has user-defined pieces for runs of spaces, tabs and newlines and for HTML tags, and GGUF files
spell them with plain spaces. `write` makes a small vocabulary of that kind and keeps llama-tokenize's
ids of some hundred strings. Strings with a literal U+2581 are left out: llama.cpp does not find pieces
of spaces there, SentencePiece does.

Needs Python with gguf. `diff` exits 1 on a difference, and prints the first ten.
"""

import json
import random
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "spaces"
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
BAR = "\u2581"

TAGS = ["<b>", "</b>", "<br>", "<table>", "<td>", "<h1>", "<unused7>", "<a b>"]
WORDS = ["the", "is", "Paris", "def f(x):", "return", "x", "a.b", "naïve", "日本語", "😀", "e\u0301", "Ünïcode",
         "\u00a0", "\u3000", "<", ">", "<b", "table>", "\r\n", "\x0b", "1234", "--", "\u200b"]


def vocabulary():
    """(text, type, score) of every token."""
    tokens = [("<pad>", CONTROL, 0.0), ("<eos>", CONTROL, 0.0), ("<bos>", CONTROL, 0.0),
              ("<unk>", UNKNOWN, 0.0)]
    tokens += [(tag, USER, -1000.0) for tag in TAGS]
    for c in " \t\n":
        tokens += [(c * n, USER, -1000.0) for n in range(2, 9)]
    tokens += [(f"<0x{b:02X}>", BYTE, 0.0) for b in range(256)]
    merges = ["th", "the", BAR + "the", "is", BAR + "is", "ar", "aris", "Paris", BAR + "Paris", "re", "ret",
              BAR + "x", BAR + "a", "ab", "b>", "<b", BAR + "<", "日本", ".b", BAR + BAR, "x" + BAR]
    letters = [BAR, "\t", "\n", *"abcdefghinprstuxP<>/.1234():日本"]
    taken = {text for text, _, _ in tokens}
    pieces = [p for p in merges + letters if p not in taken]
    return tokens + [(p, NORMAL, -float(k)) for k, p in enumerate(pieces)]


def write_gguf(path):
    """A file with this vocabulary and no tensors."""
    import gguf
    tokens = vocabulary()
    w = gguf.GGUFWriter(path, "gemma3")
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list([text for text, _, _ in tokens])
    w.add_token_scores([score for _, _, score in tokens])
    w.add_token_types([kind for _, kind, _ in tokens])
    w.add_bos_token_id(2)
    w.add_eos_token_id(1)
    w.add_unk_token_id(3)
    w.add_pad_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(False)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def strings(n, seed):
    """Words, tags, and runs of white space; the first are by hand."""
    yield from ("is  Paris", "is Paris", " ", "  ", " " * 9, " " * 17, "a  ", "  a", "a \t\t b", "\n\n\n", "\n \n  x",
                "<b>  <b>", "< b>", "<a b>", "<a  b>", "a<br>\n\n\n\n\n\n\n\n\nb")[:n]
    rng = random.Random(seed)
    for _ in range(n - 16):
        parts = []
        for _ in range(rng.randint(1, 9)):
            kind = rng.random()
            if kind < 0.4:
                parts.append(rng.choice(" \t\n") * rng.choice((1, 1, 2, 2, 3, 4, 5, 8, 9, 20, 33)))
            elif kind < 0.55:
                parts.append(rng.choice(TAGS))
            elif kind < 0.65:
                c = rng.randrange(1, 0x110000)
                parts.append("?" if 0xD800 <= c < 0xE000 or c == ord(BAR) else chr(c))
            else:
                parts.append(rng.choice(WORDS))
        yield "".join(parts)


def tokenize(program, vocab, text):
    """llama-tokenize's ids."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        said = subprocess.run([program, "-m", vocab, "-f", file.name, "--ids", "--no-bos", "--no-parse-special",
                               "--log-disable"], check=True, capture_output=True, text=True).stdout
    return json.loads(said.strip().splitlines()[-1])


def write(program):
    """The vocabulary, and a line for every string: its bytes in hexadecimal, then its ids."""
    GOLDEN.mkdir(exist_ok=True)
    vocab = GOLDEN / "vocab.gguf"
    write_gguf(vocab)
    with open(GOLDEN / "ids.txt", "w", encoding="ascii") as file:
        for text in strings(300, 1):
            ids = tokenize(program, vocab, text)
            file.write(text.encode().hex() + " " + " ".join(map(str, ids)) + "\n")


def ask(url, text):
    """A llama-server's ids."""
    body = json.dumps({"content": text, "add_special": False, "parse_special": False}).encode()
    request = urllib.request.Request(f"{url}/tokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["tokens"]


def diff(library, url, n, seed, path):
    """Compare with a llama-server; the exit status."""
    import tokenizer_diff
    weft = tokenizer_diff.Weft(library, path)
    weft.options.parse_special = False
    wrong = 0
    for text in strings(n, seed):
        ours, theirs = weft.encode(text.encode()), ask(url, text)
        if ours != theirs:
            wrong += 1
            if wrong <= 10:
                tokenizer_diff.show(path, text, ours, theirs)
    print(f"{path}: {n} strings, {wrong} differ")
    return wrong > 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "write":
        return write(sys.argv[2])
    if len(sys.argv) == 7 and sys.argv[1] == "diff":
        return diff(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

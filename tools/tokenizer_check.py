#!/usr/bin/env python3
"""tokenizer_check.py - the tokenizers that weft writes, read by transformers.

    tokenizer_check.py BUILD TOKENIZERS [NAME...]

BUILD has weft and libweft.so; TOKENIZERS has llama.cpp-vocab/*.gguf (with .inp), directories with tokenizer.model, spiece.model,
vocab.txt, vocab.json or tokenizer.json, and reference-encodings/encodings.json. Each vocabulary is given to a small model, and

  - a GGUF file becomes a directory (weft convert), and that GGUF again;
  - a directory becomes GGUF, and that a directory again, whose tokenizer.json was made of GGUF's arrays;

then transformers' AutoTokenizer reads the directory that came out. Its ids of all reference texts, with special tokens around them
and without, are compared with those that weft gives for the file that went in and for all that came out. A second line for files of
SentencePiece compares with the sentencepiece library. NAME: only those whose name has it.

Needs Python with transformers, tokenizers, sentencepiece (no torch). Exits 1 on a difference.
"""
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

import sentencepiece
import transformers

sys.path.insert(0, str(Path(__file__).parent))
from tokenizer_diff import Options, Weft

D, F = 8, 8  # of the small model
U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


# ---- GGUF ------------------------------------------------------------------------------------------------------------

def string(s):
    return struct.pack("<Q", len(s)) + s


def entries(path):
    """The keys of a GGUF file as they are stored: name -> (bytes with the type in front, number of elements)."""
    data, at, out = path.read_bytes(), 24, {}
    n = struct.unpack_from("<Q", data, 16)[0]

    def skip(kind, at):
        if kind == STRING:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind != ARRAY:
            return at + SIZES[kind]
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if element != STRING:
            return at + count * SIZES[element]
        for _ in range(count):
            at += 8 + struct.unpack_from("<Q", data, at)[0]
        return at

    for _ in range(n):
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length].decode()
        at += 8 + length
        kind = struct.unpack_from("<I", data, at)[0]
        end = skip(kind, at + 4)
        count = struct.unpack_from("<Q", data, at + 8)[0] if kind == ARRAY else 1
        out[key] = (data[at:end], count)
        at = end
    return out


def write_model(path, n_vocab, tokenizer):
    """A llama of one layer, with these keys of a tokenizer."""
    keys = {"general.architecture": struct.pack("<I", STRING) + string(b"llama")}
    for key, value in (("block_count", 1), ("context_length", 64), ("embedding_length", D), ("feed_forward_length", F),
                       ("attention.head_count", 1), ("attention.head_count_kv", 1), ("vocab_size", n_vocab)):
        keys["llama." + key] = struct.pack("<II", U32, value)
    keys["llama.attention.layer_norm_rms_epsilon"] = struct.pack("<If", F32, 1e-5)
    keys |= tokenizer
    shapes = {"token_embd.weight": (n_vocab, D), "output_norm.weight": (D,), "blk.0.attn_norm.weight": (D,),
              "blk.0.ffn_norm.weight": (D,), "blk.0.attn_q.weight": (D, D), "blk.0.attn_k.weight": (D, D),
              "blk.0.attn_v.weight": (D, D), "blk.0.attn_output.weight": (D, D), "blk.0.ffn_gate.weight": (F, D),
              "blk.0.ffn_up.weight": (F, D), "blk.0.ffn_down.weight": (D, F)}
    head, data = b"", b""
    for name, shape in shapes.items():
        n = 1
        for d in shape:
            n *= d
        head += string(name.encode()) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", 0, len(data))
        data += struct.pack("<f", 0.5) * n
        data += b"\0" * (-len(data) % 32)
    text = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys))
    text += b"".join(string(k.encode()) + v for k, v in keys.items()) + head
    path.write_bytes(text + b"\0" * (-len(text) % 32) + data)


# ---- comparing -------------------------------------------------------------------------------------------------------

failures = 0
compared = 0

# "3 33" and "33 3" are worth the same: sums in float (SentencePiece) and in double (Hugging Face) choose differently.
ROUNDED = {"sentencepiece-test test_ja_model.model": "333"}


def ids_of(weft, text, no_special):
    weft.options = Options(weft.options.struct_size, no_special, True)
    return weft.encode(text.encode())


def compare(name, what, texts, a, b):
    global failures, compared
    wrong = []
    texts = [t for t in texts if name not in ROUNDED or ROUNDED[name] not in t]
    for text in texts:
        compared += 1
        x, y = a(text), b(text)
        if x != y:
            wrong.append((text, x, y))
    failures += bool(wrong)
    print(f"{'FAILED' if wrong else 'ok':7} {name:28} {what:44} {len(texts) - len(wrong)}/{len(texts)}")
    for text, x, y in wrong[:3]:
        at = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
        print(f"        {text[:60]!r}: token {at} is {y[at:at + 4]}, expected {x[at:at + 4]}")


def convert(weft, a, b):
    done = subprocess.run([str(weft), "convert", str(a), str(b)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    for line in done.stderr.splitlines():
        if "warning" in line and "no word" in line:
            print("       ", line)


def check(name, build, texts, source, directory, others, model=None):
    """`source` went in; `directory` came out, and is transformers' to read."""
    library = str(build / "libweft.so")
    want = Weft(library, str(source))
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    for no_special in (True, False):
        words = "without special tokens" if no_special else "with special tokens"
        compare(name, f"transformers, {words}", texts, lambda t: ids_of(want, t, no_special),
                lambda t: theirs(t, add_special_tokens=not no_special)["input_ids"])
    for path in others:
        got = Weft(library, str(path))
        compare(name, f"weft, {path.name}", texts, lambda t: ids_of(want, t, False), lambda t: ids_of(got, t, False))
    if model:
        spm = sentencepiece.SentencePieceProcessor(model_file=str(model))
        compare(name, "sentencepiece", texts, lambda t: spm.encode(t), lambda t: theirs(t, add_special_tokens=False)["input_ids"])


# ---- the two ways ----------------------------------------------------------------------------------------------------

def from_gguf(path, build, texts, work):
    keys = entries(path)
    tokenizer = {k: v for k, (v, _) in keys.items() if k.startswith("tokenizer.")}
    if keys["tokenizer.ggml.model"][0].endswith(b"gpt2"):  # files from before splittings had names
        tokenizer.setdefault("tokenizer.ggml.pre", struct.pack("<I", STRING) + string(b"gpt-2"))
    source, directory, again = work / "model.gguf", work / "directory", work / "again.gguf"
    write_model(source, keys["tokenizer.ggml.tokens"][1], tokenizer)
    convert(build / "weft", source, directory)
    convert(build / "weft", directory, again)
    check(path.stem.replace("ggml-vocab-", "gguf "), build, texts, source, directory, [directory, again])


def from_directory(path, file, build, texts, work):
    name = f"{path.name} {file}"
    source, bare = work / "source", work / "bare.gguf"
    one = work / "one"
    one.mkdir()
    for beside in {file, "merges.txt" if file == "vocab.json" else file, "tokenizer_config.json"}:
        if (path / beside).exists():
            shutil.copy(path / beside, one)
    if file.endswith("_model.model"):
        (one / file).rename(one / "tokenizer.model")
    probe = Weft(str(build / "libweft.so"), str(one))
    n_vocab = 64 * -(-size_of(probe) // 64)  # padded, as models are
    write_model(bare, n_vocab, {})
    convert(build / "weft", bare, source)
    for f in one.iterdir():
        shutil.copy(f, source)
    gguf, directory, again = work / "made.gguf", work / "directory", work / "again.gguf"
    convert(build / "weft", source, gguf)
    if file == "tokenizer.json":  # what the arrays say, without the file that GGUF keeps
        keys = {k: v for k, (v, _) in entries(gguf).items() if k.startswith("tokenizer.ggml")}
        write_model(gguf, n_vocab, keys)
    convert(build / "weft", gguf, directory)
    convert(build / "weft", directory, again)
    model = path / file if file.endswith(".model") else None
    check(name, build, texts, source, directory, [gguf, directory, again], model)


def size_of(weft):
    class Info(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("source", ctypes.c_char_p), ("model", ctypes.c_char_p),
                    ("n_vocab", ctypes.c_int32)]
    info = Info(ctypes.sizeof(Info))
    weft.w.weft_tokenizer_get_info.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]
    weft.w.weft_tokenizer_get_info(weft.t, ctypes.byref(info))
    return info.n_vocab


def main():
    build, root, wanted = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:]
    marked = (root / "llama.cpp-vocab/ggml-vocab-gpt-2.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    strings = json.loads((root / "reference-encodings/encodings.json").read_text())["hf:llama3"]["strings"]
    texts = marked + [s["text"] for s in strings]
    ways = [(from_gguf, (p,)) for p in sorted(root.glob("llama.cpp-vocab/*.gguf"))]
    for p in sorted(root.iterdir()):
        for file in ("tokenizer.json", "tokenizer.model", "spiece.model", "test_model.model", "test_ja_model.model", "vocab.json",
                     "vocab.txt"):
            if (p / file).exists():
                ways.append((from_directory, (p, file)))
    for way, args in ways:
        if wanted and not any(w in " ".join(map(str, args)) for w in wanted):
            continue
        with tempfile.TemporaryDirectory() as work:
            way(*args, build, texts, Path(work))
    print(f"{compared} encodings compared, {failures} comparisons failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""llama_check.py - a GGUF file in weft and in llama.cpp: greedy texts, and KL token by token.

    llama_check.py MODEL.gguf TEXT --llama DIR [--weft DIR] [--rows 2000]

DIR has llama-completion and llama-perplexity; --weft has weft and libweft.so (default build). Ten
prompts are continued greedily by 64 tokens in both programs. Then llama-perplexity writes its
log-probabilities of the second half of every 512 tokens of TEXT (16 bits each), and weft evaluates
the same ids.

Both round activations to eight bits where weights are quantised, each in its own way, so a quantised
file shows the sum of two roundings. Compare files in f32 to see whether the model is the same.
"""

import argparse
import ctypes
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

PROMPTS = (
    "The capital of France is", "Once upon a time", "def fibonacci(n):", "Water boils at",
    "In 1969, the first", "The best way to learn a language is", "1, 2, 3, 4,",
    "Dear Sir or Madam,", "The quick brown fox", "Photosynthesis is the process by which")
N_CTX = 512


def texts(args, prompt):
    """The continuations of both."""
    theirs = subprocess.run(
        [args.llama / "llama-completion", "-m", args.model, "-p", prompt, "-n", "64", "--temp", "0",
         "-no-cnv", "--no-display-prompt"], capture_output=True, check=True, stdin=subprocess.DEVNULL)
    ours = subprocess.run(
        [args.weft / "weft", "run", args.model, prompt, "-n", "64", "--temp", "0"],
        capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return theirs.stdout.decode().strip(), ours.stdout.decode().strip()


def greedy(args):
    same = 0
    for prompt in PROMPTS:
        theirs, ours = texts(args, prompt)
        n = min(len(theirs), len(ours))
        at = next((i for i in range(n) if theirs[i] != ours[i]), n)
        same += theirs == ours
        print(f"{prompt!r}: {'same' if theirs == ours else f'differ from character {at} on'}")
    print(f"greedy: {same} of {len(PROMPTS)} texts are the same")


class Options(ctypes.Structure):
    """weft_engine_options"""

    _fields_ = [("struct_size", ctypes.c_size_t), ("threads", ctypes.c_int),
                ("n_session", ctypes.c_int), ("n_batch", ctypes.c_int),
                ("n_ctx", ctypes.c_int64), ("kv_type", ctypes.c_int),
                ("n_cache", ctypes.c_int64), ("all_logits", ctypes.c_bool)]


class Weft:
    """A session of weft on a model."""

    def __init__(self, args, n_vocab):
        self.lib = ctypes.CDLL(str(args.weft / "libweft.so"))
        for name in ("weft_model_open", "weft_engine_new", "weft_session_new"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.weft_session_logits.restype = ctypes.POINTER(ctypes.c_float)
        self.err = ctypes.create_string_buffer(512)
        o = Options(struct_size=ctypes.sizeof(Options), n_ctx=N_CTX)
        self.model = self.ask("weft_model_open", str(args.model).encode(), None)
        self.engine = self.ask("weft_engine_new", ctypes.c_void_p(self.model), ctypes.byref(o))
        self.session = ctypes.c_void_p(self.ask("weft_session_new", ctypes.c_void_p(self.engine)))
        self.n_vocab = n_vocab

    def ask(self, name, *args):
        x = getattr(self.lib, name)(*args, self.err)
        if not x:
            raise SystemExit(self.err.raw[4:].split(b"\0")[0].decode())
        return x

    def feed(self, ids):
        x = (ctypes.c_int32 * len(ids))(*ids)
        if self.lib.weft_session_eval(self.session, x, ctypes.c_int64(len(ids)), self.err):
            raise SystemExit(self.err.raw[4:].split(b"\0")[0].decode())

    def restart(self):
        self.lib.weft_session_rewind(self.session, ctypes.c_int64(0), self.err)

    def log_probs(self):
        z = np.ctypeslib.as_array(self.lib.weft_session_logits(self.session),
                                  (self.n_vocab,)).astype(np.float64)
        z -= z.max()
        return z - np.log(np.exp(z).sum())


def divergence(args):
    with tempfile.TemporaryDirectory() as there:
        base = Path(there) / "base"
        chunks = -(-args.rows // (N_CTX - N_CTX // 2 - 1))
        subprocess.run([args.llama / "llama-perplexity", "-m", args.model, "-f", args.text, "-c",
                        str(N_CTX), "--chunks", str(chunks), "--kl-divergence-base", base],
                       capture_output=True, check=True, stdin=subprocess.DEVNULL)
        compare(args, base.read_bytes())


def compare(args, data):
    """KL(llama.cpp || weft) of every scored row of llama-perplexity's file."""
    n_ctx, n_vocab, n_chunk = struct.unpack_from("<iii", data, 8)
    ids = np.frombuffer(data, "<i4", n_ctx * n_chunk, 20).reshape(n_chunk, n_ctx)
    width = 2 * ((n_vocab + 1) // 2) + 4
    rows = np.frombuffer(data, "<u2", offset=20 + 4 * ids.size).reshape(n_chunk, -1, width)
    weft, kl, same = Weft(args, n_vocab), [], 0
    for chunk in range(n_chunk):
        weft.restart()
        tokens = ids[chunk].tolist()
        first = n_ctx // 2
        weft.feed(tokens[:first])
        for i, row in enumerate(rows[chunk]):
            weft.feed(tokens[first + i:first + i + 1])
            scale, least = row[:4].view("<f4")
            p = scale * row[4:4 + n_vocab].astype(np.float64) + least
            p -= np.log(np.exp(p).sum())
            q = weft.log_probs()
            kl.append(float((np.exp(p) * (p - q)).sum()))
            same += p.argmax() == q.argmax()
    print(f"{len(kl)} rows: mean KL {np.mean(kl):.6f}, p99 {np.quantile(kl, 0.99):.6f}, "
          f"max {max(kl):.6f}, same top {100 * same / len(kl):.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--llama", type=Path, required=True, help="where llama.cpp's programs are")
    parser.add_argument("--weft", type=Path, default=Path("build"), help="where weft is")
    parser.add_argument("--rows", type=int, default=2000, help="rows to compare")
    args = parser.parse_args()
    greedy(args)
    divergence(args)


if __name__ == "__main__":
    main()

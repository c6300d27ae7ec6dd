#!/usr/bin/env python3
"""llama_check.py - a GGUF file in weft and in llama.cpp: greedy texts, and KL token by token.

    llama_check.py MODEL.gguf TEXT --llama DIR [--weft DIR] [--rows 2000]

DIR has llama-completion, llama-perplexity and llama-quantize; --weft has weft and libweft.so (default
build). Ten prompts are continued greedily by 64 tokens in both programs. llama-perplexity writes its
log-probabilities of the second half of every 512 tokens of TEXT, and weft evaluates the same ids.

Both programs round activations to eight bits where weights are quantised, each in its own way, so on
a quantised file they differ by the sum of two roundings. So the file is compared as it is and as
llama-quantize expands it to f32, where nothing is rounded; and each program's quantised answers are
compared with the exact ones, which says how much of the difference is whose.
"""

import argparse
import ctypes
import json
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
KV_F32 = 1  # WEFT_KV_F32


def texts(args, model, prompt):
    """The continuations of both."""
    theirs = subprocess.run(
        [args.llama / "llama-completion", "-m", model, "-p", prompt, "-n", "64", "--temp", "0",
         "-no-cnv", "--no-display-prompt", "-ctk", "f32", "-ctv", "f32", "-fa", "off"],
        capture_output=True, check=True, stdin=subprocess.DEVNULL)
    ours = subprocess.run(
        [args.weft / "weft", "run", model, prompt, "-n", "64", "--temp", "0", "--kv-type", "f32"],
        capture_output=True, check=True, stdin=subprocess.DEVNULL)
    text = theirs.stdout.decode().strip().removesuffix("[end of text]").strip()
    return text, ours.stdout.decode().strip()


def greedy(args, model):
    same = 0
    for prompt in PROMPTS:
        theirs, ours = texts(args, model, prompt)
        n = min(len(theirs), len(ours))
        at = next((i for i in range(n) if theirs[i] != ours[i]), n)
        same += theirs == ours
        if theirs != ours:
            print(f"    {prompt!r}: differ from character {at} on")
    print(f"greedy: {same} of {len(PROMPTS)} texts are the same")


class Options(ctypes.Structure):
    """weft_engine_options"""

    _fields_ = [("struct_size", ctypes.c_size_t), ("threads", ctypes.c_int),
                ("n_session", ctypes.c_int), ("n_batch", ctypes.c_int),
                ("n_ctx", ctypes.c_int64), ("kv_type", ctypes.c_int),
                ("n_cache", ctypes.c_int64), ("all_logits", ctypes.c_bool)]


class Weft:
    """A session of weft on a model."""

    def __init__(self, args, model, n_vocab):
        self.lib = ctypes.CDLL(str(args.weft / "libweft.so"))
        for name in ("weft_model_open", "weft_engine_new", "weft_session_new"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.weft_session_logits.restype = ctypes.POINTER(ctypes.c_float)
        self.err = ctypes.create_string_buffer(512)
        o = Options(struct_size=ctypes.sizeof(Options), n_ctx=N_CTX, kv_type=KV_F32)
        self.model = self.ask("weft_model_open", str(model).encode(), None)
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


def log_probs(args, model):
    """llama-perplexity's log-probabilities of TEXT, as the bytes of its file."""
    with tempfile.TemporaryDirectory() as there:
        base = Path(there) / "base"
        chunks = -(-args.rows // (N_CTX - N_CTX // 2 - 1))
        subprocess.run([args.llama / "llama-perplexity", "-m", model, "-f", args.text, "-c",
                        str(N_CTX), "--chunks", str(chunks), "-ctk", "f32", "-ctv", "f32", "-fa",
                        "off", "--kl-divergence-base", base],
                       capture_output=True, check=True, stdin=subprocess.DEVNULL)
        return base.read_bytes()


def divergence(p, q, kept):
    """KL(p || q). The file clamps tokens below e^-16 of the best: those are one event."""
    e = np.exp(p[kept])
    rest_p, rest_q = 1 - e.sum(), max(1 - np.exp(q[kept]).sum(), 1e-30)
    kl = (e * (p[kept] - q[kept])).sum()
    return float(kl + (rest_p * np.log(rest_p / rest_q) if rest_p > 0 else 0))


def first_id(args, model):
    """What llama-perplexity puts in place of the first token of every 512: [] or [id]."""
    said = subprocess.run([args.weft / "weft", "inspect", model, "--no-speed", "--json", "--metadata"],
                          capture_output=True, check=True)
    data = json.loads(said.stdout)["metadata"]
    adds = data.get("tokenizer.ggml.add_bos_token", "false") == "true"
    return [int(data["tokenizer.ggml.bos_token_id"])] if adds else []


def compare(args, what, data, model):
    """KL of every row of llama-perplexity's file from the same row of weft on `model`."""
    n_ctx, n_vocab, n_chunk = struct.unpack_from("<iii", data, 8)
    ids = np.frombuffer(data, "<i4", n_ctx * n_chunk, 20).reshape(n_chunk, n_ctx)
    width = 2 * ((n_vocab + 1) // 2) + 4
    rows = np.frombuffer(data, "<u2", offset=20 + 4 * ids.size).reshape(n_chunk, -1, width)
    bos = first_id(args, model)
    weft, kl, same = Weft(args, model, n_vocab), [], 0
    for chunk in range(n_chunk):
        weft.restart()
        tokens = bos + ids[chunk].tolist()[len(bos):]
        first = n_ctx // 2
        weft.feed(tokens[:first])
        for i, row in enumerate(rows[chunk]):
            weft.feed(tokens[first + i:first + i + 1])
            scale, least = row[:4].view("<f4")
            p = scale * row[4:4 + n_vocab].astype(np.float64) + least
            q = weft.log_probs()
            kl.append(divergence(p, q, row[4:4 + n_vocab] > 0))
            same += p.argmax() == q.argmax()
    print(f"{what}: {len(kl)} rows, mean KL {np.mean(kl):.6f}, p99 {np.quantile(kl, 0.99):.6f}, "
          f"max {max(kl):.6f}, same top {100 * same / len(kl):.2f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--llama", type=Path, required=True, help="where llama.cpp's programs are")
    parser.add_argument("--weft", type=Path, default=Path("build"), help="where weft is")
    parser.add_argument("--rows", type=int, default=2000, help="rows to compare")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as there:
        exact = Path(there) / "exact.gguf"
        subprocess.run([args.llama / "llama-quantize", "--allow-requantize", args.model, exact, "F32"],
                       capture_output=True, check=True)
        print("the file as it is, ", end="")
        greedy(args, args.model)
        print("expanded to f32, ", end="")
        greedy(args, exact)
        theirs, theirs_exact = log_probs(args, args.model), log_probs(args, exact)
        compare(args, "llama.cpp f32 || weft f32", theirs_exact, exact)
        compare(args, "llama.cpp || weft", theirs, args.model)
        compare(args, "llama.cpp f32 || weft", theirs_exact, args.model)
        compare(args, "llama.cpp || weft f32", theirs, exact)


if __name__ == "__main__":
    main()

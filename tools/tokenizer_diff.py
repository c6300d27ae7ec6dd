#!/usr/bin/env python3
"""tokenizer_diff.py - libweft beside the field's own tokenizers, on the same text.

    tokenizer_diff.py diff LIBWEFT N SEED FILE...   random strings: tokenizer.json against Hugging Face's tokenizers,
                                                .model against sentencepiece; ids, and for the former decoded text
    tokenizer_diff.py back LIBWEFT N SEED FILE...   decode(encode(x)) = x for random bytes, byte-level tokenizers
    tokenizer_diff.py lines LIBWEFT TEXT MODEL...   every line of TEXT, then all of TEXT, against sentencepiece
    tokenizer_diff.py speed LIBWEFT TEXT FILE...    MB/s on one thread, documents of 1-8 KB and 20 MB in one, ids only

Needs Python with tokenizers and sentencepiece. Exits 1 on a difference, which it prints with its code points.
"""
import ctypes
import os
import random
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 508)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("no_special", ctypes.c_bool), ("parse_special", ctypes.c_bool),
                ("spans", ctypes.c_bool), ("fit", ctypes.c_bool), ("pair", ctypes.c_char_p),
                ("pair_length", ctypes.c_size_t)]


class Tokens(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int64), ("ids", ctypes.POINTER(ctypes.c_int32)), ("spans", ctypes.c_void_p),
                ("types", ctypes.c_void_p)]


class Weft:
    def __init__(self, library, path):
        w = self.w = ctypes.CDLL(library)
        w.weft_tokenizer_load.restype = ctypes.c_void_p
        w.weft_tokenizer_load.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(Error)]
        w.weft_tokenizer_encode.restype = ctypes.POINTER(Tokens)
        w.weft_tokenizer_encode.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
                                            ctypes.POINTER(Options), ctypes.POINTER(Error)]
        w.weft_tokens_free.argtypes = [ctypes.POINTER(Tokens)]
        w.weft_decoder_new.restype = ctypes.c_void_p
        w.weft_decoder_new.argtypes = [ctypes.c_void_p, ctypes.c_bool, ctypes.POINTER(Error)]
        w.weft_decoder_free.argtypes = [ctypes.c_void_p]
        w.weft_decoder_push.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p),
                                        ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(Error)]
        w.weft_decoder_flush.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
                                         ctypes.POINTER(ctypes.c_size_t)]
        self.err = Error()
        self.t = w.weft_tokenizer_load(path.encode(), None, ctypes.byref(self.err))
        if not self.t:
            sys.exit(self.err.message.decode())
        self.options = Options(ctypes.sizeof(Options), True, True)

    def encode(self, data):
        k = self.w.weft_tokenizer_encode(self.t, data, len(data), ctypes.byref(self.options), ctypes.byref(self.err))
        if not k:
            sys.exit(self.err.message.decode())
        ids = k.contents.ids[: k.contents.n]
        self.w.weft_tokens_free(k)
        return ids

    def count(self, data):
        k = self.w.weft_tokenizer_encode(self.t, data, len(data), ctypes.byref(self.options), ctypes.byref(self.err))
        n = k.contents.n
        self.w.weft_tokens_free(k)
        return n

    def decode(self, ids):
        d = self.w.weft_decoder_new(self.t, False, ctypes.byref(self.err))
        bytes_, n, out = ctypes.c_void_p(), ctypes.c_size_t(), b""
        for i in ids:
            self.w.weft_decoder_push(d, i, ctypes.byref(bytes_), ctypes.byref(n), ctypes.byref(self.err))
            out += ctypes.string_at(bytes_.value, n.value) if n.value else b""
        self.w.weft_decoder_flush(d, ctypes.byref(bytes_), ctypes.byref(n))
        out += ctypes.string_at(bytes_.value, n.value) if n.value else b""
        self.w.weft_decoder_free(d)
        return out


POOLS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "  \t", "\n\r", ".,;:!?'\"()[]{}<>-_/\\|@#$%^&*+=~`",
    "'s't're've'm'll'd'S'T'RE'VE'M'LL'D", "éèêëüöäßñçøåœæðþ", "ÉÈÜÖÄŁŽĐ", "абвгдежзийклмнопрстуфхцчшщъыьэюя", "ΑΒΓαβγςσΩώ",
    "你好世界中文字符汉語", "こんにちはカタカナー々〆", "안녕하세요한국어", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดี",
    "😀🙂👍🏽👩‍👩‍👧‍👦🇩🇪🏳️‍🌈❤️", "\u0301\u0308\u0327\u0323\u20dd\u0345", "\u200d\u200c\u200b\ufeff\u2060", "\u00a0\u2003\u3000\u1680\u2028\u2029\u0085",
    "ﬁﬂⅧ①㈱½ℌＡｂ㌀ǅŉ", "\u0000\u0001\u001f\u007f\u0080\u009f", "\u0130ıſK\u212a\u017f", "①②③٣४๕Ⅳ", "▁", "\ufffd\ue000\U000f0000\U0010ffff",
    "𝒜𝕭𐍈𠀀", "\u1100\u1161\u11a8", "##", "<>|[]",
]


def strings(n, seed, extra):
    rng = random.Random(seed)
    words = "the of and Hello world don't I'm WE'LL 2024 3.14 http://x.y/z?a=b def f(x): return naïve café".split()
    for _ in range(n):
        parts = []
        for _ in range(rng.randint(1, 10)):
            kind = rng.random()
            if kind < 0.15:
                parts.append(rng.choice(words))
            elif kind < 0.22 and extra:
                parts.append(rng.choice(extra))
            elif kind < 0.27:
                parts.append(" " * rng.randint(1, 6))
            elif kind < 0.32:
                c = rng.randrange(0x110000)
                parts.append(chr(c) if not 0xD800 <= c < 0xE000 else "?")
            else:
                pool = rng.choice(POOLS)
                parts.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 8))))
            if rng.random() < 0.4:
                parts.append(" ")
        yield "".join(parts)


def reference(path):
    if path.endswith(".json"):
        from tokenizers import Tokenizer
        t = Tokenizer.from_file(path)
        t.no_truncation()
        t.no_padding()
        added = [a.content for a in t.get_added_tokens_decoder().values()]
        return (lambda batch: [e.ids for e in t.encode_batch_fast(batch, add_special_tokens=False)]), \
            (lambda batch: t.decode_batch(batch)), added
    import sentencepiece
    s = sentencepiece.SentencePieceProcessor(model_file=path)
    return (lambda batch: [s.encode(x) for x in batch]), None, []


def show(path, text, ours, theirs):
    print(f"{path}: {text!r}\n  {' '.join(f'{ord(c):X}' for c in text)}\n  weft   {ours}\n  theirs {theirs}")


def diff(library, n, seed, paths):
    failed = 0
    for path in paths:
        weft = Weft(library, path)
        if path.endswith(".model"):
            weft.options.parse_special = False
        encode, decode, added = reference(path)
        wrong = wrong_text = done = 0
        batch = []
        for text in strings(n, seed, added[:40]):
            batch.append(text)
            if len(batch) < 1000 and done + len(batch) < n:
                continue
            theirs = encode(batch)
            for x, want in zip(batch, theirs):
                got = weft.encode(x.encode())
                if got != want:
                    wrong += 1
                    if wrong <= 5:
                        show(path, x, got, want)
            if decode:
                for ids, want in zip(theirs, decode(theirs)):
                    got = weft.decode(ids).decode(errors="replace")
                    if got != want and "\ufffd" not in want:
                        wrong_text += 1
                        if wrong_text <= 5:
                            show(path, want, repr(got), repr(want))
            done += len(batch)
            batch = []
        print(f"{path}: {done} strings, {wrong} encoded and {wrong_text} decoded differently")
        failed += wrong + wrong_text
    return failed > 0


def back(library, n, seed, paths):
    rng = random.Random(seed)
    failed = 0
    for path in paths:
        weft, wrong = Weft(library, path), 0
        weft.options.parse_special = False
        for i in range(n):
            data = rng.randbytes(rng.randint(0, 40))
            if i % 2:
                data = "".join(strings(1, rng.random(), [])).encode()[: rng.randint(0, 60)] + data[:5]
            got = weft.decode(weft.encode(data))
            if got != data:
                wrong += 1
                if wrong <= 5:
                    print(f"{path}: {data!r} came back as {got!r}")
        print(f"{path}: {n} byte strings, {wrong} came back changed")
        failed += wrong
    return failed > 0


def lines(library, text, paths):
    failed = 0
    whole = open(text, encoding="utf-8").read()
    for path in paths:
        weft = Weft(library, path)
        weft.options.parse_special = False
        encode, _, _ = reference(path)
        wrong = 0
        units = whole.split("\n") + [whole]
        for x, want in zip(units, encode(units)):
            if weft.encode(x.encode()) != want:
                wrong += 1
                if wrong <= 3 and len(x) < 400:
                    show(path, x, weft.encode(x.encode()), want)
        print(f"{path}: {len(units)} texts, {wrong} encoded differently")
        failed += wrong
    return failed > 0


def speed(library, text, paths):
    whole = open(text, encoding="utf-8").read()
    rng = random.Random(1)
    docs, at = [], 0
    while at < len(whole):
        n = rng.randint(1000, 8000)
        docs.append(whole[at:at + n])
        at += n
    long = (whole * (20_000_000 // len(whole.encode()) + 1))
    long = long.encode()[:20_000_000].decode(errors="ignore")
    for path in paths:
        start = time.perf_counter()
        encode, _, _ = reference(path)
        load = time.perf_counter() - start
        start = time.perf_counter()
        weft = Weft(library, path)
        our_load = time.perf_counter() - start
        raw = [d.encode() for d in docs]
        size = sum(map(len, raw)) / 1e6
        # The first pass is cold on both sides; ours is repeated, so that it takes long enough to be timed.
        start = time.perf_counter()
        n = sum(weft.count(d) for d in raw)
        ours = size / (time.perf_counter() - start)
        start = time.perf_counter()
        m = sum(len(i) for i in encode(docs))
        theirs = size / (time.perf_counter() - start)
        data = long.encode()
        start = time.perf_counter()
        n_long = weft.count(data)
        ours_long = len(data) / 1e6 / (time.perf_counter() - start)
        start = time.perf_counter()
        m_long = len(encode([long])[0])
        theirs_long = len(data) / 1e6 / (time.perf_counter() - start)
        print(f"{path}\n  load {our_load * 1e3:.0f} ms, theirs {load * 1e3:.0f} ms ({load / our_load:.1f} x)\n"
              f"  documents {ours:.1f} MB/s, theirs {theirs:.2f} ({ours / theirs:.1f} x), tokens {n} and {m}\n"
              f"  20 MB     {ours_long:.1f} MB/s, theirs {theirs_long:.2f} ({ours_long / theirs_long:.1f} x), "
              f"tokens {n_long} and {m_long}")
    return 0


def main():
    if len(sys.argv) < 5:
        print(__doc__)
        return 2
    what, library = sys.argv[1], sys.argv[2]
    if what == "diff":
        return diff(library, int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    if what == "back":
        return back(library, int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    if what == "lines":
        return lines(library, sys.argv[3], sys.argv[4:])
    if what == "speed":
        return speed(library, sys.argv[3], sys.argv[4:])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""tokenizer_golden.py - makes tests/golden/text/steps.json: small tokenizers that use every step, flag and behaviour of a
tokenizer.json, each with texts, ids and decoded texts as Hugging Face's tokenizers give them.

    tools/tokenizer_golden.py [DIRECTORY]      default tests/golden/text; needs Python with tokenizers 0.23
"""
import base64
import json
import os
import random
import struct
import sys

from tokenizers import Tokenizer

TEXTS = [
    "Hello world", " Hello  World!", "don't I'm WE'LL", "abc 123 4567", "naïve café Ĳ ﬁ Ⅷ", "ÀÉÎ ßẞ İI", "你好 世界こんにちはカナ",
    "e\u0301a\u0308 \u200d\u00a0x\u3000y", "a.b,c!d?e--f", "tab\tnew\nline\r\n", "<s>x</s> [MASK] y", "a  b   c    d", "🙂👍🏽 é🙂", "", " ",
    "aaaabbbb abab", "low lower lowest", "▁x▁▁y", "x<s> y", "\u0001\u007fz\ufffd",
]
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def bytes_to_letters():
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    out, n = {}, 0
    for b in range(256):
        if b in printable:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + n)
            n += 1
    return out


def bpe(**flags):
    letters = list(dict.fromkeys(ALPHABET + ALPHABET.upper() + "0123456789 .,!?'-<>/[]▁éàĲ" + "你好世界"))
    merges = [("l", "o"), ("lo", "w"), ("e", "r"), ("e", "s"), ("es", "t"), ("a", "b"), ("ab", "ab"), ("a", "a"), ("b", "b"), ("aa", "aa"),
              ("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("▁", "x"), ("o", "r"), ("w", "or"), ("o", "w")]
    words = ["<unk>"] + letters + [a + b for a, b in merges]
    if flags.get("byte_fallback"):
        words += ["<0x%02X>" % b for b in range(256)]
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {w: i for i, w in enumerate(dict.fromkeys(words))}, "merges": [" ".join(m) for m in merges]}
    if flags.pop("pairs", False):
        model["merges"] = [list(m) for m in merges]
    model.update(flags)
    return model


def affix_bpe():
    letters = list("helowrdxyz")
    vocab = ["<unk>"] + letters + ["##" + c for c in letters] + [c + "</w>" for c in letters] + ["##" + c + "</w>" for c in letters]
    merges = [("h", "##e"), ("##l", "##o</w>"), ("##l", "##lo</w>"), ("he", "##llo</w>"), ("w", "##o")]
    for a, b in merges:
        vocab.append(a + b[2:])
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>",
            "fuse_unk": True, "byte_fallback": False, "ignore_merges": False,
            "vocab": {w: i for i, w in enumerate(dict.fromkeys(vocab))}, "merges": [list(m) for m in merges]}


def byte_bpe(**flags):
    letters = list(bytes_to_letters().values())
    merges = [("l", "o"), ("lo", "w"), ("e", "r"), ("Ġ", "low"), ("Ġlow", "er"), ("H", "e"), ("l", "l"), ("He", "ll"), ("Hell", "o"), ("Ã", "©"), ("a", "a"),
              ("ð", "Ł"), ("ðŁ", "Ļ"), ("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("1", "2"), ("'", "t")]
    vocab = {w: i for i, w in enumerate(dict.fromkeys(letters + [a + b for a, b in merges] + ["Ġworld"]))}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False,
             "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": [" ".join(m) for m in merges]}
    model.update(flags)
    return model


def unigram(fallback=False):
    pieces = [("<unk>", 0.0), ("▁", -2.0)] + [(c, -4.0 - i / 10) for i, c in enumerate(ALPHABET)]
    pieces += [("lo", -3.0), ("low", -3.5), ("▁low", -3.25), ("er", -2.5), ("est", -3.0), ("▁he", -3.0), ("llo", -3.0), ("wor", -4.5), ("ab", -3.5), ("aa", -7.0),
               ("é", -5.0), ("123", -6.0)]
    if fallback:
        pieces += [("<0x%02X>" % b, -9.0) for b in range(256)]
    return {"type": "Unigram", "unk_id": 0, "vocab": [list(p) for p in pieces], "byte_fallback": fallback}


def wordpiece():
    words = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(ALPHABET) + ["##" + c for c in ALPHABET] + \
        ["hello", "world", "low", "##er", "##est", "!", ",", ".", "'", "don", "caf", "##e", "1", "##2", "##3", "你", "好", "naive", "do", "not"]
    return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 10,
            "vocab": {w: i for i, w in enumerate(dict.fromkeys(words))}}


def wordlevel():
    words = ["<unk>", "Hello", "hello", "world", "World", "!", "a", "b", "c", "abc", "123", "你好"] + list(".,-'?")
    return {"type": "WordLevel", "unk_token": "<unk>", "vocab": {w: i for i, w in enumerate(words)}}


def charsmap():
    """A double array of a few rules, made by hand: units as SentencePiece stores them."""
    rules = {"\u00a0": " ", "\u3000": " ", "ﬁ": "fi", "Ⅷ": "VIII", "é": "é", "e\u0301": "é", "\t": " ", "Ĳ": "IJ"}
    text, at = b"", {}
    for key, value in rules.items():
        at[key.encode()] = len(text)
        text += value.encode() + b"\0"
    nodes = {b""}
    for key in at:
        for i in range(1, len(key) + 1):
            nodes.add(key[:i])
    units, base, place = {}, {}, {b"": 0}
    used = {0}
    offset = 1
    for node in sorted(nodes, key=lambda k: (len(k), k)):
        children = sorted({n[len(node):][:1] for n in nodes if len(n) == len(node) + 1 and n.startswith(node)})
        labels = ([0] if node in at else []) + [c[0] for c in children]
        if not labels:
            continue
        while any(((place[node] ^ offset) ^ l) in used for l in labels) or offset >= 1 << 21:
            offset += 1
        base[node] = offset
        for l in labels:
            used.add((place[node] ^ offset) ^ l)
        for c in children:
            place[node + c] = (place[node] ^ offset) ^ c[0]
        if node in at:
            units[place[node] ^ offset] = at[node] | 1 << 31
    for node in nodes:
        units[place[node]] = (base.get(node, 0) << 10) | (1 << 8 if node in at else 0) | (node[-1] if node else 0)
    n = max(units) + 257
    blob = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(n))
    return base64.b64encode(struct.pack("<I", len(blob)) + blob + text).decode()


def added(content, i, **flags):
    a = {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    a.update(flags)
    return a


def tokenizer(model, normalizer=None, pre=None, post=None, decoder=None, tokens=()):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens), "normalizer": normalizer, "pre_tokenizer": pre,
            "post_processor": post, "decoder": decoder, "model": model}


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


BYTE = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
META = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
LOWER = {"type": "Lowercase"}


def all_of_them():
    yield "bpe", tokenizer(bpe())
    yield "bpe pairs fuse", tokenizer(bpe(pairs=True, fuse_unk=True))
    yield "bpe bytes", tokenizer(bpe(byte_fallback=True), decoder=sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"}))
    yield "bpe whole words", tokenizer(bpe(ignore_merges=True, unk_token=None), pre={"type": "WhitespaceSplit"})
    yield "bpe affixes", tokenizer(affix_bpe(), pre={"type": "WhitespaceSplit"}, decoder={"type": "BPEDecoder", "suffix": "</w>"})
    yield "byte level", tokenizer(byte_bpe(), pre=BYTE, decoder=BYTE, post=BYTE)
    yield "byte level prefix", tokenizer(byte_bpe(ignore_merges=True), pre=dict(BYTE, add_prefix_space=True), decoder=BYTE)
    yield "byte level plain", tokenizer(byte_bpe(), pre=sequence("pretokenizers", split(r"\s+|\w+|[^\w\s]", "Isolated"), dict(BYTE, use_regex=False)), decoder=BYTE)
    yield "byte level twice", tokenizer(byte_bpe(), pre=sequence("pretokenizers", dict(BYTE, use_regex=False), split("Ġ", "MergedWithNext", kind="String")), decoder=BYTE)
    yield "byte level normalizer", tokenizer(byte_bpe(), normalizer={"type": "ByteLevel"}, decoder=BYTE)
    yield "unigram", tokenizer(unigram(), normalizer=LOWER, pre=META, decoder=META)
    yield "unigram bytes", tokenizer(unigram(True), normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
                                     decoder=sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}))
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                         {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}}
    special = [added("[UNK]", 0, special=True), added("[CLS]", 1, special=True), added("[SEP]", 2, special=True), added("[MASK]", 3, special=True, lstrip=True)]
    for i, flags in enumerate([{}, {"lowercase": False}, {"strip_accents": False}, {"clean_text": False}, {"handle_chinese_chars": False}, {"lowercase": False, "strip_accents": True}]):
        yield f"bert {i}", tokenizer(wordpiece(), normalizer=dict(bert, **flags), pre={"type": "BertPreTokenizer"}, post=template, decoder={"type": "WordPiece", "prefix": "##", "cleanup": i % 2 == 0},
                                     tokens=special)
    yield "bert processing", tokenizer(wordpiece(), normalizer=LOWER, pre={"type": "BertPreTokenizer"}, post={"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}, tokens=special)
    yield "roberta processing", tokenizer(byte_bpe(), pre=BYTE, post={"type": "RobertaProcessing", "sep": ["b", 66], "cls": ["a", 65], "trim_offsets": True, "add_prefix_space": False}, decoder=BYTE)
    yield "two processors", tokenizer(wordpiece(), pre={"type": "Whitespace"}, post=sequence("processors", BYTE, template), tokens=special)
    yield "word level", tokenizer(wordlevel(), pre={"type": "Whitespace"})
    for form in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Nmt", "Lowercase"):
        yield form, tokenizer(bpe(byte_fallback=True), normalizer={"type": form})
    yield "strip", tokenizer(bpe(), normalizer={"type": "Strip", "strip_left": True, "strip_right": True})
    yield "strip left", tokenizer(bpe(), normalizer={"type": "Strip", "strip_left": True, "strip_right": False})
    yield "precompiled", tokenizer(bpe(byte_fallback=True), normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap()})
    yield "replace pattern", tokenizer(bpe(), normalizer={"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"})
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield f"split {behavior} {invert}", tokenizer(bpe(fuse_unk=True), pre=split(r"[ab]| ", behavior, invert))
        yield f"split text {behavior}", tokenizer(bpe(fuse_unk=True), pre=split(" ", behavior, kind="String"))
        yield f"punctuation {behavior}", tokenizer(bpe(fuse_unk=True), pre={"type": "Punctuation", "behavior": behavior})
    yield "split empty matches", tokenizer(bpe(fuse_unk=True), pre=split("(?=[lw])", "Isolated"))
    for flag in (True, False):
        yield f"digits {flag}", tokenizer(bpe(fuse_unk=True), pre={"type": "Digits", "individual_digits": flag})
    yield "delimiter", tokenizer(bpe(fuse_unk=True), pre={"type": "CharDelimiterSplit", "delimiter": "o"})
    yield "scripts", tokenizer(bpe(fuse_unk=True), pre={"type": "UnicodeScripts"})
    yield "fixed length", tokenizer(bpe(fuse_unk=True), pre={"type": "FixedLength", "length": 3})
    yield "whitespace", tokenizer(bpe(fuse_unk=True), pre={"type": "Whitespace"})
    for scheme in ("always", "first", "never"):
        yield f"metaspace {scheme}", tokenizer(bpe(fuse_unk=True), pre=dict(META, prepend_scheme=scheme, split=scheme != "first"), decoder=dict(META, prepend_scheme=scheme),
                                               tokens=[added("<s>", 376, special=True)])
    n = len(bpe()["vocab"])
    for i, flags in enumerate([{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": True}, {"special": True}, {"lstrip": True, "rstrip": True, "special": True}]):
        yield f"added {i}", tokenizer(bpe(fuse_unk=True), normalizer=LOWER, tokens=[added("<s>", n, **flags), added("</s>", n + 1, **flags), added("World", n + 2, **flags)])
    yield "ctc", tokenizer(wordlevel(), pre={"type": "Whitespace"}, decoder={"type": "CTC", "pad_token": "<unk>", "word_delimiter_token": "a", "cleanup": True})
    yield "strip decoder", tokenizer(bpe(), decoder=sequence("decoders", {"type": "Strip", "content": "l", "start": 1, "stop": 0}, {"type": "Replace", "pattern": {"Regex": "[aeiou]"}, "content": "_"}))


def main():
    to = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "text")
    os.makedirs(to, exist_ok=True)
    out = []
    rng = random.Random(1)
    for name, json_ in all_of_them():
        for a in json_["added_tokens"]:  # numbers as Hugging Face gives them
            if a["content"] not in json_["model"]["vocab"]:
                a["id"] = len(json_["model"]["vocab"]) + [b["content"] for b in json_["added_tokens"] if b["content"] not in json_["model"]["vocab"]].index(a["content"])
        t = Tokenizer.from_str(json.dumps(json_))
        texts = TEXTS + ["".join(rng.choice("".join(TEXTS)) for _ in range(30)) for _ in range(6)]
        cases = []
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            cases.append({"text": text, "ids": ids, "all": t.encode(text).ids, "decoded": t.decode(ids) if ids else ""})
        out.append({"name": name, "tokenizer": json_, "cases": cases})
    with open(os.path.join(to, "steps.json"), "w", encoding="utf-8") as f:
        f.write('{"tokenizers":[\n' + ",\n".join(json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in out) + "\n]}\n")
    print(f"{len(out)} tokenizers, {sum(len(x['cases']) for x in out)} texts")


main()

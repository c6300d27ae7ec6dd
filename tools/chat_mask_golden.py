#!/usr/bin/env python3
"""Ids and masks of conversations by transformers, for tests/unit/test_chat_data.c.

    tools/chat_mask_golden.py ASSETS     writes tests/golden/templates/masks.txt

For the tokenizers of ids.txt and each template with {% generation %} blocks, those of ASSETS/templates and
chatml-generation.jinja, a line: tokenizer, template, and for each conversation of ids.json and conversations.json the number
of ids and the first 32 bits of the SHA-256 of the ids as 32-bit numbers, whose top bit is set unless
return_assistant_tokens_mask has a 1; or - where the template raises an exception, or weft differs on purpose: it does not
parse special tokens that a user spells, refuses unknown roles, converts content to the form that the template takes, and learns all tokens of a character at the end of a block.
"""
import glob
import hashlib
import json
import os
import struct
import sys

from transformers import AutoTokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "templates")
ON_PURPOSE = ("special spellings", "quotes", "unknown role", "tool content is an object", "tool content is parts", "parts", "parts with an image")


def cell(tokenizer, template, context):
    try:
        out = tokenizer.apply_chat_template(
            context["messages"], tools=context.get("tools"), chat_template=template, tokenize=True, return_dict=True,
            return_assistant_tokens_mask=True)
    except Exception:
        return "-"
    ids = [i if m else i | 1 << 31 for i, m in zip(out["input_ids"], out["assistant_masks"])]
    return f"{len(ids)}:{hashlib.sha256(struct.pack(f'<{len(ids)}I', *ids)).hexdigest()[:8]}"


def main():
    assets = sys.argv[1]
    with open(os.path.join(HERE, "ids.json")) as f:
        contexts = [{"messages": m} for m in json.load(f)]
    with open(os.path.join(HERE, "conversations.json")) as f:
        contexts += [c["context"] if c["name"] not in ON_PURPOSE else None for c in json.load(f)]
    paths = sorted(glob.glob(os.path.join(assets, "templates", "*.jinja")))
    with open(os.path.join(HERE, "masks.txt"), "w") as out:
        for name in ("llama3", "qwen2.5"):
            tokenizer = AutoTokenizer.from_pretrained(os.path.join(assets, "tokenizers", name))
            for path in [os.path.join(HERE, "chatml-generation.jinja")] + paths:
                with open(path, newline="") as f:
                    template = f.read()
                if "endgeneration" not in template or "strftime_now" in template:
                    continue
                cells = [cell(tokenizer, template, c) if c else "-" for c in contexts]
                out.write(" ".join([name, os.path.basename(path)] + cells) + "\n")


main()

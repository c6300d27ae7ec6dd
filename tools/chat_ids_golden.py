#!/usr/bin/env python3
"""Ids of conversations by transformers' apply_chat_template, for tests/unit/test_chat.c.

    tools/chat_ids_golden.py ASSETS     writes tests/golden/templates/ids.txt

For each tokenizer of ASSETS/tokenizers that has a tokenizer.json and its configuration, and each template of ASSETS/templates,
a line: tokenizer, template, and for each conversation of ids.json the number of ids and the first 32 bits of the SHA-256 of
the ids as 32-bit numbers, or - where the template raises an exception. Templates that write the date are left out. The
conversations spell no special token, so that weft must give these ids although it trusts nobody.
"""
import glob
import hashlib
import json
import os
import struct
import sys

from transformers import AutoTokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "templates")


def cell(tokenizer, template, messages):
    try:
        ids = tokenizer.apply_chat_template(messages, chat_template=template, add_generation_prompt=True, tokenize=True)
    except Exception:
        return "-"
    ids = ids["input_ids"] if not isinstance(ids, list) else ids
    return f"{len(ids)}:{hashlib.sha256(struct.pack(f'<{len(ids)}i', *ids)).hexdigest()[:8]}"


def main():
    assets = sys.argv[1]
    with open(os.path.join(HERE, "ids.json")) as f:
        conversations = json.load(f)
    with open(os.path.join(HERE, "ids.txt"), "w") as out:
        for name in ("llama3", "qwen2.5"):
            tokenizer = AutoTokenizer.from_pretrained(os.path.join(assets, "tokenizers", name))
            for path in sorted(glob.glob(os.path.join(assets, "templates", "*.jinja"))):
                with open(path, newline="") as f:
                    template = f.read()
                if "strftime_now" in template:
                    continue
                cells = [cell(tokenizer, template, c) for c in conversations]
                out.write(" ".join([name, os.path.basename(path)] + cells) + "\n")


main()

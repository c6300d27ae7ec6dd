#!/usr/bin/env python3
"""Conversations that a model is to continue in the middle of its own message, for tests/unit/test_chat.c.

    tools/chat_continue_golden.py DIR     DIR/*.jinja: writes tests/golden/templates/continue.hash

A golden line is a template and, for each conversation of TALKS, the first 64 bits of the SHA-256 of the text that
transformers renders with continue_final_message, or - where it raises.

Needs Python's transformers and jinja2 3.1.6.
"""
import glob
import hashlib
import os
import sys

from transformers.utils import chat_template_utils as utils
from template_golden import compiled, read

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "templates")
USER = {"role": "user", "content": "Why is the sky blue?"}
TALKS = [
    [USER, {"role": "assistant", "content": "Because light"}],
    [USER, {"role": "assistant", "content": "Because  \n"}],
    [USER, {"role": "assistant", "content": "Yes."}, USER, {"role": "assistant", "content": "Yes."}],
    [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": "é {{ 1 }} <|im_end|> x"}],
]


def render(source, talk):
    try:
        texts, _ = utils.render_jinja_template([talk], chat_template=source, continue_final_message=True)
        return hashlib.sha256(texts[0].encode()).hexdigest()[:16]
    except Exception:
        return "-"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    utils._compile_jinja_template = compiled
    with open(os.path.join(HERE, "continue.hash"), "w") as f:
        for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.jinja"))):
            f.write(" ".join([os.path.basename(path)[:-6]] + [render(read(path), t) for t in TALKS]) + "\n")


if __name__ == "__main__":
    main()

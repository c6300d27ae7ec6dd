#!/usr/bin/env python3
"""Renders chat templates with jinja2 in the environment of transformers, for tests/unit/test_templates.c.

    tools/template_golden.py write DIR          DIR/*.jinja and our own: writes tests/golden/templates/*.hash
    tools/template_golden.py diff DIR JINJA_RUN compares the text with that of build/tests/jinja_run, shows differences

A golden line is a template and, for each conversation of conversations.json, a hash and four letters. The letters are the
modes (add_generation_prompt off and on, both with enable_thinking off and on): . for a text, F for an exception. The
hash is the first 64 bits of the SHA-256 of the four texts, each with its letter before it and a zero byte after it.

Needs Python's transformers (only its template code runs) and jinja2 3.1.6.
"""
import datetime
import glob
import hashlib
import json
import os
import subprocess
import sys

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "templates")
NOW = datetime.datetime(2026, 3, 7, 15, 4, 5)
MODES = [(False, False), (False, True), (True, False), (True, True)]


def compiled(source):
    """The template as transformers compiles it, with a clock that stands."""
    t = _compile_jinja_template(source)
    t.environment.globals["strftime_now"] = t.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return t


def context(conversation, mode):
    c = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None}
    c.update(conversation["context"])
    c["add_generation_prompt"], c["enable_thinking"] = mode
    return c


def render(source, c):
    """The text, or None if jinja2 raises anything."""
    try:
        text = compiled(source).render(**json.loads(json.dumps(c)))
        text.encode()
        return text
    except Exception:
        return None


def conversations():
    with open(os.path.join(HERE, "conversations.json")) as f:
        return json.load(f)


def read(path):
    with open(path, newline="") as f:
        return f.read()


def golden(directory, out):
    n = fails = 0
    with open(out, "w") as f:
        for path in sorted(glob.glob(os.path.join(directory, "*.jinja"))):
            source, cells = read(path), []
            for conversation in conversations():
                texts = [render(source, context(conversation, mode)) for mode in MODES]
                letters = "".join("F" if t is None else "." for t in texts)
                h = hashlib.sha256()
                for letter, text in zip(letters, texts):
                    h.update(letter.encode() + (text or "").encode() + b"\0")
                cells.append(h.hexdigest()[:16] + letters)
                n, fails = n + 4, fails + letters.count("F")
            f.write(" ".join([os.path.basename(path)[:-6]] + cells) + "\n")
    print(f"{out}: {n} renderings, {fails} of them exceptions")


def diff(directory, program):
    asks, wanted = [], []
    for path in sorted(glob.glob(os.path.join(directory, "*.jinja"))):
        source = read(path)
        for conversation in conversations():
            for mode in MODES:
                c = context(conversation, mode)
                asks.append(json.dumps({"template": source, "context": c}))
                wanted.append((os.path.basename(path), conversation["name"], mode, render(source, c)))
    answers = subprocess.run([program], input="\n".join(asks) + "\n", capture_output=True, text=True, check=True).stdout
    bad = 0
    for line, (name, talk, mode, text) in zip(answers.split("\n"), wanted):
        a = json.loads(line)
        if a.get("text") != text:
            bad += 1
            if bad <= 20:
                print(f"--- {name}: {talk} {mode}\njinja2: {text!r:.1500}\nweft:   {a.get('text', a.get('error'))!r:.1500}")
    print(f"{len(wanted)} renderings, {bad} differ, {sum(w[3] is None for w in wanted)} raise")
    return bad != 0


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    assert jinja2.__version__ == "3.1.6", jinja2.__version__
    if sys.argv[1] == "diff":
        sys.exit(diff(sys.argv[2], sys.argv[3]))
    golden(sys.argv[2], os.path.join(HERE, "assets.hash"))
    golden(HERE, os.path.join(HERE, "own.hash"))


if __name__ == "__main__":
    main()

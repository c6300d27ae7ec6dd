#!/usr/bin/env python3
"""Made-up patterns and what Python's re says of every short text: tests/golden/constrain/patterns.txt.

    tools/rx_golden.py SEED COUNT >tests/golden/constrain/patterns.txt

One pattern per line: the pattern, a tab, a line of hexadecimal digits. The texts are all those of up to
four letters of "ab1", shortest first; each has two bits, from the highest: whether the pattern is found
in it, and whether the pattern is all of it. Only syntax is used that means the same to ECMA-262 and to
Python without its extensions; no text has a line feed, before which Python's $ matches too.
"""
import itertools
import random
import re
import sys

TEXTS = ["".join(t) for n in range(5) for t in itertools.product("ab1", repeat=n)]
ATOMS = ["a", "b", "1", ".", "\\d", "\\w", "\\D", "[ab]", "[^a]", "[a-b1]", "[^\\d]", "\\x61", "\\u0062", "^", "$", ""]
COUNTS = ["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "??", "{1,3}?", "{0}"]


def pattern(draw, depth):
    kind = draw.randrange(9 if depth else 3)
    if kind < 3:
        return draw.choice(ATOMS)
    if kind < 6:
        return pattern(draw, depth - 1) + pattern(draw, depth - 1)
    inner = pattern(draw, depth - 1)
    if kind == 6:
        return "(" + inner + "|" + pattern(draw, depth - 1) + ")"
    group = draw.choice(["(", "(?:"]) + inner + ")"
    return group if kind == 7 else group + draw.choice(COUNTS)


def verdicts(text):
    found = re.compile(text, re.ASCII)
    bits = ""
    for t in TEXTS:
        bits += "1" if found.search(t) else "0"
        bits += "1" if found.fullmatch(t) else "0"
    bits += "0" * (-len(bits) % 4)
    return "%0*x" % (len(bits) // 4, int(bits, 2))


def main():
    draw = random.Random(int(sys.argv[1]))
    seen = set()
    while len(seen) < int(sys.argv[2]):
        text = pattern(draw, 4)
        if text in seen or len(text) > 40:
            continue
        seen.add(text)
        print(text + "\t" + verdicts(text))


main()

#!/usr/bin/env python3
"""Writes src/text/jinja/tables.c: what Python's str methods know about code points.

    tools/jinja_unicode.py > src/text/jinja/tables.c

Chat templates are written for Python, so its answers count (isalpha, repr, upper, title), not those of a newer Unicode.
The version of Unicode is that of the Python which runs this.
"""
import unicodedata

BITS = [
    lambda c: c.isalpha(),
    lambda c: c.isdecimal(),
    lambda c: c.isdigit(),
    lambda c: c.isnumeric(),
    lambda c: c.isprintable(),
    lambda c: c.islower(),
    lambda c: c.isupper(),
    lambda c: unicodedata.category(c) == "Lt",
    lambda c: ("A" + c + "\u03a3").lower()[-1] == "\u03c2" and ("1" + c + "\u03a3").lower()[-1] == "\u03c3",
    lambda c: ("1" + c + "\u03a3").lower()[-1] == "\u03c2",
]
POINTS = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]


def edges():
    last = 0
    for c in POINTS:
        bits = sum(1 << i for i, f in enumerate(BITS) if f(c))
        if bits != last:
            yield ord(c) << 11 | bits
            last = bits


def ranges(pairs):
    """Runs of code points, every one or every second, that move by the same difference."""
    out = []
    for c, to in pairs:
        d = to - c
        if out and out[-1][3] == d and (c - out[-1][1] == out[-1][2] or (out[-1][0] == out[-1][1] and c - out[-1][1] <= 2)):
            out[-1][2] = c - out[-1][1]
            out[-1][1] = c
        else:
            out.append([c, c, 1, d])
    return out


def rows(values, per_line, form):
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(form(v) for v in values[i:i + per_line]) + ",")


def special(pairs):
    for c, to in pairs:
        points = [ord(x) for x in to] + [0, 0]
        print("    { 0x%x, { 0x%x, 0x%x, 0x%x } }," % (c, *points[:3]))


def main():
    print("/* tables.c - code points as Python %s's str methods see them (Unicode %s); tools/jinja_unicode.py writes it. */"
          % ("3", unicodedata.unidata_version))
    print('#include "text/jinja/chars.h"\n')
    print("/* clang-format off */")
    e = list(edges())
    print("const uint32_t jinja_edges[] = {")
    rows(e, 10, lambda v: "0x%x" % v)
    print("};\nconst int n_jinja_edges = %d;\n" % len(e))
    upper = [(ord(c), c.upper()) for c in POINTS if c.upper() != c]
    r = ranges([(c, ord(u)) for c, u in upper if len(u) == 1])
    print("const jinja_case jinja_uppers[] = {")
    rows(r, 4, lambda v: "{ 0x%x, 0x%x, %d, %d }" % tuple(v))
    print("};\nconst int n_jinja_uppers = %d;\n" % len(r))
    many = [(c, u) for c, u in upper if len(u) > 1]
    print("const jinja_special jinja_long_uppers[] = {")
    special(many)
    print("};\nconst int n_jinja_long_uppers = %d;\n" % len(many))
    title = [(ord(c), c.title()) for c in POINTS if c.title() != c.upper()]
    print("const jinja_special jinja_titles[] = {")
    special(title)
    print("};\nconst int n_jinja_titles = %d;" % len(title))


main()

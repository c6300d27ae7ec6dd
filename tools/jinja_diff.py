#!/usr/bin/env python3
"""Compares weft's templates with jinja2 on templates that it makes up.

    tools/jinja_diff.py diff JINJA_RUN COUNT SEED   COUNT templates and all products; shows what differs
    tools/jinja_diff.py sample JINJA_RUN COUNT SEED writes tests/golden/templates/sample.jsonl, without what weft refuses

The templates come from a grammar with types, so that most of them run. Two results are equal if the texts are, or if both
fail. What weft refuses by name (an integer beyond 64 bits, an address in memory, a part of Python that it does not have) is
counted apart, by reason. Needs jinja2 3.1.6 and transformers.
"""
import collections
import itertools
import json
import os
import random
import re
import subprocess
import sys

from transformers.utils.chat_template_utils import _cached_compile_jinja_template

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "templates")
WORDS = ["", "a", "ab", "Hello World", "x-y z", " pad ", "\t\n tab", "line\nline two\n\nend", "ß", "éÉ", "日本語", "😀x", "ΑΣ",
         "a,b,,c", "A.B.c", "<b>&'\"", "it's", 'say "hi"', "\\n", "%s", "{}", "\u00a0x\u2003", "\u2028", "\x1c", "\x7f", "0", "42",
         "-7", "3.5", "1e3", " 12 ", "true", "None", "user", "assistant", "items", "ǆ", "ŉ", "ﬁn", "İ", "\u0301", "_x", "aXbXc", "\u200b"]
FAIL = object()


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.strs = ["s", "t", "u"]
        self.ints = ["i", "j"]
        self.lists = ["l", "ls", "msgs", "e"]
        self.dicts = ["d", "m", "g"]
        self.macros = []
        self.loops = 0
        self.spaces = []

    def pick(self, *x):
        return self.r.choice(x)

    # ---- context

    def word(self):
        w = self.r.choice(WORDS)
        return w + self.r.choice(WORDS) if self.r.random() < 0.3 else w

    def value(self, depth=2):
        k = self.r.randrange(9 if depth else 6)
        if k == 0:
            return self.r.choice([None, True, False])
        if k == 1:
            return self.r.randrange(-20, 120)
        if k == 2:
            return self.r.choice([0.5, -2.25, 1e16, 1e-7, 3.0, 123456.789, 0.1, 2.5, 1e300])
        if k < 6:
            return self.word()
        if k < 8:
            return [self.value(depth - 1) for _ in range(self.r.randrange(4))]
        return {self.word(): self.value(depth - 1) for _ in range(self.r.randrange(4))}

    def context(self):
        return {
            "s": self.word(), "t": self.word(), "u": self.r.choice(WORDS),
            "i": self.r.randrange(-9, 30), "j": self.r.choice([0, 1, 2, 3, 7, -1]),
            "f": self.r.choice([0.5, -2.25, 1e16, 3.0, 2.675, 1e-5, 100.0, 0.1]),
            "b": self.r.random() < 0.5, "n": None,
            "l": [self.r.randrange(-9, 99) for _ in range(self.r.randrange(5))],
            "ls": [self.word() for _ in range(self.r.randrange(5))],
            "e": [],
            "d": {self.r.choice(["a", "b", "items", "k", "B", "é", "x y", "0"]): self.value(1) for _ in range(self.r.randrange(4))},
            "m": {"role": self.pick("user", "assistant", "tool"), "content": self.word(), "n": self.r.randrange(9)},
            "g": {"k": {"v": self.value(2)}, "z": [1, {"q": self.word()}]},
            "msgs": [{"role": self.pick("user", "assistant", "system"), "content": self.word(), "n": self.r.randrange(5)}
                     for _ in range(self.r.randrange(4))],
            "any": self.value(3),
        }

    # ---- expressions

    def quote(self, text):
        q = self.pick("'", '"')
        out = []
        for c in text:
            if c == "\\" or c == q:
                out.append("\\" + c)
            elif c in "\n\t" and self.r.random() < 0.7:
                out.append({"\n": "\\n", "\t": "\\t"}[c])
            elif self.r.random() < 0.05:
                out.append("\\x%02x" % ord(c) if ord(c) < 256 else "\\u%04x" % ord(c) if ord(c) < 65536 else "\\U%08x" % ord(c))
            else:
                out.append(c)
        return q + "".join(out) + q

    def str(self, d):
        if d <= 0:
            k = self.r.random()
            if k < 0.45:
                return self.quote(self.word())
            return self.pick(*self.strs, "m.role", "m['content']", "m.content")
        s = lambda: self.str(d - 1)
        k = self.r.randrange(34)
        if k < 3:
            return s()
        if k < 6:
            return f"({s()} {self.pick('+', '~')} {s()})"
        if k == 6:
            return f"({s()} ~ {self.any(d - 1)})"
        if k < 11:
            return f"{self.atom(s())}|{self.pick('upper', 'lower', 'trim', 'title', 'capitalize', 'string', 'safe', 'e', 'reverse', 'forceescape', 'first|string', 'last|string')}"
        if k < 15:
            return f"{self.atom(s())}.{self.pick('upper', 'lower', 'strip', 'lstrip', 'rstrip', 'title', 'capitalize', 'swapcase')}()"
        if k == 15:
            return f"{self.atom(s())}.{self.pick('strip', 'lstrip', 'rstrip')}({s()})"
        if k == 16:
            return f"{self.atom(s())}.replace({s()}, {s()}{self.pick('', '', ', 1', ', ' + self.int(0))})"
        if k == 17:
            return f"{self.atom(s())}|replace({s()}, {s()}{self.pick('', ', 1')})"
        if k == 18:
            return f"{self.atom(s())}[{self.slice(d - 1)}]"
        if k == 19:
            return f"{self.any(d - 1)}|tojson" + self.pick("", "", "()", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)",
                                                           "(indent=4, ensure_ascii=False)", "(separators=(',', ':'))")
        if k == 20:
            return f"{self.list(d - 1)}|join({self.pick('', s(), repr(', '))})"
        if k == 21:
            return f"({s()} if {self.bool(d - 1)} else {s()})"
        if k == 22:
            return f"{self.any(d - 1)}|string"
        if k == 23:
            return f"{self.atom(s())}.join({self.strlist(d - 1)})"
        if k == 24:
            return f"{self.atom(s())}|indent({self.pick('', '2', '2, true', 'first=true', '3, blank=true', s())})"
        if k == 25:
            return f"{self.name_any()}|default({s()}{self.pick('', ', true')})"
        if k == 26:
            return f"('{self.pick('%s', '%s-%s', '%d', '%5s|', '%-5s|', '%05d', '%.2f', '%r', '%x', '%%', '%+d', '% d', '%e', '%g')}' % {self.pick('(' + s() + ',)', self.int(d - 1), '(' + s() + ', ' + self.int(d - 1) + ')', self.num(d - 1))})"
        if k == 27:
            return f"'{self.pick('{}', '{0}-{0}', '{} {}', '{:>6}|', '{:<6}|', '{:^7}|', '{:*^7}', '{!r}', '{{{}}}', '{0[0]}', '{:05}', '{:.2f}', '{:,}', '{:+}', '{:x}', '{:d}', '{a}')}'.format({self.pick(s(), self.int(d - 1), s() + ', ' + self.int(d - 1), self.num(d - 1), 'a=' + s())})"
        if k == 28:
            return f"{self.atom(s())}.{self.pick('ljust', 'rjust', 'center')}({self.pick('5', '8', 'i')}{self.pick('', ', ' + repr('*'))})"
        if k == 29:
            return f"{self.atom(s())}.{self.pick('zfill(6)', 'removeprefix(' + s() + ')', 'removesuffix(' + s() + ')')}"
        if k == 30:
            return f"{self.strlist(d - 1)}[{self.pick('0', '-1', '1', 'j')}]"
        if k == 31:
            return f"({s()} * {self.pick('2', '0', '3', 'j')})"
        if k == 32 and self.macros:
            return self.call(d - 1)
        return f"{self.strlist(d - 1)}|{self.pick('first', 'last', 'min', 'max')}"

    def atom(self, e):
        return e if re.fullmatch(r"\w+|'[^'\\]*'|\"[^\"\\]*\"|\(.*\)", e) and e.count("(") <= 1 else f"({e})"

    def slice(self, d):
        p = lambda: self.pick("", "", "1", "-1", "2", "-2", "0", "j")
        return self.pick("0", "-1", "i", "j", p() + ":" + p(), p() + ":" + p() + ":" + self.pick("", "1", "-1", "2", "-2"))

    def int(self, d):
        if d <= 0:
            return self.pick(*self.ints, str(self.r.randrange(12)), "0", "1", "2", "-1", "3", "1_0", "0x1f")
        n = lambda: self.int(d - 1)
        k = self.r.randrange(14)
        if k < 5:
            return f"({n()} {self.pick('+', '-', '*')} {n()})"
        if k == 5:
            return f"({n()} {self.pick('//', '%')} {n()})"
        if k == 6:
            return f"({n()} ** {self.pick('0', '1', '2', '3')})"
        if k == 7:
            return f"{self.list(d - 1)}|length"
        if k == 8:
            return f"{self.str(d - 1)}|length"
        if k == 9:
            return f"-{self.atom(n())}"
        if k == 10:
            return f"{self.atom(self.str(d - 1))}.{self.pick('find', 'count', 'rfind')}({self.str(d - 1)}{self.pick('', '', ', 1', ', -2')})"
        if k == 11:
            return f"{self.pick(self.str(d - 1), self.num(d - 1))}|int{self.pick('', '(7)', '(default=-1)')}"
        if k == 12:
            return f"{self.intlist(d - 1)}|{self.pick('sum', 'min', 'max', 'first', 'last', 'length', 'count')}"
        return f"{self.atom(n())}|abs"

    def num(self, d):
        if d <= 0:
            return self.pick("f", "0.5", "2.5", "1e3", "1.25e-3", "10.0", "i", "3")
        k = self.r.randrange(7)
        if k < 3:
            return f"({self.num(d - 1)} {self.pick('+', '-', '*', '/', '//', '%')} {self.num(d - 1)})"
        if k == 3:
            return f"{self.num(d - 1)}|round({self.pick('', '1', '2', '2, ' + repr('floor'), '0, ' + repr('ceil'))})"
        if k == 4:
            return f"{self.pick(self.str(d - 1), self.int(d - 1))}|float{self.pick('', '(1.5)')}"
        if k == 5:
            return f"{self.num(d - 1)}|abs"
        return self.int(d - 1)

    def bool(self, d):
        if d <= 0:
            return self.pick("b", "true", "false", "True", "not b", "i > 2", "s == t", "n is none", "x is defined", "l")
        k = self.r.randrange(16)
        b = lambda: self.bool(d - 1)
        if k < 3:
            return f"({b()} {self.pick('and', 'or')} {b()})"
        if k == 3:
            return f"not {b()}" if self.r.random() < 0.5 else f"(not {b()})"
        if k < 6:
            return f"({self.num(d - 1)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.num(d - 1)})"
        if k == 6:
            return f"({self.str(d - 1)} {self.pick('<', '==', '!=', 'in', 'not in', '>=')} {self.str(d - 1)})"
        if k == 7:
            return f"({self.str(d - 1)} {self.pick('in', 'not in')} {self.pick(self.strlist(d - 1), self.dict(d - 1), self.list(d - 1))})"
        if k < 11:
            return f"{self.atom(self.any(d - 1))} is {self.pick('', 'not ')}{self.pick('defined', 'string', 'none', 'mapping', 'iterable', 'sequence', 'number', 'boolean', 'true', 'false', 'undefined', 'integer', 'float', 'callable', 'escaped')}"
        if k == 11:
            return f"{self.atom(self.int(d - 1))} is {self.pick('odd', 'even', 'divisibleby(3)', 'divisibleby 2', 'eq 3', 'gt(2)', 'in [1,2]', 'ne 0', 'lt 5')}"
        if k == 12:
            return f"{self.atom(self.str(d - 1))}.{self.pick('startswith', 'endswith')}({self.str(d - 1)})"
        if k == 13:
            return f"{self.atom(self.str(d - 1))}.{self.pick('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isprintable', 'isascii')}()"
        if k == 14:
            return f"{self.atom(self.str(d - 1))} is {self.pick('upper', 'lower', 'equalto ' + self.quote(self.word()), 'in ls')}"
        return f"({self.int(d - 1)} < {self.int(d - 1)} <= {self.int(d - 1)})"

    def strlist(self, d):
        if d <= 0:
            return self.pick("ls", "['a', 'B', 'c']", "['x']", "('p', 'q')")
        k = self.r.randrange(11)
        s = lambda: self.str(d - 1)
        if k < 2:
            return f"[{', '.join(s() for _ in range(self.r.randrange(1, 4)))}]"
        if k < 5:
            return f"{self.atom(s())}.{self.pick('split', 'split', 'rsplit')}({self.pick('', s(), repr(','), repr(' ') + ', 1', 'none, 1', 'maxsplit=1', repr('a'))})"
        if k == 5:
            return f"{self.atom(s())}.{self.pick('splitlines()', 'splitlines(true)', 'partition(' + repr('a') + ')', 'rpartition(' + s() + ')')}"
        if k == 6:
            return f"{self.strlist(d - 1)}|{self.pick('sort', 'unique|list', 'reverse|list', 'list', 'sort(reverse=true)', 'sort(case_sensitive=true)')}"
        if k == 7:
            return f"{self.strlist(d - 1)}|map({self.quote(self.pick('upper', 'trim', 'lower', 'string', 'title'))})|list"
        if k == 8:
            return f"{self.strlist(d - 1)}|{self.pick('select', 'reject')}({self.pick('', repr('string'), repr('equalto') + ', ' + s(), repr('in') + ', ls', repr('lower'))})|list"
        if k == 9:
            return f"msgs|map(attribute='{self.pick('role', 'content', 'n', 'zz', 'content.upper')}'{self.pick('', ', default=' + repr('?'))})|map('string')|list"
        return f"{self.atom(s())}|list"

    def intlist(self, d):
        if d <= 0:
            return self.pick("l", "[3, 1, 2]", "range(4)", "range(i)", "range(5, 0, -2)", "(1, 2)")
        k = self.r.randrange(6)
        if k == 0:
            return f"[{', '.join(self.int(d - 1) for _ in range(self.r.randrange(4)))}]"
        if k == 1:
            return f"{self.intlist(d - 1)}|{self.pick('sort', 'list', 'unique|list', 'reverse|list', 'select|list', 'reject(' + repr('odd') + ')|list', 'select(' + repr('gt') + ', 1)|list')}"
        if k == 2:
            return f"({self.intlist(0)}|list + {self.intlist(d - 1)}|list)"
        if k == 3:
            return f"({self.intlist(d - 1)})[{self.slice(d - 1)}]"
        if k == 4:
            return f"msgs|map(attribute='n')|list"
        return f"range({self.int(0)}, {self.int(0)}{self.pick('', ', 2', ', -1')})"

    def list(self, d):
        k = self.r.randrange(8)
        if k < 2 or d <= 0:
            return self.pick(*self.lists)
        if k < 4:
            return self.strlist(d)
        if k == 4:
            return self.intlist(d)
        if k == 5:
            return f"msgs|{self.pick('selectattr', 'rejectattr')}({self.pick(repr('role') + ', ' + repr('equalto') + ', ' + repr('user'), repr('n'), repr('zz') + ', ' + repr('defined'), repr('content') + ', ' + repr('in') + ', ls')})|list"
        if k == 6:
            return self.pick(f"{self.dict(d - 1)}|dictsort", f"{self.dict(d - 1)}|items|list", f"{self.dict(d - 1)}.items()|list",
                             f"{self.dict(d - 1)}|list", f"{self.dict(d - 1)}.{self.pick('keys', 'values')}()|list",
                             f"msgs|sort(attribute='{self.pick('n', 'role', 'role,n', 'content')}')", f"{self.dict(d - 1)}|dictsort(by='key', reverse=true)")
        return f"[{', '.join(self.any(d - 1) for _ in range(self.r.randrange(4)))}]"

    def dict(self, d):
        k = self.r.randrange(6)
        if k < 4 or d <= 0:
            return self.pick(*self.dicts)
        if k == 4:
            return "dict(" + ", ".join(f"{n}={self.any(d - 1)}" for n in self.r.sample(["a", "b", "c"], self.r.randrange(3))) + ")"
        return "{" + ", ".join(f"{self.pick(self.quote(self.word()), self.int(0), 'true', 'none')}: {self.any(d - 1)}" for _ in range(self.r.randrange(4))) + "}"

    def name_any(self):
        return self.pick("any", "undef", "d.a", "d['b']", "g.k.v", "g.z", "g.z[1].q", "d.items", "d['items']", "m.zz", "l[9]", "s.nope", "n.x",
                         "g.k.v.w" if self.r.random() < 0.2 else "d.k", "d.get('k')", "d.get('k', 1)", "msgs[0].content" if self.r.random() < 0.3 else "msgs[0]",
                         *[f"{n}.v" for n in self.spaces])

    def any(self, d):
        k = self.r.randrange(16)
        if k < 3:
            return self.name_any()
        if k < 6:
            return self.str(d)
        if k == 6:
            return self.int(d)
        if k == 7:
            return self.num(d)
        if k == 8:
            return self.bool(d)
        if k < 11:
            return self.list(d)
        if k == 11:
            return self.dict(d)
        if k == 12:
            return self.pick("none", "true", "()", "(1,)", "[]", "{}", "''", "1e16", "0.1", "1.5", "undef", "'a' 'b'")
        if k == 13:
            return f"({self.any(d - 1)} if {self.bool(d - 1)}{self.pick('', ' else ' + self.any(d - 1))})" if d > 0 else "n"
        if k == 14 and d > 0:
            return f"({self.any(d - 1)} {self.pick('or', 'and')} {self.any(d - 1)})"
        if self.loops and k == 15:
            return "loop." + self.pick("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "cycle(1, 'b')", "changed(i)", "depth")
        return f"{self.atom(self.pick(self.list(d - 1), self.dict(d - 1), self.str(d - 1)))}[{self.pick(self.slice(0), self.str(0))}]" if d > 0 else "any"

    # ---- statements

    def tag(self, body):
        return "{%" + self.pick("", "", "", "-", "+") + self.pick(" ", "", "  ", "\n") + body + self.pick(" ", "", " ") + self.pick("", "", "-", "+" if self.r.random() < 0.3 else "") + "%}"

    def out(self, e):
        return "{{" + self.pick(" ", " ", "- ", "+ " if self.r.random() < 0.2 else "") + e + self.pick(" ", " ", " -") + "}}"

    def data(self):
        return "".join(self.pick(" ", "\n", "  ", "text", "é", "\n\n", "a b", "<|x|>", "\t", "}", "{", "%}", "#", "\r\n" if self.r.random() < 0.1 else "")
                       for _ in range(self.r.randrange(1, 4)))

    def call(self, d):
        name, n = self.r.choice(self.macros)
        args = [self.any(d) for _ in range(self.r.randrange(n + 1))]
        if self.r.random() < 0.3 and len(args) < n:
            args.append(f"p{n - 1}={self.any(d)}")
        return f"{name}({', '.join(args)})"

    def scope(self, d, **more):
        """Statements inside a block, whose names are forgotten afterwards."""
        kept = self.strs[:], self.ints[:], self.lists[:], self.dicts[:], self.macros[:], self.loops, self.spaces[:]
        for k, v in more.items():
            setattr(self, k, getattr(self, k) + v)
        text = self.body(d)
        if self.r.random() < 0.8:
            self.strs, self.ints, self.lists, self.dicts, self.macros, self.loops, self.spaces = kept
        else:
            self.loops = kept[5]
        return text

    def statement(self, d):
        k = self.r.randrange(22)
        if k < 6 or d <= 0:
            return self.out(self.any(self.r.randrange(3)) if k < 4 else self.str(2))
        if k < 9:
            t = self.tag(f"if {self.bool(2)}") + self.scope(d - 1)
            if self.r.random() < 0.3:
                t += self.tag(f"elif {self.bool(1)}") + self.scope(d - 1)
            if self.r.random() < 0.5:
                t += self.tag("else") + self.scope(d - 1)
            return t + self.tag("endif")
        if k < 12:
            kind = self.r.randrange(4)
            if kind == 0:
                head, more = f"for k, v in {self.dict(1)}.items()", {"strs": ["k"]}
            elif kind == 1:
                head, more = f"for x in {self.strlist(1)}", {"strs": ["x"]}
            elif kind == 2:
                head, more = f"for x in {self.intlist(1)}", {"ints": ["x"]}
            else:
                head, more = f"for m in {self.pick('msgs', 'msgs', 'msgs[::-1]', 'msgs[1:]')}", {}
            if self.r.random() < 0.25:
                head += f" if {self.bool(1)}"
            body = self.scope(d - 1, loops=1, **more)
            if self.r.random() < 0.15:
                body += self.tag(f"if {self.bool(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.data()
            t = self.tag(head) + body
            if self.r.random() < 0.2:
                t += self.tag("else") + self.scope(d - 1)
            return t + self.tag("endfor")
        if k < 15:
            name = self.pick("q", "w", "s", "x", "y")
            kind = self.r.randrange(4)
            if kind == 0:
                self.ints.append(name) if name not in self.strs else None
                return self.tag(f"set {name} = {self.int(2) if name in self.ints else self.str(2)}")
            if kind == 1:
                return self.tag(f"set {name}, z9 = {self.str(1)}, {self.any(1)}") + self.tag("set z8 = z9")
            self.strs.append(name)
            return self.tag(f"set {name} = {self.str(2)}")
        if k == 15:
            name = self.pick("q", "w", "y")
            body = self.scope(d - 1)
            self.strs.append(name)
            return self.tag(f"set {name}{self.pick('', '', ' | upper', ' | trim | title')}") + body + self.tag("endset")
        if k == 16:
            name = self.pick("ns", "na")
            self.spaces.append(name)
            return self.tag(f"set {name} = namespace(v={self.any(1)}{self.pick('', ', w=1')})")
        if k == 17 and self.spaces:
            return self.tag(f"set {self.r.choice(self.spaces)}.v = {self.any(2)}")
        if k < 19:
            name, n = self.pick("f1", "f2", "f3"), self.r.randrange(3)
            args = ", ".join(f"p{a}" + (f"={self.any(0)}" if a == n - 1 and self.r.random() < 0.5 else "") for a in range(n))
            kept, self.loops = self.loops, 0
            body = self.scope(d - 1, strs=[f"p{a}" for a in range(n)]) + (self.out("varargs") if self.r.random() < 0.1 else "") + (self.out("kwargs") if self.r.random() < 0.1 else "")
            self.loops = kept
            self.macros.append((name, n))
            return self.tag(f"macro {name}({args})") + body + self.tag("endmacro")
        if k == 19:
            return self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)', 'replace(' + repr('a') + ', ' + repr('b') + ')', 'title')}") + self.scope(d - 1) + self.tag("endfilter")
        if k == 20:
            return self.tag("generation") + self.scope(d - 1) + self.tag("endgeneration")
        return "{#" + self.pick("", "-", "+" if self.r.random() < 0.2 else "") + self.data().replace("#}", "") + self.pick("", "-", "") + "#}"

    def body(self, d):
        t = ""
        for _ in range(self.r.randrange(1, 4)):
            if self.r.random() < 0.5:
                t += self.data()
            t += self.statement(d)
        return t + (self.data() if self.r.random() < 0.4 else "")

    def template(self):
        if self.r.random() < 0.35:
            return self.out(self.any(self.r.randrange(1, 4)))
        return self.body(3) + self.pick("", "\n", "\n\n")


def jinja(source, context):
    try:
        text = _cached_compile_jinja_template(source).render(**json.loads(json.dumps(context)))
        text.encode()
        return text
    except Exception as e:
        return FAIL


REFUSED = re.compile(r"beyond 64 bits|shows an address|weft does not have|weft has none|weft has real|a base that weft|more than \d+ steps"
                     r"|a string of \d+ bytes, |the values of a template have|nested too deeply|values nested deeper|a width below")


KINDS = ["none", "true", "3", "-1.5", "'aB'", "''", "[1, 'b']", "(2,)", "{'k': 1}", "{'k': 1}.items()", "range(3)", "nope",
         "[1, 2]|map('string')", "namespace(a=1)", "dict", "'x'.upper", "('<a>'|safe)"]
FILTERS = """abs attr capitalize center count d default dictsort e escape first float forceescape format indent int items join last length
    list lower map max min reject rejectattr replace reverse round safe select selectattr sort string sum title tojson trim unique
    upper wordcount""".split()
TESTS = """boolean callable defined divisibleby eq escaped even false filter float ge gt in integer iterable le lt lower mapping ne none
    number odd sameas sequence string test true undefined upper""".split()
METHODS = """capitalize center count endswith find format index isalnum isalpha isascii isdecimal isdigit islower isnumeric isprintable
    isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit
    rstrip split splitlines startswith strip swapcase title upper zfill""".split()


def products():
    """Every filter, test, method and operator with every kind of value, and with wrong arguments."""
    for f in FILTERS:
        for v in KINDS:
            yield "{{ %s|%s }}" % (v, f)
        for v in ("'a b'", "[2, 'b']"):
            for a in ("1", "'a'", "1, 2, 3, 4, 5", "zz=1", "'a', 'b'", "none", "'upper'", "true, false"):
                yield "{{ %s|%s(%s)%s }}" % (v, f, a, "|list" if f in ("map", "select", "reject", "selectattr", "rejectattr", "unique", "items") else "")
    for t in TESTS:
        for v in KINDS:
            yield "{{ %s is %s }}" % (v, t)
            yield "{{ %s is %s(2) }}" % (v, t)
    for m in METHODS:
        for a in ("", "'a'", "1", "'a', 1", "'a', 'b'", "zz=1", "1, 2, 3, 4", "none", "'a', 1, 2", "'a', 'b', 'c'", "['a', 'b']", "7, '*'", "'a', none, -1"):
            yield "{{ ' a bA ba\\n'.%s(%s) }}" % (m, a)
        yield "{{ ('<a b>'|safe).%s('a', '<') }}{{ ('<a b>'|safe).%s() }}" % (m, m)
        yield "{{ ('<a b>'|safe).%s('a') }}" % m
    for v in KINDS:
        for e in ("V()", "V.x", "V['x']", "V[0]", "V[-9]", "V[1:]", "V[none:]", "V['a':]", "V[::0]", "V[::-2]", "V[[]]", "V[V]", "-V", "+V", "not V", "V.items", "V.upper()",
                  "V.get('k')", "V.count(1)", "V.index('b')", "V.copy()", "V.real", "V.__class__", "V._x", "V.keys()|list", "V|length", "V ~ 1", "'%s' % V", "'%d' % V", "'%r %s' % V",
                  "'{}'.format(V)", "'{:>9}'.format(V)", "'{:d}'.format(V)", "'{:.2f}'.format(V)", "V|tojson", "[V]", "{V: 1}", "V in [V]", "V in {}", "1 in V", "'a' in V",
                  "V if V", "range(V)", "dict(V)", "namespace(V)", "dict(*V)", "dict(**V)", "[3, V]|sort", "[V, V]|unique|list", "[V]|sum", "[V, 1]|max", "[V]|join",
                  "{'a': V, 'b': 1}|dictsort(by='value')", "[{'a': V}]|map(attribute='a')|list", "[V]|map('upper')|list", "[V]|select('odd')|list", "raise_exception(V)",
                  "strftime_now(V)", "'a'.join(V)", "V|first", "V|last", "'x'|default(V)", "'abc'|replace('b', V)", "'abc'|indent(V)", "3.14159|round(V)", "'5'|int(V)",
                  "[1]|tojson(indent=V)", "[1]|tojson(separators=V)", "{'b': 1, 'a': 2}|tojson(sort_keys=V)", "'a'.center(V)", "'a'.zfill(V)", "'abc'.strip(V)", "'abc'.startswith(V)"):
            yield "{{ %s }}" % e.replace("V", v if v.isalnum() else "(" + v + ")")
        for e in ("{% for x in V %}{{ x }}{{ loop.last }}{% endfor %}", "{% for a, b in V %}{{ a }}{% endfor %}", "{% set a, b = V %}{{ a }}", "{% set q = V %}{% set q.x = 1 %}",
                  "{% for x in V if x %}{{ loop.length }}{% endfor %}", "{% if V %}y{% else %}n{% endif %}", "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f(*V) }}{{ f(**V) }}"):
            yield e.replace("V", "(" + v + ")")
        for w in KINDS[:14:2] + KINDS[3:16:4]:
            for o in ("+", "-", "*", "/", "//", "%", "**", "<", "==", "in"):
                yield "{{ (%s) %s (%s) }}" % (v, o, w)


def cases(count, seed):
    for k in range(count):
        m = Maker(f"{seed}.{k}")
        context = m.context()
        yield m.template(), context


def ask(run, source, context):
    run.stdin.write(json.dumps({"template": source, "context": context}) + "\n")
    run.stdin.flush()
    return json.loads(run.stdout.readline())


def diff(program, count, seed):
    run = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    bad = fails = 0
    refused = collections.Counter()
    for n, (source, context) in enumerate(itertools.chain(cases(count, seed), ((p, {}) for p in products()))):
        answer = ask(run, source, context)
        text = jinja(source, context)
        if text is FAIL:
            fails += 1
            same = "error" in answer
        else:
            same = answer.get("text") == text
            why = REFUSED.search(answer.get("error", ""))
            if why or (not same and re.search(r" (at )?0x[0-9a-f]{6,}", text)):
                refused[why.group() if why else "an address"] += 1
                same = True
        if not same:
            bad += 1
            if bad <= 30:
                print(f"--- {seed}.{n}\n{source!r}\n{json.dumps(context)[:600]}\njinja2: {'raises' if text is FAIL else repr(text)[:700]}\n"
                      f"weft:   {answer.get('text', answer.get('error'))!r:.700}")
    print(f"{n + 1} templates, seed {seed}: {bad} differ, {fails} fail in both, refused by weft only: {dict(refused)}")
    return bad != 0


def sample(program, count, seed):
    run = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    kept = size = 0
    with open(os.path.join(HERE, "sample.jsonl"), "w") as f:
        made = itertools.chain(((p, {}) for p in products()), cases(100 * count, seed))
        for source, context in made:
            if kept == count:
                break
            used = {k: v for k, v in context.items() if re.search(rf"\b{k}\b", source)}
            text = jinja(source, context)
            line = json.dumps([source, used] + ([] if text is FAIL else [text]), ensure_ascii=False, separators=(",", ":"))
            if len(line) > 230 or (text is FAIL and context and kept % 10) or (text is not FAIL and "0x" in text) or text != jinja(source, used):
                continue
            if REFUSED.search(ask(run, source, used).get("error", "")):
                continue
            f.write(line + "\n")
            kept, size = kept + bool(context), size + len(line)
    print(f"{kept} templates, {size} bytes")


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "diff":
        sys.exit(diff(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    if len(sys.argv) == 5 and sys.argv[1] == "sample":
        sys.exit(sample(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    sys.exit(__doc__)


main()

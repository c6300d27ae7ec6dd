#!/usr/bin/env python3
"""make_binding.py - the ctypes description of weft.h, made from the header.

    tools/make_binding.py            writes python/weft/_api.py
    tools/make_binding.py --check    exit status 1 if that file is not what weft.h gives
    tools/make_binding.py --offsets  prints a C program that prints size and offsets of every struct

Nobody writes a struct or a prototype a second time: a wrong one reads other memory, without a message. The test
tests/python/test_binding.py compares the offsets that the C compiler gives with those of the classes.
"""
import os
import sys

from weft_header import Header

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TARGET = os.path.join(ROOT, "python", "weft", "_api.py")

SCALARS = {
    "bool": "c_bool", "int": "c_int", "size_t": "c_size_t", "float": "c_float", "double": "c_double", "char": "c_char",
    "text": "c_char_p", "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
}


class Writer:
    def __init__(self, header):
        self.header = header
        self.defines = dict(header.defines)
        self.kinds = {d.name: d.kind for d in header.declarations}

    def ctype(self, base, stars, terminated=True):
        """The ctypes type of `base` with so many stars. A text that has a length of its own is not a c_char_p, which
        ends at the first zero."""
        const, name = base.startswith("const "), base.replace("const ", "")
        if name == "void":
            return "None" if stars == 0 else "c_void_p" if stars == 1 else "POINTER(c_void_p)"
        if name == "char" and stars and const and terminated:
            return {1: "c_char_p", 2: "POINTER(c_char_p)"}[stars]
        kind = self.kinds.get(name)
        if kind == "callback":
            return name
        inner = SCALARS.get(name) or ("c_int" if kind == "enum" else name)
        for _ in range(stars):
            inner = f"POINTER({inner})"
        return inner

    def field(self, siblings, base, stars, name, dims):
        has_length = any(s[2] in ("length", "n", name + "_length") and s[0] == "size_t" for s in siblings)
        text = self.ctype(base, stars, not (stars == 1 and has_length))
        for d in reversed(dims):
            text += f" * {self.defines.get(d, d)}"
        return text

    def parameter(self, base, stars, name, dims, into):
        """Where the address of a text is to be stored, whose length is stored beside it."""
        return self.ctype(base, stars, not (into and base == "const char" and stars == 2))

    def returned(self, returns, given):
        base = returns.replace("*", "").strip()
        unterminated = any(p[2] == "length" and p[1] == 1 for p in given)
        return self.ctype(base, returns.count("*"), not unterminated)

    def lines(self):
        yield '"""weft.h for ctypes. Made by tools/make_binding.py; do not edit."""'
        yield "from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32,"
        yield "                    c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p)"
        yield ""
        for name, value in self.header.defines:
            yield f"{name} = {value}"
        yield ""
        structs = []
        for kind, name, what, comment, _, _ in self.header.declarations:
            if kind == "enum":
                yield f"# {name}"
                yield from (f"{constant} = {value}" for constant, value in what)
                yield ""
            elif kind in ("opaque", "struct"):
                yield from ["", f"class {name}(Structure):", f'    """{quoted(comment) or name}"""', ""]
                if kind == "struct":
                    structs.append((name, what))
        for kind, name, what, comment, _, _ in self.header.declarations:
            if kind == "callback":
                returns, given = what
                types = [self.ctype(returns.replace("*", "").strip(), returns.count("*"))]
                types += [self.callback_type(given, p) for p in given]
                yield f"{name} = CFUNCTYPE({', '.join(types)})"
        for name, what in structs:
            yield from ["", f"{name}._fields_ = ["]
            yield from (f'    ("{f[2]}", {self.field(what, *f)}),' for f in what)
            yield "]"
        yield from ["", "structs = [" + ", ".join(name for name, _ in structs) + "]", "", "# name: (result, parameters, comment)", "functions = {"]
        for kind, name, what, comment, _, _ in self.header.declarations:
            if kind == "function":
                returns, given = what
                types = ", ".join(self.parameter(*p, True) for p in given)
                yield f'    "{name}": ({self.returned(returns, given)}, [{types}],'
                yield f'        """{quoted(comment)}"""),'
        yield "}"

    def callback_type(self, given, p):
        base, stars, name, _ = p
        has_length = any(s[2] in ("length", "n") and s[0] == "size_t" for s in given)
        return self.ctype(base, stars, not has_length)


def quoted(comment):
    return comment.replace("\\", "\\\\")


def offsets(header):
    yield "#include <stddef.h>\n#include <stdio.h>\n#include <weft.h>\nint main(void)\n{"
    for kind, name, what, *_ in header.declarations:
        if kind == "struct":
            yield f'    printf("{name} %zu\\n", sizeof({name}));'
            yield from (f'    printf("{name}.{f[2]} %zu\\n", offsetof({name}, {f[2]}));' for f in what)
    yield "    return 0;\n}"


def main():
    header = Header()
    if sys.argv[1:] == ["--offsets"]:
        print("\n".join(offsets(header)))
        return 0
    text = "\n".join(Writer(header).lines()) + "\n"
    if sys.argv[1:] == ["--check"]:
        if open(TARGET).read() == text:
            return 0
        sys.exit("python/weft/_api.py is not what weft.h gives: run tools/make_binding.py")
    if sys.argv[1:]:
        print(__doc__.strip())
        return 2
    open(TARGET, "w").write(text)
    return 0


sys.exit(main())

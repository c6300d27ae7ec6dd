#!/usr/bin/env python3
"""unicode.py - writes src/text/unicode/tables.c and src/text/regex/tables.c.

Asks Hugging Face's tokenizers, code point by code point, what each class holds: its normalizers and
pre-tokenizers ask libraries of five Unicode versions, so there is no file of the standard to copy from.
A property in a pattern is written down twice: as PCRE2 of Unicode 14 spells it, with the ranges that
Oniguruma inside tokenizers adds, for classes that PCRE2 can hold; and as categories, a script and ranges,
for those that have to be worked out. Where PCRE2 has what tokenizers has not, only the ranges are left.

    tools/unicode.py [FILE]            writes both files, or one (about six minutes)
    tools/unicode.py --check [FILE]    says whether they are what it would write
    tools/unicode.py --golden          remakes tests/golden/unicode: normal forms and where each byte came from; what
                                       each class and some patterns hold, as hashes (about two minutes)

Needs Python's tokenizers, libpcre2-8 and libonig (for the names of its properties only).
"""
import ctypes
import hashlib
import os
import random
import re
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "text")
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, POINTS))


def ranges(points):
    """Sorted code points as [first, last] pairs; surrogates do not interrupt a range."""
    out = []
    for c in sorted(points):
        if out and (c == out[-1][1] + 1 or (out[-1][1] == 0xD7FF and c == 0xE000)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


# ---- patterns ---------------------------------------------------------------------------------

def onig(pattern):
    """The code points that a pattern of one character matches in tokenizers; None if it is none."""
    try:
        erase = normalizers.Replace(Regex(pattern), "")
    except Exception:
        return None
    out = set()
    for i in range(0, len(ALL), 65536):
        part = ALL[i:i + 65536]
        out |= set(map(ord, part)) - set(map(ord, erase.normalize_str(part)))
    return out


class Pcre:
    """The same through PCRE2: runs of a class over the text of all code points."""

    def __init__(self):
        self.lib = ctypes.CDLL("libpcre2-8.so.0")
        for name, result in (("compile", ctypes.c_void_p), ("match_data_create_from_pattern", ctypes.c_void_p),
                             ("get_ovector_pointer", ctypes.POINTER(ctypes.c_size_t))):
            getattr(self.lib, f"pcre2_{name}_8").restype = result
        self.text = ALL.encode()
        at, self.point_at = 0, {}
        for c in POINTS:
            self.point_at[at] = c
            at += len(chr(c).encode())
        self.point_at[at] = 0x110000

    def members(self, items):
        """The code points of the class [items]; None if it does not compile."""
        pattern = f"[{items}]+".encode()
        error, offset = ctypes.c_int(), ctypes.c_size_t()
        code = self.lib.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), 0x000A0000, ctypes.byref(error),
                                        ctypes.byref(offset), None)  # PCRE2_UTF | PCRE2_UCP
        if not code:
            return None
        code = ctypes.c_void_p(code)
        data = ctypes.c_void_p(self.lib.pcre2_match_data_create_from_pattern_8(code, None))
        out, at = set(), 0
        while self.lib.pcre2_match_8(code, self.text, ctypes.c_size_t(len(self.text)), ctypes.c_size_t(at),
                                     0x40000000, data, None) > 0:  # PCRE2_NO_UTF_CHECK
            v = self.lib.pcre2_get_ovector_pointer_8(data)
            out.update(range(self.point_at[v[0]], self.point_at[v[1]]))
            at = v[1]
        return {c for c in out if not 0xD800 <= c < 0xE000}


CATEGORIES = """
c other, cc control, cf format, cn unassigned, co privateuse, l letter, lc casedletter, ll lowercaseletter,
lm modifierletter, lo otherletter, lt titlecaseletter, lu uppercaseletter, m mark combiningmark,
mc spacingmark, me enclosingmark, mn nonspacingmark, n number, nd decimalnumber, nl letternumber,
no othernumber, p punctuation, pc connectorpunctuation, pd dashpunctuation, pe closepunctuation,
pf finalpunctuation, pi initialpunctuation, po otherpunctuation, ps openpunctuation, s symbol,
sc currencysymbol, sk modifiersymbol, sm mathsymbol, so othersymbol, z separator, zl lineseparator,
zp paragraphseparator, zs spaceseparator"""

# PCRE2's equivalents of Oniguruma's own names; ranges cover the rest.
OWN = {
    "alnum": r"\p{Alphabetic}\p{Nd}", "alpha": r"\p{Alphabetic}", "blank": r"\p{Zs}", "cntrl": r"\p{Cc}",
    "digit": r"\p{Nd}", "graph": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}", "lower": r"\p{Lowercase}",
    "print": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs}", "punct": r"\p{P}", "space": "",
    "upper": r"\p{Uppercase}", "xdigit": "", "word": r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}", "ascii": "",
    "any": r"\x{0}-\x{10FFFF}", "assigned": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}\p{Co}",
    "alphabetic": r"\p{Alphabetic}", "lowercase": r"\p{Lowercase}", "uppercase": r"\p{Uppercase}",
    "whitespace": "", "ideographic": r"\p{Ideographic}", "emoji": r"\p{Emoji}",
    "emojipresentation": r"\p{Emoji_Presentation}", "emojimodifier": r"\p{Emoji_Modifier}",
    "extendedpictographic": r"\p{Extended_Pictographic}",
}


def onig_names():
    """Every word in libonig that may name a property."""
    import subprocess
    path = subprocess.run(["sh", "-c", "ls /usr/lib/*/libonig.so.5"], capture_output=True, text=True).stdout.split()[0]
    words = set(re.findall(rb"[a-z][a-z0-9]{1,40}", open(path, "rb").read()))
    return sorted(w.decode() for w in words)


def edges(number_of):
    """[first code point << 8 | number] where the number changes; surrogates go with what is before them."""
    out = []
    for c in POINTS:
        if not out or out[-1] & 0xFF != number_of.get(c, 0):
            out.append(c << 8 | number_of.get(c, 0))
    return out


class Properties:
    """Everything a pattern may name."""

    def __init__(self):
        self.pcre, self.base_sets = Pcre(), {}
        self.sets, self.items, self.categories, self.scripts = {}, {}, [], {}
        bases = dict(OWN)
        for group in CATEGORIES.split(","):
            names = group.split()
            category = names[0].capitalize()
            for name in names:
                bases[name] = r"\p{Lu}\p{Ll}\p{Lt}" if category == "Lc" else r"\p{%s}" % category
            if len(category) == 2 and category != "Lc":
                self.categories.append(names[0])
        for name in onig_names():
            if name not in bases and self.pcre.members(r"\p{sc:%s}" % name) is not None:
                bases[name] = r"\p{sc:%s}" % name
        for name, base in sorted(bases.items()):
            members = onig(r"[\p{%s}]" % name)  # \p{word} without brackets has six code points more
            if members is not None and not name.startswith("zzzz") and name != "unknown":
                self.sets[name], self.items[name] = members, self.spell(base, members)
                if base.startswith(r"\p{sc:"):
                    self.scripts.setdefault(frozenset(members), len(self.scripts) + 1)

    def spell(self, base, members):
        """Items of a class of PCRE2, and the ranges they lack."""
        if base not in self.base_sets:
            self.base_sets[base] = self.pcre.members(base) if base else set()
        theirs = self.base_sets[base]
        if theirs - members:
            base, theirs = "", set()
        ascii_part = "".join(r"\x%02X-\x%02X" % (a, b) if a != b else r"\x%02X" % a
                             for a, b in ranges(c for c in members if c < 128))
        return ascii_part + base, ranges(c for c in members - theirs if c >= 128)

    def parts(self, name):
        """Categories as bits, a script, and the ranges that are in neither."""
        members = self.sets[name]
        script = self.scripts.get(frozenset(members), 0)
        if script:
            return 0, script, []
        mask, rest = 0, set(members)
        for i, category in enumerate(self.categories):
            if self.sets[category] <= members:
                mask |= 1 << i
                rest -= self.sets[category]
        return mask, 0, ranges(rest)


def regex_tables():
    known = Properties()
    extra, index, rows = [], {}, []

    def place(more):
        key = tuple(map(tuple, more))
        if key not in index:
            index[key] = len(extra)
            extra.extend(more)
        return index[key] if more else 0, len(more)

    for name in sorted(known.sets):
        items, more = known.items[name]
        mask, script, rest = known.parts(name)
        rows.append('    { "%s", "%s", %d, %d, 0x%X, %d, %d, %d },' %
                    (name, items.replace("\\", "\\\\"), *place(more), mask, script, *place(rest)))
    category_of, script_of = {}, {}
    for i, category in enumerate(known.categories):
        category_of.update((c, i) for c in known.sets[category])
    for members, number in known.scripts.items():
        script_of.update((c, number) for c in members)
    out = ["/* Written by tools/unicode.py from what tokenizers %s answers; clang-format stays off it. */" %
           tokenizers.__version__, '#include "text/regex/tables.h"', "", "/* clang-format off */",
           "const regex_property regex_properties[] = {"]
    out += rows + ["};", "", "const int n_regex_properties = %d;" % len(rows), "",
                   "const uint32_t regex_extra[][2] = {"]
    out += wrap("{ 0x%X, 0x%X }" % tuple(r) for r in extra)
    out += ["};", ""]
    for name, table in (("categories", edges(category_of)), ("scripts", edges(script_of))):
        out += ["const uint32_t regex_%s[] = {" % name]
        out += wrap("0x%X" % e for e in table)
        out += ["};", "", "const int n_regex_%s = %d;" % (name, len(table)), ""]
    return "\n".join(out[:-1] + ["/* clang-format on */", ""])


def wrap(cells):
    """Cells as lines of at most 100 columns."""
    lines, line = [], "   "
    for cell in cells:
        if len(line) + len(cell) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + cell + ","
    return lines + [line]


# ---- classes of normalizers and pre-tokenizers -----------------------------------------------------

def erased_by(normalizer):
    return {c for c in POINTS if normalizer.normalize_str("a" + chr(c)) == "a"}


def pieces(pre_tokenizer, text):
    return [p for p, _ in pre_tokenizer.pre_tokenize_str(text)]


def classes():
    """bit -> set; the bits are those of unicode.c."""
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    nfd = normalizers.NFD()
    digits, punctuation, white = (pre_tokenizers.Digits(), pre_tokenizers.Punctuation(),
                                  pre_tokenizers.Whitespace())
    accents = normalizers.BertNormalizer(**{**bert, "strip_accents": True})
    return {
        1: {c for c in POINTS if len(pieces(digits, "a" + chr(c))) > 1},
        2: {c for c in POINTS if pieces(white, "a" + chr(c)) == ["a" + chr(c)]},
        4: erased_by(normalizers.BertNormalizer(**{**bert, "clean_text": True})) - {0xFFFD},
        8: {c for c in POINTS if len(pieces(punctuation, "a" + chr(c))) > 1},
        16: {c for c in POINTS if nfd.normalize_str(chr(c)) == chr(c) and accents.normalize_str("a" + chr(c)) == "a"},
        32: erased_by(normalizers.StripAccents()),
        64: inert(),
    }


def inert():
    """What has no meaning to the normal forms of tokenizers, whatever a newer utf8proc says."""
    nfkd = normalizers.NFKD()
    out = set()
    for c in POINTS:
        s = chr(c)
        if unicodedata.category(s) == "Cn":
            out.add(c)
        elif unicodedata.combining(s) or unicodedata.decomposition(s):
            # a mark of class 240 sorts after any other mark, one of class 1 before it
            known = (nfkd.normalize_str(s) != s or nfkd.normalize_str("\u0345" + s) != "\u0345" + s
                     or nfkd.normalize_str(s + "\u0334") != s + "\u0334")
            if not known:
                out.add(c)
    return out - {0x0345, 0x0334}


def scripts():
    """[first code point, script] where the script changes; 0 is any."""
    split = pre_tokenizers.UnicodeScripts()

    def joined(a, b):
        return len(pieces(split, chr(a) + chr(b))) < 2

    def is_any(c):
        return joined(0x41, c) and joined(0x4E00, c)

    representative, out, last = [], [], None
    for c in POINTS:
        if is_any(c):
            number = 0
        elif last and out[-1][1] and joined(last, c):
            number = out[-1][1]
        else:
            same = [i for i, r in enumerate(representative) if joined(r, c)]
            if not same:
                representative.append(c)
                same = [len(representative) - 1]
            number = same[0] + 1
        if not out or out[-1][1] != number:
            out.append([c, number])
        last = c
    return out


def lower_cases():
    """[first, last, step, difference] for the lower cases that are one code point."""
    lower = normalizers.Lowercase()
    out = []
    for c in POINTS:
        to = lower.normalize_str(chr(c))
        if to == chr(c):
            continue
        if len(to) > 1:
            assert c == 0x130 and to == "i\u0307", hex(c)
            continue
        d = ord(to) - c
        if out and out[-1][3] == d and c - out[-1][1] in (1, 2) and out[-1][2] in (0, c - out[-1][1]):
            out[-1][1:3] = c, c - out[-1][1]
        else:
            out.append([c, c, 0, d])
    return [[a, b, s or 1, d] for a, b, s, d in out]


def unicode_tables():
    bits = [0] * 0x110000
    for bit, members in classes().items():
        for c in members:
            bits[c] |= bit
    for c in range(0xD800, 0xE000):
        bits[c] = bits[0xD7FF]
    edges = [(c, bits[c]) for c in range(0x110000) if c == 0 or bits[c] != bits[c - 1]]
    index, at = [], 0
    for block in range(0, 0x20000, 0x100):
        while at + 1 < len(edges) and edges[at + 1][0] <= block:
            at += 1
        index.append(at)
    script, lower = scripts(), lower_cases()

    out = ["/* Written by tools/unicode.py from what tokenizers %s answers; clang-format stays off it. */" %
           tokenizers.__version__, '#include "text/unicode/tables.h"', "", "/* clang-format off */",
           "const uint32_t unicode_edges[] = {"]
    out += wrap("0x%X" % (c << 8 | b) for c, b in edges)
    out += ["};", "", "const int n_unicode_edges = %d;" % len(edges), "", "const uint16_t unicode_index[512] = {"]
    out += wrap(map(str, index))
    out += ["};", "", "const uint32_t unicode_scripts[] = {"]
    out += wrap("0x%X" % (c << 8 | n) for c, n in script)
    out += ["};", "", "const int n_unicode_scripts = %d;" % len(script), "", "const unicode_case unicode_lowers[] = {"]
    out += wrap("{ 0x%X, 0x%X, %d, %d }" % tuple(row) for row in lower)
    out += ["};", "", "const int n_unicode_lowers = %d;" % len(lower), "/* clang-format on */", ""]
    return "\n".join(out)


# ---- classes as hashes: asked again, of the library and not of the tables ----------------------------

PATTERNS = r"""\s \S \d \D \w \W \h \p{L} \p{Lu} \p{Ll} \p{Lt} \p{Lm} \p{Lo} \p{M} \p{Mn} \p{Mc} \p{Me} \p{N} \p{Nd} \p{Nl} \p{No}
    \p{P} \p{Pc} \p{Pd} \p{Ps} \p{Pe} \p{Pi} \p{Pf} \p{Po} \p{S} \p{Sm} \p{Sc} \p{Sk} \p{So} \p{Z} \p{Zs} \p{C} \p{Cc} \p{Cf}
    \p{Co} \P{L} \p{^N} \p{Han} \p{Hiragana} \p{Katakana} \p{Hangul} \p{Latin} \p{Greek} \p{Cyrillic} \p{Arabic}
    \p{Devanagari} \p{Thai} \p{Alpha} \p{Upper} \p{Lower} \p{Alnum} \p{Punct} \p{Space} \p{Word} \p{Graph} \p{Print}
    \p{Cntrl} \p{Blank} [[:punct:]] [[:alpha:]] [[:^alnum:]] [[:cntrl:]] [[:space:]] [^\s\p{L}\p{N}] [^\r\n\p{L}\p{N}]
    [\p{L}&&[^\p{Han}]] [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"""


def bitmap(members):
    out = bytearray(0x110000 // 8)
    for c in members:
        out[c >> 3] |= 1 << (c & 7)
    return out


def class_hashes():
    """Lines of: kind, name, members, SHA-256 of a bit (script: a byte; lower: pairs of u32) for each code point."""
    known = classes()
    white = pre_tokenizers.WhitespaceSplit()
    han = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
    sets = {"numeric": known[1], "word": known[2], "control": known[4], "punctuation": known[8], "accent": known[16],
            "mark": known[32], "space": {c for c in POINTS if pieces(white, "a" + chr(c) + "a") == ["a", "a"]},
            "han": {c for c in POINTS if han.normalize_str(chr(c)) == " " + chr(c) + " "}}
    rows = [("class", name, len(x), bitmap(x)) for name, x in sorted(sets.items())]
    script, edges = bytearray(0x110000), scripts() + [[0x110000, 0]]
    for (first, number), (end, _) in zip(edges, edges[1:]):
        script[first:end] = bytes([number]) * (end - first)
    script[0xD800:0xE000] = bytes(0x800)
    rows.append(("script", "-", sum(b > 0 for b in script), script))
    lower = normalizers.Lowercase()
    pairs = [(c, ord(d)) for c in POINTS if lower.normalize_str(chr(c)) != chr(c) for d in lower.normalize_str(chr(c))]
    rows.append(("lower", "-", len(pairs), b"".join(x.to_bytes(4, "little") for pair in pairs for x in pair)))
    for pattern in PATTERNS.split():
        members = onig(pattern)
        rows.append(("pattern", pattern, len(members), bitmap(members)))
    return ["%s %s %d %s\n" % (kind, name, n, hashlib.sha256(data).hexdigest()) for kind, name, n, data in rows]


# ---- normal forms -----------------------------------------------------------------------------------

def golden():
    """Lines of: form, text, normal form, and for each of its bytes the byte of the text it came from."""
    r = random.Random(1)
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x300, 0x346), (0x591, 0x5F5), (0x900, 0xE00),
              (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2200), (0x3000, 0x3100), (0xAC00, 0xD7A4),
              (0xF900, 0xFFF0), (0x11000, 0x12000), (0x1D100, 0x1D200), (0x10000, 0x20000)]
    out = []
    for i in range(320):
        form = (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD)[i % 4]()
        text = "".join(chr(r.randrange(*r.choice(blocks))) for _ in range(r.randint(1, 12)))
        t = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}, unk_token="x"))
        t.normalizer, t.pre_tokenizer = form, pre_tokenizers.Split(Regex("(?m)."), "isolated")
        normal = form.normalize_str(text)
        origin = [len(text[:begin].encode()) for begin, _ in t.encode(text).offsets]
        each = ",".join(str(o) for c, o in zip(normal, origin) for _ in c.encode())
        out.append("%d %s %s %s\n" % (i % 4, text.encode().hex(), normal.encode().hex(), each))
    where = os.path.join(ROOT, "..", "..", "tests", "golden", "unicode")
    os.makedirs(where, exist_ok=True)
    open(os.path.join(where, "forms.txt"), "w").writelines(out)
    open(os.path.join(where, "classes.txt"), "w").writelines(class_hashes())


def main():
    if "--golden" in sys.argv:
        golden()
        return
    same = True
    for name, make in (("unicode/tables.c", unicode_tables), ("regex/tables.c", regex_tables)):
        if any(a.endswith(".c") and a != name for a in sys.argv[1:]):
            continue
        path, text = os.path.join(ROOT, name), make()
        if "--check" in sys.argv:
            known = open(path).read() == text
            print(name, "is as tokenizers answers" if known else "differs")
            same = same and known
        else:
            open(path, "w").write(text)
    sys.exit(0 if same else 1)


main()

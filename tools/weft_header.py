"""weft_header.py - reads include/weft.h: its declarations in order, with the comments above them.

What is made from the header, the Python binding (make_binding.py) and the pages about its functions (site.py), asks here.
"""
import collections
import os
import re

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include", "weft.h")

# kind: "enum", "struct", "opaque", "callback" or "function". what: constants (name, value), fields or (result, parameters);
# fields and parameters are (type, stars, name, dimensions). code: as it is written, comments included.
Declaration = collections.namedtuple("Declaration", "kind name what comment code section")
Section = collections.namedtuple("Section", "title comment")


class Header:
    def __init__(self, path=PATH):
        whole = open(path).read()
        self.opening = clean(whole[: whole.index("*/") + 2])
        self.defines = re.findall(r'^#define (WEFT_\w+)\s+("[^"]*"|\d+)(?:[ \t].*)?$', whole, flags=re.M)
        self.declarations, self.sections = [], []
        begin = whole.index("/* ---- errors")
        text = re.sub(r"^#.*(?:\\\n.*)*$", "", whole[begin : whole.rindex("#ifdef __cplusplus")], flags=re.M)
        # What a comment says cannot end a declaration.
        self._comments = []
        text = re.sub(r"/\*.*?\*/", lambda m: self._comments.append(m.group(0)) or f"@{len(self._comments) - 1}@", text, flags=re.S)
        comment = ""
        for m in re.finditer(r"@(\d+)@|([^;{@\s](?:[^;{]*\{[^}]*\}[^;]*|[^;{]*);)", text):
            if m.group(1):
                found = self._comments[int(m.group(1))]
                title = re.match(r"/\* -+ (.*?) -+\s*\*/", found)
                if title:
                    self.sections.append(Section(title.group(1), ""))
                    comment = ""
                    continue
                if comment:  # a comment without a declaration is about the section
                    self._about(comment)
                comment = clean(found)
            elif m.group(2).strip():
                self._declare(m.group(2).strip(), comment)
                comment = ""

    def _about(self, comment):
        title, before = self.sections[-1]
        self.sections[-1] = Section(title, f"{before}\n\n{comment}".strip())

    def _declare(self, marked, comment):
        text = re.sub(r"@\d+@", " ", marked).strip()
        code = re.sub(r"@(\d+)@", lambda m: self._comments[int(m.group(1))], marked).strip()
        plain = " ".join(text.split())
        enum = re.match(r"typedef enum (\w+) \{(.*)\} \w+;$", text, flags=re.S)
        struct = re.match(r"typedef struct (\w+) \{(.*)\} \w+;$", text, flags=re.S)
        opaque = re.match(r"typedef struct (\w+) (\w+);$", text)
        callback = re.match(r"typedef ([\w ]+?\*?) ?(\w+)\((.*)\);$", plain)
        function = re.match(r"WEFT_API ([\w ]+?\**) ?(weft_\w+)\((.*)\);$", plain)
        if enum:
            found = "enum", enum.group(1), constants(enum.group(2))
        elif struct:
            found = "struct", struct.group(1), fields(struct.group(2))
        elif opaque:
            found = "opaque", opaque.group(1), None
        elif callback:
            found = "callback", callback.group(2), (callback.group(1), parameters(callback.group(3)))
        elif function:
            found = "function", function.group(2), (function.group(1), parameters(function.group(3)))
        else:
            raise SystemExit(f"weft.h: a declaration of unknown form; expected one of weft_header.py:\n{text}")
        self.declarations.append(Declaration(*found, comment, code.replace("WEFT_API ", ""), len(self.sections) - 1))


def clean(comment):
    first, *more = comment[2:-2].split("\n")
    lines = [first.strip()] + [re.sub(r"^ \* ?|^   ", "", line) for line in more]
    return "\n".join(line.rstrip() for line in lines).strip()


def constants(body):
    value, found = 0, []
    for item in body.split(","):
        m = re.match(r"\s*(\w+)(?:\s*=\s*(-?\d+))?\s*$", item)
        if not m:
            continue
        value = int(m.group(2)) if m.group(2) else value
        found.append((m.group(1), value))
        value += 1
    return found


def fields(body):
    return [f for line in body.split(";") for f in declarators(line)]


def parameters(text):
    return [] if text == "void" else [declarators(p)[0] for p in text.split(",")]


def declarators(line):
    """"int64_t a, *b, c[4]" as [("int64_t", 0, "a", []), ("int64_t", 1, "b", []), ("int64_t", 0, "c", ["4"])]."""
    line = " ".join(line.replace("*", " * ").split())
    if not line:
        return []
    first, *more = line.split(",")
    m = re.match(r"((?:const )?\w+)((?: (?:\*|const))*) (\w+)((?:\[\w+\])*)$", first.replace(" [", "["))
    base, stars = m.group(1), m.group(2)
    if base == "const char" and stars.split() == ["*", "const", "*"]:
        base, stars = "text", "*"  # an array of terminated texts
    found = [(base, stars.count("*"), m.group(3), re.findall(r"\w+", m.group(4)))]
    for d in more:
        m = re.match(r"\s*(\*?) ?(\w+)((?:\[\w+\])*)$", d)
        found.append((base, len(m.group(1)), m.group(2), re.findall(r"\w+", m.group(3))))
    return found

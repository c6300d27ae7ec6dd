"""source.py - C source as tokens, and the places where one small wrong change can be made.

A change is a replacement of text[start:end]. It never changes the number of lines, so that the line numbers in assertions
stay, and an object file that is the same byte for byte is the same code. White space tells a binary `*` or `-` from a
pointer or a sign: clang-format sees to that.
"""

import bisect
import collections
import hashlib
import re

Token = collections.namedtuple("Token", "kind text start end")
Function = collections.namedtuple("Function", "name first last")  # indices of the tokens { and }
Change = collections.namedtuple("Change", "kind start end new")

LEXEME = re.compile(
    r"""(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.)*)
      | (?P<space>[ \t]+|\s|//[^\n]*|/\*.*?\*/)
      | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|[uUL]?'(?:[^'\\\n]|\\.)*')
      | (?P<number>\.?[0-9](?:[eEpP][+-]|[0-9A-Za-z_.])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL)

KEYWORDS = set("""if for while do else return switch case default break continue goto sizeof typedef struct union enum
    static const extern volatile register inline _Static_assert _Alignof _Alignas _Generic""".split())
ASSERTS = {"assert", "static_assert", "_Static_assert"}


def tokens_of(text):
    """The tokens without white space, comments and preprocessor lines."""
    return [Token(m.lastgroup, m.group(), m.start(), m.end()) for m in LEXEME.finditer(text)
            if m.lastgroup not in ("space", "directive")]


def closing(tokens, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].kind == "mark":
            depth += (tokens[i].text in "([{") - (tokens[i].text in ")]}")
            if depth == 0:
                return i
    return len(tokens) - 1


def opening(tokens, at):
    depth = 0
    for i in range(at, -1, -1):
        if tokens[i].kind == "mark":
            depth += (tokens[i].text in ")]}") - (tokens[i].text in "([{")
            if depth == 0:
                return i
    return 0


def functions_of(tokens):
    found = []
    i = 0
    while i < len(tokens):
        if tokens[i].text == "{":
            last = closing(tokens, i)
            if i > 1 and tokens[i - 1].text == ")":
                name = tokens[opening(tokens, i - 1) - 1]
                if name.kind == "word":
                    found.append(Function(name.text, i, last))
            i = last
        i += 1
    return found


class Source:
    """A file: its text, tokens, functions and changes."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.tokens = tokens_of(text)
        self.functions = functions_of(self.tokens)
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def line_of(self, at):
        return bisect.bisect_right(self.line_starts, at)

    def line_text(self, number):
        start = self.line_starts[number - 1]
        return " ".join(self.text[start:self.text.find("\n", start)].split())

    def function_at(self, at):
        for f in self.functions:
            if self.tokens[f.first].start <= at < self.tokens[f.last].end:
                return f.name
        return None

    def lines(self, start, end):
        """The whole lines that hold text[start:end]."""
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", max(start, end - 1))
        return first, len(self.text) if last < 0 else last

    def changed(self, change):
        lost = self.text[change.start:change.end].count("\n") - change.new.count("\n")
        return self.text[:change.start] + change.new + "\n" * lost + self.text[change.end:]

    def shown(self, change):
        """The lines before and after the change, each on one line."""
        first, last = self.lines(change.start, change.end)
        new = self.text[first:change.start] + change.new + self.text[change.end:last]
        return " ".join(self.text[first:last].split()), " ".join(new.split())

    def code_lines(self):
        """Lines with code inside a function."""
        return {self.line_of(self.tokens[i].start) for f in self.functions for i in range(f.first, f.last)}

    def changes(self):
        found = []
        for f in self.functions:
            found += Changes(self, f).all()
        return found


def identity(path, text):
    """The same for files that differ in white space and comments only."""
    joined = "\0".join(t.text for t in tokens_of(text))
    return hashlib.sha256((path + "\0" + joined).encode()).hexdigest()[:16]


COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
SIGN = {"+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "<<": ">>", ">>": "<<"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}


class Changes:
    """The changes of one function, operator by operator."""

    def __init__(self, source, function):
        self.source, self.t, self.f = source, source.tokens, function
        self.spared = self.find_spared()

    def find_spared(self):
        """Tokens of assertions and of sizeof, which no test is about."""
        spared = set()
        for i in range(self.f.first, self.f.last):
            if self.t[i].text in ASSERTS or self.t[i].text == "sizeof":
                if self.t[i + 1].text == "(":
                    spared.update(range(i, closing(self.t, i + 1) + 1))
        return spared

    def all(self):
        found = []
        for i in range(self.f.first + 1, self.f.last):
            if i not in self.spared:
                for operator in (self.comparison, self.off_by_one, self.sign, self.drop, self.swap, self.constant):
                    found += operator(i)
        return found

    def replace(self, kind, i, new, last=None):
        return Change(kind, self.t[i].start, self.t[i if last is None else last].end, new)

    def is_operand(self, i):
        """Whether an expression may end with this token."""
        t = self.t[i]
        return t.kind in ("number", "string") or t.text in (")", "]") or t.kind == "word" and t.text not in KEYWORDS

    def is_spaced(self, i):
        after = self.source.text[self.t[i].end:self.t[i].end + 1]
        return after in (" ", "\n")

    def is_binary(self, i):
        return self.t[i].kind == "mark" and self.is_operand(i - 1) and self.is_spaced(i)

    def comparison(self, i):
        t = self.t[i]
        if t.text in COMPARISON and self.is_binary(i):
            return [self.replace("comparison", i, COMPARISON[t.text])]
        if t.text == "!" and t.kind == "mark":
            return [self.replace("comparison", i, "")]
        return []

    def off_by_one(self, i):
        t = self.t
        if t[i].text in ("+", "-") and self.is_binary(i) and t[i + 1].text == "1" and t[i + 2].text not in ("*", "/", "%"):
            return [self.replace("off by one", i, "", i + 1), self.replace("off by one", i + 1, "2")]
        if t[i].text == "for" and t[i + 1].text == "(":
            return self.loop_bounds(i + 1)
        return []

    def loop_bounds(self, at):
        """for (int i = 0; i < n; ...): one turn less at the beginning, one less or more at the end."""
        last = closing(self.t, at)
        stops = [i for i in range(at, last) if self.t[i].text == ";"]
        if len(stops) != 2:
            return []
        found = []
        first, second = stops
        if self.t[first - 1].text == "0" and self.t[first - 2].text == "=":
            found.append(self.replace("off by one", first - 1, "1"))
        words = [self.t[i].text for i in range(first + 1, second)]
        if sum(w in ("<", "<=", ">", ">=", "!=") for w in words) == 1 and not {"&&", "||", "?"} & set(words):
            end = self.t[second].start
            found += [Change("off by one", end, end, " - 1"), Change("off by one", end, end, " + 1")]
        return found

    def sign(self, i):
        t = self.t[i]
        if t.text in SIGN and self.is_binary(i):
            return [self.replace("sign", i, SIGN[t.text])]
        if t.text == "-" and t.kind == "mark" and not self.is_operand(i - 1) and not self.is_spaced(i):
            return [self.replace("sign", i, "")]
        return []

    def begins_statement(self, i):
        before = self.t[i - 1]
        if before.kind == "mark" and before.text in (";", "{", "}") or before.text == "else":
            return self.depth_is_statement(i)
        if before.text == ")":
            return self.t[opening(self.t, i - 1) - 1].text in ("if", "for", "while", "switch")
        return before.text == ":" and self.t[i - 2].kind in ("word", "number", "string") and \
            (self.t[i - 3].text == "case" or self.t[i - 3].text in (";", "{", "}"))

    def depth_is_statement(self, i):
        """Not inside the head of a for, nor in an initialiser."""
        depth = 0
        for k in range(i - 1, self.f.first - 1, -1):
            text = self.t[k].text if self.t[k].kind == "mark" else ""
            if text and text in ")]}":
                depth += 1
            elif text and text in "([{":
                if depth == 0:
                    return text == "{" and self.t[k - 1].text not in ("=", ",", "{", "(")
                depth -= 1
        return False

    def end_of_statement(self, i):
        depth = 0
        for k in range(i, self.f.last):
            text = self.t[k].text if self.t[k].kind == "mark" else ""
            depth += (text != "" and text in "([{") - (text != "" and text in ")]}")
            if text == ";" and depth == 0:
                return k
        return self.f.last - 1

    def drop(self, i):
        """A call, an assignment or a jump is left out; a condition is never met."""
        t = self.t
        if t[i].text == "if" and t[i + 1].text == "(":
            last = closing(t, i + 1)
            if any(k in self.spared for k in range(i, last)):
                return []
            condition = self.source.text[t[i + 1].start:t[last].end]
            return [Change("drop", t[i + 1].start, t[last].end, "(0 && " + condition + ")")]
        if not self.begins_statement(i):
            return []
        end = self.end_of_statement(i)
        jump = t[i].text in ("break", "continue", "goto", "return")
        if jump and end + 1 >= self.f.last:
            return []  # the last statement: nothing, or not C
        if not jump and not self.has_effect(i):
            return []
        return [self.replace("drop", i, ";", end)]

    def has_effect(self, i):
        t = self.t
        if t[i].kind == "mark":
            return t[i].text in ("*", "++", "--")
        if t[i].kind != "word" or t[i].text in KEYWORDS or t[i].text in ASSERTS:
            return False
        return t[i + 1].text in ASSIGNMENTS or t[i + 1].text in ("(", "->", ".", "[")

    def swap(self, i):
        """f(a, b): f(b, a). What does not fit its parameter does not compile."""
        t = self.t
        if t[i].kind != "word" or t[i].text in KEYWORDS or t[i + 1].text != "(":
            return []
        parts = self.arguments(i + 1)
        found = []
        for (a, b), (c, d) in zip(parts, parts[1:]):
            left, right = self.source.text[a:b], self.source.text[c:d]
            if left.split() != right.split() and '"' not in left + right:
                found.append(Change("swap", a, d, right + self.source.text[b:c] + left))
        return found

    def arguments(self, at):
        """Where the arguments of a call begin and end in the text."""
        last = closing(self.t, at)
        parts, first, depth = [], at + 1, 0
        for k in range(at + 1, last + 1):
            text = self.t[k].text if self.t[k].kind == "mark" else ""
            if depth == 0 and (text == "," or k == last):
                if k > first:
                    parts.append((self.t[first].start, self.t[k - 1].end))
                first = k + 1
            depth += (text != "" and text in "([{") - (text != "" and text in ")]}")
        return parts

    def constant(self, i):
        t = self.t[i]
        if t.text in ("true", "false"):
            return [self.replace("constant", i, "false" if t.text == "true" else "true")]
        if t.kind != "number" or self.is_array_size(i):
            return []
        if re.fullmatch(r"0|[1-9][0-9]*", t.text):
            return [self.replace("constant", i, {"0": "1", "1": "0"}.get(t.text, str(int(t.text) + 1)))]
        if re.fullmatch(r"0[.]0*f?", t.text):
            return [self.replace("constant", i, t.text.replace("0.", "1.", 1))]
        return [self.replace("constant", i, "(2 * " + t.text + ")")]

    def is_array_size(self, i):
        """char a[32], b[8]: a larger array is the same program."""
        t = self.t
        if t[i - 1].text != "[" or t[i + 1].text != "]":
            return False
        first = next(k for k in range(i, -1, -1) if t[k].kind == "mark" and t[k].text in ";{}(=") + 1
        while t[first].text in KEYWORDS:
            first += 1
        return t[first].kind == "word" and (t[first + 1].kind == "word" or t[first + 1].text == "*")

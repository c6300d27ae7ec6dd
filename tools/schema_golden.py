#!/usr/bin/env python3
"""Made-up JSON Schemas and instances, judged by weft and by python-jsonschema (draft 2020-12).

    tools/schema_golden.py diff build/tests/schema_run SEED SCHEMAS     compares, prints a table by keyword
    tools/schema_golden.py suite build/tests/schema_run FILE...        the same for files of JSON-Schema-Test-Suite
    tools/schema_golden.py generate build/tests/schema_generate SEED SCHEMAS MODEL TOKENIZER
                                                                        what a model writes, judged by two validators
    tools/schema_golden.py write build/tests/schema_run SEED SCHEMAS >tests/golden/constrain/schemas.txt

Needs Python with jsonschema[format], and jsonschema-rs for `generate`. Instances are written as docs/CONSTRAIN.md says: properties in the schema's
order, no white space or one blank after a comma or colon, numbers with up to 17 digits. An instance that is valid has
to be accepted in one order of its properties; one that is invalid in none of those that are tried. Numbers are
compared as decimals, so that 0.3 is a multiple of 0.1.

In the file that `write` makes, a line is S and a schema that weft compiles, or + or - and a text that is valid or not;
valid texts have the order of properties that weft accepts.
"""
import collections
import itertools
import json
import random
import re
import subprocess
import sys
import threading
from decimal import Decimal, getcontext

import jsonschema
from jsonschema import Draft202012Validator



def pattern(validator, text, value, schema):
    """As ECMA-262 has it: $ is the end, not also the place before a last line feed."""
    if isinstance(value, str) and not re.search(text.replace("$", "\\Z"), value):
        yield jsonschema.ValidationError("no match")


def ecma(schema):
    """The same for the patterns of keys."""
    if isinstance(schema, list):
        return [ecma(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: {p.replace("$", "\\Z"): ecma(x) for p, x in v.items()} if k == "patternProperties" else
            v if k in ("enum", "const") else ecma(v) for k, v in schema.items()}


def strict(check, raises):
    """The packages that check formats let a last line feed pass."""

    def checks(value):
        try:
            return not isinstance(value, str) or ("\n" not in value and bool(check(value)))
        except raises:
            return False

    return checks


def hostname(value):
    return not isinstance(value, str) or (known["hostname"](value) and not value.endswith("."))


def email(value):
    """python-jsonschema only looks for an @."""
    if not isinstance(value, str):
        return True
    name, at, host = value.partition("@")
    atoms = all(a and all(c.isascii() and (c.isalnum() or c in "!#$%&'*+/=?^_`{|}~-") for c in a) for a in name.split("."))
    return bool(at) and atoms and len(name) <= 64 and hostname(host)


getcontext().prec = 700  # 1e289 has a remainder too
known = {k: strict(check, raises) for k, (check, raises) in Draft202012Validator.FORMAT_CHECKER.checkers.items()}
CHECKER = jsonschema.FormatChecker(())
CHECKER.checkers = {k: (check, ()) for k, check in known.items()}
CHECKER.checkers["hostname"] = (hostname, ())
CHECKER.checkers["email"] = (email, ())
Oracle = jsonschema.validators.extend(Draft202012Validator, {"pattern": pattern})
SUPPORTED = """type enum const properties required additionalProperties patternProperties minProperties maxProperties items
prefixItems minItems maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum
multipleOf allOf anyOf oneOf $ref $defs""".split()

# ---- JSON texts ---------------------------------------------------------------------------------------------------


def read(text):
    return json.loads(text, parse_float=Decimal)


def write(value, draw=None, orders=None):
    """The text of a value; `draw` puts blanks after some commas and colons, `orders` chooses orders of keys."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (str, bool, int)) or value is None:
        return json.dumps(value, ensure_ascii=False)
    blank = " " if draw and draw.random() < 0.5 else ""
    if isinstance(value, list):
        return "[" + ("," + blank).join(write(v, draw, orders) for v in value) + "]"
    keys = list(value)
    if orders is not None:
        keys = orders(keys)
    pairs = [json.dumps(k, ensure_ascii=False) + ":" + blank + write(value[k], draw, orders) for k in keys]
    return "{" + ("," + blank).join(pairs) + "}"


def permutations(value, most=400):
    """Texts of a value with other orders of its keys."""

    def lists(v):
        if isinstance(v, dict):
            inner = [list(itertools.islice(lists(v[k]), 50)) for k in v]
            for order in itertools.permutations(range(len(v))):
                keys = list(v)
                for values in itertools.product(*[inner[i] for i in order]):
                    yield "{" + ",".join(json.dumps(keys[i], ensure_ascii=False) + ":" + t for i, t in zip(order, values)) + "}"
        elif isinstance(v, list):
            for values in itertools.product(*[list(itertools.islice(lists(x), 50)) for x in v]):
                yield "[" + ",".join(values) + "]"
        else:
            yield write(v)

    return itertools.islice(lists(value), most)


# ---- schemas ------------------------------------------------------------------------------------------------------

WORDS = ["", "a", "b", "ab", "abc", "aab", "x1", "1", "12", "7z", "Zebra", "hello world", "\"q\"", "back\\slash", "tab\there",
         "line\nfeed", "\u00e9t\u00e9", "\u4e2d\u6587", "\U0001f600", "a-b", "a.b", "\u0001", "/"]
PATTERNS = ["^a", "b$", "^[a-c]+$", "[0-9]", "^.{2,4}$", "^(ab|x)", "a|1", "^[^a]*$", "\\\\|\"", "^\\S+$", "(?:a|b){2}", "^$",
            "^[A-Z][a-z]*$", "[\\u4e00-\\u9fff]", "-|\\.", "^a.*b?c$"]
KEY_PATTERNS = ["^k", "^[a-c]$", "[0-9]$", "x", "^p.*z$"]
FORMATS = {
    "date": ["2024-02-29", "2023-02-29", "2000-12-31", "1900-02-29", "2024-13-01", "2024-1-01", "2024-04-31", "9999-12-31", "x", ""],
    "time": ["12:00:00Z", "23:59:59+01:00", "24:00:00Z", "12:60:00Z", "12:00Z", "12:00:00.123Z", "01:02:03-23:59", "12:00:00"],
    "date-time": ["2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "2024-01-01T00:00:00.5+05:30", "2024-01-01 00:00:00Z",
                  "2024-01-01T25:00:00Z", "2024-01-01T00:00:00"],
    "duration": ["P1Y", "P1Y2M3D", "PT1H", "PT1H2M3S", "P1W", "P", "PT", "1Y", "P1Y2D3M", "P2DT3H", "P1DT"],
    "email": ["a@b.c", "joe.bloggs@example.com", "no-at", "a@b"],
    "hostname": ["example.com", "a", "a-b.c", "-a.com", "a-.com", "x" * 63 + ".com", "x" * 64 + ".com", "a..b", "www.example.com"],
    "ipv4": ["127.0.0.1", "255.255.255.255", "256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "0.0.0.0", "a.b.c.d"],
    "ipv6": ["::1", "::", "2001:db8::ff00:42:8329", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1::2::3", "::ffff:1.2.3.4", "12345::",
             "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4", "g::"],
    "uuid": ["2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380", "2eb8aa08aa9811eab4aa73b441d16380",
             "2eb8aa08-aa98-11ea-b4aa-73b441d1638", "zeb8aa08-aa98-11ea-b4aa-73b441d16380"],
    "uri": ["http://example.com/a?b=c#d", "urn:isbn:1", "mailto:a@b.c", "//x/y", "http://[::1]:80/", "http:// space", "a b", "x:", "no"],
}
NUMBERS = [0, 1, -1, 2, 3, 7, 10, 42, 99, 100, 101, 250, 251, -5, -10, 999, 1000, 1024, 65535, 123456789, Decimal("0.5"), Decimal("1.5"),
           Decimal("-1.5"), Decimal("2.25"), Decimal("0.1"), Decimal("0.01"), Decimal("99.99"), Decimal("-0.001"), Decimal("3.14159"),
           Decimal("100.0"), Decimal("1.0"), Decimal("1234.5678")]


class Maker:
    """One made-up schema with its definitions."""

    def __init__(self, draw):
        self.draw = draw
        self.defs = {}

    def whole(self):
        schema = self.schema(3)
        if self.defs and isinstance(schema, dict):
            schema["$defs"] = self.defs
        return schema

    def schema(self, depth):
        d = self.draw
        kind = d.choice(["number", "integer", "string", "array", "object", "object", "enum", "choice", "all", "ref", "types", "bool"])
        if depth <= 0 and kind in ("array", "object", "choice", "all", "ref"):
            kind = d.choice(["number", "integer", "string", "enum"])
        made = getattr(self, kind)(depth)
        if isinstance(made, dict) and d.random() < 0.1:
            made["description"] = "made up"
        return made

    def bool(self, depth):
        return self.draw.choice([True, {}, {"type": "boolean"}, {"type": "null"}, False if depth < 3 else True])

    def number(self, depth, integer=False):
        d = self.draw
        s = {} if d.random() < 0.2 else {"type": "integer" if integer else "number"}
        low, high = sorted([d.choice(NUMBERS) + d.randrange(-20, 21), d.choice(NUMBERS) + d.randrange(-20, 21)])
        if d.random() < 0.5:
            s[d.choice(["minimum", "exclusiveMinimum"])] = low
        if d.random() < 0.5:
            s[d.choice(["maximum", "exclusiveMaximum"])] = high
        if d.random() < 0.35:
            s["multipleOf"] = d.choice([2, 3, 5, 7, 10, 12, 100, Decimal("0.5"), Decimal("0.25"), Decimal("0.01"), Decimal("1.5"), Decimal("0.7")])
        return s

    def integer(self, depth):
        return self.number(depth, True)

    def string(self, depth):
        d = self.draw
        s = {} if d.random() < 0.15 else {"type": "string"}
        if d.random() < 0.35:
            s["minLength"] = d.randrange(5)
        if d.random() < 0.35:
            s["maxLength"] = d.randrange(1, 8)
        if d.random() < 0.35:
            s["pattern"] = d.choice(PATTERNS)
        elif d.random() < 0.35:
            s["format"] = d.choice(list(FORMATS))
        return s

    def array(self, depth):
        d = self.draw
        s = {"type": "array"} if d.random() < 0.9 else {}
        if d.random() < 0.4:
            s["prefixItems"] = [self.schema(depth - 2) for _ in range(d.randrange(1, 4))]
        if d.random() < 0.7:
            s["items"] = self.schema(depth - 1)
        if d.random() < 0.4:
            s["minItems"] = d.randrange(4)
        if d.random() < 0.4:
            s["maxItems"] = d.randrange(6)
        return s

    def object(self, depth, keys="abcdef"):
        d = self.draw
        s = {"type": "object"} if d.random() < 0.9 else {}
        names = sorted(d.sample(keys, d.randrange(min(5, len(keys)))))
        if names:
            s["properties"] = {k: self.schema(depth - 1) for k in names}
        if d.random() < 0.6:
            s["required"] = d.sample(names, d.randrange(len(names) + 1)) + (["k1"] if d.random() < 0.1 else [])
        if d.random() < 0.6:
            s["additionalProperties"] = d.choice([False, False, True, self.schema(0)])
        if d.random() < 0.25:
            s["patternProperties"] = {p: self.schema(depth - 2) for p in d.sample(KEY_PATTERNS, d.randrange(1, 3))}
        if d.random() < 0.2:
            s["maxProperties"] = d.randrange(1, 5)
        if d.random() < 0.2:
            closed = s.get("additionalProperties") is False and "patternProperties" not in s
            s["minProperties"] = d.randrange(4) if closed else d.randrange(2)
        return s

    def value(self, depth=1):
        d = self.draw
        kind = d.randrange(7 if depth else 5)
        if kind == 5:
            return [self.value(0) for _ in range(d.randrange(3))]
        if kind == 6:
            return {k: self.value(0) for k in sorted(d.sample("abck", d.randrange(3)))}
        return [d.choice(NUMBERS), d.choice(WORDS), None, d.choice([True, False]), d.choice(WORDS)][kind]

    def enum(self, depth):
        d = self.draw
        s = {"const": self.value()} if d.random() < 0.3 else {"enum": [self.value() for _ in range(d.randrange(1, 6))]}
        if d.random() < 0.3:
            s.update(d.choice([self.number, self.string])(0))
        return s

    def choice(self, depth):
        d = self.draw
        kind = d.randrange(4)
        if kind == 0:  # told apart by a constant
            options = []
            for word in d.sample(["cat", "dog", "ant"], d.randrange(2, 4)):
                one = self.object(depth - 1, "ab")
                one.setdefault("properties", {})["c"] = {"const": word}
                one["required"] = one.get("required", []) + ["c"]
                options.append(one)
            return {d.choice(["oneOf", "oneOf", "anyOf"]): options}
        if kind == 1:
            types = [{"type": "null"}, self.number(0), self.string(0), {"type": "boolean"}]
            return {"oneOf": d.sample(types, 2)}
        s = {"anyOf": [self.schema(depth - 1) for _ in range(d.randrange(1, 4))]}
        if d.random() < 0.4:
            other = self.object(depth - 1, "abc") if d.random() < 0.5 else self.string(0)
            s.update({k: v for k, v in other.items() if k not in s})
        return s

    def all(self, depth):
        d = self.draw
        kind = d.choice([self.number, self.string, lambda n: self.object(n, "abc"), self.array, self.schema])
        s = {"allOf": [kind(depth - 1) for _ in range(d.randrange(1, 3))]}
        more = kind(depth - 1)
        if isinstance(more, dict) and d.random() < 0.6:
            s.update({k: v for k, v in more.items() if k not in s})
        return s

    def ref(self, depth):
        d = self.draw
        if self.defs and d.random() < 0.5:
            name = d.choice(list(self.defs))
        else:
            name = "d%d" % len(self.defs)
            self.defs[name] = True  # so that what is inside may name it
            made = self.object(depth - 1) if d.random() < 0.5 else self.schema(depth - 1)
            self.defs[name] = made
        s = {"$ref": "#/$defs/" + name}
        if d.random() < 0.2:
            s.update(self.number(0) if d.random() < 0.5 else {"type": d.choice(["object", "string", "array"])})
        return s

    def types(self, depth):
        d = self.draw
        s = {"type": d.sample(["null", "boolean", "integer", "number", "string", "array", "object"], d.randrange(1, 4))}
        for kind in d.sample([self.number, self.string, self.array, self.object], 2):
            s.update({k: v for k, v in kind(depth - 1).items() if k not in s and k != "type"})
        return s


# ---- instances ----------------------------------------------------------------------------------------------------


class Sampler:
    """Values that a schema might accept."""

    def __init__(self, draw, root):
        self.draw = draw
        self.root = root
        self.maker = Maker(draw)

    def parts(self, schema, depth):
        """The schema and what it refers to, one of each choice."""
        if not isinstance(schema, dict) or depth > 6:
            return []
        found = [schema]
        if "$ref" in schema:
            found += self.parts(self.root["$defs"][schema["$ref"].rsplit("/", 1)[1]], depth + 1)
        for one in schema.get("allOf", []):
            found += self.parts(one, depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                found += self.parts(self.draw.choice(schema[key]), depth + 1)
        return found

    def sample(self, schemas, depth=0):
        d = self.draw
        parts = [p for s in schemas for p in self.parts(s, 0)]
        for p in parts:
            if "const" in p:
                return p["const"]
            if "enum" in p:
                return d.choice(p["enum"])
        kinds = None
        for p in parts:
            if "type" in p:
                types = [p["type"]] if isinstance(p["type"], str) else p["type"]
                kinds = types if kinds is None else [t for t in kinds if t in types] or types
        if not kinds:
            hints = {"minimum": "number", "maximum": "number", "multipleOf": "number", "pattern": "string", "minLength": "string",
                     "format": "string", "properties": "object", "required": "object", "items": "array", "prefixItems": "array"}
            kinds = [hints[k] for p in parts for k in p if k in hints] or ["null", "boolean", "integer", "string", "array", "object"]
        return getattr(self, d.choice(kinds))(parts, depth)

    def null(self, parts, depth):
        return None

    def boolean(self, parts, depth):
        return self.draw.random() < 0.5

    def number(self, parts, depth, integer=False):
        d = self.draw
        near = [p[k] for p in parts for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in p]
        step = [p["multipleOf"] for p in parts if "multipleOf" in p]
        x = d.choice(near) if near and d.random() < 0.8 else d.choice(NUMBERS)
        if d.random() < 0.5:
            x += d.choice([1, -1, 5, -7, 0] if integer else [1, -1, Decimal("0.1"), Decimal("-0.01"), 0, Decimal("0.001")])
        if step and d.random() < 0.8:
            x = (x // step[0]) * step[0]
        return self.tidy(int(x) if integer else x)

    def tidy(self, x):
        if x == 0:
            return 0
        if isinstance(x, Decimal) and x == x.to_integral_value() and self.draw.random() < 0.5:
            return int(x)
        return x

    def integer(self, parts, depth):
        return self.number(parts, depth, True)

    def string(self, parts, depth):
        d = self.draw
        formats = [p["format"] for p in parts if "format" in p]
        if formats and d.random() < 0.9:
            return d.choice(FORMATS[formats[0]])
        word = d.choice(WORDS)
        least = max([p.get("minLength", 0) for p in parts] + [0])
        most = min([p.get("maxLength", 99) for p in parts])if parts else 99
        if d.random() < 0.7:
            while len(word) < least:
                word += d.choice(["a", "b", "c", "1", "\u00e9", "\"", "\n"]) if d.random() < 0.5 else d.choice("abc")
            word = word[:most]
        return word

    def array(self, parts, depth):
        d = self.draw
        least = max([p.get("minItems", 0) for p in parts] + [0])
        n = least + d.choice([0, 0, 1, 2])
        most = min([p.get("maxItems", 9) for p in parts] + [9])
        n = min(n, most) if d.random() < 0.8 else n
        made = []
        for i in range(n if depth < 4 else 0):
            inner = [p["prefixItems"][i] if i < len(p.get("prefixItems", [])) else p.get("items", True) for p in parts]
            made.append(self.sample(inner, depth + 1) if inner else self.maker.value(0))
        return made

    def object(self, parts, depth):
        d = self.draw
        made, names = {}, []
        for p in parts:
            names += [k for k in p.get("properties", {}) if k not in names]
        required = {k for p in parts for k in p.get("required", [])}
        names += sorted(required - set(names))
        for k in names:
            if depth < 4 and (d.random() < 0.95 if k in required else d.random() < 0.5):
                made[k] = self.sample([p["properties"][k] if k in p.get("properties", {}) else self.other(p, k) for p in parts], depth + 1)
        for k in d.sample(["k2", "p1", "x", "pz", "q", "z9", "k\"y", "\u00e9"], d.choice([0, 0, 0, 1, 1, 2])):
            if k not in made:
                made[k] = self.sample([self.other(p, k) for p in parts], depth + 1)
        return made

    def other(self, p, key):
        for pattern, schema in p.get("patternProperties", {}).items():
            if re.search(pattern, key):
                return schema
        return p.get("additionalProperties", True)

    def spoil(self, value):
        """Something near it."""
        d = self.draw
        if isinstance(value, dict) and value and d.random() < 0.7:
            value = dict(value)
            k = d.choice(list(value))
            if d.random() < 0.4:
                del value[k]
            else:
                value[k] = self.spoil(value[k])
            return value
        if isinstance(value, list) and value and d.random() < 0.7:
            value = list(value)
            i = d.randrange(len(value))
            if d.random() < 0.4:
                del value[i]
            else:
                value[i] = self.spoil(value[i])
            return value
        if isinstance(value, bool) or value is None:
            return self.maker.value()
        if isinstance(value, (int, Decimal)) and d.random() < 0.7:
            return self.tidy(value + d.choice([1, -1, 10, Decimal("0.5"), Decimal("0.01")]))
        if isinstance(value, str) and d.random() < 0.7:
            return d.choice([value + "a", value[1:], value[:-1], value + "\n", value * 2])
        return self.maker.value()


# ---- judging ------------------------------------------------------------------------------------------------------


class Weft:
    def __init__(self, program):
        self.run = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, line):
        self.run.stdin.write(line + "\n")
        self.run.stdin.flush()
        return self.run.stdout.readline().rstrip("\n")


def keywords(schema, found):
    if isinstance(schema, dict):
        for k, v in schema.items():
            found.add(k)
            if k in ("properties", "patternProperties", "$defs"):
                for child in v.values():
                    keywords(child, found)
            elif k in ("allOf", "anyOf", "oneOf", "prefixItems"):
                for child in v:
                    keywords(child, found)
            elif k in ("items", "additionalProperties"):
                keywords(v, found)
    return found


def in_reading(value):
    """Is it a value that the readings of docs/CONSTRAIN.md can write?"""
    if isinstance(value, Decimal):
        return len(value.as_tuple().digits) <= 17 and not (value == 0 and value.is_signed())
    if isinstance(value, list):
        return all(map(in_reading, value))
    if isinstance(value, dict):
        return all(map(in_reading, value.values()))
    return True


def make(seed, count, per=10):
    """Schemas, each with instances: (value, is it valid?)."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        schema = Maker(draw).whole()
        oracle = Oracle(ecma(schema), format_checker=CHECKER)
        sampler = Sampler(draw, schema)
        values = []
        try:
            for i in range(per):
                value = sampler.sample([schema])
                value = sampler.spoil(value) if i % 3 == 2 else value
                value = read(write(value))
                if in_reading(value):
                    values.append((value, oracle.is_valid(value)))
        except RecursionError:
            continue  # a $ref that leads to itself
        made += 1
        yield draw, schema, values


class Tally:
    def __init__(self):
        self.pairs = collections.Counter()
        self.valid = collections.Counter()
        self.refused = collections.Counter()
        self.n_schema = self.n_refused = self.n_pair = self.n_valid = self.bad_yes = self.bad_no = 0

    def report(self):
        print("%d schemas, %d of them refused; %d pairs, %d of them valid" % (self.n_schema, self.n_refused, self.n_pair, self.n_valid))
        for k in SUPPORTED:
            print("  %-22s %6d pairs, %6d of them valid" % (k, self.pairs[k], self.valid[k]))
        for k, n in self.refused.most_common():
            print("  refused %5d: %s" % (n, k))
        print("wrongly accepted %d, wrongly refused %d" % (self.bad_yes, self.bad_no))


def judge(weft, tally, draw, schema, values):
    tally.n_schema += 1
    text = write(schema)
    answer = weft.ask("S" + text)
    if answer != "ok":
        tally.n_refused += 1
        where = answer.split(": ")
        tally.refused[(where[1].rsplit("/", 1)[-1] + ": " + where[2].split(";")[0]) if len(where) > 2 else answer] += 1
        if "matches no text" in answer and any(good for _, good in values):
            print("WRONG: no text for", text)
            tally.bad_no += 1
        return
    found = keywords(schema, set())
    for value, good in values:
        tally.n_pair += 1
        tally.n_valid += good
        for k in found:
            tally.pairs[k] += 1
            tally.valid[k] += good
        said = weft.ask("I" + write(value, draw)) == "1"
        if good and not said:
            said = any(weft.ask("I" + t) == "1" for t in permutations(value))
        if said != good:
            print("WRONG:", "accepted" if said else "refused", write(value), "by", text)
            tally.bad_yes += said
            tally.bad_no += good


def generated(program, schemas, model, tokenizer):
    """(number, how it ended, text) of each schema."""
    run = subprocess.Popen([program, model, tokenizer, "192"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    feed = threading.Thread(target=lambda: (run.stdin.write("".join(s + "\n" for s in schemas).encode()), run.stdin.close()))
    feed.start()
    while head := run.stdout.readline():
        number, how, n = head.split()
        text = run.stdout.read(int(n) + 1)[:-1]
        yield int(number), how.decode(), text
    feed.join()
    if run.wait() != 0:
        sys.exit("schema_generate failed")


def generate(program, seed, count, model, tokenizer):
    """What a model writes, in python-jsonschema and jsonschema-rs. Returns how many texts are wrong."""
    import jsonschema_rs
    draw = random.Random(seed)
    schemas = [Maker(draw).whole() for _ in range(count)]
    tally = collections.Counter()
    for number, how, text in generated(program, map(write, schemas), model, tokenizer):
        tally[how] += 1
        if how != "finished":
            continue
        schema, value = schemas[number], text.decode()
        first = Oracle(ecma(schema), format_checker=CHECKER).is_valid(read(value))
        second = jsonschema_rs.Draft202012Validator(json.loads(write(schema)), validate_formats=True).is_valid(json.loads(value))
        if not first or not second:
            print("WRONG in", " and ".join(["python-jsonschema"] * (not first) + ["jsonschema-rs"] * (not second)) + ":",
                  value, "by", write(schema))
            tally["wrong"] += 1
    print("%d schemas: %d refused, %d texts cut, %d finished, %d wrong" %
          (count, tally["refused"], tally["cut"], tally["finished"], tally["wrong"]))
    return tally["wrong"]


def main():
    command = sys.argv[1]
    if command == "generate":
        return 1 if generate(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6]) else 0
    tally = Tally()
    if command == "diff":
        weft = Weft(sys.argv[2])
        for draw, schema, values in make(int(sys.argv[3]), int(sys.argv[4])):
            judge(weft, tally, draw, schema, values)
    elif command == "suite":
        weft = Weft(sys.argv[2])
        draw = random.Random(1)
        for name in sys.argv[3:]:
            with open(name, encoding="utf-8") as file:
                for case in read(file.read()):
                    values = [(t["data"], t["valid"]) for t in case["tests"] if in_reading(t["data"])]
                    judge(weft, tally, draw, case["schema"], values)
    elif command == "write":
        weft = Weft(sys.argv[2])
        left = int(sys.argv[4])
        for draw, schema, values in make(int(sys.argv[3]), 10 * left, 8):
            if left == 0:
                break
            text = write(schema)
            if len(text) > 500 or weft.ask("S" + text) != "ok":
                continue
            left -= 1
            print("S" + text)
            for value, good in values:
                texts = [write(value, draw)] + (list(permutations(value)) if good else [])
                print(("+" if good else "-") + next((t for t in texts if weft.ask("I" + t) == "1"), texts[0]))
        return 0
    tally.report()
    return 1 if tally.bad_yes + tally.bad_no else 0


sys.exit(main())

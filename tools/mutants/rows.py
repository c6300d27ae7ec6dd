"""rows.py - changes that people wrote down, found again by text.

A file of rows has one row per paragraph and one field per line; `#` begins a comment.

    file: src/ops/rope.c
    old: fmax(floor(yarn_pair(s, s->beta_fast)), 0)
    new: fmax(yarn_pair(s, s->beta_fast), 0)
    what: YaRN without its floor
    tests: test_ops

`old` and `new` are C; white space and comments do not count, so that a row outlives clang-format. `old` must be there
once; `in: NAME` says in which function, where it is there more often. `tests` (optional) are run first. If the file has
gone or no longer has the text, all others are searched. A row with `why` is one of equivalent.txt: the change makes no
difference, for that reason.
"""

import collections
import pathlib

from . import source

FIELDS = ("file", "in", "old", "new", "what", "tests", "why")
Row = collections.namedtuple("Row", ("place",) + tuple("in_" if f == "in" else f for f in FIELDS))


class BadRow(Exception):
    pass


def read_rows(path):
    text = pathlib.Path(path).read_text()
    rows, fields, first = [], {}, 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                rows.append(make_row(f"{path}:{first}", fields))
            fields = {}
            continue
        name, colon, value = line.partition(":")
        if not colon or name not in FIELDS or name in fields:
            raise BadRow(f"{path}:{number}: '{line.strip()}'; expected one of: {', '.join(f + ':' for f in FIELDS)}")
        first = first if fields else number
        fields[name] = value.strip()
    return rows


def make_row(place, fields):
    for name in ("file", "old", "new"):
        if name not in fields:
            raise BadRow(f"{place}: a row without '{name}:'")
    return Row(place, *(fields.get(f, "") for f in FIELDS))


def places(file, row):
    """Where the tokens of row.old stand in a Source: a list of (start, end)."""
    want = [t.text for t in source.tokens_of(row.old)]
    have = file.tokens
    texts = [t.text for t in have]
    found = []
    for i in range(len(texts) - len(want) + 1):
        if texts[i:i + len(want)] == want:
            start, end = have[i].start, have[i + len(want) - 1].end
            if not row.in_ or file.function_at(start) == row.in_:
                found.append((start, end))
    return found


def apply_row(row, files):
    """(file, change, remark), or (None, None, why the row no longer applies). `files` is path -> Source."""
    home = files.get(row.file)
    found = [(home, p) for p in places(home, row)] if home else []
    remark = ""
    if not found:
        found = [(f, p) for f in files.values() if f is not home for p in places(f, row)]
        if len(found) == 1:
            remark = f"moved from {row.file}"
    if not found:
        return None, None, "its text is nowhere"
    if len(found) > 1:
        return None, None, f"its text is there {len(found)} times"
    file, (start, end) = found[0]
    return file, source.Change("row", start, end, row.new), remark

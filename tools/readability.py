#!/usr/bin/env python3
"""readability.py - counts what makes a text hard to read: sentences over 35 words, hits of tools/riddles.txt, inversions,
paragraphs over 120 words.

    tools/readability.py [--against REF] [--files] [--at-most SHARE]
    tools/readability.py FILE...                     these files, Markdown or C

Counts README.md, docs/*.md, CHANGELOG.md (its section Unreleased), the comments of include/weft.h, src/ and cli/,
and the strings of src/ and cli/, which are help and messages. src/ is counted by room; --files counts it by file.
Code blocks, tables, drawings and links are not sentences; riddles are looked for in tables too.

--against REF prints the counts of that commit first: 'before > after'. --at-most 0.5 fails unless each total is at most
half of what it was there. Both sides are measured with the list of riddles that is here now.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS_OF_SENTENCE = 35
WORDS_OF_PARAGRAPH = 120
KINDS = ("sentences", "riddles", "inversions", "paragraphs")

# Sentences, or clauses after a semicolon, that begin with something other than who does it.
INVERSIONS = [
    r"^(Also )?(Kept|Said|Told|Shown|Counted|Written|Read|Left|Refused|Asked|Found|Given|Taken|Measured|Meant|Called|Chosen"
    r"|Compared|Not seen|Not known) (is|are|was|were|as|by)\b",
    r"^What (is|are|was|were|has|have|does|do|may|must|can|cannot|a|an|the|it|they|there|weft|one|no|comes|stands|lies|goes"
    r"|happens|makes|remains|limits|only|holds|matters|follows)\b",
    r"^Of (a|an|the|its|their|all|any|each|every|many|such|these|those|what|two|[0-9]|[A-Z]|`)",
    r"^Beside\b",
    r"^(of|for) (a|an|the|any|all|one|others|every) [^,;]* (is|are|it is)\b",
    r"^(Which|Who|Whoever|How) [^?]* (is|are|does|do|was|were) (said|told|shown|known|not|in|a|the)\b",
    r"^(There|Here) (is|are) (nothing|none)\b",
]


def riddles():
    """The patterns of riddles.txt; check-words.sh has the same rules."""
    found = []
    for line in (ROOT / "tools/riddles.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.split("\t")[0]
            found.append(re.compile(pattern.replace(" ", r"[ \n]+"), 0 if re.search("[A-Z]", pattern) else re.I))
    return found


RIDDLES = riddles()
BEGINNINGS = [re.compile(p) for p in INVERSIONS]


def count_riddles(text):
    text = re.sub(r"\n[ \t]*(?=\n)", "\n\0", text)  # no phrase goes across an empty line
    return sum(len(pattern.findall(text)) for pattern in RIDDLES)


def words(text):
    return sum(1 for word in text.split() if re.search(r"\w", word))


def sentences(paragraph):
    """Cut at . ! ? before a capital, a quote, code, a number or a name in lower case; not after an abbreviation."""
    paragraph = re.sub(r"\b(e\.g|i\.e|vs|cf|etc|No|Fig)\.", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.!?])[)\"*]* (?=[\"'(*\[`A-Z0-9]|(?:weft|oneDNN|llama\.cpp|transformers)\b)",
                    paragraph)


def count_prose(paragraphs):
    count = collections.Counter()
    for paragraph in paragraphs:
        count["paragraphs"] += words(paragraph) > WORDS_OF_PARAGRAPH
        for sentence in sentences(paragraph):
            count["sentences"] += words(sentence) > WORDS_OF_SENTENCE
            clauses = re.split(r"; ", sentence)
            if clauses[-1].rstrip().endswith("?"):
                continue
            count["inversions"] += sum(any(b.search(c.lstrip("*_ ")) for b in BEGINNINGS) for c in clauses)
    return count


# ---- Markdown --------------------------------------------------------------------------------------------------------

def markdown_paragraphs(text):
    """Paragraphs and items of lists, without code, tables, headings and addresses."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    paragraphs, lines, in_code = [], [], False

    def end():
        if lines:
            paragraphs.append(" ".join(lines))
            lines.clear()

    for line in text.splitlines():
        if not line.strip():
            end()
            continue
        in_code = line.startswith("    ") and not lines
        if in_code or re.match(r"\s*(\||#|!\[)", line):
            end()
            continue
        if re.match(r"\s*([-*]|[0-9]+\.) ", line):
            end()
            line = re.sub(r"^\s*([-*]|[0-9]+\.) ", "", line)
        lines.append(line.strip())
    end()
    return [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "`code`", p)) for p in paragraphs]


def unreleased(text):
    """CHANGELOG.md up to the first release."""
    parts = re.split(r"^(?=## )", text, flags=re.M)
    kept = [p for p in parts[1:] if p.startswith("## Unreleased")]
    return "".join(kept) if kept else text


def count_markdown(path, text):
    if path.endswith("CHANGELOG.md"):
        text = unreleased(text)
    count = count_prose(markdown_paragraphs(text))
    count["riddles"] = count_riddles(text)
    return count


# ---- C ---------------------------------------------------------------------------------------------------------------

TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def comment_text(comment):
    """Its lines without /, * and the rules of sections."""
    body = re.sub(r"^/[*/]|\*/$", "", comment)
    lines = [re.sub(r"^\s*\*? ?", "", line) if i else line.strip() for i, line in enumerate(body.split("\n"))]
    return "\n".join(re.sub(r"-{4,}", "", line) for line in lines)


def comment_paragraphs(text):
    """Without drawings, tables and code, which are indented or have rules in them."""
    paragraphs, lines = [], []
    for line in text.split("\n") + [""]:
        drawing = line.startswith("    ") or re.search(r"[|+]--|--[|+>]| \| ", line)
        item = re.match(r"\s*- ", line)
        if (not line.strip() or drawing or item) and lines:
            paragraphs.append(" ".join(lines))
            lines = []
        if line.strip() and not drawing:
            lines.append(line.strip().removeprefix("- "))
    return paragraphs


def string_texts(source):
    """Strings, those that follow each other as one; paths, formats and single words are none."""
    texts, end = [], -1
    for token in TOKENS.finditer(source):
        if not token[0].startswith('"'):
            continue
        text = token[0][1:-1].replace("\\n", "\n").replace('\\"', "'")
        if texts and not source[end:token.start()].strip():
            texts[-1] += text
        else:
            texts.append(text)
        end = token.end()
    return [t for t in texts if len(re.findall(r"[A-Za-z]{2,}", t)) > 2]


def count_comments(source):
    texts = [comment_text(t[0]) for t in TOKENS.finditer(source) if t[0].startswith("/")]
    count = count_prose(p for t in texts for p in comment_paragraphs(t))
    count["riddles"] = sum(count_riddles(t) for t in texts)
    return count


def count_strings(source):
    texts = string_texts(source)
    lines = ("\n\n".join(t.split("\n\n")) for t in texts)
    count = count_prose(p for t in lines for p in t.split("\n\n") if not p.startswith("  "))
    count["riddles"] = sum(count_riddles(t) for t in texts)
    return count


# ---- the tree --------------------------------------------------------------------------------------------------------

def wanted(path):
    return (path in ("README.md", "CHANGELOG.md", "include/weft.h")
            or re.fullmatch(r"docs/[^/]*\.md", path)
            or re.fullmatch(r"(src|cli)/.*\.[ch]", path) and not path.endswith("tables.c"))


def tree(ref):
    """Every wanted file of a commit, or of the work tree where ref is None."""
    if ref is None:
        files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.splitlines()
        return {p: (ROOT / p).read_text() for p in files if wanted(p) and (ROOT / p).exists()}
    names = subprocess.run(["git", "ls-tree", "-r", "--name-only", ref], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    names = [n for n in names if wanted(n)]
    reply = subprocess.run(["git", "cat-file", "--batch"], cwd=ROOT, capture_output=True, check=True,
                           input="".join(f"{ref}:{n}\n" for n in names).encode()).stdout
    found, at = {}, 0
    for name in names:
        end = reply.index(b"\n", at)
        size = int(reply[at:end].split()[2])
        found[name] = reply[end + 1:end + 1 + size].decode()
        at = end + size + 2
    return found


def rows_of(path, text, by_file):
    """The rows that a file counts in, each with its counts."""
    if path.endswith(".md"):
        yield path, count_markdown(path, text)
        return
    room = path
    if not by_file and path.startswith(("src/", "cli/")):
        room = "/".join(path.split("/")[:2]) if path.startswith("src/") else "cli"
    yield f"{room} (comments)", count_comments(text)
    if path != "include/weft.h":
        yield f"{room} (strings)", count_strings(text)


def measure(files, by_file):
    table = collections.defaultdict(collections.Counter)
    for path, text in files.items():
        for row, count in rows_of(path, text, by_file):
            table[row] += count
            table[row].update({kind: 0 for kind in KINDS})
    return table


def total(table):
    return sum(table.values(), collections.Counter())


def print_row(name, before, after):
    cells = [f"{after[k]}" if before is None else f"{before[k]} > {after[k]}" for k in KINDS]
    print(f"{name:34}" + "".join(f"{c:>15}" for c in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="*", metavar="FILE", help="count these (all that people read)")
    parser.add_argument("--against", metavar="REF", help="a commit, whose counts are printed first")
    parser.add_argument("--files", action="store_true", help="a row for each source file")
    parser.add_argument("--at-most", type=float, metavar="SHARE", help="fail if a total is more than this share of REF's")
    options = parser.parse_args()
    if options.at_most is not None and not options.against:
        parser.error("--at-most compares with a commit: give --against REF")

    if options.file and options.against:
        parser.error("--against compares the whole tree: give it without files")

    before = measure(tree(options.against), options.files) if options.against else None
    after = measure({f: pathlib.Path(f).read_text() for f in options.file} or tree(None), options.files or bool(options.file))
    print(f"{'':34}" + "".join(f"{k:>15}" for k in KINDS))
    for name in sorted(set(after) | set(before or {})):
        print_row(name, None if before is None else before[name], after[name])
    print_row("total", None if before is None else total(before), total(after))
    if before is None:
        return 0
    shares = {k: total(after)[k] / max(total(before)[k], 1) for k in KINDS}
    print(f"{'share':34}" + "".join(f"{shares[k]:15.2f}" for k in KINDS))
    return int(options.at_most is not None and any(s > options.at_most for s in shares.values()))


if __name__ == "__main__":
    sys.exit(main())

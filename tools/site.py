#!/usr/bin/env python3
"""site.py - the documentation as a site: the Markdown that exists, the functions of weft.h, the source they link to.

    tools/site.py OUT        writes OUT/index.html and the rest; needs mkdocs

Works from a disk, without a server: no script, and nothing is loaded from elsewhere. The same tree gives the same bytes. Exit status 1 if a link
of a page leads nowhere, or if a page would load something from another site.
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

from weft_header import Header

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

THEME = os.path.join(ROOT, "tools", "site")

NAV = [
    ("First ten minutes", ["README.md", "docs/README.md"]),
    ("Run and chat", ["docs/CLI.md", "docs/SAMPLING.md", "docs/CONSTRAIN.md", "docs/SESSIONS.md"]),
    ("Other families", ["docs/ENCODERS.md", "docs/ENCDEC.md", "docs/IMAGES.md", "docs/DEEPSEEK.md"]),
    ("In C", "api"),
    ("In Python", ["docs/PYTHON.md"]),
    ("Serve and operate", ["docs/SERVE.md", "docs/SCHEDULER.md", "docs/DEPLOY.md", "docs/SCALE.md"]),
    ("Train and fine-tune", ["docs/TRAINING.md", "docs/ADAPTERS.md", "docs/EVAL.md"]),
    ("Look inside", ["docs/EXPLAIN.md", "docs/TRACE.md"]),
    ("Learn", "learn"),
    ("Formats and numerics", ["docs/FILES.md", "docs/TEXT.md", "docs/NUMERICS.md", "docs/BENCH.md"]),
    ("Limits and safety", ["docs/HOSTILE.md", "SECURITY.md"]),
    ("Coming from", ["docs/COMING.md"]),
    ("The project", ["docs/PACKAGES.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/SOURCE.md", "docs/NOTATION.md", "docs/SEEDS.md"]),
]


def slug(heading, seen):
    """What GitHub calls a heading, so that links work in both places."""
    text = re.sub(r"\]\([^)]*\)", "", heading)
    text = re.sub(r"[\]\[`*]", "", text).lower()
    text = re.sub(r"[!-,./:-@^`{-~]", "", text).replace(" ", "-")
    n = seen[text] = seen.get(text, -1) + 1
    return f"{text}-{n}" if n else text


class Site:
    def __init__(self, work):
        self.work, self.pages, self.titles = os.path.join(work, "docs"), {}, {}
        self.sources, self.rooms = set(), set()
        os.makedirs(self.work)

    def write(self, name, text):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    # ---- pages that exist

    def page_of(self, path):
        """The page that a file of the tree becomes, or None."""
        if not path.endswith(".md"):
            return None
        name = path[5:] if path.startswith("docs/") else path
        return {"README.md": "index.md", "docs/README.md": "tasks.md"}.get(path, name)

    def convert(self, path):
        name = self.page_of(path)
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            lines = f.read().split("\n")
        seen, code = {}, False
        for i, line in enumerate(lines):
            if re.match(r" *```", line):
                code = not code
            elif not code:
                heading = re.match(r"(#+) +(.*)$", line)
                if heading:
                    anchor = slug(heading.group(2), seen)
                    lines[i] = f"{heading.group(1)} {self.links(heading.group(2), path, name)} {{#{anchor}}}"
                    self.titles.setdefault(path, re.sub(r"[`*]", "", heading.group(2)))
                else:
                    lines[i] = self.links(line, path, name)
        self.write(name, "\n".join(self.separate(lines)))

    @staticmethod
    def separate(lines):
        """Python's Markdown wants an empty line before a list, a table and a fence; GitHub's does not."""
        out, code = [], False
        for line in lines:
            starts = re.match(r"(?:[-*] |\||\d+\. )\S?|```", line) and not code
            if starts and out and out[-1].strip() and not re.match(r" *(?:[-*] |\||\d+\. )|  ", out[-1]):
                out.append("")
            if re.match(r" *```", line):
                code = not code
            out.append(line)
        return out

    def links(self, line, path, name):
        parts = re.split(r"(`[^`]*`)", line)

        def moved(m):
            target, _, anchor = m.group(2).partition("#")
            if not target or "://" in target or target.startswith("mailto:"):
                return m.group(0)
            found = os.path.normpath(os.path.join(os.path.dirname(path), target))
            return f"{m.group(1)}({os.path.relpath(self.destination(found), os.path.dirname(name) or '.')}{'#' + anchor if anchor else ''})"

        if len(parts) == 1:
            return re.sub(r"(!?\[[^\]]*\])\(([^) ]+)\)", moved, line)
        # a link's text may be code: put back what was cut inside of brackets
        return re.sub(r"(!?\[(?:[^\]`]|`[^`]*`)*\])\(([^) ]+)\)", moved, line)

    def destination(self, found):
        whole = os.path.join(ROOT, found)
        page = self.page_of(found)
        if page and any(found == p for p in self.all_pages):
            return page
        if found == "include/weft.h":
            return "api/index.md"
        if os.path.isdir(whole):
            self.rooms.add(found)
            return f"files/{found}/index.md"
        if found.endswith((".svg", ".png")):
            to = os.path.join(self.work, "files", found)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(whole, to)
            return f"files/{found}"
        self.sources.add(found)
        return f"files/{found}.txt"

    # ---- the source

    def source(self):
        for room in sorted(self.rooms):
            rows = []
            for name in sorted(os.listdir(os.path.join(ROOT, room))):
                path = f"{room}/{name}"
                if os.path.isfile(os.path.join(ROOT, path)) and name.endswith((".c", ".h", ".py", ".sh", ".js", ".css", ".service", ".socket")):
                    self.sources.add(path)
                    rows.append(f"| [{name}]({name}.txt) | {self.first_line(path)} |")
            table = "\n".join(["| file | |", "|---|---|"] + rows) if rows else "This directory has other directories and data: see the source."
            self.write(f"files/{room}/index.md", f"# {room}\n\n{table}\n")
        for path in sorted(self.sources):
            to = os.path.join(self.work, "files", path + ".txt")
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(os.path.join(ROOT, path), to)

    @staticmethod
    def first_line(path):
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
            text = f.read(2000)
        m = re.match(r'(?:#!.*\n)?(?:/\*|"""|#|//) ?(?:[\w./-]+) - (.*?)(?:\*/|"""|\n\s*\*?\s*\n|\. [A-Z]|\n#\n)', text, flags=re.S)
        return re.sub(r"\s*\n[ *#]*", " ", m.group(1)).strip().replace("|", "\\|").replace("<", "&lt;") if m else ""

    # ---- weft.h

    def api(self):
        header = Header()
        names = [re.sub(r"[^a-z]+", "-", s.title.split(":")[0].lower()).strip("-") for s in header.sections]
        where = {d.name: f"{names[d.section]}.md#{d.name}" for d in header.declarations}
        opening = header.opening.split("\n\nRules that hold everywhere:\n")
        program = "\n".join(line[4:] for line in opening[0].split("\n") if line.startswith("    "))
        rules = re.sub(r"(?m)^  - ", "- ", opening[1])
        rules = re.sub(r"(?m)^    ", "  ", rules)
        rows = "\n".join(f"| [{s.title.split(':')[0]}]({n}.md) | {s.title.partition(': ')[2]} |" for s, n in zip(header.sections, names))
        self.write("api/index.md", f"# weft.h\n\nThe only header of libweft. A complete program:\n\n```c\n{program}\n```\n\n"
                   f"| section | |\n|---|---|\n{rows}\n\n## Rules that hold everywhere\n\n{rules}\n")
        for i, (section, name) in enumerate(zip(header.sections, names)):
            out = [f"# {section.title}", "", prose(section.comment), ""]
            for d in header.declarations:
                if d.section == i:
                    out += [f"## {d.name} {{#{d.name}}}", "", "```c", d.code, "```", "", linked(prose(d.comment), where, d.name), ""]
            self.write(f"api/{name}.md", "\n".join(out))
        return [("weft.h", "api/index.md")] + [(s.title.split(":")[0], f"api/{n}.md") for s, n in zip(header.sections, names)]

    # ---- the whole

    def build(self, out):
        learn = os.path.join(ROOT, "docs", "learn")
        names = [n for n in os.listdir(learn) if n.endswith(".md")] if os.path.isdir(learn) else []
        lessons = [f"docs/learn/{n}" for n in sorted(names, key=lambda n: (n != "README.md", n))]
        nav = [(t, lessons if p == "learn" else p) for t, p in NAV]
        listed = [p for _, pages in nav if pages != "api" for p in pages]
        known = sorted(f"docs/{n}" for n in os.listdir(os.path.join(ROOT, "docs")) if n.endswith(".md"))
        nav.append(("More", [p for p in known if p not in listed]))
        self.all_pages = [p for p in listed + nav[-1][1] if os.path.exists(os.path.join(ROOT, p))]
        for path in self.all_pages:
            self.convert(path)
        api = self.api()
        self.source()
        config = ["site_name: weft", "site_url: ''", "use_directory_urls: false", "plugins: []", "theme:", "  name: null",
                  f"  custom_dir: {THEME}", f"docs_dir: {self.work}", f"site_dir: {out}",
                  "markdown_extensions: [attr_list, tables, fenced_code, sane_lists]", "nav:"]
        for title, pages in nav:
            named = api if pages == "api" else [(self.titles[p], self.page_of(p)) for p in pages if p in self.all_pages]
            if named:
                config += [f"  - {json.dumps(title)}:"] + [f"    - {json.dumps(t, ensure_ascii=False)}: {n}" for t, n in named]
        shutil.copyfile(os.path.join(THEME, "weft.css"), os.path.join(self.work, "weft.css"))
        path = os.path.join(os.path.dirname(self.work), "mkdocs.yml")
        with open(path, "w") as f:
            f.write("\n".join(config) + "\n")
        if "SOURCE_DATE_EPOCH" not in os.environ and os.path.exists(os.path.join(ROOT, ".git")):
            made = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, check=True).stdout
            os.environ["SOURCE_DATE_EPOCH"] = made.decode().strip()
        subprocess.run(["mkdocs", "build", "--quiet", "--clean", "-f", path], check=True)
        for name in ("search.html", "sitemap.xml", "sitemap.xml.gz", "404.html"):
            if os.path.exists(os.path.join(out, name)):
                os.remove(os.path.join(out, name))


def prose(comment):
    """A comment as Markdown: drawings and programs, which are indented, stay as they are."""
    out = []
    for block in comment.split("\n\n"):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            out.append("\n".join(lines))
        elif any(re.match(r" *- ", line) for line in lines):
            out.append("\n".join(re.sub(r"^  - ", "- ", line) for line in lines).replace("\n    ", "\n  ").replace("\n- ", "\n\n- ", 1))
        elif any(re.match(r" {2,}\S", line) for line in lines[1:]):
            first = [line for line in lines if not line.startswith("  ")]
            out.append("\n".join(first) + "\n\n" + "\n".join("    " + line for line in lines if line.startswith("  ")))
        else:
            out.append("\n".join(lines))
    text = "\n\n".join(out)
    return re.sub(r"(?m)^(?!    )(.*)$", lambda m: re.sub(r"([*_<>])", r"\\\1", m.group(1)) if "`" not in m.group(1) else m.group(1), text)


def linked(text, where, own):
    def link(m):
        name = m.group(0).replace("\\", "")
        return f"[{name}]({where[name]})" if name in where and name != own else m.group(0)

    return "\n".join(line if line.startswith("    ") else re.sub(r"weft(?:\\?_\w+?)+\b(?:\\_\w+)*", link, line) for line in text.split("\n"))


class Links(html.parser.HTMLParser):
    """What a page points at, and what it loads."""

    def __init__(self):
        super().__init__()
        self.targets, self.loads, self.ids = [], [], set()

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.ids.update(v for v in (a.get("id"), a.get("name")) if v)
        if tag == "a" and a.get("href"):
            self.targets.append(a["href"])
        elif tag in ("script", "img", "iframe", "source") and a.get("src"):
            self.loads.append(a["src"])
        elif tag == "link" and a.get("href") and a.get("rel") != "canonical":
            self.loads.append(a["href"])


def check(out):
    pages, wrong = {}, []
    for d, _, names in os.walk(out):
        for n in names:
            if n.endswith(".html"):
                page = pages[os.path.join(d, n)] = Links()
                with open(os.path.join(d, n), encoding="utf-8") as f:
                    page.feed(f.read())
    for path, page in sorted(pages.items()):
        for target in page.targets + page.loads:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                if target in page.loads:
                    wrong.append(f"{path}: loads {target}")
                continue
            to = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(url.path))) if url.path else path
            if os.path.isdir(to):
                to = os.path.join(to, "index.html")
            if not os.path.exists(to):
                wrong.append(f"{path}: {target} leads nowhere")
            elif url.fragment and to in pages and urllib.parse.unquote(url.fragment) not in pages[to].ids:
                wrong.append(f"{path}: {target}: no such heading")
    for d, _, names in os.walk(out):
        for n in names:
            if n.endswith(".css"):
                with open(os.path.join(d, n), encoding="utf-8") as f:
                    wrong += [f"{n}: loads {u}" for u in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]*)", f.read())]
    print("\n".join(wrong) if wrong else f"{out}: {len(pages)} pages, {sum(len(p.targets) for p in pages.values())} links, none dead")
    return not wrong


def main(out):
    out = os.path.realpath(out)
    with tempfile.TemporaryDirectory() as work:
        Site(work).build(out)
    return 0 if check(out) else 1


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    print(__doc__.strip())
    sys.exit(2)
sys.exit(main(sys.argv[1]))

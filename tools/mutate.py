#!/usr/bin/env python3
"""mutate.py - plants small defects, one at a time, and says which of them the tests notice.

    tools/mutate.py --seed 1 --count 150        defects drawn over all rooms, by code lines
    tools/mutate.py --seed 1 --count 20 --room ops
    tools/mutate.py --table                     those that people wrote down: tools/mutants/*.txt
    tools/mutate.py --slice                     15 for this commit, with the tests of the rooms only
    tools/mutate.py --list --seed 1 --count 20  shows what would be drawn

A line per mutant (killed, by which test and when, or SURVIVED), then the score of each room. Mutants whose object code is
that of the original are drawn again; those that tools/mutants/equivalent.txt argues away do not count. `--results FILE`
keeps what was found: a second run continues there, and runs survivors again only if a source or a test has changed.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from mutants import build, reach, rows, source, suite

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "tools" / "mutants"
SLICE = 15
GIVES_BACK = re.compile(r"(free|close|give|release|unref|reset|drop|clear)\w*\(")


class Mutant:
    def __init__(self, file, change, tests="", what=""):
        self.file, self.change, self.tests, self.what = file, change, tests.split(), what
        self.path = file.path
        self.text = file.changed(change)
        self.key = source.identity(self.path, self.text)
        self.line = file.line_of(change.start)
        self.function = file.function_at(change.start)
        self.old, self.new = file.shown(change)


    def may_leak(self):
        """A call that gives memory back is left out: the sanitizers that CI runs would tell."""
        lost = self.file.text[self.change.start:self.change.end]
        return self.change.kind == "drop" and GIVES_BACK.search(lost) is not None


def read_files(root):
    """path -> Source of every file that may be changed."""
    files = {}
    for name in build.tracked(root):
        if name.endswith((".c", ".h")) and name.split("/")[0] in ("src", "cli", "server"):
            files[name] = source.Source(name, (root / name).read_text())
    return files


def chance(*words):
    """A large number that is a function of the words."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, words)).encode()).digest()[:8], "big")


def lines_to_change(files, room):
    """name of a line -> (file, operator -> changes). Its name is its text and where it stands, but not its number: a line
    keeps its chance when others change."""
    found = {}
    for path in sorted(files):
        if room not in (None, suite.room_of(path)):
            continue
        file, by_line = files[path], collections.defaultdict(lambda: collections.defaultdict(list))
        for change in file.changes():
            by_line[file.line_of(change.start)][change.kind].append(change)
        seen = collections.Counter()
        for number, kinds in sorted(by_line.items()):
            name = (path, file.function_at(next(iter(kinds.values()))[0].start), file.line_text(number))
            seen[name] += 1
            found[name + (seen[name],)] = (file, kinds)
    return found


def draw(files, seed, room):
    """Mutants without end: lines of code with equal chance, then an operator, then a place. Each is drawn once."""
    lines, turn = lines_to_change(files, room), 0
    while lines:
        for name in sorted(lines, key=lambda n: chance(seed, turn, *n)):
            file, kinds = lines[name]
            kind = sorted(kinds)[chance(seed, turn, "operator", *name) % len(kinds)]
            change = kinds[kind].pop(chance(seed, turn, "place", *name) % len(kinds[kind]))
            if not kinds[kind]:
                del kinds[kind]
            yield Mutant(file, change)
        lines = {n: l for n, l in lines.items() if l[1]}
        turn += 1


class Report:
    """Lines as they come, totals at the end, and the file of results."""

    def __init__(self, path, state, budget):
        self.path, self.state, self.budget, self.known = path, state, budget, {}
        self.rooms = collections.defaultdict(collections.Counter)
        self.kills = collections.defaultdict(collections.Counter)  # file -> which test killed how many
        self.survivors = []
        if path and path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                if row["outcome"] != "survived" or row["state"] == state and row["budget"] >= budget:
                    self.known[row["key"]] = row
                else:
                    self.known.pop(row["key"], None)
                if row["outcome"] == "killed":
                    self.kills[row["file"]][row["by"]] += 1

    def add(self, mutant, outcome, by="", how="", seconds=0.0, note=""):
        row = dict(key=mutant.key, state=self.state, budget=self.budget, file=mutant.path, line=mutant.line,
                   kind=mutant.change.kind, outcome=outcome, by=by, how=how, seconds=round(seconds, 1),
                   old=mutant.old, new=mutant.new, note=note)
        if self.path:
            with open(self.path, "a") as f:
                f.write(json.dumps(row) + "\n")
        self.show(row, mutant.what)

    def show(self, row, what=""):
        self.rooms[suite.room_of(row["file"])][row["outcome"]] += 1
        place = f"{row['file']}:{row['line']}"
        if row["outcome"] == "killed":
            self.kills[row["file"]][row["by"]] += 1
            print(f"killed      {place:<38} {row['kind']:<11} {row['seconds']:6.1f} s  {row['how']} {row['by']}")
        else:
            self.survivors.append(row)
            word = "SURVIVED" if row["outcome"] == "survived" else row["outcome"]
            print(f"{word:<11} {place:<38} {row['kind']:<11} {row['seconds']:6.1f} s  {row['note']}")
            print(f"    old: {row['old']}\n    new: {row['new']}")
        if what:
            print(f"    what: {what}")
        sys.stdout.flush()

    def total(self):
        sum_ = collections.Counter()
        print(f"\n{'room':<10} {'killed':>7} {'survived':>9} {'equivalent':>11} {'score':>7}")
        for room in sorted(self.rooms) + ["total"]:
            c = self.rooms[room] if room != "total" else sum_
            sum_ = sum_ + c if room != "total" else sum_
            tried = c["killed"] + c["survived"]
            score = f"{100 * c['killed'] / tried:.1f} %" if tried else "-"
            print(f"{room:<10} {c['killed']:>7} {c['survived']:>9} {c['equivalent']:>11} {score:>7}")
        return sum_


class Runner:
    def __init__(self, options, made, tests, report, equivalent):
        self.options, self.made, self.tests, self.report, self.equivalent = options, made, tests, report, equivalent
        self.number = 0
        self.lock = threading.Lock()

    def compiled(self, mutant):
        """The directory of the linked mutant, or why there is none."""
        self.number += 1
        directory = self.made.work / f"mutant-{os.getpid()}-{self.number}"
        verdict = "stopped"
        try:
            verdict = self.made.compile(mutant.path, mutant.text, directory)
            if verdict == "differs":
                self.made.link(mutant.path, directory)
        finally:
            if verdict != "differs":
                shutil.rmtree(directory, ignore_errors=True)
        return (directory if verdict == "differs" else None), verdict

    def judge(self, mutant, directory):
        """Runs tests until one of them fails."""
        start = time.monotonic()
        try:
            order = self.tests.order(mutant, self.options.slice is not None, self.report.kills.get(mutant.path))
            within = suite.within(order, self.options.budget)
            for test in within:
                outcome = self.tests.notices(test, directory, mutant.may_leak())
                if outcome.how:
                    with self.lock:
                        self.report.add(mutant, "killed", test.name, outcome.how, time.monotonic() - start)
                    return
            with self.lock:
                self.report.add(mutant, "survived", seconds=time.monotonic() - start,
                                note=self.remark(mutant, len(within), len(order)))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @staticmethod
    def remark(mutant, n, of):
        if of == 0:
            return f"no test calls {mutant.function}"
        return f"{n} tests" if n == of else f"{n} tests of {of}"

    def try_one(self, mutant, pool, running):
        """Does the mutant count towards the requested number?"""
        if mutant.key in self.equivalent:
            with self.lock:
                self.report.add(mutant, "equivalent", note=self.equivalent[mutant.key])
            return True
        known = self.report.known.get(mutant.key)
        if known and known["outcome"] != "equivalent":
            with self.lock:
                self.report.show(known, mutant.what)
            return True
        directory, verdict = self.compiled(mutant)
        if directory:
            running.append(pool.submit(self.judge, mutant, directory))
            self.wait(running, self.options.jobs)
        elif mutant.change.kind == "row":
            print(f"{'SAME CODE' if verdict == 'same' else 'NOT C':<11} {mutant.path}:{mutant.line}")
            print(f"    old: {mutant.old}\n    new: {mutant.new}")
        return directory is not None

    @staticmethod
    def wait(running, at_most):
        """Until fewer than at_most are running; their exceptions are ours."""
        while len(running) >= max(at_most, 1):
            concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for done in [f for f in running if f.done()]:
                done.result()
                running.remove(done)

    def run(self, mutants, count):
        running, counted = [], 0
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            try:
                for mutant in mutants:
                    if counted == count:
                        break
                    counted += self.try_one(mutant, pool, running)
                self.wait(running, 1)
            finally:
                self.tests.stop()


def equivalents(files):
    """key -> why, for the rows of equivalent.txt that apply."""
    found = {}
    for row in rows.read_rows(ROWS / "equivalent.txt"):
        file, change, remark = rows.apply_row(row, files)
        if file:
            found[Mutant(file, change).key] = row.why
        else:
            print(f"equivalent no longer applies: {row.place}: {remark}")
    return found


def table(files, only=None):
    """The mutants of the tables; says which rows no longer apply."""
    found = []
    for path in sorted(ROWS.glob("*.txt")):
        if path.name == "equivalent.txt":
            continue
        for row in rows.read_rows(path):
            file, change, remark = rows.apply_row(row, files)
            if not file:
                print(f"no longer applies: {row.place}: {row.file}: {remark}\n    old: {row.old}\n    what: {row.what}")
            else:
                found.append(Mutant(file, change, row.tests, row.what + (f" ({remark})" if remark else "")))
    return found


def state_of(root):
    """Changes with every source and test."""
    digest = hashlib.sha256()
    for name in sorted(build.tracked(root)):
        counts = name.startswith(("src/", "cli/", "server/", "include/", "tests/")) and not name.endswith("CMakeLists.txt")
        if counts and (root / name).is_file():
            digest.update(name.encode() + b"\0" + (root / name).read_bytes())
    return digest.hexdigest()[:16]


def baseline(tests, made, jobs):
    """Seconds and calls of the tests without a mutant, kept in the working directory."""
    counting = reach.Reach(made)
    counting.prepare(jobs)
    tests.counted = counting.known
    path = made.work / "tests.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    try:
        tests.baseline(known, counting, print)
    finally:
        path.write_text(json.dumps(known))


def parse(arguments):
    title, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(description=title, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="how many mutants are drawn (20)")
    parser.add_argument("--room", choices=sorted(suite.ROOMS), help="only from this room")
    parser.add_argument("--table", action="store_true", help="run the rows of tools/mutants/*.txt instead")
    parser.add_argument("--slice", nargs="?", const="", metavar="HASH",
                        help=f"{SLICE} mutants drawn by HASH (default: HEAD), tests of the room only")
    parser.add_argument("--least", type=int, default=0, help="fail if fewer mutants are killed")
    parser.add_argument("--list", action="store_true", help="show the mutants and build nothing")
    parser.add_argument("--results", type=pathlib.Path,
                        help="file of results, one JSON object per line; a second run continues it")
    parser.add_argument("--work", type=pathlib.Path,
                        help="directory of the copy and its build, kept for the next run (default: temporary)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="mutants that run at once (1)")
    parser.add_argument("--budget", type=float, default=1e9, metavar="SECONDS",
                        help="run tests up to this sum of their usual times, fast ones first (all)")
    parser.add_argument("--memory", type=float, default=8, help="GiB of address space for a test (8)")
    options = parser.parse_args(arguments)
    if options.slice == "":
        options.slice = build.run(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
    if options.slice is not None:
        options.count, options.seed = SLICE, options.slice
    return options


def chosen(options, files):
    if options.table:
        mutants = table(files)
        return mutants, len(mutants)
    return draw(files, options.seed, options.room), options.count


def show_list(mutants, count):
    for mutant, _ in zip(mutants, range(count)):
        print(f"{mutant.path}:{mutant.line} {mutant.change.kind}\n    old: {mutant.old}\n    new: {mutant.new}")


def work_directory(options):
    """The one that was named, or a temporary one in memory where there is room for it."""
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
        return options.work.resolve(), None
    memory = pathlib.Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    keeper = tempfile.TemporaryDirectory(prefix="weft-mutants-", dir=memory if roomy else None)
    return pathlib.Path(keeper.name), keeper


def main(arguments):
    options = parse(arguments)
    files = read_files(ROOT)
    mutants, count = chosen(options, files)
    if options.list:
        show_list(mutants, count)
        return 0
    work, keeper = work_directory(options)
    try:
        made = build.Build(ROOT, work)
        made.configure()
        made.build(max(options.jobs, 2), suite.slice_targets(made) if options.slice is not None else ())
        state = state_of(ROOT)
        tests = suite.Suite(made, options.memory)
        if options.slice is None:
            baseline(tests, made, max(options.jobs, 2))
        report = Report(options.results, state, options.budget)
        Runner(options, made, tests, report, equivalents(files)).run(mutants, count)
        killed = report.total()["killed"]
    finally:
        if keeper:
            keeper.cleanup()
    return 0 if killed >= options.least else 1


def interrupt(number, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except (KeyboardInterrupt, suite.Stopped):
        sys.exit(130)
    except (build.BuildError, rows.BadRow) as error:
        sys.exit(f"mutate.py: {error}")

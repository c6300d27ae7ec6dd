"""reach.py - which tests call which functions, so that a mutant meets only those that can notice it.

The library, its double in double and the program are compiled once more with calls of reach.c at the entry of every
function, but for kernels and headers, whose functions stand in the innermost loops: their mutants meet all tests.
"""

import concurrent.futures
import mmap
import os
import pathlib
import re

from . import build

HOOKS = pathlib.Path(__file__).with_name("reach.c")
FLAGS = ["-O1", "-g1", "-w", "-finstrument-functions", "-finstrument-functions-exclude-file-list=.h"]


def is_counted(path):
    return path.endswith(".c") and not path.startswith("src/kernels/")


def compile_one(made, unit, to):
    output = to / unit.output
    output.parent.mkdir(parents=True, exist_ok=True)
    command = list(unit.command) + FLAGS
    command[command.index("-o") + 1] = str(output)
    build.run(command, cwd=made.dir)
    return unit.output


class Reach:
    def __init__(self, made):
        self.made, self.dir = made, made.work / "reach"
        self.symbols = {}  # module -> offset -> "file:function"
        self.known = set()

    def prepare(self, jobs):
        """Builds the counting library; nothing is built again that is there."""
        units = [u for path, all_ in self.made.units.items() if is_counted(path) for u in all_]
        fresh = [u for u in units if not self.is_made(u)]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda u: compile_one(self.made, u, self.dir), fresh))
        mine = {u.output for u in units}
        for target, name in self.made.linked.values():
            module = name.split(".")[0]
            hooks = self.dir / f"hooks-{module}.o"
            build.run(["cc", "-O1", "-fPIC", "-D_GNU_SOURCE", f'-DMODULE="{module}"', "-c", HOOKS, "-o", hooks])
            command = list(self.made.links[target])
            command[command.index("-o") + 1] = str(self.dir / name)
            build.run([str(self.dir / c) if c in mine else c for c in command] + [str(hooks)], cwd=self.made.dir)
            self.symbols[module] = self.read_symbols(self.dir / name)
        self.known = {f for names in self.symbols.values() for f in names.values()}

    def is_made(self, unit):
        """Made after ninja made the one without counters."""
        output = self.dir / unit.output
        return output.exists() and output.stat().st_mtime > (self.made.dir / unit.output).stat().st_mtime

    def read_symbols(self, path):
        """Offsets of functions; addr2line says in which file they are."""
        entries = []
        for line in build.run(["nm", "--defined-only", path]).split("\n"):
            parts = line.split()
            if len(parts) == 3 and parts[1] in "tT":
                entries.append((int(parts[0], 16), parts[2].split(".")[0]))
        asked = "\n".join(hex(a) for a, _ in entries)
        told = build.run(["addr2line", "-e", path], input=asked).split("\n")
        names = {}
        for (offset, name), place in zip(entries, told):
            file = os.path.relpath(os.path.normpath(place.rsplit(":", 1)[0]), self.made.tree)
            if re.match(r"(src|cli|server)/", file):
                names[offset] = f"{file}:{name}"
        return names

    def read(self, directory):
        """The functions that a run has called, from the files that reach.c left."""
        called = set()
        for module, names in self.symbols.items():
            path = pathlib.Path(directory) / f"reach-{module}"
            if path.exists():
                with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
                    called.update(name for offset, name in names.items() if bytes_[offset])
        return called

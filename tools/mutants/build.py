"""build.py - a copy of the tree, built once, and mutants beside it.

With -DWEFT_MUTANTS=ON all test programs use one libweft.so. A mutant is one source file compiled into a directory of its
own, and that library (or program) linked again there; programs find it through LD_LIBRARY_PATH. The copy never changes,
so it need not be restored, and several mutants can run at once.
"""

import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess

OPTIMISE = "-O2"  # the tests take far longer than the compiler
STRICT = ["-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=implicit-function-declaration"]


class BuildError(Exception):
    pass


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(map(str, command))}\n{done.stdout[-4000:]}")
    return done.stdout


def tracked(root):
    return run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")[:-1]


def copy_tree(root, to):
    """Copies what git knows; files that are the same keep their time, so that nothing is built twice."""
    wanted = set(tracked(root))
    for name in sorted(wanted):
        there, here = to / name, root / name
        if not here.is_file():
            continue
        if there.is_file() and there.read_bytes() == here.read_bytes():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(here, there)
        shutil.copymode(here, there)
    for directory in ("src", "cli", "server", "tests"):
        for path in (to / directory).rglob("*"):
            if path.is_file() and str(path.relative_to(to)) not in wanted:
                path.unlink()


class Unit:
    """One object file of the library, of its double in double, or of the program."""

    def __init__(self, command, source, output):
        self.command, self.source, self.output = command, source, output


class Build:
    LINKED = {  # objects with this prefix -> what is linked, and its name where programs look for it
        "CMakeFiles/weft_objects.dir/": ("libweft.so.0.1.0", "libweft.so.1"),
        "tests/CMakeFiles/weft_core64.dir/": ("tests/libweft_core64.so", "libweft_core64.so"),
        "CMakeFiles/weft.dir/": ("weft", "weft"),
    }

    def __init__(self, root, work):
        self.root, self.work = pathlib.Path(root), pathlib.Path(work)
        self.tree, self.dir = self.work / "tree", self.work / "tree" / "build"
        self.originals = {}  # object -> digest of what the unchanged source gives

    def configure(self):
        copy_tree(self.root, self.tree)
        run(["cmake", "-G", "Ninja", "-S", self.tree, "-B", self.dir, "-DWEFT_MUTANTS=ON", "-DWEFT_BENCH=OFF",
             "-DCMAKE_BUILD_TYPE=Mutants", f"-DCMAKE_C_FLAGS_MUTANTS={OPTIMISE}"])

    def build(self, jobs, targets=()):
        run(["ninja", "-C", self.dir, "-j", str(jobs), *targets])
        self.find_links()
        self.find_units()
        self.find_headers()

    def find_links(self):
        """libweft's file name has its version."""
        self.linked = dict(self.LINKED)
        library = next(p.name for p in self.dir.glob("libweft.so.*.*.*"))
        self.linked["CMakeFiles/weft_objects.dir/"] = (library, "libweft.so." + library.split(".")[2])
        self.links = {}
        for target, _ in self.linked.values():
            line = run(["ninja", "-C", self.dir, "-t", "commands", target]).strip().split("\n")[-1]
            self.links[target] = shlex.split(line.replace(": && ", "", 1).split(" && ")[0])

    def find_units(self):
        self.units = {}
        for entry in json.loads((self.dir / "compile_commands.json").read_text()):
            command = shlex.split(entry["command"])
            output = command[command.index("-o") + 1]
            if output.startswith(tuple(self.linked)):
                source = os.path.relpath(entry["file"], self.tree)
                self.units.setdefault(source, []).append(Unit(command, source, output))

    def find_headers(self):
        """Which units include a header: a mutant in it is compiled with all of them."""
        by_output = {u.output: u for units in self.units.values() for u in units}
        unit = None
        for line in run(["ninja", "-C", self.dir, "-t", "deps"]).split("\n"):
            if line and not line.startswith(" "):
                unit = by_output.get(line.split(":")[0])
            elif unit and line.strip().endswith(".h"):
                path = os.path.normpath(self.dir / line.strip())
                if path.startswith(str(self.tree) + "/"):
                    self.units.setdefault(os.path.relpath(path, self.tree), []).append(unit)

    def compile_unit(self, unit, file, text, to):
        """The digest of the object made with `file` having this text, or None if it does not compile."""
        changed = to / "changed" / file
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text)
        output = to / unit.output
        output.parent.mkdir(parents=True, exist_ok=True)
        command = list(unit.command)
        command[command.index("-o") + 1] = str(output)
        if unit.source == file:
            command[command.index("-c") + 1] = str(changed)
        else:
            command[1:1] = ["-I" + str(to / "changed" / file.split("/")[0])]
        command += STRICT + [f"-ffile-prefix-map={to}/changed={self.tree}"]
        done = subprocess.run(command, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return hashlib.sha256(output.read_bytes()).digest() if done.returncode == 0 else None

    def original(self, unit):
        """The digest of the object that ninja made."""
        if unit.output not in self.originals:
            self.originals[unit.output] = hashlib.sha256((self.dir / unit.output).read_bytes()).digest()
        return self.originals[unit.output]

    def compile(self, file, text, to):
        """'broken', 'same' (the same code), or 'differs' and the objects in `to`."""
        same = True
        for unit in self.units.get(file, []):
            after = self.compile_unit(unit, file, text, to)
            if after is None:
                return "broken"
            same = same and after == self.original(unit)
        return "same" if same else "differs"

    def link(self, file, to):
        """Links again what the units of this file are in."""
        units = self.units[file]
        for prefix, (target, name) in self.linked.items():
            mine = {u.output for u in units if u.output.startswith(prefix)}
            if not mine:
                continue
            command = list(self.links[target])
            command[command.index("-o") + 1] = str(to / name)
            run([str(to / c) if c in mine else c for c in command], cwd=self.dir)

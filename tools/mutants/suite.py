"""suite.py - the test programs: which of them, in which order, with which limits."""

import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

from . import build

# The tests of a room, fast ones first; then come all others, by the time they take.
ROOMS = {
    "base": "test_base test_save test_threads test_dtype test_load_faults",
    "kernels": """test_quants test_dtype test_grad64 test_golden test_ops64 test_kernels test_panels test_ops
        test_one_order""",
    "tensor": "test_quant_mix test_dtype test_quants test_cache test_grad64 test_golden test_ops64 test_engine test_ops",
    "ops": """test_op_edges test_grad64 test_grad_long64 test_golden test_seeds test_beam test_ops64 test_encdec
        test_deepseek test_memory test_costs test_ops test_kernels""",
    "models": """test_golden test_vit test_vit_head test_config test_outputs test_encode test_marian test_grad64 test_deepseek
        test_encdec test_bahdanau test_convert test_config_ranges""",
    "formats": """test_quant_mix test_idx test_table test_shard test_config test_safetensors test_image test_manifest
        test_gguf test_config_ranges test_parts test_convert test_load_faults""",
    "text": """test_unicode test_stop test_tokenizer test_tokenizer_gguf test_describe test_train_tokenizer test_regex
        test_tokenizer_limits test_tokenizer_files test_convert test_onig test_marian test_tokenizer_assets""",
    "adapt": "test_peft test_peft_write test_gguf_lora test_merge test_adapt",
    "engine": """test_engine test_sessions test_sampler_edges test_sampler test_beam test_encode test_threads test_outputs
        test_session_files test_eval""",
    "dist": "test_ranks test_comm_load",
    "train": """test_pairs test_labelled test_image_set test_epochs test_data test_trainer test_checkpoint test_train test_ranks
        test_forecast test_train_plan""",
    "explain": "test_report test_alignment cli:report cli:attention_map",
    "api": """test_engine test_encode test_sessions test_report cli:run cli:pictures cli:inspect cli:eval cli:encoders
        test_trainer test_train_plan test_hostile_api""",
    "server": "test_think test_request test_answer test_serve_parts host_serve host_serve_families host_serve_fuzz host_serve_faults "
              "host_serve_loading test_cores",
    "cli": "cli:attention_map cli:version cli:help cli:usage cli:environment cli:config cli:limits",
}

# What a slice has no time for.
SLOW = set("host_serve host_serve_fuzz host_serve_faults test_train test_eval test_tokenizer_assets test_onig test_hostile_api "
           "cli:labels cli:small-stack cli:train cli:process-edge cli:bench".split())

# Not about weft's code (docs, headers, installing), about time, or kills at random moments.
LEFT_OUT = re.compile(r"test_checkpoint_kill|test_tokenizer_linear|hostile_table|seeds|hostile_page|mutate"
                      r"|host_(install|layers|header|examples|kill_.*|dlopen_close|own_add.*|small_stack)"
                      r"|bench_.*|kernel_re.*")


def room_of(path):
    parts = path.split("/")
    if parts[0] in ("cli", "server"):
        return parts[0]
    return parts[1] if len(parts) > 2 else "api"


class Test:
    def __init__(self, name, command, directory, environment):
        self.name, self.command, self.directory, self.environment = name, command, directory, environment
        self.seconds = None
        self.calls = None  # "file:function" of all it calls, or not known


class Stopped(Exception):
    """Ctrl-C: what was running has been killed and says nothing."""


class Outcome:
    def __init__(self, how, seconds):
        self.how, self.seconds = how, seconds  # how: "" passed, else failed, crashed, hung, leaked


def entries_of(made):
    """What ctest knows; tests whose program is not built have no command."""
    return json.loads(build.run(["ctest", "--test-dir", made.dir, "--show-only=json-v1"]))["tests"]


def tests_of(made):
    """The tests that are built, the program's cases one by one."""
    tests = []
    for entry in entries_of(made):
        if LEFT_OUT.fullmatch(entry["name"]) or "command" not in entry:
            continue
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        if entry["name"] == "cli":
            for case in sorted((made.tree / "tests/cli/cases").glob("*.sh")):
                tests.append(Test("cli:" + case.stem, entry["command"] + [case.stem], made.dir, environment))
        else:
            tests.append(Test(entry["name"], entry["command"], made.dir, environment))
    return tests


def slice_targets(made):
    """What the tests of the rooms need."""
    wanted = {name for names in ROOMS.values() for name in names.split()} - SLOW
    return ["weft", "weft_shared", "weft_core64"] + [e["name"] for e in entries_of(made) if e["name"] in wanted]


def limits(cpu_seconds, memory):
    """A mutant may do anything: it has memory, time and files up to here, and no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))


def isolation():
    """In a mount namespace, where that can be had, the root file system is read-only and /tmp the mutant's own."""
    if not shutil.which("unshare"):
        return []
    script = 'mount --bind "$1" /tmp && mount -o remount,ro,bind / && shift && exec "$@"'
    prefix = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", script, "sh"]
    done = subprocess.run(prefix + ["/var/tmp", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return prefix if done.returncode == 0 else []


def word_of(code):
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "hung"
    return "" if code == 0 else "crashed" if code < 0 else "failed"


def within(tests, budget):
    """The first tests that take `budget` seconds together."""
    kept, sum_ = [], 0
    for test in tests:
        sum_ += test.seconds or 0
        if sum_ <= budget:
            kept.append(test)
    return kept


class Suite:
    def __init__(self, made, memory_gib=8, quick=True):
        self.made, self.quick = made, quick
        self.program = str(made.dir / "weft")
        self.memory = int(memory_gib * 2**30)
        self.tests = [t for t in tests_of(made) if os.path.exists(t.command[0])]
        self.prefix = isolation()
        self.sanitizer = build.run(["gcc", "-print-file-name=libasan.so"]).strip() if shutil.which("gcc") else ""
        self.running, self.stopped = set(), False
        self.bears = {}  # test -> whether it passes with AddressSanitizer's malloc
        self.counted = frozenset()  # functions of which it is known who calls them

    def environment(self, test, directory, temporary):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_") or k == "WEFT_ASSETS"}
        own = "/tmp" if self.prefix else str(temporary)
        kept.update(test.environment, LD_LIBRARY_PATH=f"{directory}:{self.made.dir}:{self.made.dir}/tests", 
                    TMPDIR=own, MUTATE_REACH=own, HOME="/nonexistent")
        if self.quick:
            kept["WEFT_TEST_QUICK"] = "1"
        return kept

    def notices(self, test, directory, leaks=False):
        """Whether the test fails, and twice: a machine with other work makes some fail once. With `leaks` also where memory
        is lost, unless the test fails with that malloc anyway."""
        first = self.run(test, directory)
        if not first.how and leaks and self.bears_sanitizer(test):
            first = self.run(test, directory, leaks=True)
            first.how = first.how and "leaked"
        if first.how in ("", "hung"):
            return first
        second = self.run(test, directory, leaks=first.how == "leaked")
        return Outcome(second.how and first.how, first.seconds + second.seconds)

    def bears_sanitizer(self, test):
        if test.name not in self.bears:
            self.bears[test.name] = not self.run(test, self.made.work / f"plain-{test.name}", leaks=True).how
        return self.bears[test.name]

    def command(self, test, directory, temporary, leaks):
        """With the mutant's program, in its own world. For leaks AddressSanitizer's malloc is preloaded into the program
        under test, but not into the shell that runs a script."""
        program = pathlib.Path(directory) / "weft"
        program = str(program) if program.exists() else self.program
        preload = ["env", "LD_PRELOAD=" + self.sanitizer, f"ASAN_OPTIONS=hard_rss_limit_mb={self.memory >> 20}"]
        if leaks:
            script = temporary / "weft"
            script.write_text(f'#!/bin/sh\nexec {" ".join(preload)} {program} "$@"\n')
            script.chmod(0o755)
            program = "/tmp/weft" if self.prefix else str(script)
        command = [program if c == self.program else c for c in test.command]
        if leaks and self.program not in test.command:
            command = preload + command
        return self.prefix + [str(temporary)] + command if self.prefix else command

    def run(self, test, directory, look=None, leaks=False):
        """Runs a test with what is linked in `directory`; `look` sees its temporary files before they go."""
        temporary = pathlib.Path(directory) / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        command = self.command(test, directory, temporary, leaks)
        normal = 3 if test.seconds is None else test.seconds
        slower = 3 if leaks else 1
        wall, cpu = 10 + 8 * normal * slower, int(3 + 4 * normal * slower)
        start = time.monotonic()
        if self.stopped:
            raise Stopped
        process = subprocess.Popen(command, cwd=test.directory, env=self.environment(test, directory, temporary),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True, preexec_fn=lambda: limits(cpu, 0 if leaks else self.memory))
        self.running.add(process.pid)
        try:
            code = process.wait(wall)
            how = word_of(code)
        except subprocess.TimeoutExpired:
            how = "hung"
        finally:
            self.kill(process.pid)
            process.wait()
            self.running.discard(process.pid)
            if look:
                look(temporary)
            shutil.rmtree(temporary, ignore_errors=True)
        if self.stopped:
            raise Stopped
        return Outcome(how, time.monotonic() - start)

    @staticmethod
    def kill(group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stop(self):
        self.stopped = True
        for group in list(self.running):
            self.kill(group)

    def baseline(self, known, counting, say):
        """The seconds of each test and what it calls, into known[name], measured again if its program or one of those files
        has changed; tests that fail without a mutant are left out."""
        kept = []
        for test in self.tests:
            entry = known.get(test.name)
            if not entry or entry["made_of"] != self.made_of(test, entry["calls"]):
                known[test.name] = entry = self.measure(test, counting)
            if entry["fails"]:
                say(f"left out: {test.name} fails without a mutant")
                continue
            test.seconds, test.calls = entry["seconds"], None if entry["calls"] is None else set(entry["calls"])
            kept.append(test)
        self.tests = kept

    def measure(self, test, counting):
        called = set()
        outcome = self.run(test, counting.dir, lambda temporary: called.update(counting.read(temporary)))
        calls = sorted(called)
        if outcome.how:
            calls, outcome = None, self.run(test, self.made.work / "plain")
        return dict(fails=outcome.how != "", seconds=outcome.seconds, calls=calls, made_of=self.made_of(test, calls))

    def made_of(self, test, calls):
        """A digest of the test's source or script, and of the files that it calls."""
        paths = [self.made.tree / f for f in sorted({c.split(":")[0] for c in calls or []})]
        if test.name.startswith("cli:"):
            paths.append(self.made.tree / "tests/cli/cases" / (test.name[4:] + ".sh"))
        else:
            paths += sorted((self.made.tree / "tests").glob(f"*/{test.name.removesuffix('64')}.c"))
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()[:16]

    def reaching(self, path, function):
        """The tests that can notice a change there."""
        tests = [t for t in self.tests if room_of(path) != "cli" or self.program in t.command]
        name = f"{path}:{function}"
        return [t for t in tests if name not in self.counted or t.calls is None or name in t.calls]

    def order(self, mutant, only_room=False, history=None):
        """Tests that are named, that killed a mutant in this file before, that are the room's; all others by their time."""
        able = self.reaching(mutant.path, mutant.function)
        names = {t.name: t for t in able}
        ranked = [names[n] for n in mutant.tests if n in names]
        history = history or {}
        ranked += sorted((t for t in able if history.get(t.name)), key=lambda t: (t.seconds or 1) / history[t.name])
        room = ROOMS.get(room_of(mutant.path), "").split()
        ranked += [names[n] for n in room if n in names]
        ranked += sorted(able, key=lambda t: t.seconds or 0)
        if only_room:
            cases = room_of(mutant.path) == "cli"
            ranked = [t for t in ranked if t.name not in SLOW and (t.name in room or cases and t.name.startswith("cli:"))]
        return list(dict.fromkeys(ranked))

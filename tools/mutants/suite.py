"""suite.py - the test programs: which of them, in which order, with which limits."""

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
    "base": "test_base test_save test_threads test_dtype test_checkpoint_kill test_load_faults",
    "kernels": "test_quants test_dtype test_grad64 test_golden test_ops64 test_kernels test_ops",
    "tensor": "test_quant_mix test_dtype test_quants test_grad64 test_golden test_ops64 test_engine test_ops",
    "ops": "test_grad64 test_golden test_seeds test_beam test_ops64 test_encdec test_deepseek test_ops test_kernels",
    "models": "test_golden test_vit test_config test_outputs test_encode test_marian test_grad64 test_deepseek test_encdec test_bahdanau "
              "test_convert test_config_ranges",
    "formats": "test_idx test_table test_shard test_config test_safetensors test_image test_manifest test_gguf test_config_ranges "
               "test_parts test_convert test_load_faults",
    "text": "test_unicode test_stop test_tokenizer test_tokenizer_gguf test_describe test_train_tokenizer test_regex test_tokenizer_limits "
            "test_tokenizer_files test_onig test_marian test_tokenizer_assets",
    "engine": "test_engine test_sessions test_sampler test_beam test_encode test_threads test_outputs test_session_files test_eval",
    "train": "test_pairs test_labelled test_pictures test_data test_trainer test_checkpoint test_checkpoint_kill test_train",
    "explain": "test_report cli:report",
    "api": "test_engine test_encode test_sessions test_report test_trainer test_hostile_api",
    "cli": "cli:version cli:help cli:usage cli:environment cli:config cli:limits",
}

# Not about weft's code (docs, headers, installing), about time, or kills at random moments.
LEFT_OUT = re.compile(r"hostile_table|seeds|hostile_page|mutate|host_(install|layers|header|examples|kill_.*|dlopen_close|own_add.*|small_stack)"
                      r"|bench_.*|kernel_re.*|.*old_files_made")


def room_of(path):
    parts = path.split("/")
    if parts[0] == "cli":
        return "cli"
    return parts[1] if len(parts) > 2 else "api"


class Test:
    def __init__(self, name, command, directory, environment):
        self.name, self.command, self.directory, self.environment = name, command, directory, environment
        self.seconds = None


class Outcome:
    def __init__(self, how, seconds):
        self.how, self.seconds = how, seconds  # how: "" passed, else failed, crashed, hung


def tests_of(made):
    """What ctest knows, the program's cases one by one."""
    told = json.loads(build.run(["ctest", "--test-dir", made.dir, "--show-only=json-v1"]))
    tests = []
    for entry in told["tests"]:
        if LEFT_OUT.fullmatch(entry["name"]) or "command" not in entry:
            continue
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        if entry["name"] == "cli":
            for case in sorted((made.tree / "tests/cli/cases").glob("*.sh")):
                tests.append(Test("cli:" + case.stem, entry["command"] + [case.stem], made.dir, environment))
        else:
            tests.append(Test(entry["name"], entry["command"], made.dir, environment))
    return [t for t in tests if os.path.exists(t.command[0]) or shutil.which(t.command[0])]


def limits(cpu_seconds, memory):
    """A mutant may do anything: it has memory, time and files up to here, and no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))


def isolation():
    """As root in a mount namespace, all but the mutant's own directory and /dev is read-only, and /tmp its own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return []
    script = 'mount --bind "$1" /tmp && mount -o remount,ro,bind / && shift && exec "$@"'
    prefix = ["unshare", "-m", "sh", "-c", script, "sh"]
    done = subprocess.run(prefix + ["/var/tmp", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return prefix if done.returncode == 0 else []


class Suite:
    def __init__(self, made, memory_gib=8, quick=True):
        self.made, self.quick = made, quick
        self.program = str(made.dir / "weft")
        self.memory = int(memory_gib * 2**30)
        self.tests = tests_of(made)
        self.prefix = isolation()

    def environment(self, test, directory, temporary):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_") or k == "WEFT_ASSETS"}
        kept.update(test.environment, LD_LIBRARY_PATH=f"{directory}:{self.made.dir}:{self.made.dir}/tests", 
                    TMPDIR="/tmp" if self.prefix else str(temporary), HOME="/nonexistent")
        if self.quick:
            kept["WEFT_TEST_QUICK"] = "1"
        return kept

    def run(self, test, directory):
        """Runs a test with what is linked in `directory`; without a mutant there, it is the baseline."""
        program = pathlib.Path(directory) / "weft"
        command = [str(program) if c == self.program and program.exists() else c for c in test.command]
        temporary = pathlib.Path(directory) / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        if self.prefix:
            command = self.prefix + [str(temporary)] + command
        normal = 20 if test.seconds is None else test.seconds
        wall, cpu = 10 + 8 * normal, int(3 + 4 * normal)
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=test.directory, env=self.environment(test, directory, temporary),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True, preexec_fn=lambda: limits(cpu, self.memory))
        try:
            code = process.wait(wall)
            how = "" if code == 0 else "hung" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "crashed" if code < 0 else "failed"
        except subprocess.TimeoutExpired:
            how = "hung"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            shutil.rmtree(temporary, ignore_errors=True)
        return Outcome(how, time.monotonic() - start)

    def baseline(self, known, say):
        """The seconds of each test; tests that fail without any mutant are left out."""
        directory = self.made.work / "baseline"
        kept = []
        for test in self.tests:
            if test.name not in known:
                outcome = self.run(test, directory)
                known[test.name] = None if outcome.how else outcome.seconds
            if known[test.name] is None:
                say(f"left out: {test.name} fails without a mutant")
                continue
            test.seconds = known[test.name]
            kept.append(test)
        self.tests = kept

    def order(self, path, first=(), only_room=False, history=None):
        """Tests that are named, those that killed a mutant in this file before, those of the room, all others by their time."""
        room = ROOMS.get(room_of(path), "").split()
        history = history or {}
        names = {t.name: t for t in self.tests}
        ranked = [names[n] for n in list(first) if n in names]
        ranked += sorted((t for t in self.tests if history.get(t.name)), key=lambda t: (t.seconds or 1) / history[t.name])
        ranked += [names[n] for n in room if n in names]
        if not only_room:
            reached = [t for t in self.tests if room_of(path) != "cli" or self.program in t.command]
            ranked += sorted(reached, key=lambda t: t.seconds or 0)
        return list(dict.fromkeys(ranked))

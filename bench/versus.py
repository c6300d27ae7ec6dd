#!/usr/bin/env python3
"""versus.py - weft and a peer on the same work in one run, A B A B ..., and their ratio.

    versus.py llama --peer PATH/llama-bench --model FILE.gguf [--threads 2] [--rounds 3]
    versus.py torch --peer PATH/python [--type f32|bf16] [--threads 2] [--rounds 3]
    versus.py peft --peer PATH/python --directory MODEL [--model MODEL.gguf] --work DIR [--recompute]
                   [--type f32|bf16] [--threads 2] [--rounds 3]
    versus.py llmc --peer PATH/train_gpt2 --work DIR [--threads 2] [--rounds 3]
    versus.py onnx --peer PATH/python --directory BERT --model BERT.gguf --texts STSB.csv --work DIR
                   [--type f32|int8] [--threads 2] [--rounds 3]
    versus.py build --peer OTHER/build --model FILE.gguf [--encoder BERT] [--threads 2] [--rounds 7]

A machine that others share is never as fast twice, so only ratios of neighbours in one run are
worth keeping: the peer runs between two runs of weft and is compared with their mean. A round in
which the limits that weft measured before and after it differ by more than 15 % is thrown away,
unless all do. Reported are the median of the ratios and their range.

llama compares build/bench/generate with llama.cpp's llama-bench on one model file (prompt and
generation, each from an empty context) and says whether the peer has
AMX products in its code; torch compares build/bench/train_step with
tools/torch_step.py; peft compares steps of `weft train --lora` with tools/peft_step.py, and the peaks
of memory of both processes; llmc compares it with llm.c's train_gpt2 (tools/llmc_step.py), which takes
4 sequences of 64 tokens; onnx compares build/bench/embed on 1,000 sentences with ONNX Runtime, to which
tools/onnx_embed.py gives the same ids; build compares the benches generate, open, train_step and (with an encoder) embed of
this build with those of another: what has a change made slower? (Tokenizing has its own: build/bench/tokenize.) The peer's version and flags are printed. Nothing else should run meanwhile:
a peer on OpenMP spins while it waits, and loses speed if it must share CPUs. Exit codes: 0 done,
1 a program failed, 2 usage.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fail(text):
    print(f"versus: {text}", file=sys.stderr)
    sys.exit(1)


def output(command):
    """What a program prints; the end of its stderr is shown if it fails."""
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    except OSError as e:
        fail(f"{command[0]}: {e.strerror}; give its path with --weft or --peer")
    if done.returncode != 0:
        fail(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def watched(command):
    """What a program prints, and its peak of memory in bytes: all, and without what is mapped from files."""
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak = {"VmHWM": 0, "RssAnon": 0}
    while child.poll() is None:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        for line in status.splitlines():
            name, _, value = line.partition(":")
            if name in peak:
                peak[name] = max(peak[name], 1024 * int(value.split()[0]))
        time.sleep(0.05)
    text, said = child.communicate()
    if child.returncode != 0:
        fail(f"{command[0]} ended with {child.returncode}:\n{said[-2000:]}")
    return text, peak


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


# ---- the two peers ------------------------------------------------------------------------------
#
# Each gives a dictionary {work: speed} for a run of weft and of the peer, more is faster, and keeps
# the machine's limits at weft's runs.


def build_flags(binary):
    """The CMake options of the build, if the program is still in its build directory."""
    keep = ("CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_C_FLAGS",
            "CMAKE_CXX_FLAGS", "GGML_NATIVE", "GGML_OPENMP", "GGML_BLAS", "GGML_LLAMAFILE",
            "GGML_CPU_REPACK")
    for directory in Path(binary).resolve().parents:
        cache = directory / "CMakeCache.txt"
        if cache.is_file():
            entries = (line.partition("=") for line in cache.read_text().splitlines())
            found = {k.partition(":")[0]: v for k, _, v in entries}
            return " ".join(f"{k}={found[k]}" for k in keep if found.get(k))
    return "unknown: no CMakeCache.txt above the program"


def tile_instructions(binary):
    """How many AMX products are in a program and the libraries beside it; None where objdump cannot tell."""
    found = 0
    try:
        linked = subprocess.run(["ldd", str(binary)], capture_output=True, text=True).stdout.split()
        own = [w for w in linked if w.startswith("/") and ("ggml" in w or "llama" in w)]
        for file in [str(binary), *own]:
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], capture_output=True, text=True, check=True)
            found += sum(code.stdout.count(f"\t{name} ") for name in ("tdpbssd", "tdpbusd", "tdpbsud", "tdpbuud", "tdpbf16ps"))
    except (OSError, subprocess.CalledProcessError):
        return None
    return found


def say_tiles(binary):
    """A peer that was built without the processor's matrix instructions is a weak one."""
    n = tile_instructions(binary)
    has = "amx_tile" in Path("/proc/cpuinfo").read_text()
    said = "unknown (objdump is missing)" if n is None else f"{n} AMX products"
    print(f"peer: tile instructions: {said}; this processor has {'AMX' if has else 'no AMX'}", file=sys.stderr)
    if has and n == 0:
        print("versus: warning: the peer was built without AMX, which this processor has: its prompts are slower than they "
              "could be (clang 14 needs -D__AMX_INT8__=1 -D__AMX_TILE__=1 -D__AMX_BF16__=1)", file=sys.stderr)


def limits(x):
    return x["read_bytes_per_second"], x["f32_flops_per_second"]


class Llama:
    unit = "tok/s"

    def __init__(self, a):
        self.shares, self.limits = {}, []
        self.weft_command = [a.weft or ROOT / "build/bench/generate", a.model, "--json",
                             "--repeat", 1, "--threads", a.threads, "--prompt", a.prompt,
                             "--generate", a.generate]
        if a.kv:
            self.weft_command += ["--kv", a.kv]
        if a.bf16:
            self.weft_command += ["--bf16", "--batch", 512]
        self.peer_command = [a.peer, "-m", a.model, "-o", "json", "-r", 1, "-t", a.threads,
                             "-p", a.prompt, "-n", a.generate]
        self.about = None
        say_tiles(a.peer)

    def weft(self):
        runs = [x for x in lines(output(self.weft_command)) if "tokens_per_second" in x]
        for x in runs:
            share = "share_of_f32" if x["work"] == "prompt" else "share_of_memory"
            self.shares.setdefault(x["work"], []).append((share, x[share]))
        self.limits.append(limits(runs[-1]))
        return {x["work"]: x["tokens_per_second"] for x in runs}

    def peer(self):
        tests = json.loads(output(self.peer_command))
        x = tests[0]
        self.about = (f"llama.cpp {x['build_commit']} ({x['build_number']}), {x['backends']}, "
                      f"{x['cpu_info']}; cache {x['type_k']}/{x['type_v']}, batch "
                      f"{x['n_batch']}/{x['n_ubatch']}; {build_flags(self.peer_command[0])}")
        return {"prompt" if t["n_prompt"] else "generate": t["avg_ts"] for t in tests}


class Torch:
    unit = "steps/s"

    def __init__(self, a):
        self.shares, self.limits = {}, []
        sizes = ["--type", a.type, "--threads", a.threads, "--sequences", a.sequences,
                 "--tokens", a.tokens, "--repeat", 1]
        self.weft_command = [a.weft or ROOT / "build/bench/train_step", "--json", *sizes]
        self.peer_command = [a.peer, ROOT / "tools/torch_step.py", *sizes]
        self.about = None

    def weft(self):
        steps = [x for x in lines(output(self.weft_command)) if x.get("work") == "train_step"]
        self.shares.setdefault("train_step", []).append(("share", steps[0]["share"]))
        self.limits.append(limits(steps[0]))
        return {"train_step": 1 / steps[0]["seconds"]}

    def peer(self):
        x = lines(output(self.peer_command))[-1]
        self.about = (f"{x['version']}, {x['capability']}, oneDNN {x['mkldnn']}, "
                      f"{x['threads']} threads, {x['type']}")
        return {"train_step": 1 / x["seconds"]}


class Peft:
    """Steps of training an adapter, of the same rank on the same random ids. Ids are below 32000, as every tokenizer has them."""

    unit = "steps/s"
    n_step = 4  # the first is not counted

    def __init__(self, a):
        self.shares, self.limits, self.memory = {}, [], {"weft": [], "peer": []}
        work = Path(a.work)
        work.mkdir(parents=True, exist_ok=True)
        self.out, ids = work / "weft-adapter", work / "random.ids"
        draw = random.Random(1)
        n = (self.n_step + 1) * a.sequences * a.tokens
        ids.write_bytes(b"".join(draw.randrange(1000, 32000).to_bytes(2, "little") for _ in range(n)))
        self.n_token = a.sequences * a.tokens
        recompute = ["--recompute"] if a.recompute else []
        self.weft_command = [a.weft or ROOT / "build/weft", "train", a.model or a.directory, "--lora",
                             f"r={a.rank},alpha={2 * a.rank}", "--data", ids, "--format", "raw16", "--validation", 0,
                             "-c", a.tokens, "-b", a.sequences, "-n", self.n_step, "--eval-every", 0, "--sample", 0,
                             "--threads", a.threads, "--out", self.out, *recompute]
        self.peer_command = [a.peer, ROOT / "tools/peft_step.py", a.directory, ids, "--type", a.type, "--rank", a.rank,
                             "--sequences", a.sequences, "--tokens", a.tokens, "--threads", a.threads, "--repeat",
                             self.n_step - 1, *recompute]
        self.about = None

    def run(self, who, command):
        text, peak = watched(command)
        self.memory[who].append(peak)
        return text

    def weft(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.run("weft", self.weft_command)
        steps = lines((self.out / "metrics.jsonl").read_text())
        return {"lora_step": statistics.median(x["tokens_per_second"] for x in steps if x["step"] > 1) / self.n_token}

    def peer(self):
        x = lines(self.run("peer", self.peer_command))[-1]
        self.about = f"{x['version']}, {x['capability']}, {x['threads']} threads, {x['type']}"
        return {"lora_step": 1 / x["seconds"]}


class Llmc(Torch):
    def __init__(self, a):
        a.type, a.sequences, a.tokens = "f32", 4, 64
        super().__init__(a)
        self.peer_command = [sys.executable, ROOT / "tools/llmc_step.py", a.peer, a.work,
                             "--threads", a.threads]

    def peer(self):
        x = lines(output(self.peer_command))[-1]
        self.about = f"{x['version']}, {x['threads']} threads, f32"
        return {"train_step": 1 / x["seconds"]}


class Onnx:
    unit = "texts/s"

    def __init__(self, a):
        self.shares, self.limits = {}, []
        self.peer_command = [a.peer, ROOT / "tools/onnx_embed.py", a.directory, a.texts, a.work,
                             "--type", a.type, "--threads", a.threads]
        output(self.peer_command + ["--prepare"])
        self.weft_command = [a.weft or ROOT / "build/bench/embed", a.model, "--json", "--ids",
                             Path(a.work) / "ids.txt", "--repeat", 1, "--threads", a.threads]
        self.about = None

    def weft(self):
        x = lines(output(self.weft_command))[-1]
        self.limits.append(limits(x))
        return self.speeds(x, x["share"])

    # By the clock, and by the processor's time, which others on the same processor do not take from.
    def speeds(self, x, share=None):
        for work in ("embed", "embed_cpu") if share is not None else ():
            self.shares.setdefault(work, []).append(("share", share))
        return {"embed": x["texts_per_second"], "embed_cpu": x["texts"] / x["cpu_seconds"]}

    def peer(self):
        x = lines(output(self.peer_command))[-1]
        self.about = (f"ONNX Runtime {x['version']}, {x['type']}, {x['threads']} threads, "
                      f"{x['batch']} sentences at once, which was its fastest")
        return self.speeds(x)


class Build:
    """One bench of two builds: short, so that neighbours in time are alike."""

    unit = "/s"

    def __init__(self, a, bench):
        common = ["--json", "--threads", a.threads]
        self.args = {
            "generate": [a.model, *common, "--repeat", 2, "--prompt", a.prompt, "--generate", a.generate],
            "open": [a.model, *common],
            "train_step": [*common, "--shape", "135m", "--repeat", 1, "--sequences", 2],
            "embed": [a.encoder, *common, "--repeat", 3],
        }[bench]
        self.shares, self.limits = {}, []
        self.weft_command = [Path(a.weft or ROOT / "build") / "bench" / bench, *self.args]
        self.peer_command = [Path(a.peer) / "bench" / bench, *self.args]
        self.about = build_flags(self.peer_command[0])

    def speeds(self, command):
        found = {}
        for x in lines(output(command)):
            if "first_token_seconds" in x:
                found[x["work"]] = 1 / x["first_token_seconds"]
            elif "texts_per_second" in x or ("tokens_per_second" in x and "work" in x):
                found[x.get("work", "embed")] = x.get("texts_per_second") or x["tokens_per_second"]
        return found

    def weft(self):
        return self.speeds(self.weft_command)

    def peer(self):
        return self.speeds(self.peer_command)


# ---- rounds and report --------------------------------------------------------------------------


def steady(before, after):
    return all(a < 1.15 * b and b < 1.15 * a for a, b in zip(before, after))


def report(pair, weft, peer, as_json):
    all_rounds = range(len(peer))
    kept = [i for i in all_rounds if steady(pair.limits[i], pair.limits[i + 1])] if pair.limits else list(all_rounds)
    used = kept or all_rounds
    for work in peer[0]:
        ratio = [(weft[i][work] + weft[i + 1][work]) / 2 / peer[i][work] for i in used]
        share = pair.shares.get(work)
        result = {
            "work": work,
            "unit": pair.unit,
            "weft": statistics.median(a[work] for a in weft),
            "peer": statistics.median(b[work] for b in peer),
            "ratio": statistics.median(ratio),
            "least": min(ratio),
            "most": max(ratio),
            "rounds": len(peer),
            "steady": len(kept),
        }
        if share:
            result[share[0][0]] = statistics.median(s for _, s in share)
        if as_json:
            print(json.dumps(result))
            continue
        print(
            f"{work:10s} weft {result['weft']:.4g} {pair.unit}, peer {result['peer']:.4g}; "
            f"ratio {result['ratio']:.3f} ({result['least']:.3f} to {result['most']:.3f}; "
            + (f"{len(kept)} of {len(peer)} rounds steady)" if pair.limits else f"{len(peer)} rounds)")
            + (f"; weft's {share[0][0].replace('_', ' ')} {100 * result[share[0][0]]:.1f} %" if share else "")
        )


def report_memory(memory, as_json):
    """Medians of the peaks of the processes, in MiB."""
    peak = {who: {name: statistics.median(p[name] for p in peaks) / 2**20 for name in peaks[0]} for who, peaks in memory.items()}
    if as_json:
        print(json.dumps({"memory_mib": peak}))
        return
    said = (f"{who} {p['VmHWM']:.0f} MiB, {p['RssAnon']:.0f} without mapped files" for who, p in peak.items())
    print(f"memory     {'; '.join(said)}")


def rounds(pair, a):
    weft, peer = [pair.weft()], []
    for i in range(a.rounds):
        peer.append(pair.peer())
        weft.append(pair.weft())
        if i == 0:
            print(f"peer: {pair.about}", file=sys.stderr)
            print(f"weft: {' '.join(map(str, pair.weft_command))}", file=sys.stderr)
            print(f"peer: {' '.join(map(str, pair.peer_command))}", file=sys.stderr)
        said = "; ".join(
            f"{w} {weft[i][w]:.4g}, {weft[i + 1][w]:.4g} / {peer[i][w]:.4g}" for w in peer[i]
        )
        print(f"round {i + 1}: weft before, after / peer: {said}", file=sys.stderr)
    report(pair, weft, peer, a.json)
    if hasattr(pair, "memory"):
        report_memory(pair.memory, a.json)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = p.add_subparsers(dest="kind", required=True)
    llama = kinds.add_parser("llama", help="llama.cpp's llama-bench")
    llama.add_argument("--peer", required=True, help="path of llama-bench")
    llama.add_argument("--model", required=True, help="a GGUF file, of tools/random_model perhaps")
    llama.add_argument("--prompt", type=int, default=512)
    llama.add_argument("--generate", type=int, default=32)
    llama.add_argument("--kv", help="weft's cache type")
    llama.add_argument("--bf16", action="store_true", help="weft's products in class bf16, 512 rows a step")
    torch = kinds.add_parser("torch", help="PyTorch through tools/torch_step.py")
    torch.add_argument("--peer", required=True, help="path of a python that has torch")
    torch.add_argument("--type", choices=["f32", "bf16"], default="f32")
    torch.add_argument("--sequences", type=int, default=4)
    torch.add_argument("--tokens", type=int, default=256)
    peft = kinds.add_parser("peft", help="PEFT through tools/peft_step.py")
    peft.add_argument("--peer", required=True, help="path of a python that has peft")
    peft.add_argument("--directory", required=True, help="a decoder that transformers loads, in f32")
    peft.add_argument("--model", help="the same for weft, quantised perhaps (the directory)")
    peft.add_argument("--work", required=True, help="a directory for ids and the adapter")
    peft.add_argument("--type", choices=["f32", "bf16"], default="f32", help="of the peer")
    peft.add_argument("--rank", type=int, default=16)
    peft.add_argument("--sequences", type=int, default=2)
    peft.add_argument("--tokens", type=int, default=256)
    peft.add_argument("--recompute", action="store_true", help="activations of blocks are computed again, by both")
    llmc = kinds.add_parser("llmc", help="llm.c through tools/llmc_step.py")
    llmc.add_argument("--peer", required=True, help="path of train_gpt2")
    llmc.add_argument("--work", required=True, help="a directory for its weights and tokens")
    onnx = kinds.add_parser("onnx", help="ONNX Runtime through tools/onnx_embed.py")
    onnx.add_argument("--peer", required=True, help="path of a python that has onnxruntime")
    onnx.add_argument("--directory", required=True, help="a BERT that transformers loads")
    onnx.add_argument("--model", required=True, help="the same for weft, quantised perhaps")
    onnx.add_argument("--texts", required=True, help="STS-B's CSV")
    onnx.add_argument("--work", required=True, help="a directory for what the peer makes of them")
    onnx.add_argument("--type", choices=["f32", "int8"], default="f32", help="of the peer")
    build = kinds.add_parser("build", help="another build of weft")
    build.add_argument("--peer", required=True, help="its directory")
    build.add_argument("--model", required=True, help="a GGUF file, of tools/random_model perhaps")
    build.add_argument("--encoder", help="a BERT")
    build.add_argument("--prompt", type=int, default=256)
    build.add_argument("--generate", type=int, default=64)
    for kind in llama, torch, peft, llmc, onnx, build:
        kind.add_argument("--weft", help="path of weft's bench (of its build directory, for build), if not under build/")
        kind.add_argument("--threads", type=int, default=2)
        kind.add_argument("--rounds", type=int, default=3)
        kind.add_argument("--json", action="store_true")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds: at least 1")
    if a.kind != "build":
        rounds({"llama": Llama, "torch": Torch, "peft": Peft, "llmc": Llmc, "onnx": Onnx}[a.kind](a), a)
        return
    for bench in ["generate", "open", "train_step"] + (["embed"] if a.encoder else []):
        rounds(Build(a, bench), a)


if __name__ == "__main__":
    main()

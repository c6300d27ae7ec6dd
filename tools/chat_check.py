#!/usr/bin/env python3
"""Ten questions to a chat model: weft's greedy answers against llama.cpp's, on the same ids.

    PYTHON tools/chat_check.py WEFT MODEL.gguf [TOKENS]

PYTHON has the package xllamacpp (llama.cpp as a library). `weft template --ids` makes the prompt; both programs continue
it greedily. Where they differ, the line shows the first differing token with both candidates and the log-probabilities
that weft gives them: two candidates that close are decided by rounding.
"""
import json
import subprocess
import sys
import urllib.request

import xllamacpp as xlc

QUESTIONS = [
    "Why is the sky blue?",
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain photosynthesis to a child.",
    "What is 17 plus 25?",
    "List three primary colors.",
    "Translate 'good morning' into Spanish.",
    "Who wrote Romeo and Juliet?",
    "Give me a recipe for pancakes.",
    "What should I do if I feel sad?",
]


def weft(program, *args):
    return subprocess.run([program, *args], check=True, capture_output=True, text=True).stdout


def ask(server, ids, n):
    """llama.cpp's own completion, on loopback: the ids of its answer."""
    body = {"prompt": ids, "n_predict": n, "temperature": 0, "top_k": 1, "return_tokens": True, "cache_prompt": False}
    request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["tokens"]


def main():
    program, model = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    params = xlc.CommonParams()
    params.model.path = model
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.warmup = False
    server = xlc.Server(params)
    same = 0
    for question in QUESTIONS:
        ids = weft(program, "template", model, "-p", question, "--ids").strip()
        mine = json.loads(weft(program, "run", model, "--ids", ids, "-n", str(n), "--json", "--logprobs", "5", "-q"))
        theirs = ask(server, [int(x) for x in ids.split(",")], n)
        a, b = mine["ids"], theirs[:n]
        at = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), None)
        if at is None and abs(len(a) - len(b)) <= 1:  # the end-of-turn token counts in one of them
            same += 1
            print(f"same      {len(a):4d} tokens  {question}")
            continue
        at = min(len(a), len(b)) if at is None else at
        top = {t["id"]: t["logprob"] for t in mine["logprobs"][min(at, len(a) - 1)]["top"]} if a else {}
        theirs_id = b[at] if at < len(b) else None
        own_id = a[at] if at < len(a) else None
        print(f"differs   at token {at:3d}  {question}: weft {own_id} ({top.get(own_id)}), llama.cpp {theirs_id} "
              f"({top.get(theirs_id)})")
    print(f"{same} of {len(QUESTIONS)} answers have the same tokens")


main()

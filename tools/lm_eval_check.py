#!/usr/bin/env python3
"""lm_eval_check.py WEFT MODEL_DIRECTORY - lm-eval, unmodified, against weft serve and against transformers.

MODEL_DIRECTORY is a Hugging Face directory with a tokenizer and a chat template. Two tasks are made from local files:
multiple choice, by log-probabilities (local-completions), and answers that must match (local-chat-completions). The same
tasks run with lm-eval's hf model. Exits 1 unless the scores are equal and the log-probabilities are within 1e-3.
Needs Python with lm-eval[api], torch and transformers.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import lm_eval
from lm_eval.tasks import TaskManager

CAPITALS = [("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Spain", "Madrid"), ("Norway", "Oslo"),
            ("Egypt", "Cairo"), ("Kenya", "Nairobi"), ("Peru", "Lima"), ("Poland", "Warsaw"), ("Greece", "Athens")]

CHOICE = """task: local_choice
dataset_path: json
dataset_kwargs:
  data_files:
    test: {path}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{label}}}}"
metric_list:
  - metric: acc
  - metric: acc_norm
"""

ANSWER = """task: local_answer
dataset_path: json
dataset_kwargs:
  data_files:
    test: {path}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 24
  do_sample: false
  temperature: 0.0
metric_list:
  - metric: exact_match
    regexes_to_ignore: ["[^A-Za-z0-9]*Check:.*", "Answer: ", "[.]"]
"""


def questions():
    capitals = [capital for _, capital in CAPITALS]
    for i, (country, capital) in enumerate(CAPITALS):
        four = [capitals[(i + k) % len(capitals)] for k in (3, 0, 5, 7)]
        yield {"question": f"What is the capital of {country}?", "answer": capital, "choices": four, "label": 1}
    for i in range(20):
        a, b = 17 + 23 * i % 61, 29 + 37 * i % 53
        four = [str(a + b + k) for k in (10, -1, 0, 1)]
        yield {"question": f"How much is {a} plus {b}?", "answer": str(a + b), "choices": four, "label": 2}


def write_tasks(directory):
    with open(os.path.join(directory, "data.jsonl"), "w") as f:
        for question in questions():
            f.write(json.dumps(question) + "\n")
    for name, text in (("choice", CHOICE), ("answer", ANSWER)):
        with open(os.path.join(directory, name + ".yaml"), "w") as f:
            f.write(text.format(path=os.path.join(directory, "data.jsonl")))
    return TaskManager(include_path=directory, include_defaults=False)


def start(weft, model):
    process = subprocess.Popen([weft, "serve", model, "--port", "0", "--no-log", "--alias", "model", "--kv-type", "f32"],
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return process, found.group(1)
    sys.exit("the server did not start")


def evaluate(tasks, manager, **how):
    out = lm_eval.simple_evaluate(tasks=tasks, task_manager=manager, bootstrap_iters=0, log_samples=True, verbosity="ERROR", **how)
    return out["results"][tasks[0]], out["samples"][tasks[0]]


def numbers(results):
    return {k: v for k, v in results.items() if isinstance(v, float) and "stderr" not in k}


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    weft, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        manager = write_tasks(directory)
        process, url = start(weft, model)
        try:
            common = f"model=model,tokenizer={model},num_concurrent=4"
            by_weft = evaluate(["local_choice"], manager, model="local-completions",
                               model_args=f"base_url={url}/v1/completions,{common}")
            said = evaluate(["local_answer"], manager, model="local-chat-completions", apply_chat_template=True,
                            model_args=f"base_url={url}/v1/chat/completions,{common}")
        finally:
            process.terminate()
            process.wait()
        here = f"pretrained={model},dtype=float32"
        by_hf = evaluate(["local_choice"], manager, model="hf", model_args=here, device="cpu")
        hf_said = evaluate(["local_answer"], manager, model="hf", model_args=here, device="cpu", apply_chat_template=True)

    off = max(abs(float(a[0]) - float(b[0])) for x, y in zip(by_weft[1], by_hf[1])
              for a, b in zip(x["filtered_resps"], y["filtered_resps"]))
    same = [x["filtered_resps"] == y["filtered_resps"] for x, y in zip(said[1], hf_said[1])]
    print("local-completions:      weft", numbers(by_weft[0]), "transformers", numbers(by_hf[0]))
    print(f"log-probabilities of {4 * len(by_weft[1])} answers: at most {off:.1e} apart")
    print("local-chat-completions: weft", numbers(said[0]), "transformers", numbers(hf_said[0]),
          f"({sum(same)} of {len(same)} texts are the same)")
    return 0 if numbers(by_weft[0]) == numbers(by_hf[0]) and numbers(said[0]) == numbers(hf_said[0]) and off < 1e-3 else 1


sys.exit(main())

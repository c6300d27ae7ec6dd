#!/usr/bin/env python3
"""onnx_embed.py - sentences through a BERT in ONNX Runtime, for bench/versus.py to compare with.

    onnx_embed.py DIRECTORY STSB.csv WORK [--type f32|int8] [--texts 1000] [--threads N] [--prepare]

--prepare exports the model to WORK/f32.onnx (torch.onnx) and quantises it to WORK/int8.onnx (dynamic,
8-bit weights and activations), and writes the ids of the first sentences to WORK/ids.txt, a line each.
Otherwise runs them, sorted by length and padded to the longest of a batch, with the batch size that was
fastest in a first pass, three times, and prints one JSON object of the fastest. Only the session's time counts:
neither tokens nor pooling.
"""

import argparse
import csv
import json
import os
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"


def prepare(args, work):
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from tokenizers import Tokenizer
    from transformers import AutoModel

    work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(args.directory + "/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with open(args.texts, newline="", encoding="utf-8") as f:
        texts = [x for row in csv.reader(f) for x in row[:2]][: args.n]
    with open(work / "ids.txt", "w") as f:
        f.writelines(" ".join(map(str, tokenizer.encode(t).ids)) + "\n" for t in texts)
    if (work / "int8.onnx").exists():
        return
    model = AutoModel.from_pretrained(args.directory, attn_implementation="eager").eval()

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask, types):
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = (torch.ones(2, 8, dtype=torch.long),) * 2 + (torch.zeros(2, 8, dtype=torch.long),)
    axes = {n: {0: "batch", 1: "length"} for n in [*names, "states"]}
    torch.onnx.export(States(), example, work / "f32.onnx", input_names=names, output_names=["states"],
                      dynamic_axes=axes, opset_version=17, dynamo=False)
    quantize_dynamic(work / "f32.onnx", work / "int8.onnx", weight_type=QuantType.QInt8)


def batches(texts, size):
    import numpy as np

    made = []
    for i in range(0, len(texts), size):
        part = texts[i : i + size]
        ids = np.zeros((len(part), max(map(len, part))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for k, t in enumerate(part):
            ids[k, : len(t)] = t
            mask[k, : len(t)] = 1
        made.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    return made


def measure(session, inputs):
    began, cpu_began = time.perf_counter(), time.process_time()
    for x in inputs:
        session.run(None, x)
    return time.perf_counter() - began, time.process_time() - cpu_began


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("directory")
    p.add_argument("texts")
    p.add_argument("work")
    p.add_argument("--type", choices=["f32", "int8"], default="f32")
    p.add_argument("--texts", dest="n", type=int, default=1000)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--prepare", action="store_true")
    args = p.parse_args()
    work = Path(args.work)
    if args.prepare:
        return prepare(args, work)

    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(work / f"{args.type}.onnx", options, ["CPUExecutionProvider"])
    lines = (work / "ids.txt").read_text().splitlines()
    texts = sorted(([int(i) for i in line.split()] for line in lines), key=len)
    passes = {size: batches(texts, size) for size in (1, 8, 16, 32)}
    parts = {size: x[:: max(1, len(x) // 8)] for size, x in passes.items()}
    first = {size: measure(session, x)[1] / len(x) * len(passes[size]) for size, x in parts.items()}
    best = min(first, key=first.get)
    made = [measure(session, passes[best]) for _ in range(3)]
    seconds, cpu = min(s for s, _ in made), min(c for _, c in made)
    print(json.dumps({"version": ort.__version__, "type": args.type, "threads": args.threads,
                      "batch": best, "texts": len(texts), "seconds": seconds, "cpu_seconds": cpu,
                      "texts_per_second": len(texts) / seconds}))


if __name__ == "__main__":
    main()

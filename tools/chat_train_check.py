#!/usr/bin/env python3
"""chat_train_check.py - fine-tuning on conversations: does transformers find weft's validation loss with its own mask?

    chat_train_check.py data DIR           writes DIR/train.jsonl and DIR/validation.jsonl, 180 and 20 conversations
    chat_train_check.py loss RUN FILE TEMPLATE

RUN was trained with `weft train --template TEMPLATE --validation-data FILE`, and TEMPLATE has {% generation %} blocks. The loss
of FILE is computed by transformers from its own rendering, ids and assistant mask; exits 1 where it is not that of the last
line of RUN/metrics.jsonl to 1e-4. docs/TRAINING.md has the commands.
"""
import json
import os
import random
import sys

THINGS = [
    ("France", "Paris", "Lyon"), ("Italy", "Rome", "Milan"), ("Japan", "Tokyo", "Osaka"), ("Spain", "Madrid", "Seville"),
    ("Norway", "Oslo", "Bergen"), ("Egypt", "Cairo", "Luxor"), ("Kenya", "Nairobi", "Mombasa"), ("Peru", "Lima", "Cusco"),
    ("Canada", "Ottawa", "Toronto"), ("Poland", "Warsaw", "Gdansk"), ("Greece", "Athens", "Patras"), ("Cuba", "Havana", "Holguin"),
]


def exchange(r):
    kind = r.randrange(4)
    country, capital, other = r.choice(THINGS)
    a, b = r.randrange(2, 60), r.randrange(2, 60)
    if kind == 0:
        return f"What is the capital of {country}?", f"Answer: {capital}. Check: {capital} is in {country}."
    if kind == 1:
        return f"Is {other} the capital of {country}?", f"Answer: no. Check: the capital of {country} is {capital}."
    if kind == 2:
        return f"How much is {a} plus {b}?", f"Answer: {a + b}. Check: {a + b} minus {b} is {a}."
    return f"Which is larger, {a} or {b}?", f"Answer: {max(a, b)}. Check: {max(a, b)} minus {min(a, b)} is {abs(a - b)}."


def conversation(r):
    messages = [{"role": "system", "content": "Answer, then check the answer."}] if r.random() < 0.5 else []
    for _ in range(r.randrange(1, 4)):
        question, answer = exchange(r)
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages}


def write_data(directory):
    r = random.Random(1)
    os.makedirs(directory, exist_ok=True)
    for name, n in (("train", 180), ("validation", 20)):
        with open(os.path.join(directory, name + ".jsonl"), "w", encoding="utf-8") as f:
            for _ in range(n):
                f.write(json.dumps(conversation(r)) + "\n")


def check_loss(run, data, template):
    import torch
    from torch.nn import functional as F
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(run, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(run)
    with open(template, encoding="utf-8", newline="") as f:
        template = f.read()
    total, count = 0.0, 0
    with open(data, encoding="utf-8") as f, torch.no_grad():
        for line in f:
            out = tokenizer.apply_chat_template(json.loads(line)["messages"], chat_template=template, tokenize=True,
                                                return_dict=True, return_assistant_tokens_mask=True)
            ids, mask = torch.tensor([out["input_ids"]]), torch.tensor(out["assistant_masks"][1:], dtype=torch.bool)
            z = model(ids).logits[0, :-1][mask]
            total += F.cross_entropy(z.double(), ids[0, 1:][mask], reduction="sum").item()
            count += int(mask.sum())
    loss = total / count

    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        written = [m for m in map(json.loads, f) if "val_loss" in m]
    off = abs(loss - written[-1]["val_loss"])
    print(f"step {written[-1]['step']}: transformers {loss:.6f}, weft {written[-1]['val_loss']:.6f}, {off:.1e} apart on {count} tokens; "
          f"step {written[0]['step']}: weft {written[0]['val_loss']:.6f}")
    return 0 if off <= 1e-4 and written[-1]["val_loss"] < written[0]["val_loss"] else 1


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "data":
        write_data(sys.argv[2])
        return 0
    if len(sys.argv) == 5 and sys.argv[1] == "loss":
        return check_loss(*sys.argv[2:])
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main())

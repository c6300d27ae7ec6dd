#!/usr/bin/env python3
"""Make tests/golden/beam/beams.txt: the texts and scores of transformers' beam search on the models of tests/golden.

A line is a search: model, num_beams, num_return_sequences, max_new_tokens, length_penalty, early_stopping (0 False, 1 True,
2 "never"), the prompt, the end tokens, then for each text its score and the ids after the prompt:

    llama-mqa 4 2 12 1.0 0 | 5 17 3 | 2 40 | -2.81 9 4 ... 2 | -2.93 ...

Random models hardly ever generate their end token, so tokens that they do generate serve as end tokens. Models run in f32 and in f64, which
have to find the same texts; the scores are those of f64. llama-gqa is left out: its f32 is up to 5e-6 away from its f64."""

import pathlib
import zlib

import numpy as np
import torch
import transformers

GOLDEN_DIR = pathlib.Path(__file__).parent.parent / "tests/golden"
MODELS = ("gpt2", "llama-mqa", "mistral-window", "qwen3")
EARLY = (False, True, "never")
N_SEARCH = 60
MAX_NEW = 20


def load(name, dtype):
    """A model without ends of its own."""
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN_DIR / name, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    return model


def random_search(rng, config):
    """Options of a search that fits into the context."""
    n_beam = int(rng.choice([2, 3, 4, 5, 8]))
    longest = min(config.max_position_embeddings - MAX_NEW, 80)
    return dict(
        n_beam=n_beam,
        n_best=int(rng.integers(1, n_beam + 1)),
        n_new=int(rng.integers(1, MAX_NEW + 1)),
        length_penalty=float(rng.choice([-1, 0, 0.5, 1, 2])),
        early=int(rng.integers(3)),
        prompt=rng.integers(0, config.vocab_size, int(rng.integers(1, longest + 1))).tolist(),
        n_end=int(rng.choice([0, 1, 1, 2, 3, 12, 40])))


def likely_tokens(model, prompt, n, rng):
    """n of the tokens that the model finds likely somewhere in its greedy text, or all."""
    ids = torch.tensor([prompt])
    found = []
    for _ in range(12):
        logits = model(ids).logits[0, -1]
        found += logits.topk(4).indices.tolist()
        ids = torch.cat([ids, logits.argmax().view(1, 1)], 1)
    found = sorted(set(found))
    return sorted(int(i) for i in rng.choice(found, min(n, len(found)), replace=False))


def search(model, o, ends):
    """(score, ids) of every text."""
    prompt = torch.tensor([o["prompt"]])
    out = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, num_beams=o["n_beam"],
        num_return_sequences=o["n_best"], max_new_tokens=o["n_new"], length_penalty=o["length_penalty"],
        early_stopping=EARLY[o["early"]], eos_token_id=ends or None, pad_token_id=-1,
        return_dict_in_generate=True, output_scores=True)
    texts = []
    for score, ids in zip(out.sequences_scores.tolist(), out.sequences[:, prompt.shape[1]:].tolist()):
        texts.append((score, [i for i in ids if i >= 0]))
    return texts


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.utils.logging.disable_progress_bar()
    lines, n_ended = [], 0
    for name in MODELS:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        model, wide = (load(name, dtype) for dtype in (torch.float32, torch.float64))
        for _ in range(N_SEARCH):
            o = random_search(rng, model.config)
            ends = likely_tokens(model, o["prompt"], o["n_end"], rng) if o["n_end"] else []
            texts = search(wide, o, ends)
            assert [ids for _, ids in texts] == [ids for _, ids in search(model, o, ends)], f"{name}: f32 and f64 differ"
            n_ended += sum(ids[-1] in ends for _, ids in texts)
            head = f"{name} {o['n_beam']} {o['n_best']} {o['n_new']} {o['length_penalty']} {o['early']}"
            lines.append(" | ".join([head, " ".join(map(str, o["prompt"])), " ".join(map(str, ends))]
                                    + [" ".join([f"{score:.8g}", *map(str, ids)]) for score, ids in texts]))
    path = GOLDEN_DIR / "beam/beams.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, numpy {np.__version__}")
    print(f"{len(lines)} searches, {n_ended} texts with an end, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

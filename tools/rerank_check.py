#!/usr/bin/env python3
"""rerank_check.py - scores and vectors of random rerankers and embedding models, beside transformers.

    rerank_check.py WEFT TOKENIZER WORK

TOKENIZER is a directory with the tokenizer.json of Qwen2.5 or Qwen3. Makes small random models in WORK: a Qwen3
that answers yes or no as on Qwen3-Reranker's card, the same with two rows as its head, as llama.cpp writes it, a Qwen3 without a head and with bare names as
Qwen3-Embedding (last token, length 1), and an XLM-R with one output; prints the largest difference of any number
and exits 1 if it is above 1e-5.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM, Qwen3Model
from transformers import Qwen3ForSequenceClassification
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

QUERY = "how do plants eat?"
DOCUMENTS = ["Plants make sugar from light.", "A red car.", "Les plantes  se nourrissent de lumière <|im_end|>.",
             "x", "The chlorophyll in leaves absorbs light, and roots take up water and minerals from the soil."]
TASK = "Given a web search query, retrieve relevant passages that answer the query"
SYSTEM = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct '
          'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
ANSWER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=256)


def random_weights(model):
    """Larger than an initialisation, so that scores differ."""
    torch.manual_seed(7)
    for name, p in model.named_parameters():
        x = torch.randn_like(p)
        if p.dim() > 1:
            x = x if "embed" in name else 1.5 * x / p.shape[-1] ** 0.5
        else:
            x = 0.1 * x if name.endswith("bias") else 1 + 0.2 * x
        p.data.copy_(x)
    return model.eval()


def plain_ids(tokenizer, text):
    """Ids of untrusted text: what it spells is never a special token."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids


def yes_no(model, tokenizer):
    """As the card does it: the words around the pair by themselves."""
    head, tail = (tokenizer(s, add_special_tokens=False).input_ids for s in (SYSTEM, ANSWER))
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
    scores = []
    for document in DOCUMENTS:
        text = f"<Instruct>: {TASK}\n<Query>: {QUERY}\n<Document>: {document}"
        ids = torch.tensor([head + plain_ids(tokenizer, text) + tail])
        z = model(input_ids=ids).logits[0, -1, [no, yes]]
        scores.append(torch.softmax(z, 0)[1].item())
    return scores


def reranked(weft, model, *options):
    """weft's scores in the order of the documents."""
    said = subprocess.run([weft, "rerank", model, QUERY, *DOCUMENTS, "--json", *options], check=True,
                          capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in said.splitlines()]
    assert [r["score"] for r in rows] == sorted((r["score"] for r in rows), reverse=True)
    return [r["score"] for r in sorted(rows, key=lambda r: r["index"])]


def tokens_beside(path, source):
    """Copy the files of a tokenizer."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (source / name).exists():
            shutil.copy(source / name, path)


def tell(what, ours, theirs):
    """Print the difference; whether it is small."""
    worst = float(np.abs(np.array(ours) - np.array(theirs)).max())
    print(f"{what:44} {worst:.1e}")
    return worst <= 1e-5


@torch.no_grad()
def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    weft, source, work = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    tokenizer = AutoTokenizer.from_pretrained(source)
    sizes = dict(SMALL, vocab_size=151_936, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True)
    good = True

    judge, path = random_weights(Qwen3ForCausalLM(Qwen3Config(**sizes))), work / "qwen3-reranker"
    judge.save_pretrained(path)
    tokens_beside(path, source)
    good &= tell("Qwen3, yes or no", reranked(weft, path, "--yes-no"), yes_no(judge, tokenizer))

    rows = Qwen3ForSequenceClassification(Qwen3Config(
        **sizes, id2label={0: "yes", 1: "no"}, label2id=dict(yes=0, no=1), pad_token_id=0)).eval()
    rows.model.load_state_dict(judge.model.state_dict())
    words = [tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no")]
    rows.score.weight.data.copy_(judge.lm_head.weight[words])
    path = work / "qwen3-two-rows"
    rows.save_pretrained(path)
    tokens_beside(path, source)
    for model in (path, work / "qwen3-two-rows.gguf"):
        if model != path:
            subprocess.run([weft, "convert", path, model, "--force"], check=True, capture_output=True)
        good &= tell(f"Qwen3 with two rows, {model.suffix or 'directory'}", reranked(weft, model),
                     yes_no(judge, tokenizer))

    body, path = random_weights(Qwen3Model(Qwen3Config(**dict(sizes, tie_word_embeddings=False)))), \
        work / "qwen3-embedding"
    body.save_pretrained(path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(dict(config, architectures=["Qwen3ForCausalLM"]), indent=2))
    (path / "1_Pooling").mkdir(exist_ok=True)
    (path / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    (path / "modules.json").write_text(json.dumps(
        [{"idx": k, "path": place, "type": f"sentence_transformers.models.{name}"}
         for k, (place, name) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("", "Normalize")))]))
    tokens_beside(path, source)
    vectors = []
    for text in DOCUMENTS:
        x = body(input_ids=torch.tensor([plain_ids(tokenizer, text)])).last_hidden_state[0, -1]
        vectors.append((x / x.norm()).numpy())
    for model in (path, work / "qwen3-embedding.gguf"):
        if model != path:
            subprocess.run([weft, "convert", path, model, "--force"], check=True, capture_output=True)
        ours = [np.array(subprocess.run([weft, "embed", model, text], check=True, capture_output=True,
                                        text=True).stdout.split(), float) for text in DOCUMENTS]
        good &= tell(f"Qwen3 without a head, {model.suffix or 'directory'}", ours, vectors)

    pairs, path = random_weights(XLMRobertaForSequenceClassification(XLMRobertaConfig(
        **dict(SMALL, vocab_size=151_936, type_vocab_size=1, num_labels=1)))), work / "xlm-roberta"
    pairs.save_pretrained(path)
    tokens_beside(path, source)
    pieces = json.loads((path / "tokenizer.json").read_text())
    a, b = ({"Sequence": {"id": x, "type_id": 0}} for x in "AB")
    pieces["post_processor"] = {"type": "TemplateProcessing", "single": [a], "pair": [a, b], "special_tokens": {}}
    (path / "tokenizer.json").write_text(json.dumps(pieces))
    scores = [pairs(input_ids=torch.tensor([plain_ids(tokenizer, QUERY) + plain_ids(tokenizer, d)])).logits.item()
              for d in DOCUMENTS]
    good &= tell("XLM-R with one output", reranked(weft, path), scores)
    return not good


if __name__ == "__main__":
    sys.exit(main())

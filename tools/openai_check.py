#!/usr/bin/env python3
"""openai_check.py WEFT MODEL TEMPLATE - the openai package, unmodified, against weft serve on loopback.

Needs Python with openai. Starts the server, runs chat, streams, log-probabilities, n, stop, embeddings, errors and
timeouts, prints a line per check, and fails if one does.
"""
import base64
import re
import struct
import subprocess
import sys
import tempfile

import openai

failed = 0


def check(holds, sentence, found=""):
    global failed
    failed += not holds
    print("ok    " + sentence if holds else f"FAILED {sentence}: {found}")


def start(weft, model, template, keys):
    process = subprocess.Popen(
        [weft, "serve", model, "--port", "0", "--template", template, "--api-key-file", keys, "--no-log"],
        stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return process, found.group(1)
    sys.exit("the server did not start")


def chat(client, model):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    whole = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0, logprobs=True,
                                           top_logprobs=3)
    text = whole.choices[0].message.content
    check(whole.object == "chat.completion" and whole.choices[0].finish_reason in ("length", "stop"), "chat", whole)
    check(whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, "usage adds up")
    lp = whole.choices[0].logprobs.content
    check(len(lp) == whole.usage.completion_tokens and all(len(t.top_logprobs) == 3 for t in lp), "log-probabilities")
    check(b"".join(bytes(t.bytes) for t in lp).decode(errors="replace") == text, "tokens join to the text", text)
    stream = client.chat.completions.create(model=model, messages=messages, max_tokens=8, temperature=0, stream=True,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    joined = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check(joined == text, "a stream has the same text", (joined, text))
    check(chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens,
          "the last chunk has the usage", chunks[-1])
    check(chunks[0].choices[0].delta.role == "assistant" and len({c.id for c in chunks}) == 1, "one id, one role")
    check([c.choices[0].finish_reason for c in chunks if c.choices][:-1].count(None) == len(chunks) - 2,
          "finish_reason is null until the end")
    many = client.chat.completions.create(model=model, messages=messages, max_tokens=6, n=3, seed=1, temperature=1)
    again = client.chat.completions.create(model=model, messages=messages, max_tokens=6, n=3, seed=1, temperature=1)
    check([c.message.content for c in many.choices] == [c.message.content for c in again.choices] and
          len(many.choices) == 3, "n choices, and the same ones for a seed")


def completions(client, model):
    one = client.completions.create(model=model, prompt="First Citizen:", max_tokens=24, temperature=0)
    text = one.choices[0].text
    stop = text.strip().split()[2]
    cut = client.completions.create(model=model, prompt="First Citizen:", max_tokens=24, temperature=0, stop=stop)
    check(text.startswith(cut.choices[0].text) and stop not in cut.choices[0].text and
          cut.choices[0].finish_reason == "stop", "stop", cut)
    echo = client.completions.create(model=model, prompt=["ab", "c d"], max_tokens=0, echo=True, logprobs=2)
    check([c.text for c in echo.choices] == ["ab", "c d"] and
          all(c.logprobs.token_logprobs[0] is None for c in echo.choices), "echo", echo)
    check(all(len(c.logprobs.tokens) == len(c.logprobs.top_logprobs) == len(c.logprobs.text_offset)
              for c in echo.choices), "lists of one length")


def embeddings(client, model):
    raw = client.embeddings.create(model=model, input=["a", "b c"], encoding_format="float").data
    packed = client.embeddings.with_raw_response.create(model=model, input=["a", "b c"], encoding_format="base64")
    for i, item in enumerate(packed.http_response.json()["data"]):
        data = base64.b64decode(item["embedding"])
        floats = struct.unpack(f"<{len(data) // 4}f", data)
        check(all(abs(x - y) <= 1e-8 + 1e-7 * abs(x) for x, y in zip(floats, raw[i].embedding)), "base64 is the same")
    usual = client.embeddings.create(model=model, input="a").data[0].embedding
    check(abs(sum(x * x for x in usual) - 1) < 1e-5, "unit length")


def errors(client, base, model):
    tries = [
        (openai.BadRequestError, "temperature", lambda: client.completions.create(model=model, prompt="a",
                                                                                  temperature=5)),
        (openai.BadRequestError, "tools", lambda: client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "a"}], tools=[{"type": "function"}])),
        (openai.BadRequestError, "response_format", lambda: client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "a"}], response_format={"type": "xml"})),
        (openai.NotFoundError, "model", lambda: client.completions.create(model="other", prompt="a")),
    ]
    for kind, param, call in tries:
        try:
            call()
            check(False, f"{param} is refused", "it is accepted")
        except kind as e:
            check(e.param == param, f"{param} is refused by name", e)
    try:
        openai.OpenAI(base_url=base + "/v1", api_key="wrong-key", max_retries=0).models.list()
        check(False, "a wrong key is refused", "it is accepted")
    except openai.AuthenticationError:
        check(True, "a wrong key is refused")
    try:
        client.with_options(timeout=1e-3, max_retries=0).completions.create(
            model=model, prompt=["ROMEO:"] * 32, n=8, max_tokens=200, extra_body={"ignore_eos": True})
        check(False, "a timeout", "it was in time")
    except openai.APITimeoutError:
        check(True, "a timeout")
    check(client.models.list().data[0].id == model and client.models.retrieve(model).id == model, "models")


def main():
    weft, model, template = sys.argv[1:4]
    with tempfile.NamedTemporaryFile("w") as keys: # mode 0600
        keys.write("user key-of-the-user\n")
        keys.flush()
        process, base = start(weft, model, template, keys.name)
        try:
            client = openai.OpenAI(base_url=base + "/v1", api_key="key-of-the-user")
            name = client.with_options(max_retries=20).models.list().data[0].id
            chat(client, name)
            completions(client, name)
            embeddings(client, name)
            errors(client, base, name)
        finally:
            process.terminate()
            code = process.wait(20)
    check(code == 0, "the server ends well", code)
    return failed > 0


sys.exit(main())

#!/usr/bin/env python3
"""tools_check.py WEFT MODEL TEMPLATE - tools and forms of answers through the openai and anthropic packages.

Needs Python with openai, anthropic and pydantic. TEMPLATE must take tools, such as that of Qwen2.5 for a model with ChatML.
Starts weft serve on loopback and runs loops of calls and results unmodified, whole and as streams, through chat
completions, responses and messages. Prints a line per check, and fails if one does.
"""
import json
import re
import subprocess
import sys

import anthropic
import openai
from pydantic import BaseModel

failed = 0
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40},
                                               "unit": {"type": "string", "enum": ["C", "F"]}},
              "required": ["city", "unit"], "additionalProperties": False}
FUNCTION = {"name": "get_weather", "description": "The weather of a city.", "parameters": PARAMETERS}


class City(BaseModel):
    name: str
    population: int


def check(holds, sentence, found=""):
    global failed
    failed += not holds
    print("ok    " + sentence if holds else f"FAILED {sentence}: {found}")


def start(weft, model, template):
    process = subprocess.Popen([weft, "serve", model, "--port", "0", "--template", template, "--no-log"],
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return process, found.group(1)
    sys.exit("the server did not start")


def fits(arguments):
    return (set(arguments) == {"city", "unit"} and isinstance(arguments["city"], str)
            and len(arguments["city"]) <= 40 and arguments["unit"] in "CF")


def chat(client, model):
    tool = {"type": "function", "function": FUNCTION}
    more = dict(model=model, tools=[tool], temperature=0, max_tokens=100)
    whole = client.chat.completions.create(messages=QUESTION, tool_choice="required", parallel_tool_calls=False,
                                           **more)
    message = whole.choices[0].message
    calls = message.tool_calls or []
    check(whole.choices[0].finish_reason == "tool_calls" and len(calls) == 1 and message.content is None,
          "chat: a required call", whole)
    check(fits(json.loads(calls[0].function.arguments)), "chat: its arguments match their schema", calls)
    results = [{"role": "tool", "tool_call_id": c.id, "content": "21"} for c in calls]
    after = client.chat.completions.create(
        messages=QUESTION + [message.model_dump(exclude_none=True)] + results, **more)
    check(after.choices[0].finish_reason in ("stop", "length", "tool_calls"), "chat: an answer to the result", after)
    pieces = {}
    for chunk in client.chat.completions.create(messages=QUESTION, tool_choice="required", parallel_tool_calls=False,
                                                stream=True, **more):
        for d in chunk.choices[0].delta.tool_calls or []:
            at = pieces.setdefault(d.index, ["", ""])
            at[0] += d.function.name or ""
            at[1] += d.function.arguments or ""
    check(pieces == {0: ["get_weather", calls[0].function.arguments]}, "chat: a stream has the same call", pieces)
    none = client.chat.completions.create(messages=QUESTION, tool_choice="none", **more)
    check(not none.choices[0].message.tool_calls, "chat: none means none", none)
    parsed = client.chat.completions.parse(model=model, messages=QUESTION, response_format=City, temperature=0,
                                           max_tokens=200)
    check(isinstance(parsed.choices[0].message.parsed, City), "chat: an answer in the form of a class", parsed)
    for field, value, form in (("guided_regex", "[A-Z][a-z]{2,9}!", r"[A-Z][a-z]{2,9}!"),
                               ("guided_choice", ["yes", "no \"way\""], r'yes|no "way"'),
                               ("guided_grammar", 'root ::= "a"{3} [0-9]', r"aaa[0-9]"),
                               ("structured_outputs", {"json": {"type": "integer", "maximum": 9, "minimum": 0}},
                                r"[0-9]")):
        text = client.chat.completions.create(model=model, messages=QUESTION, temperature=1, seed=3, max_tokens=60,
                                              extra_body={field: value}).choices[0].message.content
        check(re.fullmatch(form, text) is not None, f"chat: {field}", text)


def responses(client, model):
    tool = dict(FUNCTION, type="function", strict=True)
    more = dict(model=model, tools=[tool], temperature=0, max_output_tokens=100)
    first = client.responses.create(input=QUESTION, tool_choice="required", parallel_tool_calls=False, **more)
    calls = [o for o in first.output if o.type == "function_call"]
    check(first.status == "completed" and len(calls) == 1 and fits(json.loads(calls[0].arguments)),
          "responses: a required call", first)
    talk = QUESTION + [o.model_dump(exclude_none=True) for o in first.output]
    talk += [{"type": "function_call_output", "call_id": c.call_id, "output": "21"} for c in calls]
    with client.responses.stream(input=talk, tool_choice="none", **more) as stream:
        kinds = [e.type for e in stream]
        last = stream.get_final_response()
    whole = client.responses.create(input=talk, tool_choice="none", **more)
    check(kinds[0] == "response.created" and "response.output_text.delta" in kinds
          and last.output_text == whole.output_text, "responses: a stream has the same text", (kinds, last, whole))
    parsed = client.responses.parse(model=model, input="Describe Paris.", text_format=City, temperature=0,
                                    max_output_tokens=200)
    check(isinstance(parsed.output_parsed, City), "responses: an answer in the form of a class", parsed)
    cut = client.responses.create(model=model, input="Count to a thousand.", instructions="Be long.",
                                  max_output_tokens=5, temperature=0)
    check(cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens",
          "responses: a cut answer is incomplete", cut)
    for field, value in (("previous_response_id", "resp_1"), ("store", True)):
        try:
            client.responses.create(model=model, input="a", **{field: value})
            check(False, f"responses: {field} is refused", "it is accepted")
        except openai.BadRequestError as e:
            check(e.param == field, f"responses: {field} is refused by name", e)


def messages(client, model):
    tool = {"name": FUNCTION["name"], "description": FUNCTION["description"], "input_schema": PARAMETERS}
    more = dict(model=model, max_tokens=100, tools=[tool])
    count = client.messages.count_tokens(model=model, messages=QUESTION, system="Be brief.").input_tokens
    first = client.messages.create(messages=QUESTION, tool_choice={"type": "any", "disable_parallel_tool_use": True},
                                   **more)
    uses = [b for b in first.content if b.type == "tool_use"]
    check(first.stop_reason == "tool_use" and len(uses) == 1 and fits(uses[0].input), "messages: a required call", first)
    talk = QUESTION + [{"role": "assistant", "content": [b.model_dump() for b in first.content]},
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": b.id, "content": "21"}
                                                    for b in uses]}]
    with client.messages.stream(messages=talk, tool_choice={"type": "none"}, **more) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    check(last.stop_reason in ("end_turn", "max_tokens") and "".join(b.text for b in last.content) == text,
          "messages: a stream of text", last)
    with client.messages.stream(messages=QUESTION, tool_choice={"type": "tool", "name": "get_weather"},
                                **more) as stream:
        last = stream.get_final_message()
    check(all(fits(b.input) for b in last.content) and last.stop_reason == "tool_use", "messages: a stream of calls", last)
    plain = client.messages.create(model=model, max_tokens=9, messages=QUESTION, system="Be brief.")
    check(plain.usage.input_tokens + plain.usage.cache_read_input_tokens == count, "messages: tokens are counted", plain)
    try:
        client.messages.create(model=model, max_tokens=3, messages=[{"role": "x", "content": "y"}])
        check(False, "messages: a wrong role is refused", "it is accepted")
    except anthropic.BadRequestError as e:
        check("role" in str(e), "messages: a wrong role is refused", e)


def main():
    process, base = start(*sys.argv[1:4])
    try:
        client = openai.OpenAI(base_url=base + "/v1", api_key="none")
        model = client.with_options(max_retries=20).models.list().data[0].id
        chat(client, model)
        responses(client, model)
        messages(anthropic.Anthropic(base_url=base, api_key="none"), model)
    finally:
        process.terminate()
        code = process.wait(20)
    check(code == 0, "the server ends well", code)
    return failed > 0


sys.exit(main())

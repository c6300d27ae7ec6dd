"""A model: generate, chat, embed, classify, score; inside.py has trace and explain."""
from __future__ import annotations

import ctypes
import json
import os
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, overload

from . import _api, inside
from ._lib import (Error, Handle, InvalidError, Owner, UnsupportedError, call, handle, ids_of, integer, lib, one_of, path_of,
                   sized, utf8)
from .encoder import Encoder
from .engine import AsyncStream, Engine, Generation, Request, Stream, together
from .inside import Traced
from .session import Session
from .tokenizer import Tokenizer

Text = Union[str, Sequence[int]]

_KV = {None: _api.WEFT_KV_DEFAULT, "f32": _api.WEFT_KV_F32, "f16": _api.WEFT_KV_F16, "bf16": _api.WEFT_KV_BF16,
       "q8_0": _api.WEFT_KV_Q8_0}
_TASKS = {_api.WEFT_TASK_GENERATE: "generate", _api.WEFT_TASK_FILL: "fill", _api.WEFT_TASK_CLASSIFY: "classify",
          _api.WEFT_TASK_TAG: "tag", _api.WEFT_TASK_ANSWER: "answer", _api.WEFT_TASK_EMBED: "embed"}
_NOUNS = {"generate": "a generative model", "fill": "a masked language model", "tag": "a token classifier",
          "answer": "a question answering model", "embed": "an embedding model"}
_POOLING = {None: _api.WEFT_POOLING_MODEL, "mean": _api.WEFT_POOLING_MEAN, "max": _api.WEFT_POOLING_MAX,
            "first": _api.WEFT_POOLING_FIRST, "last": _api.WEFT_POOLING_LAST}


@dataclass
class Score:
    """How probable a text is: log-probabilities in nats, of each token but the first."""

    ids: List[int]
    logprobs: List[float]

    @property
    def logprob(self) -> float:
        """Of the whole text."""
        return sum(self.logprobs)

    @property
    def perplexity(self) -> float:
        """e to the mean negative log-probability of a token."""
        import math
        return math.exp(-self.logprob / max(1, len(self.logprobs)))


def _with_message(e: Error, message: str) -> Error:
    made = type(e)(message)
    made.code = e.code
    return made


class Adapter(Handle):
    """A LoRA adapter of one model: a directory as PEFT saves it, or a GGUF file."""

    _free = "weft_adapter_close"

    def __init__(self, model: "Model", path: str):
        self._make(lib.weft_adapter_open, model.pointer, path_of(path))
        info = sized(_api.weft_adapter_info)
        lib.weft_adapter_get_info(self.pointer, ctypes.byref(info))
        self.rank = info.rank


class Grammar(Handle):
    """What texts may be generated: compiled once, used by any number of texts and threads."""

    _free = "weft_grammar_free"

    def __init__(self, model: "Model", *, schema=None, regex: Optional[str] = None, gbnf: Optional[str] = None):
        given = [(k, v) for k, v in (("schema", schema), ("regex", regex), ("gbnf", gbnf)) if v is not None]
        if len(given) != 1:
            raise InvalidError(f"a grammar: found {len(given)} forms of it; expected one of schema, regex, gbnf")
        kind, text = given[0]
        number = {"schema": _api.WEFT_GRAMMAR_SCHEMA, "regex": _api.WEFT_GRAMMAR_REGEX, "gbnf": _api.WEFT_GRAMMAR_GBNF}[kind]
        data = utf8(kind, json.dumps(text) if kind == "schema" and not isinstance(text, str) else text)
        o = sized(_api.weft_grammar_options, model=model.pointer)
        self._make(lib.weft_grammar_new, model.tokenizer.pointer, number, data, len(data), ctypes.byref(o))


class _Template(Handle):
    _free = "weft_template_free"
    _name = "model"

    def __init__(self, path: str):
        try:
            self._make(lib.weft_template_load, path_of(path), None)
        except UnsupportedError as e:  # the library names the option of its program
            raise _with_message(e, str(e).replace("with --template", "as the argument template=")) from None


class Model(Handle):
    """A model of any family. Threads may share it: generations of several threads run in one batch.

        model = weft.Model.from_pretrained("SmolLM2-135M-Instruct")
        print(model.chat([{"role": "user", "content": "Why is the sky blue?"}], max_new_tokens=100))
    """

    _free = "weft_model_close"

    def __init__(self, path: Union[str, os.PathLike], *, compute: str = "default", load: str = "copy", ram_max: int = 0, threads: int = 0,
                 n_ctx: int = 0, n_running: int = 16, n_cache: int = 0, kv_type: Optional[str] = None,
                 template: Union[str, os.PathLike, None] = None):
        """path: a GGUF file, a Hugging Face directory, or the name of a model that another program has downloaded.

        threads, n_ctx, n_running (texts at a time), n_cache (positions of all texts) and kv_type are of generation; 0 and None
        are the library's defaults. template: a file with the chat template, in place of the model's own. ram_max: bytes that
        the model and everything made from it may take; 0: any."""
        self.path = find(path)
        loads = {"copy": _api.WEFT_LOAD_COPY, "map": _api.WEFT_LOAD_MAP}
        computes = {"default": _api.WEFT_COMPUTE_DEFAULT, "bf16": _api.WEFT_COMPUTE_BF16}
        o = sized(_api.weft_model_options, load=one_of("load", load, loads), ram_max=ram_max,
                  compute=one_of("compute", compute, computes))
        kv = one_of("kv_type", kv_type, _KV)
        self._make(lib.weft_model_open, path_of(self.path), ctypes.byref(o))
        self._engine_options = dict(threads=threads, n_ctx=n_ctx, n_running=n_running, n_cache=n_cache, kv_type=kv)
        self._threads = threads
        self._template = os.fsdecode(template) if template is not None else self.path
        self._lock = threading.RLock()
        self._parts: Dict[Any, Any] = {}
        self._unspelt = False  # it has no tokenizer, or none that weft reads
        info = sized(_api.weft_model_info)
        lib.weft_model_get_info(self.pointer, ctypes.byref(info))
        names = ("n_layer", "n_head", "n_head_kv", "d_model", "d_head", "d_ff", "n_vocab", "n_ctx", "n_parameter", "n_out")
        self.info: Dict[str, Any] = {name: getattr(info, name) for name in names}
        self.info.update(architecture=info.architecture.decode(), format=info.format.decode(), task=_TASKS[info.task],
                         images=info.images, several=info.labels == _api.WEFT_LABELS_SEVERAL)
        self.n_vocab = info.n_vocab
        self._value, self._start_id, self._n_layer_src = info.labels == _api.WEFT_LABELS_VALUE, info.start_id, info.n_layer_src
        labels = [lib.weft_model_label(self.pointer, i) for i in range(info.n_out)] if info.task == _api.WEFT_TASK_CLASSIFY else []
        self.labels = [str(i) if label is None else label.decode("utf-8", "replace") for i, label in enumerate(labels)]

    @classmethod
    def from_pretrained(cls, path: Union[str, "os.PathLike[str]"], **options: Any) -> "Model":
        """Model(path, ...), by the name that transformers gives it."""
        return cls(path, **options)

    def close(self) -> None:
        """Ends generations that run. Other calls in other threads are completed, and what they use is freed then."""
        if self._owner is None or self._owner.pid != os.getpid():
            return  # after a fork, a thread that is not in this process may hold the lock
        with self._lock:
            for part in sorted(self._parts.values(), key=lambda part: not isinstance(part, Engine)):
                part.close()  # engines first: their requests use the tokenizer
            self._parts.clear()
            super().close()

    def _part(self, name, make):
        self.pointer  # raises after a fork, when the lock may be held for ever
        with self._lock:
            self.pointer  # and if the model was closed meanwhile
            if name not in self._parts:
                self._parts[name] = make()
            return self._parts[name]

    @property
    def tokenizer(self) -> Tokenizer:
        """Of an encoder-decoder with two, the source's."""
        return self._part("tokenizer", lambda: Tokenizer(self.path, side="source" if self._n_layer_src else "any"))

    @property
    def _target(self) -> Tokenizer:
        return self._part("target", lambda: Tokenizer(self.path, side="target")) if self._n_layer_src else self.tokenizer

    def _speller(self, ids):
        """The tokenizer that spells new tokens; ids may be continued without one."""
        if self._unspelt:
            return None
        try:
            return self._target.pointer
        except Error:
            if isinstance(ids, str):
                raise
            self._unspelt = True
            return None

    def _engine(self, adapter: Optional[Adapter] = None) -> Engine:
        rank = adapter.rank if adapter else 0
        return self._part(("engine", rank), lambda: Engine(self, adapter_rank=rank, **self._engine_options))

    @property
    def _scorer(self) -> Engine:
        """With a cache of f32, unless the user has chosen: as in weft eval, the cache does not change the result."""
        o = dict(self._engine_options, all_logits=True)
        o["kv_type"] = o["kv_type"] or _api.WEFT_KV_F32
        return self._part("scorer", lambda: Engine(self, **o))

    def session(self, *, n_ctx: Optional[int] = None, kv_type: Optional[str] = None, threads: Optional[int] = None,
                n_sessions: int = 1) -> Session:
        """A text a step at a time: eval, logits, rewind, fork. n_sessions: so many that are forked have room; the others are
        those of the model if they are not given."""
        o = self._engine_options
        return Session(self, n_ctx=o["n_ctx"] if n_ctx is None else n_ctx, n_sessions=n_sessions,
                       threads=self._threads if threads is None else threads,
                       kv_type=o["kv_type"] if kv_type is None else one_of("kv_type", kv_type, _KV))

    def adapter(self, path: str) -> Adapter:
        """Opens a LoRA adapter of this model, for adapter= of generate."""
        return Adapter(self, path)

    def grammar(self, *, schema: Any = None, regex: Optional[str] = None, gbnf: Optional[str] = None) -> Grammar:
        """Compiles a grammar once, for grammar= of generate: a JSON Schema, a regular expression, or GBNF."""
        return Grammar(self, schema=schema, regex=regex, gbnf=gbnf)

    # ---- texts

    @overload
    def generate(self, prompt: Text, **options: Any) -> Generation: ...

    @overload
    def generate(self, prompt: Union[List[str], Tuple[str, ...]], **options: Any) -> List[Generation]: ...

    def generate(self, prompt: Any, **options: Any) -> Any:
        """Continues a text, or translates it if the model is an encoder-decoder. A list of texts gives a list of generations.

        max_new_tokens (None: until the text or the context ends), temperature (0: the most probable token), top_k, top_p,
        min_p, repetition_penalty, seed (-1: a new one each time), stop (texts), schema, regex, gbnf or grammar (what may be
        generated), min_new_tokens, ignore_end, logprobs (of so many of the best tokens), adapter and strength."""
        several = isinstance(prompt, (list, tuple)) and prompt and all(isinstance(p, str) for p in prompt)
        found = together([self._request(self._ids(p), options) for p in (prompt if several else [prompt])])
        return found if several else found[0]

    def stream(self, prompt: Text, **options: Any) -> Stream:
        """As generate, but iterates over the text while it is generated."""
        ids = self._ids(prompt)
        return Stream(lambda listen: self._request(ids, options, listen), self)

    def astream(self, prompt: Text, **options: Any) -> AsyncStream:
        """The same for `async for`."""
        ids = self._ids(prompt)
        return AsyncStream(lambda listen: self._request(ids, options, listen), self)

    def chat(self, messages: Sequence[Dict[str, Any]], *, tools: Optional[Sequence[Dict[str, Any]]] = None,
             variables: Optional[Dict[str, Any]] = None, stream: bool = False, **options: Any) -> Any:
        """Answers a conversation in the form of the OpenAI API, written by the model's own template: a Generation, or with
        `stream` a Stream. Other options are those of generate."""
        ids = self.apply_template(messages, tools=tools, variables=variables)
        if stream:
            return Stream(lambda listen: self._request(ids, options, listen), self)
        return together([self._request(ids, options)])[0]

    def apply_template(self, messages: Sequence[Dict[str, Any]], *, tools: Optional[Sequence[Dict[str, Any]]] = None,
                       variables: Optional[Dict[str, Any]] = None) -> List[int]:
        """The tokens of a conversation. What its authors wrote never becomes a special token."""
        template = self._part("template", lambda: _Template(self._template))
        data = json.dumps(list(messages)).encode()
        o = sized(_api.weft_render_options, tools=None if tools is None else json.dumps(tools),
                  variables=None if variables is None else json.dumps(variables))
        rendered = call(lib.weft_template_render, template.pointer, self.tokenizer.pointer, data, len(data), ctypes.byref(o))
        try:
            tokens = rendered.contents.tokens.contents
            return tokens.ids[: tokens.n]
        finally:
            lib.weft_rendered_free(rendered)

    def _ids(self, text: Text):
        ids = self.tokenizer.encode(text) if isinstance(text, str) else ids_of(text)[0]
        if not len(ids):
            raise InvalidError(f"{text!r} has no tokens; expected one or more")
        return ids

    def _request(self, ids, options: Dict[str, Any], listen=None) -> Request:
        """A generation that is not started yet."""
        o = dict(options)
        adapter, strength = o.pop("adapter", None), o.pop("strength", None)
        adapted = handle("adapter", adapter, Adapter)
        if strength is not None and adapter is None:
            raise InvalidError("strength: is for adapter=")
        constraint = self._constraint(o)
        sampler = _sampler(o)
        given = dict(n_new=_n_new(o.pop("max_new_tokens", None)), min_new_tokens=o.pop("min_new_tokens", 0),
                     ignore_end=o.pop("ignore_end", False), n_top=o.pop("logprobs", 0))
        stop = o.pop("stop", ())
        if o:
            raise TypeError(f"generate() got an unexpected argument {next(iter(o))!r}")
        source = None
        if self._n_layer_src:
            source, ids = ids, [self._start_id]
        return self._engine(adapter).request(
            ids, stop=[stop] if isinstance(stop, str) else stop, sampler=sampler, tokenizer=self._speller(ids), source=source,
            constraint=constraint, adapter=adapted, strength=1.0 if strength is None else strength, listen=listen, **given)

    def _constraint(self, o) -> Optional[Owner]:
        grammar, own = self._grammar(o)
        pointer = handle("grammar", grammar, Grammar)
        if pointer is None:
            return None
        try:
            return Owner(lib.weft_constraint_free, lib.weft_constraint_new, pointer)
        finally:
            if own:
                grammar.close()  # the constraint keeps it alive

    def _grammar(self, o):
        forms = {k: o.pop(k) for k in ("schema", "regex", "gbnf") if o.get(k) is not None}
        for k in ("schema", "regex", "gbnf"):
            o.pop(k, None)
        given = o.pop("grammar", None)
        if given is not None and forms:
            raise InvalidError("found grammar and " + ", ".join(forms) + "; expected one of them")
        return (given, False) if not forms else (Grammar(self, **forms), True)

    def score(self, text: Text) -> Score:
        """The log-probability of each token of a text after those before it."""
        ids = list(self._ids(text))
        r = self._scorer.request(ids, n_new=-1, prompt_logprobs=True, tokenizer=self._speller(ids))
        found = together([r])[0].prompt_logprobs
        return Score(ids, [p[0][1] for p in found[1:]])

    # ---- vectors and labels

    def embed(self, texts: Union[str, Sequence[str]], *, pooling: Optional[str] = None, normalize: bool = False) -> Any:
        """A vector for each text, as a numpy array [texts, width]; without numpy, as lists."""
        single = isinstance(texts, str)
        ids = [self.tokenizer.encode_pair(t, None) for t in ([texts] if single else texts)]
        rows = self._encode(ids, _api.WEFT_OUTPUT_POOLED, one_of("pooling", pooling, _POOLING), normalize)
        return rows[0] if single else rows

    @overload
    def classify(self, inputs: Union[str, bytes, "os.PathLike[str]", Tuple[str, str]], *, top: int = 0) -> List[Tuple[str, float]]: ...

    @overload
    def classify(self, inputs: List[Any], *, top: int = 0) -> List[List[Tuple[str, float]]]: ...

    def classify(self, inputs: Any, *, top: int = 0) -> Any:
        """Labels with their probabilities, the best first, of a text, a pair of texts, or the path or the bytes of an image;
        a list of them gives a list. Models of regression give their values."""
        if self.info["task"] != "classify":
            raise UnsupportedError(f"{self.path}: is {_NOUNS[self.info['task']]}, not a classifier")
        if integer("top", top) < 0:
            raise InvalidError(f"top: found {top}; expected 0 (all) or more")
        single = isinstance(inputs, (str, bytes, os.PathLike, tuple))
        if self.info["images"]:
            rows = self._encode_images([inputs] if single else inputs)
        else:
            given = [inputs] if single else inputs
            ids = [self.tokenizer.encode_pair(*(t if isinstance(t, tuple) else (t, None))) for t in given]
            rows = self._encode(ids, _api.WEFT_OUTPUT_HEAD, _api.WEFT_POOLING_MODEL, False)
        found = [self._labelled(list(map(float, row)), top) for row in rows]
        return found[0] if single else found

    def _labelled(self, row: List[float], top: int) -> List[Tuple[str, float]]:
        import math
        if self._value:
            p = row
        elif self.info["several"]:
            p = [1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x)) for x in row]
        else:
            e = [math.exp(x - max(row)) for x in row]
            p = [x / sum(e) for x in e]
        best = sorted(zip(self.labels, p), key=lambda pair: -pair[1])
        return best[: top or None]

    def _encoder(self, output, pooling, normalize) -> Encoder:
        return self._part(("encoder", output, pooling, normalize), lambda: Encoder(self, output, pooling, normalize, self._threads))

    def _encode(self, texts, output, pooling, normalize):
        return self._encoder(output, pooling, normalize).eval(texts)

    def _encode_images(self, images):
        pictures = [self._image(image) for image in images]
        return self._encoder(_api.WEFT_OUTPUT_HEAD, _api.WEFT_POOLING_MODEL, False).eval_inputs(pictures)

    def _image(self, image) -> Owner:
        """Of a path, or of the bytes of a file."""
        if isinstance(image, bytes):
            return Owner(lib.weft_image_free, lib.weft_image_decode, self.pointer, image, len(image))
        return Owner(lib.weft_image_free, lib.weft_image_open, self.pointer, path_of(image))

    # ---- looking inside

    def trace(self, text: Union[Text, bytes, os.PathLike], *, target: Optional[Text] = None, maps: bool = False, open: bool = False,
              lens: bool = False, only: Optional[Callable[[str], bool]] = None) -> Dict[str, Traced]:
        """Every named tensor of a forward, in the order of computation: the numbers of `weft trace --all-logits`.

        text: what the model reads; of a model of images, the path or the bytes of one. target: what the decoder of an
        encoder-decoder reads after its start token. maps: attention scores and probabilities; open: the inside of fused ops;
        lens: the output after each layer; only: which names to keep, called in a thread of its own."""
        return inside.trace(self, text, target, only, dict(attention_maps=maps, open=open, lens=lens, all_logits=True))

    def explain(self, text: Union[Text, bytes, os.PathLike], path: Union[str, os.PathLike, None] = None, *, only: Optional[str] = None,
                layer: int = 0, head: int = 0, token: Optional[int] = None, target: Optional[Text] = None, train: int = 0,
                title: Optional[str] = None) -> str:
        """A page (HTML) that walks a text through the model with its own numbers; written to `path`, if there is one.

        text: what the model reads; of a model of images, the path or the bytes of one. train: so many steps of training a copy
        on this text, at most 8. target: what should follow the text then; of an encoder-decoder, what its decoder reads
        (None: its own translation). layer, head, token: where the page opens; token None: the last, of an image the first."""
        html = inside.explain(self, text, target, dict(only=only, layer=layer, head=head, token=token, train=train, title=title))
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(html)
        return html


def _n_new(max_new_tokens: Optional[int]) -> int:
    """The library's number, of which 0 is no limit, and -1 none."""
    if max_new_tokens is None:
        return 0
    n = integer("max_new_tokens", max_new_tokens)
    if n < 0:
        raise InvalidError(f"max_new_tokens: found {n}; expected 0 or more, or None for no limit")
    return n or -1


def _sampler(o: Dict[str, Any]):
    fields = dict(temperature=o.pop("temperature", 0.0), top_k=o.pop("top_k", 0), top_p=o.pop("top_p", 0.0), min_p=o.pop("min_p", 0.0),
                  repetition=o.pop("repetition_penalty", 0.0), frequency=o.pop("frequency_penalty", 0.0),
                  presence=o.pop("presence_penalty", 0.0), seed=o.pop("seed", 0))
    if fields["seed"] == -1:
        fields["seed"] = int.from_bytes(os.urandom(8), "little")
    return ctypes.pointer(sized(_api.weft_sampler_options, **fields))


def find(path: Union[str, os.PathLike]) -> str:
    """A path as it is; a name as the path of the model that another program has downloaded under it."""
    path = os.fsdecode(path)
    if os.path.exists(path) or path.endswith(".gguf"):
        return path
    found = ctypes.create_string_buffer(4096)
    try:
        call(lib.weft_model_find, path_of(path), None, found, len(found))
    except Error as e:
        if e.code == _api.WEFT_EIO and os.sep in path:
            return path  # weft_model_open says what is wrong with it
        raise
    return os.fsdecode(found.value)

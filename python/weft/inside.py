"""Looking inside a model: the tensors of a forward, and a page that shows them."""
from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, Dict, List

from . import _api
from ._lib import Error, Guard, InvalidError, Owner, call, ids_of, lib, numpy_or_none, sized
from .encoder import evaluate


@dataclass
class Traced:
    """A tensor of a forward."""

    op: str
    formula: str
    inputs: List[str]
    data: Any  # numpy array [rows, cols]; without numpy, a list of rows


def _rows(data, rows, cols, stride):
    numpy = numpy_or_none()
    if not numpy:
        return [data[r * stride : r * stride + cols] for r in range(rows)]
    view = numpy.ctypeslib.as_array(data, shape=((rows - 1) * stride + cols,))
    return numpy.lib.stride_tricks.as_strided(view, (rows, cols), (stride * 4, 4)).copy()


def trace(model, text, target, only, options) -> Dict[str, Traced]:
    found: Dict[str, Traced] = {}

    def see(_, tensor):
        t = tensor.contents
        name = t.name.decode()
        if only is None or only(name):
            inputs = [t.inputs[i].decode() for i in range(t.n_input)]
            found[name] = Traced(t.op.decode(), (t.formula or b"").decode(), inputs, _rows(t.data, t.rows, t.cols, t.stride))

    if target is not None and not model._n_layer_src:
        raise InvalidError("target: is for encoder-decoders; the text of other models is one")
    guard = Guard()
    fn, o = guard.wrap(_api.weft_trace_fn, see, None), sized(_api.weft_trace_options, **options)
    if model.info["images"]:
        _trace_encoder(model, guard, fn, o, model._image(text))
    elif model.info["task"] == "generate":
        _trace_decoder(model, guard, fn, o, ids_of(model._ids(text)), target)
    else:
        ids, n = ids_of(model._ids(text))
        _trace_encoder(model, guard, fn, o, (ids, None, n))
    return found


def _trace_decoder(model, guard, fn, o, read, target) -> None:
    source = None
    if model._n_layer_src:
        source, read = read, ids_of(_target_ids(model, target))
    n = max(read[1], source[1] if source else 0)
    # Numbers as others show them, who keep no cache.
    e = sized(_api.weft_engine_options, threads=model._threads, n_ctx=n, n_batch=n, kv_type=_api.WEFT_KV_F32)
    engine = Owner(lib.weft_engine_free, lib.weft_engine_new, model.pointer, ctypes.byref(e))
    call(lib.weft_engine_trace_with, engine, fn, None, ctypes.byref(o))
    session = Owner(lib.weft_session_free, lib.weft_session_new, engine)
    session.callback = fn
    if source:
        guard.call(lib.weft_session_source, session, *source)
    guard.call(lib.weft_session_eval, session, *read)


def _trace_encoder(model, guard, fn, o, given) -> None:
    n_ctx = given[2] if isinstance(given, tuple) else given.pointer.contents.n
    e = sized(_api.weft_encoder_options, threads=model._threads, n_ctx=n_ctx)
    encoder = Owner(lib.weft_encoder_free, lib.weft_encoder_new, model.pointer, ctypes.byref(e))
    encoder.callback = fn
    call(lib.weft_encoder_trace_with, encoder, fn, None, ctypes.byref(o))
    evaluate(encoder, [given], guard)


def _target_ids(model, target) -> List[int]:
    """What the decoder of an encoder-decoder reads: its start token, then the target."""
    if isinstance(target, str):
        target = model._target.encode(target, special=False)
    return [model._start_id, *(target if target is not None else ())]


def explain(model, text, target, options) -> str:
    page: List[bytes] = []
    guard = Guard()
    fn = guard.wrap(_api.weft_page_fn, lambda _, data, size, err: bool(page.append(ctypes.string_at(data, size))) or True, False)
    o = sized(_api.weft_explain_options, threads=model._threads, **options)
    if target is not None and not options["train"] and not model._n_layer_src:
        raise InvalidError("target: is for train=, or for encoder-decoders")
    if options["title"] is None:
        o.title = os.fsencode(os.path.basename(model.path) or model.path)
    if options["token"] is None:
        o.token = 0 if model.info["images"] else -1  # the class token, which the head reads
    describe = _describe_image if model.info["images"] else _describe_pair if model._n_layer_src else _describe_text
    ids, n, *o.kept = describe(model, o, text, target)
    guard.call(lib.weft_explain, model.pointer, ids, n, ctypes.byref(o), fn, None)
    return b"".join(page).decode()


def _describe_image(model, o, image, target):
    owner = model._image(image)
    o.image = owner.pointer
    return None, 0, owner


def _describe_text(model, o, text, target):
    ids, n = ids_of(model._ids(text))
    owner = _name_tokens(o, "text", "tokenizer", lambda: model.tokenizer, text)
    taught, n_taught = ids_of(_taught(model, text, list(ids), target)) if target is not None else (None, 0)
    o.target, o.n_target = ctypes.cast(taught, ctypes.POINTER(ctypes.c_int32)), n_taught
    return ids, n, owner, taught


def _describe_pair(model, o, text, target):
    source, o.n_source = ids_of(model._ids(text))
    o.source = ctypes.cast(source, ctypes.POINTER(ctypes.c_int32))
    owners = [_name_tokens(o, "source_text", "source_tokenizer", lambda: model.tokenizer, text),
              _name_tokens(o, "text", "tokenizer", lambda: model._target, target)]
    ids, n = ids_of(_target_ids(model, target)) if target is not None else (None, 0)
    return (ids, n, source, *owners)


def _name_tokens(o, text_field, tokenizer_field, tokenizer, text):
    """Without a tokenizer, ids have numbers instead of names."""
    if isinstance(text, str) and "\0" not in text:
        setattr(o, text_field, text.encode("utf-8", "surrogatepass"))
    try:
        owner = tokenizer().pointer
    except Error:
        if isinstance(text, str):
            raise
        return None
    setattr(o, tokenizer_field, owner.pointer)
    return owner


def _taught(model, text, ids, target):
    """What should follow: what the ids of text and target together have more than those of the text. Where the text's do not
    begin them, as its last piece has grown, and for masks, the target is encoded alone."""
    if not isinstance(target, str):
        return target
    if isinstance(text, str) and model.info["task"] == "generate":
        both = model.tokenizer.encode(text + target)
        if len(both) > len(ids) and both[: len(ids)] == ids:
            return both[len(ids) :]
    return model.tokenizer.encode(target, special=False)

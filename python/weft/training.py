"""Training, fine-tuning and adapters."""
from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Callable, Optional, Sequence, Union

from . import _api
from ._lib import Guard, field_types, lib, one_of, path_of, set_field, sized


@dataclass
class Progress:
    """A step of training; step 0 is before the first."""

    step: int
    n_step: int
    loss: float
    lr: float
    grad_norm: float
    val_loss: float  # NaN: no evaluation followed this step
    n_token: int
    tokens_per_second: float
    seconds_left: float


@dataclass
class Trained:
    """Result of a training run."""

    out: str
    step: int
    loss: float
    val_loss: float
    best_val_loss: float
    n_parameter: int
    n_token: int
    stopped: bool


_FIELDS = set(field_types(_api.weft_train_options)) - {
    "struct_size", "data", "n_data", "out", "n_step", "progress", "progress_ud", "log", "log_ud", "reading", "reading_ud", "waiting",
    "waiting_ud", "sample", "sample_ud", "tensor", "tensor_ud", "budget", "frozen", "n_frozen"}
# The words of `weft train` for fields that are numbers.
_WORDS = {
    "schedule": {"cosine": _api.WEFT_SCHEDULE_COSINE, "linear": _api.WEFT_SCHEDULE_LINEAR, "constant": _api.WEFT_SCHEDULE_CONSTANT,
                 "wsd": _api.WEFT_SCHEDULE_WSD, "inverse-sqrt": _api.WEFT_SCHEDULE_INVERSE_SQRT},
    "data_kind": {"text": _api.WEFT_DATA_TEXT, "jsonl": _api.WEFT_DATA_JSONL, "ids": _api.WEFT_DATA_IDS,
                  "raw16": _api.WEFT_DATA_RAW16, "tsv": _api.WEFT_DATA_TSV, "csv": _api.WEFT_DATA_CSV},
    "positions": {"learned": _api.WEFT_POSITIONS_LEARNED, "rope": _api.WEFT_POSITIONS_ROTARY,
                  "sinusoidal": _api.WEFT_POSITIONS_SINUSOIDAL, "none": _api.WEFT_POSITIONS_NONE},
    "objective": {"pairs": _api.WEFT_OBJECTIVE_PAIRS, "spans": _api.WEFT_OBJECTIVE_SPANS, "infill": _api.WEFT_OBJECTIVE_INFILL},
    "load": {"copy": _api.WEFT_LOAD_COPY, "map": _api.WEFT_LOAD_MAP},
}


def _set_option(o, name: str, value) -> None:
    field = "data_kind" if name == "format" else name
    if field not in _FIELDS:
        raise TypeError(f"train() got an unexpected argument {name!r}")
    if isinstance(value, str) and field in _WORDS:
        value = one_of(name, value, _WORDS[field])
    elif isinstance(value, (str, os.PathLike)):
        value = os.fsencode(value)
    if value is not None:  # None: the default
        set_field(o, field, value)


def _texts(values):
    data = [path_of(v) for v in values]
    return (ctypes.c_char_p * len(data))(*data), len(data)


def train(data: Union[str, os.PathLike, Sequence], out: Union[str, os.PathLike], *, steps: int,
          progress: Optional[Callable[[Progress], Optional[bool]]] = None, frozen: Sequence[str] = (), **options) -> Trained:
    """Trains up to `steps` and writes the model, as a Hugging Face directory, or with `lora` a PEFT directory, to `out`.

    model fine-tunes that model; without it a new one is made (arch, preset, n_layer, d_model ...). lora="r=16,alpha=32" trains
    an adapter. All fields of weft_train_options in weft.h are options here: lr, n_sample, n_ctx, seed, resume, eval_every ...
    schedule, format, positions and objective take the words of `weft train`. progress is called after each step, in a thread
    of its own; if it returns False, training stops after a checkpoint is written. Ctrl-C does the same, then raises."""
    o = _api.weft_train_options()
    lib.weft_train_defaults(ctypes.byref(o), ctypes.sizeof(o))
    o.out = path_of(out)
    set_field(o, "n_step", steps)
    o.data, o.n_data = _texts([data] if isinstance(data, (str, bytes, os.PathLike)) else data)
    o.frozen, o.n_frozen = _texts(frozen)
    for name, value in options.items():
        _set_option(o, name, value)
    guard = Guard()

    def step(_, p, __):
        p = p.contents
        return progress(Progress(**{name: getattr(p, name) for name in Progress.__dataclass_fields__})) is not False

    # Without a callback there still is one: it lets Ctrl-C through.
    o.progress = guard.wrap(_api.weft_train_fn, step if progress else lambda *_: True, False)
    o.waiting = guard.wrap(_api.weft_wait_fn, lambda _: True, False)
    info = sized(_api.weft_train_info)
    guard.call(lib.weft_train, ctypes.byref(o), ctypes.byref(info))
    names = [n for n in Trained.__dataclass_fields__ if n != "out"]
    return Trained(out=os.fsdecode(out), **{name: getattr(info, name) for name in names})

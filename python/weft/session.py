"""A sequence of tokens and its cache, a step at a time."""
from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from typing import Any, Iterable, List, Tuple, Union

from . import _api
from ._lib import Guard, Handle, InvalidError, Owner, StoppedError, call, ids_of, integer, lib, numpy_or_none, path_of, sized

_FORWARD = 256  # tokens of a forward at most; a longer text can be stopped between two


class Logits:
    """The logits after the last token: a view of the library's memory, without a copy.

    It is valid until the session is evaluated, rewound or closed; reading it later raises. numpy.asarray(logits) and
    logits.copy() give arrays; the former is a view, too."""

    def __init__(self, session: "Session", owner, pointer, n: int):
        self._session, self._generation = session, session.generation
        self._array = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float * n)).contents
        self._array.owner = owner  # the memory stays as long as an array of it, even if the session is closed

    def _valid(self):
        if self._session.generation != self._generation:
            raise InvalidError("these logits are gone: the session was evaluated, rewound or closed since; use copy() to keep them")
        return self._array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, i):
        return self._valid()[i]

    def __iter__(self):
        for i in range(len(self._array)):
            yield self._valid()[i]

    def __array__(self, dtype=None, copy=None):
        numpy = numpy_or_none()
        view = numpy.frombuffer(self._valid(), dtype=numpy.float32)
        view.flags.writeable = False
        if dtype is not None and dtype != view.dtype:
            if copy is False:
                raise ValueError(f"logits are float32; {dtype} needs a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def copy(self) -> Any:
        """A numpy array of its own; without numpy, a list."""
        numpy = numpy_or_none()
        return numpy.array(self._valid(), dtype=numpy.float32) if numpy else list(self._valid())


class Session(Handle):
    """One text. Sessions of a model that were forked from each other share their cache. Threads take turns."""

    _free = "weft_session_free"

    def __init__(self, model, *, n_ctx: int = 0, n_sessions: int = 1, threads: int = 0, kv_type: int = 0, _fork=None):
        self.n_vocab, self.generation = model.n_vocab, 0
        self._model = model
        self._interrupted = False  # Ctrl-C has cancelled it, and no eval may have noticed
        if _fork is not None:
            self._lock = _fork._lock
            self._make(lib.weft_session_fork, _fork.pointer)
            return
        self._lock = threading.RLock()
        o = sized(_api.weft_engine_options, threads=threads, n_ctx=n_ctx, n_session=n_sessions, kv_type=kv_type)
        engine = Owner(lib.weft_engine_free, lib.weft_engine_new, model.pointer, ctypes.byref(o))
        self._make(lib.weft_session_new, engine)  # keeps the engine alive

    @contextlib.contextmanager
    def _turn(self):
        """The pointer, while no other thread uses the session."""
        self.pointer  # raises after a fork, when the lock may be held for ever
        with self._lock:
            yield self.pointer

    def _change(self, fn, *args):
        with self._turn() as pointer:
            self.generation += 1
            return call(fn, pointer, *args)

    def _compute(self, fn, array, n, *args):
        """A change that Ctrl-C, and cancel(), can stop before its next forward."""
        with self._turn() as pointer:
            self.generation += 1
            for retry in (True, False):
                try:
                    if n <= _FORWARD:
                        return call(fn, pointer, array, n, *args)
                    return Guard(lambda: self._interrupt(pointer)).call(fn, pointer, array, n, *args)
                except StoppedError:
                    if not (retry and self._interrupted):
                        raise
                    self._interrupted = False  # Ctrl-C came in the last forward of an earlier call, and stopped this one

    def _interrupt(self, pointer) -> None:
        self._interrupted = True
        lib.weft_session_cancel(pointer)

    def eval(self, ids: Iterable[int]) -> None:
        """Appends tokens and computes the logits after the last. If it is stopped, the session has the tokens it had."""
        array, n = ids_of(ids)
        self._compute(lib.weft_session_eval, array, n)

    def sync(self, ids: Iterable[int]) -> int:
        """Makes these the session's tokens, computing only what is not cached. Returns how many tokens were."""
        array, n = ids_of(ids)
        reused = ctypes.c_int64()
        self._compute(lib.weft_session_sync, array, n, ctypes.byref(reused))
        return reused.value

    def source(self, ids: Iterable[int]) -> None:
        """Encoder-decoders: encodes a source, and drops the session's tokens."""
        array, n = ids_of(ids)
        self._change(lib.weft_session_source, array, n)

    def rewind(self, length: int) -> None:
        """Drops the tokens from position `length` on."""
        self._change(lib.weft_session_rewind, integer("length", length))

    def fork(self) -> "Session":
        """A second session with the same tokens and logits, which shares the cache until the two differ."""
        with self._turn():
            return Session(self._model, _fork=self)

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes tokens, logits and cache to a file, atomically; `weft run --session` resumes from it."""
        with self._turn() as pointer:
            call(lib.weft_session_save, pointer, path_of(path))

    def cancel(self) -> None:
        """From any thread: stops an eval at its next forward, or the next eval."""
        self._interrupted = False
        lib.weft_session_cancel(self.pointer)

    def close(self) -> None:
        """Frees it; arrays that numpy made of its logits stay valid."""
        self.generation += 1
        super().close()

    def __len__(self) -> int:
        return lib.weft_session_length(self.pointer)

    @property
    def tokens(self) -> List[int]:
        """The ids so far."""
        with self._turn() as pointer:
            n = ctypes.c_int64()
            ids = lib.weft_session_tokens(pointer, ctypes.byref(n))
            return ids[: n.value] if n.value else []

    @property
    def logits(self) -> Logits:
        """After the last token, valid until the next change."""
        with self._turn() as owner:
            found = lib.weft_session_logits(owner)
            if not found:
                raise InvalidError("the session has no logits: it was not evaluated since it was made or rewound")
            return Logits(self, owner, found, self.n_vocab)

    def greedy(self) -> int:
        """The most probable next token."""
        with self._turn() as pointer:
            return lib.weft_session_greedy(pointer)

    def top(self, k: int) -> List[Tuple[int, float]]:
        """The k most probable next tokens with their log-probabilities."""
        k = integer("k", k)
        if k < 0:
            raise InvalidError(f"k: found {k}; expected 0 or more")
        k = min(k, self.n_vocab)
        with self._turn() as pointer:
            out = (_api.weft_logprob * k)()
            return [(p.id, p.logprob) for p in out[: lib.weft_session_top(pointer, k, out)]]

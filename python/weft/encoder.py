"""Encoders: vectors of texts, labels of texts and images."""
from __future__ import annotations

import ctypes
import threading
from typing import Iterable, Sequence, Tuple

from . import _api
from ._lib import Handle, call, ids_of, lib, numpy_or_none, sized


_ROWS = 256  # of one call, if an input is not longer: Python sees Ctrl-C between calls


class Encoder(Handle):
    _free = "weft_encoder_free"
    _name = "model"

    def __init__(self, model, output, pooling, normalize, threads):
        o = sized(_api.weft_encoder_options, output=output, pooling=pooling, normalize=normalize, threads=threads)
        self._make(lib.weft_encoder_new, model.pointer, ctypes.byref(o))
        self._width = lib.weft_encoder_width(self.pointer)
        self._lock = threading.Lock()

    def eval(self, texts: Iterable[Tuple[Sequence[int], Sequence[int]]]):
        given = []
        for ids, types in texts:
            array, n = ids_of(ids)
            given.append((array, (ctypes.c_uint8 * n)(*types), n))
        return self.eval_inputs(given)

    def eval_inputs(self, given):
        """Of texts as above, or of images."""
        with self._lock:
            return _array(evaluate(self.pointer, given), len(given), self._width)


def evaluate(encoder, given, guard=None):
    """The outputs of inputs: (ids, types, n), or images."""
    if not given:
        return ()
    inputs = (_api.weft_input * len(given))()
    for i, g in zip(inputs, given):
        if isinstance(g, tuple):
            ids, types, i.n = g
            i.ids = ctypes.cast(ids, ctypes.POINTER(ctypes.c_int32))
            if types is not None:
                i.types = ctypes.cast(types, ctypes.POINTER(ctypes.c_uint8))
        else:
            image = g.pointer.contents
            i.n, i.features = image.n, image.features
    width = lib.weft_encoder_width(encoder)
    rows = [lib.weft_encoder_rows(encoder, ctypes.byref(i)) for i in inputs]
    out = (ctypes.c_float * (sum(rows) * width))()
    at = ctypes.addressof(out)
    for i, n in zip(inputs, rows):
        i.out = ctypes.cast(at, ctypes.POINTER(ctypes.c_float))
        at += n * width * ctypes.sizeof(ctypes.c_float)
    inputs.kept = given, out
    for i, n in _parts(inputs, rows):
        (guard.call if guard else call)(lib.weft_encoder_eval, encoder, ctypes.byref(inputs[i]), n)
    return out


def _parts(inputs, rows):
    """The first input of each call, and how many it has. If an input has no rows, the library refuses the one call of all."""
    if 0 in rows:
        return [(0, len(inputs))]
    found, total = [], _ROWS
    for i, given in enumerate(inputs):
        if total + given.n > _ROWS:
            found.append((i, 0))
            total = 0
        total += given.n
        found[-1] = found[-1][0], found[-1][1] + 1
    return found


def _array(out, n, width):
    numpy = numpy_or_none()
    if numpy and n == 0:
        return numpy.empty((0, width), dtype=numpy.float32)
    if numpy:
        return numpy.frombuffer(out, dtype=numpy.float32).reshape(n, -1)
    return [list(out[i * width : (i + 1) * width]) for i in range(n)]

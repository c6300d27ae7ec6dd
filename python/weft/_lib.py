"""The library: found, loaded, its functions with the types of weft.h, its errors as exceptions."""
from __future__ import annotations

import _thread
import array
import ctypes
import operator
import os
import queue
import threading
import weakref
from collections.abc import Iterable

from . import _api

__version__ = _api.WEFT_VERSION


class Error(Exception):
    """What the library reports: its sentence, and `code`, a WEFT_E... number."""

    code = 0


class InvalidError(Error, ValueError):
    """An argument is invalid or out of range."""


class FileError(Error, OSError):
    """A file was not found, or could not be opened, read or written."""


class FormatError(Error, ValueError):
    """A file is malformed."""


class UnsupportedError(Error, NotImplementedError):
    """A file is valid, but weft does not support it."""


class LimitError(Error, MemoryError):
    """The memory limit would be exceeded, or the system refused memory."""


class ContextError(Error, ValueError):
    """The context or the KV cache is full."""


class ResourceError(Error, OSError):
    """The system refused a thread or another service."""


class NumericError(Error, ArithmeticError):
    """Non-finite values, or values that do not fit the type."""


class StoppedError(Error):
    """The caller stopped it, or cancelled."""


class BusyError(Error):
    """The queue of a model is full: try again later."""


_errors = {
    _api.WEFT_EINVAL: InvalidError, _api.WEFT_EIO: FileError, _api.WEFT_EFORMAT: FormatError,
    _api.WEFT_EUNSUPPORTED: UnsupportedError, _api.WEFT_ENOMEM: LimitError, _api.WEFT_ELIMIT: LimitError,
    _api.WEFT_ECONTEXT: ContextError, _api.WEFT_ESYSTEM: ResourceError, _api.WEFT_ENUMERIC: NumericError,
    _api.WEFT_ESTOPPED: StoppedError, _api.WEFT_EBUSY: BusyError,
}


def error(err: _api.weft_error) -> Error:
    found = _errors.get(err.code, Error)(err.message.decode("utf-8", "replace"))
    found.code = err.code
    return found


def _load() -> ctypes.CDLL:
    """The library of the wheel, beside this file; otherwise the system's."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libweft.so.1")
    path = os.environ.get("WEFT_LIBRARY") or (own if os.path.exists(own) else "libweft.so.1")
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"{path}: {e}; expected the library of weft {__version__}; install the wheel, or libweft1, "
                          "or set WEFT_LIBRARY") from None
    for name, (result, parameters, comment) in _api.functions.items():
        try:
            fn = getattr(lib, name)
        except AttributeError:
            raise ImportError(f"{path}: has no {name}; expected weft {__version__}; install both from one version") from None
        fn.restype, fn.argtypes, fn.__doc__ = result, parameters, comment
    found = lib.weft_abi_version(), lib.weft_version().decode()
    if found != (_api.WEFT_ABI_VERSION, __version__):
        raise ImportError(f"{path}: is weft {found[1]} with ABI {found[0]}; expected {__version__} with ABI "
                          f"{_api.WEFT_ABI_VERSION}; install both from one version")
    return lib


lib = _load()


def call(fn, *args):
    """Calls a function whose last parameter is a weft_error, and raises what it reports."""
    err = _api.weft_error()
    result = fn(*args, ctypes.byref(err))
    if err.code:
        raise error(err)
    return result


def integer(what: str, value, type_=ctypes.c_int64) -> int:
    """An integer that fits the type; ctypes would truncate it silently."""
    n = operator.index(value)  # TypeError if it is not an integer
    if type_(n).value != n:
        raise InvalidError(f"{what}: found {n}; expected an integer of {8 * ctypes.sizeof(type_)} bits"
                           + ("" if type_(-1).value < 0 else ", 0 or more"))
    return n


def without_nul(what: str, data: bytes) -> bytes:
    """Text for C, which would end at the first NUL."""
    if b"\0" in data:
        raise InvalidError(f"{what}: found a NUL in {data[:40]!r}; expected text without one")
    return data


def utf8(what: str, value) -> bytes:
    """A str, with lone surrogates if it has some."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: found {value!r}; expected a str")
    return value.encode("utf-8", "surrogatepass")


def text_of(what: str, value) -> bytes:
    return without_nul(what, value if isinstance(value, bytes) else utf8(what, value))


def handle(what: str, value, type_):
    """The pointer of an object of this package, or None of None."""
    if value is None:
        return None
    if not isinstance(value, type_):
        raise TypeError(f"{what}: found {value!r}; expected a weft.{type_.__name__}")
    return value.pointer


def path_of(path) -> bytes:
    return without_nul("path", os.fsencode(path))


_INTEGERS = {ctypes.c_int, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t}


def set_field(s, name: str, value) -> None:
    """Sets a field of a struct; a value of another type, or out of its range, raises."""
    type_ = field_types(type(s))[name]
    if type_ in _INTEGERS:
        value = integer(name, value, type_)
    elif type_ is ctypes.c_bool:
        value = bool(value)
    elif type_ is ctypes.c_char_p:
        value = text_of(name, value)
    elif isinstance(value, Owner):
        s.owners = getattr(s, "owners", ()) + (value,)  # as long as the struct
        value = ctypes.cast(value.pointer, type_)
    try:
        setattr(s, name, value)
    except TypeError as e:
        raise TypeError(f"{name}: found {value!r}; {e}") from None


_field_types = {}


def field_types(struct):
    if struct not in _field_types:
        _field_types[struct] = dict(struct._fields_)
    return _field_types[struct]


def sized(struct, **fields):
    """A struct of options or results with its size; None leaves a field at the library's default."""
    s = struct()
    if hasattr(struct, "struct_size"):
        s.struct_size = ctypes.sizeof(struct)
    for name, value in fields.items():
        if value is not None:
            set_field(s, name, value)
    return s


def ids_of(ids):
    """Ids as an array of int32 and their number: without a copy from what has them in that form."""
    if isinstance(ids, (str, bytes, bytearray)):
        raise TypeError(f"found {type(ids).__name__}; expected token ids; the tokenizer encodes a str")
    try:
        view = memoryview(ids)
    except TypeError:
        if not isinstance(ids, Iterable):
            raise TypeError(f"found {ids!r}; expected token ids, or a text where the model has a tokenizer") from None
        return _copied(list(ids))
    if view.ndim != 1 or view.itemsize != 4 or view.format not in ("i", "l", "=i", "<i") or not view.contiguous:
        return _copied(view.tolist())
    if view.readonly:
        return (ctypes.c_int32 * len(view)).from_buffer_copy(view), len(view)
    return (ctypes.c_int32 * len(view)).from_buffer(view), len(view)


def _copied(ids):
    try:
        made = array.array("i", ids)
    except OverflowError:
        for id_ in ids:
            integer("token id", id_, ctypes.c_int32)
        raise
    return (ctypes.c_int32 * len(made)).from_buffer(made), len(made)


def kept_ids(ids):
    """The same, in memory that the caller cannot change meanwhile."""
    array, n = ids_of(ids)
    return (ctypes.c_int32 * n).from_buffer_copy(array), n


def one_of(what: str, value, table: dict):
    if not isinstance(value, (str, type(None))) or value not in table:
        names = ", ".join(repr(k) for k in table if k is not None)
        raise InvalidError(f"{what}: found {value!r}; expected one of {names}")
    return table[value]


def numpy_or_none():
    try:
        import numpy
        return numpy
    except ImportError:
        return None


class Owner:
    """What a function of the library makes; freed when nothing refers to it: neither its handle nor a call that has it as an
    argument. So close() in one thread does not free what a call in another thread uses."""

    def __init__(self, free, fn, *args):
        made, err, self.pid = [], _api.weft_error(), os.getpid()
        self.release = weakref.finalize(self, _release, free, made, self.pid)
        # Not when Python exits: threads that it has not waited for may still be inside the library.
        self.release.atexit = False
        try:
            # C code: Ctrl-C during a call is raised after it, but not before its result is kept. A model may be large.
            made.extend(map(fn, *((a,) for a in args), (ctypes.byref(err),)))
            if err.code:
                raise error(err)
            self.pointer = self._as_parameter_ = made[0]  # ctypes passes the latter, and keeps this object until the call ends
        except BaseException:
            self.release()  # the traceback would keep it
            raise


def _release(free, made, pid):
    if made and made[0] and os.getpid() == pid:
        free(made[0])


def check_fork(pid: int, what: str) -> None:
    """The threads that an object of the library needs are not in a process that was forked."""
    if os.getpid() != pid:
        raise ResourceError(f"this {what} was made before a fork: open it again in the new process")


class Handle:
    """An object of the library, which is freed with close(), at the end of a with block, or with the last reference; but not
    while a call in another thread uses it."""

    _free = ""  # the function that frees it
    _name = ""  # in messages; empty: that of the class
    _owner = None

    def _make(self, fn, *args):
        self._owner = Owner(getattr(lib, self._free), fn, *args)

    @property
    def pointer(self) -> Owner:
        owner, name = self._owner, self._name or type(self).__name__.lower()
        if owner is None:
            raise InvalidError(f"this {name} is closed")
        check_fork(owner.pid, name)
        return owner

    def close(self) -> None:
        """Frees it, when no call uses it any more. May be called again."""
        self._owner = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Guard:
    """A call into the library that callbacks and Ctrl-C can end: it is stopped, and then raises what they raised.

    Python hands Ctrl-C to the main thread, and only between its own instructions. So the main thread waits, and the call and
    its callbacks run in a thread of their own. The arguments must keep alive all that the library uses.

    stop: asks the library to end the call, of one that has no callback which could; from any thread, and more than once."""

    def __init__(self, stop=None):
        self.raised, self.stop = None, stop

    def wrap(self, type_, fn, stop=False):
        def guarded(*args):
            if self.raised is not None:
                return stop
            try:
                return fn(*args)
            except BaseException as e:  # not across C
                self.raised = e
                return stop

        return type_(guarded)

    def call(self, fn, *args):
        if threading.current_thread() is threading.main_thread():
            result, failure = self._wait(fn, args)
        else:
            result, failure = _outcome(fn, args)
        try:
            if self.raised is not None:
                raise self.raised
            if failure is not None:
                raise failure
            return result
        finally:
            self.raised = failure = None  # no cycle, which only the garbage collector would free

    def _wait(self, fn, args):
        begun, stopped, outcome, ended = [], [False], [], queue.SimpleQueue()

        def run():
            begun.append(True)
            outcome.append((None, None) if stopped[0] else _outcome(fn, args))
            ended.put(None)

        try:
            _thread.start_new_thread(run, ())  # C code, as the queue: Ctrl-C is not lost in it
        except BaseException as e:  # Ctrl-C, before or after it began
            self.raised, stopped[0] = e, True
        while True:
            try:
                if stopped[0] and self.stop and not outcome:
                    self.stop()
                while not outcome and (begun or not stopped[0]):
                    self._pause(ended)
                return outcome[0] if outcome else (None, None)
            except BaseException as e:
                self.raised, stopped[0] = e, True

    def _pause(self, ended):
        try:
            ended.get(timeout=0.1)  # Ctrl-C may come just before this begins to wait, which then does not notice it
        except queue.Empty:
            pass


def _outcome(fn, args):
    """What a call returns, or raises."""
    try:
        return call(fn, *args), None
    except BaseException as e:
        return None, e

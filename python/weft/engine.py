"""Generation from any number of threads: one engine, one scheduler, one thread that runs its forwards.

Calls that arrive while others run share their forwards, so that threads batch. Each gets the text it would get alone."""
from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import queue
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from . import _api
from ._lib import InvalidError, Owner, call, check_fork, error, kept_ids, lib, sized, text_of

_FINISH = {
    _api.WEFT_FINISH_NONE: "none", _api.WEFT_FINISH_END: "end", _api.WEFT_FINISH_STOP: "stop",
    _api.WEFT_FINISH_LENGTH: "length", _api.WEFT_FINISH_CONTEXT: "context", _api.WEFT_FINISH_CALLER: "caller",
}


@dataclass
class Generation:
    """A text that a model generated; str() of it is the text."""

    text: str = ""
    ids: List[int] = field(default_factory=list)
    finish: str = "none"  # "end", "stop", "length", "context", or "caller": it was cancelled
    n_prompt: int = 0
    n_reused: int = 0  # tokens of the prompt whose keys and values were cached
    prompt_seconds: float = 0.0
    generate_seconds: float = 0.0
    logprobs: Optional[List[List[Tuple[int, float]]]] = None  # of each token: itself, then the best ones
    prompt_logprobs: Optional[List[Optional[List[Tuple[int, float]]]]] = None

    def __str__(self) -> str:
        return self.text


_SYSTEM, _CLOSED = _api.WEFT_ESYSTEM, "this model is closed"
_numbers = itertools.count(1)


def _decode(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


def _logprobs(pointer, n):
    return [(p.id, p.logprob) for p in pointer[:n] if p.id >= 0]


# Of weft_generate_fn, but with the address of the token, which is nearly always the same one, instead of an object for each.
_token_fn = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)


def _callbacks(requests):
    """What the scheduler calls: for each token, for each token of a prompt, and at the end. They find their request by its
    number in the table, so that a request makes no machine code of its own. A request is in the table from its submission to
    `done`, and with it all that the library uses: options, constraint, tokenizer.

    What a callback raises ends its request. A forward waits for `token`, whose code and data the last forward has driven out
    of the processor's caches: it touches as little as it can, and texts are decoded at the end, unless somebody listens."""
    at, t = 0, None

    def token(number, address):
        nonlocal at, t
        r = requests[number]
        try:
            if address != at:
                at, t = address, _api.weft_generated.from_address(address)
            id_, length = t.id, t.length
            if id_ >= 0:
                r.ids.append(id_)
                if r.n_top and t.logprobs:
                    r.result.logprobs.append(_logprobs(t.logprobs, 1 + r.n_top))
            if length:
                piece = t.text[:length]
                r.pieces.append(piece)
                if r.listen:
                    r.listen(_decode(piece))
            return not r.cancelled
        except BaseException as e:
            return r.fail(e)

    def prompt(number, i, id_, logprobs):
        r = requests[number]
        try:
            r.result.prompt_logprobs.append(_logprobs(logprobs, 1 + r.n_top) if logprobs else None)
        except BaseException as e:
            r.fail(e)

    def done(number, info, err):
        r = requests.pop(number)
        r.what, r.kept = None, ()  # here rather than in the caller's thread, where Ctrl-C may come in the middle of a finalizer
        try:
            r.finish(info.contents, err.contents)
        except BaseException as e:  # a caller that waits must hear of it
            r.end(e)

    return _token_fn(token), _api.weft_prompt_fn(prompt), _api.weft_done_fn(done)


class Request:
    """One generation: its texts arrive in the loop's thread, and are waited for in the caller's."""

    def __init__(self, loop: "_Loop", n_top: int, listen=None):
        self.loop, self.n_top, self.listen = loop, n_top, listen
        self.result = Generation(logprobs=[] if n_top else None)
        self.ids = self.result.ids
        self.pieces, self.raised, self.failure, self.cancelled = [], None, None, False
        # Ctrl-C may come anywhere in a caller's thread, and locks of Python code (Event, Condition) may stay locked then; this
        # queue is C code.
        self.over, self._done = False, queue.SimpleQueue()
        self.ended = None  # called with the request when it is over
        self.number = next(_numbers)
        self.what, self.kept = None, ()  # the weft_request, and what it points to
        self.id = 0  # the library's number for it; 0: not submitted

    # ---- in the loop's thread

    def fail(self, e: BaseException) -> bool:
        """A callback has raised; of one that was cancelled, nobody asks."""
        if not self.cancelled:
            self.raised, self.cancelled = e, True
        return False

    def finish(self, info, err):
        r = self.result
        r.text, r.finish = "".join(map(_decode, self.pieces)), _FINISH[info.finish]
        r.n_prompt, r.n_reused = info.n_prompt, info.n_reused
        r.prompt_seconds, r.generate_seconds = info.prompt_seconds, info.generate_seconds
        failure = error(err) if err.code else None
        if err.code == _api.WEFT_ESTOPPED and self.cancelled:
            r.finish, failure = "caller", None
        elif err.code == _api.WEFT_ESTOPPED and self.loop.closed:
            failure = InvalidError(_CLOSED)  # as it would be told a moment later
        self.end(self.raised or failure)

    def end(self, failure):
        if self.over:  # it was abandoned
            return
        self.failure, self.over = failure, True
        if not self.id:  # the library never had it
            self.what, self.kept = None, ()
        self._done.put(None)
        ended, self.ended = self.ended, None  # no cycle, which only the garbage collector would free
        if ended:
            ended(self)
        try:
            if self.listen:
                self.listen(None)
        except Exception:  # who listened has gone: an event loop that is closed
            pass

    # ---- in any thread

    def start(self):
        self.loop.start(self)

    def cancel(self):
        """Takes no lock: the garbage collector calls it, in the middle of anything."""
        self.cancelled = True
        self.loop.asked.put(self)

    def wait(self) -> Generation:
        check_fork(self.loop.pid, "generation")
        try:
            while not self.over:
                self._done.get()
            self._done.put(None)  # for whoever else waits
        except BaseException:  # Ctrl-C
            self.cancel()
            self._done.put(None)
            raise
        if self.failure:
            raise self.failure
        return self.result


def together(requests: List[Request]) -> List[Generation]:
    """Starts requests and waits for all; if one fails, or the caller is interrupted, none is left running."""
    ended = queue.SimpleQueue()
    try:
        for r in requests:
            r.ended = ended.put
            r.start()
        for _ in requests:
            failure = ended.get().failure
            if failure:
                raise failure
    except BaseException:
        for r in requests:
            r.cancel()
        raise
    return [r.result for r in requests]


class _Loop:
    """Runs the scheduler's forwards while there are requests. Only its thread uses the scheduler: others put requests into a
    queue, so that neither Ctrl-C nor the garbage collector, which come anywhere, find a lock held or a request half
    submitted. It has no reference to the Engine, which ends it."""

    def __init__(self, scheduler):
        self.scheduler, self.pid = scheduler, os.getpid()
        self.asked = queue.SimpleQueue()  # requests to submit or to cancel; None: the end
        self.requests = {}  # those that the scheduler has, by number
        self.token, self.prompt, self.done = _callbacks(self.requests)
        self.failures = 0  # steps that have failed, one after the other
        self.closed = self.ended = False
        self.thread = threading.Thread(target=self.run, name="weft", daemon=True)

    def run(self):
        try:
            while self.take_asked():
                self.forwards()
        finally:
            self.closed = True
            self.scheduler.release()  # requests that are left get their last call
            self.ended = True
            self.refuse()

    def forwards(self):
        """Until the requests are done, or there is something else to do."""
        requests, nothing_asked = self.requests, self.asked.empty
        step, scheduler, err = lib.weft_scheduler_step, self.scheduler, _api.weft_error()
        to = ctypes.byref(err)
        while requests and nothing_asked():
            if step(scheduler, None, to) == _SYSTEM:
                self.refused(err)
            else:
                self.failures = 0

    def take_asked(self) -> bool:
        """Waits for something to do if there is nothing. False: the end."""
        while not self.requests or not self.asked.empty():
            r = self.asked.get()
            if r is None:
                return False
            if r.cancelled and r.id:
                lib.weft_scheduler_cancel(self.scheduler, r.id)
            elif r.cancelled:
                r.result.finish = "caller"
                r.end(None)
            elif not r.id and not r.over:
                self.submit(r)
            del r  # while this waits, it keeps no request alive
        return True

    def submit(self, r: Request):
        self.requests[r.number] = r
        try:
            r.id = call(lib.weft_scheduler_submit, self.scheduler, ctypes.byref(r.what))
        except BaseException as e:
            del self.requests[r.number]
            r.end(e)

    def refused(self, err):
        """The system has refused threads: for a second, this tries again; no caller waits for ever."""
        time.sleep(0.01)
        self.failures += 1
        if self.failures > 100:
            self.failures = 0
            for r in self.requests.values():
                lib.weft_scheduler_cancel(self.scheduler, r.id)
                r.end(error(err))

    def start(self, request: Request):
        check_fork(self.pid, "model")
        if self.closed:
            raise InvalidError(_CLOSED)
        self.asked.put(request)
        if self.ended:  # meanwhile
            self.refuse()

    def refuse(self):
        """Ends what the loop has not taken."""
        while True:
            try:
                r = self.asked.get(block=False)
            except queue.Empty:
                return
            if r is not None:
                r.end(InvalidError(_CLOSED))

    def close(self):
        if os.getpid() != self.pid:
            return
        self.closed = True
        self.asked.put(None)
        if self.thread is not threading.current_thread() and self.thread.is_alive():  # the garbage collector may run in it
            self.thread.join()


class Engine:
    """The memory and the thread in which a model generates."""

    def __init__(self, model, *, threads: int = 0, n_running: int = 16, n_ctx: int = 0, n_cache: int = 0, kv_type: int = 0,
                 all_logits: bool = False, adapter_rank: int = 0):
        o = sized(_api.weft_engine_options, threads=threads, n_session=n_running, n_ctx=n_ctx, kv_type=kv_type,
                  all_logits=all_logits, adapter_rank=adapter_rank, n_cache=n_cache)
        if n_cache == 0:  # room for four whole contexts, which requests share
            four = sized(_api.weft_engine_options, threads=threads, n_session=min(n_running, 4) or 1, n_ctx=n_ctx, kv_type=kv_type)
            plan = sized(_api.weft_memory_plan)
            call(lib.weft_engine_plan, model.pointer, ctypes.byref(four), ctypes.byref(plan))
            o.n_cache = plan.kv_bytes // max(1, plan.position_bytes)  # in whole pages; with the source, if there is one
        engine = Owner(lib.weft_engine_free, lib.weft_engine_new, model.pointer, ctypes.byref(o))
        s = sized(_api.weft_scheduler_options, share_prefixes=True, n_waiting=1 << 16, n_waiting_tokens=1 << 40)
        scheduler = Owner(lib.weft_scheduler_free, lib.weft_scheduler_new, engine, ctypes.byref(s))  # keeps the engine alive
        info = sized(_api.weft_engine_info)
        lib.weft_engine_get_info(engine, ctypes.byref(info))
        self.n_ctx, self.threads = info.n_ctx, info.threads
        self.loop = _Loop(scheduler)
        self._finalizer = weakref.finalize(self, self.loop.close)
        self.loop.thread.start()  # last: Ctrl-C may come, and then the finalizer ends it

    def close(self):
        self._finalizer()

    def request(self, ids, *, n_new=0, stop=(), sampler=None, tokenizer=None, n_top=0, ignore_end=False, min_new_tokens=0,
                constraint=None, source=None, prompt_logprobs=False, adapter=None, strength=1.0, listen=None) -> Request:
        """A generation, which its start() submits. n_new: 0: until the text ends; -1: none."""
        r = Request(self.loop, n_top, listen)
        prompt, n_prompt = kept_ids(ids)
        texts = [text_of("stop", s) for s in stop]
        g = sized(_api.weft_generate_options, n_prompt=n_prompt, n_new=n_new, n_stop=len(texts), ignore_end=ignore_end,
                  n_top=n_top, n_min=min_new_tokens, constraint=constraint)
        g.prompt = ctypes.cast(prompt, ctypes.POINTER(ctypes.c_int32))
        g.stop = stops = (ctypes.c_char_p * len(texts))(*texts)
        what = sized(_api.weft_request, generate=ctypes.pointer(g), sampler=sampler, tokenizer=tokenizer, done=self.loop.done, ud=r.number,
                     fn=ctypes.cast(self.loop.token, _api.weft_generate_fn), adapter=adapter, strength=strength if adapter is not None else None)
        src = None
        if source is not None:
            src, what.n_source = kept_ids(source)
            what.source = ctypes.cast(src, ctypes.POINTER(ctypes.c_int32))
        if prompt_logprobs:
            r.result.prompt_logprobs = []
            what.prompt_fn = self.loop.prompt
        r.what, r.kept = what, (prompt, stops, g, src, sampler, constraint, tokenizer, adapter)
        return r


class Stream:
    """Iterates over the text of a generation while it is generated; `result` has the whole when it is done."""

    def __init__(self, make, model):
        self._model = model  # whose engine would end with it
        self._over = False
        self._texts = queue.SimpleQueue()
        self._request = make(self._texts.put)
        self._request.start()

    def __iter__(self):
        return self

    def __next__(self) -> str:
        check_fork(self._request.loop.pid, "stream")
        # Ctrl-C may have taken the end from the queue.
        self._over = self._over or (self._request.over and self._texts.empty())
        text = None if self._over else self._texts.get()
        if text is None:
            self._over = True
            self._request.wait()
            raise StopIteration
        return text

    @property
    def result(self) -> Generation:
        """The whole, when it is done: this waits for it."""
        return self._request.wait()

    def close(self) -> None:
        """Ends the generation: what has not been generated will not be."""
        self._request.cancel()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        _drop(self)


def _drop(stream):
    request = getattr(stream, "_request", None)
    if request is not None and not request.over:
        request.cancel()


class AsyncStream:
    """The same for `async for`; `async with` ends it where the block is left."""

    def __init__(self, make, model):
        self._model = model
        self._over = False
        self._texts, loop = asyncio.Queue(), asyncio.get_running_loop()
        put = self._texts.put_nowait  # a reference to self would keep a stream that nobody reads
        self._request = make(lambda text: loop.call_soon_threadsafe(put, text))
        self._request.start()

    def __aiter__(self):
        return self

    async def __anext__(self) -> str:
        if self._over:
            raise StopAsyncIteration
        try:
            text = await self._texts.get()
        except BaseException:  # the task was cancelled
            self._request.cancel()
            raise
        if text is None:
            self._over = True
            self._request.wait()  # raises a failure; it is done, so it does not wait
            raise StopAsyncIteration
        return text

    @property
    def result(self) -> Generation:
        """The whole, after the last text."""
        if not self._request.over:
            raise InvalidError("the text is not complete; read the stream to its end first")
        return self._request.wait()

    async def aclose(self) -> None:
        """Ends the generation: what has not been generated will not be."""
        self._request.cancel()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        self._request.cancel()

    def __del__(self):
        _drop(self)

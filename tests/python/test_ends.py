"""test_ends.py - how calls end that others interrupt: Ctrl-C, close() in another thread, the garbage collector, a fork."""
import asyncio
import gc
import os
import signal
import threading
import time
import unittest

import weft
from weft import _api, _lib, encoder, engine
from common import LONG, STORIES, WithModel, golden, run, start


class CtrlC(WithModel):
    def test_ctrl_c_ends_a_generation(self):
        code = f"""
import weft
m = weft.Model({STORIES!r}, n_ctx=256)
print("ready", flush=True)
try:
    while True:
        m.generate("ROMEO:", ignore_end=True)
except KeyboardInterrupt:
    print("interrupted", m.generate("a", max_new_tokens=1).finish)
"""
        self.assertRegex(self.interrupted(code), "^interrupted (length|end)")

    def interrupted(self, code):
        """What the code prints after "ready" and, a moment later, Ctrl-C."""
        p = start(self, code)
        self.assertEqual(p.stdout.readline(), "ready\n")
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, out)
        return out

    def test_ctrl_c_anywhere_in_a_constrained_generation(self):
        """Also while the request is submitted: what the scheduler uses is not freed, and nothing runs on."""
        code = f"""
import random, signal, time, weft
m = weft.Model({STORIES!r}, threads=1)
g = m.grammar(regex="[a-c ]{{5,200}}")
m.generate("a", max_new_tokens=1, grammar=g)
def ring(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
end, n, r = time.time() + {30 if LONG else 4}, 0, random.Random(1)
while time.time() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, r.uniform(20e-6, 400e-6))
        m.generate([5] * 200, max_new_tokens=40, grammar=g)
    except KeyboardInterrupt:
        n += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
m.generate("a", max_new_tokens=1)
print(n > 100, len(m._engine().loop.requests))
"""
        # Python itself ignores, and says so, what is raised in a finalizer.
        self.assertEqual(run(self, code).splitlines()[-1], "True 0")

    def test_ctrl_c_ends_a_training(self):
        code = """
import os, tempfile, weft
with tempfile.TemporaryDirectory() as d:
    data = os.path.join(d, "text")
    with open(data, "w") as f:
        f.write("the cat sat on the mat\\n" * 2000)
    print("ready", flush=True)
    try:
        weft.train(data, os.path.join(d, "run"), steps=10**6, n_layer=1, d_model=32, n_head=2, n_head_kv=2, d_ff=64, n_ctx=32, n_vocab=300,
                   n_sample=2, threads=1)
        print("returned")
    except KeyboardInterrupt:
        print("interrupted", os.listdir(d))
"""
        self.assertRegex(self.interrupted(code), "^interrupted .*run")

    def test_ctrl_c_is_raised_by_traces_and_pages(self):
        code = f"""
import signal, time, weft
m = weft.Model({STORIES!r}, threads=1)
def ring(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
n = 0
for call in (lambda: m.trace("The cat sat on the mat " * 8, open=True), lambda: m.explain("The cat sat on the mat")):
    for i in range(20):
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + i))
        try:
            call()
            time.sleep(0.2)
            n += 1
        except KeyboardInterrupt:
            pass
print("swallowed", n)
"""
        # Python itself ignores what is raised in a finalizer, which is short.
        self.assertRegex(run(self, code), "swallowed [0-2]\n$")

    def test_ctrl_c_stops_an_eval_between_two_forwards(self):
        def ring(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        model = weft.Model(golden("chat", "chat.gguf"), threads=1)
        self.addCleanup(model.close)
        with model.session(n_ctx=32768) as session, model.session(n_ctx=64) as other:
            session.eval([5, 6])
            other.eval([5, 6])
            long = [5, 6] + [7] * 32000
            for change in (session.eval, session.sync):
                for seconds in (0.03, 0.01, 0.001):
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    with self.assertRaises(KeyboardInterrupt):
                        change(long)
                        time.sleep(5)
                    self.assertEqual(session.tokens, [5, 6])
            session.eval([7, 8])  # no cancellation is left over
            other.eval([7, 8])
            self.assertEqual(list(session.logits), list(other.logits))

    def test_ctrl_c_in_the_last_forward_stops_no_later_eval(self):
        with self.model.session() as session:
            session._interrupt(session.pointer)
            session.eval([5, 6])
            session.cancel()
            with self.assertRaises(weft.StoppedError):
                session.eval([7])
            session.eval([7])
            self.assertEqual(session.tokens, [5, 6, 7])

    def test_ctrl_c_frees_what_is_being_made(self):
        """A model that nobody has any more would still be mapped, an engine have its thread."""
        code = f"""
import gc, random, signal, threading, time, weft
def ring(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
end, n, r = time.time() + {30 if LONG else 5}, 0, random.Random(1)
while time.time() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, r.uniform(20e-6, 3e-3))
        model = weft.Model({STORIES!r}, load="map", threads=1, n_ctx=64)
        model.embed("a")
        model.session().eval([5])
        model.generate("a", max_new_tokens=1)
    except KeyboardInterrupt:
        n += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    model = None
gc.collect()
time.sleep(0.3)
with open("/proc/self/maps") as f:
    maps = [line for line in f if "shakespeare" in line]
print(n > 100, len(maps) < n / 20, [t.name for t in threading.enumerate()])
"""
        # Python itself ignores, and says so, what is raised in a finalizer: there it may cost an object, once in a hundred times.
        self.assertEqual(run(self, code).splitlines()[-1], "True True ['MainThread']")

    def test_ctrl_c_stops_an_embedding_of_many_texts(self):
        real, texts = encoder.lib.weft_encoder_eval, []

        def eval_(encoder, inputs, n, err):
            texts.append(n)
            os.kill(os.getpid(), signal.SIGINT)
            return real(encoder, inputs, n, err)

        self.model.embed("a")
        encoder.lib.weft_encoder_eval = eval_
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.model.embed(["What is a king? " * 5] * 100)
        finally:
            encoder.lib.weft_encoder_eval = real
        self.assertLess(sum(texts), 30)

    def test_a_stream_whose_end_was_interrupted_ends(self):
        stream = self.model.stream("ROMEO:", max_new_tokens=3, ignore_end=True)
        stream.result
        while not stream._texts.empty():  # as if Ctrl-C had come after each
            stream._texts.get()
        self.assertEqual(list(stream), [])

    def test_none_of_several_texts_runs_on(self):
        long = dict(ignore_end=True)
        requests = [self.model._request(self.model._ids("ROMEO:"), long) for _ in range(2)] + [self.model._request([5] * 5000, {})]
        with self.assertRaises(weft.ContextError):
            engine.together(requests)
        for r in requests[:2]:
            self.assertEqual(r.wait().finish, "caller")


class Closing(unittest.TestCase):
    def closed_during(self, made, call):
        """Calls in two threads until they say that the model is closed."""
        code = f"""
import threading, time, weft
for k in range({60 if LONG else 12}):
    m = {made}
    image = {golden("images", "grey.jpg")!r}
    text = "The king is dead and long live the king. " * 6
    said = []
    def work():
        try:
            while True:
                {call}
        except weft.Error as e:
            said.append(str(e))
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    time.sleep(0.02 + 0.001 * (k % 10))
    m.close()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "it waits for ever"
    assert len(said) == 2 and all(s.startswith("this ") and s.endswith(" is closed") for s in said), said
"""
        self.assertEqual(run(self, code), "")

    def test_close_during_embed(self):
        self.closed_during(f"weft.Model({STORIES!r}, threads=1)", "m.embed([text] * 8)")

    def test_close_during_encode(self):
        self.closed_during(f"weft.Model({STORIES!r}, threads=1)", "m.tokenizer.encode(text * 500)")

    def test_close_of_a_tokenizer_during_encode_and_decode(self):
        self.closed_during(f"weft.Tokenizer({STORIES!r})", "m.decode(m.encode(text * 500))")

    def test_close_during_chat(self):
        made = f"weft.Model({golden('chat', 'chat.gguf')!r}, threads=1, template={golden('chat', 'template.jinja')!r})"
        self.closed_during(made, 'm.chat([{"role": "user", "content": text}] * 5, max_new_tokens=1)')

    def test_close_during_classify(self):
        self.closed_during(f"weft.Model({golden('vit')!r}, threads=1)", "m.classify([image] * 4)")

    def test_close_during_generate(self):
        self.closed_during(f"weft.Model({STORIES!r}, threads=1)", 'm.generate(text, regex="[a-c ]{5,200}", logprobs=2)')

    def test_close_during_stream(self):
        self.closed_during(f"weft.Model({STORIES!r}, threads=1)", "list(m.stream(text, ignore_end=True))")

    def test_close_of_a_session_during_eval(self):
        self.closed_during(f"weft.Model({STORIES!r}, threads=1).session()", "m.eval([5] * 100); m.rewind(0)")

    def test_the_rest_of_a_stream_keeps_the_model(self):
        self.assertTrue("".join(weft.Model(STORIES).stream("ROMEO:", max_new_tokens=5)))

        async def texts():
            return [text async for text in weft.Model(STORIES).astream("ROMEO:", max_new_tokens=5)]

        self.assertTrue(asyncio.run(texts()))


class Collector(unittest.TestCase):
    def test_it_frees_a_model_in_the_thread_of_its_loop(self):
        code = f"""
import gc, time, weft
class Box: pass
gc.disable()
for i in range(10):
    b = Box()
    b.m = weft.Model({STORIES!r}, threads=1)
    b.me = b
    s = b.m._request(b.m._ids("ROMEO:"), dict(ignore_end=True, logprobs=5)); s.start()
    del b
    gc.enable(); gc.set_threshold(1)
    time.sleep(0.05)  # the main thread makes nothing, so the loop's thread collects
    gc.set_threshold(700); gc.disable()
    try:
        s.wait()
    except weft.Error:
        pass
print("end")
"""
        self.assertEqual(run(self, code), "end\n")

    def test_it_drops_a_stream_while_a_request_is_submitted(self):
        code = f"""
import gc, weft
from weft import _lib, engine
m = weft.Model({STORIES!r}, threads=1)
m.generate("a", max_new_tokens=1)
gc.disable()
real = engine.call
def call(fn, *a):
    if fn is _lib.lib.weft_scheduler_submit:
        gc.collect()  # as any allocation might
    return real(fn, *a)
engine.call = call
class Box: pass
b = Box()
b.s = m.stream("ROMEO:", ignore_end=True)
b.me = b
next(b.s)
del b
m.generate("a", max_new_tokens=1)
print("end")
"""
        self.assertEqual(run(self, code), "end\n")

    def test_a_stream_in_a_cycle_ends(self):
        model = weft.Model(STORIES)
        stream = model.stream("ROMEO:", ignore_end=True)
        request, stream.me = stream._request, stream
        next(stream)
        del stream
        gc.collect()
        self.assertEqual(request.wait().finish, "caller")


class AsyncStreams(WithModel):
    def test_iterating_after_the_end_ends(self):
        async def twice():
            stream = self.model.astream("ROMEO:", max_new_tokens=5)
            with self.assertRaisesRegex(weft.InvalidError, "not complete"):
                stream.result
            texts = [text async for text in stream]
            self.assertEqual([text async for text in stream], [])
            self.assertEqual(stream.result.text, "".join(texts))

        asyncio.run(asyncio.wait_for(twice(), 20))

    def test_leaving_the_loop_ends_the_generation(self):
        async def leave():
            stream = self.model.astream("ROMEO:", ignore_end=True)
            requests.append(stream._request)
            async for text in stream:
                break

        async def leave_with():
            async with self.model.astream("ROMEO:", ignore_end=True) as stream:
                requests.append(stream._request)
                kept.append(stream)
                async for text in stream:
                    break
            self.assertTrue(stream._request.cancelled)

        requests, kept = [], []
        asyncio.run(leave())
        asyncio.run(leave_with())
        for r in requests:
            self.assertEqual(r.wait().finish, "caller")

    def test_nothing_is_printed_when_the_event_loop_has_ended(self):
        code = f"""
import asyncio, weft
m = weft.Model({STORIES!r}, threads=1)
kept = []
async def first():
    kept.append(m.astream("ROMEO:", ignore_end=True))
    return await kept[0].__anext__()
asyncio.run(first())
try:
    kept[0]._request.wait()
except RuntimeError as e:
    print(e)
print(len(kept[0]._request.result.ids) < 200)
"""
        self.assertEqual(run(self, code), "Event loop is closed\nTrue\n")


class Failures(unittest.TestCase):
    def test_a_callback_that_raises_ends_its_request(self):
        with weft.Model(STORIES) as model:
            def listen(text):
                if text is not None:
                    raise KeyError("listen")

            request = model._request(model._ids("ROMEO:"), dict(ignore_end=True), listen)
            request.start()
            with self.assertRaisesRegex(KeyError, "listen"):
                request.wait()
            self.assertEqual(len(model.generate("a", max_new_tokens=2, ignore_end=True).ids), 2)

    def test_a_system_without_threads_is_reported_and_asked_again(self):
        times, real = [], engine.lib.weft_scheduler_step

        def step(scheduler, more, err):
            times.append(time.monotonic())
            err._obj.code, err._obj.message = _api.WEFT_ESYSTEM, b"no threads"
            return _api.WEFT_ESYSTEM

        with weft.Model(STORIES) as model:
            engine.lib.weft_scheduler_step = step
            try:
                for _ in range(2):
                    with self.assertRaisesRegex(weft.ResourceError, "no threads"):
                        model.generate("a", regex="[a-c]{5,200}")
                # The library has them until a step succeeds, and uses their grammars.
                self.assertEqual([bool(r.kept) for r in model._engine().loop.requests.values()], [True, True])
            finally:
                engine.lib.weft_scheduler_step = real
            self.assertLess(len(times) / (times[-1] - times[0]), 200)
            self.assertEqual(len(model.generate("a", max_new_tokens=2, ignore_end=True).ids), 2)
            self.assertEqual(len(model._engine().loop.requests), 0)


class Costs(unittest.TestCase):
    def test_a_token_makes_few_calls(self):
        """Of Python, in the thread that runs the forwards. Each costs several microseconds there: a forward leaves nothing of it
        in the caches."""
        calls = []
        threading.setprofile(lambda frame, event, _: calls.append(event) if event in ("call", "c_call") else None)
        try:
            with weft.Model(STORIES, threads=1) as model:
                def count(n):
                    model.generate("a", max_new_tokens=n, ignore_end=True)  # so that the prompt is cached
                    calls.clear()
                    model.generate("a", max_new_tokens=n, ignore_end=True)
                    return len(calls)

                few = count(10)
                self.assertLess((count(60) - few) / 50, 7)
        finally:
            threading.setprofile(None)


class Forks(WithModel):
    def test_a_lock_that_another_thread_held_is_not_waited_for(self):
        with weft.Model(STORIES) as model, model.session() as session:
            model.embed("a")
            locks = [model._lock, session._lock, *(p._lock for p in model._parts.values() if hasattr(p, "_lock"))]
            for lock in locks:
                threading.Thread(target=lock.acquire).start()
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                code = 0
                for call in (lambda: model.embed("a"), lambda: session.eval([5]), lambda: model.grammar(regex="a")):
                    try:
                        call()
                        code = 1
                    except weft.ResourceError:
                        pass
                model.close()
                session.close()
                os._exit(code)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            model._lock = session._lock = threading.RLock()  # what those threads hold, they keep

    def test_every_call_says_so(self):
        model, session, tokenizer = self.model, self.model.session(), self.model.tokenizer
        session.eval([5, 6])
        model.generate("a", max_new_tokens=1)
        stream = model.stream("ROMEO:", ignore_end=True)
        calls = [lambda: model.generate("a"), lambda: next(stream), lambda: stream.result, lambda: session.eval([7]), lambda: session.logits,
                 lambda: model.session(), lambda: model.embed("a"), lambda: model.trace("a"), lambda: model.explain("a"),
                 lambda: model.score("a b"), lambda: tokenizer.encode("a"), lambda: model.grammar(regex="a")]
        pid = os.fork()
        if pid == 0:
            code = 0
            signal.alarm(20)
            try:
                for i, call in enumerate(calls):
                    try:
                        call()
                        code = code or 1 + i
                    except weft.ResourceError as e:
                        code = code if "before a fork" in str(e) else 101
                model.close()  # does nothing, but may be called
            except BaseException:
                code = 102
            os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0, "256 times the number of the call that said nothing, from 1")
        stream.close()


if __name__ == "__main__":
    unittest.main()

"""test_binding.py - the Python package on small models: every call, many threads, what is raised, what is freed.

    WEFT_LIBRARY=build/libweft.so.1 PYTHONPATH=python python3 tests/python/test_binding.py [-v]

Beside it: test_arguments.py, test_ends.py (Ctrl-C, close, the garbage collector, forks), test_inside.py (traces, pages). All:

    WEFT_LIBRARY=build/libweft.so.1 PYTHONPATH=python python3 -m unittest discover -s tests/python

WEFT_TEST_LONG=1: 16 threads with 200 texts each, and 100,000 objects, instead of fewer.
"""
import asyncio
import ctypes
import gc
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import weft
from weft import _api, _lib
from common import LONG, PROMPTS, ROOT, STORIES, WithModel, golden, said


class Layout(unittest.TestCase):
    def test_structs_are_those_of_the_compiler(self):
        made = [sys.executable, os.path.join(ROOT, "tools", "make_binding.py")]
        with tempfile.TemporaryDirectory() as d:
            source, program = os.path.join(d, "offsets.c"), os.path.join(d, "offsets")
            with open(source, "w") as f:
                subprocess.run(made + ["--offsets"], stdout=f, check=True)
            subprocess.run([os.environ.get("CC", "cc"), "-I", os.path.join(ROOT, "include"), source, "-o", program], check=True)
            expected = subprocess.run([program], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.split("\n")
        found = [f"{s.__name__} {ctypes.sizeof(s)}" for s in _api.structs]
        found += [f"{s.__name__}.{f[0]} {getattr(s, f[0]).offset}" for s in _api.structs for f in s._fields_]
        self.assertGreater(len(found), 800)
        self.assertEqual(sorted(found), sorted(e for e in expected if e))

    def test_the_description_is_that_of_the_header(self):
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "make_binding.py"), "--check"], check=True)

    def test_only_described_functions_are_called(self):
        """ctypes would take an unknown function for one that returns int, and cut pointers."""
        for name in os.listdir(os.path.join(ROOT, "python", "weft")):
            if name.endswith(".py"):
                with open(os.path.join(ROOT, "python", "weft", name)) as f:
                    for word in f.read().replace("(", " ").replace(",", " ").replace(")", " ").split():
                        if word.startswith("lib.weft_"):
                            self.assertIn(word[4:].rstrip(":"), _api.functions)


class Page(unittest.TestCase):
    def test_the_examples_of_the_page_run(self):
        blocks = []
        for page in ("README.md", os.path.join("docs", "PYTHON.md")):
            with open(os.path.join(ROOT, page)) as f:
                found = re.findall(r"```python\n(.*?)```", f.read(), flags=re.S)
            self.assertGreater(len(found), 0)
            blocks += found
        for block in blocks:
            out = subprocess.run([sys.executable, "-c", block], cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=120).stdout
            self.assertGreater(len(out), 20)

    def test_every_call_has_types_and_a_sentence(self):
        """For type checkers, which read the package (py.typed), and for help()."""
        for name in weft.__all__:
            made = getattr(weft, name)
            found = {name: made} if inspect.isfunction(made) else {}
            if inspect.isclass(made):
                members = [(f"{name}.{k}", getattr(made, k)) for k in dir(made) if not k.startswith("_")]
                found = {k: v.fget if isinstance(v, property) else v for k, v in members}
            for what, fn in found.items():
                if getattr(fn, "__module__", "").startswith("weft") and callable(fn) and not what.endswith(".pointer"):
                    parameters = inspect.signature(fn).parameters.values()
                    with self.subTest(what):
                        self.assertTrue(fn.__doc__)
                        self.assertIn("return", fn.__annotations__)
                        self.assertEqual([p.name for p in parameters if p.annotation is p.empty and p.name not in ("self", "options")], [])

    def test_the_page_of_a_package_index_has_no_links_into_the_tree(self):
        sys.path.insert(0, os.path.join(ROOT, "tools"))
        self.addCleanup(sys.path.remove, sys.path[0])
        import make_wheel
        text = make_wheel.metadata("1")
        self.assertIn("weft.Model.from_pretrained", text)
        self.assertNotRegex(text, r"\]\((?!https?:)")


class Texts(WithModel):
    def test_a_text_is_that_of_the_program(self):
        program = os.environ.get("WEFT_PROGRAM")
        if not program:
            self.skipTest("WEFT_PROGRAM is not set")
        said = subprocess.run([program, "run", STORIES, "ROMEO:", "-n", "40", "--temp", "0", "--quiet"], stdout=subprocess.PIPE, check=True)
        self.assertIn(self.model.generate("ROMEO:", max_new_tokens=40).text.strip(), said.stdout.decode())

    def test_streams_give_the_whole_text(self):
        whole = self.model.generate("ROMEO:", max_new_tokens=30, temperature=1.0, seed=7)
        stream = self.model.stream("ROMEO:", max_new_tokens=30, temperature=1.0, seed=7)
        self.assertEqual("".join(stream), whole.text)
        self.assertEqual(stream.result.ids, whole.ids)
        self.assertEqual((whole.finish, len(whole.ids)), ("length", 30))
        other = self.model.generate("ROMEO:", max_new_tokens=30, temperature=1.0, seed=8)
        self.assertNotEqual(other.text, whole.text)

    def test_a_stream_that_is_dropped_ends(self):
        stream = self.model.stream("ROMEO:", ignore_end=True)
        self.assertTrue(next(stream))
        request = stream._request
        del stream
        gc.collect()
        request.wait()
        self.assertEqual(request.result.finish, "caller")

    def test_async_streams(self):
        async def all_of(prompt):
            return "".join([text async for text in self.model.astream(prompt, max_new_tokens=20)])

        async def together():
            return await asyncio.gather(*(all_of(p) for p in PROMPTS))

        expected = [g.text for g in self.model.generate(PROMPTS, max_new_tokens=20)]
        self.assertEqual(asyncio.run(together()), expected)

    def test_texts_of_many_threads_are_those_alone(self):
        n_thread, n_text = (16, 200) if LONG else (16, 12)
        jobs = [(PROMPTS[i % 5] * (1 + i % 3), dict(max_new_tokens=5 + i % 23, temperature=float(i % 2), seed=i)) for i in range(n_text)]
        with weft.Model(STORIES) as fresh:
            alone = [fresh.generate(p, **o).text for p, o in jobs]
        wrong, failures = [], []

        def work(k):
            try:
                for i in range(n_text):
                    prompt, options = jobs[(i + 7 * k) % n_text]
                    if self.model.generate(prompt, **options).text != alone[(i + 7 * k) % n_text]:
                        wrong.append((k, i))
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(n_thread)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((wrong, failures), ([], []))

    def test_stop_and_grammars(self):
        g = self.model.generate("ROMEO:", max_new_tokens=60, stop=["\n"], min_new_tokens=5)
        self.assertEqual(g.finish, "stop")
        self.assertRegex(self.model.generate("A", regex="[a-c]{5}").text, "^[a-c]{5}$")
        with self.model.grammar(schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}) as grammar:
            for seed in range(3):
                g = self.model.generate("A", grammar=grammar, temperature=1.0, seed=seed, max_new_tokens=60)
                if g.finish == "end":
                    self.assertIsInstance(json.loads(g.text)["n"], int)

    def test_logprobs(self):
        g = self.model.generate("ROMEO:", max_new_tokens=5, logprobs=3)
        for id_, p in zip(g.ids, g.logprobs):
            self.assertEqual(len(p), 4)
            self.assertEqual(p[0][0], id_)
            self.assertEqual(p[1], p[0])  # greedy: the best
        score = self.model.score("The king is dead.")
        self.assertEqual(len(score.logprobs), len(score.ids) - 1)
        with self.model.session(kv_type="f32") as s:
            s.eval(score.ids[:1])
            for id_, logprob in zip(score.ids[1:], score.logprobs):
                self.assertEqual(dict(s.top(self.model.n_vocab))[id_], logprob)
                s.eval([id_])

    def test_a_chat_is_its_template(self):
        with self.assertRaises(weft.UnsupportedError):
            self.model.chat([{"role": "user", "content": "hello"}])
        path, template = golden("chat", "chat.gguf"), golden("chat", "template.jinja")
        messages = [{"role": "user", "content": "Hi <|im_end|>"}]
        with weft.Model(path, template=template) as model:
            ids = model.apply_template(messages)
            answer = model.chat(messages, max_new_tokens=8)
            self.assertEqual(answer.ids, model.generate(ids, max_new_tokens=8).ids)
            self.assertEqual("".join(model.chat(messages, max_new_tokens=8, stream=True)), answer.text)
            spelled = model.tokenizer.encode("<|im_end|>", special=False, parse_special=True)
            once = model.apply_template([{"role": "user", "content": "Hi"}])
            if len(spelled) == 1:  # what a user types is no end of a turn
                self.assertEqual(ids.count(spelled[0]), once.count(spelled[0]))
        program = os.environ.get("WEFT_PROGRAM")
        if program:
            command = [program, "run", path, "Hi <|im_end|>", "--chat", "--template", template, "-n", "8", "--temp", "0", "--json"]
            said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            self.assertEqual(said["text"].strip(), answer.text.strip())

    def test_unknown_arguments(self):
        with self.assertRaisesRegex(TypeError, "max_tokens"):
            self.model.generate("a", max_tokens=3)
        with self.assertRaises(weft.InvalidError):
            self.model.generate("a", temperature=-1.0)
        with self.assertRaisesRegex(weft.InvalidError, "schema, regex|regex, schema"):
            self.model.grammar(schema={}, regex="a")
        with self.assertRaises(weft.ContextError):
            self.model.generate([5] * 5000)
        with self.assertRaisesRegex(OSError, "cannot open"):
            weft.Model("nothing.gguf")
        with self.assertRaisesRegex(weft.LimitError, "memory cap"):
            weft.Model(STORIES, ram_max=1000)

    def test_a_closed_model_says_so(self):
        model = weft.Model(STORIES)
        model.generate("a", max_new_tokens=1)
        model.close()
        model.close()
        with self.assertRaisesRegex(weft.InvalidError, "closed"):
            model.generate("a", max_new_tokens=1)
        with self.assertRaisesRegex(weft.InvalidError, "closed"):
            model.session()

    def test_close_while_others_generate(self):
        model = weft.Model(STORIES)
        seen = []

        def work():
            try:
                while True:
                    model.generate("ROMEO:", ignore_end=True)
            except weft.Error as e:
                seen.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        time.sleep(0.05)
        model.close()
        for t in threads:
            t.join(60)
            self.assertFalse(t.is_alive())
        self.assertEqual([type(e) for e in seen if not isinstance(e, (weft.StoppedError, weft.InvalidError))], [])
        self.assertEqual(len(seen), 4)

    def test_programs_end_with_texts_under_way(self):
        code = f"import weft\nm = weft.Model({STORIES!r})\ns = m.stream('ROMEO:', ignore_end=True)\nprint(next(s))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, timeout=60).returncode, 0)


class Sessions(unittest.TestCase):
    def test_logits_are_views_until_the_next_eval(self):
        with weft.Model(STORIES) as model, model.session() as s:
            with self.assertRaisesRegex(weft.InvalidError, "no logits"):
                s.logits
            s.eval(model.tokenizer.encode("The king"))
            view = s.logits
            kept = list(view.copy())
            self.assertEqual(list(view), kept)
            self.assertEqual(max(range(len(kept)), key=kept.__getitem__), s.greedy())
            self.assertEqual(s.top(1)[0][0], s.greedy())
            n = len(s)
            s.eval([s.greedy()])
            with self.assertRaisesRegex(weft.InvalidError, "copy"):
                view[0]
            s.rewind(n - 1)
            s.eval(model.tokenizer.encode("The king")[-1:])
            self.assertEqual(list(s.logits), kept)

    def test_views_of_numpy_share_memory(self):
        numpy = _lib.numpy_or_none()
        if not numpy:
            self.skipTest("numpy is not installed")
        with weft.Model(STORIES) as model, model.session() as s:
            s.eval(numpy.array([5, 6, 7], dtype=numpy.int32))
            view = numpy.asarray(s.logits)
            self.assertEqual(view.ctypes.data, ctypes.cast(_lib.lib.weft_session_logits(s.pointer), ctypes.c_void_p).value)
            with self.assertRaises(ValueError):
                view[0] = 0
            self.assertEqual(numpy.asarray(s.logits, dtype=numpy.float64).dtype, numpy.float64)
            with self.assertRaisesRegex(ValueError, "copy"):  # numpy 2 asks so
                s.logits.__array__(numpy.float64, copy=False)

    def test_forks_saves_and_wrong_ids(self):
        with weft.Model(STORIES) as model, model.session(n_sessions=2) as s, tempfile.TemporaryDirectory() as d:
            s.eval([5, 6, 7])
            with s.fork() as other:
                other.eval([8])
                self.assertEqual((s.tokens, other.tokens), ([5, 6, 7], [5, 6, 7, 8]))
            self.assertEqual(s.sync([5, 6, 9]), 2)
            s.save(os.path.join(d, "session"))
            with self.assertRaises(weft.InvalidError):
                s.eval([model.n_vocab])
            self.assertEqual(s.tokens, [5, 6, 9])


class Encoders(unittest.TestCase):
    """The numbers are those of the program, to the last bit."""

    def test_vectors(self):
        theirs = json.loads(said(self, "embed", STORIES, "a cat", "--json"))["embedding"]
        with weft.Model(STORIES) as model:
            for found in (model.embed("a cat"), model.embed(["the dog that ran", "a cat"])[1]):
                self.assertEqual([float(x) for x in found], [ctypes.c_float(x).value for x in theirs])

    def test_images(self):
        image = golden("images", "grey.jpg")
        theirs = json.loads(said(self, "classify", golden("vit"), image, "--json"))["labels"]
        with weft.Model(golden("vit")) as model, open(image, "rb") as f:
            found = model.classify([image, f.read()])
            self.assertEqual(found[0], found[1])
            self.assertEqual(found[0][0][0], theirs[0]["label"])
            self.assertAlmostEqual(found[0][0][1], theirs[0]["p"], 6)
            self.assertAlmostEqual(sum(p for _, p in found[0]), 1)
            with self.assertRaisesRegex(weft.Error, "images|tokenizer"):
                model.embed("a cat")
        with weft.Model(STORIES) as model, self.assertRaisesRegex(weft.UnsupportedError, "generative model, not a classifier"):
            model.classify("a cat")

    def test_translations(self):
        assets = os.environ.get("WEFT_ASSETS")
        if not assets:
            self.skipTest("WEFT_ASSETS is not set")
        path = os.path.join(assets, "encdec-aren-transliteration")
        words = ["\u0633\u0644\u0627\u0645", "\u0645\u062d\u0645\u062f"]
        theirs = [said(self, "translate", path, w).strip() for w in words]
        with weft.Model(path) as model:
            self.assertEqual([g.text.strip() for g in model.generate(words)], theirs)


class Training(unittest.TestCase):
    def test_a_model_trains_and_generates(self):
        with tempfile.TemporaryDirectory() as d:
            data, seen = os.path.join(d, "text.txt"), []
            with open(data, "w") as f:
                f.write("the cat sat on the mat\n" * 200)
            t = weft.train(data, os.path.join(d, "run"), steps=12, progress=lambda p: seen.append(p.loss), n_layer=1, d_model=32, n_head=2,
                           n_head_kv=2, d_ff=64, n_ctx=32, n_vocab=300, n_sample=2, seed=1)
            self.assertEqual((t.step, t.stopped), (12, False))
            self.assertLess(seen[-1], seen[1])
            with weft.Model(t.out) as model:
                self.assertEqual(len(model.generate("the cat", max_new_tokens=4, ignore_end=True).ids), 4)

            def stop(p):
                if p.step == 2:
                    raise RuntimeError("enough")

            with self.assertRaisesRegex(RuntimeError, "enough"):
                weft.train(data, os.path.join(d, "other"), steps=12, progress=stop, n_layer=1, d_model=32, n_head=2, n_head_kv=2, d_ff=64,
                           n_ctx=32, n_vocab=300, n_sample=2)
            with self.assertRaisesRegex(TypeError, "learning_rate"):
                weft.train(data, d, steps=1, learning_rate=1)


class Memory(unittest.TestCase):
    def test_objects_do_not_leak(self):
        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        with weft.Model(STORIES) as model:
            tokenizer = model.tokenizer

            def cycle(n):
                for _ in range(n):
                    tokenizer.encode("The king is dead")
                    with model.grammar(regex="[ab]+"):
                        pass

            cycle(2000)
            before = resident()
            cycle(100000 if LONG else 4000)
            self.assertLess(resident() - before, 1 << 20)
        for _ in range(3):
            weft.Model(STORIES).generate("a", max_new_tokens=1)
        gc.collect()
        before = resident()
        for _ in range(200 if LONG else 20):
            weft.Model(STORIES).generate("a", max_new_tokens=1)
        gc.collect()
        self.assertLess(resident() - before, 24 << 20)
        self.assertEqual([t for t in threading.enumerate() if t.name == "weft"], [])


if __name__ == "__main__":
    unittest.main()

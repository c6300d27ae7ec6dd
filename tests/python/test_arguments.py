"""test_arguments.py - what calls take: ranges, types, words, defaults."""
import array
import ctypes
import os
import sys
import tempfile
import unittest

import weft
from weft import _api, _lib, training
from common import STORIES, WithModel, golden

SMALL = dict(steps=1, n_layer=1, d_model=32, n_head=2, n_head_kv=2, d_ff=64, n_ctx=32, n_vocab=300, n_sample=2, threads=1)


class Numbers(WithModel):
    def test_integers_out_of_range_are_refused(self):
        """ctypes would take 2**32 + 5 for 5."""
        tokenizer, far = self.model.tokenizer, 2**32 + 5
        for call in (lambda: self.model.generate([far]), lambda: self.model.generate("a", top_k=2**64), lambda: tokenizer.decode([far]),
                     lambda: self.model.generate("a", max_new_tokens=2**64), lambda: self.model.generate("a", seed=2**64 + 1),
                     lambda: self.model.generate("a", seed=-2), lambda: weft.Model(STORIES, threads=2**32 + 1).embed("a"),
                     lambda: weft.Model(STORIES, ram_max=-1), lambda: tokenizer.token(far), lambda: self.model.session(n_ctx=2**64 + 64),
                     lambda: self.model.session().rewind(2**64), lambda: self.model.generate("a", max_new_tokens=-1),
                     lambda: self.model.explain("a", layer=2**64), lambda: self.model.session().top(-1)):
            with self.assertRaisesRegex(weft.InvalidError, "expected"):
                call()

    def test_other_types_than_integers_are_refused(self):
        for call in (lambda: self.model.generate("a", top_k=1.5), lambda: self.model.generate([1.5]), lambda: self.model.generate("a", seed="1"),
                     lambda: self.model.generate("a", temperature="hot"), lambda: self.model.session().top("3")):
            with self.assertRaises(TypeError):
                call()

    def test_what_is_of_another_type_is_named(self):
        model, tokenizer = self.model, self.model.tokenizer
        for word, call in (("regex", lambda: model.generate("a", regex={"type": "string"})), ("gbnf", lambda: model.grammar(gbnf=3)),
                           ("adapter", lambda: model.generate("a", adapter="")), ("adapter", lambda: model.generate("a", adapter="lora")),
                           ("grammar", lambda: model.generate("a", grammar="[a-z]")), ("grammar", lambda: model.generate("a", grammar=model)),
                           ("text", lambda: tokenizer.encode(5)), ("pair", lambda: tokenizer.encode("a", pair=b"b")),
                           ("token", lambda: tokenizer.id(None)), ("None", lambda: model.generate(None)),
                           ("bytes", lambda: model.score(b"hello")), ("text", lambda: model.embed(["a", None]))):
            with self.subTest(word), self.assertRaisesRegex(TypeError, word):
                call()
        for word, call in (("pooling", lambda: model.embed("a", pooling=["mean"])), ("strength", lambda: model.generate("a", strength=0.5)),
                           ("side", lambda: weft.Tokenizer(STORIES, side=["any"])), ("no tokens", lambda: model.generate("")),
                           ("no tokens", lambda: model.trace([])), ("no tokens", lambda: list(model.stream(iter([]))))):
            with self.subTest(word), self.assertRaisesRegex(weft.InvalidError, word):
                call()
        with weft.Model(golden("vit"), threads=1) as model:
            image = golden("images", "grey.jpg")
            self.assertEqual(len(model.classify(image, top=2)), 2)
            with self.assertRaisesRegex(weft.InvalidError, "top"):
                model.classify(image, top=-1)
            with self.assertRaises(TypeError):
                model.classify(image, top="1")

    def test_the_caller_may_reuse_the_memory_of_a_prompt(self):
        prompt = array.array("i", [5, 6, 7])
        request = self.model._request(prompt, dict(max_new_tokens=3))
        prompt[0] = 9  # before the request is submitted
        request.start()
        self.assertEqual(request.wait().ids, self.model.generate([5, 6, 7], max_new_tokens=3).ids)

    def test_ids_have_many_forms_but_are_no_text(self):
        expected = self.model.generate([5, 6, 7], max_new_tokens=3).ids
        forms = [(5, 6, 7), array.array("i", [5, 6, 7]), array.array("q", [5, 6, 7]), iter([5, 6, 7]), memoryview(array.array("i", [5, 6, 7]))]
        numpy = _lib.numpy_or_none()
        if numpy:
            forms += [numpy.array([5, 6, 7]), numpy.array([5, 0, 6, 0, 7, 0], dtype=numpy.int32)[::2], list(numpy.array([5, 6, 7]))]
        for form in forms:
            self.assertEqual(self.model.generate(form, max_new_tokens=3).ids, expected)
        for text in (b"hello", bytearray(b"hello")):
            with self.assertRaisesRegex(TypeError, "token ids"):
                self.model.generate(text)
        with self.assertRaisesRegex(TypeError, "token ids"):
            self.model.session().eval("hello")

    def test_no_limit_and_no_tokens_are_different(self):
        self.assertEqual(self.model.generate("a", max_new_tokens=0).ids, [])
        self.assertGreater(len(self.model.generate("a", max_new_tokens=None, ignore_end=True).ids), 100)

    def test_seed_minus_1_is_a_new_one_each_time(self):
        texts = {self.model.generate("The", seed=-1, temperature=1.5, max_new_tokens=20).text for _ in range(4)}
        self.assertGreater(len(texts), 1)

    def test_a_small_context_generates(self):
        for n_ctx in (16, 63, 65):
            with weft.Model(STORIES, n_ctx=n_ctx) as model:
                g = model.generate([5, 6], ignore_end=True)
                self.assertEqual((g.finish, g.n_prompt + len(g.ids)), ("context", n_ctx + 1))  # the last is not evaluated
        for name in ("marian", "t5", "bahdanau"):  # a source has pages of its own
            with weft.Model(golden(name), n_ctx=16, n_running=1) as model:
                self.assertEqual(len(model.generate([4, 5, 6], max_new_tokens=3, ignore_end=True).ids), 3)

    def test_an_empty_list_has_no_vectors(self):
        found = self.model.embed([])
        self.assertEqual(len(found), 0)
        if _lib.numpy_or_none():
            self.assertEqual(found.shape, (0, self.model.info["d_model"]))


class Words(WithModel):
    def test_texts_with_nul(self):
        with self.assertRaisesRegex(weft.InvalidError, "NUL"):
            self.model.generate("a", stop=["\0"])
        with self.assertRaisesRegex(weft.InvalidError, "NUL"):
            weft.Tokenizer("a\0b")
        self.assertIn("<html", self.model.explain("a\0b", only="tokens"))

    def test_texts_that_are_not_valid_unicode(self):
        self.assertIn("<html", self.model.explain("a\udc80", only="tokens"))
        self.assertIsNone(self.model.tokenizer.id("\udc80"))

    def test_paths_may_be_any_bytes(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(os.fsencode(d), b"\xff.gguf")
            os.symlink(os.path.abspath(STORIES), path)
            with weft.Model(path) as model, weft.Tokenizer(os.fsdecode(path)) as tokenizer:
                self.assertEqual(model.tokenizer.encode("a"), tokenizer.encode("a"))

    def test_a_model_without_a_template_names_the_argument(self):
        with self.assertRaisesRegex(weft.UnsupportedError, "template=") as raised:
            self.model.chat([{"role": "user", "content": "hello"}])
        self.assertNotIn("--template", str(raised.exception))
        self.assertEqual(raised.exception.code, _api.WEFT_EUNSUPPORTED)

    def test_sides_and_types_have_names(self):
        with self.assertRaisesRegex(weft.InvalidError, "'source'"):
            weft.Tokenizer(STORIES, side="left")
        with self.assertRaisesRegex(weft.InvalidError, "'q8_0'"):
            self.model.session(kv_type="q9")


class Sessions(unittest.TestCase):
    def test_a_session_is_as_its_model(self):
        with weft.Model(STORIES, n_ctx=64, kv_type="q8_0") as model:
            logits = {}
            for kv_type in (None, "q8_0", "f32"):
                with model.session(kv_type=kv_type) as s:
                    s.eval([5, 6, 7, 8])
                    logits[kv_type] = s.logits.copy()
                    with self.assertRaises(weft.ContextError):
                        s.eval([5] * 64)
            self.assertEqual(list(logits[None]), list(logits["q8_0"]))
            self.assertNotEqual(list(logits[None]), list(logits["f32"]))

    def test_all_tokens_are_the_most_there_are(self):
        with weft.Model(STORIES) as model, model.session() as s:
            s.eval([5])
            self.assertEqual(len(s.top(10**15)), model.n_vocab)
            self.assertEqual(s.top(0), [])

    def test_an_iterator_over_logits_is_a_view_too(self):
        with weft.Model(STORIES) as model:
            for end in (lambda s: s.close(), lambda s: s.rewind(1), lambda s: s.eval([5])):
                s = model.session()
                s.eval([5, 6, 7])
                it = iter(s.logits)
                next(it)
                end(s)
                with self.assertRaisesRegex(weft.InvalidError, "gone"):
                    next(it)

    def test_an_array_of_logits_outlives_its_session(self):
        numpy = _lib.numpy_or_none()
        if not numpy:
            self.skipTest("numpy is not installed")
        with weft.Model(STORIES) as model:
            s = model.session()
            s.eval([5, 6, 7])
            view, kept = numpy.asarray(s.logits), s.logits.copy()
            owner = s.pointer
            references = sys.getrefcount(owner)
            s.close()
            self.assertEqual(sys.getrefcount(owner), references - 1)  # the session's; the view has one, too
            del owner
            others = [model.session() for _ in range(8)]
            for other in others:
                other.eval([8, 9])
            self.assertTrue((view == kept).all())


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.directory.name, "text.txt")
        with open(cls.data, "w") as f:
            f.write("the cat sat on the mat\n" * 200)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def train(self, **options):
        with tempfile.TemporaryDirectory() as d:
            return weft.train(options.pop("data", self.data), os.path.join(d, "run"), **{**SMALL, **options})

    def test_every_text_is_taken_and_nothing_else_for_it(self):
        texts = [n for n, t in _api.weft_train_options._fields_ if t is ctypes.c_char_p and n in training._FIELDS]
        self.assertGreater(len(texts), 10)
        for name in texts:
            with self.assertRaisesRegex(TypeError, name):
                self.train(**{name: 1})
            o = _api.weft_train_options()
            training._set_option(o, name, "value")
            self.assertEqual(getattr(o, name), b"value")

    def test_a_model_of_other_parts(self):
        for option in (dict(norm="post"), dict(act="relu"), dict(attention="mqa"), dict(positions="rope")):
            self.assertEqual(self.train(arch="gpt2", n_head_kv=0, **option).step, 1)
        with self.assertRaisesRegex(weft.InvalidError, "expected one of pre, post"):
            self.train(arch="gpt2", norm="none")

    def test_the_words_of_the_program(self):
        for option in (dict(schedule="inverse-sqrt"), dict(schedule=_api.WEFT_SCHEDULE_WSD), dict(format="text"), dict(load="map")):
            self.assertEqual(self.train(**option).step, 1)
        for option in (dict(schedule="cosinus"), dict(format="word"), dict(positions="x"), dict(objective="y")):
            with self.assertRaisesRegex(weft.InvalidError, "expected one of"):
                self.train(**option)
        for words in training._WORDS.values():
            self.assertEqual(len(set(words.values())), len(words))

    def test_numbers_fit(self):
        for option in (dict(seed=-1), dict(n_sample=2**31), dict(steps=2**63)):
            with self.assertRaisesRegex(weft.InvalidError, "expected"):
                self.train(**option)
        for option in (dict(lr="fast"), dict(steps=1.5), dict(n_layer="one")):
            with self.assertRaises(TypeError):
                self.train(**option)

    def test_paths_of_data(self):
        for data in (os.fsencode(self.data), [self.data, self.data]):
            self.assertEqual(self.train(data=data).step, 1)


if __name__ == "__main__":
    unittest.main()

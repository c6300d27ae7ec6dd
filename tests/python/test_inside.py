"""test_inside.py - traces, scores and pages: their numbers are those of the program."""
import ctypes
import json
import os
import re
import tempfile
import unittest

import weft
from common import STORIES, golden, said

IMAGE = golden("images", "grey.jpg")


class Traces(unittest.TestCase):
    def compare(self, model, text, words, **options):
        """With what `weft trace` prints: mean, min, max, and the first numbers."""
        lines = [json.loads(line) for line in said(self, "trace", *words, "--all-logits", "--json").splitlines()]
        expected = {line["name"]: line for line in lines if "name" in line}
        found = model.trace(text, **options)
        self.assertEqual(list(found), list(expected))
        for name, line in expected.items():
            rows = [[float(x) for x in row] for row in found[name].data]
            numbers = [x for row in rows for x in row]
            self.assertEqual(found[name].op, line["op"])
            theirs = [ctypes.c_float(x).value for x in (line["min"], line["max"], *line["first"])]
            self.assertEqual([min(numbers), max(numbers), *numbers[: len(line["first"])]], theirs, name)

    def test_a_decoder(self):
        with weft.Model(STORIES) as model:
            self.compare(model, "The king is dead", [STORIES, "The king is dead"])
            with self.assertRaisesRegex(weft.InvalidError, "encoder-decoders"):
                model.trace("The king", target="is")

    def test_encoder_decoders(self):
        for name in ("marian", "bahdanau"):
            with weft.Model(golden(name)) as model:
                self.compare(model, [4, 5, 6], [golden(name), "--ids", "4,5,6"])
                self.compare(model, [4, 5, 6], [golden(name), "--ids", "4,5,6", "--target-ids", "7,8"], target=[7, 8])

    def test_images(self):
        with weft.Model(golden("vit")) as model, open(IMAGE, "rb") as f:
            self.compare(model, IMAGE, [golden("vit"), IMAGE])
            self.compare(model, f.read(), [golden("vit"), IMAGE])

    def test_an_encoder_without_a_tokenizer(self):
        with weft.Model(golden("bert")) as model:
            self.compare(model, [4, 5, 6], [golden("bert"), "--ids", "4,5,6"])

    def test_rows_of_probabilities_sum_to_1(self):
        with weft.Model(STORIES) as model:
            t = model.trace("The king is dead", maps=True)
            probs = [v for k, v in t.items() if k.endswith(".probs")]
            self.assertEqual(len(probs), model.info["n_layer"])
            for v in probs:
                for row in v.data:
                    self.assertAlmostEqual(sum(map(float, row)), 1, 4)
            few = model.trace("The king", only=lambda name: name == "output")
            self.assertEqual(list(few), ["output"])

    def test_a_callback_that_raises_ends_the_trace(self):
        def only(name):
            raise KeyError(name)

        with weft.Model(STORIES) as model, self.assertRaises(KeyError):
            model.trace("The king", only=only)


class Scores(unittest.TestCase):
    def test_a_score_is_that_of_the_program(self):
        text = "What light through yonder window breaks?\n"
        with tempfile.TemporaryDirectory() as d, weft.Model(STORIES) as model:
            path = os.path.join(d, "text")
            with open(path, "w") as f:
                f.write(text)
            expected = json.loads(said(self, "eval", STORIES, path, "--json"))
            score = model.score(text)
            self.assertEqual(len(score.logprobs), expected["n_token"])
            self.assertAlmostEqual(score.perplexity, expected["perplexity"], 6)


class Pages(unittest.TestCase):
    def compare(self, model, text, words, **options):
        """Byte for byte with the page that the program writes, but for the times."""
        with tempfile.TemporaryDirectory() as d:
            theirs, ours = os.path.join(d, "theirs.html"), os.path.join(d, "ours.html")
            said(self, "explain", *words, "-o", theirs)
            html = model.explain(text, ours, **options)
            with open(theirs, encoding="utf-8") as a, open(ours, encoding="utf-8") as b:
                self.assertEqual(html, b.read())
                seconds = re.compile(r'"(seconds|with|without)":[-+.e0-9]+')
                self.assertTrue(seconds.sub("", html) == seconds.sub("", a.read()), f"the page of {words} is another one")
            self.assertIn("<!doctype html>", html[:100].lower())

    def test_a_decoder(self):
        with weft.Model(STORIES) as model:
            self.compare(model, "The cat sat on", [STORIES, "The cat sat on", "--only", "heads,output"], only="heads,output")
            words = [STORIES, "The cat sat on", "--title", "A page", "--layer", "1", "--token", "2"]
            self.compare(model, "The cat sat on", words, title="A page", layer=1, token=2)
            with self.assertRaisesRegex(weft.InvalidError, "train="):
                model.explain("The cat sat on", target=" the")

    def test_training(self):
        with tempfile.TemporaryDirectory() as d:
            said(self, "convert", STORIES, os.path.join(d, "f32.gguf"), "--type", "f32")
            with weft.Model(os.path.join(d, "f32.gguf")) as model:
                words = [os.path.join(d, "f32.gguf"), "The cat sat on", "--train", "--target", " the mat"]
                self.compare(model, "The cat sat on", words, train=3, target=" the mat")

    def test_encoder_decoders(self):
        with weft.Model(golden("marian")) as model:
            self.compare(model, [4, 5, 6], [golden("marian"), "--ids", "4,5,6"])
            self.compare(model, [4, 5, 6], [golden("marian"), "--ids", "4,5,6", "--target-ids", "7,8"], target=[7, 8])

    def test_texts_of_an_encoder_decoder(self):
        assets = os.environ.get("WEFT_ASSETS")
        if not assets:
            self.skipTest("WEFT_ASSETS is not set")
        path, word = os.path.join(assets, "encdec-aren-transliteration"), "\u0633\u0644\u0627\u0645"
        with weft.Model(path) as model:
            self.compare(model, word, [path, word])
            self.compare(model, word, [path, word, "--target", "salam"], target="salam")

    def test_images(self):
        with weft.Model(golden("vit")) as model, open(IMAGE, "rb") as f:
            self.compare(model, IMAGE, [golden("vit"), IMAGE])
            self.compare(model, f.read(), [golden("vit"), IMAGE])

    def test_an_encoder_without_a_tokenizer(self):
        with weft.Model(golden("bert")) as model:
            self.compare(model, [4, 5, 6], [golden("bert"), "--ids", "4,5,6"])


if __name__ == "__main__":
    unittest.main()

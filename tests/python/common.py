"""What the tests of the Python package share."""
import os
import signal
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STORIES = os.path.join(ROOT, "models", "shakespeare.gguf")
GOLDEN = os.path.join(ROOT, "tests", "golden")
LONG = bool(os.environ.get("WEFT_TEST_LONG"))
PROMPTS = ["ROMEO:", "The king", "My lord,", "What is", "O, "]


def golden(*names):
    return os.path.join(GOLDEN, *names)


def said(test, *words):
    """What the program prints."""
    program = os.environ.get("WEFT_PROGRAM")
    if not program:
        test.skipTest("WEFT_PROGRAM is not set")
    return subprocess.run([program, *words], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout


def start(test, code, **options):
    """A Python that runs the code. A shell's background jobs ignore SIGINT, and so would their children."""
    p = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", code], stdout=subprocess.PIPE, universal_newlines=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options)
    test.addCleanup(p.stdout.close)
    test.addCleanup(p.kill)
    return p


def run(test, code):
    """What the code prints on both streams. It must end by itself: it may crash the process, or wait for ever."""
    p = start(test, code, stderr=subprocess.STDOUT)
    try:
        out, _ = p.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        p.kill()
        out, _ = p.communicate()
        raise AssertionError(f"it does not end: {out}")
    test.assertEqual(p.returncode, 0, out)
    return out


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import weft
        cls.model = weft.Model.from_pretrained(STORIES)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

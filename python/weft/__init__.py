"""weft: transformers on CPUs.

    import weft
    model = weft.Model.from_pretrained("model.gguf")
    print(model.generate("Once upon a time", max_new_tokens=50))
"""
from ._lib import (BusyError, ContextError, Error, FileError, FormatError, InvalidError, LimitError, NumericError, StoppedError,
                   ResourceError, UnsupportedError, __version__, lib)
from .engine import AsyncStream, Generation, Stream
from .inside import Traced
from .model import Adapter, Grammar, Model, Score, find
from .session import Logits, Session
from .tokenizer import Tokenizer
from .training import Progress, Trained, train

__all__ = [
    "Adapter", "AsyncStream", "BusyError", "ContextError", "Error", "FileError", "FormatError", "Generation", "Grammar", "InvalidError",
    "LimitError", "Logits", "Model", "NumericError", "Progress", "Score", "Session", "StoppedError", "Stream", "ResourceError", "Tokenizer",
    "Traced", "Trained", "UnsupportedError", "__version__", "build_parts", "find", "train",
]


def build_parts() -> str:
    """Features of the library in one line."""
    return str(lib.weft_build_parts().decode())

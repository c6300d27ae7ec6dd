"""Text to token ids and back."""
from __future__ import annotations

import ctypes
import os
from typing import Iterable, List, Optional, Tuple, Union

from . import _api
from ._lib import Handle, call, ids_of, integer, lib, one_of, path_of, sized, utf8

_SIDES = {"any": _api.WEFT_SIDE_ANY, "source": _api.WEFT_SIDE_SOURCE, "target": _api.WEFT_SIDE_TARGET}


class Tokenizer(Handle):
    """The tokenizer in a model's files; threads may share it."""

    _free = "weft_tokenizer_free"

    def __init__(self, path: Union[str, os.PathLike], *, side: str = "any", ram_max: int = 0):
        o = sized(_api.weft_tokenizer_options, ram_max=ram_max, side=one_of("side", side, _SIDES))
        self._make(lib.weft_tokenizer_load, path_of(path), ctypes.byref(o))
        info = sized(_api.weft_tokenizer_info)
        lib.weft_tokenizer_get_info(self.pointer, ctypes.byref(info))
        self.n_vocab, self.bos_id, self.eos_id, self.mask_id = info.n_vocab, info.bos_id, info.eos_id, info.mask_id
        self.kind = info.model.decode()

    def encode(self, text: str, *, special: bool = True, parse_special: bool = False, pair: Optional[str] = None) -> List[int]:
        """The ids of a text, with the special tokens that the file puts around it unless `special` is False.

        parse_special: special tokens spelled in the text count as such. Not for text from strangers."""
        return self.encode_pair(text, pair, special=special, parse_special=parse_special)[0]

    def encode_pair(self, text: str, pair: Optional[str], *, special: bool = True,
                    parse_special: bool = False) -> Tuple[List[int], List[int]]:
        """The ids of one text or of a pair, and the type of each: 0 or 1."""
        data, second = utf8("text", text), None if pair is None else utf8("pair", pair)
        o = sized(_api.weft_tokenize_options, no_special=not special, parse_special=parse_special)
        if second is not None:
            o.pair = ctypes.cast(ctypes.c_char_p(second), ctypes.POINTER(ctypes.c_char))
            o.pair_length = len(second)
        tokens = call(lib.weft_tokenizer_encode, self.pointer, data, len(data), ctypes.byref(o))
        try:
            n = tokens.contents.n
            types = tokens.contents.types[:n] if tokens.contents.types else [0] * n
            return tokens.contents.ids[:n], types
        finally:
            lib.weft_tokens_free(tokens)

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        """The text of ids, without special tokens unless keep_special."""
        tokenizer = self.pointer  # which the decoder reads
        decoder = call(lib.weft_decoder_new, tokenizer, keep_special)
        try:
            data, n = ctypes.POINTER(ctypes.c_char)(), ctypes.c_size_t()
            text = bytearray()
            for id_ in ids_of(ids)[0]:
                call(lib.weft_decoder_push, decoder, id_, ctypes.byref(data), ctypes.byref(n))
                text += ctypes.string_at(data, n.value)
            lib.weft_decoder_flush(decoder, ctypes.byref(data), ctypes.byref(n))
            text += ctypes.string_at(data, n.value)
            return text.decode("utf-8", "replace")
        finally:
            lib.weft_decoder_free(decoder)

    def token(self, id_: int) -> Optional[str]:
        """A token as the file spells it."""
        n = ctypes.c_size_t()
        tokenizer = self.pointer
        found = lib.weft_tokenizer_token(tokenizer, integer("token id", id_, ctypes.c_int32), ctypes.byref(n))
        return ctypes.string_at(found, n.value).decode("utf-8", "replace") if found else None

    def id(self, token: str) -> Optional[int]:
        """The id of a token as the file spells it."""
        data = utf8("token", token)
        found = lib.weft_tokenizer_id(self.pointer, data, len(data))
        return found if found >= 0 else None

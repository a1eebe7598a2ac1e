"""A tokenizer with the methods of `nanochat/tokenizer.py` that prepare documents; its tokens are bytes."""

from __future__ import annotations

_BOS = 256


class RustBPETokenizer:
    def get_bos_token_id(self) -> int:
        return _BOS

    def encode(self, text: list[str], prepend: int | None = None, num_threads: int = 8) -> list[list[int]]:
        first = [] if prepend is None else [prepend]
        return [first + list(each.encode()) for each in text]


def get_tokenizer() -> RustBPETokenizer:
    return RustBPETokenizer()

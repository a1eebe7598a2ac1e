"""`DataReader`, as in `fairseq2/datasets/data_reader.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any


class DataReader(ABC, Iterator[list[Any]]):
    @abstractmethod
    def __iter__(self) -> DataReader: ...

    @abstractmethod
    def __next__(self) -> list[Any]: ...

    @abstractmethod
    def reset(self) -> None: ...

    @abstractmethod
    def state_dict(self) -> dict[str, object]: ...

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, object]) -> None: ...

    @property
    @abstractmethod
    def num_accumulate(self) -> int: ...

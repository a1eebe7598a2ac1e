"""Sentences of tokens in a table of Hugging Face, as tokenizers return them, and functions that pad their batches."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SAMPLES = 20_000
BATCH_SIZE = 32
IMPORTS = ("datasets", "transformers", "tokenizers")
_LONGEST, _WORDS = 128, 30_000


@dataclass(frozen=True)
class Sentences:
    """Tokens of sentences, one after another; the label of each is its index."""

    tokens: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]


def missing() -> list[str]:
    """Return the packages that are not installed."""
    return [name for name in IMPORTS if importlib.util.find_spec(name) is None]


def sentences() -> Sentences:
    """Return sentences of random words, of random lengths."""
    random = np.random.default_rng(5)
    ends = random.integers(8, _LONGEST + 1, SAMPLES).cumsum()
    return Sentences(random.integers(5, _WORDS, ends[-1], np.int32), ends)


def dataset(source: Sentences) -> Any:
    """Return the table without a format: samples consist of Python lists."""
    import datasets
    import pyarrow as pa

    offsets = pa.array(np.concatenate([[0], source.ends]).astype(np.int32))
    of_tokens = {
        "input_ids": source.tokens,
        "token_type_ids": np.zeros(len(source.tokens), np.int8),
        "attention_mask": np.ones(len(source.tokens), np.int8),
    }
    columns = {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in of_tokens.items()}
    return datasets.Dataset(pa.table({"label": pa.array(range(SAMPLES)), **columns}))


def with_padding(_: Sentences) -> Callable[[list[Any]], Any]:
    """Return the collate function of `transformers`, with a tokenizer that needs no files."""
    import transformers
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")  # type: ignore[no-untyped-call]
    collate: Callable[[list[Any]], Any] = transformers.DataCollatorWithPadding(tokenizer)
    return collate


def own(_: Sentences) -> Callable[[list[Any]], Any]:
    """Return a typical user-defined function."""
    return _pad


def _pad(rows: list[Any]) -> Any:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    tokens = [torch.tensor(row["input_ids"]) for row in rows]
    masks = [torch.tensor(row["attention_mask"]) for row in rows]
    return {
        "input_ids": pad_sequence(tokens, batch_first=True),
        "attention_mask": pad_sequence(masks, batch_first=True),
        "labels": torch.tensor([row["label"] for row in rows]),
    }


def check(source: Sentences, batch: Any) -> npt.NDArray[np.int64]:
    """Return the indices of the samples of `batch`, whose tokens must be those of the source."""
    tokens, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
    for row, label in enumerate(labels):
        end = source.ends[label]
        start = source.ends[label - 1] if label else 0
        words = source.tokens[start:end]
        assert (tokens[row, : len(words)] == words).all(), f"the tokens of sample {label} are others"
        assert not tokens[row, len(words) :].any(), f"sample {label} is not padded with zeros"
    ids: npt.NDArray[np.int64] = labels
    return ids

"""Tokenizers, collate functions of `transformers`, and tables of tokens, fixed or random."""

from __future__ import annotations

import random
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import transformers
from tokenizers import Tokenizer, models

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[MASK]", *map(str, range(60)))
PADDED = ("attention_mask", "token_type_ids", "special_tokens_mask")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
LABELS = ("label", "labels", "label_ids")


def tokenizer(padding_side: str = "right", **arguments: Any) -> Any:
    """A tokenizer with a word for each number, which needs no files."""
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokens = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]", "padding_side": padding_side}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **{**tokens, **arguments})


class Tables:
    """Random tables of tokens, labels, and any other fields that samples have.

    Args:
        draw: the generator.
        of: the collate function that they are for.
        is_odd: True to include values that the core leaves to Python, or that the collate function refuses.
    """

    def __init__(self, draw: random.Random, of: Collators, *, is_odd: bool) -> None:
        self._draw, self._name, self._is_odd = draw, of.name, is_odd
        self._stacks = of.name in ("default", "Default")
        # Fields that a tokenizer does not pad need one length in all rows.
        self._padded = PADDED if of.names is None or is_odd else PADDED[1:]

    def dataset(self, rows: int) -> Any:
        """Return a dataset of a table with `rows` rows: with or without a format, with all of its rows or some."""
        draw = self._draw
        dataset = datasets.Dataset(self._table(rows))
        if draw.random() < 0.3:
            dataset = dataset.select([draw.randrange(rows) for _ in range(draw.randint(2, rows + 3))])
        if draw.random() < 0.2:
            dataset = dataset.shuffle(seed=3)
        kind = draw.choice(("lists", "lists", "torch", *(("columns", "numpy") if self._is_odd else ())))
        if kind == "columns":
            some = draw.sample(dataset.column_names, draw.randint(1, len(dataset.column_names)))
            return dataset.with_format(draw.choice((None, "torch")), columns=some)
        return dataset if kind == "lists" else dataset.with_format(kind)

    def _rarely(self) -> bool:
        return self._is_odd and self._draw.random() < 0.1

    def _table(self, rows: int) -> Any:
        draw = self._draw
        longest = draw.choice((0, 1, 5, 12))
        lengths = [draw.randint(0, longest) for _ in range(rows)]
        if draw.random() < 0.2 or (self._stacks and not self._rarely()):
            lengths = [draw.randint(1, 6)] * rows
        columns = {"input_ids": self._lists(lengths, 60)}
        for name in self._padded:
            if draw.random() < 0.4:
                of = [draw.randint(0, 4) for _ in lengths] if self._rarely() else lengths
                columns[name] = self._lists(of, 2, is_bool=self._rarely())
        if draw.random() < 0.8:
            columns |= self._labels(lengths)
        if self._rarely():
            columns[draw.choice(LABELS)] = self._any(rows)
        for name in ("x", "y"):
            if draw.random() < 0.3:
                columns[name] = self._any(rows, has_texts=self._stacks or self._rarely())
        if self._rarely():
            del columns["input_ids"]
        names = list(columns)
        draw.shuffle(names)
        size = -(-rows // draw.choice((1, 1, 2, 3)))
        arrays = [columns[name] for name in names] or [pa.array(range(rows))]
        pieces = [pa.chunked_array([each.slice(at, size) for at in range(0, rows, size)], each.type) for each in arrays]
        return pa.table(pieces, names=names or ["x"])

    def _lists(self, lengths: list[int], end: int, *, is_bool: bool = False) -> Any:
        draw, of = self._draw, bool if is_bool else int
        values: list[Any] = [[of(draw.randrange(end)) for _ in range(length)] for length in lengths]
        if self._rarely():
            values[draw.randrange(len(values))] = None
        if self._rarely() and (place := draw.choice(values)):
            place[0] = None
        inner = pa.bool_() if is_bool else getattr(pa, draw.choice(INTEGERS))()
        if self._rarely() and not is_bool:
            inner = pa.float32()
        if len(set(lengths)) == 1 and lengths[0] and None not in values and draw.random() < 0.2:
            return pa.array(values, pa.list_(inner, lengths[0]))
        kind = draw.choice((pa.list_, pa.list_, pa.large_list))
        # A slice of a larger array, with elements before and after it.
        return pa.array([[of(1)], *values, [of(0), of(1)]], kind(inner)).slice(1, len(values))

    def _labels(self, lengths: list[int]) -> dict[str, Any]:
        draw, rows = self._draw, len(lengths)
        own = [draw.randint(0, 5) for _ in lengths]
        if self._rarely():
            return {draw.choice(LABELS): draw.choice((self._lists(own, 9), self._lists(lengths, 9), self._any(rows)))}
        if self._name in ("seq2seq", "tokens"):
            return {draw.choice(LABELS[:2]): self._lists(own if self._name == "seq2seq" else lengths, 9)}
        if self._name == "language":
            return draw.choice(({"labels": self._lists([3] * rows, 9)}, {"label": self._any(rows)}))
        if self._name == "padding":
            return {draw.choice(LABELS): self._any(rows)}
        if draw.random() < 0.3:
            return {"label_ids": self._lists([draw.randint(1, 3)] * rows, 9)}
        return {"label": self._number(rows)}

    def _any(self, rows: int, *, has_texts: bool = False) -> Any:
        draw = self._draw
        kind = draw.choice(
            ("number", "number", "bool", "floats", "integers", "bools", *(["text"] if has_texts else []))
        )
        if kind == "text":
            return pa.array([f"{row}" if draw.random() < 0.95 else None for row in range(rows)], pa.string())
        if kind == "bool":
            return pa.array([draw.random() < 0.5 for _ in range(rows)])
        if kind == "number":
            return self._number(rows)
        inner = {"floats": pa.float64(), "integers": pa.int16(), "bools": pa.bool_()}[kind]
        return pa.array([[draw.randrange(2), 1] for _ in range(rows)]).cast(pa.list_(inner))

    def _number(self, rows: int) -> Any:
        draw = self._draw
        kind = draw.choice((*INTEGERS, "float32", "float64", "float16"))
        numbers: list[Any] = [draw.randrange(100) for _ in range(rows)]
        if kind.startswith("float"):
            numbers = [np.float16(number / 7) if kind == "float16" else number / 7 for number in numbers]
        if self._rarely():
            numbers[0] = None
        return pa.array(numbers, getattr(pa, kind)())


class Collators:
    """Random collate functions of `transformers`.

    Args:
        draw: the generator.
        is_odd: True to include some that the core does not run, only Python.
    """

    def __init__(self, draw: random.Random, *, is_odd: bool) -> None:
        self.name = draw.choice(("default", "Default", *("padding", "seq2seq") * 2, "tokens", "language"))
        self.side = draw.choice(("left", "right"))
        names = [None, None, ["input_ids"], ["input_ids", "token_type_ids"], *([["x"]] if is_odd else [])]
        self.names = draw.choice(names)
        self.has_pad_token = not is_odd or draw.random() < 0.9
        self.multiple = draw.choice((None, None, 1, 4, 8, *((0,) if is_odd else ())))
        self.padding = draw.choice((True, True, "longest", "max_length", *((False,) if is_odd else ())))
        lengths = [12, 16, *([None, 6] if is_odd else [])] if self.padding == "max_length" else [None]
        self.max_length = draw.choice((*lengths, *((6,) if is_odd else ())))
        self.label_pad = draw.choice((-100, -100, 7))
        self.return_tensors = "np" if is_odd and draw.random() < 0.1 else "pt"
        self.is_masked = draw.random() < 0.5
        # The fraction of tokens to predict, and which fractions of these are masked and replaced by random tokens.
        self.shares = draw.choice(((0.15, 0.8, 0.1), (0.4, 0.8, 0.1), (0.3, 0.0, 1.0)))

    def made(self) -> Any:
        """Return a new instance of the collate function."""
        if self.name == "default":
            return transformers.default_data_collator
        if self.name == "Default":
            return transformers.DefaultDataCollator(return_tensors=self.return_tensors)
        more = {} if self.names is None else {"model_input_names": self.names}
        if not self.has_pad_token:
            more["pad_token"] = None
        given = {"pad_to_multiple_of": self.multiple, "return_tensors": self.return_tensors}
        tokens = tokenizer(self.side, **more)
        if self.name == "language":
            names = ("mlm_probability", "mask_replace_prob", "random_replace_prob")
            given |= dict(zip(names, self.shares, strict=True))
            return transformers.DataCollatorForLanguageModeling(tokens, mlm=self.is_masked, **given)
        given |= {"padding": self.padding, "max_length": self.max_length}
        if self.name == "padding":
            return transformers.DataCollatorWithPadding(tokens, **given)
        given["label_pad_token_id"] = self.label_pad
        if self.name == "tokens":
            return transformers.DataCollatorForTokenClassification(tokens, **given)
        return transformers.DataCollatorForSeq2Seq(tokens, **given)

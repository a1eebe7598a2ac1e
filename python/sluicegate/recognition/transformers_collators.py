"""Collate functions of `transformers`, and their effect on columns. Users configure, replace and patch them."""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_MODULE = "transformers.data.data_collator"
_TOKENIZERS = "transformers.tokenization_utils_base"

# By class: its methods that make a batch.
_METHODS = {
    "DefaultDataCollator": ("__call__",),
    "DataCollatorWithPadding": ("__call__",),
    "DataCollatorForTokenClassification": ("__call__", "torch_call"),
    "DataCollatorForSeq2Seq": ("__call__",),
    "DataCollatorForLanguageModeling": ("__call__", "torch_call"),
}
_FUNCTIONS = ("default_data_collator", "torch_default_data_collator", "pad_without_fast_tokenizer_warning")
_OF_TOKENIZER = ("pad", "_pad", "_get_padding_truncation_strategies")
_OF_BATCH = ("__init__", "convert_to_tensors")

_LABELS = ("label", "labels", "label_ids")


@dataclass(frozen=True)
class Padding:
    """How lists are padded: with `fill`, on the left or right, to a multiple of `multiple` or to `length`."""

    fill: int
    is_left: bool
    multiple: int
    length: int | None


@dataclass(frozen=True)
class Part:
    """One tensor of a batch.

    Attributes:
        key: its key.
        column: the column that it is made from.
        padding: how the lists of integers in that column are padded; None if its values are stacked.
        are_ones: True if it has a one for each item of the lists.
        is_aligned: True if the lists must have the same lengths as those of the tokens.
        takes: the values that the column may have: "any", "number", or "list" for lists without nested lists; the last
            two without bool.
    """

    key: str
    column: str
    padding: Padding | None = None
    are_ones: bool = False
    is_aligned: bool = False
    takes: str = "any"


@dataclass(frozen=True)
class Collator:
    """The behavior of a collate function, as it is configured.

    Attributes:
        name: the name of its class, or of the function.
        pads: by column: how `tokenizer.pad` pads it.
        tokens: the column of tokens; None if nothing is padded.
        makes_mask: True if `attention_mask` is made if it is missing.
        labels: how labels are padded by the collate function itself, if it does that.
        model: makes `decoder_input_ids` of labels.
        masks: True if it masks tokens that it draws from torch's global generator.
    """

    name: str
    pads: tuple[tuple[str, Padding], ...] = ()
    tokens: str | None = None
    makes_mask: bool = False
    labels: Padding | None = None
    model: Any = None
    masks: bool = False

    def parts(self, columns: Sequence[str], is_text: Callable[[str], bool]) -> list[Part] | str:
        """Return the tensors of a batch, in order, or a text that says why Python makes the batch.

        Args:
            columns: those of a sample.
            is_text: returns True if a column has texts.
        """
        if self.tokens is None:
            return _default_parts(columns, is_text)
        if self.tokens not in columns:
            return f"there is no column {self.tokens!r}"
        label = "label" if "label" in columns else "labels"
        left_out = label if self.labels is not None else None
        pads = dict(self.pads)
        parts = [
            Part(name, name, pads.get(name), is_aligned=name in pads and name != self.tokens)
            for name in columns
            if name != left_out
        ]
        if self.makes_mask and not any(part.key == "attention_mask" for part in parts):
            parts.append(Part("attention_mask", self.tokens, pads["attention_mask"], are_ones=True))
        several = sum(name in columns for name in _LABELS) > 1
        if several and self.name in ("DataCollatorWithPadding", "DataCollatorForSeq2Seq"):
            return "there are several columns of labels"
        if self.name == "DataCollatorWithPadding":
            renamed = [part for part in parts if part.key in ("label", "label_ids")]
            parts = [part for part in parts if part not in renamed]
            parts += [Part("labels", part.column) for part in renamed]
        elif self.name == "DataCollatorForLanguageModeling" and "offset_mapping" in columns:
            return "there is a column 'offset_mapping'"
        elif self.labels is not None and label in columns:
            is_of_tokens = self.name == "DataCollatorForTokenClassification"
            parts.append(Part(label if is_of_tokens else "labels", label, self.labels, is_aligned=is_of_tokens))
        return parts

    def masked(self, collate: Any, batch: Any) -> Any:
        """Return `batch` with the masks that `collate`, the collate function, draws for it."""
        special = batch.pop("special_tokens_mask", None)
        drawn = collate.torch_mask_tokens(batch["input_ids"], special_tokens_mask=special, offset_mapping=None)
        batch["input_ids"], batch["labels"] = drawn
        return batch

    def finish(self) -> Callable[[dict[str, Any]], Any] | None:
        """Return a function that makes a batch of its tensors by key; None if these are the batch, except for masks."""
        if self.tokens is None:
            return None
        encoding: Any = sys.modules[_TOKENIZERS].BatchEncoding
        if self.name == "DataCollatorForLanguageModeling" and not self.masks:
            pad_token_id = dict(self.pads)[self.tokens].fill

            def with_labels(batch: dict[str, Any]) -> Any:
                batch.pop("special_tokens_mask", None)
                tokens = batch["input_ids"]
                batch["labels"] = tokens.masked_fill(tokens == pad_token_id, -100)
                return encoding(batch)

            return with_labels
        if self.name == "DataCollatorForSeq2Seq":
            make = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)

            def with_decoder(batch: dict[str, Any]) -> Any:
                labels = batch.setdefault("labels", None)
                if make is not None and isinstance(labels, torch.Tensor):
                    batch["decoder_input_ids"] = make(labels=labels)
                return encoding(batch)

            return with_decoder
        made: Callable[[dict[str, Any]], Any] = encoding
        return made


def _default_parts(columns: Sequence[str], is_text: Callable[[str], bool]) -> list[Part] | str:
    label = next((name for name in ("label", "label_ids") if name in columns), None)
    if label is not None and "labels" in columns:
        return "there are several columns of labels"
    parts = [] if label is None else [Part("labels", label, takes="number" if label == "label" else "list")]
    parts += [Part(name, name) for name in columns if name not in ("label", "label_ids") and not is_text(name)]
    return parts or "there are only strings"


def collator_of(collate_fn: Any) -> Collator | str | None:
    """Return the behavior of `collate_fn`, or the reason why Python calls it; None if it is not from `transformers`."""
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        return None
    if collate_fn is getattr(module, "default_data_collator", None):
        name, is_function = "default_data_collator", True
    else:
        name, is_function = type(collate_fn).__name__, False
        if name not in _METHODS or type(collate_fn) is not getattr(module, name, None):
            return None
    if not is_function and any(method in vars(collate_fn) for method in _METHODS[name]):
        return f"{name} overrides methods, which Python calls"
    methods = [] if is_function else [getattr(type(collate_fn), method, None) for method in _METHODS[name]]
    if not _are_of(module, [getattr(module, function, None) for function in _FUNCTIONS] + methods):
        return f"{name} calls functions that were replaced"
    try:
        return Collator(name) if is_function else _configured(name, collate_fn)
    except Exception as error:  # Python raises it for the first batch.
        return f"{name} can't be inspected: {error}"


def copy_of(collate_fn: Any) -> Any:
    """Return a copy of a collate function of `transformers`, as a worker process has it: later changes have no effect.

    Its tokenizer is copied, too, except for its vocabulary, which can be large.
    """
    module: Any = sys.modules[_MODULE]
    if collate_fn is module.default_data_collator:
        return collate_fn
    twin = copy.copy(collate_fn)
    tokenizer = getattr(collate_fn, "tokenizer", None)
    if tokenizer is not None:
        twin.tokenizer = object.__new__(type(tokenizer))
        for name, value in vars(tokenizer).items():
            vars(twin.tokenizer)[name] = copy.copy(value) if type(value) in (dict, list) else value
    return twin


def _configured(name: str, collate: Any) -> Collator | str:
    if collate.return_tensors != "pt":
        return f"{name} has return_tensors={collate.return_tensors!r}"
    if name == "DefaultDataCollator":
        return Collator(name)
    if name == "DataCollatorForLanguageModeling":
        if type(collate.mlm) is not bool or (collate.mlm and collate.whole_word_mask):
            return f"{name} masks whole words"
        if collate.mlm and getattr(collate, "generator", collate) is not None:
            return f"{name} has a generator"
        if collate.seed is not None:
            return f"{name} has a seed"
    tokenizer: Any = collate.tokenizer
    if not _pads_plainly(tokenizer):
        return f"tokenizer {type(tokenizer).__name__} overrides padding"
    is_of_language = name == "DataCollatorForLanguageModeling"
    length = None if is_of_language else _length(collate.padding, collate.max_length)
    multiple = collate.pad_to_multiple_of
    if isinstance(length, str):
        return f"{name} has {length}"
    if multiple is not None and (type(multiple) is not int or not 0 < multiple < 2**31):
        return f"{name} has pad_to_multiple_of={multiple!r}"
    if tokenizer.pad_token is None or tokenizer.padding_side not in ("left", "right"):
        return f"tokenizer {type(tokenizer).__name__} has no padding token, or no side to pad on"
    names = list(tokenizer.model_input_names)
    tokens, makes_mask = names[0], "attention_mask" in names
    if tokens != "input_ids" and name in ("DataCollatorForLanguageModeling", "DataCollatorForTokenClassification"):
        return f"the first model input of the tokenizer is {tokens!r}"
    side = tokenizer.padding_side == "left"

    def padding(fill: Any) -> Padding:
        fill = operator.index(fill)
        if not -(2**63) <= fill < 2**63:
            raise ValueError(f"expected a fill of int64, but got {fill}")
        return Padding(fill, side, multiple or 1, length)

    fills = {"token_type_ids": tokenizer.pad_token_type_id, "special_tokens_mask": 1}
    fills |= {"attention_mask": 0} if makes_mask else {}
    if tokens in fills or operator.index(tokenizer.pad_token_id) < 0:
        return f"the first model input of the tokenizer is {tokens!r}, padded with {tokenizer.pad_token_id!r}"
    fills[tokens] = tokenizer.pad_token_id
    pads = tuple((column, padding(fill)) for column, fill in fills.items())
    pads_labels = name in ("DataCollatorForSeq2Seq", "DataCollatorForTokenClassification")
    labels = padding(collate.label_pad_token_id) if pads_labels else None
    model = collate.model if name == "DataCollatorForSeq2Seq" else None
    make = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if make is not None and not getattr(make, "__module__", "").startswith("transformers."):
        return f"{type(model).__name__} overrides how decoder_input_ids are made"
    masks = is_of_language and collate.mlm
    return Collator(name, pads, tokens, makes_mask, labels, None if make is None else model, masks)


def _length(padding: Any, max_length: Any) -> int | str | None:
    """Return the length that lists are padded to.

    None means that of the longest list; a text is the reason why only Python can do it.
    """
    strategy: Any = sys.modules[_TOKENIZERS].PaddingStrategy
    if (padding is True and max_length is None) or (padding is not True and padding == strategy.LONGEST):
        return None
    if padding is not False and padding == strategy.MAX_LENGTH and type(max_length) is int and 0 < max_length < 2**31:
        return max_length
    return f"padding={padding!r} and max_length={max_length!r}"


def _pads_plainly(tokenizer: Any) -> bool:
    """Return True if `tokenizer` pads as most do: some classes have special columns, such as boxes."""
    module: Any = sys.modules[_TOKENIZERS]
    base, cls = module.PreTrainedTokenizerBase, type(tokenizer)
    return (
        isinstance(tokenizer, base)
        and not any(name in vars(tokenizer) for name in _OF_TOKENIZER)
        and all(getattr(cls, name) is getattr(base, name) for name in _OF_TOKENIZER)
        and _are_of(module, [getattr(base, name) for name in _OF_TOKENIZER])
        and _are_of(module, [getattr(module.BatchEncoding, name) for name in _OF_BATCH])
    )


def _are_of(module: Any, functions: Sequence[Any]) -> bool:
    """Return True if all are functions that `module` defines: users may replace them with their own."""
    return all(getattr(function, "__globals__", None) is vars(module) for function in functions)

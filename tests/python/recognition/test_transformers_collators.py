"""Collate functions of `transformers` with Hugging Face's tables: run in the core if no difference can be observed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch.utils.data
from torch.utils.data import Subset

import sluicegate
from checks.equality import assert_same, outcome_of
from checks.programs import Run

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
transformers = pytest.importorskip("transformers")
collators = pytest.importorskip("cases.collators")

tokenizer = collators.tokenizer
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

ROWS = 37


def lists(row: int) -> list[int]:
    return [(row * 7 + place) % 60 for place in range(row % 9 + (row % 3 == 0))]


def table(**more: Any) -> Any:
    """Return rows as tokenizers return them, without a format: Python lists, with the package's integer types."""
    tokens = [lists(row) for row in range(ROWS)]
    columns = {
        "label": [row % 3 for row in range(ROWS)],
        "input_ids": tokens,
        "token_type_ids": [[0] * len(each) for each in tokens],
        "attention_mask": [[1] * len(each) for each in tokens],
        **more,
    }
    of_tokens = {"input_ids": pa.int32(), "token_type_ids": pa.int8(), "attention_mask": pa.int8()}
    arrays = {
        name: pa.array(values, pa.list_(of_tokens[name]) if name in of_tokens else None)
        for name, values in columns.items()
        if values is not None
    }
    return datasets.Dataset(pa.table(arrays))


def stacked() -> Any:
    """Return rows of one length, for collate functions that do not pad."""
    return datasets.Dataset.from_dict(
        {
            "text": [f"{row}" for row in range(ROWS)],
            "input_ids": [[row, 1] for row in range(ROWS)],
            "label": [row / 3 for row in range(ROWS)],
            "x": [row % 2 == 0 for row in range(ROWS)],
        }
    )


def is_plain_dict(batch: Any) -> bool:
    return type(batch) is dict


def labeled(label: str = "labels") -> Any:
    return table(**{"label": None, label: [lists(row + 1) for row in range(ROWS)]})


def check_same(dataset: Any, collate_fn: Any, *, is_native: bool = True, **arguments: Any) -> None:
    """Assert that both loaders give the same batches, errors, and warnings."""
    for num_workers in (0, 2):
        given = {"batch_size": 8, "shuffle": True, "collate_fn": collate_fn, "num_workers": num_workers, **arguments}
        outcomes = []
        for loader_cls in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            torch.manual_seed(3)
            loader = loader_cls(dataset, **given)
            outcomes.append(outcome_of(lambda loader=loader: loader))
        assert (loader.explain().engine == "rust") is is_native, loader.explain()
        assert_same(outcomes[1].values, outcomes[0].values)
        assert type(outcomes[1].error) is type(outcomes[0].error)
        # A worker sends the content of a `BatchEncoding` without its other attributes.
        for ours, theirs in zip(outcomes[1].values, outcomes[0].values, strict=True) if num_workers == 0 else ():
            assert is_plain_dict(ours) or {**vars(ours), "data": None} == {**vars(theirs), "data": None}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("multiple", [None, 8])
def test_padded_batches_are_as_in_python(side: str, multiple: int | None) -> None:
    given = {"tokenizer": tokenizer(side), "pad_to_multiple_of": multiple}
    check_same(table(), transformers.DataCollatorWithPadding(**given))
    check_same(table().with_format("torch"), transformers.DataCollatorWithPadding(**given))
    check_same(labeled(), transformers.DataCollatorForSeq2Seq(**given))
    check_same(labeled("label").with_format("torch"), transformers.DataCollatorForSeq2Seq(**given))
    check_same(table(label=None), transformers.DataCollatorForSeq2Seq(**given))
    tags = [[1] * len(lists(row)) for row in range(ROWS)]
    check_same(table(label=None, labels=tags), transformers.DataCollatorForTokenClassification(**given))
    check_same(table(), transformers.DataCollatorForLanguageModeling(**given, mlm=False))


def test_values_are_stacked_as_in_python() -> None:
    for dataset in (stacked(), stacked().remove_columns("text").with_format("torch")):
        check_same(dataset, transformers.default_data_collator)
        check_same(dataset, transformers.DefaultDataCollator())


def test_rows_may_be_chosen() -> None:
    collate = transformers.DataCollatorWithPadding(tokenizer())
    check_same(table().select([5, 5, 1, 36, 20]), collate)
    check_same(table().shuffle(seed=2), collate)
    check_same(Subset(table(), [3, 1, 36]), collate)
    check_same(torch.utils.data.random_split(table(), [30, 7])[0], collate)
    check_same(table(), collate, batch_size=5, drop_last=True, shuffle=False, sampler=range(3, 20))


def test_the_mask_is_made_where_it_is_missing() -> None:
    check_same(table(attention_mask=None), transformers.DataCollatorWithPadding(tokenizer("left")))
    names = {"model_input_names": ["input_ids"]}
    check_same(table(attention_mask=None), transformers.DataCollatorWithPadding(tokenizer(**names)))
    # Python raises, because the tokenizer does not pad the mask.
    check_same(table(), transformers.DataCollatorWithPadding(tokenizer(**names)), is_native=False)


def test_lists_are_padded_to_a_length() -> None:
    collate = transformers.DataCollatorWithPadding(tokenizer(), padding="max_length", max_length=9)
    check_same(table(), collate)
    # Some rows are longer, which is Python's error.
    collate.max_length = 8
    check_same(table(), collate)
    collate.pad_to_multiple_of = 4
    check_same(table(), collate)


def test_decoder_inputs_are_made_by_a_model_of_the_package() -> None:
    small = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 64}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**small, decoder_start_token_id=0))
    check_same(labeled(), transformers.DataCollatorForSeq2Seq(tokenizer(), model=model))

    class Model:
        def prepare_decoder_input_ids_from_labels(self, labels: Any) -> Any:
            return labels + 1

    check_same(labeled(), transformers.DataCollatorForSeq2Seq(tokenizer(), model=Model()), is_native=False)


def test_a_change_of_the_tokenizer_is_seen() -> None:
    def batches(loader_cls: Any, num_workers: int) -> list[Any]:
        collate = transformers.DataCollatorWithPadding(tokenizer())
        more = {"persistent_workers": True} if num_workers else {}
        loader = loader_cls(table(), 8, collate_fn=collate, num_workers=num_workers, **more)
        seen = []
        for _ in range(2):
            for batch in loader:
                seen.append(batch)
                collate.tokenizer.padding_side = "left"
        return seen

    for num_workers in (0, 2):
        assert_same(batches(sluicegate.DataLoader, num_workers), batches(torch.utils.data.DataLoader, num_workers))


class Own(transformers.DataCollatorWithPadding):
    """A subclass, whose methods may do anything."""


def reason(dataset: Any, collate_fn: Any) -> str:
    check_same(dataset, collate_fn, is_native=False, num_workers=0)
    return sluicegate.DataLoader(dataset, collate_fn=collate_fn).explain().reason or ""


def test_explain_names_why_a_collate_function_runs_in_python() -> None:
    tokens = tokenizer()
    padded = functools.partial(transformers.DataCollatorWithPadding, tokens)
    texts = ["a"] * ROWS
    cases: list[tuple[Any, Any, str]] = [
        (table(), Own(tokens), "torch's default"),
        (table(), functools.partial(transformers.default_data_collator), "torch's default"),
        (table(), padded(return_tensors="np"), "return_tensors='np'"),
        (table(), padded(padding=False), "padding=False"),
        (table(text=texts), padded(), "'text'|nulls"),
        (table(label=[None, *range(ROWS - 1)]), padded(), "nulls"),
        (table(label=[1] * ROWS, labels=[0] * ROWS), padded(), "several"),
        (table(), transformers.DataCollatorForLanguageModeling(tokens, mlm=False, seed=1), "has a seed"),
        (table(), transformers.default_data_collator, "lists of different lengths"),
        (table(), transformers.DataCollatorWithPadding(tokenizer(pad_token=None)), "no padding token"),
        (table().with_format("numpy"), padded(), "format 'numpy'"),
        ([{"input_ids": [1]}] * 3, padded(), "dataset class list"),
    ]
    for dataset, collate_fn, words in cases:
        told = reason(dataset, collate_fn)
        assert any(each in told for each in words.split("|")), told


def test_collate_functions_with_replaced_methods_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*arguments: Any, **more: Any) -> Any:
            batch = function(*arguments, **more)
            batch["seen"] = torch.ones(1)
            return batch

        return called

    collate = transformers.DataCollatorWithPadding(tokenizer())
    for owner, name in (
        (transformers.PreTrainedTokenizerBase, "pad"),
        (sys.modules["transformers.data.data_collator"], "pad_without_fast_tokenizer_warning"),
        (transformers.DataCollatorWithPadding, "__call__"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, around(getattr(owner, name)))
            assert "overrides padding" in reason(table(), collate) or "replaced" in reason(table(), collate)
    check_same(table(), collate)
    collate.tokenizer.pad = around(collate.tokenizer.pad)
    assert "overrides padding" in reason(table(), collate)


def test_the_repr_of_a_loader_names_the_engine() -> None:
    collate = transformers.DataCollatorWithPadding(tokenizer())
    assert "rust" in repr(sluicegate.DataLoader(table(), collate_fn=collate))
    loader = sluicegate.DataLoader(table(text=["a"] * ROWS), collate_fn=collate)
    assert "nulls" in repr(loader)


@pytest.mark.parametrize("mask", [None, [[0] * len(lists(row)) for row in range(ROWS)]])
def test_masks_are_drawn_as_in_python(mask: Any) -> None:
    collate = transformers.DataCollatorForLanguageModeling(tokenizer(), mlm_probability=0.4)
    dataset = table(special_tokens_mask=mask)
    outcomes: list[list[Any]] = []
    for loader_cls in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        for num_workers in (0, 2):
            torch.manual_seed(4)
            loader = loader_cls(dataset, 8, shuffle=True, collate_fn=collate, num_workers=num_workers)
            outcomes.append([*loader, torch.get_rng_state(), *loader, torch.get_rng_state()])
            if loader_cls is sluicegate.DataLoader:
                assert loader.explain().engine == "rust"
    assert_same(outcomes[2:], outcomes[:2])
    assert "with a seed" in str(sluicegate.DataLoader(dataset, collate_fn=collate, seed=1).explain())
    before = torch.get_rng_state()
    assert sluicegate.DataLoader(dataset, collate_fn=collate).explain().engine == "rust"
    assert torch.equal(torch.get_rng_state(), before)
    collate.whole_word_mask = True
    assert "whole words" in str(sluicegate.DataLoader(dataset, collate_fn=collate).explain())


def test_workers_mask_with_the_tokenizer_that_they_have() -> None:
    def batches(loader_cls: Any) -> list[Any]:
        torch.manual_seed(4)
        collate = transformers.DataCollatorForLanguageModeling(tokenizer(), mlm_probability=0.9)
        loader = loader_cls(table(), 8, collate_fn=collate, num_workers=2, persistent_workers=True)
        seen = list(loader)
        collate.tokenizer.pad_token, collate.tokenizer.mask_token, collate.mlm_probability = "[CLS]", "5", 0.1
        return [*seen, *loader]

    assert_same(batches(sluicegate.DataLoader), batches(torch.utils.data.DataLoader))


def test_a_state_is_resumed() -> None:
    collate = transformers.DataCollatorWithPadding(tokenizer("left"))
    for num_workers in (0, 2):
        given = {"batch_size": 4, "shuffle": True, "seed": 5, "collate_fn": collate, "num_workers": num_workers}
        loader = sluicegate.DataLoader(table(), **given)
        iterator = iter(loader)
        taken = [next(iterator) for _ in range(3)]
        state = loader.state_dict()
        rest = list(iterator)
        again = sluicegate.DataLoader(table(), **given)
        again.load_state_dict(state)
        assert len(taken) == 3
        assert_same(list(again), rest)


def test_transformers_is_not_imported(run: Run) -> None:
    program = """
import datasets, sluicegate
table = datasets.Dataset.from_dict({"x": [1, 2]})
assert [each for each in sluicegate.DataLoader(table, collate_fn=list)] == [[{"x": 1}], [{"x": 2}]]
print(sluicegate.DataLoader(table, collate_fn=list))
assert "transformers" not in sys.modules
"""
    run(program, deadline=100.0).check()

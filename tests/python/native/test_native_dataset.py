"""`NativeDataset`: fields of each kind in samples and in batches, and the errors for invalid ones."""

from __future__ import annotations

import functools
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same, assert_same_outcome, outcome_of
from checks.formats import check_format
from sluicegate import _core
from sluicegate.native.dataset import Kind, NativeDataset, fill_bytes, native_format
from sluicegate.recognition.native_source import native_source

pytestmark = pytest.mark.slots


@native_format
class Ragged(NativeDataset):
    """Arrays of different lengths, as fields of each kind in one sample."""

    def __init__(self, samples: list[Any], kinds: list[Kind], dtype: str = "uint8") -> None:
        self.samples = samples
        self.wanted = kinds
        self.dtype = dtype
        self._open()

    def _open(self) -> None:
        arrays = [np.asarray(sample, dtype=self.dtype) for sample in self.samples]
        values = np.concatenate(arrays)
        strides = values.strides
        address = values.__array_interface__["data"][0]
        offsets = [0, *np.cumsum([len(array) for array in arrays]).tolist()]
        part = _core.Dataset.ragged(("x", self.dtype, address, values.shape, strides, values), offsets)
        names = [kind if isinstance(kind, str) else kind[0] for kind in self.wanted]
        core = _core.Dataset.stack([(name, part) for name in names])
        self._set_core(core, {name: place for place, name in enumerate(names)}, self.wanted)


def texts(values: list[bytes], *kinds: Kind) -> Ragged:
    return Ragged([list(value) for value in values], list(kinds))


TEXTS = ["a", "", "ö\n\0", "🦀" * 20, "x", "last"]


def test_bytes_and_texts_are_lists_in_a_batch() -> None:
    encoded = [text.encode() for text in TEXTS]
    dataset = texts(encoded, "bytes", "str", "path")
    check_format(dataset, [{"bytes": raw, "str": text, "path": text} for raw, text in zip(encoded, TEXTS, strict=True)])


def test_batches_equal_torchs_collation_of_the_samples() -> None:
    dataset = texts([text.encode() for text in TEXTS], "bytes", "str")
    batches = [list(loader(dataset, batch_size=4)) for loader in (torch.utils.data.DataLoader, sluicegate.DataLoader)]
    assert_same(*batches)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "bool"])
def test_ragged_and_padded_tensors(dtype: str) -> None:
    rows = [[1, 0, 1], [], [1], [0, 1], [1, 1, 1, 0]]
    dataset = Ragged(rows, ["ragged", ("padded", fill_bytes(1, dtype))], dtype)
    of = {"dtype": getattr(torch, dtype)}
    tensors = [torch.tensor(row, **of) for row in rows]
    check_format(dataset, [dict.fromkeys(("ragged", "padded"), tensor) for tensor in tensors])
    (batch,) = sluicegate.DataLoader(dataset, batch_size=3, sampler=[3, 1, 0])
    offsets = torch.tensor([0, 2, 2, 5])
    assert_same(batch["ragged"], {"values": torch.tensor([0, 1, 1, 0, 1], **of), "offsets": offsets})
    padded = torch.tensor([[0, 1, 1], [1, 1, 1], [1, 0, 1]], **of)
    assert_same(batch["padded"], {"values": padded, "lengths": torch.tensor([2, 0, 3])})


class Paired(Ragged):
    """A subclass that makes its own samples."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index)["ragged"][:1], index

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]


class Same(Ragged):
    """A subclass with the samples of its base."""


def test_only_samples_of_the_format_have_its_batches() -> None:
    rows = [[1, 0, 1], [4]]
    ragged = {"values": torch.tensor([1, 0, 1, 4]), "offsets": torch.tensor([0, 3, 4])}
    (batch,) = sluicegate.DataLoader(Same(rows, ["ragged"], "int64"), batch_size=2)
    assert_same(batch, {"ragged": ragged})
    (batch,) = sluicegate.DataLoader(Paired(rows, ["ragged"], "int64"), batch_size=2)
    assert_same(batch, [torch.tensor([[1], [4]]), torch.tensor([0, 1])])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_parts_have_their_batches_next_to_a_part_that_python_reads(num_workers: int) -> None:
    rows = Ragged([[1, 0, 1], [4]], ["ragged"], "int64")
    in_python = [10, 20, 30, 40]
    twice = torch.utils.data.ConcatDataset([rows, rows])
    ragged = {"ragged": {"values": torch.tensor([4, 1, 0, 1]), "offsets": torch.tensor([0, 1, 4])}}
    of_python = torch.tensor([20, 30])
    stacked: list[tuple[Any, Any]] = [
        (torch.utils.data.StackDataset(twice, in_python), [ragged, of_python]),
        (torch.utils.data.StackDataset(a=twice, b=in_python), {"a": ragged, "b": of_python}),
    ]
    for dataset, expected in stacked:
        assert native_source(dataset, in_worker=False) is None
        for each, sampler in ((dataset, [1, 2]), (torch.utils.data.Subset(dataset, [3, 1, 2]), [1, 2])):
            loader = sluicegate.DataLoader(each, batch_size=2, sampler=sampler, num_workers=num_workers)
            assert_same(list(loader), [expected])


def test_a_fill_has_the_bytes_of_its_data_type() -> None:
    assert fill_bytes(-1, "int16") == b"\xff\xff"
    assert fill_bytes(1.0, "bfloat16") == torch.ones(1, dtype=torch.bfloat16).view(torch.uint8).numpy().tobytes()
    dataset = Ragged([[1], [2, 3]], [("padded", fill_bytes(-100, "int64"))], "int64")
    (batch,) = sluicegate.DataLoader(dataset, batch_size=2)
    assert batch["padded"]["values"].tolist() == [[1, -100], [2, 3]]


OBJECTS: list[Any] = [
    {"a": 1, "b": 2.5, "c": "x", "d": {"e": [1, 2]}, "f": True},
    {"a": -(2**63), "b": 1e300, "c": "\u20ac\ud7ff", "d": {"e": [0, 7]}, "f": False},
    {"a": 2**63 - 1, "b": 0.1 + 0.2, "c": "\U0001f980\x00", "d": {"e": [-1, 3]}, "f": True},
    {"a": 0, "b": -0.0, "c": "", "d": {"e": [5, 6]}, "f": True},
    {"f": False, "d": {"e": [5, 6]}, "c": '\\/"\n', "b": 5e-324, "a": 1},
]


def test_json_is_collated_as_torch_collates_its_objects() -> None:
    dataset = texts([json.dumps(each).encode() for each in OBJECTS], "json")
    check_format(dataset, [{"json": each} for each in OBJECTS])
    batches = [list(loader(dataset, batch_size=3)) for loader in (torch.utils.data.DataLoader, sluicegate.DataLoader)]
    assert_same(*batches)


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a": 1, "b": "x"}', '{"b": "y", "a": 2}'],
        ['{"a": 1, "b": 3}', '{"a": 2}'],
        ['{"a": 1, "a": 2}', '{"a": 3, "a": 4}'],
        ['{"a": 1}', '{"a": 3, "a": 4}'],
        ['{"a": 1.5}', '{"a": 2}'],
        ['{"a": true}', '{"a": 2}'],
        ['{"a": 1}', '{"a": "x"}'],
        ['{"a": "x"}', '{"a": 1}'],
        ['{"a": null}', '{"a": null}'],
        ['{"a": 18446744073709551615}', '{"a": 1}'],
        ['{"a": [1, 2]}', '{"a": [1]}'],
        ['{"a": {"b": 1}}', '{"a": {"b": 2}}'],
        ['{"a": {"b": 1}}', '{"a": {"c": 2}}'],
        ['{"\\u0061": 1}', '{"a": 2}'],
        ["{}", "{}"],
        ['{"": 1}', '{"": 2}'],
        ["1", "2"],
        ['{"a": 1}', "2"],
    ],
)
def test_objects_are_collated_as_torch_collates_them_where_it_drops_no_keys(lines: list[str]) -> None:
    dataset = texts([line.encode() for line in lines], "json")
    expected, actual = (
        outcome_of(functools.partial(loader, dataset, batch_size=2))
        for loader in (torch.utils.data.DataLoader, sluicegate.DataLoader)
    )
    assert_same_outcome(actual, expected)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "null",
            " [1, 2.0, -3e5, 1E-7, true] ",
            '{"a": {}, "b": [[]], "a": 2}',
            '"\\u00e9\\ud83e\\udd80"',
            "18446744073709551615",
        ),
        *(
            "123456789.123456789",
            "0.1",
            "2.2250738585072014e-308",
            "9007199254740993.0",
            "179769313486231570e291",
            "1e400",
        ),
    ],
)
def test_json_is_parsed_as_python_parses_it(text: str) -> None:
    if text == "1e400":  # A number too large for a float: Python makes it infinite.
        with pytest.raises(ValueError, match="number out of range"):
            texts([text.encode()], "json")[0]
        return
    assert_same(texts([text.encode()], "json")[0]["json"], json.loads(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1,}', "trailing comma at line 1 column 9"),
        (b"", "EOF while parsing a value at line 1 column 0"),
        (b"1 2", "trailing characters"),
        (b'\n\n["a', "EOF while parsing a string at line 3 column 3"),
        (b'"\xff"', "invalid unicode code point"),
        (b"NaN", "expected value"),
        (b"[" * 100_000, "recursion limit exceeded at line 1 column 128"),
        (b'{"a":' * 100_000, "recursion limit exceeded"),
    ],
)
def test_invalid_json_is_an_error_that_names_the_sample_and_field(text: bytes, reason: str) -> None:
    dataset = texts([b"1", text], "json")
    with pytest.raises(ValueError, match=rf"sample 1, field `json\.x`: invalid JSON: .*{reason}"):
        dataset[1]
    iterator = iter(sluicegate.DataLoader(dataset, batch_size=1, num_workers=2))
    assert_same(next(iterator), {"json": torch.tensor([1])})
    with pytest.raises(ValueError, match=rf"sample 1, field `json\.x`: invalid JSON: .*{reason}"):
        next(iterator)
    assert list(iterator) == []


def test_objects_that_do_not_collate_raise_torchs_errors() -> None:
    for values, error in (([b'{"a": 1}', b"{}"], KeyError), ([b"null", b"null"], TypeError)):
        dataset = texts(values, "json")
        for loader_cls in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            with pytest.raises(error):
                next(iter(loader_cls(dataset, batch_size=2)))


def test_a_text_that_is_not_utf_8_names_sample_and_field() -> None:
    dataset = texts([b"fine", b"abc\xff", b"fine too"], "str")
    with pytest.raises(ValueError, match=r"sample 1, field `str\.x`: it is not UTF-8 text from byte 3 on"):
        dataset[1]
    iterator = iter(sluicegate.DataLoader(dataset, batch_size=1))
    assert next(iterator) == {"str": ["fine"]}
    with pytest.raises(ValueError, match=r"sample 1, field `str\.x`"):
        next(iterator)
    assert next(iterator) == {"str": ["fine too"]}


def test_a_sample_is_memory_of_its_own() -> None:
    dataset = Ragged([[1, 2], [3]], ["ragged"], "int64")
    first, again = dataset[0]["ragged"], dataset[0]["ragged"]
    first.fill_(9)
    assert again.tolist() == [1, 2]
    held = [dataset[0]["ragged"] for _ in range(100)]
    assert all(tensor.tolist() == [1, 2] for tensor in held)


def test_a_subclass_or_a_changed_method_is_a_python_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Ragged):
        def __getitem__(self, index: Any) -> Any:
            return index

        __getitems__ = None  # type: ignore[assignment]

    own = Own([[1], [2]], ["bytes"])
    assert native_source(own, in_worker=False) is None
    assert_same(list(sluicegate.DataLoader(own, batch_size=2)), [torch.tensor([0, 1])])
    dataset = Ragged([[1], [2]], ["bytes"])
    assert native_source(dataset, in_worker=False) is not None
    monkeypatch.setattr(Ragged, "__getitem__", lambda self, index: index)
    assert native_source(dataset, in_worker=False) is None


def test_attributes_of_a_dataset_are_pickled_and_open_files_are_not() -> None:
    dataset = Ragged([[1], [2]], ["bytes"])
    dataset.note = "mine"  # type: ignore[attr-defined]
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.note == "mine"
    assert copy.core is not dataset.core
    assert copy[1] == {"bytes": b"\x02"}


def test_unequal_kinds_are_not_concatenated_natively() -> None:
    parts = [Ragged([[1]], ["bytes"]), Ragged([[1]], ["str"])]
    assert native_source(torch.utils.data.ConcatDataset(parts), in_worker=False) is None


def test_unknown_field_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown field kind `jpeg`"):
        Ragged([[1]], ["jpeg"])
    for kind, dtype in (("tensor", "uint8"), ("number", "int64"), (("padded", b"1"), "int64"), ("str", "int8")):
        with pytest.raises(ValueError, match=r"is not of the kinds \["):
            Ragged([[1]], [kind], dtype)


def test_a_request_that_python_fetches_gives_the_same_batch() -> None:
    dataset = Ragged([[1, 2], [3], []], ["ragged", ("padded", b"\0")])
    batches = [
        list(sluicegate.DataLoader(dataset, sampler=sampler, batch_size=2))
        for sampler in ([2, 0, 1], [np.int64(2), np.int64(0), np.int64(1)])
    ]
    assert_same(*batches)

"""Hugging Face's datasets: read by the core if the samples are the same, and by Python otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate.recognition.hugging_face
from checks.equality import assert_same
from sluicegate.recognition.native_source import native_source

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")

ROWS = 50


def columns(rows: int = ROWS) -> dict[str, Any]:
    return {
        "label": [row % 3 for row in range(rows)],
        "x": [row / 7 for row in range(rows)],
        "is_odd": [row % 2 == 1 for row in range(rows)],
        "text": [f"é{row}" + "\0" * (row % 3) for row in range(rows)],
        "raw": [bytes([row, 0, row])[: row % 4] for row in range(rows)],
        "tokens": [[row, row + 1, row + 2] for row in range(rows)],
        "matrix": [[[row / 3], [0.25]] for row in range(rows)],
        "inner": [{"n": row, "s": f"{row}\0", "deep": {"f": row / 3, "l": [row, 1]}} for row in range(rows)],
    }


def features(**more: Any) -> Any:
    value = datasets.Value
    return datasets.Features(
        {
            "label": datasets.ClassLabel(names=["a", "b", "c"]),
            "x": value("float64"),
            "is_odd": value("bool"),
            "text": value("string"),
            "raw": value("binary"),
            "tokens": datasets.Sequence(value("int32")),
            "matrix": datasets.Array2D((2, 1), "float64"),
            "inner": {
                "n": value("int16"),
                "s": value("string"),
                "deep": {"f": value("float32"), "l": [value("int64")]},
            },
            **more,
        }
    )


@pytest.fixture
def dataset() -> Any:
    return datasets.Dataset.from_dict(columns(), features=features()).with_format("torch")


def is_native(dataset: Any) -> bool:
    return native_source(dataset, in_worker=False) is not None


def check_same(dataset: Any, **arguments: Any) -> None:
    """Assert that both loaders give the same batches, or fail the same way."""
    outcomes: list[Any] = []
    for loader_cls in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        torch.manual_seed(3)
        loader = loader_cls(dataset, **{"batch_size": 7, **arguments})
        try:
            outcomes.append(list(loader))
        except Exception as error:
            outcomes.append((type(error), str(error)[:60]))
    assert_same(outcomes[1], outcomes[0])


def test_a_table_without_a_format_says_how_to_get_one() -> None:
    table = datasets.Dataset.from_dict({"x": [1, 2]})
    explanation = sluicegate.DataLoader(table).explain()
    assert explanation.reason == "Dataset has no format, so its samples are Python objects"
    assert explanation.remedy == 'use dataset.with_format("torch")'
    assert sluicegate.DataLoader(table.with_format("torch")).explain().engine == "rust"


def test_every_feature_is_as_torchs_loader_gives_it(dataset: Any) -> None:
    assert is_native(dataset)
    for arguments in ({}, {"shuffle": True}, {"num_workers": 2}, {"batch_size": 1}, {"drop_last": True}):
        check_same(dataset, **arguments)


@pytest.mark.parametrize(
    "dtype",
    [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)), "int64", "float16", "float32", "float64"],
)
def test_numbers_become_int64_or_float32(dtype: str) -> None:
    if dtype.startswith("float"):
        some = np.random.default_rng(1).normal(size=200) * 1e-4
        numbers: Any = np.concatenate([some, [np.inf, 0, -0.0, 6e-8, 65504]])
    else:
        numbers = np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max])
    table = pa.table({"n": pa.array(numbers.astype(dtype)), "l": pa.array(list(numbers.astype(dtype)[:, None]))})
    dataset = datasets.Dataset(table).with_format("torch")
    assert is_native(dataset)
    check_same(dataset)


@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")
@pytest.mark.parametrize(
    "change",
    [
        lambda dataset: dataset.shuffle(seed=1),
        lambda dataset: dataset.select([4, 4, 0, 49, 7]),
        lambda dataset: dataset.select(range(10, 30)),
        lambda dataset: dataset.filter(lambda sample: bool(sample["label"] == 1)),
        lambda dataset: dataset.sort("label"),
        lambda dataset: dataset.shard(3, 1),
        lambda dataset: dataset.remove_columns(["text", "matrix"]),
        lambda dataset: dataset.rename_column("x", "y"),
        lambda dataset: datasets.concatenate_datasets([dataset, dataset.select(range(5))]),
        lambda dataset: datasets.concatenate_datasets(
            [dataset, dataset.select_columns(["x"]).rename_column("x", "y")], axis=1
        ).with_format("torch"),
        lambda dataset: dataset.with_format("torch", columns=["tokens", "label"]),
        lambda dataset: dataset.with_format("torch", columns=["x"]).shuffle(seed=2),
        lambda dataset: dataset.map(lambda sample: {"y": sample["x"] * 2}),
        lambda dataset: dataset.train_test_split(0.2, seed=1)["train"],
        lambda dataset: torch.utils.data.Subset(dataset, [3, 1, 9]),
        lambda dataset: torch.utils.data.ConcatDataset([dataset, dataset.select([1])]),
    ],
)
def test_common_changes_of_a_table_are_still_read_natively(dataset: Any, change: Callable[[Any], Any]) -> None:
    changed = change(dataset)
    assert is_native(changed)
    check_same(changed)
    check_same(changed, shuffle=True, batch_size=4)


def test_tables_loaded_from_disk_are_read_natively(tmp_path: Path, dataset: Any) -> None:
    dataset.save_to_disk(tmp_path / "saved", num_shards=3)
    loaded = datasets.load_from_disk(tmp_path / "saved").with_format("torch")
    assert loaded.cache_files
    assert is_native(loaded)
    check_same(loaded, shuffle=True)
    # The same files, read without the package.
    paths = sorted(str(path) for path in (tmp_path / "saved").glob("*.arrow"))
    whole = sluicegate.ArrowDataset(paths, columns=["text", "tokens"])
    assert [whole[row]["text"] for row in range(ROWS)] == columns()["text"]


@pytest.mark.parametrize(
    "values",
    [
        {"n": [1, None, 3]},
        {"s": ["a", None]},
        {"l": [[1], [2, 3]]},
        {"l": [[], []]},
        {"l": [[1, None], [2, 3]]},
        {"l": [["a"], ["b", "c"]]},
        {"l": [[], ["b"]]},
        {"l": [["a"], ["b"], None]},
        {"l": [["a"], [None]]},
        {"l": [[["a"], ["b"]], [["a"], ["b", "c"]]]},
        {"l": [[{"a": 1}], [{"a": 2}, {"a": 3}]]},
        {"l": [[{"a": 1}], [{"a": None}]]},
        {"l": [[{"a": 1}], [None]]},
        {"l": [[{"a": ["x"]}], [{"a": []}]]},
        {"l": [[str(n) for n in range(300)]] * 2},
        {"i": [{"a": 1}, None]},
        {"n": [None, None]},
        {"t": np.array(["2020-01-01", "2021-01-01"], "datetime64[s]")},
        {"n": np.array([1, 2**63], "uint64")},
    ],
)
def test_tables_that_the_core_cannot_read_are_read_in_python(values: dict[str, Any]) -> None:
    dataset = datasets.Dataset.from_dict(values).with_format("torch")
    assert not is_native(dataset)
    for batch_size in (1, 2):
        check_same(dataset, batch_size=batch_size)


MESSAGES: dict[str, Any] = {
    "texts": lambda row: [f"{row}\0", "é"],
    "bytes": lambda row: [bytes([row, 0])] * 3,
    "one": lambda row: [str(row)],
    "lists": lambda row: [[f"{row}", "b"], ["c", ""], ["d", f"{row}"]],
    "chat": lambda row: [{"role": "user", "content": f"{row}\0" * (row % 3)}, {"role": "model", "content": "ok"}],
    "numbers": lambda row: [{"n": row, "f": row / 3, "b": row % 2 == 0, "l": [row, 1], "m": [[row / 7], [0.5]]}] * 2,
    "deep": lambda row: [{"a": {"b": [{"c": ["x", str(row)], "n": row}] * 2}, "d": [[{"e": f"{row}"}]]}],
    "struct": lambda row: {"texts": ["a", f"{row}"], "items": [{"n": row, "raw": b"a\0"}]},
}


@pytest.mark.parametrize("name", MESSAGES)
def test_lists_of_texts_and_of_structs(name: str) -> None:
    dataset = datasets.Dataset.from_dict({"x": [MESSAGES[name](row) for row in range(ROWS)], "n": range(ROWS)})
    dataset = dataset.with_format("torch")
    for changed in (dataset, dataset.shuffle(seed=1), dataset.select(range(11, 40)), dataset.select([3, 3, 0])):
        assert is_native(changed)
        check_same(changed, shuffle=True, batch_size=20)
    check_same(dataset.select([7, 1]), batch_size=1, num_workers=int(name == "deep"))


def test_lists_of_every_type_and_from_files(tmp_path: Path) -> None:
    value, chat = datasets.Value, MESSAGES["chat"]
    of = datasets.Features(
        {
            "fixed": datasets.List(value("string"), length=2),
            "large": datasets.LargeList({"s": value("large_string"), "n": value("uint8")}),
            "names": datasets.Sequence({"s": value("string"), "n": value("int8")}),
            "chat": [{"role": value("string"), "content": value("string")}],
            "labels": [{"label": datasets.ClassLabel(names=["a", "b"])}],
        }
    )
    rows = [
        {
            "fixed": [f"{row}", "b"],
            "large": [{"s": f"{row}", "n": row}] * 2,
            "names": {"s": [f"{row}", "x"], "n": [row, 1]},
            "chat": chat(row),
            "labels": [{"label": row % 2}],
        }
        for row in range(ROWS)
    ]
    dataset = datasets.Dataset.from_list(rows, features=of)
    dataset.save_to_disk(tmp_path / "saved", num_shards=3)
    loaded = datasets.load_from_disk(tmp_path / "saved").with_format("torch")
    both = datasets.concatenate_datasets([loaded, loaded.select(range(7))])
    for changed in (loaded, both, loaded.select_columns(["chat"]), torch.utils.data.ConcatDataset([loaded, loaded])):
        assert is_native(changed)
        check_same(changed, shuffle=True)
    # With lists of different lengths, torch's default collate function decides.
    longer = datasets.Dataset.from_list([rows[0] | {"chat": chat(1) * 2}], features=of)
    mixed = datasets.concatenate_datasets([dataset, longer]).with_format("torch")
    assert not is_native(mixed)
    check_same(mixed)
    check_same(loaded, collate_fn=lambda samples: [sample["chat"] for sample in samples])


def test_fields_of_items_are_bounded_and_columns_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sluicegate.recognition.hugging_face, "_MOST_FIELDS", 4)
    columns: dict[str, Any] = {f"c{n}": [n, n + 1] for n in range(6)}
    for items, expected in ((2, True), (3, False)):
        columns["l"] = [[["a", "b"]] * items] * 2
        assert is_native(datasets.Dataset.from_dict(columns).with_format("torch")) == expected


def test_images_in_lists_are_pythons() -> None:
    image = pytest.importorskip("PIL.Image")
    images = [[{"i": image.fromarray(np.full((2, 3, 3), row, np.uint8))}] for row in range(4)]
    features = datasets.Features({"l": [{"i": datasets.Image()}]})
    assert not is_native(datasets.Dataset.from_dict({"l": images}, features=features).with_format("torch"))


def test_other_formats_and_transforms_are_pythons(dataset: Any) -> None:
    others = [
        dataset.with_format(None),
        dataset.with_format("numpy"),
        dataset.with_format("torch", dtype=torch.float64, columns=["x"]),
        dataset.with_format("torch", columns=["x"], output_all_columns=True),
        dataset.with_transform(lambda batch: {"y": batch["label"]}),
        dataset.select([]),
    ]
    for other in others:
        assert not is_native(other)
    assert is_native(dataset.with_format("torch", output_all_columns=True))
    check_same(others[3].remove_columns(["raw", "matrix"]))
    check_same(others[4])


def test_subclasses_and_patched_methods_are_read_in_python(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(datasets.Dataset):  # type: ignore[misc]
        def __getitems__(self, keys: list[int]) -> list[Any]:
            return keys

    own = Own(dataset.data, info=dataset.info).with_format("torch")
    assert not is_native(own)
    monkeypatch.setattr(datasets.Dataset, "__getitems__", lambda self, keys: keys)
    assert not is_native(dataset)
    check_same(dataset)


def test_the_format_may_change_between_epochs_and_within(dataset: Any) -> None:
    dataset = dataset.select_columns(["x", "label"])
    loader = sluicegate.DataLoader(dataset, batch_size=10)
    assert list(next(iter(loader))) == ["x", "label"]
    iterator = iter(loader)
    next(iterator)
    dataset.set_format("torch", columns=["label"])
    assert list(next(iterator)) == ["label"]
    dataset.set_format(None)
    assert list(next(iter(loader))) == ["x", "label"]
    assert not is_native(dataset)


@pytest.mark.parametrize("loader_cls", [torch.utils.data.DataLoader, sluicegate.DataLoader])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_keep_the_format_that_they_began_with(dataset: Any, loader_cls: Any, persistent: bool) -> None:
    dataset = dataset.select_columns(["x", "label"])
    loader = loader_cls(dataset, batch_size=10, num_workers=2, persistent_workers=persistent)
    iterator = iter(loader)
    next(iterator)
    dataset.set_format("torch", columns=["label"])
    assert [list(batch) for batch in iterator] == [["x", "label"]] * 4
    assert list(next(iter(loader))) == (["x", "label"] if persistent else ["label"])


def test_a_different_default_dtype_of_torch_is_read_in_python(dataset: Any) -> None:
    assert is_native(dataset)
    try:
        torch.set_default_dtype(torch.float64)
        assert not is_native(dataset)
        check_same(dataset)
    finally:
        torch.set_default_dtype(torch.float32)


def test_image_columns_are_read_in_python() -> None:
    image = pytest.importorskip("PIL.Image")
    images = [image.fromarray(np.full((2, 3, 3), row, np.uint8)) for row in range(4)]
    dataset = datasets.Dataset.from_dict({"i": images}, features=datasets.Features({"i": datasets.Image()}))
    assert not is_native(dataset.with_format("torch"))


@pytest.mark.parametrize("is_shuffled", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_a_streams_epochs_after_one_that_was_resumed_are_whole(arguments: dict[str, Any], is_shuffled: bool) -> None:
    def made() -> Any:
        # More samples than are between two states that a shuffle buffer takes.
        stream = datasets.Dataset.from_dict({"i": list(range(40))}).to_iterable_dataset()
        return sluicegate.DataLoader(sluicegate.ShuffleBuffer(stream, 2, 5) if is_shuffled else stream, 8, **arguments)

    def epochs(loader: Any, count: int) -> list[list[list[int]]]:
        return [[batch["i"].tolist() for batch in loader] for _ in range(count)]

    whole = epochs(made(), 3)
    for stop in range(1, 6):
        first = made()
        iterator = iter(first)
        for _ in range(stop):
            next(iterator)
        resumed = made()
        resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert epochs(resumed, 3) == [whole[0][stop:], *whole[1:]]
    # An epoch that was resumed and then left.
    resumed = made()
    resumed.load_state_dict(first.state_dict())
    for _ in resumed:
        break
    assert epochs(resumed, 2) == whole[1:]


def test_a_streams_state_goes_to_a_loader_of_the_same_stream() -> None:
    stream = datasets.Dataset.from_dict({"i": list(range(8))}).to_iterable_dataset()
    loader = sluicegate.DataLoader(stream, 2)
    for _ in loader:
        break
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    del iterator
    again = sluicegate.DataLoader(stream, 2)
    again.load_state_dict(state)
    assert [[batch["i"].tolist() for batch in again] for _ in range(2)] == [
        [[2, 3], [4, 5], [6, 7]],
        [[0, 1], [2, 3], [4, 5], [6, 7]],
    ]


def test_a_position_is_resumed(dataset: Any) -> None:
    make = lambda: sluicegate.DataLoader(dataset, batch_size=7, shuffle=True, seed=5)  # noqa: E731
    whole = list(make())
    first = make()
    iterator = iter(first)
    next(iterator), next(iterator)
    resumed = make()
    resumed.load_state_dict(first.state_dict())
    assert_same(list(resumed), whole[2:])

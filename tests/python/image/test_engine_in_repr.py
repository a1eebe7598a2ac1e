"""The `repr` of datasets and streams with images names the engine, and the reason if it is not the Rust one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from torch.utils.data import ConcatDataset, StackDataset, Subset

from doubles.mds_files import written
from doubles.photographs import encoded, folder_of, photograph
from doubles.tar_files import put
from doubles.unknown_transforms import unknown
from sluicegate import (
    ArrowDataset,
    DataLoader,
    ImageField,
    ImageFolderDataset,
    JsonLinesDataset,
    MdsDataset,
    ParquetDataset,
    ShuffleBuffer,
    TarDataset,
    TarStream,
    shard_iterable,
)
from sluicegate import transforms as T
from sluicegate.loader.native_iterator import NativeIterator

FILES = [encoded(photograph(number, 50 + number, 44)) for number in range(4)]
FIXED = T.CenterCrop(20)
RANDOM = T.Compose([T.CenterCrop(20), T.RandomHorizontalFlip()])


# The transform, the end of `repr`, and the reason given by a loader with a seed.
WAYS: list[tuple[Any, str, str | None]] = [
    (FIXED, "decoded and transformed in Rust)", None),
    (RANDOM, "decoded and transformed in Rust)", None),
    (
        T.Compose([FIXED, unknown]),
        "decoded in Rust, transformed in Python from transform 2, `unknown`: not recognized)",
        "transform 2, `unknown`: not recognized",
    ),
    (
        None,
        "decoded in Rust, batches made in Python: images may have any size: end with a transform that gives them all "
        "one size)",
        "images may have any size: end with a transform that gives them all one size",
    ),
]


def tar(folder: Path) -> str:
    members = [(f"{number}.{name}", file) for number, file in enumerate(FILES) for name in ("jpg", "other")]
    return put(folder / "a.tar", members)


def of_tar(folder: Path, field: ImageField) -> Any:
    return TarDataset(tar(folder), {"jpg": field})


def of_stream(folder: Path, field: ImageField) -> Any:
    return TarStream(tar(folder), {"jpg": field})


def of_parquet(folder: Path, field: ImageField) -> Any:
    pyarrow.parquet.write_table(pa.table({"jpg": FILES}), folder / "a.parquet")
    return ParquetDataset(folder / "a.parquet", {"jpg": field})


def of_arrow(folder: Path, field: ImageField) -> Any:
    pyarrow.feather.write_feather(pa.table({"jpg": FILES}), folder / "a.arrow")
    return ArrowDataset(folder / "a.arrow", {"jpg": field})


def of_mds(folder: Path, field: ImageField) -> Any:
    return MdsDataset(written(folder / "mds", {"jpg": "bytes"}, [[{"jpg": file} for file in FILES]]), {"jpg": field})


def of_folder(folder: Path, field: ImageField) -> Any:
    return ImageFolderDataset(folder_of(folder / "images"), field.transform)


@pytest.mark.parametrize(("transform", "words", "reason"), WAYS)
@pytest.mark.parametrize("dataset_of", [of_tar, of_stream, of_parquet, of_arrow, of_mds, of_folder])
def test_the_engine_of_images_is_in_the_repr(
    tmp_path: Path, dataset_of: Any, transform: Any, words: str, reason: str | None
) -> None:
    dataset = dataset_of(tmp_path, ImageField(transform))
    assert repr(dataset).startswith(f"{type(dataset).__name__}(")
    assert repr(dataset).endswith(words if dataset_of is of_folder else f"`jpg` {words}")
    loader = DataLoader(dataset, seed=0)
    assert loader.explain().reason == loader.stats().explanation.reason == dataset.python_reason == reason
    assert (loader.explain().engine == "rust") == (reason is None)
    if dataset_of is not of_stream:
        assert isinstance(iter(loader), NativeIterator) == (reason is None)


@pytest.mark.parametrize("kind", [TarDataset, TarStream])
def test_other_reasons_for_python_are_named(tmp_path: Path, kind: Any) -> None:
    path, image = tar(tmp_path), ImageField(FIXED)
    if kind is TarStream:
        cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
            ({"jpg": image}, {"on_missing": "none"}, "a field may be missing"),
            ({"jpg": ImageField(RANDOM), "other": ImageField(RANDOM)}, {}, "`jpg` and `other` draw in turn"),
            ({"jpg": ImageField(FIXED, masks="other"), "other": ImageField()}, {}, "boxes or masks move"),
        ]
    else:
        cases = [
            ({"jpg": image}, {"on_missing": "none"}, "`jpg` may have no image"),
            ({"jpg": ImageField(FIXED, boxes="b"), "b": "json"}, {"on_missing": "none"}, "`jpg` may have no"),
            ({"jpg": ImageField(FIXED, masks="other"), "other": ImageField(mode="unchanged")}, {}, "channels of the"),
        ]
    for fields, options, reason in cases:
        dataset = kind(path, fields, **options)
        assert reason in dataset.python_reason
        assert repr(dataset).endswith(f", batches made in Python: {dataset.python_reason})")
        assert DataLoader(dataset).explain().reason == dataset.python_reason


def test_a_subclass_is_read_in_python(tmp_path: Path) -> None:
    class Own(TarDataset):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index)

    class Renamed(JsonLinesDataset):
        pass

    class Streamed(TarStream):
        def __iter__(self) -> Any:
            yield from super().__iter__()

    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    for dataset in (Own(tar(tmp_path)), Renamed(tmp_path / "a.jsonl"), Streamed(tar(tmp_path))):
        reason = dataset.python_reason
        assert reason is not None
        assert type(dataset).__name__ in reason
        assert repr(dataset).startswith(f"{type(dataset).__name__}(")
        assert repr(dataset).endswith(f"batches made in Python: {reason})")
        explanation = DataLoader(dataset, seed=0).explain()
        assert (explanation.engine, explanation.reason) == ("python", reason)
    assert repr(TarDataset(tar(tmp_path))).endswith("'other': 'bytes'})")


def test_a_random_transform_without_a_seed_is_named(tmp_path: Path) -> None:
    dataset = of_tar(tmp_path, ImageField(RANDOM))
    reason = "without a seed, Python draws the random values of transform 2, `RandomHorizontalFlip`"
    around: list[Any] = [Subset(dataset, [0, 2]), ConcatDataset([dataset, dataset]), StackDataset(a=dataset)]
    for each in (dataset, *around):
        loader = DataLoader(each)
        assert (loader.explain().reason, loader.explain().remedy) == (reason, "pass seed= to the loader")
        assert not isinstance(iter(loader), NativeIterator)
        assert DataLoader(each, seed=0).explain().engine == "rust"
        assert isinstance(iter(DataLoader(each, seed=0)), NativeIterator)


def test_streams_around_others(tmp_path: Path) -> None:
    plain, images = TarStream(tar(tmp_path)), of_stream(tmp_path, ImageField(FIXED))
    called = of_stream(tmp_path, ImageField(unknown))
    for stream, reason in (
        (ShuffleBuffer(plain, 4), None),
        (ShuffleBuffer(images, 4), "the files of images are held in Python"),
        (ShuffleBuffer(called, 4), "`unknown`: not recognized"),
        (ShuffleBuffer(plain, max_bytes=4), "max_bytes is given, so samples are weighed in Python"),
        (ShuffleBuffer(range(4), 4), "ShuffleBuffer over range is iterated in Python"),
        (ShuffleBuffer(shard_iterable(plain), 4), "ShuffleBuffer over ShardedIterable is iterated in Python"),
    ):
        explanation = DataLoader(stream).explain()
        assert (explanation.engine, explanation.reason or "")[: 2 if reason else 1] == (
            ("rust",) if reason is None else ("python", explanation.reason)
        )
        assert (reason or "") in (explanation.reason or "")
    assert repr(ShuffleBuffer(images, 4, 7)) == f"ShuffleBuffer({images!r}, size=4, seed=7)"
    assert repr(ShuffleBuffer([1], max_bytes=9)) == "ShuffleBuffer(<list>, max_bytes=9, seed=None)"
    assert repr(shard_iterable(called)) == f"ShardedIterable({called!r}, iterated in Python)"


def test_a_stream_that_is_not_collated_by_default(tmp_path: Path) -> None:
    stream = TarStream(tar(tmp_path))
    assert DataLoader(stream, collate_fn=list).explain().reason == "collate_fn is not torch's default"
    assert DataLoader(stream, batch_size=None).explain().engine == "python"

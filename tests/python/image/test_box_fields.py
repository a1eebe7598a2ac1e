"""Fields with a row per box: they lose the rows of boxes that a transform drops, or that is an error."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from doubles.mds_files import array, written
from doubles.photographs import encoded, photograph
from doubles.tar_files import npy, put
from sluicegate import (
    ArrowDataset,
    DataLoader,
    ImageField,
    MdsDataset,
    ParquetDataset,
    TarDataset,
    TarStream,
    decode_image,
)
from sluicegate import transforms as T

v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
pa = pytest.importorskip("pyarrow")

SAMPLES = 9


def boxes_of(number: int) -> np.ndarray[Any, Any]:
    """Return boxes, some of which are too small, and some outside a center crop."""
    generator = np.random.default_rng(number)
    start = generator.uniform(0, 60, (number % 6, 2))
    size = generator.uniform(0.2, 25, start.shape)
    return np.concatenate([start, start + size], 1).astype(np.float32)


def labels_of(number: int) -> np.ndarray[Any, Any]:
    return np.arange(100 * number, 100 * number + number % 6)


def names_of(number: int) -> list[str]:
    return [f"name {label}" for label in labels_of(number)]


def own(image: Any, target: Any) -> Any:
    """An unknown transform: the steps around it are called too."""
    return image, target


def pipeline(compose: Any = v2, **labels: Any) -> Any:
    """Return a pipeline that drops boxes of which a crop leaves less than a pixel."""
    return compose.Compose([v2.CenterCrop(40), v2.SanitizeBoundingBoxes(**labels)])


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "torchvision": lambda: pipeline(labels_getter=None),
    "default": lambda: pipeline(),
    "called": lambda: v2.Compose([own, pipeline(labels_getter=None)]),
    "ours": lambda: T.Compose([own, pipeline(labels_getter=None)]),
    "getter": lambda: v2.Compose([own, pipeline(labels_getter=lambda inputs: None)]),
}


def samples(number: int) -> dict[str, Any]:
    return {
        "jpg": encoded(photograph(number, 70, 70)),
        "box": boxes_of(number),
        "label": labels_of(number),
        "name": names_of(number),
    }


def make_tar(folder: Path) -> str:
    members: list[tuple[str, bytes]] = []
    for number in range(SAMPLES):
        sample = samples(number)
        members += [
            (f"{number}.jpg", sample["jpg"]),
            (f"{number}.box", npy(sample["box"])),
            (f"{number}.label", npy(sample["label"])),
            (f"{number}.name", json.dumps(sample["name"]).encode()),
        ]
    return put(folder / "a.tar", members)


def table() -> Any:
    columns = [samples(number) for number in range(SAMPLES)]
    return pa.table(
        {
            "jpg": pa.array([each["jpg"] for each in columns]),
            "box": pa.array([each["box"].tolist() for each in columns], pa.list_(pa.list_(pa.float32(), 4))),
            "label": pa.array([each["label"].tolist() for each in columns], pa.list_(pa.int64())),
            "name": pa.array([each["name"] for each in columns], pa.list_(pa.string())),
        }
    )


def dataset_of(kind: str, folder: Path, image: ImageField) -> Any:
    if kind in ("tar", "stream"):
        fields: dict[str, Any] = {"jpg": image, "box": ["npy"], "label": ["npy"], "name": "json"}
        return (TarDataset if kind == "tar" else TarStream)(make_tar(folder), fields)
    columns = {"jpg": image, "box": None, "label": None, "name": None}
    if kind == "mds":
        kinds = {"jpg": "bytes", "box": "ndarray:float32", "label": "ndarray:int64", "name": "json"}
        made = [samples(number) for number in range(SAMPLES)]
        for each in made:
            each |= {name: array(each[name], dtype=False, shape=True) for name in ("box", "label")}
            each["name"] = json.dumps(each["name"]).encode()
        return MdsDataset(written(folder / "mds", kinds, [made]), columns)
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table(), folder / "a.parquet")
        return ParquetDataset(folder / "a.parquet", columns)
    with pa.ipc.new_file(folder / "a.arrow", table().schema) as file:
        file.write_table(table())
    return ArrowDataset(folder / "a.arrow", columns)


def expected(number: int) -> list[int]:
    """Return the rows that torchvision keeps."""
    boxes = tv_tensors.BoundingBoxes(torch.from_numpy(boxes_of(number)), format="XYXY", canvas_size=(70, 70))
    target = {"boxes": boxes, "labels": torch.arange(len(boxes))}
    image = decode_image(encoded(photograph(number, 70, 70)))
    rows: list[int] = pipeline()(tv_tensors.Image(image), target)[1]["labels"].tolist()
    return rows


def test_the_transform_drops_some_or_all_boxes_of_some_samples() -> None:
    kept = [expected(number) for number in range(SAMPLES)]
    assert any(0 < len(rows) < number % 6 for number, rows in enumerate(kept))
    assert any(len(rows) == 0 < number % 6 for number, rows in enumerate(kept))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("kind", ["tar", "stream", "parquet", "arrow", "mds"])
def test_declared_fields_lose_the_rows_of_dropped_boxes(kind: str, name: str, tmp_path: Path) -> None:
    field = ImageField(TRANSFORMS[name](), boxes="box", box_fields=("label", "name"))
    dataset = dataset_of(kind, tmp_path, field)
    loaded = list(DataLoader(dataset, batch_size=None))
    assert len(loaded) == SAMPLES
    for number, sample in enumerate(loaded):
        rows = expected(number)
        assert len(sample["box"]) == len(rows)
        assert sample["label"].tolist() == labels_of(number)[rows].tolist()
        assert list(sample["name"]) == [names_of(number)[row] for row in rows]
    for options in ({}, {"num_workers": 1, "worker_type": "thread"}):
        (batch,) = DataLoader(dataset, batch_size=SAMPLES, collate_fn=dataset.collate, **options)
        kept = [expected(number) for number in range(SAMPLES)]
        assert batch["label"]["offsets"].tolist() == np.cumsum([0, *map(len, kept)]).tolist()
        assert torch.equal(batch["label"]["offsets"], batch["box"]["offsets"])
        labels = [labels_of(number)[rows].tolist() for number, rows in enumerate(kept)]
        assert batch["label"]["values"].tolist() == [label for each in labels for label in each]


def test_a_plain_transform_and_a_transform_of_ones_own(tmp_path: Path) -> None:
    """The dict that a transform gets has all of `box_fields`."""

    def second_half(image: Any, target: dict[str, Any]) -> Any:
        half = len(target["box"]) // 2
        return image, {name: value[half:] for name, value in target.items()}

    for transform in (second_half, v2.Lambda(lambda value: value)):
        field = ImageField(transform, boxes="box", box_fields=["label", "name"])
        for number, sample in enumerate(dataset_of("tar", tmp_path, field)):
            start = (number % 6) // 2 if transform is second_half else 0
            assert sample["label"].tolist() == labels_of(number)[start:].tolist()
            assert sample["name"] == names_of(number)[start:]


@pytest.mark.parametrize("kind", ["tar", "stream", "parquet", "arrow", "mds"])
@pytest.mark.parametrize("name", ["torchvision", "called"])
def test_an_undeclared_field_is_an_error_with_both_counts(kind: str, name: str, tmp_path: Path) -> None:
    image = ImageField(v2.Compose([own, v2.CenterCrop(40), v2.SanitizeBoundingBoxes(labels_getter=None)]), boxes="box")
    with pytest.raises(
        ValueError, match=r"number of boxes in 'box' from \d to \d, but 'label' .*box_fields=\['label', 'na"
    ):
        list(DataLoader(dataset_of(kind, tmp_path, image), batch_size=None))
    image = ImageField(image.transform, boxes="box", box_fields=())
    loaded = list(DataLoader(dataset_of(kind, tmp_path, image), batch_size=None))
    assert [len(sample["label"]) for sample in loaded] == [number % 6 for number in range(SAMPLES)]
    assert [len(sample["box"]) for sample in loaded] == [len(expected(number)) for number in range(SAMPLES)]


def test_dropped_boxes_without_box_fields_are_an_error_also_with_on_error_skip(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"jpg": ImageField(v2.Compose([own, pipeline(labels_getter=None)]), boxes="box")}
    fields |= {"box": ["npy"], "label": ["npy"]}
    with pytest.raises(ValueError, match="'label' still has"):
        list(TarStream(make_tar(tmp_path), fields, on_error="skip"))


def test_parts_of_structs_and_of_json(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    objects = [{"bbox": boxes_of(n).tolist(), "id": labels_of(n).tolist()} for n in range(SAMPLES)]
    kind = pa.struct([("bbox", pa.list_(pa.list_(pa.float32(), 4))), ("id", pa.list_(pa.int32()))])
    files = [encoded(photograph(number, 70, 70)) for number in range(SAMPLES)]
    pq.write_table(pa.table({"image": files, "objects": pa.array(objects, kind)}), tmp_path / "a.parquet")
    for transform in (pipeline(), v2.Compose([own, pipeline(labels_getter=None)])):
        field = ImageField(transform, boxes="objects.bbox", box_fields="objects.id")
        dataset = ParquetDataset(tmp_path / "a.parquet", {"image": field, "objects": None})
        for number in range(SAMPLES):
            assert dataset[number]["objects"]["id"].tolist() == labels_of(number)[expected(number)].tolist()
    other = json.dumps({"note": "a text", "labels": labels_of(5).tolist()}).encode()
    put(tmp_path / "b.tar", [("0.jpg", files[5]), ("0.box", npy(boxes_of(5))), ("0.json", other)])
    image = ImageField(v2.Compose([own, pipeline(labels_getter=None)]), boxes="box")
    with pytest.raises(ValueError, match=r"'json\.labels' still has 5 rows"):
        TarDataset(tmp_path / "b.tar", {"jpg": image, "box": ["npy"], "json": "json"})[0]


def test_masks_of_boxes_follow_and_one_of_the_image_is_not_dropped(tmp_path: Path) -> None:
    sizes = {"one": [[1.0, 1, 2, 2]], "three": [[1.0, 1, 2, 2], [20, 20, 40, 40], [22, 21, 44, 50]]}
    for name, boxes in sizes.items():
        planes = np.stack([np.full((70, 70), number, np.uint8) for number in range(len(boxes))])
        photo = photograph(1, 70, 70)
        members = [("0.jpg", encoded(photo)), ("0.box", npy(np.array(boxes, np.float32)))]
        members += [("0.mask", npy(planes)), ("0.seg.png", encoded(photo.convert("L"), "png"))]
        put(tmp_path / f"{name}.tar", members)
    for transform in (pipeline(labels_getter=None), v2.Compose([own, pipeline(labels_getter=None)])):
        image = ImageField(transform, boxes="box", masks="mask", box_fields=())
        fields = {"jpg": image, "box": ["npy"], "mask": ["npy"]}
        assert TarDataset(tmp_path / "one.tar", fields)[0]["mask"].shape == (0, 40, 40)
        assert TarDataset(tmp_path / "three.tar", fields)[0]["mask"][:, 0, 0].tolist() == [1, 2]
    image = ImageField(transform, boxes="box", masks="seg.png", box_fields=())
    fields = {"jpg": image, "box": ["npy"], "seg.png": ImageField(mode="L")}
    assert TarDataset(tmp_path / "three.tar", fields)[0]["seg.png"].shape == (1, 40, 40)
    with pytest.raises(ValueError, match=r"dropped the mask 'seg\.png' with the only box"):
        TarDataset(tmp_path / "one.tar", fields)[0]


def test_a_number_of_labels_that_is_not_that_of_boxes_is_an_error_wherever_it_is_read(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    rows = table().to_pylist()
    rows[5]["label"].append(0)
    pq.write_table(pa.Table.from_pylist(rows, table().schema), tmp_path / "a.parquet")
    image = ImageField(T.CenterCrop(40), boxes="box", box_fields="label")
    dataset = ParquetDataset(tmp_path / "a.parquet", {"jpg": image, "box": None, "label": None})
    for workers, native in ((0, True), (2, True), (0, False)):
        loader = DataLoader(dataset, batch_size=3, num_workers=workers, native=native)
        assert loader.explain().engine == ("rust" if native else "python")
        batches = iter(loader)
        next(batches)
        with pytest.raises(ValueError, match=r"a row for each box, but there are 5 boxes in .box. and 6 rows in"):
            next(batches)
    # Python also counts the rows of a list of texts.
    image = ImageField(T.CenterCrop(40), boxes="box", box_fields=["label", "name"])
    dataset = ParquetDataset(tmp_path / "a.parquet", {"jpg": image, "box": None, "label": None, "name": None})
    with pytest.raises(ValueError, match="expected a row for each box"):
        list(DataLoader(dataset, batch_size=3, collate_fn=list))


def test_box_fields_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = make_tar(tmp_path)
    fields: dict[str, Any] = {"box": ["npy"], "label": ["npy"], "name": "json"}
    with pytest.raises(ValueError, match=r"box_fields: expected one of the fields .*, but got 'class'"):
        TarDataset(path, {"jpg": ImageField(boxes="box", box_fields="class"), **fields})
    with pytest.raises(ValueError, match=r"box_fields: expected one of the fields .*, but got 'class'"):
        TarStream(path, {"jpg": ImageField(boxes="box", box_fields="class"), **fields})
    with pytest.raises(ValueError, match=r"box_fields: expected fields of boxes, \['box'\], but got 'b'"):
        ImageField(boxes="box", box_fields={"b": "label"})
    with pytest.raises(ValueError, match="expected a dict by field of boxes"):
        ImageField(boxes=["a", "b"], box_fields="label")
    with pytest.raises(ValueError, match="got 'box' twice"):
        TarDataset(path, {"jpg": ImageField(boxes="box", box_fields="box"), **fields})
    image = ImageField(boxes="box", box_fields="jpeg")
    with pytest.raises(ValueError, match="expected a row for each box, but 'jpeg' is an image"):
        TarDataset(path, {"jpg": image, **fields, "jpeg": "image"}, on_missing="none")
    field = ImageField(T.CenterCrop(40), boxes="b", box_fields="c")
    with pytest.raises(ValueError, match="there are 1 boxes in 'b' and 2 rows in 'c'"):
        field.decode_moved(encoded(photograph(1)), 0, [torch.ones(1, 4)], [], {"c": torch.zeros(2)})

    def first(image: Any, target: dict[str, Any]) -> Any:
        return image, {**target, "b": target["b"][:1]}

    field = ImageField(first, boxes="b", box_fields="c")
    with pytest.raises(ValueError, match="the transform left 1 boxes in 'b' and 2 rows in 'c'"):
        field.decode_moved(encoded(photograph(1)), 0, [torch.ones(2, 4)], [], {"c": torch.zeros(2)})


def test_box_fields_are_pickled_and_shown_in_repr() -> None:
    field = ImageField(boxes=["a", "b"], box_fields={"a": "c"})
    copied = pickle.loads(pickle.dumps(field))
    assert copied.box_fields == field.box_fields == {"a": ("c",), "b": ()}
    assert "box_fields" in repr(field)
    assert field.with_transform(None).box_fields == field.box_fields
    assert ImageField(boxes="a", box_fields="c").box_fields == {"a": ("c",)}


def test_fields_of_known_transforms_stay_as_they_are(tmp_path: Path) -> None:
    """Transforms that never drop boxes make whole batches in Rust, with or without `box_fields`."""
    steps = T.Compose([T.RandomCrop(40), T.RandomHorizontalFlip()])
    field = ImageField(steps, boxes="box", box_fields="label")
    declared = dataset_of("parquet", tmp_path, field)
    columns = {"jpg": ImageField(steps, boxes="box"), "box": None, "label": None, "name": None}
    plain = ParquetDataset(tmp_path / "a.parquet", columns)
    assert declared.is_native == plain.is_native
    assert_same(list(DataLoader(declared, batch_size=4, seed=1)), list(DataLoader(plain, batch_size=4, seed=1)))

"""Pipelines that the core runs in part: torchvision's values for boxes, masks, caches, streams, and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cases.annotated_images import SAMPLES, assert_as_torchvisions, dataset_of, marked
from cases.annotated_images import shard as shard
from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from doubles.tar_files import put
from doubles.unknown_transforms import unknown
from sluicegate import DataLoader, ImageField, TarDataset, TarStream
from sluicegate import transforms as T

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def pipeline(module: Any, place: int | None) -> Any:
    steps = [
        module.RandomHorizontalFlip(),
        module.RandomResizedCrop(48, antialias=True),
        module.ColorJitter(0.4),
        module.RandomVerticalFlip(),
        module.ToDtype(torch.float32, scale=True),
    ]
    return module.Compose(steps if place is None else [*steps[:place], unknown, *steps[place:]])


@pytest.mark.parametrize("place", [0, 1, 2, 5])
@pytest.mark.parametrize("module", [T, v2])
def test_places_move_as_torchvision_moves_them(shard: Path, module: Any, place: int) -> None:
    dataset = dataset_of(shard, pipeline(module, place))
    assert dataset.python_reason == f"transform {place + 1}, `unknown`: not recognized"
    for number in range(SAMPLES):
        torch.manual_seed(number)
        expected = pipeline(v2, None)(marked(number))
        state = torch.get_rng_state()
        torch.manual_seed(number)
        found = dataset[number]
        assert all(type(found[name]) is torch.Tensor for name in ("jpg", "box.npy", "seg.png"))
        assert_as_torchvisions(found, expected)
        assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("module", [T, v2])
def test_a_data_type_of_masks_is_torchvisions(shard: Path, module: Any) -> None:
    dataset = dataset_of(shard, module.Compose([module.CenterCrop(40), module.ConvertImageDtype(torch.float32)]))
    expected = v2.Compose([v2.CenterCrop(40), v2.ConvertImageDtype(torch.float32)])(marked(3))
    assert dataset[3]["seg.png"].dtype == expected["seg.png"].dtype == torch.float32
    assert dataset.python_reason == "transform 2, `ConvertImageDtype`: it changes the data type of boxes and masks, too"
    assert_as_torchvisions(dataset[3], expected)


def test_called_transforms_refuse_boxes_and_channels_last() -> None:
    with pytest.raises(ValueError, match="transform 1, `Lambda`: not recognized"):
        ImageField(v1.Compose([v1.Lambda(unknown)]), boxes="box")
    with pytest.raises(ValueError, match=r"channels: 'last' needs .* transform 2, `unknown`"):
        ImageField(T.Compose([T.CenterCrop(3), unknown]), channels="last")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    members = [
        (f"{number:04}.{name}", made)
        for number in range(9)
        for name, made in (("jpg", encoded(photograph(number, 50 + number, 44))), ("cls", str(number).encode()))
    ]
    return put(tmp_path_factory.mktemp("images") / "a.tar", members)


def fields(transform: Any, **more: Any) -> dict[str, Any]:
    return {"jpg": ImageField(transform, **more), "cls": int}


@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_streams_and_caches_have_the_same_images(path: str, place: int) -> None:
    def images(dataset: Any) -> list[torch.Tensor]:
        torch.manual_seed(3)
        return [sample["jpg"] for sample in dataset]

    whole = images(TarStream(path, fields(pipeline(T, None), exact=True)))
    for module in (T, v2):
        stream = TarStream(path, fields(pipeline(module, place), exact=True))
        assert stream.python_reason == f"transform {place + 1}, `unknown`: not recognized"
        cached = TarDataset(path, fields(pipeline(module, place), exact=True, cache="memory"))
        found = [images(stream), *(images(cached[each] for each in range(len(cached))) for _ in range(2))]
        for each in found:
            for one, other in zip(each, whole, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=3.1 / 255)
        assert_same(found[1], found[2])
    assert TarStream(path, fields(pipeline(T, None))).python_reason is None


@pytest.mark.parametrize("of", [TarStream, TarDataset])
@pytest.mark.parametrize("module", [T, v2])
def test_with_a_seed_images_are_the_same_in_every_worker(path: str, of: Any, module: Any) -> None:
    def images(place: int | None, **options: Any) -> dict[int, torch.Tensor]:
        loader = DataLoader(of(path, fields(pipeline(module, place), exact=True)), batch_size=2, seed=7, **options)
        return {
            number: image for batch in loader for number, image in zip(batch["cls"].tolist(), batch["jpg"], strict=True)
        }

    whole = images(None)
    for place in (0, 2):
        expected = images(place)
        for number, image in whole.items():
            torch.testing.assert_close(expected[number], image, rtol=0, atol=3.1 / 255)
        for options in ({"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}):
            found = images(place, **options)
            assert_same([found[number] for number in sorted(found)], [expected[number] for number in sorted(found)])
            assert len(found) == len(expected)

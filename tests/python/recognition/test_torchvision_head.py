"""Pipelines whose first transforms run in Rust, although Python calls a later one, or collates."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset, default_collate

import sluicegate
from checks import epochs
from checks.equality import assert_same

pytest.importorskip("torchvision")

from PIL import Image, ImageOps
from torchvision import transforms as v1
from torchvision.datasets import GTSRB, DatasetFolder, ImageFolder, INaturalist
from torchvision.datasets.folder import pil_loader
from torchvision.transforms import v2

from cases.image_folders import KINDS, damage, image_file, image_folder
from cases.image_lists import image_list, set_transforms
from sluicegate.recognition import torchvision_head
from sluicegate.recognition.torchvision_head import HeadDataset, with_native_heads

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
FLOATS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]


def noisy(image: Any) -> Any:
    """Draw from the three generators, between transforms that draw from torch's."""
    shift = int(torch.randint(9, ())) + random.randrange(9) + int(np.random.randint(9))
    if isinstance(image, torch.Tensor):
        return image + shift
    return image.point(lambda value: min(value + shift, 255))


def told(image: Any) -> torch.Tensor:
    """Return everything about the argument that other code can observe."""
    if isinstance(image, torch.Tensor):
        facts = [type(image).__name__, image.dtype, image.stride(), image.is_contiguous(), image.sum().item()]
    else:
        facts = [type(image).__name__, image.mode, image.size, sorted(image.info.items()), image.tobytes()]
        facts += [image.format, sorted(image.getexif().items())]
    return torch.tensor(list(repr(facts).encode()[:400].ljust(400)), dtype=torch.uint8)


PIPELINES: dict[str, Callable[[], Any]] = {
    "noise in the middle": lambda: v2.Compose([v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), noisy, *FLOATS]),
    "noise at the end": lambda: v2.Compose([v2.RandomResizedCrop(24), v2.RandomGrayscale(0.5), *FLOATS, noisy]),
    "noise at the end, v1": lambda: v1.Compose(
        [v1.Resize(30), v1.CenterCrop(24), v1.ToTensor(), v1.Normalize(MEAN, STD), noisy]
    ),
    "sizes that differ": lambda: v1.Compose([v1.Resize(30), noisy, v1.CenterCrop(24), v1.PILToTensor()]),
    "what is seen of an image": lambda: v1.Compose([v1.RandomCrop(18), told]),
    "of colors": lambda: v1.Compose([v1.RandomCrop(18), v1.RandomApply([v1.ColorJitter(0.4, 0.4)], p=0.5), told]),
    "of an image turned upright": lambda: v1.Compose([v1.Resize(30), ImageOps.exif_transpose, told]),
    "of a gray image": lambda: v1.Compose([v1.Grayscale(), v1.Resize((20, 22)), told]),
    "of a tensor": lambda: v1.Compose([v1.Resize((20, 22)), v1.ToTensor(), v1.Normalize(MEAN, STD), told]),
    "of bytes": lambda: v1.Compose([v1.Resize((20, 22)), v1.PILToTensor(), told]),
    "of floats": lambda: v1.Compose(
        [v1.Resize((20, 22)), v1.PILToTensor(), v1.ConvertImageDtype(torch.float32), v1.Normalize(MEAN, STD), told]
    ),
    "of a marked tensor": lambda: v2.Compose([v2.Resize((20, 22)), *FLOATS, told]),
    "of a tensor that was marked": lambda: v2.Compose([v2.Resize((20, 22)), *FLOATS, v2.ToPureTensor(), told]),
    "nested": lambda: v2.Compose([v2.Compose([v2.Resize(30), v2.RandomCrop(24)]), v2.Compose([noisy, *FLOATS])]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with every kind of image file, and photographs with Exif data."""
    draw = random.Random(0)
    (tmp_path / "cat").mkdir()
    (tmp_path / "dog").mkdir()
    for kind in KINDS:
        image_file(tmp_path / "cat" / kind, kind, draw, (draw.randint(20, 90), draw.randint(20, 90)))
    for number in range(9):
        exif = Image.Exif()
        exif[274] = number
        noise = np.random.default_rng(number).integers(0, 256, (40 + number, 60, 3), np.uint8)
        image = Image.fromarray(noise)
        image.save(tmp_path / "dog" / f"{number}.jpg", exif=exif, dpi=(72 + number, 72), icc_profile=b"profile")
    return tmp_path


def seen_by(*arguments: Any, **named: Any) -> list[Any]:
    """Return the result of `epochs.seen_by`, with all three generators seeded."""
    random.seed(5)
    np.random.seed(5)
    return epochs.seen_by(*arguments, **named)


def assert_as_torch(dataset: Any, **arguments: Any) -> list[Any]:
    """Assert that both loaders show the same, with the head in Rust, and return it."""
    arguments = {"batch_size": 4, **arguments}
    expected = seen_by(torch.utils.data.DataLoader, dataset, **arguments)
    assert "; Rust runs the transforms before number" in str(sluicegate.DataLoader(dataset, **arguments).explain())
    assert_same(seen_by(sluicegate.DataLoader, dataset, **arguments), expected)
    return expected


@pytest.mark.parametrize("name", PIPELINES)
def test_batches_are_those_of_torch(folder: Path, name: str) -> None:
    """Other code gets the arguments that torchvision passes, and draws the same numbers."""
    assert_as_torch(ImageFolder(str(folder), PIPELINES[name]()), shuffle=True)


def test_worker_processes_read_heads(folder: Path) -> None:
    dataset = ImageFolder(str(folder), PIPELINES["noise in the middle"]())
    for persistent in (False, True):
        assert_as_torch(dataset, shuffle=True, num_workers=2, persistent_workers=persistent)


def test_parts_of_datasets(folder: Path) -> None:
    first, second = (
        ImageFolder(str(folder), PIPELINES[name]()) for name in ("noise in the middle", "noise at the end")
    )
    subset = Subset(first, list(range(len(first) - 1, -1, -2)))
    both = ConcatDataset([Subset(subset, [3, 1, 2]), second])
    assert_as_torch(subset, shuffle=True)
    assert_as_torch(both, shuffle=True)
    assert both.datasets[1] is second
    assert subset.dataset is first


def negated(label: int) -> int:
    return -label


def test_a_dataset_that_calls_transforms_with_image_and_label(tmp_path: Path) -> None:
    """`Places365` calls `transforms`, which torchvision makes of `transform` and `target_transform`."""
    dataset, _ = image_list("Places365", tmp_path, random.Random(2), 10, ("jpeg", "gray jpeg"))
    for target_transform in (None, negated):
        set_transforms(dataset, PIPELINES["noise in the middle"](), target_transform)
        assert_as_torch(dataset, shuffle=True)


@pytest.mark.parametrize("change", ["indices", "dataset", "datasets"])
def test_changed_parts_of_datasets_are_seen_at_the_next_batch(folder: Path, change: str) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        first, second = (
            ImageFolder(str(folder), PIPELINES[name]()) for name in ("noise in the middle", "noise at the end")
        )
        dataset: Any = Subset(first, list(range(12)))
        if change == "datasets":
            dataset = ConcatDataset([first, second])

        def apply(number: int, dataset: Any = dataset, other: Any = second) -> None:
            if number == 1 and change == "datasets":
                dataset.datasets[0] = other
            elif number == 1:
                setattr(dataset, change, dataset.indices[::-1] if change == "indices" else other)

        seen.append(seen_by(kind, dataset, apply, batch_size=4))
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize(
    "pipeline",
    [
        v1.Compose([v1.RandAugment(), told]),
        v1.Compose([v1.RandomAdjustSharpness(2, p=0.3), told]),
        v1.Compose([v1.RandomCrop(50, pad_if_needed=True), told]),
        v2.Compose([v2.RandomApply([v2.Pad(1)], p=0.3), v2.CenterCrop(20), told]),
    ],
    ids=["policy", "sharpness", "padding", "optional"],
)
def test_metadata_of_an_image_is_kept_as_by_pillow(folder: Path, pipeline: Any) -> None:
    """Some transforms drop the metadata, for some of their draws or some sizes."""
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        seen.append(seen_by(kind, ImageFolder(str(folder / "dog" / ".."), pipeline), batch_size=4, shuffle=True))
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize("kinds", [("png", "jpeg"), ("jpeg", "jpeg")])
def test_marks_are_those_of_torchvision(tmp_path: Path, kinds: tuple[str, str]) -> None:
    """Even if Rust can't read any of the files that are compared."""
    (tmp_path / "a").mkdir()
    for number in range(9):
        noise = np.random.default_rng(number).integers(0, 256, (30, 30, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / "a" / f"{number}.img", kinds[number not in (0, 4, 8)])
    pipeline = v2.Compose([v2.CenterCrop(8), *FLOATS[:2], v1.Normalize(MEAN, STD), told])
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        dataset = DatasetFolder(str(tmp_path), pil_loader, (".img",), transform=pipeline)
        seen.append(seen_by(kind, dataset, batch_size=2))
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_images_that_stay_as_they_are_have_no_head(tmp_path: Path, num_workers: int) -> None:
    """Images of `INaturalist` without a loader stay gray, and are not converted to RGB."""
    folder = tmp_path / "2021_train_mini" / "00000_Animalia_a_b_c_d_e_f"
    folder.mkdir(parents=True)
    for number, (mode, kind) in enumerate([("L", "jpeg"), ("RGB", "png"), ("CMYK", "jpeg"), ("RGB", "jpeg")] * 2):
        noise = np.random.default_rng(number).integers(0, 256, (30, 30), np.uint8)
        Image.fromarray(noise).convert(mode).save(folder / f"{number}.jpg", kind)
    dataset = INaturalist(str(tmp_path), "2021_train_mini", transform=v1.Compose([v1.CenterCrop(8), told]))
    seen = [
        seen_by(kind, dataset, batch_size=2, num_workers=num_workers)
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader)
    ]
    assert_same(seen[1], seen[0])
    assert not any(isinstance(each, type) for each in seen[0])


def doubled(samples: list[Any]) -> Any:
    images, labels = default_collate(samples)
    return images * 2, labels, images.stride()


def test_a_collate_function_leaves_the_whole_pipeline_in_rust(folder: Path) -> None:
    floats = v1.Compose([v1.RandomResizedCrop(24), v1.ToTensor(), v1.Normalize(MEAN, STD)])
    assert_as_torch(ImageFolder(str(folder), floats), shuffle=True, collate_fn=doubled)
    marked = v2.Compose([v2.RandomResizedCrop(24), *FLOATS])
    assert_as_torch(ImageFolder(str(folder), marked), shuffle=True, collate_fn=doubled, num_workers=2)


@pytest.mark.parametrize("how", ["cut", None])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_damaged_files_fail_as_in_torch(tmp_path: Path, how: str | None, num_workers: int) -> None:
    paths = image_folder(tmp_path, random.Random(1), 22, tuple(KINDS)[:9])
    dataset = ImageFolder(str(tmp_path), PIPELINES["noise in the middle"]())
    for path in (paths[2], paths[13]):
        path.unlink() if how is None else damage(path, how)
    seen = assert_as_torch(dataset, num_workers=num_workers)
    assert sum(isinstance(each, type) for each in seen) == 4


def test_changes_are_seen_at_the_next_sample(folder: Path) -> None:
    """Changes of the dataset, of a transform in the head, and of functions that it calls."""
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        crop = v1.CenterCrop(24)
        dataset = ImageFolder(str(folder), v1.Compose([v1.Resize(30), crop, noisy, v1.ToTensor()]))

        def change(number: int, dataset: Any = dataset, crop: Any = crop) -> None:
            if number == 1:
                crop.size = (20, 20)
            if number == 2:
                dataset.samples = dataset.samples[::-1]
            if number == 3:
                dataset.transform = v1.Compose([v1.CenterCrop(12), told])
            if number == 4:
                dataset.target_transform = str

        seen.append(seen_by(kind, dataset, change, batch_size=4))
    assert_same(seen[1], seen[0])


def test_samples_with_a_seed(folder: Path) -> None:
    """Each sample draws from its seed; the batches are those of Python, also in worker processes."""
    dataset = ImageFolder(str(folder), PIPELINES["noise in the middle"]())
    seen = [
        seen_by(sluicegate.DataLoader, dataset, batch_size=4, seed=3, shuffle=True, native=native, num_workers=workers)
        for native, workers in ((False, 0), (True, 0), (True, 2))
    ]
    batches = [[each for each in one if isinstance(each, list)] for one in seen]
    assert_same(batches[1], batches[0])
    assert_same(batches[2], batches[0])


def test_resume_draws_the_same(folder: Path) -> None:
    dataset = ImageFolder(str(folder), PIPELINES["noise in the middle"]())
    for workers in (0, 2):
        loader = sluicegate.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers)
        torch.manual_seed(1)
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        rest = list(iterator)
        resumed = sluicegate.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers)
        torch.manual_seed(2)
        resumed.load_state_dict(state)
        assert_same(list(resumed), rest)


def recolored(path: str) -> Any:
    return ImageOps.invert(Image.open(path).convert("RGB"))


class Subclass(ImageFolder):
    """It may override anything."""


def test_pipelines_without_native_first_transforms_have_no_head(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def head(dataset: Any) -> Any:
        return with_native_heads(dataset)

    pipeline = PIPELINES["noise in the middle"]()
    known = ImageFolder(str(folder), pipeline)
    assert type(head(known)) is HeadDataset
    others: list[Any] = [
        [1, 2, 3],
        Subclass(str(folder), pipeline),
        ImageFolder(str(folder), pipeline, loader=recolored),
        ImageFolder(str(folder), v1.Compose([noisy, v1.CenterCrop(20)])),
        ImageFolder(str(folder), noisy),
        ImageFolder(str(folder)),
        Subset([1, 2, 3], [0]),
    ]
    for dataset in others:
        assert head(dataset) is dataset
    own_call = v1.Compose([v1.CenterCrop(20), noisy])
    monkeypatch.setattr(v1.CenterCrop, "forward", lambda self, image: image)
    hooked = ImageFolder(str(folder), own_call)
    assert head(hooked) is hooked


def test_native_false_and_threads_leave_it_to_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    run = torchvision_head._HeadLoader.__call__

    def counting(self: Any, path: Any) -> Any:
        runs.append(path)
        return run(self, path)

    monkeypatch.setattr(torchvision_head._HeadLoader, "__call__", counting)
    dataset = ImageFolder(str(folder), PIPELINES["noise in the middle"]())
    for arguments in ({"native": False}, {"worker_type": "thread", "num_workers": 2}):
        loader = sluicegate.DataLoader(dataset, batch_size=4, **arguments)
        assert len(list(loader)) > 0
        assert loader.explain().head == 0
    assert not runs
    loader = sluicegate.DataLoader(dataset, batch_size=4)
    list(loader)
    assert len(runs) == len(dataset)
    assert loader.explain().head == 2


def test_files_that_are_all_left_to_pillow_have_no_head(tmp_path: Path) -> None:
    image_folder(tmp_path / "png", random.Random(3), 8, ("png",))
    image_folder(tmp_path / "both", random.Random(3), 8, ("png", "jpeg"))
    pipeline = v1.Compose([v1.Resize((8, 8)), noisy, v1.ToTensor()])
    heads = [
        sluicegate.DataLoader(ImageFolder(str(tmp_path / name), pipeline)).explain().head for name in ("png", "both")
    ]
    assert heads == [0, 1]


def test_a_version_that_gives_other_values_is_left_to_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, middle, and last file are compared before the first batch is read."""
    from sluicegate.transforms import exact_head

    image = exact_head._pillow_image

    def lighter(*arguments: Any) -> Any:
        return image(*arguments).point(lambda value: min(value + 1, 255))

    monkeypatch.setattr(exact_head, "_pillow_image", lighter)
    dataset = ImageFolder(str(folder), PIPELINES["noise in the middle"]())
    assert with_native_heads(dataset) is dataset


def test_gtsrb_opens_files_itself() -> None:
    """It calls Pillow inside of `__getitem__` rather than a loader, so the head can't be inserted."""
    dataset = GTSRB.__new__(GTSRB)
    assert with_native_heads(dataset) is dataset

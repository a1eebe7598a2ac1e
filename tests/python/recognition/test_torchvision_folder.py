"""torchvision's `ImageFolder`: read by the core if no difference can be observed, with odd files left to Pillow."""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks import epochs
from checks.equality import assert_same
from checks.native import engine_of
from sluicegate import _core
from sluicegate.rng.global_generators import fastest_torch_access

pytest.importorskip("torchvision")

import torchvision
from PIL import Image
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder, INaturalist, VisionDataset
from torchvision.transforms import v2

from cases.image_folders import DAMAGES, KINDS, PLAIN_PNGS, damage, image_file, image_folder
from cases.image_lists import setting
from sluicegate.recognition import pillow_files

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

PNG_FILES = int(os.environ.get("SLUICEGATE_PNG_FILES", "400"))
PNG_SEED = int(os.environ.get("SLUICEGATE_PNG_SEED", "0"))
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

seen_by = functools.partial(epochs.seen_by, batch_size=4)
assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=4)


def random_pipeline() -> Any:
    floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose([v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), *floats])


def eval_pipeline() -> Any:
    return v1.Compose([v1.Resize(30), v1.CenterCrop(24), v1.ToTensor(), v1.Normalize(MEAN, STD)])


@pytest.mark.parametrize("make", [random_pipeline, eval_pipeline])
def test_every_kind_of_file_in_a_folder_matches_torch(
    tmp_path: Path, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the files that the core can't read exactly are left to Pillow."""
    draw = random.Random(0)
    (tmp_path / "cat").mkdir()
    for kind in KINDS:
        image_file(tmp_path / "cat" / kind, kind, draw, (draw.randint(20, 90), draw.randint(20, 90)))
    left: set[str] = set()
    decode = pillow_files._Pillow.decode

    def counting(self: Any, path: bytes) -> Any:
        left.add(Path(path.decode()).stem)
        return decode(self, path)

    monkeypatch.setattr(pillow_files._Pillow, "decode", counting)
    dataset = ImageFolder(str(tmp_path), transform=make())
    assert_as_torch(dataset, shuffle=True)
    assert_as_torch(dataset, num_workers=2)
    assert left == set(list(KINDS)[6:]) - set(PLAIN_PNGS)


@pytest.mark.parametrize("how", ["cut", None])
def test_threads_help_without_workers(tmp_path: Path, how: str | None) -> None:
    """As many threads as torch's operations may use; batches, errors, and draws do not depend on the number."""
    paths = image_folder(tmp_path, random.Random(4), 40, tuple(KINDS)[:9])
    if how is not None:
        damage(paths[21], how)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            assert_as_torch(ImageFolder(str(tmp_path), transform=random_pipeline()), batch_size=20)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_files_fail_as_in_torch(tmp_path: Path, how: str, num_workers: int) -> None:
    """Draws after an error are torch's, which does not draw for failed samples."""
    paths = image_folder(tmp_path, random.Random(how), 22, tuple(KINDS)[:9])
    for make in (random_pipeline, eval_pipeline):
        whole = ImageFolder(str(tmp_path), transform=make())
        kept = [path.read_bytes() for path in paths]
        for path in (paths[2], paths[13]):
            damage(path, how)
        seen = assert_as_torch(whole, num_workers=num_workers)
        assert sum(isinstance(each, type) for each in seen) == 4
        for path, encoded in zip(paths, kept, strict=True):
            path.write_bytes(encoded)


@pytest.mark.parametrize("where", ["a header", "a stray byte and a header", "the last scan"])
def test_jpeg_files_without_an_end_fail_as_in_torch(tmp_path: Path, where: str) -> None:
    """Even if the decoder first reports something harmless, or bytes like an end marker come earlier."""
    folder = tmp_path / "a"
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    for number in range(4):
        Image.fromarray(noise).save(folder / f"{number}.jpg", progressive=True)
    whole = (folder / "1.jpg").read_bytes()
    scan = whole.rindex(b"\xff\xda")
    damaged = {
        "a header": whole[:scan] + b"\xff\xe9\xff\xff" + whole[scan:],
        "a stray byte and a header": whole[:scan] + b"\x00\xff\xe9\xff\xff" + whole[scan:],
        "the last scan": whole[: scan + 12],
    }
    (folder / "1.jpg").write_bytes(damaged[where])
    transform = v1.Compose([v1.RandomCrop(8), v1.ToTensor()])
    seen = [
        seen_by(kind, ImageFolder(str(tmp_path), transform), batch_size=1)
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader)
    ]
    assert_same(seen[1], seen[0])
    assert sum(isinstance(each, type) for each in seen[0]) == 2


def test_damaged_files_of_an_epoch_that_was_left(tmp_path: Path) -> None:
    """Persistent workers have reached them, delivered or not, and drawn less."""
    paths = image_folder(tmp_path, random.Random(3), 24, ("jpeg",))
    dataset = ImageFolder(str(tmp_path), transform=random_pipeline())
    damage(paths[12], "cut")
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        torch.manual_seed(5)
        loader = kind(dataset, batch_size=2, num_workers=2, prefetch_factor=4, persistent_workers=True)
        batches = [next(iter(loader))]
        iterator = iter(loader)
        seen.append(batches + [next(iterator) for _ in range(2)])
        del iterator
    assert_same(seen[1], seen[0])


CHUNKS = [
    *((b"tRNS", b"\0\1"), (b"tRNS", b"\0\1\0\1\0\1"), (b"gAMA", b"\0\0\xb1\x8f"), (b"gAMA", b"\0"), (b"sRGB", b"")),
    *(
        (b"iCCP", b"x\0\0x"),
        (b"eXIf", b"MM\0*"),
        (b"zTXt", b"x\0\0x"),
        (b"tEXt", b""),
        (b"tEXt", b"\0\0"),
        (b"tEXt", b"a\0b"),
    ),
    *((b"IHDR", bytes(13)), (b"PLTE", bytes(9)), (b"PLTE", b""), (b"acTL", bytes(8)), (b"IDAT", b""), (b"IEND", b"")),
    *(
        (b"cHRM", bytes(32)),
        (b"cHRM", bytes(31)),
        (b"pHYs", bytes(9)),
        (b"pHYs", bytes(3)),
        (b"abCD", b"x"),
        (b"ABCD", b"x"),
    ),
]


def _changed(draw: random.Random, encoded: bytes) -> bytes:
    """Return a PNG file with an extra chunk, or changed bytes, with right or wrong checksums."""
    parts, at = [], 8
    while at < len(encoded):
        length = int.from_bytes(encoded[at : at + 4], "big")
        parts.append((encoded[at + 4 : at + 8], encoded[at + 8 : at + 8 + length]))
        at += 12 + length
    choice, place = draw.random(), draw.randrange(1, len(parts) + 1)
    if choice < 0.4:
        parts.insert(place, draw.choice(CHUNKS))
    elif choice < 0.5:
        parts.insert(place, parts[draw.randrange(len(parts))])
    elif choice < 0.6:
        parts.pop(place - 1)
    elif choice < 0.8:
        # Change the compressed pixels: cut, too many, broken, or split into several chunks.
        kind, data = next((part for part in parts if part[0] == b"IDAT"), parts[0])
        where = parts.index((kind, data))
        values = zlib.decompress(data)
        cut = draw.randrange(len(values))
        wbits = draw.choice((9, 12, 15))
        packed = zlib.compressobj(wbits=wbits)
        other = draw.choice((values[:cut], values + values[:cut], values[:cut] + b"\x07" + values[cut + 1 :], values))
        fresh = packed.compress(other) + packed.flush()
        fresh = draw.choice((fresh, fresh[:-1], fresh[:-4], fresh[:-1] + b"x", fresh + b"more"))
        middle = draw.randrange(len(fresh))
        parts[where : where + 1] = draw.choice(([(kind, fresh)], [(kind, fresh[:middle]), (kind, fresh[middle:])]))
    else:
        where = draw.randrange(len(parts))
        kind, data = parts[where]
        if data:
            at = draw.randrange(len(data))
            parts[where] = (kind, data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :])
    sums = [zlib.crc32(kind + data) ^ (draw.random() < 0.03) for kind, data in parts]
    chunks = [len(data).to_bytes(4, "big") + kind + data for kind, data in parts]
    whole = b"".join(chunk + each.to_bytes(4, "big") for chunk, each in zip(chunks, sums, strict=True))
    return encoded[:8] + whole[: draw.choice((None, None, None, -1, -4, -12))] + draw.choice((b"", b"", b"behind"))


@pytest.mark.parametrize("converts", [True, False])
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_damaged_and_odd_png_files_are_as_pillow_has_them(tmp_path: Path, converts: bool) -> None:
    """Each file is a batch by itself: its values, or the type of the error."""
    draw = random.Random(PNG_SEED)
    whole = [image_file(tmp_path / kind, kind, draw, (13, 17)).read_bytes() for kind in PLAIN_PNGS]
    samples = []
    for number in range(PNG_FILES):
        path = tmp_path / f"{number}.png"
        path.write_bytes(_changed(draw, draw.choice(whole)))
        samples.append((str(path), number))
    (tmp_path / "folder" / "class").mkdir(parents=True)
    (tmp_path / "folder" / "class" / "0.png").write_bytes(whole[0])
    dataset: Any = ImageFolder(str(tmp_path / "folder"), v1.Compose([v1.Resize((9, 9)), v1.ToTensor()]))
    dataset.samples = samples
    if not converts:
        dataset = INaturalist.__new__(INaturalist)
        VisionDataset.__init__(dataset, str(tmp_path), transform=v1.Compose([v1.Resize((9, 9)), v1.ToTensor()]))
        dataset.all_categories, dataset.target_type, dataset.loader = [""], ["full"], None
        dataset.index = [(0, f"{number}.png") for number in range(PNG_FILES)]
    seen = assert_as_torch(dataset, batch_size=1, epochs=1)
    assert any(isinstance(each, type) for each in seen)
    gc.collect()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_file_that_is_replaced_by_one_of_another_size(tmp_path: Path, num_workers: int) -> None:
    """The draws depend on the size, which is read again when the file is decoded."""
    paths = image_folder(tmp_path, random.Random(3), 12, ("jpeg",))
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        image_file(paths[5].with_suffix(""), "jpeg", random.Random(1), (60, 41))

        def replace(count: int) -> None:
            if count == 4:
                image_file(paths[5].with_suffix(""), "jpeg", random.Random(2), (33, 70))

        dataset = ImageFolder(str(tmp_path), transform=random_pipeline())
        seen.append(seen_by(kind, dataset, replace, num_workers=num_workers))
    assert_same(seen[1], seen[0])


def test_aspect_ratios_are_torchs_to_the_last_bit() -> None:
    """Torch decides the edges at which its rounding of an exponential matters, once in thousands of draws."""
    crop = v2.RandomResizedCrop(8, scale=(0.3, 1.0))
    arguments = {"size": [8, 8], "scale": [0.3, 1.0], "ratio": [3 / 4, 4 / 3], "interpolation": "bilinear"}
    arguments |= {"antialias": "pillow", "log_ratio": crop._log_ratio.tolist()}
    image = Image.new("RGB", (9000, 7000))
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    transforms = _core.ImageTransforms(json.dumps([{"RandomResizedCrop": arguments}]))
    for _ in range(2000):
        params = crop.make_params([image])
        cut, _ = json.loads(transforms.draw_json(7000, 9000, 3, "uint8", fastest_torch_access(generator)))
        assert cut["Crop"] == params


def _open(path: str) -> Image.Image:
    return Image.open(path).convert("RGB")


PYTHON: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "a loader": (eval_pipeline(), setting(loader=_open), "its loader is not torchvision's"),
    "a target_transform": (eval_pipeline(), setting(target_transform=str), "target_transform is called in Python"),
    "lists": (eval_pipeline(), setting(samples=[["a.jpg", 1]]), "samples are not all pairs"),
    "labels": (eval_pipeline(), setting(samples=[("a.jpg", "1")] * 2), "labels are not all of type int"),
    "two types": (eval_pipeline(), setting(samples=[("a.jpg", 1), ("b.jpg", 1.5)]), "labels are not all of type int"),
    "paths": (eval_pipeline(), setting(samples=[(b"a.jpg", 1)]), "paths are not all of type str or Path"),
    "no transform": (None, setting(), "samples are Pillow images"),
    "other filters": (
        v2.Compose([v2.Resize((9, 9), antialias=False), v2.ToImage()]),
        setting(),
        "transform 1, `Resize`: antialias=False",
    ),
    "several sizes": (v1.Compose([v1.Resize(9), v1.ToTensor()]), setting(), "images differ in shape"),
    "another transform": (
        v1.Compose([v1.Resize((9, 9)), v1.GaussianBlur(3), v1.ToTensor()]),
        setting(),
        "transform 2, `GaussianBlur`: its values or its draws may differ",
    ),
}


@pytest.mark.parametrize("name", PYTHON)
def test_explain_names_why_python_reads_an_image_folder(tmp_path: Path, name: str) -> None:
    transform, change, reason = PYTHON[name]
    image_folder(tmp_path, random.Random(3), 4)
    dataset = ImageFolder(str(tmp_path), transform=transform)
    change(dataset)
    explanation = sluicegate.DataLoader(dataset).explain()
    assert explanation.engine == "python"
    assert reason in str(explanation)


def test_settings_that_python_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_folder(tmp_path, random.Random(3), 4)
    dataset = ImageFolder(str(tmp_path), transform=random_pipeline())
    assert engine_of(dataset) == "rust"
    assert engine_of(dataset, in_order=False, num_workers=2) != "rust"
    assert engine_of(dataset, in_order=False, num_workers=2, seed=1) == "rust"
    for owner, name, value in (
        (torchvision, "_image_backend", "accimage"),
        (Image, "MAX_IMAGE_PIXELS", 100),
        (Image, "open", _open),
        (torchvision.datasets.folder, "pil_loader", _open),
        (Image.Image, "resize", lambda image, *_: image),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, value)
            assert engine_of(dataset) == "python", name
        assert engine_of(dataset) == "rust", name


@pytest.mark.parametrize("num_workers", [0, 2])
def test_changes_in_the_middle_of_an_epoch_are_seen_as_with_torch(tmp_path: Path, num_workers: int) -> None:
    image_folder(tmp_path, random.Random(3), 16, tuple(KINDS)[:9])
    changes: list[Callable[[Any], Any]] = [
        lambda dataset: dataset.samples.reverse(),
        lambda dataset: dataset.samples.__setitem__(10, (dataset.samples[0][0], 7)),
        lambda dataset: setattr(dataset.transform.transforms[0], "scale", (0.9, 1.0)),
        lambda dataset: setattr(dataset, "loader", _open),
    ]
    for change in changes:
        seen = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            dataset = ImageFolder(str(tmp_path), transform=random_pipeline())
            once = iter([change])
            seen.append(
                seen_by(
                    kind,
                    dataset,
                    lambda count, dataset=dataset, once=once: next(once)(dataset) if count == 2 else None,
                    num_workers=num_workers,
                )
            )
        assert_same(seen[1], seen[0])


@pytest.mark.parametrize("persistent", [False, True])
def test_relative_paths_are_those_of_the_folder_where_workers_began(
    tmp_path: Path, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, folder in enumerate(("here", "there")):
        image_folder(tmp_path / folder / "data", random.Random(number), 40, tuple(KINDS)[:9])
    seen = []
    for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
        monkeypatch.chdir(tmp_path / "here")
        dataset = ImageFolder("data", transform=random_pipeline())
        arguments = {"num_workers": 2, "persistent_workers": persistent}
        assert engine_of(dataset, **arguments) == "rust"
        seen.append(seen_by(kind, dataset, lambda count: os.chdir(tmp_path / "there"), **arguments))
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_with_a_seed_batches_are_those_that_python_makes(tmp_path: Path, num_workers: int) -> None:
    paths = image_folder(tmp_path, random.Random(3), 16, tuple(KINDS)[:9])
    native = ImageFolder(str(tmp_path), transform=random_pipeline())
    own = ImageFolder(str(tmp_path), transform=random_pipeline(), loader=_open)
    damage(paths[3], "text")
    given: dict[str, Any] = {"seed": 7, "num_workers": num_workers, "shuffle": True}
    assert engine_of(native, **given) == "rust"
    assert engine_of(own, **given) != "rust"
    assert_same(seen_by(sluicegate.DataLoader, native, **given), seen_by(sluicegate.DataLoader, own, **given))

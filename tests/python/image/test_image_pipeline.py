"""Images that are decoded and transformed in one pass: equal to torchvision's, and however they are fetched."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, StackDataset, Subset

import sluicegate
from checks.equality import assert_same
from checks.formats import Plain
from doubles.photographs import InPython, encoded, folder_of, photograph
from sluicegate import DataLoader, ImageField, ImageFolderDataset, TarDataset, decode_image
from sluicegate import transforms as T
from sluicegate.loader.native_iterator import NativeIterator

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def training(module: Any = T) -> Any:
    """Return the usual training transforms of a module."""
    return module.Compose(
        [
            module.RandomResizedCrop(32, antialias=True),
            module.RandomHorizontalFlip(),
            module.ToDtype(torch.float32, scale=True),
            module.Normalize(MEAN, STD),
        ]
    )


def evaluation(module: Any = T) -> Any:
    """Return the usual evaluation transforms of a module."""
    return module.Compose([module.Resize(40, antialias=True), module.CenterCrop(32)])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("images"))


def batches(dataset: Any, **options: Any) -> list[Any]:
    loader = DataLoader(dataset, batch_size=5, **options)
    return list(loader)


def is_read_natively(dataset: Any, **options: Any) -> bool:
    return isinstance(iter(DataLoader(dataset, **options)), NativeIterator)


def test_with_a_seed_images_are_equal_whoever_fetches_them(root: Path) -> None:
    native, python = ImageFolderDataset(root, training()), InPython(root, training())
    assert is_read_natively(native, seed=7)
    assert not is_read_natively(python, seed=7)
    expected = batches(python, seed=7, shuffle=True)
    for dataset, options in [
        (native, {}),
        (native, {"num_workers": 2}),
        (python, {"num_workers": 2}),
        (python, {"num_workers": 2, "worker_type": "thread"}),
        (pickle.loads(pickle.dumps(native)), {}),
    ]:
        assert_same(batches(dataset, seed=7, shuffle=True, **options), expected)
    assert not torch.equal(batches(native, seed=8)[0][0], batches(native, seed=7)[0][0])


def test_each_epoch_and_index_draws_its_own(root: Path) -> None:
    loader = DataLoader(ImageFolderDataset(root, training()), batch_size=4, seed=7)
    first, second = next(iter(loader))[0], next(iter(loader))[0]
    assert not torch.equal(first, second)
    again = DataLoader(InPython(root, training()), batch_size=4, seed=7)
    assert_same(next(iter(again))[0], first)
    assert_same(next(iter(again))[0], second)


def test_resumed_epochs_yield_the_remaining_images(root: Path) -> None:
    dataset = ImageFolderDataset(root, training())
    expected = batches(dataset, seed=7, shuffle=True)
    for position in range(len(expected)):
        loader = DataLoader(dataset, batch_size=5, seed=7, shuffle=True, num_workers=1)
        iterator = iter(loader)
        for _ in range(position):
            next(iterator)
        other = DataLoader(InPython(root, training()), batch_size=5, seed=7, shuffle=True)
        other.load_state_dict(loader.state_dict())
        assert_same(list(other), expected[position:])


def test_without_a_seed_random_transforms_draw_in_torchs_order(root: Path) -> None:
    dataset = ImageFolderDataset(root, training())
    assert not is_read_natively(dataset)
    torch.manual_seed(3)
    expected = list(torch.utils.data.DataLoader(dataset, batch_size=5, shuffle=True))
    state = torch.get_rng_state()
    torch.manual_seed(3)
    assert_same(batches(dataset, shuffle=True), expected)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(3)
    with_workers = list(torch.utils.data.DataLoader(dataset, batch_size=5, shuffle=True, num_workers=2))
    torch.manual_seed(3)
    assert_same(batches(dataset, shuffle=True, num_workers=2), with_workers)


def test_deterministic_transforms_are_read_natively_without_a_seed(root: Path) -> None:
    dataset = ImageFolderDataset(root, evaluation())
    assert is_read_natively(dataset)
    expected = list(torch.utils.data.DataLoader(dataset, batch_size=5))
    assert_same(batches(dataset), expected)
    assert_same(batches(dataset, num_workers=2), expected)


@pytest.mark.parametrize("of", ["subset", "concat", "stack", "nested"])
def test_combinators_pass_the_draws_on(root: Path, of: str) -> None:
    def made(kind: type[ImageFolderDataset]) -> Any:
        dataset = kind(root, training())
        return {
            "subset": lambda: Subset(dataset, [5, 2, 2, 19]),
            "concat": lambda: ConcatDataset([dataset, dataset]),
            "stack": lambda: StackDataset(image=dataset, number=torch.arange(len(dataset))),
            "nested": lambda: Subset(ConcatDataset([dataset, Subset(dataset, range(3, 9))]), [1, 28, 1, 25]),
        }[of]()

    native, python = made(ImageFolderDataset), made(InPython)
    assert is_read_natively(native, seed=7)
    assert_same(batches(native, seed=7, num_workers=1), batches(python, seed=7))


def test_two_random_parts_side_by_side_are_drawn_in_python(root: Path) -> None:
    parts = StackDataset(ImageFolderDataset(root, training()), ImageFolderDataset(root, training()))
    assert not is_read_natively(parts, seed=7)
    images = batches(parts, seed=7)[0]
    assert not torch.equal(images[0][0], images[1][0])


def test_crops_and_values_are_torchvisions(root: Path) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for pipeline in (training, evaluation):
        for module in (T, v2):
            dataset = ImageFolderDataset(root, pipeline(module), exact=True)
            assert dataset.is_native
            for index in range(0, len(dataset), 3):
                with Image.open(dataset.samples[index][0]) as image:
                    torch.manual_seed(index)
                    expected = pipeline(v2)(v2.functional.pil_to_tensor(image.convert("RGB")))
                state = torch.get_rng_state()
                torch.manual_seed(index)
                found = dataset[index][0]
                assert torch.equal(torch.get_rng_state(), state)
                assert found.dtype == expected.dtype
                assert found.shape == expected.shape
                # One gray level.
                most = 1 if found.dtype == torch.uint8 else 1.01 / 255 / min(STD)
                assert (found.double() - expected.double()).abs().max() <= most


def test_parts_of_a_jpeg_are_those_of_the_whole_one(tmp_path: Path) -> None:
    for subsampling in (0, 1, 2):
        data = encoded(photograph(1, 201, 157), quality=85, subsampling=subsampling)
        for progressive in (False, True):
            data = encoded(photograph(1, 201, 157), quality=85, subsampling=subsampling, progressive=progressive)
            whole = decode_image(data)
            for seed in range(20):
                torch.manual_seed(seed)
                height, width = torch.randint(1, 150, ()).item(), torch.randint(1, 200, ()).item()
                torch.manual_seed(seed + 1000)
                part = ImageField(T.RandomCrop((height, width))).decode(data)
                torch.manual_seed(seed + 1000)
                assert torch.equal(part, T.RandomCrop((height, width))(whole))


def test_smaller_scales_differ_little(root: Path) -> None:
    data = encoded(photograph(5, 640, 480), quality=92)
    for size in (30, 100, 200):
        exact = ImageField(T.Resize((size, size)), exact=True).decode(data)
        least = ImageField(T.Resize((size, size))).decode(data)
        assert not torch.equal(exact, least)
        assert (exact.float() - least.float()).abs().mean() < 2


def test_channels_may_come_last(root: Path) -> None:
    first = ImageFolderDataset(root, evaluation())
    last = ImageFolderDataset(root, evaluation(), channels="last")
    assert_same(last[3][0].permute(2, 0, 1).contiguous(), first[3][0])
    assert_same(
        next(iter(DataLoader(last, batch_size=4)))[0].permute(0, 3, 1, 2).contiguous(), batches(first)[0][0][:4]
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_images_may_be_of_any_float(root: Path, dtype: torch.dtype) -> None:
    made = T.Compose([T.CenterCrop(24), T.ToDtype(dtype, scale=True)])
    images, _ = batches(ImageFolderDataset(root, made))[0]
    single = T.Compose([T.CenterCrop(24), T.ToDtype(torch.float32, scale=True)])
    expected, _ = batches(ImageFolderDataset(root, single))[0]
    assert_same(images, expected.to(dtype))


def test_transforms_may_be_set_again(root: Path) -> None:
    dataset = ImageFolderDataset(root)
    assert not dataset.is_native
    dataset.transform = evaluation()
    assert is_read_natively(dataset)
    assert dataset[0][0].shape == (3, 32, 32)
    dataset.target_transform = lambda label: label + 10
    assert not is_read_natively(dataset)
    assert dataset[0][1] == 10


def test_an_unknown_transform_is_called(root: Path) -> None:
    dataset = ImageFolderDataset(root, lambda image: image[:, :8, :8].float().mean())
    assert not dataset.is_native
    expected = [decode_image(path)[:, :8, :8].float().mean() for path, _ in dataset.samples[:5]]
    assert_same(batches(dataset)[0][0], torch.stack(expected))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_is_named(tmp_path: Path, workers: int) -> None:
    root = folder_of(tmp_path, 6)
    (root / "class1" / "001.jpg").write_bytes(encoded(photograph(1))[:-300])
    (root / "class1" / "004.jpg").write_bytes(b"no image")
    dataset = ImageFolderDataset(root, T.CenterCrop(16))
    loader = iter(DataLoader(dataset, batch_size=1, num_workers=workers))
    said = []
    for _ in range(6):
        try:
            next(loader)
        except ValueError as error:
            said.append(str(error))
    assert len(said) == 2
    assert "class1/001.jpg" in said[0]
    assert "the image is truncated" in said[0]
    assert "class1/004.jpg" in said[1]
    assert "begins with no image" in said[1]
    filled = ImageFolderDataset(root, T.CenterCrop(16), truncated="fill")
    assert filled[2][0].shape == (3, 16, 16)


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as shard:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            shard.addfile(member, io.BytesIO(data))
    return path


def test_images_in_tar_shards(tmp_path: Path) -> None:
    images = [encoded(photograph(number, 60 + number, 50)) for number in range(7)]
    members = {
        f"{number}.{name}": data
        for number, image in enumerate(images)
        for name, data in (("jpg", image), ("cls", str(number).encode()))
    }
    path = archive(tmp_path / "a.tar", members)
    plain = TarDataset(path, fields={"jpg": "image", "cls": int})
    assert not plain.is_native
    assert_same(plain[3]["jpg"], decode_image(images[3]))
    assert plain[3]["cls"] == 3
    dataset = TarDataset(path, fields={"jpg": ImageField(training()), "cls": int})
    assert is_read_natively(dataset, seed=7)
    assert not is_read_natively(dataset)
    expected = list(DataLoader(Plain(dataset), batch_size=3, seed=7))
    assert_same(batches_of_three(dataset), expected)
    assert_same(batches_of_three(dataset, num_workers=2), expected)
    assert_same(batches_of_three(pickle.loads(pickle.dumps(dataset))), expected)
    assert repr(dataset[0]["__key__"]) == "'0'"


def batches_of_three(dataset: Any, **options: Any) -> list[Any]:
    return list(DataLoader(dataset, batch_size=3, seed=7, **options))


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", {"x/1.jpg": encoded(photograph(1)), "x/2.jpg": b"no image"})
    dataset = TarDataset(path, fields={"jpg": ImageField(T.CenterCrop(8))})
    for fetch in (lambda: dataset[1], lambda: list(DataLoader(dataset, batch_size=2))):
        with pytest.raises(ValueError, match=r"a\.tar.*x/2\.jpg.*begins with no image"):
            fetch()


def test_images_in_columns(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    images = [encoded(photograph(number, 60 + number, 50), "png") for number in range(7)]
    files = arrow.array([{"bytes": image, "path": None} for image in images])
    parquet.write_table(arrow.table({"image": files, "raw": images, "label": list(range(7))}), tmp_path / "a.parquet")
    for column in ("image", "raw"):
        plain = sluicegate.ParquetDataset(tmp_path / "a.parquet", {column: "image", "label": None})
        assert list(plain[2]) == [column, "label"]
        assert_same(plain[2][column], decode_image(images[2]))
        dataset = sluicegate.ParquetDataset(tmp_path / "a.parquet", {column: ImageField(training()), "label": None})
        assert is_read_natively(dataset, seed=7)
        expected = list(DataLoader(Plain(dataset), batch_size=3, seed=7))
        assert_same(batches_of_three(dataset, num_workers=2), expected)
    with pytest.raises(ValueError, match="expected a column of bytes for an image, but got 'label'"):
        sluicegate.ParquetDataset(tmp_path / "a.parquet", {"label": "image"})
    with pytest.raises(ValueError, match="expected 'image', an ImageField or None"):
        sluicegate.ParquetDataset(tmp_path / "a.parquet", {"label": "picture"})


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="expected a callable that takes an image"):
        ImageField("flip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'first' or 'last'"):
        ImageField(channels="middle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode"):
        ImageField(mode="CMYK")  # type: ignore[arg-type]
    assert repr(ImageField(mode="L", exact=True)) == "ImageField(mode='L', exact=True)"

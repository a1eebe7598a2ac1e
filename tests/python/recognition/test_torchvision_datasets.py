"""torchvision's datasets in memory: read by the core if no difference can be observed, otherwise by Python."""

from __future__ import annotations

import itertools
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset

import sluicegate
from checks.equality import assert_same
from checks.native import engine_of
from checks.programs import Run

pytest.importorskip("torchvision")

import torchvision
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

from cases.torchvision_datasets import CLASSES, channels_of, made

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

AUGMENT = [v1.RandomCrop(9, padding=2), v1.RandomHorizontalFlip(), v1.ToTensor()]


def augmented(channels: int = 3) -> Any:
    return v1.Compose([*AUGMENT, v1.Normalize([0.5] * channels, [0.25] * channels)])


def batches_of(kind: Any, dataset: Any, *, epochs: int = 2, **arguments: Any) -> list[Any]:
    """Return the batches, and the global generator's state after each epoch."""
    torch.manual_seed(5)
    loader = kind(dataset, **{"batch_size": 4, "shuffle": True, **arguments})
    seen: list[Any] = []
    for _ in range(epochs):
        seen += [*loader, torch.random.get_rng_state()]
    return seen


def assert_as_torch(dataset: Any, **arguments: Any) -> None:
    expected = batches_of(torch.utils.data.DataLoader, dataset, **arguments)
    assert_same(batches_of(sluicegate.DataLoader, dataset, **arguments), expected)


def cifar_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    draws = np.random.RandomState(0)
    for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]:
        entry = {"data": draws.randint(0, 256, (6, 3072), dtype=np.uint8), "labels": draws.randint(0, 10, 6).tolist()}
        (folder / name).write_bytes(pickle.dumps(entry))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    with monkeypatch.context() as patched:
        patched.setattr(datasets.CIFAR10, "_check_integrity", lambda _: True)
        patched.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
        transform = v1.Compose([v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip(), v1.ToTensor()])
        return datasets.CIFAR10(str(root), transform=transform)


def mnist_files(root: Path) -> Any:
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    draws = np.random.RandomState(0)
    for part in ("train", "t10k"):
        pixels = draws.randint(0, 256, (12, 28, 28), dtype=np.uint8).tobytes()
        labels = draws.randint(0, 10, 12, dtype=np.uint8).tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 12, 28, 28) + pixels)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 12) + labels)
    return datasets.MNIST(str(root), transform=v1.Compose([v1.ToTensor(), v1.Normalize((0.1307,), (0.3081,))]))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_cifar_and_mnist_from_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int) -> None:
    for dataset in (cifar_files(tmp_path, monkeypatch), mnist_files(tmp_path)):
        assert engine_of(dataset, num_workers=num_workers) == "rust"
        assert_as_torch(dataset, num_workers=num_workers)


@pytest.mark.parametrize("name", CLASSES)
def test_every_dataset_class_matches_torch(name: str) -> None:
    dataset = made(name, augmented(channels_of(name)))
    assert engine_of(dataset) == "rust"
    assert_as_torch(dataset)
    assert_as_torch(dataset, num_workers=2)


def test_labels_that_were_selected_from_an_array() -> None:
    dataset = made("CIFAR10", augmented())
    chosen = np.array(dataset.targets) < 5
    dataset.data, dataset.targets = dataset.data[chosen], list(np.array(dataset.targets)[chosen] + 10)
    assert engine_of(dataset) == "rust"
    assert_as_torch(dataset)
    assert_as_torch(dataset, num_workers=2)
    dataset.targets[2] = 3
    assert engine_of(dataset) == "python"
    assert_as_torch(dataset)


def test_a_script_with_workers_in_each_form_of_v2() -> None:
    steps = [v2.RandomCrop(8, padding=1, padding_mode="reflect"), v2.RandomHorizontalFlip()]
    ends: list[list[Any]] = [
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.4], [0.3])],
        [v2.PILToTensor()],
        [v2.ToImage(), v2.ToPureTensor(), v2.ConvertImageDtype()],
        [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)],
    ]
    for end in ends:
        dataset = made("CIFAR10", v2.Compose([*steps, *end]))
        assert engine_of(dataset) == "rust"
        assert_as_torch(dataset, num_workers=2, epochs=1)


@pytest.mark.parametrize("gray", [v2.RGB(), v2.Grayscale(3), v2.Grayscale(1)])
def test_gray_images_are_repeated_to_three_channels_only_as_tensors(gray: Any) -> None:
    floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.4], [0.3]), v2.RandomErasing()]
    for steps in (
        [v2.ToImage(), gray, *floats],
        [v2.PILToTensor(), v2.Resize(14), gray],
        [v2.ToImage(), *floats, gray],
    ):
        dataset = made("MNIST", v2.Compose(steps))
        assert engine_of(dataset) == "rust"
        assert_as_torch(dataset)
    dataset = made("CIFAR10", v2.Compose([v2.ToImage(), v2.Grayscale(3)]))
    assert engine_of(dataset) == "python"


def _own_class() -> Any:
    class Own(datasets.CIFAR10):
        pass

    dataset = made("CIFAR10", augmented())
    dataset.__class__ = Own
    return dataset


def _with(name: str = "CIFAR10", **attributes: Any) -> Any:
    dataset = made(name, augmented(channels_of(name)))
    for attribute, value in attributes.items():
        setattr(dataset, attribute, value)
    return dataset


def _hooked() -> Any:
    flip = v1.RandomHorizontalFlip()
    flip.register_forward_pre_hook(lambda *_: None)
    return made("CIFAR10", v1.Compose([flip, v1.ToTensor()]))


class _OwnFlip(v1.RandomHorizontalFlip):
    pass


def _double(label: int) -> int:
    return 2 * label


PYTHON: dict[str, tuple[Callable[[], Any], str]] = {
    "a subclass": (_own_class, "dataset class Own is not recognized"),
    "a target_transform": (lambda: _with(target_transform=str), "target_transform is called in Python: it is a `type`"),
    "floats": (lambda: _with(data=np.zeros((40, 9, 11, 3), np.float32)), "data is not an array of uint8"),
    "labels as an array": (
        lambda: _with(targets=np.zeros(40, np.float32)),
        "labels are not integers in a list, array or tensor",
    ),
    "labels of another type": (lambda: _with(targets=[True] * 40), "labels are not all of type int"),
    "transformed labels of NumPy's": (
        lambda: _with(targets=list(np.arange(40)), target_transform=int),
        "labels are not all of type int",
    ),
    "labels of 32 bits": (lambda: _with("MNIST", targets=torch.zeros(40, dtype=torch.int32)), "labels are not"),
    "too few labels": (lambda: _with(targets=[1]), "40 images and 1 labels"),
    "all of QMNIST's labels": (lambda: _with("QMNIST", compat=False), "compat=False"),
    "an own __getitems__": (lambda: _with(__getitems__=lambda indices: indices), "a method __getitems__ was added"),
    "a hook": (_hooked, "transform 1, `RandomHorizontalFlip`: it has hooks, or its `forward` was replaced"),
    "an own transform": (
        lambda: made("MNIST", v1.Compose([v1.ToTensor(), v1.Lambda(_double)])),
        "transform 2, `Lambda`: not recognized",
    ),
    "a subclass of a transform": (
        lambda: made("MNIST", v1.Compose([_OwnFlip(), v1.ToTensor()])),
        "a subclass of `RandomHorizontalFlip`",
    ),
    "resizing a tensor": (
        lambda: made("MNIST", v1.Compose([v1.ToTensor(), v1.Resize(8)])),
        "transform 2, `Resize`: its values",
    ),
    "a mirror that is too wide": (
        lambda: made("CIFAR10", v1.Compose([v1.Pad(9, padding_mode="reflect"), v1.ToTensor()])),
        "mirroring can't add",
    ),
    "a crop that is too large": (lambda: made("MNIST", v1.Compose([v1.RandomCrop(30), v1.ToTensor()])), "larger than"),
    "a broken color": (
        lambda: made("CIFAR10", v1.Compose([v1.Pad(1, fill=0.5), v1.ToTensor()])),
        "transform 1, `Pad`: fill=0.5",
    ),
    "no transform": (lambda: made("CIFAR10", None), "samples are Pillow images"),
    "Pillow images": (lambda: made("CIFAR10", v1.CenterCrop(3)), "returns a Pillow image"),
}


@pytest.mark.parametrize("name", PYTHON)
def test_explain_names_why_python_reads_a_torchvision_dataset(name: str) -> None:
    make, reason = PYTHON[name]
    dataset = make()
    for num_workers in (0, 1):
        loader = sluicegate.DataLoader(dataset, num_workers=num_workers)
        explanation = loader.explain()
        assert explanation.engine == ("python processes" if num_workers else "python")
        assert explanation.reason is not None
        assert reason in explanation.reason
        assert reason in repr(loader)
    parts = sluicegate.DataLoader(ConcatDataset([Subset(dataset, [0, 1])])).explain()
    assert parts.engine == "python"


def test_patched_methods_and_functions_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = made("CIFAR10", augmented())
    assert engine_of(dataset) == "rust"
    for target, name in (
        (datasets.CIFAR10, "__getitem__"),
        (v1.RandomCrop, "get_params"),
        (v1.functional, "to_tensor"),
        (v1.Compose, "__call__"),
    ):
        own = getattr(target, name)
        with monkeypatch.context() as patched:
            patched.setattr(target, name, lambda *given, own=own: own(*given))
            assert engine_of(dataset) == "python", name
        assert engine_of(dataset) == "rust", name


def test_other_defaults_of_torch_are_pythons() -> None:
    dataset = made("CIFAR10", augmented())
    torch.set_default_dtype(torch.float64)
    try:
        assert engine_of(dataset) == "python"
        assert_as_torch(dataset)
    finally:
        torch.set_default_dtype(torch.float32)
    assert engine_of(dataset) == "rust"


def _change_transform(dataset: Any) -> None:
    dataset.transform = v1.Compose([v1.RandomVerticalFlip(), v1.CenterCrop(9), v1.ToTensor()])


def _change_step(dataset: Any) -> None:
    dataset.transform.transforms[1].p = 1.0


def _change_mean(dataset: Any) -> None:
    dataset.transform.transforms[3].mean[0] = 0.1


def _change_steps(dataset: Any) -> None:
    dataset.transform.transforms.insert(1, v1.RandomVerticalFlip())


def _add_own_step(dataset: Any) -> None:
    dataset.transform.transforms.append(v1.Lambda(torch.neg))


def _change_labels(dataset: Any) -> None:
    for index in range(len(dataset.targets)):
        dataset.targets[index] = 99


def _change_label_list(dataset: Any) -> None:
    dataset.targets = dataset.targets[::-1] if isinstance(dataset.targets, list) else dataset.targets.flip(0)


def _change_images(dataset: Any) -> None:
    dataset.data = dataset.data[::-1].copy() if isinstance(dataset.data, np.ndarray) else dataset.data.flip(0)


def _add_target_transform(dataset: Any) -> None:
    dataset.target_transform = _double


CHANGES = [
    *(_change_transform, _change_step, _change_mean, _change_steps, _add_own_step, _change_labels, _change_label_list),
    *(_change_images, _add_target_transform),
]


# With workers, each change is tested on one class: the differences between classes also show without workers.
@pytest.mark.parametrize(
    ("change", "name", "num_workers"),
    [
        *((change, name, 0) for change in CHANGES for name in ("CIFAR10", "MNIST")),
        *((change, ("CIFAR10", "MNIST")[number % 2], 2) for number, change in enumerate(CHANGES)),
    ],
)
def test_changes_in_the_middle_of_an_epoch_are_seen_as_with_torch(
    change: Callable[[Any], None], name: str, num_workers: int
) -> None:
    """At once without workers; with workers in the next epoch, or never if they persist."""
    for persists in (False, True)[: 1 + num_workers // 2]:
        seen = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            crop = [v1.RandomCrop(9, padding=2), v1.RandomHorizontalFlip(), v1.ToTensor()]
            channels = channels_of(name)
            transform = v1.Compose([*crop, v1.Normalize([0.5] * channels, [0.25] * channels)])
            dataset = made(name, transform)
            torch.manual_seed(5)
            arguments: dict[str, Any] = {"persistent_workers": persists} if num_workers else {}
            loader = kind(dataset, batch_size=4, shuffle=True, num_workers=num_workers, **arguments)
            batches: list[Any] = []
            for epoch, batch in itertools.chain(((0, each) for each in loader), ((1, each) for each in loader)):
                batches.append(batch)
                if epoch == 0 and len(batches) == 3:
                    change(dataset)
            seen.append([*batches, torch.random.get_rng_state()])
        assert_same(seen[1], seen[0])


def test_pixels_written_in_place_are_seen_without_workers() -> None:
    for name in ("CIFAR10", "MNIST"):
        seen = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            dataset = made(name, v1.ToTensor())
            batches = []
            for batch in kind(dataset, batch_size=4):
                batches.append(batch)
                dataset.data[:] = len(batches)
            seen.append(batches)
        assert_same(seen[1], seen[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_with_a_seed_batches_are_those_that_python_makes(num_workers: int) -> None:
    dataset, own = made("CIFAR10", augmented()), _own_class()
    given: dict[str, Any] = {"seed": 7, "num_workers": num_workers}
    assert engine_of(dataset, **given) == "rust"
    assert engine_of(own, **given) != "rust"
    assert_same(batches_of(sluicegate.DataLoader, dataset, **given), batches_of(sluicegate.DataLoader, own, **given))
    assert engine_of(dataset, seed=7, seed_samples=False) == "python"


@pytest.mark.parametrize(("stop", "persists"), [(0, True), (1, False), (3, True), (9, False), (10, True)])
def test_states_carry_over_between_the_engines(stop: int, persists: bool) -> None:
    """The core resumes a state saved with Python's workers, and the reverse."""
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": persists}

    def run(first: Any, second: Any) -> list[Any]:
        torch.manual_seed(5)
        loader = sluicegate.DataLoader(first, **arguments)
        seen = list(loader)
        iterator = iter(loader)
        seen += itertools.islice(iterator, stop)
        state = json.loads(json.dumps(loader.state_dict()))
        del iterator
        loader = sluicegate.DataLoader(second, **arguments)
        loader.load_state_dict(state)
        return [*seen, *loader, *loader]

    native, own = made("CIFAR10", augmented()), _own_class()
    expected = run(own, own)
    for first, second in ((native, native), (native, own), (own, native)):
        assert_same(run(first, second), expected)


def test_a_state_after_an_epoch_that_was_left_early() -> None:
    """Persistent workers have drawn for batches that the consumer never received."""
    dataset = made("CIFAR10", augmented())

    def loader(kind: Any) -> Any:
        return kind(dataset, batch_size=4, num_workers=3, prefetch_factor=1, persistent_workers=True)

    torch.manual_seed(5)
    whole = loader(torch.utils.data.DataLoader)
    next(iter(whole))
    expected = list(whole)
    torch.manual_seed(5)
    first = loader(sluicegate.DataLoader)
    next(iter(first))
    iterator = iter(first)
    seen = [next(iterator)]
    resumed = loader(sluicegate.DataLoader)
    resumed.load_state_dict(first.state_dict())
    assert_same([*seen, *resumed], expected)


def test_a_state_with_other_workers_is_resumed() -> None:
    dataset = made("CIFAR10", augmented())
    loader = sluicegate.DataLoader(dataset, batch_size=4, num_workers=2)
    next(iter(loader))
    state = loader.state_dict()
    for num_workers in (0, 1, 3):
        resumed = sluicegate.DataLoader(dataset, batch_size=4, num_workers=num_workers)
        resumed.load_state_dict(state)
        assert len(list(resumed)) == len(loader) - 1


def test_states_are_equal_at_one_position() -> None:
    dataset = made("CIFAR10", augmented())

    def loader() -> Any:
        return sluicegate.DataLoader(dataset, batch_size=4, num_workers=2, shuffle=True)

    whole = loader()
    iterator = iter(whole)
    for _ in range(3):
        next(iterator)
    state = whole.state_dict()
    resumed = loader()
    resumed.load_state_dict(state)
    others = iter(resumed)
    next(iterator)
    next(others)
    assert resumed.state_dict() == whole.state_dict()


def test_stacked_with_other_datasets(data: ModuleType) -> None:
    def stacked(package: ModuleType) -> Any:
        return package.StackDataset(made("CIFAR10", augmented()), package.TensorDataset(torch.arange(40)))

    for num_workers in (0, 2):
        expected = batches_of(torch.utils.data.DataLoader, stacked(torch.utils.data), num_workers=num_workers)
        assert_same(batches_of(sluicegate.DataLoader, stacked(data), num_workers=num_workers), expected)


def test_threads_that_share_no_transform_state() -> None:
    """A batch is the same on every thread, because draws are made when it is requested."""
    dataset = made("CIFAR10", augmented(), size=200)
    expected = batches_of(torch.utils.data.DataLoader, dataset, num_workers=2, prefetch_factor=8, batch_size=2)
    for _ in range(5):
        actual = batches_of(sluicegate.DataLoader, dataset, num_workers=2, prefetch_factor=8, batch_size=2)
        assert_same(actual, expected)


def test_reading_does_not_import_torchvision(run: Run) -> None:
    program = """
import sluicegate
loader = sluicegate.DataLoader(torch.utils.data.TensorDataset(torch.arange(8)), batch_size=2, shuffle=True)
print(loader, loader.explain(), list(loader))
class Own(torch.utils.data.Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return index
print(sluicegate.DataLoader(Own()), list(sluicegate.DataLoader(Own())))
assert not any(name.partition(".")[0] in ("torchvision", "PIL") for name in sys.modules)
"""
    run(program).check()


def test_the_version_of_torchvision_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A different version may draw or round differently, so three samples are compared."""
    monkeypatch.setattr(v1.RandomCrop, "get_params", staticmethod(lambda _, size: (0, 0, *size)))
    monkeypatch.setattr("sluicegate.recognition.torchvision_facts._is_of", lambda *_: True)
    explanation = sluicegate.DataLoader(made("CIFAR10", augmented())).explain()
    assert explanation.reason is not None
    assert "this version of torchvision returns different values" in explanation.reason
    assert torchvision.__version__

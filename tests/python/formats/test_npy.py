"""`NpyDataset`: its samples, with torch's loader and ours, and its errors for files that it can't read."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from checks.programs import Run
from sluicegate import DataLoader, NpyDataset
from sluicegate.recognition.native_source import native_source
from sluicegate.recognition.source import Source

DTYPES = [
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


def saved(folder: Path, array: Any, name: str = "x.npy") -> str:
    path = folder / name
    np.save(path, array)
    return str(path)


def numbers(dtype: str = "int64", shape: tuple[int, ...] = (10, 3)) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape)).reshape(shape) % 100).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_those_of_numpy(data: ModuleType, tmp_path: Path, dtype: str, order: Any) -> None:
    array = numbers(dtype, (10, 2, 3))
    dataset = NpyDataset(saved(tmp_path, np.asarray(array, order=order)))
    assert len(dataset) == 10
    assert_same(dataset[3], torch.from_numpy(array[3].copy()))
    batches = list(data.DataLoader(dataset, batch_size=4))
    assert_same(batches, [torch.from_numpy(array[start : start + 4].copy()) for start in (0, 4, 8)])


@pytest.mark.parametrize("form", ["list", "glob", "braces"])
def test_files_of_a_list_or_a_pattern_follow_one_another(data: ModuleType, tmp_path: Path, form: str) -> None:
    array, labels = numbers("float32", (10, 3)), numbers("int64", (10,))
    paths = [
        saved(tmp_path, array[start:stop], f"x-{n}.npy") for n, (start, stop) in enumerate([(0, 4), (4, 4), (4, 10)])
    ]
    forms = {"list": paths, "glob": str(tmp_path / "x-*.npy"), "braces": str(tmp_path / "x-{0..2}.npy")}
    dataset = NpyDataset(forms[form], saved(tmp_path, labels, "y.npy"))
    assert isinstance(native_source(dataset, in_worker=False), Source)
    dataset = pickle.loads(pickle.dumps(dataset))
    assert len(dataset) == 10
    assert repr(dataset) == f"NpyDataset([{paths[0]!r}, ... 3 files], {str(tmp_path / 'y.npy')!r})"
    batches = list(data.DataLoader(dataset, batch_size=4))
    expected = [
        (torch.from_numpy(array[at : at + 4].copy()), torch.from_numpy(labels[at : at + 4])) for at in (0, 4, 8)
    ]
    assert_same([tuple(batch) for batch in batches], expected)
    named = NpyDataset(x=forms[form], y=saved(tmp_path, labels, "y.npy"))
    assert_same(named[7], {"x": torch.from_numpy(array[7].copy()), "y": torch.tensor(labels[7])})


def test_files_of_a_list_that_do_not_fit_are_named(tmp_path: Path) -> None:
    paths = [saved(tmp_path, numbers("int64", (10, 3))), saved(tmp_path, numbers("int64", (10, 4)), "y.npy")]
    with pytest.raises(ValueError, match=r"y\.npy: its rows are int64 \[4\], but those of the first file, .*x\.npy, "):
        NpyDataset(paths)
    with pytest.raises(FileNotFoundError, match="z-"):
        NpyDataset(str(tmp_path / "z-*.npy"))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_named_files_make_dicts(data: ModuleType, tmp_path: Path, num_workers: int) -> None:
    images, labels = numbers("uint8", (10, 2, 2)), numbers("int64", (10,))
    dataset = NpyDataset(image=saved(tmp_path, images), label=saved(tmp_path, labels, "y.npy"))
    assert_same(dataset[-1], {"image": torch.from_numpy(images[9].copy()), "label": torch.tensor(9)})
    batches = list(data.DataLoader(dataset, batch_size=5, num_workers=num_workers))
    assert_same(batches[1], {"image": torch.from_numpy(images[5:].copy()), "label": torch.arange(5, 10)})


def test_several_files_make_tuples(data: ModuleType, tmp_path: Path) -> None:
    dataset = NpyDataset(saved(tmp_path, numbers()), saved(tmp_path, numbers("float32", (10,)), "y.npy"))
    assert isinstance(dataset[0], tuple)
    assert_same(next(iter(data.DataLoader(dataset)))[1], torch.tensor([0.0]))


def test_a_shuffled_epoch_equals_torchs(tmp_path: Path) -> None:
    dataset = NpyDataset(saved(tmp_path, numbers()))
    epochs = []
    for loader_cls in (torch.utils.data.DataLoader, DataLoader):
        torch.manual_seed(3)
        epochs.append(list(loader_cls(dataset, batch_size=3, shuffle=True)))
    assert_same(epochs[0], epochs[1])


def test_slices_lists_and_batched_reads(tmp_path: Path) -> None:
    array = numbers()
    dataset = NpyDataset(saved(tmp_path, array))
    rows = torch.from_numpy(array)
    assert_same(dataset[2:8:2], rows[2:8:2].clone())
    assert_same(dataset[[4, -1]], rows[[4, -1]])
    assert_same(dataset[5:5], rows[5:5].clone())
    assert [row.tolist() for row in dataset.__getitems__([4, 4])] == [rows[4].tolist()] * 2
    assert_same(dataset[np.int64(2)], rows[2].clone())


def test_a_sample_is_a_copy_that_can_be_written(tmp_path: Path) -> None:
    dataset = NpyDataset(saved(tmp_path, numbers()))
    dataset[0].fill_(-1)
    assert dataset[0].tolist() == [0, 1, 2]


def test_npy_dataset_is_pickled_by_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, numbers())
    monkeypatch.chdir(tmp_path)
    dataset = NpyDataset("x.npy")
    dataset.classes = ["a", "b"]  # type: ignore[attr-defined]
    monkeypatch.chdir("/")
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.classes == ["a", "b"]
    assert_same(copy[1], dataset[1])


def test_an_index_out_of_range_is_an_index_error(tmp_path: Path) -> None:
    dataset = NpyDataset(saved(tmp_path, numbers()))
    for index in (10, -11, 2**70):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            dataset[index]
    loader = DataLoader(dataset, sampler=[3, 12], batch_size=2)
    with pytest.raises(IndexError, match="index 12 came from list, but the dataset, a NpyDataset, has 10"):
        next(iter(loader))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_file_that_shrank_is_named_at_the_next_batch(tmp_path: Path, num_workers: int) -> None:
    path = saved(tmp_path, numbers("int64", (1000, 64)))
    iterator = iter(DataLoader(NpyDataset(path), batch_size=10, num_workers=num_workers))
    assert next(iterator)[0, 1] == 1
    os.truncate(path, 1000)
    # Batches that were in progress when the file was cut may still be complete.
    with pytest.raises(OSError, match=r"x\.npy shrank since it was opened: 512128 bytes then, 1000 bytes now"):
        list(iterator)


def test_a_file_that_vanishes_is_read_to_its_end(tmp_path: Path) -> None:
    path = saved(tmp_path, numbers())
    dataset = NpyDataset(path)
    os.unlink(path)
    assert len(list(DataLoader(dataset, batch_size=2))) == 5
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        pickle.loads(pickle.dumps(dataset))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npy") as caught:
        NpyDataset(tmp_path / "nowhere.npy")
    assert caught.value.filename == str(tmp_path / "nowhere.npy")
    with pytest.raises(IsADirectoryError):
        NpyDataset(tmp_path)


def test_a_truncated_file_is_an_error_with_the_bytes_needed(tmp_path: Path) -> None:
    path = saved(tmp_path, numbers())
    os.truncate(path, 200)
    with pytest.raises(ValueError, match=r"byte 200: the file is truncated: int64 \[10, 3\] .* needs 368 bytes"):
        NpyDataset(path)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([{}, []], dtype=object), "Python objects"),
        (np.array(["a", "b"]), "no data type for NumPy's `<U1`"),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]), "structured array"),
        (np.arange(3, dtype=">f4"), "not in native byte order"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "no data type"),
        (np.float32(3), "scalar"),
    ],
)
def test_an_array_that_torch_does_not_have_is_refused_with_a_reason(tmp_path: Path, array: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        NpyDataset(saved(tmp_path, array))


def test_files_that_are_not_npy_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match=r"x\.npy, byte 0: the file is a zip archive"):
        NpyDataset(path)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"x\.npy, byte 0: this is not a \.npy file"):
        NpyDataset(path)


def test_unequal_lengths_name_both(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="size mismatch: image has 10 samples but label has 9"):
        NpyDataset(image=saved(tmp_path, numbers()), label=saved(tmp_path, numbers(shape=(9,)), "y.npy"))


def test_files_and_named_files_exclude_each_other(tmp_path: Path) -> None:
    path = saved(tmp_path, numbers())
    for arguments in (((), {}), ((path,), {"label": path})):
        with pytest.raises(ValueError, match="paths: expected either files"):
            NpyDataset(*arguments[0], **arguments[1])


def test_a_file_larger_than_memory_is_opened_and_read(tmp_path: Path) -> None:
    """A sparse file: 2^43 bytes that take no space on disk."""
    path = tmp_path / "huge.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(4, 2))
    header = path.read_bytes()[:128].replace(b"(4, 2), }" + b" " * 13, b"(549755813888, 16), }" + b" ")
    path.write_bytes(header)
    os.truncate(path, len(header) + 2**43)
    dataset = NpyDataset(path)
    batch = next(iter(DataLoader(dataset, sampler=[0, 2**38, -1], batch_size=3)))
    assert_same(batch, torch.zeros(3, 16, dtype=torch.uint8))


def test_a_subclass_that_overrides_getitem_is_a_python_dataset(data: ModuleType, tmp_path: Path) -> None:
    class Negative(NpyDataset):
        def __getitem__(self, index: Any) -> Any:
            return -super().__getitem__(index)

        __getitems__ = None  # type: ignore[assignment]

    batch = next(iter(data.DataLoader(Negative(saved(tmp_path, numbers())), batch_size=2)))
    assert_same(batch, torch.tensor([[0, -1, -2], [-3, -4, -5]]))


CUT_UNDER_THREADS = """
import numpy
from sluicegate import DataLoader, NpyDataset
for attempt in range(10):
    numpy.save(path, numpy.ones((400, 1 << 18), dtype=numpy.uint8))
    iterator = iter(DataLoader(NpyDataset(path), batch_size=8, num_workers=2, prefetch_factor=8))
    next(iterator)
    cut = threading.Timer(0.001 * attempt, os.truncate, (path, 1000))
    cut.start()
    try:
        for batch in iterator:
            assert batch.min() == 1, "a batch of a file that was cut has other bytes than the file had"
            cut.join()
        print("whole")
    except OSError as error:
        assert "shrank since it was opened" in str(error), error
        print("named")
    cut.join()
"""


def test_a_file_that_is_cut_while_threads_read_it_never_ends_the_process(run: Run, tmp_path: Path) -> None:
    ended = run(CUT_UNDER_THREADS, path=str(tmp_path / "x.npy"), deadline=100)
    ended.check()
    assert ended.stdout.split().count("named") >= 8


def test_an_index_of_another_kind_is_a_type_error(tmp_path: Path) -> None:
    dataset = NpyDataset(saved(tmp_path, numbers()))
    for index in (1.5, "a", None, (1, 2), [1, "a"]):
        with pytest.raises(TypeError, match="index: expected an integer for NpyDataset"):
            dataset[index]


def test_paths_may_be_bytes_and_fields_may_have_any_name(tmp_path: Path) -> None:
    path = saved(tmp_path, numbers())
    assert len(NpyDataset(os.fsencode(path))) == 10
    assert list(NpyDataset(self=path, paths=path)[0]) == ["self", "paths"]


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ValueError, match="only a regular file"):
        NpyDataset(tmp_path / "pipe.npy")

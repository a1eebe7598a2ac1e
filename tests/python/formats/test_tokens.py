"""`TokensDataset`: its samples, with torch's loader and ours, and its errors for files that it can't read."""

from __future__ import annotations

import os
import pickle
import resource
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from checks.equality import assert_same
from checks.formats import check_format
from checks.programs import Run
from checks.resources import descriptors
from doubles.token_files import CODES, flat, megatron
from sluicegate import ConcatDataset, DataLoader, MixtureSampler, RandomSampler, TokensDataset
from sluicegate.recognition import native_source as dataset


@pytest.mark.parametrize("output", ["dict", "pair", "tensor"])
def test_tokens_dataset_passes_the_checks_of_every_format(tmp_path: Path, output: str) -> None:
    tokens = torch.arange(100, 145)
    windows = [tokens[start : start + 8] for start in range(0, 40, 4)]
    samples: list[Any] = [window.clone() for window in windows]
    if output == "dict":
        samples = [{"input_ids": window[:7].clone(), "labels": window[:7].clone()} for window in windows]
    elif output == "pair":
        samples = [(window[:7].clone(), window[1:].clone()) for window in windows]
    dataset = TokensDataset(flat(tmp_path, tokens), 7, stride=4, output=output)
    check_format(dataset, samples)


def windows(tokens: Any, length: int, stride: int) -> torch.Tensor:
    """Return the windows as they are defined, with NumPy."""
    view = np.lib.stride_tricks.sliding_window_view(np.asarray(tokens).astype(np.int64), length)
    return torch.from_numpy(view[::stride].copy())


@pytest.mark.parametrize("dtype", [*CODES, "uint32"])
def test_windows_are_those_of_numpy(data: ModuleType, tmp_path: Path, dtype: str) -> None:
    tokens = np.random.default_rng(0).integers(0, 100, 1000)
    tokens[7] = np.iinfo(dtype).max
    dataset = TokensDataset(flat(tmp_path, tokens, dtype=dtype), 10, dtype, output="pair")
    rows = windows(tokens, 11, 10)
    assert len(dataset) == len(rows) == 99
    assert_same(dataset[3], (rows[3, :-1].clone(), rows[3, 1:].clone()))
    x, y = (torch.cat(parts) for parts in zip(*data.DataLoader(dataset, batch_size=8), strict=True))
    assert_same([x, y], [rows[:, :-1].contiguous(), rows[:, 1:].contiguous()])


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("output", ["dict", "pair", "tensor"])
def test_a_shuffled_epoch_equals_torchs(tmp_path: Path, output: str, num_workers: int) -> None:
    dataset = TokensDataset(flat(tmp_path, np.arange(500)), 7, stride=3, output=output)
    epochs = []
    for loader_cls in (torch.utils.data.DataLoader, DataLoader):
        torch.manual_seed(3)
        loader = loader_cls(dataset, batch_size=6, shuffle=True, num_workers=num_workers)
        epochs.append([list(loader), list(loader)])
    assert_same(epochs[0], epochs[1])


def test_threads_and_processes_that_inherit_nothing_read_the_same(tmp_path: Path) -> None:
    dataset = TokensDataset(flat(tmp_path, np.arange(100)), 7)
    plain = list(DataLoader(dataset, batch_size=3))
    assert_same(list(DataLoader(dataset, batch_size=3, num_workers=2, worker_type="thread")), plain)
    served = torch.utils.data.DataLoader(dataset, batch_size=3, num_workers=1, multiprocessing_context="forkserver")
    assert_same(list(served), plain)


def test_the_argument_output_determines_the_parts_of_a_sample(tmp_path: Path) -> None:
    path = flat(tmp_path, np.arange(10))
    first, following = torch.arange(3), torch.arange(1, 4)
    assert_same(TokensDataset(path, 3)[0], {"input_ids": first, "labels": first})
    assert_same(TokensDataset(path, 3, shift_labels=True)[0], {"input_ids": first, "labels": following})
    assert_same(TokensDataset(path, 3, output="pair")[0], (first, following))
    assert_same(TokensDataset(path, 3, output="pair", shift_labels=False)[0], (first, first))
    assert_same(TokensDataset(path, 3, output="tensor")[0], torch.arange(4))
    batch = next(iter(DataLoader(TokensDataset(path, 3), batch_size=2)))
    assert all(part.is_contiguous() for part in batch.values())
    batch["labels"].fill_(-100)
    assert batch["input_ids"][1].tolist() == [3, 4, 5]


def test_the_number_of_windows_follows_from_length_and_stride(tmp_path: Path) -> None:
    path = flat(tmp_path, np.arange(10))
    for length, stride, expected in ((3, None, 3), (3, 1, 8), (3, 4, 2), (10, None, 1), (10, 100, 1)):
        assert len(TokensDataset(path, length, stride=stride)) == expected
    assert len(TokensDataset(path, 3, output="pair")) == 3
    assert len(TokensDataset(path, 9, output="pair")) == 1
    with pytest.raises(ValueError, match="length: a window is longer than every document; the longest has 10"):
        TokensDataset(path, 10, output="pair")


def test_several_files_are_one_dataset(data: ModuleType, tmp_path: Path) -> None:
    for number, tokens in enumerate((range(10), range(20, 23), range(30, 40))):
        flat(tmp_path, tokens, f"shard-{number:03}.bin")
    by_hand = [str(tmp_path / f"shard-{number:03}.bin") for number in range(3)]
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [30, 31, 32, 33], [34, 35, 36, 37]]
    for path in (by_hand, f"{tmp_path}/shard-*.bin", f"{tmp_path}/shard-{{000..002}}.bin"):
        dataset = TokensDataset(path, 4)
        batches = [batch["input_ids"].tolist() for batch in data.DataLoader(dataset, batch_size=2)]
        assert [row for batch in batches for row in batch] == expected
    assert TokensDataset(by_hand, 4).document_lengths.tolist() == [10, 3, 10]


def test_parts_are_mixed_in_proportion(tmp_path: Path) -> None:
    parts = [TokensDataset(flat(tmp_path, np.full(1000, token), f"{token}"), 10) for token in (1, 2)]
    mixed = ConcatDataset(parts)
    sampler = MixtureSampler(mixed, [3, 1], seed=7)
    tokens = torch.cat([batch["input_ids"][:, 0] for batch in DataLoader(mixed, batch_size=10, sampler=sampler)])
    assert abs(float((tokens == 1).float().mean()) - 0.75) < 0.02


def test_slices_lists_and_batched_reads(tmp_path: Path) -> None:
    dataset = TokensDataset(flat(tmp_path, np.arange(40)), 4, output="tensor")
    rows = windows(np.arange(40), 5, 4)
    assert_same(dataset[2:8:2], rows[2:8:2].clone())
    assert_same(dataset[[4, -1]], rows[[4, -1]])
    assert_same(dataset[-1], rows[-1].clone())
    assert [row.tolist() for row in dataset.__getitems__([4, 4])] == [rows[4].tolist()] * 2
    for index in (9, -10, 2**70):
        with pytest.raises(IndexError, match=f"index {index} is out of range for TokensDataset"):
            dataset[index]
    with pytest.raises(TypeError, match="index: expected an integer for TokensDataset"):
        dataset["a"]


def test_a_resume_in_the_middle_yields_the_remaining_windows(tmp_path: Path) -> None:
    dataset = TokensDataset(flat(tmp_path, np.arange(1000)), 4)
    loaders = [DataLoader(dataset, batch_size=7, shuffle=True, seed=7, num_workers=workers) for workers in (0, 2)]
    whole = list(loaders[0])
    for position in (0, 1, 17, len(whole) - 1):
        first = DataLoader(dataset, batch_size=7, shuffle=True, seed=7, num_workers=2)
        for _ in zip(range(position), first, strict=False):
            pass
        resumed = DataLoader(dataset, batch_size=7, shuffle=True, seed=7)
        resumed.load_state_dict(first.state_dict())
        assert_same(list(resumed), whole[position:])
    for batch, ids in loaders[1].with_ids():
        assert (batch["input_ids"][:, 0] == 4 * torch.tensor(ids.sample_indices)).all()


def test_tokens_dataset_is_read_in_rust_unless_overridden(data: ModuleType, tmp_path: Path) -> None:
    class Negative(TokensDataset):
        def __getitem__(self, index: Any) -> Any:
            return -super().__getitem__(index)

        __getitems__ = None  # type: ignore[assignment]

    path = flat(tmp_path, np.arange(10))
    assert dataset.native_source(TokensDataset(path, 3), in_worker=False) is not None
    own = Negative(path, 3, output="tensor")
    assert dataset.native_source(own, in_worker=False) is None
    assert next(iter(data.DataLoader(own, batch_size=2))).tolist() == [[0, -1, -2, -3], [-3, -4, -5, -6]]


def test_tokens_dataset_is_pickled_by_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat(tmp_path, np.arange(10))
    monkeypatch.chdir(tmp_path)
    dataset = TokensDataset("*.bin", 3, output="pair", vocabulary_size=10)
    dataset.note = "kept"  # type: ignore[attr-defined]
    flat(tmp_path, np.arange(10), "later.bin")
    monkeypatch.chdir("/")
    copy = pickle.loads(pickle.dumps(dataset))
    assert (copy.note, len(copy), repr(copy)) == ("kept", 3, repr(dataset))
    assert_same(copy[1], dataset[1])


def test_megatrons_files_are_joined_or_kept_apart(data: ModuleType, tmp_path: Path) -> None:
    documents = [[[1, 2, 3], [4]], [], [[5, 6]], [[7, 8, 9, 10, 11]]]
    prefix = megatron(tmp_path, documents, dtype="int32")
    for path in (prefix, f"{prefix}.bin", f"{prefix}.idx", f"{prefix}.*"):
        joined = TokensDataset(path, 4)
        assert joined[:]["input_ids"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
        apart = TokensDataset(path, 4, documents="apart")
        rows = [row for batch in data.DataLoader(apart, batch_size=9) for row in batch["input_ids"].tolist()]
        assert rows == [[1, 2, 3, 4], [7, 8, 9, 10]]
    lengths = joined.document_lengths
    assert (lengths.tolist(), lengths.dtype) == ([4, 0, 2, 5], np.int64)
    with pytest.raises(
        ValueError, match=r"dtype: expected int32, which the index or header of .* says, but got 'uint16'"
    ):
        TokensDataset(prefix, 4, np.uint16)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=3), max_size=6),
    length=st.integers(1, 6),
    stride=st.integers(1, 6),
)
def test_any_documents_are_cut_as_documented(
    tmp_path: Path, documents: list[list[list[int]]], length: int, stride: int
) -> None:
    prefix = megatron(tmp_path, documents)
    texts = [[token for sequence in document for token in sequence] for document in documents]
    joined = [token for text in texts for token in text]
    for option, parts in (("apart", texts), ("joined", [joined])):
        expected = [
            part[start : start + length] for part in parts for start in range(0, len(part) - length + 1, stride)
        ]
        if expected:
            dataset = TokensDataset(prefix, length, stride=stride, documents=option)
            assert dataset[:]["input_ids"].tolist() == expected
        else:
            with pytest.raises(ValueError, match="length"):
                TokensDataset(prefix, length, stride=stride, documents=option)


def test_every_bit_of_an_index_may_flip(tmp_path: Path) -> None:
    """The result is an error that names file and byte, or tokens that the file contains."""
    prefix = megatron(tmp_path, [[[1, 2, 3], [4]], [[5, 6, 7, 8]]])
    index = Path(f"{prefix}.idx")
    whole = index.read_bytes()
    errors = 0
    for at in range(len(whole)):
        for bit in range(8):
            index.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            for option in ("joined", "apart"):
                try:
                    tokens = TokensDataset(prefix, 1, documents=option)[:]["input_ids"]
                except ValueError as error:
                    assert "corpus.idx, byte" in str(error) or "length" in str(error)  # noqa: PT017
                    errors += 1
                else:
                    assert tokens.max() < 2**16
    assert errors > len(whole) * 8
    for end in range(len(whole)):
        index.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"corpus\.idx, byte"):
            TokensDataset(prefix, 1)


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = flat(tmp_path, np.arange(10))
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"length": 0}, ValueError, r"length should be an integer from 1 to 2\*\*63 - 1, but got length=0"),
        ({"length": 2**63}, ValueError, "length should be"),
        ({"length": 2.5}, TypeError, "length should be an integer"),
        ({"length": True}, ValueError, "length"),
        ({"stride": 0}, ValueError, "stride should be an integer from 1 to "),
        ({"stride": -1}, ValueError, "stride"),
        ({"offset": -2}, ValueError, "offset"),
        ({"offset": 20}, ValueError, r"train\.bin, byte 20: .*offset=20"),
        ({"offset": 1}, ValueError, r"byte 19: 19 bytes are not a whole number of uint16 tokens"),
        ({"output": "list"}, ValueError, "output should be one of 'dict', 'pair', 'tensor', but got 'list'"),
        ({"documents": "kept"}, ValueError, "documents should be one of"),
        ({"dtype": "float32"}, ValueError, "dtype should be one of .* but got float32"),
        ({"dtype": "uint64"}, ValueError, "dtype should be one of"),
        ({"dtype": ">u2"}, ValueError, "dtype: expected little-endian, but got '>u2'"),
        ({"dtype": "tokens"}, TypeError, "dtype should be a data type"),
        ({"output": "tensor", "shift_labels": True}, ValueError, "shift_labels"),
        ({"vocabulary_size": 0}, ValueError, "vocabulary_size"),
    ]
    for arguments, error, text in wrong:
        with pytest.raises(error, match=text):
            TokensDataset(path, **{"length": 3, **arguments})
    assert TokensDataset(path, 3, torch.uint8)[0]["input_ids"].tolist() == [0, 0, 1]


def test_files_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.bin"):
        TokensDataset(tmp_path / "nowhere.bin", 3)
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.bin"):
        TokensDataset(f"{tmp_path}/*.bin", 3)
    with pytest.raises(IsADirectoryError):
        TokensDataset(tmp_path, 3)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="only a regular file"):
        TokensDataset(tmp_path / "pipe", 3)
    (tmp_path / "empty.bin").touch()
    with pytest.raises(ValueError, match=r"empty\.bin, byte 0: the file is empty"):
        TokensDataset(tmp_path / "empty.bin", 3)
    (tmp_path / "odd.bin").write_bytes(b"abc")
    with pytest.raises(ValueError, match=r"odd\.bin, byte 2: 3 bytes are not a whole number of uint16 tokens"):
        TokensDataset(tmp_path / "odd.bin", 3)


def test_a_token_beyond_the_vocabulary_is_named(tmp_path: Path) -> None:
    dataset = TokensDataset(flat(tmp_path, [1, 2, 3, 4, 5, 99]), 3, vocabulary_size=99)
    assert dataset[0]["labels"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"train\.bin, byte 10: token 99 is not in a vocabulary of 99"):
        dataset[1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_file_that_shrank_or_was_replaced_is_named(tmp_path: Path, num_workers: int) -> None:
    path = flat(tmp_path, np.arange(60_000))
    iterator = iter(DataLoader(TokensDataset(path, 10), batch_size=10, num_workers=num_workers))
    next(iterator)
    os.truncate(path, 1000)
    # Batches that were in progress when the file was cut may still be complete.
    with pytest.raises(OSError, match=r"train\.bin shrank since it was opened: 120000 bytes then, 1000 bytes now"):
        list(iterator)
    path = flat(tmp_path, np.arange(60_000))
    dataset = TokensDataset(path, 10)
    os.replace(flat(tmp_path, np.arange(60_000), "new.bin"), path)
    with pytest.raises(OSError, match=r"train\.bin changed while it was in use: it was replaced by a different file"):
        dataset[0]


def test_files_take_no_descriptors(tmp_path: Path) -> None:
    for number in range(300):
        flat(tmp_path, np.arange(10), f"{number:03}.bin")
    before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 40, hard))
    try:
        dataset = TokensDataset(f"{tmp_path}/*.bin", 3)
        loader = DataLoader(dataset, batch_size=64, sampler=RandomSampler(dataset, seed=1))
        assert sum(len(batch["labels"]) for batch in loader) == 900
        assert descriptors() <= before + 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_larger_than_memory_is_opened_and_read(tmp_path: Path) -> None:
    """A sparse file: 2^42 bytes that take no space on disk."""
    path = tmp_path / "huge.bin"
    path.touch()
    os.truncate(path, 2**42)
    dataset = TokensDataset(path, 8, stride=1)
    assert len(dataset) == 2**41 - 7
    batch = next(iter(DataLoader(dataset, sampler=[0, 2**40, -1], batch_size=3)))
    assert_same(batch["labels"], torch.zeros(3, 8, dtype=torch.int64))


CUT_UNDER_THREADS = """
import numpy
from sluicegate import DataLoader, TokensDataset
for attempt in range(10):
    numpy.ones(1 << 24, dtype=numpy.uint16).tofile(path)
    iterator = iter(DataLoader(TokensDataset(path, 8192), batch_size=8, num_workers=2, prefetch_factor=8))
    next(iterator)
    cut = threading.Timer(0.001 * attempt, os.truncate, (path, 1000))
    cut.start()
    try:
        for batch in iterator:
            assert batch["labels"].min() == 1, "a batch of a file that was cut has other tokens than the file had"
            cut.join()
        print("whole")
    except OSError as error:
        assert "shrank since it was opened" in str(error), error
        print("named")
    cut.join()
"""


def test_a_file_that_is_cut_while_threads_read_it_never_ends_the_process(run: Run, tmp_path: Path) -> None:
    ended = run(CUT_UNDER_THREADS, path=str(tmp_path / "x.bin"), deadline=100)
    ended.check()
    assert ended.stdout.split().count("named") >= 8

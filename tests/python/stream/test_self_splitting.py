"""Streams that split themselves, inside `shard_iterable`: each sample is read once, or there is an error."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import ChainDataset, IterDataPipe, get_worker_info
from torch.utils.data.datapipes.iter import IterableWrapper

from cases.pairs import in_pairs
from sluicegate import DataLoader, IterableDataset, JsonLinesStream, ShuffleBuffer, shard_iterable, split_by_class

datasets = pytest.importorskip("datasets")
pytest.importorskip("datasets.distributed")
webdataset = pytest.importorskip("webdataset")

SAMPLES = 24
SHARDS = 4
CASES = int(os.environ.get("SLUICEGATE_SPLIT_CASES", "40"))

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*DataPipes"),
    pytest.mark.filterwarnings("ignore:shard_iterable. .* asks torch.distributed for its rank"),
    # webdataset leaves files open if a stream ends early.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file"),
]


class ByWorker(IterableDataset[int]):
    """Splits itself among workers, as torch's documentation shows."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, SAMPLES, step))


class ByWorkerLater(IterableDataset[int]):
    """Requests its worker's number in the middle of the stream."""

    def __iter__(self) -> Iterator[int]:
        for sample in range(SAMPLES):
            if sample < SAMPLES // 2 or (info := get_worker_info()) is None or sample % info.num_workers == info.id:
                yield sample


class ByRank(IterableDataset[int]):
    """Splits itself among ranks."""

    def __iter__(self) -> Iterator[int]:
        rank, world_size = 0, 1
        if torch.distributed.is_initialized():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        return iter(range(rank, SAMPLES, world_size))


class BySeed(IterableDataset[int]):
    """Shuffles with the seed of its worker."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        return iter(random.Random(0 if info is None else info.seed).sample(range(SAMPLES), SAMPLES))


class BySampler(IterableDataset[int]):
    """Splits itself among ranks by torch's sampler."""

    def __iter__(self) -> Iterator[int]:
        if not torch.distributed.is_initialized():
            return iter(range(SAMPLES))
        return iter(torch.utils.data.distributed.DistributedSampler(range(SAMPLES), shuffle=False))  # type: ignore[arg-type]


class Whole(IterableDataset[int]):
    """Requests its seed and its number of workers, but does not split itself."""

    def __iter__(self) -> Iterator[int]:
        if (info := get_worker_info()) is not None:
            assert info.num_workers > 0
            assert info.seed != 0
        if torch.distributed.is_initialized():
            assert torch.distributed.get_world_size() > 0
        return iter(range(SAMPLES))


class Plain(IterableDataset[int]):
    """A generator from `start` to `stop`."""

    def __init__(self, start: int, stop: int) -> None:
        self.range = range(start, stop)

    def __iter__(self) -> Iterator[int]:
        yield from self.range


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for sample in range(shard, SAMPLES, SHARDS):
                member = tarfile.TarInfo(f"{sample:03}.cls")
                member.size = len(data := str(sample).encode())
                archive.addfile(member, io.BytesIO(data))
        (folder / f"{shard}.jsonl").write_text("".join(f"{n}\n" for n in range(shard, SAMPLES, SHARDS)))
    return folder


def hugging_face(folder: Path) -> Any:
    def generate(shards: list[int]) -> Iterator[dict[str, int]]:
        for shard in shards:
            for sample in range(shard, SAMPLES, SHARDS):
                yield {"x": sample}

    return datasets.IterableDataset.from_generator(generate, gen_kwargs={"shards": list(range(SHARDS))})


def split_hugging_face(folder: Path) -> Any:
    rank, world_size = 0, 1
    if torch.distributed.is_initialized():
        rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return datasets.distributed.split_dataset_by_node(hugging_face(folder), rank, world_size)


def web(folder: Path, **arguments: Any) -> Any:
    urls = [str(folder / f"{shard}.tar") for shard in range(SHARDS)]
    return webdataset.WebDataset(urls, shardshuffle=False, empty_check=False, **arguments).decode().to_tuple("cls")


KINDS: dict[str, Callable[[Path], Any]] = {
    "by worker": lambda folder: ByWorker(),
    "by worker, later": lambda folder: ByWorkerLater(),
    "by seed": lambda folder: BySeed(),
    "by rank": lambda folder: ByRank(),
    "by a sampler": lambda folder: BySampler(),
    "whole": lambda folder: Whole(),
    "Hugging Face": hugging_face,
    "Hugging Face, split": split_hugging_face,
    "WebDataset": web,
    "WebDataset by node": lambda folder: web(folder, nodesplitter=webdataset.split_by_node),
    "WebDataset, whole": lambda folder: web(folder, nodesplitter=None, workersplitter=None),
    "chain": lambda folder: ChainDataset([Plain(0, 9), Plain(9, SAMPLES)]),
    "chain of splitting": lambda folder: ChainDataset([Plain(0, 0), ByWorker()]),
    "chain of native": lambda folder: ChainDataset(
        [JsonLinesStream(str(folder / f"{shard}.jsonl")) for shard in range(SHARDS)]
    ),
    "chain of sharded": lambda folder: ChainDataset([shard_iterable(Plain(0, 9)), shard_iterable(Plain(9, SAMPLES))]),
    "data pipe": lambda folder: IterableWrapper(range(SAMPLES)).sharding_filter(),
    "native": lambda folder: JsonLinesStream([str(folder / f"{shard}.jsonl") for shard in range(SHARDS)]),
    "loader": lambda folder: DataLoader(Plain(0, SAMPLES), batch_size=None),
    "loader with workers": lambda folder: DataLoader(shard_iterable(Plain(0, SAMPLES)), batch_size=None, num_workers=2),
}

# These may be refused; the others may not.
SPLITTING = {kind for kind in KINDS if kind.startswith(("Hugging", "WebDataset"))} - {"WebDataset, whole"}
SPLITTING |= {"loader with workers"}

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "plain": shard_iterable,
    "buffer around": lambda stream: ShuffleBuffer(shard_iterable(stream), size=5, seed=1),
    "buffer inside": lambda stream: shard_iterable(ShuffleBuffer(stream, size=5, seed=1)),
    "twice": lambda stream: shard_iterable(shard_iterable(stream)),
    "chain around": lambda stream: ChainDataset([shard_iterable(stream), shard_iterable(Plain(0, 0))]),
}


def number(sample: Any) -> int:
    if isinstance(sample, dict):
        (sample,) = sample.values()
    return int(sample[0] if isinstance(sample, (tuple, list)) else sample)


@contextlib.contextmanager
def ranked(rank: int, world_size: int) -> Iterator[None]:
    if world_size == 1:
        yield
        return
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def read(make: Callable[[], Any], world_size: int, **arguments: Any) -> list[int]:
    found = []
    for rank in range(world_size):
        with ranked(rank, world_size):
            found += [number(sample) for sample in DataLoader(make(), batch_size=None, **arguments)]
    return sorted(found)


@pytest.mark.parametrize("case", range(CASES))
def test_every_sample_is_read_once_or_there_is_an_error(folder: Path, case: int) -> None:
    draw = random.Random(case)
    kinds = list(KINDS)
    kind = kinds[case % len(kinds)]
    wrapper, world_size, num_workers = draw.choice(list(WRAPPERS)), draw.choice([1, 2, 3]), draw.choice([0, 1, 2, 3])
    worker_type = draw.choice(["process", "thread"])
    what = f"{kind}, {wrapper}, {world_size} ranks, {num_workers} workers, {worker_type}"
    found = None
    # A loader in a worker process can't start workers; multiprocessing fails an assertion.
    own_error = AssertionError if kind == "loader with workers" else ValueError
    with contextlib.suppress(ValueError, RuntimeError, own_error):
        found = read(
            lambda: WRAPPERS[wrapper](KINDS[kind](folder)),
            world_size,
            num_workers=num_workers,
            worker_type=worker_type,
        )
    # Threads can't share a pipe.
    if kind not in SPLITTING and not (kind == "data pipe" and worker_type == "thread"):
        assert found is not None, what
    assert found is None or found == list(range(SAMPLES)), what


SHARED = ["whole", "WebDataset, whole", "chain", "chain of native", "data pipe", "native", "loader"]


# Streams that can be shared are, for any number of ranks and workers, which are one parameter here.
@pytest.mark.parametrize(("kind", "wrapper", "readers"), in_pairs(SHARED, WRAPPERS, [(2, 2), (1, 2), (2, 0)]))
def test_streams_that_do_not_split_themselves_are_shared(
    folder: Path, kind: str, wrapper: str, readers: tuple[int, int]
) -> None:
    world_size, num_workers = readers
    found = read(lambda: WRAPPERS[wrapper](KINDS[kind](folder)), world_size, num_workers=num_workers)
    assert found == list(range(SAMPLES))


ASKING = ["by worker", "by worker, later", "by seed", "by rank", "by a sampler", "chain of splitting"]


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("kind", ASKING)
def test_a_stream_that_splits_itself_is_split_once(folder: Path, kind: str, world_size: int, worker_type: str) -> None:
    # Threads have all combinations; of processes, which are slow to start, every two values of different parameters.
    first = (ASKING.index(kind) + world_size) % 2
    for wrapper in [*WRAPPERS.values()][first::2] if worker_type == "process" else WRAPPERS.values():
        for num_workers in (2,) if worker_type == "process" else (0, 2):
            found = read(
                lambda wrapper=wrapper: wrapper(KINDS[kind](folder)),
                world_size,
                num_workers=num_workers,
                worker_type=worker_type,
            )
            assert found == list(range(SAMPLES)), (wrapper, num_workers)


def test_torchs_own_workers_split_it_once_too() -> None:
    loader = torch.utils.data.DataLoader(shard_iterable(ByWorker()), batch_size=None, num_workers=2)
    assert sorted(loader) == list(range(SAMPLES))


def test_a_stream_that_gets_a_substituted_rank_is_a_warning() -> None:
    with pytest.warns(
        UserWarning, match=r"ByRank asks torch.distributed for its rank and gets rank 0 of 1, .* among 2 ranks"
    ) as told:
        assert read(lambda: shard_iterable(ByRank()), 2) == list(range(SAMPLES))
    assert {warning.filename for warning in told} == {__file__}
    # Only workers share it, and its ranks are torch's.
    assert read(lambda: shard_iterable(ByRank(), shard=(0, 1)), 2, num_workers=2) == list(range(SAMPLES))
    assert read(lambda: ByRank(), 3) == list(range(SAMPLES))


def test_collectives_of_a_stream_have_the_real_rank() -> None:
    class Broadcasting(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            # Raises if the rank is not that of the device mesh.
            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
            yield mesh.get_rank()

    with ranked(1, 2):
        assert next(iter(shard_iterable(Broadcasting(), shard=(0, 2)))) == 1


ONCE: list[tuple[str, int]] = [
    ("Hugging Face", 1),
    ("Hugging Face", 2),
    ("Hugging Face, split", 2),
    ("WebDataset", 1),
    ("WebDataset by node", 2),
]


@pytest.mark.parametrize(("once", "wrapper", "num_workers"), in_pairs(ONCE, WRAPPERS, [0, 2]))
def test_streams_of_other_packages_are_split_once(
    folder: Path, once: tuple[str, int], wrapper: str, num_workers: int
) -> None:
    kind, world_size = once
    found = read(lambda: WRAPPERS[wrapper](KINDS[kind](folder)), world_size, num_workers=num_workers)
    assert found == list(range(SAMPLES))


@pytest.mark.filterwarnings("ignore:.*has no state_dict")
@pytest.mark.parametrize("kind", ["Hugging Face", "WebDataset"])
@pytest.mark.parametrize("wrapper", ["plain", "buffer around"])
def test_a_stream_that_is_split_once_resumes(folder: Path, kind: str, wrapper: str) -> None:
    def loader() -> Any:
        return DataLoader(WRAPPERS[wrapper](KINDS[kind](folder)), 3, collate_fn=list, num_workers=2)

    running, resumed = loader(), loader()
    batches = iter(running)
    first = [next(batches) for _ in range(3)]
    resumed.load_state_dict(running.state_dict())
    rest = [list(map(number, batch)) for batch in batches]
    assert [list(map(number, batch)) for batch in resumed] == rest
    assert sorted([*map(number, itertools.chain(*first)), *itertools.chain(*rest)]) == list(range(SAMPLES))


def test_streams_that_would_be_split_twice_are_refused_with_a_remedy(folder: Path) -> None:
    chain = ChainDataset([hugging_face(folder), Plain(0, 3)])
    with pytest.raises(ValueError, match="split_dataset_by_node"):
        read(lambda: shard_iterable(chain), 1, num_workers=2)
    with pytest.raises(ValueError, match="split_dataset_by_node"):
        read(lambda: shard_iterable(hugging_face(folder)), 1, num_workers=2, worker_type="thread")
    another = datasets.distributed.split_dataset_by_node(hugging_face(folder), 0, 3)
    with pytest.raises(ValueError, match="split_dataset_by_node"):
        list(shard_iterable(another, shard=(0, 2)))
    with pytest.raises(ValueError, match="explicit nodesplitter"):  # raised by webdataset
        read(lambda: shard_iterable(web(folder)), 2)


@pytest.mark.parametrize("shuffles", [False, True])
def test_a_loader_splits_a_stream_of_hugging_face_by_its_shard(folder: Path, shuffles: bool) -> None:
    def loader(shard: Any, **arguments: Any) -> Any:
        stream = hugging_face(folder)
        return DataLoader(stream.shuffle(seed=3) if shuffles else stream, 2, shard=shard, **arguments)

    def numbers(batches: Iterator[Any]) -> list[int]:
        return [index for batch in batches for index in batch["x"].tolist()]

    for num_workers in (0, 2):
        ranks = [loader((rank, 2), num_workers=num_workers) for rank in range(2)]
        assert sorted(numbers(itertools.chain(*ranks))) == list(range(SAMPLES))
        iterators = [iter(each) for each in ranks]
        first = numbers(next(batches) for batches in iterators for _ in range(2))
        states = [each.state_dict() for each in ranks]
        again = [loader((rank, 2), num_workers=num_workers) for rank in range(2)]
        with pytest.warns(UserWarning, match="up to 1000 samples") if shuffles else contextlib.nullcontext():
            again[1].load_state_dict(states[1])
        if not shuffles:
            again[0].load_state_dict(states[0])
            assert sorted(first + numbers(itertools.chain(*again))) == list(range(SAMPLES))
        with pytest.raises(ValueError, match=r"order: shard\(0, 2\) in the state, shard\(1, 2\)"):
            again[1].load_state_dict(states[0])
    with ranked(1, 2):
        assert numbers(loader("auto")) == numbers(loader((1, 2)))
    # A trainer may recreate the loader from its attributes.
    copied = DataLoader(ranks[1].dataset, 2, shard=ranks[1].shard)
    assert numbers(copied) == numbers(loader((1, 2)))
    with pytest.raises(ValueError, match=r"split before, for rank 1 of 2, got \(0, 2\)"):
        DataLoader(ranks[1].dataset, 2, shard=(0, 2))
    with pytest.raises(ValueError, match="remainder option can't be given"):
        loader((0, 2), remainder="drop")


def test_our_buffer_in_place_of_that_of_hugging_face_resumes_with_its_samples(folder: Path) -> None:
    theirs = DataLoader(hugging_face(folder).shuffle(seed=1, buffer_size=10).map(dict), 3, num_workers=2)
    ours, resumed = (DataLoader(ShuffleBuffer(hugging_face(folder), 10, seed=1), 3, num_workers=2) for _ in range(2))
    next(iter(theirs))
    with pytest.warns(UserWarning, match=r"up to 10 samples that were in it in each of 2 workers .*ShuffleBuffer"):
        theirs.load_state_dict(theirs.state_dict())
    batches = iter(ours)
    next(batches)
    resumed.load_state_dict(ours.state_dict())
    assert [batch["x"].tolist() for batch in resumed] == [batch["x"].tolist() for batch in batches]


def test_the_remedies_work(folder: Path) -> None:
    for num_workers in (0, 2):
        assert read(lambda: split_hugging_face(folder), 2, num_workers=num_workers) == list(range(SAMPLES))
        assert read(lambda: KINDS["WebDataset by node"](folder), 2, num_workers=num_workers) == list(range(SAMPLES))


def test_the_error_of_shard_names_the_remedy_of_the_stream(folder: Path) -> None:
    for stream, remedy in (
        (ShuffleBuffer(hugging_face(folder), size=3), "split_dataset_by_node"),
        (web(folder), "nodesplitter=webdataset.split_by_node"),
        (Plain(0, 3), "sluicegate.shard_iterable, .* unless it splits itself"),
    ):
        with pytest.raises(ValueError, match=f"shard option can't be given .*{remedy}"):
            DataLoader(stream, shard=(0, 2))


def test_split_by_class_of_a_stream_that_splits_itself(folder: Path) -> None:
    def parity(sample: Any) -> int:
        return number(sample) % 2

    for rank in range(2):
        with ranked(rank, 2):
            split = split_by_class(shard_iterable(ByRank()), parity, None, when_full="spill", classes=[0, 1])
            assert sorted(map(number, itertools.chain(split[0], split[1]))) == list(range(rank, SAMPLES, 2))


def test_a_loader_with_workers_inside_is_refused_where_samples_would_be_read_twice() -> None:
    def make() -> Any:
        return DataLoader(JsonLinesStream("pipe:seq 0 9"), batch_size=None, num_workers=2)

    assert sorted(map(int, shard_iterable(make()))) == list(range(10))
    with pytest.raises(ValueError, match="reads a DataLoader with workers over JsonLinesStream"):
        list(shard_iterable(make(), shard=(0, 2)))


def test_info_is_torchs_outside_of_a_split() -> None:
    class Told(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            assert isinstance(info, torch.utils.data._utils.worker.WorkerInfo)
            yield [info.id, info.num_workers, repr(info).startswith("WorkerInfo(")]

    assert list(DataLoader(Told(), batch_size=None, num_workers=2)) == [[0, 2, True], [1, 2, True]]


def test_a_data_pipe_outside_of_a_split_is_sharded_by_torchs_rule() -> None:
    pipe: IterDataPipe[int] = IterableWrapper(range(SAMPLES)).sharding_filter()
    assert sorted(DataLoader(pipe, batch_size=None, num_workers=2)) == list(range(SAMPLES))

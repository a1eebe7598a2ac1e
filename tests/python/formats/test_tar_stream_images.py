"""Images in `TarStream`: the values of torchvision and `TarDataset`, in any process, order, and state."""

from __future__ import annotations

import io
import json
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.data
from PIL import Image

import sluicegate
from checks.equality import assert_same
from doubles.photographs import encoded, photograph
from doubles.tar_files import put
from sluicegate import DataLoader, ImageField, ShuffleBuffer, TarDataset, TarStream, shard_iterable, transforms

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

SAMPLES = 13
CROP = transforms.RandomResizedCrop(16)
FLOATS = transforms.ToDtype(torch.float32, scale=True)
RANDOM = transforms.Compose([CROP, transforms.RandomHorizontalFlip(), FLOATS])


def member(number: int) -> bytes:
    return encoded(photograph(number, 50 + number, 44), quality=90)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    members = [(f"{number:04}.{name}", made) for number in range(SAMPLES) for name, made in parts(number)]
    return put(tmp_path_factory.mktemp("images") / "a.tar", members)


def parts(number: int) -> list[tuple[str, bytes]]:
    return [("jpg", member(number)), ("cls", str(number).encode()), ("json", b'{"n": %d}' % number)]


def stream(path: Any, transform: Any = RANDOM, **more: Any) -> TarStream:
    return TarStream(path, {"jpg": ImageField(transform), "cls": int, "json": "json"}, **more)


def images(batches: Any) -> dict[int, Any]:
    """Return the image of each sample, by its number."""
    found = {}
    for batch in batches:
        found.update(zip(batch["cls"].tolist(), batch["jpg"], strict=True))
    return found


def batches_of(loader: Any) -> list[Any]:
    return list(loader)


@pytest.mark.parametrize(
    "field", ["image", ImageField(transforms.CenterCrop(9), mode="L"), ImageField(transforms.Resize(20), exact=True)]
)
def test_samples_are_those_of_tar_dataset(path: str, field: Any) -> None:
    fields = {"jpg": field, "cls": int}
    expected = list(TarDataset(path, fields))
    assert expected[0]["jpg"].dtype == torch.uint8
    for source in (path, f"pipe:gzip -c {path}"):
        samples = list(TarStream(source, fields))
        assert [sample.pop("__url__") for sample in samples] == [source] * SAMPLES
        assert_same(samples, [{name: sample[name] for name in sample if name != "__url__"} for sample in expected])


def test_random_images_are_torchvisions_in_torchs_loader_and_in_ours(path: str) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    theirs = v2.Compose([v2.PILToTensor(), v2.RandomResizedCrop(16, antialias=True), v2.RandomHorizontalFlip()])
    ours = v2.Compose([v2.RandomResizedCrop(16), v2.RandomHorizontalFlip()])

    torch.manual_seed(5)
    files = [io.BytesIO(sample["jpg"]) for sample in TarStream(path, {"jpg": "bytes"})]
    expected = [theirs(Image.open(file).convert("RGB")) for file in files]
    made = TarStream(path, {"jpg": ImageField(ours, exact=True)})
    torch.manual_seed(5)
    one_by_one = [sample["jpg"] for sample in made]
    for image, other in zip(one_by_one, expected, strict=True):
        assert (image.int() - other.int()).abs().max() <= 1
    for kind in (torch.utils.data.DataLoader, DataLoader):
        loader = kind(made, batch_size=4, collate_fn=made.collate if kind is DataLoader else None)
        iterator = iter(loader)
        torch.manual_seed(5)
        assert torch.cat([batch["jpg"] for batch in iterator]).equal(torch.stack(one_by_one))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("around", [lambda stream: stream, lambda stream: ShuffleBuffer(stream, 4, 3), shard_iterable])
def test_without_a_seed_images_of_a_stream_equal_those_of_torchs_loader(
    path: str, num_workers: int, around: Callable[[Any], Any]
) -> None:
    batches = []
    for kind in (torch.utils.data.DataLoader, DataLoader):
        torch.manual_seed(8)
        loader = kind(around(stream(path)), batch_size=3, num_workers=num_workers)
        # With torch's loader, a buffer in a worker does not learn that a new epoch begins.
        batches.append([*loader, *(loader if num_workers == 0 else ())])
        batches[-1].append(torch.rand(1))
    assert_same(batches[0], batches[1])


def test_without_a_seed_threads_yield_torchs_deterministic_images(path: str) -> None:
    fixed = transforms.Compose([transforms.Resize((12, 10)), FLOATS])
    theirs = list(torch.utils.data.DataLoader(stream(path, fixed), batch_size=3, num_workers=2))
    assert_same(list(DataLoader(stream(path, fixed), batch_size=3, num_workers=2, worker_type="thread")), theirs)


def own(image: torch.Tensor) -> torch.Tensor:
    """A user-defined transform that draws from every available generator."""
    generators = sluicegate.sample_rng()
    drawn = generators.python.random() + torch.rand((), generator=generators.torch).item() + random.random()
    return image[:, :4, :4].float() + drawn


@pytest.mark.parametrize("transform", [RANDOM, own])
def test_with_a_seed_images_are_the_same_for_any_number_of_workers_and_ranks(path: str, transform: Any) -> None:
    alone = batches_of(DataLoader(stream(path, transform), batch_size=3, seed=7))
    assert len(alone) == 5
    by_number = images(alone)
    kinds: list[tuple[int, Any]] = [(1, "process"), (3, "process"), (1, "thread"), (2, "thread"), (3, "thread")]
    for num_workers, worker_type in kinds:
        if transform is own and worker_type == "thread":
            continue  # Threads leave the global generators alone.
        loader = DataLoader(
            stream(path, transform), batch_size=3, seed=7, num_workers=num_workers, worker_type=worker_type
        )
        assert_same(batches_of(loader), alone)
    for rank in range(2):
        loader = DataLoader(stream(path, transform, shard=(rank, 2)), batch_size=2, seed=7)
        for number, image in images(loader).items():
            assert image.equal(by_number[number])
    # Each sample draws independently, also in each epoch.
    loader = DataLoader(stream([path, path], transform), batch_size=3, seed=7)
    twice = [image for batch in loader for image in batch["jpg"]]
    later = images(loader)
    assert len({float(image.double().sum()) for image in (*twice, *later.values())}) == 3 * SAMPLES
    assert all(image.equal(by_number[number]) for number, image in enumerate(twice[:SAMPLES]))


def test_with_a_seed_a_sample_draws_the_same_alone_in_batches_and_in_buffers(path: str) -> None:
    expected = images(DataLoader(stream(path), batch_size=3, seed=7))
    readers: list[Any] = [
        DataLoader(stream(path), batch_size=4, seed=7, collate_fn=stream(path).collate),
        DataLoader(ShuffleBuffer(stream(path), 5, 3), batch_size=3, seed=7),
        DataLoader(ShuffleBuffer(stream(path), max_bytes=5000, seed=3), batch_size=3, seed=7),
        DataLoader(ShuffleBuffer(shard_iterable(stream(path)), 5), batch_size=2, seed=7, num_workers=2),
        DataLoader(shard_iterable(ShuffleBuffer(stream(path), 5, 3)), batch_size=2, seed=7, num_workers=2),
        DataLoader(shard_iterable(stream(path)), batch_size=3, seed=7, num_workers=2, worker_type="thread"),
    ]
    for loader in readers:
        found = images(loader)
        assert sorted(found) == list(range(SAMPLES))
        assert all(image.equal(expected[number]) for number, image in found.items())
    for sample in DataLoader(stream(path), batch_size=None, seed=7):
        assert sample["jpg"].equal(expected[int(sample["cls"])])
    for batch, ids in DataLoader(stream(path), batch_size=4, seed=7).with_ids("__key__"):
        assert ids.sample_ids == batch["__key__"]
        assert all(image.equal(expected[number]) for number, image in images([batch]).items())


def test_batches_are_decoded_in_one_call_where_images_have_one_form(path: str) -> None:
    def made(field: Any, **more: Any) -> Any:
        return iter(DataLoader(TarStream(path, {"jpg": field, "cls": int}, **more), batch_size=4))._dataset_fetcher

    assert made(ImageField(CROP))._native is not None
    for other in (made("image"), made(ImageField(CROP), on_missing="none"), made(ImageField(own))):
        assert other._native is None
    buffered = iter(DataLoader(ShuffleBuffer(stream(path), 4, 3), batch_size=4))
    assert buffered._dataset_fetcher._native is not None


def test_a_buffer_holds_files(path: str) -> None:
    buffered = ShuffleBuffer(stream(path, transforms.Resize((200, 200))), 6, 3)
    iterator: Any = iter(buffered)
    assert next(iterator)["jpg"].shape == (3, 200, 200)
    assert [type(held.sample["jpg"]) for held in iterator._samples] == [bytes] * 5


def check_resumes(make: Callable[[int], Any], there: int, here: int) -> None:
    """Assert that every state of the second epoch resumes with `here` workers; samples are compared by number."""
    loader = make(there)
    list(loader)
    whole, states = [], []
    for batch in loader:
        whole.append(batch)
        states.append(json.loads(json.dumps(loader.state_dict())))
    later = images(loader)
    everything = images(whole)
    for stop in range(1, len(whole) + 1):
        resumed = make(here)
        resumed.load_state_dict(states[stop - 1])
        rest = list(resumed)
        if here == there:
            assert_same(rest, whole[stop:])
        found = images(rest)
        assert set(found) == set(everything) - set(images(whole[:stop]))
        assert all(image.equal(everything[number]) for number, image in found.items())
    assert all(image.equal(later[number]) for number, image in images(resumed).items())


@pytest.mark.parametrize("workers", [(0, 0), (2, 2), (2, 3), (3, 0)])
@pytest.mark.parametrize("size", [None, 4])
def test_a_seeded_stream_of_images_resumes_from_any_state(
    path: str, size: int | None, workers: tuple[int, int]
) -> None:
    def make(num_workers: int) -> Any:
        read: Any = stream(path) if size is None else ShuffleBuffer(stream(path), size, 3)
        return DataLoader(
            read, batch_size=2, seed=7, num_workers=num_workers, worker_type="thread" if num_workers else "process"
        )

    check_resumes(make, *workers)


@pytest.mark.parametrize("around", [lambda stream: stream, lambda stream: ShuffleBuffer(stream, 4, 3), shard_iterable])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_images_in_torchs_order_resume(path: str, num_workers: int, around: Callable[[Any], Any]) -> None:
    def loader() -> Any:
        return DataLoader(around(stream(path)), batch_size=2, num_workers=num_workers)

    torch.manual_seed(3)
    running = loader()
    iterator = iter(running)
    first = [next(iterator) for _ in range(3)]
    state = json.loads(json.dumps(running.state_dict()))
    rest = list(iterator)
    torch.manual_seed(99)
    resumed = loader()
    resumed.load_state_dict(state)
    assert_same(list(resumed), rest)
    assert set(images(first)) | set(images(rest)) == set(range(SAMPLES))


def damaged(folder: pathlib.Path) -> str:
    """Return an archive whose samples 2 and 7 are not images."""
    members = [(f"{number:04}.{name}", made) for number in range(10) for name, made in parts(number)]
    for number in (2, 7):
        whole = members[3 * number][1]
        members[3 * number] = (members[3 * number][0], whole[: len(whole) // 2] if number == 2 else b"nonsense")
    return put(folder / "damaged.tar", members)


@pytest.mark.parametrize("buffer", [None, 1])
@pytest.mark.parametrize("batch_size", [2, 4, 5, 20])
def test_a_truncated_archive_yields_the_samples_before_the_cut(
    path: str, tmp_path: pathlib.Path, batch_size: int, buffer: int | None
) -> None:
    whole = pathlib.Path(path).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: whole.index(b"0006.jpg") + 900])
    archive: Any = stream(tmp_path / "cut.tar")
    found: list[int] = []
    loader = DataLoader(archive if buffer is None else ShuffleBuffer(archive, buffer), batch_size=batch_size, seed=1)
    with pytest.raises(ValueError, match="sample 6"):  # noqa: PT012
        for batch in loader:
            found += batch["cls"].tolist()
    assert found == list(range(6))


@pytest.mark.parametrize("transform", [None, RANDOM])
def test_a_damaged_image_is_named(tmp_path: pathlib.Path, transform: Any) -> None:
    file = damaged(tmp_path)
    iterator = iter(stream(file, transform))
    samples = [next(iterator)["cls"] for _ in range(2)]
    with pytest.raises(ValueError, match=r"damaged.tar: sample 2: member `0002\.jpg`: .*JPEG"):
        next(iterator)
    assert [*samples, next(iterator)["cls"]] == [0, 1, 3]
    for seed in (None, 7):
        loader = DataLoader(stream(file, transform), batch_size=None if transform is None else 4, seed=seed)
        with pytest.raises(ValueError, match=r"damaged.tar: sample 2: member `0002\.jpg`: .*JPEG"):
            list(loader)


@pytest.mark.parametrize("transform", [RANDOM, own])
def test_skipping_damaged_images_does_not_change_the_others(tmp_path: pathlib.Path, path: str, transform: Any) -> None:
    file = damaged(tmp_path)
    whole = images(DataLoader(stream(path, transform), batch_size=3, seed=7))
    for around in (lambda stream: stream, lambda stream: ShuffleBuffer(stream, 3, 3), shard_iterable):
        read = stream(file, transform, on_error="skip")
        batches = list(DataLoader(around(read), batch_size=3, seed=7))
        assert [len(batch["cls"]) for batch in batches] == [3, 3, 2]
        found = images(batches)
        assert sorted(found) == [0, 1, 3, 4, 5, 6, 8, 9]
        assert all(image.equal(whole[number]) for number, image in found.items())
        assert sorted(text.split(": ")[1] for text in read.damages) == ["sample 2", "sample 7"]


def test_skipped_samples_draw_no_random_values(tmp_path: pathlib.Path) -> None:
    file = damaged(tmp_path)
    torch.manual_seed(4)
    singles = [sample["jpg"] for sample in stream(file, on_error="skip")]
    loader = DataLoader(stream(file, on_error="skip"), batch_size=20)
    iterator = iter(loader)
    torch.manual_seed(4)
    assert torch.stack(singles).equal(next(iterator)["jpg"])


def test_all_may_be_damaged(tmp_path: pathlib.Path) -> None:
    file = put(tmp_path / "a.tar", [(f"{number}.jpg", b"x") for number in range(9)])
    for batch_size in (None, 2, 20):
        read = TarStream(file, {"jpg": ImageField(CROP)}, on_error="skip")
        assert list(DataLoader(read, batch_size=batch_size)) == []
        assert len(read.damages) == 9


def test_a_transform_that_fails_is_no_damage(path: str) -> None:
    def failing(image: Any) -> Any:
        raise ValueError("my own bug")

    with pytest.raises(ValueError, match="my own bug"):
        list(stream(path, failing, on_error="skip"))


@pytest.mark.parametrize("seed", [None, 7])
def test_several_images_of_a_sample(tmp_path: pathlib.Path, seed: int | None) -> None:
    members = []
    for number in range(6):
        wrong = number == 3
        members += [(f"{number}.a.jpg", member(number)), (f"{number}.b.jpg", b"x" if wrong else member(number + 9))]
    file = put(tmp_path / "two.tar", members)
    fixed = transforms.Resize((8, 9))
    for first, second in ((CROP, fixed), (fixed, CROP), (CROP, CROP)):
        fields = {"a.jpg": ImageField(first), "b.jpg": ImageField(second)}
        made = []
        for in_one_call in (True, False):
            read = TarStream(file, fields, on_error="skip")
            loader: Any = DataLoader(read, batch_size=4, seed=seed, collate_fn=None if in_one_call else read.collate)
            iterator = iter(loader)
            torch.manual_seed(6)
            made.append(list(iterator))
            assert [batch["__key__"] for batch in made[-1]] == [["0", "1", "2", "4"], ["5"]]
            assert len(read.damages) == 1
        assert_same(made[0], made[1])


def test_missing_images_are_none_or_their_samples_left_out(tmp_path: pathlib.Path) -> None:
    file = put(tmp_path / "a.tar", [("a.jpg", member(1)), ("a.cls", b"1"), ("b.cls", b"2"), ("c.jpg", member(3))])
    fields: Any = {"jpg": ImageField(CROP), "cls": int}
    (batch,) = DataLoader(TarStream(file, fields, on_missing="none"), batch_size=4, seed=1)
    assert [None if image is None else tuple(image.shape) for image in batch["jpg"]] == [(3, 16, 16), None, (3, 16, 16)]
    assert batch["cls"] == [1, 2, None]
    assert [sample["__key__"] for sample in TarStream(file, fields, on_missing="skip")] == ["a"]
    with pytest.raises(ValueError, match="sample 1: `b` has no member `jpg`"):
        list(TarStream(file, fields))
    either = put(tmp_path / "b.tar", [("a.png", encoded(photograph(1), "png")), ("b.jpg", member(2))])
    assert [sample["jpg;png"].shape[0] for sample in TarStream(either, {"jpg;png": "image"})] == [3, 3]


def test_image_caches_are_refused_in_streams(path: str) -> None:
    with pytest.raises(
        ValueError, match=r"fields\['jpg'\]: a stream has no indices .* got cache='memory'; .* TarDataset"
    ):
        TarStream(path, {"jpg": ImageField(cache="memory")})


def test_streams_side_by_side_draw_differently(path: str) -> None:
    chained = torch.utils.data.ChainDataset([stream(path), stream(path)])
    loader = DataLoader(chained, batch_size=1, seed=7)
    both = [batch["jpg"] for batch in loader]
    assert len(both) == 2 * SAMPLES
    assert not any(one.equal(other) for one, other in zip(both, both[SAMPLES:], strict=False))

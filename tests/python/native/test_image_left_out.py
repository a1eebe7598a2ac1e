"""`on_error="skip"` of `ImageFolderDataset`: files that are not images are excluded from len, indices, and ids."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from checks.equality import assert_same
from doubles.photographs import encoded, folder_of, photograph
from sluicegate import CsvLabels, DataLoader, ImageFolderDataset
from sluicegate import transforms as T

# Invalid contents of files that are added to twelve valid ones.
WRONG = {
    "class0/cut.jpg": encoded(photograph(1), quality=90)[:-900],
    "class1/empty.jpg": b"",
    "class1/page.png": b"<html>not found</html>",
    "only/bits.png": encoded(photograph(2), "png")[:500] + bytes(300),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = folder_of(tmp_path / "images", 12)
    for name, data in WRONG.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    (root / "class2" / "gone.jpg").symlink_to("nothing")
    return root


def pillow_opens(path: Path) -> bool:
    try:
        with Image.open(path) as image:
            image.load()
    except OSError:
        return False
    return True


def test_files_that_pillow_refuses_are_skipped_and_reported(root: Path) -> None:
    whole = sorted(path for path in root.glob("*/*") if pillow_opens(path))
    assert len(whole) == 12
    dataset = ImageFolderDataset(root, T.Resize((32, 32)), on_error="skip")
    assert [path for path, _ in dataset.samples] == list(map(str, whole))
    # Class numbers do not depend on invalid files.
    assert dataset.classes == ["class0", "class1", "class2", "only"]
    assert len(dataset) == len(dataset.targets) == 12
    expected = [(root / "class2" / "gone.jpg", "No such file"), (root / "class0" / "cut.jpg", "the image is truncated")]
    expected += [(root / "class1" / "empty.jpg", "no bytes"), (root / "class1" / "page.png", "begins with <html>")]
    expected += [(root / "only" / "bits.png", "")]
    assert len(dataset.damages) == len(expected)
    for line, (path, words) in zip(dataset.damages, expected, strict=True):
        assert re.match(f"{re.escape(str(path))}: .*{words}", line)
    shutil.rmtree(root / "only")
    for name in [*WRONG, "class2/gone.jpg"]:
        (root / name).unlink(missing_ok=True)
    clean = ImageFolderDataset(root, T.Resize((32, 32)))
    for options in ({}, {"num_workers": 2}, {"shuffle": True, "seed": 3}):
        assert_same(list(DataLoader(dataset, 5, **options)), list(DataLoader(clean, 5, **options)))
    assert ImageFolderDataset(root, on_error="skip").damages == clean.damages == []


def test_the_arguments_determine_which_files_are_damaged(root: Path) -> None:
    def left_out(**arguments: Any) -> list[str]:
        damages = ImageFolderDataset(root, on_error="skip", **arguments).damages
        return [os.path.basename(line.partition(": ")[0]) for line in damages]

    assert left_out() == ["gone.jpg", "cut.jpg", "empty.jpg", "page.png", "bits.png"]
    assert left_out(truncated="fill") == ["gone.jpg", "empty.jpg", "page.png", "bits.png"]
    assert len(left_out(max_pixels=70 * 60)) == 5 + 11
    assert left_out(is_valid_file=lambda path: "c" in os.path.basename(path)[:-4], allow_empty=True) == ["cut.jpg"]
    with pytest.raises(FileNotFoundError, match=re.escape("gone.jpg")):
        ImageFolderDataset(root)
    with pytest.raises(ValueError, match="'raise' or 'skip'"):
        ImageFolderDataset(root, on_error="ignore")  # type: ignore[arg-type]


def test_labels_are_those_of_the_images_that_are_left(root: Path) -> None:
    names = [os.path.relpath(path, root) for path in root.glob("*/*")]
    table = root.parent / "labels.csv"
    table.write_text("file,label\n" + "".join(f"{name},{len(name)}{name[-5]}\n" for name in names))
    dataset = ImageFolderDataset(root, labels=CsvLabels(table), on_error="skip")
    names = [os.path.relpath(path, root) for path, _ in dataset.samples]
    assert [dataset.classes[label] for label in dataset.targets] == [f"{len(name)}{name[-5]}" for name in names]
    other = pickle.loads(pickle.dumps(dataset))
    assert (other.samples, other.damages) == (dataset.samples, dataset.damages)
    images = ImageFolderDataset(root, labels=None, on_error="skip")
    assert_same([images[place] for place in range(12)], [dataset[place][0] for place in range(12)])


def test_the_skipped_files_are_stored_until_files_change(tmp_path: Path) -> None:
    root, index = tmp_path / "images", tmp_path / "index"
    (root / "a").mkdir(parents=True)
    large, small = root / "a" / "large.pgm", root / "a" / "small.pgm"
    large.write_bytes(b"P5 2100 2100 255 " + bytes(2100 * 2100))
    small.write_bytes(b"P5 1 1 255 7")

    def left_out(**arguments: Any) -> list[str]:
        dataset = ImageFolderDataset(root, on_error="skip", index_folder=index, **arguments)
        return [line.partition(": ")[0] for line in dataset.damages]

    assert left_out() == []
    (kept,) = index.glob("*.sluicegate-index")
    assert kept.stat().st_size < 1_000
    facts = small.stat()
    small.write_bytes(b"no image at ")
    assert left_out() == [str(small)], "it was written to"
    small.write_bytes(b"P5 1 1 255 7")
    os.utime(small, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert left_out() == [], "it is what it was"
    small.write_bytes(b"no image at ")
    os.utime(small, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert left_out() == [str(small)], "the time of its last change of any kind is another"
    assert left_out(mode="L") == [str(small)], "other arguments may refuse others"
    kept.write_bytes(kept.read_bytes()[:-8])
    with pytest.warns(UserWarning, match="this index is damaged"):
        assert left_out() == [str(small)]


def test_the_search_for_damaged_files_can_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.effect_noise((450, 350), 50).save(tmp_path / "image.png", compress_level=1)
    for number in range(400):
        (tmp_path / "a" / f"{number}.png").symlink_to(tmp_path / "image.png")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            ImageFolderDataset(tmp_path, on_error="skip", index_folder=tmp_path / "index")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not list((tmp_path / "index").glob("*.sluicegate-index")), "it was done before the signal came"

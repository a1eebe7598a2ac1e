"""Fixtures for tests of transforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.transforms import IMAGES


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for `ImageFolderDataset`, with `IMAGES` as PNG files of one class."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "class").mkdir()
    for number, image in enumerate(IMAGES):
        image.save(folder / "class" / f"{number}.png")
    return folder

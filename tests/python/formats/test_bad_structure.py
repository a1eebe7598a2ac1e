"""Damage wherever a parser relies on structure: each length, count, offset, checksum, and name of every format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.damaged import FORMATS
from checks.programs import Run, zygote


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run programs with the writers of files already imported, which takes longer than most of the programs."""
    yield from zygote("cases.damaged")


# Separate programs, so that a crash does not end the tests.
DAMAGE = """
from pathlib import Path
from cases.damaged import damage_structure
from checks.resources import address_space
limit = address_space() + (3 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name in names:
    print(name, end=" ", flush=True)
    folder = Path(within, name)
    folder.mkdir()
    print(*damage_structure(name, folder), flush=True)
"""

# By what their names begin with, and all others. A file of `FolderDataset` has no structure, and that of HDF5 is parsed
# by its own library.
KINDS = ("parquet", "arrow", "tar")
UNREAD = ("folder", "hdf5", "hdf5-latest")
GROUPS = {kind: [name for name in FORMATS if name.startswith(kind)] for kind in KINDS}
GROUPS["others"] = [name for name in FORMATS if name not in UNREAD and not name.startswith(KINDS)]


@pytest.mark.parametrize("group", GROUPS)
def test_damage_at_every_structural_offset_is_read_or_named(run: Run, tmp_path: Path, group: str) -> None:
    ended = run(DAMAGE, names=GROUPS[group], within=str(tmp_path), deadline=100.0)
    # If a decoding crate panics, that becomes an ordinary error, but stderr has its message.
    panics = re.findall(r"panicked at (\S+)", ended.stderr)
    assert all(re.search(r"/(arrow|parquet)[^/]*/src/", place) for place in panics), ended.stderr
    ended.check(stderr=ended.stderr if panics else "")
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert [name for name, _, _ in lines] == GROUPS[group]
    for name, tried, errors in lines:
        assert int(errors) > int(tried) // 10 > 10, name

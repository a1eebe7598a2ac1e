"""Damage wherever a parser goes by: each length, count, place, checksum and name of every format, one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from damaged import FORMATS
from programs import Run

# Programs of their own: what would end a process, ends it.
DAMAGE = """
from pathlib import Path
from damaged import damage_structure
from resources import address_space
limit = address_space() + (3 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(*damage_structure(name, Path(folder)))
"""


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("folder", "raw", "tokens")])
def test_damage_at_every_structural_offset_is_read_or_named(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "x").mkdir()
    ended = run(DAMAGE, name=name, folder=str(tmp_path / "x"), deadline=100.0)
    # Where a crate that decodes panics, which is an error like any other then, it has said so.
    panics = re.findall(r"panicked at (\S+)", ended.stderr)
    assert all(re.search(r"/(arrow|parquet)[^/]*/src/", place) for place in panics), ended.stderr
    ended.check(stderr=ended.stderr if panics else "")
    tried, errors = map(int, ended.stdout.split())
    assert errors > tried // 10 > 10

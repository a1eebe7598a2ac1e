"""`RecordFile`: the last complete record, or an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doubles.system_calls import full_disk
from sluicegate.system.record_file import RecordFile


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = RecordFile(str(tmp_path / "a.json"))
    assert file.read() is None
    record = {"arguments": {"b": [1, None], "a": 0.1}, "done": 3, "name": "ü"}
    file.write(record)
    assert file.read() == record
    file.write({"done": 4})
    assert file.read() == {"done": 4}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_damage_at_any_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    file = RecordFile(str(path))
    file.write({"samples": 1234, "state": "00ff"})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"a\.json' is damaged"):
                file.read()
    for text in ("null", "[]", "{}", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match="is damaged"):
            file.read()


def test_a_failed_write_keeps_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RecordFile(str(tmp_path / "a.json"))
    file.write({"done": 1})

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.json\.unfinished"):
        file.write({"done": 2})
    assert file.read() == {"done": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_record_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual.json").write_text("")
    RecordFile(str(tmp_path / "a.json")).write({"done": 1})
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "usual.json").stat().st_mode

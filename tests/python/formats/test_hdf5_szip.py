"""HDF5 arrays compressed with szip: the same numbers as h5py, which has a different decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.array_rows import assert_rows
from sluicegate import Hdf5Dataset

h5py = pytest.importorskip("h5py")

if not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
    pytest.skip("h5py has no szip", allow_module_level=True)


def _values(kind: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers for which the encoder chooses different codes: zeros, small numbers, noise, all of them."""
    generator, count = np.random.default_rng(0), int(np.prod(shape))
    parts = {
        "zeros": np.zeros(count),
        "few": (generator.random(count) < 0.02) * 3,
        "small": generator.integers(0, 3, count),
        "smooth": 100 * np.sin(np.arange(count) / 30) + 120,
        "noise": generator.integers(0, 250, count),
    }
    parts["mixed"] = np.concatenate([each[: count // 5 + 1] for each in parts.values()])[:count]
    values = parts[kind] + (generator.random(count) if kind == "smooth" and np.dtype(dtype).kind == "f" else 0)
    return values.reshape(shape).astype(dtype)


# All codes for each size of a number, and all dtypes with a mixture of the codes.
KINDS = ["zeros", "few", "small", "smooth", "noise", "mixed"]
CODES = [(dtype, kind) for dtype in ("u1", ">u2", "<i4", "<f8") for kind in KINDS]


@pytest.mark.parametrize(("dtype", "kind"), [*CODES, *((dtype, "mixed") for dtype in ("<i2", ">f4", ">i8", "<f2"))])
def test_numbers_are_those_of_h5py(tmp_path: Path, dtype: str, kind: str) -> None:
    path = tmp_path / "file.h5"
    # A row of a chunk is one scan line, which szip pads to whole blocks.
    cases = [((64, 64), (64, 64), 16), ((50, 70), (20, 33), 8), ((40, 30), (7, 30), 32), ((3000,), (1000,), 4)]
    with h5py.File(path, "w") as file:
        for number, (shape, chunks, block) in enumerate(cases):
            for coding in ("nn", "ec"):
                values = _values(kind, dtype, shape)
                options = {"compression": "szip", "compression_opts": (coding, block)}
                file.create_dataset(f"{coding}{number}", data=values, chunks=chunks, **options)
    with h5py.File(path) as file:
        for name in file:
            dataset = Hdf5Dataset(path, name)
            assert dataset.python_reason is None
            assert_rows(dataset, file[name][...])


def test_damaged_chunks_are_numbers_or_named(tmp_path: Path) -> None:
    path, values = tmp_path / "file.h5", _values("mixed", "<i2", (60, 40))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(60, 40), compression="szip")
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(0)
    whole, generator, refused = path.read_bytes(), np.random.default_rng(0), 0
    for turn in range(300):
        changed = bytearray(whole)
        for place in generator.integers(0, chunk.size, generator.integers(1, 4)):
            changed[chunk.byte_offset + place] = generator.integers(0, 256)
        if turn % 10 == 0:
            start = chunk.byte_offset + int(generator.integers(0, chunk.size))
            changed[start : chunk.byte_offset + chunk.size] = bytes(chunk.byte_offset + chunk.size - start)
        path.write_bytes(changed)
        try:
            assert len(list(Hdf5Dataset(path, "x"))) == 60
        except ValueError as error:
            assert "codec szip: " in str(error)  # noqa: PT017
            refused += 1
    assert refused > 20

"""The first of a billion windows: opens an array in chunks, and reads one window of a shuffled epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import workload_hdf5
import workload_zarr
from chunked_field import SHAPE, WINDOW
from loaders import IMPORTS, present
from protocol import Case, Contender, Metrics, Standings, Turn, Workload
from report import Table, figure
from throughput import median

_STRIDE = dict.fromkeys(WINDOW, 1)


def _loader(dataset: Any) -> Any:
    from sluicegate import DataLoader

    return DataLoader(dataset, batch_size=1, shuffle=True, seed=0)


def _zarr(_: Any) -> Callable[[], Any]:
    from sluicegate import ZarrDataset

    return lambda: _loader(ZarrDataset(workload_zarr.FOLDER, "t", window=WINDOW, stride=_STRIDE))


def _hdf5(_: Any) -> Callable[[], Any]:
    from sluicegate import Hdf5Dataset

    return lambda: _loader(Hdf5Dataset(workload_hdf5.FILE, "t", window=WINDOW, stride=_STRIDE))


def _xarray(_: Any) -> Callable[[], Any]:
    import xarray

    from sluicegate.xarray import WindowDataset

    overlap = {name: size - 1 for name, size in WINDOW.items()}

    def make() -> Any:
        opened = xarray.open_zarr(workload_zarr.FOLDER, consolidated=False, chunks=None)["t"]
        return _loader(WindowDataset(opened, WINDOW, overlap))

    return make


def _measure(case: Case, contender: Contender, turn: Turn) -> Metrics:
    """Open it in a new process, and read one window."""
    make = contender.make(None)
    begin = time.perf_counter()
    loader = make()
    opened = time.perf_counter()
    next(iter(loader))
    return {
        "open_ms": (opened - begin) * 1e3,
        "first_ms": (time.perf_counter() - opened) * 1e3,
        "windows": float(len(loader)),
    }


def _tables(case: Case, standings: Standings) -> list[Table]:
    table = Table(case.title, ["contender", "windows", "open, ms", "first window, ms"])
    for contender in case.contenders:
        if (failure := standings[contender.name].failure) is not None:
            table.add_failed(contender.name, failure)
            continue
        forms = {"windows": ",.0f", "open_ms": ".3g", "first_ms": ".3g"}
        table.add(contender.name, *(figure(median(standings, contender.name, of), form) for of, form in forms.items()))
    return [table]


def _prepare() -> None:
    workload_zarr.WORKLOAD.prepare()
    workload_hdf5.WORKLOAD.prepare()


WORKLOAD = Workload(
    name="first_window",
    title="The first of many windows, in a fresh process",
    measure=_measure,
    tables=_tables,
    prepare=_prepare,
    cases=(
        Case(
            name="first_window",
            title=f"Windows one element apart in an array of {' x '.join(map(str, SHAPE))}, shuffled with a seed",
            contenders=present(
                Contender("ZarrDataset", _zarr, (*IMPORTS["sluicegate"], "zarr")),
                Contender("Hdf5Dataset", _hdf5, (*IMPORTS["sluicegate"], "h5py")),
                Contender("WindowDataset of a Zarr store", _xarray, (*IMPORTS["sluicegate"], "zarr", "xarray")),
            ),
        ),
    ),
)

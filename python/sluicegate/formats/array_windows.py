"""`ArrayWindows`: the base of datasets of windows, or rows, of arrays in chunks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from sluicegate import _core
from sluicegate.checked_number import checked_number, checked_numbers
from sluicegate.native.blocks import DecodedDataset
from sluicegate.native.dataset import leaves_out

# Default limit of the cache of decoded chunks.
CACHE_BYTES = 256 << 20


class ArrayWindows(DecodedDataset):
    """Windows of arrays; a derived class opens them with `_open`."""

    _OPENED = (*DecodedDataset._OPENED, "_blocks", "_sizes")

    path: str
    _blocks: _core.WindowBlocks
    _sizes: np.ndarray[Any, np.dtype[np.int64]] | None

    def _set_arguments(
        self,
        fields: str | Sequence[str] | None,
        window: Mapping[str, int] | None,
        stride: Mapping[str, int] | None,
        region: Mapping[str, slice] | None,
        edges: str,
        order: str,
        decode_cf: bool,
        cache_bytes: int,
        on_error: str,
    ) -> None:
        for name, value, known in (("edges", edges, ("drop", "pad", "shift")), ("order", order, ("rows", "chunks"))):
            if value not in known:
                raise ValueError(f"{name}: expected one of {', '.join(map(repr, known))}, but got {value!r}")
        self.fields = fields if fields is None or isinstance(fields, str) else tuple(fields)
        self.window = None if window is None else checked_numbers("window", window)
        self.stride = None if stride is None else checked_numbers("stride", stride)
        self.region = None if region is None else _parts(region)
        self.edges = edges
        self.order = order
        self.decode_cf = bool(decode_cf)
        self.cache_bytes = checked_number("cache_bytes", cache_bytes)
        self.on_error = on_error

    def _field_names(self) -> list[str] | None:
        if self.fields is None:
            return None
        return [self.fields] if isinstance(self.fields, str) else list(self.fields)

    def _core_arguments(self) -> dict[str, Any]:
        return {
            "fields": self._field_names(),
            "window": None if self.window is None else list(self.window.items()),
            "stride": list((self.stride or {}).items()),
            "region": [(name, part.start or 0, part.stop) for name, part in (self.region or {}).items()],
            "edges": self.edges,
            "order": self.order,
            "decode_cf": self.decode_cf,
            "cache_bytes": self.cache_bytes,
            "leave_out": leaves_out(self.on_error),
        }

    def _set_windows(
        self,
        core: _core.Dataset,
        is_one_array: bool,
        cache: _core.BlockCache,
        blocks: _core.WindowBlocks,
        damages: list[str],
        texts: Collection[str] = (),
    ) -> None:
        self._blocks = blocks
        self._sizes = None
        self._caches = [cache]
        self.damages = damages
        is_alone = is_one_array or (isinstance(self.fields, str) and len(core.fields) == 1)
        structure: Any = 0 if is_alone else {name: number for number, (name, _, _) in enumerate(core.fields)}
        self._set_core(core, structure, ["bytes" if name in texts else "tensor" for name, _, _ in core.fields])

    @property
    def block_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of windows in each block, int64, read-only; used by `BlockShuffleSampler`. Listed on first use."""
        if self._sizes is None:
            counts = [np.array(along, np.int64) for along in self._blocks.counts()]
            self._sizes = reduce(np.multiply.outer, counts).ravel()
            if self.damages:
                self._sizes = np.array(self._blocks.left(self._sizes.tolist()), np.int64)
            self._sizes.flags.writeable = False
        return self._sizes

    def _source_paths(self) -> list[str]:
        return [self.path]

    def _shown(self) -> str:
        fields = list(self.fields) if isinstance(self.fields, tuple) else self.fields
        options = {"window": self.window, "stride": self.stride, "region": self.region}
        more = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
        return f"{self.path!r}, fields={fields!r}{more}"


def _parts(region: Any) -> dict[str, slice]:
    """Return the parts of dimensions.

    Raises:
        TypeError: it is not a mapping of names to slices.
        ValueError: a slice has a step, or does not count from the first element.
    """
    if not isinstance(region, Mapping) or not all(isinstance(part, slice) for part in region.values()):
        raise TypeError(f"region: expected slices by dimension, such as {{'time': slice(0, 100)}}, but got {region!r}")
    for name, part in region.items():
        if part.step not in (None, 1):
            raise ValueError(f"region[{name!r}]: expected a slice without a step, but got {part}; use stride")
        for bound in (part.start, part.stop):
            if bound is not None:
                checked_number(f"region[{name!r}]", bound)
    return dict(region)

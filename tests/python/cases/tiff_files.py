"""`TiffFile`: TIFF files of any layout, including those that Pillow does not write."""

from __future__ import annotations

import dataclasses
import struct
import zlib

import numpy as np


@dataclasses.dataclass
class TiffFile:
    """A TIFF of one page, whose pixels have shape (height, width, channels)."""

    pixels: np.ndarray
    photometric: int
    tile: int | None = None
    rows_per_strip: int = 7
    is_planar: bool = False
    is_predicted: bool = False
    is_deflated: bool = False
    extra: list[int] | None = None
    orientation: int | None = None
    fill_order: int = 1
    order: str = "<"

    @property
    def bits(self) -> int:
        return 8 * self.pixels.dtype.itemsize

    def encoded(self) -> bytes:
        height, width, channels = self.pixels.shape
        chunks = [self._packed(chunk) for plane in self._planes() for chunk in self._chunks(plane)]
        offsets = [8 + sum(map(len, chunks[:number])) for number in range(len(chunks))]
        data = b"".join(chunks)
        tags: dict[int, tuple[str, list[int]]] = {
            256: ("I", [width]),
            257: ("I", [height]),
            258: ("H", [self.bits] * channels),
            259: ("H", [8 if self.is_deflated else 1]),
            262: ("H", [self.photometric]),
            277: ("H", [channels]),
            284: ("H", [2 if self.is_planar else 1]),
            317: ("H", [2 if self.is_predicted else 1]),
        }
        if self.tile is not None:
            tags |= {322: ("I", [self.tile]), 323: ("I", [self.tile])}
            tags |= {324: ("I", offsets), 325: ("I", [*map(len, chunks)])}
        else:
            tags |= {273: ("I", offsets), 278: ("I", [self.rows_per_strip]), 279: ("I", [*map(len, chunks)])}
        if self.extra is not None:
            tags[338] = "H", self.extra
        if self.orientation is not None:
            tags[274] = "H", [self.orientation]
        if self.fill_order != 1:
            tags[266] = "H", [self.fill_order]
        head = (b"II*\0" if self.order == "<" else b"MM\0*") + struct.pack(f"{self.order}I", 8 + len(data))
        return head + data + self._directory(tags, 8 + len(data))

    def _planes(self) -> list[np.ndarray]:
        return np.split(self.pixels, self.pixels.shape[2], axis=2) if self.is_planar else [self.pixels]

    def _chunks(self, plane: np.ndarray) -> list[np.ndarray]:
        height, width, channels = plane.shape
        if (side := self.tile) is None:
            return [plane[row : row + self.rows_per_strip] for row in range(0, height, self.rows_per_strip)]
        chunks = []
        for row in range(0, height, side):
            for column in range(0, width, side):
                part = plane[row : row + side, column : column + side]
                chunks.append(np.zeros((side, side, channels), plane.dtype))
                chunks[-1][: part.shape[0], : part.shape[1]] = part
        return chunks

    def _packed(self, chunk: np.ndarray) -> bytes:
        if self.is_predicted:
            chunk = np.concatenate([chunk[:, :1], chunk[:, 1:] - chunk[:, :-1]], axis=1)
        data = chunk.astype(chunk.dtype.newbyteorder(self.order)).tobytes()
        if self.fill_order == 2:
            data = bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)
        return zlib.compress(data) if self.is_deflated else data

    def _directory(self, tags: dict[int, tuple[str, list[int]]], start: int) -> bytes:
        entries, beyond = b"", b""
        for tag in sorted(tags):
            form, values = tags[tag]
            packed = struct.pack(f"{self.order}{len(values)}{form}", *values)
            if len(packed) > 4:
                place = start + 2 + 12 * len(tags) + 4 + len(beyond)
                beyond += packed
                packed = struct.pack(f"{self.order}I", place)
            kind = {"H": 3, "I": 4}[form]
            entries += struct.pack(f"{self.order}HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
        return struct.pack(f"{self.order}H", len(tags)) + entries + bytes(4) + beyond

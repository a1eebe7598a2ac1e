"""Random changes of files; the environment sets how many, and the seed."""

from __future__ import annotations

import os
import random

CHANGES = int(os.environ.get("SLUICEGATE_SIDE_FILE_CHANGES", "15"))
SEED = int(os.environ.get("SLUICEGATE_SIDE_FILE_SEED", "0"))


def changed(contents: bytes, others: list[bytes], generator: random.Random) -> bytes:
    """Return `contents` with one change, or empty, or the contents of a different file, from `others`."""
    size = len(contents)
    place = generator.randrange(size)
    result = bytearray(contents)
    kind = generator.randrange(9)
    if kind < 2:
        result[place] ^= 1 << generator.randrange(8)
    elif kind == 2:
        result[place] = generator.randrange(256)
    elif kind == 3:
        del result[place:]
    elif kind == 4:
        result += generator.randbytes(generator.choice([1, 8, 512, 4096]))
    elif kind == 5:
        length = min(generator.choice([4, 8, 64, 512, 65536]), size // 2)
        first, second = generator.randrange(size - length + 1), generator.randrange(size - length + 1)
        result[first : first + length], result[second : second + length] = (
            result[second : second + length],
            result[first : first + length],
        )
        del result[size:]
    elif kind == 6:
        length = generator.choice([1, 8, 512])
        result[place : place + length] = bytes(len(result[place : place + length]))
    elif kind == 7:
        return b""
    else:
        return generator.choice(others)
    return bytes(result)

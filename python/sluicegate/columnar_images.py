"""Columns that hold images: of bytes, or of structs with bytes, as Hugging Face's datasets have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from .columnar import Columns, checked_columns, structure_of
from .image_field import ImageField, ImageFieldLike, checked_images, image_numbers

ImageColumns: TypeAlias = "Columns | Mapping[str, ImageFieldLike | None]"

# Hugging Face's name for the part of such a struct that holds the file; beside it is where it came from.
_FILE = "bytes"


def checked_image_columns(columns: Any) -> tuple[str | tuple[str, ...] | None, dict[str, ImageField]]:
    """The names in the argument `columns`, and which of them are images.

    Raises:
        TypeError: it is no name, no list of names, and no dict.
        ValueError: what the dict says of a column is neither "image", an `ImageField` nor None.
    """
    if isinstance(columns, Mapping):
        return tuple(columns), checked_images(columns)
    return checked_columns(columns), {}


def with_images(
    columns: Columns, images: Mapping[str, ImageField], read: Callable[[Columns, bool], tuple[Any, Any, Sequence[Any]]]
) -> tuple[Any, Any, list[Any], dict[int, ImageField]]:
    """What `read` gives for these columns (a core, a structure, kinds), with images in the place of their files.

    Args:
        columns: the names of the columns.
        images: which of them are images.
        read: opens the files with columns of these names; whether to have a look at the schema alone comes second.

    Returns:
        The core, the structure, the kinds, and the images by the numbers of their fields.
    """
    inside = {name: f"{name}.{_FILE}" for name in images if _is_struct(name, read)}
    names = columns if isinstance(columns, str) or columns is None else [inside.get(name, name) for name in columns]
    core, structure, kinds = read(names, False)
    structure = structure_of(structure, columns)
    if not images:
        return core, structure, list(kinds), {}
    structure = {name: part[_FILE] if name in inside else part for name, part in structure.items()}
    return core, structure, list(kinds), image_numbers(images, structure, kinds)


def _is_struct(name: str, read: Callable[[Columns, bool], Any]) -> bool:
    """Whether the column has a part for the file. The rest of it is not read: its path is null as often as not."""
    try:
        read([f"{name}.{_FILE}"], True)
    except ValueError:
        return False  # What else is wrong is said when the columns are read.
    return True

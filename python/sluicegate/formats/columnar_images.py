"""Columns that hold images: bytes, or structs with bytes as in Hugging Face's datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from sluicegate import _core
from sluicegate.image.field import ImageField
from sluicegate.image.links import NO_LINKS, ImageLinks
from sluicegate.image.named_fields import ImageFieldLike, checked_images, image_numbers
from sluicegate.native.dataset import Kind

from .columnar import Columns, Nulls, checked_columns, structure_of
from .hugging_face_features import METADATA, image_mode

ImageColumns: TypeAlias = "Columns | Mapping[str, ImageFieldLike | None]"

# The fields of such a struct: the encoded file, and its origin or location.
_FILE, _PATH = "bytes", "path"


class ReadColumns(Protocol):
    """Opens the files of a dataset with given columns and returns its core, structure and kinds."""

    def __call__(self, columns: Columns, nulls: Nulls, *, is_look: bool) -> tuple[_core.Dataset, Any, Sequence[Kind]]:
        """Open the files; `is_look` if only the schema is needed."""


def checked_image_columns(columns: Any) -> tuple[str | tuple[str, ...] | None, dict[str, ImageField]]:
    """Return the names in the argument `columns`, and which of them are images.

    Raises:
        TypeError: it is not a name, a list of names, or a dict.
        ValueError: a value in the dict is not "image", an `ImageField` or None.
    """
    if isinstance(columns, Mapping):
        return tuple(columns), checked_images(columns)
    return checked_columns(columns), {}


def with_images(
    columns: Columns,
    images: Mapping[str, ImageField],
    nulls: Nulls,
    paths: Sequence[str],
    read: ReadColumns,
    metadata: Callable[[str, str], str | None],
) -> tuple[_core.Dataset, Any, list[Kind], dict[int, ImageField], ImageLinks]:
    """Return the result of `read` for these columns, with images in place of their encoded files.

    Args:
        columns: the names of the columns.
        images: which of them are images.
        nulls: the handling of nulls.
        paths: the files.
        read: opens them.
        metadata: returns the text under a key in the metadata of a file's schema.

    Raises:
        ValueError: `datasets` converts the images of a column to a mode that is not supported here.

    Returns:
        The core, the structure, the kinds, the images by field number, and the links to their files.
    """
    if not images or isinstance(columns, str) or columns is None:
        core, structure, kinds = read(columns, nulls, is_look=False)
        return core, structure_of(structure, columns), list(kinds), {}, NO_LINKS
    parts = {name: _parts_of(name, read) for name in images}
    structs = [name for name, found in parts.items() if _FILE in found]
    linked = [name for name in structs if _PATH in parts[name]]
    names = [f"{name}.{_FILE}" if name in structs else name for name in columns]
    names += [path for name in linked if (path := f"{name}.{_PATH}") not in names]
    core, structure, kinds = read(names, _nulls_of(linked, nulls), is_look=False)
    if inner := [name for name in structs if name not in structure]:
        raise ValueError(
            f"columns[{inner[0]!r}]: expected a column of images, got a field inside a struct; make it a column"
        )
    links = {structure[name][_FILE]: structure[name][_PATH] for name in linked}
    structure = {name: part[_FILE] if name in structs else part for name, part in structure.items()}
    # The first file's metadata applies to all, as in `datasets`.
    features = metadata(paths[0], METADATA) if structs else None
    images = {
        name: image.of_hugging_face(name, image_mode(features, name)) if name in structs else image
        for name, image in images.items()
    }
    numbers = image_numbers(images, structure, kinds)
    return core, structure, list(kinds), numbers, ImageLinks.of_files(links, paths)


def _nulls_of(linked: Sequence[str], nulls: Nulls) -> Nulls:
    """Return the argument `nulls`, changed so that nulls in the bytes and paths of these images become empty."""
    if not linked:
        return nulls
    rules = dict(nulls) if isinstance(nulls, Mapping) else {None: nulls}
    for name in linked:
        of_bytes = rules.get(f"{name}.{_FILE}", rules.get(name, rules.get(None, "error")))
        if of_bytes == "error":
            rules[f"{name}.{_FILE}"] = b""
        rules[f"{name}.{_PATH}"] = ""
    return rules


def _parts_of(name: str, read: ReadColumns) -> set[str]:
    """Return which fields of an image struct a column has; an empty set if it holds the bytes itself."""
    for parts in ([_FILE, _PATH], [_FILE]):
        try:
            _, _, kinds = read([f"{name}.{part}" for part in parts], "mask", is_look=True)
        except ValueError:
            continue  # Other problems are reported when the columns are read.
        if parts == [_FILE] or kinds[1] in ("str", ("optional", "str")):
            return set(parts)
    return set()

"""`ImageField`s among the fields that users name, and the columns that hold the encoded images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from .field import ImageField

ImageFieldLike: TypeAlias = ImageField | Literal["image"]


def image_field(field: Any) -> ImageField | None:
    """Return the `ImageField` that the user-facing type `field` names; None for any other type."""
    if isinstance(field, ImageField):
        return field
    return ImageField() if isinstance(field, str) and field == "image" else None


def checked_images(fields: Mapping[str, Any]) -> dict[str, ImageField]:
    """Return the image fields in `fields`, types by name; the others must be None.

    Raises:
        ValueError: a type is neither an image nor None.
    """
    images = {}
    for name, field in fields.items():
        if (image := image_field(field)) is not None:
            images[name] = image
        elif field is not None:
            raise ValueError(f"fields[{name!r}]: expected 'image', an ImageField or None, but got {field!r}")
    return images


def image_numbers(
    images: Mapping[str, ImageField], structure: Mapping[str, Any], kinds: Sequence[Any]
) -> dict[int, ImageField]:
    """Return the images by the numbers that their fields have in `structure`.

    Raises:
        ValueError: a field does not exist, or does not hold bytes.
    """
    numbers = {}
    for name, image in images.items():
        number = structure.get(name)
        if not isinstance(number, int) or kinds[number] not in ("bytes", ("optional", "bytes")):
            raise ValueError(
                f"fields[{name!r}]: expected a column of bytes for an image, but got {name!r}; the columns are "
                f"{list(structure)}"
            )
        numbers[number] = image
    return numbers

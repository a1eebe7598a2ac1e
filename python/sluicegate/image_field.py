"""`ImageField`: a field of a dataset that holds the bytes of images, and what becomes of them."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch

from . import _core
from .global_generators import torch_door
from .image import MAX_PIXELS, Mode, Truncated, image_decoder
from .paths import user_cache_folder
from .transforms.drawing import current_generator
from .transforms.recognise import recognise

# What a cache may hold by default.
_CACHE_BYTES = {"memory": 4 << 30, "disk": 64 << 30}

ImageFieldLike: TypeAlias = "ImageField | Literal['image']"


class ImageField:
    """What the bytes of an image become in a sample: how they are decoded, and what is done to the image.

    It is given to a dataset in the place of a type, `fields={"jpg": ImageField(transform)}`; "image" stands for
    `ImageField()`. A sample has a tensor of shape (channels, height, width) there, or what `transform` makes of it.

    Transforms of `sluicegate.transforms`, and torchvision's (v2) where there is one of that name here, are done in
    Rust, in one go with decoding: of a JPEG only the part is decoded that a crop leaves, and flips, conversion and
    normalisation are done while the tensor is written. Anything else is called with the decoded image. Where they end
    with a fixed size, a `sluicegate.DataLoader` makes whole batches in its threads, without Python; random ones with
    `seed=` only, because in torch's order what is drawn for a sample depends on all that were drawn before: those go
    through worker processes, as with torch, and draw what torchvision's would.

    It can be pickled, if `transform` can. Threads may share it.

    Args:
        transform: is called with each image; or the transforms that are known.
        mode, exif_orientation, truncated, max_pixels: as of `decode_image`. With crops, a part of a damaged JPEG that
            is not needed is not looked at, but whether its end is there is.
        exact: whether a JPEG is always decoded at full size. Otherwise, where a transform makes it (or the part that is
            cut out of it) smaller, its blocks of 8x8 pixels are decoded to 4x4, 2x2 or one, as long as that covers what
            is asked for: less work, and values that differ by less than two grey levels in the mean.
        channels: "first" for tensors (channels, height, width); "last" for (height, width, channels), of which
            `.permute(0, 3, 1, 2)` makes a batch in torch's channels-last layout without a copy.
        cache: "memory" or "disk" to keep images as they are before anything is drawn and before they become floats:
            decoded, and resized where that comes first (put `Resize` there, or whole images are kept). An epoch that
            finds them there decodes none, and reads no files either where nothing else is in them. Each dataset has a
            cache of its own; threads and forked workers share it, other workers have their own. The first images that
            come are kept, until it is full, and none is dropped: every epoch asks once for each.
        cache_bytes: what it may hold: 4 GiB in memory, 64 GiB on disk. Memory is taken as images come.
        cache_folder: where the file is, which has no name and goes away with the dataset; `images` in
            `$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`.

    Attributes:
        cached_bytes: how many bytes of images are in the cache.
        is_random: whether something is drawn by what is done in Rust.

    Raises:
        ValueError: an argument is none of those named.

    Example:
        >>> from sluicegate import ImageField, transforms
        >>> field = ImageField(transforms.CenterCrop(1), mode="L")
        >>> field.decode(b"P5 3 1 255 " + bytes([7, 8, 9]))
        tensor([[[8]]], dtype=torch.uint8)
    """

    def __init__(
        self,
        transform: Callable[[Any], Any] | None = None,
        *,
        mode: Mode = "RGB",
        exif_orientation: bool = False,
        truncated: Truncated = "error",
        max_pixels: int = MAX_PIXELS,
        exact: bool = False,
        channels: Literal["first", "last"] = "first",
        cache: Literal["memory", "disk"] | None = None,
        cache_bytes: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected something that is called with an image, but got {transform!r}")
        if channels not in ("first", "last"):
            raise ValueError(f"channels: expected 'first' or 'last', but got {channels!r}")
        self.transform = transform
        self.mode = mode
        self.exif_orientation = bool(exif_orientation)
        self.truncated = truncated
        self.max_pixels = operator.index(max_pixels)
        self.exact = bool(exact)
        self.channels = channels
        if cache not in (None, "memory", "disk"):
            raise ValueError(f"cache: expected 'memory', 'disk' or None, but got {cache!r}")
        self.cache = cache
        self.cache_bytes = None if cache_bytes is None else operator.index(cache_bytes)
        if self.cache_bytes is not None and self.cache_bytes < 0:
            raise ValueError(f"cache_bytes: a number of bytes is not negative, but got {cache_bytes}")
        self.cache_folder = None if cache_folder is None else os.path.abspath(os.fsdecode(cache_folder))
        self._open(0)

    def _open(self, images: int) -> None:
        self._decoder = image_decoder(self.mode, self.exif_orientation, self.truncated, self.max_pixels)
        known = None if self.transform is None else recognise(self.transform)
        self._is_called = self.transform is not None and known is None
        self._cache = self._made_cache(images) if images and self.cache is not None else None
        self._pipeline: _core.ImagePipeline | None = None
        if known is not None or self.channels == "last" or self._cache is not None:
            text = json.dumps(known or [])
            self._pipeline = _core.ImagePipeline(text, self._decoder, self.exact, self.channels == "last", self._cache)

    def _made_cache(self, images: int) -> _core.ImageCache:
        size = self.cache_bytes if self.cache_bytes is not None else _CACHE_BYTES[self.cache or "memory"]
        if self.cache == "memory":
            return _core.ImageCache(images, size, None)
        folder = self.cache_folder or os.path.join(user_cache_folder(), "images")
        os.makedirs(folder, exist_ok=True)
        return _core.ImageCache(images, size, folder)

    def of_dataset(self, images: int) -> ImageField:
        """The same field, of a dataset of so many `images`, with a cache of its own where it has one."""
        if self.cache is None:
            return self
        field = ImageField.__new__(ImageField)
        vars(field).update(self.__getstate__())
        field._open(images)
        return field

    @property
    def cached_bytes(self) -> int:
        """How many bytes of images are in the cache."""
        return 0 if self._cache is None else self._cache.bytes

    @property
    def is_random(self) -> bool:
        """Whether something is drawn by what is done in Rust."""
        return self._pipeline is not None and self._pipeline.is_random

    @property
    def pipeline(self) -> _core.ImagePipeline | None:
        """What makes images of one form in the core; None where Python has a part in it, or they are of any size."""
        if self._pipeline is None or self._is_called or self._pipeline.form is None:
            return None
        return self._pipeline

    def decode(self, encoded: bytes, number: int = 0) -> Any:
        """What becomes of the image that `encoded` is; of a dataset it has a `number`, by which a cache keeps it.

        Raises:
            ValueError: it is no image, or is damaged; the message says what the decoder said.
        """
        if self._pipeline is None:
            image = self._decoder.decode(encoded)
        else:
            image = self._pipeline.decode(encoded, number, self._generator())
        return self.transform(image) if self._is_called and self.transform is not None else image

    def decode_many(self, encoded: Sequence[bytes], numbers: Sequence[int]) -> tuple[list[torch.Tensor], Any]:
        """The images of one form that become of these, drawn one after the other, in memory that they share.

        Returns:
            The images, and (row, reason) of the first that failed, behind which nothing was drawn; or None.
        """
        assert self.pipeline is not None
        return self.pipeline.decode_many(encoded, numbers, self._generator())

    def _generator(self) -> object | None:
        return torch_door(current_generator()) if self.is_random else None

    def with_transform(self, transform: Callable[[Any], Any] | None) -> ImageField:
        """The same field with another transform."""
        return ImageField(**{**self.__getstate__(), "transform": transform})

    def __getstate__(self) -> dict[str, Any]:
        """The arguments: the decoder is made anew on the other side."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open(0)

    def __repr__(self) -> str:
        """The constructor's call, as far as it differs from `ImageField()`."""
        default: dict[str, Any] = {"transform": None, "mode": "RGB", "exif_orientation": False, "truncated": "error"}
        default |= {"max_pixels": MAX_PIXELS, "exact": False, "channels": "first"}
        default |= dict.fromkeys(("cache", "cache_bytes", "cache_folder"))
        given = (f"{name}={getattr(self, name)!r}" for name in default if getattr(self, name) != default[name])
        return f"ImageField({', '.join(given)})"


def image_field(field: Any) -> ImageField | None:
    """The field that `field`, a type as users name it, stands for; None where it is another type."""
    if isinstance(field, ImageField):
        return field
    return ImageField() if isinstance(field, str) and field == "image" else None


def checked_images(fields: Mapping[str, Any]) -> dict[str, ImageField]:
    """Those of `fields`, types by name, that are images; the others are None."""
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
    """The images by the numbers that their fields have in `structure`; a ValueError where there is none of bytes."""
    numbers = {}
    for name, image in images.items():
        number = structure.get(name)
        if not isinstance(number, int) or kinds[number] not in ("bytes", ("optional", "bytes")):
            raise ValueError(
                f"fields[{name!r}]: an image is a column of bytes, and {name!r} is none of {list(structure)}"
            )
        numbers[number] = image
    return numbers

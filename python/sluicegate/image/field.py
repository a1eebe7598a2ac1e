"""`ImageField`: a dataset field that holds image bytes, and how they are decoded and transformed."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import torch

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.paths import local, make_private_folder, user_cache_folder
from sluicegate.rng.global_generators import fastest_torch_access
from sluicegate.transforms.boxes import FORMATS
from sluicegate.transforms.drawing import current_generator
from sluicegate.transforms.recognize import divide
from sluicegate.transforms.running import check_policies
from sluicegate.transforms.specification import as_json

from .box_rows import checked_box_fields, following
from .decode import MAX_PIXELS, Mode, Truncated, image_decoder
from .moved_decoder import MovedDecoder, MovedFields
from .moved_parts import MovedParts
from .tv_tensors import Marks, without_mark

# The default mode.
_MODE: Mode = "RGB"
# The modes that match the result of Pillow's `convert`.
_CONVERTED = ("RGB", "L", "RGBA")

# Default size limits of caches.
_CACHE_BYTES = {"memory": 4 << 30, "disk": 64 << 30}


class ImageField:
    """Defines how image bytes are decoded and transformed for a sample.

    Pass it to a dataset in place of a type, `fields={"jpg": ImageField(transform)}`; "image" stands for `ImageField()`.
    The sample then has a tensor of shape (channels, height, width), or the result of `transform`.

    Transforms of `sluicegate.transforms`, and the transforms of torchvision (v2) with the same names, run in Rust,
    fused with decoding: only the part of a JPEG that a crop keeps is decoded, and flips, conversion and normalization
    happen while the tensor is written. So do those of `torchvision.transforms` (v1) that give a Pillow image the same
    values, within the rounding of each step (up to two levels of 256, which a following equalization or posterization
    may amplify). If they end with a fixed size, a `sluicegate.DataLoader` makes whole batches in its threads, without
    Python. For random transforms this needs `seed=`, because in torch's order the values drawn for a sample depend on
    all earlier draws; without it they run in worker processes, as with torch, and draw what torchvision would draw.

    **Any other transform is called** in Python, with the result of the transforms before it, which run in Rust; those
    after it are called too. `python_reason` names the first one. It is called with a uint8 tensor (channels, height,
    width), or a float tensor after `ToTensor` or `ToDtype`. In a pipeline that contains a v1 transform, it is called
    with a Pillow image until `ToTensor`, `PILToTensor` or `ToImage` makes a tensor of it, as in torchvision's
    `ImageFolder`. `ToTensor` makes floats from 0 to 1 of both. torchvision's transforms draw the same values as if
    everything ran in Rust, also with a seed. Results that are marked as images are unmarked, unless `tv_tensors` is
    set.

    **Boxes and masks.** Other fields of a sample that refer to places in the image are transformed with it, as in
    torchvision: `fields={"jpg": ImageField(transform, boxes="box.npy", masks="seg.png"), "box.npy": ["npy"], "seg.png":
    ImageField(mode="P")}`. Boxes are arrays of shape (n, 4), or lists of such rows, and are clipped to the image. A
    batch has them concatenated, `{"values", "offsets"}`. Masks are images of the same size as their image (an
    `ImageField` without a transform, in mode "P" for numbers), or arrays (..., height, width); they are sampled by
    nearest neighbor, never interpolated. If both are arrays or files of these kinds, whole batches are made in Rust,
    too. A transform that is not recognized is called with `(image, {name: boxes or mask, ...})`, marked as
    `torchvision.tv_tensors`, and must return the same.

    **Fields with one row per box**, such as labels: name them in `box_fields`. A transform that is called also gets
    them in its dict, and must return as many rows of them as boxes. `SanitizeBoundingBoxes` (the transform itself, or
    inside `Compose`, `RandomApply`, `RandomChoice` or `RandomOrder`) drops their rows together with the boxes, whatever
    its `labels_getter` is. If a transform changes the number of boxes and `box_fields` was not given, a field with as
    many rows as there were boxes is an error.

    **Key points** (`keypoints="points.npy"`) are transformed with their image, too: pairs of x and y, arrays (..., 2)
    or lists of such. Samples are then made one by one. `RandomRotation`, `RandomAffine` and `RandomPerspective`, and
    the transforms after them, are torchvision's, with the same draws. Points may end up outside the image, unless
    torchvision's `ClampKeyPoints` or `SanitizeKeyPoints` is among the transforms. Key points that belong to boxes are
    also named in `box_fields`.

    It can be pickled if `transform` can. It is thread-safe.

    Args:
        transform: recognized transforms, or any callable that takes an image.
        exif_orientation: as in `decode_image`. By default only images in Hugging Face's columns (structs with `bytes`
            and `path`) are rotated according to their EXIF data, as `datasets` does.
        mode: as in `decode_image`. By default the mode of the column if it is Hugging Face's `Image(mode=...)` in
            Parquet and Arrow files, and "RGB" everywhere else.
        truncated, max_pixels: as in `decode_image`. With crops, parts of a damaged JPEG that are not needed are not
            checked, except that its end must be present.
        exact: True to always decode JPEG at full size. Otherwise, if a transform shrinks the image (or the part cropped
            from it), its 8x8 pixel blocks are decoded to 4x4, 2x2 or 1x1 as long as that covers the target size: less
            work, and values that differ by less than two gray levels on average. Exact values are those of
            torchvision's transforms of tensors, not of Pillow images (see `sluicegate.transforms`).
        channels: "first" for tensors (channels, height, width); "last" for (height, width, channels);
            `batch.permute(0, 3, 1, 2)` is then in torch's channels-last layout, without a copy. "last" requires that
            all transforms are recognized, or that there are none.
        cache: "memory" or "disk" to keep images as they are before the first random transform and before conversion to
            float: decoded, and resized if that comes first (put `Resize` there, or whole images are kept). Cached
            images are not decoded again, and their files are not read unless something else in them is needed. Each
            dataset has its own cache; threads and forked workers share it, other workers have their own. Images are
            added until the cache is full and are never evicted, because every epoch requests each image once.
        cache_bytes: size limit of the cache: 4 GiB in memory, 64 GiB on disk by default. Memory is allocated as images
            arrive.
        cache_folder: the folder of the cache file, which has no name and disappears with the dataset; by default
            `images` in `$SLUICEGATE_CACHE`, `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`.
        boxes: the name of the field whose boxes are transformed with the image, or several names; for a column within a
            struct its path, "objects.bbox".
        box_format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height, as in COCO), or "CXCYWH"
            (center, width, height), all in pixels of the whole image.
        masks: the name of the field whose mask is transformed with the image, or several names.
        keypoints: the name of the field whose key points are transformed with the image, or several names.
        tv_tensors: True to mark image, boxes and masks of a sample as `torchvision.tv_tensors`. In a batch they are
            plain tensors, as in torch's default collate.
        box_fields: the name of the field that has one row per box (a tensor, an array or a list), or several names;
            with several box fields, a dict of these by box field. `()` says that no field belongs to the boxes.

    Attributes:
        cached_bytes: the size of the images in the cache, in bytes.
        is_random: True if the part that runs in Rust draws random values.
        python_reason: which transform is called and why, or that images have no fixed size; None if the core makes
            whole batches.

    Raises:
        ValueError: an argument is not one of its choices; `channels="last"`, or boxes and masks with a v1 transform, if
            transforms are called in Python.
        TypeError: `transform` does something to images that cannot be done to boxes or masks (torchvision refuses it as
            well).
        ModuleNotFoundError: the marks need torchvision, which is not installed or does not support key points.

    Examples:
        >>> from sluicegate import ImageField, transforms
        >>> field = ImageField(transforms.CenterCrop(1), mode="L")
        >>> field.decode(b"P5 3 1 255 " + bytes([7, 8, 9]))
        tensor([[[8]]], dtype=torch.uint8)
    """

    def __init__(
        self,
        transform: Callable[[Any], Any] | None = None,
        *,
        mode: Mode | None = None,
        exif_orientation: bool | None = None,
        truncated: Truncated = "error",
        max_pixels: int = MAX_PIXELS,
        exact: bool = False,
        channels: Literal["first", "last"] = "first",
        cache: Literal["memory", "disk"] | None = None,
        cache_bytes: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        boxes: str | Sequence[str] = (),
        box_format: Literal["XYXY", "XYWH", "CXCYWH"] = "XYXY",
        masks: str | Sequence[str] = (),
        tv_tensors: bool = False,
        box_fields: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        keypoints: str | Sequence[str] = (),
    ) -> None:
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a callable that takes an image, but got {transform!r}")
        if channels not in ("first", "last"):
            raise ValueError(f"channels: expected 'first' or 'last', but got {channels!r}")
        self.transform = transform
        self.mode = mode
        self.exif_orientation = None if exif_orientation is None else bool(exif_orientation)
        self.truncated = truncated
        self.max_pixels = operator.index(max_pixels)
        self.exact = bool(exact)
        self.channels = channels
        if cache not in (None, "memory", "disk"):
            raise ValueError(f"cache: expected 'memory', 'disk' or None, but got {cache!r}")
        self.cache = cache
        self.cache_bytes = None if cache_bytes is None else checked_number("cache_bytes", cache_bytes)
        self.cache_folder = None if cache_folder is None else local("cache_folder", cache_folder)
        self.boxes, self.masks = _names("boxes", boxes), _names("masks", masks)
        self.keypoints = _names("keypoints", keypoints)
        if box_format not in FORMATS:
            raise ValueError(f"box_format: expected one of {', '.join(FORMATS)}, but got {box_format!r}")
        self.box_format = box_format
        self.tv_tensors = bool(tv_tensors)
        self.box_fields = checked_box_fields(box_fields, self.boxes)
        self._open(0)
        if self._rest is not None and channels == "last":
            raise ValueError(
                "channels: 'last' needs a transform that runs wholly in Rust, because others take channels first, but "
                f"got {self._reason}; pass channels='first', and call `.permute` after the transform"
            )
        if self._rest is not None and self._rest.takes_pillow and self.moves_fields:
            raise ValueError(
                "transform: torchvision.transforms (v1) does not transform boxes, masks and key points, but got "
                f"{self._reason}; use torchvision.transforms.v2"
            )

    def _open(self, images: int) -> None:
        self._decoder = image_decoder(self.mode or _MODE, bool(self.exif_orientation), self.truncated, self.max_pixels)
        has_places = self.moves_fields
        divided = None
        if self.transform is not None:
            divided = divide(
                self.transform,
                mode=self.mode or _MODE,
                has_places=has_places,
                has_keypoints=bool(self.keypoints),
                box_fields=len(self.boxes),
            )
        native = [] if divided is None else divided.native
        # The transforms that are called with the core's result, and the reason.
        self._rest, self._reason = (None, None) if divided is None else (divided.called, divided.reason)
        self._divided = divided
        if self._rest is not None and len(self.boxes) == 1:
            boxes, fields = self.boxes[0], (self.box_fields or {}).get(self.boxes[0], ())
            self._rest = self._rest.with_each(lambda step: following(step, boxes, fields))
        self._cache = self._made_cache(images) if images and self.cache is not None else None
        self._pipeline: _core.ImagePipeline | None = None
        text = as_json(native)
        if has_places:
            check_policies(text)
        self._marks: Marks | None = None
        if self.tv_tensors or (has_places and self._rest is not None):
            why = "tv_tensors" if self.tv_tensors else f"transform: {self.transform!r}"
            self._marks = Marks(why, self.box_format, bool(self.keypoints))
        is_whole = self.transform is not None and self._rest is None
        if native or is_whole or self.channels == "last" or self._cache is not None or has_places:
            self._pipeline = _core.ImagePipeline(text, self._decoder, self.exact, self.channels == "last", self._cache)
        self._moved: MovedDecoder | None = None
        if has_places and self._pipeline is not None:
            names = (self.boxes, self.masks, self.keypoints)
            moved = MovedFields(*names, self.box_format, self.box_fields, self.tv_tensors)
            self._moved = MovedDecoder(moved, self._pipeline, text, self._rest, self._marks)

    def _made_cache(self, images: int) -> _core.ImageCache:
        size = self.cache_bytes if self.cache_bytes is not None else _CACHE_BYTES[self.cache or "memory"]
        if self.cache == "memory":
            return _core.ImageCache(images, size, None)
        folder = self.cache_folder or os.path.join(user_cache_folder(), "images")
        make_private_folder(folder)
        return _core.ImageCache(images, size, folder)

    def of_dataset(self, images: int) -> ImageField:
        """Return this field for a dataset of `images` images, with its own cache if it has one."""
        if self.cache is None:
            return self
        field = ImageField.__new__(ImageField)
        vars(field).update(self.__getstate__())
        field._open(images)
        return field

    @property
    def cached_bytes(self) -> int:
        """The size of the images in the cache, in bytes."""
        return 0 if self._cache is None else self._cache.bytes

    @property
    def is_random(self) -> bool:
        """True if the part that runs in Rust draws random values."""
        return self._pipeline is not None and self._pipeline.is_random

    @property
    def moves_fields(self) -> bool:
        """True if other fields of a sample are transformed with the image."""
        return bool(self.boxes or self.masks or self.keypoints)

    @property
    def single_reason(self) -> str | None:
        """Why boxes or key points make Rust process samples one by one; None if it makes whole batches."""
        return None if self._moved is None else self._moved.single_reason

    @property
    def is_called(self) -> bool:
        """True if `transform`, or a part of it, is called in Python."""
        return self._rest is not None

    @property
    def python_reason(self) -> str | None:
        """Why batches of its images cannot be made in the core alone: a transform that is called, or their size.

        None if they can. Example: "transform 3, `Lambda`: not recognized".
        """
        if self._reason is not None:
            return self._reason
        if self.pipeline is None:
            return "images may have any size: end with a transform that gives them all one size"
        return self.single_reason

    @property
    def random_transform(self) -> str | None:
        """The first transform run in Rust that draws random values, as `python_reason` names transforms."""
        return None if self._divided is None else self._divided.random

    @property
    def pipeline(self) -> _core.ImagePipeline | None:
        """The core's pipeline, if it makes images of a fixed shape without Python; otherwise None."""
        if self._pipeline is None or self._rest is not None or self._pipeline.form is None:
            return None
        return self._pipeline

    @property
    def decoder(self) -> _core.ImageDecoder:
        """The decoder for its images, without any transforms."""
        return self._decoder

    @property
    def mask_pipeline(self) -> _core.ImagePipeline | None:
        """The core's pipeline for masks that are transformed with an image; None if channels depend on the file."""
        if self.mode == "unchanged":
            return None
        return _core.ImagePipeline("[]", self._decoder, True, self.channels == "last")

    def decode(self, encoded: bytes, number: int = 0) -> Any:
        """Decode and transform the image `encoded`; a cache stores it under `number`, its number in the dataset.

        Raises:
            DamagedImageError: it is not an image, or is damaged; the message includes what the decoder reported.
            Exception: any exception that `transform` raises.
        """
        return self.finish(self.decode_native(encoded, number))

    def decode_native(self, encoded: bytes, number: int = 0) -> torch.Tensor:
        """Run only the core's part of `decode`, without the transforms that are called in Python.

        Raises:
            DamagedImageError: as for `decode`.
        """
        if self._pipeline is None:
            return self._decoder.decode(encoded)
        return self._pipeline.decode(encoded, number, self._generator())

    def finish(self, image: torch.Tensor) -> Any:
        """Apply the transforms that are called in Python to the core's result."""
        marked = self._marked(image)
        if self._rest is None:
            return marked
        made = self._rest(marked)
        return made if self.tv_tensors else without_mark(made)

    def decode_moved(
        self,
        encoded: bytes,
        number: int,
        boxes: Sequence[Any],
        masks: Sequence[Any],
        fields: Mapping[str, Any] | None = None,
        of_boxes: Collection[int] = (),
        keypoints: Sequence[Any] = (),
    ) -> MovedParts:
        """Decode and transform the image `encoded`, as `decode` does, together with its boxes, masks and key points.

        Args:
            encoded: the bytes of its file.
            number: its number in the dataset.
            boxes: the value of each field in `boxes`: (n, 4) numbers; None stays None.
            masks: the value of each field in `masks`: a tensor or an array (..., height, width); None stays None.
            fields: by name, the values of the fields that belong to boxes, one row per box.
            of_boxes: the indices of the masks that may be dropped with their box, if there are as many as boxes.
            keypoints: the value of each field in `keypoints`: (..., 2) numbers; None stays None.

        Raises:
            DamagedImageError: as for `decode`; the size of a mask differs from that of the image; boxes do not have
                four numbers; a field in `box_fields` has more or fewer rows than there are boxes.
            TypeError: boxes are None, and `RandomIoUCrop` is among the transforms.
            ValueError: `transform` left more or fewer rows of a field in `box_fields` than boxes.
            Exception: any exception that `transform` raises.
        """
        assert self._moved is not None
        generator = self._generator()
        return self._moved.decode(encoded, number, generator, boxes, masks, fields or {}, of_boxes, keypoints)

    def _marked(self, image: Any) -> Any:
        is_tensor = isinstance(image, torch.Tensor)
        return self._marks.image(image) if is_tensor and self.tv_tensors and self._marks is not None else image

    def decode_many(self, encoded: Sequence[bytes], numbers: Sequence[int]) -> tuple[list[torch.Tensor], Any]:
        """Decode and transform images of one shape, with draws in sequence, into shared memory.

        Returns:
            The images, not marked, and (row, reason) of the first that failed, after which nothing was drawn; or None.
        """
        assert self.pipeline is not None
        return self.pipeline.decode_many(encoded, numbers, self._generator())

    def _generator(self) -> object | None:
        return fastest_torch_access(current_generator()) if self.is_random else None

    def of_hugging_face(self, name: str, mode: str | None) -> ImageField:
        """Return this field for Hugging Face's `Image` column `name`, read as `datasets` reads it.

        Unless the field says otherwise, images are rotated according to their EXIF data and have the column's mode.

        Raises:
            ValueError: the column's mode is not supported, and the field does not set one.
        """
        changes: dict[str, Any] = {} if self.exif_orientation is not None else {"exif_orientation": True}
        if self.mode is None and mode is not None:
            if mode not in _CONVERTED:
                raise ValueError(
                    f"columns[{name!r}]: expected Image(mode=...) of Hugging Face with one of {', '.join(_CONVERTED)}, "
                    f"got {mode!r}; choose a mode yourself, ImageField(mode='RGB'), or read the column with `datasets`"
                )
            changes["mode"] = mode
        return ImageField(**{**self.__getstate__(), **changes}) if changes else self

    def with_transform(self, transform: Callable[[Any], Any] | None) -> ImageField:
        """Return the same field with another transform."""
        return ImageField(**{**self.__getstate__(), "transform": transform})

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments; unpickling makes the decoder again."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open(0)

    def __repr__(self) -> str:
        """Return the constructor call, with the arguments that differ from `ImageField()`."""
        default = {name: each.default for name, each in inspect.signature(ImageField).parameters.items()}
        given = (f"{name}={getattr(self, name)!r}" for name in default if getattr(self, name) != default[name])
        return f"ImageField({', '.join(given)})"


def _names(argument: str, names: Any) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"{argument}: expected one or more names of fields, but got {names!r}")
    return found

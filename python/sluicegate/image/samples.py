"""`ImageSamples`: samples of a native dataset with images in place of their encoded files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate import _core

from .box_rows import row_count, undeclared
from .damaged import DamagedImageError
from .field import ImageField
from .links import NO_LINKS, ImageLinks

# The field names of samples that are pairs of an image and its mask.
_PAIR = "image", "mask"


class Moved(NamedTuple):
    """The fields that are transformed with an image, by number."""

    boxes: list[int]
    masks: list[int]
    # By name, for all boxes: the fields with one row per box.
    fields: dict[str, int]
    keypoints: list[int]

    @property
    def numbers(self) -> list[int]:
        """All of them, once each: key points may also have one row per box."""
        fields = [each for each in self.fields.values() if each not in self.keypoints]
        return [*self.boxes, *self.masks, *fields, *self.keypoints]


class ImageSamples:
    """Samples of a native dataset with images in place of their encoded files, and the fields transformed with them.

    Args:
        structure: how the fields of a sample are nested as read.
        kinds: the kind of each field.
        images: by field, how its bytes are decoded.
        links: the files of images without bytes; samples are then read `with_paths`.

    Raises:
        ValueError: boxes or masks of an image are not fields, belong to two images, or are masks with transforms.

    Attributes:
        images: as given.
        kinds: the kind of each field after decoding.
    """

    def __init__(
        self, structure: Any, kinds: Sequence[Any], images: Mapping[int, ImageField], links: ImageLinks = NO_LINKS
    ) -> None:
        self._structure = structure
        self._links = links
        self._read_kinds = list(kinds)
        self.images = images
        fields = [field for field, _ in _leaves(structure, structure)]
        self._moved = {
            field: _moved_with(image, structure) for field in fields if (image := images.get(field)) is not None
        }
        self._names = dict(_named(structure))
        moved = [field for each in self._moved.values() for field in each.numbers]
        if len(set(moved)) < len(moved):
            twice = next(self._names[each] for each in moved if moved.count(each) > 1)
            raise ValueError(
                f"boxes, masks, keypoints, box_fields: expected each field once, with one image, but got {twice!r} "
                "twice"
            )
        masks = {mask for each in self._moved.values() for mask in each.masks}
        for mask in masks:
            if (image := images.get(mask)) is not None and (image.transform is not None or image.cache is not None):
                raise ValueError(
                    "masks: expected a mask without transform and cache, because it moves with its image, but got "
                    f"{image!r}"
                )
        # A mask that is transformed with an image is not decoded as an image itself.
        self._order = [field for field in self._moved if field not in masks]
        ragged = {each for of in self._moved.values() for each in of.boxes + of.keypoints}
        if found := [self._names[each] for each in ragged if each in self.images]:
            raise ValueError(f"boxes, keypoints: expected numbers, but {found[0]!r} is an image")
        rows = {each for of in self._moved.values() for each in of.fields.values()}
        if found := [self._names[each] for each in rows if each in self.images]:
            raise ValueError(f"box_fields: expected a row for each box, but {found[0]!r} is an image")
        self.kinds = tuple(self._kind(field, kind, ragged, rows) for field, kind in enumerate(kinds))

    def _kind(self, field: int, kind: Any, ragged: set[int], rows: set[int]) -> Any:
        if field in ragged and (kind == "json" or (isinstance(kind, tuple) and kind[0] == "nested")):
            return "ragged"
        if field in rows and kind == "json":
            # Lists of different lengths, which torch's default collate cannot batch.
            return "optional", "json"
        if field not in self.images:
            return kind
        return ("optional", "tensor") if isinstance(kind, tuple) else "tensor"

    @property
    def are_of_one_form(self) -> bool:
        """True if samples have one plain image of fixed size, and nothing is transformed with it."""
        if len(self._order) != 1 or self.images[self._order[0]].moves_fields:
            return False
        image = self.images[self._order[0]]
        return image.pipeline is not None and not image.tv_tensors

    def sample(self, raw: Any, number: int) -> Any:
        """Return sample `number`, decoded from `raw`, the sample as read.

        Raises:
            UndecodedFieldError: one of its images is damaged, or not an image.
        """
        values = self._read_values(raw)
        for field in self._order:
            if values[field] is None:
                continue
            try:
                if self.images[field].moves_fields:
                    self._move(field, values, number)
                else:
                    values[field] = self.images[field].decode(values[field], number)
            except DamagedImageError as error:
                raise UndecodedFieldError(field, error) from None
        return _nested(self._structure, values)

    def _read_values(self, raw: Any, row: int = 0) -> dict[int, Any]:
        """Return the values of a sample by field, as read, and read image files that it only has paths of."""
        if not self._links.paths:
            return dict(_leaves(raw, self._structure))
        raw, paths = raw
        values = dict(_leaves(raw, self._structure))
        for field, path in zip(self._links.paths, paths, strict=True):
            if values[field] or (values[field] is None and not path):
                continue
            try:
                values[field] = self._links.read(path)
            except DamagedImageError as error:
                raise UndecodedFieldError(field, error, row) from None
        return values

    def _move(self, field: int, values: dict[int, Any], number: int) -> None:
        """Decode the image of this field in `values`, and transform the fields that belong to it."""
        boxes, masks, fields, keypoints = self._moved[field]
        image = self.images[field]
        given = [values[each] for each in boxes], [self._mask(values, each) for each in masks]
        belonging = {name: values[each] for name, each in fields.items()}
        of_boxes = {number for number, each in enumerate(masks) if each not in self.images}
        points = [values[each] for each in keypoints]
        moved = image.decode_moved(values[field], number, *given, belonging, of_boxes, points)
        if image.box_fields is None:
            for each, before, after in zip(boxes, given[0], moved.boxes, strict=True):
                name, counts = self._names[each], (row_count(before), row_count(after))
                if found := self._with_rows(field, values, *counts):
                    raise ValueError(
                        f"boxes: the transform changed the number of boxes in {name!r} from {counts[0]} to "
                        f"{counts[1]}, but {found[0]!r} still has {counts[0]} rows; pass the fields that belong to "
                        f"the boxes, box_fields={found}, or box_fields=() if there are none"
                    )
        for each, before, after in zip(keypoints, points, moved.keypoints, strict=True):
            name, counts = self._names[each], (row_count(before), row_count(after))
            if found := self._with_rows(field, values, *counts, but=[*keypoints, *fields.values()]):
                raise ValueError(
                    f"keypoints: the transform changed the number of key points in {name!r} from {counts[0]} to "
                    f"{counts[1]}, but {found[0]!r} still has {counts[0]} rows; clamp key points, or leave them "
                    "outside of the image"
                )
        for each, before, after in zip(masks, given[1], moved.masks, strict=True):
            if each in self.images and row_count(before) and row_count(after) == 0:
                raise ValueError(
                    f"masks: the transform dropped the mask {self._names[each]!r} with the only box of the image; "
                    "torchvision's SanitizeBoundingBoxes treats a mask of one plane as the mask of one box, so do not "
                    "apply it to masks of whole images"
                )
        values[field] = moved.image
        values.update((each, moved.fields[name]) for name, each in fields.items())
        values.update(zip(boxes + masks + keypoints, moved.boxes + moved.masks + moved.keypoints, strict=True))

    def _with_rows(
        self, field: int, values: Mapping[int, Any], before: int | None, after: int | None, but: Sequence[int] = ()
    ) -> list[str]:
        """Return the names of other fields with `before` rows, if the transform has left `after` rows of a part.

        Boxes, masks, images and the fields `but` are excluded.
        """
        if before is None or before == after:
            return []
        moved = {field, *self._moved[field].boxes, *self._moved[field].masks, *self._order, *but}
        others = ((self._names[each], value) for each, value in values.items() if each not in moved)
        return [path for name, value in others for path in undeclared(name, value, before)]

    def _mask(self, values: Mapping[int, Any], field: int) -> Any:
        """Return the mask in this field, before it is transformed."""
        if field not in self.images or values[field] is None:
            return values[field]
        try:
            return self.images[field].decode(values[field])
        except DamagedImageError as error:
            raise UndecodedFieldError(field, error) from None

    def samples(self, raw: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
        """Decode several samples, whose images have one shape and share their memory.

        Raises:
            UndecodedFieldError: one of the images is damaged, or not an image; `row` is the index of its sample.
        """
        (field,) = self._order
        values = [self._read_values(sample, row) for row, sample in enumerate(raw)]
        decoded, failed = self.images[field].decode_many([each[field] for each in values], numbers)
        if failed is not None:
            raise UndecodedFieldError(field, failed[1], failed[0])
        return [_nested(self._structure, {**each, field: image}) for each, image in zip(values, decoded, strict=True)]

    @property
    def images_by_name(self) -> dict[str, ImageField]:
        """The images by field name, or by path for nested fields; "" if samples have no names."""
        return {self._names[field]: image for field, image in self.images.items()}

    def core(self, core: _core.Dataset) -> tuple[_core.Dataset, Any, list[int]] | str:
        """Return the core with its images decoded there, its structure and its fields; or the reason why not."""
        for field in self._order:
            if self.images[field].single_reason is not None:
                return str(self.images[field].python_reason)
        used: list[int] = []
        numbered = _numbered(self._structure, used)
        with_image = {each: field for field in self._order for fields in self._moved[field][:2] for each in fields}
        formats = {each: self.images[field].box_format for field in self._order for each in self._moved[field].boxes}
        fields: list[tuple[int, _core.ImagePipeline | None, int | None, str | None]] = []
        for field in used:
            kind, image = self._read_kinds[field], self.images.get(field)
            of_image = used.index(with_image[field]) if field in with_image else None
            if image is not None:
                pipeline = image.pipeline if of_image is None else image.mask_pipeline
                if pipeline is None and of_image is None:
                    return str(image.python_reason)
                if pipeline is None:
                    return f"the channels of the masks in `{self._names[field]}` depend on the file: pass a mode"
                if kind != "bytes":
                    return f"`{self._names[field]}` may have no image"
                fields.append((field, pipeline, of_image, None))
            elif of_image is not None and field not in formats:
                return f"the masks in `{self._names[field]}` are arrays: only files of images are moved in the core"
            elif of_image is not None and not _holds_boxes(kind, core.fields[field]):
                return (
                    f"the boxes in `{self._names[field]}` are not arrays (n, 4) of 32 or 64 bits: store them as lists "
                    "of four floats, such as pyarrow's list_(list_(float32(), 4))"
                )
            else:
                fields.append((field, None, of_image, formats.get(field)))
        rows = [(boxes, each) for field in self._order for boxes, each in self._rows_of_boxes(field)]
        for _, each in rows:
            if not _has_rows(self._read_kinds[each]):
                return f"the rows of `{self._names[each]}` are counted in Python"
        places = [(used.index(boxes), used.index(each)) for boxes, each in rows]
        return _core.decoded_images(core, fields, self._links.core(), places), numbered, used

    def _rows_of_boxes(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the fields of boxes of this image, each with a field that has a row for each of them."""
        image, moved = self.images[field], self._moved[field]
        for name, boxes in zip(image.boxes, moved.boxes, strict=True):
            for of_boxes in (image.box_fields or {}).get(name, ()):
                yield boxes, moved.fields[of_boxes]


def with_paths(structure: Any, links: ImageLinks) -> list[Any]:
    """Return how samples of this structure are nested if the paths of images are also read."""
    return [structure, list(links.paths.values())]


class UndecodedFieldError(Exception):
    """A field whose image cannot be decoded.

    Attributes:
        field: the number of the field.
        reason: why.
        row: the index of its sample, if there are several.
    """

    def __init__(self, field: int, reason: object, row: int = 0) -> None:
        super().__init__(str(reason))
        self.field, self.reason, self.row = field, reason, row


def _has_rows(kind: Any) -> bool:
    """Return True if fields of this kind are arrays, whose rows the core can count."""
    return kind in ("tensor", "ragged") or (isinstance(kind, tuple) and kind[0] == "padded")


def _holds_boxes(kind: Any, field: tuple[str, str, Sequence[int]]) -> bool:
    """Return True if the core can transform the boxes in a field of this kind."""
    _, dtype, shape = field
    return _has_rows(kind) and list(shape[-1:]) == [4] and dtype in ("float32", "float64", "int32", "int64")


def _moved_with(image: ImageField, structure: Any) -> Moved:
    """Return the fields that are transformed with an image, by number."""
    boxes, masks = ([_number(structure, name) for name in names] for names in (image.boxes, image.masks))
    names = [name for of in (image.box_fields or {}).values() for name in of]
    keypoints = [_number(structure, name, "keypoints") for name in image.keypoints]
    return Moved(boxes, masks, {name: _number(structure, name, "box_fields") for name in names}, keypoints)


def _named(structure: Any, prefix: str = "") -> Iterator[tuple[int, str]]:
    """Yield the numbers of the fields with their names, or paths such as "objects.bbox" for fields in dicts."""
    if isinstance(structure, int):
        yield structure, prefix
        return
    for key, part in structure.items() if isinstance(structure, dict) else enumerate(structure):
        yield from _named(part, f"{prefix}.{key}" if prefix else str(key))


def _number(structure: Any, name: str, argument: str = "boxes, masks") -> int:
    """Return the number of the field called `name`, which may be a path: "objects.bbox"."""
    if isinstance(structure, list) and name in _PAIR:
        structure = dict(zip(_PAIR, structure, strict=True))
    part = structure
    for step in [name] if isinstance(structure, dict) and name in structure else name.split("."):
        part = part.get(step) if isinstance(part, dict) else None
    if not isinstance(part, int):
        names = list(structure) if isinstance(structure, dict) else []
        raise ValueError(f"{argument}: expected one of the fields {names}, but got {name!r}; add it to the fields")
    return part


def _leaves(part: Any, structure: Any) -> Iterator[tuple[int, Any]]:
    """Yield the field numbers with their values in `part`, which is nested like `structure`, in order."""
    if isinstance(structure, dict):
        for key, inner in structure.items():
            yield from _leaves(part[key], inner)
    elif isinstance(structure, list):
        for value, inner in zip(part, structure, strict=True):
            yield from _leaves(value, inner)
    else:
        yield structure, part


def _nested(structure: Any, values: Mapping[int, Any]) -> Any:
    """Nest these values by field into a sample."""
    if isinstance(structure, dict):
        return {key: _nested(inner, values) for key, inner in structure.items()}
    if isinstance(structure, list):
        return tuple(_nested(inner, values) for inner in structure)
    return values[structure]


def _numbered(structure: Any, used: list[int]) -> Any:
    """Return `structure` with its fields numbered in order, and append their old numbers to `used`."""
    if isinstance(structure, dict):
        return {key: _numbered(part, used) for key, part in structure.items()}
    if isinstance(structure, list):
        return [_numbered(part, used) for part in structure]
    used.append(structure)
    return len(used) - 1

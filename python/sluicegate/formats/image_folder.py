"""`ImageFolderDataset`: images in folders, one folder per class."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from sluicegate import _core
from sluicegate.image.decode import MAX_PIXELS, Mode, Truncated
from sluicegate.image.field import ImageField
from sluicegate.native.dataset import NativeDataset, leaves_out, native_format
from sluicegate.paths import local

from .labels import Labels, LabelsLike, checked_labels, labels_of
from .paired_masks import PairedMasks

# The maximum number of lines in `damages`.
_DAMAGES = 1_000
# The extensions of torchvision's `ImageFolder`, in its order.
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


@native_format
class ImageFolderDataset(NativeDataset):
    """The images below a folder, with the classes of torchvision's `ImageFolder`: sample i is `(image, class)`.

    `image` is a uint8 tensor of shape (channels, height, width), as from `decode_image`, or the result of `transform`.
    `class` is the number of the top-level folder that contains the file, in the order of the folders' names. The order
    of the samples is also that of `ImageFolder`.

    With `labels`, labels come from elsewhere, sample i is `(image, label)`, and the files may lie directly in the
    folder or anywhere below it. With `labels=None`, sample i is the image alone, and a batch is a tensor of images. The
    order is the same: files in the folder itself come first.

    With `masks`, another folder, sample i is `(image, mask)`. The mask is the file in that folder with the path of the
    image, except for the extension: a uint8 tensor of shape (1, height, width), with the indices of a palette. Both are
    transformed with the same draws, the mask by nearest neighbor. A transform that is not recognized is called with
    `(image, {"mask": mask})`, marked as `torchvision.tv_tensors`, and must return the same.

    Transforms of `sluicegate.transforms`, and torchvision's if they have the same values, run in Rust, fused with
    decoding. If they end with a fixed size, `sluicegate.DataLoader` makes whole batches without Python; random ones
    need `seed=` for that. Any other transform is called with the result of those before it, in worker processes or
    threads: with a tensor, or in a pipeline of `torchvision.transforms` (v1) with a Pillow image (see `ImageField`).
    `repr` and `python_reason` say which transform is called, and why.

    The folder is listed in Rust, and no Python object is kept per file; files are opened when they are read. It can be
    pickled: only the arguments are, and unpickling lists the folder and labels its files again. It is thread-safe.

    Args:
        root: the folder.
        transform: a callable that takes an image.
        target_transform: a callable that takes a label.
        labels: where labels come from. Default: "folder".

            - "folder": the top-level folder is the class.
            - A regular expression, searched for in the path relative to `root` (with "/" on every system): its group
              named `label`, or else its first group, is the class name; classes are numbered in the order of their
              sorted names.
            - `CsvLabels`, for a table.
            - A function, called once with each path relative to `root` when the dataset is opened. It returns an `int`,
              a `float`, a `str` (a class name), or numbers of one shape as a tensor, an array or a list; the same kind
              for all files.
            - None: images without labels.
        masks: the folder of the masks of all images.
        mask_mode: like `mode`, for masks.
        mode, exif_orientation, truncated, max_pixels, exact, channels, cache, cache_bytes, cache_folder: as for
            `ImageField`.
        extensions: the file name endings to include, ignoring case; by default those of `ImageFolder` (GIF is not among
            them).
        is_valid_file: a callable used instead of `extensions`; it takes a path and returns True to include the file.
        allow_empty: True if a class, or with other labels the folder, may have no images.
        follow_links: True if symbolic links may lead out of the folder, as in `ImageFolder`. Links that stay inside are
            always followed.
        on_error: "raise", or "skip": files that cannot be opened, or that `decode_image` rejects with these arguments,
            are excluded when the dataset is opened, from `len`, indices, ids and batches. The classes and their numbers
            are those of all files. This decodes each image once, on all cores; for 4 MiB or more the result is saved,
            and reused for each file until its size or modification time changes.
        index_folder: where that result is saved, instead of the default cache folder (`$SLUICEGATE_CACHE`,
            `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`).

    Attributes:
        root: the folder, as it was given.
        classes: the class names; empty if labels are not classes.
        class_to_idx: the class numbers, by name.
        samples, imgs: `(path, label)` of each image, as a list that is made on each access. The label is None for
            images without labels.
        targets: the label of each image; also made on each access.
        python_reason: why samples need Python, such as "transform 3, `Lambda`: not recognized"; transforms are counted
            from 1, nested ones as in "3.1". None if the core makes whole batches.
        mask_paths: the path of the mask of each image; None without `masks`.
        damages: what `on_error="skip"` left out, one line per file; the first 1,000.

    Raises:
        FileNotFoundError: the folder does not exist, it has no classes, a class has no image, there is no image at all,
            or a link is broken; an image has no mask, or, unless only some files are selected, a mask has no image.
        ValueError: a link leads to a folder that contains it; a file gets no label (the message names it);
            `target_transform` without labels.
        DamagedImageError: while reading, a file is not an image, is damaged or too large. It is both an `OSError` and a
            `ValueError`.
        TypeError: a label function returns labels of several kinds, or of an unsupported one.
        OSError: a file or a folder cannot be read.

    Examples:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.pgm", "dog/2.pgm"):
        ...     (folder / name).parent.mkdir()
        ...     _ = (folder / name).write_bytes(b"P5 1 1 255 " + name[-5:-4].encode())
        >>> dataset = ImageFolderDataset(folder, mode="L")
        >>> dataset[1]
        (tensor([[[50]]], dtype=torch.uint8), 1)
        >>> dataset.classes
        ['cat', 'dog']
        >>> ImageFolderDataset(folder, mode="L", labels=lambda path: float(path[-5]))[1]
        (tensor([[[50]]], dtype=torch.uint8), 2.0)
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        labels: LabelsLike = "folder",
        masks: str | os.PathLike[str] | None = None,
        mask_mode: Mode = "P",
        mode: Mode = "RGB",
        exif_orientation: bool = False,
        truncated: Truncated = "error",
        max_pixels: int = MAX_PIXELS,
        exact: bool = False,
        channels: Literal["first", "last"] = "first",
        cache: Literal["memory", "disk"] | None = None,
        cache_bytes: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        extensions: Sequence[str] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        follow_links: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if extensions is not None and is_valid_file is not None:
            raise ValueError("extensions, is_valid_file: both select the files; pass only one of them")
        local("root", root)  # Reject URLs.
        if masks is not None:
            local("masks", masks)
        if masks is not None and labels not in ("folder", None):
            raise ValueError(
                f"masks: samples are (image, mask) and have no labels, but got labels={labels!r}; leave out labels="
            )
        self.root = os.fspath(root)
        self.masks = None if masks is None else os.fspath(masks)
        self._mask_field = ImageField(
            mode=mask_mode, exif_orientation=exif_orientation, truncated=truncated, max_pixels=max_pixels
        )
        self._field = ImageField(
            transform,
            mode=mode,
            exif_orientation=exif_orientation,
            truncated=truncated,
            max_pixels=max_pixels,
            exact=exact,
            channels=channels,
            cache=cache,
            cache_bytes=cache_bytes,
            cache_folder=cache_folder,
            masks=() if masks is None else "mask",
        )
        self.labels = checked_labels(None if masks is not None else labels)
        self._target_transform = self._checked(target_transform)
        self.is_valid_file = is_valid_file
        self.extensions = () if is_valid_file else tuple(IMAGE_EXTENSIONS if extensions is None else extensions)
        self.allow_empty = allow_empty
        self.follow_links = follow_links
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        leaves, has_classes = leaves_out(self.on_error), self.labels == "folder"
        root = os.path.abspath(self.root)
        self._files = _core.FolderFiles(root, self.extensions, has_classes, self.follow_links, leaves)
        whole = self._files.dataset()
        indices, labels = self._labeled(array("q", range(len(whole))))
        pairs = None if self.masks is None else self._pairs(self.masks, indices, leaves)
        self.damages: list[str] = []
        if leaves:
            broken, self.damages = self._files.broken_images(indices.tolist(), self._field.decoder, self.index_folder)
            left_out = set(broken)
            if pairs is not None:
                readable = [index for index in indices if index not in left_out]
                unmasked, damages = pairs.broken(readable, self._mask_field.decoder, self.index_folder)
                left_out, self.damages = left_out | unmasked, [*self.damages, *damages][:_DAMAGES]
            kept = [number for number, index in enumerate(indices) if index not in left_out]
            indices = array("q", (indices[number] for number in kept))
            labels = None if labels is None else labels.subset(kept)
        self.classes = list(labels.classes) if labels else []
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self._labels, self._label_core = labels, None if labels is None else labels.core()
        self._indices = indices if len(indices) < len(whole) else None
        chosen = whole if self._indices is None else _core.Dataset.subset(whole, indices.tolist())
        assert chosen is not None
        self._chosen, self._chosen_masks = chosen, None if pairs is None else pairs.of(indices)
        self._mask_paths = None if pairs is None else [pairs.paths[index] for index in indices]
        self._set_images()

    def _pairs(self, masks: str, indices: array[int], leaves: bool) -> PairedMasks:
        """Return the masks of the files; files that are not selected need not have one."""
        paths = self._files.paths()
        is_chosen = self.is_valid_file is not None or self.extensions != IMAGE_EXTENSIONS
        return PairedMasks(
            masks,
            self.root,
            paths,
            chosen=indices,
            are_all=not is_chosen,
            follow_links=self.follow_links,
            leave_out=leaves,
        )

    def _labeled(self, indices: array[int]) -> tuple[array[int], Labels | None]:
        """Return which of the files at `indices` are included, and their labels."""
        if self.is_valid_file is not None:
            paths = self._files.paths()
            indices = array("q", (index for index in indices if self.is_valid_file(self._whole(paths[index]))))
        if self.labels == "folder":
            return indices, self._folder_labels(indices)
        if not indices and not self.allow_empty:
            raise FileNotFoundError(f"root: no file{self._in_extensions()} in {self.root!r} or its subfolders")
        if self.labels is None:
            return indices, None
        paths = self._files.paths()
        labels = labels_of(self.labels, [paths[index] for index in indices])
        return indices if labels.indices is None else array("q", (indices[each] for each in labels.indices)), labels

    def _folder_labels(self, indices: array[int]) -> Labels:
        classes = self._files.class_names
        if not classes:
            raise FileNotFoundError(
                f"root: no class folder in {self.root!r}; pass labels= for labels that are not folders"
            )
        numbers = torch.tensor(self._files.classes(), dtype=torch.int64, device="cpu")
        labels = Labels(numbers, classes=tuple(classes))
        if len(indices) < len(numbers):
            labels = labels.subset(indices.tolist())
        sizes = torch.bincount(labels.values, minlength=len(classes)).tolist()
        if not self.allow_empty and 0 in sizes:
            self._refuse_empty([name for name, size in zip(classes, sizes, strict=True) if size == 0])
        return labels

    def _set_images(self) -> None:
        kinds = ["bytes", "path", "number"][: len(self._chosen.fields)]
        if self._chosen_masks is not None:
            pairs = _core.Dataset.stack([("image", self._chosen), ("mask", self._chosen_masks)])
            mask = len(kinds)
            self._set_core(pairs, [0, mask], kinds * 2, {0: self._field, mask: self._mask_field})
            self._image_core = None
            return
        self._set_core(self._chosen, 0, kinds, {0: self._field})
        self._image_core = self.core if self.is_native else None
        self._set_labels()

    def _set_labels(self) -> None:
        """Add the labels to the images, so that the file of a cached image is not read."""
        if self._labels is None or self._label_core is None:
            return
        self.structure, self.kinds, self.core = [0, 1], ("tensor", self._labels.kind), self._chosen
        self.is_native = self._image_core is not None and self._target_transform is None
        if self._image_core is not None and self.is_native:
            self.core = _core.Dataset.stack([("image", self._image_core), ("label", self._label_core)])

    def _checked(self, target_transform: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        if target_transform is not None and self.labels is None:
            raise ValueError(
                "target_transform: samples have no labels to transform, got labels=None; leave out target_transform, "
                "or pass labels"
            )
        return target_transform

    def _refuse_empty(self, names: list[str]) -> None:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise FileNotFoundError(
            f"root: no file{self._in_extensions()} in these class folders of {self.root!r}: {', '.join(names[:5])}"
            f"{more}; remove the folders, or pass allow_empty=True"
        )

    def _in_extensions(self) -> str:
        return f" that ends in {', '.join(self.extensions)}" if self.extensions else ""

    def _whole(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _sample(self, index: int) -> Any:
        image = super()._sample(index)
        if self._labels is None:
            return image
        label = self._labels.at(index)
        return image, label if self._target_transform is None else self._target_transform(label)

    def _samples(self, indices: list[int]) -> list[Any]:
        if self._labels is None or not self.is_native:
            return super()._samples(indices)
        return list(zip(super()._samples(indices), map(self._labels.at, indices), strict=True))

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        """The transform of images. It can be replaced: loaders use it from their next batch on, with a new cache."""
        return self._field.transform

    @transform.setter
    def transform(self, transform: Callable[[Any], Any] | None) -> None:
        self._field = self._field.with_transform(transform)
        self._set_images()

    @property
    def target_transform(self) -> Callable[[Any], Any] | None:
        """The transform of labels. It can be replaced; the cache is kept."""
        return self._target_transform

    @target_transform.setter
    def target_transform(self, target_transform: Callable[[Any], Any] | None) -> None:
        self._target_transform = self._checked(target_transform)
        self._set_labels()

    @property
    def cached_bytes(self) -> int:
        """The size of the images in the cache, in bytes."""
        return self._images[0].cached_bytes

    @property
    def python_reason(self) -> str | None:
        """Why samples need Python, so that the core cannot make batches alone; None if it can.

        Example: "transform 3, `Lambda`: not recognized".
        """
        reason = super().python_reason
        return "`target_transform` is called" if reason is None and self._target_transform is not None else reason

    @property
    def samples(self) -> list[tuple[str, Any]]:
        """The `(path, label)` of each image."""
        paths = self._files.paths()
        indices = range(len(paths)) if self._indices is None else self._indices
        return [(self._whole(paths[index]), label) for index, label in zip(indices, self.targets, strict=True)]

    @property
    def mask_paths(self) -> list[str] | None:
        """The path of the mask of each image; None without `masks`."""
        root = self.masks
        if root is None or self._mask_paths is None:
            return None
        return [os.path.join(root, path) for path in self._mask_paths]

    @property
    def imgs(self) -> list[tuple[str, Any]]:
        """The same as `samples`, under torchvision's other name."""
        return self.samples

    @property
    def targets(self) -> list[Any]:
        """The label of each image."""
        return [None] * len(self) if self._labels is None else self._labels.to_list()

    def _shown(self) -> str:
        of = f" of {len(self.classes)} classes" if self.classes else ""
        return f"{self.root!r}, {len(self)} images{of}"

    _OPENED = (
        *NativeDataset._OPENED,
        *(
            "_files",
            "_chosen",
            "_chosen_masks",
            "_mask_paths",
            "_image_core",
            "_labels",
            "_label_core",
            "_indices",
            "classes",
            "class_to_idx",
            "damages",
        ),
    )

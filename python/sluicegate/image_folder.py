"""`ImageFolderDataset`: photographs in folders, one for each class."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Literal

from . import _core
from .image import MAX_PIXELS, Mode, Truncated
from .image_field import ImageField
from .native_dataset import NativeDataset, native_format

# Those of torchvision's `ImageFolder`, in its order.
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


@native_format
class ImageFolderDataset(NativeDataset):
    """The images below a folder, with the classes of torchvision's `ImageFolder`: sample i is `(image, class)`.

    `image` is a uint8 tensor of shape (channels, height, width), as of `decode_image`, or what `transform` makes of it,
    and `class` the number of the folder at the top that the file lies in, in the order of their names. The order of the
    samples is that of `ImageFolder`, too.

    Transforms of `sluicegate.transforms`, and torchvision's (v2) where there is one of that name here, are done in
    Rust, in one go with decoding, and where they end with a fixed size `sluicegate.DataLoader` makes whole batches
    without Python, random ones with `seed=` (`ImageField` says more). Anything else is called with the decoded image,
    in worker processes or threads.

    The folder is listed in Rust, without a Python object for each file; files are opened when they are asked for. It
    can be pickled: the arguments travel, and the folder is listed again on the other side. Threads may share it.

    Args:
        root: the folder.
        transform: is called with each image.
        target_transform: is called with each class number.
        mode, exif_orientation, truncated, max_pixels, exact, channels, cache, cache_bytes, cache_folder: as of
            `ImageField`.
        extensions: the ends of the names that are meant, in upper or lower case; those of `ImageFolder` by default
            (GIF is not among them).
        is_valid_file: is called with each path instead, and says whether it is meant.
        allow_empty: whether a class may be without images.
        follow_links: whether symbolic links may lead out of the folder, as `ImageFolder` lets them. Those that stay
            inside are always followed.

    Attributes:
        root: the folder, as it was given.
        classes: the names of the classes, by number.
        class_to_idx: the numbers by the names.
        samples, imgs: `(path, class)` of each image; a list that is made when it is asked for.
        targets: the class of each image; the same.

    Raises:
        FileNotFoundError: there is no such folder, it has no classes, a class has no image, or a link leads nowhere.
        ValueError: a link leads to a folder that it lies in itself; or, while reading, a file is no image, is damaged
            or too large (it is named).
        OSError: a file or a folder can't be read.

    Example:
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
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
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
        extensions: Sequence[str] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        follow_links: bool = True,
    ) -> None:
        if extensions is not None and is_valid_file is not None:
            raise ValueError("extensions and is_valid_file both say which files are meant: give one of them")
        self.root = os.fspath(root)
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
        )
        self._target_transform = target_transform
        self.is_valid_file = is_valid_file
        self.extensions = () if is_valid_file else tuple(IMAGE_EXTENSIONS if extensions is None else extensions)
        self.allow_empty = allow_empty
        self.follow_links = follow_links
        self._open()

    def _open(self) -> None:
        self._files = _core.FolderFiles(os.path.abspath(self.root), self.extensions, self.follow_links)
        self.classes = self._files.class_names
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        if not self.classes:
            raise FileNotFoundError(f"no folder of a class below {self.root!r}")
        sizes = self._files.class_sizes()
        self._whole_core, self._labels = self._files.dataset(), self._files.labels()
        self._places: array[int] | None = None
        if self.is_valid_file is not None:
            paths, classes = self._files.paths(), self._files.classes()
            places = array("q", (place for place, path in enumerate(paths) if self.is_valid_file(self._whole(path))))
            sizes = [0] * len(sizes)
            for place in places:
                sizes[classes[place]] += 1
            self._places = places
            chosen = [_core.Dataset.subset(core, places.tolist()) for core in (self._whole_core, self._labels)]
            self._whole_core, self._labels = (core for core in chosen if core is not None)
        if not self.allow_empty and 0 in sizes:
            self._refuse_empty([name for name, size in zip(self.classes, sizes, strict=True) if size == 0])
        self._set_images()

    def _set_images(self) -> None:
        self._set_core(self._whole_core, [0, 2], ["bytes", "path", "number"], {0: self._field})
        self.is_native = self.is_native and self._target_transform is None
        if self.is_native:
            # Of an image that is in the cache the file is not read: its class lies beside it.
            images = _core.decoded_images(self._whole_core, [(0, self._images[0].pipeline, None, None)])
            self.core = _core.Dataset.stack([("image", images), ("class", self._labels)])

    def _refuse_empty(self, names: list[str]) -> None:
        meant = f" that ends in {', '.join(self.extensions)}" if self.extensions else ""
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise FileNotFoundError(
            f"{self.root!r}: no file{meant} is in the folders of these classes: {', '.join(names[:5])}{more}: "
            "remove the folders, or set allow_empty=True"
        )

    def _whole(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _sample(self, place: int) -> tuple[Any, Any]:
        image, label = super()._sample(place)
        return image, label if self._target_transform is None else self._target_transform(label)

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        """What is done to each image. Another may be set; loaders take it up with their next batch."""
        return self._field.transform

    @transform.setter
    def transform(self, transform: Callable[[Any], Any] | None) -> None:
        self._field = self._field.with_transform(transform)
        self._set_images()

    @property
    def target_transform(self) -> Callable[[int], Any] | None:
        """What is done to each class number. Another may be set."""
        return self._target_transform

    @target_transform.setter
    def target_transform(self, target_transform: Callable[[int], Any] | None) -> None:
        self._target_transform = target_transform
        self._set_images()

    @property
    def cached_bytes(self) -> int:
        """How many bytes of images are in the cache."""
        return self._images[0].cached_bytes

    @property
    def samples(self) -> list[tuple[str, int]]:
        """`(path, class)` of each image."""
        paths, classes = self._files.paths(), self._files.classes()
        places = range(len(paths)) if self._places is None else self._places
        return [(self._whole(paths[place]), classes[place]) for place in places]

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """The same as `samples`, by torchvision's other name."""
        return self.samples

    @property
    def targets(self) -> list[int]:
        """The class of each image."""
        classes = self._files.classes()
        return classes if self._places is None else [classes[place] for place in self._places]

    def __repr__(self) -> str:
        """The folder, and how many images of how many classes there are."""
        return f"ImageFolderDataset({self.root!r}, {len(self)} images of {len(self.classes)} classes)"

    _OPENED = (*NativeDataset._OPENED, "_files", "_whole_core", "_labels", "_places", "classes", "class_to_idx")

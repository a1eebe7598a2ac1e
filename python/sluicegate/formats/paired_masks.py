"""`PairedMasks`: the masks of images, in a separate folder, matched by name."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sluicegate import _core

# The image extensions, and GIF, because some datasets have GIF masks.
MASK_EXTENSIONS = (".png", ".gif", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".webp", ".jpg", ".jpeg")


class PairedMasks:
    """The masks below a folder; each has the path of its image, except for the extension.

    Args:
        root: the folder.
        images_root: the folder of the images, for error messages.
        images: the paths of all images, relative to their folder.
        chosen: the indices of the images that need a mask.
        are_all: True if these are all images in their folder, so that a mask without an image is an error.
        follow_links: True if symbolic links may lead out of the folder.
        leave_out: True to keep broken links as files, which `broken` reports.

    Raises:
        FileNotFoundError: an image has no mask, or a mask no image; the message names the file.
        ValueError: two images or two masks have the same path except for the extension.

    Attributes:
        paths: by the index of an image, the path of its mask relative to `root`.
    """

    def __init__(
        self,
        root: str,
        images_root: str,
        images: Sequence[str],
        *,
        chosen: Sequence[int],
        are_all: bool,
        follow_links: bool,
        leave_out: bool,
    ) -> None:
        self._files = _core.FolderFiles(os.path.abspath(root), MASK_EXTENSIONS, False, follow_links, leave_out)
        masks = self._files.paths()
        by_stem = _by_stem(masks, root, "masks")
        stems = _by_stem(images, images_root, "images", chosen)
        for stem, index in stems.items():
            if stem not in by_stem:
                image = os.path.join(images_root, images[index])
                raise FileNotFoundError(
                    f"masks: the image {image!r} has no mask; add the file {os.path.join(root, stem)!r} with one of "
                    f"the extensions {', '.join(MASK_EXTENSIONS)}"
                )
        if are_all and len(by_stem) > len(stems):
            extra = next(index for stem, index in by_stem.items() if stem not in stems)
            mask = os.path.join(root, masks[extra])
            raise FileNotFoundError(f"masks: the mask {mask!r} has no image in {images_root!r}; remove the mask")
        self._masks = {index: by_stem[stem] for stem, index in stems.items()}
        self.paths = {image: masks[mask] for image, mask in self._masks.items()}

    def broken(
        self, images: Sequence[int], decoder: _core.ImageDecoder, index_folder: str | None
    ) -> tuple[set[int], list[str]]:
        """Return which of the images at these indices have masks that cannot be decoded, and the reasons."""
        by_mask = {self._masks[image]: image for image in images}
        broken, damages = self._files.broken_images(sorted(by_mask), decoder, index_folder)
        return {by_mask[mask] for mask in broken}, damages

    def of(self, images: Sequence[int]) -> _core.Dataset:
        """Return the mask files of the images at these indices."""
        chosen = _core.Dataset.subset(self._files.dataset(), [self._masks[image] for image in images])
        assert chosen is not None
        return chosen


def _by_stem(paths: Sequence[str], root: str, argument: str, chosen: Sequence[int] | None = None) -> dict[str, int]:
    """Return the indices of files by their paths without the extension."""
    found: dict[str, int] = {}
    for index in range(len(paths)) if chosen is None else chosen:
        stem = os.path.splitext(paths[index])[0]
        if (other := found.setdefault(stem, index)) != index:
            first, second = (os.path.join(root, paths[each]) for each in (other, index))
            raise ValueError(
                f"masks: two files of the {argument} have the same name without the extension, {first!r} and "
                f"{second!r}; rename or remove one of them"
            )
    return found

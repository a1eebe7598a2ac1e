"""`ImageKind`: what the images of a pipeline are between two of its transforms."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from . import color, conversion
from .transform import Transform


@dataclass(frozen=True)
class ImageKind:
    """What images are at one point of a pipeline, which decides which transform the core can apply next.

    Attributes:
        is_pillow: True if they are images of Pillow's, and not tensors.
        is_marked: True if they are tensors that torchvision's classes mark as images.
        is_gray: True if they have one channel.
        dtype: the data type of their values.
    """

    is_pillow: bool
    is_gray: bool
    is_marked: bool = False
    dtype: str = "uint8"

    def after(self, own: Transform) -> ImageKind:
        """Return what they are after `own`."""
        changed = self
        if isinstance(own, conversion.ToPILImage):
            changed = dataclasses.replace(changed, is_pillow=True, is_marked=False)
        elif isinstance(own, conversion.ToImage):
            is_pillow = self.is_pillow and isinstance(own, conversion.ToPureTensor)
            changed = dataclasses.replace(changed, is_pillow=is_pillow, is_marked=type(own) is conversion.ToImage)
        if isinstance(own, (color.Grayscale, color.RGB)):
            is_gray = isinstance(own, color.Grayscale) and own.num_output_channels == 1
            changed = dataclasses.replace(changed, is_gray=is_gray)
        for spec in own.spec() or []:
            if isinstance(spec, dict) and "ToDtype" in spec:
                changed = dataclasses.replace(changed, dtype=spec["ToDtype"]["dtype"])
        return changed

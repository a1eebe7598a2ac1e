"""torchvision's datasets of image files with one segmentation mask each, as the core reads them.

| class | images | masks |
| --- | --- | --- |
| `VOCSegmentation` | `images` | `targets`: PNG files with a palette |
| `OxfordIIITPet` with segmentation alone | `_images` | `_segs`: gray PNG files |

Images are converted to color. `transform` is called with an image, `target_transform` with a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.transforms.recognize import NotRecognizedError

from .pillow_files import pillow_files
from .torchvision_facts import Form, loads_by_pillow


@dataclass(frozen=True)
class MaskForm(Form):
    """How a class of torchvision's lists its files; the first two attributes are the lists of images and masks.

    Attributes:
        mode: Pillow's mode of the masks. A batch with any other mode is made in Python.
    """

    mode: str = "L"


MASK_FORMS = {
    "VOCSegmentation": MaskForm("voc", ("images", "targets"), calls_both=True, mode="P"),
    "OxfordIIITPet": MaskForm("oxford_iiit_pet", ("_images", "_segs", "_target_types"), calls_both=True, mode="L"),
}


def has_masks(dataset: Any) -> bool:
    """Return True if the samples of `dataset`, of a class in `MASK_FORMS`, are an image and a mask."""
    types: object = vars(dataset).get("_target_types", ["segmentation"])
    return types == ["segmentation"]


def mask_parts(
    dataset: Any, form: MaskForm, transform: Any, target_transform: Any, folder: str | None
) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Return the parts that the core reads in place of `dataset`.

    Relative paths start from `folder`; None for the current directory of the process at the time of reading.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    if (reason := loads_by_pillow(None)) is not None:
        raise NotRecognizedError(reason)
    if target_transform is None:
        raise NotRecognizedError("without a target_transform, masks are Pillow images")
    images, masks = (vars(dataset)[name] for name in form.attributes[:2])
    if type(images) is not list or type(masks) is not list or not len(images) == len(masks) == len(dataset) > 0:
        raise NotRecognizedError("its files are not two lists of the same length")
    image = pillow_files(images, [], transform, "converted", folder)
    try:
        mask = pillow_files(masks, [], target_transform, form.mode, folder)
    except NotRecognizedError as error:
        raise NotRecognizedError(f"target_transform is called in Python: {error}") from None
    return _core.Dataset.stack([("image", image), ("mask", mask)]), [0, 1], ("tensor", "tensor")

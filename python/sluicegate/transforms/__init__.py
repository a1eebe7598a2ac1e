"""Transforms of images in Rust, by the names and with the arguments and draws of `torchvision.transforms.v2`.

>>> import torch
>>> from sluicegate import transforms
>>> train = transforms.Compose([
...     transforms.RandomResizedCrop(224),
...     transforms.RandomHorizontalFlip(),
...     transforms.ToDtype(torch.float32, scale=True),
...     transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
... ])

Pass them, or torchvision's of these names, to a dataset: it runs them where it decodes, in its threads and without
Python (`recognize` shows which ones). They can also be called with samples: see `Transform`.

After the same `torch.manual_seed` they draw what torchvision's draw, and leave torch's generator where those leave it.
Torchvision itself is not needed.

Values are those of torchvision's transforms of tensors. Torchvision's own results for Pillow images differ from these:
hue by up to 18 levels of 255, saturation by 2, contrast, grayscale, sharpness, autocontrast and resizing by 1.
"""

from .augment import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from .color import (
    RGB,
    ColorJitter,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomSolarize,
)
from .container import Compose, RandomApply, RandomChoice, RandomOrder
from .conversion import ConvertImageDtype, PILToTensor, ToDtype, ToImage, ToPILImage, ToPureTensor, ToTensor
from .crops import FiveCrop, TenCrop
from .geometry import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    RandomZoomOut,
    Resize,
)
from .identity import Identity
from .jpeg import JPEG
from .mix import CutMix, MixUp
from .noise import GaussianNoise
from .only_boxes import ClampBoundingBoxes, ConvertBoundingBoxFormat, RandomIoUCrop, SanitizeBoundingBoxes
from .perspective import RandomPerspective
from .recognize import recognize
from .sizes import RandomResize, RandomShortestSize, ScaleJitter
from .transform import Transform
from .values import GaussianBlur, Normalize, RandomErasing
from .warp import RandomAffine, RandomRotation

__all__ = [
    "JPEG",
    "RGB",
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ClampBoundingBoxes",
    "ColorJitter",
    "Compose",
    "ConvertBoundingBoxFormat",
    "ConvertImageDtype",
    "CutMix",
    "FiveCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "MixUp",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SanitizeBoundingBoxes",
    "ScaleJitter",
    "TenCrop",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
    "Transform",
    "TrivialAugmentWide",
    "recognize",
]

# Pickles name this package, so that a class may move within it.
for _name in __all__:
    globals()[_name].__module__ = __name__

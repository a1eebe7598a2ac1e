"""Transforms take torchvision's arguments, refuse invalid ones as it does, and are recognized in its pipelines."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
import torch

import sluicegate.transforms as ours

v2 = pytest.importorskip("torchvision.transforms.v2")

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

# The arguments of each transform; those that are not listed need none.
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "AugMix": [{}, {"severity": 9, "mixture_width": 2, "chain_depth": 3, "alpha": 0.5, "all_ops": False, "fill": 3}],
    "ConvertBoundingBoxFormat": [{"format": "XYWH"}],
    "AutoAugment": [{"policy": policy} for policy in v2.AutoAugmentPolicy],
    "CenterCrop": [{"size": 8}, {"size": [8, 9]}, {"size": (8,)}],
    "ColorJitter": [{}, {"brightness": 0.4, "hue": (-0.1, 0.2)}],
    "CutMix": [{"num_classes": 3}],
    "FiveCrop": [{"size": 8}, {"size": (8, 9)}],
    "GaussianBlur": [{"kernel_size": 3}, {"kernel_size": (3, 5), "sigma": 1.5}],
    "Grayscale": [{}, {"num_output_channels": 3}],
    "GaussianNoise": [{}, {"mean": 0.1, "sigma": 0.2, "clip": False}],
    "JPEG": [{"quality": 50}, {"quality": (10, 90)}],
    "MixUp": [{"num_classes": 3, "alpha": 0.2}],
    "Normalize": [{"mean": MEAN, "std": STD}, {"mean": (0.5,), "std": (0.5,), "inplace": True}],
    "Pad": [
        {"padding": 2},
        {"padding": (1, 2, 3, 4), "padding_mode": "reflect"},
        {"padding": [1, 2], "fill": (1, 2, 3)},
    ],
    "RandAugment": [{}, {"num_ops": 3, "magnitude": 5, "interpolation": v2.InterpolationMode.BILINEAR}],
    "RandomAdjustSharpness": [{"sharpness_factor": 2}],
    "RandomAffine": [
        {"degrees": 3},
        {"degrees": (1, 2), "shear": (1, 2, 3, 4), "translate": (0.1, 0.2), "scale": (1, 2)},
    ],
    "RandomCrop": [{"size": 8}, {"size": (8, 9), "padding": (1, 2), "pad_if_needed": True, "fill": 3}],
    "RandomErasing": [{}, {"value": "random"}, {"p": 0.1, "value": (1, 2, 3)}],
    "RandomIoUCrop": [{}, {"min_scale": 0.1, "max_aspect_ratio": 3, "sampler_options": [0.5, 1], "trials": 3}],
    "RandomPerspective": [{}, {"distortion_scale": 0.2, "p": 0.9, "interpolation": "nearest", "fill": (1, 2, 3)}],
    "RandomPosterize": [{"bits": 3}],
    "RandomResize": [{"min_size": 8, "max_size": 10}, {"min_size": 8, "max_size": 9, "interpolation": 3}],
    "RandomResizedCrop": [{"size": 8}, {"size": (8, 9), "scale": (0.1, 0.2), "interpolation": "bicubic"}],
    "RandomRotation": [{"degrees": 9}, {"degrees": (3, 9), "expand": True, "center": (1, 2), "fill": None}],
    "RandomShortestSize": [{"min_size": 8}, {"min_size": (8, 9), "max_size": 12, "antialias": None}],
    "RandomSolarize": [{"threshold": 128}],
    "Resize": [
        {"size": 8},
        {"size": (8, 9)},
        {"size": None, "max_size": 9},
        {"size": 8, "max_size": 9, "antialias": None},
    ],
    "ScaleJitter": [{"target_size": (8, 9)}, {"target_size": (8, 9), "scale_range": (0.5, 1.0)}],
    "TenCrop": [{"size": 8}, {"size": [8, 9], "vertical_flip": True}],
    "ToDtype": [{"dtype": torch.float32, "scale": True}, {"dtype": torch.uint8}],
    "ToPILImage": [{}, {"mode": "RGB"}],
    "ToTensor": [],
}
OF_OTHERS = ("Compose", "RandomApply", "RandomChoice", "RandomOrder")
NAMES = sorted(name for name in ours.__all__ if name not in (*OF_OTHERS, "Transform", "recognize"))
CASES = [(name, arguments) for name in NAMES for arguments in ARGUMENTS.get(name, [{}])]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_defaults_of_arguments_are_torchvisions(name: str) -> None:
    own, other = (inspect.signature(getattr(module, name)).parameters for module in (ours, v2))
    assert list(own) == list(other)
    for argument, parameter in other.items():
        default = getattr(parameter.default, "value", parameter.default)
        assert own[argument].default == default
        assert own[argument].kind == parameter.kind


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_arguments_are_kept_shown_and_pickled_as_torchvisions(name: str, arguments: dict[str, Any]) -> None:
    own, other = getattr(ours, name)(**arguments), getattr(v2, name)(**arguments)
    assert repr(own) == repr(other)
    assert repr(pickle.loads(pickle.dumps(own))) == repr(own)
    assert pickle.loads(pickle.dumps(own)).spec() == own.spec()


def test_several_are_shown_as_torchvisions() -> None:
    def pipeline(module: Any) -> Any:
        return module.Compose(
            [
                module.CenterCrop(3),
                module.RandomApply([module.Grayscale(), module.RandomInvert()]),
                module.RandomChoice([module.RandomInvert(), module.RandomEqualize()], p=[1, 3]),
                module.RandomOrder([module.RandomInvert(), module.RandomEqualize()]),
            ]
        )

    assert repr(pipeline(ours)) == repr(pipeline(v2))


NOT_RECOGNIZED = ("MixUp", "CutMix", "ToPILImage", "FiveCrop", "TenCrop")


@pytest.mark.parametrize(("name", "arguments"), [case for case in CASES if case[0] not in NOT_RECOGNIZED])
def test_torchvisions_are_recognized(name: str, arguments: dict[str, Any]) -> None:
    own, other = getattr(ours, name)(**arguments), getattr(v2, name)(**arguments)
    assert ours.recognize(own) == own.spec()
    assert ours.recognize(own) is not None
    assert ours.recognize(other) == own.spec()


def test_pipelines_are_recognized_whole_or_not_at_all() -> None:
    def pipeline(module: Any, *more: Any) -> Any:
        apply = module.RandomApply(torch.nn.ModuleList([v2.RandomInvert(), v2.RandomEqualize()]), p=0.3)
        last = [module.ToDtype(torch.float32, scale=True), module.Normalize(MEAN, STD)]
        return module.Compose([module.ToImage(), module.RandomResizedCrop(8), apply, *more, *last])

    spec = ours.recognize(pipeline(v2))
    assert spec is not None
    assert [part if isinstance(part, str) else next(iter(part)) for part in spec] == [
        "ToImage",
        "RandomResizedCrop",
        "RandomApply",
        "ToDtype",
        "Normalize",
    ]
    assert spec == ours.recognize(v2.Compose([pipeline(v2)]))
    assert ours.recognize(pipeline(v2, torch.neg)) is None
    assert ours.recognize(pipeline(v2, v2.ElasticTransform())) is None


class OwnFlip(v2.RandomHorizontalFlip):
    """A subclass, which may override anything."""


class OurFlip(ours.RandomHorizontalFlip):
    """A subclass, which may override anything."""


def test_subclasses_and_hooked_transforms_are_not_recognized() -> None:
    hooked = v2.RandomHorizontalFlip()
    hooked.register_forward_hook(lambda *_: None)
    tensors = pytest.importorskip("torchvision.tv_tensors")
    for transform in (
        OwnFlip(),
        OurFlip(),
        hooked,
        v2.ToDtype({tensors.Image: torch.float32}),
        v2.RandomPerspective(interpolation="bicubic"),
        v2.RandomResize(9, 9),
        v2.ScaleJitter((8, 9), interpolation="lanczos", antialias=False),
        v2.FiveCrop(3),
        v2.Resize((8, 9), interpolation="lanczos", antialias=False),
        v2.RandomAffine(3, interpolation="bicubic"),
        torch.nn.Sequential(v2.RandomHorizontalFlip(), torch.nn.Identity()),
        len,
        None,
        "Resize",
        [],
    ):
        assert ours.recognize(transform) is None


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("AugMix", {"severity": 11}),
    ("CenterCrop", {"size": (1, 2, 3)}),
    ("ColorJitter", {"brightness": -1}),
    ("ColorJitter", {"contrast": "much"}),
    ("ColorJitter", {"saturation": (2, 1)}),
    ("ColorJitter", {"hue": 0.6}),
    ("CutMix", {"labels_getter": "there"}),
    ("FiveCrop", {"size": 13}),
    ("GaussianBlur", {"kernel_size": 4}),
    ("GaussianBlur", {"kernel_size": 3, "sigma": 0}),
    ("GaussianBlur", {"kernel_size": 3, "sigma": (1, 2, 3)}),
    ("GaussianBlur", {"kernel_size": 3, "sigma": None}),
    ("Grayscale", {"num_output_channels": 2}),
    ("GaussianNoise", {"sigma": -1}),
    ("JPEG", {"quality": 0}),
    ("JPEG", {"quality": True}),
    ("JPEG", {"quality": 0.5}),
    ("JPEG", {"quality": (1, 2, 3)}),
    ("JPEG", {"quality": (9, 3)}),
    ("MixUp", {"alpha": -1}),
    ("Normalize", {"mean": MEAN, "std": [1, 0, 1]}),
    ("Pad", {"padding": (1, 2, 3)}),
    ("Pad", {"padding": 1.5}),
    ("Pad", {"padding": 1, "padding_mode": "mirror"}),
    ("Pad", {"padding": 1, "fill": "black"}),
    ("RandAugment", {"num_ops": -1}),
    ("RandAugment", {"magnitude": 31}),
    ("RandomAffine", {"degrees": -1}),
    ("RandomAffine", {"degrees": 1, "translate": (0.1, 2)}),
    ("RandomAffine", {"degrees": 1, "translate": 0.1}),
    ("RandomAffine", {"degrees": 1, "scale": (0, 1)}),
    ("RandomAffine", {"degrees": 1, "shear": (1, 2, 3)}),
    ("RandomCrop", {"size": 99}),
    ("RandomCrop", {"size": 9, "padding": "wide"}),
    ("RandomErasing", {"scale": (0, 2)}),
    ("RandomErasing", {"scale": 1}),
    ("RandomErasing", {"value": "black"}),
    ("RandomErasing", {"value": None}),
    ("RandomErasing", {"p": 1, "value": (1, 2), "scale": (0.1, 0.2)}),
    ("RandomHorizontalFlip", {"p": 1.5}),
    ("RandomPerspective", {"distortion_scale": 1.5}),
    ("RandomPerspective", {"p": -1}),
    ("RandomPerspective", {"p": 1, "interpolation": "bicubic"}),
    ("RandomResizedCrop", {"size": 8, "scale": 0.5}),
    ("RandomResizedCrop", {"size": 8, "ratio": (1, 2, 3)}),
    ("RandomRotation", {"degrees": (1, 2, 3)}),
    ("RandomRotation", {"degrees": 3, "center": 1}),
    ("RandomRotation", {"degrees": 3, "interpolation": "bicubic"}),
    ("Resize", {"size": (1, 2, 3)}),
    ("Resize", {"size": None}),
    ("Resize", {"size": 8, "max_size": 8}),
    ("Resize", {"size": (8, 9), "max_size": 10}),
    ("Resize", {"size": 8, "interpolation": "smooth"}),
    ("ToDtype", {"dtype": "float32"}),
]


@pytest.mark.parametrize(("name", "arguments"), WRONG)
def test_arguments_that_torchvision_refuses_raise_the_same_type(name: str, arguments: dict[str, Any]) -> None:
    image = torch.zeros(3, 12, 15, dtype=torch.float32 if name == "Normalize" else torch.uint8)

    def call(module: Any) -> None:
        getattr(module, name)(**arguments)(image)

    with pytest.raises((TypeError, ValueError, IndexError)) as error:
        call(v2)
    with pytest.raises((TypeError, ValueError, IndexError)) as own_error:
        call(ours)
    assert own_error.type is error.type


def test_containers_need_at_least_one_transform() -> None:
    for module in (v2, ours):
        for several in (module.Compose, module.RandomApply, module.RandomChoice, module.RandomOrder):
            with pytest.raises(TypeError):
                several(iter([module.CenterCrop(1)]))
            with pytest.raises(ValueError):
                several([])
        with pytest.raises(ValueError):
            module.RandomApply([module.CenterCrop(1)], p=-0.1)
        with pytest.raises(ValueError):
            module.RandomChoice([module.CenterCrop(1)], p=[0.5, 0.5])
        with pytest.raises(ValueError):
            module.AutoAugment(policy="mine")

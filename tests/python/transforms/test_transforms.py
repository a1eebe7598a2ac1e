"""Transforms draw what torchvision's draw, take its arguments, and are recognized in its pipelines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate.transforms as ours
from sluicegate import _core
from sluicegate.rng.sample import SampleSeeding, sample_rng
from sluicegate.transforms.drawing import compiled, drawn

v2 = pytest.importorskip("torchvision.transforms.v2")

SIZES = [(3, 37, 53), (3, 224, 160), (1, 64, 64), (3, 500, 375), (3, 9, 300)]

Operations = list[Any]


def draw(transform: ours.Transform, shape: tuple[int, int, int], dtype: str = "uint8") -> Operations:
    specs = json.dumps(transform.spec())
    operations: Operations = json.loads(drawn(specs, specs, shape, dtype)[0])
    return operations


def image(shape: tuple[int, int, int], dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def state() -> torch.Tensor:
    return torch.get_rng_state()


def theirs(transform: Any, shape: tuple[int, int, int]) -> dict[str, Any] | None:
    """Return the parameters that torchvision's transform draws, or None if it does not apply."""
    is_optional = hasattr(transform, "p") and not isinstance(transform, v2.RandomPhotometricDistort)
    if is_optional and torch.rand(1) >= transform.p:
        return None
    return transform.make_params([image(shape)])


def crop(params: dict[str, Any]) -> dict[str, Any]:
    return {"Crop": {name: params[name] for name in ("top", "left", "height", "width")}}


def resized_crop(params: dict[str, Any]) -> Operations:
    return [crop(params), {"Resize": {"height": 32, "width": 48, "interpolation": "bilinear", "antialias": "on"}}]


def random_crop(params: dict[str, Any]) -> Operations:
    operations = []
    if params["needs_pad"]:
        sides = dict(zip(("left", "top", "right", "bottom"), params["padding"], strict=True))
        operations.append({"Pad": {**sides, "fill": [0.0], "mode": "constant"}})
    return operations + ([crop(params)] if params["needs_crop"] else [])


def jitter(params: dict[str, Any]) -> Operations:
    names = ("brightness", "contrast", "saturation", "hue")
    factors = [params[f"{name}_factor"] for name in names]
    return [
        {names[which].capitalize(): {"factor": factors[which]}}
        for which in params["fn_idx"].tolist()
        if factors[which] is not None
    ]


def distort(params: dict[str, Any]) -> Operations:
    order = ["brightness", "contrast", "saturation", "hue"]
    if not params["contrast_before"]:
        order.append(order.pop(1))
    factors = {name: params[f"{name}_factor"] for name in order}
    operations = [{name.capitalize(): {"factor": factors[name]}} for name in order if factors[name] is not None]
    permutation = params["channel_permutation"]
    return operations + ([] if permutation is None else [{"PermuteChannels": {"order": permutation.tolist()}}])


def warp(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "interpolation": "nearest", "center": None, "fill": [0.0]}


def affine(params: dict[str, Any]) -> Operations:
    return [{"Affine": warp({name: list(v) if isinstance(v, tuple) else v for name, v in params.items()})}]


def erase(params: dict[str, Any]) -> Operations:
    if params["v"] is None:
        return []
    place = {"top": params["i"], "left": params["j"], "height": params["h"], "width": params["w"]}
    return [{"Erase": {**place, "with": {"color": params["v"].flatten().tolist()}}}]


def zoom_out(params: dict[str, Any]) -> Operations:
    sides = dict(zip(("left", "top", "right", "bottom"), params["padding"], strict=True))
    return [{"Pad": {**sides, "fill": [0.0], "mode": "constant"}}]


CASES: list[tuple[str, dict[str, Any], Callable[[Any], Operations]]] = [
    ("RandomResizedCrop", {"size": (32, 48)}, resized_crop),
    ("RandomResizedCrop", {"size": (32, 48), "scale": (0.9, 1.0), "ratio": (0.2, 4.0)}, resized_crop),
    ("RandomResizedCrop", {"size": (32, 48), "scale": (1.5, 2.0)}, resized_crop),
    ("RandomCrop", {"size": 9}, random_crop),
    ("RandomCrop", {"size": (9, 53), "padding": (1, 2, 3, 4)}, random_crop),
    ("RandomCrop", {"size": (70, 400), "pad_if_needed": True}, random_crop),
    ("RandomHorizontalFlip", {}, lambda _: ["HorizontalFlip"]),
    ("RandomVerticalFlip", {"p": 0.3}, lambda _: ["VerticalFlip"]),
    ("ColorJitter", {"brightness": 0.4, "contrast": (0.5, 1.5), "saturation": 2.0, "hue": 0.2}, jitter),
    ("ColorJitter", {"contrast": 0.1, "hue": 0.0}, jitter),
    ("RandomPhotometricDistort", {}, distort),
    ("RandomChannelPermutation", {}, lambda params: [{"PermuteChannels": {"order": params["permutation"].tolist()}}]),
    ("RandomGrayscale", {"p": 0.5}, lambda params: [{"Grayscale": {"channels": params["num_input_channels"]}}]),
    ("GaussianBlur", {"kernel_size": (3, 5)}, lambda params: [{"GaussianBlur": {"kernel_size": [3, 5], **params}}]),
    ("GaussianBlur", {"kernel_size": 3, "sigma": 1.7}, lambda p: [{"GaussianBlur": {"kernel_size": [3, 3], **p}}]),
    ("RandomErasing", {}, erase),
    ("RandomErasing", {"p": 0.9, "scale": (0.1, 0.9), "ratio": (0.5, 2.0), "value": 7}, erase),
    ("RandomRotation", {"degrees": 45}, lambda p: [{"Rotate": {**warp(p), "frame": "same"}}]),
    ("RandomRotation", {"degrees": (9, 99), "expand": True}, lambda p: [{"Rotate": {**warp(p), "frame": "expanded"}}]),
    ("RandomAffine", {"degrees": 0}, affine),
    ("RandomAffine", {"degrees": (-30, 70), "translate": (0.1, 0.3), "scale": (0.5, 2), "shear": 10}, affine),
    ("RandomAffine", {"degrees": 5, "shear": (-1, 2, -3, 4)}, affine),
    ("RandomZoomOut", {}, zoom_out),
    ("RandomZoomOut", {"side_range": (1.5, 1.7), "p": 0.9}, zoom_out),
    ("RandomInvert", {}, lambda _: ["Invert"]),
    ("RandomPosterize", {"bits": 3, "p": 0.7}, lambda _: [{"Posterize": {"bits": 3}}]),
    ("RandomSolarize", {"threshold": 100}, lambda _: [{"Solarize": {"threshold": 100.0}}]),
    ("RandomAdjustSharpness", {"sharpness_factor": 2}, lambda _: [{"Sharpness": {"factor": 2.0}}]),
    ("RandomAutocontrast", {}, lambda _: ["Autocontrast"]),
    ("RandomEqualize", {"p": 0.1}, lambda _: ["Equalize"]),
]


@pytest.mark.parametrize(("name", "arguments", "operations"), CASES)
def test_draws_are_torchvisions_and_leave_its_place(
    name: str, arguments: dict[str, Any], operations: Callable[[Any], Operations]
) -> None:
    own, other = getattr(ours, name)(**arguments), getattr(v2, name)(**arguments)
    for seed in range(6):
        for shape in SIZES:
            if arguments.get("size") == (9, 53) and shape[2] < 47:
                continue
            torch.manual_seed(seed)
            params = theirs(other, shape)
            expected = [] if params is None else operations(params)
            after = state()
            torch.manual_seed(seed)
            assert draw(own, shape) == expected, (seed, shape)
            assert torch.equal(state(), after), (seed, shape)


def test_random_values_are_torchs_normal_deviates() -> None:
    # From 16 values on, torch draws blocks; below that, pairs, of which one value may remain for the next draw.
    for shape, scale in (((3, 90, 70), (0.02, 0.3)), ((1, 9, 9), (0.02, 0.2)), ((3, 7, 7), (0.02, 0.1))):
        own = ours.RandomErasing(1.0, scale=scale, value="random")
        other = v2.RandomErasing(1.0, scale=scale, value="random")
        for seed in range(25):
            torch.manual_seed(seed)
            expected = [theirs(other, shape) for _ in range(3)]
            after = state()
            torch.manual_seed(seed)
            for params in expected:
                (operation,) = draw(own, shape)
                values = torch.tensor(operation["Erase"]["with"]["values"]).reshape(params["v"].shape)
                torch.testing.assert_close(values, params["v"], rtol=0, atol=1e-5)
            assert torch.equal(state(), after)


PROGRAM = """
import json, torch
from sluicegate import transforms
from sluicegate.transforms.drawing import drawn
for sigma, shape in ((0.1, (3, 40, 31)), (1.0, (1, 3, 5)), (0.5, (3, 64, 64))):
    spec = json.dumps(transforms.GaussianNoise(sigma=sigma).spec())
    torch.manual_seed(4)
    (operation,) = json.loads(drawn(spec, spec, shape, "uint8")[0])
    torch.manual_seed(4)
    deviates = torch.empty(shape).normal_()
    assert torch.equal(torch.tensor(operation["GaussianNoise"]["deviates"]).reshape(shape), deviates), shape
print(torch.backends.cpu.get_cpu_capability())
"""


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_normal_deviates_are_torchs_to_the_bit_on_every_processor(capability: str) -> None:
    # torch approximates logarithm, sine, and cosine in vector code, and calls the C library otherwise.
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert capability != "default" or ran.stdout.strip() == "DEFAULT"


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TrivialAugmentWide", {}),
        ("TrivialAugmentWide", {"num_magnitude_bins": 8, "fill": [1, 2, 3], "interpolation": "bilinear"}),
        ("RandAugment", {}),
        ("RandAugment", {"num_ops": 4, "magnitude": 3, "num_magnitude_bins": 11}),
        *[("AutoAugment", {"policy": policy}) for policy in v2.AutoAugmentPolicy],
    ],
)
def test_policies_draw_torchvisions_operations(
    name: str, arguments: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = getattr(ours, name)(**arguments), getattr(v2, name)(**arguments)
    calls: Operations = []
    functional = v2.functional
    fill = [float(each) for each in arguments.get("fill", [])]
    warp = {"interpolation": arguments.get("interpolation", "nearest"), "fill": fill}

    def record(function: str, made: Callable[..., Any]) -> None:
        def called(image: Any, **given: Any) -> Any:
            calls.append(made(**given))
            return image

        monkeypatch.setattr(functional, function, called)

    def affine(**given: Any) -> Any:
        lists = {key: [float(each) for each in given[key]] for key in ("translate", "shear")}
        center = [float(each) for each in given["center"]] if "center" in given else None
        return {"Affine": {"angle": given["angle"], "scale": given["scale"], "center": center, **lists, **warp}}

    record("affine", affine)
    record("rotate", lambda angle, **_: {"Rotate": {"angle": angle, "frame": "same", "center": None, **warp}})
    for function, operation, key in [
        ("adjust_brightness", "Brightness", "brightness_factor"),
        ("adjust_saturation", "Saturation", "saturation_factor"),
        ("adjust_contrast", "Contrast", "contrast_factor"),
        ("adjust_sharpness", "Sharpness", "sharpness_factor"),
    ]:
        record(function, lambda operation=operation, key=key, **given: {operation: {"factor": given[key]}})
    record("posterize", lambda bits: {"Posterize": {"bits": bits}})
    record("solarize", lambda threshold: {"Solarize": {"threshold": threshold}})
    for function in ("autocontrast", "equalize", "invert"):
        record(function, lambda function=function: function.capitalize())
    for seed in range(60):
        shape = SIZES[seed % len(SIZES)]
        calls.clear()
        torch.manual_seed(seed)
        other(image(shape, getattr(torch, dtype)))
        after = state()
        torch.manual_seed(seed)
        assert draw(own, shape, dtype) == calls, seed
        assert torch.equal(state(), after)


@pytest.mark.parametrize("name", ["Resize", "CenterCrop", "Pad"])
def test_sizes_are_torchvisions(name: str) -> None:
    given: dict[str, list[dict[str, Any]]] = {
        "Resize": [
            {"size": 32},
            {"size": (20, 31)},
            {"size": [17]},
            {"size": 30, "max_size": 41},
            {"size": None, "max_size": 50},
        ],
        "CenterCrop": [{"size": 40}, {"size": (33, 55)}, {"size": (501, 7)}],
        "Pad": [{"padding": 3}, {"padding": (1, 2)}, {"padding": [4, 3, 2, 1]}, {"padding": (-1, 2, -2, 1)}],
    }
    for arguments in given[name]:
        for shape in SIZES:
            expected = getattr(v2, name)(**arguments)(image(shape)).shape[-2:]
            # The draws of the next step show the assumed size.
            spec = [*getattr(ours, name)(**arguments).spec(), *ours.RandomResizedCrop(8, (1, 1), (1, 1)).spec()]
            spec[-1]["RandomResizedCrop"]["ratio"] = [expected[1] / expected[0]] * 2
            (*_, part, _) = json.loads(drawn(json.dumps(spec), json.dumps(spec), shape, "uint8")[0])
            assert (part["Crop"]["height"], part["Crop"]["width"]) == tuple(expected), (arguments, shape)


def test_a_turned_frame_has_torchvisions_size() -> None:
    for angle in [*range(0, 360, 45), 33.3, 89.99, 90.01, 200]:
        for shape in ((1, 37, 53), (1, 64, 64), (1, 9, 90)):
            turned = ours.RandomRotation((angle, angle), expand=True)
            expected = v2.functional.rotate(image(shape), angle, expand=True).shape[-2:]
            spec = json.dumps([*(turned.spec() or []), *ours.RandomCrop(1).spec()])
            torch.manual_seed(3)
            operations = json.loads(drawn(spec, spec, shape, "uint8")[0])
            torch.manual_seed(3)
            torch.rand(1)
            place = [int(torch.randint(0, length, size=())) for length in expected]
            assert [operations[1]["Crop"][key] for key in ("top", "left")] == place, (angle, shape)


def test_a_pipeline_draws_in_torchvisions_order() -> None:
    def pipeline(module: Any) -> Any:
        jitter = module.RandomApply([module.ColorJitter(0.4, hue=0.1), module.RandomGrayscale(0.5)], p=0.8)
        return module.Compose([module.RandomResizedCrop(32), module.RandomHorizontalFlip(), jitter])

    for seed in range(20):
        torch.manual_seed(seed)
        pipeline(v2)(image((3, 90, 70)))
        after = state()
        torch.manual_seed(seed)
        draw(pipeline(ours), (3, 90, 70))
        assert torch.equal(state(), after)


def test_samples_of_a_loader_with_a_seed_have_their_own_generator() -> None:
    seeding = SampleSeeding(seed=7, seed_globals=False)
    seeding.begin(epoch=0)
    transform = ours.ColorJitter(0.5)
    drawn_for = []
    for _ in range(2):
        before = state()
        with seeding.batch():
            seeding.sample(42)
            drawn_for.append((draw(transform, (3, 8, 8)), draw(transform, (3, 8, 8))))
            place = sample_rng().torch.get_state()
        assert torch.equal(state(), before)
    assert drawn_for[0] == drawn_for[1]
    with seeding.batch():
        seeding.sample(42)
        generator = sample_rng().torch
        for first in drawn_for[0]:
            torch.randperm(4, generator=generator)
            factor = torch.empty(1).uniform_(0.5, 1.5, generator=generator).item()
            assert first == [{"Brightness": {"factor": factor}}]
        assert torch.equal(generator.get_state(), place)


def test_deterministic_transforms_draw_nothing() -> None:
    transforms = [ours.Resize(8), ours.CenterCrop(4), ours.Pad(1), ours.Grayscale(3), ours.ToDtype(torch.float32)]
    spec = json.dumps([each for transform in transforms for each in transform.spec() or []])
    assert not compiled(spec).is_random()
    assert compiled(spec).fixed_size() == (6, 6)
    assert compiled(spec).output(3, "uint8") == (3, "float32")
    # It does not need a generator.
    assert len(json.loads(compiled(spec).draw_json(20, 30, 3, "uint8", None))) == 5


@pytest.mark.parametrize(
    ("transforms", "size"),
    [
        ([ours.Resize(8)], None),
        ([ours.Resize((8, 9)), ours.Resize(4)], (4, 4)),
        ([ours.Resize((8, 9)), ours.Pad((1, 2))], (12, 11)),
        ([ours.RandomResizedCrop(7), ours.RandomRotation(3)], (7, 7)),
        ([ours.RandomResizedCrop(7), ours.RandomRotation(3, expand=True)], None),
        ([ours.RandomCrop(5), ours.RandomApply([ours.Pad(1)])], None),
        ([ours.RandomCrop(5), ours.RandomApply([ours.RandomCrop(5, padding=1)])], (5, 5)),
    ],
)
def test_sizes_that_do_not_depend_on_the_image(transforms: list[Any], size: tuple[int, int] | None) -> None:
    spec = ours.recognize(ours.Compose(transforms))
    assert compiled(json.dumps(spec)).fixed_size() == size


def test_draws_continue_after_normal_deviates_as_in_torch() -> None:
    torch.manual_seed(1)
    torch.randn(1)
    draw(ours.RandomHorizontalFlip(), (3, 4, 4))
    kept = torch.randn(1)
    torch.manual_seed(1)
    expected = torch.empty(2).normal_()[1:]
    assert torch.equal(kept, expected)


def test_invalid_transforms_are_refused_by_the_core() -> None:
    crop = '[{"CenterCrop": {"size": [%s, 2], "p": 1}}]'
    for text in ("{}", '["Rotten"]', crop % 1, crop.replace(', "p": 1', "") % -1):
        with pytest.raises(ValueError, match="invalid image transforms"):
            _core.ImageTransforms(text)
    with pytest.raises(ValueError, match="float"):
        _core.ImageTransforms('[{"Normalize": {"mean": [0.5], "std": [0.5]}}]').output(3, "uint8")
    with pytest.raises(ValueError, match="larger"):
        draw(ours.RandomCrop(9), (3, 8, 8))


def test_an_array_alone_is_an_image() -> None:
    colors = np.random.default_rng(1).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    tensor = torch.from_numpy(colors).permute(2, 0, 1)
    for transform in (ours.CenterCrop(5), ours.Compose([ours.Resize((4, 6)), ours.RandomHorizontalFlip(1)])):
        expected = transform(tensor).permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(transform(colors), expected)
    assert ours.CenterCrop(5)(colors[:, :, 0]).shape == (5, 5)
    with pytest.raises(TypeError, match="uint8 or float32"):
        ours.CenterCrop(5)(colors.astype(np.int64))

"""Operations on images, boxes, and masks, compared with the functions of `torchvision.transforms.v2`."""

import importlib.util
import json
import pathlib
import random

import pytest
import torch

from sluicegate import _core, decode_image

torchvision = pytest.importorskip("torchvision")
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import InterpolationMode  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402


def described(tensor):
    strides = tuple(stride * tensor.element_size() for stride in tensor.stride())
    return "image", str(tensor.dtype).removeprefix("torch."), tensor.data_ptr(), tuple(tensor.shape), strides, tensor


def operations(*steps):
    return _core.ImageOperations(json.dumps(steps))


def applied(image, *steps):
    return operations(*steps).apply(described(image))


@pytest.fixture(scope="module")
def images():
    found = importlib.util.find_spec("sklearn")
    if found is None:
        pytest.skip("scikit-learn, which has the photographs, is not installed")
    folder = pathlib.Path(found.origin).parent / "datasets" / "images"
    generator = torch.Generator().manual_seed(3)
    first, second = (decode_image(folder / name) for name in ("china.jpg", "flower.jpg"))
    return [
        first[:, 120:187, 200:301],
        second[:, 50:91, 300:358],
        second[:1, 200:263, 30:80].contiguous(),
        torch.randint(0, 256, (3, 35, 44), dtype=torch.uint8, generator=generator),
        torch.randint(60, 90, (1, 40, 33), dtype=torch.uint8, generator=generator),
        torch.full((3, 30, 31), 77, dtype=torch.uint8),
    ]


# Each operation draws its JSON, and a function that does the same to a tensor.


def factor(name, function, most=2.0, least=0.0):
    def draw(generator, image):
        factor = generator.uniform(least, most)
        return {name: {"factor": factor}}, lambda tensor: function(tensor, factor)

    return draw


def plain(name, function):
    return lambda generator, image: (name, function)


def colors(generator, image):
    of_channels = [generator.uniform(0, 1) for _ in range(image.shape[0])]
    scale = 1.0 if image.is_floating_point() else 255.0
    color = generator.choice([[], [0.0], [0.3], of_channels])
    color = [value * scale for value in color]
    # Rounds to single precision, so that JSON passes the values exactly.
    color = torch.tensor(color).tolist()
    return color, (None if not color else color[0] if len(color) == 1 else color)


def crop(generator, image):
    _, height, width = image.shape
    top, left = generator.randrange(-9, height - 5), generator.randrange(-9, width - 5)
    size = generator.randrange(10, height + 9), generator.randrange(10, width + 9)
    step = {"Crop": {"top": top, "left": left, "height": size[0], "width": size[1]}}
    return step, lambda tensor: F.crop(tensor, top, left, *size)


def pad(generator, image):
    margins = [generator.randrange(-5, 20) for _ in range(4)]
    mode = generator.choice(["constant", "edge", "reflect", "symmetric"])
    fill, of_torchvision = colors(generator, image) if mode == "constant" else ([0.0], 0)
    step = dict(zip(("left", "top", "right", "bottom"), margins, strict=True), fill=fill, mode=mode)
    return {"Pad": step}, lambda tensor: F.pad(tensor, margins, of_torchvision, mode)


def place(generator, image):
    _, height, width = image.shape
    return generator.choice([None, [generator.uniform(0, width), generator.uniform(0, height)]])


def rotate(interpolation):
    def draw(generator, image):
        angle = generator.choice([generator.uniform(-200, 200), 0.0, 90.0, 180.0, -90.0, 45.0])
        frame, center = generator.choice(["same", "expanded"]), place(generator, image)
        if abs(angle) == 90.0:
            # Otherwise every position could be halfway between two pixels.
            frame, center = "expanded", None
        fill, of_torchvision = colors(generator, image)
        step = {"angle": angle, "interpolation": interpolation, "frame": frame, "center": center, "fill": fill}
        mode, is_expanded = InterpolationMode(interpolation), frame == "expanded"
        return {"Rotate": step}, lambda tensor: F.rotate(tensor, angle, mode, is_expanded, center, of_torchvision)

    return draw


def affine(interpolation):
    def draw(generator, image):
        step = {
            "angle": generator.uniform(-180, 180),
            "translate": [float(generator.randrange(-9, 9)), float(generator.randrange(-9, 9))],
            "scale": generator.uniform(0.5, 1.7),
            "shear": [generator.uniform(-30, 30), generator.uniform(-30, 30)],
            "center": place(generator, image),
        }
        fill, of_torchvision = colors(generator, image)
        mode = InterpolationMode(interpolation)
        ours = {"Affine": {**step, "interpolation": interpolation, "fill": fill}}
        return ours, lambda tensor: F.affine(tensor, **step, interpolation=mode, fill=of_torchvision)

    return draw


def blur(generator, image):
    size = [generator.choice([1, 3, 9, 23]), generator.choice([1, 5, 11])]
    sigma = [generator.uniform(0.1, 3), generator.uniform(0.1, 3)]
    step = {"GaussianBlur": {"kernel_size": size, "sigma": sigma}}
    return step, lambda tensor: F.gaussian_blur(tensor, size, sigma)


def posterize(generator, image):
    bits = generator.randrange(9)
    return {"Posterize": {"bits": bits}}, lambda tensor: F.posterize(tensor, bits)


def solarize(generator, image):
    threshold = generator.uniform(0, 1) * (1 if image.is_floating_point() else 255)
    return {"Solarize": {"threshold": threshold}}, lambda tensor: F.solarize(tensor, threshold)


def permute(generator, image):
    order = generator.sample(range(image.shape[0]), image.shape[0])
    return {"PermuteChannels": {"order": order}}, lambda tensor: F.permute_channels(tensor, order)


def gray(generator, image):
    channels = generator.choice([1, 3])
    return {"Grayscale": {"channels": channels}}, lambda tensor: F.rgb_to_grayscale(tensor, channels)


def erase(generator, image):
    place, size = (generator.randrange(20), generator.randrange(20)), (generator.randrange(9), generator.randrange(9))
    step = {"top": place[0], "left": place[1], "height": size[0], "width": size[1]}
    noise = torch.randn((image.shape[0], *size), generator=torch.Generator().manual_seed(generator.randrange(99))) * 50
    if generator.random() < 0.5:
        step["with"] = {"values": noise.flatten().tolist()}
    else:
        noise = noise.new_tensor([3.7, 100.2, 9.0][: image.shape[0]])[:, None, None]
        step["with"] = {"color": noise.flatten().tolist()}
    return {"Erase": step}, lambda tensor: F.erase(tensor, *place, *size, noise)


def normalize(generator, image):
    mean, std = ([generator.uniform(0.2, 0.7) for _ in range(image.shape[0])] for _ in range(2))
    step = [{"ToDtype": {"dtype": "float32", "values": "scaled"}}, {"Normalize": {"mean": mean, "std": std}}]
    return step, lambda tensor: F.normalize(F.to_dtype(tensor, torch.float32, True), mean, std)


def to_dtype(generator, image):
    dtype, values = generator.choice(["uint8", "float32"]), generator.choice(["kept", "scaled"])
    step = {"ToDtype": {"dtype": dtype, "values": values}}
    return step, lambda tensor: F.to_dtype(tensor, getattr(torch, dtype), values == "scaled")


DRAWS = {
    "crop": crop,
    "pad": pad,
    "horizontal_flip": plain("HorizontalFlip", F.horizontal_flip),
    "vertical_flip": plain("VerticalFlip", F.vertical_flip),
    "rotate-nearest": rotate("nearest"),
    "rotate-bilinear": rotate("bilinear"),
    "affine-nearest": affine("nearest"),
    "affine-bilinear": affine("bilinear"),
    "brightness": factor("Brightness", F.adjust_brightness),
    "contrast": factor("Contrast", F.adjust_contrast),
    "saturation": factor("Saturation", F.adjust_saturation),
    "hue": factor("Hue", F.adjust_hue, 0.5, -0.5),
    "sharpness": factor("Sharpness", F.adjust_sharpness, 3.0),
    "grayscale": gray,
    "permute_channels": permute,
    "gaussian_blur": blur,
    "invert": plain("Invert", F.invert),
    "posterize": posterize,
    "solarize": solarize,
    "autocontrast": plain("Autocontrast", F.autocontrast),
    "equalize": plain("Equalize", F.equalize),
    "erase": erase,
    "normalize": normalize,
    "to_dtype": to_dtype,
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("name", DRAWS)
def test_pixels_are_torchvisions(images, name, dtype):
    generator = random.Random(name)
    different = pixels = 0
    for image in images:
        image = F.to_dtype(image, dtype, scale=True)
        for _ in range(2):
            step, function = DRAWS[name](generator, image)
            before, expected = image.clone(), function(image)
            found = applied(image, *(step if isinstance(step, list) else [step]))
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), step
            assert torch.equal(image, before)
            difference = (found.double() - expected.double()).abs()
            if not name.endswith("nearest"):
                # For blurs, torch sums in a different order.
                assert difference.max() <= (1 if found.dtype == torch.uint8 else 1e-4), step
            different += int((difference > 1e-4).sum())
            pixels += found.numel()
    # If a position is halfway between two pixels, or a value between two levels, the last bit of torch's result
    # decides, which depends on the machine.
    assert different <= pixels * 1e-3


def test_operations_apply_to_two_and_four_channels():
    generator = torch.Generator().manual_seed(7)
    rotate = {"Rotate": {"angle": 20.0, "interpolation": "bilinear", "frame": "same", "center": None, "fill": [9.0]}}
    for channels in (2, 4):
        image = torch.randint(0, 256, (channels, 20, 24), dtype=torch.uint8, generator=generator)
        bilinear = InterpolationMode.BILINEAR
        assert (applied(image, rotate).int() - F.rotate(image, 20.0, bilinear, fill=9.0).int()).abs().max() <= 1
        assert torch.equal(applied(image, "HorizontalFlip"), F.horizontal_flip(image))
        assert torch.equal(applied(image, "Equalize"), F.equalize(image))
        assert torch.equal(applied(image, "Invert", "VerticalFlip"), F.vertical_flip(F.invert(image)))


def test_memory_of_any_order(images):
    image = images[0].contiguous()
    turned = image.contiguous(memory_format=torch.preserve_format).permute(1, 2, 0).contiguous().permute(2, 0, 1)
    assert turned.stride() != image.stride()
    for view in (turned, image[:, ::2, ::3], image[1:2]):
        assert torch.equal(applied(view, "HorizontalFlip"), view.flip(-1))


def test_no_operation_is_a_copy(images):
    copy = applied(images[3])
    assert torch.equal(copy, images[3])
    assert copy.data_ptr() != images[3].data_ptr()


BOXES = torch.tensor([[3.0, 4.0, 20.5, 30.25], [0.0, 0.0, 44.0, 35.0], [40.0, 1.0, 43.0, 34.0], [7.5, 30.0, 8.5, 31.0]])
MOVES = ["crop", "pad", "horizontal_flip", "vertical_flip", "rotate-nearest", "affine-bilinear", "invert", "resize"]


def drawn_move(name, generator, image):
    if name == "resize":
        height, width = generator.randrange(5, 90), generator.randrange(5, 90)
        interpolation = generator.choice(["bilinear", "nearest", "nearest-exact"])
        step = {"height": height, "width": width, "interpolation": interpolation, "antialias": "on"}
        return {"Resize": step}, lambda leaf: F.resize(leaf, [height, width], InterpolationMode(interpolation))
    return DRAWS[name](generator, image)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_boxes_are_torchvisions(name, dtype):
    generator = random.Random(name)
    numbers = str(dtype).removeprefix("torch.") if dtype.is_floating_point else "integer"
    for clamping in ("soft", "hard", None):
        for _ in range(6):
            boxes = tv_tensors.BoundingBoxes(
                BOXES.to(dtype), format="XYXY", canvas_size=(35, 44), clamping_mode=clamping
            )
            step, function = drawn_move(name, generator, torch.zeros(1, 35, 44))
            if name == "pad" and step["Pad"]["mode"] != "constant":
                with pytest.raises(ValueError, match="boxes can't be padded"):
                    operations(step).boxes(boxes.tolist(), "XYXY", (35, 44), numbers, clamping is not None)
                continue
            expected = boxes if name == "invert" else function(boxes)
            found, canvas, *_ = operations(step).boxes(boxes.tolist(), "XYXY", (35, 44), numbers, clamping is not None)
            assert canvas == expected.canvas_size, step
            # The value may round to either side of a whole number.
            near = 1e-4 if dtype.is_floating_point else 1
            torch.testing.assert_close(
                torch.tensor(found, dtype=dtype), expected.as_subclass(torch.Tensor), atol=near, rtol=1e-5
            )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float32], ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_masks_are_torchvisions(name, dtype):
    generator = random.Random(name)
    values = torch.randint(0, 9, (2, 35, 44), generator=torch.Generator().manual_seed(1)).to(dtype)
    different = pixels = 0
    for _ in range(6):
        step, function = drawn_move(name, generator, torch.zeros(1, 35, 44, dtype=torch.uint8))
        mask = tv_tensors.Mask(values)
        expected = (mask if name == "invert" else function(mask)).as_subclass(torch.Tensor)
        found = operations(step).mask(described(values))
        assert (found.dtype, found.shape) == (dtype, expected.shape), step
        different += int((found != expected).sum())
        pixels += found.numel()
    assert different <= pixels * 1e-3


def refused(words, image, *steps):
    with pytest.raises(ValueError, match=words):
        applied(image, *steps)


def test_refused_operations_are_named():
    image = torch.zeros(3, 6, 5, dtype=torch.uint8)
    refused("ToDtype", image, {"Normalize": {"mean": [0.5], "std": [0.5]}})
    refused("std contains 0", image.float(), {"Normalize": {"mean": [0.5], "std": [0.0]}})
    refused("2 values, but the image has 3", image.float(), {"Normalize": {"mean": [0.5, 0.1], "std": [1.0]}})
    for name in ("Brightness", "Contrast", "Saturation", "Hue", "Sharpness"):
        refused("1 or 3 channels", image[:2], {name: {"factor": 0.5}})
        refused("got -1", image, {name: {"factor": -1.0}})
    refused("1 or 3 channels", image[:2], "Autocontrast")
    refused("1 or 3 channels", image[:2], {"Grayscale": {"channels": 1}})
    refused("got 2", image, {"Grayscale": {"channels": 2}})
    refused("from 0 to 8", image, {"Posterize": {"bits": 9}})
    refused("at most 255", image, {"Solarize": {"threshold": 256.0}})
    refused("at most 1", image.float(), {"Solarize": {"threshold": 1.5}})
    refused("odd", image, {"GaussianBlur": {"kernel_size": [2, 3], "sigma": [1.0, 1.0]}})
    refused("positive", image, {"GaussianBlur": {"kernel_size": [3, 3], "sigma": [1.0, 0.0]}})
    refused("too small", image, {"GaussianBlur": {"kernel_size": [11, 3], "sigma": [1.0, 1.0]}})
    margins = {"top": 0, "right": 0, "bottom": 0}
    refused("mirror", image, {"Pad": {**margins, "left": 5, "fill": [], "mode": "reflect"}})
    refused("can't be padded", image, {"Pad": {**margins, "left": -6, "fill": [], "mode": "constant"}})
    refused("no memory", image, {"Pad": {**margins, "left": 1 << 60, "fill": [], "mode": "constant"}})
    refused("2 values", image, {"Pad": {**margins, "left": 1, "fill": [1.0, 2.0], "mode": "constant"}})
    rotate = {"angle": 20.0, "interpolation": "bicubic", "frame": "same", "center": None, "fill": []}
    refused("nearest or bilinear", image, {"Rotate": rotate})
    refused("order has 1", image, {"PermuteChannels": {"order": [0]}})
    refused("no channel 3", image, {"PermuteChannels": {"order": [0, 1, 3]}})
    refused("uint8 or float32", image.long())
    with pytest.raises(ValueError, match="operations: unknown variant"):
        operations("Sharpen")


def test_json_goes_both_ways():
    steps = ["Invert", {"Crop": {"top": -3, "left": 0, "height": 7, "width": 9}}, {"Brightness": {"factor": 0.1}}]
    assert json.loads(operations(*steps).to_json()) == steps

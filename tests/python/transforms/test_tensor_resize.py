"""The core resizes tensors of bytes as torch does, to the last bit."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchvision")

from torchvision.transforms.v2 import functional as v2

from cases.image_folders import photograph
from cases.tensor_steps import INTERPOLATIONS
from sluicegate import _core
from sluicegate.transforms.recognize import NotRecognizedError
from sluicegate.transforms.tensor_resize import check_tensor_resize

DRAWS = int(os.environ.get("SLUICEGATE_PILLOW_DRAWS", "40"))


def _tensor(draw: random.Random) -> torch.Tensor:
    size = draw.choice(((1, 1), (1, 9), (2, 70), (draw.randint(1, 90), draw.randint(1, 90))))
    pixels = np.array(photograph(draw, size))
    if draw.random() < 0.3:
        pixels = (pixels > 127).astype(np.uint8) * 255
    image = torch.from_numpy(pixels).permute(2, 0, 1)[: draw.choice((1, 3))]
    return image if draw.random() < 0.5 else image.contiguous()


def _by_core(operations: list[Any], image: torch.Tensor) -> torch.Tensor:
    plain = image.contiguous()
    array = ("image", "uint8", plain.data_ptr(), tuple(plain.shape), tuple(plain.stride()), plain)
    made: torch.Tensor = _core.ImageOperations(json.dumps(operations)).apply(array)
    return made


@pytest.mark.parametrize("seed", range(DRAWS))
def test_sizes_change_as_in_torch(seed: int) -> None:
    draw = random.Random(seed)
    image = _tensor(draw)
    height, width = (draw.choice((before, draw.randint(1, 90))) for before in image.shape[1:])
    for mode in set(INTERPOLATIONS):
        expected = v2.resize(image, [height, width], mode, antialias=True)
        arguments = {"height": height, "width": width, "interpolation": mode.value, "antialias": "torch"}
        resize = {"Resize": arguments}
        assert torch.equal(_by_core([resize], image), expected), mode
        # For a part of the output, weights have the precision that suits all positions.
        top, left = draw.randrange(height), draw.randrange(width)
        rows, columns = draw.randint(1, height - top), draw.randint(1, width - left)
        crop = {"Crop": {"top": top, "left": left, "height": rows, "width": columns}}
        part = expected[:, top : top + rows, left : left + columns]
        assert torch.equal(_by_core([resize, crop], image), part), mode


def test_a_torch_that_resizes_differently_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    resize = v2.resize

    def rounded_otherwise(image: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        return resize(image.float(), *given, **named).round_().to(torch.uint8)

    assert check_tensor_resize("bilinear") == "torch"
    check_tensor_resize.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(v2, "resize", rounded_otherwise)
        with pytest.raises(NotRecognizedError, match="differently on this machine"):
            check_tensor_resize("bilinear")
    assert check_tensor_resize("bilinear") == "torch"

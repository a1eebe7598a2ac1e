"""Transforms that are not recognized, and change nothing: a function, and a class like torchvision's."""

from __future__ import annotations

from typing import Any


def unknown(*inputs: Any) -> Any:
    return inputs if len(inputs) > 1 else inputs[0]


class Unknown:
    def __call__(self, *inputs: Any) -> Any:
        return unknown(*inputs)

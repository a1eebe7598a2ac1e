"""How torch rounds matrix products on this machine, which determine the source positions of pixels in warped images."""

from __future__ import annotations

import functools

import torch

from sluicegate import _core


@functools.cache
def match_products() -> None:
    """Make warps in Rust round sums of products as torch's matrix product does here; otherwise last bits would differ.

    Some libraries and processors round each product together with the sum it is added to, others each product and each
    sum. Only the result of a product shows which.
    """
    x = torch.linspace(-36.5, 36.5, 300)
    y = torch.linspace(91.0, -17.0, 300)
    a, b, c = torch.tensor([0.7071, -0.3183, 0.1353])
    # More rows than those for which torch has its own code for small matrices.
    product = torch.stack([x, y, torch.ones(300)], 1)[None].bmm(torch.stack([a, b, c])[None, :, None].expand(1, 3, 2))
    separate = x * a + y * b + c
    if torch.equal(product[0, :, 0], separate):
        _core.round_products("separate")

"""Checks and finds the device that batches are to arrive on."""

from __future__ import annotations

from typing import Any

import torch


def checked_device(device: Any) -> torch.device | str | None:
    """Return `device` as a `torch.device`, "auto", or None.

    Raises:
        RuntimeError: not a device; the message is torch's.
        TypeError: neither a device nor the name of one.
    """
    if device is None or device == "auto":
        return device  # type: ignore[no-any-return]
    if type(device) is bool or not isinstance(device, (str, int, torch.device)):
        raise TypeError(f"device option should be a torch.device, its name, or 'auto', but got {device!r}")
    return torch.device(device)


def checked_device_prefetch(device_prefetch: Any) -> int:
    """Return `device_prefetch` if it is a number of batches.

    Raises:
        ValueError: not an integer, or negative.
    """
    is_number = hasattr(device_prefetch, "__index__") and type(device_prefetch) is not bool
    if not is_number or device_prefetch < 0:
        raise ValueError(f"device_prefetch option should be a non-negative integer, but got {device_prefetch!r}")
    return int(device_prefetch)


def checked_device_transform(transform: Any, device: torch.device | str | None) -> Any:
    """Return `transform` if it can be called and there is a device.

    Raises:
        TypeError: not a function.
        ValueError: there is no device.
    """
    if transform is not None and not callable(transform):
        raise TypeError(f"device_transform option should be a function of a batch, but got {transform!r}")
    if transform is not None and device is None:
        raise ValueError(
            "device_transform runs on the device that batches arrive on; pass device= too, for example device='auto'"
        )
    return transform


def device_now(device: torch.device | str | None) -> torch.device | None:
    """Return the device as torch knows it now; None if batches stay where they are made.

    Raises:
        RuntimeError: there is no such device here.
    """
    if device is None:
        return None
    if isinstance(device, str):
        # "auto": without an accelerator, batches stay on the CPU.
        return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device.type in ("cpu", "meta"):
        return None if device.type == "cpu" else device
    module: Any = torch.get_device_module(device)
    count = module.device_count() if module.is_available() else 0
    if count == 0 or (device.index is not None and device.index >= count):
        raise RuntimeError(
            f"DataLoader(device={str(device)!r}): torch finds {count} devices of type {device.type!r}; pass a device "
            "that exists, or device='auto' (the accelerator if there is one, otherwise the CPU)"
        )
    return device

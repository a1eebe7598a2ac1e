"""The names of `torch.utils.data._utils` that torch's documentation refers to."""

from . import collate

__all__ = ["collate"]

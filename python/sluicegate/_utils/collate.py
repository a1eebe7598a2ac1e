"""The names of `torch.utils.data._utils.collate`, by which torch documents how to extend its default collate.

Examples:
    >>> import torch
    >>> from sluicegate._utils.collate import collate, default_collate_fn_map
    >>> names = {**default_collate_fn_map, str: lambda batch, *, collate_fn_map: " ".join(batch)}
    >>> collate([("a", 1), ("b", 2)], collate_fn_map=names)
    ['a b', tensor([1, 2])]
"""

from torch.utils.data._utils.collate import (
    collate,
    collate_float_fn,
    collate_int_fn,
    collate_numpy_array_fn,
    collate_numpy_scalar_fn,
    collate_str_fn,
    collate_tensor_fn,
    default_collate,
    default_collate_err_msg_format,
    default_collate_fn_map,
    default_convert,
)

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
]

"""`engine_in_words`: the image work done in Rust and in Python, for the `repr` of datasets and streams."""

from __future__ import annotations

from collections.abc import Mapping

from .field import ImageField


def engine_in_words(images: Mapping[str, ImageField], python_reason: str | None) -> str:
    """Return which work is done in Rust and which in Python, as the end of a `repr`; "" if there is nothing to report.

    Args:
        images: the image fields, by name; "" for the only field of a sample without names.
        python_reason: that of the dataset or the stream.
    """
    parts = [f"`{name}` {_done(image)}" if name else _done(image) for name, image in images.items()]
    if python_reason is not None and not any(image.is_called for image in images.values()):
        parts.append(f"batches made in Python: {python_reason}")
    return "".join(f", {part}" for part in parts)


def _done(image: ImageField) -> str:
    if image.is_called:
        return f"decoded in Rust, transformed in Python from {image.python_reason}"
    return "decoded in Rust" if image.transform is None else "decoded and transformed in Rust"

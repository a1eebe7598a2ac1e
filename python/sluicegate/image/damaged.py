"""`DamagedImageError`: raised for a file that cannot be decoded as an image."""

from __future__ import annotations


class DamagedImageError(OSError, ValueError):
    """An image that cannot be decoded: not an image, damaged, of an unknown format, or larger than `max_pixels`.

    It is an `OSError`, like Pillow's `UnidentifiedImageError`, and a `ValueError`, so that code written for either
    catches it. The message names the file and includes what the decoder reported. Raised by `decode_image` and by every
    dataset and stream with images.

    Examples:
        >>> from sluicegate import DamagedImageError, decode_image
        >>> try:
        ...     decode_image(b"text")
        ... except DamagedImageError as error:
        ...     print(isinstance(error, OSError), isinstance(error, ValueError))
        True True
    """

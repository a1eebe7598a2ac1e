"""`named_error`: an error that says what it was about."""

from __future__ import annotations


def named_error(name: str, error: TypeError | ValueError) -> TypeError | ValueError:
    """The same complaint, beginning with `name`.

    It is a plain TypeError or ValueError: a UnicodeEncodeError, say, is made of more than a text.
    """
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{name}: {error}")

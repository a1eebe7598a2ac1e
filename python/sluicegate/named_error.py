"""`named_error`: an error whose message names its subject."""

from __future__ import annotations


def named_error(name: str, error: TypeError | ValueError) -> TypeError | ValueError:
    """Return the same error with a message that begins with `name`.

    It is a plain TypeError or ValueError, because some subclasses, such as UnicodeEncodeError, need more than a
    message.
    """
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{name}: {error}")

"""`ClassifiedStream`: a stream's samples, each with its class."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from .error_note import add_note
from .resumable_stream import ResumableStream

__all__ = ["ClassifiedStream", "Label", "checked_label", "plain_class"]

# The name of a field, its place, or a function of the sample.
Label = str | int | Callable[[Any], Hashable]


def checked_label(label: Any) -> Label:
    """`label`, if it is one.

    Raises:
        TypeError: it is not.
    """
    if not (callable(label) or isinstance(label, (str, int))):
        raise TypeError(f"label should be a field's name or place, or a function of the sample, but got {label!r}")
    checked: Label = label
    return checked


def plain_class(name: Any) -> Hashable:
    """The number in a tensor or an array of one element; anything else as it is."""
    if isinstance(name, torch.Tensor):
        return name.item() if name.numel() == 1 else name
    if isinstance(name, (np.generic, np.ndarray)):
        return name.item() if name.size == 1 else name  # type: ignore[return-value]
    return name  # type: ignore[no-any-return]


def next_passes(iterable: Any) -> list[list[int | None]]:
    """Which epoch each of our own streams in `iterable` reads next, and by which seed: from the outermost inwards.

    They count their passes and keep the seed of the first, so another process would read the first pass again. Of other
    streams nobody knows: what they do is what their `set_epoch` was told.
    """
    passes: list[list[int | None]] = []
    while isinstance(iterable, ResumableStream):
        place = iterable._place()
        passes.append([place.next_epoch if place.loaded is None else place.loaded["epoch"], place.seed])
        iterable = iterable.iterable
    return passes


def set_next_passes(iterable: Any, passes: Iterable[Any]) -> None:
    """Has our own streams in `iterable` read on as `next_passes` said."""
    for epoch, seed in passes:
        if not isinstance(iterable, ResumableStream):
            return
        place = iterable._place()
        # Not by `set_epoch`, which tells streams of the user's too: they may never have heard of an epoch.
        place.next_epoch, place.seed = epoch, seed
        iterable = iterable.iterable


class ClassifiedStream(Iterator[tuple[Hashable, Any]]):
    """One pass over a stream, with the class of every sample. For one thread at a time.

    After an error it goes on with the next sample, where the stream does: it is no generator, which would be over.

    Args:
        iterable: the stream; `iter` is called with the first sample.
        label: what a sample's class is.
        classes: the classes there may be; None for any.
        see: is told the class of every sample.
        drop: is told the class of every sample that is not among `classes`.
        drops_others: whether such a sample is passed over, or an error.
    """

    def __init__(
        self,
        iterable: Iterable[Any],
        label: Label,
        classes: list[Hashable] | None,
        see: Callable[[Hashable], None],
        drop: Callable[[Hashable], None],
        drops_others: bool,
    ) -> None:
        self._iterable = iterable
        self._label = label
        self._classes = None if classes is None else dict.fromkeys(classes)
        self._see = see
        self._drop = drop
        self._drops_others = drops_others
        self._samples: Iterator[Any] | None = None
        self._ordinal = 0
        # What `next_passes` said before this one began; None as long as it has not.
        self.passes: list[list[int | None]] | None = None
        # What the stream raised instead of a sample; None once it has given another.
        self.error: BaseException | None = None

    def __next__(self) -> tuple[Hashable, Any]:
        """The next sample, behind its class.

        Raises:
            ValueError: it is of none of `classes`; the text names it.
            Exception: what the stream raises, or the label's function; a note says for which sample.
        """
        while True:
            sample, ordinal = self._next(), self._ordinal
            self._ordinal += 1
            name = self._class_of(sample, ordinal)
            self._see(name)
            if self._classes is None or name in self._classes:
                return name, sample
            self._drop(name)
            if not self._drops_others:
                raise ValueError(
                    f"sample {ordinal} of this stream is of class {name!r}, but the classes given are "
                    f"{list(self._classes)}: name it there, or give other='drop'"
                )

    def _next(self) -> Any:
        try:
            if self._samples is None:
                self.passes = next_passes(self._iterable)
                self._samples = iter(self._iterable)
            sample = next(self._samples)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            add_note(error, f"raised by sample {self._ordinal} of this stream")
            raise
        self.error = None
        return sample

    def _class_of(self, sample: Any, ordinal: int) -> Hashable:
        try:
            if callable(self._label):
                name = self._label(sample)
            elif isinstance(self._label, str) and not isinstance(sample, Mapping):
                name = getattr(sample, self._label)
            else:
                name = sample[self._label]
            name = plain_class(name)
            hash(name)
        except Exception as error:
            add_note(error, f"raised by the class of sample {ordinal} of this stream (label={self._label!r})")
            raise
        return name

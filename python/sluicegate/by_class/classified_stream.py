"""`ClassifiedStream`: a stream's samples, each with its class."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from sluicegate.error_note import add_note
from sluicegate.sampler.class_index import plain_label

from .next_passes import next_passes

# The name of a field, its position, or a function of the sample.
Label = str | int | Callable[[Any], Hashable]


def checked_label(label: Any) -> Label:
    """Return `label` if it is valid.

    Raises:
        TypeError: it is not.
    """
    if not (callable(label) or isinstance(label, (str, int))):
        raise TypeError(
            f"label: expected the name or position of a field, or a function of the sample, but got {label!r}"
        )
    checked: Label = label
    return checked


class ClassifiedStream(Iterator[tuple[Hashable, Any]]):
    """One pass over a stream, with the class of every sample. For one thread at a time.

    After an error it continues with the next sample if the stream does. Not a generator, which would be finished.

    Args:
        iterable: the stream; `iter` is called with the first sample.
        label: how to get a sample's class.
        classes: the allowed classes; None for any.
        note_seen: called with the class of every sample.
        drop: called with the class of every sample that is not among `classes`.
        drops_others: True to skip such a sample; False to raise an error.
    """

    def __init__(
        self,
        iterable: Iterable[Any],
        label: Label,
        classes: list[Hashable] | None,
        note_seen: Callable[[Hashable], None],
        drop: Callable[[Hashable], None],
        drops_others: bool,
    ) -> None:
        self._iterable = iterable
        self._label = label
        self._classes = None if classes is None else dict.fromkeys(classes)
        self._note_seen = note_seen
        self._drop = drop
        self._drops_others = drops_others
        self._samples: Iterator[Any] | None = None
        self._ordinal = 0
        # The result of `next_passes` before this pass began; None until it has begun.
        self.passes: dict[str, Any] | None = None
        # The error that the stream raised instead of a sample; None once it has yielded another.
        self.error: BaseException | None = None

    def __next__(self) -> tuple[Hashable, Any]:
        """Return the class of the next sample, and the sample.

        Raises:
            ValueError: its class is not among `classes`; the message names it.
            Exception: an error of the stream or the label's function; a note names the sample.
        """
        while True:
            sample, ordinal = self._next(), self._ordinal
            self._ordinal += 1
            name = self._class_of(sample, ordinal)
            self._note_seen(name)
            if self._classes is None or name in self._classes:
                return name, sample
            self._drop(name)
            if not self._drops_others:
                raise ValueError(
                    f"classes: expected one of {list(self._classes)}, but got sample {ordinal} of this stream with "
                    f"class {name!r}; add it to classes=, or pass other='drop'"
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
            label: Hashable = plain_label(name)
            hash(label)
        except Exception as error:
            add_note(error, f"raised by the class of sample {ordinal} of this stream (label={self._label!r})")
            raise
        return label

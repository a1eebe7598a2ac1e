"""`StreamImages`: the images of a native stream's samples, decoded when their samples are delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import torch

from sluicegate.image.damaged import DamagedImageError
from sluicegate.image.field import ImageField
from sluicegate.image.samples import ImageSamples, UndecodedFieldError
from sluicegate.native.dataset import Kind, collate, has_own_batches
from sluicegate.rng.global_generators import fastest_torch_access
from sluicegate.rng.sample import SampleSeeding
from sluicegate.transforms.drawing import current_generator

_T_co = TypeVar("_T_co", covariant=True)

# Returned instead of a damaged sample, if those are left out.
LEFT_OUT: Final = object()


class EncodedSample(NamedTuple):
    """A sample with encoded files instead of images.

    Attributes:
        ordinal: the sample's ordinal in the stream, counted over all ranks and workers.
        sample: a dict.
    """

    ordinal: int
    sample: Any


class ImageStream(Protocol):
    """The part of a `NativeStream` that concerns the images of its samples."""

    _images: Mapping[str, ImageField]
    _shape: tuple[Any, tuple[Kind, ...]] | None

    @property
    def images_reason(self) -> str | None:
        """Why the core does not make the images of a whole batch at once; None if it does, or there are none."""

    def origin(self, encoded: EncodedSample, name: str) -> str:
        """Return a description of where the field `name` of a sample comes from."""

    def refuse_or_leave_out(self, reason: str) -> None:
        """Record a sample that is left out, or raise an error."""

    def collate(self, samples: Sequence[Any]) -> Any:
        """Return the batch of `samples`."""


class StreamImages:
    """Decodes the images of the samples of one pass over a stream.

    With a seed, every sample draws from its own generators, derived from its ordinal in the stream, so the result does
    not depend on who reads it or what was read before. Without a seed, samples draw from torch's generator, or that of
    an enclosing sample, in the order in which they are requested.

    Args:
        stream: the stream of the samples.
        seeding: sets the generators of a sample; None without a seed.
    """

    def __init__(self, stream: ImageStream, seeding: SampleSeeding | None) -> None:
        self.stream = stream
        self._seeding = seeding
        self._moves = any(image.moves_fields for image in stream._images.values())
        # Used if boxes or masks move with an image; made with the first sample, which gives the order of the fields.
        self._samples: ImageSamples | None = None
        # An exception that reading raised after samples that are still to be delivered.
        self._failure: Exception | None = None

    def decoded(self, encoded: EncodedSample) -> Any:
        """Return the decoded sample, or `LEFT_OUT`.

        Raises:
            ValueError: an image is damaged, and is not left out.
            Exception: any exception that a transform raises.
        """
        if self._seeding is None:
            return self._decoded(encoded)
        return self._seeding.alone(encoded.ordinal, lambda: self._decoded(encoded))

    def _decoded(self, encoded: EncodedSample) -> Any:
        if self._moves:
            return self._moved(encoded)
        sample = dict(encoded.sample)
        for name, image in self.stream._images.items():
            if (file := sample[name]) is None:
                continue
            # Catch only the core's errors, which are about the file: a transform in Python may raise anything.
            try:
                made = image.decode_native(file)
            except DamagedImageError as error:
                self._refuse(encoded, name, error)
                return LEFT_OUT
            sample[name] = image.finish(made)
        return sample

    def _moved(self, encoded: EncodedSample) -> Any:
        """Do the same for a sample with boxes or masks."""
        if self._samples is None:
            self._samples = moving_samples(list(encoded.sample), self.stream._images)
        try:
            return self._samples.sample(encoded.sample, 0)
        except UndecodedFieldError as error:
            self._refuse(encoded, list(encoded.sample)[error.field], error)
            return LEFT_OUT

    @property
    def makes_batches(self) -> bool:
        """True if the images of a batch are made in one call."""
        return self.stream.images_reason is None

    def next_batch(self, encoded: Iterator[EncodedSample], samples: int) -> tuple[Any, int] | None:
        """Return a batch of the next `samples` undamaged samples (fewer at the end), and its size; None at the end."""
        whole: list[Any] = []
        parts: list[dict[str, torch.Tensor]] = []
        while len(whole) < samples and (more := self._read(encoded, samples - len(whole), bool(whole))):
            more, images = self._decoded_together(more)
            if more:
                whole += [each.sample for each in more]
                parts.append(images)
        if not whole:
            return None
        images = {name: _joined([part[name] for part in parts]) for name in parts[0]}
        return self._collated(whole, images), len(whole)

    def _read(self, encoded: Iterator[EncodedSample], samples: int, has_some: bool) -> list[EncodedSample]:
        """Return up to `samples` samples; those before an error are returned before it is raised, as one by one."""
        taken: list[EncodedSample] = []
        if self._failure is None:
            try:
                # One by one, to keep earlier samples when a later one fails.
                for each in islice(encoded, samples):
                    taken.append(each)
            except Exception as error:
                self._failure = error
        if self._failure is not None and not (taken or has_some):
            failure, self._failure = self._failure, None
            raise failure
        return taken

    def _collated(self, samples: list[Any], images: dict[str, torch.Tensor]) -> Any:
        """Return the batch of `samples`, with `images` as the fields that are already made."""
        assert self.stream._shape is not None
        structure, kinds = self.stream._shape
        batch = collate(samples, {name: place for name, place in structure.items() if name not in images}, kinds)
        return {name: images[name] if name in images else batch[name] for name in structure}

    def _decoded_together(self, encoded: list[EncodedSample]) -> tuple[list[EncodedSample], dict[str, torch.Tensor]]:
        """Return the undamaged samples, and their images by field."""
        images: dict[str, torch.Tensor] = {}
        for name, image in self.stream._images.items():
            parts: list[torch.Tensor] = []
            kept: list[int] = []
            start = 0
            while start < len(encoded):
                made, failed = self._decode_batch(image, name, encoded[start:])
                stop = len(encoded) if failed is None else start + failed[0]
                kept += range(start, stop)
                if failed is not None:
                    self._refuse(encoded[stop], name, failed[1])
                    # Free the memory for all of them before allocating more: many may be damaged.
                    made = made[: stop - start].clone()
                if len(made) > 0:
                    parts.append(made)
                start = stop + 1
            if len(kept) < len(encoded):
                images = {before: rows[kept] for before, rows in images.items()}
                encoded = [encoded[place] for place in kept]
            images[name] = _joined(parts) if parts else torch.empty(0)
        return encoded, images

    def _decode_batch(
        self, image: ImageField, name: str, encoded: Sequence[EncodedSample]
    ) -> tuple[torch.Tensor, tuple[int, str] | None]:
        keys, access = None, None
        if image.is_random and self._seeding is not None:
            keys = [self._seeding.key_of(each.ordinal) for each in encoded]
        elif image.is_random:
            access = fastest_torch_access(current_generator())
        assert image.pipeline is not None
        return image.pipeline.decode_batch([each.sample[name] for each in encoded], keys, access)

    def _refuse(self, encoded: EncodedSample, name: str, reason: object) -> None:
        self.stream.refuse_or_leave_out(f"{self.stream.origin(encoded, name)}: {reason}")


def moving_samples(names: Sequence[str], images: Mapping[str, ImageField]) -> ImageSamples:
    """Return a decoder for samples with these fields that also moves the parts that belong to `images`.

    Raises:
        ValueError: a part is not a field.
    """
    structure = {name: place for place, name in enumerate(names)}
    return ImageSamples(structure, ["bytes"] * len(names), {structure[name]: image for name, image in images.items()})


class DecodesImages(Iterator[_T_co]):
    """An iterator that decodes any images of its samples, unless the caller takes over decoding."""

    images: StreamImages | None = None

    def take_images(self) -> StreamImages | None:
        """Return the image decoder, or None; the caller decodes from now on, and gets `EncodedSample`s."""
        images, self.images = self.images, None
        return images

    def _finished(self, take: Callable[[], Any]) -> Any:
        """Return the next sample from `take`, decoded if necessary."""
        while True:
            sample = take()
            if self.images is None:
                return sample
            if (decoded := self.images.decoded(sample)) is not LEFT_OUT:
                return decoded


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def collated(stream: ImageStream, collate_fn: Callable[[Any], Any], samples: Any) -> Any:
    """Collate as the core does: torch's default can't stack tensors of different lengths."""
    kinds = () if stream._shape is None else stream._shape[1]
    return stream.collate(samples) if has_own_batches(kinds) else collate_fn(samples)

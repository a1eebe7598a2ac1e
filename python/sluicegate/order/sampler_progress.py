"""`SamplerProgress`: how far a user-defined sampler with a state is, in one epoch and at the end of the one before."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable

from sluicegate.state.loader_state import LoaderState
from sluicegate.state.sampler_place import SamplerPlace
from sluicegate.state.stateful import unpickled

from .sampler_stream import SamplerStream


class SamplerProgress:
    """How far the sampler of an epoch is, if it has a state of its own; nothing is known of other samplers.

    Args:
        resumed: the state that the epoch resumes from.
    """

    def __init__(self, resumed: LoaderState) -> None:
        # Where the resumed epoch was, until a batch is received; where the one before it ended, once it was begun.
        self._resumed = None if resumed.sampler_is_over else resumed.sampler
        # The requests of the sampler, and its position.
        self.stream: SamplerStream | None = None
        # Its state after its last batch, which may have been left out.
        self.end: bytes | None = None
        # Returns where the previous epoch left the sampler.
        self.before: Callable[[], SamplerPlace | None] | None = None
        # Where the sampler was when the loader's first epoch began, which a state from before its first batch has.
        self.at_first: SamplerPlace | None = None
        # Where the resumed epoch ended, or an earlier one that requested nothing, until the sampler has received it.
        self.untold = resumed.sampler if resumed.sampler_is_over else None

    def place(self, received: bytes | None, has_received: bool) -> SamplerPlace | None:
        """Return where the sampler was after the last batch received; None if it has no state.

        Args:
            received: the state that came with that batch, or at the end of the epoch `end`.
            has_received: True if any batch was received without a gap before it.
        """
        if received is not None:
            place: SamplerPlace | None = unpickled(received, "the sampler")
            return place
        return None if has_received else copy.deepcopy(self._resumed)

    def place_before(self) -> SamplerPlace | None:
        """Return where the sampler was at the end of the previous epoch, unless it has already received that."""
        return copy.deepcopy(self.untold)

    def left_before(self) -> SamplerPlace | None:
        """Return where the previous epoch left the sampler; None if it is unknown."""
        if (place := self.place_before()) is None and self.before is not None:
            # A sampler that could not report its state then starts as in torch.
            with contextlib.suppress(RuntimeError):
                return self.before()
        return place

    def begun_at(self) -> SamplerPlace | None:
        """Return where the sampler was before this epoch, of which no batch was received; None if it is unknown."""
        return copy.deepcopy(self.at_first) if (place := self.left_before()) is None else place

    def leave(self, is_drawn: bool) -> SamplerPlace | None:
        """Return where the sampler is when another epoch begins in the middle of this one.

        Args:
            is_drawn: True if anything of this epoch was requested.
        """
        if self.stream is not None:
            return self.stream.left()
        return None if is_drawn else self.left_before()

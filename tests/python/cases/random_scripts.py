"""Random training scripts that run with torch's loader and with ours."""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from typing import Any

import torch
import torch.utils.data

from checks.epochs import next_item

OTHER_ORDERS = ("weights", "list", "odd list", "distributed", "batches")


class RandomScript:
    """One random training script for the dataset that a subclass creates.

    Args:
        seed: determines the whole script.
        draw: the generator for the rest of the script.
    """

    def __init__(self, seed: int, draw: random.Random) -> None:
        self.seed = seed
        self.num_workers = draw.choice((0, 0, 0, 1, 2, 3))
        self.arguments: dict[str, Any] = {
            "batch_size": draw.randint(1, 7),
            "drop_last": draw.random() < 0.3,
            "num_workers": self.num_workers,
        }
        if self.num_workers:
            self.arguments["persistent_workers"] = draw.random() < 0.5
            self.arguments["prefetch_factor"] = draw.choice((1, 2, 3, None))
        self.order = draw.choice(("sequential", "shuffle", "shuffle", "generator", *OTHER_ORDERS))
        self.epochs = draw.randint(1, 3)
        # The point where an epoch is left, or is interrupted and resumed: (epoch, batches).
        self.left = (draw.randrange(self.epochs), draw.randint(0, 4)) if draw.random() < 0.3 else None
        if self.order == "distributed" and self.left is not None:
            # Such a sampler is first read in `next`, not in `iter`, so an epoch left at 0 batches would draw nothing.
            self.left = self.left[0], max(self.left[1], 1)
        self.resumed = (draw.randrange(self.epochs), draw.randint(0, 4)) if draw.random() < 0.4 else None
        self.draws_between = draw.random() < 0.3
        self.is_seeded_between = draw.random() < 0.1

    @abstractmethod
    def dataset(self) -> Any:
        """Return the dataset, with the same samples each time."""

    def after_batch(self, epoch: int, batches: int) -> None:
        """Apply the changes that the script makes after `batches` batches of an epoch."""

    def after_epoch(self, epoch: int) -> None:
        """Apply the changes that the script makes at the end of an epoch."""

    def loader(self, kind: Any) -> Any:
        """Return a loader of the dataset; random arguments come from their own generators."""
        dataset, arguments = self.dataset(), dict(self.arguments)
        count = len(dataset)
        if self.order in ("shuffle", "generator"):
            arguments["shuffle"] = True
        if self.order == "generator":
            arguments["generator"] = torch.Generator().manual_seed(self.seed)
        if self.order == "weights":
            arguments["sampler"] = torch.utils.data.WeightedRandomSampler(torch.arange(1.0, count + 1), count)
        if self.order == "list":
            arguments["sampler"] = [each % count for each in range(3, 2 * count)]
        if self.order == "distributed":
            arguments["sampler"] = torch.utils.data.DistributedSampler(dataset, 2, self.seed % 2, seed=self.seed)
        if self.order == "batches":
            del arguments["batch_size"], arguments["drop_last"]
            batches = [[each % count for each in range(first, first + 3)] for first in range(0, count, 2)]
            arguments["batch_sampler"] = [*batches, (0,), [count - 1]]
        if self.order == "odd list":
            # Negative indices, and possibly one out of range.
            arguments["sampler"] = [0, -1, count - 1, *([count] if self.seed % 2 else []), -count, 1 % count]
        return kind(dataset, **arguments)

    def run(self, kind: Any, *, resumes: bool) -> tuple[list[Any], bool]:
        """Return what a script sees (batches, errors, and global generators), and True if the engine was the core."""
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        seen: list[Any] = []
        loader = self.loader(kind)
        is_native = resumes and loader.explain().engine == "rust"
        epoch = 0
        while epoch < self.epochs:
            iterator = iter(loader)
            seen.append(torch.random.get_rng_state())
            batches = 0
            is_resumed = False
            while True:
                if self.left == (epoch, batches):
                    break
                if resumes and self.resumed == (epoch, batches) and not is_resumed:
                    is_resumed = True
                    state = json.loads(json.dumps(loader.state_dict()))
                    loader = self.loader(kind)
                    loader.load_state_dict(state)
                    before = torch.random.get_rng_state()
                    iterator = iter(loader)
                    if batches:
                        assert torch.equal(torch.random.get_rng_state(), before), "a resume moved the generator"
                if (item := next_item(iterator)) is None:
                    break
                seen.append(item)
                batches += 1
                if self.draws_between:
                    seen += [torch.rand(3), random.random()]
                if self.is_seeded_between:
                    torch.manual_seed(batches)
                self.after_batch(epoch, batches)
            seen.append(torch.random.get_rng_state())
            self.after_epoch(epoch)
            epoch += 1
        seen.append(random.getstate())
        del iterator
        return seen, is_native

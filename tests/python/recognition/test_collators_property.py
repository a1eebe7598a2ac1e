"""Random scripts with collate functions of `transformers`, run with both loaders, give the same batches and errors.

`SLUICEGATE_COLLATOR_SCRIPTS` sets how many, and `SLUICEGATE_COLLATOR_SEED` the first one.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
import torch.nested._internal.nested_tensor  # Torch's workers import it in a thread, which may hang.
import torch.utils.data
from torch.utils.data import Subset, random_split

import sluicegate
from checks.equality import assert_same

pytest.importorskip("datasets")
pytest.importorskip("transformers")

from cases.collators import Collators, Tables
from cases.random_scripts import RandomScript

SCRIPTS = int(os.environ.get("SLUICEGATE_COLLATOR_SCRIPTS", "48"))
FIRST = int(os.environ.get("SLUICEGATE_COLLATOR_SEED", "0"))

pytestmark = [
    pytest.mark.timeout(600 + SCRIPTS),
    pytest.mark.filterwarnings("ignore"),
]


class CollatorScript(RandomScript):
    """A script for a table of tokens."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.is_odd = draw.random() < 0.4
        self.collators = Collators(draw, is_odd=self.is_odd)
        self.source = Tables(draw, self.collators, is_odd=self.is_odd).dataset(draw.randint(3, 30))
        self.combinator = draw.choice(("none", "none", "subset", "split"))
        super().__init__(seed, draw)
        if self.order == "odd list":
            self.order = "list"  # The package refuses negative indices into a selection.
        # A worker started after a resume has the tokenizer's current state.
        is_kept = self.resumed is not None and self.num_workers > 0
        self.is_changed = draw.random() < 0.3 and not is_kept and self.collators.name not in ("default", "Default")
        self.collate: Any = None

    def dataset(self) -> Any:
        if self.combinator == "subset":
            return Subset(self.source, [*range(len(self.source) - 1, 0, -1), 0, 0])
        if self.combinator == "split":
            return random_split(self.source, [len(self.source) - 1, 1], torch.Generator().manual_seed(1))[0]
        return self.source

    def run(self, kind: Any, *, resumes: bool) -> tuple[list[Any], bool]:
        np.random.seed(self.seed)  # with NumPy tensors, masks are drawn from it
        self.collate = self.arguments["collate_fn"] = self.collators.made()
        return super().run(kind, resumes=resumes)

    def after_batch(self, epoch: int, batches: int) -> None:
        if self.is_changed and self.num_workers == 0 and batches % 2:
            self._change()

    def after_epoch(self, epoch: int) -> None:
        if self.is_changed:
            self._change()

    def _change(self) -> None:
        tokens = self.collate.tokenizer
        tokens.padding_side = "left" if tokens.padding_side == "right" else "right"
        tokens.pad_token = "[CLS]" if tokens.pad_token == "[PAD]" else "[PAD]"


@pytest.mark.parametrize("part", range(4))
def test_random_scripts_are_as_torchs(part: int) -> None:
    native = 0
    for seed in range(FIRST + part, FIRST + SCRIPTS, 4):
        script = CollatorScript(seed)
        try:
            expected, _ = script.run(torch.utils.data.DataLoader, resumes=False)
            actual, is_native = script.run(sluicegate.DataLoader, resumes=True)
            assert is_native or script.is_odd, script.loader(sluicegate.DataLoader).explain()
            assert_same(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"script {seed}: {vars(script.collators)} {script.source.data.table}") from error
        native += is_native
    assert native > 0

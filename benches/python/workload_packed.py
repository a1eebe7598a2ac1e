"""Packed rows: Megatron documents packed into rows of 2,048 tokens, eight per batch, with all that attention needs."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import figures
import machine
from loaders import IMPORTS, data_loader, present
from machine import CACHE
from protocol import Case, Contender, Metrics, Turn, Workload

DOCUMENTS = 250_000
LENGTH = 2_048
ROWS_PER_BATCH = 8
VOCABULARY = 50_257
DIGIT = 1 << 15  # a document's first two tokens are its number in this base
VERIFIED_BATCHES = 20

PATTERN = CACHE / f"packed-{DOCUMENTS}-{{}}.bin"
PATH = CACHE / f"packed-{DOCUMENTS}-0.bin"


def lengths_of_texts(count: int, longest: int) -> npt.NDArray[np.int64]:
    """Return lengths like those of texts: log-normal, median 245 tokens, and mean 368 before long ones are cut."""
    lengths = np.random.default_rng(11).lognormal(5.5, 0.9, count)
    return np.clip(lengths, 2, longest).astype(np.int64)


def _prepare() -> None:
    if PATH.exists():
        return
    import sluicegate

    CACHE.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(4)

    def document(number: int, length: int) -> npt.NDArray[np.uint16]:
        tokens = generator.integers(0, VOCABULARY, length, dtype=np.uint16)
        tokens[:2] = divmod(number, DIGIT)
        return tokens

    lengths = lengths_of_texts(DOCUMENTS, 4 * LENGTH).tolist()
    documents = list(itertools.starmap(document, enumerate(lengths)))
    sluicegate.write_tokens(documents, PATTERN, layout="megatron")


def _verify(documents: Any, loader: Any) -> None:
    """Compare batches with the documents, piece by piece."""
    seen: set[tuple[int, int]] = set()
    for batch in itertools.islice(loader, VERIFIED_BATCHES):
        tokens, numbers = batch["input_ids"].reshape(-1), batch["document_ids"].reshape(-1)
        borders = batch["cu_seqlens"].tolist()
        for start, stop in itertools.pairwise(borders):
            piece = tokens[start:stop]
            if numbers[start] < 0:
                assert not piece.any(), "padding is something"
                continue
            number = int(piece[0]) * DIGIT + int(piece[1]) if len(piece) > 1 else -1
            if 0 <= number < len(documents) and documents.lengths[number] <= LENGTH:
                assert (number, 0) not in seen, "a document came twice"
                seen.add((number, 0))
                assert piece.equal(documents[number]), "tokens differ"
    assert seen, "no whole document was seen"


def _packed(package: str, workers: int) -> Any:
    def measure(turn: Turn) -> Metrics:
        import sluicegate

        documents = sluicegate.TokenDocumentsDataset(PATH)
        sampler = sluicegate.PackedBatchSampler(documents.lengths, length=LENGTH, rows_per_batch=ROWS_PER_BATCH, seed=7)
        loader = data_loader(
            package, sampler.pieces(documents), batch_sampler=sampler, collate_fn=sampler.collate, num_workers=workers
        )
        if turn.verify:
            _verify(documents, loader)
        batches = iter(loader)
        next(batches)
        cpu, begin, tokens = machine.tree_cpu_seconds(), time.perf_counter(), 0
        for batch in batches:
            tokens += batch["input_ids"].numel()
            if time.perf_counter() - begin > turn.seconds:
                break
        seconds = time.perf_counter() - begin
        return {
            "M tokens/s": tokens / seconds / 1e6,
            "CPU ns/token": (machine.tree_cpu_seconds() - cpu) / tokens * 1e9,
            "padding, %": 100 * sampler.padding_share(),
        }

    return measure


def _contender(package: str, workers: int, column: str | None = None) -> Contender:
    return Contender(f"{package}, {workers} workers", _packed(package, workers), IMPORTS["sluicegate"], column)


WORKLOAD = Workload(
    name="packed",
    title=f"Packed rows: {DOCUMENTS:,} documents, best fit, {ROWS_PER_BATCH} rows of {LENGTH:,} tokens",
    measure=figures.measure,
    tables=figures.tables,
    prepare=_prepare,
    cases=(
        Case(
            name="rows",
            title="input_ids, labels, position_ids, document_ids and cu_seqlens; torch's loader makes them in Python",
            contenders=present(
                _contender("torch", 0, "torch"),
                _contender("torch", 2),
                _contender("sluicegate", 0),
                _contender("sluicegate", 2),
            ),
        ),
    ),
)

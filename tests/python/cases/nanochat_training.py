"""A script for nanochat: a generator of batches in place of its own, and the loop and states of its training."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed

from cases.recorded_training import BATCH_SIZE, EPOCHS, ROWS, Record, note, ranks, start_ranks
from sluicegate import DataLoader, PackCollate, PackedBatchSampler, TokenDocumentsDataset, write_tokens

sys.path.append(str(Path(__file__).parents[1] / "doubles" / "trainers"))
nanochat = importlib.import_module("nanochat.dataloader")

# Tokens per row. A document fills one row: a first token, then its number, repeated.
LENGTH, BEGIN = 8, ROWS
# Per epoch, on two ranks.
STEPS = ROWS // (2 * BATCH_SIZE)


class Documents(torch.utils.data.Dataset[np.ndarray[Any, Any]]):
    """Documents in files; `reads` is a file with a line for each read."""

    def __init__(self, pattern: str, reads: str) -> None:
        self.documents, self.reads = TokenDocumentsDataset(pattern), reads

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> Any:
        note(self.reads, index)
        return self.documents[index]


def replace_generator(folder: str, reads: str, kind: str) -> None:
    """Replace nanochat's generator as `docs/trainers.md` does; "sampled" keeps the order of the files."""

    def batches(
        tokenizer: Any,
        B: int,
        T: int,
        split: str,
        device: str = "cuda",
        resume_state_dict: dict[str, Any] | None = None,
        **others: Any,
    ) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
        documents = Documents(f"{folder}/{split}-*.bin", f"{reads}-{split}" if split == "val" else reads)
        sampler = PackedBatchSampler(
            documents.documents.lengths,
            length=T + 1,
            rows_per_batch=B,
            drop_last=True,
            shuffle=kind == "seeded",
            seed=7 if kind == "seeded" else None,
        )
        loader: DataLoader[Any] = DataLoader(
            sampler.pieces(documents),
            batch_sampler=sampler,
            collate_fn=PackCollate(T + 1),
            num_workers=2,
            shard="auto",
        )
        if resume_state_dict is not None:
            loader.load_state_dict(resume_state_dict["loader"])
        while True:
            state = loader.state_dict()
            for batch in loader:
                rows = batch["input_ids"].to(device)
                targets = rows[:, 1:].masked_fill(batch["document_ids"][:, 1:].to(device) < 0, -1)
                yield rows[:, :-1], targets, {"epoch": state["epoch"] + 1, "loader": state}
                state = loader.state_dict()

    nanochat.tokenizing_distributed_data_loader_with_state_bos_bestfit = batches


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, kind: str = "seeded") -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of documents and checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the checkpoint.
        kind: "seeded" for a random order, "sampled" for that of the files.
    """
    start_ranks()
    rank, _ = ranks()
    if rank == 0 and not resumes:
        tokens = [[BEGIN] + [number] * LENGTH for number in range(ROWS)]
        for split in ("train", "val"):
            write_tokens(tokens, f"{folder}/{split}-{{}}.bin", layout="megatron")
    torch.distributed.barrier()
    torch.manual_seed(1)
    replace_generator(folder, f"{path}-reads", kind)
    layers = torch.nn.Sequential(torch.nn.Embedding(ROWS + 1, 8), torch.nn.Linear(8, ROWS + 1))
    model = torch.nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.AdamW(layers.parameters(), 0.01)
    step, record, resumed = 0, Record(path, stop), None
    if resumes:
        meta = json.loads(Path(f"{folder}/meta.json").read_text())
        layers.load_state_dict(torch.load(f"{folder}/model.pt"))
        optimizer.load_state_dict(torch.load(f"{folder}/optim-{rank}.pt"))
        step, resumed = meta["step"], meta["loader"]
    make = nanochat.tokenizing_distributed_data_loader_with_state_bos_bestfit
    batches = make(None, BATCH_SIZE, LENGTH, split="train", device="cpu", resume_state_dict=resumed)
    inputs, targets, state = next(batches)
    while True:
        if step % STEPS == 0 and step > 0:
            evaluation = make(None, BATCH_SIZE, LENGTH, split="val", device="cpu")
            counted = [rows[:, 1].tolist() for rows, _, _ in itertools.islice(evaluation, STEPS)]
            record.evaluated(itertools.chain(*counted))
        if step % 3 == 0 and step > 0:
            # The first rank saves its loader's state for all.
            files = {f"optim-{rank}.pt": optimizer.state_dict()}
            if rank == 0:
                files["model.pt"] = layers.state_dict()
                Path(f"{folder}/meta.json").write_text(json.dumps({"step": step, "loader": state}))
            for name, content in files.items():
                torch.save(content, f"{folder}/{name}.tmp")
                os.replace(f"{folder}/{name}.tmp", f"{folder}/{name}")
        record.after(step)
        if step == EPOCHS * STEPS:
            break
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        samples = inputs[:, 1].tolist()
        inputs, targets, state = next(batches)
        optimizer.step()
        step += 1
        record.write(step, samples, loss.item(), model)

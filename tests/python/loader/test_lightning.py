"""Lightning's trainer with two processes: killed within an epoch, and resumed from its checkpoint."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.programs import Run, zygote

SAMPLES = 40


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run programs in a process that has imported Lightning, and the modules it imports when it trains."""
    yield from zygote("lightning", "torch._dynamo")


# Two ranks: each trains and dies after saving a checkpoint at step 7 of epoch 1, or resumes from it.
PROGRAM = """
import json, logging
import lightning
import sluicegate

warnings.filterwarnings("ignore")
logging.disable()
rank = next((rank for rank in range(2) if os.fork() == 0), None)
if rank is None:
    ends = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
    os._exit(max(map(abs, ends)))
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "NODE_RANK": "0"}
os.environ |= {"LOCAL_RANK": str(rank), "RANK": str(rank)}
dataset = torch.arange(40.0).reshape(40, 1)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, number):
        with open(f"{folder}/{int(is_resumed)}-{rank}.jsonl", "a") as file:
            print(json.dumps([self.trainer.current_epoch, batch.flatten().int().tolist()]), file=file)
        return self.layer(batch).sum() * 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Killed(lightning.Callback):
    def on_train_batch_end(self, trainer, model, outputs, batch, number):
        if (trainer.current_epoch, number) == (1, 6):
            trainer.save_checkpoint(f"{folder}/saved.ckpt")
            os._exit(0)


arguments = {"seed": 7, "shuffle": True, "shard": "auto"}
if order == "sampler":
    arguments = {"sampler": torch.utils.data.DistributedSampler(dataset, 2, rank)}
loader = sluicegate.DataLoader(dataset, 2, num_workers=num_workers, **arguments)
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", use_distributed_sampler=False, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[] if is_resumed else [Killed()],
)
trainer.fit(Model(), loader, ckpt_path=f"{folder}/saved.ckpt" if is_resumed else None)
"""


def train(run: Run, folder: Path, num_workers: int, order: str, is_resumed: bool) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    values = {"folder": str(folder), "num_workers": num_workers, "order": order, "is_resumed": is_resumed}
    run(PROGRAM, deadline=240, port=port, **values).check(stderr=None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("num_workers", "order"), [(0, "sampler"), (2, "seed")])
def test_the_resumed_epoch_has_every_sample_once(run: Run, tmp_path: Path, num_workers: int, order: str) -> None:
    for is_resumed in (False, True):
        train(run, tmp_path, num_workers, order, is_resumed)
    lines = [json.loads(line) for path in sorted(tmp_path.glob("*.jsonl")) for line in path.read_text().splitlines()]
    for epoch in range(2):
        seen = sorted(index for number, batch in lines if number == epoch for index in batch)
        assert seen == [*range(SAMPLES)]  # Lightning: sharded
    resumed = [batch for path in tmp_path.glob("1-*.jsonl") for batch in path.read_text().splitlines()]
    assert len(resumed) == 2 * (10 - 7)


# Trains three epochs of five batches, and resumes after each of the first ten.
AT_THE_END = """
import logging
import lightning
from lightning.pytorch.callbacks import ModelCheckpoint

warnings.filterwarnings("ignore")
logging.disable()


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(1, 1), []

    def training_step(self, batch, number):
        self.seen.append(batch.flatten().tolist())
        return self.layer(batch).sum() * 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Stream(torch.utils.data.IterableDataset):
    def __len__(self):
        return samples

    def __iter__(self):
        worker = data.get_worker_info()
        return (torch.tensor([float(index)]) for index in range(worker.id, samples, worker.num_workers))


def train(every, checkpoint=None):
    dataset = Stream() if is_stream else torch.arange(float(samples)).reshape(samples, 1)
    loader = data.DataLoader(dataset, 4, **given)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    save = ModelCheckpoint(folder, "{step}", every_n_train_steps=every, save_top_k=-1)
    trainer, model = lightning.Trainer(max_epochs=3, accelerator="cpu", callbacks=[save], **quiet), Model()
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return model.seen


whole = train(1)
assert len(whole) == 15
for step in steps:
    assert train(100, f"{folder}/step={step}.ckpt") == whole[step:], step
"""

ENDS = [
    ("torch", 20, {}, (5, 10)),
    ("sluicegate", 20, {}, (4, 5, 10)),
    ("sluicegate", 17, {"shuffle": True, "num_workers": 2}, (4, 5, 10)),
    ("sluicegate", 18, {"shuffle": True, "seed": 7}, (4, 5, 10)),
    ("sluicegate", 23, {"shuffle": True, "seed": 7, "drop_last": True}, (4, 5, 10)),
    ("torch", 20, {"is_stream": True, "num_workers": 1}, (5, 10)),
    ("sluicegate", 20, {"is_stream": True, "num_workers": 1}, (4, 5, 10)),
    ("sluicegate", 42, {"shuffle": True, "seed": 7, "shard": (1, 2), "remainder": "drop", "drop_last": True}, (4, 5)),
]


@pytest.mark.parametrize(("package", "samples", "given", "steps"), ENDS)
def test_a_checkpoint_after_the_last_batch_of_an_epoch_resumes_with_the_next_one(
    run: Run, tmp_path: Path, package: str, samples: int, given: dict[str, Any], steps: tuple[int, ...]
) -> None:
    """Lightning does not request the end of an epoch, and counts the epoch that it resumes in as begun."""
    given = dict(given)
    values: dict[str, Any] = {"is_stream": given.pop("is_stream", False), "given": given}
    values |= {"samples": samples, "steps": steps, "folder": str(tmp_path)}
    run(AT_THE_END, package, deadline=60.0, **values).check(stderr=None)


AHEAD = """
import logging
import lightning

logging.disable()
data.DataLoader([0]).state_dict()


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, number):
        if number == 1:
            self.trainer.save_checkpoint(f"{folder}/saved.ckpt")
        return self.layer(batch).sum() * 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return (torch.tensor([float(index)]) for index in range(16))


class Sized(Stream):
    def __len__(self):
        return 16


for dataset, expected in ((Stream(), 1), (Sized(), 0), (list(Stream()), 0)):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_checkpointing=False, **quiet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(Model(), data.DataLoader(dataset, 4))
    assert sum("one batch ahead" in str(each.message) for each in caught) == expected
"""


def test_lightnings_read_ahead_of_a_stream_without_a_length_is_a_warning(run: Run, tmp_path: Path) -> None:
    run(AHEAD, deadline=60.0, folder=str(tmp_path)).check(stderr=None)


MORE = """
from lightning.pytorch.utilities.combined_loader import CombinedLoader


def combined(ranks):
    return CombinedLoader(data.DataLoader(range(24), 2, seed=7, shard=(0, ranks)))


saved = combined(saved_by)
loader = next(iter(saved.flattened))
batches = iter(loader)
for _ in range(3):
    next(batches)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    combined(resumed_by)._load_state_dicts([loader.state_dict()])
said = [str(each.message) for each in caught if "Lightning" in str(each.message)]
assert ["1 of its last 2 batches" in each for each in said] == ([True] if warns else []), caught
"""


@pytest.mark.parametrize(("saved_by", "resumed_by", "warns"), [(2, 2, False), (2, 1, False), (2, 3, True)])
def test_batches_that_lightning_leaves_out_on_more_processes_are_a_warning(
    run: Run, saved_by: int, resumed_by: int, warns: bool
) -> None:
    """An epoch has six batches on two ranks and four on three: after three of the six, two of the four are left."""
    run(MORE, saved_by=saved_by, resumed_by=resumed_by, warns=warns).check(stderr=None)

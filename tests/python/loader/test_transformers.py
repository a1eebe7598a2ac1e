"""The Trainer of transformers: stopped within an epoch, and resumed from its checkpoint."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = 24
STOPS = [4, 8]  # Epochs have six steps.

# Prints, for each kind of loader, the batches of a whole training and of trainings that were resumed after a step.
PROGRAM = """
import json, os, sys, warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
import torch, transformers
import sluicegate

transformers.logging.set_verbosity_error()
folder, stops = sys.argv[1], json.loads(sys.argv[2])


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return {"x": torch.tensor([float(index)])}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def forward(self, x):
        self.seen.append(x.flatten().int().tolist())
        return {"loss": self.layer(x).sum() * 0}


class Stopped(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **rest):
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def batches(num_workers, is_prepared, stop=None, resumed=None):
    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            loader = sluicegate.DataLoader(Numbers(), 4, shuffle=True, seed=7, num_workers=num_workers)
            return self.accelerator.prepare(loader) if is_prepared else loader

    arguments = transformers.TrainingArguments(
        folder, num_train_epochs=2, save_strategy="no", logging_strategy="no", report_to=[], use_cpu=True,
        disable_tqdm=True, remove_unused_columns=False,
    )
    model = Model()
    trainer = Trainer(model, arguments, callbacks=[] if stop is None else [Stopped(stop)])
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=None if resumed is None else f"{folder}/checkpoint-{resumed}")
    return model.seen


for kind in [(0, False), (2, False), (0, True)]:
    joined = {stop: batches(*kind, stop=stop) + batches(*kind, resumed=stop) for stop in stops}
    print(json.dumps([kind, batches(*kind), joined]))
"""


@pytest.mark.timeout(300)
def test_a_trainer_resumes_within_an_epoch_of_a_seeded_loader(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(STOPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    kinds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kinds) == 3
    for kind, whole, joined in kinds:
        epochs = [whole[:6], whole[6:]]
        assert epochs[0] != epochs[1]
        assert all(sorted(itertools.chain(*epoch)) == list(range(SAMPLES)) for epoch in epochs)
        assert joined == {str(stop): whole for stop in STOPS}, kind

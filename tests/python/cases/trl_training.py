"""Scripts for TRL's trainers, as users write them, with our loader and a model of random weights."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import datasets
import torch
import transformers
import trl
from tokenizers import Tokenizer, models, pre_tokenizers

from sluicegate.accelerate.prepared_loader import PreparedLoader
from sluicegate.transformers import LoaderMixin

ROWS, EPOCHS = 24, 2
WORDS = {"<pad>": 0, "<eos>": 1} | {str(number): number + 2 for number in range(40)}


def sft() -> tuple[Any, Any, dict[str, Any]]:
    """Return the trainer, its arguments, and what else it is given."""
    rows = datasets.Dataset.from_dict({"text": [f"{number} {number}" for number in range(ROWS)]})
    return trl.SFTTrainer, trl.SFTConfig, {"train_dataset": rows}


def dpo() -> tuple[Any, Any, dict[str, Any]]:
    columns = {
        "prompt": [f"{number}" for number in range(ROWS)],
        "chosen": [f" {number}" for number in range(ROWS)],
        "rejected": [" 39"] * ROWS,
    }
    given = {"train_dataset": datasets.Dataset.from_dict(columns), "ref_model": language_model()}
    return trl.DPOTrainer, trl.DPOConfig, given


def grpo() -> tuple[Any, Any, dict[str, Any]]:
    rows = datasets.Dataset.from_dict({"prompt": [f"{number}" for number in range(ROWS)]})
    return trl.GRPOTrainer, trl.GRPOConfig, {"train_dataset": rows, "reward_funcs": rewards}


def rewards(completions: list[str], **_: Any) -> list[float]:
    """Differ from completion to completion, because equal ones would leave the model as it is."""
    return [sum(ord(letter) for letter in completion) % 97 / 97 for completion in completions]


def language_model() -> Any:
    """Return a small model, with random weights."""
    transformers.set_seed(1)
    size = {"n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 32}
    tokens = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(WORDS), **tokens, **size))


TRAINERS = {"sft": sft, "dpo": dpo, "grpo": grpo}


def samples_of(inputs: Any) -> list[int]:
    """Return the numbers of the rows in a batch; DPO's rejected completions are its second half."""
    if isinstance(inputs, list):
        return [int(each["prompt"]) for each in inputs]
    first = inputs["input_ids"][:, 0] - WORDS["0"]
    numbers: list[int] = first[: len(first) // 2 if "completion_mask" in inputs else None].tolist()
    return numbers


def train(path: str, folder: str, kind: str, *, stop: int | None = None, resumes: bool = False, **given: Any) -> None:
    """Train, and write a line for each batch to `path`: the step, the samples, the loss, and the sum of weights.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        kind: which trainer of `TRAINERS`.
        stop: the number of the batch after which the process kills itself.
        resumes: True to begin with the last checkpoint.
        given: arguments of the trainer's configuration, and `loader_arguments`.
    """
    trainer_class, config_class, arguments = TRAINERS[kind]()

    class Recorded(LoaderMixin, trainer_class):  # type: ignore[misc]
        batches = 0

        def training_step(self, model: Any, inputs: Any, *others: Any, **named: Any) -> torch.Tensor:
            assert isinstance(self.callback_handler.train_dataloader, PreparedLoader)
            samples, step = samples_of(inputs), self.state.global_step
            loss: torch.Tensor = super().training_step(model, inputs, *others, **named)
            weights = sum(float(each.detach().double().sum()) for each in model.parameters())
            print(json.dumps([step, samples, loss.item(), weights]), file=file, flush=True)
            self.batches += 1
            if self.batches == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return loss

    words = Tokenizer(models.WordLevel(WORDS, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    loader_arguments = given.pop("loader_arguments", {})
    lengths = {"max_completion_length": 6, "num_generations": 2} if kind == "grpo" else {"max_length": 16}
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": EPOCHS,
        "learning_rate": 0.01,
        "save_steps": 2,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
    }
    trainer = Recorded(
        model=language_model(),
        args=config_class(folder, **lengths, **settings | given),
        processing_class=tokenizer,
        loader_arguments=loader_arguments,
        **arguments,
    )
    with open(path, "a") as file:
        trainer.train(resume_from_checkpoint=resumes)

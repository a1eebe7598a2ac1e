"""Scripts for TRL's trainers, as users write them, with our loader and a model of random weights."""

from __future__ import annotations

from typing import Any

import datasets
import torch
import transformers
import trl
from tokenizers import Tokenizer, models, pre_tokenizers

from cases.recorded_training import Record, note
from sluicegate.accelerate.prepared_loader import PreparedLoader
from sluicegate.transformers import LoaderMixin

# The ranks evaluate different numbers of samples, because the last batch is not full.
ROWS, EPOCHS, EVALUATED = 24, 2, 10
WORDS = {"<pad>": 0, "<eos>": 1} | {str(number): number + 2 for number in range(40)}


class Noted(datasets.Dataset):  # type: ignore[misc]
    """A table that records which rows are read."""

    reads: str

    def __getitem__(self, key: Any) -> Any:
        for index in () if isinstance(key, str) else [key] if isinstance(key, int) else key:
            note(self.reads, index)
        return super().__getitem__(key)


def sft() -> tuple[Any, Any, dict[str, Any]]:
    """Return the trainer, its configuration, and its other arguments."""
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
    """Return rewards that differ between completions; equal ones would not change the model."""
    return [sum(ord(letter) for letter in completion) % 97 / 97 for completion in completions]


def language_model() -> Any:
    """Return a small model, with random weights."""
    transformers.set_seed(1)
    size = {"n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 32}
    tokens = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(WORDS), **tokens, **size))


TRAINERS = {"sft": sft, "dpo": dpo, "grpo": grpo}


def samples_of(inputs: Any) -> list[int]:
    """Return the row numbers of a batch; its second half is DPO's rejected completions."""
    if isinstance(inputs, list):
        return [int(each["prompt"]) for each in inputs]
    first = inputs["input_ids"][:, 0] - WORDS["0"]
    numbers: list[int] = first[: len(first) // 2 if "completion_mask" in inputs else None].tolist()
    return numbers


def train(
    path: str,
    folder: str,
    kind: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    is_torchs: bool = False,
    **given: Any,
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        kind: which trainer of `TRAINERS`.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        is_torchs: True to train with torch's loader.
        given: arguments of the trainer's configuration, and `loader_arguments`.
    """
    trainer_class, config_class, arguments = TRAINERS[kind]()

    class Recorded(*(() if is_torchs else (LoaderMixin,)), trainer_class):  # type: ignore[misc]
        batches = 0
        evaluated: list[int] = []  # noqa: RUF012

        def training_step(self, model: Any, inputs: Any, *others: Any, **named: Any) -> torch.Tensor:
            assert isinstance(self.callback_handler.train_dataloader, PreparedLoader) is not is_torchs
            samples, step = samples_of(inputs), self.state.global_step
            loss: torch.Tensor = super().training_step(model, inputs, *others, **named)
            record.write(step, samples, loss.item(), model)
            self.batches += 1
            record.after(self.batches)
            return loss

        def prediction_step(self, model: Any, inputs: Any, *others: Any, **named: Any) -> Any:
            assert isinstance(self.callback_handler.eval_dataloader, PreparedLoader) is not is_torchs
            numbers = torch.tensor(samples_of(inputs))
            self.evaluated += self.accelerator.gather_for_metrics(numbers).tolist()
            return super().prediction_step(model, inputs, *others, **named)

        def evaluate(self, *given: Any, **named: Any) -> Any:
            self.evaluated.clear()
            found = super().evaluate(*given, **named)
            if self.accelerator.is_main_process:
                record.evaluated(self.evaluated)
            return found

    record = Record(path, stop)
    words = Tokenizer(models.WordLevel(WORDS, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    if not is_torchs:
        arguments["loader_arguments"] = given.pop("loader_arguments", {})
    lengths = {"max_completion_length": 6, "num_generations": 2} if kind == "grpo" else {"max_length": 16}
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "num_train_epochs": EPOCHS,
        "learning_rate": 0.01,
        "save_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": given.get("save_steps", 2) * 2,
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
        eval_dataset=arguments["train_dataset"].select(range(EVALUATED)),
        **arguments,
    )
    Noted.reads = f"{path}-reads"
    trainer.train_dataset.__class__ = Noted
    trainer.train(resume_from_checkpoint=resumes)

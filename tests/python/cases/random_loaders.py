"""Random loaders, each determined by its number, so that torch's loader, ours, and a second run get the same one."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import numpy
import torch

from doubles.datasets import (
    BatchedRows,
    Failing,
    OwnTensorDataset,
    Plain,
    RandomRows,
    Rows,
    SizedStream,
    Stream,
    as_list,
    summed,
)

TENSOR_DTYPES = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16, torch.complex64]
ARRAY_DTYPES = ["f4", "f8", "i8", "u1", "?", "f2", "u2", "F", ">f4", "u8", "U3"]
LAYOUTS = ["plain", "transposed", "step", "offset", "expanded"]


class Draw:
    """One random loader and how it is used; `str()` describes it."""

    def __init__(self, number: int) -> None:
        self.number = number
        choose = random.Random(number)
        self.seed = choose.randrange(2**40)
        self.data_seed = choose.randrange(2**40)
        self.size = choose.choice([1, 2, 3, 5, 8, 13, 21, 34])
        self.kind = choose.choices(["native", "python", "iterable"], [7, 3, 1])[0]
        self.num_workers = choose.choice([1, 2, 3]) if self.kind == "native" and choose.random() < 0.02 else 0
        self.arguments = self._arguments(choose)
        self.generator_seed = choose.randrange(2**40) if choose.random() < 0.4 else None
        self.asks_length = choose.random() < 0.5
        self.limits = [choose.choice([None, None, None, 0, 1, 2, 4]) for _ in range(choose.choice([1, 1, 2, 2, 3]))]
        if self.num_workers:
            # Torch's workers prefetch, so an epoch left early advances the generators further than the batches read.
            self.limits = [None] * (len(self.limits) - 1) + [choose.choice([None, 1, 2])]
        self.sampler = self._sampler_kind(choose)

    def settles(self, limit: int | None) -> bool:
        """Return True if the generators' states depend on the batches read, not on workers that prefetch."""
        return self.num_workers == 0 or limit is None

    def __str__(self) -> str:
        facts = {name: value for name, value in vars(self).items() if name != "number"}
        return f"{facts}, dataset: {describe(self.dataset(torch.utils.data))}"

    def dataset(self, package: ModuleType) -> Any:
        """Return the dataset; it has its own generators, so that building it draws nothing from the seed of the run."""
        choose = random.Random(self.data_seed)
        state = torch.get_rng_state()
        torch.manual_seed(self.data_seed)
        try:
            if self.kind == "native":
                return native(package, choose, self.size, choose.choice([0, 0, 1, 1, 2, 3]))
            return python(choose, self.size, self.kind)
        finally:
            torch.set_rng_state(state)

    def loader(self, package: ModuleType) -> Any:
        dataset = self.dataset(package)
        arguments = dict(self.arguments)
        if self.generator_seed is not None:
            arguments["generator"] = torch.Generator().manual_seed(self.generator_seed)
        if self.sampler is not None:
            arguments |= self._sampler(package, dataset, arguments)
        return package.DataLoader(dataset, num_workers=self.num_workers, **arguments)

    def _arguments(self, choose: random.Random) -> dict[str, Any]:
        arguments: dict[str, Any] = {"batch_size": choose.choice([None, 1, 2, 2, 3, 4, 7, 16, 64])}
        if choose.random() < 0.3:
            arguments["drop_last"] = True
        if choose.random() < 0.4:
            arguments["shuffle"] = True
        if choose.random() < 0.2:
            arguments["collate_fn"] = choose.choice([as_list, summed, tuple, torch.utils.data.default_convert])
        if self.num_workers and choose.random() < 0.3:
            arguments["persistent_workers"] = True
        if self.num_workers and choose.random() < 0.3:
            arguments["prefetch_factor"] = choose.choice([1, 3])
        return arguments

    def _sampler_kind(self, choose: random.Random) -> str | None:
        if choose.random() < 0.5 or self.kind == "iterable":
            return None
        # Usually omit the arguments that exclude a sampler: a refused combination ends the draw at its first step.
        if choose.random() < 0.9:
            self.arguments.pop("shuffle", None)
        kinds = [
            "range",
            "list",
            "random",
            "replacement",
            "longer",
            "subset",
            "weighted",
            "odd",
            "batches",
            "batch sampler",
        ]
        kind = choose.choice(kinds)
        if kind in ("batches", "batch sampler") and choose.random() < 0.9:
            self.arguments.pop("batch_size", None)
            self.arguments.pop("drop_last", None)
        return kind

    def _sampler(self, package: ModuleType, dataset: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        choose = random.Random(self.number + 1)
        size = len(dataset)
        generator = arguments.get("generator") if choose.random() < 0.7 else None
        some = [choose.randrange(-size, size) for _ in range(choose.randrange(1, 20))] if size else []
        if choose.random() < 0.1:
            some.insert(choose.randrange(len(some) + 1), choose.choice([size, -size - 1, 10 * size + 5]))
        odd = [numpy.int64, torch.tensor, int, lambda index: numpy.array(index), bool]
        makers: dict[str, Any] = {
            "range": lambda: range(0, size, 2),
            "list": lambda: some,
            "random": lambda: package.RandomSampler(dataset, generator=generator),
            "replacement": lambda: package.RandomSampler(dataset, True, choose.choice([None, 40]), generator),
            "longer": lambda: package.RandomSampler(dataset, num_samples=2 * size + 1, generator=generator),
            "subset": lambda: package.SubsetRandomSampler(range(size), generator),
            "weighted": lambda: package.WeightedRandomSampler(
                [1.0 + i % 3 for i in range(size)], 9, generator=generator
            ),
            "odd": lambda: [choose.choice(odd)(index) for index in some],
            "batches": lambda: [some[start : start + 3] for start in range(0, len(some), 3)],
            "batch sampler": lambda: package.BatchSampler(
                package.RandomSampler(dataset, generator=generator), 3, False
            ),
        }
        name = "batch_sampler" if self.sampler in ("batches", "batch sampler") else "sampler"
        return {name: makers[self.sampler]()}


def describe(dataset: Any) -> str:
    name = type(dataset).__name__
    if isinstance(dataset, torch.Tensor):
        return f"{name}({dataset.dtype}, {tuple(dataset.shape)}, strides {dataset.stride()})"
    if isinstance(dataset, numpy.ndarray):
        return f"{name}({dataset.dtype}, {dataset.shape}, strides {dataset.strides})"
    if isinstance(dataset, torch.utils.data.Subset):
        return f"{name}({describe(dataset.dataset)}, {dataset.indices!r})"
    parts = getattr(dataset, "tensors", None) or getattr(dataset, "datasets", ())
    if isinstance(parts, dict):
        return f"{name}({', '.join(f'{key}={describe(part)}' for key, part in parts.items())})"
    return f"{name}({', '.join(describe(part) for part in parts)})"


def native(package: ModuleType, choose: random.Random, size: int, depth: int) -> Any:
    """Return a native dataset of this size, with `depth` nested combinators."""
    if depth == 0:
        count = choose.choice([1, 1, 2, 3])
        return choose.choices(
            [
                lambda: package.TensorDataset(*(tensor(choose, size) for _ in range(count))),
                lambda: tensor(choose, size),
                lambda: array(choose, size),
                lambda: OwnTensorDataset(torch.randn(size, 2)),
            ],
            [10, 4, 5, 1],
        )[0]()
    kind = choose.choice(["subset", "concat", "stack", "named", "split"])
    if kind == "subset":
        parent_size = size + choose.randrange(6)
        indices = [choose.randrange(-parent_size, parent_size) for _ in range(size)]
        container = choose.choice([list, list, tuple, torch.tensor, numpy.array])
        return package.Subset(native(package, choose, parent_size, depth - 1), container(indices))
    if kind == "split":
        rest = choose.randrange(4)
        return package.random_split(native(package, choose, size + rest, depth - 1), [size, rest])[0]
    if kind == "concat":
        return concat(package, choose, size, depth)
    parts = [native(package, choose, size, depth - 1) for _ in range(choose.choice([1, 2, 3]))]
    return (
        package.StackDataset(**dict(zip("abc", parts, strict=False)))
        if kind == "named"
        else package.StackDataset(*parts)
    )


def concat(package: ModuleType, choose: random.Random, size: int, depth: int) -> Any:
    cuts = sorted(choose.randrange(size + 1) for _ in range(choose.choice([0, 1, 2])))
    sizes = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
    # The parts usually have the same make: otherwise nearly every concatenation is an error.
    make = choose.randrange(2**40) if choose.random() < 0.8 else None
    parts = []
    for part_size in sizes:
        inner = random.Random(make) if make is not None else choose
        parts.append(native(package, inner, part_size, depth - 1))
    return package.ConcatDataset(parts)


def shape_of(choose: random.Random) -> list[int]:
    return [
        choose.choice([1, 2, 3, 0] if choose.random() < 0.1 else [1, 2, 3])
        for _ in range(choose.choice([0, 1, 1, 2, 3, 4]))
    ]


def tensor(choose: random.Random, size: int) -> torch.Tensor:
    dtype, layout, shape = choose.choice(TENSOR_DTYPES), choose.choice(LAYOUTS), shape_of(choose)

    def filled(*dimensions: int) -> torch.Tensor:
        count = torch.Size(dimensions).numel() * dtype.itemsize
        raw = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8)
        return raw.view(dtype).view(dimensions)

    if layout == "transposed":
        return filled(*reversed(shape), size).permute(*range(len(shape), -1, -1))
    if layout == "step":
        return filled(2 * size, *shape)[::2]
    if layout == "offset":
        return filled(size + 3, *shape)[2 : size + 2]
    if layout == "expanded":
        return filled(1, *shape).expand(size, *shape)
    if len(shape) == 4 and choose.random() < 0.5:
        first, second, third, fourth = shape
        return filled(size, first, third, fourth, second).permute(0, 1, 4, 2, 3)
    return filled(size, *shape)


def array(choose: random.Random, size: int) -> numpy.ndarray:
    shape, code = shape_of(choose), choose.choice(ARRAY_DTYPES)
    values = numpy.random.RandomState(choose.randrange(2**32)).randint(0, 100, [2 * size, *shape]).astype(code)
    picked = choose.choice(["plain", "step", "backwards", "fortran"])
    if picked == "step":
        return values[::2]
    if picked == "backwards":
        return values[:size][::-1]
    return numpy.asfortranarray(values[:size]) if picked == "fortran" else values[:size]


def python(choose: random.Random, size: int, kind: str) -> Any:
    if kind == "iterable":
        return choose.choice(
            [
                lambda: Stream(size),
                lambda: SizedStream(size),
                lambda: Stream(size, fail_at=choose.randrange(size)),
                lambda: torch.utils.data.ChainDataset([Stream(2), SizedStream(size)]),
            ]
        )()
    return choose.choice(
        [
            lambda: Rows(size),
            lambda: BatchedRows(size),
            lambda: Plain(size),
            lambda: RandomRows(size),
            lambda: list(range(size)),
            lambda: [{"a": float(item), "b": (item, str(item))} for item in range(size)],
            lambda: Failing(size, bad={choose.randrange(size)}),
            lambda: torch.utils.data.Subset(Rows(size), list(range(size))),
            lambda: torch.utils.data.ConcatDataset([Rows(size), Rows(2)]),
            lambda: torch.utils.data.StackDataset(a=Rows(size), b=list(range(size))),
        ]
    )()

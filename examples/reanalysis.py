"""Train a small network on windows of a reanalysis: from the wind, it estimates the height of pressure levels.

    python examples/reanalysis.py FILE CHECKPOINT [--epochs 2]

FILE is a file of netCDF or HDF5 with the variables u, v, and z on dimensions that include latitude and longitude, such
as `eraint_uvz.nc` of https://github.com/pydata/xarray-data (ERA-Interim). CHECKPOINT is a file that holds the training
after each step: if the program is killed and started again, it continues with the batch after that, and prints the
losses that it would have printed without being killed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from sluicegate import DataLoader, Hdf5Dataset, statistics

WINDOW = {"latitude": 32, "longitude": 32}
STRIDE = {"latitude": 16, "longitude": 16}
INPUTS, TARGET = ("u", "v"), "z"


def fields(batch: Mapping[str, Tensor], names: tuple[str, ...], normal: Mapping[str, tuple[float, float]]) -> Tensor:
    """Return the normalized `names` of a batch as channels: (samples, channels, latitude, longitude), float32."""
    parts = [((batch[name] - normal[name][0]) / normal[name][1]).float() for name in names]
    return torch.cat([part.reshape(len(part), -1, *part.shape[-2:]) for part in parts], dim=1)


def main() -> None:
    """Train, and resume."""
    parser = argparse.ArgumentParser(description="Train a small network on windows of a reanalysis.")
    parser.add_argument("file", type=Path, help="a file of netCDF or HDF5 with u, v, and z")
    parser.add_argument("checkpoint", type=Path, help="where the training is saved after each step")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    dataset = Hdf5Dataset(args.file, [*INPUTS, TARGET], window=WINDOW, stride=STRIDE)
    # Each value is counted once: windows without overlap, and what is left at the ends.
    counted = statistics(Hdf5Dataset(args.file, [*INPUTS, TARGET], window={"latitude": 1}))
    normal = {name: (field.mean, field.std) for name, field in counted.items()}
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, seed=0)

    torch.manual_seed(0)
    first = next(iter(DataLoader(dataset, batch_size=1)))
    channels = [fields(first, names, normal).shape[1] for names in (INPUTS, (TARGET,))]
    model = nn.Sequential(nn.Conv2d(channels[0], 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, channels[1], 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    epoch, step = 0, 0
    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        epoch, step = saved["epoch"], saved["step"]
    while epoch < args.epochs:
        for batch in loader:
            loss = nn.functional.mse_loss(model(fields(batch, INPUTS, normal)), fields(batch, (TARGET,), normal))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"epoch {epoch} step {step} loss {loss.item():.9g}", flush=True)
            saved = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
                "epoch": epoch,
                "step": step,
            }
            part = args.checkpoint.with_suffix(".part")
            torch.save(saved, part)
            os.replace(part, args.checkpoint)
        epoch += 1
    print(f"trained on {len(dataset)} windows per epoch")


if __name__ == "__main__":
    main()

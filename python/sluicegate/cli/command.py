"""The command `sluicegate`: one subcommand per job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sluicegate import __version__


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"expected a name that ends in .png, got {text!r}")
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{str(path.absolute().parent)!r} is not a folder; create it first")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluicegate", description="A data loader for PyTorch with a Rust core.")
    parser.add_argument("--version", action="version", version=f"sluicegate {__version__}")
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    demo = jobs.add_parser(
        "demo",
        help="train a small CNN with torch's loader and with sluicegate's, kill and resume a training run, run two "
        "scripts",
        description="Train a small CNN on 6,000 photographs of clothes twice, once with torch's loader and once with "
        "sluicegate's, and compare losses, loading rate and waiting. Then train on a part of them, altered at random, "
        "kill the training process in the middle of an epoch, resume it in another, and compare with one that was not "
        "killed. Then run two scripts with torchvision's datasets and transforms, in memory and from JPEG files, with "
        "only the import changed. Exit code 1 when any losses differ.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    picture = Path("sluicegate-demo.png")
    demo.add_argument("--output", type=_picture, default=picture, metavar="FILE.png", help="path of the chart to write")
    demo.add_argument("--epochs", type=_positive, default=8, metavar="N", help="epochs per training run")
    demo.add_argument("--batch-size", type=_positive, default=64, metavar="N", help="batch size")
    demo.add_argument("--samples", type=_positive, default=6_000, metavar="N", help="training images, at most 6000")
    demo.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed for torch.manual_seed before each training run"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: that of the process) and return the exit code."""
    args = _parser().parse_args(argv)
    # Imported here because the demo needs torch and an extra; `--help` and `--version` need neither.
    from . import demo, demo_resume, demo_scripts

    settings = demo.Settings(
        output=args.output, epochs=args.epochs, batch_size=args.batch_size, samples=args.samples, seed=args.seed
    )
    try:
        equal_to_torch = demo.run(settings) == 0
        print()
        resumed_equal = demo_resume.run(settings) == 0
        print()
        equal_images = demo_scripts.run(settings) == 0
        return 0 if equal_to_torch and resumed_equal and equal_images else 1
    except demo.MissingExtraError as error:
        print(f"sluicegate demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sluicegate demo: interrupted", file=sys.stderr)
        return 130

"""A page that shows each of our transforms next to torchvision's, on a photograph, with the same draws.

    python benches/python/gallery.py gallery.html [--photograph FILE] [--width 240]

Torch has the same seed before each call. Below each pair are the largest and the mean difference in gray levels
(of 255); next to it is an image of the difference, amplified 32 times. The page is self-contained. Needs
torchvision and Pillow, and scikit-image unless a photograph is given. The exit code is 1 if a transform failed, or
returned an image of a different size.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
STRONGER = 32
STYLE = """
body { font: 15px/1.4 sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; color: #222; background: #fff }
h2 { font-size: 1em; font-family: monospace; margin: 2em 0 .3em; border-top: 1px solid #ccc; padding-top: .8em }
table { border-spacing: 8px 2px } td { vertical-align: top } img { display: block; max-width: 100% }
.what { color: #666; font-size: .85em } .far { color: #b00; font-weight: bold }
"""

Transform = Callable[[Any], Any]


@dataclass(frozen=True)
class Entry:
    """A transform, made from a module that has torchvision's names."""

    title: str
    make: Callable[[Any], Transform]
    draws: int = 1
    """How many seeds are shown."""
    of_floats: bool = False
    of_batches: bool = False
    limit: float = 1.0
    """The largest difference, in gray levels, that is not marked."""


def _named(name: str, *arguments: Any, draws: int = 1, **named: Any) -> Entry:
    words = [repr(argument) for argument in arguments] + [f"{key}={value!r}" for key, value in named.items()]
    return Entry(
        f"{name}({', '.join(words)})", lambda module: getattr(module, name)(*arguments, **_known(named)), draws
    )


def _known(named: dict[str, Any]) -> dict[str, Any]:
    """Convert interpolations to torchvision's enumeration, which both take."""
    from torchvision.transforms.v2 import InterpolationMode

    return {key: InterpolationMode(value) if key == "interpolation" else value for key, value in named.items()}


def _normalize(module: Any) -> Transform:
    transform = module.Compose([module.ToDtype(torch.float32, scale=True), module.Normalize(MEAN, STD)])
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    return lambda image: transform(image) * std + mean


def _mixed(name: str) -> Callable[[Any], Transform]:
    def make(module: Any) -> Transform:
        transform = getattr(module, name)(num_classes=2)

        def call(batch: Any) -> Any:
            images, labels = transform(batch, torch.tensor([0, 1]))
            assert labels.shape == (2, 2), f"labels of shape {tuple(labels.shape)}"
            return images[0]

        return call

    return make


def entries(height: int, width: int) -> list[Entry]:
    """Return all entries of the page."""
    small, large = (height * 3 // 5, width * 3 // 5), (height * 9 // 8, width * 9 // 8)
    crop = (height * 3 // 4, width // 2)
    return [
        *(
            _named("Resize", size, interpolation=interpolation, antialias=antialias)
            for interpolation, antialias in (
                ("nearest", True),
                ("nearest-exact", True),
                ("bilinear", True),
                ("bilinear", False),
                ("bicubic", True),
                ("bicubic", False),
                ("lanczos", True),
            )
            for size in (small, large)
        ),
        _named("CenterCrop", crop),
        _named("RandomCrop", crop, draws=2),
        _named("RandomCrop", (height, width), padding=20, padding_mode="reflect", draws=2),
        _named("RandomResizedCrop", 128, draws=3),
        _named("RandomResizedCrop", 128, interpolation="bicubic", draws=2),
        _named("RandomHorizontalFlip", p=1.0),
        _named("RandomVerticalFlip", p=1.0),
        *(_named("Pad", (30, 10), padding_mode=mode) for mode in ("constant", "edge", "reflect", "symmetric")),
        _named("Pad", 20, fill=(255, 128, 0)),
        _named("ColorJitter", brightness=0.5),
        _named("ColorJitter", contrast=0.5),
        _named("ColorJitter", saturation=0.8),
        _named("ColorJitter", hue=0.3),
        _named("ColorJitter", brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, draws=3),
        _named("RandomGrayscale", p=1.0),
        _named("GaussianBlur", 9, sigma=(0.5, 3.0), draws=2),
        _named("RandomErasing", p=1.0, draws=2),
        Entry(
            "RandomErasing(p=1.0, value='random'), of float32",
            lambda module: module.RandomErasing(p=1.0, value="random"),
            of_floats=True,
        ),
        Entry("Normalize(mean, std) of float32, shown without it", _normalize),
        _named("RandomRotation", 45, draws=2),
        _named("RandomRotation", 45, interpolation="bilinear", expand=True, draws=2),
        _named("RandomAffine", 30, translate=(0.1, 0.1), scale=(0.7, 1.3), shear=15, draws=2),
        _named("RandomAffine", 30, shear=(-10, 10, -10, 10), interpolation="bilinear", fill=127, draws=2),
        _named("TrivialAugmentWide", draws=8),
        _named("RandAugment", draws=4),
        Entry("MixUp(num_classes=2), the first of two images", _mixed("MixUp"), 2, of_floats=True, of_batches=True),
        Entry("CutMix(num_classes=2), the first of two images", _mixed("CutMix"), 2, of_floats=True, of_batches=True),
    ]


@dataclass(frozen=True)
class Pair:
    """Both results for a photograph."""

    theirs: Any
    ours: Any

    def difference(self) -> Any:
        """The absolute difference, in gray levels."""
        return (self.theirs - self.ours).abs()


def _levels(image: Any) -> Any:
    """Return floats from 0 to 255."""
    return image.double() * (255 if image.is_floating_point() else 1)


def compare(entry: Entry, theirs: Any, ours: Any, photograph: Any, seed: int) -> Pair:
    """Apply both, with the same draws."""
    image = photograph.float() / 255 if entry.of_floats else photograph
    if entry.of_batches:
        image = torch.stack([image, image.flip(-1, -2)])
    found = []
    for module in (theirs, ours):
        transform = entry.make(module)
        torch.manual_seed(seed)
        found.append(_levels(transform(image.clone())))
    if found[0].shape != found[1].shape:
        raise ValueError(f"shape {tuple(found[1].shape)}, but torchvision's is {tuple(found[0].shape)}")
    return Pair(*found)


def _picture(levels: Any) -> str:
    pixels = levels.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG", optimize=True)
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def _row(pair: Pair, limit: float) -> Iterator[str]:
    difference = pair.difference()
    largest, mean = float(difference.max()), float(difference.mean())
    kind = "far" if largest > limit else "what"
    yield "<tr>"
    for levels in (pair.theirs, pair.ours, difference * STRONGER):
        yield f"<td>{_picture(levels)}</td>"
    yield f'</tr><tr><td></td><td class="{kind}">largest {largest:.3g}, mean {mean:.3g}</td><td></td></tr>'


def page(photograph: Any, theirs: Any, ours: Any) -> tuple[str, list[str]]:
    """Return the page, and a line per transform with its differences in gray levels."""
    height, width = photograph.shape[-2:]
    body, lines = [f"<p>The photograph:</p>{_picture(_levels(photograph))}"], []
    for entry in entries(height, width):
        body.append(f"<h2>{html.escape(entry.title)}</h2><table><tr class=what>")
        body.append(f"<td>torchvision</td><td>sluicegate</td><td>difference, {STRONGER} times</td></tr>")
        worst, means, failure = 0.0, [], ""
        for seed in range(entry.draws):
            try:
                pair = compare(entry, theirs, ours, photograph, seed)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
                body.append(f'<tr><td colspan=3 class="far">{html.escape(failure)}</td></tr>')
                continue
            worst = max(worst, float(pair.difference().max()))
            means.append(float(pair.difference().mean()))
            body.extend(_row(pair, entry.limit))
        body.append("</table>")
        figures = f"largest {worst:.3g}, mean {sum(means) / max(1, len(means)):.3g}"
        lines.append(f"{entry.title}: {'failed: ' + failure if failure else figures}")
    head = f"<!doctype html><meta charset=utf-8><title>Transforms</title><style>{STYLE}</style>"
    return f"{head}<h1>Transforms, beside torchvision's</h1>{''.join(body)}\n", lines


def _photograph(path: Path | None, width: int) -> Any:
    if path is None:
        import skimage.data

        image = Image.fromarray(skimage.data.coffee())
    else:
        image = Image.open(path).convert("RGB")
    image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def main() -> int:
    """Write the page; print the differences of each transform."""
    parser = argparse.ArgumentParser(description="Our transforms beside torchvision's, as a page.")
    parser.add_argument("target", type=Path, help="the page")
    parser.add_argument("--photograph", type=Path, help="an image file (skimage.data.coffee)")
    parser.add_argument("--width", type=int, default=240, help="pixels that it is made wide (240)")
    args = parser.parse_args()

    from torchvision.transforms import v2

    from sluicegate import transforms

    text, lines = page(_photograph(args.photograph, args.width), v2, transforms)
    args.target.write_text(text)
    print("\n".join(lines))
    return 1 if any(": failed: " in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())

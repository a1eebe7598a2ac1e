"""The contenders of W3 that are not ours. Each has a function `make(photographs)`, for `protocol.Contender`.

A batch is `(images, classes)`. Each contender uses the means that its documentation gives for CPUs, with two threads
or processes; those without a crop or resize use OpenCV's, which is the fastest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from crops import MEAN, MEAN_255, RATIO, SCALE, SIZE, STD, STD_255, normalized, random_crop
from machine import CACHE
from photographs import JPEG, Photographs, make_whole, shards
from protocol import Epoch

BATCH_SIZE = 64
THREADS = 2

Make = Callable[[Photographs], Epoch]


def preset(*, of_pillow: bool) -> Any:
    """Return the transforms of torchvision's reference training, for Pillow images or for uint8 tensors."""
    import torch
    from torchvision.transforms import v2

    return v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, antialias=True),
            v2.RandomHorizontalFlip(),
            *([v2.PILToTensor()] if of_pillow else []),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def _decoded(path: str) -> Any:
    from torchvision.io import ImageReadMode, decode_image

    return decode_image(path, ImageReadMode.RGB)


def _torch_loader(dataset: Any, workers: int, collate: Callable[[Any], Any] | None = None) -> Epoch:
    from torch.utils.data import DataLoader

    loader: DataLoader[Any] = DataLoader(
        dataset, BATCH_SIZE, shuffle=True, num_workers=workers, persistent_workers=workers > 0, collate_fn=collate
    )
    return lambda: iter(loader)


def torchvision_pillow(workers: int) -> Make:
    """Torchvision's ImageFolder, unchanged."""

    def make(photographs: Photographs) -> Epoch:
        from torchvision.datasets import ImageFolder

        return _torch_loader(ImageFolder(photographs.root, preset(of_pillow=True)), workers)

    return make


def torchvision_decoder(workers: int) -> Make:
    """The same with torchvision's own decoder."""

    def make(photographs: Photographs) -> Epoch:
        from torchvision.datasets import ImageFolder

        return _torch_loader(ImageFolder(photographs.root, preset(of_pillow=False), loader=_decoded), workers)

    return make


def cropped_by_opencv(pixels: Any) -> Any:
    """Return a crop of decoded pixels, resized and possibly mirrored. OpenCV's bilinear kernel has no antialiasing."""
    import cv2

    left, top, width, height = random_crop(pixels.shape[1], pixels.shape[0])
    pixels = cv2.resize(pixels[top : top + height, left : left + width], (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(pixels, 1) if random.random() < 0.5 else pixels


def _read_by_opencv(path: str) -> Any:
    import cv2

    return cropped_by_opencv(cv2.imread(path, cv2.IMREAD_COLOR_RGB))


def _stacked(samples: list[tuple[Any, int]]) -> tuple[Any, Any]:
    import torch

    images, classes = zip(*samples, strict=True)
    return normalized(torch.from_numpy(np.stack(images))), torch.tensor(classes)


class _OpenCvFolder:
    """uint8 crops, which are normalized as a batch."""

    def __init__(self, photographs: Photographs) -> None:
        self._paths = photographs.paths()

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return _read_by_opencv(self._paths[index]), index


def opencv(workers: int) -> Make:
    """OpenCV for everything, without its own threads."""

    def make(photographs: Photographs) -> Epoch:
        import cv2

        cv2.setNumThreads(0)
        return _torch_loader(_OpenCvFolder(photographs), workers, _stacked)

    return make


def spdl(photographs: Photographs) -> Epoch:
    """Decode, crop, resize, and mirror with FFmpeg's filters, in pipeline threads that each make a batch."""
    import spdl.io
    import torch
    from spdl.pipeline import PipelineBuilder

    paths = photographs.paths()

    def order() -> Iterator[list[int]]:
        indices = list(range(len(paths)))
        random.shuffle(indices)
        return (indices[begin : begin + BATCH_SIZE] for begin in range(0, len(indices), BATCH_SIZE))

    def decode(index: int) -> Any:
        packets = spdl.io.demux_image(paths[index])
        left, top, width, height = random_crop(packets.width, packets.height)
        mirror = ",hflip" if random.random() < 0.5 else ""
        filters = (
            f"crop={width}:{height}:{left}:{top}:exact=1,scale={SIZE}:{SIZE}:flags=bilinear{mirror},"
            "format=pix_fmts=rgb24"
        )
        return spdl.io.decode_packets(packets, filter_desc=filters)

    def batch(indices: list[int]) -> tuple[Any, Any]:
        images = spdl.io.to_torch(spdl.io.convert_frames([decode(index) for index in indices]))
        return normalized(images), torch.tensor(indices)

    def epoch() -> Iterator[Any]:
        pipeline = (
            PipelineBuilder()
            .add_source(order())
            .pipe(batch, concurrency=THREADS)
            .add_sink(2)
            .build(num_threads=THREADS)
        )
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


def dali(photographs: Photographs) -> Epoch:
    """DALI without a GPU: its decoder reads only the crop."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy
    from nvidia.dali.plugin.pytorch import DALIClassificationIterator

    paths = photographs.paths()

    @pipeline_def(batch_size=BATCH_SIZE, num_threads=THREADS, device_id=None, seed=7)  # type: ignore[untyped-decorator]
    def pipeline() -> tuple[Any, Any]:
        encoded, classes = fn.readers.file(
            files=paths, labels=list(range(len(paths))), shuffle_after_epoch=True, name="photographs"
        )
        images = fn.decoders.image_random_crop(
            encoded,
            device="cpu",
            output_type=types.RGB,
            random_area=list(SCALE),
            random_aspect_ratio=list(RATIO),
        )
        images = fn.resize(images, resize_x=SIZE, resize_y=SIZE, interp_type=types.INTERP_LINEAR)
        mirror = fn.random.coin_flip(probability=0.5)
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN_255, std=STD_255, mirror=mirror
        )
        return images, classes

    def iterator() -> Any:
        return DALIClassificationIterator(
            pipeline(), reader_name="photographs", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
        )

    kept: list[Any] = [iterator()]

    def epoch() -> Iterator[Any]:
        # An epoch that was cut short can't be restarted, so the next one needs a new pipeline.
        batches = kept.pop() if kept else iterator()
        for (batch,) in batches:
            yield batch["data"], batch["label"]
        kept.append(batches)

    return epoch


_BETON = CACHE / f"w3-{JPEG.count}-ffcv"


def write_ffcv() -> None:
    """Write the photographs in FFCV's format, as JPEG again, in their original size."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Decoded:
        def __len__(self) -> int:
            return JPEG.count

        def __getitem__(self, index: int) -> tuple[Any, int]:
            with Image.open(JPEG.path(index)) as image:
                return image.convert("RGB"), index

    def write(folder: Path) -> None:
        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
        DatasetWriter(str(folder / "photographs.beton"), fields, num_workers=1).from_indexed_dataset(Decoded())

    make_whole(_BETON, write)


def ffcv(_photographs: Photographs) -> Epoch:
    """FFCV's own format and compiled pipeline, in two threads."""
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage

    loader = Loader(
        str(_BETON / "photographs.beton"),
        batch_size=BATCH_SIZE,
        num_workers=THREADS,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        pipelines={
            "image": [
                RandomResizedCropRGBImageDecoder((SIZE, SIZE), scale=SCALE, ratio=RATIO),
                RandomHorizontalFlip(),
                NormalizeImage(np.array(MEAN_255), np.array(STD_255), np.float32),
                ToTensor(),
                ToTorchImage(convert_back_int16=False),
            ],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )
    return lambda: iter(loader)


def grain(photographs: Photographs) -> Epoch:
    """Grain's threads with OpenCV."""
    import cv2
    import grain.python as grain
    import torch

    cv2.setNumThreads(0)
    paths = photographs.paths()

    def sample(index: int) -> tuple[Any, int]:
        return _read_by_opencv(paths[index]), index

    dataset = (
        grain.MapDataset.source(range(len(paths)))
        .shuffle(seed=7)
        .map(sample)
        .to_iter_dataset(grain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=2 * BATCH_SIZE))
        .batch(BATCH_SIZE)
    )

    def epoch() -> Iterator[Any]:
        for images, classes in dataset:
            yield normalized(torch.from_numpy(images)), classes

    return epoch


def mlx_data(photographs: Photographs) -> Epoch:
    """MLX Data's own decoder, crop, and resize, in threads that make whole batches."""
    import mlx.data
    import torch

    files = [{"image": path.encode(), "label": index} for index, path in enumerate(photographs.paths())]
    buffer = mlx.data.buffer_from_vector(files)

    def epoch() -> Iterator[Any]:
        stream = (
            buffer.shuffle()
            .to_stream()
            .load_image("image")
            .image_random_area_crop("image", SCALE, RATIO)
            .image_resize("image", SIZE, SIZE)
            .image_random_h_flip("image", 0.5)
            .batch(BATCH_SIZE)
            .prefetch(2 * THREADS, THREADS)
        )
        for batch in stream:
            yield normalized(torch.from_numpy(np.asarray(batch["image"]))), batch["label"]

    return epoch


def webdataset(_photographs: Photographs) -> Epoch:
    """Tar archives, torchvision's decoder and transforms, two worker processes."""
    import torch
    import webdataset
    from torchvision.io import ImageReadMode, decode_image

    transforms = preset(of_pillow=False)
    archives = shards()

    def image(encoded: bytes) -> Any:
        return transforms(decode_image(torch.frombuffer(bytearray(encoded), dtype=torch.uint8), ImageReadMode.RGB))

    dataset = (
        webdataset.WebDataset(archives, shardshuffle=len(archives))
        .shuffle(1_000)
        .to_tuple("jpg", "cls")
        .map_tuple(image, int)
        .batched(BATCH_SIZE)
    )
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    return lambda: iter(loader)


_LITDATA = CACHE / f"w3-{JPEG.count}-litdata"


def write_litdata() -> None:
    """Write the JPEG files as LitData's chunks."""
    from litdata.streaming.writer import BinaryWriter

    def write(folder: Path) -> None:
        writer = BinaryWriter(str(folder), chunk_bytes="64MB")
        for index in range(JPEG.count):
            writer[index] = {"image": JPEG.path(index).read_bytes(), "label": index}
        writer.done()
        writer.merge()

    make_whole(_LITDATA, write)


def litdata(_photographs: Photographs) -> Epoch:
    """LitData's chunks, torchvision's decoder and transforms, two worker processes."""
    import litdata
    import torch
    from torchvision.io import ImageReadMode, decode_image

    transforms = preset(of_pillow=False)

    class Images(litdata.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> tuple[Any, int]:
            sample = super().__getitem__(index)
            encoded = torch.frombuffer(bytearray(sample["image"]), dtype=torch.uint8)
            return transforms(decode_image(encoded, ImageReadMode.RGB)), sample["label"]

    dataset = Images(str(_LITDATA), shuffle=True, seed=7)
    loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=2, persistent_workers=True)
    return lambda: iter(loader)

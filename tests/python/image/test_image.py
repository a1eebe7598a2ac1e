"""`decode_image`: Pillow's values for every kind of file, and errors that name the problem."""

import io
import pathlib
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, ImageOps

from checks.pillow import pillows
from doubles.photographs import encoded
from sluicegate import decode_image

SHARED = pathlib.Path(__file__).parents[4] / "shared" / "data" / "jpeg"


def photograph(width: int = 53, height: int = 41, channels: int = 3) -> np.ndarray:
    """Return an image with edges, gradients, and noise, which encoders treat differently."""
    y, x = np.mgrid[:height, :width]
    generator = np.random.default_rng(5)
    planes = [
        127 + 60 * np.sin(x / (4 + plane)) + 50 * np.cos(y / (3 + plane)) + generator.normal(0, 8, (height, width))
        for plane in range(channels)
    ]
    image = np.stack(planes, axis=-1).clip(0, 255).astype(np.uint8)
    image[height // 3 : height // 2, width // 4 : width // 2] = 255
    return image if channels > 1 else image[..., 0]


RGB = Image.fromarray(photograph())
GRAY = Image.fromarray(photograph(channels=1))
RGBA = Image.fromarray(photograph(channels=4))
GRAY_ALPHA = Image.fromarray(photograph(channels=2), "LA")
ONE_BIT = GRAY.convert("1")
PALETTE = RGB.quantize(37)
CMYK = RGB.convert("CMYK")

FILES = {
    **{
        f"jpeg-{name}": encoded(RGB, "jpeg", quality=85, subsampling=sub)
        for name, sub in zip(("444", "422", "420"), range(3), strict=True)
    },
    "jpeg-progressive": encoded(RGB, "jpeg", progressive=True),
    "jpeg-restarts": encoded(RGB, "jpeg", restart_marker_blocks=3),
    "jpeg-gray": encoded(GRAY, "jpeg"),
    "jpeg-cmyk": encoded(CMYK, "jpeg", quality=90),
    "png": encoded(RGB, "png"),
    "png-gray": encoded(GRAY, "png"),
    "png-alpha": encoded(RGBA, "png"),
    "png-gray-alpha": encoded(GRAY_ALPHA, "png"),
    "png-palette": encoded(PALETTE, "png"),
    "png-one-bit": encoded(ONE_BIT, "png"),
    "webp-lossless": encoded(RGB, "webp", lossless=True),
    "webp-alpha": encoded(RGBA, "webp", lossless=True, exact=True),
    "bmp": encoded(RGB, "bmp"),
    "bmp-palette": encoded(PALETTE, "bmp"),
    "bmp-one-bit": encoded(ONE_BIT, "bmp"),
    "gif": encoded(PALETTE, "gif"),
    "gif-frames": encoded(PALETTE, "gif", save_all=True, append_images=[PALETTE.rotate(180)]),
    "tiff": encoded(RGB, "tiff"),
    "tiff-lzw": encoded(RGB, "tiff", compression="tiff_lzw"),
    "tiff-deflate": encoded(GRAY, "tiff", compression="tiff_adobe_deflate"),
    "ppm": encoded(RGB, "ppm"),
    "pgm": encoded(GRAY, "ppm"),
}


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
@pytest.mark.parametrize("name", FILES)
def test_values_are_pillows(name, mode):
    found = decode_image(FILES[name], mode)
    assert found.dtype == torch.uint8
    assert torch.equal(found, pillows(FILES[name], mode))


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_lossy_webp_differs_by_a_gray_level_at_most(mode):
    data = encoded(RGB, "webp", quality=80)
    assert (decode_image(data, mode).int() - pillows(data, mode).int()).abs().max() <= 1


@pytest.mark.parametrize(
    ("name", "channels"),
    [("jpeg-gray", 1), ("jpeg-420", 3), ("jpeg-cmyk", 3), ("png-gray-alpha", 2), ("png-alpha", 4), ("png-palette", 3)],
)
def test_unchanged_has_the_channels_that_are_stored(name, channels):
    found = decode_image(FILES[name], "unchanged")
    assert found.shape == (channels, 41, 53)
    stored = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
    assert torch.equal(found, pillows(FILES[name], stored))


def test_sixteen_bits_are_kept_or_the_upper_eight():
    values = (np.arange(53 * 41, dtype=np.uint32) * 29 % 65536).astype(np.uint16).reshape(41, 53)
    data = encoded(Image.fromarray(values), "png")
    kept = decode_image(data, "unchanged")
    assert kept.dtype == torch.uint16
    assert np.array_equal(kept[0].numpy(), values)
    assert np.array_equal(decode_image(data, "L")[0].numpy(), values >> 8)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["jpeg", "png", "webp", "tiff"])
def test_exif_orientation_rotates_the_image(orientation, format):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if format == "webp" else {}
    data = encoded(RGB, format, exif=exif, **options)
    upright = np.array(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert np.array_equal(decode_image(data, exif_orientation=True).permute(1, 2, 0).numpy(), upright)
    # A TIFF is rotated in any case, as by Pillow.
    assert torch.equal(decode_image(data), pillows(data, "RGB"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="there are no real images beside the checkout")
def test_real_files_are_pillows():
    names = [path for path in sorted(SHARED.iterdir()) if path.suffix in (".jpg", ".png", ".bmp")]
    assert len(names) > 8
    for path in names:
        data = path.read_bytes()
        try:
            expected = pillows(data, "RGB")
        except Exception:  # arithmetic coding, which Pillow's library may lack
            continue
        with Image.open(path) as image:
            if image.mode.startswith("I"):
                continue  # 16 bits: Pillow clips them at 255.
        assert torch.equal(decode_image(path), expected), path.name


def test_bytes_may_come_from_anywhere():
    data = FILES["jpeg-420"]
    expected = decode_image(data)
    views = [
        bytearray(data),
        memoryview(data),
        np.frombuffer(data, np.uint8),
        torch.tensor(list(data), dtype=torch.uint8),
    ]
    for view in views:
        assert torch.equal(decode_image(view), expected)


def test_errors_of_decode_image_name_the_path(tmp_path):
    path = tmp_path / "cut.jpg"
    path.write_bytes(FILES["jpeg-420"][:-200])
    with pytest.raises(ValueError, match=r"cut\.jpg: the image is truncated \(Premature end"):
        decode_image(path)
    with pytest.raises(FileNotFoundError):
        decode_image(tmp_path / "none.jpg")
    with pytest.raises(TypeError, match="but got int"):
        decode_image(3)


def test_the_intact_part_of_a_truncated_jpeg_equals_pillows(monkeypatch):
    data = FILES["jpeg-420"]
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for end in (len(data) // 2, len(data) * 3 // 4, len(data) - 30):
        found = decode_image(data[:end], truncated="fill")
        # Pillow stops after the last complete rows, and leaves the rest black; we fill it with gray.
        rows = pillows(data[:end], "RGB")
        assert torch.equal(found[:, :8], rows[:, :8])
        with pytest.raises(ValueError, match='truncated="fill"'):
            decode_image(data[:end])


def test_stray_bytes_in_a_jpeg_are_ignored():
    data = FILES["jpeg-444"]
    assert data.endswith(b"\xff\xd9")
    noisy = data[:-2] + b"\x00" * 7 + b"\xff\xd9"
    assert torch.equal(decode_image(noisy), pillows(noisy, "RGB"))


def test_odd_values_in_unused_header_fields_are_ignored():
    data = bytearray(FILES["jpeg-420"])
    assert data[6:11] == b"JFIF\0"
    data[11] = 9
    odd = [bytes(data)]
    data = bytearray(FILES["jpeg-444"])
    scan = data.index(b"\xff\xda")
    data[scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big") - 2] = 30
    odd.append(bytes(data))
    for each in odd:
        assert each not in FILES.values()
        assert torch.equal(decode_image(each), pillows(each, "RGB"))
    with pytest.raises(ValueError, match="the image is"):
        decode_image(odd[0][:-30])


@pytest.mark.parametrize("name", FILES)
def test_damage_is_an_error_or_an_image_of_the_same_size(name):
    data = bytearray(FILES[name])
    generator = np.random.default_rng(7)
    refused = 0
    for end in generator.integers(0, len(data), 40):
        try:
            decode_image(bytes(data[:end]))
        except ValueError:
            refused += 1
    for _ in range(60):
        damaged = bytearray(data)
        place = int(generator.integers(0, len(data)))
        damaged[place] ^= 1 << int(generator.integers(0, 8))
        try:
            decode_image(bytes(damaged), max_pixels=10_000_000)
        except ValueError:
            refused += 1
    assert refused >= 20


def bomb(width: int, height: int) -> bytes:
    """Return a PNG whose header promises far more pixels than its few bytes contain."""
    data = bytearray(FILES["png-gray"])
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def test_max_pixels_bounds_the_memory_of_small_files():
    with pytest.raises(ValueError, match=r"100000 x 100000 pixels.*max_pixels is 178956970"):
        decode_image(bomb(100_000, 100_000))
    with pytest.raises(ValueError, match="can't be decoded as PNG"):
        decode_image(bomb(300, 300))
    with pytest.raises(ValueError, match="max_pixels is 2000"):
        decode_image(FILES["jpeg-420"], max_pixels=2_000)


@pytest.mark.parametrize(
    "data", [b"", b"text", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"BM", b"GIF89a"]
)
def test_data_that_is_not_an_image_is_an_error(data):
    with pytest.raises(ValueError, match=r"it has no bytes|no image|not a JPEG|can't be decoded as"):
        decode_image(data)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="mode: expected 'RGB'"):
        decode_image(FILES["png"], "rgb")
    with pytest.raises(ValueError, match="truncated: expected"):
        decode_image(FILES["png"], truncated="no")
    with pytest.raises(ValueError, match="max_pixels: expected"):
        decode_image(FILES["png"], max_pixels=0)

"""Files of one format given to the reader of another: it recognizes the header and names the format in its error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doubles.tfrecord_files import put as put_tfrecord
from sluicegate import (
    ArrowDataset,
    CsvDataset,
    CsvStream,
    JsonLinesDataset,
    JsonLinesStream,
    NpyDataset,
    ParquetDataset,
    RawDataset,
    RawStream,
    SafetensorsDataset,
    TarDataset,
    TFRecordDataset,
    TokenDocumentsDataset,
    TokensDataset,
)

pa = pytest.importorskip("pyarrow")
safetensors = pytest.importorskip("safetensors.numpy")
image = pytest.importorskip("PIL.Image")

TOKENS = np.arange(500, 1524) % 50_257


def llm_c(tokens: Any, magic: int, version: int, dtype: str) -> bytes:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(tokens)
    return bytes(header.tobytes() + np.asarray(tokens).astype(f"<{dtype}").tobytes())


def npy(tokens: Any, dtype: str) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(tokens).astype(dtype))
    return file.getvalue()


HEADERS: dict[str, bytes] = {
    "llm.c": llm_c(TOKENS, 20240520, 1, "u2"),
    "llm.c, llama 3": llm_c(TOKENS, 20240801, 7, "u4"),
    **{f"npy {dtype}": npy(TOKENS, dtype) for dtype in ("u2", "i4", "u4", "i8")},
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("suffix", ["bin", "npy"])
def test_headers_are_not_tokens(tmp_path: Path, name: str, suffix: str) -> None:
    (path := tmp_path / f"train.{suffix}").write_bytes(HEADERS[name])
    (tmp_path / f"val.{suffix}").write_bytes(HEADERS[name])
    paths = [path, tmp_path / f"val.{suffix}"]
    dataset = TokensDataset(paths, 64, output="tensor")
    expected = [TOKENS[start : start + 65].tolist() for start in range(0, 960, 64)]
    assert [sample.tolist() for sample in dataset] == expected * 2
    documents = TokenDocumentsDataset(paths)
    assert documents.lengths.tolist() == [1024, 1024]
    assert documents[1].tolist() == TOKENS.tolist()
    # With an explicit offset, headers are not recognized.
    raw = TokensDataset(path, 64, "uint8", offset=2, output="tensor")
    assert raw[0].tolist() == list(HEADERS[name][2:67])


def test_a_data_type_that_the_header_does_not_have_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "a.bin").write_bytes(HEADERS["llm.c"])
    TokensDataset(path, 4, dtype="uint16")
    with pytest.raises(ValueError, match=r"dtype: expected uint16, which .* says, but got 'uint32'; leave it out"):
        TokensDataset(path, 4, dtype="uint32")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (HEADERS["llm.c"][:-2], "the header declares 1024 uint16 tokens after 1024 bytes"),
        (HEADERS["llm.c"] + b"xx", "the header declares 1024 uint16 tokens, but the file has 2050 bytes"),
        (HEADERS["llm.c"][:600], "the file is truncated"),
        (llm_c(TOKENS, 20240520, 2, "u2"), r"version 2 of llm\.c's token files is not supported"),
        (llm_c([], 20240520, 1, "u2"), "the header declares 0 tokens"),
        (HEADERS["npy u2"][:-2], "the header declares 1024 uint16 tokens after 128 bytes"),
        (npy([], "u2"), "the header declares 0 tokens"),
        (npy([[1, 2], [3, 4]], "u2"), r"the array has the shape \[2, 2\]; save array.reshape\(-1\)"),
        (npy([1.5], "f4"), "tokens must be integers that fit into int64, but the array has float32"),
        (llm_c(TOKENS, 20240522, 1, "u2"), r"the file is an llm\.c evaluation file"),
        (b"Once upon a time there was a text that was not tokenized. " * 2, "the file is text, not tokens"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, contents: bytes, message: str) -> None:
    (path := tmp_path / "a.bin").write_bytes(contents)
    with pytest.raises(ValueError, match=rf"a\.bin.*{message}"):
        TokensDataset(path, 1)


def archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as found:
        found.addfile(tarfile.TarInfo("a.txt"))
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=TOKENS)
    return file.getvalue()


def saved(**arguments: Any) -> bytes:
    file = io.BytesIO()
    torch.save(torch.arange(4), file, **arguments)
    return file.getvalue()


def arrow() -> bytes:
    file = io.BytesIO()
    table = pa.table({"x": [1, 2]})
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def parquet() -> bytes:
    file = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"x": [1, 2]}), file)
    return file.getvalue()


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    image.new("RGB", (9, 9)).save(file, kind)
    return file.getvalue()


def records(folder: Path) -> bytes:
    return Path(put_tfrecord(folder / "x.tfrecord", b"one", b"two")).read_bytes()


def database(folder: Path) -> bytes:
    connection = sqlite3.connect(folder / "x.db")
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()
    return (folder / "x.db").read_bytes()


OTHERS: dict[str, Callable[[Path], bytes]] = {
    "compressed with gzip": lambda _: gzip.compress(b"x,y\n1,2\n" * 9),
    "compressed with bzip2": lambda _: bz2.compress(b"x,y\n1,2\n" * 9),
    "compressed with xz": lambda _: lzma.compress(b"x,y\n1,2\n" * 9),
    "compressed with Zstandard": lambda _: bytes.fromhex("28b52ffd") + bytes(60),
    "a zip archive": lambda _: zipped(),
    "a zip archive ": lambda _: saved(),
    "a torch.save file": lambda _: saved(_use_new_zipfile_serialization=False),
    "a pickle": lambda _: pickle.dumps({"x": list(range(100))}),
    "a Parquet file": lambda _: parquet(),
    "an Arrow file": lambda _: arrow(),
    "a safetensors file": lambda _: safetensors.save({"x": np.zeros(4)}),
    "a TFRecord file": records,
    "a tar archive": lambda _: archive(),
    "a PNG image": lambda _: picture("PNG"),
    "a JPEG image": lambda _: picture("JPEG"),
    "a WebP image": lambda _: picture("WebP"),
    "an HDF5 file": lambda _: b"\x89HDF\r\n\x1a\n" + bytes(600),
    "a Megatron index": lambda _: b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 0, 1) + bytes(8),
    "an SQLite database": database,
    "a .npy file": lambda _: npy(TOKENS, "u2"),
    "an llm.c token file": lambda _: HEADERS["llm.c"],
}

# Each reader and the formats that it reads.
READERS: dict[str, tuple[Callable[[str], Any], set[str]]] = {
    "tokens": (lambda path: TokensDataset(path, 1, "uint8"), {"a .npy file", "an llm.c token file"}),
    "raw": (lambda path: RawDataset(path, dtype="u1"), set()),
    "csv": (lambda path: CsvDataset(path)[0], set()),
    "json lines": (lambda path: JsonLinesDataset(path)[0], set()),
    "npy": (NpyDataset, {"a .npy file"}),
    "parquet": (ParquetDataset, {"a Parquet file"}),
    "arrow": (ArrowDataset, {"an Arrow file"}),
    "tfrecord": (lambda path: TFRecordDataset(path)[0], {"a TFRecord file"}),
    "tar": (lambda path: TarDataset(path, {"txt": "bytes"}), {"a tar archive"}),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", OTHERS)
def test_another_format_is_named(tmp_path: Path, reader: str, kind: str) -> None:
    read, own = READERS[reader]
    if kind in own:
        return
    contents = OTHERS[kind](tmp_path)
    (path := tmp_path / "x.data").write_bytes(contents)
    # The tar reader accepts compressed archives, and has its own message for this.
    compressed = reader == "tar" and kind.startswith("compressed")
    message = "the archive is compressed" if compressed else f"the file is {kind.strip()}"
    with pytest.raises((ValueError, OSError), match=rf"x\.data.*{message}"):
        read(str(path))


STREAMS: dict[str, Callable[[str], Any]] = {
    "raw": lambda source: RawStream(source, dtype="u1"),
    "json lines": JsonLinesStream,
    "csv": CsvStream,
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", OTHERS)
def test_a_stream_names_another_format(tmp_path: Path, stream: str, kind: str) -> None:
    if stream != "raw" and kind.startswith("compressed"):
        return  # The stream decompresses it, or the error names the program that does.
    (path := tmp_path / "x.data").write_bytes(OTHERS[kind](tmp_path))
    with pytest.raises(ValueError, match=rf"x\.data.*the file is {kind.strip()}"):
        list(STREAMS[stream](str(path)))


@pytest.mark.parametrize("kind", OTHERS)
def test_a_pipe_names_another_format(tmp_path: Path, kind: str) -> None:
    (path := tmp_path / "x.data").write_bytes(OTHERS[kind](tmp_path))
    whole = RawStream(f"pipe:cat {path}", dtype="u1", shape=(512,))
    with pytest.raises(ValueError, match=rf"x\.data.*the file is {kind.strip()}"):
        next(iter(whole))


@pytest.mark.parametrize("kind", ["a .npy file", "an llm.c token file", "a zip archive", "a Parquet file"])
def test_a_pipe_of_small_samples_is_waited_for_until_a_signature_ends(tmp_path: Path, kind: str) -> None:
    contents = OTHERS[kind](tmp_path)
    (tmp_path / "start").write_bytes(contents[:2])
    (tmp_path / "rest").write_bytes(contents[2:])
    slow = RawStream(f"pipe:cat {tmp_path}/start; sleep 0.2; cat {tmp_path}/rest", dtype="u1")
    with pytest.raises(ValueError, match=f"the file is {kind}"):
        list(slow)


def test_a_stream_names_the_format_of_unpacked_data(tmp_path: Path) -> None:
    (path := tmp_path / "x.gz").write_bytes(gzip.compress(archive()))
    for stream in (CsvStream(path), RawStream(path, dtype="u1", unpack=True)):
        with pytest.raises(ValueError, match="the file is a tar archive"):
            list(stream)


def test_a_stream_of_a_format_with_a_described_header_is_read(tmp_path: Path) -> None:
    (path := tmp_path / "x.npy").write_bytes(npy(TOKENS, "u2"))
    assert [int(token) for token in RawStream(path, dtype="u2", header_bytes=128)] == TOKENS.tolist()


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "stream",
    [
        lambda source: RawStream(source, dtype="u1"),
        JsonLinesStream,
        lambda source: CsvStream(source, {"0": int}, header=False),
    ],
)
def test_recognizing_a_format_does_not_wait_for_more_data(stream: Callable[[str], Any]) -> None:
    samples = iter(stream("pipe:printf '1\\n'; sleep 1000"))
    assert next(samples) in ({"0": 1}, 1, ord("1"))


def test_raw_samples_after_a_header_of_any_kind(tmp_path: Path) -> None:
    (path := tmp_path / "x.npy").write_bytes(npy(TOKENS, "u2"))
    assert RawDataset(path, dtype="u2", header_bytes=128)[3].item() == TOKENS[3]


def test_a_safetensors_reader_names_another_format(tmp_path: Path) -> None:
    (path := tmp_path / "x.data").write_bytes(OTHERS["a PNG image"](tmp_path))
    with pytest.raises(ValueError, match="the file is a PNG image"):
        SafetensorsDataset(path)


def test_texts_may_begin_with_letters_of_a_signature(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("PAR1,GGUF\n1,2\n")
    assert CsvDataset(str(tmp_path / "a.csv"))[0] == {"PAR1": 1, "GGUF": 2}


@pytest.mark.parametrize("text", ['[\n{"x": 1},\n{"x": 2}\n]\n', '{\n  "x": 1\n}\n'])
def test_json_over_several_lines_is_an_error_with_a_remedy(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"write one value a line, as `jq -c '\.\[\]'` does"):
        JsonLinesDataset(str(path))[0]


def test_an_archive_within_a_zip_is_not_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.tar", "w") as found:
        found.writestr("a.txt", "x")
    with pytest.raises(ValueError, match=r"the file is a zip archive; read \.npz with NpzDataset"):
        TarDataset(str(tmp_path / "a.tar"), {"txt": "bytes"})

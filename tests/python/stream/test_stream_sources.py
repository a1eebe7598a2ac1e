"""Sources of native streams besides files: programs, FIFOs, descriptors, and file objects, and how they end."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import sluicegate
from checks.programs import Run
from checks.resources import descendants
from doubles.tar_files import many, put
from sluicegate import (
    CsvStream,
    JsonLinesStream,
    RawStream,
    ShuffleBuffer,
    TarStream,
    TFRecordStream,
    shard_iterable,
)


def test_standard_input_is_read_by_one_reader(run: Run) -> None:
    program = """
        read, write = os.pipe()
        os.write(write, b"".join(b"%d\\n" % number for number in range(10)))
        os.close(write)
        os.dup2(read, 0)
        stream = data.JsonLinesStream("-")
        print([batch.tolist() for batch in data.DataLoader(stream, batch_size=4, num_workers=workers)])
    """
    for workers in (0, 1):
        ended = run(program, workers=workers)
        ended.check()
        assert ended.stdout == "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]\n"
    ended = run(program, workers=2)
    ended.check(code=1, stderr=None)
    assert "read only once, but got 2 ranks and workers" in ended.stderr


def test_sources_readable_once_allow_one_reader_and_resume_only_with_continues(tmp_path: pathlib.Path) -> None:
    for shard in ((0, 2), (1, 2)):
        with pytest.raises(ValueError, match="read only once, but got 2 ranks and workers"):
            iter(JsonLinesStream(io.BytesIO(b"1\n2\n"), shard=shard))
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match="read only once, but got 2 ranks and workers"):
        next(iter(sluicegate.DataLoader(JsonLinesStream(fifo), num_workers=2)))
    with pytest.raises(TypeError, match="the stream can't be pickled or copied"):
        pickle.dumps(JsonLinesStream(io.BytesIO()))
    stream = JsonLinesStream(io.BytesIO(b"1\n2\n3\n"))
    iterator = iter(stream)
    assert next(iterator) == 1
    state = stream.state_dict()
    again = JsonLinesStream(io.BytesIO(b"1\n2\n3\n"))
    again.load_state_dict(state)
    with pytest.raises(ValueError, match="continues=True"):
        iter(again)
    rest = JsonLinesStream(io.BytesIO(b"2\n3\n"), continues=True)
    rest.load_state_dict(state)
    assert list(rest) == [2, 3]
    assert rest.state_dict()["inner"][0] == 3


@pytest.mark.parametrize("wrap", [lambda stream: ShuffleBuffer(stream, size=4), shard_iterable])
def test_a_stream_that_continues_is_refused_where_samples_are_read_again(
    wrap: Callable[[Any], Any], tmp_path: pathlib.Path
) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    for source in (fifo, io.BytesIO(b"1\n2\n3\n")):
        with pytest.raises(ValueError, match=r"iterable: .* reading samples again, but got a JsonLinesStream"):
            wrap(JsonLinesStream(source, continues=True))
        wrap(JsonLinesStream(source))
    # A file can be read again, so `continues` changes nothing.
    (tmp_path / "x").write_bytes(b"1\n2\n3\n")
    assert sorted(wrap(JsonLinesStream(tmp_path / "x", continues=True))) == [1, 2, 3]


def test_a_descriptor_that_refers_to_a_different_file_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_bytes(b"1\n")
    (tmp_path / "y").write_bytes(b"2\n")
    number = os.open(tmp_path / "x", os.O_RDONLY)
    stream = JsonLinesStream(number)
    other = os.open(tmp_path / "y", os.O_RDONLY)
    os.dup2(other, number)
    with pytest.raises(RuntimeError, match="a different file now, because worker processes"):
        iter(stream)
    os.close(number)
    os.close(other)


def test_a_failing_command_is_an_error_with_the_end_of_its_stderr(tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / "a.tar", many(3))
    stream = TarStream(f"pipe:cat {path}; echo about to fail >&2; exit 3", on_error="skip")
    iterator = iter(stream)
    assert len([next(iterator) for _ in range(3)]) == 3
    with pytest.raises(OSError, match=r"cat .*failed \(exit status: 3\): about to fail"):
        next(iterator)
    with pytest.raises(ValueError, match="has already failed"):
        next(iterator)
    for command, words in (
        ("no-such-program", "127"),
        ("kill -9 $$", "signal: 9"),
        ("head -c 700 /dev/zero; exit 1", "1"),
    ):
        with pytest.raises(OSError, match=words):
            list(TarStream(f"pipe:{command}"))
    # Only a string that begins with `pipe:` runs a program.
    with pytest.raises(FileNotFoundError):
        list(JsonLinesStream(f" pipe:touch {tmp_path}/x"))
    assert not (tmp_path / "x").exists()
    # Output on stderr does not block it.
    chatty = "pipe:i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; echo this is line number $i of many >&2; done"
    assert list(JsonLinesStream(chatty)) == list(range(1, 3001))


def children() -> list[int]:
    return descendants(os.getpid())


def test_a_command_and_its_children_are_killed_when_its_reader_is_gone(tmp_path: pathlib.Path) -> None:
    before = children()
    for make in (
        lambda: iter(JsonLinesStream("pipe:(yes 1; true) | cat")),
        lambda: iter(JsonLinesStream("pipe:sleep 1000")),
    ):
        iterator = make()
        if "yes" in repr(iterator.stream.sources):
            assert [next(iterator), next(iterator)] == [1, 1]
        else:
            alarm = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
            alarm.start()
            with pytest.raises(KeyboardInterrupt):
                next(iterator)
        assert len(children()) > len(before)
        del iterator
        assert children() == before
    assert sum(next(iter(JsonLinesStream("pipe:yes 1"))) for _ in range(20)) == 20
    assert children() == before


def test_ctrl_c_ends_waiting_for_a_fifo(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    iterator = iter(JsonLinesStream(tmp_path / "fifo"))
    alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    begin = time.monotonic()
    del iterator
    assert time.monotonic() - begin < 5


def test_samples_come_as_they_are_written() -> None:
    read, write = os.pipe()
    stream = JsonLinesStream(read)
    iterator = iter(stream)
    for number in range(5):
        os.write(write, b"%d\n" % number)
        assert next(iterator) == number
    os.close(write)
    assert list(iterator) == []
    os.close(read)


def test_a_killed_worker_is_an_error_and_leaves_no_command_running(tmp_path: pathlib.Path) -> None:
    loader = sluicegate.DataLoader(JsonLinesStream("pipe:yes 1"), batch_size=2, num_workers=1, native=False)
    iterator = iter(loader)
    next(iterator)
    programs = [pid for pid in children() if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"yes")]
    worker = _worker(programs)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="killed"):
        list(iterator)
    del iterator
    deadline = time.monotonic() + 20
    while any(_is_alive(pid) for pid in programs):
        assert time.monotonic() < deadline, "its program still runs"
        time.sleep(0.01)


def _worker(programs: list[int]) -> int:
    """Return the process that started these, or their shell."""
    parent = programs[0]
    while True:
        with open(f"/proc/{parent}/stat") as file:
            parent, child = int(file.read().rpartition(")")[2].split()[1]), parent
        if parent == os.getpid():
            return child


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_fork_does_not_disturb_the_stream_of_its_parent(tmp_path: pathlib.Path) -> None:
    iterator = iter(JsonLinesStream("pipe:seq 100000; sleep 0.2; seq 3"))
    assert next(iterator) == 1
    child = os.fork()
    if child == 0:
        try:
            list(iterator._samples)  # type: ignore[attr-defined]
            list(iterator)
        except ValueError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(iterator)) == 100002


class Lines(io.RawIOBase):
    """Has no descriptor, and more lines than fit into a pipe."""

    def __init__(self) -> None:
        self.left = 20

    def read(self, size: int = -1) -> bytes:
        self.left -= 1
        return b"1\n" * 30_000 if self.left >= 0 else b""


@pytest.mark.parametrize("is_left", [False, True])
def test_a_fork_does_not_keep_the_pipe_of_an_object_open(is_left: bool) -> None:
    iterator = iter(JsonLinesStream(Lines()))
    next(iterator)
    (pump,) = iterator._pumps  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        time.sleep(100)
        os._exit(0)
    if not is_left:
        # In a thread, because a pipe that is never closed would hang the test.
        counts: list[int] = []
        count = threading.Thread(
            target=lambda lines: counts.append(sum(1 for _ in lines)), args=(iterator,), daemon=True
        )
        count.start()
        count.join(20)
        assert counts == [20 * 30_000 - 1]
    del iterator
    pump._thread.join(20)
    assert not pump._thread.is_alive()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_file_object_that_fails_after_a_small_batch_is_an_error() -> None:
    class Broken(Lines):
        def read(self, size: int = -1) -> bytes:
            if self.left == 0:
                raise ConnectionError("the line is dead")
            self.left = 0
            return b"1\n2\n3\n"

    iterator = iter(sluicegate.DataLoader(JsonLinesStream(Broken()), batch_size=2))
    assert [next(iterator).tolist(), next(iterator).tolist()] == [[1, 2], [3]]
    with pytest.raises(ConnectionError, match="the line is dead"):
        next(iterator)


def test_a_file_object_that_cannot_be_read_raises_its_own_error() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            if not hasattr(self, "first"):
                self.first = True
                return b"1\n2\n"
            raise ConnectionError("the line is dead")

    iterator = iter(JsonLinesStream(Broken()))
    assert [next(iterator), next(iterator)] == [1, 2]
    with pytest.raises(ConnectionError, match="the line is dead"):
        next(iterator)


def test_commands_stand_for_a_range_of_numbers_and_other_braces_are_the_shells(tmp_path: pathlib.Path) -> None:
    stream = JsonLinesStream("pipe:echo {008..010} | awk '{print $1 * 10}'")
    assert list(stream) == [80, 90, 100]
    assert stream.sources[0] == "pipe:echo 008 | awk '{print $1 * 10}'"
    for wrong in ([], True, 1.5, [None]):
        with pytest.raises((TypeError, ValueError), match="urls"):
            JsonLinesStream(wrong)
    with pytest.raises(ValueError, match=r"expected an open file, but .* is closed"):
        JsonLinesStream(12345)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        JsonLinesStream(tmp_path / "*.jsonl")
    with pytest.raises(FileNotFoundError):
        next(iter(JsonLinesStream(tmp_path / "x.jsonl")))
    with pytest.raises(IsADirectoryError):
        next(iter(JsonLinesStream(tmp_path)))


def test_commands_can_be_turned_off(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    url = f"pipe:touch {made}; seq 3"
    path = tmp_path / "x.jsonl"
    path.write_text("1\n2\n3\n")
    forbidden: list[Callable[[], Any]] = [
        lambda: JsonLinesStream(url, allow_pipe=False),
        lambda: CsvStream(url, allow_pipe=False),
        lambda: TFRecordStream(url, allow_pipe=False),
        lambda: RawStream(url, dtype="u1", allow_pipe=False),
        lambda: TarStream(url, allow_pipe=False),
    ]
    for make in forbidden:
        with pytest.raises(ValueError, match=r"urls: allow_pipe=False forbids commands, but got 'pipe:touch"):
            make()
    stream = JsonLinesStream(url)
    for value in ("0", "no", "false"):
        monkeypatch.setenv("SLUICEGATE_ALLOW_PIPE", value)
        with pytest.raises(ValueError, match=r"urls: SLUICEGATE_ALLOW_PIPE forbids commands"):
            JsonLinesStream([path, url])
        # A stream created earlier does not run a program either.
        with pytest.raises(ValueError, match="SLUICEGATE_ALLOW_PIPE"):
            list(stream)
    assert len(list(JsonLinesStream(path, allow_pipe=False))) == 3
    assert not made.exists()
    monkeypatch.setenv("SLUICEGATE_ALLOW_PIPE", "1")
    assert list(stream) == [1, 2, 3]
    assert made.exists()

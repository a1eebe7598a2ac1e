"""Limits of the machine: loading works, or an error names the limit, the amount needed, and the remedy."""

from __future__ import annotations

import re

import pytest

from checks.programs import Ended, Run

pytestmark = pytest.mark.slots

MEBIBYTE = 1 << 20


def works_or_explains(ended: Ended, limit: str) -> None:
    """Assert that the program printed `works`, or an error with the limit, an amount, and the remedy."""
    ended.check(0, stderr=None)  # a worker that can't start may print to stderr
    if ended.stdout == "works\n":
        return
    assert re.search(limit, ended.stdout), ended.stdout
    assert re.search(r"\d", ended.stdout.replace(limit, "")), ended.stdout
    assert re.search(r"ulimit|raise|lower|fewer|smaller|prefetch_factor|num_workers|mount|limit", ended.stdout)


TRY = """
def attempt(loader):
    try:
        for number, batch in enumerate(loader):
            batch = batch[0] if isinstance(batch, list) else batch
            assert int(batch.reshape(-1)[0]) == number % 251, "another batch"
            assert int(batch.reshape(-1)[-1]) == number % 251, "another batch"
    except (RuntimeError, MemoryError, OSError) as error:
        print(type(error).__name__, error, error.__cause__, *getattr(error, "__notes__", []))
    else:
        print("works")
"""


@pytest.mark.parametrize("num_workers", [1, 2])
def test_batches_larger_than_dev_shm_simply_work(run: Run, num_workers: int) -> None:
    source = """
    from checks.resources import small_shm
    small_shm(16)
    loader = data.DataLoader(faulty.Sized([size] * 6), batch_size=1, num_workers=num_workers)
    attempt(loader)
    print(os.listdir("/dev/shm"))
    """
    ended = run(TRY + strip(source), size=40 * MEBIBYTE, num_workers=num_workers)
    ended.check()
    assert ended.stdout == "works\n[]\n"


@pytest.mark.parametrize(("array", "collate"), [(False, "as_list"), (True, "as_list"), (True, "default")])
def test_other_large_batches_get_past_a_small_dev_shm_too(run: Run, array: bool, collate: str) -> None:
    source = """
    from checks.resources import small_shm
    from doubles.datasets import as_list
    small_shm(16)
    collate_fn = as_list if collate == "as_list" else None
    dataset = faulty.Sized([size] * 4, array)
    attempt(data.DataLoader(dataset, batch_size=1, num_workers=1, collate_fn=collate_fn))
    """
    works_or_explains(run(TRY + strip(source), size=40 * MEBIBYTE, array=array, collate=collate), "/dev/shm")


def test_a_small_dev_shm_holds_many_small_kept_batches(run: Run) -> None:
    source = """
    from checks.resources import small_shm
    small_shm(16)
    kept = list(data.DataLoader(faulty.Sized([200_000] * 200), batch_size=1, num_workers=2))
    assert [int(batch[0, -1]) for batch in kept] == [index % 251 for index in range(200)]
    """
    run(strip(source)).check()


@pytest.mark.parametrize("collate", ["default", "as_list"])
def test_an_epoch_is_kept_with_few_open_files(run: Run, collate: str) -> None:
    source = """
    from doubles.datasets import as_list
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    collate_fn = as_list if collate == "as_list" else None
    loader = data.DataLoader(faulty.ManyParts(400), batch_size=2, num_workers=2, collate_fn=collate_fn)
    kept = list(loader)
    assert len(kept) == 200
    for number, batch in enumerate(kept):
        first, second = batch if collate == "as_list" else ({name: part[row] for name, part in batch.items()}
                                                            for row in (0, 1))
        for part in range(20):
            assert first[f"part {part}"].tolist() == [40 * number + part] * 2
            assert second[f"part {part}"].tolist() == [40 * number + 20 + part] * 2
    """
    run(strip(source), collate=collate).check()


@pytest.mark.parametrize("size", [8, 4000])
def test_batches_of_threads_take_no_open_files(run: Run, size: int) -> None:
    source = """
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = list(data.DataLoader(faulty.Sized([size] * 400), batch_size=2, num_workers=2, worker_type="thread"))
    assert not any(batch.is_shared() for batch in kept)
    assert [int(batch[1, -1]) for batch in kept] == [index % 251 for index in range(1, 400, 2)]
    """
    run(strip(source), size=size).check()


def test_a_batch_too_large_to_share_is_an_error_and_the_next_one_arrives(run: Run) -> None:
    source = """
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 20, 12 << 20))
    collate_fn = lambda samples: str(samples[0][0].item()) * len(samples[0])
    dataset = faulty.Sized([100, 9_000_000, 200])
    iterator = iter(data.DataLoader(dataset, batch_size=1, num_workers=1, collate_fn=collate_fn))
    assert next(iterator) == "0" * 100
    try:
        next(iterator)
    except RuntimeError as error:
        assert "a batch of 90000" in str(error), error
    else:
        raise AssertionError("no error")
    assert next(iterator) == "2" * 200
    """
    run(strip(source)).check()


@pytest.mark.parametrize("files", [2, 4, 12, 30])
def test_hardly_any_open_files_work_or_are_explained(run: Run, files: int) -> None:
    source = """
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    before = Resources.now()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + files, hard))
    attempt(data.DataLoader(faulty.Sized([1000] * 40), batch_size=1, num_workers=2))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.collect()
    before.check()
    """
    works_or_explains(run(TRY + strip(source), files=files), r"open files|ulimit -n|RLIMIT_NOFILE")


def test_torchs_words_name_the_limit_of_open_files(run: Run) -> None:
    source = """
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    try:
        kept = list(data.DataLoader(faulty.ManyParts(200), num_workers=1))
    except RuntimeError as error:
        text = str(error)
        assert "ulimit -n" in text and "set_sharing_strategy" in text, text
    """
    run(strip(source)).check()


@pytest.mark.parametrize("spare", [16, 64, 400, 4000])
def test_a_limit_of_the_address_space(run: Run, spare: int) -> None:
    source = """
    from checks.resources import address_space
    before = Resources.now()
    everything = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + spare * 1048576, everything[1]))
    attempt(data.DataLoader(faulty.Sized([size] * 8), batch_size=1, num_workers=2))
    resource.setrlimit(resource.RLIMIT_AS, everything)
    gc.collect()
    before.check()
    """
    ended = run(TRY + strip(source), spare=spare, size=50 * MEBIBYTE)
    works_or_explains(ended, r"RLIMIT_AS|ulimit -v|address space|address-space")
    if spare == 4000:
        assert ended.stdout == "works\n"


def test_an_epoch_fits_into_a_control_group(run: Run) -> None:
    source = """
    from checks.resources import join_group, memory_group, remove_group, skip
    try:
        group = memory_group(900)
    except OSError as error:
        skip(f"no control group with a memory limit: {error}")
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        torch.set_num_threads(1)
        join_group(group)
        attempt(data.DataLoader(faulty.Sized([size] * 100), batch_size=1, num_workers=2))
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    remove_group(group)
    sys.exit(os.waitstatus_to_exitcode(status))
    """
    ended = run(TRY + strip(source), size=20 * MEBIBYTE)  # 2 GB in all; the workers themselves take 300 MB
    ended.check()
    assert ended.stdout == "works\n"


JUMPS = [4, 32 * MEBIBYTE, 4, 4, 20 * MEBIBYTE, 1000, 24 * MEBIBYTE, 1, 0, 5 * MEBIBYTE, 4, 4096, 4097, 65536]


@pytest.mark.parametrize(
    ("package", "array", "collate"),
    [
        ("torch", False, "default"),
        ("sluicegate", False, "default"),
        ("sluicegate", True, "default"),
        ("sluicegate", False, "as_list"),
    ],
)
def test_batches_of_very_different_sizes_arrive(run: Run, package: str, array: bool, collate: str) -> None:
    source = """
    from doubles.datasets import as_list
    before = Resources.now()
    collate_fn = as_list if collate == "as_list" else None
    loader = data.DataLoader(faulty.Sized(sizes * 2, array), batch_size=1, num_workers=2, collate_fn=collate_fn)
    kept = []
    for number, batch in enumerate(loader):
        sample = torch.as_tensor(batch[0])
        assert sample.shape == ((sizes * 2)[number],)
        assert bool((sample == number % 251).all())
        kept.append(sample)
    assert number == 2 * len(sizes) - 1
    for number, sample in enumerate(kept):
        assert bool((sample == number % 251).all())
    batch = sample = loader = None
    kept.clear()
    before.check()
    """
    run(strip(source), package, sizes=JUMPS, array=array, collate=collate).check()


def strip(source: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in source.splitlines())


@pytest.mark.parametrize("limit", [3, 8])
@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGSTOP"])
def test_a_lowered_limit_of_open_files_hides_no_fault(run: Run, limit: int, signal_name: str) -> None:
    source = """
    import resource
    class Slow(faulty.Sized):
        def __getitem__(self, index):
            time.sleep(0.05)
            return super().__getitem__(index)
    loader = data.DataLoader(Slow([8] * 400), batch_size=1, num_workers=8, timeout=3)
    iterator = iter(loader)
    next(iterator)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    for worker in iterator._workers:
        os.kill(worker.pid, getattr(signal, signal_name))
    try:
        for batch in iterator:
            pass
    except (RuntimeError, OSError) as error:
        found = str(error)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for worker in iterator._workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
    print(found)
    """
    ended = run("import contextlib, signal, time\n" + strip(source), limit=limit, signal_name=signal_name)
    ended.check(stderr=None)
    assert re.search("killed by signal" if signal_name == "SIGKILL" else "timed out", ended.stdout), ended.stdout

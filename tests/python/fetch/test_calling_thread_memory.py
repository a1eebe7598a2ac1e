"""Without workers, samples reuse the memory of earlier ones, as they do with torch."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy, torch, sluicegate

class Rows(sluicegate.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        return torch.from_numpy(numpy.full((3, 64, 64), index, numpy.float32))

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

loader = sluicegate.DataLoader(Rows(), 64)
for _ in range(2):
    for batch in loader:
        pass
before = faults()
for batch in loader:
    pass
print((faults() - before) / len(loader.dataset))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc can keep memory")
def test_samples_reuse_memory() -> None:
    # A new process: glibc keeps more memory once any large block has been freed.
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 4  # of the 12 pages of a sample

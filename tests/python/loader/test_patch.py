"""`sluicegate.patch`: code that creates torch's loader by name gets ours."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from typing import Any

import pytest
import torch
import torch.utils.data
from torch.utils.data import DataLoader as ImportedEarlier

import sluicegate
from checks.equality import assert_same
from doubles.datasets import Rows


class Subclass(torch.utils.data.DataLoader[Any]):
    """Stands for libraries' subclasses of torch's loader."""


def line_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def made(**arguments: Any) -> Any:
    return ImportedEarlier(Rows(10), batch_size=4, **arguments)


def test_a_name_that_was_imported_earlier_creates_ours() -> None:
    torch.manual_seed(3)
    expected = list(made(shuffle=True))
    with sluicegate.patch() as patch:
        loader = made(shuffle=True)
    assert type(loader) is sluicegate.DataLoader
    assert isinstance(loader, ImportedEarlier)
    assert [(each.file, each.loaders) for each in patch.replaced] == [(__file__, 1)]
    torch.manual_seed(3)
    assert_same(list(loader), expected)
    assert loader.state_dict() is not None


def test_patch_lists_the_lines_whose_loaders_it_replaced() -> None:
    with sluicegate.patch() as patch:
        assert patch.replaced == ()
        for _ in range(3):
            made()
        line = line_here() + 1
        torch.utils.data.DataLoader([1])
    assert [each.loaders for each in patch.replaced] == [3, 1]
    assert patch.replaced[1] == (__file__, line, 1)
    assert f"{__file__}:{line} (1)" in repr(patch)


def test_undoing_a_patch_restores_torchs_loader() -> None:
    before = ImportedEarlier.__init__
    patch = sluicegate.patch()
    assert ImportedEarlier.__init__ is not before
    patch.undo()
    patch.undo()
    assert ImportedEarlier.__init__ is before
    assert type(made()) is ImportedEarlier
    assert patch.replaced == ()


def test_an_error_in_the_with_block_undoes_a_patch() -> None:
    with pytest.raises(KeyError), sluicegate.patch():
        raise KeyError
    assert type(made()) is ImportedEarlier


def test_two_at_once_end_one_by_one() -> None:
    outer = sluicegate.patch()
    with sluicegate.patch() as inner:
        made()
    outer_still = made()
    outer.undo()
    assert type(outer_still) is sluicegate.DataLoader
    assert sum(each.loaders for each in outer.replaced) == 2
    assert sum(each.loaders for each in inner.replaced) == 1
    assert type(made()) is ImportedEarlier


def test_subclasses_and_ours_stay_as_they_are() -> None:
    with sluicegate.patch() as patch:
        assert type(Subclass(Rows(4))) is Subclass
        assert type(sluicegate.DataLoader(Rows(4), seed=3)) is sluicegate.DataLoader
    assert patch.replaced == ()


def test_errors_and_signatures_are_torchs() -> None:
    signature = inspect.signature(ImportedEarlier)
    with pytest.raises(ValueError) as expected:
        made(num_workers=-1)
    with sluicegate.patch():
        assert inspect.signature(ImportedEarlier) == signature
        with pytest.raises(ValueError) as error:
            made(num_workers=-1)
    assert str(error.value) == str(expected.value)


def test_copies_and_pickles_stay_ours() -> None:
    with sluicegate.patch() as patch:
        loader = made()
        others = [copy.copy(loader), pickle.loads(pickle.dumps(loader))]
    assert [type(each) for each in others] == [sluicegate.DataLoader] * 2
    assert [each.loaders for each in patch.replaced] == [1]


def test_other_wrappers_of_the_constructor_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[type] = []
    # Registers torch's constructor first, so that the end of the test restores that one.
    monkeypatch.setattr(ImportedEarlier, "__init__", ImportedEarlier.__init__)
    patch = sluicegate.patch()
    inner = ImportedEarlier.__init__

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        inner(self, *args, **kwargs)
        seen.append(type(self))

    monkeypatch.setattr(ImportedEarlier, "__init__", wrapped)
    made()
    patch.undo()
    made()
    assert ImportedEarlier.__init__ is wrapped
    # Our loader calls torch's constructor, now wrapped, before the object is complete.
    assert set(seen[:-1]) == {sluicegate.DataLoader}
    assert seen[-1] is ImportedEarlier


def test_a_patch_counts_loaders_of_all_threads() -> None:
    with sluicegate.patch() as patch:
        threads = [threading.Thread(target=lambda: [made() for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [each.loaders for each in patch.replaced] == [200]


def test_patch_adds_arguments_that_torchs_loader_does_not_have() -> None:
    expected = list(sluicegate.DataLoader(Rows(10), 4, shuffle=True, seed=7))
    for generator in ({}, {"generator": torch.Generator()}):
        with sluicegate.patch(seed=7, device="cpu"):
            loader = made(shuffle=True, **generator)
            other = torch.utils.data.DataLoader(
                Rows(10), 4, True, None, None, 0, None, False, False, 0, None, None, torch.Generator()
            )
        assert loader.device == torch.device("cpu")
        assert_same(list(loader), expected)
        assert_same(list(other), expected)
    with sluicegate.patch(seed=7), sluicegate.patch(seed=None):
        own = torch.Generator()
        assert made(shuffle=True, generator=own).generator is own
    assert type(made()) is ImportedEarlier


def test_patch_refuses_arguments_that_the_patched_code_itself_passes() -> None:
    with pytest.raises(TypeError, match=r"patch: takes device, .* got 'num_workers'; the code"):
        sluicegate.patch(num_workers=2)
    assert type(made()) is ImportedEarlier


def test_a_loader_that_lightning_creates_is_ours() -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    with sluicegate.patch() as patch:
        loader = lightning.LightningDataModule.from_datasets(Rows(8), batch_size=2).train_dataloader()
    assert type(loader) is sluicegate.DataLoader
    assert "lightning" in patch.replaced[0].file

"""The module that public classes and functions name as theirs, which pickles contain."""

from __future__ import annotations

from types import ModuleType


def assert_named(module: ModuleType) -> None:
    """Assert that the classes and functions of the package in `__all__` name the module they are imported from."""
    names = {name: getattr(getattr(module, name), "__module__", None) for name in module.__all__}
    own = {name: named for name, named in names.items() if named is not None and named.startswith("sluicegate")}
    assert own
    assert {name: named for name, named in own.items() if named != module.__name__} == {}

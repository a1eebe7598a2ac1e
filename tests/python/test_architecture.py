"""The layers of `python/sluicegate`: each package imports only those below it, and no modules import in a cycle."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import sluicegate

PACKAGE = Path(sluicegate.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Modules at the top that any package may import; they import only each other.
LEAVES = {
    "_core",
    "_torch",
    "checked_number",
    "error_note",
    "known_length",
    "named_error",
    "packing",
    "paths",
    "progress_line",
}

# From the bottom up. A package imports the leaves and the packages in its row, nothing else.
LAYERS: dict[str, set[str]] = {
    "system": set(),
    "shared": set(),
    "rng": set(),
    "state": set(),
    "transforms": {"rng"},
    "sampler": set(),
    "device": set(),
    "image": {"rng", "transforms"},
    "native": {"image"},
    "stream": {"image", "native", "rng", "state", "system", "transforms"},
    "formats": {"image", "native", "stream"},
    "recognition": {"formats", "native", "rng", "transforms"},
    "order": {"rng", "sampler", "state", "stream"},
    "fetch": {"formats", "native", "recognition", "rng", "sampler", "state", "stream"},
    "worker": {"device", "fetch", "order", "recognition", "rng", "state", "stream", "system"},
    "loader_state": {"order", "rng", "sampler", "state", "stream"},
    "loader": {
        "device", "fetch", "loader_state", "native", "order", "recognition", "rng", "sampler", "state", "stream",
        "system", "worker",
    },
    "by_class": {
        "formats", "loader", "loader_state", "order", "recognition", "rng", "sampler", "state", "stream", "system",
    },
    "passes": {"fetch", "loader", "system"},
    "writers": {"formats", "loader", "passes", "system"},
    "accelerate": {"loader", "loader_state", "order", "rng", "sampler", "state"},
    "transformers": {"accelerate", "loader"},
    "xarray": {"formats", "native"},
}  # fmt: skip

# Modules for users, which may import all of these. The command uses only the public API.
FACE = {"__init__", "__main__", "_utils", "cli", "distributed"}


class Import(NamedTuple):
    """An import of one module of the package by another: at its top, in a function, or for types only."""

    importer: str
    imported: str

    @property
    def packages(self) -> tuple[str, str]:
        return self.importer.split(".")[0], self.imported.split(".")[0]


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


NAMES = {name_of(path): path for path in MODULES}


def resolved(name: str) -> str | None:
    """Return the module of the package that `name` is or is in."""
    while name and name not in NAMES and name != "_core":
        name = name.rpartition(".")[0]
    return name or None


def imports_of(importer: str, text: str, is_package: bool) -> Iterator[Import]:
    """Return the imports of `importer` from the package, at its top, in functions, and for types only."""
    tree = ast.parse(text)
    folder = importer.split(".") if is_package and importer != "__init__" else importer.split(".")[:-1]
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            start = folder[: len(folder) - (node.level - 1)]
        elif (node.module or "").split(".")[0] == "sluicegate":
            start = []
        else:
            continue
        inside = (node.module or "").split(".")[0 if node.level else 1 :]
        for alias in node.names:
            found = resolved(".".join([*start, *filter(None, inside), alias.name]))
            if found is not None and found != importer:
                yield Import(importer, found)


@functools.cache
def all_imports() -> list[Import]:
    """Return the imports of all modules; not at the top, where each process that collects tests would parse them."""
    files = [(name, path.read_text(), path.name == "__init__.py") for name, path in NAMES.items()]
    return [found for each in files for found in imports_of(*each)]


def test_every_import_is_seen() -> None:
    assert len(NAMES) > 200
    assert len(all_imports()) > 900
    text = "from . import a\nfrom .b import c\ndef f():\n    from sluicegate.rng import sample\n"
    text += "if TYPE_CHECKING:\n    from .reader import x"
    found = [each.imported for each in imports_of("stream.shard", text, False)]
    assert sorted(found) == ["rng.sample", "stream", "stream", "stream.reader"]


def test_every_package_has_a_layer() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == LAYERS.keys() | (FACE & packages)
    assert {path.stem for path in PACKAGE.glob("*.py")} == (LEAVES | FACE) - packages - {"_core"}


def test_layers_point_down() -> None:
    rank = {package: number for number, package in enumerate(LAYERS)}
    assert [(each, wanted) for each in LAYERS for wanted in LAYERS[each] if rank[wanted] >= rank[each]] == []


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_imports_only_packages_below_it(package: str) -> None:
    allowed = LAYERS[package] | LEAVES | {package}
    found = [each for each in all_imports() if each.packages[0] == package]
    assert [each for each in found if each.packages[1] not in allowed] == []
    # A row contains only packages that are imported.
    assert LAYERS[package] - {each.packages[1] for each in found} == set()


def test_leaves_import_only_leaves() -> None:
    found = [each for each in all_imports() if each.packages[0] in LEAVES]
    assert [each for each in found if each.packages[1] not in LEAVES] == []


def test_no_cycle_between_modules() -> None:
    graph: dict[str, set[str]] = {name: set() for name in NAMES}
    for each in all_imports():
        # A package may import its own modules, which are loaded before it.
        is_own_package = each.importer.startswith(f"{each.imported}.")
        if not is_own_package and each.packages[0] not in FACE:
            graph[each.importer].add(each.imported)
    graphlib.TopologicalSorter(graph).prepare()


# Private attributes of other packages, mostly torch, whose names are also defined here.
_OF_OTHERS = {
    "loader.dataloader": {"_shutdown_workers"},
    "loader.loader_order": {"_auto_collation", "_dataset_kind"},
    "order.settings": {"_auto_collation", "_dataset_kind", "_index_sampler"},
    "stream.hugging_face": {"_distributed", "_epoch"},
    "worker.unpicklable": {"_Pickler"},
    "xarray.stored": {"_data"},
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(tree: ast.AST) -> set[str]:
    """Return the private names that a module defines, in classes and at its top."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
            names.add(node.attr)
    return set(filter(is_private, names))


def is_own(node: ast.Attribute) -> bool:
    """Return True for an attribute of the method's own object, class, or superclass."""
    return ast.unparse(node.value) in ("self", "cls", "super()")


def private_reads(tree: ast.AST, everywhere: set[str]) -> set[str]:
    """Return the private attributes of other objects that a module uses and does not define."""
    foreign = everywhere - private_names(tree)
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if node.attr in foreign and not is_own(node)}


def test_no_private_attribute_is_read_in_another_file() -> None:
    trees = {name: ast.parse(path.read_text()) for name, path in NAMES.items()}
    everywhere = set().union(*map(private_names, trees.values()))
    assert len(everywhere) > 1000
    found = {name: private_reads(tree, everywhere) - _OF_OTHERS.get(name, set()) for name, tree in trees.items()}
    assert {name: reads for name, reads in found.items() if reads} == {}


def test_private_reads_are_found() -> None:
    text = (
        "class A:\n    def f(self, b):\n        self._own = b._theirs, self._inherited, b._own, b._not_ours, b.c._deep"
    )
    assert private_reads(ast.parse(text), {"_theirs", "_inherited", "_own", "_deep"}) == {"_theirs", "_deep"}

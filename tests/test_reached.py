"""Every module of the product is reached from an entry point: what nobody can use is not kept."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("qserver", "worker")
# Beside the console scripts: gunicorn's app, settings and worker class, the Python client and its
# drivers of databases, `python -m`, and what answers clients of PostgreSQL.
ENTRIES = (
    "qserver.wsgi",
    "qserver.postgres.__main__",
    "qserver.query.sql.engine.child",
    "qserver.api.process.gunicorn",
    "qserver.api.process.parking",
    "qserver.client",
    "qserver.client.dbapi",
    "qserver.cli.__main__",
    "worker.__main__",
)


def modules() -> dict[str, Path]:
    """Every module of the product by its name; packages are their `__init__`."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_for_types(node: ast.AST) -> bool:
    """Whether a node is an `if TYPE_CHECKING`."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below that run, functions included; not what is for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from (other, *running(other))
            continue
        yield child
        yield from running(child)


def imported(node: ast.AST) -> list[str]:
    """The names that a node may import as modules."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports are not followed"
        return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    return []


def imports_of(source: str) -> set[str]:
    """Every name that a module's text imports, with the packages around it."""
    found = set()
    for node in running(ast.parse(source)):
        for name in imported(node):
            parts = name.split(".")
            found.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return found


def entries() -> list[str]:
    """The modules that people and servers start."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plugins = [plugin for group in project["entry-points"].values() for plugin in group.values()]
    targets = [*project["scripts"].values(), *plugins]
    return [target.partition(":")[0] for target in targets] + list(ENTRIES)


def reached(starts: list[str]) -> set[str]:
    """All modules of the product that some of them import, however far down."""
    paths, found, waiting = modules(), set[str](), [*starts]
    while waiting:
        name = waiting.pop()
        if name in paths and name not in found:
            found.add(name)
            waiting.append(name.rpartition(".")[0])
            waiting.extend(imports_of(paths[name].read_text(encoding="utf-8")))
    return found


def test_every_entry_point_is_a_module() -> None:
    assert set(entries()) <= set(modules())


@pytest.mark.slow
def test_every_module_is_reached() -> None:
    """Wire it to an entry point, move it to the tests, or delete it."""
    assert set(modules()) == reached(entries())


def test_imports_of_every_kind_are_followed_and_those_for_types_are_not() -> None:
    source = """
import a.b
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from never import this
else:
    import other
def f():
    from c import d
    return import_module("e.f")
"""
    assert imports_of(source) == {
        *("a", "a.b", "typing", "typing.TYPE_CHECKING", "other", "c", "c.d", "e", "e.f"),
    }

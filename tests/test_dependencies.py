"""What the project takes from other packages, and between which versions."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_BOUNDS = re.compile(r"[a-z0-9-]+(\[[a-z,]+\])?>=[0-9.]+,<[0-9]+")


def test_every_dependency_names_the_lowest_version_and_the_first_major_one_not_tried() -> None:
    """A new major version may change anything that is public."""
    named = list(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        named += extra
    assert len(named) > len(PROJECT["dependencies"])
    others = [name for name in named if not name.startswith("qserver[")]  # an extra of our own
    assert [name for name in others if not _BOUNDS.fullmatch(name)] == []


@pytest.mark.slow
def test_sqlglot_is_used_by_its_public_names_alone() -> None:
    """Tokens come from `sqlglot` itself: the module that holds them moved between its versions."""
    found = {
        node.module
        for path in (ROOT / "qserver").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlglot")
    }
    assert found == {"sqlglot"}

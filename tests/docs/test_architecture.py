"""The page on the architecture is held to the tree and to the contracts of its layers."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.test_reached import modules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYERS = {
    contract["containers"][0]: contract["layers"]
    for contract in PROJECT["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers"
}
_LEAST_TASKS = 12


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`((?:qserver|worker)/[^`]*)`", PAGE)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_pictures_show_the_layers_in_the_order_that_is_enforced() -> None:
    """Each line of a picture begins with the rooms of one layer; `__main__` is left out."""
    pictures = [block.splitlines() for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)]
    for picture, layers in zip(pictures, (LAYERS["qserver"], LAYERS["worker"]), strict=True):
        shown = [tuple(re.findall(r"\w+", line.strip().split("  ")[0])) for line in picture]
        wanted = [tuple(re.findall(r"\w+", layer)) for layer in layers if layer != "__main__"]
        assert shown == wanted


def test_the_table_answers_for_twelve_tasks_and_more() -> None:
    table = PAGE.split("## To change X, go to Y")[1]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= _LEAST_TASKS
    assert all(re.match(r"\| [^|`]+ \| `(qserver|worker)/", row) for row in rows)


def test_a_room_is_named_by_its_docstring_only_by_what_it_holds() -> None:
    """Backquoted names in the `__init__` of a room are modules, rooms or members of them."""
    unknown = []
    for folder in ("qserver", "worker"):
        for init in (ROOT / folder).glob("*/**/__init__.py"):
            text = init.read_text(encoding="utf-8").split('"""')[1]
            names = re.findall(r"`([a-z_./]+)(?:\.[A-Z]\w+|\.[a-z_]+)?`", text)
            unknown += [f"{init.parent}: {n}" for n in names if not _stands(init.parent, n)]
    assert unknown == []


def _stands(room: Path, name: str) -> bool:
    parts = name.strip("/").replace(".", "/").split("/")
    for start in (room, room.parent, ROOT, ROOT / "qserver"):
        for n in range(len(parts), 0, -1):
            place = start.joinpath(*parts[:n])
            if place.is_dir() or place.with_suffix(".py").is_file():
                return True
    return False


def test_no_folder_and_no_file_outgrows_its_room() -> None:
    """At most 15 modules stand side by side, 6 at the top of each package, 600 lines in a file."""
    modules = [p for top in ("qserver", "worker") for p in (ROOT / top).rglob("*.py")]
    long = [str(p) for p in modules if len(p.read_text(encoding="utf-8").splitlines()) > 600]
    flat = Counter(p.parent for p in modules if p.name not in ("__init__.py", "__main__.py"))
    tops = {ROOT / "qserver": 6, ROOT / "worker": 6}
    assert long == []
    assert {str(k): n for k, n in flat.items() if n > tops.get(k, 15)} == {}


@pytest.mark.slow
def test_no_two_files_import_one_another_even_for_their_annotations() -> None:
    known = modules()
    uses = {name: _uses(path, set(known)) for name, path in known.items()}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as exc:
        raise AssertionError(f"a circle of imports: {exc.args[1]}") from exc


def _uses(path: Path, known: set[str]) -> set[str]:
    """The modules that one names in any import."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in known else str(node.module))
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found & known

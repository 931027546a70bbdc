"""The suite itself: it mirrors the rooms, parts run as well as all of it, no test has a time."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
FILES = sorted(p for p in TESTS.rglob("*.py") if "__pycache__" not in p.parts)
ACROSS = {
    "benchmarks", "browser", "data", "docs", "faults", "hostile", "kept", "limits", "privacy",
    "reference", "statistical", "worker",
}  # fmt: skip
"""Folders that are no room of the online side."""
MOST_FILES = 30


def imported(path: Path) -> Iterator[str]:
    """Every module that is imported, and what is imported from it, by its whole name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        if isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from (f"{start}.{name.name}" for name in node.names)


@functools.cache
def all_imports() -> dict[Path, list[str]]:
    """Of every file of the suite."""
    return {path: sorted(imported(path)) for path in FILES}


@pytest.mark.slow
def test_nothing_is_imported_from_a_conftest() -> None:
    """There are several, and the name is that of the folder which pytest met last."""
    assert [
        f"{path.relative_to(TESTS)}: {name}"
        for path, names in all_imports().items()
        for name in names
        if "conftest" in name.split(".")
    ] == []


def test_every_folder_of_tests_is_that_of_a_room_or_of_what_crosses_them() -> None:
    top = {p.relative_to(TESTS).parts[0] for p in FILES if p.parent != TESTS}
    rooms = {name for name in top - ACROSS if (ROOT / "qserver" / name / "__init__.py").exists()}
    assert top - ACROSS == rooms
    inside = {p.parent.relative_to(TESTS) for p in FILES}
    mirrored = {f for f in inside if f.parts and f.parts[0] in rooms | {"worker"}}
    product = {f: ROOT / f if f.parts[0] == "worker" else ROOT / "qserver" / f for f in mirrored}
    assert [str(f) for f, room in product.items() if not room.is_dir()] == []


def test_no_folder_has_more_tests_than_can_be_looked_through() -> None:
    counts = Counter(p.parent for p in FILES if p.stem.startswith("test_"))
    assert {str(f.relative_to(TESTS)): n for f, n in counts.items() if n > MOST_FILES} == {}


@pytest.mark.slow
def test_every_folder_is_a_package_and_every_module_goes_by_its_whole_name() -> None:
    """So that two folders may have files of one name, and no module is loaded under two names."""
    assert [str(p) for p in FILES if not (p.parent / "__init__.py").exists()] == []
    heads = {p.stem for p in FILES} | {p.parent.name for p in FILES}
    heads -= {"tests", "worker", "__init__", *sys.stdlib_module_names}
    assert [
        f"{path.relative_to(TESTS)}: {name}"
        for path, names in all_imports().items()
        for name in names
        if name.split(".")[0] in heads
    ] == []


@pytest.mark.slow
def test_no_test_has_a_deadline_of_its_own() -> None:
    """One profile says for all that there is none; a health check of time is off with it."""
    keywords = [
        (path, word)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for word in node.keywords
    ]
    deadlines = [str(path.relative_to(TESTS)) for path, word in keywords if word.arg == "deadline"]
    assert deadlines == ["conftest.py"]
    checks = [ast.unparse(w.value) for _, w in keywords if w.arg == "suppress_health_check"]
    assert len(checks) > 1
    assert all("HealthCheck.too_slow" in text for text in checks)


@pytest.mark.slow
@pytest.mark.parametrize("is_ci", [False, True])
def test_the_profile_of_all_tests_is_derandomised_under_ci_alone(is_ci: bool) -> None:
    code = (
        "import tests.conftest; from hypothesis import settings;"
        "print(settings().deadline, settings().derandomize)"
    )
    environ = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LD_LIBRARY_PATH")}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environ | ({"CI": "true"} if is_ci else {}),
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"None {is_ci}\n"

"""The suite itself: a part of it runs as well as the whole, and no test has a time to keep."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(p for p in TESTS.rglob("*.py") if "__pycache__" not in p.parts)
OF_A_FOLDER = {"__init__", "__main__", "conftest"}
"""Names that each folder may have again, and that nobody imports from."""


def imported(path: Path) -> Iterator[str]:
    """Every module that is imported, and what is imported from it, by its whole name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{name.name}" for name in node.names)


IMPORTED = {path: sorted(imported(path)) for path in FILES}


def test_nothing_is_imported_from_a_conftest() -> None:
    """There are several, and the name is that of the folder which pytest met last."""
    assert [
        f"{path.relative_to(TESTS)}: {name}"
        for path, names in IMPORTED.items()
        for name in names
        if "conftest" in name.split(".")
    ] == []


def test_no_two_modules_outside_packages_have_one_name() -> None:
    """Each folder goes on the path, so that of two modules of one name the first would be both."""
    loose = [p for p in FILES if not (p.parent / "__init__.py").exists()]
    names = Counter(p.stem for p in loose if p.stem not in OF_A_FOLDER)
    assert [name for name, n in names.items() if n > 1] == []


def test_a_module_imported_by_its_bare_name_is_beside_the_one_that_imports_it() -> None:
    """Or at the top: in a folder that was not collected it would not be found."""
    stems = {p.stem for p in FILES} - OF_A_FOLDER
    assert [
        f"{path.relative_to(TESTS)}: {name}"
        for path, names in IMPORTED.items()
        for name in names
        if (head := name.split(".")[0]) in stems
        and not any((folder / f"{head}.py").exists() for folder in (path.parent, TESTS))
        and not (TESTS / head).is_dir()
    ] == []


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

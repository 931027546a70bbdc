"""The page of limits: each line has a code or a figure, and a test that is marked to provoke it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from qserver.api.errors import KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:\^\d+)?"


@dataclass(frozen=True)
class Marked:
    """A test with its marks, and the constants of its body and of the names that it uses."""

    test: str
    limits: frozenset[str]
    constants: frozenset[str]


def _marked() -> Iterator[Marked]:
    """All tests with `pytest.mark.limit`."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.limit(" in text:
            tree = ast.parse(text)
            known = {
                node.targets[0].id: node.value
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and (limits := frozenset(_limits_of(node))):
                    named = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                    yield Marked(named, limits, frozenset(_constants_of(node, known)))


def _limits_of(test: ast.FunctionDef) -> Iterator[str]:
    for call in test.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.limit":
            yield ast.literal_eval(call.args[0])


def _constants_of(test: ast.FunctionDef, known: dict[str, ast.expr]) -> Iterator[str]:
    """Texts and numbers; of module constants too. Docstrings and marks tell nothing."""
    body = test.body[1:] if ast.get_docstring(test) else test.body
    used = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    for part in (*body, *(known[name] for name in used & set(known))):
        for node in ast.walk(part):
            if isinstance(node, ast.Constant):
                yield str(node.value).removesuffix(".0")
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                yield ast.unparse(node).replace(" ** ", "^")


def _lines(page: str) -> list[list[str]]:
    """Limit, code or figure, and test of each line of the tables."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith("| limit |")
    ]


def _faults(lines: list[list[str]], marked: dict[str, Marked]) -> list[str]:
    """Lines whose test is not marked for them, or does not have what they say; and other marks."""
    found, told = [], set()
    for limit, figure, test in lines:
        what, one = figure.strip("`"), marked.get(test.strip("`"))
        told.add((test.strip("`"), what))
        if re.fullmatch(r"[a-z]+_[a-z_]+|busy", what) and what not in KINDS:
            found.append(f"{limit}: {what} is no code")
        if one is None or what not in one.limits:
            found.append(f"{limit}: {test} is not marked with {what}")
            continue
        said = " ".join(one.constants).replace(",", "").replace("_", "")
        numbers = re.findall(_NUMBER, what) or [what]
        for number in numbers:
            word = re.escape(number.replace(",", "").replace("_", ""))
            if not re.search(rf"(?<![\w.]){word}(?!\w|\.\d)", said):
                found.append(f"{limit}: {test} does not say {number}")
    every = {(one.test, limit) for one in marked.values() for limit in one.limits}
    return found + [f"{test}: no line for {what}" for test, what in sorted(every - told)]


LINES = _lines(PAGE)
MARKED = {one.test: one for one in _marked()}


def test_each_line_has_a_test_that_is_marked_with_its_code_or_figure_and_asserts_it() -> None:
    assert len(LINES) > 30
    assert _faults(LINES, MARKED) == []


@pytest.mark.parametrize(
    ("figure", "test", "said"),
    [
        ("`no_such_code`", "tests/a.py::test_a", "is no code"),
        ("`busy`", "tests/a.py::test_b", "is not marked with busy"),
        ("1,000", "tests/a.py::test_a", "does not say 1,000"),
        ("0.25 of runs", "tests/a.py::test_a", "does not say 0.25"),
    ],
)
def test_a_line_that_is_not_provoked_is_noticed(figure: str, test: str, said: str) -> None:
    limits = frozenset({"no_such_code", "1,000", "0.25 of runs"})
    constants = frozenset({"0.2", "10000"})
    marked = {"tests/a.py::test_a": Marked("tests/a.py::test_a", limits, constants)}
    found = _faults(_lines(f"| a limit | {figure} | `{test}` |"), marked)
    assert any(said in fault for fault in found)


def test_a_mark_without_a_line_is_noticed() -> None:
    without = [line for line in LINES if "busy" not in line[1]]
    [fault] = _faults(without, MARKED)
    assert fault.endswith("no line for busy")

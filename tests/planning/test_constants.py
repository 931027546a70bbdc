"""The tuned numbers of planner and ledger stand in one place each, with their reasons."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

import qserver
from qserver.ledger import constants as ledger_constants
from qserver.planning import constants

ROOM = Path(qserver.__file__).parent
UNITS = {"DAY_S", "UNITS_PER_NANO"}
NUMERIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)


def is_number(value: ast.expr) -> bool:
    """Whether an expression is made of numbers alone; an id such as -1 is none."""
    if isinstance(value, ast.UnaryOp):
        return False
    nodes = list(ast.walk(value))
    return all(
        isinstance(n, NUMERIC)
        and not (isinstance(n, ast.Constant) and isinstance(n.value, str | bytes | bool))
        for n in nodes
    )


def numbers_in(path: Path) -> set[str]:
    """Names that a module gives to numbers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and is_number(node.value)
    }


@pytest.mark.parametrize("room", ["planning", "ledger"])
def test_no_other_module_of_the_room_names_a_number(room: str) -> None:
    modules = [p for p in (ROOM / room).rglob("*.py") if p.stem != "constants"]
    found = {str(p.relative_to(ROOM)): numbers_in(p) - UNITS for p in modules}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def documented(path: Path) -> dict[str, str]:
    """The text under each field of the dataclass of a module."""
    (fields,) = [
        n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.ClassDef)
    ]
    found = dict[str, str]()
    for node, after in zip(fields.body, [*fields.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            is_text = isinstance(text, ast.Constant) and isinstance(text.value, str)
            found[node.target.id] = text.value if is_text else ""
    return found


@pytest.mark.parametrize(
    ("module", "numbers"),
    [(constants, constants.PLANNER), (ledger_constants, ledger_constants.LIMITS)],
)
def test_every_number_has_a_reason_and_names_no_benchmark_that_does_not_exist(
    module: ModuleType, numbers: object
) -> None:
    texts = documented(Path(str(module.__file__)))
    assert texts.keys() == vars(numbers).keys()
    benchmarks = {p.stem for p in (Path(__file__).parents[1] / "benchmarks").glob("*.py")}
    others = texts.keys() | {"allocation"}
    for name, text in texts.items():
        assert len(text.split()) >= 4, name
        assert set(re.findall(r"`(\w+)`", text)) <= benchmarks | others, name

"""promises.md: what the files of tests are marked to hold, by `pytest.mark.promise`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SECTIONS = (
    "Privacy",
    "Guard rails",
    "Faults and races",
    "Time",
    "Accounts",
    "Hostile input",
    "Operations",
)
_HEAD = """\
# Promises and their tests

Each promise and the file of tests that would fail if it broke; made from their marks
(`pytest.mark.promise`). [The guarantee](guarantee.md) has the proofs, [the protocol](protocol.md)
the steps. Two of them, `tests/privacy/test_simulator.py` and `tests/privacy/test_enumerator.py`,
play a new history in each run; `QSERVER_SEED`, which a failure prints, repeats it.
"""


@dataclass(frozen=True)
class Promise:
    """A mark.

    Args:
        path: of the file, from the root.
    """

    section: str
    what: str
    path: str


def promises() -> Iterator[Promise]:
    """All of them, by file and by their order in it."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.promise" in text:
            named = path.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
                    section, what = (str(ast.literal_eval(item)) for item in node.args)
                    yield Promise(section, what, named)


def promises_page() -> str:
    """The page, as Markdown."""
    found = list(promises())
    parts = [_HEAD]
    for section in SECTIONS:
        tests: dict[str, list[str]] = {}
        for promise in found:
            if promise.section == section:
                tests.setdefault(promise.what, []).append(f"`{promise.path}`")
        lines = [f"| {what} | {', '.join(paths)} |" for what, paths in tests.items()]
        parts.append("\n".join([f"## {section}\n", "| promise | test |", "|---|---|", *lines, ""]))
    return "\n".join(parts)

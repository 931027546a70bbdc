"""The page of limits: each line has a code or a figure, and a test that provokes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qserver.api.errors import KINDS
from tests.benchmarks.results import kept

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
LINES = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| limit |")
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0][:40])
def test_a_limit_has_a_figure_or_a_code_of_refusal_and_a_test(line: list[str]) -> None:
    _, figure, test = line
    code = re.fullmatch(r"`([a-z_]+)`", figure)
    assert code is None or code[1] in KINDS
    assert code or re.search(r"\d|not verified", figure), figure
    path, _, name = test.strip("`").partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"(?m)^def {name}\(", text), test


def test_shares_of_runs_are_those_of_the_kept_results() -> None:
    """Of coverage, where a line gives four digits."""
    shares = {row["share"] for row in kept("coverage")["rows"]}
    stated = re.findall(r"(0\.\d{4}) of runs", PAGE)
    assert len(stated) == 3
    assert set(stated) <= shares


def test_a_line_without_a_test_would_be_noticed() -> None:
    assert len(LINES) > 30
    with pytest.raises(AssertionError):
        test_a_limit_has_a_figure_or_a_code_of_refusal_and_a_test(
            ["a limit", "`no_such_code`", "`tests/docs/test_limits.py::test_none`"]
        )

"""docs/paper.md: its session runs, and gives what it shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
DEMO_URL = "http://127.0.0.1:8000"
BLOCKS = re.findall(r"(?m)^```pycon\n(.*?)^```$", PAGE, flags=re.DOTALL)


@pytest.mark.slow
def test_the_session_of_the_page_shows_what_it_says(demo_url: str) -> None:
    """One session, so that a later example may use what an earlier one made."""
    assert len(BLOCKS) >= 10
    source = "".join(BLOCKS).replace(DEMO_URL, demo_url)
    session = doctest.DocTestParser().get_doctest(source, {}, "paper.md", "docs/paper.md", 0)
    failures: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(session, out=failures.append)
    assert found.attempted == len(session.examples) > 40
    assert not found.failed, "".join(failures)


def test_every_numbered_statement_of_the_paper_is_there() -> None:
    """The text that is at hand ends with Algorithm 3."""
    for kind, numbers in {
        "Definition": ["2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "4.1", "4.2"],
        "Theorem": ["2.1", "3.1", "3.2", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "5.1", "5.2"],
        "Lemma": ["2.1", "4.1", "4.2", "4.3"],
        "Corollar": ["3.1", "3.2", "4.1"],
        "Algorithm": ["1", "2", "3"],
    }.items():
        named = {number for line in _heads() for number in _numbers(line, kind)}
        assert set(numbers) <= named, kind


def _heads() -> list[str]:
    """The bold openings, each naming what it is about."""
    return re.findall(r"(?m)^\*\*(.*?)\*\*", PAGE)


def _numbers(head: str, kind: str) -> list[str]:
    """The numbers after a word of this kind; `4.2 to 4.4` names three."""
    listed = re.findall(rf"{kind}\w* ([\d., to]+)", head)
    found = [number for text in listed for number in re.findall(r"\d+(?:\.\d+)?", text)]
    for first, last in re.findall(rf"{kind}\w* (\d\.\d) to (\d\.\d)", head):
        chapter = first[0]
        found += [f"{chapter}.{i}" for i in range(int(first[2]), int(last[2]) + 1)]
    return found

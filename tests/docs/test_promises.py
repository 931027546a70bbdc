"""The page of promises names tests that are there, and each that it names tests something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("promises.md", "guarantee.md", "accounts.md")
NAMED = sorted(
    {
        path
        for page in PAGES
        for path in re.findall(r"`(tests/\S+\.py)`", (ROOT / "docs" / page).read_text())
    }
)


@pytest.mark.parametrize("path", NAMED)
def test_a_test_that_a_promise_names_is_there(path: str) -> None:
    text = (ROOT / path).read_text()
    is_of_tests = Path(path).name.startswith("test_")
    assert ("\ndef test_" in text) is is_of_tests


def test_each_section_of_the_promises_names_tests() -> None:
    sections = (ROOT / "docs" / "promises.md").read_text().split("\n## ")[1:-1]
    assert len(sections) == 7
    for section in sections:
        assert re.search(r"`tests/\S+/test_\w+\.py`", section), section.splitlines()[0]
    assert not re.search(r"\b[A-Z]+_[A-Z]+\b", "".join(sections)), "a figure was left out"

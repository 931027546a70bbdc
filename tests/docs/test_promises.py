"""Promises stand on the files of tests that hold them, and what the proof names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.site.pages.promises import SECTIONS, promises, promises_page

ROOT = Path(__file__).parents[2]
NAMED = sorted(
    {
        path
        for page in (ROOT / "docs").rglob("*.md")
        for path in re.findall(r"`(tests/\S+\.py)(?:::\w+)?`", page.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("path", NAMED)
def test_a_test_that_a_page_names_is_there(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    is_of_tests = Path(path).name.startswith("test_")
    assert ("\ndef test_" in text) is is_of_tests


def test_every_promise_has_a_section_and_every_section_has_promises() -> None:
    found = list(promises())
    assert len({promise.what for promise in found}) > 80
    assert {promise.section for promise in found} == set(SECTIONS)


def test_the_page_has_each_promise_once_with_all_of_its_tests() -> None:
    page = promises_page()
    for promise in promises():
        [line] = [line for line in page.splitlines() if line.startswith(f"| {promise.what} |")]
        assert f"`{promise.path}`" in line

"""The benchmark of intervals given what released answers disagree about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.test_benchmarks import quick_document


@pytest.mark.slow
def test_intervals_given_disagreements_say_how_long_and_how_sure_they_are(tmp_path: Path) -> None:
    rows = quick_document("disagreements", tmp_path)["rows"]
    assert len(rows) == 7
    for row in rows:
        assert 0.3 < row["length"] < 3.0
        assert 0.0 <= float(row["error"]) < 0.05
        assert row["disagreements"] > 0

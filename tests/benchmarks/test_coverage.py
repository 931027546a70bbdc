"""The benchmarks of how often intervals hold: by how a question came about, and after looking."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.results import kept
from tests.benchmarks.test_benchmarks import quick_document


@pytest.mark.whole
def test_coverage_is_counted_for_every_design(tmp_path: Path) -> None:
    """Three runs each, by fixed seeds: what is picked out by its value holds less often."""
    rows = quick_document("coverage", tmp_path)["rows"]
    assert {row["design"] for row in rows} == {
        *("fixed", "adaptive", "winner", "refined winner", "repeated", "dependent"),
        "small, held to be >= 0",
    }
    assert {(row["stated"], row["runs"]) for row in rows} == {(0.95, 3)}
    shares = {f"{row['design']}, {row['question']}": float(row["share"]) for row in rows}
    assert shares["winner, by its own interval"] < shares["winner, as the largest of 64"] == 1.0


def test_the_kept_coverage_is_as_exact_and_as_good_as_the_page_says() -> None:
    """Within four standard errors, of what is promised to hold and of what is known not to."""
    rows = {f"{row['design']}, {row['question']}": row for row in kept("coverage")["rows"]}
    assert all(row["runs"] >= 2000 for row in rows.values())
    for name, row in rows.items():
        short = row["stated"] - float(row["share"])
        is_promised = name.split(",")[0] in ("fixed", "repeated", "dependent")
        if is_promised or "each" in name or "as the largest" in name:
            assert short < 4 * float(row["standard_error"]), name
    assert float(rows["winner, by its own interval"]["share"]) < 0.25


@pytest.mark.whole
def test_every_reading_after_looking_is_counted_on_a_whole_server(tmp_path: Path) -> None:
    rows = quick_document("looking", tmp_path)["rows"]
    assert len(rows) == 7
    lengths = {row["reading"]: row["mean_length"] for row in rows}
    assert lengths["the largest, by itself"] == pytest.approx(20, rel=1e-3)
    assert lengths["all 64 at once"] > lengths["the largest, as the largest of 64"] > 33

"""The comparison page shows the figures that the benchmarks measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.benchmarks.headlines import headline_text
from tests.benchmarks.load import ROOT
from tests.benchmarks.results import kept
from tests.benchmarks.tables import value_text

PAGE = ROOT / "docs" / "comparison.md"
_COLUMNS = ["workload", "relation", "system", "reference", "obtained", "qserver", "benchmark"]

Row = Mapping[str, str]


def page_rows() -> list[Row]:
    """The rows of the budget table; `same` in the first column is filled in."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| workload"))
    rows: list[Row] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [c.strip() for c in line.strip("|").split("|")]
        row = dict(zip(_COLUMNS, cells, strict=True))
        if row["workload"].startswith("same"):
            row["workload"] = f"{rows[-1]['workload'].split(':')[0]}: {row['workload']}"
        rows.append(row)
    return rows


def measured(name: str, wanted: Mapping[str, str], column: str) -> str:
    """One figure of a full run's results, as the tables show it."""
    (row,) = [r for r in kept(name)["rows"] if all(r[k] == v for k, v in wanted.items())]
    return value_text(row[column])


def blocks_stream(row: Row) -> str:
    """The stream of `blocks_spend` that a row of the page is about."""
    if row["workload"].startswith("covid"):
        return "covid, Zipf 1" if "Zipf 1" in row["workload"].split(":")[-1] else "covid, Zipf 0"
    assert row["workload"].startswith("citibike")
    return "citibike"


def expected_of_blocks(row: Row) -> str:
    wanted = {"stream": blocks_stream(row), "relation": row["relation"]}
    return measured("blocks_spend", wanted, "end")


def expected_of_apex(row: Row) -> str:
    batches = {"QW1: ": "QW1: bins at 0.02", "then QW2": "QW2: prefixes at 0.02"}
    found = [b for start, b in batches.items() if row["workload"].startswith(start)]
    return measured("apex", {"batch": found[0] if found else "QW1 at 0.01"}, "spent")


def of_ranges(method: str) -> str:
    return measured("ranges", {"queries": "500 1-D ranges", "method": method}, "end")


def of_lifetime(method: str) -> str:
    return measured("lifetime", {"method": method}, "at_1000")


EXPECTED: Mapping[str, Callable[[Row], str]] = {
    "`blocks_spend`": expected_of_blocks,
    "`apex`": expected_of_apex,
    "`ranges`": lambda _row: of_ranges("server"),
    "`lifetime`": lambda _row: of_lifetime("rent or buy"),
}
SAME_RUN: Mapping[str, Callable[[str], str]] = {"`ranges`": of_ranges, "`lifetime`": of_lifetime}


@pytest.mark.parametrize("row", page_rows(), ids=lambda r: f"{r['workload'][:30]} {r['system']}")
def test_each_figure_of_ours_is_that_of_a_full_run(row: Row) -> None:
    assert row["qserver"] == EXPECTED[row["benchmark"]](row)


@pytest.mark.parametrize("row", [r for r in page_rows() if r["obtained"] == "same run"])
def test_a_reference_of_the_same_run_is_that_of_the_run(row: Row) -> None:
    method = row["system"].split(",")[0].removesuffix(" on our cell ledger")
    method = method.replace("the source paper's", "the paper's")
    assert row["reference"] == SAME_RUN[row["benchmark"]](method)


def test_the_figures_of_other_systems_are_those_of_a_full_run() -> None:
    """With the versions that were run, on the page of benchmarks."""
    page = PAGE.with_name("benchmarks.md").read_text(encoding="utf-8")
    assert headline_text("peers", kept("peers")["rows"]) in page
    told = page.replace(" ", "")
    for version in kept("peers")["parameters"]["versions"].split(", "):
        assert version.split("==")[1] in told


def test_every_row_says_how_its_reference_was_obtained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"**{row['obtained']}**" in text for row in page_rows())
    assert {row["relation"] for row in page_rows()} == {"add-remove", "replace-one"}

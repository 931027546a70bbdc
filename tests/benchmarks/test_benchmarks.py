"""The benchmarks' quick versions: what they count is checked, how long they take never is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from tests.benchmarks.__main__ import DOCUMENT, main
from tests.benchmarks.adult_questions import mixed_predicates
from tests.benchmarks.budget_methods import Counts, RowsAlone, Served
from tests.benchmarks.headlines import HEADLINES, Headline, headline_text
from tests.benchmarks.lifetime import METHODS as LIFETIME_METHODS
from tests.benchmarks.ranges import UNIT_NANO
from tests.benchmarks.registry import benchmark_names
from tests.benchmarks.results import RESULTS, kept, results_page
from tests.benchmarks.streams import Asked as LifetimeAsked
from tests.benchmarks.tables import table_text, with_table
from tests.benchmarks.workloads import QuerySource

NAMES = [
    "answer_times",
    "apex",
    "blocks_spend",
    "blue",
    "consistent",
    "coverage",
    "daily",
    "disagreements",
    "functions",
    "lifetime",
    "looking",
    "many_attributes",
    "marginals",
    "marginals_records",
    "networks",
    "peers",
    "posterior",
    "ranges",
    "ratio",
    "refining",
    "replayed",
    "scale",
    "serve",
    "spend",
    "storm",
    "tracing",
    "units",
    "wanted_models",
    "weeks",
    "zcdp",
]
_DOCUMENT_KEYS = {"benchmark", "title", "quick", "machine", "parameters", "rows"}


def quick_document(name: str, folder: Path) -> Mapping[str, Any]:
    """The JSON that a quick run of a benchmark writes, by the command of the documentation."""
    assert main([name, "--quick", "--out", str(folder)]) == 0
    document: Mapping[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert set(document) == _DOCUMENT_KEYS
    assert document["benchmark"] == name
    assert document["quick"] is True
    return document


def test_every_benchmark_is_found_by_its_module() -> None:
    assert benchmark_names() == NAMES


@pytest.mark.slow
def test_a_storm_lets_free_answers_through(tmp_path: Path) -> None:
    rows = quick_document("storm", tmp_path)["rows"]
    assert [row["storm"] for row in rows] == ["none"] * 2 + ["catalogue join"] * 2
    assert all(0 < row["median_ms"] <= row["longest_ms"] for row in rows)


@pytest.mark.slow
def test_the_posterior_agrees_with_the_references_and_its_certificate(tmp_path: Path) -> None:
    rows = quick_document("posterior", tmp_path)["rows"]
    assert {row["against"] for row in rows} == {"reference", "certified"}
    for row in rows:
        assert row["error"] <= 1e-12
        assert row["certificate"] <= 1e-10
        assert row["convolution_error"] <= 1e-3
        assert row["monte_carlo_error"] <= 0.05
    assert all(isinstance(row["probability_ms"], float) for row in rows)


@pytest.mark.slow
def test_every_allocation_learns_and_the_default_has_the_least_errors(tmp_path: Path) -> None:
    rows = quick_document("networks", tmp_path)["rows"]
    assert len(rows) == 2 * 5
    for row in rows:
        others = [row[other] for other in ("rows", "uniform", "arxiv", "icml")]
        if row["error"] in ("parameter_l1", "query_l1"):
            assert row["best"] < min(others)
            assert row["best"] < row["best_at_half"]
        if row["error"] == "best_found":
            assert all(0 <= share <= 1 for share in (row["best"], *others))


def test_rounds_of_consensus_are_timed_where_no_junction_tree_fits(tmp_path: Path) -> None:
    rows = quick_document("marginals", tmp_path)["rows"]
    # A difference of two times: on a busy machine the longer run may be the shorter one.
    assert all(math.isfinite(row["consensus_ms"]) for row in rows)
    assert rows[-1]["exact_cells"] > 1e9


@pytest.mark.whole
def test_records_err_by_no_more_than_their_model_by_much(tmp_path: Path) -> None:
    rows = quick_document("marginals_records", tmp_path)["rows"]
    assert [row["epsilon"] for row in rows] == [1, 10]
    for row in rows:
        # Few small tables, and of so little noise that rounding records tells.
        assert row["records"] < row["model"] + 0.25 * row["sample"]
        assert row["records"] < row["drawn"] + 0.25 * row["sample"]


@pytest.mark.slow
def test_models_of_a_real_worker_are_near_the_truth_by_what_was_wanted(tmp_path: Path) -> None:
    rows = quick_document("wanted_models", tmp_path)["rows"]
    assert [row["wanted"] for row in rows] == ["pairs", "triples"]
    for row in rows:
        assert 0 < row["pairs"] < row["triples"] < 0.05
        assert row["records_triples"] < row["triples"] + 0.02


@pytest.mark.slow
def test_weeks_that_are_appended_cost_no_more_than_if_all_were_known(tmp_path: Path) -> None:
    rows = quick_document("weeks", tmp_path)["rows"]
    assert {row["arrivals"] for row in rows} == {1, 4}
    for row in rows:
        assert row["append"] <= row["static"] <= row["rotate"]


@pytest.mark.slow
def test_consistent_answers_are_nearer_the_truth_in_every_trial(tmp_path: Path) -> None:
    rows = quick_document("consistent", tmp_path)["rows"]
    assert {row["total"] for row in rows} == {"public", "not known"}
    for row in rows:
        assert row["consistent"] < row["unbiased"]
        assert row["worst"] <= 1.0
        assert row["gap"] <= 1e-5 * row["questions"]


@pytest.mark.whole
def test_the_weights_have_the_variance_of_dense_least_squares(tmp_path: Path) -> None:
    rows = quick_document("blue", tmp_path)["rows"]
    compared = [row for row in rows if row["variance_difference"] is not None]
    assert [row["rows"] for row in rows if row not in compared] == ["30 predicates, 10^12 cells"]
    assert max(row["variance_difference"] for row in compared) <= 1e-9


def test_in_hindsight_all_loose_questions_are_answered_and_hardly_any_tight_one() -> None:
    """Within 1,000 records at 0.8 a count costs 0.0016; within half a record, over the limit."""
    (query,) = {a.query for a in mixed_predicates(1, n=1)}
    loose = [LifetimeAsked(query, Requirement(2_000.0, 0.8))] * 10
    tight = [LifetimeAsked(query, Requirement(1.0, 0.999))] * 10
    clairvoyant = LIFETIME_METHODS["clairvoyant"]
    assert clairvoyant(loose, 1).answered == {10: 10}
    assert clairvoyant(loose[:4] + tight[:6], 1).answered == {10: 4}


@pytest.mark.parametrize("kind", [RowsAlone, Served])
def test_a_planner_answers_the_same_question_again_for_nothing(
    kind: type[RowsAlone | Served],
) -> None:
    method = kind(Counts.seeded((50,), 2), 2)
    row = primitive(QuerySource.seeded((50,), 2).box())
    requirement = Requirement(100.0, 0.95)
    first, spent = method.ask(row, requirement), method.spent_nano
    again = method.ask(row, requirement)
    assert first.measured
    assert spent == pytest.approx(UNIT_NANO, rel=1e-5)
    assert (again.measured, again.low, again.high) == (False, first.low, first.high)
    assert method.spent_nano == spent


@pytest.mark.whole
def test_the_attack_on_fair_bits_is_near_its_bound_and_privacy_keeps_the_one_on_alarm_below(
    tmp_path: Path,
) -> None:
    """Two splits: standard errors near 0.01, of which five are allowed."""
    rows = quick_document("tracing", tmp_path)["rows"]
    bits = [r for r in rows if r["release"] == "250 fair bits"]
    assert len(bits) == 3
    assert all(abs(r["attack_auc"] - r["finite_bound_auc"]) < 0.05 for r in bits)
    private = [r for r in rows if r["records"] == 691]
    (exact,) = [r for r in private if r["epsilon"] is None]
    for row in private:
        assert row["attack_auc"] < row["bound_auc"]
        if row["epsilon"] == 1.0:
            assert row["attack_auc"] < exact["attack_auc"] - 0.03
            assert row["cap_auc"] < 0.9


def test_every_benchmark_has_results_of_a_full_run_and_the_page_shows_the_headlines_of_some() -> (
    None
):
    text = DOCUMENT.read_text(encoding="utf-8")
    assert len(HEADLINES) >= 9
    for name in NAMES:
        document = kept(name)
        assert set(document) == _DOCUMENT_KEYS
        assert document["quick"] is False
        if name in HEADLINES:
            assert with_table(text, name, headline_text(name, document["rows"])) == text
    assert sorted(path.stem for path in RESULTS.glob("*.json")) == NAMES


def test_the_answers_on_top_of_the_page_are_figures_of_its_tables() -> None:
    top, _, tables = DOCUMENT.read_text(encoding="utf-8").partition("## daily")
    answers = [line.split(" | ")[1] for line in top.splitlines() if line.startswith("| ")][1:]
    figures = {"257", "255", "202", *re.findall(r"\d+\.\d+", " ".join(answers))} - {"0.95"}
    assert len(figures) > 10
    for figure in figures:
        assert any(figure in answer for answer in answers)
        assert f"| {figure} |" in tables, figure


def test_the_page_of_all_results_and_the_command_show_full_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = results_page()
    for name in NAMES:
        assert table_text(kept(name)["rows"]) in page
    assert main(["apex", "--kept"]) == 0
    assert capsys.readouterr().out in page


def test_a_headline_has_the_rows_it_names_and_spreads_a_column() -> None:
    rows = [{"a": a, "b": b, "c": 10 * a + b} for a in (1, 2) for b in (3, 4)]
    assert Headline({"A": "a", "C": "c"}, {"b": (4,)}).text(rows).splitlines()[2:] == [
        "| 1 | 14 |",
        "| 2 | 24 |",
    ]
    lines = Headline({"A": "a"}, spread=("b", "c")).text(rows).splitlines()
    assert (lines[0], lines[2:]) == ("| A | 3 | 4 |", ["| 1 | 13 | 14 |", "| 2 | 23 | 24 |"])
    with pytest.raises(ValueError, match=r"b = \{5\}"):
        Headline({"A": "a"}, {"b": (4, 5)}).text(rows)


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["no-such-benchmark"])
    assert "invalid choice" in capsys.readouterr().err

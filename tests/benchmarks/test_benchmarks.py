"""The benchmarks' quick versions: what they count is checked, how long they take never is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from tests.benchmarks.__main__ import DOCUMENT, main
from tests.benchmarks.adult_questions import mixed_predicates
from tests.benchmarks.answer_times import SLOT_MS
from tests.benchmarks.budget_methods import Counts, RowsAlone, Served
from tests.benchmarks.headlines import HEADLINES, Headline, headline_text
from tests.benchmarks.lifetime import METHODS as LIFETIME_METHODS
from tests.benchmarks.load import ROOT
from tests.benchmarks.ranges import UNIT_NANO
from tests.benchmarks.registry import benchmark_names
from tests.benchmarks.results import RESULTS, kept, results_page
from tests.benchmarks.streams import Asked as LifetimeAsked
from tests.benchmarks.tables import table_text, with_table
from tests.benchmarks.workloads import QuerySource

NAMES = [
    "adult_median",
    "aggregates",
    "answer_times",
    "apex",
    "blocks_spend",
    "blue",
    "consistent",
    "coverage",
    "disagreements",
    "learnt_levels",
    "lifetime",
    "looking",
    "many_attributes",
    "marginals",
    "marginals_choices",
    "marginals_error",
    "marginals_mechanisms",
    "marginals_records",
    "networks",
    "posterior",
    "ranges",
    "ratio",
    "replayed",
    "scarce_limits",
    "serve",
    "spend",
    "tracing",
    "weeks",
    "yardsticks",
]
_DOCUMENT_KEYS = {"benchmark", "title", "quick", "machine", "parameters", "rows"}


def quick_document(name: str, folder: Path) -> Mapping[str, Any]:
    """The JSON that a quick run of a benchmark writes, by the command of the documentation."""
    command = [sys.executable, "-m", "tests.benchmarks", name, "--quick", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document: Mapping[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert set(document) == _DOCUMENT_KEYS
    assert document["benchmark"] == name
    assert document["quick"] is True
    return document


@pytest.fixture(scope="module")
def ranges_rows(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = quick_document("ranges", tmp_path_factory.mktemp("r"))["rows"]
    return rows


def test_every_benchmark_is_found_by_its_module() -> None:
    assert benchmark_names() == NAMES


def test_the_posterior_agrees_with_the_references_and_its_certificate(tmp_path: Path) -> None:
    rows = quick_document("posterior", tmp_path)["rows"]
    assert {row["against"] for row in rows} == {"reference", "certified"}
    for row in rows:
        assert row["error"] <= 1e-12
        assert row["certificate"] <= 1e-10
        assert row["convolution_error"] <= 1e-3
        assert row["monte_carlo_error"] <= 0.05
    assert all(isinstance(row["probability_ms"], float) for row in rows)


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


def test_batches_of_marginals_come_to_the_beliefs_of_the_plain_loop(tmp_path: Path) -> None:
    rows = quick_document("marginals", tmp_path)["rows"]
    assert max(row["difference"] for row in rows) <= 1e-12
    # Memory grows with the marginals, not with the junction tree.
    assert all(row["bytes_per_cell"] < 200 for row in rows)
    assert rows[-1]["exact_cells"] > 1e9


def test_estimates_of_marginals_have_less_error_than_their_noise(tmp_path: Path) -> None:
    rows = quick_document("marginals_error", tmp_path)["rows"]
    for row in rows:
        assert row["in_exact"] < row["noisy"]
        assert row["in_saturated"] < row["noisy"]
        assert row["in_exact"] < 1.01 * row["in_factor"] < row["noisy"]


def test_choices_alone_tell_more_than_uniform_tables_do(tmp_path: Path) -> None:
    (row,) = quick_document("marginals_choices", tmp_path)["rows"]
    for answers in ("records", "factor", "saturated"):
        assert row[f"l1_{answers}"] < row["uniform_l1"]


def test_records_err_by_no_more_than_their_model_by_much(tmp_path: Path) -> None:
    rows = quick_document("marginals_records", tmp_path)["rows"]
    assert [row["epsilon"] for row in rows] == [1, 10]
    for row in rows:
        # Few small tables, and of so little noise that rounding records tells.
        assert row["records"] < row["model"] + 0.25 * row["sample"]
        assert row["records"] < row["drawn"] + 0.25 * row["sample"]


def test_weeks_that_are_appended_cost_no_more_than_if_all_were_known(tmp_path: Path) -> None:
    rows = quick_document("weeks", tmp_path)["rows"]
    assert {row["arrivals"] for row in rows} == {1, 4}
    for row in rows:
        assert row["append"] <= row["static"] <= row["rotate"]


def test_consistent_answers_are_nearer_the_truth_in_every_trial(tmp_path: Path) -> None:
    rows = quick_document("consistent", tmp_path)["rows"]
    assert {row["total"] for row in rows} == {"public", "not known"}
    for row in rows:
        assert row["consistent"] < row["unbiased"]
        assert row["worst"] <= 1.0
        assert row["gap"] <= 1e-5 * row["questions"]


def test_mechanisms_on_estimates_have_less_error_than_unbiased_ones(tmp_path: Path) -> None:
    rows = quick_document("marginals_mechanisms", tmp_path)["rows"]
    assert {row["mechanism"] for row in rows} == {"fixed", "adaptive", "all pairs"}
    for row in rows:
        if row["mechanism"] != "adaptive":
            assert row["saturated"] < row["unbiased"] < row["noisy"]


@pytest.mark.whole
def test_learnt_levels_are_compared_on_the_same_streams(tmp_path: Path) -> None:
    rows = quick_document("learnt_levels", tmp_path)["rows"]
    assert [row["levels"] for row in rows] == 3 * ["learnt", "regular"]
    for learnt, regular in zip(rows[::2], rows[1::2], strict=True):
        assert learnt["stream"] == regular["stream"]
        assert learnt["at_10"] <= 1.5 * regular["at_10"]
    # Of 50 cuts at random there is nothing to learn yet.
    assert rows[-2]["end"] == rows[-1]["end"]


@pytest.mark.whole
def test_a_limit_that_can_pay_the_blocks_answers_more_than_by_rows(tmp_path: Path) -> None:
    rows = quick_document("scarce_limits", tmp_path)["rows"]
    assert rows[0]["least"] >= 1.0
    assert rows[-1]["server"] > rows[-1]["rows"]


def test_the_weights_have_the_variance_of_dense_least_squares(tmp_path: Path) -> None:
    rows = quick_document("blue", tmp_path)["rows"]
    compared = [row for row in rows if row["variance_difference"] is not None]
    assert [row["rows"] for row in rows if row not in compared] == ["30 predicates, 10^12 cells"]
    assert max(row["variance_difference"] for row in compared) <= 1e-9


@pytest.mark.whole
def test_blocks_spend_less_than_direct_measuring_and_no_less_than_the_best_blocks(
    tmp_path: Path,
) -> None:
    """30 questions of each stream: most intervals hold, and hindsight is a floor where it binds."""
    rows = {
        (r["stream"], r["relation"]): r for r in quick_document("blocks_spend", tmp_path)["rows"]
    }
    ranges = rows[("1-D ranges", "add-remove")]
    assert ranges["hindsight"] <= ranges["end"] < 30
    for row in rows.values():
        assert row["checked"] > 0
        assert row["violated_percent"] <= 20


@pytest.mark.whole
def test_the_more_a_method_reuses_the_more_questions_the_limit_answers(tmp_path: Path) -> None:
    """100 questions: the limit is reached by all, and never passed."""
    rows = {r["method"]: r for r in quick_document("lifetime", tmp_path)["rows"]}
    methods = [rows[m] for m in ("naive", "exact cache", "the paper's rule", "rent or buy")]
    answered = [r["at_100"] for r in methods]
    assert 10 <= answered[0] <= answered[1] <= answered[2] < 100
    assert 0.9 * answered[2] <= answered[3] < 100
    assert all(0.9 < r["spent"] <= 1.0 for r in methods)
    # Of 50 intervals that miss with 9 percent each, 16 do with probability 1e-5.
    assert all(r["checked"] > 0 and r["violated_percent"] < 32 for r in methods)


def test_in_hindsight_all_loose_questions_are_answered_and_hardly_any_tight_one() -> None:
    """Within 1,000 records at 0.8 a count costs 0.0016; within half a record, over the limit."""
    (query,) = {a.query for a in mixed_predicates(1, n=1)}
    loose = [LifetimeAsked(query, Requirement(2_000.0, 0.8))] * 10
    tight = [LifetimeAsked(query, Requirement(1.0, 0.999))] * 10
    clairvoyant = LIFETIME_METHODS["clairvoyant"]
    assert clairvoyant(loose, 1).answered == {10: 10}
    assert clairvoyant(loose[:4] + tight[:6], 1).answered == {10: 4}


@pytest.mark.whole
def test_the_apex_batches_are_planned_as_one_and_hold(tmp_path: Path) -> None:
    rows = quick_document("apex", tmp_path)["rows"]
    assert [row["violated_batches"] for row in rows] == [0, 0, 0]
    # The first batch has nothing to reuse: the same price up to the rounding of APEx's figure.
    assert rows[0]["spent"] <= 1.01 * rows[0]["apex_spent"]
    # What was aimed at for the later ones.
    assert rows[1]["spent"] <= 0.055
    assert round(rows[2]["spent"], 4) <= 0.063


@pytest.mark.whole
def test_rows_alone_spend_no_more_than_the_exact_cache_and_that_no_more_than_naive(
    ranges_rows: list[Mapping[str, Any]],
) -> None:
    by_queries: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in ranges_rows:
        by_queries.setdefault(row["queries"], {})[row["method"]] = row
    assert len(by_queries) == 5
    assert all(len(methods) == 5 for methods in by_queries.values())
    for methods in by_queries.values():
        naive, cache, rows = (methods[m] for m in ("naive", "exact cache", "rows alone"))
        assert rows["end"] <= cache["end"] * (1 + 1e-6)
        assert cache["end"] <= naive["end"] * (1 + 1e-6)
        assert rows["measured"] <= cache["measured"] <= naive["measured"]


@pytest.mark.whole
def test_the_server_of_the_ranges_benchmark_buys_blocks_by_its_rule(
    ranges_rows: list[Mapping[str, Any]],
) -> None:
    """After 24 ranges its spend lies between the best blocks and 1.85 times the lesser price."""
    for queries in ("24 1-D ranges", "24 prefixes"):
        methods = {row["method"]: row for row in ranges_rows if row["queries"] == queries}
        server, rows = methods["server"], methods["rows alone"]
        best = methods["best blocks in hindsight"]["end"]
        assert server["measured"] < rows["measured"]
        assert best < server["end"] < 1.85 * min(best, rows["end"])


@pytest.mark.whole
def test_a_naive_answer_costs_one_unit_and_halving_the_length_doubles_it(
    ranges_rows: list[Mapping[str, Any]],
) -> None:
    naive = {row["queries"]: row["end"] for row in ranges_rows if row["method"] == "naive"}
    assert naive["24 1-D ranges"] == pytest.approx(24, rel=1e-5)
    assert naive["12 ranges at L, L/2, L/4"] == pytest.approx(4 * (1 + 2 + 4), rel=1e-5)


@pytest.mark.whole
def test_no_interval_is_longer_than_asked_and_few_miss_the_truth(
    ranges_rows: list[Mapping[str, Any]],
) -> None:
    """Of 24 intervals at 95 percent more than 6 miss with probability 3e-4; the seed is fixed."""
    played = [row for row in ranges_rows if row["measured"] is not None]
    assert len(played) == 20
    assert {row["too_long"] for row in played} == {0}
    assert max(row["violated_percent"] for row in played) <= 25.0


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
def test_served_answers_come_from_history_and_beside_them_an_echo_is_measured(
    tmp_path: Path,
) -> None:
    (row,) = quick_document("serve", tmp_path)["rows"]
    assert row["from_history_percent"] == 100.0
    assert min(row["repeated_share"], row["repeated_per_s"], row["echo_per_s"]) > 0.0
    assert 0.0 < row["new_p50_ms"] <= row["new_p99_ms"]


@pytest.mark.whole
def test_every_answer_of_the_spend_benchmark_is_measured(tmp_path: Path) -> None:
    rows = quick_document("spend", tmp_path)["rows"]
    assert [row["connections"] for row in rows] == [1, 4]
    assert {row["measured_percent"] for row in rows} == {100.0}


@pytest.mark.whole
def test_measurements_with_a_slot_take_it_whole(tmp_path: Path) -> None:
    """How many pairs are told depends on the machine; that none ends before its slot does not."""
    rows = quick_document("answer_times", tmp_path)["rows"]
    assert [row["slot"] for row in rows].count("none") == 1
    for row in rows:
        assert 0 < row["pairs"] <= 12
        assert 0 <= row["told_percent"] <= 100
        if row["slot"] != "none":
            assert row["measurement_ms"] >= SLOT_MS


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


def test_each_yardstick_is_at_most_the_next(tmp_path: Path) -> None:
    (row,) = quick_document("yardsticks", tmp_path)["rows"]
    assert row["bound"] <= row["matrix"] <= row["mixture"] * (1 + 1e-6)
    assert row["mixture"] <= min(row["blocks"], row["rows"], row["spent"]) * (1 + 1e-6)


@pytest.mark.whole
def test_a_week_that_returns_costs_no_more_with_its_demand(tmp_path: Path) -> None:
    rows = quick_document("replayed", tmp_path)["rows"]
    assert [row["week"] for row in rows] == ["same", "half", "none"]
    assert rows[0]["known"] <= rows[0]["anew"]


def test_every_benchmark_has_results_of_a_full_run_and_the_page_shows_their_headlines() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert sorted(HEADLINES) == NAMES
    for name in NAMES:
        document = kept(name)
        assert set(document) == _DOCUMENT_KEYS
        assert document["quick"] is False
        assert with_table(text, name, headline_text(name, document["rows"])) == text
    assert sorted(path.stem for path in RESULTS.glob("*.json")) == NAMES


def test_the_answers_on_top_of_the_page_are_figures_of_its_tables() -> None:
    top, _, tables = DOCUMENT.read_text(encoding="utf-8").partition("## ranges")
    answers = [line.split(" | ")[1] for line in top.splitlines() if line.startswith("| ")][1:]
    plain = tables.replace(",", "")
    for figure in ("16.9", "257", "255", "202"):
        assert any(figure in answer for answer in answers)
        assert f"| {figure.replace(',', '')} |" in plain


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

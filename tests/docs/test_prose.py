"""Figures in prose: of the code, of kept results by their link, or not there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import combinations

import pytest

from qserver.answering.models.kinds import tables_to_buy
from qserver.api.process.start import STARTING_S
from qserver.cli.processes import Backoff
from qserver.inference.smooth.number import SURELY
from qserver.models.marginals import model
from qserver.planning.constants import PLANNER
from qserver.postgres.catalogue import child as catalogue
from qserver.postgres.limits import Limits
from qserver.query.asking.method_and_prior import LEAST_ERROR, MOST_ERROR, USUAL_ERROR
from qserver.query.requirement import DEFAULT_PHI
from qserver.query.sql.engine import child as engine
from qserver.query.sql.functions.group_count import LAST_LOOK
from tests.benchmarks.results import kept
from tests.benchmarks.tables import value_text
from tests.docs.test_pages import _KEPT_TABLE, README, ROOT, WRITTEN
from worker.constants import WORKER

_UNIT = r"(?:ms|µs|(?:micro|milli)?seconds?|s|minutes|MB|GB|KB|epsilon|percent|times|of runs)"
_FIGURE = (
    rf"(?<![\w.`^/:-])\d[\d,]*(?:\.\d+)? {_UNIT}\b|(?<![\w`^/:.-])\d*\.\d+\b(?!\.\d)(?: {_UNIT}\b)?"
)
_LINKED = r"\[([^\]]*)\]\((?:\.\./)?results\.md#(\w+)\)"
_NUMBERED = (
    r"\b(?:Definition|Theorem|Lemma|Corollar|Section|theorem)\w* \d\.\d(?:(?:,| and| to) \d\.\d)*"
)
_NAMES = r"Python 3\.\d+|CC BY 4\.0|MPL 2\.0|Superset \d\.\d|arXiv \d+\.\d+|<http[^>]*>"

DOMAIN = WRITTEN["domain.md"]
TABLES = {
    "benchmarks.md": "tests/benchmarks/test_benchmarks.py",
    "comparison.md": "tests/docs/test_comparison.py",
    "domain.md": "tests/docs/test_prose.py",
    "limits.md": "tests/docs/test_limits.py",
    "promise.md": "tests/docs/test_prose.py",
}
"""Pages whose tables a test holds to results or to mathematics."""

ASKED = {"95 percent", "0.95"}
"""What a reader asks for, on any page."""

MEGA = float(1 << 20)
EXACT: Mapping[str, Mapping[str, float]] = {
    "README.md": {},
    "comparison.md": {},
    "concepts.md": {
        "5 percent": 5,  # of a test that is made up
        "0.001": LEAST_ERROR,
        "0.01": MOST_ERROR,
        "0.004": USUAL_ERROR,
        "0.4": DEFAULT_PHI,
        "0.85": PLANNER.most_ratio - 1,
        "11 times": 11,  # qserver/planning/blocks/earlier_questions.py has why
        "256 MB": float(str(engine.CONFIG["memory_limit"]).removesuffix("MB")),
        "2 seconds": engine.MOST_SECONDS,
    },
    "domain.md": {"95 percent": 100 * WORKER.lost_share},
    "guarantee.md": {".85": LAST_LOOK, ".15": 1 - LAST_LOOK, "0.92": SURELY},
    "howto/price.md": {"0.05 epsilon": 0.05},  # of its example
    "howto/several-records.md": {"5 times": 5},  # of its example
    "howto/sources.md": {"5 percent": 100 * WORKER.report_share},
    "models.md": {
        ".005": model.NOISY,
        ".02": model.RULED,
        ".003": tables_to_buy.MISSED,
        ".7": tables_to_buy.FOR_PAIRS,
    },
    "operations.md": {
        "0.1 s": Backoff.first_s,
        "1 s": Backoff.killed_s,
        "30 s": Backoff.most_s,
        "16 MB": WORKER.journal_free_bytes / MEGA,
        "64 MB": 64,  # the store's own
        ".5": 0.5,  # of its example
    },
    "postgres.md": {
        "0.1 epsilon": 0.1,  # of its example
        "30 s": Limits.message_s,
        "5 s": catalogue.MOST_SECONDS,
        "160 MB": catalogue._MOST_ADDRESSES / MEGA,
        "16 MB": catalogue.MOST_BYTES / MEGA,
    },
    "protocol.md": {"0.1 s": WORKER.group_planning_s, "30 s": STARTING_S},
    "tracing.md": {"2 epsilon": 2},
}
"""By page: figures that are no results, with what they are in the code."""


def _prose(page: str, text: str) -> str:
    """A page without examples, code, addresses, numbers of statements, and tables that are held."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", re.sub(_KEPT_TABLE, "", text))
    text = "" if page == "benchmarks.md" else text
    if page in TABLES:
        text = re.sub(r"(?m)^\|.*$", "", text)
    for gone in (_LINKED, r"`[^`]*`", r"\]\([^)]*\)", _NUMBERED, _NAMES):
        text = re.sub(gone, "", text)
    return text


def _untagged(page: str, text: str) -> list[str]:
    known = {*ASKED, *EXACT.get(page, {})}
    return [found for found in re.findall(_FIGURE, _prose(page, text)) if found not in known]


PAGES = WRITTEN | {"README.md": README, "CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text()}


@pytest.mark.parametrize("page", PAGES)
def test_a_figure_in_prose_is_exact_or_links_to_its_results(page: str) -> None:
    assert _untagged(page, PAGES[page]) == []


def test_an_exact_figure_is_that_of_the_code_and_is_still_told() -> None:
    for page, figures in EXACT.items():
        told = re.findall(_FIGURE, _prose(page, PAGES[page]))
        for figure, value in figures.items():
            assert float(figure.split()[0]) == pytest.approx(value), (page, figure)
            assert figure in told, (page, figure)


def _linked() -> Iterator[tuple[str, str, str]]:
    for page, text in PAGES.items():
        for told, name in re.findall(_LINKED, text):
            for figure in re.findall(r"\d+(?:\.\d+)?", told):
                yield page, figure, name


def test_a_figure_that_links_to_results_is_one_of_them() -> None:
    assert len(list(_linked())) >= 4
    for page, figure, name in _linked():
        values = {value_text(v) for row in kept(name)["rows"] for v in row.values()}
        assert figure in values, (page, figure, name)


def test_the_table_of_units_is_that_of_a_full_run() -> None:
    found = {row["unit"]: [row[f"after_{n}"] for n in (1, 13, 52)] for row in kept("units")["rows"]}
    rows = re.findall(r"(?m)^\| (`person.*?) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", DOMAIN)
    assert len(rows) == 4
    for unit, *spent in rows:
        for name in unit.split(", or "):
            assert found[name.replace("` with", "`,")] == spent


def test_a_test_that_finds_a_power_is_bounded_as_the_promise_says() -> None:
    """Wrong for 5 of 100 others, it finds at most e^epsilon times as many, or all but the rest."""
    rows = re.findall(r"(?m)^\| ([\d.]+) \| ([\d.]+) \|$", WRITTEN["promise.md"])
    assert len(rows) >= 5
    for epsilon, power in rows:
        grown = math.exp(float(epsilon))
        most = min(5 * grown, 100 - 95 / grown)
        assert float(power) == pytest.approx(math.ceil(10 * most) / 10)


def _runs(text: str, n: int = 10) -> set[tuple[str, ...]]:
    """The runs of n words of a page's prose, without its links."""
    plain = re.sub(r"\[[^\]]*\]\([^)]*\)", "", re.sub(r"(?ms)^ *```.*?^ *```", "", text))
    words = re.findall(r"[a-z`_-]+", plain.lower())
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def test_no_sentence_stands_on_two_pages() -> None:
    """Of ten words or more; one page tells, the others link to it."""
    runs = {page: _runs(text) for page, text in PAGES.items()}
    both = [
        f"{one}, {other}: {' '.join(run)}"
        for one, other in combinations(runs, 2)
        for run in runs[one] & runs[other]
    ]
    assert both == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 12 ms.", ["12 ms"]),
        ("It cost 0.31 epsilon, within 95 percent.", ["0.31 epsilon"]),
        ("| a cell | 3.5 times |", ["3.5 times"]),
        ("As [0.31](results.md#peers), by theorems 4.1 and 4.2 on Python 3.11.", []),
        ("```\n12 ms\n```\n`12 ms` [it](page.md#1.5)", []),
    ],
)
def test_an_untagged_figure_is_noticed(text: str, found: list[str]) -> None:
    assert _untagged("page.md", text) == found

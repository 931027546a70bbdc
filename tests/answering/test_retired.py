"""A plan that measures erased periods is refused, however much else it measures."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from qserver.answering.answer import period_retired
from qserver.query.domain_file import domain_from_document
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import interval
from qserver.records.plan import PlannedRow

N_WEEKS = 4
DOMAIN = domain_from_document(
    {
        "attributes": [
            {"name": "sex", "labels": ["F", "M"]},
            {"name": "w", "kind": "period", "every": "week", "first": "2024-W10", "count": N_WEEKS},
        ]
    }
)


def _of_weeks(first: int, end: int) -> LinearQuery:
    return linear_query(DOMAIN.sizes, [(1, {1: interval(N_WEEKS, first, end)})])


def _row(first: int, end: int) -> PlannedRow:
    return PlannedRow(_of_weeks(first, end), f"{first}-{end}", 10**6, Fraction(1, 8))


def _table(first: int, end: int) -> Any:
    return SimpleNamespace(partition=SimpleNamespace(inside=_of_weeks(first, end)))


def _refused(rows: list[PlannedRow], tables: list[Any], *, n_retired: int) -> str | None:
    """The first week that is kept, where the plan is refused."""
    meta = SimpleNamespace(domain=DOMAIN, period_axis=1)
    replica: Any = SimpleNamespace(present=SimpleNamespace(n_retired=n_retired), meta=meta)
    plan: Any = SimpleNamespace(rows=tuple(rows), tables=tuple(tables))
    found = period_retired(plan, replica)
    return None if found is None else found.first_kept


OLD, KEPT, ACROSS = (0, 1), (2, 4), (1, 3)


@pytest.mark.parametrize(
    ("rows", "tables", "is_refused"),
    [
        ([], [], False),
        ([KEPT], [], False),
        ([OLD], [], True),
        ([ACROSS], [], True),
        ([KEPT, OLD], [], True),
        ([OLD, KEPT, KEPT], [], True),
        ([], [KEPT], False),
        ([], [ACROSS], True),
        ([KEPT], [KEPT, OLD], True),
        ([OLD], [KEPT], True),
    ],
)
def test_one_part_of_a_plan_about_an_erased_week_is_enough(
    rows: list[tuple[int, int]], tables: list[tuple[int, int]], is_refused: bool
) -> None:
    of_rows, of_tables = [_row(*at) for at in rows], [_table(*at) for at in tables]
    assert _refused(of_rows, of_tables, n_retired=2) == ("2024-W12" if is_refused else None)
    assert _refused(of_rows, of_tables, n_retired=0) is None


@pytest.mark.parametrize("n_retired", [1, 2, 3])
def test_the_first_week_that_is_kept_is_no_erased_one(n_retired: int) -> None:
    name = f"2024-W{10 + n_retired}"
    assert _refused([_row(n_retired - 1, n_retired)], [], n_retired=n_retired) == name
    assert _refused([_row(n_retired, n_retired + 1)], [], n_retired=n_retired) is None

"""Releases that are tried on a copy: it says what a history with them says, and changes nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.weights import indicator
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement

SIZES = (6, 3)
G = Fraction(1, 8)
TABLE = product_partition(SIZES, {1: [0, 1, 2]})


def prefix(stop: int) -> Primitive:
    return primitive(linear_query(SIZES, [(1, {0: indicator(6, range(stop))})]))


def band(start: int, stop: int) -> Primitive:
    return primitive(linear_query(SIZES, [(1, {0: indicator(6, range(start, stop))})]))


def measured(number: int, query: Primitive, alpha: int = 10**8) -> Measurement:
    return Measurement(number, query.row, query.key, alpha, G, 40 * number)


BEFORE: list[AnyMeasurement] = [measured(i, prefix(i + 1)) for i in range(3)]
AFTER: list[AnyMeasurement] = [
    measured(1, prefix(2), 3 * 10**8),
    measured(3, band(1, 3)),
    TableMeasurement(4, TABLE, 10**8, G, (1, 2, 3)),
    TableMeasurement(4, TABLE, 2 * 10**8, G, (4, 5, 6)),
]
ASKED = [prefix(2), band(1, 3), band(0, 2), band(2, 3), primitive(TABLE.row(1))]


def engine(*events: AnyMeasurement) -> InferenceEngine:
    found = InferenceEngine(SIZES)
    found.extend(events)
    return found


def said(found: InferenceEngine) -> list[object]:
    """Half-widths and estimates of all rows, those by algebra on several rows among them."""
    out: list[object] = []
    for query in ASKED:
        estimate = found.estimate(query, confidence=0.95)
        out.append(
            estimate
            and [estimate.half_width, estimate.posterior.estimate, *map(float, estimate.ids)]
        )
    return out


def assert_same(one: list[object], other: list[object]) -> None:
    """The same rows and, but for the last bits, the same numbers.

    Rows that came later are combined in another order of operations than those of the start.
    """
    assert one == [pytest.approx(said, rel=1e-13) if said else said for said in other]


def test_a_copy_says_what_a_history_with_the_releases_says() -> None:
    for asked_before in (False, True):
        first = engine(*BEFORE)
        if asked_before:
            said(first)
        tried = first.tried()
        tried.extend(AFTER)
        assert_same(said(tried), said(engine(*BEFORE, *AFTER)))
        assert said(first) == said(engine(*BEFORE))
        assert said(first)[-1] is None
        first.extend(AFTER)
        assert_same(said(first), said(engine(*BEFORE, *AFTER)))


def test_copies_of_copies_leave_one_another_alone() -> None:
    first = engine(*BEFORE)
    said(first)
    for event in (AFTER[0], measured(2, prefix(3), 5 * 10**8)):
        tried = first.tried()
        tried.extend([event])
        assert_same(said(tried), said(engine(*BEFORE, event)))
    assert said(first) == said(engine(*BEFORE))

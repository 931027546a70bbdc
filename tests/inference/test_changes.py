"""What is kept of history stays as it would be found anew, and goes where it does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from threading import Event

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import RowEstimate
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.inference.rows import rows_in_play
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.weights import interval
from qserver.records.history import AnyMeasurement, Measurement
from tests.inference.histories import measured, random_query
from tests.inference.posterior.test_factored_rows import SIZES, next_measurement


@dataclass(frozen=True)
class Told:
    """What history says of a row."""

    estimate: RowEstimate
    stated: Stated

    def assert_is(self, other: Told) -> None:
        """The other one, to a thousandth of the error that laws are found with."""
        one, two = self.estimate, other.estimate
        assert (one.ids, one.tables, one.method) == (two.ids, two.tables, two.method)
        assert one.half_width == pytest.approx(two.half_width, rel=1e-9)
        assert self.stated.statement.disagreements == other.stated.statement.disagreements
        ends, others = (told.stated.posterior.interval(0.9) for told in (self, other))
        assert [ends.low, ends.high] == pytest.approx(
            [others.low, others.high], rel=1e-9, abs=1e-6 * two.half_width
        )


def _told(engine: InferenceEngine, row: Primitive) -> Told | None:
    """By the first weights that are found, so that no search takes long."""
    estimate = engine.estimate(row, confidence=0.9, enough=1e12)
    return None if estimate is None else Told(estimate, engine.stated(row, estimate))


class Followed:
    """An engine that follows a history, and what was told when it was asked first."""

    def __init__(self, apart: int | None) -> None:
        self.apart, self.events = apart, list[AnyMeasurement]()
        self.engine = InferenceEngine(SIZES, apart=apart)
        self.kept = dict[LinearQuery, tuple[int, Told]]()

    def buy(self, new: AnyMeasurement) -> None:
        """The next event."""
        self.events.append(new)
        self.engine.extend([new])

    def check(self, asked: Sequence[LinearQuery]) -> int:
        """Compare all that is told with what is found anew; how much of what was kept still is."""
        anew, n_kept = InferenceEngine(SIZES, apart=self.apart), 0
        anew.extend(self.events)
        for query in asked:
            row, n_changes = primitive(query), self.engine.n_changes
            told, expected = _told(self.engine, row), _told(anew, row)
            assert (told is None) == (expected is None)
            if told is None or expected is None:
                continue
            told.assert_is(expected)
            since, known = self.kept.setdefault(row.row, (n_changes, told))
            evidence = (*known.estimate.ids, *known.estimate.tables)
            if not self.engine.is_unchanged(since, evidence, [row.key]):
                del self.kept[row.row]
                continue
            known.assert_is(expected)
            n_kept += since < n_changes
        return n_kept


@pytest.mark.slow
@pytest.mark.parametrize("most_cells", [1_000, 15])
@pytest.mark.parametrize("apart", [None, 0])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_is_what_is_found_anew(
    seed: int, apart: int | None, most_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, tables, refinements and repetitions; of few cells and of many; with periods or not."""
    for module in ("posteriors", "cells_as_rows"):
        monkeypatch.setattr(f"qserver.inference.posterior.{module}.MOST_CELLS", most_cells)
    rng, live, asked = random.Random(seed), list[AnyMeasurement](), [total_query(SIZES)]
    followed = Followed(apart)
    for i in range(9):
        new = next_measurement(rng, live)
        if i < 4 and seed % 2:
            new = measured(len(live), random_query(rng, SIZES, n_terms=1))
        live[new.id : new.id + 1] = [new]
        followed.buy(new)
        asked.append(new.row if isinstance(new, Measurement) else new.partition.row(0))
        followed.check(asked[-3:] if i < 8 else asked)


def _ages(low: int, high: int, sex: int | None = None) -> LinearQuery:
    axes = {0: interval(5, low, high)}
    if sex is not None:
        axes[1] = interval(4, sex, sex + 1)
    return linear_query(SIZES, [(1, axes)])


def test_a_purchase_makes_stale_what_depends_on_it_alone() -> None:
    """Counts that overlap and are no sums of each other bear on nothing."""
    followed = Followed(None)
    halves = [_ages(0, 2), _ages(2, 5)]
    for number, query in enumerate(halves):
        followed.buy(measured(number, query, scale=3, answer=10 * number))
    assert followed.check(halves) == 0
    followed.buy(measured(2, _ages(1, 4, sex=2), scale=2, answer=7))
    followed.buy(measured(3, _ages(0, 1), scale=2, answer=7))
    assert followed.check(halves) == 2
    # The rest of the first half: together with what was asked they disagree.
    followed.buy(measured(4, _ages(1, 2), scale=2, answer=-3))
    assert followed.check(halves) == 1
    assert _ages(0, 2) not in followed.kept


def test_the_sum_of_counts_that_came_before_disagrees_with_them() -> None:
    """Whether they came one by one, or all at once."""
    events = [
        measured(0, _ages(0, 2), scale=Fraction(7), answer=100),
        measured(1, _ages(2, 5), scale=Fraction(7), answer=50),
        measured(2, _ages(0, 5), scale=Fraction(9), answer=190),
    ]
    followed = Followed(None)
    for event in events:
        followed.buy(event)
        followed.check([_ages(0, 2), event.row])
    told = _told(followed.engine, primitive(_ages(0, 5)))
    assert told is not None
    assert told.estimate.method == "direct"
    assert told.stated.statement.disagreements == 1


def test_rows_that_only_come_into_play_change_what_was_found_without_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who found it with all rows in play, as the worker does, would find the same again."""
    monkeypatch.setattr(rows_in_play, "_MOST_AT_ONCE", 2)
    monkeypatch.setattr(rows_in_play, "_MOST_WITHOUT_WAIT", 2)
    monkeypatch.setattr(rows_in_play, "_MOST_AT_A_TIME", 2)
    may_end, run = Event(), rows_in_play._Making.run
    monkeypatch.setattr(rows_in_play._Making, "run", lambda one: may_end.wait() and run(one))
    engine, key = InferenceEngine(SIZES, may_wait=False), primitive(_ages(0, 2)).key
    pieces = [_ages(i, i + 1, sex=j) for i in range(5) for j in range(4)]
    engine.extend(measured(i, row, scale=3, answer=i) for i, row in enumerate(pieces[:10]))
    engine.catch_up()
    engine.extend(measured(10 + i, row, scale=3, answer=i) for i, row in enumerate(pieces[10:]))
    since, making = engine.n_changes, engine.in_play._making
    assert making is not None
    assert engine.is_unchanged(since, {0}, [key])
    may_end.set()
    making.join()
    assert not engine.is_unchanged(since, {0}, [key])
    assert engine.is_unchanged(since, {0}, [key], by_all=True)
    # Something new is no arrival.
    engine.extend([measured(20, _ages(0, 2), scale=2, answer=7)])
    assert not engine.is_unchanged(since, {0}, [key], by_all=True)

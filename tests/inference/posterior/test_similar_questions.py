"""Questions that are alike have the posteriors that each has by itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import RowEstimate
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.inference.posterior.similar_questions import Shapes
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.weights import indicator, interval
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from tests.inference.histories import measured
from tests.inference.posterior.test_posteriors import factored_rows

SIZES = (60, 4, 3)
STEP = Fraction(1, 1 << 20)
TABLES: list[dict[int, list[int]]] = [
    {0: list(range(60)), 1: list(range(4))},
    {0: list(range(60))},
    {1: list(range(4)), 2: list(range(3))},
    {0: [i // 7 for i in range(60)], 2: [0, 0, 1]},
]


def _count(rng: np.random.Generator, cells: np.ndarray, labels: dict[int, list[int]]) -> list[int]:
    found = cells
    for axis in reversed(range(len(SIZES))):
        of = labels.get(axis, [0] * SIZES[axis])
        told = (np.array(of)[:, None] == np.arange(max(of) + 1)).astype(int)
        found = np.moveaxis(np.tensordot(found, told, axes=(axis, 0)), -1, axis)
    return [int(n) for n in found.ravel()]


def history(seed: int, *, has_rows: bool, is_total: bool) -> list[AnyMeasurement]:
    """Tables that disagree, each with noise of its own; rows, and a public total."""
    rng = np.random.default_rng(seed)
    cells = rng.poisson(40, SIZES)
    found = list[AnyMeasurement]()
    for labels in TABLES[: rng.integers(2, 5)]:
        scale = float(rng.uniform(4.0, 12.0))
        counts = _count(rng, cells, labels)
        indices = [n * 2**20 + round(rng.laplace(0.0, scale) * 2**20) for n in counts]
        partition = product_partition(SIZES, labels)
        alpha = round(1e9 / scale)
        found.append(TableMeasurement(len(found), partition, alpha, STEP, tuple(indices)))
    if has_rows:
        row = linear_query(SIZES, [(1, {0: interval(60, 3, 12), 2: indicator(3, [1])})])
        answer = int(cells[3:12, :, 1].sum()) + Fraction(round(rng.laplace(0, 9) * 1024), 1024)
        found.append(measured(len(found), row, scale=9, answer=answer))
    if is_total:
        found.append(
            Measurement(len(found), total_query(SIZES), "", 0, Fraction(1), int(cells.sum()))
        )
    return found


def questions() -> list[Primitive]:
    """Cells of one table, a margin, ranges of several sizes, and differences of two cells."""
    ages = [{0: indicator(60, [a])} for a in (0, 4, 11, 29)]
    ranges = [{0: interval(60, a, a + 5)} for a in (0, 7, 14, 20)]
    cells = [{**age, 1: indicator(4, [b])} for age, b in product(ages, (1, 3))]
    plain = [linear_query(SIZES, [(1, of)]) for of in (*cells, *ages, *ranges)]
    apart = [
        linear_query(SIZES, [(1, {1: indicator(4, [b])}), (-1, {1: indicator(4, [c])})])
        for b, c in ((0, 1), (3, 2), (1, 2))
    ]
    return [primitive(query) for query in (*plain, *apart)]


def estimates(engine: InferenceEngine, rows: list[Primitive]) -> list[RowEstimate]:
    found = [engine.estimate(row, confidence=0.95) for row in rows]
    return [one for one in found if one is not None]


def numbers(stated: Stated) -> list[float]:
    law = stated.posterior
    ends = law.interval(0.95)
    return [law.estimate, ends.low, ends.high, law.low_at(1e-3), law.high_at(1e-3)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_they_are_those_found_one_by_one(seed: int) -> None:
    rows, events = questions(), history(seed, has_rows=seed % 2 > 0, is_total=seed % 3 > 1)
    together, alone = InferenceEngine(SIZES), InferenceEngine(SIZES)
    for engine in (together, alone):
        engine.extend(events)
    found = estimates(together, rows)
    together.ahead([row.row for row in rows], found)
    n_disagreements = 0
    for row, one, other in zip(rows, found, estimates(alone, rows), strict=True):
        stated, expected = together.stated(row, one), alone.stated(row, other)
        assert stated.statement.law == expected.statement.law
        assert stated.statement.disagreements == expected.statement.disagreements
        assert stated.statement.error == pytest.approx(expected.statement.error, abs=5e-4)
        _, low, high, *_ = numbers(expected)
        assert numbers(stated) == pytest.approx(numbers(expected), abs=2e-3 * (high - low))
        n_disagreements += stated.statement.disagreements
    assert n_disagreements > 0


def test_rows_are_combined_once_for_all_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty cells of a table beside its margin: once, and not twenty times."""
    engine, made = InferenceEngine(SIZES), factored_rows(monkeypatch)
    engine.extend(history(1, has_rows=False, is_total=False))
    asked = [
        primitive(linear_query(SIZES, [(1, {0: indicator(60, [a]), 1: indicator(4, [b])})]))
        for a, b in product(range(5), range(4))
    ]
    found = estimates(engine, asked)
    engine.ahead([row.row for row in asked], found)
    laws = [engine.stated(row, one).statement for row, one in zip(asked, found, strict=True)]
    assert {law.law for law in laws} == {"posterior"}
    assert {law.disagreements > 0 for law in laws} == {True}
    assert len(made) == 1


def cell(value: int, of: int) -> LinearQuery:
    return linear_query(SIZES, [(1, {0: indicator(60, [value]), 1: indicator(4, [of])})])


def test_questions_are_alike_but_for_names_of_values() -> None:
    events = history(0, has_rows=True, is_total=False)[:2]
    shapes = Shapes([*events, *history(3, has_rows=True, is_total=False)[-1:]])
    # The row tells values 3 to 11 of the first attribute apart.
    assert shapes.key(cell(3, 0)) == shapes.key(cell(11, 2))
    assert shapes.key(cell(0, 0)) == shapes.key(cell(29, 3))
    assert shapes.key(cell(0, 0)) != shapes.key(cell(3, 0))
    two = linear_query(SIZES, [(2, dict(cell(0, 0).terms[0].by_axis))])
    assert shapes.key(two) != shapes.key(cell(0, 0))

"""How rows and tables are drawn: which sampler, with which parameters, and the law of the noise."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from qserver.errors import MeasurementError
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE
from tests.statistical.test_noise import SeededEntropy
from tests.worker.noise.one_by_one import each_new, each_refined
from worker.constants import WORKER
from worker.noise.randomness import SystemEntropy
from worker.spending import measure as measuring
from worker.spending import slot
from worker.spending.answers_in_force import Live, Origin
from worker.spending.measure import draw_all, draw_table
from worker.spending.slot import slot_end_s, slot_of_group, slots_of, slots_on

pytestmark = [
    pytest.mark.promise(
        "Time",
        "the worker is awake for the last millisecond of a slot: asleep to its end it would be "
        "woken the later the more it had counted",
    ),
]

G = Fraction(1, 1 << 20)
SIZES = (4,)
BY_A = product_partition(SIZES, {0: [0, 1, 2, 3]})
COUNTS = [10, 0, 7, 3]
N_CELLS = 4000
FALSE_ALARM = 1e-6
OLD, NEW = 10**8, 2 * 10**8


class Counted:
    """Private tables with these counts."""

    def answer(self, query: LinearQuery) -> Fraction:
        return sum((query.value_at((a,)) * n for a, n in enumerate(COUNTS)), Fraction(0))

    def counts(self, partition: ProductPartition) -> list[int]:
        return [int(self.answer(partition.row(c))) for c in range(partition.n_cells)]


def row_of(cell: int, number: int, alpha: int, index: int) -> Measurement:
    query = BY_A.row(cell)
    return Measurement(number, query, primitive(query).key, alpha, G, index)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the samplers were called with; each draw is 1000 plus its number."""
    noted: list[dict[str, Any]] = []

    def note(truth: Fraction | int, *, entropy: object, **rest: Any) -> int:
        noted.append({"truth": truth, **rest})
        return 1000 + len(noted)

    monkeypatch.setattr(measuring, "release", each_new(note))
    monkeypatch.setattr(measuring, "release_refined", each_refined(note))
    return noted


def drawn(planned: tuple[Planned, ...], live: list[AnyMeasurement]) -> list[tuple[int, ...]]:
    found = Live(live)
    found.check(planned)
    return draw_all(planned, private=Counted(), live=found, entropy=SystemEntropy(), law=LAPLACE)


def test_each_cell_of_a_new_table_has_noise_of_its_own(calls: list[dict[str, Any]]) -> None:
    assert drawn((PlannedTable(BY_A, NEW, G),), []) == [(1001, 1002, 1003, 1004)]
    assert calls == [{"truth": n, "step": G, "alpha_nano": NEW} for n in COUNTS]


def test_raised_cells_are_refined_from_their_own_answer_or_their_rows_or_take_it_over(
    calls: list[dict[str, Any]],
) -> None:
    """Cell 1 has a row between the alphas, cell 2 one at the new alpha, cell 3 one below."""
    live: list[Measurement | TableMeasurement] = [
        TableMeasurement(0, BY_A, OLD, G, (20, 21, 22, 23)),
        row_of(1, 1, OLD + 5, 31),
        row_of(2, 2, NEW, 32),
        row_of(3, 3, OLD - 5, 33),
    ]
    sources = (CellSource(1, 1, OLD + 5), CellSource(2, 2, NEW))
    found = drawn((PlannedTable(BY_A, NEW, G, 0, OLD, sources),), live)
    assert found == [(1001, 1002, 32, 1003)]
    assert [(c["truth"], c["released_index"], c["old_alpha_nano"]) for c in calls] == [
        (10, 20, OLD),
        (0, 31, OLD + 5),
        (3, 23, OLD),
    ]
    assert all((c["new_alpha_nano"], c["step"]) == (NEW, G) for c in calls)


def test_a_table_may_take_over_every_cell_and_draw_nothing(calls: list[dict[str, Any]]) -> None:
    live: list[AnyMeasurement] = [row_of(c, c, NEW + c, 30 + c) for c in range(4)]
    sources = tuple(CellSource(c, c, NEW + c) for c in range(4))
    assert drawn((PlannedTable(BY_A, NEW, G, sources=sources),), live) == [(30, 31, 32, 33)]
    assert calls == []


def test_a_row_of_the_same_plan_is_drawn_first_and_its_cell_continues_from_it(
    calls: list[dict[str, Any]],
) -> None:
    table = TableMeasurement(0, BY_A, OLD, G, (20, 21, 22, 23))
    raised = PlannedRow.refining(row_of(1, 1, OLD + 5, 31), alpha_nano=OLD + 9)
    planned = (raised, PlannedTable(BY_A, NEW, G, 0, OLD, (CellSource(1, 1, OLD + 5),)))
    found = drawn(planned, [table, row_of(1, 1, OLD + 5, 31)])
    assert found == [(1001,), (1002, 1003, 1004, 1005)]
    assert (calls[0]["released_index"], calls[0]["old_alpha_nano"]) == (31, OLD + 5)
    assert (calls[2]["released_index"], calls[2]["old_alpha_nano"]) == (1001, OLD + 9)


def test_counts_that_are_not_one_per_cell_are_refused() -> None:
    with pytest.raises(MeasurementError):
        draw_table([1, 2, 3], PlannedTable(BY_A, NEW, G), {}, entropy=SystemEntropy())


def noise(table: PlannedTable, origins: dict[int, Origin], seed: int) -> npt.NDArray[np.float64]:
    """Noise of the cells, in records."""
    counts = [cell % 11 for cell in range(table.partition.n_cells)]
    indices = draw_table(counts, table, origins, entropy=SeededEntropy(seed))
    return np.array([float(i * G) - n for i, n in zip(indices, counts, strict=True)])


def test_refined_cells_have_the_noise_of_the_new_alpha_and_follow_the_old() -> None:
    """Kolmogorov-Smirnov against the Laplace law of scale 1 / alpha; the old law is a control.

    The old noise is the new plus independent noise, so Cov(old, new) = Var(new) = 2 b^2.
    """
    wide = product_partition((N_CELLS,), {0: range(N_CELLS)})
    first = PlannedTable(wide, OLD, G)
    old = noise(first, {}, 1)
    back = [round((v + cell % 11) / float(G)) for cell, v in enumerate(old)]
    origins = {cell: Origin(index, OLD) for cell, index in enumerate(back)}
    new = noise(PlannedTable(wide, NEW, G, 0, OLD), origins, 2)
    scales = [1e9 / OLD, 1e9 / NEW]
    for found, right, wrong in ((old, 0, 1), (new, 1, 0)):
        assert stats.kstest(found, stats.laplace(scale=scales[right]).cdf).pvalue > FALSE_ALARM
        assert stats.kstest(found, stats.laplace(scale=scales[wrong]).cdf).pvalue < FALSE_ALARM
    products = old * new
    error = products.std() / np.sqrt(N_CELLS)
    assert abs(products.mean() - 2 * scales[1] ** 2) < 5 * error
    assert abs(products.mean()) > 5 * error
    assert abs(products.mean() - 2 * scales[0] ** 2) > 5 * error


@pytest.mark.parametrize(
    ("n_cells", "old", "elapsed_ms", "wait_ms"),
    [
        (1, 0, 0, 5),
        (1, 0, 12, 3),
        (1392, 0, 12, 3),
        (1393, 0, 12, 8),
        (1392, 0, 15, 0),
        (5000, 0, 12, 8),
        (5000, 0, 21, 19),
        (240, OLD, 12, 3),
        (241, OLD, 12, 8),
    ],
)
def test_the_slot_grows_with_the_answers_that_are_drawn(
    n_cells: int, old: int, elapsed_ms: float, wait_ms: float
) -> None:
    """A slot of 5 ms: a multiple of 5, of 10 from 1,393 cells on, of 20 for 5,000.

    48 cells count as a row, and a table as three more; 32 rows fill a slot; refined, four times.
    """
    partition = product_partition((n_cells + 1,), {0: cells_of(n_cells)})
    table = PlannedTable(partition, NEW, G, 0 if old else None, old)
    slot_s = slot_of_group([slots_of((table,))], slot_s=0.005)
    now = elapsed_ms / 1000
    assert slot_end_s(0.0, now, slot_s=slot_s) - now == pytest.approx(wait_ms / 1000, abs=1e-12)
    assert slot_end_s(0.0, now, slot_s=0) == now
    sampled = slot_of_group([slots_of((table,), sampled=True)], slot_s=0.005)
    assert sampled == pytest.approx(slot_s + 4 * 0.005)


def cells_of(n: int) -> list[int]:
    """Labels of n + 1 values in n cells."""
    return [*range(n), n - 1]


def test_rows_of_a_plan_take_a_slot_for_every_32() -> None:
    row = PlannedRow(BY_A.row(0), primitive(BY_A.row(0)).key, NEW, G)
    raised = PlannedRow.refining(row_of(1, 1, OLD, 31), alpha_nano=NEW)
    assert [slots_of([row] * n) for n in (1, 32, 33, 64)] == [1, 1, 2, 2]
    assert [slots_of([raised] * n) for n in (8, 9)] == [1, 2]
    for growth in (None, SimpleNamespace(capacity=None)):
        meta: Any = SimpleNamespace(law=GAUSSIAN, growth=growth, capacity=None, period_axis=None)
        assert [slots_on(meta, [row] * n) for n in (6, 7)] == [1, 2]


def test_the_worker_sleeps_until_shortly_before_its_slot_ends_and_is_awake_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that moves by a tenth of a millisecond when it is read, and by what is slept."""
    now, slept = 0.0, list[float]()

    def tick() -> float:
        nonlocal now
        now += 1e-4
        return now

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds + 4e-4  # woken late

    monkeypatch.setattr(slot, "time", SimpleNamespace(monotonic=tick, sleep=sleep))
    slot.rest_until(0.020)
    assert slept == [pytest.approx(0.020 - WORKER.awake_s - 1e-4)]
    assert now == pytest.approx(0.020, abs=1.1e-4)
    slot.rest_until(0.010)
    assert slept[1:] == [0.0]

"""The bounds of claims against posteriors by brute force and linear programs over all cells."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from qserver.ledger import claims
from qserver.ledger.claims import Charged, ClaimBounds, ClaimedQuery
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.weights import indicator, interval
from qserver.records.charge import NANO, Charge, OpaqueCharge, TableCharge
from qserver.records.claim import Claim
from tests.sweeps import examples

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "nobody with a flat prior knows a claim better than its cap, whatever the answers; what "
        "would pass it is refused by web and worker, also within a group",
    ),
]

TENTH = NANO // 10
"""Alpha of noise 10, in nano-epsilon."""
DRAWS = 40
FARTHEST = 60
"""Counts of the grid of a posterior, either way: what lies beyond weighs less than 1e-11."""


def claimed(row: LinearQuery, width: str = "10", *, balanced: bool = False) -> ClaimedQuery:
    return ClaimedQuery(Claim("it", "{}", width, 0.5), row, balanced)


def values(sizes: tuple[int, ...], axis: int, chosen: list[int]) -> LinearQuery:
    return linear_query(sizes, [(1, {axis: indicator(sizes[axis], chosen)})])


def charged(*charges: Charge | TableCharge | OpaqueCharge) -> Charged:
    return Charged().with_more(charges)


def rows(*found: LinearQuery, alpha: int = TENTH) -> Charged:
    return charged(*(Charge(row, alpha, "job") for row in found))


A, B = values((3,), 0, [0]), values((3,), 0, [1])
A_OR_B = values((3,), 0, [0, 1])


def exact_least(query: LinearQuery, found: Charged, *, balanced: bool = False) -> float:
    """lambda by its definition, in epsilon: a linear program over every cell of the domain."""
    cells = list(product(*map(range, query.sizes)))
    lines = [[float(a * row.value_at(c)) for c in cells] for row, a in found.rows.items()]
    for table in found.tables.values():
        for i in range(table.partition.n_cells):
            row = table.partition.row(i)
            lines.append([float(table.alpha_of(i) * row.value_at(c)) for c in cells])
    every = np.eye(len(cells)) * found.every_nano
    h = np.concatenate([np.array(lines).reshape(-1, len(cells)), every]) / NANO
    n, m = len(cells), len(h)
    above = np.block([[h, -np.eye(m)], [-h, -np.eye(m)]])
    equal = [[float(query.value_at(c)) for c in cells] + [0.0] * m]
    if balanced:
        equal.append([1.0] * n + [0.0] * m)
    solved = linprog(
        [0.0] * n + [1.0] * m,
        A_ub=above,
        b_ub=np.zeros(2 * m),
        A_eq=equal,
        b_eq=[1.0, 0.0][: len(equal)],
        bounds=[(None, None)] * n + [(0, None)] * m,
    )
    assert solved.status == 0
    return float(solved.fun)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "bound"),
    [
        (rows(A), 0.393469),
        (rows(A, A, A), 0.776870),
        (rows(A, B, A_OR_B), 0.632121),
    ],
)
def test_numbers_of_small_histories(found: Charged, bound: float) -> None:
    """1 - exp(-lambda 10 / 2): lambda .1, .3, and .2 as what A_OR_B sees B can hide."""
    assert claimed(A).known(found) == pytest.approx(bound, abs=1e-6)


def test_no_charge_tells_nothing_and_a_charge_elsewhere_neither() -> None:
    assert claimed(A).known(Charged()) == 0.0
    assert claimed(A).known(rows(values((3,), 0, [2]))) == 0.0
    # What only the sum tells leaves each part open.
    assert claimed(A).known(rows(A_OR_B)) == 0.0
    assert claimed(A_OR_B).known(rows(A_OR_B)) == pytest.approx(0.393469, abs=1e-6)


def test_the_bound_of_one_count_within_width_one_is_the_disclosure_guards() -> None:
    """tanh(loss / 2), by the other module."""
    from qserver.records.claim import known_at_most

    found = claimed(A, "1").known(rows(A))
    assert found == pytest.approx(known_at_most(TENTH), rel=1e-12)


def _posterior_share(
    lines: list[tuple[LinearQuery, int]],
    query: LinearQuery,
    answers: list[float],
    *,
    width: int,
    step: float,
) -> float:
    """Largest posterior share of an interval of the query, over a grid of counts; flat prior."""
    size = round(FARTHEST / step)
    axis = np.arange(-size, size + 1) * float(step)
    grid = np.meshgrid(*[axis] * query.sizes[0], indexing="ij")

    def at(row: LinearQuery) -> np.ndarray:
        return sum(float(row.value_at((c,))) * x for c, x in enumerate(grid))

    log = np.zeros_like(grid[0])
    for (row, alpha), answer in zip(lines, answers, strict=True):
        log -= alpha / NANO * np.abs(answer - at(row))
    weights = np.exp(log - log.max())
    bins = np.rint(at(query) / step).astype(int)
    mass = np.bincount((bins - bins.min()).ravel(), weights.ravel()) / weights.sum()
    n = round(width / step)
    return float(np.convolve(mass, np.ones(n), "valid").max())


@pytest.mark.parametrize("step", [1.0, 0.5], ids=["whole counts", "finer counts"])
@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_no_answers_make_an_interval_more_probable_than_the_bound(width: int, step: float) -> None:
    """Two cells measured with noise 2 in the sum and 1.5 in one, posteriors on a whole grid."""
    one, both = values((2,), 0, [0]), total_query((2,))
    found = charged(Charge(one, int(NANO / 1.5), "a"), Charge(both, NANO // 2, "b"))
    draw = np.random.default_rng(7)
    for query in (one, both):
        bound = claimed(query, str(width)).known(found)
        seen = [
            _posterior_share(
                list(found.rows.items()),
                query,
                list(draw.integers(-6, 7, 2)),
                width=width,
                step=step,
            )
            for _ in range(DRAWS)
        ]
        assert max(seen) <= bound + 1e-9
        # The bound is worth something: answers at the truth come near it.
        assert max(seen) > 0.7 * bound


@pytest.mark.parametrize("width", [1, 4, 5])
def test_no_answers_of_a_table_with_a_refund_and_a_row_beat_the_bound(width: int) -> None:
    """The first cell's row was measured before at noise 5, and its cell of noise 4 refines that."""
    cells = product_partition((2,), {0: [0, 1]})
    one, other, both = cells.row(0), cells.row(1), total_query((2,))
    old, new, total = NANO // 5, NANO // 4, NANO // 3
    found = charged(
        Charge(one, old, "a"), TableCharge(cells, new, ((0, old),), "b"), Charge(both, total, "c")
    )
    draw = np.random.default_rng(11)
    lines = [(one, new), (other, new), (both, total)]
    for query in (one, both):
        bound = claimed(query, str(width)).known(found)
        seen = [
            _posterior_share(lines, query, list(draw.integers(-4, 5, 3)), width=width, step=1)
            for _ in range(DRAWS)
        ]
        assert 0.7 * bound < max(seen) <= bound + 1e-9


def test_the_bound_is_attained_by_one_count_of_whole_numbers() -> None:
    """The posterior r^abs(j): shares of 1, 2, 3 counts next to one another by their sums."""
    r = exp(-0.1)
    sums = {1: (1 - r) / (1 + r), 2: 1 - r, 3: 1 - 2 * r * r / (1 + r)}
    for width, share in sums.items():
        assert claimed(A, str(width)).known(rows(A)) == pytest.approx(share, rel=1e-12)


SIZES = (3, 2)


@st.composite
def histories(draw: st.DrawFn) -> Charged:
    found = Charged()
    for _ in range(draw(st.integers(1, 5))):
        terms = []
        for _ in range(draw(st.integers(1, 2))):
            subset = draw(st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True))
            axes = {0: indicator(3, subset)}
            if draw(st.booleans()):
                axes[1] = indicator(2, [draw(st.integers(0, 1))])
            terms.append((draw(st.sampled_from([1, 1, 2, -1])), axes))
        row = linear_query(SIZES, terms)
        if not row.is_zero:
            found.add(Charge(row, draw(st.integers(1, 9)) * 10**4, "job"))
    if draw(st.booleans()):
        partition = product_partition(SIZES, {0: [0, 0, 1], 1: [0, 1]})
        found.add(TableCharge(partition, 5 * 10**4, ((1, 2 * 10**4),), "job"))
    if draw(st.booleans()):
        found.add(OpaqueCharge(3 * 10**4, "job"))
    return found


@settings(max_examples=examples(60))
@given(found=histories(), balanced=st.booleans(), chosen=st.sampled_from([[0], [1], [0, 2]]))
def test_the_bound_is_at_least_the_linear_programs(
    found: Charged, balanced: bool, chosen: list[int]
) -> None:
    """1 - exp(-lambda w / 2) with lambda by a program over all cells."""
    query = values(SIZES, 0, chosen)
    least = exact_least(query, found, balanced=balanced)
    width = 7_000
    bound = claimed(query, str(width), balanced=balanced).known(found)
    assert bound >= 1 - exp(-least * width / 2) - 1e-9
    narrow = claimed(query, "1", balanced=balanced).known(found)
    assert narrow >= 1 - exp(-least / 2) - 1e-12


@settings(max_examples=examples(40))
@given(found=histories())
def test_on_small_domains_the_search_finds_the_best_direction(found: Charged) -> None:
    """A width far above a step makes 1 - bound = exp(-lambda w / 2): lambda is read back."""
    query = values(SIZES, 0, [1])
    least = exact_least(query, found)
    width = int(4 / max(least, 1e-6))
    bound = claimed(query, str(2 * width)).known(found)
    assert -np.log1p(-bound) / width == pytest.approx(least, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_search_among_few_of_the_cells_comes_near_the_best_direction(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges and a table on 6 x 5 x 4 cells, of which a program sees 24 at a time."""
    monkeypatch.setattr(claims, "MOST_ALL", 0)
    monkeypatch.setattr(claims, "MOST_CELLS", 24)
    sizes, draw = (6, 5, 4), np.random.default_rng(seed)
    table = product_partition(sizes, {0: list(range(6)), 1: list(range(5))})
    found = charged(TableCharge(table, 10**5, (), "job"))
    for _ in range(40):
        axes = draw.choice(3, 2, replace=False).tolist()
        ends = [sorted(draw.choice(sizes[axis] + 1, 2, replace=False).tolist()) for axis in axes]
        ranges = {a: interval(sizes[a], *end) for a, end in zip(axes, ends, strict=True)}
        found.add(Charge(linear_query(sizes, [(1, ranges)]), 10**5, "job"))
    query = values(sizes, 0, [0, 1])
    least, width = exact_least(query, found), 10_000
    reached = -2 * np.log1p(-claimed(query, str(width)).known(found)) / width
    assert least * (1 - 1e-3) <= reached <= 2 * least


def test_a_known_total_leaves_only_directions_that_keep_it() -> None:
    """Under replace-one the total is no secret, and a row is its complement."""
    total = total_query((3,))
    assert claimed(total, balanced=True).known(Charged()) == 1.0
    assert claimed(A, balanced=True).known(rows(A)) == pytest.approx(0.393469, abs=1e-6)
    # Without that, B + C could grow; with it, A's complement is A.
    complement = values((3,), 0, [1, 2])
    assert claimed(A, balanced=True).known(rows(complement)) == pytest.approx(0.393469, abs=1e-6)
    assert claimed(A).known(rows(complement)) == 0.0


def test_refunds_of_cells_and_losses_for_every_record_count() -> None:
    """A table of noise 10 whose first cell was paid for at noise 20 by its row: .1 in all."""
    partition = product_partition((3,), {0: [0, 1, 2]})
    table = TableCharge(partition, TENTH, ((0, TENTH // 2),), "job")
    found = charged(Charge(A, TENTH // 2, "job"), table)
    assert claimed(A).known(found) == pytest.approx(0.393469, abs=1e-6)
    more = found.with_more((), every_nano=TENTH)
    assert claimed(A).known(more) == pytest.approx(1 - exp(-1.0), abs=1e-6)


def test_a_domain_of_10_to_the_20_cells_is_searched_in_its_cells() -> None:
    """Ten attributes of 100: the rows of one value of the first leave another one's cells."""
    sizes = (100,) * 10  # nobody asks about the last one
    found = Charged()
    for axis in range(9):
        for low in range(0, 90, 10):
            found.add(Charge(values(sizes, axis, list(range(low, low + 10))), TENTH, "job"))
    # The values from 90 of each attribute are in no row, so only the first attribute's row counts.
    group = values(sizes, 0, list(range(10)))
    assert claimed(group).known(found) == pytest.approx(0.393469, abs=1e-6)
    assert claimed(total_query(sizes)).known(found) == 0.0
    # A part of a row's values trades places with the others.
    assert claimed(values(sizes, 0, list(range(5)))).known(found) == 0.0


def test_a_state_gives_the_same_bounds() -> None:
    partition = product_partition((3,), {0: [0, 1, 1]})
    found = ClaimBounds([claimed(A)])
    for charge in (
        Charge(A, TENTH, "job"),
        TableCharge(partition, TENTH, ((0, 5),), "job"),
        OpaqueCharge(7, "job"),
    ):
        found.append(charge)
    again = ClaimBounds.from_state(found.state(), [claimed(A)], sizes=(3,))
    assert again.known(every_nano=0) == found.known(every_nano=0)
    charges = [Charge(B, TENTH, "job")]
    assert again.lifted(charges, every_nano=0) == found.lifted(charges, every_nano=0)


def test_a_bound_past_the_cap_may_stay_but_not_rise() -> None:
    found = ClaimBounds([claimed(A)])
    found.append(Charge(A, 3 * TENTH, "job"))
    elsewhere = Charge(values((3,), 0, [2]), TENTH, "job")
    assert found.lifted([elsewhere], every_nano=0) is None
    lifted = found.lifted([Charge(A, 1, "job")], every_nano=0)
    assert lifted is not None
    assert (lifted.before, lifted.after) > (0.5, 0.5)
    assert Fraction(lifted.after) > Fraction(lifted.before)

"""What own rows alone cost, against a ledger that charges them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.constants import LIMITS
from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.planning.blocks.own_rows import Own, OwnRows
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.charge import Charge
from qserver.records.privacy.noise_law import GAUSSIAN

SIZES = (6, 5, 4)
WIDE = (6, 5, 4, 40, 50, 60, 70)
EVERY = {
    "added": Neighbours(),
    "added, three records": Neighbours(records_per_person=3),
    "replaced": Neighbours("replace-one"),
    "replaced, inside": Neighbours("replace-one", 2, null_cell=False),
    "normal noise": Neighbours(records_per_person=2, law=GAUSSIAN),
    "two of a period": Neighbours("add-remove", 5, by_period=ByPeriod(1, SIZES[1], 2)),
    "replaced in a period": Neighbours(
        "replace-one", 5, by_period=ByPeriod(1, SIZES[1], 2, same_period=True)
    ),
    "replaced in any period": Neighbours("replace-one", 5, by_period=ByPeriod(1, SIZES[1], 2)),
}


def box_of(rng: random.Random, sizes: Sequence[int], n_axes: int) -> LinearQuery:
    chosen = sorted(rng.sample(range(len(sizes)), n_axes))
    ends = {a: sorted(rng.sample(range(sizes[a] + 1), 2)) for a in chosen}
    return linear_query(sizes, [(1, {a: interval(sizes[a], *ends[a]) for a in chosen})])


def owns_of(seed: int, n: int, sizes: Sequence[int] = SIZES) -> list[Own]:
    rng = random.Random(seed)
    boxes = [primitive(box_of(rng, sizes, rng.randint(1, 3))) for _ in range(n)]
    return [Own(box, rng.choice((20.0, 40.0, 130.0)), 0.95) for box in boxes]


def charged_nano(owns: Sequence[Own], neighbours: Neighbours, sizes: Sequence[int]) -> int:
    """What the ledger charges for the rows, each at its largest alpha."""
    most = dict[str, Charge]()
    for own in owns:
        alpha = own.alpha_nano(neighbours.law)
        known = most.get(own.query.key)
        if known is None or known.alpha_nano < alpha:
            most[own.query.key] = Charge(own.query.row, alpha, "job")
    ledger = CellLedger.like(sizes, neighbours)
    ledger.extend(list(most.values()))
    return ledger.spent_nano


@pytest.mark.parametrize("neighbours", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_few_attributes_cost_what_a_ledger_charges(
    neighbours: Neighbours, seed: int
) -> None:
    owns, rows = owns_of(seed, 9), OwnRows()
    # The same row again, looser and tighter.
    owns += [Own(owns[0].query, w, 0.9) for w in (300.0, 9.0, 15.0)]
    for n, own in enumerate(owns):
        before = charged_nano(owns[:n], neighbours, SIZES)
        truth = charged_nano(owns[: n + 1], neighbours, SIZES)
        found = rows.price_nano(neighbours, own)
        # One by one, as a ledger charges them, rows may cost less than all at once.
        assert 0.9 * truth <= found <= truth + 1
        rows.add(own, neighbours)
        found = rows.price_nano(neighbours)
        assert max(before, 0.98 * truth) <= found + 1 <= truth + 2


@pytest.mark.parametrize("neighbours", EVERY.values(), ids=EVERY)
def test_classes_and_attributes_have_the_rows_that_belong_to_them(neighbours: Neighbours) -> None:
    owns, rows = owns_of(7, 12), OwnRows()
    owns.append(Own(owns[0].query, 500.0, 0.95))
    for own in owns:
        rows.add(own, neighbours)
    for scope in (None, frozenset({0, 2}), frozenset({1})):
        for octave in (None, *{own.octave for own in owns}):
            some = [
                own
                for own in owns
                if (octave is None or own.octave <= octave)
                and (scope is None or scope >= set(own.query.row.scope))
            ]
            truth = charged_nano(some, neighbours, SIZES)
            found = rows.price_nano(neighbours, octave=octave, scope=scope)
            assert 0.98 * truth <= found <= truth + 1


@pytest.mark.parametrize("neighbours", [EVERY["added"], EVERY["replaced"]])
def test_a_price_depends_on_the_rows_and_not_on_when_it_was_asked_for(
    neighbours: Neighbours,
) -> None:
    """Also on many attributes, where tables are full, and from a saved state."""
    owns = owns_of(3, 36, WIDE)
    late, often, resumed = OwnRows(), OwnRows(), OwnRows()
    for own in owns:
        late.add(own, neighbours)
        often.add(own, neighbours)
        often.price_nano(neighbours, owns[0])
        resumed.add(own, neighbours)
        resumed = OwnRows.from_state(resumed.state())
    for asked in (None, owns[0], Own(owns[1].query, 3.0, 0.9), *owns_of(4, 3, WIDE)):
        for octave in (None, owns[0].octave):
            found = {r.price_nano(neighbours, asked, octave=octave) for r in (late, often, resumed)}
            assert len(found) == 1


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_many_attributes_never_cost_more_than_a_ledger_charges(seed: int) -> None:
    owns, rows = owns_of(seed, 80, WIDE), OwnRows()
    for own in owns:
        rows.add(own, EVERY["added"])
    truth = charged_nano(owns, EVERY["added"], WIDE)
    assert 0.9 * truth <= rows.price_nano(EVERY["added"]) <= truth + 1


def test_charges_past_all_sums_are_no_error() -> None:
    rows, (own,) = OwnRows(), owns_of(1, 1)
    for half_width in (1e-3, 1e-9, 1e-12):
        rows.add(Own(own.query, half_width, 0.95), EVERY["added"])
    assert rows.price_nano(EVERY["added"]) >= LIMITS.most_units >> 12

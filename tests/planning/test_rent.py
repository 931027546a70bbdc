"""The price of own rows alone is the same whenever it is asked for."""

from __future__ import annotations

import random

import pytest

from qserver.planning.blocks.rent import Own, OwnRowsAlone
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.charge import Relation
from tests.benchmarks.play import snapshot_for

SIZES = (6, 5, 4, 40, 50, 60, 70)


def _row(generator: random.Random, n_axes: int, axes: range) -> LinearQuery:
    chosen = sorted(generator.sample(axes, n_axes))
    ends = {a: sorted(generator.sample(range(SIZES[a] + 1), 2)) for a in chosen}
    return linear_query(SIZES, [(1, {a: interval(SIZES[a], *ends[a]) for a in chosen})])


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("is_exact", [True, False])
def test_rows_cost_the_same_in_whatever_batches_they_are_taken_in(
    relation: Relation, is_exact: bool
) -> None:
    """Also where there are too many classes for an exact sum, whose bounds depend on the order."""
    generator, axes = random.Random(7), range(3) if is_exact else range(len(SIZES))
    rows = [primitive(_row(generator, 2, axes)) for _ in range(60)]
    owns = [Own(one, generator.uniform(20, 200), 0.95) for one in rows]
    ledger = snapshot_for(SIZES, relation=relation, phi=0.2).ledger
    late, often = OwnRowsAlone.beside(ledger), OwnRowsAlone.beside(ledger)
    for own in owns:
        late.add(own)
        often.add(own)
        often.with_row(None)
    assert often._ledger.exact == is_exact
    for asked in (None, owns[0], Own(rows[1], 3.0, 0.9)):
        assert late.with_row(asked) == often.with_row(asked)
        assert late.settled_with_row(asked) == often.settled_with_row(asked)

"""Recombined predicates: wanted in advance only where tables could give them."""

from __future__ import annotations

from math import prod

import pytest

from qserver.planning.blocks.demand import SeenPredicates
from qserver.query.linear import linear_query
from qserver.query.partition import MAX_TABLE_CELLS
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import Weights, indicator, interval
from tests.benchmarks.synthetic_noise import Snapshot

SIZES = (74, 16, 99, 2)


def asked(axes: dict[int, Weights]) -> Primitive:
    return primitive(linear_query(SIZES, [(1, axes)]))


def test_no_recombination_takes_a_table_of_too_many_cells() -> None:
    snapshot, seen = Snapshot(SIZES), SeenPredicates()
    fine = [asked({axis: indicator(SIZES[axis], [i])}) for axis in range(3) for i in range(1, 6)]
    halves = asked({axis: interval(SIZES[axis], 0, SIZES[axis] // 2) for axis in range(3)})
    assert prod(SIZES[:3]) > MAX_TABLE_CELLS
    chains = snapshot.holdings.lattice.chains
    for query in (*fine, *[halves] * 10):
        pattern = snapshot.holdings.pattern(query)
        assert pattern is not None
        for other in seen.combined_with(pattern):
            for block in other.energies:
                assert prod(int(chains[a].is_real[i].sum()) for a, i in block) <= MAX_TABLE_CELLS


@pytest.mark.slow
def test_questions_on_many_values_of_several_attributes_are_planned() -> None:
    snapshot = Snapshot(SIZES)
    for start in range(6):
        for axes in ((0, 1), (1, 2), (0, 2), (0, 3), (0, 1, 2)):
            query = asked(
                {
                    a: interval(SIZES[a], start % SIZES[a], min(start + 3, SIZES[a]))
                    for a in axes[:2]
                }
                | {a: interval(SIZES[a], 0, SIZES[a] // 2) for a in axes[2:]}
            )
            plan = snapshot.ask(query, Requirement(400.0, 0.95))
            assert plan.spent_after_nano <= snapshot.limit_nano

"""The cell ledger on domains of 10^12 cells and more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from qserver.ledger.cell_ledger import CellLedger
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import indicator, interval
from qserver.records.charge import Charge, Relation

WIDE = (74, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42)
N_ROWS = 60
N_CELLS = 2000


def random_predicates(rng: random.Random, sizes: Sequence[int], axes: Sequence[int]) -> LinearQuery:
    """A count with a range on each large axis and a set of values on each small one."""
    weights = {}
    for axis in axes:
        size = sizes[axis]
        start, stop = sorted(rng.sample(range(size + 1), 2))
        chosen = rng.sample(range(size), rng.randint(1, size - 1))
        weights[axis] = interval(size, start, stop) if size > 20 else indicator(size, chosen)
    return linear_query(sizes, [(1, weights)])


def random_counts(rng: random.Random, n: int) -> list[Charge]:
    found = []
    while len(found) < n:
        row = random_predicates(rng, WIDE, rng.sample(range(14), rng.randint(1, 3)))
        found.append(Charge(row, rng.randint(1, 10**7), "job"))
    return found


def values_at(charges: Sequence[Charge], cells: np.ndarray) -> np.ndarray:
    """abs(h_c) of each count at each of the cells, shape (charges, cells)."""
    out = np.ones((len(charges), len(cells)), dtype=np.int64)
    for i, charge in enumerate(charges):
        for term in charge.row.terms:
            for axis, weights in term.by_axis.items():
                out[i] *= weights.dense[cells[:, axis]]
    return out


def random_cells(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, N_CELLS) for size in WIDE], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(2))
def test_no_cell_or_pair_of_a_wide_domain_passes_spent(seed: int, relation: Relation) -> None:
    """2,000 random cells, and 2,000 random pairs; each figure stays below the sum of prices."""
    charges = random_counts(random.Random(seed), N_ROWS)
    ledger = CellLedger(WIDE, relation=relation)
    for charge in charges:
        ledger.append(charge)
        assert ledger.spent_nano > 0
    values = values_at(charges, random_cells(seed))
    alphas = np.array([c.alpha_nano for c in charges])
    losses = alphas @ values
    pairs = alphas @ np.abs(values - values[:, ::-1])
    greatest = losses.max() if relation == "add-remove" else max(losses.max(), pairs.max())
    assert greatest <= ledger.bound_nano <= ledger.spent_nano
    assert ledger.spent_nano < 0.9 * alphas.sum()
    assert not ledger.exact


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_wide_domain_costs_what_its_classes_cost(relation: Relation) -> None:
    """Ten attributes of 20 values, told apart in two classes each: the same as ten of two."""
    rng = random.Random(3)
    wide, narrow = (20,) * 10, (2,) * 10
    groups = [rng.sample(range(20), rng.randint(1, 19)) for _ in wide]
    ledgers = CellLedger(wide, relation=relation), CellLedger(narrow, relation=relation)
    for _ in range(30):
        axes = rng.sample(range(10), rng.randint(1, 3))
        alpha = rng.randint(1, 10**6)
        rows = (
            linear_query(wide, [(1, {a: indicator(20, groups[a]) for a in axes})]),
            linear_query(narrow, [(1, {a: indicator(2, [1]) for a in axes})]),
        )
        for ledger, row in zip(ledgers, rows, strict=True):
            ledger.append(Charge(row, alpha, "job"))
    assert ledgers[0].spent_nano == ledgers[1].spent_nano
    assert ledgers[0].exact
    assert ledgers[1].exact


def test_a_chain_of_attributes_is_exact_on_any_number_of_cells() -> None:
    """Rows on neighbouring attributes only, 10^12 cells; the other route goes along the chain."""
    rng = random.Random(11)
    sizes = (100,) * 6
    ledger = CellLedger(sizes)
    links = {pair: np.zeros((100, 100), dtype=np.int64) for pair in pairwise(range(6))}
    for _ in range(150):
        pair = rng.choice(list(links))
        row = random_predicates(rng, sizes, pair)
        alpha = rng.randint(1, 10**6)
        ledger.append(Charge(row, alpha, "job"))
        weights = [row.terms[0].by_axis.get(a) for a in pair]
        dense = [np.ones(100, dtype=np.int64) if w is None else w.dense for w in weights]
        links[pair] += alpha * np.outer(*dense)
    best = np.zeros(100, dtype=np.int64)
    for pair in pairwise(range(6)):
        best = (best[:, None] + links[pair]).max(axis=0)
    assert ledger.bound_nano == best.max()
    assert ledger.spent_nano == best.max()
    assert ledger.exact
    assert ledger.loss_by_value(5) == best.tolist()


def test_a_filter_on_a_wide_domain_is_sound_and_lower() -> None:
    """Cells that no row counts have lost nothing, and the figure says much less than spent."""
    ledger = CellLedger(WIDE)
    charges = random_counts(random.Random(8), N_ROWS)
    ledger.extend(charges)
    cells = random_cells(8)
    inside = cells[(cells[:, 9] == 0) & (cells[:, 1] < 3)]
    losses = np.array([c.alpha_nano for c in charges]) @ values_at(charges, inside)
    found = ledger.loss_nano({9: [0], 1: [0, 1, 2]})
    assert losses.max() <= found <= ledger.bound_nano
    by_value = ledger.loss_by_value(1)
    assert len(by_value) == 9
    assert max(by_value[:3]) >= losses.max()

"""What charges cost by definition, cell by cell in exact fractions: the other route for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest

from qserver.ledger import branch_and_bound as shifting
from qserver.ledger import loss, maximum
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.constants import LIMITS
from qserver.ledger.one_person import Neighbours
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import ScaledWeights, Weights
from qserver.records.charge import AnyCharge, Charge, Relation
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import Cell, cells

RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
WEIGHTS = (0, 0, 1, 1, 2, -1, Fraction(1, 2))
# Limits that force each way to find a maximum on domains of a few cells.
WAYS = {"written down": {}, "eliminated": {"dense": 1}, "shifted": {"dense": 1, "eliminated": 1}}


@dataclass(frozen=True)
class Setting:
    """A small domain and its neighbours."""

    sizes: tuple[int, ...]
    relation: Relation
    records_per_person: int
    null_cell: bool


def random_setting(rng: random.Random) -> Setting:
    sizes = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 4)))
    relation = rng.choice(RELATIONS)
    return Setting(sizes, relation, rng.randint(1, 3), rng.random() < 0.5)


def restored(
    sizes: Sequence[int],
    *,
    neighbours: Neighbours,
    charges: Sequence[AnyCharge],
    spent_nano: int,
) -> CellLedger:
    """A ledger with these charges and this recorded spending."""
    ledger = CellLedger(
        sizes,
        relation=neighbours.relation,
        records_per_person=neighbours.records_per_person,
        null_cell=neighbours.null_cell,
    )
    ledger.extend(charges)
    ledger.cap(spent_nano)
    return ledger


def random_row(rng: random.Random, sizes: Sequence[int], *, max_terms: int = 4) -> LinearQuery:
    """A primitive row of several terms with rational weights on up to three attributes each."""
    while True:
        query = linear_query(
            sizes, [_random_term(rng, sizes) for _ in range(rng.randint(1, max_terms))]
        )
        if not primitive(query).is_zero:
            return primitive(query).row


def random_charges(rng: random.Random, sizes: Sequence[int], n: int) -> list[Charge]:
    return [Charge(random_row(rng, sizes), rng.randint(1, 10**9), "job") for _ in range(n)]


def cell_losses(charges: Sequence[Charge], setting: Setting) -> dict[Cell, Fraction]:
    """k * sum of abs(h_c) * alpha of every cell, in nano-epsilon."""
    k = setting.records_per_person
    return {
        c: k * sum((abs(x.row.value_at(c)) * x.alpha_nano for x in charges), Fraction(0))
        for c in cells(setting.sizes)
    }


def greatest_loss(charges: Sequence[Charge], setting: Setting) -> Fraction:
    """The greatest loss of a cell or pair of cells, whichever the setting asks for."""
    if setting.relation == "add-remove":
        return max(cell_losses(charges, setting).values())
    values = [[x.row.value_at(c) for x in charges] for c in cells(setting.sizes)]
    if setting.null_cell:
        values.append([Fraction(0)] * len(charges))
    alphas = [setting.records_per_person * x.alpha_nano for x in charges]
    return max(
        sum((abs(a - b) * alpha for a, b, alpha in zip(u, v, alphas, strict=True)), Fraction(0))
        for u in values
        for v in values
    )


@contextmanager
def limits(
    dense: int | None = None, eliminated: int | None = None, row_grid: int | None = None
) -> Iterator[None]:
    """Smaller limits of size, so that bounds take the place of exact figures on small domains."""
    with pytest.MonkeyPatch.context() as patch:
        smaller = LIMITS
        if dense is not None:
            smaller = replace(smaller, most_dense=dense)
        if eliminated is not None:
            smaller = replace(smaller, most_eliminated=eliminated)
            patch.setattr(shifting, "LIMITS", replace(LIMITS, most_table=1 << 8))
        patch.setattr(maximum, "LIMITS", smaller)
        if row_grid is not None:
            patch.setattr(loss, "LIMITS", replace(LIMITS, row_grid=row_grid))
        forget_shapes()
        yield
    forget_shapes()


def forget_shapes() -> None:
    """Forget the shapes made under other limits."""
    loss.cell_shapes.cache_clear()
    loss.pair_shapes.cache_clear()


def _random_term(
    rng: random.Random, sizes: Sequence[int]
) -> tuple[Fraction, Mapping[int, ScaledWeights | Weights]]:
    axes = rng.sample(range(len(sizes)), rng.randint(0, min(3, len(sizes))))
    coefficient = Fraction(rng.randint(-3, 3), rng.randint(1, 3))
    return coefficient, {
        a: scaled_weights([rng.choice(WEIGHTS) for _ in range(sizes[a])]) for a in axes
    }

"""Which tables to buy for wanted marginals: by their expected error, without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log, prod

import numpy as np

from qserver.models.marginals.graph.layout import Scope
from qserver.models.marginals.selection import best_views, expected_errors
from qserver.records.history import AnyMeasurement, TableMeasurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

MAX_MARGINALS = 4_096

Prices = Mapping[Scope, float]
"""Charges of tables, per record."""

_JOINED_CELLS = 1 << 12
_MOST_JOINED = 300
_AT_ONCE = 256
_PAIRS_BADLY, FOR_PAIRS = 1.5, 0.7
"""Pairs get this part of the price where tables of triples tell them so much less exactly.

Triples of made-up data, of child, and of 12 binary attributes of alarm, from epsilon .1 to 10, came
to .5 to .7 of their error, at ratios of 1.7 to 2.1. At 1.4 a half for pairs was a loss of a fifth.
"""

MISSED = 0.003
"""What pairs are taken to miss of a triple for each free count of it, as a part of the records.

Without noise they missed .001 of triples of 2 values, .006 to .018 of 3, and .04 of wide ones of
Adult. Tables of triples were expected to err by up to twice what they did, so this is above it.
"""

RECORDS = 10_000
"""The number of records where no release tells it."""


def n_records(measurements: Sequence[AnyMeasurement]) -> float:
    """The number of records by the most exact release, else `RECORDS`."""
    told = [(error, m) for m in measurements if (error := _error_of_total(m)) is not None]
    if not told:
        return float(RECORDS)
    error, best = min(told, key=lambda one: one[0])
    if isinstance(best, TableMeasurement):
        found = float(np.sum(best.values))
    else:
        found = best.value_float / float(best.row.terms[0].coefficient)
    return found if error < found else float(RECORDS)


def _error_of_total(m: AnyMeasurement) -> float | None:
    """The deviation over the root of 2 of the number of records by a release; None for a part."""
    if isinstance(m, TableMeasurement):
        return float(m.scale * m.partition.n_cells**0.5)
    if [dict(t.by_axis) for t in m.row.terms] != [{}]:
        return None
    return m.scale / abs(float(m.row.terms[0].coefficient))


def best_prices(
    sizes: Sequence[int],
    wanted: Sequence[Scope],
    epsilon: float,
    known: Prices,
    *,
    records: float,
    law: NoiseLaw = LAPLACE,
) -> Prices:
    """The price of each table, so that the wanted marginals are expected to err least.

    Tables of wide marginals have much noise, and most of what a wide marginal tells is in its
    pairs. So pairs alone are bought where these are expected to err by less, with what they miss.

    Args:
        epsilon: of all prices.
        known: of history.
        records: about how many there are.
        law: of the noise, whose charges all prices are.
    """
    prices = _bought(sizes, wanted, epsilon, known, law)
    narrow = sorted({p for s in wanted for p in combinations(s, min(len(s), 2))})
    if max(map(len, wanted)) <= 2 or len(narrow) > MAX_MARGINALS:
        return prices
    of_pairs = _bought(sizes, narrow, epsilon, known, law)
    prices = _with_pairs(sizes, prices, of_pairs, narrow, known, law)
    cells = np.array([prod(sizes[a] for a in s) for s in wanted])

    def error(bought: Prices) -> float:
        alphas = raised(known, bought)
        missed = MISSED * records
        return float(cells @ expected_errors(sizes, wanted, alphas, missed=missed, law=law))

    return min(prices, of_pairs, key=error)


def _bought(
    sizes: Sequence[int], wish: Sequence[Scope], epsilon: float, known: Prices, law: NoiseLaw
) -> Prices:
    """The price of each table that gives these marginals the least expected error."""
    parts = {s: a / epsilon for s, a in known.items()}
    choice = best_views(sizes, wish, candidates=candidates(sizes, wish), known=parts, law=law)
    return {s: epsilon * float(p) for s, p in zip(choice.scopes, choice.shares, strict=True)}


def _with_pairs(
    sizes: Sequence[int],
    prices: Prices,
    of_pairs: Prices,
    pairs: Sequence[Scope],
    known: Prices,
    law: NoiseLaw,
) -> Prices:
    """These tables of wide marginals, most of the price for pairs if they determine pairs badly."""
    wide, best = (
        expected_errors(sizes, pairs, raised(known, bought), missed=0.0, law=law)
        for bought in (prices, of_pairs)
    )
    if np.median(wide / best) < _PAIRS_BADLY:
        return prices
    return {
        s: (1 - FOR_PAIRS) * prices.get(s, 0.0) + FOR_PAIRS * of_pairs.get(s, 0.0)
        for s in dict.fromkeys([*prices, *of_pairs])
    }


def raised(known: Prices, rises: Prices) -> Prices:
    """The prices of all tables after the purchase."""
    return {s: known.get(s, 0.0) + rises.get(s, 0.0) for s in (*known, *rises)}


def candidates(sizes: Sequence[int], scopes: Sequence[Scope]) -> list[Scope]:
    """The wanted marginals, and small unions of overlapping two: one table may serve both."""
    held = np.zeros((len(scopes), len(sizes)))
    for i, scope in enumerate(scopes):
        held[i, list(scope)] = 1.0
    logs = np.log(sizes)
    log_cells, most = held @ logs, log(_JOINED_CELLS)
    wanted, joined = set(scopes), dict[Scope, int]()
    for start in range(0, len(scopes), _AT_ONCE):
        rows = held[start : start + _AT_ONCE]
        unions = log_cells[start : start + _AT_ONCE, None] + log_cells - (rows * logs) @ held.T
        # Logarithms are rounded; unions that pass are counted exactly.
        near = (rows @ held.T > 0) & (unions <= most + 1e-9)
        for i, j in np.argwhere(np.triu(near, k=start + 1)):
            union = tuple(sorted({*scopes[start + i], *scopes[j]}))
            if union not in wanted and union not in joined:
                joined[union] = prod(sizes[a] for a in union)
        ranked = sorted((n, s) for s, n in joined.items() if n <= _JOINED_CELLS)[:_MOST_JOINED]
        joined = {s: n for n, s in ranked}
        if len(joined) == _MOST_JOINED:
            most = log(ranked[-1][0])
    return [*scopes, *joined]

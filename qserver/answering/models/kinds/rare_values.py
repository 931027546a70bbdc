"""Merged values: those too rare to distinguish beside the noise, by one-way tables.

The one-way tables of wide attributes are bought first. Their released counts, never the data, say
which values become one class; the wanted marginals are bought on classes, which are fewer, so that
each table gets more of the price. Counts of a class are spread over its values as the one-way table
has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np

from qserver.answering.models.kinds.tables_to_buy import Prices, best_prices, raised
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Scope
from qserver.models.marginals.selection import expected_errors
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

FIRST_SHARE = 0.3
"""The part of the price for the one-way tables."""

_WIDE = 5
"""Least values of an attribute that are looked at."""

_FACTOR = 2.0
"""A value is rare if its mean cell of a wanted marginal is below so many deviations of its noise.

On made-up data of 9 attributes, few or some of whose values are frequent, at epsilon .1 and 1,
pairs came to .58 to .71 of their error without merging where dependence is weak (seeds 12 and 13),
and to .70 and 1.14 where it is strong (seed 41). Weak dependence favours more, a factor of 4 and
half the price for the first tables (.44 to .67); strong less, a factor of 1 (.73 and 1.07). At a
tenth for the first tables their noise made pairs worse at .1 (1.1 to 1.2, seed 11).
"""

_PASSES = 4
"""How often the noise follows from the classes, and these from the noise."""


def wide(sizes: Sequence[int], wanted: Sequence[Scope]) -> list[int]:
    """The wide attributes of wanted marginals, whose values may be merged."""
    return sorted({a for scope in wanted for a in scope if sizes[a] >= _WIDE})


def merged(
    sizes: Sequence[int],
    wanted: Sequence[Scope],
    epsilon: float,
    known: Prices,
    *,
    counts: Mapping[int, FloatArray],
    records: float,
    ordered: Mapping[int, int] = MappingProxyType({}),
    law: NoiseLaw = LAPLACE,
) -> tuple[Mapping[int, IndexArray], Prices]:
    """The class of each value, by attribute, and the price of each table on these classes.

    Args:
        epsilon: of all prices.
        known: of history, on all values.
        counts: by attribute the released counts of its values.
        records: about how many there are.
        ordered: attributes whose rare values are merged with neighbours, with the number of their
            first values that have an order; the others stay apart.
        law: of the noise, whose charges all prices are.
    """
    classes = {a: np.arange(sizes[a]) for scope in wanted for a in scope}
    now, least = list(sizes), dict[int, float]()
    for _ in range(_PASSES):
        held = _coarser(known, sizes, now, law)
        prices = best_prices(now, wanted, epsilon, held, records=records, law=law)
        errors = expected_errors(now, wanted, raised(held, prices), missed=0.0, law=law)
        for axis, found in counts.items():
            noise = _FACTOR * _mean_noise(axis, now, wanted, errors)
            least[axis] = (noise * least.get(axis, noise)) ** 0.5
            n = ordered.get(axis)
            classes[axis] = (_classes if n is None else _runs)(found[:n], least[axis])
            rest = classes[axis].max() + 1 + np.arange(len(found) - len(classes[axis]))
            classes[axis] = np.append(classes[axis], rest)
        before, now = now, _sizes(sizes, classes)
        if now == before:
            return classes, prices
    held = _coarser(known, sizes, now, law)
    return classes, best_prices(now, wanted, epsilon, held, records=records, law=law)


def _sizes(sizes: Sequence[int], classes: Mapping[int, IndexArray]) -> list[int]:
    """The number of classes of each attribute."""
    return [int(classes[a].max()) + 1 if a in classes else n for a, n in enumerate(sizes)]


def _coarser(known: Prices, sizes: Sequence[int], now: Sequence[int], law: NoiseLaw) -> Prices:
    """Charges of tables with the noise of a class that adds up cells of the known ones."""
    root = 0.5 * law.power
    return {s: price * prod(now[a] / sizes[a] for a in s) ** root for s, price in known.items()}


def _mean_noise(
    axis: int, sizes: Sequence[int], wanted: Sequence[Scope], errors: FloatArray
) -> float:
    """The noise of a cell times the cells that share a value, as a mean of wanted marginals."""
    found = [
        error * prod(sizes[a] for a in scope) / sizes[axis]
        for scope, error in zip(wanted, errors.tolist(), strict=True)
        if axis in scope
    ]
    return float(np.mean(found))


def _classes(counts: FloatArray, least: float) -> IndexArray:
    """A class for each value, one for all rare ones; the most frequent is never rare."""
    rare = np.flatnonzero(counts < min(least, counts.max()))
    labels = np.arange(len(counts))
    labels[rare] = rare.min(initial=len(counts))
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def _runs(counts: FloatArray, least: float) -> IndexArray:
    """A class for each run of values that is no longer rare.

    Where all are rare there are two, of which the second begins with the most frequent value.
    """
    found, now, total = np.zeros(len(counts), dtype=np.intp), 0, 0.0
    for i, count in enumerate(np.maximum(counts, 0.0).tolist()):
        found[i], total = now, total + count
        if total >= least:
            now, total = now + 1, 0.0
    if now > 1:
        return np.minimum(found, now - 1)  # A rare last run joins the previous one.
    ends = np.arange(len(counts)) >= max(1, int(counts.argmax()))
    return np.asarray(ends, dtype=np.intp)


def shares(counts: FloatArray, classes: IndexArray, scale: float) -> FloatArray:
    """The part of each value in its class, by released counts, cut at 0; shape of `counts`.

    Counts of a class are drawn to their mean by as much of their spread as is noise.

    Args:
        scale: b of Laplace noise with the variance of a count's noise.
    """
    found = np.empty(len(counts))
    for one in range(int(classes.max()) + 1):
        own = counts[classes == one]
        total = max(float(own.sum()), 1.0)
        spread = float(np.square(own - own.mean()).mean()) or 1.0
        kept = max(0.0, 1.0 - 2.0 * scale**2 * (1.0 - 1.0 / len(own)) / spread)
        own = total / len(own) + kept * (own - own.mean())
        # The nearest counts of this sum that are not below 0.
        falling = np.sort(own)[::-1]
        lowered = (falling.cumsum() - total) / np.arange(1, len(own) + 1)
        found[classes == one] = np.maximum(own - lowered[falling > lowered][-1], 0.0) / total
    return found

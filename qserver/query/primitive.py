"""The primitive form of a query: its row, multiplier, key, and exact extremes.

The row h of a query q is q / S up to sign, where S = max over cells of abs(q_c) is the sensitivity
under add-remove. Multiples of one query share row and key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd

import numpy as np

from qserver.query.class_grid import (
    ClassGrid,
    IntegerGrid,
    bounded_extremes,
    class_grid,
    fits_int64,
)
from qserver.query.linear_query import LinearQuery

MAX_GRID = 1 << 22
MAX_KEY_GRID = 1 << 16
# Grid cells times terms: a few seconds. A step on Python's integers costs some 2^5 of the others.
MAX_WORK = 1 << 30
_OBJECT_WORK = MAX_WORK >> 5
_CACHED_RUNS = 1 << 12
_LARGE_RUNS = 1 << 16


@dataclass(frozen=True)
class Primitive:
    """A query as `multiplier` times a row.

    Args:
        row: h, with max abs(h) = 1 (at most 1 where `exact` is false); zero for a zero query.
        multiplier: signed rational with query = multiplier * row.
        key: hex digest shared by equal rows.
        low, high: least and greatest cell value of the row (bounds where `exact` is false).
        exact: whether the extremes are exact.
    """

    row: LinearQuery
    multiplier: Fraction
    key: str
    low: Fraction
    high: Fraction
    exact: bool

    def __hash__(self) -> int:
        return hash((self.key, self.multiplier))

    @property
    def sensitivity(self) -> Fraction:
        """S of the query: max abs over cells (an upper bound where not `exact`)."""
        return abs(self.multiplier)

    @property
    def is_zero(self) -> bool:
        """Whether the query vanishes on every cell; its answer is then exact and free."""
        return self.multiplier == 0

    @property
    def unit(self) -> Fraction:
        """A common divisor of the row's cell values: 1 / lcm of the coefficients' denominators."""
        return Fraction(1, self.row.denominator)


def primitive(query: LinearQuery) -> Primitive:
    """The primitive form of `query`.

    Exact while its class grid has at most 2^22 cells, and 2^30 cells times terms.

    Raises:
        QueryError: a coefficient of the row has a numerator or denominator above 2^256.
        CapacityError: the query separates too many values of one attribute.
    """
    # Forms of large queries are kept few at a time: thousands of them would fill the memory. But
    # pricing one question asks for the same form again and again.
    n_runs = query.n_runs
    if n_runs > _LARGE_RUNS:
        return _primitive(query)
    return _cached(query) if n_runs <= _CACHED_RUNS else _cached_large(query)


def _primitive(query: LinearQuery) -> Primitive:
    grid = class_grid(query)
    work = MAX_WORK if fits_int64(query) else _OBJECT_WORK
    if grid.n_cells > min(MAX_GRID, work // max(1, len(query.terms))):
        return _bounded(query)
    values = grid.values(query)
    low, high = int(values.min()), int(values.max())
    size = max(abs(low), abs(high))
    if size == 0:
        return _zero(query)
    sign = 1 if int(values.flat[int(np.flatnonzero(values)[0])]) > 0 else -1
    multiplier = Fraction(sign * size, query.denominator)
    row = query.scaled(1 / multiplier)
    ends = sorted((Fraction(sign * low, size), Fraction(sign * high, size)))
    key = _grid_key(grid, values) if grid.n_cells <= MAX_KEY_GRID else _term_key(row)
    return Primitive(row, multiplier, key, ends[0], ends[1], exact=True)


_cached = lru_cache(maxsize=4096)(_primitive)
_cached_large = lru_cache(maxsize=16)(_primitive)


def _bounded(query: LinearQuery) -> Primitive:
    budget = _OBJECT_WORK // max(1, len(query.terms))
    bounds = bounded_extremes(query, max_grid=min(MAX_GRID >> 4, budget))
    size = max(abs(bounds.low), abs(bounds.high))
    if size == 0:
        return _zero(query)
    sign = 1 if query.terms[0].coefficient > 0 else -1
    row = query.scaled(sign / size)
    ends = sorted((sign * bounds.low / size, sign * bounds.high / size))
    return Primitive(row, sign * size, _term_key(row), ends[0], ends[1], exact=False)


def _zero(query: LinearQuery) -> Primitive:
    nothing = Fraction(0)
    return Primitive(query.scaled(0), nothing, _digest("zero"), nothing, nothing, exact=True)


def _grid_key(grid: ClassGrid, values: IntegerGrid) -> str:
    """Digest of the exact vector: equal for equal functions of the cell."""
    reduced = grid.reduced(values)
    flat = [int(v) for v in reduced.values.flat]
    divisor = gcd(*flat)
    sign = 1 if next(v for v in flat if v) > 0 else -1
    axes = [[a.axis, list(a.stops), list(a.ids)] for a in reduced.axes]
    return _digest(json.dumps([axes, [sign * v // divisor for v in flat]]))


def _term_key(row: LinearQuery) -> str:
    # The first coefficient is scaled out: a bound in place of S must not tell equal rows apart.
    return _digest(json.dumps(row.scaled(1 / row.terms[0].coefficient).to_document()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]

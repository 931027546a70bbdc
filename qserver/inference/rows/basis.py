"""The basis of the history's row space: independent rows, and the coefficients of queries on it.

`SpanTest` decides exactly whether a query is in the row space. Floats find the coefficients. If
they say "no" by a wide margin, the exact test is skipped: not using the history is always safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qserver.inference.rows.axis_vectors import FloatArray
from qserver.inference.rows.estimability import SpanTest
from qserver.inference.rows.factored_rows import FactoredRows, Products
from qserver.inference.rows.inverse_factor import GrowingFactor, Solution
from qserver.inference.rows.modular import SecretRandom
from qserver.inference.rows.rational import simple_rationals
from qserver.query.linear import LinearQuery

# Squares of the distance from the row space, relative to the squared norm of the query.
_CLEARLY_OUTSIDE = 1e-6
_INSIDE = 1e-11
_MIN_PIVOT = 1e-9
_MAX_ERROR = 1e-6
_ROUNDING = 2.0**-50
BATCH = 128
_DROPPED = 1e-14
_CHEAP_TO_REBALANCE = 256


@dataclass(frozen=True)
class Coefficients:
    """A query as a combination of basis rows.

    Args:
        values: lambda, with query = sum of lambda_j h_j, shape (r,).
        error: bound on their error, beyond rounding to floats: the estimate from answers y is off
            by at most error * `Basis.dual_norm(y)`.
        measure: the `Basis.measure` that `error` refers to.
    """

    values: FloatArray
    error: float
    measure: int


@dataclass(frozen=True)
class Admission:
    """The result of adding a row.

    Args:
        position: its place in the basis if it joined, else -1.
        coefficients: for a dependent row; None if the row is not used, or is in the basis.
    """

    position: int = -1
    coefficients: Coefficients | None = None

    @property
    def is_basis(self) -> bool:
        """Whether the row joined the basis."""
        return self.position >= 0


class Basis:
    """Independent rows h_1 .. h_r on one domain.

    Args:
        sizes: number of values per attribute.
        entropy: source of the secret primes.
    """

    def __init__(self, sizes: tuple[int, ...], entropy: SecretRandom) -> None:
        self._sizes = sizes
        self._span = SpanTest(sizes, entropy)
        self._rows = FactoredRows(sizes)
        self._factor = GrowingFactor()
        self._n_balanced = 0
        self._measure = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def measure(self) -> int:
        """Number of the measure in use; it changes when classes get new weights."""
        return self._measure

    def dual_norm(self, answers: FloatArray) -> float:
        """Norm of the basis rows' answers, shape (r,), for the error of `Coefficients`."""
        if not len(self):
            return 0.0
        return self._factor.dual_norm(answers * np.exp2(-self._relative_logs))

    @property
    def _relative_logs(self) -> FloatArray:
        logs = self._rows.log_scales
        return np.asarray(logs - logs[0])

    def admit(self, queries: Sequence[LinearQuery]) -> list[Admission]:
        """Add a batch of at most some hundred rows; the result of each, in order."""
        products = [self._rows.products(q) for q in queries]
        cross = np.stack([p.rows for p in products], axis=1)
        square = self._rows.gram([p.query for p in products])
        newcomers = self._factor.newcomers(cross, square)
        chosen = newcomers.independent(_CLEARLY_OUTSIDE)
        self._factor.append(newcomers.only(chosen))
        joined = {}
        for i in chosen:
            joined[i] = Admission(position=len(self))
            self._rows.add(queries[i])
        return [joined.get(i) or self._admit_close(q) for i, q in enumerate(queries)]

    def coefficients(self, query: LinearQuery) -> Coefficients | None:
        """Coefficients of `query`, or None if it is not in the row space."""
        if query.is_zero or not len(self):
            return None
        products = self._rows.products(query)
        fit = self._fit(products)
        if fit.distance > _CLEARLY_OUTSIDE:
            return None
        claim = simple_rationals(fit.coefficients.values)
        if claim is not None and self._span.confirms(self._rows, query, claim):
            return Coefficients(claim.values, 0.0, self._measure)
        if not self._span.contains(self._rows, query):
            return None
        fit = self._refined(products, fit)
        if not fit.is_sound and self._rebalance():
            # The floats disagree with the exact test: try again, with new weights and new primes.
            self._span.refresh()
            if not self._span.contains(self._rows, query):
                return None
            products = self._rows.products(query)
            fit = self._refined(products, self._fit(products))
        return fit.coefficients if fit.is_sound else None

    def _admit_close(self, query: LinearQuery) -> Admission:
        """Add a row that is dependent or close to it."""
        found = self.coefficients(query)
        if found is not None:
            return Admission(coefficients=found)
        if self._join(query) or (self._rebalance(query) and self._join(query)):
            return Admission(position=len(self) - 1)
        return Admission()

    def _join(self, query: LinearQuery) -> bool:
        products = self._rows.products(query)
        cross, square = products.rows[:, None], np.array([[products.query.square]])
        newcomers = self._factor.newcomers(cross, square)
        if not newcomers.independent(_MIN_PIVOT) or self._span.contains(self._rows, query):
            return False
        self._factor.append(newcomers)
        self._rows.add(query)
        return True

    def _rebalance(self, newcomer: LinearQuery | None = None) -> bool:
        """Give all classes the same weight and factor again; False if this cannot help.

        The classes are those of the rows, and of `newcomer` if one is to join them.
        """
        n = len(self)
        if n == self._n_balanced or (n > _CHEAP_TO_REBALANCE and 10 * n < 11 * self._n_balanced):
            return False
        self._n_balanced = n
        rows, factor = FactoredRows(self._sizes), GrowingFactor()
        for query in self._rows.queries:
            rows.add(query)
        if newcomer is not None:
            rows.reserve(newcomer)
        rows.rebalance()
        for start in range(0, n, BATCH):
            part = self._rows.queries[start : start + BATCH]
            products = [rows.products(q) for q in part]
            cross = np.stack([p.rows[:start] for p in products], axis=1)
            square = rows.gram([p.query for p in products])
            newcomers = factor.newcomers(cross, square)
            if len(newcomers.independent(_MIN_PIVOT)) < len(part):
                return False
            factor.append(newcomers)
        self._rows, self._factor = rows, factor
        self._measure += 1
        return True

    def _fit(self, products: Products) -> _Fit:
        return self._judge(products, self._factor.solve(products.rows))

    def _refined(self, products: Products, fit: _Fit) -> _Fit:
        return self._judge(products, self._factor.refined(products.rows, fit.solution))

    def _judge(self, products: Products, solution: Solution) -> _Fit:
        x, g, square = solution.x, products.rows, products.query.square
        distance = square - float(x @ (g + solution.residual))
        # Zeros save work later. The G-norm of the dropped part is at most sqrt(r) times its norm.
        kept = np.abs(x) > _DROPPED * np.abs(x).max(initial=0.0)
        error = solution.error + float(np.linalg.norm(x[~kept])) * len(x) ** 0.5
        scale = products.query.log_scale
        values = np.where(kept, x, 0.0) * np.exp2(scale - self._rows.log_scales)
        unit = 2.0 ** (scale - self._rows.log_scale(0))
        found = Coefficients(values, error * unit, self._measure)
        noise = _ROUNDING * float(np.abs(x).sum()) ** 2
        inside = distance <= _INSIDE * square + noise
        sound = inside and error <= _MAX_ERROR and square > _MIN_PIVOT
        return _Fit(found, distance / square, sound, solution)


@dataclass(frozen=True)
class _Fit:
    """Float coefficients, squared distance from the row space, and whether both are sound."""

    coefficients: Coefficients
    distance: float
    is_sound: bool
    solution: Solution

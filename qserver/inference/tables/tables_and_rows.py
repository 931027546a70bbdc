"""Tables and rows with Gaussian noise together, by weights of least variance.

Tables alone give T(q), of least variance, for every q that they determine. Rows y = H x + e have
independent noise. So T(q) + k (y - T(H)) has for any weights k the variance

    C(q, q) - 2 k C(H, q) + k (C(H, H) + R) k

where R is the covariance of e, and C that of the tables' estimates: the sum over components of
their inner product over their information. It is least at k = (C(H, H) + R)^-1 C(H, q), the least
squares on all cells and rows. Rows that the tables do not determine are left out.

For small tables C is computed cell by cell. For others it includes noise on phantoms, as for
blocks: the true variance is then at most this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.estimate import Posterior, RowEstimate
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, Rest, RowKnowledge, whole_of
from qserver.inference.tables.blocks.pattern import Pattern
from qserver.inference.tables.pieces import Generation
from qserver.inference.tables.weights import WeightChoice, WeightOrigin, on_blocks
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.records.history import Measurement

MOST_ROWS = 64
"""Most rows that are weighed beside tables: those that tell most of the question."""
_MOST_CELLS, _MOST_TOLD = 1 << 12, 1_000
"""Cells of all tables up to which they are told apart; rows of least noise that are looked at."""
_MOST_KEPT = 2 * _MOST_TOLD
_ULP = 2.0**-52
_ROUNDING = 1e-11
"""Far more than a variance errs by, as a part of the terms that it is summed up from."""


@dataclass(frozen=True, eq=False)
class Told:
    """A row's estimate by the tables alone.

    Args:
        value: T(row), off by at most `error`.
        deviation: standard deviation, without phantoms.
        allowance: bound on what lattices and floats add, in records.
        tables: ids of its measurements.
        cells: the error's weight on each cell's standardised noise, phantoms without noise, shape
            (cells of all blocks,); None if there are many.
    """

    pattern: Pattern
    value: float
    error: float
    deviation: float
    allowance: float
    tables: tuple[int, ...]
    cells: FloatArray | None


class RowsOnTables:
    """Estimates by rows and the tables of a generation. Not safe for concurrent use.

    Args:
        blocks: the present ones.
    """

    def __init__(self, generation: Generation, blocks: Blocks) -> None:
        self._generation, self._blocks = generation, blocks
        self._told: dict[object, Told | None] = {}
        self._shared: dict[tuple[int, int], tuple[Told, Told, float]] = {}

    def is_of(self, blocks: Blocks) -> bool:
        """Whether it was made of these blocks, not of earlier ones."""
        return self._blocks is blocks

    def estimate(
        self,
        query: Primitive,
        rows: Sequence[Measurement],
        *,
        confidence: float,
        at: int,
        weights: Sequence[float] | None = None,
    ) -> RowEstimate | None:
        """The estimate by tables and rows; None if the tables do not determine the query.

        Args:
            rows: noisy ones.
            at: number of events so far.
            weights: of all the rows; by default of least variance. None is also returned if the
                tables do not determine one of them.
        """
        own = self._of_query(query)
        if own is None:
            return None
        chosen = self._bearing(own, rows) if weights is None else list(rows)
        told = [found for found in map(self._of_row, chosen) if found is not None]
        if len(told) < len(chosen):
            return None
        joint = self._covariances(told, told) + np.diag([row.scale**2 for row in chosen])
        shared = self._covariances(told, [own])[:, 0]
        k = np.linalg.solve(joint, shared) if weights is None else _array(weights)
        alone = float(self._covariances([own], [own])[0, 0])
        terms = [alone, -2.0 * float(k @ shared), float(k @ joint @ k)]
        variance = max(sum(terms), 0.0) + _ROUNDING * sum(map(abs, terms))
        deviation = variance**0.5 if chosen else own.deviation
        if weights is None and deviation > own.deviation:
            # Phantoms count for more than what rows tell.
            return self.estimate(query, [], confidence=confidence, at=at)
        value, error, allowance = own.value, own.error, own.allowance
        for weight, row, t in zip(k.tolist(), chosen, told, strict=True):
            value += weight * (row.value_float - t.value)
            size = abs(row.value_float) + abs(t.value)
            error += abs(weight) * (t.error + 8.0 * _ULP * size) + _ULP * abs(value)
            allowance += abs(weight) * (t.allowance + FLOAT_ROOM * row.lattice_allowance)
        most = max(allowance, allowance / FLOAT_ROOM + error)
        posterior = Posterior(value, np.array([deviation]), most, law=self._blocks.law)
        return RowEstimate(
            tuple(zip((row.id for row in chosen), k.tolist(), strict=True)),
            posterior,
            confidence,
            posterior.half_width(confidence),
            "blocks",
            float_error=error,
            tables=tuple(sorted({*own.tables, *(i for t in told for i in t.tables)})),
            at=at,
            is_kept=weights is not None or not chosen,
            unforeseen=most - allowance,
        )

    def are_all(self, query: Primitive, rows: Sequence[Measurement]) -> bool:
        """Whether `estimate` uses everything that bears on a query, without phantoms."""
        own = self._of_query(query)
        lattice = self._generation.lattice
        chains = [(lattice.chains[a], level) for b in self._blocks.alphas for a, level in b]
        if own is None or not all(chain.is_real[level].all() for chain, level in chains):
            return False
        return len(rows) <= MOST_ROWS and all(self._of_row(row) is not None for row in rows)

    def covariances(
        self,
        queries: Sequence[Primitive],
        rows: Sequence[Measurement],
        weights: Sequence[Mapping[int, float]],
    ) -> FloatArray | None:
        """Covariances of the tables' parts of queries with weighted rows, shape (n, n).

        None if the tables do not determine a query or a row.
        """
        told = [*map(self._of_query, queries), *map(self._of_row, rows)]
        known = [t for t in told if t is not None]
        if len(known) < len(told):
            return None
        shared = self._covariances(known, known)
        left = [[-of.get(row.id, 0.0) for row in rows] for of in weights]
        loads = np.hstack([np.eye(len(queries)), np.array(left).reshape(len(queries), len(rows))])
        return np.asarray(loads @ shared @ loads.T)

    def _bearing(self, own: Told, rows: Sequence[Measurement]) -> list[Measurement]:
        """The rows that tell most about a query, in the order of ids; all if few.

        A row that tells nothing alone may help with others.
        """
        if len(rows) > _MOST_TOLD:
            rows = sorted(rows, key=lambda row: (row.scale, row.id))[:_MOST_TOLD]
        told = [(row, found) for row in rows if (found := self._of_row(row)) is not None]
        if len(told) <= MOST_ROWS:
            return [row for row, _ in told]
        # Rows about other attributes tell the total alone.
        scope = set(own.pattern.scope)
        near = [pair for pair in told if not scope.isdisjoint(pair[1].pattern.scope)]
        told = sorted(near, key=lambda pair: (pair[0].scale, pair[0].id))[: 2 * MOST_ROWS]
        told.sort(key=lambda pair: pair[0].id)
        shared = self._covariances([found for _, found in told], [own])[:, 0]
        noise = _array([found.deviation**2 + row.scale**2 for row, found in told])
        best = np.argsort(-np.square(shared) / noise, kind="stable")[:MOST_ROWS]
        return [told[i][0] for i in sorted(best.tolist())]

    def _covariances(self, some: Sequence[Told], others: Sequence[Told]) -> FloatArray:
        """Covariances C of some queries with others, shape (n, m)."""
        left, right = ([t.cells for t in told if t.cells is not None] for told in (some, others))
        if left and right:
            return np.asarray(np.stack(left) @ np.stack(right).T)
        found = [[self._covariance(one, other) for other in others] for one in some]
        return np.array(found).reshape(len(some), len(others))

    def _covariance(self, one: Told, other: Told) -> float:
        key = id(one), id(other)
        if key in self._shared:
            return self._shared[key][2]
        total = 0.0
        for component, inner in one.pattern.inner(other.pattern).items():
            information = self._blocks.information(component)
            if information:
                total += inner / information
        if len(self._shared) >= MOST_ROWS * _MOST_KEPT:
            self._shared.clear()
        # Both are kept as long as their ids are.
        self._shared[key] = one, other, total * (self._blocks.law.variance / 2.0)
        return self._shared[key][2]

    def _of_query(self, query: Primitive) -> Told | None:
        return self._of(query.key, query.row)

    def _of_row(self, row: Measurement) -> Told | None:
        return self._of(row.key, row.row)

    def _of(self, name: str, row: LinearQuery) -> Told | None:
        # Rows of one key may be multiples of each other, where their size is only bounded.
        key = name, row.terms[0].coefficient if row.terms else None
        if key not in self._told:
            if len(self._told) >= _MOST_KEPT:
                self._told.clear()
                self._shared.clear()
            found = primitive(row)
            self._told[key] = self._alone(found) if found.multiplier == 1 else None
        return self._told[key]

    def _alone(self, query: Primitive) -> Told | None:
        generation, blocks = self._generation, self._blocks
        pattern = generation.pattern(query) if generation.reaches(query) else None
        rest = None if pattern is None else whole_of(blocks, pattern)
        if pattern is None or rest is None:
            return None
        origin = WeightOrigin(None, is_kept=True)
        choice = WeightChoice(
            generation, pattern, blocks, rest, None, RowKnowledge(None), 0.0, origin
        )
        found = on_blocks(choice, rest)
        deviation = float(np.linalg.norm(rest.scales(blocks.alphas)))
        live = (generation.tables.get(w.block) for w in rest.weights)
        ids = (i for table in live if table is not None for i in table.ids_for(pattern.query))
        allowance = rest.allowance(generation.steps)
        return Told(
            pattern,
            found.value,
            found.error,
            deviation,
            allowance,
            tuple(sorted(ids)),
            self._cells(rest),
        )

    def _cells(self, rest: Rest) -> FloatArray | None:
        n_cells, alphas = self._generation.lattice.n_cells, self._blocks.alphas
        noisy = [block for block, alpha in alphas.items() if not isinf(alpha)]
        if sum(map(n_cells, noisy)) > _MOST_CELLS:
            return None
        weights = {w.block: w for w in rest.weights}
        return np.concatenate(
            [
                np.ravel(weights[b].dense) / alphas[b] if b in weights else np.zeros(n_cells(b))
                for b in noisy
            ]
        )


def _array(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)

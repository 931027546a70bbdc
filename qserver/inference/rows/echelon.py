"""The span of a growing list of rows modulo a secret prime, as a block LU of their sketches.

Row i has functional i as its pivot; S, the r x r matrix of sketches, is L U with identity blocks
on the diagonal of L. With W = L^-1 S_checks and E = U^-1 W, a query q lies in the span iff its
sketch satisfies s_pivots E = s_checks, a product with r x 20 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qserver.inference.arrays import grown_matrix
from qserver.inference.rows.axis_vectors import FloatArray
from qserver.inference.rows.factored_rows import FactoredRows
from qserver.inference.rows.modular import SecretRandom
from qserver.inference.rows.rational import RationalWeights
from qserver.inference.rows.sketch import BLOCK, CHECKS, Sketcher
from qserver.query.linear import LinearQuery

N_CHECKS = 20


class UnluckyPrimeError(Exception):
    """A pivot or a denominator vanishes modulo the prime; another prime is needed."""


class Echelon:
    """Block LU of the sketches of independent rows; brought up to date by `extend`."""

    def __init__(self, sizes: tuple[int, ...], entropy: SecretRandom) -> None:
        self._sketcher = Sketcher(sizes, entropy)
        self._field = self._sketcher.field
        self._n = 0
        self._lu: FloatArray = np.zeros((0, 0))
        self._checks: FloatArray = np.zeros((0, N_CHECKS))
        self._row_checks: FloatArray = np.zeros((0, N_CHECKS))
        self._inverses: list[FloatArray] = []
        self._solution: FloatArray | None = None

    def contains(self, query: LinearQuery) -> bool:
        """Whether `query` lies in the span of the rows so far, by its sketch.

        Raises:
            UnluckyPrimeError: the prime divides a denominator of `query`.
        """
        if self._solution is None:
            self._solution = self._solve()
        sketch = self._sketch(query, range(len(self._inverses)))
        expected = self._field.matmul(sketch[None, : self._n], self._solution)[0]
        return bool((expected == sketch[-BLOCK:][:N_CHECKS]).all())

    def confirms(self, rows: FactoredRows, query: LinearQuery, claim: RationalWeights) -> bool:
        """Whether `query` is the claimed combination of the rows, by their sketches.

        Needs no elimination.

        Raises:
            UnluckyPrimeError: the prime divides a denominator.
        """
        self._sketch_new_rows(rows)
        left = self._field.combination(claim.numerators, self._row_checks)
        right = self._sketch(query, ())[:N_CHECKS] * self._field.residue(claim.denominator)
        return bool((left == self._field.reduce(right)).all())

    def extend(self, rows: FactoredRows) -> None:
        """Add the new rows of `rows`, which must be independent.

        Raises:
            UnluckyPrimeError: they are dependent modulo the prime.
        """
        if self._n == len(rows):
            return
        opened = len(self._inverses)
        blocks = -(-len(rows) // BLOCK)
        self._lu = grown_matrix(self._lu, blocks * BLOCK, blocks * BLOCK)
        self._checks = grown_matrix(self._checks, blocks * BLOCK, N_CHECKS)
        new = slice(self._n, len(rows))
        self._sketch_new_rows(rows)
        self._checks[new] = self._row_checks[new]
        if opened:
            sketches = [self._sketch(q, range(opened)) for q in rows.queries[new]]
            self._lu[new, : opened * BLOCK] = np.stack(sketches)[:, : opened * BLOCK]
        for block in range(blocks):
            if block >= opened:
                self._open(block, rows)
            self._reduce(block, new)
        self._n = len(rows)
        self._solution = None

    def _open(self, block: int, rows: FactoredRows) -> None:
        """Add a block of functionals as columns, reduced by the rows above."""
        columns = slice(block * BLOCK, (block + 1) * BLOCK)
        self._lu[: len(rows), columns] = self._sketch_rows(rows, block)
        for above in range(1, block):
            part = slice(above * BLOCK, (above + 1) * BLOCK)
            self._subtract(part, above * BLOCK, self._lu[:, columns])

    def _reduce(self, block: int, new: slice) -> None:
        """Reduce the new rows' entries in one block of columns, and their checks."""
        start, stop = block * BLOCK, (block + 1) * BLOCK
        here = slice(max(start, new.start), new.stop)
        if here.start >= here.stop:
            return
        self._subtract(here, start, self._lu[:, start:stop])
        own = slice(here.start, min(stop, new.stop))
        if own.start < own.stop:
            self._subtract(own, start, self._checks)
            corner = self._lu[start : own.stop, start : own.stop]
            self._inverses[block:] = [self._inverse(corner)]
        below = slice(max(stop, new.start), new.stop)
        if below.start < below.stop:
            rest = self._lu[below, start:stop]
            self._lu[below, start:stop] = self._field.matmul(rest, self._inverses[block])

    def _subtract(self, rows: slice, n: int, columns: FloatArray) -> None:
        """columns[rows] -= L[rows, :n] columns[:n], modulo the prime, in place."""
        if n:
            product = self._field.matmul(self._lu[rows, :n], columns[:n])
            columns[rows] = self._field.reduce(columns[rows] - product)

    def _solve(self) -> FloatArray:
        """E = U^-1 W, from the last block up, shape (n, N_CHECKS)."""
        out = self._checks[: self._n].copy()
        for block in reversed(range(len(self._inverses))):
            rows = slice(block * BLOCK, min((block + 1) * BLOCK, self._n))
            rest = slice(rows.stop, self._n)
            if rest.start < rest.stop:
                product = self._field.matmul(self._lu[rows, rest], out[rest])
                out[rows] = self._field.reduce(out[rows] - product)
            out[rows] = self._field.matmul(self._inverses[block], out[rows])
        return out

    def _sketch_new_rows(self, rows: FactoredRows) -> None:
        known = len(self._row_checks)
        if len(rows) - known > BLOCK:
            self._row_checks = self._sketch_rows(rows, CHECKS)[:, :N_CHECKS]
        elif len(rows) > known:
            new = [self._sketch(q, ())[:N_CHECKS] for q in rows.queries[known:]]
            self._row_checks = np.concatenate([self._row_checks, np.stack(new)])

    def _sketch(self, query: LinearQuery, blocks: Sequence[int]) -> FloatArray:
        """Values at some blocks of pivots, then at the block of checks."""
        try:
            return self._sketcher.query(query, (*blocks, CHECKS))
        except ValueError as exc:
            raise UnluckyPrimeError from exc

    def _sketch_rows(self, rows: FactoredRows, block: int) -> FloatArray:
        try:
            return self._sketcher.rows(rows, block)
        except ValueError as exc:
            raise UnluckyPrimeError from exc

    def _inverse(self, corner: FloatArray) -> FloatArray:
        try:
            return self._field.inverse(corner)
        except ZeroDivisionError as exc:
            raise UnluckyPrimeError from exc

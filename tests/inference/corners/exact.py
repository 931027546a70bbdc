"""Linear algebra in exact fractions, slow and plain: what the fast code is held to."""

from __future__ import annotations

from fractions import Fraction

Matrix = list[list[Fraction]]
Vector = list[Fraction]


def echelon(rows: Matrix) -> Matrix:
    """Reduced row echelon form without its zero rows."""
    work = [list(row) for row in rows]
    done: Matrix = []
    for column in range(len(work[0]) if work else 0):
        pivot = next((row for row in work if row[column]), None)
        if pivot is None:
            continue
        work.remove(pivot)
        pivot = [v / pivot[column] for v in pivot]
        work = [_without(row, pivot, column) for row in work]
        done = [_without(row, pivot, column) for row in done] + [pivot]
    return done


def rank(rows: Matrix) -> int:
    return len(echelon(rows))


def in_span(rows: Matrix, query: Vector) -> bool:
    return rank([*rows, query]) == rank(rows)


def solution(matrix: Matrix, right: Vector) -> Vector | None:
    """One x with matrix x = right (free unknowns zero), or None."""
    n = len(matrix[0])
    reduced = echelon([[*row, b] for row, b in zip(matrix, right, strict=True)])
    x = [Fraction(0)] * n
    for row in reduced:
        column = next(i for i, v in enumerate(row) if v)
        if column == n:
            return None
        x[column] = row[n]
    return x


def null_space(matrix: Matrix) -> Matrix:
    """A basis of all x with matrix x = 0."""
    n = len(matrix[0])
    reduced = echelon(matrix)
    pivots = {next(i for i, v in enumerate(row) if v): row for row in reduced}
    basis = []
    for free in (i for i in range(n) if i not in pivots):
        x = [Fraction(0)] * n
        x[free] = Fraction(1)
        for column, row in pivots.items():
            x[column] = -row[free]
        basis.append(x)
    return basis


def least_variance(rows: Matrix, scales: Vector, query: Vector) -> Fraction | None:
    """min of 2 sum A_i^2 b_i^2 over A with sum A_i rows_i = query; b_i may be zero."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    start = solution(columns, query)
    if start is None:
        return None
    directions = null_space(columns)
    squares = [b * b for b in scales]
    if directions:
        normal = [[_form(d, e, squares) for e in directions] for d in directions]
        z = solution(normal, [-_form(d, start, squares) for d in directions])
        assert z is not None, "normal equations are always consistent"
        for factor, direction in zip(z, directions, strict=True):
            start = [a + factor * v for a, v in zip(start, direction, strict=True)]
    return 2 * _form(start, start, squares)


def _form(left: Vector, right: Vector, squares: Vector) -> Fraction:
    return sum((a * b * s for a, b, s in zip(left, right, squares, strict=True)), start=Fraction(0))


def _without(row: Vector, pivot: Vector, column: int) -> Vector:
    factor = row[column]
    return [a - factor * b for a, b in zip(row, pivot, strict=True)] if factor else row

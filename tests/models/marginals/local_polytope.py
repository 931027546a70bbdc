"""The local polytope written out densely, and its problems solved by general methods.

Nothing here knows of layouts by shape, messages, components or multipliers of a consensus.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog

from qserver.models.marginals.graph.layout import FloatArray, Layout, Scope


@dataclass(frozen=True)
class Polytope:
    """tau >= 0 with matrix tau = right, tau being the tables of a layout one after another."""

    matrix: FloatArray
    right: FloatArray


def local_polytope(layout: Layout, *, on: str = "shared") -> Polytope:
    """Every table has total one, and any two agree on what they share (or on its attributes)."""
    lines, right = [], []
    for i, scope in enumerate(layout.scopes):
        line = np.zeros(layout.n_cells)
        line[layout.offsets[i] : layout.offsets[i + 1]] = 1.0
        lines.append(line)
        right.append(1.0)
        for j in range(i):
            shared = tuple(a for a in scope if a in layout.scopes[j])
            for part in [shared] if on == "shared" else [(a,) for a in shared]:
                for values in product(*(range(layout.sizes[a]) for a in part)):
                    lines.append(
                        indicator(layout, i, part, values) - indicator(layout, j, part, values)
                    )
                    right.append(0.0)
    return Polytope(np.array(lines), np.array(right))


def indicator(layout: Layout, i: int, part: Scope, values: tuple[int, ...]) -> FloatArray:
    """One for each cell of table i whose attributes `part` have these values."""
    line = np.zeros(layout.n_cells)
    scope = layout.scopes[i]
    for k, cell in enumerate(product(*(range(layout.sizes[a]) for a in scope))):
        if all(cell[scope.index(a)] == v for a, v in zip(part, values, strict=True)):
            line[layout.offsets[i] + k] = 1.0
    return line


def nearest(polytope: Polytope, target: FloatArray, weights: FloatArray) -> FloatArray:
    """The point that minimises sum of weights (tau - target)^2, by alternating directions.

    One half fits under the equalities, by a dense pseudo-inverse; the other clips signs.
    """
    a, b = polytope.matrix, polytope.right
    spread = 1.0 / (weights + 1.0)
    lift = spread[:, None] * a.T @ np.linalg.pinv((a * spread) @ a.T, rcond=1e-10)
    z, u = np.zeros(len(target)), np.zeros(len(target))
    for _ in range(20_000):
        before = z
        free = spread * (weights * target + z - u)
        x = free - lift @ (a @ free - b)
        z = np.maximum(x + u, 0.0)
        u = u + x - z
        if max(np.abs(x - z).max(), np.abs(z - before).max()) < 1e-14:
            break
    return np.asarray(z)


def least_absolute(
    polytope: Polytope, rows: FloatArray, target: FloatArray, weights: FloatArray
) -> float:
    """min sum of weights abs(rows tau - target) over the polytope, as a linear programme."""
    m, n = rows.shape
    eye = np.eye(m)
    found = linprog(
        np.concatenate([np.zeros(n), weights]),
        A_ub=np.block([[rows, -eye], [-rows, -eye]]),
        b_ub=np.concatenate([target, -target]),
        A_eq=np.hstack([polytope.matrix, np.zeros((len(polytope.right), m))]),
        b_eq=polytope.right,
        bounds=[(0, None)] * (n + m),
    )
    return float(found.fun)  # type: ignore[arg-type]


def all_pairs(n: int) -> list[Scope]:
    """Every pair of n attributes."""
    return list(combinations(range(n), 2))

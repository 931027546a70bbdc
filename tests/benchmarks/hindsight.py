"""The cheapest blocks that would have answered a whole stream of queries: a yardstick, no method.

A block measures every cell of a product of partitions, one from each attribute's nested chain, at
one alpha; its cells are disjoint, so it costs alpha. Let D_j project on what level j of the chains
adds to coarser ones. Blocks commute, so component j of all data is known with information
lambda_j = sum over blocks l >= j of alpha_l^2 / 2 * (cells of the domain per cell of the block),
and a query q has variance sum_j |D_j q|^2 / lambda_j and, on the cells of block l, the weights
alpha_l^2 / 2 * sum over j <= l of (D_j q, summed over each cell) / lambda_j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, minimize

from qserver.inference.law.laplace_sum import LaplaceSum

Floats = npt.NDArray[np.float64]
_LEAST = 1e-5
_USED = 1e-3
_STARTS = 4
_WORTH_EXACT = 1.02


@dataclass(frozen=True)
class Chain:
    """Nested partitions of one attribute into equal parts.

    Args:
        n_parts: parts per level, increasing from 1 to the number of values, each dividing the
            next.
    """

    n_parts: tuple[int, ...]

    def __post_init__(self) -> None:
        steps = pairwise(self.n_parts)
        if self.n_parts[:1] != (1,) or any(b % a or a == b for a, b in steps):
            raise ValueError("`n_parts` must begin with 1, and each must divide the next.")

    @property
    def size(self) -> int:
        """Number of values."""
        return self.n_parts[-1]

    @cached_property
    def thinned(self) -> list[Chain]:
        """The chain, and every chain that leaves out some levels between total and values."""
        inner = self.n_parts[1:-1]
        ends = {0, len(self.n_parts) - 1}
        return [
            Chain(tuple(n for i, n in enumerate(self.n_parts) if i in ends or n in kept))
            for n_kept in range(len(inner), -1, -1)
            for kept in combinations(inner, n_kept)
        ]

    @cached_property
    def sums(self) -> list[Floats]:
        """Per level, the matrix that sums a vector over each part, shape (parts, size)."""
        return [
            np.asarray(np.kron(np.eye(k), np.ones(self.size // k)), dtype=np.float64)
            for k in self.n_parts
        ]

    def parts_of(self, vector: Floats) -> list[Floats]:
        """The vector's components D_j q, one per level; they add up to the vector."""
        means = [s.T @ (s @ vector) / (self.size / len(s)) for s in self.sums]
        return [means[0]] + [b - a for a, b in pairwise(means)]


@dataclass(frozen=True)
class Target:
    """A product query with the half-width that it must have.

    Args:
        vectors: its vector on each attribute, shape (size,) each.
    """

    vectors: tuple[Floats, ...]
    half_width: float


@dataclass(frozen=True)
class Blocks:
    """All blocks over some chains, one per choice of levels, and what they say of queries."""

    chains: tuple[Chain, ...]

    @cached_property
    def levels(self) -> list[tuple[int, ...]]:
        """The level on each attribute, per block."""
        return list(product(*(range(len(c.n_parts)) for c in self.chains)))

    @cached_property
    def _reach(self) -> Floats:
        """What alpha_l^2 / 2 adds to lambda_j, shape (blocks, components)."""
        cells = [
            prod(c.size // c.n_parts[i] for c, i in zip(self.chains, level, strict=True))
            for level in self.levels
        ]
        at = np.array(self.levels)
        finer = (at[:, None, :] >= at[None, :, :]).all(axis=2)
        return np.asarray(finer * np.array(cells)[:, None], dtype=np.float64)

    def energies(self, target: Target) -> Floats:
        """|D_j q|^2 per component, shape (components,)."""
        parts = [c.parts_of(v) for c, v in zip(self.chains, target.vectors, strict=True)]
        squares = [np.array([float(p @ p) for p in axis]) for axis in parts]
        return np.asarray(reduce(np.multiply.outer, squares)).ravel()

    def information(self, alphas: Floats) -> Floats:
        """lambda_j, shape (components,)."""
        return np.asarray((np.square(alphas) / 2) @ self._reach)

    def scales(self, target: Target, alphas: Floats) -> Floats:
        """Scales of the error's Laplace parts, over the cells of all blocks that are used."""
        parts = [c.parts_of(v) for c, v in zip(self.chains, target.vectors, strict=True)]
        information = self.information(alphas)
        found = []
        for alpha, level in zip(alphas, self.levels, strict=True):
            if alpha <= 0.0:
                continue
            total: Floats | float = 0.0
            for j, component in enumerate(self.levels):
                if all(a <= b for a, b in zip(component, level, strict=True)):
                    axes = zip(self.chains, parts, level, component, strict=True)
                    sums = [c.sums[i] @ p[k] for c, p, i, k in axes]
                    total = total + reduce(np.multiply.outer, sums) / information[j]
            found.append(np.abs(np.ravel(total)) * alpha / 2)
        return np.concatenate(found)


def best_price(blocks: Blocks, targets: Sequence[Target], *, confidence: float) -> float:
    """The least sum of alphas found that gives every target its half-width at `confidence`.

    The variances are fitted from several starts (the problem is not convex), on all levels and on
    every choice of fewer: a level that is of no use keeps a fit from the optimum without it. Then
    all alphas are raised together until the exact law of every error keeps its half-width.
    """
    widths = np.array([t.half_width for t in targets])
    fits = list[tuple[float, Blocks, Floats]]()
    for chains in product(*(c.thinned for c in blocks.chains)):
        thinned = Blocks(chains)
        energies = np.array([thinned.energies(t) for t in targets])
        for start in range(_STARTS):
            alphas = _fit(thinned, energies, widths, start)
            fits.append((float(alphas.sum()), thinned, alphas))
    most = _WORTH_EXACT * min(price for price, _, _ in fits)
    near = [(thinned, alphas) for price, thinned, alphas in fits if price <= most]
    return min(_exact_price(b, targets, alphas, confidence) for b, alphas in near)


def _exact_price(
    blocks: Blocks, targets: Sequence[Target], alphas: Floats, confidence: float
) -> float:
    # Blocks that say next to nothing are not bought.
    alphas = np.where(alphas < _USED * alphas.sum(), 0.0, alphas)
    alphas[-1] = max(alphas[-1], _LEAST * alphas.sum())
    needed = max(
        LaplaceSum(blocks.scales(t, alphas)).half_width(confidence) / t.half_width for t in targets
    )
    return float(alphas.sum()) * needed


def _fit(blocks: Blocks, energies: Floats, widths: Floats, start: int) -> Floats:
    """Alphas with sum_j e_qj / lambda_j <= (half-width / 2)^2 for every query."""
    bounds = np.square(widths / 2)
    first = np.random.default_rng(start).uniform(0.2, 1.0, len(blocks.levels))
    first *= np.sqrt((energies @ (1 / blocks.information(first)) / bounds).max())
    unit = float(first.sum())

    def room(x: Floats) -> Floats:
        # Logarithms: nearly linear in those of the alphas, and of one size for all queries.
        return np.asarray(-np.log(energies @ (1 / blocks.information(unit * np.exp(x))) / bounds))

    def price(x: Floats) -> float:
        return float(np.exp(x).sum())

    # The stubs of scipy know no constraints as functions of arrays.
    solve: Any = minimize
    found = solve(
        price,
        np.log(first / unit),
        jac=np.exp,
        method="SLSQP",
        bounds=Bounds(math.log(_LEAST), 0.0),
        constraints={"type": "ineq", "fun": room},
        options={"maxiter": 200},
    )
    alphas = unit * np.exp(np.asarray(found.x))
    # Whatever the solver says of itself: scaled until every variance is met.
    excess = np.sqrt((energies @ (1 / blocks.information(alphas)) / bounds).max())
    return np.asarray(alphas * excess)

"""Noisy blocks and what they say of a query, in closed form.

A block measures every cell of a product partition at one alpha: its cells are disjoint. All blocks
of one lattice commute, so with K_l the cells of block l

    lambda_j = sum over blocks l >= j of alpha_l^2 / (2 K_l)        information of component j
    Var(q)   = sum_j e_j / lambda_j                                 e_j the mean square of q_j
    weight of q on cell p of block l = alpha_l^2 / (2 K_l) * sum over j <= l of q_j(p) / lambda_j

With phantoms this counts noise that is not there: the weights stay unbiased, the true variance is
no larger, and `scales` leaves the phantoms out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np

from qserver.errors import InputError
from qserver.inference.classes import FloatArray
from qserver.inference.lattice.pattern import BlockKey, Lattice, Pattern, PatternTerm, is_within

MAX_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class Scales:
    """Laplace scales c_i of an error, each `counts[i]` times; shape (n,) both."""

    values: FloatArray
    counts: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def expanded(self) -> FloatArray:
        """Each scale as often as it counts, zeros left out."""
        used = self.values > 0.0
        return np.repeat(self.values[used], self.counts[used])

    def without(self, scale: float) -> Scales:
        """The same with one scale, the nearest to this one, counted once less."""
        counts = self.counts.copy()
        distance = np.where(counts > 0, np.abs(self.values - scale), np.inf)
        counts[np.argmin(distance)] -= 1
        return Scales(self.values, counts)


@dataclass(frozen=True, eq=False)
class CellWeights:
    """Weights of a query on a block's cells, equal ones stated once.

    Args:
        values: weight per group of cells, one axis per axis of the block.
        groups: per axis of the block the group of each part, -1 for a phantom.
        repeats: real parts per group, per axis.
    """

    block: BlockKey
    values: FloatArray
    groups: tuple[np.ndarray[tuple[int], np.dtype[np.intp]], ...]
    repeats: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]

    @property
    def dense(self) -> FloatArray:
        """The weight of every cell, phantoms 0, one axis per axis of the block.

        Raises:
            InputError: the block has more than 2^22 cells.
        """
        if prod(len(g) for g in self.groups) > MAX_CELLS:
            raise InputError("block", "have at most 2^22 cells to be written down")
        total = self.values
        for i, group in enumerate(self.groups):
            real = (group >= 0).reshape([-1 if k == i else 1 for k in range(total.ndim)])
            total = total.take(np.maximum(group, 0), axis=i) * real
        return np.asarray(total)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Measured blocks of one lattice.

    Args:
        alphas: 1 / b per block, in epsilon per record, > 0.
    """

    lattice: Lattice
    alphas: Mapping[BlockKey, float] = field(default_factory=dict)
    _known: dict[BlockKey, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if any(not a > 0.0 for a in self.alphas.values()):
            raise InputError("alphas", "be > 0")

    def information(self, component: BlockKey) -> float:
        """lambda_j; 0 where no block reaches the component."""
        found = self._known.get(component)
        if found is None:
            found = sum(
                a * a / (2.0 * self.lattice.n_cells(block))
                for block, a in self.alphas.items()
                if is_within(component, block)
            )
            self._known[component] = found
        return found

    def is_estimable(self, pattern: Pattern) -> bool:
        """Whether the blocks alone give the query: some block reaches each of its components."""
        return all(self._is_reached(j) for j in pattern.energies)

    def variance(self, pattern: Pattern) -> float:
        """Variance of the query's BLUE on the blocks alone; infinite where not estimable."""
        total = 0.0
        for j, energy in pattern.energies.items():
            information = self.information(j)
            if information == 0.0:
                return float("inf")
            total += energy / information
        return total

    def weights(self, pattern: Pattern) -> list[CellWeights]:
        """The query's weights on each block that has a part in it.

        Components that no block reaches are passed over: for an estimable query there is none.
        """
        known = {j: self.information(j) for j in pattern.energies}
        inverse = {j: 1.0 / x for j, x in known.items() if x > 0.0}
        return [
            found
            for block, alpha in self.alphas.items()
            for found in [self._weights_on(block, alpha, pattern, inverse)]
            if found is not None
        ]

    def weight_of_itself(self, pattern: Pattern) -> float:
        """Weight of a query that is a cell of a measured block on that very cell."""
        block = pattern.cell_of or ()
        (term,) = pattern.terms
        parts = pattern.cell_parts
        total = 0.0
        for j in pattern.energies:
            if is_within(j, block):
                levels = dict(j)
                value = prod(
                    float(term.axes[a][levels.get(a, 0)][parts[a] if a in levels else 0])
                    if levels.get(a, 0) == dict(block)[a] or a not in levels
                    else self._coarser(term, a, levels[a], dict(block)[a], parts[a])
                    for a in term.axes
                )
                total += value / self.information(j)
        alpha = self.alphas[block]
        return total * alpha * alpha / (2.0 * self.lattice.n_cells(block))

    def _coarser(self, term: PatternTerm, axis: int, level: int, fine: int, part: int) -> float:
        """A component at the part of its own level that holds a part of a finer one."""
        chain = self.lattice.chains[axis]
        return float(term.axes[axis][level][part // (chain.n_parts[fine] // chain.n_parts[level])])

    def scales(self, pattern: Pattern) -> Scales:
        """Scales of the error of the query's weights, abs(weight) / alpha, with multiplicities."""
        values, counts = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
        for found in self.weights(pattern):
            repeats = np.ones((), dtype=np.int64)
            for r in found.repeats:
                repeats = np.multiply.outer(repeats, r)
            values.append(np.abs(found.values).ravel() / self.alphas[found.block])
            counts.append(np.ravel(repeats))
        return Scales(np.concatenate(values), np.concatenate(counts))

    def _is_reached(self, component: BlockKey) -> bool:
        return any(is_within(component, block) for block in self.alphas)

    def _weights_on(
        self, block: BlockKey, alpha: float, pattern: Pattern, inverse: Mapping[BlockKey, float]
    ) -> CellWeights | None:
        reached = {j: x for j, x in inverse.items() if is_within(j, block)}
        if not reached:
            return None
        axes = [_groups_of(self.lattice, axis, level, pattern) for axis, level in block]
        tensor = np.zeros([level + 1 for _, level in block])
        for j, x in reached.items():
            levels = dict(j)
            tensor[tuple(levels.get(a, 0) for a, _ in block)] = x
        total = np.zeros([len(a.repeats) for a in axes])
        inside = {a for a, _ in block}
        for i, term in enumerate(pattern.terms):
            part = tensor * term.coefficient * _means_outside(term, inside)
            for axis in axes:
                part = np.tensordot(part, axis.values[i], axes=(0, 1))
            total = total + part
        factor = alpha * alpha / (2.0 * self.lattice.n_cells(block))
        return CellWeights(
            block, total * factor, tuple(a.groups for a in axes), tuple(a.repeats for a in axes)
        )


@dataclass(frozen=True, eq=False)
class _Axis:
    """Parts of one axis grouped by components: values[term] has shape (groups, levels)."""

    values: list[FloatArray]
    groups: np.ndarray[tuple[int], np.dtype[np.intp]]
    repeats: np.ndarray[tuple[int], np.dtype[np.int64]]


def _groups_of(lattice: Lattice, axis: int, level: int, pattern: Pattern) -> _Axis:
    found = pattern.groups.get((axis, level))
    if not isinstance(found, _Axis):
        found = _grouped(lattice, axis, level, pattern.terms)
        pattern.groups[axis, level] = found
    return found


def _grouped(lattice: Lattice, axis: int, level: int, terms: Iterable[PatternTerm]) -> _Axis:
    chain = lattice.chains[axis]
    k = chain.n_parts[level]
    columns = []
    for term in terms:
        mine = np.zeros((k, level + 1))
        mine[:, 0] = 1.0
        if axis in term.axes:
            for i, values in enumerate(term.axes[axis][: level + 1]):
                mine[:, i] = np.repeat(values, k // len(values))
        columns.append(mine)
    real = chain.is_real[level]
    stacked = np.hstack(columns)[real]
    unique, of_real, repeats = np.unique(stacked, axis=0, return_inverse=True, return_counts=True)
    groups = np.full(k, -1, dtype=np.intp)
    groups[real] = of_real.ravel()
    by_term = np.split(unique, len(columns), axis=1)
    return _Axis(by_term, groups, repeats.astype(np.int64))


def _means_outside(term: PatternTerm, inside: set[int]) -> float:
    """Product of the term's level-0 values on the axes that the block does not tell apart."""
    return prod(float(c[0][0]) for a, c in term.axes.items() if a not in inside)


def combinations_below(lattice: Lattice, scope: Iterable[int]) -> list[BlockKey]:
    """Every block over some of these axes, at every level."""
    choices = [range(lattice.chains[a].n_levels) for a in scope]
    axes = list(scope)
    return [
        tuple((a, i) for a, i in zip(axes, picked, strict=True) if i)
        for picked in product(*choices)
    ]

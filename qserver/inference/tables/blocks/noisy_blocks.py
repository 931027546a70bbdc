"""Noisy blocks: information, variance and weights of a query in closed form.

A block measures every cell of a product partition at one alpha; its cells are disjoint. All blocks
of one lattice commute. So with K_l the number of cells of block l, under Laplace noise

    lambda_j = sum over blocks l >= j of alpha_l^2 / (2 K_l)        information of component j
    Var(q)   = sum_j e_j / lambda_j                                 e_j the mean square of q_j
    weight of q on cell p of block l = alpha_l^2 / (2 K_l) * sum over j <= l of q_j(p) / lambda_j

Under Gaussian noise the variances are half of that, and the weights are the same.

These formulas include noise on phantoms, which does not exist. The weights stay unbiased, the true
variance is no larger, and `scales` leaves the phantoms out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isinf, prod

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.pattern import (
    BlockKey,
    Lattice,
    Pattern,
    PatternTerm,
    is_within,
)
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

MAX_CELLS = 1 << 22

Groups = NDArray[np.intp]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GroupedAxis:
    """The parts of an axis at a level, grouped by equal components in all terms.

    Args:
        values: per term, the components by level, shape (levels, groups).
        groups: the group of each part, -1 for a phantom.
        repeats: real parts per group.
    """

    values: list[FloatArray]
    groups: Groups
    repeats: Counts


@dataclass(frozen=True, eq=False)
class CellWeights:
    """Weights of a query on a block's cells, one value per group of equal cells.

    Args:
        values: weight per group of cells, one axis per axis of the block.
        groups: per axis of the block, the group of each part, -1 for a phantom.
        repeats: per axis, the number of real parts in each group.
        left_out: a cell, as a part per axis, that has weight 0 despite its group.
    """

    block: BlockKey
    values: FloatArray
    groups: tuple[Groups, ...]
    repeats: tuple[Counts, ...]
    left_out: tuple[int, ...] | None = None

    @cached_property
    def counts(self) -> Counts:
        """Real cells per group of cells, of the shape of `values`."""
        total = np.ones((), dtype=np.int64)
        for repeats in self.repeats:
            total = np.multiply.outer(total, repeats)
        if self.left_out is not None:
            total[self.group_of(self.left_out)] -= 1
        return np.asarray(total)

    def group_of(self, cell: Iterable[int]) -> tuple[int, ...]:
        """The index in `values` of a cell, given as a part per axis."""
        return tuple(int(g[part]) for g, part in zip(self.groups, cell, strict=True))

    def at(self, cell: Iterable[int]) -> float:
        """The weight of one cell."""
        return float(self.values[self.group_of(cell)])

    def without(self, cell: tuple[int, ...], *, factor: float) -> CellWeights:
        """`factor` times these weights, with weight 0 for one cell."""
        return CellWeights(self.block, self.values * factor, self.groups, self.repeats, cell)

    def scaled(self, factor: float) -> CellWeights:
        """`factor` times these weights."""
        return CellWeights(
            self.block, self.values * factor, self.groups, self.repeats, self.left_out
        )

    @property
    def size(self) -> float:
        """Sum of the absolute weights over the real cells."""
        return float((np.abs(self.values) * self.counts).sum())

    def spread(self, values: FloatArray, parts: Iterable[Groups]) -> FloatArray:
        """One value per group, expanded to the cells of these parts per axis."""
        chosen = [g[p] for g, p in zip(self.groups, parts, strict=True)]
        return np.asarray(values[np.ix_(*chosen)] if chosen else values)

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
        if self.left_out is not None:
            # The total has no axes, and its only cell is a number.
            total = np.array(total)
            total[self.left_out] = 0.0
        return np.asarray(total)


def grouped_axis(lattice: Lattice, axis: int, level: int, pattern: Pattern) -> GroupedAxis:
    """The groups of an axis's parts under a pattern, kept with the pattern.

    Patterns of queries with the same weights on the axis share them.
    """
    found = pattern.groups.get((axis, level))
    if not isinstance(found, GroupedAxis):
        terms = () if pattern.query is None else pattern.query.terms
        weights = axis, level, tuple(term.by_axis.get(axis) for term in terms)
        found = lattice.groups.get(weights) if terms else None
        if not isinstance(found, GroupedAxis):
            found = _grouped(lattice, axis, level, pattern.terms)
            if terms:
                lattice.groups[weights] = found
        pattern.groups[axis, level] = found
    return found


def likeness(pattern: Pattern) -> Hashable:
    """Key of queries whose weights on any blocks differ only in the order of cells."""
    found = pattern.groups.get(_ALL_AXES)
    if found is None:
        chains, of_axes = pattern.lattice.chains, list[Hashable]()
        for axis in pattern.scope:
            one = grouped_axis(pattern.lattice, axis, chains[axis].n_levels - 1, pattern)
            of_axes += [axis, one.repeats.tobytes(), *(values.tobytes() for values in one.values)]
        coefficients = tuple(term.coefficient for term in pattern.terms)
        found = pattern.cell_of, pattern.exact, coefficients, tuple(of_axes)
        pattern.groups[_ALL_AXES] = found
    return found


def _grouped(lattice: Lattice, axis: int, level: int, terms: Iterable[PatternTerm]) -> GroupedAxis:
    chain = lattice.chains[axis]
    k = chain.n_parts[level]
    columns = []
    for term in terms:
        if axis == lattice.apart:
            # Both levels have the same information; their sum is 0 exactly where the query is.
            columns.append(np.broadcast_to(sum(term.axes.get(axis, (1.0,))), (k,))[:, None])
            continue
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
    by_term = [np.ascontiguousarray(v.T) for v in np.split(unique, len(columns), axis=1)]
    return GroupedAxis(by_term, groups, repeats.astype(np.int64))


__all__ = ["MAX_CELLS", "Blocks", "CellWeights", "Scales"]

_ULP = 2.0**-52
_ALL_AXES = (-1, -1)
"""Where what is said of all axes of a pattern is kept with it."""


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales c_i of an error, each occurring `counts[i]` times; both of shape (n,)."""

    values: FloatArray
    counts: Counts

    @property
    def expanded(self) -> FloatArray:
        """Each scale repeated by its count, zeros left out."""
        used = self.values > 0.0
        return np.repeat(self.values[used], self.counts[used])


@dataclass(frozen=True, eq=False)
class Blocks:
    """Measured blocks of one lattice.

    Args:
        alphas: one over the scale of the noise per block, > 0: 1 / b in epsilon per record, or
            1 / s of Gaussian noise. Infinite is allowed for the total alone, the block (), which is
            then public.
        law: of the noise.
    """

    lattice: Lattice
    alphas: Mapping[BlockKey, float] = field(default_factory=dict)
    law: NoiseLaw = LAPLACE
    _known: dict[BlockKey, float] = field(default_factory=dict, init=False, repr=False)
    _shares: dict[BlockKey, float] = field(default_factory=dict, init=False, repr=False)
    _inverses: dict[tuple[int, ...], FloatArray] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        if any(not a > 0.0 for a in self.alphas.values()):
            raise InputError("alphas", "be > 0")
        if any(isinf(a) for block, a in self.alphas.items() if block):
            raise InputError("alphas", "be finite but for the total")

    @cached_property
    def n_cells(self) -> int:
        """Real cells of all blocks."""
        return sum(map(self.lattice.n_real_cells, self.alphas))

    def information(self, component: BlockKey) -> float:
        """lambda_j; 0 if no block reaches the component, infinite for a public total."""
        found = self._known.get(component)
        if found is None:
            at = tuple(level for _, level in component)
            reached = (self._levels([a for a, _ in component]) >= at).all(axis=1)
            found = self._known[component] = float(_running(self._every_share[reached]))
        return found

    def is_estimable(self, pattern: Pattern) -> bool:
        """Whether the blocks alone give the query: each component is reached by some block."""
        return all(any(is_within(j, block) for block in self.alphas) for j in pattern.finest)

    def variance(self, pattern: Pattern) -> float:
        """Variance of the query's BLUE on the blocks alone; infinite if not estimable."""
        total = 0.0
        for j, energy in pattern.energies.items():
            information = self.information(j)
            if information == 0.0:
                return float("inf")
            total += energy / information
        return total * (self.law.variance / 2.0)

    def weights(self, pattern: Pattern) -> list[CellWeights]:
        """The query's weights on each block that contributes.

        Components that no block reaches are left out; an estimable query has none.
        """
        found, seen = [], self._by_scope(pattern)
        for block in self.alphas:
            values = seen[self._kind(block, pattern)].values * self._factor(block)
            if values.any():
                axes = self._axes(block, pattern)
                values = values.reshape([len(a.repeats) for a in axes])
                groups = tuple(a.groups for a in axes)
                found.append(CellWeights(block, values, groups, tuple(a.repeats for a in axes)))
        return found

    def weight_errors(self, block: BlockKey, pattern: Pattern) -> FloatArray:
        """Bound on the rounding in the query's weights on a block, per group of cells.

        The rounding is the distance to the exact weights for these alphas and the exact query. The
        bound sums products of magnitudes, with and without the error of each component.
        """
        axes = self._axes(block, pattern)
        coefficients = [abs(t.coefficient) for t in pattern.terms]
        factors = _components(block, pattern, axes)
        exact = [[np.abs(f) for f in of_term] for of_term in factors]
        errors = _component_errors(self.lattice, pattern)
        outward = [
            [
                f + e[: len(f)].reshape((-1,) + (1,) * (f.ndim - 1))
                for f, e in zip(*both, strict=True)
            ]
            for both in zip(exact, errors, strict=True)
        ]
        high = self._sum(block, pattern, coefficients, outward)
        low = self._sum(block, pattern, coefficients, exact)
        depth = sum(self.lattice.chains[a].n_levels + 3 for a in pattern.scope)
        roundings = 2 * depth + len(self.alphas) + len(pattern.terms) + 12
        return np.asarray(np.maximum(high - low, 0.0) + roundings * _ULP * high)

    def scales(self, pattern: Pattern) -> Scales:
        """Scales of the query's error, abs(weight) / alpha, with multiplicities."""
        kinds, of = self._kinds(pattern)
        seen = [self._by_kind(kind, pattern) for kind in kinds]
        sizes = np.array([len(s.values) for s in seen], dtype=np.intp)[of]
        first, (alphas, factors, n_real) = np.cumsum(sizes) - sizes, self._facts
        values, counts = np.zeros(sizes.sum()), np.zeros(sizes.sum(), dtype=np.int64)
        for i, (found, (inside, _)) in enumerate(zip(seen, kinds, strict=True)):
            alike = (of == i).nonzero()[0][:, None]
            places = first[alike] + np.arange(len(found.values))
            values[places] = np.abs(found.values * factors[alike]) / alphas[alike]
            n_others = n_real[alike] // self.lattice.n_real_cells(inside)
            counts[places] = found.counts * n_others
        return Scales(values, counts)

    @cached_property
    def _facts(self) -> tuple[FloatArray, FloatArray, Counts]:
        """Of every block its alpha, its factor and its real cells."""
        n_real = list(map(self.lattice.n_real_cells, self.alphas))
        alphas = np.fromiter(self.alphas.values(), dtype=np.float64)
        factors = np.array(list(map(self._factor, self.alphas)), dtype=np.float64)
        return alphas, factors, np.array(n_real, dtype=np.int64)

    @cached_property
    def _every_share(self) -> FloatArray:
        return np.array(list(map(self._share, self.alphas)), dtype=np.float64)

    def _levels(self, axes: Sequence[int]) -> Groups:
        """Every block's level on these attributes, shape (blocks, axes)."""
        found, at = self._every_level
        # The last column is of attributes that no block is about.
        return found[:, [at.get(axis, -1) for axis in axes]]

    @cached_property
    def _every_level(self) -> tuple[Groups, dict[int, int]]:
        at = {a: i for i, a in enumerate({axis: None for b in self.alphas for axis, _ in b})}
        found = np.zeros((len(self.alphas), len(at) + 1), dtype=np.intp)
        for row, block in enumerate(self.alphas):
            for axis, level in block:
                found[row, at[axis]] = level
        return found, at

    def _kinds(self, pattern: Pattern) -> tuple[list[tuple[BlockKey, bool]], Groups]:
        """The kinds of blocks, and of every block the kind's number."""
        levels, is_public = self._levels(pattern.scope), np.isinf(self._facts[0])
        codes = is_public + 0
        for column in levels.T:
            codes = codes * (int(column.max(initial=0)) + 1) + column
        _, first, of = np.unique(codes, return_index=True, return_inverse=True)
        blocks = list(self.alphas)
        return [self._kind(blocks[i], pattern) for i in first], of

    def _by_scope(self, pattern: Pattern) -> dict[tuple[BlockKey, bool], _Seen]:
        """The query's weights up to a factor, by a block's levels on the query's attributes.

        Blocks that differ only on other attributes have the same weights up to a factor.
        """
        return {kind: self._by_kind(kind, pattern) for kind in self._kinds(pattern)[0]}

    def _by_kind(self, kind: tuple[BlockKey, bool], pattern: Pattern) -> _Seen:
        inside, is_public = kind
        coefficients, axes = [t.coefficient for t in pattern.terms], self._axes(inside, pattern)
        components = _components(inside, pattern, axes)
        total = self._total(inside, pattern, coefficients, components, is_public=is_public)
        counts = np.ones((), dtype=np.int64)
        for axis in axes:
            counts = np.multiply.outer(counts, axis.repeats)
        values = np.broadcast_to(total, [len(axis.repeats) for axis in axes])
        return _Seen(values.ravel(), counts.ravel())

    def _kind(self, block: BlockKey, pattern: Pattern) -> tuple[BlockKey, bool]:
        """The block's levels on the query's attributes, and whether it is public."""
        scope = pattern.scope
        return tuple(p for p in block if p[0] in scope), isinf(self.alphas[block])

    def _factor(self, block: BlockKey) -> float:
        """A block's weights divided by those that `_by_scope` gives."""
        return 1.0 if isinf(self.alphas[block]) else self._share(block)

    def _share(self, block: BlockKey) -> float:
        """The information that a block adds to every component within it."""
        found = self._shares.get(block)
        if found is None:
            alpha = self.alphas[block]
            found = self._shares[block] = alpha * alpha / (2.0 * self.lattice.n_cells(block))
        return found

    def _axes(self, block: BlockKey, pattern: Pattern) -> list[GroupedAxis]:
        return [grouped_axis(self.lattice, axis, level, pattern) for axis, level in block]

    def _inverse(self, axes: tuple[int, ...]) -> FloatArray:
        """1 / lambda_j of every component over these axes, 0 if not reached; one axis each."""
        if axes not in self._inverses:
            found = np.ones(len(self.alphas), dtype=bool)
            for axis, column in zip(axes, self._levels(axes).T, strict=True):
                inside = column[:, None] >= np.arange(_n_levels(self.lattice, axis))
                apart = (-1, *(1,) * (found.ndim - 1), inside.shape[1])
                found = found[..., None] & inside.reshape(apart)
            shares = self._every_share.reshape(-1, *(1,) * (found.ndim - 1))
            total = _running(np.where(found, shares, 0.0))
            self._inverses[axes] = np.divide(
                1.0, total, out=np.zeros_like(total), where=total > 0.0
            )
        return self._inverses[axes]

    def _sum(
        self,
        block: BlockKey,
        pattern: Pattern,
        coefficients: Sequence[float],
        factors: Sequence[Sequence[FloatArray]],
    ) -> FloatArray:
        """Sum over terms of coefficient times factors over lambda, times the block's share."""
        is_public = isinf(self.alphas[block])
        total = self._total(block, pattern, coefficients, factors, is_public=is_public)
        shape = [len(a.repeats) for a in self._axes(block, pattern)]
        return np.broadcast_to(total * self._factor(block), shape)

    def _total(
        self,
        block: BlockKey,
        pattern: Pattern,
        coefficients: Sequence[float],
        factors: Sequence[Sequence[FloatArray]],
        *,
        is_public: bool,
    ) -> FloatArray:
        """`_sum` without the block's share; broadcasts to the block's groups."""
        total = np.zeros(())
        for term, coefficient, mine in zip(pattern.terms, coefficients, factors, strict=True):
            axes = tuple(term.axes)
            part = _contracted(_ONE if is_public else self._inverse(axes), mine)
            if part.ndim < len(block):
                lengths = iter(part.shape)
                part = part.reshape([next(lengths) if a in term.axes else 1 for a, _ in block])
            total = total + coefficient * part
        return total


@dataclass(frozen=True, eq=False)
class _Seen:
    """Weights up to a factor, and counts, per group of cells of the query's scope, shape (n,)."""

    values: FloatArray
    counts: Counts


_ONE = np.ones(())


def _running(shares: FloatArray) -> FloatArray:
    """The sum along the first axis, added up in order whatever its length."""
    return np.asarray(shares.cumsum(axis=0)[-1] if len(shares) else np.zeros(shares.shape[1:]))


def _contracted(tensor: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """The tensor contracted on each axis in turn with (levels, groups), or with level 0 alone."""
    if not tensor.ndim:
        for factor in factors:
            tensor = tensor * factor[0]
        return tensor
    for factor in factors:
        if factor.ndim == 1:
            tensor = tensor[0] * factor[0]
            continue
        n, rest = len(factor), tensor.shape[1:]
        tensor = (tensor[:n].reshape(n, -1).T @ factor).reshape(*rest, factor.shape[1])
    return tensor


def _components(
    block: BlockKey, pattern: Pattern, axes: Sequence[GroupedAxis]
) -> list[list[FloatArray]]:
    """Per term and axis: components by (level, group) inside the block, else the mean."""
    inside = {axis: found for (axis, _), found in zip(block, axes, strict=True)}
    return [
        [inside[a].values[i] if a in inside else c[0][:1] for a, c in term.axes.items()]
        for i, term in enumerate(pattern.terms)
    ]


def _component_errors(lattice: Lattice, pattern: Pattern) -> list[list[FloatArray]]:
    """Per term and axis: bounds of the rounding in the components, shape (levels,)."""
    if pattern.query is None:
        raise InputError("pattern", "be that of a query")
    return [
        [
            _axis_errors(lattice, a, lattice.chains[a].component_errors(w))
            for a, w in term.by_axis.items()
        ]
        for term in pattern.query.terms
    ]


def _axis_errors(lattice: Lattice, axis: int, errors: FloatArray) -> FloatArray:
    """The same; of an attribute whose levels are summed up, with the rounding of the sum."""
    return np.array([2.0 * errors.sum() + 4.0 * _ULP]) if axis == lattice.apart else errors


def _n_levels(lattice: Lattice, axis: int) -> int:
    """Levels of an attribute that differ in information."""
    return 1 if axis == lattice.apart else lattice.chains[axis].n_levels

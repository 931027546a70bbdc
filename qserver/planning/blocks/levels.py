"""The levels to plan on: regular ones, or levels learnt from the questions.

*The choice.* Three lattices are compared by the price of raising the holdings to a base for the
latest questions: the lattice used for answering; one with learnt levels between the measured ones;
and one with learnt levels only, which cannot use other measured levels. So levels bought before the
questions were known do not bind for ever. They are given up only if that is cheaper.

The choice is a function of the paid questions in their order and of the measured tables. Levels
are learnt anew when the number of paid questions has no more than three binary digits before its
zeros (1 to 8, 10, 12, 14, 16, 20, ...), and compared anew when a table is measured or raised.

*Levels that end where questions do.* Questions are public. If predicates return, such as bands of
ages or groups of degrees, a level of just those parts answers them from far fewer cells than
regular parts would. If every question brings new breakpoints, there is nothing to learn, and
regular levels stay.

The share of breakpoints seen once tells the two apart: by Good and Turing it estimates the
probability that the next one is new.

References:
    Good, "The population frequencies of species and the estimation of population parameters",
    Biometrika 40 (1953), eq. 9.

*A level of unequal parts*, for questions that are asked at once about one attribute. Regular parts
ignore the questions. Of prefixes, for example, few use the last parts, so these may be short and
the first ones long. Here the ends are searched: single cells get one alpha and the parts another,
in shares that are searched for as well, and questions are answered by least squares. The price is
the one at which

    sum_i (variance_i / half_width_i^2)^p,   p = log(1 / delta),

stays the same: about how the sum of normal tails changes near delta. It only ranks partitions; the
base that is bought is fitted, scaled and certified like any other. The search depends on the
questions alone and ends after a number of steps, so every process finds the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from qserver.errors import CapacityError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.nested_partitions import Chain, default_chain, single_values
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.inference.tables.blocks.placement import (
    Labels,
    OverlaidChains,
    chain_through,
    firsts,
    has_levels,
    joined,
    labels_of,
    n_below,
    n_parts,
    nested_levels,
    nests,
    partitions_of,
)
from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.rent import n_learnt_from
from qserver.planning.blocks.star import price_left
from qserver.planning.blocks.wants import Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort, work_of_steps
from qserver.planning.holdings import Holdings
from qserver.query.class_grid import axis_classes
from qserver.query.weights import Weights
from qserver.records.paid_question import PaidQuestion
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


@dataclass(frozen=True)
class Sightings:
    """Counts of each predicate on one attribute, paid for or asked.

    Args:
        size: number of the attribute's values.
        is_all: whether these are all questions.
    """

    size: int
    counts: Mapping[Weights, int] = field(default_factory=dict)
    is_all: bool = False

    @cached_property
    def cuts(self) -> Counter[int]:
        """Breakpoints of ranges, each as the first value after it, with the number of sightings."""
        found: Counter[int] = Counter()
        for weights, n in self.counts.items():
            if _is_range(weights):
                found.update(dict.fromkeys(weights.stops[:-1], n))
        return found

    @cached_property
    def sets(self) -> dict[Weights, int]:
        """Predicates that are not ranges, with counts."""
        return {w: n for w, n in self.counts.items() if not _is_range(w)}

    @property
    def novelty(self) -> float:
        """Approximate upper bound of the chance that the next sighting is new; near 1 after few.

        Good and Turing's estimate plus one standard deviation of the number seen once.
        """
        if self.is_all:
            return 0.0
        seen = [*self.cuts.values(), *self.sets.values()]
        once = sum(n == 1 for n in seen)
        return (once + sqrt(once) + PLANNER.doubt) / (sum(seen) + PLANNER.doubt)

    @cached_property
    def is_repeated(self) -> bool:
        """Whether predicates return, with few classes of values.

        Random ranges or sets on a short attribute return soon, too. But they separate nearly all
        values, so no coarser level serves them.
        """
        if self.novelty > 0.5:
            return False
        classes = axis_classes(0, list(self.counts)) if self.counts else None
        return classes is not None and 2 * classes.n <= self.size

    @cached_property
    def splits(self) -> list[NDArray[np.int64]]:
        """Splits that levels should keep, most frequent first, shape (size,) each."""
        values = np.arange(self.size)
        ranked = [(n, i, values >= cut) for i, (cut, n) in enumerate(sorted(self.cuts.items()))]
        sets = enumerate(self.sets.items(), start=len(ranked))
        every = [*ranked, *((n, i, w.dense) for i, (w, n) in sets)]
        return [s.astype(np.int64) for _, _, s in sorted(every, key=lambda e: (-e[0], e[1]))]


def sightings(paid: Iterable[PaidQuestion]) -> dict[int, Sightings]:
    """Count the predicates of paid questions, per attribute."""
    counts: dict[int, Counter[Weights]] = {}
    for question in paid:
        for axis, weights in dict.fromkeys(
            f for t in question.row.terms for f in t.by_axis.items()
        ):
            counts.setdefault(axis, Counter())[weights] += 1
    return {a: Sightings(next(iter(c)).size, dict(c)) for a, c in sorted(counts.items())}


def learnt_chain(axis: int, seen: Sightings, bought: Sequence[Labels]) -> Chain | None:
    """The chain to plan on; None if the bought or the regular chain suffices.

    Every level in `bought` is a level of it.

    Args:
        bought: measured partitions of this attribute, in that order.
    """
    levels = nested_levels(seen.size, bought)
    is_new = not has_levels(default_chain(single_values(axis, seen.size)), levels)
    if not seen.is_repeated and not is_new:
        return None
    found = [levels[0]]
    for upper, lower in pairwise(levels):
        middle = aligned(upper, lower, seen.splits) if seen.is_repeated else None
        is_new = is_new or middle is not None
        steps = (upper, lower) if middle is None else (upper, middle, lower)
        for coarse, fine in pairwise(steps):
            found += [*_regular(coarse, fine), fine]
    return chain_through(axis, found) if is_new else None


def aligned(upper: Labels, lower: Labels, splits: Sequence[NDArray[np.int64]]) -> Labels | None:
    """A partition between two others that keeps the most splits.

    Splits that leave a part with fewer than two finer parts are skipped. None if no split adds to
    the coarser partition.
    """
    first = firsts(lower)
    above = parts = labels_of(upper[first])
    every = np.arange(len(first))
    for split in splits:
        if not bool((split == split[first][lower]).all()):
            continue
        finer = joined(parts, split[first])
        if int(n_below(finer, every).min()) >= 2:
            parts = finer
    if n_parts(parts) == n_parts(above):
        return None
    return _divided(above, parts, np.where(n_below(above, parts) == 1, 2, 0), lower)


def _regular(coarse: Labels, fine: Labels) -> list[Labels]:
    """A level of about equal parts between two others, where they are far apart."""
    n = n_below(coarse, fine)
    if int(n.max()) <= PLANNER.wide:
        return []
    above = coarse[firsts(fine)]
    groups = np.minimum(n // 2, np.maximum(2, np.rint(np.sqrt(n)).astype(np.intp)))
    found = _divided(above, above, groups, fine)
    return [] if found is None else [found]


def _divided(
    above: Labels, parts: Labels, groups: NDArray[np.intp], lower: Labels
) -> Labels | None:
    """Labels of values after parts above are cut into groups; None if that is too fine.

    Args:
        above: coarser partition of the finer parts, shape (finer parts,).
        parts: partition of them between the two.
        groups: number of groups of finer parts to cut each part above into; 0 leaves it.
        lower: the finer part of each value.
    """
    found = parts + 0
    for part in np.flatnonzero(groups):
        inside = np.flatnonzero(above == part)
        found[inside] = n_parts(found) + np.arange(len(inside)) * groups[part] // len(inside)
    found = labels_of(found)
    is_strict = nests(above, found) and nests(found, np.arange(len(found)))
    return labels_of(found[lower]) if is_strict else None


def _is_range(weights: Weights) -> bool:
    """Whether weights are the indicator of one run of values, or of all but one."""
    return weights.is_indicator and len(weights.stops) <= 3


Cuts = tuple[int, ...]


def uneven_chain(
    asked: Sequence[PaidQuestion],
    measured: Callable[[int], Sequence[Labels]],
    effort: Effort,
    law: NoiseLaw = LAPLACE,
) -> Chain | None:
    """The chain with a level of parts fitted to these questions, or None.

    Args:
        asked: questions asked at once, all about the same single attribute.
        measured: the measured partitions of an attribute. A level is searched only if each of them
            separates all cells of the questions, or none.
        effort: counts the work.
        law: of the noise.
    """
    axes = {a for q in asked for t in q.row.terms for a in t.by_axis}
    if len(axes) != 1:
        return None
    (axis,) = axes
    cells = _cells(axis, asked)
    if cells is None:
        return None
    n, size = n_parts(cells), len(cells)
    known = {x.tobytes() for x in (cells, np.zeros(size, np.intp), np.arange(size, dtype=np.intp))}
    if n * len(asked) > PLANNER.entries:
        return None
    if any(labels.tobytes() not in known for labels in measured(axis)):
        return None
    parts = _Search.of(axis, asked, cells, effort, law).best()
    return None if parts is None else chain_through(axis, nested_levels(size, [cells, parts]))


def _cells(axis: int, asked: Sequence[PaidQuestion]) -> Labels | None:
    """Label values that no question separates alike; None if there are too many values."""
    terms = [t.by_axis for q in asked for t in q.row.terms]
    vectors = list(dict.fromkeys(t[axis] for t in terms if axis in t))
    if vectors[0].size > PLANNER.most_values:
        return None
    try:
        return labels_of(axis_classes(axis, vectors).dense)
    except CapacityError:
        return None


@dataclass
class _Search:
    """The search for the ends of parts.

    Args:
        sums: running sums of each question's weights over cells, shape (questions, cells + 1).
        squares: sums of their squares, shape (questions,).
        targets: half-widths squared, shape (questions,).
        power: p.
        effort: counts the work; once it is spent the best so far is taken.
        law: of the noise.
    """

    cells: Labels
    sums: FloatArray
    squares: FloatArray
    targets: FloatArray
    power: float
    effort: Effort
    law: NoiseLaw = LAPLACE

    @classmethod
    def of(
        cls,
        axis: int,
        asked: Sequence[PaidQuestion],
        cells: Labels,
        effort: Effort,
        law: NoiseLaw = LAPLACE,
    ) -> _Search:
        """The search over cells of these values."""
        first = firsts(cells)
        weights = np.array([_on_cells(axis, q, first) for q in asked])
        sums = np.concatenate([np.zeros((len(asked), 1)), np.cumsum(weights, axis=1)], axis=1)
        targets = np.square(np.array([q.half_width for q in asked], dtype=np.float64))
        power = max(1.0, -log(min(1.0 - q.confidence for q in asked)))
        return cls(cells, sums, np.square(weights).sum(axis=1), targets, power, effort, law)

    def best(self) -> Labels | None:
        """Labels of values in the best partition found; None if cells alone are as good."""
        n = self.sums.shape[1] - 1
        numbers = [k for k in PLANNER.uneven_starts if 2 * k <= n]
        starts = [tuple(n * i // k for i in range(1, k)) for k in numbers]
        alone = self._norm(self.squares / (self.law.information(np.ones(1)) / 2.0))
        found = [self._descent(s) for s in starts if self._price(s) < alone]
        if not found:
            return None
        _, cuts = min(found)
        ends = np.array(cuts, dtype=np.intp)
        return labels_of(np.searchsorted(ends, self.cells, side="right"))

    def _descent(self, cuts: Cuts) -> tuple[float, Cuts]:
        """Descend from these ends until no single change lowers the price."""
        n = self.sums.shape[1] - 1
        step, best = max(1, n // PLANNER.uneven_first_step), (self._price(cuts), cuts)
        while not self.effort.is_spent:
            found = min(((self._price(c), c) for c in _changes(best[1], n, step)), default=best)
            if found[0] < best[0] * (1.0 - PLANNER.noticeable):
                best = found
            elif step == 1:
                break
            else:
                step //= 2
        return best

    def _price(self, cuts: Cuts) -> float:
        """Price of these parts with cells below, at the best share; for comparisons only."""
        ends = np.array([0, *cuts, self.sums.shape[1] - 1])
        self.effort.add(work_of_steps(1, components=len(ends), blocks=0, targets=len(self.targets)))
        inside = np.square(np.diff(self.sums[:, ends], axis=1))
        return min(self._at_share(s, inside, np.diff(ends)) for s in PLANNER.uneven_shares)

    def _at_share(self, share: float, inside: FloatArray, sizes: FloatArray) -> float:
        """Price if cells take this share, where cells and parts cost 1 together."""
        cell, part = self.law.information(np.array([share, 1.0 - share])) / 2.0
        # A part's row and its cells tell the mean of the part. They are weighed as if all parts had
        # the largest size, since the lattice pads them. The rest is told by the cells alone.
        weight = part / (part + cell / sizes.max())
        totals = weight**2 / part + (1.0 - weight) ** 2 * sizes / cell
        variances = self.squares / cell + inside @ (totals / sizes**2 - 1.0 / (sizes * cell))
        return self._norm(variances)

    def _norm(self, variances: FloatArray) -> float:
        """Approximate factor on all alphas that meets the targets."""
        uses = variances / self.targets
        largest = float(uses.max())
        norm = largest * np.sum((uses / largest) ** self.power) ** (1 / self.power)
        return float(norm ** (1.0 / self.law.growth))


def _on_cells(axis: int, asked: PaidQuestion, first: Labels) -> FloatArray:
    """Weights of a question on the cells, shape (cells,)."""
    total = np.zeros(len(first))
    for term in asked.row.terms:
        # A term without the attribute weighs all of its values equally.
        weights = term.by_axis.get(axis)
        ones = 1.0 if weights is None else weights.dense[first]
        total += float(term.coefficient) * ones
    return total


def _changes(cuts: Cuts, n: int, step: int) -> list[Cuts]:
    """Cuts that differ in one end: moved by the step, left out, or new in the middle of a part."""
    found = list[Cuts]()
    for i, cut in enumerate(cuts):
        before, after = cuts[:i], cuts[i + 1 :]
        found += [(*before, cut - step, *after), (*before, cut + step, *after)]
        if len(cuts) > 1:
            found.append((*before, *after))
    ends = (0, *cuts, n)
    for low, high in pairwise(ends):
        found.append(tuple(sorted((*cuts, (low + high) // 2))))
    return [c for c in found if all(b - a >= 2 for a, b in pairwise((0, *c, n)))]


Chains = Mapping[int, Chain]


@dataclass(frozen=True, eq=False)
class _State:
    """Inputs of a choice, which holds until one of them changes."""

    n_read: int
    lattice: Lattice
    alphas: Mapping[BlockKey, int]

    def is_like(self, other: _State) -> bool:
        """Whether the choice stays the same."""
        same = self.n_read == other.n_read and self.lattice is other.lattice
        return same and self.alphas == other.alphas


@dataclass
class Learner:
    """Levels learnt from the questions seen. No state except caches."""

    _state: _State | None = None
    _lattice: Lattice | None = None
    _lattices: list[tuple[Lattice, Chains, Lattice]] = field(default_factory=list)

    def view(self, holdings: Holdings, paid: Sequence[PaidQuestion]) -> Holdings:
        """The holdings on the lattice to plan on; `holdings` itself if that is its lattice."""
        return seen_on(holdings, self.lattice(holdings, paid))

    def lattice(self, holdings: Holdings, paid: Sequence[PaidQuestion]) -> Lattice:
        """The lattice to plan on, the same object until it changes."""
        tables = holdings.engine.tables
        state = _State(n_learnt_from(len(paid)), tables.lattice, dict(tables.alpha_nano))
        if self._lattice is None or self._state is None or not state.is_like(self._state):
            self._lattice = self._chosen(holdings, paid[: state.n_read])
            self._state = state
        return self._lattice

    def _chosen(self, holdings: Holdings, read: Sequence[PaidQuestion]) -> Lattice:
        """The present lattice, unless another is far cheaper for the latest questions."""
        found = self._found(holdings, sightings(read))
        if len(found) == 1:
            return found[0]
        asked = read[-PLANNER.sample :]
        left = [left_on(seen_on(holdings, lattice), asked, Effort()) for lattice in found]
        best = min(range(1, len(found)), key=left.__getitem__)
        return found[best] if left[best] < PLANNER.learnt_worth * left[0] else found[0]

    def views(
        self,
        holdings: Holdings,
        paid: Sequence[PaidQuestion],
        asked: Sequence[PaidQuestion],
        effort: Effort,
    ) -> list[Holdings]:
        """Holdings on every lattice for planning questions asked at once.

        The present lattice comes first. Then come the one learnt from the paid questions, those
        whose levels end where these questions do, and one with a level of unequal parts that is
        fitted to them.

        Args:
            effort: counts the work of that search.
        """
        known = {a: replace(s, is_all=True) for a, s in sightings(asked).items()}
        found = self._found(holdings, known)
        lattices = {id(x): x for x in (found[0], self.lattice(holdings, paid), *found[1:])}
        uneven = self._uneven(holdings, asked, effort)
        if uneven is not None:
            lattices[id(uneven)] = uneven
        return [seen_on(holdings, lattice) for lattice in lattices.values()]

    def _uneven(
        self, holdings: Holdings, asked: Sequence[PaidQuestion], effort: Effort
    ) -> Lattice | None:
        """The lattice with a level of unequal parts for these questions, if there is one."""
        tables = holdings.engine.tables
        law = holdings.engine.law
        chain = uneven_chain(
            asked, lambda a: list(partitions_of(a, tables.partitions)), effort, law
        )
        if chain is None or chain.axis == tables.lattice.apart:
            return None
        return self._of(tables.lattice, {chain.axis: chain})

    def _found(self, holdings: Holdings, every: Mapping[int, Sightings]) -> list[Lattice]:
        """The present lattice, and those with levels learnt from these sightings."""
        tables = holdings.engine.tables
        most, apart = PLANNER.most_values, tables.lattice.apart
        seen = {a: s for a, s in every.items() if s.size <= most and a != apart}
        beside = _chains(seen, {a: list(partitions_of(a, tables.partitions)) for a in seen})
        alone = _chains({a: s for a, s in seen.items() if s.is_repeated}, {})
        found = [tables.lattice]
        for above in (beside, {**beside, **alone}):
            lattice = self._of(tables.lattice, above)
            if all(lattice is not other for other in found):
                found.append(lattice)
        return found

    def _of(self, regular: Lattice, above: Chains) -> Lattice:
        """The lattice with these chains in place of some; the same object for the same chains."""
        above = {a: c for a, c in above.items() if c != regular.chains[a]}
        if not above:
            return regular
        for below, known, lattice in self._lattices:
            if below is regular and known == above:
                return lattice
        found = Lattice(OverlaidChains(regular.chains, above), regular.apart)
        self._lattices = [*self._lattices[1 - PLANNER.kept :], (regular, above, found)]
        return found


def _chains(
    seen: Mapping[int, Sightings], measured: Mapping[int, Sequence[Labels]]
) -> dict[int, Chain]:
    """Chains with all levels that are measured, and learnt ones between them."""
    found = {a: learnt_chain(a, s, measured.get(a, ())) for a, s in seen.items()}
    return {a: chain for a, chain in found.items() if chain is not None}


def seen_on(holdings: Holdings, lattice: Lattice) -> Holdings:
    """View the tables as blocks of another lattice; valid until history grows."""
    if lattice is holdings.lattice:
        return holdings
    engine = copy(holdings.engine)
    engine.tables = holdings.engine.tables.seen_on(lattice)
    return replace(holdings, engine=engine)


def left_on(
    holdings: Holdings,
    asked: Sequence[PaidQuestion],
    effort: Effort,
) -> float:
    """Approximate price, in epsilon, of raising the holdings to a base for these questions.

    Args:
        effort: counts the work.
    """
    wanted = Wants()
    for paid in asked:
        want = want_of(holdings, paid.form, half_width=paid.half_width, confidence=paid.confidence)
        if want is not None:
            wanted.add(want)
    return price_left(holdings, wanted.wants, effort=effort)

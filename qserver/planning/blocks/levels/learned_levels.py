"""Partitions learnt from the questions seen: chains whose levels end where questions do.

What was asked is public. Where predicates return, as bands of ages or groups of degrees do, a
level of just those parts answers them from far fewer cells than regular parts would. Where every
question brings new breakpoints there is nothing to learn, and regular levels stay.

The share of breakpoints seen once among all sightings tells which of the two it is. By Good and
Turing, it estimates the probability that the next one is new.

References:
    Good, "The population frequencies of species and the estimation of population parameters",
    Biometrika 40 (1953), eq. 9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from qserver.inference.tables.blocks.chain import Chain, default_chain, single_values
from qserver.inference.tables.blocks.nested_chains import (
    Labels,
    chain_through,
    firsts,
    has_levels,
    joined,
    labels_of,
    n_below,
    n_parts,
    nested_levels,
    nests,
)
from qserver.planning.constants import PLANNER
from qserver.query.grid import axis_classes
from qserver.query.weights import Weights
from qserver.records.paid_question import PaidQuestion


@dataclass(frozen=True)
class Sightings:
    """How often each predicate on one attribute was paid for, or is asked.

    Args:
        size: number of the attribute's values.
        is_all: whether nothing else will be asked.
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
        """Predicates that are no range, with how often each was seen."""
        return {w: n for w, n in self.counts.items() if not _is_range(w)}

    @property
    def novelty(self) -> float:
        """About the greatest chance that the next sighting is new; near 1 after few sightings.

        It is the estimate plus the standard deviation of the number of those seen once.
        """
        if self.is_all:
            return 0.0
        seen = [*self.cuts.values(), *self.sets.values()]
        once = sum(n == 1 for n in seen)
        return (once + sqrt(once) + PLANNER.doubt) / (sum(seen) + PLANNER.doubt)

    @cached_property
    def is_repeated(self) -> bool:
        """Whether predicates return, with few classes of values.

        If ranges or sets are drawn at random from a short attribute, all of them return soon. But
        they tell nearly all values apart, and no level of fewer parts serves them.
        """
        if self.novelty > PLANNER.most_novel:
            return False
        classes = axis_classes(0, list(self.counts)) if self.counts else None
        return classes is not None and classes.n * PLANNER.values_per_class <= self.size

    @cached_property
    def splits(self) -> list[NDArray[np.int64]]:
        """Splits that levels should keep, shape (size,) each, the most frequent first."""
        values = np.arange(self.size)
        ranked = [(n, i, values >= cut) for i, (cut, n) in enumerate(sorted(self.cuts.items()))]
        sets = enumerate(self.sets.items(), start=len(ranked))
        every = [*ranked, *((n, i, w.dense) for i, (w, n) in sets)]
        return [s.astype(np.int64) for _, _, s in sorted(every, key=lambda e: (-e[0], e[1]))]


def sightings(paid: Iterable[PaidQuestion]) -> dict[int, Sightings]:
    """The predicates of paid questions, per attribute."""
    counts: dict[int, Counter[Weights]] = {}
    for question in paid:
        for axis, weights in dict.fromkeys(
            f for t in question.row.terms for f in t.by_axis.items()
        ):
            counts.setdefault(axis, Counter())[weights] += 1
    return {a: Sightings(next(iter(c)).size, dict(c)) for a, c in sorted(counts.items())}


def learnt_chain(axis: int, seen: Sightings, bought: Sequence[Labels]) -> Chain | None:
    """The chain to plan on; None if the chain of the bought levels, or the regular one, suffices.

    Every level in `bought` is a level of it.

    Args:
        bought: partitions of this attribute that are measured, in that order.
    """
    if seen.size < PLANNER.least_learnt_values:
        return None
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
    """A partition between two others that keeps as many of the splits as possible.

    A split that would leave a part with fewer than two of the finer parts is skipped. None if no
    split adds to the coarser partition, or if there is no such partition.
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
    """`parts` with some of the parts above cut into groups, by value; None if that is too fine.

    Args:
        above: coarser partition of the finer parts, shape (finer parts,).
        parts: partition of them between the two.
        groups: into how many groups of finer parts to cut each part above; 0 leaves it.
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
    """Whether these are the indicator of one run of values, or of all but one run."""
    return weights.is_indicator and len(weights.stops) <= 3

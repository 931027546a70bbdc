"""The star: the best base found for the requirements, given the blocks that are bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, join_all
from qserver.planning.blocks.base import BaseProblem, best_base
from qserver.planning.blocks.wants import Want
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Priced, Purchase
from qserver.records.paid_question import Base


@dataclass(frozen=True, eq=False)
class Star:
    """A base.

    Args:
        alphas: per block, in epsilon per record, at least the bought alpha.
        price: total cost in epsilon, bought blocks included.
    """

    alphas: Mapping[BlockKey, float]
    price: float

    @classmethod
    def of_base(cls, holdings: Holdings, base: Base) -> Star | None:
        """Restore a star that `to_base` wrote; None if the lattice lacks its blocks."""
        alphas: dict[BlockKey, float] = {}
        for parts, alpha in base:
            levels = [holdings.lattice.chains[axis].n_parts for axis, _ in parts]
            if any(n not in found for (_, n), found in zip(parts, levels, strict=True)):
                return None
            key = tuple((a, found.index(n)) for (a, n), found in zip(parts, levels, strict=True))
            alphas[key] = alpha
        return cls(alphas, sum(holdings.cost_of(b) * a for b, a in alphas.items()))

    @property
    def depth(self) -> int:
        """The finest level of its blocks."""
        return max((level for block in self.alphas for _, level in block), default=0)

    def to_base(self, holdings: Holdings) -> Base:
        """The star by numbers of parts, which stay valid on a finer lattice."""
        chains = holdings.lattice.chains
        return tuple(
            (tuple((axis, chains[axis].n_parts[level]) for axis, level in block), alpha)
            for block, alpha in self.alphas.items()
        )


def fit_star(
    holdings: Holdings,
    wants: Sequence[Want],
    *,
    effort: Effort,
    old: Star | None = None,
    spare: float = 0.0,
    n_drawn: int = PLANNER.tries,
) -> Star:
    """The best base found for these requirements, from several starts, calibrated by exact tails.

    Args:
        effort: counts the work. Once it is spent, the best found so far is returned.
        old: an earlier one: one more start.
        n_drawn: as for `best_base`.
    """
    wants = [replace(w) for w in wants]
    blocks = candidates(holdings, wants)
    problem = _problem(holdings, wants, blocks)
    starts: list[FloatArray] = []
    warm = np.array([0.0 if old is None else old.alphas.get(b, 0.0) for b in blocks])
    # The finest block of an earlier star may be no candidate now.
    if warm.any():
        starts.append(problem.revived(problem.scaled(np.maximum(warm, problem.floors))))
    alphas = best_base(problem, starts, effort=effort, n_drawn=n_drawn)
    for _ in range(PLANNER.tries):
        once = problem.work + PLANNER.tries * PLANNER.evaluation_work
        if not effort.allows(once) or not _calibrate(holdings, wants, problem, alphas):
            break
        problem = _problem(holdings, wants, blocks)
        alphas = problem.solve(problem.revived(alphas))
        effort.add(once)
    there = problem.price(problem.floors)
    most = there + (1.0 + spare) * (problem.price(alphas) - there)
    if spare and there < most < inf and problem.price(alone := _finest_alone(problem)) <= most:
        _calibrate(holdings, wants, problem, alone)
        exact = _problem(holdings, wants, blocks)
        if exact.price(alone := _finest_alone(exact)) <= most:
            problem, alphas = exact, alone
    found = {b: float(a) for b, a in zip(blocks, alphas, strict=True) if a > 0.0}
    return Star(found, problem.price(alphas))


def least_price(holdings: Holdings, wants: Sequence[Want], *, enough: float) -> float:
    """Lower bound of the price of any base for these requirements, however calibrated.

    Args:
        enough: as for `BaseProblem.least_price`.
    """
    looser = [want.at_least_stretch() for want in wants]
    return _problem(holdings, looser, candidates(holdings, looser)).least_price(enough)


def price_left(holdings: Holdings, wants: Sequence[Want], *, effort: Effort) -> float:
    """Approximate price of raising the holdings to a base for these requirements, from one start.

    It is infinite if there are no requirements.
    """
    if not wants:
        return inf
    wants = fitting(holdings, wants)
    blocks = candidates(holdings, wants)
    problem = _problem(holdings, wants, blocks)
    start = problem.scaled(np.ones(len(blocks)))
    alphas = problem.solve(start, steps=PLANNER.base_steps // 3, annealed=True)
    effort.add(problem.work / 3.0)
    return problem.price(alphas) - problem.price(problem.floors)


def calibrate(holdings: Holdings, star: Star, wants: Sequence[Want]) -> None:
    """Calibrate the binding requirements on the star's blocks."""
    problem = _problem(holdings, wants, list(star.alphas))
    _calibrate(holdings, wants, problem, np.array(list(star.alphas.values())))


def uses(holdings: Holdings, star: Star, wants: Sequence[Want]) -> FloatArray:
    """Each requirement's variance under the star over its target, shape (wants,)."""
    alphas = np.array(list(star.alphas.values()))
    return _problem(holdings, wants, list(star.alphas)).uses(alphas)


def serves(holdings: Holdings, star: Star, wants: Sequence[Want]) -> bool:
    """Whether the star meets all requirements, within the calibration's tolerance."""
    return float(uses(holdings, star, wants).max()) <= 1.0 + PLANNER.near


def everything(holdings: Holdings, star: Star, row: Priced | None = None) -> Priced:
    """Raises from the holdings to the whole star, after this row."""
    rows = () if row is None else row.purchase.rows
    tables = holdings.tables(holdings.raises(star.alphas), beside=rows)
    return holdings.priced(Purchase(rows, tables))


def useful_blocks(holdings: Holdings, star: Star, want: Want) -> list[BlockKey]:
    """Blocks of the star that matter to one requirement's variance.

    Blocks about other attributes give only the total, which the query's own blocks give too. So
    they are left to other questions.
    """
    problem = _problem(holdings, [want], list(star.alphas))
    shares = problem.shares(np.array(list(star.alphas.values())))
    useful = [b for b, s in zip(star.alphas, shares, strict=True) if s > PLANNER.small_part]
    apart = holdings.lattice.apart  # all blocks are about it
    axes = {axis for component in want.energies for axis, _ in component} - {apart}
    about = {b: {axis for axis, _ in b} - {apart} for b in useful}
    return [b for b in useful if not (about[b] and axes) or about[b] & axes]


def fitting(holdings: Holdings, wants: Sequence[Want]) -> list[Want]:
    """The latest requirements, in order, up to the number a base can be fitted to."""
    components = set(holdings.alphas)
    kept: list[Want] = []
    for want in reversed(wants):
        more = components | want.energies.keys()
        if len(more) > PLANNER.most_fitted and kept:
            continue
        components = more
        kept.append(want)
    return kept[::-1]


def candidates(holdings: Holdings, wants: Sequence[Want]) -> list[BlockKey]:
    """Candidate blocks: the bought ones, one per component of a query, and one as fine as all.

    The block of a component reaches it with the fewest cells. But a single finer block may cost
    less than several blocks for different components.
    """
    found: dict[BlockKey, None] = dict.fromkeys(holdings.alphas)
    for want in wants:
        found.update(dict.fromkeys(want.energies))
    kept = [b for b in found if holdings.is_candidate(b)]
    finest = join_all(kept)
    return kept if finest in found or not holdings.is_candidate(finest) else [*kept, finest]


def _finest_alone(problem: BaseProblem) -> FloatArray:
    """Alphas of the finest block, and the floors; infinite if no block is as fine as all others."""
    finest = join_all(problem.blocks)
    if finest not in problem.blocks:
        return np.full(len(problem.blocks), inf)
    return problem.scaled(np.array([b == finest for b in problem.blocks], dtype=float))


def _problem(holdings: Holdings, wants: Sequence[Want], blocks: Sequence[BlockKey]) -> BaseProblem:
    return BaseProblem.of(
        holdings.lattice,
        [w.target for w in wants],
        blocks=blocks,
        costs=[holdings.cost_of(b) for b in blocks],
        floors=[holdings.alphas.get(b, 0.0) for b in blocks],
        law=holdings.engine.law,
    )


def _calibrate(
    holdings: Holdings, wants: Sequence[Want], problem: BaseProblem, alphas: FloatArray
) -> bool:
    """Calibrate the binding requirements by the exact tail; return whether any was far off."""
    law = problem.law
    found = zip(problem.blocks, alphas.tolist(), strict=True)
    used = {b: law.sharpness_of(a) for b, a in found if a > 0.0}
    blocks, use = Blocks(holdings.lattice, used, law), problem.uses(alphas)
    # A base that was written down on another lattice may not reach every requirement.
    reached = np.flatnonzero(use < PLANNER.unmet)
    binding = reached[np.argsort(-use[reached])[: PLANNER.tries]]
    changes = [wants[i].calibrate(blocks) for i in binding]
    return any(abs(c - 1.0) > PLANNER.near for c in changes)

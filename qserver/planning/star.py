"""The star: the best base found for the requirements wanted, beside what is bought already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.charge import NANO
from qserver.inference.classes import FloatArray
from qserver.inference.lattice.blocks import Blocks
from qserver.inference.lattice.pattern import BlockKey
from qserver.planning.base import BaseProblem, best_base
from qserver.planning.bought import Bought
from qserver.planning.wanted import Want

_CALIBRATIONS = 3
_CALIBRATED = 12
_BINDING = 0.6
_OFF = 0.02
_WORTH = 0.01


@dataclass(frozen=True, eq=False)
class Star:
    """A base.

    Args:
        alphas: per block, in epsilon per record, at least what is bought.
        price: total cost in epsilon, of what is bought too.
    """

    alphas: Mapping[BlockKey, float]
    price: float


def fit_star(bought: Bought, wants: Sequence[Want], *, old: Star | None = None) -> Star:
    """The best base found for these requirements, from several starts, calibrated by exact tails.

    Args:
        old: an earlier one: one more start.
    """
    blocks = _candidates(bought, wants)
    problem = _problem(bought, wants, blocks)
    starts: list[FloatArray] = []
    if old is not None:
        warm = np.array([old.alphas.get(b, 0.0) for b in blocks])
        starts.append(problem.revived(problem.scaled(np.maximum(warm, problem.floors))))
    alphas = best_base(problem, starts)
    for _ in range(_CALIBRATIONS):
        if not _calibrate(bought, wants, problem, alphas):
            break
        problem = _problem(bought, wants, blocks)
        alphas = problem.solve(problem.revived(alphas))
    found = {b: float(a) for b, a in zip(blocks, alphas, strict=True) if a > 0.0}
    return Star(found, problem.price(alphas))


def uses(bought: Bought, star: Star, wants: Sequence[Want]) -> FloatArray:
    """Each requirement's variance under the star over its target, shape (wants,)."""
    blocks = list(star.alphas)
    alphas = np.array([star.alphas[b] for b in blocks])
    return _problem(bought, wants, blocks).uses(alphas)


def useful_blocks(bought: Bought, star: Star, want: Want) -> list[BlockKey]:
    """Blocks of the star whose alpha matters to one requirement's variance."""
    blocks = list(star.alphas)
    problem = _problem(bought, [want], blocks)
    shares = problem.shares(np.array([star.alphas[b] for b in blocks]))
    return [b for b, s in zip(blocks, shares, strict=True) if s > _WORTH]


def _candidates(bought: Bought, wants: Sequence[Want]) -> list[BlockKey]:
    """What is bought, and a block for every component of a query: those that reach it least."""
    found: dict[BlockKey, None] = dict.fromkeys(bought.block_nano)
    for want in wants:
        found.update(dict.fromkeys(want.energies))
    return list(found)


def _problem(bought: Bought, wants: Sequence[Want], blocks: Sequence[BlockKey]) -> BaseProblem:
    return BaseProblem.of(
        bought.lattice,
        [w.target for w in wants],
        blocks=blocks,
        costs=[bought.ledger.cost_of(b) for b in blocks],
        floors=[bought.block_nano.get(b, 0) / NANO for b in blocks],
    )


def _calibrate(
    bought: Bought, wants: Sequence[Want], problem: BaseProblem, alphas: FloatArray
) -> bool:
    """Compare the requirements that bind with the exact tail; whether any was far off."""
    used = {b: float(a) for b, a in zip(problem.blocks, alphas, strict=True) if a > 0.0}
    blocks, use = Blocks(bought.lattice, used), problem.uses(alphas)
    binding = [i for i in np.argsort(-use)[:_CALIBRATED] if use[i] > _BINDING]
    changes = [wants[i].calibrate(blocks) for i in binding]
    return any(abs(c - 1.0) > _OFF for c in changes)

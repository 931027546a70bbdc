"""One planner on one stream of questions: running spend, violated intervals, planning time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.charge import NANO
from qserver.inference.lattice.chain import default_chain, single_values
from qserver.inference.lattice.pattern import Lattice
from qserver.planning.blocks_ledger import BlocksLedger
from qserver.planning.bought import Bought, row_half_width
from qserver.planning.neighbours import Neighbours, Relation
from qserver.planning.rent_or_buy import RentOrBuy
from qserver.planning.star import fit_star
from qserver.planning.wanted import Want, Wanted

from .machine import Times
from .streams import Asked
from .synthetic_noise import SyntheticNoise

UNLIMITED_NANO = 10**15
_ALL_CHECKED = 2_000
_EVERY = 10


@dataclass(frozen=True)
class Played:
    """What became of a stream.

    Args:
        spent: epsilon after each question.
        answered: questions answered; the others were refused.
        checked: new or tighter answers that were compared with the truth: the first 2,000 and
            every tenth later.
        violated: of those, intervals that missed it.
        times: of planning one question, those answered before left out.
    """

    spent: Sequence[float]
    answered: int
    checked: int
    violated: int
    times: Times

    def at(self, n: int) -> float | None:
        """Spent after `n` questions; None if there were fewer."""
        return self.spent[n - 1] if n <= len(self.spent) else None


def planner_for(
    sizes: Sequence[int],
    *,
    relation: Relation,
    phi: float,
    limit_nano: int = UNLIMITED_NANO,
    null_cell: bool = False,
) -> RentOrBuy:
    """A planner over single values of every attribute."""
    lattice = Lattice({a: default_chain(single_values(a, s)) for a, s in enumerate(sizes)})
    ledger = BlocksLedger(tuple(sizes), Neighbours(relation, 1, null_cell))
    return RentOrBuy(Bought(lattice, ledger), limit_nano, phi=phi)


def play(planner: RentOrBuy, stream: Iterable[Asked], *, seed: int) -> Played:
    """Ask everything in order; every new answer is compared with synthetic noise."""
    noise = SyntheticNoise(np.random.default_rng(seed), planner.bought)
    spent: list[float] = []
    seconds = [0.0]
    met: dict[str, tuple[float, float]] = {}
    answered = n_plans = checked = violated = 0
    for asked in stream:
        requirement, key = asked.requirement, asked.query.key
        row_length = requirement.length / float(asked.query.sensitivity)
        length, confidence = met.get(key, (0.0, 1.0))
        if length and row_length >= length and requirement.confidence <= confidence:
            answered += 1
            spent.append(spent[-1])
            continue
        start = time.thread_time()
        plan = planner.ask(asked.query, requirement)
        seconds.append(time.thread_time() - start)
        n_plans += 1
        if plan.purchase is not None:
            noise.follow(plan.purchase)
            planner.bought.record(plan.purchase)
        if plan.kind != "refused":
            answered += 1
            met[key] = (row_length, requirement.confidence)
            if n_plans <= _ALL_CHECKED or n_plans % _EVERY == 0:
                error = noise.error(asked.query, requirement.confidence)
                checked += 1
                violated += abs(error) > row_length / 2
        spent.append(planner.bought.ledger.spent_nano / NANO)
    return Played(spent, answered, checked, violated, Times.of_seconds(seconds))


def hindsight_price(sizes: Sequence[int], stream: Iterable[Asked], *, relation: Relation) -> float:
    """The least price found of blocks that would have answered the whole stream, in epsilon."""
    bought = planner_for(sizes, relation=relation, phi=1.0).bought
    wanted = Wanted()
    for asked in stream:
        pattern = bought.pattern(asked.query)
        if pattern is None:
            raise ValueError("`stream` must be resolved by single values.")
        half_width = row_half_width(asked.query, asked.requirement)
        wanted.add(Want.of(pattern, half_width=half_width, requirement=asked.requirement))
    return fit_star(bought, wanted.wants).price

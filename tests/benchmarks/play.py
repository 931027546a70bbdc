"""One planner on one stream of questions: running spend, violated intervals, planning time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.records.charge import NANO, Relation
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

from .machine import Times
from .streams import Asked
from .synthetic_noise import LIMIT_NANO, Snapshot

_ALL_CHECKED = 2_000
_EVERY = 10


@dataclass(frozen=True)
class Played:
    """What became of a stream.

    Args:
        spent: epsilon, or rho, after each question.
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


def snapshot_for(
    sizes: Sequence[int],
    *,
    relation: Relation,
    phi: float,
    seed: int = 0,
    is_total: bool = True,
    limit_nano: int = LIMIT_NANO,
    period_axis: int | None = None,
    expected: int = 0,
    law: NoiseLaw = LAPLACE,
) -> Snapshot:
    """An empty snapshot under the rule."""
    return Snapshot(
        tuple(sizes),
        relation,
        rule=RentOrBuy(phi, expected=expected),
        is_total=is_total,
        generator=np.random.default_rng(seed),
        limit_nano=limit_nano,
        period_axis=period_axis,
        law=law,
    )


def play(snapshot: Snapshot, stream: Iterable[Asked]) -> Played:
    """Ask everything in order; every new answer is compared with the truth, which is zero."""
    spent: list[float] = []
    seconds = [0.0]
    met: dict[str, tuple[float, float]] = {}
    answered = n_plans = checked = violated = 0
    for asked in stream:
        query, requirement = asked.query, asked.requirement
        row_length = requirement.length / float(query.sensitivity)
        length, confidence = met.get(query.key, (0.0, 1.0))
        if length and row_length >= length and requirement.confidence <= confidence:
            answered += 1
            spent.append(spent[-1])
            continue
        start = time.thread_time()
        plan = snapshot.plan(query, requirement)
        seconds.append(time.thread_time() - start)
        n_plans += 1
        if plan.spent_after_nano <= snapshot.limit_nano:
            snapshot.carry_out(plan, query)
            answered += 1
            met[query.key] = (row_length, requirement.confidence)
            if n_plans <= _ALL_CHECKED or n_plans % _EVERY == 0:
                error = snapshot.error(query, plan, requirement)
                checked += 1
                violated += abs(error) > row_length / 2
        spent.append(snapshot.ledger.spent_nano / NANO)
    return Played(spent, answered, checked, violated, Times.of_seconds(seconds))

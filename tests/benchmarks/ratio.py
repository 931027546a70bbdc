"""Spend over the lesser of own rows and the hindsight best, on streams of many seeds.

`worst` is the greatest ratio with any seed, after any of 63 numbers of questions (each from 1 to
60, then 75, 100 and 150); `worst_mean` is the mean over the seeds of each one's worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from statistics import mean, median

from qserver.query.requirement import DEFAULT_PHI

from .best_blocks import hindsight_price
from .blocks_spend import STREAMS, Stream, alone_at
from .play import play, snapshot_for
from .tables import Report, Value

SEEDS = tuple(range(2065, 2069))
AIM_ON_RANGES = 1.85
AIM_ON_COVID = 2.1
_N_RANGES = 6
_STREAMS = STREAMS[:10]
_N = 150
_NUMBERS = (*range(1, 61), 75, 100, 150)


@dataclass(frozen=True)
class Course:
    """The ratio over one stream with one seed.

    Args:
        worst: the greatest after any of the numbers of questions, at `worst_at`.
        end: units spent after the last.
        hindsight: units that the best base found for all of them costs.
    """

    worst: float
    worst_at: int
    end: float
    hindsight: float


def run(*, quick: bool) -> Report:
    """The worst ratio per stream, over all seeds and after every number of questions."""
    seeds, streams = (SEEDS[:2], _STREAMS[:1]) if quick else (SEEDS, _STREAMS)
    rows = [_row(s, [course(s, seed, 20 if quick else _N) for seed in seeds]) for s in streams]
    return Report(
        name="ratio",
        title=f"Spend over the lesser of own rows and best base in hindsight, {len(seeds)} seeds",
        parameters={"seeds": list(seeds), "phi": DEFAULT_PHI, "numbers": list(_NUMBERS)},
        rows=tuple(rows),
    )


def course(stream: Stream, seed: int, n: int) -> Course:
    """Play a stream's first `n` questions and look at the ratio after each of the numbers."""
    asked = list(islice(stream.questions(seed, n), n))
    empty = snapshot_for(stream.sizes, relation=stream.relation, phi=DEFAULT_PHI, seed=seed)
    spent = play(empty, asked).spent
    numbers = [m for m in _NUMBERS if m <= len(asked)]
    alone = alone_at(stream, asked, numbers)
    prices = [hindsight_price(stream.sizes, asked[:m], relation=stream.relation) for m in numbers]
    best = _falling(prices)
    ratios = [spent[m - 1] / min(b, alone[m]) for m, b in zip(numbers, best, strict=True)]
    worst = max(range(len(ratios)), key=ratios.__getitem__)
    return Course(ratios[worst], numbers[worst], spent[-1] / stream.unit, best[-1] / stream.unit)


def _falling(prices: Sequence[float]) -> list[float]:
    """Each price, or a later one that is less: that base answers the earlier questions too."""
    return list(accumulate(reversed(prices), min))[::-1]


def _row(stream: Stream, courses: Sequence[Course]) -> dict[str, Value]:
    aim = AIM_ON_RANGES if stream in STREAMS[:_N_RANGES] else AIM_ON_COVID
    worst = max(courses, key=lambda c: c.worst)
    return {
        "stream": stream.name,
        "relation": stream.relation,
        "seeds": len(courses),
        "worst_mean": mean(c.worst for c in courses),
        "worst": worst.worst,
        "worst_at": worst.worst_at,
        "aim": aim,
        "seeds_above_aim": sum(c.worst > aim for c in courses),
        "end": median(c.end for c in courses),
        "hindsight": median(c.hindsight for c in courses),
    }

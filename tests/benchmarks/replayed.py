"""The week after a rotation: the demand of the week before, with it and without.

The first week is asked of an empty snapshot. The second begins with its paid questions (`known`) or
without them (`anew`). `same` asks the first week's questions in fresh order; `half` asks half of
them and as many new ones of the same kind; `none` asks new ones only. Ratios are over the lesser of
best blocks in hindsight and own rows, for the second week.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median

from qserver.planning.blocks.earlier_questions import EarlierDemand
from qserver.query.requirement import DEFAULT_PHI
from qserver.records.charge import Relation
from qserver.records.paid_question import PaidQuestion

from .best_blocks import Hindsight
from .blocks_spend import STREAMS, Stream
from .play import play, snapshot_for
from .streams import Asked
from .tables import Report, Value

SEEDS = (6151,)
_N, _QUICK = 100, 25
_OTHER_WEEK = 1_000
WEEKS = ("same", "half", "none")


@dataclass(frozen=True)
class Weekly:
    """A named stream of questions that is asked in two weeks."""

    name: str
    sizes: tuple[int, ...]
    relation: Relation
    questions: Callable[[int, int], Sequence[Asked]]


@dataclass(frozen=True)
class Second:
    """The spend on a second week, in epsilon.

    Args:
        least: of best blocks in hindsight and own rows.
    """

    anew: float
    known: float
    least: float


def run(*, quick: bool) -> Report:
    """The second week's spend, per stream and kind of week."""
    seeds, streams = (SEEDS[:1], STREAMS_BY_WEEK[:1]) if quick else (SEEDS, STREAMS_BY_WEEK)
    n = _QUICK if quick else _N
    rows = []
    for stream in streams:
        played = [_played(stream, seed, n) for seed in seeds]
        rows += [_row(stream, week, [weeks[week] for weeks in played]) for week in WEEKS]
    return Report(
        name="replayed",
        title=f"Spend on a second week of {n} questions, {len(seeds)} seed",
        parameters={"seeds": list(seeds), "phi": DEFAULT_PHI, "questions": n},
        rows=tuple(rows),
    )


def _played(stream: Weekly, seed: int, n: int) -> dict[str, Second]:
    first, other = stream.questions(seed, n), stream.questions(seed + _OTHER_WEEK, n)
    paid = _spent(stream, first, seed, ())[1]
    found = {}
    for week in WEEKS:
        asked = second_week(week, first, other, seed)
        hindsight = Hindsight.of(stream.sizes, asked, relation=stream.relation)
        found[week] = Second(
            anew=_spent(stream, asked, seed, ())[0],
            known=_spent(stream, asked, seed, paid)[0],
            least=min(hindsight.blocks(), hindsight.rows()),
        )
    return found


def second_week(
    week: str, first: Sequence[Asked], other: Sequence[Asked], seed: int
) -> list[Asked]:
    """The questions of the second week, in fresh order."""
    generator, n = random.Random(seed), len(first)
    kept = {"same": n, "half": n // 2, "none": 0}[week]
    found = [*generator.sample(list(first), kept), *generator.sample(list(other), n - kept)]
    generator.shuffle(found)
    return found


def _spent(
    stream: Weekly, asked: Sequence[Asked], seed: int, earlier: Sequence[PaidQuestion]
) -> tuple[float, list[PaidQuestion]]:
    """What a week costs, and its paid questions."""
    snapshot = snapshot_for(stream.sizes, relation=stream.relation, phi=DEFAULT_PHI, seed=seed)
    snapshot.earlier = EarlierDemand((tuple(earlier),)) if earlier else None
    return play(snapshot, asked).spent[-1], snapshot.paid


def _row(stream: Weekly, week: str, found: Sequence[Second]) -> dict[str, Value]:
    return {
        "stream": stream.name,
        "relation": stream.relation,
        "week": week,
        "anew": median(s.anew / s.least for s in found),
        "known": median(s.known / s.least for s in found),
        "known_most": max(s.known / s.least for s in found),
        "known_over_anew": median(s.known / s.anew for s in found),
    }


def _first(stream: Stream, seed: int, n: int) -> Sequence[Asked]:
    return list(islice(stream.questions(seed, n), n))


def _weekly() -> list[Weekly]:
    few = [STREAMS[i] for i in (0, 2, 4, 6, 9)]
    return [Weekly(s.name, s.sizes, s.relation, partial(_first, s)) for s in few]


STREAMS_BY_WEEK = tuple(_weekly())

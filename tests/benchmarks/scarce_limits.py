"""Questions answered of 60 under a limit that is of the order of what the best blocks cost.

Ranges and boxes of one length, which return to the same attributes: with a limit high enough blocks
win. `rows alone` is the server without tables. `least` is the least, over the seeds, of what the
server answers over what rows answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.measure import DEFAULT_PHI
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import NANO

from .play import play
from .streams import Asked
from .synthetic_noise import Snapshot
from .tables import Report, Value

SEEDS = (6301, 6302, 6303)
LIMITS = (0.3, 0.45, 0.6, 0.9)
N = 60
_REQUIREMENT = Requirement(100.0, 0.95)


@dataclass(frozen=True)
class Stream:
    """Boxes over some attributes, each drawn anew."""

    name: str
    sizes: tuple[int, ...]

    def questions(self, seed: int) -> list[Asked]:
        """The stream of this seed."""
        generator = random.Random(f"{self.name} {seed}")
        return [Asked(primitive(self._box(generator)), _REQUIREMENT) for _ in range(N)]

    def _box(self, generator: random.Random) -> LinearQuery:
        axes = {
            axis: interval(size, *sorted(generator.sample(range(size + 1), 2)))
            for axis, size in enumerate(self.sizes)
        }
        return linear_query(self.sizes, [(1, axes)])


STREAMS = (
    Stream("boxes on 8 x 8", (8, 8)),
    Stream("boxes on 16 x 16", (16, 16)),
    Stream("ranges on 32 values", (32,)),
)


def run(*, quick: bool) -> Report:
    """Every stream under every limit, by rows and by the server."""
    seeds, streams = (SEEDS[:1], STREAMS[:1]) if quick else (SEEDS, STREAMS)
    return Report(
        name="scarce_limits",
        title=f"Questions answered of {N} under a limit, median of {len(seeds)} seeds",
        parameters={"seeds": list(seeds), "phi": DEFAULT_PHI},
        rows=tuple(_row(s, limit, seeds) for s in streams for limit in LIMITS),
    )


def _row(stream: Stream, limit: float, seeds: Sequence[int]) -> dict[str, Value]:
    asked = [stream.questions(seed) for seed in seeds]
    by_rows = [answered(stream.sizes, a, rule=None, limit=limit) for a in asked]
    server = [answered(stream.sizes, a, rule=RentOrBuy(), limit=limit) for a in asked]
    return {
        "stream": stream.name,
        "limit": limit,
        "rows": median(by_rows),
        "server": median(server),
        "least": min(s / r for s, r in zip(server, by_rows, strict=True)),
    }


def answered(
    sizes: tuple[int, ...], asked: Sequence[Asked], *, rule: RentOrBuy | None, limit: float
) -> int:
    """How many of these questions a limit in epsilon answers, refusals skipped."""
    snapshot = Snapshot(
        sizes, rule=rule, generator=np.random.default_rng(1), limit_nano=round(limit * NANO)
    )
    return play(snapshot, asked).answered

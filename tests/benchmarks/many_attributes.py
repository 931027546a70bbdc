"""Many attributes: the planner beside rows alone, an exact cache, and the paper's rule.

The paper's rule answers by linear combination of what was released, and else measures in full.
`worst` is the greatest spend over the lesser of cache and paper, after any number of questions from
20 on; `over_rows` the same over our own planner by rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.noise_step import lattice_step
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.fresh_row import fresh_alpha_nano
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.records.charge import NANO, Charge
from qserver.records.history import Estimator, Measurement

from .many_streams import MANY_STREAMS, ManyStream
from .play import Played, play
from .streams import Asked
from .synthetic_noise import LIMIT_NANO, Snapshot, question_of
from .tables import Report, Value

SEED = 81001
_N, _N_RETURNING, _FIRST = 200, 600, 20


def run(*, quick: bool) -> Report:
    """Every stream under the rule and its peers."""
    streams = MANY_STREAMS[2:3] if quick else MANY_STREAMS
    return Report(
        name="many_attributes",
        title="Epsilon spent on many attributes, one seed",
        parameters={"seed": SEED, "phi": DEFAULT_PHI, "from": _FIRST},
        rows=tuple(_row(s, n=30 if quick else _N_RETURNING if s.repeats else _N) for s in streams),
    )


def _row(stream: ManyStream, *, n: int) -> dict[str, Value]:
    asked = stream.questions(SEED, n)
    cache = Cache(stream.sizes, combines=False).spent(asked)
    paper = Cache(stream.sizes, combines=True).spent(asked)
    rows = played_by(stream, asked, rule=None).spent
    found = played_by(stream, asked, rule=RentOrBuy())
    lesser = [min(peers) for peers in zip(cache, paper, strict=True)]
    return {
        "stream": stream.name,
        "questions": n,
        "cache": cache[-1],
        "paper": paper[-1],
        "rows": rows[-1],
        "spent": found.spent[-1],
        "worst": max(s / p for s, p in zip(found.spent[_FIRST:], lesser[_FIRST:], strict=True)),
        "over_rows": max(s / p for s, p in zip(found.spent[_FIRST:], rows[_FIRST:], strict=True)),
        "checked": found.checked,
        "violated": found.violated,
        "p50_ms": found.times.median_ms,
        "p99_ms": found.times.quantile_ms(0.99),
    }


@dataclass
class Cache:
    """Own rows in full on the cell ledger; the same row again costs nothing.

    Args:
        combines: whether linear combinations of whatever was released answer, too.
    """

    sizes: tuple[int, ...]
    combines: bool
    ledger: CellLedger = field(init=False)
    engine: InferenceEngine = field(init=False)
    kept: dict[str, list[Requirement]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger = CellLedger(self.sizes)
        self.engine = InferenceEngine(self.sizes)

    def spent(self, stream: Iterable[Asked]) -> list[float]:
        """Epsilon spent after each question."""
        found = []
        for asked in stream:
            if not self._is_known(asked):
                self._measure(asked)
            found.append(self.ledger.spent_nano / NANO)
        return found

    def _is_known(self, asked: Asked) -> bool:
        query, requirement = asked.query, asked.requirement
        if any(requirement.is_looser_than(r) for r in self.kept.get(query.key, [])):
            return True
        if not self.combines:
            return False
        enough = question_of(query, requirement).row_half_width
        known = self.engine.estimate(query, confidence=requirement.confidence, enough=enough)
        is_met = known is not None and known.half_width <= enough
        if known is not None and is_met and known.method not in ("direct", "stored"):
            self.engine.extend([Estimator(query.key, known.weights)])
        return is_met

    def _measure(self, asked: Asked) -> None:
        query, requirement = asked.query, asked.requirement
        step = lattice_step(query.unit, limit_nano=LIMIT_NANO, records_per_person=1)
        alpha = fresh_alpha_nano(requirement, multiplier=query.multiplier, step=step)
        self.ledger.append(Charge(query.row, alpha, "benchmark"))
        self.kept.setdefault(query.key, []).append(requirement)
        if self.combines:
            number = self.engine.n_measurements
            # No figure depends on what was answered.
            row = Measurement(number, query.row, query.key, alpha, step, 0)
            self.engine.extend([row])


def played_by(
    stream: ManyStream,
    asked: Sequence[Asked],
    *,
    rule: RentOrBuy | None,
    limit_nano: int = LIMIT_NANO,
) -> Played:
    """What became of the questions under a rule, or by rows alone."""
    snapshot = Snapshot(
        stream.sizes, rule=rule, generator=np.random.default_rng(1), limit_nano=limit_nano
    )
    return play(snapshot, asked)

"""Smooth numbers of groups of any size, asked in steps without a server, by the worker's noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np

from qserver.answering.smooth import KnownParts, SmoothKnown, SmoothOf, known_parts
from qserver.inference.engine import InferenceEngine
from qserver.inference.smooth.number import Number
from qserver.inference.smooth.search import next_widths, rough_widths
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.smooth import smooth_asked
from qserver.records.charge import Relation
from qserver.records.history import Measurement
from worker.noise.mechanism import release, release_refined
from worker.noise.randomness import SystemEntropy

STEP = Fraction(1, 1 << 12)
_MOST_STEPS = 16
_RECORDS = 64_000.0
AGES, HOURS = (17, 90), (1, 60)
DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(17, 92))), outside="clamp"),
        Attribute("hours", "integer", edges=tuple(map(Fraction, range(1, 62))), outside="clamp"),
        Attribute("kind", "labels", ("this", "rest"), outside="other", missing="other"),
    )
)
Record = tuple[int, int]
"""An age and a number of hours."""


@dataclass(frozen=True)
class Asked:
    """A smooth number of the records of one kind.

    Args:
        truth: of records; None where they have none.
    """

    item: str
    within: str
    truth: Callable[[np.ndarray[tuple[int, int], np.dtype[np.float64]]], float | None]

    @property
    def of(self) -> SmoothOf:
        """The number."""
        return _of(self.item, self.within)[0]

    @property
    def number(self) -> Number:
        """The number, as exactly as it is asked."""
        return _of(self.item, self.within)[1]


@cache
def _of(item: str, within: str) -> tuple[SmoothOf, Number]:
    text = f"SELECT {item} FROM t WHERE kind = 'this' WITHIN {within}"
    [one] = smooth_asked(parse_statement(text, DOMAIN, dataset="t")).values()
    found = SmoothOf(one.cell.queries, one.cell.function, one.smooth, one.confidence)
    return found, found.number(one.half_width, 1000.0)


def index_drawn(
    truth: Fraction,
    old: Measurement | None,
    *,
    step: Fraction,
    alpha_nano: int,
    entropy: SystemEntropy,
) -> int:
    """What the worker releases of a sum, for the first time or refining what it released."""
    if old is None:
        return release([truth], step=step, alpha_nano=alpha_nano, entropy=entropy)[0]
    (index,) = release_refined(
        [truth],
        released=[old.index],
        step=step,
        old_alphas_nano=[old.alpha_nano],
        new_alpha_nano=alpha_nano,
        entropy=entropy,
    )
    return index


@dataclass
class Group:
    """A group of which a number is asked, in steps as a server takes them.

    Args:
        records: of the group.
        others: how many other records there are.
        relation: under replace-one the number of all records is public.
        rng: of the noise.
        sums: true sums by row, which groups of the same records share.
    """

    asked: Asked
    records: Sequence[Record]
    others: int
    relation: Relation
    rng: random.Random
    sums: dict[str, Fraction] = field(default_factory=dict)
    n_steps: int = field(default=0, init=False)
    _engine: InferenceEngine = field(init=False)
    _rows: dict[str, Measurement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._engine = InferenceEngine(DOMAIN.sizes)
        self._entropy = SystemEntropy(self.rng.randbytes)
        if self.relation == "replace-one":
            row, n = primitive(total_query(DOMAIN.sizes)), len(self.records) + self.others
            self._take("", Measurement(0, row.row, row.key, 0, Fraction(1), n))

    @property
    def truth(self) -> float | None:
        """The number; None where it has no value."""
        return self.asked.truth(np.array(self.records, dtype=float).reshape(-1, 2).T)

    @property
    def loss(self) -> float:
        """The greatest loss of a record of the group, in epsilon."""
        spent = {key: row.alpha_nano / 1e9 for key, row in self._rows.items() if key}
        number, rows = self.asked.number, self.asked.of.rows
        rates = [spent.get(row.key, 0.0) / float(row.sensitivity) for row in rows]
        return number.price(np.array(rates))

    def answered(self) -> SmoothKnown:
        """What is known of the number after all steps."""
        one, number = self.asked.of, self.asked.number
        while True:
            parts = known_parts(self._engine, [one], seed="data")
            known = self._known(parts)
            is_open = known.state(number) == "open"
            if known.is_known and not (is_open and self.n_steps < _MOST_STEPS):
                return known
            law = parts.law(one)
            widths = rough_widths(number, _RECORDS) if law is None else next_widths(number, law)
            self.n_steps += 1
            for row, width in zip(one.rows, widths.tolist(), strict=True):
                if not row.is_zero:
                    self._measure(row, width)

    def _known(self, parts: KnownParts) -> SmoothKnown:
        one, law = self.asked.of, parts.law(self.asked.of)
        if law is None:
            return SmoothKnown.unknown(len(one.rows), -math.inf)
        return SmoothKnown.of(self.asked.number, law, missed=1.0 - one.confidence)

    def _measure(self, row: Primitive, width: float) -> None:
        """Measure a row so exactly, where it is not known so."""
        alpha = math.ceil(1e9 * math.log(20.0) * float(row.sensitivity) / (width * 0.999))
        old = self._rows.get(row.key)
        if old is not None and old.alpha_nano >= alpha * 0.999:
            return
        step = STEP / row.row.denominator
        if row.key not in self.sums:
            cells = [(age - AGES[0], hours - HOURS[0], 0) for age, hours in self.records]
            self.sums[row.key] = sum(map(row.row.value_at, cells), Fraction(0))
        truth = self.sums[row.key]
        drawn = index_drawn(truth, old, step=step, alpha_nano=alpha, entropy=self._entropy)
        number = len(self._rows) if old is None else old.id
        self._take(row.key, Measurement(number, row.row, row.key, alpha, step, drawn))

    def _take(self, key: str, measured: Measurement) -> None:
        self._rows[key] = measured
        self._engine.extend([measured])

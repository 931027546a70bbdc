"""Smooth numbers of groups of any size, asked in steps without a server, by the worker's noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial

import numpy as np

from qserver.answering.smooth_numbers import KnownParts, SmoothKnown, SmoothOf, known_parts
from qserver.inference.engine import InferenceEngine
from qserver.inference.smooth.number import Number
from qserver.inference.smooth.search import next_widths, rough_widths
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.smooth_functions import smooth_asked
from qserver.records.charge import Relation
from qserver.records.history import GaussianMeasurement, Measurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from worker.noise.mechanism import release, release_gaussian, release_refined
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

    def under(self, law: NoiseLaw) -> tuple[SmoothOf, Number]:
        """The number, and how exactly it is asked under a law of noise."""
        return _of(self.item, self.within, law)


@cache
def _of(item: str, within: str, law: NoiseLaw) -> tuple[SmoothOf, Number]:
    text = f"SELECT {item} FROM t WHERE kind = 'this' WITHIN {within}"
    [one] = smooth_asked(parse_statement(text, DOMAIN, dataset="t")).values()
    found = SmoothOf(one.cell.queries, one.cell.function, one.smooth, one.confidence, law)
    return found, found.number(one.half_width, 1000.0)


@dataclass
class Released:
    """What the worker's noise made of rows, measured ever more exactly.

    Args:
        engine: knows what was released.
        law: of the noise.
        rng: of the noise.
        charges_nano: of each row, by its key.
    """

    engine: InferenceEngine
    law: NoiseLaw
    rng: random.Random
    charges_nano: dict[str, int] = field(default_factory=dict)
    _last: dict[str, Measurement] = field(default_factory=dict)
    _n: int = 0

    def __post_init__(self) -> None:
        self._entropy = SystemEntropy(self.rng.randbytes)

    def know(self, row: Primitive, value: int) -> None:
        """Take in that a row is public."""
        self._take("", Measurement(self._n, row.row, row.key, 0, Fraction(1), value))

    def measure(self, row: Primitive, truth: Callable[[], Fraction], *, rate: float) -> int:
        """Measure a row at a rate, where it was not; what was charged for that, in 1e-9."""
        charge, paid = math.ceil(1e9 * self.law.charge_of_sharpness(rate)), 0
        paid = self.charges_nano.get(row.key, 0)
        if paid >= charge * 0.999:
            return 0
        step = STEP / row.row.denominator
        if self.law.is_additive:
            drawn = release_gaussian(
                [truth()], step=step, rho_nano=charge - paid, entropy=self._entropy
            )
            more = GaussianMeasurement(self._n, row.row, row.key, charge - paid, step, drawn[0])
            self._take(row.key, more)
        else:
            index = self._refined(truth(), self._last.get(row.key), step, charge)
            number = self._last[row.key].id if paid else self._n
            self._take(row.key, Measurement(number, row.row, row.key, charge, step, index))
        self.charges_nano[row.key] = charge
        return charge - paid

    def _refined(self, truth: Fraction, old: Measurement | None, step: Fraction, alpha: int) -> int:
        if old is None:
            return release([truth], step=step, alpha_nano=alpha, entropy=self._entropy)[0]
        (index,) = release_refined(
            [truth],
            released=[old.index],
            step=step,
            old_alphas_nano=[old.alpha_nano],
            new_alpha_nano=alpha,
            entropy=self._entropy,
        )
        return index

    def _take(self, key: str, measured: Measurement) -> None:
        self._n += measured.id == self._n
        self._last[key] = measured
        self.engine.extend([measured])


@dataclass
class Group:
    """A group of which a number is asked, in steps as a server takes them.

    Args:
        records: of the group.
        others: how many other records there are.
        relation: under replace-one the number of all records is public.
        rng: of the noise.
        sums: true sums by row, which groups of the same records share.
        law: of the noise.
    """

    asked: Asked
    records: Sequence[Record]
    others: int
    relation: Relation
    rng: random.Random
    sums: dict[str, Fraction] = field(default_factory=dict)
    law: NoiseLaw = LAPLACE
    n_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._engine = InferenceEngine(DOMAIN.sizes, law=self.law)
        self._released = Released(self._engine, self.law, self.rng)
        self._of, self._number = self.asked.under(self.law)
        if self.relation == "replace-one":
            self._released.know(
                primitive(total_query(DOMAIN.sizes)), len(self.records) + self.others
            )

    @property
    def truth(self) -> float | None:
        """The number; None where it has no value."""
        return self.asked.truth(np.array(self.records, dtype=float).reshape(-1, 2).T)

    @property
    def loss(self) -> float:
        """The greatest loss of a record of the group, in epsilon or rho."""
        spent = self._released.charges_nano
        rows, power = self._of.rows, self.law.power
        charges = [spent.get(row.key, 0) / 1e9 / float(row.sensitivity) ** power for row in rows]
        return self._number.loss(np.array(charges))

    def answered(self) -> SmoothKnown:
        """What is known of the number after all steps."""
        one, number = self._of, self._number
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
                    rate = number.unit * float(row.sensitivity) / (width * 0.999)
                    self._released.measure(row, partial(self._sum, row), rate=rate)

    def _known(self, parts: KnownParts) -> SmoothKnown:
        law = parts.law(self._of)
        if law is None:
            return SmoothKnown.unknown(len(self._of.rows), -math.inf)
        return SmoothKnown.of(self._number, law, missed=1.0 - self._of.confidence)

    def _sum(self, row: Primitive) -> Fraction:
        if row.key not in self.sums:
            cells = [(age - AGES[0], hours - HOURS[0], 0) for age, hours in self.records]
            self.sums[row.key] = sum(map(row.row.value_at, cells), Fraction(0))
        return self.sums[row.key]

"""Quantiles of groups of any size, asked in steps without a server, by the worker's noise."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from qserver.answering.order import UNKNOWN, QuantileAsked, QuantileKnown, known_counts, known_laws
from qserver.inference.engine import InferenceEngine
from qserver.inference.order.quantile import Quantile
from qserver.inference.order.search import next_table, raised
from qserver.query.linear import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.sql.combined.thresholds import QuantileOf
from qserver.query.weights import interval
from qserver.records.charge import Relation
from qserver.records.history import Measurement
from tests.answering.smooth_runs import index_drawn
from worker.noise.randomness import SystemEntropy

STEP = Fraction(1, 1 << 12)
MOST_STEPS = 16
_RECORDS = 64_000.0
LEAST_AGE, N_AGES = 17, 74
SIZES = (N_AGES, 2)
_AGES = tuple(Fraction(LEAST_AGE + i) for i in range(N_AGES))


@dataclass(frozen=True)
class Asked:
    """A quantile of the ages of the records of one kind.

    Args:
        p: in (0, 1).
        half_width: that its interval shall have.
    """

    p: Fraction
    half_width: float
    confidence: float = 0.95

    @property
    def of(self) -> QuantileAsked:
        """The quantile."""
        base = linear_query(SIZES, [(1, {1: interval(2, 0, 1)})])
        function = QuantileOf(self.p, 0, N_AGES, _AGES, _AGES)
        return QuantileAsked(base, function, self.confidence)

    @property
    def number(self) -> Quantile:
        """The quantile, as exactly as it is asked."""
        return self.of.number(self.half_width, 1000.0)


@dataclass
class Group:
    """A group of which a quantile is asked, in steps as a server takes them.

    Args:
        ages: of its records, sorted.
        others: how many other records there are.
        relation: under replace-one the number of all records is public.
        rng: of the noise.
    """

    asked: Asked
    ages: Sequence[int]
    others: int
    relation: Relation
    rng: random.Random
    n_steps: int = field(default=0, init=False)
    _engine: InferenceEngine = field(init=False)
    _rows: dict[str, Measurement] = field(default_factory=dict)
    loss: list[float] = field(default_factory=lambda: [0.0] * N_AGES)

    def __post_init__(self) -> None:
        self._engine = InferenceEngine(SIZES)
        self._entropy = SystemEntropy(self.rng.randbytes)
        self._one, self.number = self.asked.of, self.asked.number
        if self.relation == "replace-one":
            row, n = primitive(total_query(SIZES)), len(self.ages) + self.others
            self._take("", Measurement(0, row.row, row.key, 0, Fraction(1), n))

    def answered(self) -> QuantileKnown:
        """What is known of the quantile after all steps."""
        while True:
            known = self._known()
            if known.state(self.number) != "open" or self.n_steps == MOST_STEPS:
                return known
            table = next_table(self.number, known.thresholds, _RECORDS)
            self.n_steps += 1
            counts = known_counts(self._engine, self._one, table.stops)
            table = raised(self.number, table, counts)
            for start, stop in zip(table.stops, table.stops[1:], strict=False):
                self._measure(start, stop, table.rate)

    def measure_all(self, *, rate: float) -> None:
        """Count each age by itself at this rate."""
        for start in range(N_AGES):
            self._measure(start, start + 1, rate)

    def holds(self, known: QuantileKnown) -> bool:
        """Whether the interval holds the least quantile by each usual definition, and the most."""
        if known.thresholds is None or not self.ages:
            return True
        n, p, found = len(self.ages), self.asked.p, known.thresholds.bracket
        at = [min(max(place, 0), n - 1) for place in (math.ceil(n * p) - 1, math.floor(n * p))]
        low, high = LEAST_AGE + found.start, LEAST_AGE + found.stop - 1
        return low <= self.ages[at[0]] and self.ages[at[1]] <= high

    def _known(self) -> QuantileKnown:
        laws = known_laws(self._engine, self._one)
        return UNKNOWN if laws is None else laws.known(1.0 - self._one.confidence)

    def _measure(self, start: int, stop: int, rate: float) -> None:
        """Count some ages at this rate, where they are not known so."""
        row = primitive(self._one.of.count(self._one.base, start, stop))
        alpha = math.ceil(1e9 * rate)
        old = self._rows.get(row.key)
        if old is not None and old.alpha_nano >= alpha * 0.999:
            return
        was = 0 if old is None else old.alpha_nano
        for i in range(start, stop):
            self.loss[i] += (alpha - was) / 1e9
        ends = bisect_left(self.ages, LEAST_AGE + start), bisect_left(self.ages, LEAST_AGE + stop)
        truth = Fraction(ends[1] - ends[0])
        drawn = index_drawn(truth, old, step=STEP, alpha_nano=alpha, entropy=self._entropy)
        number = len(self._rows) if old is None else old.id
        self._take(row.key, Measurement(number, row.row, row.key, alpha, STEP, drawn))

    def _take(self, key: str, measured: Measurement) -> None:
        self._rows[key] = measured
        self._engine.extend([measured])

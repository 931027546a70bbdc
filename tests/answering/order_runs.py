"""Numbers told by places in order, asked in steps without a server, by the worker's noise."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from qserver.answering.quantiles import (
    GroupsAsked,
    GroupsKnown,
    QuantileAsked,
    QuantileKnown,
    known_counts,
    known_laws,
)
from qserver.inference.engine import InferenceEngine
from qserver.inference.quantiles.quantile import Quantile
from qserver.inference.quantiles.search import next_table, raised
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.sql.functions.group_count import Passing
from qserver.query.sql.functions.thresholds import Bins, QuantileOf
from qserver.query.sql.order_by import Compare
from qserver.query.weights import interval
from qserver.records.charge import Relation
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from tests.answering.smooth_runs import Released

MOST_STEPS = 16
_RECORDS = 64_000.0
LEAST_AGE, N_AGES = 17, 74
SIZES = (N_AGES, 2)
_AGES = tuple(Fraction(LEAST_AGE + i) for i in range(N_AGES))
_OF = QuantileOf(Fraction(1, 2), Bins(0, N_AGES, _AGES, _AGES))
BASE = linear_query(SIZES, [(1, {1: interval(2, 0, 1)})])
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Asked:
    """A quantile of the ages of the records of one kind, or the least or the greatest of them.

    Args:
        p: in [0, 1].
        half_width: that its interval shall have; of an extreme it is about counts.
    """

    p: Fraction
    half_width: float
    confidence: float = _CONFIDENCE

    def under(self, law: NoiseLaw) -> tuple[QuantileAsked, Quantile]:
        """The quantile, and how exactly it is asked under a law of noise."""
        of = QuantileAsked(BASE, replace(_OF, p=self.p), self.confidence, law)
        return of, of.number(self.half_width, 1000.0)


@dataclass
class Measured:
    """Records of one kind, whose ages are counted with noise.

    Args:
        ages: of the records, sorted.
        others: how many other records there are.
        relation: under replace-one the number of all records is public.
        rng: of the noise.
        law: of the noise.
    """

    ages: Sequence[int]
    others: int
    relation: Relation
    rng: random.Random
    law: NoiseLaw = LAPLACE
    n_steps: int = field(default=0, init=False)
    engine: InferenceEngine = field(init=False)
    loss: list[float] = field(default_factory=lambda: [0.0] * N_AGES)

    def __post_init__(self) -> None:
        self.engine = InferenceEngine(SIZES, law=self.law)
        self._released = Released(self.engine, self.law, self.rng)
        if self.relation == "replace-one":
            self._released.know(primitive(total_query(SIZES)), len(self.ages) + self.others)

    def count(self, start: int, stop: int) -> int:
        """How many records are of these ages."""
        ends = bisect_left(self.ages, LEAST_AGE + start), bisect_left(self.ages, LEAST_AGE + stop)
        return ends[1] - ends[0]

    def measure(self, start: int, stop: int, rate: float) -> None:
        """Count some ages at this rate, where they are not known so."""
        row = primitive(_OF.count(BASE, start, stop))
        charged = self._released.measure(row, lambda: Fraction(self.count(start, stop)), rate=rate)
        for i in range(start, stop):
            self.loss[i] += charged / 1e9


@dataclass
class Group:
    """A group of which a quantile is asked, in steps as a server takes them."""

    asked: Asked
    records: Measured

    def __post_init__(self) -> None:
        self._one, self.number = self.asked.under(self.records.law)
        self.ages = self.records.ages

    def answered(self) -> QuantileKnown:
        """What is known of the quantile after all steps."""
        while True:
            known = self._known()
            if known.state(self.number) != "open" or self.records.n_steps == MOST_STEPS:
                return known
            table = next_table(self.number, known.thresholds, _RECORDS)
            self.records.n_steps += 1
            counts = known_counts(self.records.engine, self._one, table.stops)
            table = raised(self.number, table, counts)
            for start, stop in zip(table.stops, table.stops[1:], strict=False):
                self.records.measure(start, stop, table.rate)

    def measure_all(self, *, rate: float) -> None:
        """Count each age by itself at this rate."""
        for start in range(N_AGES):
            self.records.measure(start, start + 1, rate)

    def holds(self, known: QuantileKnown) -> bool:
        """Whether the interval holds the least quantile by each usual definition, and the most.

        And whether a value that is given for an extreme is one that some record reaches.
        """
        ends, n, p = known.ends, len(self.ages), self.asked.p
        if not n:
            return known.of.has_steps or ends.middle is None
        at = [min(max(place, 0), n - 1) for place in (math.ceil(n * p) - 1, math.floor(n * p))]
        return ends.low <= self.ages[at[0]] and self.ages[at[1]] <= ends.high

    def beyond(self, known: QuantileKnown) -> int:
        """How many records are beyond the extreme that is given; all where there is none."""
        found = known.ends.middle
        if found is None:
            return len(self.ages)
        return sum(age < found if self.asked.p == 0 else age > found for age in self.ages)

    def _known(self) -> QuantileKnown:
        laws = known_laws(self.records.engine, self._one)
        return self._one.unknown if laws is None else laws.known(1.0 - self._one.confidence)


@dataclass
class Counted:
    """The first ages, of which those are counted that enough records have, in steps.

    Args:
        at_least: so many records.
        within: half-width of the number; of records where one of them is enough.
    """

    records: Measured
    n_ages: int
    at_least: int
    within: float

    def __post_init__(self) -> None:
        test = Compare(0, ">=", Fraction(self.at_least))
        queries = tuple(_OF.count(BASE, i, i + 1) for i in range(self.n_ages))
        of = Passing(test, (0,), (True,), self.n_ages)
        self._one = GroupsAsked(queries, of, _CONFIDENCE, self.records.law)
        self.number = self._one.number(self.within, 0.0)

    def answered(self) -> GroupsKnown:
        """What is known of the number after all steps."""
        records = self.records
        while True:
            known = self._one.laws(records.engine).known(1.0 - _CONFIDENCE)
            if known.state(self.number) != "open" or records.n_steps == MOST_STEPS:
                return known
            records.n_steps += 1
            for i, half in enumerate(known.next_halves(self.number)):
                records.measure(i, i + 1, self.number.unit / (half * 0.998))

    def holds(self, known: GroupsKnown) -> bool:
        """Whether the interval holds the true number."""
        truth = sum(self.records.count(i, i + 1) >= self.at_least for i in range(self.n_ages))
        return known.ends.low <= truth <= known.ends.high

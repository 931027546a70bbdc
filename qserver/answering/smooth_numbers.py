"""Smooth numbers of a statement, from what history knows of their sums."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from qserver.inference.disagreement.known_sums import Together
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.smooth.number import Look, Number, look
from qserver.inference.smooth.part_law import PartLaw
from qserver.inference.smooth.search import State, size_at_most, state_of
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.sql.functions.function_of_sums import FunctionOfSums, Smooth
from qserver.query.sql.statistics.smooth_functions import kinds
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import EXACT, OF_ESTIMATOR, OF_POSTERIOR, Statement


@dataclass(frozen=True)
class SmoothOf:
    """A smooth function of some sums, and the confidence of its interval.

    Args:
        function: it tells the number apart from others of the same sums.
        smooth: how that is calculated.
        law: of the noise by which the sums are measured.
    """

    queries: tuple[LinearQuery, ...]
    function: FunctionOfSums
    smooth: Smooth = field(compare=False)
    confidence: float
    law: NoiseLaw = LAPLACE

    @cached_property
    def rows(self) -> tuple[Primitive, ...]:
        """The sums' normal forms."""
        return tuple(map(primitive, self.queries))

    def number(self, half_width: float, least: float) -> Number:
        """The sought number; `least`: the assumed number of records of a group."""
        smooth, kinks = self.smooth, self.smooth.kinks
        return Number(
            smooth.values,
            partial(kinds, self.queries),
            smooth.size,
            smooth.low,
            smooth.high,
            *(() if kinks is None else (kinks.pieces, kinks.ends, kinks.rivals, kinks.needs_all)),
            half_width=half_width,
            confidence=self.confidence,
            least=0.0 if smooth.is_steady else least,
            law=self.law,
        )


@dataclass(frozen=True)
class SmoothKnown:
    """What history knows of a smooth number.

    Args:
        means, half_widths: of its sums; infinite half-widths where history does not give them all.
        size_at_least, size_at_most: ends of the sum that tells the number of records; the first
            may be known where other sums are not.
        statement: what its interval is one of.
    """

    look: Look
    means: tuple[float, ...]
    half_widths: tuple[float, ...]
    size_at_least: float
    size_at_most: float
    statement: Statement

    @property
    def is_known(self) -> bool:
        """Whether history gives all of its sums."""
        return all(map(math.isfinite, self.half_widths))

    def state(self, number: Number) -> State:
        """Whether to measure the number further, at its asked exactness."""
        size, most = self.means[number.size_at(np.array(self.means))], self.size_at_most
        return state_of(number, self.look, size=size, size_at_most=most)

    @classmethod
    def unknown(cls, n: int, size_at_least: float) -> SmoothKnown:
        """The knowledge of a number where history lacks a sum."""
        ends, halves = (size_at_least, math.inf), (math.inf,) * n
        return cls(Look(None, math.inf), (0.0,) * n, halves, *ends, OF_POSTERIOR)

    @classmethod
    def of(cls, number: Number, law: PartLaw, *, missed: float) -> SmoothKnown:
        """The known number by the law of its sums, with an interval that misses with this
        probability."""
        found = look(number, law, missed=missed)
        told = Statement("posterior", law.error, law.n_disagreements)
        if not law.half_widths.any():
            told = EXACT
        elif not (law.is_joint and law.is_posterior):
            told = OF_ESTIMATOR
        means, halves = (tuple(of.tolist()) for of in (law.means, law.half_widths))
        at = number.size_at(law.means)
        ends = means[at] - halves[at], size_at_most(number, law)
        return cls(found, means, halves, *ends, told)


@dataclass(frozen=True)
class KnownRow:
    """A row with its known answer."""

    row: Primitive
    estimate: RowEstimate

    @property
    def is_exact(self) -> bool:
        """Whether its answer has no error."""
        return self.estimate.posterior.is_exact


@dataclass(frozen=True, eq=False)
class KnownParts:
    """The known sums behind numbers of one confidence.

    Args:
        known: by key; rows that are zero for all data, or not known, are left out.
        together: the joint law of the errors of those rows that have some, in their order; None
            where it is not known.
        seed: of the draws.
    """

    known: dict[str, KnownRow]
    together: Together | None
    seed: int

    @cached_property
    def _uncertain(self) -> list[str]:
        return [key for key, one in self.known.items() if not one.is_exact]

    @cached_property
    def _drawn(self) -> PartLaw:
        """The law of all uncertain rows, without the lengths of their intervals."""
        halves = np.zeros(len(self._uncertain))
        if self.together is not None:
            return PartLaw.together(self.together, halves, seed=self.seed)
        alone = [self.known[key].estimate.posterior for key in self._uncertain]
        return PartLaw.apart(alone, halves, seed=self.seed)

    def size_at_least(self, one: SmoothOf) -> float:
        """The least possible value of the sum that counts the records."""
        row = one.rows[one.smooth.size]
        known = self.known.get(row.key)
        if known is None:
            return -math.inf
        return known.estimate.posterior.scaled(row.multiplier).interval(one.confidence).low

    def law(self, one: SmoothOf) -> PartLaw | None:
        """The law of the sums of one number; None unless history gives them all."""
        if any(not row.is_zero and row.key not in self.known for row in one.rows):
            return None
        laws = [
            None if row.is_zero else self.known[row.key].estimate.posterior.scaled(row.multiplier)
            for row in one.rows
        ]
        means = np.array([0.0 if law is None else law.estimate for law in laws])
        halves = [0.0 if law is None else law.half_width(one.confidence) for law in laws]
        at = [i for i, law in enumerate(laws) if law is not None and not law.is_exact]
        places = [self._uncertain.index(one.rows[i].key) for i in at]
        units = np.array([float(one.rows[i].multiplier) for i in at])
        return self._drawn.some(places, units).placed(at, means, np.array(halves))


def known_parts(engine: InferenceEngine, ones: Iterable[SmoothOf], *, seed: str) -> KnownParts:
    """The known sums of some numbers of one confidence, by the engine's history.

    Args:
        seed: of the draws, together with the sums.
    """
    known = dict[str, KnownRow]()
    for one in ones:
        for row in one.rows:
            if row.is_zero or row.key in known:
                continue
            found = engine.estimate(row, confidence=one.confidence)
            if found is not None:
                known[row.key] = KnownRow(row, found)
    uncertain = [one for one in known.values() if not one.is_exact]
    number = hashlib.sha256("\n".join([seed, *known]).encode()).digest()
    return KnownParts(known, _together(engine, uncertain), int.from_bytes(number[:6], "big"))


def _together(engine: InferenceEngine, known: Sequence[KnownRow]) -> Together | None:
    if not known:
        return None
    return engine.together([one.row.row for one in known], [one.estimate for one in known])

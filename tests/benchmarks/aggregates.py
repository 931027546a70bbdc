"""How often the intervals of extremes and numbers of groups hold, and how long.

The true counts are those of Adult. Reading, steps, targets and intervals are the server's; the
noise is drawn from a seed, and measured in one of two ways. `alone`: each sum behind the number has
noise of its own. `table`: all of them follow from one noisy table of the attribute's values, so
that their errors depend on each other. A step refines the noise of those before by fresh noise, in
the best combination of both; the half-widths of the sums are those of the exact law. A step asks
for at most 2^(1/4) less than the server would, so that laws are computed once.

share: of intervals that hold the number by every usual definition. half_width: half the mean
length, in the units of the number. error: what 95 percent of the estimates are off at most.
shorter: the share of intervals that are as short as asked. None of these two for MIN, MAX and
COUNT(DISTINCT ...), whose `within` is about counts. steps: the mean number.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.query.domain import Domain
from qserver.query.files.load import load_domain
from qserver.query.sql.combined.asked import SeveralAsked, several_asked
from qserver.query.sql.combined.function import KnownPart
from qserver.query.sql.combined.target import SeveralTarget
from qserver.query.sql.parser import parse_statement

from .tables import Report, Value

SEED = 20_261_124
N_RUNS, N_QUICK = 10_000, 5
CONFIDENCE = 0.95
PER_OCTAVE = 4
"""Steps ask for half-widths that are powers of 2^(1/4) times those asked at most."""
MOST_STEPS = 12
_ROUNDING = 1e-9
_FIRST = 4
"""Number of the first design: that of the seeds of the kept figures."""

Floats = npt.NDArray[np.float64]
Truth = Callable[[Floats], tuple[float, float]]
"""The least and the greatest value of all definitions."""


def _one(of: Callable[[Floats], float]) -> Truth:
    return lambda values: (of(values), of(values))


def _n_often(values: Floats, least: int) -> float:
    """How many hours from 31 to 50 so many records have."""
    kept = values[(values >= 31) & (values <= 50)]
    return float((np.unique(kept, return_counts=True)[1] >= least).sum())


@dataclass(frozen=True)
class Design:
    """A statement about the first `n` records of Adult; all of them where it is None.

    Args:
        called: what its number is called; '' for the item itself.
    """

    item: str
    clauses: str
    truth: Truth
    n: int | None = None
    called: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it is about."""
        return tuple(one for one in ("age", "hours-per-week") if one in self.item)

    @property
    def text(self) -> str:
        """The statement."""
        source = "" if " FROM " in self.item else " FROM adult"
        return f"SELECT {self.item}{source} {self.clauses} CONFIDENCE {CONFIDENCE}"

    @property
    def values(self) -> Floats:
        """The values of the records that it is about; a column for each attribute of several."""
        found = [values_of(one)[: self.n] for one in self.attributes]
        return found[0] if len(found) == 1 else np.stack(found, axis=1)


_HOURS = "FROM adult WHERE hours-per-week BETWEEN 31 AND 50"
_OFTEN = f"COUNT(*) FROM (SELECT 1 {_HOURS} GROUP BY hours-per-week HAVING COUNT(*) >= 100) AS g"
DESIGNS = (
    Design("MIN(age)", "WITHIN 50", _one(np.min)),
    Design("MAX(age)", "WITHIN 50", _one(np.max)),
    Design("MIN(hours-per-week)", "WITHIN 50", _one(np.min)),
    Design("MAX(hours-per-week)", "WITHIN 5", _one(np.max), 500),
    Design(
        _OFTEN,
        "WITHIN 1",
        _one(lambda v: _n_often(v, 100)),
        called="groups of 100 records or more, of 20",
    ),
    Design(
        _OFTEN.replace("100", "4"),
        "WITHIN 2",
        _one(lambda v: _n_often(v, 4)),
        n=500,
        called="groups of 4 records or more, of 20",
    ),
    Design(
        f"COUNT(DISTINCT hours-per-week) {_HOURS}",
        "WITHIN 5",
        _one(lambda v: _n_often(v, 1)),
        n=500,
        called="groups with a record, of 20",
    ),
)


def run(*, quick: bool) -> Report:
    """Coverage with standard errors, by number and by how its sums are measured."""
    rows = []
    for number, design in enumerate(DESIGNS, _FIRST):
        for noise in ("alone", "table"):
            rng = np.random.default_rng([SEED, number, noise == "table"])
            rows.append(_row(design, noise, rng, N_QUICK if quick else N_RUNS))
    return Report(
        name="aggregates",
        title="Share of intervals of functions of several sums that hold the truth",
        parameters={"seed": SEED, "confidence": CONFIDENCE, "data": "Adult"},
        rows=tuple(rows),
    )


def _row(design: Design, noise: str, rng: np.random.Generator, n_runs: int) -> dict[str, Value]:
    played = Played.of(design, is_table=noise == "table")
    found = [played.run(rng) for _ in range(n_runs)]
    low, high = design.truth(design.values)
    held = [one.low - _ROUNDING <= low and high <= one.high + _ROUNDING for one in found]
    share, half_width = float(np.mean(held)), played.asked.half_width
    halves = np.array([one.high - one.low for one in found]) / 2
    errors = [max(abs(one.estimate - low), abs(one.estimate - high)) for one in found]
    is_of_value = played.asked.cell.function.has_steps
    return {
        "number": design.called or design.item,
        "records": len(design.values),
        "sums": noise,
        "within": half_width,
        "stated": CONFIDENCE,
        "share": f"{share:.4f}",
        "standard_error": f"{math.sqrt(max(share * (1 - share), 1 / n_runs) / n_runs):.4f}",
        "runs": n_runs,
        "half_width": round(float(halves.mean()), 3),
        "error": round(float(np.quantile(errors, CONFIDENCE)), 3) if is_of_value else None,
        "shorter": f"{np.mean(halves <= half_width + _ROUNDING):.3f}" if is_of_value else None,
        "steps": round(float(np.mean([one.n_steps for one in found])), 2),
    }


@dataclass(frozen=True)
class Outcome:
    """The number and the interval of one run, and how many steps it took."""

    estimate: float
    low: float
    high: float
    n_steps: int


@dataclass(frozen=True)
class Played:
    """The steps of one statement.

    Args:
        truths: the true sums, shape (k,).
        unit: what m independent errors of scale 1 do to each of them where the half-widths are
            those asked at most, shape (k, m).
        laws: the half-widths of the sums, by the steps so far.
    """

    asked: SeveralAsked
    target: SeveralTarget
    truths: Floats
    unit: Floats
    laws: dict[tuple[int, ...], Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design, *, is_table: bool) -> Played:
        """With sums measured alone, or all from one table of the values."""
        domain = domain_of(design.attributes)
        statement = parse_statement(design.text, domain, dataset="adult")
        [asked] = several_asked(statement).values()
        target = asked.target(float(statement.clauses.assuming or 0))
        cells = list(np.ndindex(*domain.sizes))
        weights = np.array([[float(q.value_at(c)) for c in cells] for q in asked.cell.queries])
        found = weights if is_table else np.diag(target.most)
        widths = np.array([_half_width(row, asked) for row in found])
        counted = widths > 0.0
        # The scale at which the sum that is nearest to its limit is just as exact as asked.
        unit = found * np.min(np.array(target.most)[counted] / widths[counted])
        codes = [
            np.searchsorted(np.array(one.edges, dtype=float), column, side="right") - 1
            for one, column in zip(domain.attributes, np.atleast_2d(design.values.T), strict=True)
        ]
        places = np.ravel_multi_index(tuple(codes), domain.sizes)
        counts = np.bincount(places, minlength=len(cells))
        return cls(asked, target, weights @ counts, unit)

    def run(self, rng: np.random.Generator) -> Outcome:
        """One run with fresh noise."""
        steps = list[int]()
        errors, precision = np.zeros(len(self.truths)), 0.0
        known = [KnownPart(0.0, -math.inf, math.inf)] * len(self.truths)
        while True:
            at_most = not self.asked.cell.function.has_steps or len(steps) == MOST_STEPS
            step = 0 if at_most else min([self._power(known), *(one - 1 for one in steps)])
            fresh = _precision(step) - precision
            noise = self.unit @ rng.laplace(0.0, 1.0, self.unit.shape[1]) / math.sqrt(fresh)
            errors = (errors * precision + noise * fresh) / _precision(step)
            precision = _precision(step)
            steps.append(step)
            known = self._known(errors, tuple(steps))
            if at_most or self.target.is_met(known):
                value = self.asked.cell.function.value(known)
                estimate = math.nan if value.estimate is None else value.estimate
                return Outcome(estimate, value.low, value.high, len(steps))

    def _power(self, known: Sequence[KnownPart]) -> int:
        factor = self.target.next_step(known)[0] / self.target.most[0]
        return max(math.floor(PER_OCTAVE * math.log2(factor) + _ROUNDING), 0)

    def _known(self, errors: Floats, steps: tuple[int, ...]) -> list[KnownPart]:
        if steps not in self.laws:
            self.laws[steps] = self._halves(steps)
        middles, halves = self.truths + errors, self.laws[steps]
        ends = zip(
            middles.tolist(), (middles - halves).tolist(), (middles + halves).tolist(), strict=True
        )
        return [KnownPart(*one) for one in ends]

    def _halves(self, steps: tuple[int, ...]) -> Floats:
        """Of the best combination of the steps: each weighs by what it added to the precision."""
        precisions = np.array([_precision(step) for step in steps])
        fresh = np.diff(precisions, prepend=0.0)
        weights = np.sqrt(fresh) / precisions[-1]
        return np.array([_half_width(np.outer(weights, row), self.asked) for row in self.unit])


def _precision(power: int) -> float:
    """In units of what the half-widths asked at most have."""
    return float(2.0 ** (-2.0 * power / PER_OCTAVE))


def _half_width(scales: Floats, asked: SeveralAsked) -> float:
    return LaplaceSum(np.abs(scales).ravel()).half_width(asked.part_confidence)


@cache
def domain_of(attributes: tuple[str, ...]) -> Domain:
    """The demo's domain of some attributes."""
    whole = load_domain(adult_domain())
    return Domain(tuple(a for a in whole.attributes if a.name in attributes))


@cache
def values_of(attribute: str) -> Floats:
    """The values of all records, in the order of the file."""
    with gzip.open(adult_csv(), mode="rt", encoding="utf-8", newline="") as lines:
        return np.array([float(record[attribute]) for record in csv.DictReader(lines)])

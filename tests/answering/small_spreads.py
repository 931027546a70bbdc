"""Variances, deviations and correlations of groups of any size, asked in steps without a server."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from qserver.answering.answer import offer_from
from qserver.answering.quotient import joint_parts
from qserver.answering.workload import known_numbers
from qserver.query.domain import Attribute, Domain
from qserver.query.linear import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.sql.cells import CellValue, StatementQuestions
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement
from qserver.records.answer import Offer
from qserver.records.charge import Relation
from qserver.service.cells.answered import answered_cell, workload_of
from qserver.service.quotient_steps import MOST_STEPS, QuotientSteps
from tests.answering.own_noise import Measured

if TYPE_CHECKING:
    from qserver.service.service import Service

Pair = tuple[int, int]
RANGES = ((17, 90), (0, 40))
XS, YS = (20, 25, 30, 35, 40, 60), (4, 12, 20, 28)
RADIUS = 36.5
# Of a sample, a variance may be twice the square of the radius.
FUNCTIONS = {
    "VAR_POP": ("x", 100, (0.0, RADIUS**2)),
    "VARIANCE": ("x", 100, (0.0, 2 * RADIUS**2)),
    "STDDEV": ("x", 3, (0.0, math.sqrt(2) * RADIUS)),
    "CORR": ("x, y", 0.2, (-1.0, 1.0)),
}
"""Per function of what it is asked, within what, and its public bounds."""
DOMAIN = Domain(
    (
        *(
            Attribute(
                name,
                "integer",
                edges=tuple(map(Fraction, range(least, most + 2))),
                outside="clamp",
                missing="other",
            )
            for name, (least, most) in zip("xy", RANGES, strict=True)
        ),
        Attribute("kind", "labels", ("this", "rest"), outside="other", missing="other"),
    )
)


@cache
def statement(function: str, assuming: int) -> Statement:
    """What is asked; sums are measured no further than so many records need."""
    of, within, _ = FUNCTIONS[function]
    item, kept = f"{function}({of})", "FROM t WHERE kind = 'this'"
    text = f"SELECT {item} {kept} WITHIN {within} ASSUMING AT LEAST {assuming}"
    return parse_statement(text, DOMAIN, dataset="t")


def truth(function: str, pairs: list[Pair]) -> float | None:
    """By Python's own statistics; None where there is no such number."""
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    if function == "VAR_POP":
        return statistics.pvariance(xs) if pairs else None
    if len(pairs) < 2:
        return None
    if function == "CORR":
        return statistics.correlation(xs, ys) if len(set(xs)) > 1 < len(set(ys)) else None
    return statistics.variance(xs) if function == "VARIANCE" else statistics.stdev(xs)


def drawn_pairs(size: int, rng: random.Random) -> list[Pair]:
    """So many records, whose numbers have to do with each other in half of them."""
    xs = [rng.choice(XS) for _ in range(size)]
    return [(x, rng.choice(YS) if rng.random() < 0.5 else (x - 20) // 2 + 4) for x in xs]


@dataclass
class Group:
    """A group that one function is asked of, in steps as a service takes them."""

    pairs: list[Pair]
    relation: Relation
    rng: random.Random
    measured: Measured = field(init=False)

    def __post_init__(self) -> None:
        (x0, _), (y0, _) = RANGES
        records = [(x - x0, y - y0, 0) for x, y in self.pairs]
        self.measured = Measured(DOMAIN, records, self.relation, self.rng)

    def answered(self, function: str, *, assuming: int) -> CellValue:
        """The cell of the answer, after all steps."""
        steps = QuotientSteps(self._service(), "t", statement(function, assuming))
        for _ in range(MOST_STEPS):
            if not steps.goes_on:
                break
            self._measure(steps.next_step())
            steps.look()
        last = steps.last_step()
        self._measure(last)
        found = known_numbers(self.measured.engine, workload_of(last), remaining_nano=0, version=0)
        known = [one for one in found if one is not None]
        assert len(known) == len(found)
        answers, ends = [one.answer for one in known], [one.ends for one in known]
        return answered_cell(last.cells[0][0], answers, ends, None).value

    def _measure(self, questions: StatementQuestions) -> None:
        for question in questions.questions:
            self.measured.measure(question)

    def _service(self) -> Service:
        """What the steps ask of one: readings of history."""
        engine = self.measured.engine

        def offer(_name: str, query: LinearQuery, *, confidence: float) -> Offer | None:
            row = primitive(query)
            estimate = engine.estimate(row, confidence=confidence)
            return None if estimate is None else offer_from(row, estimate, confidence=confidence)

        joint = partial(joint_parts, engine)
        insight = SimpleNamespace(offer=offer, joint=lambda _name, *parts: joint(*parts))
        return cast("Service", SimpleNamespace(insight=insight))

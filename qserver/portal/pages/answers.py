"""An answer as a page and as a file, and the price of a question before anything is spent."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from urllib.parse import parse_qsl

from qserver.answering.models.price import ModelExplanation
from qserver.api.replies import body_of
from qserver.inference.posterior.curve import DensityPoint
from qserver.portal import numbers
from qserver.portal.descriptions import Heading
from qserver.portal.faults import Fault
from qserver.portal.render import csv_text
from qserver.query.asking.after_looking import chosen_text
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, CurvePoint, Explanation
from qserver.service.free_answers import Known
from qserver.service.statement_answers import StatementExplanation

SOURCES = {
    "history": "Nothing was spent: earlier answers give this one.",
    "measured": "Measured for this question, with noise drawn once.",
    "refined": "Earlier measurements were released again with less noise; only the difference was "
    "charged.",
    "model": "From a model of the data.",
    "exact": "Public: no record can change it.",
}
_DIGITS = 9
# Every so many points of the curve stand in the table.
_TABLE_STEP = 20
_LAST_DIGITS = 1e-6
# So much of the interval's length is seen on the curve.
_SEEN = 0.02


@dataclass(frozen=True)
class Threshold:
    """P(low <= count <= high), computed by the server; None for an open end."""

    low: float | None
    high: float | None
    probability: float


@dataclass(frozen=True)
class AnswerView:
    """An answer with all that its page shows.

    Args:
        heading: what was asked.
        known: what history says now, to be drawn; None where it cannot.
        query_part: the question's fields as the query part of an address, or ''.
        files: address without its ending at which the answer can be had as CSV and JSON.
        threshold: what was asked about a threshold, or None.
        fault: what is wrong with the threshold in the address, or None.
    """

    heading: Heading
    answer: Answer
    known: Known | None
    query_part: str
    files: str
    threshold: Threshold | None = None
    fault: Fault | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The question's fields, for a form."""
        return parse_qsl(self.query_part)

    @property
    def sentence(self) -> str:
        """Interval, cost and the budget left, in a sentence."""
        return numbers.answer_words(self.answer, charged_nano=self.answer.charged_nano)

    @property
    def decimals(self) -> int:
        """Decimals that suit the interval; negative for tens and more."""
        return numbers.decimals_for(self.answer.high - self.answer.low)

    @property
    def axis_decimals(self) -> int:
        """Decimals for places of the curve, which are not rounded to tens."""
        return max(0, self.decimals)

    @property
    def estimate(self) -> str:
        """The single best guess."""
        return numbers.number(self.answer.estimate, self.decimals)

    @property
    def source(self) -> str:
        """The source of the answer."""
        return SOURCES[self.answer.source]

    @property
    def has_moved(self) -> bool:
        """Whether history now gives another answer, apart from the last digits of a posterior."""
        digits = _LAST_DIGITS * (self.answer.high - self.answer.low)
        return self.known is not None and not math.isclose(
            self.known.answer.estimate, self.answer.estimate, rel_tol=1e-12, abs_tol=digits
        )

    @property
    def why_apart(self) -> str:
        """Why the middle of the curve differs from the best estimate; '' if it does not."""
        if self.known is None or not self.known.curve:
            return ""
        if self.has_moved:
            return "More was released since: the curve shows what is known now."
        middle = median_of(self.known.curve)
        if abs(middle - self.answer.estimate) <= _SEEN * (self.answer.high - self.answer.low):
            return ""
        why = "takes the disagreement of released answers into account"
        if self.answer.statement.prior:
            why = "takes what you know beforehand into account"
        middle_text = numbers.number(middle, self.axis_decimals)
        return f"The curve {why}, the best estimate does not: its middle is {middle_text}."

    @property
    def chart(self) -> str:
        """The posterior's points for the chart, as JSON; '' if there is nothing to draw."""
        if self.known is None or not self.known.curve:
            return ""
        curve = self.known.curve
        return json.dumps(
            {
                "x": [_short(p.x) for p in curve],
                "density": [_short(p.density) for p in curve],
                "atLeast": [_short(p.at_least) for p in curve],
                "low": _short(self.answer.low),
                "high": _short(self.answer.high),
                "decimals": self.axis_decimals,
            }
        )

    @property
    def points(self) -> list[tuple[str, str]]:
        """Some counts, each with the probability of at least as many, for a table."""
        curve = self.known.curve if self.known else ()
        return [
            (numbers.number(p.x, self.axis_decimals), numbers.probability(p.at_least))
            for p in curve[_TABLE_STEP // 2 :: _TABLE_STEP]
        ]

    @property
    def span(self) -> tuple[float, float, float]:
        """Least, greatest and first value of the threshold's slider."""
        curve = self.known.curve if self.known else ()
        if not curve:
            return (0.0, 0.0, 0.0)
        asked = None if self.threshold is None else self.threshold.low
        return (curve[0].x, curve[-1].x, self.answer.estimate if asked is None else asked)


def median_of(curve: Sequence[DensityPoint]) -> float:
    """The median, between two points on a line."""
    for a, b in pairwise(curve):
        if a.at_least >= 0.5 >= b.at_least and a.at_least > b.at_least:
            return a.x + (b.x - a.x) * (a.at_least - 0.5) / (a.at_least - b.at_least)
    return curve[0].x


def answer_csv(answer: Answer, *, dataset: str, question: str, delta: float | None = None) -> str:
    """The answer as a table of one line, with the members of HTTP."""
    body = body_of(answer, delta=delta).model_dump()
    low, high = body.pop("interval")
    evidence: Sequence[int] = body.pop("evidence")
    body["selected_from"] = chosen_text(answer.selected_from).removeprefix(", ")
    row = {"dataset": dataset, "question": question, "low": low, "high": high, **body}
    row["evidence"] = " ".join(map(str, evidence))
    row["remarks"] = " ".join(answer.remarks)
    return csv_text([row.keys(), row.values()])


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") if abs(value) < 1e6 else value


_COVERED = "These people have lost less than others, so the budget stays as it is."
KINDS = {
    "free": "Earlier answers already give this one.",
    "exact": "This answer is public: no record can change it.",
    "fresh": "One new measurement.",
    "combined": "One new measurement, combined with earlier answers.",
    "refined": "Earlier measurements are released again with less noise; only the difference is "
    "charged.",
    "blocks": "The server measures tables. They answer later questions, too.",
}


@dataclass(frozen=True)
class Stop:
    """A place of the slider.

    Args:
        within: half the length of the interval; `text` as a form takes it.
        price: in epsilon, None where it is out of reach; `shown` in words.
        affordable: whether it fits into what remains.
    """

    within: float
    text: str
    price: float | None
    shown: str
    affordable: bool


class AnyQuote:
    """A price, before anything is spent."""

    found: Explanation | StatementExplanation | ModelExplanation

    @property
    def is_free(self) -> bool:
        """Whether the answer is free."""
        return self.found.kind in ("free", "exact")

    @property
    def is_payable(self) -> bool:
        """Whether budget and allowance suffice."""
        own = self.found.own
        return self.found.affordable and (own is None or own.affordable)


@dataclass(frozen=True)
class SliderQuote(AnyQuote):
    """The price of what a form asks, at each length that its slider offers.

    Args:
        stops: lengths in rising order with their prices; empty where the text itself says how long
            intervals may be.
        chosen: the place of the asked one.
        query_part: the form's fields as the query part of an address.
    """

    stops: tuple[Stop, ...]
    chosen: int
    query_part: str

    @property
    def stops_json(self) -> str:
        """The slider's places, for its script."""
        return json.dumps([asdict(stop) for stop in self.stops])


@dataclass(frozen=True)
class Quote(SliderQuote):
    """The price of a question, before anything is spent; `heading` states the question."""

    heading: Heading
    requirement: Requirement
    found: Explanation

    @property
    def better(self) -> Stop | None:
        """The cheapest stop of a shorter interval that costs no more than the asked one."""
        asked = self.stops[self.chosen]
        found = [s for s in self.stops[: self.chosen] if _costs_no_more(s.price, asked.price)]
        return min(found, key=lambda s: s.price or 0.0, default=None)

    @property
    def how(self) -> str:
        """How the answer would be found."""
        text = KINDS[self.found.kind]
        return text if self.is_free or self.found.price_nano else f"{text} {_COVERED}"


def worthwhile(curve: Iterable[CurvePoint], asked: CurvePoint) -> list[CurvePoint]:
    """The asked point, and each point that costs less than all shorter ones, by length.

    A curve lacks the asked length where a shorter one costs less.
    """
    kept: list[CurvePoint] = []
    points = {p.length: p for p in (*curve, asked)}
    for point in sorted(points.values(), key=lambda p: p.length):
        is_beaten = any(_costs_no_more(p.price_nano, point.price_nano) for p in kept)
        if not is_beaten or not point.price_nano or point is asked:
            kept.append(point)
    return kept


def _costs_no_more(price: float | None, other: float | None) -> bool:
    return price is not None and other is not None and price <= other


def stop_of(
    length: float, price: int | None, remaining_nano: int, *, is_free: bool = False
) -> Stop:
    """A place of the slider; `price` in nano-epsilon, None out of reach."""
    within, text = length / 2, numbers.plain(length / 2)
    if price is None:
        return Stop(within, text, None, "out of reach", affordable=False)
    shown = numbers.price(price, is_free=is_free)
    return Stop(within, text, price / numbers.NANO, shown, affordable=price <= remaining_nano)

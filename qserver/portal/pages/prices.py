"""The price of a question before anything is spent, and the prices of other lengths."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from qserver.answering.models.price import ModelExplanation
from qserver.portal import words
from qserver.portal.describe import Heading
from qserver.query.requirement import Requirement
from qserver.records.answer import CurvePoint, Explanation
from qserver.service.statement_answers import StatementExplanation

_COVERED = "It is about people who have lost less than others did, so the budget does not fall."
KINDS = {
    "free": "What was released before already answers this.",
    "exact": "No record can change this: the answer is public.",
    "fresh": "One new measurement.",
    "combined": "A new measurement, together with what was released before.",
    "refined": "Earlier measurements are released again with less noise; only the difference is "
    "charged.",
    "blocks": "Tables are measured, which will answer later questions too.",
}


@dataclass(frozen=True)
class Stop:
    """A place of the slider.

    Args:
        length: of the interval; `text` as a form takes it.
        price: in epsilon, None where it is out of reach; `shown` in words.
        affordable: whether it fits into what remains.
    """

    length: float
    text: str
    price: float | None
    shown: str
    affordable: bool


class AnyQuote:
    """A price, before anything is spent."""

    found: Explanation | StatementExplanation | ModelExplanation

    @property
    def is_free(self) -> bool:
        """Whether nothing would be spent."""
        return self.found.kind in ("free", "exact")

    @property
    def is_payable(self) -> bool:
        """Whether budget and allowance suffice."""
        own = self.found.own
        return self.found.affordable and (own is None or own.affordable)


@dataclass(frozen=True)
class Quote(AnyQuote):
    """The price of a question, before anything is spent.

    Args:
        heading: what is asked.
        stops: lengths in rising order with their prices; `chosen` is the place of the asked one.
    """

    heading: Heading
    requirement: Requirement
    found: Explanation
    stops: tuple[Stop, ...]
    chosen: int
    query_part: str

    @property
    def better(self) -> Stop | None:
        """The cheapest stop of a shorter interval that costs no more than the asked one."""
        asked = self.stops[self.chosen]
        found = [s for s in self.stops[: self.chosen] if _costs_no_more(s.price, asked.price)]
        return min(found, key=lambda s: s.price or 0.0, default=None)

    @property
    def stops_json(self) -> str:
        """The slider's places, for its script."""
        return stops_json(self.stops)

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


def stops_json(stops: Iterable[Stop]) -> str:
    """The slider's places as its script reads them."""
    return json.dumps([asdict(stop) for stop in stops])


def stop_of(
    length: float, price: int | None, remaining_nano: int, *, is_free: bool = False
) -> Stop:
    """A place of the slider; `price` in nano-epsilon, None where it is out of reach."""
    text = words.plain(length)
    if price is None:
        return Stop(length, text, None, "out of reach", affordable=False)
    shown = words.price(price, is_free=is_free)
    return Stop(length, text, price / words.NANO, shown, affordable=price <= remaining_nano)

"""The posterior of a question: how probable each of its values is, by what was released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qserver.answering.plots.posterior import PosteriorCurve, posterior_chart, thresholds_about
from qserver.answering.plots.render import svg_of
from qserver.client.drawing.plot import Plot
from qserver.client.flows import Call, Flow, Patience, sent
from qserver.client.frames import Column, Framed
from qserver.client.http import Reply
from qserver.client.reading import FromJson, at
from qserver.client.results import Interval
from qserver.errors import ConfigError, NotEstimableError

_MOST_POINTS = 1000


@dataclass(frozen=True, repr=False)
class Posterior(Framed, FromJson):
    """How probable the values of a question are, by history alone.

    Args:
        interval: the credible one that costs nothing, of this `confidence`.
        thresholds, at_least: values t, ascending, and P(q >= t) at each.
    """

    interval: Interval = field(metadata=at("free", "interval"))
    confidence: float = field(metadata=at("free", "confidence"))
    thresholds: tuple[float, ...]
    at_least: tuple[float, ...]

    def plot(self, title: str = "Posterior") -> Plot:
        """The density, with the interval shaded."""
        return Plot(title, svg_of(posterior_chart(self._curve, title=title)))

    def records(self) -> list[dict[str, Any]]:
        """One dict for each threshold, with `value` and `at_least`."""
        pairs = zip(self.thresholds, self.at_least, strict=True)
        return [{"value": value, "at_least": tail} for value, tail in pairs]

    def frame(self) -> list[Column]:
        """The columns of `records`."""
        return [
            Column("value", "number", self.thresholds),
            Column("at_least", "number", self.at_least),
        ]

    def __repr__(self) -> str:
        return f"<Posterior {100 * self.confidence:g} percent within {self.interval}>"

    def _repr_svg_(self) -> str:
        return self.plot().svg

    @property
    def _curve(self) -> PosteriorCurve:
        low, high = self.interval
        return PosteriorCurve(self.thresholds, self.at_least, low, high, self.confidence)


def check_points(points: int) -> None:
    """ConfigError unless a posterior can have so many thresholds."""
    if not 3 <= points <= _MOST_POINTS:
        raise ConfigError("points", f"be from 3 to {_MOST_POINTS:,}", points)


def tails(patience: Patience, call: Call, *, points: int) -> Flow[Reply]:
    """The free interval, from the price that `call` asks for, and the tails about it.

    Raises:
        NotEstimableError: history says nothing of the question, or the answer is public.
    """
    free = (yield from sent(patience, call)).document["free"]
    if free is None or not free["interval"][0] < free["interval"][1]:
        raise NotEstimableError
    thresholds = thresholds_about(*free["interval"], n=points)
    at_least = []
    for threshold in thresholds:
        asked = Call((*call.segments[:-1], "probability"), _tail(call, threshold))
        at_least.append((yield from sent(patience, asked)).document["probability"])
    return Reply("", {"free": free, "thresholds": thresholds, "at_least": at_least})


def _tail(call: Call, threshold: float) -> Mapping[str, Any]:
    """The question of a price as that of a probability."""
    kept = {k: v for k, v in (call.document or {}).items() if k not in ("length", "confidence")}
    return {**kept, "at_least": threshold}

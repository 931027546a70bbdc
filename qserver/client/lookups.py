"""What a client looks up without a new question: a budget, a history, a job, a posterior.

A posterior says how probable each value of a question is, by what was released. Nothing here
spends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

from qserver.answering.plots.chart import svg_of
from qserver.answering.plots.figures import (
    BudgetFacts,
    PosteriorCurve,
    budget_chart,
    posterior_chart,
    svg_of_bars,
    thresholds_about,
)
from qserver.client.errors import ServerProblemError
from qserver.client.flows import Call, Flow, Patience, sent
from qserver.client.frames import MOST_SHOWN, Column, Framed, Listing, Plot
from qserver.client.http import Reply, problem_of
from qserver.client.results import Answer, FromJson, Interval
from qserver.errors import ConfigError, NotEstimableError
from qserver.records.codec import at
from qserver.text import at_delta, cost_text, interval_text, left_text

_SCALES = -log(1 - 0.95)
"""Half the interval of a Laplace variable at 95 percent, in its scales: a value is shown by it."""


@dataclass(frozen=True, repr=False)
class Budget(Listing, FromJson):
    """Where the budget of a dataset went, in epsilon.

    Args:
        limit, spent, remaining: of the dataset.
        delta: under zcdp, at which all are epsilon; None under pure privacy.
        n_charges: how many charges there were.
        loss: the largest loss of any record that was asked for.
        attribute, by_value: the largest loss of the records with each value of an attribute; None
            where none was asked for.
    """

    dataset: str
    limit: float
    spent: float
    remaining: float
    n_charges: int
    loss: float
    attribute: str | None = None
    by_value: Mapping[str, float] | None = None
    delta: float | None = None

    def plot(self) -> Plot:
        """Plot the loss by value, or the spent and the remaining part of the limit.

        Raises:
            InputError: there are more than 60 values.
        """
        facts = BudgetFacts(self.dataset, self.limit, self.spent, self.remaining, self.delta)
        chart = budget_chart(facts, self.by_value or {}, attribute=self.attribute or "")
        return Plot(chart.title, svg_of_bars(chart))

    def records(self) -> list[dict[str, Any]]:
        """One dict per value, with its `loss`; without an attribute, one of the whole."""
        names = [column.name for column in self.frame()]
        rows = zip(*(column.values for column in self.frame()), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def frame(self) -> list[Column]:
        """The columns of `records`."""
        if self.by_value is None:
            names = ("limit", "spent", "remaining")
            return [Column(name, "number", [getattr(self, name)]) for name in names]
        return [
            Column(self.attribute or "value", "text", list(self.by_value)),
            Column("loss", "number", list(self.by_value.values())),
        ]

    def _header(self) -> Sequence[str]:
        return [column.name for column in self.frame()]

    def _lines(self) -> Iterator[list[str]]:
        if self.by_value is None:
            yield [cost_text(self.limit), cost_text(self.spent), left_text(self.remaining)]
            return
        for value, loss in list(self.by_value.items())[:MOST_SHOWN]:
            yield [value, cost_text(loss)]

    def _rest(self) -> list[str]:
        more = len(self.by_value or ()) - MOST_SHOWN
        unit = f"epsilon{at_delta(self.delta)}"
        spent = f"{cost_text(self.spent)} of {cost_text(self.limit)} {unit} spent"
        return [
            *([f"{more} more values"] if more > 0 else []),
            f"{spent} in {self.n_charges:,} charges; the largest loss is {cost_text(self.loss)}",
        ]


@dataclass(frozen=True)
class Released(FromJson):
    """A noisy answer that was released, or a table of them.

    Args:
        value: of a row; None of a table.
        values: of a table, the last attribute running fastest; None of a row, and in a list.
        n_cells: of a table; 1 of a row.
        scale: of its Laplace noise, in records.
        alpha: 1 / scale as it was charged, in epsilon.
        document: as the server sent it, with what was counted.
    """

    id: int
    scale: float
    alpha: float
    value: float | None = None
    values: tuple[float, ...] | None = None
    n_cells: int = 1
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, metadata=at())


@dataclass(frozen=True, repr=False)
class History(Listing, FromJson):
    """The releases in their order; a refined one keeps its place."""

    released: tuple[Released, ...] = field(metadata=at("rows"))
    version: int

    def __len__(self) -> int:
        return len(self.released)

    def __iter__(self) -> Iterator[Released]:
        return iter(self.released)

    def records(self) -> list[dict[str, Any]]:
        """One dict for each row or table."""
        names = ("id", "n_cells", "value", "scale", "alpha")
        return [{name: getattr(found, name) for name in names} for found in self.released]

    def frame(self) -> list[Column]:
        """The columns of `records`."""
        records = self.records()
        return [Column(name, "number", [r[name] for r in records]) for name in self._header()]

    def _header(self) -> Sequence[str]:
        return ("id", "n_cells", "value", "scale", "alpha")

    def _lines(self) -> Iterator[list[str]]:
        for found in self.released[:MOST_SHOWN]:
            half = _SCALES * found.scale
            value = "-"
            if found.value is not None:
                told = interval_text(
                    estimate=found.value, low=found.value - half, high=found.value + half
                )
                value = told.estimate
            yield [
                str(found.id),
                str(found.n_cells),
                value,
                f"{found.scale:,.4g}",
                cost_text(found.alpha),
            ]

    def _rest(self) -> list[str]:
        more = len(self) - MOST_SHOWN
        return [*([f"{more} more rows"] if more > 0 else []), f"version {self.version} of history"]


@dataclass(frozen=True)
class Job(FromJson):
    """A question that the server was asked to measure.

    Args:
        id: None where the answer was there at once, and no job was needed.
        state: queued, running, done or failed.
        answer: of a question that is done; None before, and of other kinds of jobs.
        problem: the error of a job that failed.
        document: as the server sent it.
    """

    id: str | None
    state: str
    dataset: str
    answer: Answer | None = field(
        default=None, metadata=at("result", by=lambda r: r if "estimate" in (r or ()) else None)
    )
    problem: ServerProblemError | None = field(
        default=None, metadata=at("problem", by=lambda p: None if p is None else problem_of(p))
    )
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, metadata=at())

    @property
    def is_over(self) -> bool:
        """Whether it is done, or failed."""
        return self.state in ("done", "failed")


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
    """The free interval, from the price of `call`, and the tails about it.

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
    """The question of a price, asked as a probability."""
    kept = {k: v for k, v in (call.document or {}).items() if k not in ("length", "confidence")}
    return {**kept, "at_least": threshold}

"""The results of a client: frozen objects that show themselves in a terminal and a notebook.

A class that derives from `FromJson` is read from the server's JSON by `qserver.records.codec`: each
field by its name and its type. A field that stands elsewhere in the document, or in another form,
says so: `field(metadata=at("plan", by=len))`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Self

from qserver.answering.plots.intervals import Panel
from qserver.client.frames import Column, Framed, Plot, plot_of_panels, row_of
from qserver.query.asking.after_looking import Selection, chosen_text
from qserver.records.codec import at, read
from qserver.records.statement import ClaimStatus, Statement
from qserver.records.unit import SealedPeriods
from qserver.text import (
    ADDS_NOTHING,
    at_delta,
    cost_text,
    interval_text,
    left_text,
    most_text,
    percent_text,
)


class FromJson:
    """A dataclass that can be read from the server's JSON."""

    @classmethod
    def of(cls, document: Any) -> Self:
        """The result that the server's JSON holds; KeyError where a member is missing."""
        return read(cls, document)


class Probability(float):
    """A probability: a float that carries the law it was computed by.

    Args:
        statement: the law behind it; None from an earlier server.
    """

    statement: Statement | None

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> Probability:
        """The probability that the server's JSON holds."""
        found, told = cls(document["probability"]), document.get("statement")
        found.statement = None if told is None else read(Statement, told)
        return found


@dataclass(frozen=True)
class Interval:
    """The interval of a value; an open end is infinite."""

    low: float
    high: float

    @classmethod
    def from_plain(cls, ends: Sequence[float | None]) -> Self:
        """The interval of a pair from JSON, in which None stands for an open end."""
        low, high = ends
        return cls(-math.inf if low is None else low, math.inf if high is None else high)

    @property
    def length(self) -> float:
        """high - low."""
        return self.high - self.low

    @property
    def half_width(self) -> float:
        """Half of the length."""
        return self.length / 2

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __str__(self) -> str:
        text = interval_text(estimate=None, low=self.low, high=self.high)
        return f"{text.low} to {text.high}"


def number_columns(name: str, numbers: Sequence[tuple[float, Interval]]) -> list[Column]:
    """Columns of estimates and of the ends of their intervals: n, n_low and n_high."""
    return [
        Column(name, "number", [None if math.isnan(x) else x for x, _ in numbers]),
        Column(f"{name}_low", "number", [interval.low for _, interval in numbers]),
        Column(f"{name}_high", "number", [interval.high for _, interval in numbers]),
    ]


# Sources of numbers that charge nobody.
_NOBODY_CHARGED = {"history", "exact"}


@dataclass(frozen=True)
class Cost(FromJson):
    """The cost of an answer and the remaining budget, in epsilon.

    Args:
        delta: under zcdp, at which they are epsilon; None under pure privacy.
    """

    charged: float = field(metadata=at("epsilon_charged"))
    remaining: float = field(metadata=at("epsilon_remaining"))
    delta: float | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self._said("")

    def of_sources(self, sources: Iterable[str]) -> str:
        """The cost of numbers from these sources: a 0 that charged somebody says so."""
        is_free = self.charged or set(sources) <= _NOBODY_CHARGED
        more = "" if is_free else f" ({ADDS_NOTHING})"
        return self._said(more)

    def _said(self, more: str) -> str:
        unit = "" if self.delta is None else f", in epsilon{at_delta(self.delta)}"
        return f"cost {cost_text(self.charged)}{more}, {left_text(self.remaining)} left{unit}"


@dataclass(frozen=True, repr=False)
class Answer(Framed, FromJson):
    """One number with its interval.

    Args:
        confidence: as asked; `confidence_attained` is that of the best interval of the asked
            length.
        source: history, measured, refined or exact.
        evidence: ids of the released rows and tables used.
        version: of the history that it is computed from.
        selected_from: the choice that the interval allows for; None if it holds by itself.
        weights: how the estimate's weights were found.
        statement: what the interval says; None from an earlier server.
        rest: what an `independent` answer of the asked length costs, in epsilon, where released
            answers disagree so much that this interval is longer; else None.
        as_of: the last period that was counted, where data arrive over time; else None.
        remarks: what to know of it, a sentence each, such as that it is longer than asked.
    """

    estimate: float
    interval: Interval
    confidence: float
    confidence_attained: float
    source: str
    cost: Cost = field(metadata=at())
    evidence: tuple[int, ...]
    version: int
    selected_from: Selection | None = None
    weights: str = ""
    statement: Statement | None = None
    rest: float | None = field(default=None, metadata=at("epsilon_rest"))
    as_of: str | None = None
    remarks: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.estimate

    def records(self) -> list[dict[str, Any]]:
        """One dict: `answer`, `answer_low` and `answer_high`, as a workload's table has them."""
        return [{column.name: column.values[0] for column in self.frame()}]

    def frame(self) -> list[Column]:
        """The columns of `records`."""
        return number_columns("answer", [(self.estimate, self.interval)])

    def plot(self, title: str = "Answer") -> Plot:
        """The estimate on the band of its interval."""
        row = row_of("", self.estimate, self.interval)
        return plot_of_panels(
            title, (Panel("", (row,)),), (f"The band is the interval {self._sure()}.",)
        )

    def __repr__(self) -> str:
        return f"<Answer {'; '.join([self._sentence(), self._paid(), *self.remarks])}>"

    def _repr_html_(self) -> str:
        paid = escape("; ".join([self.source, self._paid(), *self.remarks]))
        return f"<p><b>{escape(self._sentence())}</b><br>{paid}</p>"

    def _paid(self) -> str:
        return self.cost.of_sources([self.source])

    def _sentence(self) -> str:
        text = interval_text(estimate=self.estimate, low=self.interval.low, high=self.interval.high)
        return f"{text.estimate}: between {text.low} and {text.high} {self._sure()}"

    def _sure(self) -> str:
        percent = percent_text(self.confidence)
        return (
            f"with {percent} percent confidence{chosen_text(self.selected_from)}{self._read()}"
            f"{f', as of {self.as_of}' if self.as_of else ''}"
        )

    def _read(self) -> str:
        if self.statement is None:
            return ""
        said = [self.statement.reading, self.statement.law_said]
        return "".join(f", {words}" for words in said if words)


def _free(free: Any) -> Iterator[Sequence[float | None] | None]:
    """The ends of each interval that a question, a workload or a statement gets without charge."""
    for offer in free if isinstance(free, list) else [free]:
        if offer is not None and "intervals" in offer:
            yield from offer["intervals"]
        else:
            yield None if offer is None else offer["interval"]


@dataclass(frozen=True)
class BothChoices(FromJson):
    """The prices of both choices of `measure`, in epsilon.

    Args:
        chosen: `only_this`, or `auto`; the choice that the price is about.
        buys: the tables of `auto`, which later questions use too; empty for none.
        independent: price of fresh noise, combined with nothing; None for several questions.
    """

    chosen: str
    only_this: float
    auto: float
    buys: str
    independent: float | None = None

    def __str__(self) -> str:
        only, auto = map(cost_text, (self.only_this, self.auto))
        return f"only this: {only}; auto: {auto}, which buys {self.buys or 'nothing more'}"


@dataclass(frozen=True)
class OwnPrice(FromJson):
    """What an answer costs the allowance of the account that asks, in epsilon.

    Args:
        price: rise of the account's own ledger.
        affordable: whether allowance and pace let it.
        more_at: Unix time when the pace will let it; None if not by waiting.
        spent, spent_today: by the account, in all and within the last 24 hours.
        limit, per_day: most that it may spend of these; None for no bound of its own.
    """

    price: float
    affordable: bool
    more_at: int | None
    spent: float
    spent_today: float
    limit: float | None
    per_day: float | None


@dataclass(frozen=True, repr=False)
class Price(FromJson):
    """The price of an answer; nothing was spent.

    Args:
        price, remaining: in epsilon.
        most: most that may be charged, in epsilon: an interval that is longer than asked, since
            released answers disagree, is refined within it; None from an earlier server.
        at_most: whether the price is that of asking all at once in the worst case, as for averages;
            measured in steps they nearly always cost far less, and never more.
        free: the interval known without charge, or None, for each question in order.
        curve: prices at other lengths; for a workload, at multiples of the asked lengths. A price
            of None is out of reach. Lengths that cost more than shorter ones are left out.
        measure: the prices of both choices of `measure`; None from an earlier server.
        whole_table: whether HAVING, ORDER BY or LIMIT choose among released numbers; price and
            `free` are then those of the whole table.
        own: what it costs the account's own allowance; None where it has none.
        protected: of whom the price is the loss, in words; None for a domain without periods.
        delta: as a `Cost` has it.
        remarks: of a text of SQL, what to know of its groups and conditions; a sentence each.
    """

    kind: str
    price: float
    remaining: float
    affordable: bool
    free: tuple[Interval | None, ...] = field(metadata=at("free", by=_free))
    curve: tuple[tuple[float, float | None], ...] = field(
        metadata=at("curve", by=lambda points: points or ())
    )
    version: int
    most: float | None = None
    at_most: bool = False
    measure: BothChoices | None = None
    whole_table: bool = False
    own: OwnPrice | None = None
    protected: str | None = None
    delta: float | None = field(default=None, repr=False)
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Price {self._sentence()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self._sentence())}</b></p>"

    def _sentence(self) -> str:
        fits = "" if self.affordable else ", which is too much"
        known = sum(interval is not None for interval in self.free)
        price = f"{'up to about ' if self.at_most else ''}{cost_text(self.price)}"
        if not self.price and self.kind not in ("free", "exact"):
            price = f"{price} ({ADDS_NOTHING})"
        price += most_text(self.price, self.most)
        choices = f"; {self.measure}" if self.measure is not None and self.measure.buys else ""
        return (
            f"{price} of {left_text(self.remaining)} epsilon left{at_delta(self.delta)}{fits}; "
            f"{known} of {len(self.free)} known at no cost{choices}"
        )


@dataclass(frozen=True)
class DatasetInfo(FromJson):
    """The public facts of a dataset; `document` is the server's whole reply.

    Args:
        limit, spent, remaining: in epsilon.
        worker_alive: whether the server can measure now.
        capacity: most records that it may ever have; None if its owner declared none.
        claims: what its owner does not want to be known too well; () from an earlier server.
        protected: what is protected of a person, in words; '' for a domain without periods.
        attributes: their names; empty in a list of datasets.
        periods: where data arrive over time, what has arrived; else None.
        time: the attribute that the owner calls the time, where all data are there; else None.
        description, licence: of the data, by their owner; '' for none.
        expected: about how many questions its owner expects until the limit; None if nobody said.
        delta: under zcdp, with which the budget is epsilon; None under pure privacy.
        rho: under zcdp, what is spent and the limit as they are kept; None under pure privacy.
    """

    name: str
    limit: float
    spent: float
    remaining: float
    worker_alive: bool
    capacity: int | None
    attributes: tuple[str, ...] = field(
        metadata=at("domain", "attributes", by=lambda all_: [a["name"] for a in all_ or ()])
    )
    document: Mapping[str, Any] = field(repr=False, compare=False, metadata=at())
    claims: tuple[ClaimStatus, ...] = field(
        default=(), metadata=at("claims", by=lambda claims: claims or ())
    )
    protected: str = field(
        default="", metadata=at("unit", by=lambda unit: unit["text"] if unit else "")
    )
    periods: SealedPeriods | None = None
    time: str | None = None
    description: str = field(
        default="", metadata=at("domain", by=lambda domain: (domain or {}).get("description", ""))
    )
    licence: str = field(
        default="", metadata=at("domain", by=lambda domain: (domain or {}).get("licence", ""))
    )
    expected: int | None = None
    delta: float | None = field(
        default=None, repr=False, metadata=at("zcdp", by=lambda zcdp: (zcdp or {}).get("delta"))
    )
    rho: tuple[float, float] | None = field(
        default=None,
        repr=False,
        metadata=at("zcdp", by=lambda zcdp: zcdp and (zcdp["spent_rho"], zcdp["limit_rho"])),
    )

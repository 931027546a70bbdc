"""What a client is told, as frozen objects that read well in a terminal and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any, Self

from qserver.errors import ConfigError
from qserver.readable import epsilon_text, interval_text, percent_text

_MOST_SHOWN = 20


@dataclass(frozen=True)
class Interval:
    """Where a value lies; an end is infinite where there is none."""

    low: float
    high: float

    @classmethod
    def of(cls, ends: Sequence[float | None]) -> Self:
        """The interval of a pair as JSON has it."""
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


@dataclass(frozen=True)
class Cost:
    """What an answer cost and what is left, in epsilon."""

    charged: float
    remaining: float

    def __str__(self) -> str:
        return f"cost {epsilon_text(self.charged)}, {epsilon_text(self.remaining)} left"


@dataclass(frozen=True, repr=False)
class Answer:
    """One number with its interval.

    Args:
        confidence: as asked; `confidence_attained` is that of an interval of the asked length.
        source: history, measured, refined or exact.
        evidence: ids of the released rows and tables used.
        version: of the history that it stands on.
    """

    estimate: float
    interval: Interval
    confidence: float
    confidence_attained: float
    source: str
    cost: Cost
    evidence: tuple[int, ...]
    method: str
    version: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The answer that the server's JSON holds."""
        return cls(
            estimate=document["estimate"],
            interval=Interval.of(document["interval"]),
            confidence=document["confidence"],
            confidence_attained=document["confidence_attained"],
            source=document["source"],
            cost=Cost(document["epsilon_charged"], document["epsilon_remaining"]),
            evidence=tuple(document["evidence"]),
            method=document["method"],
            version=document["version"],
        )

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        return f"<Answer {self._sentence()}; {self.cost}>"

    def _repr_html_(self) -> str:
        return (
            f"<p><b>{escape(self._sentence())}</b><br>{escape(f'{self.source}; {self.cost}')}</p>"
        )

    def _sentence(self) -> str:
        text = interval_text(estimate=self.estimate, low=self.interval.low, high=self.interval.high)
        percent = percent_text(self.confidence)
        return (
            f"{text.estimate}: between {text.low} and {text.high} with {percent} percent confidence"
        )


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Args:
        estimate: NaN where there is none: a quotient whose denominator may be zero.
        binning: how far the middle of a bin may be from the values in it, as the server says it,
            or None.
    """

    estimate: float
    interval: Interval
    source: str
    binning: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The cell that the server's JSON holds."""
        estimate = document["estimate"]
        return cls(
            math.nan if estimate is None else estimate,
            Interval.of(document["interval"]),
            document["source"],
            document.get("binning"),
        )

    def texts(self) -> tuple[str, str, str]:
        """Estimate, low and high, to a precision that fits the interval."""
        low, high = self.interval
        estimate = None if math.isnan(self.estimate) else self.estimate
        text = interval_text(estimate=estimate, low=low, high=high)
        return text.estimate or "-", text.low, text.high


@dataclass(frozen=True, repr=False)
class Table:
    """Numbers by group and column, all paid together.

    Args:
        groups: names of the columns that tell the groups apart.
        columns: names of the columns with numbers.
        keys: per row a value of each of `groups`.
        cells: per row a cell of each of `columns`.
        confidence: of each interval.
        simultaneous: the certified confidence that all intervals hold at once, or None where it
            was not asked for.
    """

    groups: tuple[str, ...]
    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Cell, ...], ...]
    confidence: float
    simultaneous: float | None
    cost: Cost
    version: int = field(compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The table that the server's JSON holds."""
        together = document["simultaneous"]
        return cls(
            groups=tuple(document["groups"]),
            columns=tuple(document["columns"]),
            keys=tuple(tuple(row["group"]) for row in document["rows"]),
            cells=tuple(tuple(map(Cell.of, row["cells"])) for row in document["rows"]),
            confidence=document["confidence"],
            simultaneous=None if together is None else together["confidence"],
            cost=Cost(document["epsilon_charged"], document["epsilon_remaining"]),
            version=document["version"],
        )

    @classmethod
    def of_workload(cls, document: Mapping[str, Any], names: Sequence[str]) -> Self:
        """The table of a workload's answers, one row per question, by the questions' names."""
        answers = document["answers"]
        together = document["simultaneous"]
        return cls(
            groups=("question",),
            columns=("answer",),
            keys=tuple((name,) for name in names),
            cells=tuple((Cell.of(answer),) for answer in answers),
            confidence=min(answer["confidence"] for answer in answers),
            simultaneous=None if together is None else together["confidence"],
            cost=Cost(document["epsilon_charged"], document["epsilon_remaining"]),
            version=document["version"],
        )

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def only(self) -> Cell:
        """The one number of a table that has just one; ValueError otherwise."""
        [[cell]] = self.cells
        return cell

    def __getitem__(self, key: str | tuple[str, ...]) -> Cell | tuple[Cell, ...]:
        """The cells of a group, or the one where there is one column; KeyError."""
        wanted = (key,) if isinstance(key, str) else tuple(key)
        for group, cells in zip(self.keys, self.cells, strict=True):
            if group == wanted:
                return cells[0] if len(cells) == 1 else cells
        raise KeyError(key)

    def records(self) -> list[dict[str, Any]]:
        """One dict per row: the group's values, and per column c also c_low and c_high."""
        found = []
        for group, cells in zip(self.keys, self.cells, strict=True):
            record: dict[str, Any] = dict(zip(self.groups, group, strict=True))
            for name, cell in zip(self._unique_columns(), cells, strict=True):
                record[name] = cell.estimate
                record[f"{name}_low"] = cell.interval.low
                record[f"{name}_high"] = cell.interval.high
            found.append(record)
        return found

    def to_pandas(self) -> Any:
        """`records` as a pandas.DataFrame; ConfigError where pandas is not installed."""
        return library("pandas").DataFrame.from_records(self.records())

    def to_arrow(self) -> Any:
        """`records` as a pyarrow.Table; ConfigError where pyarrow is not installed."""
        return library("pyarrow").Table.from_pylist(self.records())

    def _unique_columns(self) -> list[str]:
        """The columns' names, a number behind those that come again."""
        taken = set(self.groups)
        names = []
        for column in self.columns:
            name, n = column, 2
            while name in taken:
                name, n = f"{column}_{n}", n + 1
            taken.add(name)
            names.append(name)
        return names

    def texts(self) -> Iterator[list[str]]:
        """Per row the group's values, and per column the estimate, low and high as texts."""
        for group, cells in zip(self.keys, self.cells, strict=True):
            yield [*group, *(text for cell in cells for text in cell.texts())]

    def notes(self) -> list[str]:
        """What holds for the whole table: confidence, cost, and what bins hide."""
        # The certified confidence has many digits: rounded down to a ten-thousandth.
        together = math.floor((self.simultaneous or 0.0) * 1e4) / 1e4
        percent = percent_text(together or self.confidence)
        which = "all at once" if self.simultaneous is not None else "each"
        found = [f"{which} with {percent} percent confidence; {self.cost}"]
        for name, cell in zip(self.columns, self.cells[0] if self.cells else (), strict=False):
            if cell.binning is not None:
                error, of = cell.binning["error"], cell.binning["of"]
                found.append(f"{name}: by the middles of bins, {error:g} off at most per {of}")
        return found

    def _lines(self) -> Iterator[list[str]]:
        for group, cells in zip(self.keys[:_MOST_SHOWN], self.cells, strict=False):
            yield [*group, *(f"{cell.texts()[0]}  [{cell.interval}]" for cell in cells)]

    def _rest(self) -> list[str]:
        more = len(self) - _MOST_SHOWN
        return [*([f"{more} more rows"] if more > 0 else []), *self.notes()]

    def __repr__(self) -> str:
        rows = [[*self.groups, *self.columns], *self._lines()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*(line.rstrip() for line in lines), *self._rest()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in (*self.groups, *self.columns))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in self._lines()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{'<br>'.join(map(escape, self._rest()))}</p>"
        )


@dataclass(frozen=True, repr=False)
class Price:
    """What an answer would cost; nothing was spent.

    Args:
        price, remaining: in epsilon.
        free: what is known for nothing, in the order of the questions, or None for each.
        curve: prices at other lengths; of a workload lengths are factors of those asked. A price
            of None is out of reach.
    """

    kind: str
    price: float
    remaining: float
    affordable: bool
    free: tuple[Interval | None, ...]
    curve: tuple[tuple[float, float | None], ...]
    version: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The price that the server's JSON holds, of a question, a workload or a statement."""
        return cls(
            kind=document["kind"],
            price=document["price"],
            remaining=document["remaining"],
            affordable=document["affordable"],
            free=tuple(_free(document["free"])),
            curve=tuple((point[0], point[1]) for point in document.get("curve", ())),
            version=document["version"],
        )

    def __repr__(self) -> str:
        return f"<Price {self._sentence()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self._sentence())}</b></p>"

    def _sentence(self) -> str:
        fits = "" if self.affordable else ", which is too much"
        known = sum(interval is not None for interval in self.free)
        return (
            f"{epsilon_text(self.price)} of {epsilon_text(self.remaining)} epsilon left{fits}; "
            f"{known} of {len(self.free)} known for nothing"
        )


@dataclass(frozen=True)
class DatasetInfo:
    """The public face of a dataset; `document` is all that the server says of it.

    Args:
        limit, spent, remaining: in epsilon.
        worker_alive: whether anything can be measured now.
        attributes: their names; none in a list of datasets.
    """

    name: str
    limit: float
    spent: float
    remaining: float
    worker_alive: bool
    attributes: tuple[str, ...]
    document: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The dataset that the server's JSON holds."""
        attributes = document.get("domain", {}).get("attributes", ())
        return cls(
            name=document["name"],
            limit=document["limit"],
            spent=document["spent"],
            remaining=document["remaining"],
            worker_alive=document["worker_alive"],
            attributes=tuple(a["name"] for a in attributes),
            document=document,
        )


def library(name: str) -> Any:
    """A library that only some results need; ConfigError where it is not installed."""
    try:
        return import_module(name)
    except ImportError as exc:
        raise ConfigError(name, "be installed for this", hint=f"`pip install {name}`.") from exc


def _free(free: Any) -> Iterator[Interval | None]:
    """The intervals of a question's offer, of a workload's, or of a statement's rows."""
    for offer in free if isinstance(free, list) else [free]:
        if offer is not None and "intervals" in offer:
            yield from (None if ends is None else Interval.of(ends) for ends in offer["intervals"])
        else:
            yield None if offer is None else Interval.of(offer["interval"])

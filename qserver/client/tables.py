"""Tables of numbers, for a terminal, a notebook and a data frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self, TypeVar

from qserver.answering.plots.intervals import Panel
from qserver.client.frames import MOST_SHOWN, Column, Listing, Plot, plot_of_panels, row_of
from qserver.client.results import (
    Cost,
    FromJson,
    Interval,
    number_columns,
)
from qserver.errors import ConfigError
from qserver.query.asking.after_looking import Rule, Selection, chosen_text
from qserver.records.codec import at
from qserver.records.statement import Statement
from qserver.text import (
    LookedNumber,
    group_texts,
    interval_text,
    laws_text,
    looking_text,
    percent_text,
)

T = TypeVar("T")
MOST_ROWS = 40
"""How many rows of a table a plot shows."""


@dataclass(frozen=True)
class Picked:
    """A number picked out of a table, with an interval that allows for the choice.

    Args:
        key: its group.
        confidence: with which the intervals of all picked numbers hold at once.
    """

    key: tuple[str | None, ...]
    estimate: float
    interval: Interval
    confidence: float


def _looked(document: Mapping[str, Any] | None, n: int) -> list[dict[str, Any] | None]:
    """Per answer of a workload its intervals after looking; None without any."""
    if document is None:
        return [None] * n
    names = ("at_once", "largest", "least")
    return [{name: document[name][i] for name in names} for i in range(n)]


def _or_nan(estimate: float | None) -> float:
    return math.nan if estimate is None else estimate


@dataclass(frozen=True)
class AfterLooking(FromJson):
    """The intervals of a number that hold after all numbers of its table were looked at.

    Args:
        at_once: holds at once with those of all others, and so for any choice.
        largest, least: hold for the number that is the largest, or the least, of its column.
    """

    at_once: Interval
    largest: Interval
    least: Interval


@dataclass(frozen=True)
class Cell(FromJson):
    """One number of a table.

    Args:
        estimate: NaN if there is none, as for a quotient whose denominator may be zero.
        consistent: the value by one non-negative table for all cells. None if it was not asked for
            or does not exist. The interval does not belong to this value.
        after_looking: the intervals that hold after the whole table was looked at, or None.
        binning: how far the middle of a bin may be from the values in it, or None.
        statement: what the interval, or the probability, is a statement of; None where nothing is
            known, and from an earlier server.
    """

    estimate: float = field(metadata=at("estimate", by=_or_nan))
    interval: Interval
    source: str
    binning: Mapping[str, Any] | None = None
    consistent: float | None = None
    after_looking: AfterLooking | None = None
    statement: Statement | None = None

    def texts(self) -> tuple[str, str, str]:
        """Estimate, low and high, with as many digits as the interval supports."""
        low, high = self.interval
        estimate = None if math.isnan(self.estimate) else self.estimate
        text = interval_text(estimate=estimate, low=low, high=high)
        return text.estimate or "-", text.low, text.high


@dataclass(frozen=True, repr=False)
class Table(Listing, FromJson):
    """Numbers by group and column, paid as one purchase.

    Args:
        groups: names of the columns that identify the groups.
        columns: names of the columns with numbers.
        keys: for each row, a value of each of `groups`; None for a missing value, which is NULL,
            and for all values together.
        cells: for each row, a cell of each of `columns`.
        confidence: of each interval; the least where columns differ.
        confidences: per column, where they differ; else None.
        simultaneous: the certified confidence that all intervals hold at once; None if it was not
            asked for.
        selected_from: the choice that all intervals allow for; None if each holds by itself.
        as_of: the last period that was counted, where data arrive over time; else None.
        remarks: what to know of its numbers, groups and conditions, a sentence each.
        order: how frames and cursors order them: indices into `groups` and behind them `columns`;
            groups come first where it is empty.
        together: for each row the places in its key where None is all values together.
    """

    groups: tuple[str, ...]
    columns: tuple[str, ...]
    keys: tuple[tuple[str | None, ...], ...] = field(
        metadata=at("rows", by=lambda rows: [row["group"] for row in rows])
    )
    cells: tuple[tuple[Cell, ...], ...] = field(
        metadata=at("rows", by=lambda rows: [row["cells"] for row in rows])
    )
    confidence: float
    simultaneous: float | None = field(metadata=at("simultaneous", "confidence"))
    cost: Cost = field(metadata=at())
    version: int = field(compare=False)
    selected_from: Selection | None = None
    as_of: str | None = None
    confidences: tuple[float, ...] | None = None
    remarks: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    together: tuple[tuple[int, ...], ...] = field(
        default=(), metadata=at("rows", by=lambda rows: [row.get("together", ()) for row in rows])
    )

    @classmethod
    def of_workload(cls, document: Mapping[str, Any], names: Sequence[str]) -> Self:
        """The table of a workload's answers, one row per named question."""
        answers = document["answers"]
        nearest = (document.get("consistent") or {}).get("estimates", [None] * len(answers))
        looked = _looked(document.get("after_looking"), len(answers))
        rows = [
            {"group": [name], "cells": [{**answer, "consistent": value, "after_looking": read}]}
            for name, answer, value, read in zip(names, answers, nearest, looked, strict=True)
        ]
        confidence = min(answer["confidence"] for answer in answers)
        return cls.of(
            {
                **document,
                "groups": ["question"],
                "columns": ["answer"],
                "rows": rows,
                "confidence": confidence,
                "selected_from": answers[0].get("selected_from"),
                "as_of": answers[0].get("as_of"),
            }
        )

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def only(self) -> Cell:
        """The number of a table with exactly one; ValueError otherwise."""
        [[cell]] = self.cells
        return cell

    def __getitem__(self, key: str | tuple[str | None, ...] | None) -> Cell | tuple[Cell, ...]:
        """The cells of a group, or its cell if there is one column; KeyError."""
        wanted: tuple[str | None, ...] = key if isinstance(key, tuple) else (key,)
        for group, cells in zip(self.keys, self.cells, strict=True):
            if group == wanted:
                return cells[0] if len(cells) == 1 else cells
        raise KeyError(key)

    @property
    def has_consistent(self) -> bool:
        """Whether a cell has a consistent value."""
        return any(cell.consistent is not None for cells in self.cells for cell in cells)

    def largest(self, k: int = 1, *, column: int = 0) -> list[Picked]:
        """The k largest numbers of a column, the largest first, as they may be reported.

        All k intervals hold at once with the table's confidence, after the table was looked at.
        They follow from the reply and cost nothing. For k > 1 the upper ends are those for any
        choice; a table asked with `selected_from` has shorter ones. A group of missing values is
        no choice, as in SQL with LIMIT: it is left out unless k is the number of rows.

        Raises:
            ConfigError: k is out of range, or the table has no readings for this choice.
        """
        return self._first(k, column, "largest")

    def least(self, k: int = 1, *, column: int = 0) -> list[Picked]:
        """The k least numbers of a column, the least first; otherwise as `largest`."""
        return self._first(k, column, "least")

    def _first(self, k: int, column: int, rule: Rule) -> list[Picked]:
        if not 1 <= k <= len(self):
            raise ConfigError("k", f"be from 1 to {len(self)}, the number of rows", k)
        unnamed = set() if k == len(self) else set(self._unnamed())
        found = [
            (key, cells[column])
            for i, (key, cells) in enumerate(zip(self.keys, self.cells, strict=True))
            if not math.isnan(cells[column].estimate) and i not in unnamed
        ]
        found.sort(key=lambda pair: pair[1].estimate, reverse=rule == "largest")
        return [
            Picked(key, cell.estimate, self._read(cell, rule, k), self.confidence)
            for key, cell in found[:k]
        ]

    def _unnamed(self) -> Iterator[int]:
        """The rows with a missing value among their groups."""
        for i, key in enumerate(self.keys):
            together = self.together[i] if self.together else ()
            if any(name is None and k not in together for k, name in enumerate(key)):
                yield i

    def _read(self, cell: Cell, rule: Rule, k: int) -> Interval:
        """The interval of a cell that holds if this rule chooses its number among the first k."""
        chosen, looked = self.selected_from, cell.after_looking
        allows = chosen is not None and (
            chosen.rule == "any" or (chosen.rule == rule and chosen.first >= k)
        )
        if allows or self.simultaneous is not None or self._n_numbers == 1:
            return cell.interval
        if looked is None:
            raise ConfigError("k", "be asked of a table whose intervals allow for this choice")
        return looked.at_once if k > 1 else getattr(looked, rule)

    @property
    def looking(self) -> str:
        """What holds for each number, for all at once and for the largest; '' if unknown."""
        return looking_text(list(self._looked_numbers()), n=self._n_numbers)

    @property
    def _n_numbers(self) -> int:
        return sum(map(len, self.cells))

    def records(self) -> list[dict[str, Any]]:
        """One dict per row: the group's values, and for each column c also c_low and c_high.

        With consistent values, each column c also has c_consistent.
        """
        found = []
        for group, cells in zip(self.keys, self.cells, strict=True):
            record: dict[str, Any] = dict(zip(self.groups, group, strict=True))
            for name, cell in zip(self._unique_columns(), cells, strict=True):
                record[name] = cell.estimate
                record[f"{name}_low"] = cell.interval.low
                record[f"{name}_high"] = cell.interval.high
                if self.has_consistent:
                    record[f"{name}_consistent"] = cell.consistent
            found.append(record)
        return found

    def frame(self) -> list[Column]:
        """The columns of `records` in the order of SELECT; None in place of NaN."""
        groups = [
            [Column(name, "text", [key[i] for key in self.keys])]
            for i, name in enumerate(self.groups)
        ]
        numbers = [self._number(i, name) for i, name in enumerate(self._unique_columns())]
        return self._flat(groups, numbers)

    def _flat(self, groups: Iterable[list[T]], numbers: Iterable[list[T]]) -> list[T]:
        """Items of each group and number, in the order of SELECT."""
        parts = [*groups, *numbers]
        order = dict.fromkeys(self.order) or range(len(parts))
        return [one for i in order for one in parts[i]]

    def _number(self, i: int, name: str) -> list[Column]:
        """The columns of one number: the number, both ends, and its consistent value if any."""
        cells = [row[i] for row in self.cells]
        found = number_columns(name, [(c.estimate, c.interval) for c in cells])
        if self.has_consistent:
            found.append(Column(f"{name}_consistent", "number", [c.consistent for c in cells]))
        return found

    def _unique_columns(self) -> list[str]:
        """The columns' names; a repeated name gets a number."""
        taken = set(self.groups)
        names = []
        for column in self.columns:
            name, n = column, 2
            while name in taken:
                name, n = f"{column}_{n}", n + 1
            taken.add(name)
            names.append(name)
        return names

    def header(self) -> list[str]:
        """The names above `texts`."""
        ends = ["low", "high", *(["consistent"] if self.has_consistent else [])]
        return self._flat(([name] for name in self.groups), ([c, *ends] for c in self.columns))

    def texts(self) -> Iterator[list[str]]:
        """For each row, the group's values, and each column's estimate, low and high as texts.

        They are in the order of SELECT. With consistent values, each column also has that text.
        """
        for group, cells in zip(self.group_texts(), self.cells, strict=True):
            yield self._flat(([text] for text in group), map(self._texts, cells))

    def group_texts(self) -> Iterator[tuple[str, ...]]:
        """For each row its key as people read it: (all) for all values together, NULL for none."""
        return map(group_texts, self.keys, self.together or ((),) * len(self.keys))

    def _texts(self, cell: Cell) -> list[str]:
        found = list(cell.texts())
        if self.has_consistent:
            low, high = cell.interval
            text = interval_text(estimate=cell.consistent, low=low, high=high)
            found.append(text.estimate or "-")
        return found

    @property
    def sure(self) -> str:
        """The confidence of the intervals: `each with 95 percent confidence`; '' for
        probabilities."""
        if self.confidence >= 1.0:
            return ""
        # The certified confidence has many digits. Round it down to four decimals.
        together = math.floor((self.simultaneous or 0.0) * 1e4) / 1e4
        percent = percent_text(together or self.confidence)
        which = "all at once" if self.simultaneous is not None else "each"
        least = "at least " if self.confidences else ""
        return f"{which} with {least}{percent} percent confidence{chosen_text(self.selected_from)}"

    def plot(self, title: str | None = None) -> Plot:
        """The first 40 rows as dots on the bands of their intervals, a panel for each column.

        Raises:
            ConfigError: there are no numbers.
        """
        if not (self.columns and self.cells):
            raise ConfigError("table", "have numbers to be plotted")
        names = [", ".join(texts) for texts in islice(self.group_texts(), MOST_ROWS)]
        panels = tuple(
            Panel(
                column,
                tuple(
                    row_of(name, cells[i].estimate, cells[i].interval)
                    for name, cells in zip(names, self.cells, strict=False)
                ),
            )
            for i, column in enumerate(self.columns)
        )
        more = len(self.cells) - len(names)
        notes = (
            f"Bands are intervals, {self.sure}." if self.sure else "",
            self.looking,
            f"{more:,} more row{'s' * (more > 1)}." if more else "",
        )
        by = f" by {', '.join(self.groups)}" if self.groups else ""
        given = f"{', '.join(self.columns)}{by}" if title is None else title
        return plot_of_panels(given, panels, tuple(note for note in notes if note))

    def notes(self) -> list[str]:
        """The facts of the whole table: confidence, cost, its remarks, and the error of bins."""
        # Probabilities are no intervals.
        cost = self.cost.of_sources(cell.source for cells in self.cells for cell in cells)
        found = [f"{self.sure}; {cost}" if self.sure else cost]
        found += [note for note in (self.looking, self.laws, *self.remarks) if note]
        for name, cell in zip(self.columns, self.cells[0] if self.cells else (), strict=False):
            if cell.binning is not None:
                error, of = cell.binning["error"], cell.binning["of"]
                whose = "" if of == "value" else f" per {of}"
                found.append(f"{name}: by the middles of bins, {error:g} off at most{whose}")
        return found

    @property
    def laws(self) -> str:
        """The laws of the intervals, in one line; '' where released answers agree."""
        told = [c.statement for cells in self.cells for c in cells if c.statement is not None]
        return laws_text(
            [one.law for one in told],
            error=max((one.error for one in told), default=0.0),
            disagreements=max((one.disagreements for one in told), default=0),
        )

    def _looked_numbers(self) -> Iterator[LookedNumber]:
        for cell in (cell for cells in self.cells for cell in cells):
            if (looked := cell.after_looking) is not None and not math.isnan(cell.estimate):
                low, high = looked.largest
                reach = (cell.estimate - low, high - cell.estimate)
                yield LookedNumber(cell.interval.length, looked.at_once.length, reach)

    def _lines(self) -> Iterator[list[str]]:
        for group, cells in islice(zip(self.group_texts(), self.cells, strict=True), MOST_SHOWN):
            numbers = ([self._line_of(cell)] for cell in cells)
            yield self._flat(([text] for text in group), numbers)

    def _line_of(self, cell: Cell) -> str:
        estimate, _, _, *consistent = self._texts(cell)
        return "  ".join([estimate, f"[{cell.interval}]", *(f"({c})" for c in consistent)])

    def _header(self) -> Sequence[str]:
        return self._flat(([name] for name in self.groups), ([name] for name in self.columns))

    def _rest(self) -> list[str]:
        more = len(self) - MOST_SHOWN
        return [*([f"{more} more rows"] if more > 0 else []), *self.notes()]

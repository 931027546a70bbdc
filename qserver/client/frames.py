"""Results as columns, as rows and as plots: for data frames, a terminal and a notebook.

pandas, polars and DuckDB take a result as it is, by `__arrow_c_stream__`. The columns are made by
pyarrow where it is installed, which the whole package brings, else by nanoarrow, which is small.

A plot as a notebook shows it: SVG that can be saved, without a plotting library.

Numbers of an answer or a table stand each on the band of its interval.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from qserver.answering.plots.intervals import IntervalChart, Panel, Row, svg_of_intervals
from qserver.errors import ConfigError
from qserver.text import aligned, interval_text

Kind = Literal["text", "number"]
_ARROW_TYPES: Mapping[Kind, str] = {"text": "string", "number": "float64"}


@dataclass(frozen=True)
class Column:
    """One column of a result.

    Args:
        values: texts, or floats; None where there is no value.
    """

    name: str
    kind: Kind
    values: Sequence[Any]


class Framed(ABC):
    """A result of rows and columns."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """One dict per row."""

    @abstractmethod
    def frame(self) -> list[Column]:
        """The columns, all of the same length; None for a missing number."""

    def to_pandas(self) -> Any:
        """`records` as a pandas.DataFrame; ConfigError if pandas is not installed."""
        names = [column.name for column in self.frame()]
        return library("pandas").DataFrame.from_records(self.records(), columns=names)

    def to_arrow(self) -> Any:
        """The columns as a pyarrow.Table; ConfigError if pyarrow is not installed."""
        return _pyarrow_table(library("pyarrow"), self.frame())

    def to_polars(self) -> Any:
        """The columns as a polars.DataFrame; ConfigError if polars is not installed."""
        return library("polars").DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The columns as a stream of Arrow's C interface (PyCapsule); one batch.

        Raises:
            ConfigError: neither pyarrow nor nanoarrow is installed.
        """
        try:
            arrow = import_module("pyarrow")
        except ImportError:
            stream = _nanoarrow_stream(library("nanoarrow"), self.frame())
        else:
            stream = _pyarrow_table(arrow, self.frame())
        return stream.__arrow_c_stream__(requested_schema)


def library(name: str) -> Any:
    """A library that only some results need; ConfigError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as exc:
        raise ConfigError(name, "be installed for this", hint=f"`pip install {name}`.") from exc


def _pyarrow_table(arrow: Any, columns: Sequence[Column]) -> Any:
    arrays = [arrow.array(c.values, getattr(arrow, _ARROW_TYPES[c.kind])()) for c in columns]
    return arrow.Table.from_arrays(arrays, names=[c.name for c in columns])


def _nanoarrow_stream(arrow: Any, columns: Sequence[Column]) -> Any:
    types = {c.name: getattr(arrow, _ARROW_TYPES[c.kind])() for c in columns}
    children = [arrow.c_array(list(c.values), types[c.name]) for c in columns]
    n_rows = len(columns[0].values) if columns else 0
    whole = arrow.c_array_from_buffers(
        arrow.struct(types), length=n_rows, buffers=[None], null_count=0, children=children
    )
    return arrow.c_array_stream(whole)


_NUMBER = re.compile(r"-|-?[0-9,]+(\.[0-9]+)?")
MOST_SHOWN = 20
"""How many rows a terminal or a notebook shows."""


class Listing(Framed):
    """Rows of texts below a header, and the same rows as records."""

    @abstractmethod
    def _header(self) -> Sequence[str]:
        """The names of the columns."""

    @abstractmethod
    def _lines(self) -> Iterable[list[str]]:
        """The texts of the shown rows."""

    @abstractmethod
    def _rest(self) -> list[str]:
        """The lines below the rows."""

    def __repr__(self) -> str:
        columns = zip(*([*self._header()], *self._lines()), strict=True)
        lines = ["  ".join(row) for row in zip(*map(_lined_up, columns), strict=True)]
        return "\n".join([*(line.rstrip() for line in lines), *self._rest()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._header())
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in self._lines()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{'<br>'.join(map(escape, self._rest()))}</p>"
        )


def _lined_up(column: Sequence[str]) -> list[str]:
    """The texts of a column, its name first, at one width: numbers by their decimal points."""
    name, *texts = column
    is_number = bool(texts) and all(map(_NUMBER.fullmatch, texts))
    shown = [name, *(aligned(texts) if is_number else texts)]
    width = max(map(len, shown))
    return [text.rjust(width) if is_number else text.ljust(width) for text in shown]


@dataclass(frozen=True)
class Plot:
    """An SVG document; a notebook shows it, `save` writes it."""

    title: str
    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the plot to a file; replaces an existing one.

        Raises:
            ConfigError: the name does not end in .svg, or the file cannot be written.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise ConfigError("path", "end in .svg", place.name)
        try:
            place.write_text(self.svg, encoding="utf-8")
        except OSError as exc:
            raise ConfigError("path", f"be a file that can be written ({exc.strerror})") from exc


def plot_of_panels(title: str, panels: tuple[Panel, ...], notes: tuple[str, ...]) -> Plot:
    """Each number on the band of its interval."""
    said = [
        f"{', '.join(part for part in (panel.label, row.name) if part)}: {row.text}".lstrip(": ")
        for panel in panels
        for row in panel.rows
    ]
    chart = IntervalChart(title, " ".join(("; ".join(said) + ".", *notes)), panels, notes)
    return Plot(title, svg_of_intervals(chart))


def row_of(name: str, estimate: float, ends: Iterable[float]) -> Row:
    """A number with the ends of its interval."""
    low, high = ends
    known = None if math.isnan(estimate) else estimate
    text = interval_text(estimate=known, low=low, high=high)
    said = f"{text.estimate or '-'}  [{text.low} to {text.high}]"
    return Row(name, known, low, high, said)

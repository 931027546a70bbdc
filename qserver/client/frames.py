"""Results as columns, for data frames and for whatever reads Arrow's C stream.

pandas, polars and DuckDB take a result as it is, by `__arrow_c_stream__`. The columns are made by
pyarrow where it is installed, which the whole package brings, else by nanoarrow, which is small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from qserver.errors import ConfigError

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
    """A result that is rows and columns."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """One dict per row."""

    @abstractmethod
    def frame(self) -> list[Column]:
        """The columns, all of the same length; what has no number is None."""

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
    """A library that only some results need; ConfigError where it is not installed."""
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

"""What one SELECT gives to the one that reads it: columns, and what is done with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Protocol

from sqlglot import exp

from qserver.query.sql.exactness import UNSAID, Exactness
from qserver.query.sql.order_by import Compare, Every, Missing, Opposite, Test
from qserver.query.sql.shaping.ranks import RankKind
from qserver.query.sql.shaping.rounding import Rounding
from qserver.query.sql.shell.records import Named, Records
from qserver.query.sql.statement import Bounds
from qserver.query.sql.text import SqlText

PLACE = "o"
"""The column that keeps the order of rows."""


@dataclass(frozen=True)
class Ranked:
    """A rank by a number that is not released yet.

    Args:
        number: which column of numbers; parties: which column tells who is ranked among whom.
        kind, n_tiles: as of `Rank`.
    """

    number: int
    descending: bool
    parties: int | None
    kind: RankKind
    n_tiles: int = 1


@dataclass(frozen=True)
class Value:
    """An expression in terms of the engine.

    Args:
        node: it gives a public value, or the text of a number.
        is_number: whether it is a reference to numbers, not a public value.
        column: the column that it is, by its number; None where it is calculated.
        together: the column that says whether all values of it are together; None for none.
        course: all periods that it can be, in the order of time.
        is_period: whether it is periods in whatever order, as in a UNION.
        digits: how it is rounded once it is released.
        rank: it is no column of the engine, but this rank.
        order: the place of the grouping that it is.
        may_lack: whether it has no value where there is no record, as an average has not.
        is_label: whether it is a label, whose order in the domain is not that of texts.
    """

    node: exp.Expr
    is_number: bool = False
    column: int | None = None
    together: int | None = None
    course: tuple[str, ...] = ()
    is_period: bool = False
    digits: Rounding | None = None
    rank: Ranked | None = None
    order: int | None = None
    exactness: Exactness = UNSAID
    may_lack: bool = False
    is_label: bool = False

    @property
    def alone(self) -> Value:
        """The same as part of an expression, which has no name and no order of its own."""
        return replace(
            self,
            column=None,
            together=None,
            course=(),
            is_period=False,
            order=None,
            digits=None,
        )


@dataclass(frozen=True, kw_only=True)
class Column(Value):
    """A column.

    Args:
        id: its number; in the engine it is called c and this.
        name: what it is called; '' for none.
        is_extra: whether SELECT does not list it.
        is_merged: whether USING makes it one with a column of an earlier table.
        stop: where its item ends in the text; None for none.
        said: what the text has for it, for errors to point at.
    """

    id: int
    name: str = ""
    is_extra: bool = False
    is_merged: bool = False
    stop: int | None = None
    bounds: Bounds | None = None
    said: exp.Expr | None = field(default=None, compare=False)

    @classmethod
    def of(cls, value: Value, id_: int, name: str = "") -> Column:
        """The column that has a value."""
        return cls(
            **{one.name: getattr(value, one.name) for one in fields(Value)}, id=id_, name=name
        )

    def read_by(self, alias: str) -> Value:
        """What it is in a SELECT that calls its table so."""
        own = {one.name: getattr(self, one.name) for one in fields(Value)}
        node = exp.column(self.sql, table=alias or None)
        return Value(**{**own, "node": node, "column": self.id})

    @property
    def sql(self) -> str:
        """What it is called in the engine."""
        return called(self.id)


def renumbered(test: Test, of: Mapping[int, int]) -> Test:
    """A test of the same columns by other numbers."""

    def side(one: int | Fraction) -> int | Fraction:
        return one if isinstance(one, Fraction) else of.get(one, one)

    if isinstance(test, Compare):
        return Compare(side(test.left), test.by, side(test.right))
    if isinstance(test, Missing):
        return Missing(of.get(test.column, test.column))
    if isinstance(test, Every):
        return Every(tuple(renumbered(part, of) for part in test.parts))
    return Opposite(renumbered(test.of, of))


class Reader(Protocol):
    """What reads the SELECTs of one text, for the parts of one of them."""

    records: Records
    remarks: list[str]

    @property
    def source(self) -> SqlText:
        """The text."""
        ...

    def next_id(self) -> int:
        """A number for a new column."""
        ...

    def relation(
        self, node: exp.Expr, env: Mapping[str, Named], *, has_record: bool = False
    ) -> Relation:
        """What a SELECT within another one gives; raises SqlError and CapacityError."""
        ...


def called(column: int) -> str:
    """What a column is called in the engine."""
    return f"c{column}"


@dataclass(frozen=True)
class SortBy:
    """A key of ORDER BY: a column, which is public or a number, or the rank that it stands for."""

    column: int
    is_number: bool
    descending: bool
    nulls_first: bool
    parties: int | None = None


@dataclass(frozen=True)
class First:
    """That rows are the first ones of their parties by a number."""

    rank: Ranked
    n: int


@dataclass(frozen=True)
class Relation:
    """A SELECT in terms of the engine.

    Args:
        query: it has all columns, and the place of each row.
        columns: those that can be named, in order, and further numbers that the rest is about.
        hidden: columns without a name that the rest is about.
        tests: which rows stay by their numbers, once these are released; all of these.
        firsts: which rows stay by their ranks.
        keys, limit, offset: ORDER BY and LIMIT, where they are not done yet.
        shown: what the rows that are left are ordered by.
        differs: the UNION that says that no two of its rows are the same.
        at: an item, for errors to point at.
    """

    query: exp.Expr
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...] = ()
    tests: tuple[Test, ...] = ()
    firsts: tuple[First, ...] = ()
    keys: tuple[SortBy, ...] = ()
    limit: int | None = None
    offset: int = 0
    shown: tuple[SortBy, ...] = ()
    differs: exp.Expr | None = field(default=None, compare=False)
    at: exp.Expr = field(default_factory=exp.null, compare=False)

    def merged(self) -> Relation:
        """The relation, in which hidden numbers are those of SELECT where they are the same."""
        shown = {c.node: c.id for c in reversed(self.columns) if c.is_number}
        of = {c.id: shown[c.node] for c in self.hidden if c.is_number and c.node in shown}
        if not of:
            return self

        def rank(one: Ranked) -> Ranked:
            return replace(one, number=of.get(one.number, one.number))

        return replace(
            self,
            columns=tuple(
                c if c.rank is None else replace(c, rank=rank(c.rank)) for c in self.columns
            ),
            hidden=tuple(c for c in self.hidden if c.id not in of),
            tests=tuple(renumbered(test, of) for test in self.tests),
            firsts=tuple(replace(one, rank=rank(one.rank)) for one in self.firsts),
            keys=tuple(replace(key, column=of.get(key.column, key.column)) for key in self.keys),
            shown=tuple(replace(key, column=of.get(key.column, key.column)) for key in self.shown),
        )

    @property
    def is_cut(self) -> bool:
        """Whether rows are left out by LIMIT or OFFSET, once numbers are released."""
        return self.limit is not None or self.offset > 0

    @property
    def is_plain(self) -> bool:
        """Whether no released number decides which rows there are."""
        return not self.tests and not self.firsts and not self.is_cut

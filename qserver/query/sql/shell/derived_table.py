"""The result of a SELECT for its reader: columns, and operations on their numbers."""

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
        number: the column of numbers; parties: the column of parties.
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
        node: gives a public value, or the text of a number.
        is_number: whether it refers to numbers, not to a public value.
        column: its column's number; None if calculated.
        together: column that marks totals over all its values, or None.
        course: all its possible periods, in the order of time.
        is_period: whether it has periods in any order, as in a UNION.
        digits: its rounding once released.
        rank: the rank that it stands for.
        order: the place of its grouping.
        may_lack: whether it has no value without a record, as an average.
        is_label: whether it is a label, ordered as in the domain, not as text.
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
        """This value as part of an expression, without name and order."""
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
        """The column in a SELECT with this name of its table."""
        own = {one.name: getattr(self, one.name) for one in fields(Value)}
        node = exp.column(self.sql, table=alias or None)
        return Value(**{**own, "node": node, "column": self.id})

    @property
    def sql(self) -> str:
        """Its name in the engine."""
        return called(self.id)


def renumbered(test: Test, of: Mapping[int, int]) -> Test:
    """A test with renumbered columns."""

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
    """The reader of a text's SELECTs, for parts of one of them."""

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
        """The result of a nested SELECT; raises SqlError and CapacityError."""
        ...


def called(column: int) -> str:
    """The name of a column in the engine."""
    return f"c{column}"


@dataclass(frozen=True)
class SortBy:
    """A key of ORDER BY: a column, public or of numbers, or a rank."""

    column: int
    is_number: bool
    descending: bool
    nulls_first: bool
    parties: int | None = None


@dataclass(frozen=True)
class First:
    """Test whether rows are the first of their parties by a number."""

    rank: Ranked
    n: int


@dataclass(frozen=True)
class Relation:
    """A SELECT in terms of the engine.

    Args:
        query: with all columns, and the place of each row.
        columns: nameable ones, in order, and further numbers in use.
        hidden: unnamed columns in use.
        tests: on released numbers; a row must pass all.
        firsts: ranks that rows need to stay.
        keys, limit, offset: ORDER BY and LIMIT still to be applied.
        shown: final order of rows.
        differs: the UNION that requires distinct rows.
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
        """The relation with hidden numbers replaced by equal ones of SELECT."""
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
        """Whether LIMIT or OFFSET drops rows once numbers are released."""
        return self.limit is not None or self.offset > 0

    @property
    def is_plain(self) -> bool:
        """Whether no released number decides about rows."""
        return not self.tests and not self.firsts and not self.is_cut

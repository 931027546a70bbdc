"""Run the parsed text, and make the statement's table of its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from qserver.errors import CapacityError, EngineError, InputError, SqlError
from qserver.query.domain import Domain, decimal_text
from qserver.query.linear_query import LinearQuery, checked_span, linear_query
from qserver.query.sealed_periods import clipped
from qserver.query.sql.attributes import Names
from qserver.query.sql.engine.run import run_typed
from qserver.query.sql.exactness import UNSAID, Clauses
from qserver.query.sql.functions.function_of_sums import Binning, Combined
from qserver.query.sql.functions.group_count import Passing, columns_of
from qserver.query.sql.functions.item_meaning import Item, Linear, Several
from qserver.query.sql.functions.quantile import DAYS_SAID, is_day
from qserver.query.sql.order_by import (
    PLAIN,
    Every,
    Shape,
    SortKey,
    Top,
    sides_of,
)
from qserver.query.sql.regions import ProductTerm
from qserver.query.sql.select import cast_to
from qserver.query.sql.shaping.ranks import Rank
from qserver.query.sql.shaping.units_of_measure import COUNTS, Unit
from qserver.query.sql.shell.derived_table import (
    PLACE,
    Column,
    Relation,
    SortBy,
    called,
    renumbered,
)
from qserver.query.sql.shell.engine_sql import aliased
from qserver.query.sql.shell.formulas import Formulas
from qserver.query.sql.shell.functions import has_kinks
from qserver.query.sql.shell.selects import Env, Shell, no_event, same_rows
from qserver.query.sql.statement import (
    MAX_CELLS,
    Bounds,
    Cell,
    Course,
    GroupKind,
    Ratio,
    Row,
    Statement,
    Sum,
)
from qserver.query.sql.text import SqlText
from qserver.query.weights import ScaledWeights

_NOTHING = Linear(())
_KINDS: Mapping[str, GroupKind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "number"),
    "BOOLEAN": "truth",
    "DATE": "day",
    "TIMESTAMP": "time",
}
_TIMES: Mapping[object, GroupKind] = {
    exp.DType.DATE: "day", exp.DType.TIMESTAMP: "time", exp.DType.TIMESTAMPTZ: "time"
}  # fmt: skip
_OF_BINS: Mapping[str, GroupKind] = {"integer": "whole", "real": "number"}
_UNRANKED = (
    "Groups of missing values are neither ranked nor chosen among others; COALESCE(a, 'none') "
    "names them, so that they are."
)


def table_of(shell: Shell, root: exp.Expr, env: Env) -> Statement:
    """The table of a text.

    Raises:
        SqlError: it cannot be answered; points at the place.
        CapacityError: it asks for too much.
    """
    reader = Tables(shell)
    shell.counts = reader.counted
    relation = shell.relation(root, env)
    found = reader.part(relation)
    return replace(found, remarks=(*dict.fromkeys(shell.remarks), *found.remarks))


@dataclass
class _Rows:
    """The rows of the engine, by the names of its columns."""

    places: Mapping[str, int]
    rows: Sequence[tuple[object, ...]]
    kinds: Sequence[str]

    def kind(self, column: int) -> str:
        """DuckDB's name of a column's type."""
        return self.kinds[self.places[called(column)]]

    def of(self, column: int) -> list[object]:
        """The values of a column."""
        at = self.places[called(column)]
        return [row[at] for row in self.rows]


def _cast_of(said: exp.Expr | None) -> GroupKind | None:
    """The kind of a cast that keeps the value, or None."""
    to = None if said is None else cast_to(said)
    if to is None:
        return None
    is_number = to.is_type("FLOAT", "DOUBLE", "DECIMAL")
    return "text" if to.is_type(*exp.DataType.TEXT_TYPES) else "number" if is_number else None


class Tables:
    """Makes tables of relations of one text."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._source = shell.source
        self._names: Names = shell.names
        self._domain: Domain = shell.names.domain
        self._formulas = Formulas(shell.source, shell.cores, shell.counted)

    def counted(self, relation: Relation) -> Several:
        """The number of a relation's rows that pass its tests."""
        if relation.firsts:
            raise no_groups(self._source)
        return passing_groups(self.part(relation))

    def part(self, relation: Relation) -> Statement:
        """The table of a relation."""
        at, numbers, groups = relation.at, self._numbers(relation), _groups(relation)
        rows = self._run(relation)
        _check_size(len(rows.rows), len(numbers))
        cells, units = self._cells(rows, numbers, at)
        _check_compared(cells)
        found = _named_rows(rows, groups, cells)
        if relation.differs is not None and len({row.group for row in found}) < len(found):
            raise same_rows(self._source, relation.differs)
        unnamed = frozenset(i for i, row in enumerate(found) if row.is_unnamed)
        place = {c.id: k for k, c in enumerate(numbers)}
        index = {**place, **self._same(relation, numbers)}
        ranks = tuple(self._rank(c, rows, found, index) for c in relation.columns if c.rank)
        shape = self._shape(relation, rows, unnamed, index)
        self._check_bounds(relation, numbers, shape, ranks)
        found, bounds = self._events(found, numbers, at)
        chooses = bool(ranks or shape.chooses or shape.tops)
        exactness = tuple(c.exactness for c in numbers)
        digits = tuple(c.digits for c in numbers)
        return Statement(
            source=self._source,
            explains=False,
            columns=tuple(c.name or self._source.source(at) for c in numbers),
            groups=tuple(c.name for c in groups),
            rows=found,
            clauses=Clauses(),
            bounds=bounds,
            shape=shape,
            digits=digits if any(digits) else (),
            ranks=ranks,
            exactness=exactness if any(one != UNSAID for one in exactness) else (),
            places=_places(relation, groups, place),
            course=next((Course(k, c.course) for k, c in enumerate(groups) if c.course), None),
            remarks=(
                *((_UNRANKED,) if unnamed and chooses else ()),
                *((DAYS_SAID,) if any(is_day(c) for row in found for c in row.cells) else ()),
            ),
            units=tuple(units),
            stops=tuple(c.stop for c in numbers),
            kinds=tuple(self._kind(c, rows) for c in groups),
        )

    def _kind(self, column: Column, rows: _Rows) -> GroupKind:
        """The kind of a group's names."""
        said = column.said.unalias() if column.said is not None else None
        is_text = isinstance(said, exp.Cast) and said.is_type(*exp.DataType.TEXT_TYPES)
        if is_text or isinstance(said, exp.ToChar):
            return "text"
        time = self._time(said)
        if column.course or column.is_period or time:
            return time or "day"
        if (cast := _cast_of(said)) is not None:
            return cast
        kind = _KINDS.get(rows.kind(column.id), "text")
        if kind != "text" or said is None or not self._names.is_known(said):
            return kind
        of = self._domain.attributes[self._names.any_axis(said)].kind
        return _OF_BINS.get(of, kind) if self._names.level(said) is None else kind

    def _time(self, said: exp.Expr | None) -> GroupKind | None:
        """Whether a function of days gives days or times, as in PostgreSQL; None for others."""
        known = (c for c in said.find_all(exp.Column) if self._names.is_known(c)) if said else ()
        if not any(self._domain.attributes[self._names.any_axis(c)].periods for c in known):
            return None
        match said:
            case exp.TimestampTrunc() | exp.DateTrunc():
                return "time"
            case exp.Cast():
                return _TIMES.get(said.to.this)
            case exp.Add() | exp.Sub() if isinstance(said.expression.unnest(), exp.Interval):
                return "time"
            case exp.Anonymous() if said.name.upper() == "TIME_BUCKET":
                return "day"
        return None

    def _check_bounds(
        self, relation: Relation, numbers: Sequence[Column], shape: Shape, ranks: Sequence[Rank]
    ) -> None:
        events = [c for c in numbers if c.bounds is not None]
        if not events:
            return
        at = relation.at
        if len(events) < len([c for c in relation.columns if c.is_number]):
            raise self._source.refuse(
                "select either probabilities or numbers",
                at,
                hint="Ask for the numbers in a statement that says WITHIN.",
            )
        if shape != PLAIN or ranks or len(events) < len(numbers):
            raise self._source.refuse(
                "not order or choose by probabilities",
                at,
                hint="Nearest: the same without HAVING, ORDER BY and LIMIT.",
            )

    def _events(
        self, rows: tuple[Row, ...], numbers: Sequence[Column], at: exp.Expr
    ) -> tuple[tuple[Row, ...], tuple[Bounds, ...]]:
        """The rows of PROBABILITY, and its ends; none for NULL."""
        ends = [c.bounds for c in numbers if c.bounds is not None]
        if not ends:
            return rows, ()
        rows = tuple(row for row in rows if not any(_is_null(cell) for cell in row.cells))
        moved = {
            tuple(cell.offset if isinstance(cell, Sum) else None for cell in row.cells)
            for row in rows
        }
        offsets = next(iter(moved), (Fraction(0),) * len(ends))
        if len(moved) > 1 or any(offset is None for offset in offsets):
            raise no_event(self._source, at)
        bounds = tuple(
            Bounds(of.low - float(by or 0), of.high - float(by or 0))
            for of, by in zip(ends, offsets, strict=True)
        )
        cells = [
            tuple(replace(cell, offset=Fraction(0)) for cell in row.cells if isinstance(cell, Sum))
            for row in rows
        ]
        pairs = zip(rows, cells, strict=True)
        return tuple(replace(row, cells=of) for row, of in pairs), bounds

    def _run(self, relation: Relation) -> _Rows:
        names = list(
            dict.fromkeys(c.sql for c in (*relation.columns, *relation.hidden) if c.rank is None)
        )
        whole = aliased(relation.query, "w")
        parts = [exp.column(name) for name in names] or [exp.column(PLACE)]
        query = exp.Select(expressions=parts).from_(whole)
        query = query.order_by(exp.column(PLACE), copy=False)
        tables = [core.table(f"r{core.index}") for core in self._shell.cores]
        try:
            found = run_typed(query, tables)
        except EngineError as exc:
            raise self._source.refuse(exc.condition, relation.at) from exc
        return _Rows({name: i for i, name in enumerate(names)}, found.rows, found.kinds)

    def _numbers(self, relation: Relation) -> list[Column]:
        """The columns of numbers: of SELECT, and others in tests and keys."""
        shown = [c for c in relation.columns if c.is_number]
        by_id = {c.id: c for c in (*relation.columns, *relation.hidden)}
        nodes = [c.node for c in shown]
        for one in _wanted(relation):
            column = by_id[one]
            if column not in shown and column.node not in nodes:
                shown.append(column)
                nodes.append(column.node)
        return shown

    def _same(self, relation: Relation, numbers: Sequence[Column]) -> dict[int, int]:
        """Place of the equal column for each hidden column of numbers."""
        by_id = {c.id: c for c in (*relation.columns, *relation.hidden)}
        nodes = [c.node for c in numbers]
        return {i: nodes.index(by_id[i].node) for i in _wanted(relation)}

    def _cells(
        self, rows: _Rows, numbers: Sequence[Column], at: exp.Expr
    ) -> tuple[list[list[Cell]], list[Unit]]:
        """The cells of each row, and the unit of each column."""
        found = [list[Cell]() for _ in rows.rows]
        units = list[Unit]()
        for column in numbers:
            own, place = dict[Unit, None](), column.said or at
            for row, text in zip(found, rows.of(column.id), strict=True):
                if text is None:  # what LAG gives where there is no other row
                    row.append(Sum(self._query(_NOTHING, place), offset=None))
                    continue
                item, unit = self._formulas.read(str(text), place)
                own |= {} if unit is None else {unit: None}
                row.append(self._cell(item, place))
            if len(own) > 1:
                shown = " and ".join(unit.text for unit in own)
                raise self._source.refuse(
                    f"have numbers of one unit at each place of a UNION, got {shown}",
                    at,
                    hint="They need a WITHIN each: ask the SELECTs one by one.",
                )
            units.append(next(iter(own), COUNTS))
        return found, units

    def _cell(self, item: Item, at: exp.Expr) -> Cell:
        if isinstance(item, Several):
            binning = Binning(item.error, "value") if item.error else None
            queries = tuple(self._query(part, at) for part in item.parts)
            return Combined(queries, item.function, binning)
        if isinstance(item, Linear):
            binning = Binning(item.error, "record") if item.error else None
            return Sum(self._query(item, at), binning, item.offset)
        error = item.numerator.error
        of: Literal["average", "numerator"] = "average" if item.is_average else "numerator"
        return Ratio(
            self._query(item.numerator, at),
            self._query(item.denominator, at),
            item.low,
            item.high,
            Binning(error, of) if error else None,
        )

    def _query(self, item: Linear, at: exp.Expr) -> LinearQuery:
        try:
            terms = [(t.coefficient, t.factors) for t in item.terms]
            found = checked_span(linear_query(self._domain.sizes, terms))
        except InputError as exc:
            raise self._source.refuse(exc.condition, at) from exc
        return clipped(found, self._domain, name=self._source.name)

    def _rank(
        self,
        column: Column,
        rows: _Rows,
        found: Sequence[Row],
        index: Mapping[int, int],
    ) -> Rank:
        """The rank of a column; NULL is not ranked."""
        rank = column.rank
        assert rank is not None  # noqa: S101 - the caller chose it so
        k = index[rank.number]
        out = [i for i, row in enumerate(found) if row.is_unnamed or _is_null(row.cells[k])]
        parties = _parties(rank.parties, rows, frozenset(out))
        return Rank(column.name, k, rank.descending, parties, rank.kind, rank.n_tiles)

    def _shape(
        self,
        relation: Relation,
        rows: _Rows,
        unnamed: frozenset[int],
        index: Mapping[int, int],
    ) -> Shape:
        if relation.is_plain and not (relation.keys or relation.shown):
            return PLAIN
        tests = tuple(renumbered(test, index) for test in relation.tests)
        keys = self._keys(relation.keys, rows, index)
        self._check_keys(relation, rows)
        tops = tuple(
            Top(
                SortKey(index[first.rank.number], descending=first.rank.descending),
                _parties(first.rank.parties, rows, unnamed),
                first.n,
            )
            for first in relation.firsts
        )
        test = Every(tests) if tests else None
        shown = self._keys(relation.shown, rows, index)
        return Shape(test, keys, relation.limit, relation.offset, unnamed, tops, shown)

    def _keys(
        self, keys: Sequence[SortBy], rows: _Rows, index: Mapping[int, int]
    ) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(
                index[key.column] if key.is_number else None,
                () if key.is_number else _ranks(rows.of(key.column)),
                key.descending,
                key.nulls_first,
            )
            for key in keys
        )

    def _check_keys(self, relation: Relation, rows: _Rows) -> None:
        """SqlError unless earlier keys separate the parties of a rank in ORDER BY."""
        before = [list[object]() for _ in rows.rows]
        for key in relation.keys:
            if key.parties is not None:
                told = {
                    (*map(str, one), str(party))
                    for one, party in zip(before, rows.of(key.parties), strict=True)
                }
                if len(told) > len({tuple(map(str, one)) for one in before}):
                    raise self._source.refuse("order by the number that it ranks by", relation.at)
            if not key.is_number:
                for one, value in zip(before, rows.of(key.column), strict=True):
                    one.append(value)


def _is_null(cell: Cell) -> bool:
    return isinstance(cell, Sum) and cell.offset is None


def _check_size(n_rows: int, n_numbers: int) -> None:
    """CapacityError if a table has too many numbers."""
    if n_rows * n_numbers > MAX_CELLS:
        raise CapacityError(
            f"A text of SQL asks at most {MAX_CELLS:,} numbers, this one {n_rows * n_numbers:,}. "
            "Group by fewer values: WHERE leaves groups out."
        )


def _check_compared(cells: Sequence[Sequence[Cell]]) -> None:
    """CapacityError if a table compares too many numbers."""
    compared = (cell for row in cells for cell in row if isinstance(cell, Combined))
    n = sum(len(cell.queries) for cell in compared if has_kinks(cell.function))
    if n > MAX_CELLS:
        raise CapacityError(
            f"A text of SQL compares at most {MAX_CELLS:,} numbers by MIN, MAX and the like in all "
            f"of its cells, this one {n:,}. Group by fewer values: WHERE leaves groups out."
        )


def _named_rows(
    rows: _Rows, groups: Sequence[Column], cells: Sequence[Sequence[Cell]]
) -> tuple[Row, ...]:
    """The rows with their names and cells."""
    names = [[_name(value) for value in rows.of(c.id)] for c in groups]
    together = [
        [False] * len(rows.rows) if c.together is None else rows.of(c.together) for c in groups
    ]
    return tuple(
        Row(
            tuple(column[i] for column in names),
            tuple(row),
            tuple(k for k, flags in enumerate(together) if flags[i] and names[k][i] is None),
        )
        for i, row in enumerate(cells)
    )


def _places(
    relation: Relation, groups: Sequence[Column], place: Mapping[int, int]
) -> tuple[tuple[int | None, int | None], ...]:
    """Place of the group or the number of each item of SELECT."""
    listed = [c for c in relation.columns if not c.is_extra]
    return tuple(
        (None, place[c.id]) if c.is_number else (groups.index(c) if c.rank is None else None, None)
        for c in listed
    )


def _wanted(relation: Relation) -> list[int]:
    """Numbers in tests, ranks and keys."""
    ranks = [first.rank for first in relation.firsts]
    ranks += [c.rank for c in relation.columns if c.rank is not None]
    sides = [side for test in relation.tests for side in sides_of(test)]
    found = [side for side in sides if isinstance(side, int)]
    found += [rank.number for rank in ranks]
    found += [key.column for key in (*relation.keys, *relation.shown) if key.is_number]
    return list(dict.fromkeys(found))


def _groups(relation: Relation) -> list[Column]:
    """The public columns, groupings in the order of GROUP BY."""
    found = [c for c in relation.columns if not c.is_number and c.rank is None]
    return sorted(found, key=lambda c: len(found) if c.order is None else c.order)


def _parties(column: int | None, rows: _Rows, unnamed: frozenset[int]) -> tuple[int | None, ...]:
    """The party of each row; None with NULL among its groups."""
    of = [0] * len(rows.rows) if column is None else rows.of(column)
    return tuple(None if k in unnamed else int(str(party)) for k, party in enumerate(of))


def _ranks(values: Sequence[object]) -> tuple[int | None, ...]:
    return tuple(None if value is None else int(str(value)) for value in values)


def _name(value: object) -> str | None:
    """The name of a public value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return decimal_text(Fraction(str(value)))


def passing_groups(table: Statement) -> Several:
    """The number of a table's rows that pass its test.

    Raises:
        SqlError: it has no groups, cuts them by LIMIT, or tests numbers other than counts and sums.
    """
    shape, rows = table.shape, table.rows
    if shape.limit is not None or shape.offset or not table.groups or not rows:
        raise no_groups(table.source)
    columns = () if shape.test is None else columns_of(shape.test)
    cells = [[row.cells[k] for k in columns] for row in rows]
    sums = [[cell for cell in row if isinstance(cell, Sum) and cell.offset == 0] for row in cells]
    if shape.test is None or not columns or any(len(row) != len(columns) for row in sums):
        raise table.refuse(
            "count groups by counts and sums in HAVING, compared with numbers",
            "Nearest: HAVING COUNT(*) >= 50.",
        )
    whole = tuple(all(is_whole(row[k].query) for row in sums) for k in range(len(columns)))
    function = Passing(shape.test, columns, whole, len(rows))
    return Several(tuple(_linear(cell.query) for row in sums for cell in row), function)


def is_whole(query: LinearQuery) -> bool:
    """Whether a query's value is always whole."""
    return all(term.coefficient.denominator == 1 for term in query.terms)


def _linear(query: LinearQuery) -> Linear:
    return Linear(
        tuple(
            ProductTerm(
                term.coefficient,
                {f.axis: ScaledWeights(Fraction(1), f.weights) for f in term.factors},
            )
            for term in query.terms
        )
    )


def no_groups(source: SqlText) -> SqlError:
    """The error of a count of rows other than all groups."""
    return source.refuse(
        "count the groups of GROUP BY, without LIMIT",
        source.end,
        hint="Nearest: COUNT(*) FROM (SELECT a FROM ... GROUP BY a HAVING COUNT(*) >= 50).",
    )

"""UNION ALL: the rows of several SELECTs, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot import exp

from qserver.errors import CapacityError, SqlError
from qserver.query.sql.shaping.reading import Cut, Key
from qserver.query.sql.shaping.shape import PLAIN, Shape, SortKey
from qserver.query.sql.statement import Row
from qserver.query.sql.tables.part import Part
from qserver.query.sql.text import SqlText

MOST_NUMBERS = 1000
_T = TypeVar("_T")


def joined(
    parts: Sequence[Part],
    selects: Sequence[exp.Select],
    whole: exp.Expr,
    source: SqlText,
    cut_of: Callable[[exp.Expr], Cut],
) -> Part:
    """The table of a UNION ALL.

    Args:
        selects: the SELECT of each part, for errors.
        whole: what holds ORDER BY, LIMIT and OFFSET.
        cut_of: reads LIMIT and OFFSET.

    Raises:
        SqlError: the parts do not have the same kinds of items, or choose among their numbers.
        CapacityError: they ask for too many numbers.
    """
    first = parts[0]
    for part, select in zip(parts, selects, strict=True):
        _check(part, select, first, source)
    groups = [g for g, _ in first.places if g is not None]
    rows = tuple(row for part in parts for row in _rows(part))
    if sum(len(row.cells) for row in rows) > MOST_NUMBERS:
        raise CapacityError(f"A text of SQL asks at most {MOST_NUMBERS:,} numbers. Ask its parts.")
    names = tuple(first.groups[g] for g in groups)
    columns = tuple(first.columns[c] for _, c in first.places if c is not None)
    digits = _digits(parts)
    places = _numbered(first.places)
    keys = tuple(_key(one, names, columns, places, source) for one in _ordered(whole))
    shape = shape_of(rows, keys, cut_of(whole))
    if shape.is_public:
        kept = shape.places([[] for _ in rows])
        rows, shape = tuple(rows[i] for i in kept), PLAIN
    exactness = _of_columns(first, first.exactness)
    if any(part.exactness for part in parts[1:]):
        raise source.refuse(
            "say WITHIN behind the items of the first SELECT of a UNION, or at the end",
            selects[0].expressions[0],
        )
    return Part(
        columns,
        names,
        rows,
        shape=shape,
        digits=digits,
        exactness=exactness,
        places=places,
        units=_of_columns(first, first.units),
        stops=_of_columns(first, first.stops),
        remarks=tuple(dict.fromkeys(text for part in parts for text in part.remarks)),
    )


def shape_of(rows: Sequence[Row], keys: Sequence[Key], cut: Cut) -> Shape:
    """The order and cut of rows whose groups stand in the order of their first coming."""
    return Shape(
        None,
        tuple(
            SortKey(
                key.column,
                () if key.grouping is None else _ranks(rows, key.grouping),
                key.descending,
                key.nulls_first,
            )
            for key in keys
        ),
        cut.limit,
        cut.offset,
        frozenset(i for i, row in enumerate(rows) if row.is_unnamed),
    )


def _ranks(rows: Sequence[Row], which: int) -> tuple[int | None, ...]:
    """Per row the place of its group; None for NULL, and for all of them together."""
    names = list(dict.fromkeys(row.group[which] for row in rows))
    places = {name: i for i, name in enumerate(names) if name is not None}
    return tuple(None if (n := row.group[which]) is None else places[n] for row in rows)


def _check(part: Part, select: exp.Select, first: Part, source: SqlText) -> None:
    """Whether a part fits the first one; SqlError."""

    def refuse(condition: str, hint: str = "") -> SqlError:
        return source.refuse(condition, select.expressions[0], hint=hint)

    if part.bounds or part.ranks:
        raise refuse("ask for ranks and probabilities in a SELECT of their own, without UNION")
    if part.shape != PLAIN or len(part.places) != len(part.groups) + len(part.columns):
        raise refuse(
            "select what each part of a UNION groups by, and choose by numbers at its end",
            "Nearest: ORDER BY and LIMIT at the end of the whole text.",
        )
    kinds, expected = ([g is None for g, _ in one.places] for one in (part, first))
    if len(kinds) != len(expected):
        raise refuse(f"have {len(expected)} items in each SELECT of a UNION, as in the first")
    if kinds != expected:
        raise refuse(
            "have groups and numbers at the same places in each SELECT of a UNION",
            "Nearest: a text such as 'all' where the first SELECT has a group.",
        )
    units = zip(_of_columns(part, part.units), _of_columns(first, first.units), strict=True)
    for own, other in units:
        if own != other:
            raise refuse(
                f"have numbers of one unit at each place of a UNION, got {other.text} and "
                f"{own.text}",
                "They need a WITHIN each: ask the SELECTs one by one.",
            )


def _of_columns(part: Part, of: Sequence[_T]) -> tuple[_T, ...]:
    """What holds of each column, in the order of SELECT."""
    return tuple(of[c] for _, c in part.places if c is not None) if of else ()


def _rows(part: Part) -> list[Row]:
    """The rows with groups and numbers in the order of SELECT."""
    groups = [g for g, _ in part.places if g is not None]
    columns = [c for _, c in part.places if c is not None]
    return [
        Row(
            tuple(row.group[g] for g in groups),
            tuple(row.cells[c] for c in columns),
            tuple(k for k, g in enumerate(groups) if g in row.together),
        )
        for row in part.rows
    ]


def _digits(parts: Sequence[Part]) -> tuple[int | None, ...]:
    """Per column the most digits that a part shows; empty where none rounds."""
    first = parts[0].digits
    return first if all(part.digits == first for part in parts) else ()


def _numbered(
    places: Sequence[tuple[int | None, int | None]],
) -> tuple[tuple[int | None, int | None], ...]:
    found, n_groups, n_columns = list[tuple[int | None, int | None]](), 0, 0
    for group, _ in places:
        found.append((None, n_columns) if group is None else (n_groups, None))
        n_groups, n_columns = n_groups + (group is not None), n_columns + (group is None)
    return tuple(found)


def _ordered(whole: exp.Expr) -> list[exp.Ordered]:
    order = whole.args.get("order")
    return [] if order is None else list(order.expressions)


def _key(
    node: exp.Ordered,
    groups: Sequence[str],
    columns: Sequence[str],
    places: Sequence[tuple[int | None, int | None]],
    source: SqlText,
) -> Key:
    """What a UNION is ordered by: a column by its position or its name."""
    by, found = node.this.unnest(), None
    if isinstance(by, exp.Literal) and by.is_int and 1 <= int(by.name) <= len(places):
        found = places[int(by.name) - 1]
    elif isinstance(by, exp.Column) and not by.args.get("table"):
        called = [name.lower() for name in (*groups, *columns)]
        if (name := by.name.lower()) in called:
            k = called.index(name)
            found = (k, None) if k < len(groups) else (None, k - len(groups))
    if found is None:
        raise source.refuse(
            "order a UNION by the position or the name of an item of its first SELECT", by
        )
    return Key(*found, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

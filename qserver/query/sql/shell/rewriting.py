"""Spellings of SQL, rewritten into canonical ones; parts without effect are dropped.

`DATE_PART('month', d)`, `DATE_TRUNC(d, MONTH)`, `STARTS_WITH(a, 'x')`, `a = ANY (ARRAY['x'])`,
`MONTH(d) = 3`, `SAFE_DIVIDE(a, b)`, `GEOMEAN(a)`, `VAR(a)`, `TO_DATE('2024-03-01', ...)`,
`DATE '2024-03-01' - INTERVAL '14 days'` and `GROUP BY ALL`; casts, NULLIF below a division, and
schemas before names.

Also days in other notations, moved on the calendar, or joined to equal steps: `TIMESTAMP
'2024-03-01 00:00:00'`, `TO_TIMESTAMP(1709251200)`, `d + INTERVAL '1 month'`, `TIME_BUCKET('7 days',
d)` and `DATE_BIN('7 days', d, '2024-01-01')`. A moved or joined longer period counts by its first
day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from fractions import Fraction
from typing import Final, TypeGuard

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.calendar import UNITS, unit_of
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.logic import above, is_text
from qserver.query.sql.select import PLACE, keep_cast, keep_written
from qserver.query.sql.text import SqlText
from qserver.query.sql.values.point_values import fixed
from qserver.query.sql.values.record_functions import CALLED, FUNCTIONS
from qserver.query.sql.words import LAST_PERIODS, NO_CLOCK

_MIDNIGHT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T]00:00(?::00(?:\.0{1,9})?)?(?:Z|\+00(?::?00)?)?)?"
)
_DAYS: Final = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ})
_TO_DATES: Final = frozenset({"TO_TIMESTAMP", "TO_DATE", "TIMESTAMP", "DATE"})
_PART: Final = re.compile(r"([+-]?) *(\d{1,9})(?:\.0+)? *([a-z]*)[ ,]*")
_ISO: Final = re.compile(r"p(?:[+-]?\d+[ymwd])+")
_DAY_S: Final = 86_400
_SECONDS: Final = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60}
_SECONDS_OF: Final = {**_SECONDS, "h": 3600, "hour": 3600}
_DAYS_OF: Final = {"d": 1, "day": 1, "w": 7, "week": 7}
_MONTHS_OF: Final = {"mon": 1, "month": 1, "quarter": 3, "y": 12, "year": 12}
_WHOLE: Final = {1: "MONTH", 3: "QUARTER", 12: "YEAR"}
_NO_SHIFT: Final = frozenset(
    ["utc", "gmt", "uct", "z", "zulu", "etc/utc", "etc/gmt", "etc/uct", "+00", "+00:00", "0"]
)
_EPOCH: Final = {"year": 1970, "month": 1, "day": 1}
_LAST_DAY: Final = (date.max - date(**_EPOCH)).days
_FINEST: Final = "name whole days: a day is the finest time of"
_TRUNCATIONS: Final = (exp.DateTrunc, exp.TimestampTrunc)
_STEPS: Final = ("TIME_BUCKET", "DATE_BIN")
_ZONE_AND_TIME: Final = 2


def day_written(node: exp.Expr, names: Names) -> exp.Expr | None:
    """A day, or a function of days, in canonical form; None for anything else.

    Raises:
        SqlError: it is not a whole day, or depends on the clock.
    """
    if isinstance(node, exp.Add | exp.Sub):
        return _moved(node, names)
    if _is_zoned(node):
        return _in_zone(node, names)
    if isinstance(node, _TRUNCATIONS):
        if (zone := node.args.get("zone")) is not None:
            _check_zone(node, zone, names)
            node.set("zone", None)
        return _evaluated(node, names) if _text_of(node.this) else None
    if isinstance(node, exp.ToChar):
        return _as_text(node)
    if isinstance(node, exp.DateBin) or _called(node) in _STEPS:
        return _step(node, names)
    if _called(node) == "TO_TIMESTAMP" and len(node.expressions) == 1:
        return _of_seconds(node, names)
    return _literal(node)


def written_day(node: exp.Expr) -> exp.Expr | None:
    """The text of a day written as a time at midnight, or by a function, or None."""
    found = _literal(node)
    return found if isinstance(found, exp.Literal) else None


def _called(node: exp.Expr) -> str:
    return node.name.upper() if isinstance(node, exp.Anonymous) else ""


def _in_zone(node: exp.Expr, names: Names) -> exp.Expr | None:
    """The operand of AT TIME ZONE if that moves no midnight: UTC, or there and back."""
    of, zone = _of_zone(node)
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if _is_zoned(around) and _of_zone(around)[1] == zone:
        return None
    inner = of.unnest()
    if _is_zoned(inner) and _of_zone(inner)[1] == zone:
        return _of_zone(inner)[0]
    _check_zone(node, zone, names)
    return of


def _is_zoned(node: exp.Expr | None) -> TypeGuard[exp.Expr]:
    if isinstance(node, exp.Anonymous) and node.name.upper() == "TIMEZONE":
        return len(node.expressions) == _ZONE_AND_TIME
    return isinstance(node, exp.AtTimeZone)


def _of_zone(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """A time and its zone."""
    zone, of = node.expressions or (node.args["zone"], node.this)
    return of, zone


def _check_zone(node: exp.Expr, zone: exp.Expr, names: Names) -> None:
    if not (is_text(zone) and zone.name.lower() in _NO_SHIFT):
        raise _too_fine(node, names, "Nearest: AT TIME ZONE 'UTC'.")


def _too_fine(node: exp.Expr, names: Names, hint: str = "") -> SqlError:
    """The refusal to cut through a day, with the attribute's name."""
    known = (c for c in node.root().find_all(exp.Column) if names.is_known(c))
    of_days = [a.name for c in known if (a := names.domain.attributes[names.any_axis(c)]).periods]
    every = [a.name for a in names.domain.attributes if a.periods]
    name = (of_days + every)[:1]
    return names.source.refuse(f"{_FINEST} `{name[0] if name else 'days'}`", node, hint=hint)


def _literal(node: exp.Expr) -> exp.Expr | None:
    """A day written as a time at midnight, or by a function of texts."""
    if isinstance(node, exp.Cast) and node.to.this in _DAYS - {exp.DType.DATE}:
        of = node.this
    elif _called(node) in _TO_DATES and node.expressions:
        of = node.expressions[0]
    elif isinstance(node, exp.StrToDate | exp.StrToTime | exp.TsOrDsToDate | exp.Date):
        of = node.this
        if isinstance(of, exp.Column):
            return exp.cast(of, "DATE")
    else:
        return None
    found = _MIDNIGHT.fullmatch(of.name) if is_text(of) else None
    return None if found is None else exp.Literal.string(found[1])


def group_by_texts(select: exp.Select) -> None:
    """Group by TO_CHAR(DATE_TRUNC('month', d), ...) where SELECT says it and GROUP BY the inner."""
    group = select.args.get("group")
    for item in select.expressions:
        found = item.unalias().unnest()
        if isinstance(found, exp.ToChar) and isinstance(found.this.unnest(), _TRUNCATIONS):
            for one in [] if group is None else group.expressions:
                if one.unnest() == found.this.unnest():
                    one.replace(found.copy())


def _as_text(node: exp.ToChar) -> exp.Expr | None:
    """TO_CHAR of the first day of a longer period: that day, or the period itself."""
    of, said = node.this.unnest(), node.args.get("format")
    if not isinstance(of, _TRUNCATIONS) or not isinstance(said, exp.Literal):
        return None
    if said.name.upper() == "YYYY-MM-DD":
        return exp.cast(exp.cast(of.copy(), "DATE"), "TEXT")
    unit = of.args["unit"].name.upper()
    is_same = (unit, said.name.upper()) in (("MONTH", "YYYY-MM"), ("YEAR", "YYYY"))
    return exp.ToChar(this=of.this.copy(), format=said.copy()) if is_same else None


def _of_seconds(node: exp.Expr, names: Names) -> exp.Expr | None:
    """The day of seconds since 1970, given as a number or by an attribute."""
    [of] = node.expressions
    if isinstance(of, exp.Literal) and not of.is_string:
        days, rest = divmod(Fraction(of.name), _DAY_S)
        if rest or days > _LAST_DAY:
            raise _too_fine(node, names)
        return exp.Literal.string(str(date(**_EPOCH) + timedelta(days)))
    if not of.find(exp.Column):
        return None
    first = exp.DateFromParts(**{k: exp.Literal.number(n) for k, n in _EPOCH.items()})
    n_days = exp.Floor(this=exp.Div(this=of.copy(), expression=exp.Literal.number(_DAY_S)))
    return exp.cast(exp.Add(this=first, expression=exp.cast(n_days, "INT")), "TIMESTAMP")


def _date(text: str) -> exp.Cast:
    return exp.cast(exp.Literal.string(text), "DATE")


def _text_of(node: exp.Expr) -> str:
    """The written day, perhaps within casts to a day; '' for none."""
    node = node.unnest()
    while isinstance(node, exp.Cast) and node.to.this in _DAYS:
        node = node.this.unnest()
    return node.name if is_text(node) and unit_of(node.name) == "day" else ""


def _evaluated(node: exp.Expr, names: Names) -> exp.Literal:
    """The day that a function of a written one is."""
    found = node.copy()
    found.set("this", _date(_text_of(node.this)))
    try:
        return exp.Literal.string(str(fixed(exp.cast(found, "DATE"), names)))
    except (SqlError, ValueError) as exc:
        raise names.source.refuse("name days of the calendar", node) from exc


def _moved(node: exp.Add | exp.Sub, names: Names) -> exp.Expr | None:
    """A day moved by days, weeks, months or years.

    Calendar months: a missing day becomes the month's last.
    """
    start, by = node.this.unnest(), node.expression.unnest()
    if isinstance(node, exp.Sub) and isinstance(start, exp.Column) and is_text(by):
        return exp.Sub(this=start.copy(), expression=exp.cast(by.copy(), "DATE"))  # days between
    is_number = isinstance(by, exp.Literal) and by.is_int and bool(_text_of(start))
    if not (is_number or _is_length(by)):
        return None
    columns = list(start.find_all(exp.Column))
    of_days = [names.is_known(c) and names.domain.attributes[names.any_axis(c)] for c in columns]
    if not all(a and a.periods for a in of_days):
        raise names.source.refuse(
            "move days, not other values",
            node,
            hint="Nearest: move the other side: d >= DATE '2024-03-31' - INTERVAL '1 month'.",
        )
    if not columns and not _text_of(start):
        raise names.source.refuse(NO_CLOCK, node, hint=LAST_PERIODS)
    length = _length(exp.Literal.string(f"{by.name} days") if is_number else by)
    if length is None:
        raise _too_fine(node, names, "Nearest: INTERVAL '28 days'.")
    of = node.this
    for n, unit in zip(length, ("MONTH", "DAY"), strict=True):  # as PostgreSQL: months first
        if n or (unit == "DAY" and of is node.this):
            by = exp.Interval(this=exp.Literal.string(str(n)), unit=exp.var(unit))
            moved = type(node)(this=of.copy(), expression=by)
            of = moved if columns else _evaluated(moved, names)
    return None if of == node else of


def _is_length(node: exp.Expr) -> bool:
    return isinstance(node, exp.Interval) or (
        isinstance(node, exp.Cast) and node.to.is_type(exp.DType.INTERVAL)
    )


def _length(node: exp.Expr) -> tuple[int, int] | None:
    """A length of time in months and days; None if it has parts of a day."""
    words = (node.name if is_text(node) else node.this.name).strip().lower()
    unit = None if is_text(node) else node.args.get("unit")
    if unit is not None:
        words = f"{words} {unit.name.lower()}"
    elif _ISO.fullmatch(words):
        words = words[1:].replace("m", "month")
    months, seconds, at = 0, 0, 0
    while (part := _PART.match(words, at)) is not None:
        n, word = int(part[1] + part[2]), part[3]
        word = word if word in _SECONDS_OF else word.removesuffix("s")
        months += n * _MONTHS_OF.get(word, 0)
        seconds += n * (_SECONDS_OF.get(word, 0) or _DAYS_OF.get(word, 0) * _DAY_S)
        if word not in {**_MONTHS_OF, **_SECONDS_OF, **_DAYS_OF}:
            return None
        at = part.end()
    days, rest = divmod(seconds, _DAY_S)
    return None if rest or not words or at < len(words) else (months, days)


def _step(node: exp.Expr, names: Names) -> exp.Expr:
    """Equal steps of days, by their first days; calendar months, quarters and years.

    Raises:
        SqlError: a step is not of whole days.
    """
    if isinstance(node, exp.DateBin):
        width, of, origin = node.this, node.expression, node.args.get("unit")
    else:
        width, of, *others = [*node.expressions, exp.null()]
        origin = others[0] if len(others) > 1 else None
    if (length := _length(width)) is None:
        raise _too_fine(node, names, "Nearest: '1 day'.")
    months, days = length
    if min(length) < 0 or (months > 0) == (days > 0):
        raise names.source.refuse("join whole days or months", node, hint="Nearest: '1 day'.")
    if origin is None and months in _WHOLE:
        return exp.TimestampTrunc(this=of, unit=exp.var(_WHOLE[months]))
    n, unit = (months, "MONTH") if months else (days, "DAY")
    parts: list[exp.Expr] = [exp.Interval(this=exp.Literal.string(str(n)), unit=exp.var(unit)), of]
    if origin is not None:
        found = _MIDNIGHT.fullmatch(_text_of(origin) or origin.unnest().name)
        if found is None:
            raise names.source.refuse("begin steps at a day that is written out", node)
        parts.append(exp.cast(exp.Literal.string(found[1]), "TIMESTAMP"))
    return exp.Anonymous(this="TIME_BUCKET", expressions=parts)


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
_TEXTS = (
    *(exp.Upper, exp.Lower, exp.Initcap, exp.Trim, exp.Left, exp.Right, exp.Substring),
    *(exp.Replace, exp.Concat, exp.DPipe),
)
_SPREADS: Mapping[str, type[exp.Expr]] = {
    "VAR": exp.Variance,
    "VARP": exp.VariancePop,
    "STD": exp.Stddev,
    "STDEVP": exp.StddevPop,
}
_GEOMETRIC = frozenset({"GEOMEAN", "GEOMETRIC_MEAN"})
_SPECIAL = re.compile(r"([\\%_])")


def respelt(select: exp.Select, names: Names) -> exp.Select:
    """Rewrite the SELECT in place, with one spelling for each thing.

    Raises:
        SqlError: an interval added to or taken from a date is not of whole days; or a name has
            another schema.
    """
    group = select.args.get("group")
    if group is not None and group.args.get("all") and not group.expressions:
        group.set("all", None)
        group.set("expressions", _grouped(select))
    group_by_texts(select)
    _group_by_no_value(select)
    # From the innermost on, since a date may stand within a sum of one.
    for node in reversed(list(select.walk())):
        found = _respelt(node, names)
        if found is not None:
            node.replace(keep_written(_at(found, node), node))
    return _tidied(select, names)


def _respelt(node: exp.Expr, names: Names) -> exp.Expr | None:
    match node:
        case exp.BitwiseXor():  # as PostgreSQL and DuckDB have it
            return exp.Pow(this=node.this, expression=node.expression)
        case exp.SafeDivide():
            return exp.Div(this=node.this, expression=node.expression)
        case exp.StartsWith() if is_text(node.expression):
            begin = _SPECIAL.sub(r"\\\1", node.expression.name)
            pattern = _at(exp.Literal.string(f"{begin}%"), node.expression)
            return exp.Like(this=node.this, expression=pattern)
        case exp.EQ() if isinstance(node.expression, exp.Any):
            return _among(node, node.expression.this)
        case exp.NEQ() if _is_all(node.expression):
            found = _among(node, node.expression.expressions[0])
            return None if found is None else exp.Not(this=found)
        case exp.Anonymous() if node.name.upper() == "DATE_PART" and len(node.expressions) == 2:
            part, of = node.expressions
            return exp.Extract(this=exp.var(part.name), expression=of)
        case exp.Anonymous() if node.name.upper() in _SPREADS and len(node.expressions) == 1:
            return _SPREADS[node.name.upper()](this=node.expressions[0])
        case exp.DateTrunc():
            return _turned(node, names) or day_written(node, names)
    if isinstance(node, _TEXTS) and not node.find(exp.Column, exp.AggFunc, exp.Query):
        text = fixed(node, names)
        return exp.null() if text is None else exp.Literal.string(str(text))
    return _cut_at(node, names) or _part(node) or day_written(node, names) or _geometric(node)


def _is_all(node: exp.Expr) -> bool:
    is_all = isinstance(node, exp.Anonymous) and node.name.upper() == "ALL"
    return is_all and len(node.expressions) == 1


def _among(node: exp.Binary, listed: exp.Expr) -> exp.In | None:
    """IN with the elements of an array; None for another."""
    array = listed.unnest()
    is_list = isinstance(array, exp.Array) and array.expressions
    return exp.In(this=node.this, expressions=array.expressions) if is_list else None


def _geometric(node: exp.Expr) -> exp.Expr | None:
    """GEOMEAN(a) is EXP(AVG(LN(a)))."""
    is_one = isinstance(node, exp.Anonymous) and node.name.upper() in _GEOMETRIC
    if not is_one or len(node.expressions) != 1 or isinstance(node.parent, exp.Filter):
        return None
    return exp.Exp(this=exp.Avg(this=exp.Ln(this=node.expressions[0])))


def _part(node: exp.Expr) -> exp.Expr | None:
    """MONTH(d) is EXTRACT(MONTH FROM d), of all years; beside '2024-03' it is of one year."""
    part, outer = FUNCTIONS.get(type(node)), above(node)
    if part is None:
        return None
    is_compared = isinstance(outer, _COMPARED)
    if is_compared and outer is not None:
        others = (one.unnest() for one in outer.iter_expressions() if one.unnest() is not node)
        if part == "year" or any(map(is_text, others)):
            return None
    found = exp.Extract(this=exp.var(part), expression=node.this)
    found.meta[CALLED] = "" if is_compared or part == "year" else part.upper()
    return found


def _cut_at(node: exp.Expr, names: Names) -> exp.Expr | None:
    """GREATEST(a, 30) is CASE WHEN a > 30 THEN a ELSE 30 END: 30 where a is missing, too."""
    if not isinstance(node, exp.Greatest | exp.Least) or len(node.expressions) != 1:
        return None
    if node.find(exp.AggFunc):
        return None
    of, end = node.this, node.expressions[0]
    if constant(of, names.source) is not None:
        of, end = end, of
    if constant(end, names.source) is None:
        return None
    kind = exp.GT if isinstance(node, exp.Greatest) else exp.LT
    branch = exp.If(this=kind(this=of, expression=end), true=of.copy())
    return exp.Case(ifs=[branch], default=end.copy())


def _grouped(select: exp.Select) -> list[exp.Expr]:
    """The groupings of GROUP BY ALL: every item that is not a number, by its position."""
    return [
        exp.Literal.number(i)
        for i, item in enumerate(select.expressions, start=1)
        if not item.find(exp.AggFunc, exp.Window, exp.Subquery, exp.Star)
        and not isinstance(item.unalias(), exp.Literal | exp.Null | exp.Boolean)
    ]


def _turned(node: exp.DateTrunc, names: Names) -> exp.Expr | None:
    """DATE_TRUNC(d, MONTH) as BigQuery has it, where the attribute comes first."""
    first, second = node.args["unit"], node.this
    is_unit = isinstance(second, exp.Column) and second.name.lower() in UNITS
    if not is_unit or names.is_known(second):
        return None
    column = exp.Column(this=_at(exp.to_identifier(first.name), second.this))
    return exp.TimestampTrunc(this=column, unit=exp.var(second.name.upper()))


def _at(node: exp.Expr, before: exp.Expr) -> exp.Expr:
    """A new node at the place of the replaced one, for errors."""
    places = [part.meta for part in before.walk() if "start" in part.meta]
    if places:
        first = min(places, key=lambda place: place["start"])
        last = max(places, key=lambda place: place["end"])
        node.meta.update({key: first[key] for key in PLACE if key in first})
        node.meta["end"] = last["end"]
    return node


SCHEMA = "public"
_REAL = frozenset({exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL})
_INTEGERS = frozenset({exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT})
_TEXT = frozenset({exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.NCHAR})
_COUNTS = exp.Count | exp.CountIf


def _tidied(select: exp.Select, names: Names) -> exp.Select:
    """The SELECT without casts and schemas that change no value, and NULLIF below a division."""
    for column in list(select.find_all(exp.Column)):
        _check_schema(column, names.source)
    for nullif in list(select.find_all(exp.Nullif)):
        is_zero = isinstance(nullif.expression, exp.Literal) and nullif.expression.name == "0"
        outer = nullif.parent
        if is_zero and isinstance(outer, exp.Div) and outer.expression is nullif:
            nullif.replace(nullif.this)
    for cast in reversed(list(select.find_all(exp.Cast))):
        if _changes_nothing(cast, select, names):
            cast.replace(keep_cast(keep_written(cast.this, cast), cast))
    return select


def _group_by_no_value(select: exp.Select) -> None:
    """Drop constants from GROUP BY, which separate no groups."""
    group = select.args.get("group")
    items = {str(i): item for i, item in enumerate(select.expressions, 1)}
    items |= {item.alias.lower(): item for item in select.expressions if item.alias}
    for node in list(group.expressions) if group is not None else []:
        bare = node.unnest()
        is_place = isinstance(bare, exp.Literal) and not bare.is_string
        is_name = isinstance(bare, exp.Column) and not bare.table
        item = items.get(bare.name.lower()) if is_place or is_name else None
        meant = bare if item is None else item.unalias().unnest()
        if isinstance(meant, exp.Literal) and (item is not None or meant.is_string):
            node.pop()
    if group is not None and not any(group.args.values()):
        select.set("group", None)


def _check_schema(column: exp.Column, source: SqlText) -> None:
    schema = column.args.get("db")
    if schema is None:
        return
    if schema.name.lower() != SCHEMA or column.args.get("catalog") is not None:
        raise source.refuse(f"name no schema but `{SCHEMA}`", column)
    column.set("db", None)


def _changes_nothing(cast: exp.Cast, select: exp.Select, names: Names) -> bool:
    """Whether a cast never changes the value."""
    of, to = cast.this.unnest(), cast.args["to"]
    if is_text(of):
        is_second = isinstance(cast.parent, exp.Sub) and cast.arg_key == "expression"
        return to.this in _TEXT or (to.this is exp.DType.DATE and not is_second)
    if isinstance(of, exp.Column) and names.is_known(of):
        if names.level(of) is not None:
            return to.this in _TEXT
        kind = names.domain.attributes[names.axis(of)].kind
        is_date = to.this is exp.DType.DATE and kind in ("date", "period")
        return to.this in _TEXT or is_date or _keeps(to, is_whole=kind == "integer")
    if to.this in _INTEGERS and _is_item(cast, select):
        return False  # shown without decimals
    return _keeps(to, is_whole=isinstance(of, _COUNTS))


def _keeps(to: exp.DataType, *, is_whole: bool) -> bool:
    """Whether a type holds a number exactly."""
    return (is_whole and to.this in _INTEGERS | _REAL) or (to.this in _REAL and not to.expressions)


def _is_item(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a node is an item of SELECT, perhaps with an alias."""
    outer = node.parent
    while isinstance(outer, exp.Alias | exp.Paren):
        outer = outer.parent
    return outer is select and node.find_ancestor(exp.Select) is select

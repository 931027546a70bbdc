"""One spelling for each thing, in the words that the rest reads; what changes no value is left out.

`DATE_PART('month', d)`, `DATE_TRUNC(d, MONTH)`, `STARTS_WITH(a, 'x')`, `a = ANY (ARRAY['x'])`,
`MONTH(d) = 3`, `SAFE_DIVIDE(a, b)`, `GEOMEAN(a)`, `VAR(a)`, `TO_DATE('2024-03-01', ...)`,
`DATE '2024-03-01' - INTERVAL '14 days'` and `GROUP BY ALL`; casts, NULLIF below a division, and
schemas before names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from qserver.query.calendar import UNITS
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.logic import above, is_text
from qserver.query.sql.rewriting.days import day_written, group_by_texts
from qserver.query.sql.select.columns import PLACE, keep_cast, keep_written
from qserver.query.sql.text import SqlText
from qserver.query.sql.values.grid import fixed
from qserver.query.sql.values.record_functions import CALLED, FUNCTIONS

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
    """The SELECT with one spelling for each thing; changes it in place.

    Raises:
        SqlError: an interval is added to a date, or taken away, that is none of whole days; or a
            name has another schema before it.
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
    """What GROUP BY ALL groups by: every item that is no number of the table, by its position."""
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
    """A new node with the place of the one that it replaces, for errors to point at."""
    places = [part.meta for part in before.walk() if "start" in part.meta]
    if places:
        first = min(places, key=lambda place: place["start"])
        last = max(places, key=lambda place: place["end"])
        node.meta.update({key: first[key] for key in PLACE if key in first})
        node.meta["end"] = last["end"]
    return node


SCHEMA = "public"
_REAL = frozenset({exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL})
_WHOLE = frozenset({exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT})
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
    """Leave out of GROUP BY what is one value, which tells no groups apart."""
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
    """Whether the value before a cast and after it is the same, for all data."""
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
    if to.this in _WHOLE and _is_item(cast, select):
        return False  # shown without decimals
    return _keeps(to, is_whole=isinstance(of, _COUNTS))


def _keeps(to: exp.DataType, *, is_whole: bool) -> bool:
    """Whether a type holds a number as it is."""
    return (is_whole and to.this in _WHOLE | _REAL) or (to.this in _REAL and not to.expressions)


def _is_item(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a node is an item of SELECT, perhaps with an alias."""
    outer = node.parent
    while isinstance(outer, exp.Alias | exp.Paren):
        outer = outer.parent
    return outer is select and node.find_ancestor(exp.Select) is select

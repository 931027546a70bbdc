"""Leave out what changes no value: casts, NULLIF below a division, and schemas before names."""

from __future__ import annotations

from sqlglot import exp

from qserver.query.sql.attributes import Names
from qserver.query.sql.rewriting.written import keep_written
from qserver.query.sql.text import SqlText

SCHEMA = "public"
_REAL = frozenset({exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL})
_WHOLE = frozenset({exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT})
_TEXT = frozenset({exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.NCHAR})
_COUNTS = exp.Count | exp.CountIf


def tidied(select: exp.Select, names: Names) -> exp.Select:
    """The SELECT without what changes no value; changes it in place.

    Raises:
        SqlError: a name has another schema before it.
    """
    for column in list(select.find_all(exp.Column)):
        _check_schema(column, names.source)
    for nullif in list(select.find_all(exp.Nullif)):
        is_zero = isinstance(nullif.expression, exp.Literal) and nullif.expression.name == "0"
        above = nullif.parent
        if is_zero and isinstance(above, exp.Div) and above.expression is nullif:
            nullif.replace(nullif.this)
    for cast in reversed(list(select.find_all(exp.Cast))):
        if _changes_nothing(cast, select, names):
            cast.replace(keep_written(cast.this, cast))
    return select


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
    if isinstance(of, exp.Literal) and of.is_string:
        return to.this in _TEXT or to.this is exp.DType.DATE
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
    above = node.parent
    while isinstance(above, exp.Alias | exp.Paren):
        above = above.parent
    return above is select and node.find_ancestor(exp.Select) is select

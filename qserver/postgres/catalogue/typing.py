"""The types of the columns of a query of the catalogue, by its text and the catalogue's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlglot import exp

from qserver.postgres.catalogue.functions import FUNCTION_TYPES
from qserver.postgres.catalogue.rewriting import cast_name
from qserver.postgres.catalogue.schema import COLUMN_TYPES, TEXTS
from qserver.postgres.wire.values import (
    BOOL,
    CHAR,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NAME,
    OID,
    TEXT,
    VARCHAR,
    Type,
)

_CASTS: Final[Mapping[str, Type]] = {
    "BOOLEAN": BOOL,
    "CHAR": CHAR,
    "DOUBLE PRECISION": FLOAT8,
    "REAL": FLOAT8,
    "INT": INT4,
    "INTEGER": INT4,
    "BIGINT": INT8,
    "SMALLINT": INT2,
    "NAME": NAME,
    "NUMERIC": FLOAT8,
    "DECIMAL": FLOAT8,
    "OID": OID,
    "VARCHAR": VARCHAR,
    "TEXT[]": TEXTS,
}
_TRUTHS: Final = (
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Exists,
    exp.Boolean,
    exp.Operator,
    exp.RegexpLike,
    exp.RegexpILike,
)
_WHOLE: Final = (INT2, INT4, INT8, OID)


def types_of(query: exp.Expr) -> dict[str, Type]:
    """The types of names that a query itself gives: its aliases, from within outward."""
    found = dict(COLUMN_TYPES)
    for select in reversed(list(query.find_all(exp.Select))):
        for item in select.expressions:
            if isinstance(item, exp.Alias):
                found[item.alias] = type_of(item.this, found)
    return found


def type_of(node: exp.Expr, names: Mapping[str, Type]) -> Type:
    """The type of an expression; TEXT where nothing tells."""
    if isinstance(node, exp.Alias | exp.Paren | exp.Collate | exp.Max | exp.Min):
        return type_of(node.this, names)
    if isinstance(node, exp.Column):
        return names.get(node.name) or names.get(node.name.lower()) or TEXT
    if isinstance(node, exp.Cast):
        kind = cast_name(node)
        return TEXT if kind.startswith("REG") else _CASTS.get(kind.partition("(")[0], TEXT)
    if isinstance(node, _TRUTHS):
        return BOOL
    if isinstance(node, exp.Literal):
        return TEXT if node.is_string else _number(node.name)
    return _of_parts(node, names)


def _number(text: str) -> Type:
    if not text.isdecimal():
        return FLOAT8
    return INT4 if int(text) < 1 << 31 else INT8


def _of_parts(node: exp.Expr, names: Mapping[str, Type]) -> Type:
    if isinstance(node, exp.Dot):
        return type_of(node.expression, names)
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]]
        return _of_first([*values, node.args.get("default")], names)
    if isinstance(node, exp.Coalesce):
        return _of_first([node.this, *node.expressions], names)
    if isinstance(node, exp.Count | exp.RowNumber):
        return INT8
    if isinstance(node, exp.Window | exp.Neg | exp.Nullif):
        return type_of(node.this, names)
    if isinstance(node, exp.Subquery):
        return _of_first([s.expressions[0] for s in [node.this] if s.expressions], names)
    if isinstance(node, exp.Array):
        return TEXTS
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        sides = [type_of(side, names) for side in (node.this, node.expression)]
        return INT8 if INT8 in sides else (INT4 if all(s in _WHOLE for s in sides) else FLOAT8)
    name = node.this if isinstance(node, exp.Anonymous) else getattr(node, "sql_name", str)()
    return FUNCTION_TYPES.get(str(name).lower(), TEXT)


def _of_first(nodes: list[Any], names: Mapping[str, Type]) -> Type:
    known = [n for n in nodes if n is not None and not isinstance(n, exp.Null)]
    return type_of(known[0], names) if known else TEXT


def as_type(value: Any, kind: Type) -> Any:
    """A value of SQLite as one of this type."""
    if value is None:
        return None
    try:
        if kind is BOOL:
            return bool(int(value)) if str(value) not in ("t", "f") else value == "t"
        if kind in _WHOLE:
            return int(value)
        return float(value) if kind in (FLOAT4, FLOAT8) else str(value)
    except ValueError:
        return None

"""The allow list for statements of the engine; everything else is refused.

No function of it reads a file, the network, a clock, a setting, a catalogue or a source of
randomness, and none makes a text or a table of any size from a short argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlglot import exp

from qserver.errors import CapacityError, EngineError

MOST_CHARACTERS = 4096
"""Of a literal, and of the text that LPAD makes."""
MOST_NESTED = 200
MOST_NODES = 1 << 16

_QUERIES = (
    *(exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Subquery, exp.Alias, exp.With, exp.CTE),
    *(exp.Join, exp.Lateral, exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Ordered),
    *(exp.Limit, exp.Offset, exp.Fetch, exp.Distinct, exp.Union, exp.Intersect, exp.Except),
    *(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Window, exp.WindowSpec, exp.Filter, exp.Exists),
    *(exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Values, exp.Star),
)
_EXPRESSIONS = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple),
    *(exp.Array, exp.Any, exp.All, exp.Var, exp.DataType, exp.DataTypeParam, exp.Interval),
    *(exp.And, exp.Or, exp.Not, exp.Xor, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Like, exp.ILike, exp.Escape),
    *(exp.SimilarTo, exp.RegexpLike, exp.RegexpILike),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
    *(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.DecodeCase, exp.Cast, exp.TryCast),
    exp.SafeDivide,
)
_NUMBERS = (
    *(exp.Abs, exp.Sign, exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.Sqrt, exp.Cbrt, exp.Pow),
    *(exp.Exp, exp.Ln, exp.Log, exp.Greatest, exp.Least, exp.Pi),
    *(exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan, exp.Atan2, exp.Degrees, exp.Radians),
)
_TEXTS = (
    *(exp.Upper, exp.Lower, exp.Initcap, exp.Trim, exp.Left, exp.Right, exp.Substring),
    *(exp.Replace, exp.Translate, exp.Reverse, exp.Pad, exp.Concat, exp.ConcatWs, exp.Length),
    *(exp.StrPosition, exp.StartsWith, exp.EndsWith, exp.Contains, exp.SplitPart, exp.Ascii),
    *(exp.Chr, exp.RegexpReplace, exp.RegexpExtract),
)
_DAYS = (
    *(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfWeek, exp.DayOfWeekIso),
    *(exp.DayOfMonth, exp.DayOfYear, exp.Extract, exp.DateTrunc, exp.TimestampTrunc, exp.Dayname),
    *(exp.Monthname, exp.LastDay, exp.DateFromParts, exp.TimeToStr, exp.DateDiff),
)
_AGGREGATES = (
    *(exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Quantile),
    exp.GroupConcat,
    *(exp.PercentileCont, exp.PercentileDisc, exp.Stddev, exp.StddevPop, exp.StddevSamp),
    *(exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.ArgMax, exp.ArgMin),
    *(exp.RegrSlope, exp.RegrIntercept, exp.RegrR2, exp.LogicalAnd, exp.LogicalOr, exp.AnyValue),
    *(exp.Grouping, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist),
    *(exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
NODES = frozenset((*_QUERIES, *_EXPRESSIONS, *_NUMBERS, *_TEXTS, *_DAYS, *_AGGREGATES))
"""Kinds of nodes, each by its own class, and by none that is derived from it."""
NAMES = frozenset({"DATE_PART", "ISODOW", "MAKE_DATE", "REGEXP_MATCHES", "STRFTIME", "TIME_BUCKET"})
"""Functions that the parser has no class for."""
TYPES = frozenset(
    {exp.DType.BOOLEAN, exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.INT128}
    | {exp.DType.DECIMAL, exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.TEXT, exp.DType.VARCHAR}
    | {exp.DType.CHAR, exp.DType.DATE, exp.DType.TIMESTAMP}
)

_NUMBER = re.compile(r"\d{0,400}\.?\d{0,400}([eE][+-]?\d{1,3})?", re.ASCII)
_WORDS = re.compile(r"[A-Za-z_ ]{0,40}")
_OF_CATALOGUE = re.compile(r"(duckdb|information|pg|pragma|sqlite)_.*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Allowed:
    """The list.

    Args:
        names: of functions that the parser has no class for, in capital letters.
        repeats: whether WITH may be RECURSIVE.
    """

    nodes: frozenset[type[exp.Expr]] = NODES
    names: frozenset[str] = NAMES
    types: frozenset[exp.DType] = TYPES
    repeats: bool = False


_EVER = Allowed()


def check(query: exp.Expr, tables: Collection[str], allowed: Allowed = _EVER) -> None:
    """Raise unless a statement is a query made only of listed things.

    Raises:
        EngineError: it has something else, or names other tables.
        CapacityError: it is nested too deep or has too many parts.
    """
    if type(query) not in (exp.Select, exp.Union, exp.Intersect, exp.Except):
        raise _refused("be a SELECT")
    named = {*tables} | {one.alias for one in query.find_all(exp.CTE)}
    known = {name for name in named if not _OF_CATALOGUE.fullmatch(name)}
    level, n_nodes = [query], 0
    for _ in range(MOST_NESTED):
        n_nodes += len(level)
        if n_nodes > MOST_NODES:
            break
        for node in level:
            _check_node(node, known, allowed)
        level = [part for node in level for part in node.iter_expressions()]
        if not level:
            return
    raise CapacityError("The text of SQL is nested too deep, or too long. Ask its parts.")


def _check_node(node: exp.Expr, tables: set[str], allowed: Allowed) -> None:
    kind = type(node)
    if kind is exp.Anonymous:
        if str(node.this).upper() not in allowed.names:
            raise _refused(f"use functions on the list, got {str(node.this)[:40]}")
        return
    if kind not in allowed.nodes:
        raise _refused(f"use SQL on the list, got {kind.__name__}")
    if kind is exp.DataType and node.this not in allowed.types:
        raise _refused(f"use types on the list, got {str(node.this)[:40]}")
    if kind is exp.With and node.args.get("recursive") and not allowed.repeats:
        raise _refused("not use RECURSIVE")
    if (inner := _CHECKS.get(kind)) is not None:
        inner(node)
    if kind is exp.Table:
        _check_table(node, tables)
    elif kind not in (exp.Literal, exp.Identifier, exp.DataType):
        _check_words(node)


def _check_table(node: exp.Expr, tables: set[str]) -> None:
    is_name = isinstance(node.this, exp.Identifier) and not node.args.get("db")
    if not is_name or node.this.name not in tables:
        raise _refused("read the tables that it is given")


def _check_words(node: exp.Expr) -> None:
    """Check further words, such as the side of a join."""
    for value in node.args.values():
        parts = value if isinstance(value, list) else [value]
        if any(isinstance(part, str) and not _WORDS.fullmatch(part) for part in parts):
            raise _refused("use SQL on the list")


def _check_literal(node: exp.Expr) -> None:
    text = str(node.this)
    if len(text) > MOST_CHARACTERS:
        raise CapacityError(f"A text in SQL has at most {MOST_CHARACTERS:,} characters.")
    if not node.is_string and not (text and _NUMBER.fullmatch(text)):
        raise _refused("use numbers of digits")


def _check_pad(node: exp.Expr) -> None:
    n = node.args["expression"]
    if not isinstance(n, exp.Literal) or not n.is_int or int(n.this) > MOST_CHARACTERS:
        raise _refused(f"pad to a whole number up to {MOST_CHARACTERS:,}")


def _check_lateral(node: exp.Expr) -> None:
    if not isinstance(node.this, exp.Subquery):
        raise _refused("use LATERAL with a SELECT")


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Literal: _check_literal,
    exp.Pad: _check_pad,
    exp.Lateral: _check_lateral,
}


def _refused(condition: str) -> EngineError:
    return EngineError("sql", condition)

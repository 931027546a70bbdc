"""Words beyond SQL: `LAST 4 WEEKS`, a condition on the last sealed periods; and misspelt words.

The tokens of LAST become a function call that a parser of SQL can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from sqlglot import Token, TokenType, exp

from qserver.errors import QueryError
from qserver.query.calendar import UNITS
from qserver.query.domain import Domain
from qserver.query.sealed_periods import range_of_last
from qserver.query.sql.text import SqlText

NO_CLOCK = "compare with fixed days: an answer must not depend on the clock"
LAST_PERIODS = "Nearest: WHERE LAST 4 WEEKS, the last periods that have their data."
_CALL = "LAST_PERIODS"
_WORDS = {word: unit for unit in (*UNITS, "period") for word in (unit.upper(), f"{unit.upper()}S")}


def misplaced(name: str) -> str:
    """The fix for such a call outside of WHERE; '' for another name."""
    return "It is a condition: WHERE ... AND LAST 4 WEEKS." if name == _CALL else ""


def is_last(node: exp.Expr) -> bool:
    """Whether a condition is such a call."""
    return isinstance(node, exp.Anonymous) and node.name == _CALL


def last(node: exp.Expr, domain: Domain, source: SqlText) -> tuple[int, range]:
    """The axis of the periods, and the indexes of the last ones.

    Raises:
        SqlError: the domain has no periods, or of another unit.
        PeriodNotSealedError: no period is sealed yet.
    """
    number, word = node.expressions
    axis = domain.period_axis
    if axis is None:
        raise source.refuse("not say LAST: the dataset has no attribute of periods", number)
    attribute, unit = domain.attributes[axis], _WORDS[word.this]
    own = attribute.periods.every if attribute.periods is not None else "period"
    if unit not in (own, "period"):
        raise source.refuse(
            f"count the periods of `{attribute.name}` in {own}s",
            number,
            hint=f"Nearest: LAST {number.this} {own.upper()}S.",
        )
    try:
        said = int(number.this) if number.this.isdecimal() else number.this
        return axis, range_of_last(attribute, said, name="sql")
    except QueryError as exc:
        raise source.refuse(f"let LAST {exc.condition}", number) from exc


def call_of(three: Sequence[Token]) -> list[Token]:
    """`LAST n PERIODS` as a call; nothing for other tokens."""
    if len(three) < 3 or three[0].text.upper() != "LAST" or three[2].text.upper() not in _WORDS:
        return []
    first, number, word = three
    if first.token_type is TokenType.STRING or number.token_type is not TokenType.NUMBER:
        return []

    def at(place: Token, kind: TokenType, text: str) -> Token:
        return Token(kind, text, place.line, place.col, place.start, place.end)

    return [
        at(first, TokenType.VAR, _CALL),
        at(first, TokenType.L_PAREN, "("),
        number,
        at(number, TokenType.COMMA, ","),
        at(word, TokenType.STRING, word.text.upper()),
        at(word, TokenType.R_PAREN, ")"),
    ]


_SQL = (
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "WITH"),
    *("BETWEEN", "DISTINCT", "FILTER", "QUALIFY", "PARTITION", "ROLLUP", "CUBE", "LIKE", "ILIKE"),
    *("CASE", "WHEN", "THEN", "ELSE", "EXPLAIN", "DESCRIBE"),
    *("WITHIN", "CONFIDENCE", "SIMULTANEOUS", "CONSISTENT", "ASSUMING", "INDEPENDENT", "PERCENT"),
)
_FUNCTIONS = (
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "QUANTILE", "PERCENTILE"),
    *("PERCENTILE_CONT", "PERCENTILE_DISC", "QUANTILE_CONT", "QUANTILE_DISC", "APPROX_PERCENTILE"),
    *("APPROX_COUNT_DISTINCT", "VARIANCE", "VAR_POP", "VAR_SAMP", "VAR", "VARP"),
    *("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STD", "STDEVP", "CORR", "PROBABILITY"),
    *("SKEWNESS", "KURTOSIS", "KURTOSIS_POP", "GEOMEAN", "GEOMETRIC_MEAN", "GREATEST", "LEAST"),
    *("ROUND", "CAST", "COALESCE", "NULLIF", "IF", "SAFE_DIVIDE", "FLOOR", "CEIL", "WIDTH_BUCKET"),
    *("UPPER", "LOWER", "INITCAP", "TRIM", "LEFT", "RIGHT", "SUBSTRING", "REPLACE", "CONCAT"),
    *("LENGTH", "STRPOS", "STARTS_WITH", "EXTRACT", "DATE_TRUNC", "DATE_PART", "TO_CHAR"),
    *("TO_DATE", "TO_TIMESTAMP", "TIMESTAMP", "DATE", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY"),
    *("RANK", "ROW_NUMBER", "GROUPING", "LAST_PERIODS"),
)
_CLOCKS = (exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime, exp.CurrentTimestamp)
_TELL_TIME = frozenset({"NOW", "TODAY", "GETDATE", "SYSDATE", "UTC_TIMESTAMP", "CURDATE"})
_CLOSE = 0.75


def nearest_word(word: str) -> str:
    """The most likely word of SQL; '' if it is one already, or like none."""
    return _nearest(word, _SQL)


def check_functions(root: exp.Expr, source: SqlText) -> None:
    """Raise SqlError at a function of the clock, or a misspelt one."""
    for node in root.find_all(exp.Anonymous, *_CLOCKS):
        if not isinstance(node, exp.Anonymous) or node.name.upper() in _TELL_TIME:
            raise source.refuse(NO_CLOCK, node, hint=LAST_PERIODS)
        if meant := _nearest(node.name, _FUNCTIONS):
            raise source.refuse(
                f"use functions of SQL, got `{node.name[:40]}`", node, hint=f"Did you mean {meant}?"
            )


def _nearest(word: str, among: tuple[str, ...]) -> str:
    if word.upper() in among:
        return ""
    found = get_close_matches(word[:64].upper(), among, n=1, cutoff=_CLOSE)
    return found[0] if found else ""

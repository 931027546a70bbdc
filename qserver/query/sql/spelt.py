"""The nearest word to one that is misspelt: of functions, and of SQL's own words."""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp

from qserver.query.sql.periods.last import LAST_PERIODS, NO_CLOCK
from qserver.query.sql.text import SqlText

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
    """The word of SQL that is meant, most likely; '' where it is one, or like none."""
    return _nearest(word, _SQL)


def check_functions(root: exp.Expr, source: SqlText) -> None:
    """Raise SqlError at a function that tells the time, or is most likely misspelt."""
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

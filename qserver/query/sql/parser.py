"""Parse a text of SQL into a statement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from sqlglot import ParseError, TokenType, exp

from qserver.errors import CapacityError, InputError, SqlError
from qserver.query.asking.structured_question import parse_query
from qserver.query.calendar import PeriodNotSealedError
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery
from qserver.query.sealed_periods import as_of, clipped
from qserver.query.sql.attributes import Names
from qserver.query.sql.exactness import Clauses, read_clauses
from qserver.query.sql.exactness import chosen as as_chosen
from qserver.query.sql.order_by import PLAIN
from qserver.query.sql.regions import Regions
from qserver.query.sql.select import note_items
from qserver.query.sql.shaping.inner_select import Values
from qserver.query.sql.shell.inner_select import written_out
from qserver.query.sql.shell.selects import Shell
from qserver.query.sql.shell.table import table_of
from qserver.query.sql.statement import MAX_CELLS, Statement
from qserver.query.sql.text import SqlText, dataset_of
from qserver.query.sql.tokens import TokenizedSql, Words, tokenize
from qserver.query.sql.words import check_functions, misplaced, nearest_word

_NO_ROWS = re.compile(r"(.*\S)\s+LIMIT\s+0\s*;?\s*", re.IGNORECASE | re.DOTALL)

__all__ = ["MAX_CELLS", "parse_statement", "query_of"]


def parse_statement(
    text: str,
    domain: Domain,
    *,
    dataset: str,
    name: str = "sql",
    chosen: Sequence[Values] = (),
) -> Statement:
    """The statement in a text of SQL about a dataset.

    Args:
        name: the field that holds the text, for messages.
        chosen: the groups of each SELECT behind IN; the widest if unknown.

    Raises:
        SqlError: it cannot be answered; points at the place.
        CapacityError: it is too long, nested too deep, or asks for too much.
    """
    empty = _NO_ROWS.fullmatch(text)
    if empty is not None:
        return _without_rows(SqlText(text, name), empty[1], domain, dataset)
    sql = tokenize(text, names=(*domain.names, *domain.level_names, dataset), field=name)
    try:
        return _statement(sql, _parsed(sql), domain, dataset, chosen)
    except RecursionError as exc:
        raise CapacityError("The text of SQL is nested too deep. Ask its parts.") from exc


def _without_rows(source: SqlText, text: str, domain: Domain, dataset: str) -> Statement:
    """The statement of LIMIT 0, by which tools read columns: nothing is measured."""
    sql = tokenize(text, names=(*domain.names, *domain.level_names, dataset), field=source.name)
    root = _parsed(sql)
    is_test = isinstance(root, exp.Select) and all(map(_is_fixed, root.expressions))
    if is_test and dataset_of(text).lower() == dataset.lower():
        names = [item.alias_or_name or source.name for item in root.expressions]
        return Statement(source, False, (), tuple(names), (), Clauses())
    found = _statement(sql, root, domain, dataset)
    return replace(found, source=source, rows=(), shape=PLAIN, ranks=(), bounds=(), inner=())


def _is_fixed(item: exp.Expr) -> bool:
    return isinstance(item.unalias().unnest(), exp.Boolean | exp.Literal | exp.Null)


def query_of(document: object, domain: Domain, *, dataset: str) -> LinearQuery:
    """The linear query of a structured question or of a text of SQL.

    Such a text has no WITHIN and CONFIDENCE; other fields set the exactness.

    Raises:
        QueryError: it is not a question on this domain; an SqlError points into the text.
        CapacityError: it has too many terms.
    """
    if not isinstance(document, str):
        return clipped(parse_query(document, domain), domain, name="query")
    statement = parse_statement(document, domain, dataset=dataset, name="query")
    if statement.explains or statement.clauses != Clauses():
        raise statement.source.refuse(
            "say only what to count, without EXPLAIN, WITHIN and CONFIDENCE",
            statement.source.end,
            hint="`length` and `confidence` stand beside it; or send the text as `sql`.",
        )
    return statement.only_query


_LENGTH: Final = re.compile(
    r"[+-]?\d+(?:-\d+|\.\d*)?|P[\w+-]+|(?:(?:[+-] ?)?\d+(?:\.\d*)? ?[A-Za-z]+[\s,]*)+"
)
"""A length of time; each of its parts can be read in one way alone."""


def _parsed(sql: TokenizedSql) -> exp.Expr:
    source = sql.source
    if not sql.body:
        raise source.refuse("hold a SELECT", source.end, hint="Nearest: SELECT COUNT(*) FROM ...")
    for before, token in pairwise(sql.body):
        is_length = (before.token_type, token.token_type) == (TokenType.INTERVAL, TokenType.STRING)
        # The parser would leave out what stands behind the first unit.
        if is_length and not _LENGTH.fullmatch(token.text.strip()):
            raise source.refuse(
                "say a length by numbers with units: a day is the finest time of it",
                token,
                hint="Nearest: INTERVAL '-3 days'.",
            )
    try:
        found = Words().parser().parse(list(sql.body), source.text)
    except ParseError as exc:
        raise _unreadable(sql, exc) from exc
    if len(found) != 1 or found[0] is None:
        raise source.refuse("be one SELECT", sql.body[0])
    for alias in found[0].find_all(exp.TableAlias):
        # So a parser reads `FROM visits LAST 4 WEEKS`, which must not count all weeks.
        if hint := misplaced(alias.name):
            raise source.refuse("not say LAST behind FROM", alias, hint=hint)
    return found[0]


def _statement(
    sql: TokenizedSql,
    root: exp.Expr,
    domain: Domain,
    dataset: str,
    chosen: Sequence[Values] = (),
) -> Statement:
    """The statement of a parsed text."""
    clauses, source = read_clauses(sql), sql.source
    if clauses.as_of:
        domain = _as_of(clauses.as_of, domain, sql)
    check_functions(root, source)
    note_items(sql, root)
    names = Names(domain, source)
    inner = written_out(root, names, dataset, clauses, chosen)
    found = table_of(Shell(names, dataset, Regions(domain.sizes)), root, {})
    said = as_chosen(clauses, found.shape.selection(len(found.rows)), source)
    return replace(found, explains=sql.explains, clauses=said, inner=() if chosen else inner)


def _as_of(period: str, domain: Domain, sql: TokenizedSql) -> Domain:
    """The domain as of a period; SqlError at an unknown period."""
    place = next(token for token in sql.clauses if token.text == period)
    try:
        return as_of(domain, period)
    except PeriodNotSealedError:
        raise
    except InputError as exc:
        wrong = exc.condition.replace("be left out", "not say AS OF")
        raise sql.source.refuse(wrong, place, hint=exc.hint) from exc


def _unreadable(sql: TokenizedSql, exc: ParseError) -> SqlError:
    """The error at the token where the parser stopped, which knows its last character."""
    told = exc.errors[0] if exc.errors else {}
    place = (told.get("line"), told.get("col"))
    token = next((t for t in sql.body if (t.line, t.col) == place), sql.body[-1])
    wrong = f"be SQL: it cannot be read at {sql.source.source(token)!r}"
    # What stands before may be a name as far as a parser can tell.
    i = sql.body.index(token)
    meant = (nearest_word(one.text) for one in (token, *sql.body[max(i - 1, 0) : i]))
    hint = next((f"Did you mean {word}?" for word in meant if word), "")
    return sql.source.refuse(wrong, token, hint=misplaced(token.text) or hint)

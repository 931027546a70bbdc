"""What is public of a dataset, as SQL asks for it: its name, its attributes, their kinds.

SHOW TABLES, DESCRIBE a, SHOW COLUMNS FROM a, SELECT from information_schema.tables and columns, and
SELECT * that asks for no row, by which tools read the names of columns.
A statement of this kind has rows without numbers, and costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import ParseError, TokenError, exp

from qserver.errors import EngineError
from qserver.query.domain import Attribute, Domain
from qserver.query.sql.clauses import Clauses
from qserver.query.sql.engine.run import Table, run
from qserver.query.sql.plain import DESCRIBED
from qserver.query.sql.statement import Row, Statement
from qserver.query.sql.text import SqlText
from qserver.query.sql.tokens import MAX_TOKENS, Words

SCHEMA = "information_schema"
_SHOW_TABLES = re.compile(r"\s*SHOW\s+(?:FULL\s+)?TABLES\s*;?\s*", re.IGNORECASE)
_CATALOGUE = re.compile(rf"\bFROM\s+\"?{SCHEMA}\"?\s*\.", re.IGNORECASE)
_NO_ROW = re.compile(
    r"""\s*SELECT\s+(?:\w+\s*\.\s*)?\*\s*FROM\s+(?:"?public"?\s*\.\s*)?
    (?:"([^"]*)"|([A-Za-z0-9_.-]+))(?:\s+(?:AS\s+)?(?!WHERE\b|LIMIT\b)\w+)?\s+
    (?:WHERE\s+\(?(?:1\s*=\s*0|0\s*=\s*1|1\s*<>\s*1|FALSE)\)?|LIMIT\s+0)\s*;?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_TYPES = {"integer": "bigint", "real": "double precision", "date": "date", "period": "date"}
_TABLES = ("table_catalog", "table_schema", "table_name", "table_type")
_COLUMNS = (*_TABLES[:3], "column_name", "ordinal_position", "is_nullable", "data_type")
_NEAREST = "Nearest: SELECT column_name, data_type FROM information_schema.columns."


def described(text: str) -> str | None:
    """The dataset that DESCRIBE or SHOW COLUMNS names; None for another text."""
    found = DESCRIBED.match(text)
    if found is None or text[found.end() :].strip() not in ("", ";"):
        return None
    return found[1] or found[2]


def is_catalogue(text: str) -> bool:
    """Whether a text reads information_schema."""
    return len(text) <= MAX_TOKENS and _CATALOGUE.search(text) is not None


def catalogue_statement(text: str, domain: Domain, *, dataset: str) -> Statement | None:
    """The statement of public facts that a text asks for; None for another text.

    Raises:
        SqlError: it asks information_schema for something else.
    """
    source = SqlText(text)
    if _SHOW_TABLES.fullmatch(text):
        return _statement(source, ("table_name",), [(dataset,)])
    if (name := described(text)) is not None:
        if name.lower() != dataset.lower():
            raise source.refuse(f"describe the dataset that it is sent to, `{dataset}`", source.end)
        named = [(a.name, _type(a), str(a.size), _kind(a)) for a in domain.attributes]
        named += [
            (level.name, "text", str(len(level.groups) + a.has_other), f"level of {a.name}")
            for a in domain.attributes
            for level in a.levels
        ]
        return _statement(source, ("column_name", "data_type", "n_values", "kind"), named)
    empty = _NO_ROW.fullmatch(text)
    if empty is not None and (empty[1] or empty[2]).lower() == dataset.lower():
        names = [attribute.name for attribute in domain.attributes]
        return _statement(source, (*names, *domain.level_names), ())
    if not is_catalogue(text):
        return None
    try:
        return _selected(source, domain, dataset)
    except RecursionError as exc:
        raise source.refuse("be nested less deep", source.end, hint=_NEAREST) from exc


def _statement(
    source: SqlText, groups: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]
) -> Statement:
    found = tuple(Row(row, ()) for row in rows)
    return Statement(source, False, (), groups, found, Clauses())


def _type(attribute: Attribute) -> str:
    return _TYPES.get(attribute.kind, "text")


def _kind(attribute: Attribute) -> str:
    """The kind in words: `date by month`, `labels of codes`."""
    if attribute.periods is not None:
        return f"{attribute.kind} by {attribute.periods.every}"
    return f"{attribute.kind} of codes" if attribute.codes else attribute.kind


def _facts(domain: Domain, dataset: str) -> tuple[Table, Table]:
    table = ("qserver", "public", dataset)
    named = [(a.name, _type(a)) for a in domain.attributes]
    named += [(name, "text") for name in domain.level_names]
    columns = tuple((*table, name, i, "NO", kind) for i, (name, kind) in enumerate(named, start=1))
    places = ("VARCHAR",) * 4
    return (
        Table("tables", _TABLES, places, ((*table, "BASE TABLE"),)),
        Table("columns", _COLUMNS, (*places, "INTEGER", "VARCHAR", "VARCHAR"), columns),
    )


def _selected(source: SqlText, domain: Domain, dataset: str) -> Statement:
    """A SELECT over information_schema, which DuckDB evaluates."""
    select, tables = _parsed(source), _facts(domain, dataset)
    read = list(select.find_all(exp.Table))
    for one in read:
        if one.db.lower() == SCHEMA:
            one.set("db", None)
    try:
        rows = run(select, tables)
    except EngineError as exc:
        raise source.refuse(exc.condition, source.end, hint=_NEAREST) from exc
    every = [
        name for table in tables if read[0].name.lower() == table.name for name in table.columns
    ]
    names = [
        name
        for item in select.expressions
        for name in (every if isinstance(item, exp.Star) else [item.output_name or item.sql()])
    ]
    found = [tuple(None if value is None else str(value) for value in row) for row in rows]
    return _statement(source, tuple(names), found)


def _parsed(source: SqlText) -> exp.Select:
    refused = source.refuse("be one SELECT of names", source.end, hint=_NEAREST)
    try:
        [found] = Words().parse(source.text.rstrip().rstrip(";"))
    except (ParseError, TokenError, ValueError, RecursionError) as exc:
        raise refused from exc
    if not isinstance(found, exp.Select) or found.args.get("from_") is None:
        raise refused
    return found

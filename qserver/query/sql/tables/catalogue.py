"""Public facts of a dataset in SQL: its name, attributes and their kinds.

SHOW TABLES, DESCRIBE a, SHOW COLUMNS FROM a, SELECT from information_schema.tables and columns, and
SELECT * without rows, by which tools read column names. Such a statement has rows without numbers,
and costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import ParseError, TokenError, exp

from qserver.errors import EngineError
from qserver.query.domain import Attribute, Domain
from qserver.query.sql.engine.run import Table, run
from qserver.query.sql.exactness import Clauses
from qserver.query.sql.statement import Row, Statement
from qserver.query.sql.tables import catalogue_relations
from qserver.query.sql.tables.catalogue_relations import Names
from qserver.query.sql.text import DESCRIBED, SqlText
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
    """The statement of a text about public facts; None for another text.

    Raises:
        SqlError: it asks information_schema for something else.
    """
    source = SqlText(text)
    if _SHOW_TABLES.fullmatch(text):
        return _statement(source, ("table_name",), [(dataset,)])
    if (name := described(text)) is not None:
        if name.lower() != dataset.lower():
            raise source.refuse(f"describe the dataset that it is sent to, `{dataset}`", source.end)
        said = [(str(a.size), _kind(a)) for a in domain.attributes]
        said += [
            (str(len(level.groups) + a.has_other), f"level of {a.name}")
            for a in domain.attributes
            for level in a.levels
        ]
        kinds = catalogue_relations.Table.of(dataset, domain).described
        named = [(*kind, *own) for kind, own in zip(kinds, said, strict=True)]
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


def _kind(attribute: Attribute) -> str:
    """The kind in words: `date by month`, `labels of codes`."""
    if attribute.periods is not None:
        return f"{attribute.kind} by {attribute.periods.every}"
    return f"{attribute.kind} of codes" if attribute.codes else attribute.kind


def _facts(select: exp.Select, domain: Domain, dataset: str) -> list[Table]:
    """The relations of information_schema that a SELECT reads, under their own names."""
    names = Names("qserver", "", 0, (catalogue_relations.Table.of(dataset, domain),), ())
    found = dict[str, Table]()
    for one in select.find_all(exp.Table):
        name = one.name.lower()
        of = catalogue_relations.relation(SCHEMA, name) if one.db.lower() == SCHEMA else None
        if of is not None:
            one.set("db", None)
            rows = tuple(of.values(row) for row in catalogue_relations.rows_of(SCHEMA, name, names))
            kinds = tuple(catalogue_relations.DUCKDB[kind] for kind in of.columns.values())
            found[name] = Table(name, tuple(of.columns), kinds, rows)
    return list(found.values())


def _selected(source: SqlText, domain: Domain, dataset: str) -> Statement:
    """A SELECT over information_schema, which DuckDB evaluates."""
    select = _parsed(source)
    tables = _facts(select, domain, dataset)
    if len(tables) > 1 and any(isinstance(item, exp.Star) for item in select.expressions):
        raise source.refuse("name its columns", source.end, hint=_NEAREST)
    try:
        rows = run(select, tables)
    except EngineError as exc:
        raise source.refuse(exc.condition, source.end, hint=_NEAREST) from exc
    every = tables[0].columns if tables else ()
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

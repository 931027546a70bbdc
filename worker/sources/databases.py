"""What all databases share: the SELECT that is read, and its names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qserver.errors import ConfigError
from worker.sources.address import Address

_TOKEN = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/"""
    r"""|\$(\w*)\$.*?\$\1\$|\s+|.""",
    re.DOTALL,
)
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def quoted(name: str) -> str:
    """A name as SQL has it in every database that is read here."""
    return '"' + name.replace('"', '""') + '"'


def one_statement(query: str) -> str:
    """The SELECT that an owner typed, without what ends it.

    Raises:
        ConfigError: there are two statements, or none.
    """
    tokens = list(_TOKEN.finditer(query))
    said = [t for t in tokens if not t[0].isspace() and not t[0].startswith(("--", "/*"))]
    end = next((i for i, token in enumerate(said) if token[0] == ";"), len(said))
    if not end or any(token[0] != ";" for token in said[end:]):
        raise ConfigError("query", "be one SELECT", hint="It may join tables and use WITH.")
    return query[: said[end].start()].strip() if end < len(said) else query.strip()


def relation(address: Address) -> str:
    """SQL for what is read: the table, or the owner's query without its last semicolon.

    Raises:
        ConfigError: the table is no name such as `visits`, `public.visits` or `"odd.name"`.
    """
    if address.query:
        # On a line of its own, as the query may end in a comment.
        return f"(\n{one_statement(address.query)}\n)"
    parts, at = [], 0
    while at <= len(address.table):
        found = _PART.match(address.table, at)
        if found is None or address.table[found.end() : found.end() + 1] not in ("", "."):
            raise ConfigError("table", 'be a name such as visits, public.visits or "odd.name"')
        parts.append(quoted((found[1] or "").replace('""', '"') or found[2]))
        at = found.end() + 1
    return ".".join(parts)


def select(columns: Sequence[str], relation_sql: str, condition: str = "") -> str:
    """A SELECT of expressions from a relation."""
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {', '.join(columns)} FROM {relation_sql} AS source{where}"  # noqa: S608

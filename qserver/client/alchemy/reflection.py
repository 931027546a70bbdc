"""What SQLAlchemy's inspector asks: datasets are tables, attributes and their levels columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.exc import DBAPIError, NoSuchTableError

from qserver.client.clients import Client
from qserver.client.dbapi.errors import Error, ProgrammingError, translated

SCHEMA: Final = "public"
_TYPES: Final[Mapping[str, type[Any]]] = {
    "integer": types.Integer,
    "real": types.Double,
    "date": types.Date,
    "timestamp": types.Date,
    "period": types.Date,
}


def table_names(client: Client, schema: str | None) -> list[str]:
    """The datasets that the token may ask, in the one schema that there is."""
    if schema not in (None, SCHEMA):
        return []
    with _reflecting("all datasets"):
        return [found.name for found in client.datasets()]


def columns(client: Client, table: str, schema: str | None) -> list[dict[str, Any]]:
    """The attributes, then their levels; NoSuchTableError."""
    return columns_of(document_of(client, table, schema)["domain"])


def columns_of(domain: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The attributes of a domain's document, then their levels."""
    found = [_column(a["name"], _type(a)) for a in domain["attributes"]]
    found += [
        _column(level, types.String, comment=f"level of {attribute['name']}")
        for attribute in domain["attributes"]
        for level in attribute.get("levels", ())
    ]
    return found


def document_of(client: Client, table: str, schema: str | None) -> Mapping[str, Any]:
    """The public facts of a dataset; NoSuchTableError."""
    if schema not in (None, SCHEMA):
        raise NoSuchTableError(f"{schema}.{table}")
    with _reflecting(table):
        return client.dataset(table).document


@contextmanager
def _reflecting(what: str) -> Iterator[None]:
    """Errors of the client become SQLAlchemy's; what is not there is a NoSuchTableError."""
    try:
        with translated():
            yield
    except ProgrammingError as exc:
        raise NoSuchTableError(what) from exc
    except Error as exc:
        raise DBAPIError.instance(f"(reflection of {what})", None, exc, Error) from exc


def _type(attribute: Mapping[str, Any]) -> type[Any]:
    # Periods may be labels, too.
    found: type[Any] = types.String if "labels" in attribute else _TYPES[attribute["kind"]]
    return found


def _column(name: str, kind: type[Any], *, comment: str | None = None) -> dict[str, Any]:
    return {"name": name, "type": kind(), "nullable": False, "default": None, "comment": comment}

"""The dialect: how SQLAlchemy writes statements, connects by a URL, and reflects.

To its inspector datasets are tables, and attributes and their levels are columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.engine import URL
from sqlalchemy.engine.characteristics import ConnectionCharacteristic
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchTableError
from sqlalchemy.sql.compiler import RESERVED_WORDS, IdentifierPreparer

from qserver.client import dbapi
from qserver.client.clients import Client
from qserver.client.dbapi.connection import Connection
from qserver.client.dbapi.errors import Error, ProgrammingError, translated

_PORTS: Final[Mapping[str, int]] = {"http": 8000, "https": 443}
_NUMBERS: Final = ("within", "confidence", "timeout_s", "wait_s")
_TEXTS: Final = ("measure", "ca", "proxy")
_CHOICES: Final[Mapping[str, bool]] = {"on": True, "true": True, "off": False, "false": False}


def arguments(url: URL, *, scheme: str) -> dict[str, Any]:
    """The arguments of `connect`; the password is the token, whatever the user name.

    Args:
        scheme: http, or https.

    Raises:
        ArgumentError: a member after `?` is unknown or malformed.
    """
    host = url.host or "127.0.0.1"
    place = f"[{host}]" if ":" in host else host
    found: dict[str, Any] = {
        "url": f"{scheme}://{place}:{url.port or _PORTS[scheme]}",
        "token": url.password or "",
        "dataset": url.database or None,
    }
    for name, value in url.query.items():
        found[name] = _argument(name, value)
    return found


def _argument(name: str, value: str | tuple[str, ...]) -> Any:
    if not isinstance(value, str):
        raise ArgumentError(f"`{name}` in the URL must be there once.")
    if name == "spend":
        return _one_of(name, value)
    if name in _TEXTS:
        return value
    if name not in (*_NUMBERS, "retries"):
        known = ", ".join(("spend", *_NUMBERS, *_TEXTS, "retries"))
        raise ArgumentError(f"`{name}` in the URL must be one of {known}.")
    try:
        return int(value) if name == "retries" else float(value)
    except ValueError as exc:
        raise ArgumentError(f"`{name}` in the URL must be a number, not {value!r}.") from exc


def _one_of(name: str, value: str) -> bool:
    if value.lower() not in _CHOICES:
        raise ArgumentError(f"`{name}` in the URL must be on or off, not {value!r}.")
    return _CHOICES[value.lower()]


SCHEMA: Final = "public"
_TYPES: Final[Mapping[str, type[Any]]] = {
    "integer": types.Integer,
    "real": types.Double,
    "date": types.Date,
    "timestamp": types.Date,
    "period": types.Date,
}


def table_names(client: Client, schema: str | None) -> list[str]:
    """The datasets that the token may ask, in the one schema."""
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
    """Turn errors of the client into SQLAlchemy's; a missing dataset becomes NoSuchTableError."""
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


SPEND: Final = "qserver_spend"
"""The execution option that lets a connection spend, until it is back in the pool."""


class _Spend(ConnectionCharacteristic):
    """Whether a connection spends; in the pool it returns to its URL's choice."""

    transactional = False

    def get_characteristic(self, dialect: Any, dbapi_conn: Connection) -> bool:  # noqa: ARG002
        return dbapi_conn.spend

    def set_characteristic(self, dialect: Any, dbapi_conn: Connection, value: Any) -> None:  # noqa: ARG002
        if not isinstance(value, bool):
            raise ArgumentError(f"`{SPEND}` must be True or False, not {value!r}.")
        dbapi_conn.spend = value

    def reset_characteristic(self, dialect: Any, dbapi_conn: Connection) -> None:
        dbapi_conn.spend = dialect.spends


class _Names(IdentifierPreparer):
    """Quotes the words that this SQL has beyond SQLAlchemy's."""

    reserved_words = frozenset(RESERVED_WORDS) | {"within", "confidence", "percent", "explain"}


class QServerDialect(DefaultDialect):
    """A server by `http`; a connection spends only if the URL or the connection says so.

    Attributes:
        spends: whether connections spend that say nothing themselves.
    """

    name = "qserver"
    driver = "http"
    scheme = "http"
    preparer = _Names
    default_schema_name = SCHEMA
    default_isolation_level = "AUTOCOMMIT"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_alter = False
    supports_comments = False
    connection_characteristics = DefaultDialect.connection_characteristics.union({SPEND: _Spend()})
    spends = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The driver."""
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of the driver's `connect`; ArgumentError for a malformed URL."""
        found = arguments(url, scheme=self.scheme)
        self.spends = bool(found.get("spend", False))
        return [], found

    def initialize(self, connection: Any) -> None:
        """Ask the server nothing: one version of the protocol, and one schema."""

    def do_ping(self, dbapi_connection: Connection) -> bool:
        """Whether the server answers; otherwise raises as the driver does."""
        with translated():
            dbapi_connection.client.datasets()
        return True

    def get_isolation_level_values(self, dbapi_conn: Connection) -> tuple[str, ...]:  # noqa: ARG002
        """The only isolation level, for tools that ask for it."""
        return ("AUTOCOMMIT",)

    def get_isolation_level(self, dbapi_connection: Connection) -> str:  # noqa: ARG002
        """Every statement is answered and charged at once."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Connection, level: str) -> None:
        """Does nothing; SQLAlchemy refuses all levels but the only one."""

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:  # noqa: ARG002
        """The one schema."""
        return [SCHEMA]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The datasets that the token may ask."""
        return table_names(_client(connection), schema)

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Whether the token may ask a dataset of this name."""
        return table_name in table_names(_client(connection), schema)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """The attributes and their levels; NoSuchTableError."""
        return columns(_client(connection), table_name, schema)

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """The description of the data."""
        facts = document_of(_client(connection), table_name, schema)
        return {"text": facts["domain"].get("description") or None}

    def get_pk_constraint(self, *_: Any, **__: Any) -> dict[str, Any]:
        """None: no key may distinguish rows."""
        return {"constrained_columns": [], "name": None}

    def _none(self, *_: Any, **__: Any) -> list[Any]:
        return []

    get_view_names = get_foreign_keys = get_indexes = get_temp_table_names = _none
    get_unique_constraints = get_check_constraints = get_materialized_view_names = _none
    get_temp_view_names = get_sequence_names = _none


class SecureDialect(QServerDialect):
    """A server by `https`."""

    driver = "https"
    scheme = "https"


def _client(connection: Any) -> Client:
    """The client below a connection of SQLAlchemy."""
    driver: Connection = connection.connection.dbapi_connection
    return driver.client

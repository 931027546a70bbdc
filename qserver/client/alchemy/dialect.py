"""The dialect: how SQLAlchemy writes statements, connects and reflects."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from sqlalchemy.engine import URL
from sqlalchemy.engine.characteristics import ConnectionCharacteristic
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql.compiler import RESERVED_WORDS, IdentifierPreparer

from qserver.client import dbapi
from qserver.client.alchemy import reflection
from qserver.client.alchemy.address import arguments
from qserver.client.clients import Client
from qserver.client.dbapi.connection import Connection
from qserver.client.dbapi.errors import translated

SPEND: Final = "qserver_spend"
"""The execution option that lets a connection spend, until it is back in the pool."""


class _Spend(ConnectionCharacteristic):
    """Whether a connection spends; back in the pool it does as its URL says."""

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
    """Quotes the words that a statement has beyond SQLAlchemy's."""

    reserved_words = frozenset(RESERVED_WORDS) | {"within", "confidence", "percent", "explain"}


class QServerDialect(DefaultDialect):
    """A server by `http`; nothing is spent unless the URL or the connection says so.

    Attributes:
        spends: whether connections spend that say nothing themselves.
    """

    name = "qserver"
    driver = "http"
    scheme = "http"
    preparer = _Names
    default_schema_name = reflection.SCHEMA
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
        """Asks the server nothing: there is one version of the protocol, and one schema."""

    def do_ping(self, dbapi_connection: Connection) -> bool:
        """Whether the server answers; raises as the driver does if not."""
        with translated():
            dbapi_connection.client.datasets()
        return True

    def get_isolation_level_values(self, dbapi_conn: Connection) -> tuple[str, ...]:  # noqa: ARG002
        """The one that holds anyway, for tools that ask for it."""
        return ("AUTOCOMMIT",)

    def get_isolation_level(self, dbapi_connection: Connection) -> str:  # noqa: ARG002
        """Every statement is answered and charged at once."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Connection, level: str) -> None:
        """Does nothing; SQLAlchemy refuses all levels but the one."""

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:  # noqa: ARG002
        """The one schema."""
        return [reflection.SCHEMA]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The datasets that the token may ask."""
        return reflection.table_names(_client(connection), schema)

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Whether the token may ask a dataset of this name."""
        return table_name in reflection.table_names(_client(connection), schema)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """The attributes and their levels; NoSuchTableError."""
        return reflection.columns(_client(connection), table_name, schema)

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """The description of the data."""
        facts = reflection.document_of(_client(connection), table_name, schema)
        return {"text": facts["domain"].get("description") or None}

    def get_pk_constraint(self, *_: Any, **__: Any) -> dict[str, Any]:
        """None: rows are not to be told apart."""
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

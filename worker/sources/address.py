"""The owner's typed place of data, checked before anything is opened.

Several commands have its arguments. Secrets come by reference. What an owner types is seen in the
list of processes, in the shell's history and in the worker's folder. So it holds `{env:NAME}` or
`{file:PATH}`, and the secret is put in only in memory, at the moment when the source is opened.
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from qserver.errors import ConfigError

_REFERENCE = re.compile(r"\{(env|file):([^{}]+)\}")
_SECRET = re.compile(r"(?i)password|passwd|secret|token|credential|private_key|access_key|api_?key")
_HINT = "Write {env:NAME} or {file:PATH} in its place, so that it is in no list of processes."


def check_option(name: str, value: str) -> None:
    """Return if an option contains no secret itself; ConfigError."""
    if _SECRET.search(name) and value and not _REFERENCE.fullmatch(value):
        raise ConfigError("option", f"name {name} by a reference", hint=_HINT)


def check_address(text: str) -> None:
    """Return if an address contains no secret itself; ConfigError, which does not repeat it."""
    try:
        found = urlsplit(text)
    except ValueError:
        raise ConfigError("source", "be an address such as postgresql://HOST/DB") from None
    after_user = found.netloc.rpartition("@")[0].partition(":")[2]
    if after_user and not _REFERENCE.fullmatch(after_user):
        raise ConfigError("source", "hold no password", hint=_HINT)
    # Spark's own addresses have parameters after the path: sc://HOST:PORT/;token=...
    parameters = [tuple(p.split("=", 1)) for p in text.split(";")[1:] if "=" in p]
    for name, value in [*parse_qsl(found.query), *parameters]:
        if _SECRET.search(name) and not _REFERENCE.fullmatch(value):
            raise ConfigError("source", f"hold no {name}", hint=_HINT)


def resolved(text: str, *, quoted: bool) -> str:
    """The text with its secrets.

    Args:
        quoted: whether they are put into an address, where some characters have a meaning.

    Raises:
        ConfigError: a variable or a file is missing. The message names it, and no secret.
    """

    def secret(found: re.Match[str]) -> str:
        value = _from_environment(found[2]) if found[1] == "env" else _from_file(found[2])
        return quote(value, safe="") if quoted else value

    return _REFERENCE.sub(secret, text)


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ConfigError("source", "name an environment variable that is set", name)
    return value


def _from_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError("source", "name a readable file with the secret", name) from None


Kind = Literal["path", "s3", "sqlite", "duckdb", "postgresql", "adbc", "spark", "spark-connect"]

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.DOTALL)
_KINDS: dict[str, Kind] = {
    "s3": "s3",
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "adbc": "adbc",
    "spark": "spark",
    "spark-connect": "spark-connect",
}
_SPARK = ("spark", "spark-connect")
_DATABASES = ("sqlite", "duckdb", "postgresql", "adbc", *_SPARK)
_KNOWN = (
    "be a path, or begin with sqlite:///, duckdb:///, postgresql://, s3://, adbc:, spark:// or "
    "spark-connect://",
    "A path ends in .csv, .tsv or .parquet, or is a folder of such files.",
)


@dataclass(frozen=True)
class Address:
    """The place of data. It holds references to secrets, and no secret.

    Args:
        text: a path, `sqlite:///PATH`, `duckdb:///PATH`, `postgresql://...`, `s3://...`,
            `adbc:DRIVER`, `spark://HOST:PORT` or `spark-connect://HOST:PORT`.
        table: the table of a database; or else
        query: the SELECT whose rows are the records.
        options: `KEY=VALUE` for an ADBC driver, or of Spark.

    Raises:
        ConfigError: it is none of these, holds a secret, or lacks a table or query.
    """

    text: str
    table: str = ""
    query: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.text:
            raise ConfigError("source", _KNOWN[0], hint=_KNOWN[1])
        if self.kind in _DATABASES:
            if bool(self.table) == bool(self.query.strip()):
                raise ConfigError("source", "come with either --table or --query")
        elif self.table or self.query:
            raise ConfigError("table", "be left out where the source is files", hint=_KNOWN[1])
        if self.options and self.kind != "adbc" and not self.is_spark:
            raise ConfigError("option", "be left out where the source is no adbc:DRIVER or Spark")
        if self.kind != "path":
            check_address(self.text)
        for option in self.options:
            name, sign, value = option.partition("=")
            if not (name and sign):
                raise ConfigError("option", "be KEY=VALUE", name)
            check_option(name, value)

    @classmethod
    def of(cls, data: Path | Address) -> Address:
        """An address as it is; a path as its address."""
        return data if isinstance(data, Address) else cls(str(data))

    @property
    def kind(self) -> Kind:
        """The kind of source."""
        found = _SCHEME.fullmatch(self.text)
        if found is None or Path(self.text).exists():
            return "path"
        kind = _KINDS.get(found[1])
        if kind is None:
            raise ConfigError("source", _KNOWN[0], f"{found[1]}:", hint=_KNOWN[1])
        return kind

    @property
    def is_spark(self) -> bool:
        """Whether it is the owner's Spark, which can keep and count the codes itself."""
        return self.kind in _SPARK

    @property
    def path(self) -> Path:
        """The file or folder of a path, and of `sqlite:///PATH` and `duckdb:///PATH`."""
        if self.kind == "path":
            return Path(self.text)
        name = unquote(self.text.partition(":")[2])
        # Three slashes and a relative path, or four and an absolute one, as is usual. Three and an
        # absolute one are easily typed, and taken where there is no such relative path.
        if not name.startswith("///") or len(name) == 3:
            raise ConfigError("source", f"be {self.kind}:///PATH")
        absolute, relative = Path(name[2:]), Path(name[3:])
        return absolute if absolute.exists() and not relative.exists() else relative

    @property
    def holds_all_periods(self) -> bool:
        """Whether the source keeps earlier records, as a table does, unlike a delivered file."""
        return self.kind in _DATABASES or self.kind == "s3" or self.path.is_dir()

    @property
    def shown(self) -> str:
        """The written form: a whole path, or the address with its references."""
        return str(self.path.resolve()) if self.kind == "path" else self.text


def address_of(arguments: argparse.Namespace) -> Address:
    """The typed address; ConfigError if it is none."""
    text = arguments.source or arguments.data
    return Address(text, arguments.table, arguments.query, tuple(arguments.option))

"""Secrets by reference: an address names an environment variable or a file, never the secret.

What an owner types is seen in the list of processes, in the shell's history and in the worker's
folder. So it holds `{env:NAME}` or `{file:PATH}`, and the secret is put in only in memory, at the
moment when the source is opened.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from qserver.errors import ConfigError

_REFERENCE = re.compile(r"\{(env|file):([^{}]+)\}")
_SECRET = re.compile(r"(?i)password|passwd|secret|token|credential|private_key|access_key|api_?key")
_HINT = "Write {env:NAME} or {file:PATH} in its place, so that it is in no list of processes."


def check_option(name: str, value: str) -> None:
    """Return if an option holds no secret itself; ConfigError."""
    if _SECRET.search(name) and value and not _REFERENCE.fullmatch(value):
        raise ConfigError("option", f"name {name} by a reference", hint=_HINT)


def check_address(text: str) -> None:
    """Return if an address holds no secret itself; ConfigError, which does not repeat it."""
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

"""A URL of SQLAlchemy as arguments of the driver's `connect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

_PORTS: Final[Mapping[str, int]] = {"http": 8000, "https": 443}
_NUMBERS: Final = ("within", "confidence", "timeout_s", "wait_s")
_TEXTS: Final = ("measure", "ca", "proxy")
_CHOICES: Final[Mapping[str, bool]] = {"on": True, "true": True, "off": False, "false": False}


def arguments(url: URL, *, scheme: str) -> dict[str, Any]:
    """What `connect` takes; the password is the token, whatever the name before it.

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

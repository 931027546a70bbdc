"""The fields of a ledger, each with a seal in a field next to it: `put.lua` writes both at once.

As of every seal: it finds what changed by accident. Ledgers of earlier versions have none, and get
one with each field that is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from qserver.errors import StoreCorruptError
from qserver.storage.encoding.sealed import ADVICE

_SEAL = "seal:"


def with_seals(names: Sequence[str]) -> list[str]:
    """The fields to read for `checked`."""
    return [*names, *(_SEAL + name for name in names)]


def checked(names: Sequence[str], replies: Sequence[str | None]) -> list[str | None]:
    """The values of these fields.

    Args:
        replies: the values of `with_seals(names)`.

    Raises:
        StoreCorruptError: a value is not the one that was written.
    """
    values, seals = list(replies[: len(names)]), replies[len(names) :]
    for name, value, seal in zip(names, values, seals, strict=True):
        if seal is not None and (value is None or seal != _seal(name, value)):
            raise StoreCorruptError(f"The ledger's figure {name!r} was changed. {ADVICE}")
    return values


def checked_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """A whole ledger without its seals; StoreCorruptError as `checked`."""
    sealed = [name.removeprefix(_SEAL) for name in fields if name.startswith(_SEAL)]
    checked(sealed, [fields.get(name) for name in with_seals(sealed)])
    return {name: value for name, value in fields.items() if not name.startswith(_SEAL)}


def sealed_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """These fields and their seals, as `put.lua` writes them."""
    return dict(fields) | {_SEAL + name: _seal(name, value) for name, value in fields.items()}


def _seal(name: str, value: str) -> str:
    return hashlib.sha1(f"{name}\n{value}".encode(), usedforsecurity=False).hexdigest()

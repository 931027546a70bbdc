"""Texts in the store, each with its digest; damage is reported as damage.

A seal is no key: who writes to the store can seal whatever they like. It finds bytes that changed
by accident. Changes on purpose are for the chains, whose heads the worker's journal has.

The fields of a ledger have each a seal in a field next to it, and `put.lua` writes both at once.
Ledgers of earlier versions have none, and get one with each field that is written. A dataset's
public facts are sealed with its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from qserver.errors import CapacityError, InputError, StoreCorruptError
from qserver.records.dataset import DatasetMeta

ADVICE = "Run `qserver-worker restore`: it brings back what the worker's journal has."
PAID = "paid"
"""The name that paid questions are sealed with."""
_BETWEEN = "\n"  # JSON on one line has none
_DIGITS = 32
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    CapacityError,
    InputError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def sealed(text: str, *, name: str) -> str:
    """A text of one line with the digest of its name and content.

    Args:
        name: of the place that the text is kept in, so that it cannot stand in another.
    """
    return text + _BETWEEN + _digest(text, name)


def unsealed(text: str, *, name: str) -> str:
    """The text inside `sealed`; a text of an earlier version has no seal.

    Raises:
        StoreCorruptError: text or seal was changed, or it belongs to another place.
    """
    plain, between, digest = text.partition(_BETWEEN)
    if between and digest != _digest(plain, name):
        raise StoreCorruptError(f"What the store keeps as {name!r} was changed. {ADVICE}")
    return plain


@contextmanager
def reading(subject: str) -> Iterator[None]:
    """Turn errors of reading into damage of the store; also a decorator.

    Args:
        subject: of the text that is read, for the message.

    Raises:
        StoreCorruptError: the block failed over a text that qserver never writes.
    """
    try:
        yield
    except _UNREADABLE as exc:
        reason = f": {exc}" if isinstance(exc, InputError) else "."
        raise StoreCorruptError(f"The store's {subject} cannot be read{reason} {ADVICE}") from exc


def _digest(text: str, name: str) -> str:
    return hashlib.sha256(f"{name}{_BETWEEN}{text}".encode()).hexdigest()[:_DIGITS]


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


def meta_text(meta: DatasetMeta) -> str:
    """The facts of a dataset in the store's form."""
    return sealed(meta.to_json(), name=meta.name)


@reading("facts of a dataset")
def read_meta(text: object, *, name: str) -> DatasetMeta:
    """The facts that `meta_text` wrote for the dataset of this name.

    Raises:
        StoreCorruptError: they are missing, were changed, or are another dataset's.
    """
    if not isinstance(text, str):
        raise StoreCorruptError(f"The store lacks the facts of dataset {name!r}. {ADVICE}")
    found = DatasetMeta.from_json(unsealed(text, name=name))
    if found.name != name:
        raise StoreCorruptError(f"The facts of dataset {name!r} are another's. {ADVICE}")
    return found

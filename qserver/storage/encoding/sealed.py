"""Texts in the store: each with a digest after it, and read so that damage is told as damage.

A seal is no key: who writes to the store can seal whatever they like. It finds bytes that changed
by accident. Changes on purpose are for the chains, whose heads the worker's journal has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from qserver.errors import CapacityError, InputError, StoreCorruptError

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
    """A text of one line with its digest, which is of the name too.

    Args:
        name: of the place that the text is kept in, so that it cannot stand in another.
    """
    return text + _BETWEEN + _digest(text, name)


def unsealed(text: str, *, name: str) -> str:
    """The text that `sealed` was given; a text of an earlier version has no seal.

    Raises:
        StoreCorruptError: text or seal was changed, or it belongs to another place.
    """
    plain, between, digest = text.partition(_BETWEEN)
    if between and digest != _digest(plain, name):
        raise StoreCorruptError(f"What the store keeps as {name!r} was changed. {ADVICE}")
    return plain


@contextmanager
def reading(subject: str) -> Iterator[None]:
    """Let what cannot be read in the store leave as damage; also as a decorator.

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

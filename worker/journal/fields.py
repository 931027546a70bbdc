"""Checks of the fields of a journal's records: each raises JournalError where a field is wrong."""

from __future__ import annotations

import re
from typing import NoReturn

from qserver.errors import JournalError

_DIGEST = re.compile(r"(?:[0-9a-f]{64})?")


def check_text(name: str, value: object) -> None:
    """Check for a text that is not empty."""
    if type(value) is not str or not value:
        reject(name, "be a text of one character or more")


def check_text_or_none(name: str, value: object) -> None:
    """Check for a text; '' stands for none."""
    if type(value) is not str:
        reject(name, "be a text")


def check_digest(name: str, value: object) -> None:
    """Check for a SHA-256; '' stands for none."""
    if type(value) is not str or not _DIGEST.fullmatch(value):
        reject(name, "be 64 lower-case hexadecimal digits, or empty")


def check_integer(name: str, value: object, *, least: int) -> None:
    """Check for a whole number of at least `least`."""
    # Exact type: a bool is an int to isinstance, and a float would be written with a point.
    if type(value) is not int or value < least:
        reject(name, f"be an int >= {least}")


def check_members(name: str, value: object, kind: type) -> None:
    """Check for a tuple that is not empty, of members of one type."""
    if type(value) is not tuple or not value or any(type(member) is not kind for member in value):
        reject(name, f"be a tuple of one {kind.__name__} or more")


def reject(name: str, condition: str) -> NoReturn:
    """Raise JournalError: the field does not meet the condition."""
    raise JournalError(f"`{name}` of a journal record must {condition}.")

"""The links of the audit log, and their check.

Each entry is a JSON object whose `prev` is the SHA-256 of the entry before it. So nobody can
change, move, add or remove an entry without changing every later one. Whoever keeps the last digest
elsewhere, as the worker's journal does, can check all entries before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from qserver.errors import StoreError

GENESIS = ""
"""The `prev` of the first entry."""


def digest_of(text: str | None) -> str:
    """The digest of an entry, for the next one to name; GENESIS for None."""
    return GENESIS if text is None else hashlib.sha256(text.encode()).hexdigest()


def linked(facts: Mapping[str, Any], *, prev: str) -> str:
    """The entry with these facts, linked to the entry with the digest `prev`."""
    return json.dumps({**facts, "prev": prev}, sort_keys=True)


def check_links(texts: Sequence[str], *, name: str, prev: str = GENESIS) -> str:
    """Check that each entry follows the one before it; returns the last digest.

    Args:
        name: of the log, for the message.
        prev: digest of the entry before the first of `texts`.

    Raises:
        StoreError: an entry was changed, moved, added or removed; tells its place.
    """
    for place, text in enumerate(texts):
        if _prev_of(text) != prev:
            raise StoreError(
                f"Entry {place} of {name} does not follow the one before it: an entry was "
                "changed, moved, added or removed."
            )
        prev = digest_of(text)
    return prev


def _prev_of(text: str) -> object:
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    return entry.get("prev") if isinstance(entry, dict) else None

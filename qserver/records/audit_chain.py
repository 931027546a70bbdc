"""The audit log as texts that name each other: what links them, and whether the links hold.

Each entry is a JSON object whose `prev` is the SHA-256 of the entry before it, so none can be
changed, moved, added or removed without changing every later one. The last digest stands for all
entries before it; keep it elsewhere (the worker's journal does), and the whole log is pinned.
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
    """The digest of an entry, to be named by the next; of none, the beginning's."""
    return GENESIS if text is None else hashlib.sha256(text.encode()).hexdigest()


def linked(facts: Mapping[str, Any], *, prev: str) -> str:
    """The entry of these facts that comes after the entry of digest `prev`."""
    return json.dumps({**facts, "prev": prev}, sort_keys=True)


def check_links(texts: Sequence[str], *, name: str, prev: str = GENESIS) -> str:
    """The digest of the last entry, if each follows the one before it.

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

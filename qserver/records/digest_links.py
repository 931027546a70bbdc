"""The links of an append-only list, and their check: audit log, charges, history.

Each entry is a JSON object whose `prev` is the SHA-256 of the entry before it. So nobody can
change, move, add or remove an entry without changing every later one. Whoever keeps the last
digest, the head, elsewhere, as the worker's journal does, can check all entries before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qserver.errors import StoreCorruptError

GENESIS = ""
"""The `prev` of the first entry."""


@dataclass(frozen=True)
class Links:
    """Entries in a chain, and the digest of the last: the head."""

    texts: tuple[str, ...]
    head: str


def digest_of(text: str | None) -> str:
    """The digest of an entry, which the next one names; GENESIS for None."""
    return GENESIS if text is None else hashlib.sha256(text.encode()).hexdigest()


def digest_of_all(texts: Sequence[str], *, after: str = GENESIS) -> str:
    """One digest of entries without links, after those with the digest `after`."""
    for text in texts:
        after = digest_of(after + text)
    return after


def linked(facts: Mapping[str, Any], *, prev: str) -> str:
    """The entry with these facts, linked to the entry with the digest `prev`."""
    return json.dumps({**facts, "prev": prev}, sort_keys=True)


def relinked(texts: Sequence[str], *, prev: str = GENESIS) -> Links:
    """These entries with new links, after the entry with the digest `prev`."""
    found = []
    for text in texts:
        found.append(linked(json.loads(text), prev=prev))
        prev = digest_of(found[-1])
    return Links(tuple(found), prev)


def is_linked(text: str) -> bool:
    """Whether an entry names its predecessor; in histories of earlier versions it does not."""
    return _prev_of(text) is not None


def check_links(texts: Sequence[str], *, name: str, prev: str = GENESIS) -> str:
    """Check that each entry follows the one before it; returns the last digest.

    Args:
        name: of the log, for the message.
        prev: digest of the entry before the first of `texts`.

    Raises:
        StoreCorruptError: an entry was changed, moved, added or removed; tells its place.
    """
    for place, text in enumerate(texts):
        # To find the link in the text takes a sixth of reading it as JSON.
        if f'"prev": "{prev}"' not in text and _prev_of(text) != prev:
            raise StoreCorruptError(
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

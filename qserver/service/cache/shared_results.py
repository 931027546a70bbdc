"""What one process found, for all of them: texts that the store keeps for a day.

A result stands on a state of the history, and is found by that and by what it is about. Nobody has
to look at anything anew that another process has looked at.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from qserver.errors import StoreError
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.digests import sealed, unsealed
from qserver.storage.store import Store


@dataclass(frozen=True)
class ResultKey:
    """Where a result is kept.

    Args:
        kind: `job`: of a worker, which finds what history knows; `answers`: the job that has those
            of a workload; `numbers`: smooth ones; `text`: what several keys lead to.
        state: what it stands on: the number of events, and for answers what remains and the
            periods that have records; nothing for a text.
        digest: of all that is asked, with the snapshot; or of a text.
    """

    kind: Literal["job", "answers", "numbers", "text"]
    state: tuple[int, ...]
    digest: str

    @property
    def text(self) -> str:
        """The key in the store. No key of a client holds a line end."""
        return "\n".join(self._parts)

    @property
    def name(self) -> str:
        """What the result is sealed with, so that it cannot stand in another place."""
        return " ".join(self._parts)

    @property
    def _parts(self) -> tuple[str, ...]:
        return self.kind, *map(str, self.state), self.digest


class SharedResults:
    """Results that all processes share. Thread-safe as the store is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, meta: DatasetMeta, key: ResultKey) -> str:
        """The result's text, or ''; StoreCorruptError if it was changed."""
        found = self._store.bound(meta, key=key.text, body_digest=key.digest)
        return unsealed(found, name=key.name)

    def keep(self, meta: DatasetMeta, key: ResultKey, text: str) -> None:
        """Keep a result, the first one of its key. A store that takes none changes no answer."""
        outcome = sealed(text, name=key.name)
        with suppress(StoreError):
            self._store.bind(meta, key=key.text, body_digest=key.digest, outcome=outcome)

    def find_far(self, meta: DatasetMeta, key: ResultKey) -> str:
        """As `find`, for what `keep_far` kept."""
        digest = self.find(meta, key)
        return self.find(meta, ResultKey("text", (), digest)) if digest else ""

    def keep_far(self, meta: DatasetMeta, key: ResultKey, text: str) -> None:
        """As `keep`, for what stays the same in many states: the store holds its text once."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.keep(meta, ResultKey("text", (), digest), text)
        self.keep(meta, key, digest)

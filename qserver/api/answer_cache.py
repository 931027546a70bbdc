"""Free answers as the bytes that were sent, for questions that come again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True)
class KeptAnswer:
    """A response body, and the version of its dataset that was read before it was computed."""

    version: Hashable
    payload: bytes


class AnswerCache:
    """Response bodies by dataset and exact request body; the least recently used leaves first.

    It holds answers that cost nothing, and each is of use only while its version is current: the
    caller compares. A body that is written differently is another question here, and goes the
    long way to the same answer.

    Args:
        max_entries: answers kept at most.
        max_body_bytes: longer requests are not kept, which bounds the memory.
    """

    def __init__(self, *, max_entries: int = 4096, max_body_bytes: int = 4096) -> None:
        self._max_entries = max_entries
        self.max_body_bytes = max_body_bytes
        self._kept: OrderedDict[tuple[str, bytes], KeptAnswer] = OrderedDict()
        self._lock = Lock()

    def find(self, dataset: str, body: bytes) -> KeptAnswer | None:
        """What was kept for this dataset and body, or None."""
        key = (dataset, body)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        return kept

    def keep(self, dataset: str, body: bytes, answer: KeptAnswer) -> None:
        """Keep an answer in place of what was kept for the same dataset and body."""
        if len(body) + len(dataset) > self.max_body_bytes:
            return
        key = (dataset, body)
        with self._lock:
            self._kept[key] = answer
            self._kept.move_to_end(key)
            while len(self._kept) > self._max_entries:
                self._kept.popitem(last=False)

"""What changed in an engine, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass
class Changes:
    """The last change by measurement and by key, of one engine. Changes are counted.

    Attributes:
        n: changes so far.
    """

    n: int = 0
    _of_all: int = 0
    _of_arrival: int = 0
    _of_ids: dict[int, int] = field(default_factory=dict)
    _of_keys: dict[str, int] = field(default_factory=dict)

    def note(self, ids: Collection[int] | None, keys: Iterable[str]) -> None:
        """Note a change.

        Args:
            ids: of the measurements that may say something else; None for all.
            keys: of rows that were measured, or that got weights.
        """
        self.n += 1
        if ids is None:
            self._of_all = self.n
        else:
            self._of_ids.update(dict.fromkeys(ids, self.n))
        self._of_keys.update(dict.fromkeys(keys, self.n))

    def note_arrival(self) -> None:
        """Note that rows which were known before are in play now, and nothing else."""
        self.n += 1
        self._of_arrival = self.n

    def none_since(self, n: int, ids: Iterable[int], keys: Iterable[str], *, by_all: bool) -> bool:
        """Whether none of some measurements and keys has changed since so many changes.

        Args:
            by_all: whether rows that only came into play change nothing.
        """
        return (
            self._of_all <= n
            and (by_all or self._of_arrival <= n)
            and all(self._of_ids.get(i, 0) <= n for i in ids)
            and all(self._of_keys.get(key, 0) <= n for key in keys)
        )

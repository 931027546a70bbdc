"""The changes of an engine, and when they happened."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass
class Changes:
    """The last change of each measurement and key in one engine. Changes are counted.

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
            ids: measurements that may now tell something else; None for all.
            keys: of rows that were measured, or that got weights.
        """
        self.n += 1
        if ids is None:
            self._of_all = self.n
        else:
            self._of_ids.update(dict.fromkeys(ids, self.n))
        self._of_keys.update(dict.fromkeys(keys, self.n))

    def note_arrival(self) -> None:
        """Note that known rows came into play, without any other change."""
        self.n += 1
        self._of_arrival = self.n

    def none_since(self, n: int, ids: Iterable[int], keys: Iterable[str], *, by_all: bool) -> bool:
        """Whether these measurements and keys are unchanged since a number of changes.

        Args:
            by_all: whether rows that only came into play do not count as changes.
        """
        return (
            self._of_all <= n
            and (by_all or self._of_arrival <= n)
            and all(self._of_ids.get(i, 0) <= n for i in ids)
            and all(self._of_keys.get(key, 0) <= n for key in keys)
        )

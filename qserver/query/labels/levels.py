"""Levels: labels joined to larger ones, such as districts to regions.

A level has a name of its own, by which conditions and GROUP BY know it. It adds no values to the
domain: a condition on it is one on the labels, so what is known of these is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.errors import DomainError

MAX_LEVELS = 16


@dataclass(frozen=True)
class Level:
    """One level above the labels of an attribute.

    Args:
        name: as that of an attribute, and different from all of them.
        groups: the names of its groups, in order.
        group_of: per label of the attribute, the index of its group.

    Raises:
        DomainError: groups are no distinct texts, or one has no label.
    """

    name: str
    groups: tuple[str, ...]
    group_of: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.groups or not all(isinstance(g, str) and g for g in self.groups):
            raise DomainError("", "have one or more groups, whose names are non-empty texts")
        if len(set(self.groups)) < len(self.groups):
            raise DomainError("", "name each group once")
        if set(self.group_of) != set(range(len(self.groups))):
            raise DomainError("", "have a label in each group, and each label in one")

    def masks(self, *, other: str | None) -> dict[str, int]:
        """The mask of the labels of each group, in order.

        Args:
            other: the value beside the labels, a group of its own; None for none.
        """
        found = dict.fromkeys(self.groups, 0)
        for i, group in enumerate(self.group_of):
            found[self.groups[group]] |= 1 << i
        if other is not None:
            found[other] = 1 << len(self.group_of)
        return found

    def labels_of(self, group: int, labels: tuple[str, ...]) -> list[str]:
        """The labels of a group."""
        return [label for label, at in zip(labels, self.group_of, strict=True) if at == group]

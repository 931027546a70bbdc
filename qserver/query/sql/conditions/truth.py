"""Three truth values: which records of a condition are asked for.

A condition is true, false or unknown of a record, as in SQL: a comparison with a missing value is
unknown. This is the one place of the rules. NOT swaps true and false, and keeps unknown. AND is
true where all of its parts are, and false where one is; OR the other way. WHERE, FILTER and CASE
take what is true, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Truth:
    """The records of which a condition has a truth value, or has it not.

    Args:
        value: true or false.
        is_rest: whether all others are meant; of these it is the other value, or unknown.
    """

    value: bool
    is_rest: bool = False

    @property
    def of_opposite(self) -> Truth:
        """What is asked of c, where this is asked of NOT c."""
        return Truth(not self.value, self.is_rest)

    @property
    def rest(self) -> Truth:
        """All other records."""
        return Truth(self.value, not self.is_rest)

    def needs_all(self, *, of_and: bool) -> bool:
        """Whether AND, or else OR, has it where all parts have it; else where one has."""
        return of_and == (self.value != self.is_rest)

    def holds(self, *, value: bool | None) -> bool:
        """Whether a condition with this truth value has it; None for unknown."""
        return (value is self.value) != self.is_rest

    def mask(self, true: int, unknown: int, everything: int) -> int:
        """The values that have it, of masks of those for which a condition is true and unknown."""
        found = true if self.value else everything & ~(true | unknown)
        return everything & ~found if self.is_rest else found


TRUE, FALSE = Truth(value=True), Truth(value=False)
NOT_TRUE, NOT_FALSE = TRUE.rest, FALSE.rest

"""Where a snapshot stands in its population's budget.

Snapshots whose people may be the same form a cohort: a person may stand in a cell of each, so their
losses add up. Cohorts that have no person in common, by the owner's word, form a lineage: a person
is in one of them at most, so a lineage costs what its dearest cohort costs. What a population has
spent is the sum over its lineages. See docs/guarantee.md for the proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from qserver.errors import StoreError


@dataclass(frozen=True)
class People:
    """Whose data a snapshot is, beside the population's other snapshots.

    Args:
        cohort: id of the snapshots whose people may be the same, so their losses add up.
        lineage: id of the cohorts that have no person in common, by the owner's word.
    """

    cohort: str
    lineage: str


def population_spent(shares: Mapping[str, int], people: Mapping[str, People]) -> int:
    """What a population has spent: over its lineages, the sum of each one's dearest cohort.

    Args:
        shares: what each snapshot has spent, in nano-epsilon.
        people: whose data each of them is.
    """
    cohorts: dict[tuple[str, str], int] = defaultdict(int)
    for snapshot, share in shares.items():
        whose = people[snapshot]
        cohorts[whose.lineage, whose.cohort] += share
    lineages: dict[str, int] = defaultdict(int)
    for (lineage, _), spent in cohorts.items():
        lineages[lineage] = max(lineages[lineage], spent)
    return sum(lineages.values())


@dataclass(frozen=True)
class Standing:
    """Budget figures of one snapshot, in nano-epsilon.

    Args:
        limit_nano, spent_nano: of the population.
        lineage_nano: the dearest cohort of the snapshot's lineage; a part of `spent_nano`.
        cohort_nano: the snapshots of its cohort together; at most `lineage_nano`.
        share_nano: the snapshot alone; a part of `cohort_nano`.

    Raises:
        StoreError: the figures contradict each other.
    """

    limit_nano: int
    spent_nano: int
    lineage_nano: int
    cohort_nano: int
    share_nano: int

    def __post_init__(self) -> None:
        figures = (self.share_nano, self.cohort_nano, self.lineage_nano, self.spent_nano)
        if not 0 <= figures[0] <= figures[1] <= figures[2] <= figures[3]:
            raise StoreError("The store's ledger contradicts itself: a part exceeds its whole.")

    @classmethod
    def alone(cls, *, limit_nano: int, spent_nano: int) -> Standing:
        """The standing of a snapshot that is the only one of its population."""
        return cls(limit_nano, spent_nano, spent_nano, spent_nano, spent_nano)

    @property
    def lost_nano(self) -> int:
        """The most that a person of this snapshot may have lost, in whatever dataset."""
        return self.spent_nano - self.lineage_nano + self.cohort_nano

    @property
    def remaining_nano(self) -> int:
        """How much more this snapshot may spend under the limit."""
        return self.limit_nano - self.lost_nano

    def after(self, share_nano: int) -> Standing:
        """The standing once the snapshot alone has spent `share_nano`."""
        cohort = self.cohort_nano - self.share_nano + share_nano
        lineage = max(self.lineage_nano, cohort)
        spent = self.spent_nano - self.lineage_nano + lineage
        return Standing(self.limit_nano, spent, lineage, cohort, share_nano)

    def allowed_nano(self, guard_nano: int | None = None) -> int:
        """What the snapshot alone may have spent in all.

        Args:
            guard_nano: the most that a cell of its cohort may lose; None for the limit alone.
        """
        most = self.cohort_nano + self.remaining_nano
        if guard_nano is not None:
            most = min(most, guard_nano)
        return most - self.cohort_nano + self.share_nano

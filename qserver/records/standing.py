"""Where a snapshot stands in its population's budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from qserver.errors import StoreError


@dataclass(frozen=True)
class Standing:
    """Budget figures of one snapshot, in nano-epsilon; see `qserver.ledger.population`.

    Args:
        limit_nano: of the population.
        spent_nano: the most that any person of the population may have lost.
        lost_nano: the most that a person of this snapshot may have lost, in whatever dataset.
        share_nano: what the snapshot alone has spent; a part of `lost_nano`.

    Raises:
        StoreError: the figures contradict each other.
    """

    limit_nano: int
    spent_nano: int
    lost_nano: int
    share_nano: int

    def __post_init__(self) -> None:
        if not 0 <= self.share_nano <= self.lost_nano <= self.spent_nano:
            raise StoreError("The store's ledger contradicts itself: a part exceeds its whole.")

    @classmethod
    def alone(cls, *, limit_nano: int, spent_nano: int) -> Standing:
        """The standing of a snapshot that is the only one of its population."""
        return cls(limit_nano, spent_nano, spent_nano, spent_nano)

    @property
    def remaining_nano(self) -> int:
        """How much more this snapshot may spend under the limit."""
        # An earlier version may have let somebody lose more than the limit: then nothing is spent.
        return 0 if self.spent_nano > self.limit_nano else self.limit_nano - self.lost_nano

    def after(self, share_nano: int) -> Standing:
        """The standing once the snapshot alone has spent `share_nano`."""
        lost = self.lost_nano - self.share_nano + share_nano
        return Standing(self.limit_nano, max(self.spent_nano, lost), lost, share_nano)

    def allowed_nano(self, guard_nano: int | None = None) -> int:
        """What the snapshot alone may have spent in all.

        Args:
            guard_nano: the most that a person of the snapshot may lose; None for the limit alone.
        """
        most = self.limit_nano if guard_nano is None else min(self.limit_nano, guard_nano)
        return max(self.share_nano, most - self.lost_nano + self.share_nano)

    def to_plain(self) -> dict[str, int]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, int]) -> Standing:
        """The standing that `to_plain` wrote, in this version or in one that kept cohorts."""
        if "cohort_nano" in plain:
            lost = plain["spent_nano"] - plain["lineage_nano"] + plain["cohort_nano"]
            return cls(plain["limit_nano"], plain["spent_nano"], lost, plain["share_nano"])
        return cls(**plain)

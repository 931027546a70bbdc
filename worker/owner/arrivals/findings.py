"""The records of a file that are not counted unchanged: for the owner's terminal alone.

None of these numbers may reach the store, the journal or a log: each follows from the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from qserver.errors import PrivateDataError

if TYPE_CHECKING:
    from worker.private.truncation import Kept, PeriodRule

Late = Literal["drop", "move"]
"""What becomes of records of sealed periods: left out, or counted in the first open period."""
LATE: tuple[Late, ...] = ("drop", "move")

PUT_OFF = (
    "An append that is put off because of what is in the data may itself tell something about "
    "them: the sealed periods are public, and so is the time when they grow."
)


class StrictError(PrivateDataError):
    """`append --strict` found records that it would not count unchanged; nothing is sealed.

    Shown to the owner only.
    """


@dataclass(frozen=True, repr=False)
class Findings:
    """The records of a file that are not counted unchanged. All of this is private.

    Args:
        first_open: the first period that was not sealed.
        n_late: records of periods before it, and what becomes of them.
        n_outside: by attribute, records whose value lies outside the domain: left out, or counted
            as its rule says.
        n_unplaced: records left out because a value is missing.
        kept: what the rule for one person leaves of the others; None without a rule.
        n_crowded: periods with more records than the capacity.
    """

    first_open: str
    late: Late
    n_late: int = 0
    n_outside: Mapping[str, int] | None = None
    n_unplaced: int = 0
    kept: Kept | None = None
    n_crowded: int = 0

    @property
    def n_dropped(self) -> int:
        """Number of records that the rule for one person leaves out."""
        return 0 if self.kept is None else len(self.kept.mask) - int(self.kept.mask.sum())

    def lines(self, rule: PeriodRule | None) -> Iterator[str]:
        """The owner's lines on an append that continues."""
        if self.n_late:
            what = "left out" if self.late == "drop" else f"counted in {self.first_open}"
            yield (
                f"private, for you alone: {self.n_late:,} records are of periods before "
                f"{self.first_open}, which are sealed: {what}"
            )
        if rule is not None and self.kept is not None:
            yield from self.kept.lines(rule)

    def check(self, rule: PeriodRule | None) -> None:
        """Raise StrictError unless every record counts unchanged."""
        faults = list(self._faults(rule))
        if faults:
            raise StrictError(
                f"--strict found {'; '.join(faults)}. Nothing was sealed. Mend the file, or append "
                f"it without --strict. {PUT_OFF}"
            )

    def _faults(self, rule: PeriodRule | None) -> Iterator[str]:
        if self.n_late:
            yield f"{self.n_late:,} records of periods before {self.first_open}, which are sealed"
        for name, n in (self.n_outside or {}).items():
            if n:
                yield f"{n:,} records whose `{name}` is outside the domain"
        if self.n_unplaced:
            yield f"{self.n_unplaced:,} records that are left out because a value is missing"
        if rule is not None and self.kept is not None:
            yield from self.kept.reasons(rule)
        if self.n_crowded:
            yield f"{self.n_crowded:,} periods with more records than the capacity"

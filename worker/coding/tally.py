"""The fate of a source's records, in numbers for the owner's terminal alone.

Also how far a read is: how many rows, how fast, and when it ends.

All of it is private: exact counts, without noise. It is said once, where the owner typed the
command, and it is written nowhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute, Domain
from worker.constants import WORKER


class Progress:
    """Reports now and then how many rows were read, and at the end the time.

    Args:
        n_rows: about how many rows there are; None where nobody knows.
        say: takes a line.
        clock: seconds since any moment.
    """

    def __init__(
        self,
        n_rows: int | None,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._n_rows, self._say, self._clock = n_rows, say, clock
        self._begun = self._said = clock()
        self._done = 0

    def add(self, n: int) -> None:
        """Count more rows."""
        self._done += n
        now = self._clock()
        if now - self._said < WORKER.progress_s:
            return
        self._said = now
        rate = self._done / (now - self._begun)
        line = f"read {self._done:,} rows, {rate:,.0f} a second"
        if self._n_rows is not None and self._n_rows > self._done:
            rest = (self._n_rows - self._done) / rate
            line = f"read {self._done:,} of about {self._n_rows:,} rows, {rate:,.0f} a second, "
            line += f"{_duration(rest)} to go"
        self._say(line)

    def end(self) -> None:
        """End the report."""
        took = self._clock() - self._begun
        if took >= WORKER.progress_s:
            rate = self._done / took
            self._say(f"read {self._done:,} rows in {_duration(took)}, {rate:,.0f} a second")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


_RULES = {"drop": "dropped", "clamp": "counted in the nearest bin"}


class LostColumnError(PrivateDataError):
    """Nearly no value of a column is one of its attribute's. Shown to the owner only."""


@dataclass
class ColumnTally:
    """The values of a column that are none of its attribute's.

    Args:
        n_missing: empty fields and missing markers, and texts in a column of numbers.
        n_outside: other values.
    """

    attribute: Attribute
    n_missing: int = 0
    n_outside: int = 0

    def shares(self, n_rows: int) -> list[str]:
        """The missing and the outside shares, in words."""
        found = (("missing", self.n_missing), ("outside", self.n_outside))
        return [f"{_share(n, n_rows)} {what}" for what, n in found if n]

    def lines(self, n_rows: int) -> list[str]:
        """One line for each number that is not 0."""
        found = (
            ("missing", self.n_missing, self.attribute.missing),
            ("outside", self.n_outside, self.attribute.outside),
        )
        return [
            f"  {self.attribute.name}: {n:,} {what} ({_share(n, n_rows)}), {self._fate(rule)}"
            + (_WARNING if n > WORKER.report_share * n_rows else "")
            for what, n, rule in found
            if n
        ]

    def _fate(self, rule: str) -> str:
        return _RULES.get(rule, f"counted as {self.attribute.other}")


@dataclass
class Tally:
    """The tally of all columns and records.

    Args:
        n_rows: records that were read.
        n_inside: those of the wanted periods that no rule of the domain drops.
        n_unplaced: those that a missing value drops.
        n_other_periods: records of other periods than the wanted ones.
        n_late: records of sealed periods that are left out.
        n_kept: those that stay after those over a person's bound are left out.
        person_types: what the column of persons holds, in words.
    """

    columns: list[ColumnTally]
    n_rows: int = 0
    n_inside: int = 0
    n_unplaced: int = 0
    n_other_periods: int = 0
    n_late: int = 0
    n_kept: int | None = None
    person_types: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, domain: Domain) -> Tally:
        """An empty tally."""
        return cls([ColumnTally(attribute) for attribute in domain.attributes])

    @property
    def n_outside(self) -> dict[str, int]:
        """By attribute, how many values lie outside the domain."""
        return {column.attribute.name: column.n_outside for column in self.columns}

    @property
    def person_type(self) -> str:
        """The type of the column of persons; '' without one, or without records."""
        return " and ".join(sorted(self.person_types))

    def check_found(self, note: str = "") -> None:
        """Return unless nearly all of a column is missing or outside.

        Args:
            note: what else the owner should know of a refusal.

        Raises:
            LostColumnError: its questions would be of no use for as long as the data are.
        """
        n_rows = self.n_rows - self.n_other_periods
        lost = [
            f"{column.attribute.name} ({', '.join(column.shares(n_rows))})"
            for column in self.columns
            if column.n_missing + column.n_outside > WORKER.lost_share * n_rows
        ]
        if lost:
            raise LostColumnError(
                f"Nearly all values are missing or outside the domain: {'; '.join(lost)}. Nothing "
                "was registered or sealed. Look how they are written: `codes`, `decimal`, `trim` "
                "and `fold` in the domain file say how cells are compared. Leave the attribute "
                f"out, or say --as-it-is if that is right. {note}".rstrip()
            )

    def to_plain(self) -> list[object]:
        """Plain JSON values of a coder's counts."""
        columns = [[column.n_missing, column.n_outside] for column in self.columns]
        types = sorted(self.person_types)
        return [self.n_rows, self.n_inside, self.n_unplaced, columns, types]

    def add_plain(self, text: str) -> None:
        """Add the counts of another coder of the same domain, as JSON of `to_plain`."""
        n_rows, n_inside, n_unplaced, columns, types = json.loads(text)
        self.person_types.update(types)
        self.n_rows += n_rows
        self.n_inside += n_inside
        self.n_unplaced += n_unplaced
        for column, (n_missing, n_outside) in zip(self.columns, columns, strict=True):
            column.n_missing += n_missing
            column.n_outside += n_outside

    def lines(self) -> list[str]:
        """The report."""
        dropped = self.n_rows - self.n_other_periods - self.n_inside
        kept = self.n_inside - self.n_late if self.n_kept is None else self.n_kept
        over = self.n_inside - self.n_late - kept
        head = f"private, for you alone: {self.n_rows:,} rows read, {kept:,} kept"
        parts = [head]
        if dropped:
            warning = _WARNING if dropped > WORKER.report_share * self.n_rows else ""
            parts.append(
                f"  {dropped:,} dropped by the domain ({_share(dropped, self.n_rows)}){warning}"
            )
        if self.n_other_periods:
            parts.append(f"  {self.n_other_periods:,} of other periods, left out")
        if over:
            warning = _WARNING if over > WORKER.report_share * self.n_rows else ""
            parts.append(
                f"  {over:,} dropped because of records per person "
                f"({_share(over, self.n_rows)}){warning}"
            )
        for column in self.columns:
            parts += column.lines(self.n_rows)
        return parts


_WARNING = f" - WARNING: more than {WORKER.report_share:.0%} of the rows"


def _share(n: int, n_rows: int) -> str:
    share = 100 * n / max(n_rows, 1)
    return f"{share:.1f} %" if share >= 0.1 else "under 0.1 %"

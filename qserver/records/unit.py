"""The unit of privacy: which records of one person count together, in data with periods.

Two datasets are neighbours if they differ by one unit. A person has at most k records that count,
`records_per_person`, and at most m of them in one period. What each unit costs is in
`qserver.ledger.one_person`, and the proof in docs/guarantee.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from qserver.errors import DomainError

Protects = Literal["person", "person-period", "person-unbounded"]


Replaced = Literal["any-period", "same-period"]


PROTECTS: tuple[Protects, ...] = get_args(Protects)


REPLACED: tuple[Replaced, ...] = get_args(Replaced)


@dataclass(frozen=True)
class Unit:
    """The protected records of a person.

    Args:
        protects: `person`, at most k records in all periods together; `person-period`, at most k
            records in any one period; `person-unbounded`, at most m records in each period.
        per_period: m, most records of one person in one period; None for as many as k.
        replaced: under replace-one, whether a record that takes another's place may be of another
            period. `same-period` protects less: in which period somebody has a record is not.

    Raises:
        DomainError: these do not go together; the message names the field.
    """

    protects: Protects = "person"
    per_period: int | None = None
    replaced: Replaced = "any-period"

    def __post_init__(self) -> None:
        for name, known in (("protects", PROTECTS), ("replaced", REPLACED)):
            value = getattr(self, name)
            if value not in known:
                names = ", ".join(f"`{one}`" for one in known)
                raise DomainError(name, f"be one of {names}", value)
        m = self.per_period
        if m is not None and (not isinstance(m, int) or isinstance(m, bool) or m < 1):
            raise DomainError("records_per_period", "be a whole number >= 1", m)
        if m is None and self.protects == "person-unbounded":
            raise DomainError("records_per_period", "be given for unit `person-unbounded`", m)
        if self.protects == "person-period" and m is not None:
            raise DomainError("records_per_period", "be left out for unit `person-period`", m)

    def most_in_period(self, records_per_person: int) -> int:
        """m, most records of one person in one period."""
        return records_per_person if self.per_period is None else self.per_period

    def most_together(self, records_per_person: int, n_periods: int) -> int:
        """k, most records of one person that count together.

        Where a person has no bound in all, that is m in every period, whatever else is said.
        """
        if self.protects == "person-unbounded":
            return self.most_in_period(records_per_person) * n_periods
        return records_per_person

    def most_in_all(self, records_per_person: int) -> int | None:
        """Most records of one person in all periods together; None for no bound."""
        return records_per_person if self.protects == "person" else None

    def status(self, records_per_person: int) -> UnitStatus:
        """What a dataset shows of it."""
        m, text = self.most_in_period(records_per_person), self.words(records_per_person)
        return UnitStatus(self.protects, m, self.replaced, text)

    def words(self, records_per_person: int) -> str:
        """What is protected, in plain words."""
        k, m = records_per_person, self.most_in_period(records_per_person)
        match self.protects:
            case "person-period":
                found = f"what a person did in one period, up to {_records(k)}"
            case "person-unbounded":
                found = f"a person with up to {_records(m)} in each period, however many in all"
            case _ if m < k:
                found = f"a person with up to {_records(k)} in all, {m} in a period"
            case _:
                found = f"a person with up to {_records(k)}, in whatever periods"
        if self.replaced == "same-period":
            found += "; in which periods the records are is not protected"
        return found


@dataclass(frozen=True)
class UnitStatus:
    """The public face of a unit.

    Args:
        protects: `person`: up to `records_per_person` records in all; `person-period`: so many in
            any one period; `person-unbounded`: up to `records_per_period` in every period.
        records_per_period: most records of one person in one period.
        replaced: under `replace-one`: whether a replaced record may be of another period.
        text: the unit, in words.
    """

    protects: Protects
    records_per_period: int
    replaced: Replaced
    text: str


def _records(n: int) -> str:
    return "1 record" if n == 1 else f"{n} records"


THE_PERSON = Unit()
"""A person with k records in whatever periods: what counts unless an owner says otherwise."""


@dataclass(frozen=True)
class SealedPeriods:
    """Which periods of a dataset have their data now; public.

    Args:
        attribute: the attribute of periods.
        sealed: number of first periods whose data are complete.
        last: the last of them; None before the first.
        declared: periods in all, those to come too.
        capacity: most records of one period; the time of an answer follows from it.
        retired: number of first periods whose records are erased; answers about them stay, and
            nothing more is measured.
        first_kept: the first period whose records are kept; None where none are erased.
    """

    attribute: str
    sealed: int
    last: str | None
    declared: int
    capacity: int
    retired: int = 0
    first_kept: str | None = None

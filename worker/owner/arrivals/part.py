"""Make a part of a private file: the records of the periods to seal.

All that is said here is for the owner's terminal alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qserver.errors import ConfigError, PrivateDataError
from qserver.query.domain import Attribute, Domain
from qserver.records.dataset import Growth
from worker.coding.coder import WantedPeriods
from worker.coding.tally import Tally
from worker.owner.arrivals.findings import PUT_OFF, Findings, Late
from worker.private.content_digests import Content
from worker.private.parts import Part, kept_so_far, part_of
from worker.private.people import other_type
from worker.private.snapshot import Records, read_records
from worker.private.truncation import PeriodRule, PersonRule, kept_by_period
from worker.sources.address import Address


@dataclass(frozen=True)
class Arriving:
    """The facts that fix the next part of a dataset, besides the file itself.

    Args:
        earlier: the parts before it, whose kept records of a person count.
        start, stop: the periods that it seals.
        empty: the owner's word that periods without records are meant.
        late: what becomes of records of earlier periods.
        strict: stop before anything is sealed if a record is not counted as it stands.
        person_type: what the column of persons held before, as `RegistryEntry` has it.
        as_it_is: the owner's word that a column may be lost.
    """

    domain: Domain
    growth: Growth
    person: PersonRule | None
    key: bytes
    earlier: Sequence[Part]
    start: int
    stop: int
    empty: bool = False
    late: Late = "drop"
    strict: bool = False
    person_type: str | None = ""
    as_it_is: bool = False

    @property
    def axis(self) -> int:
        """Position of the attribute of periods."""
        return self.domain.names.index(self.growth.attribute)

    @property
    def rule(self) -> PeriodRule | None:
        """The rule for records of one person; None keeps all."""
        if self.person is None:
            return None
        k = self.person.most
        return self.person.by_period or PeriodRule(self.axis, most=k, in_all=k)

    @property
    def periods(self) -> WantedPeriods:
        """The periods to seal, of a source that holds others too."""
        return WantedPeriods(self.axis, self.start, self.stop)

    @property
    def attribute(self) -> Attribute:
        """The attribute of periods."""
        return self.domain.attributes[self.axis]


@dataclass(frozen=True, repr=False)
class Arrived:
    """A part that was read.

    Args:
        findings: what is not counted as it stands in the file; private.
        person_type: what the column of persons holds, in words; '' where nobody knows.
    """

    part: Part
    content: Content
    findings: Findings
    person_type: str


def read_part(
    data: Path | Address | None, arriving: Arriving, *, folder: Path, say: Callable[[str], None]
) -> Arrived:
    """The part in a source.

    Args:
        data: None for periods without any records.
        folder: for the codes while they are read.
        say: told how many records are late or left out, for the owner alone.

    Raises:
        PrivateDataError: the file cannot be read, or has records of later periods.
        StrictError: a record is not counted as it stands, and the owner wants that told first.
        ConfigError: a period has more records than its capacity, or none at all.
    """
    records = _records(data, arriving, folder, say)
    if not arriving.as_it_is:
        records.tally.check_found(PUT_OFF if arriving.start else "")
    found, n_late = in_time(records, arriving)
    _check_periods(found.codes[arriving.axis], arriving)
    kept, rule = None, arriving.rule
    if rule is not None and found.people is not None:
        key = arriving.key
        earlier = kept_so_far(
            arriving.earlier,
            found.people,
            key=key,
            of_earlier_version=arriving.person_type is None,
        )
        kept = kept_by_period(found.people, found.codes, rule=rule, key=key, earlier=earlier)
    stays = found if kept is None else found.where(kept.mask)
    part = part_of(
        arriving.start, arriving.stop, stays.codes, people=stays.people, key=arriving.key
    )
    findings = Findings(
        arriving.attribute.value_names[arriving.start],
        arriving.late,
        n_late,
        found.tally.n_outside,
        found.tally.n_unplaced,
        kept,
        int((part.per_period(arriving.axis) > arriving.growth.capacity).sum()),
    )
    if arriving.strict:
        findings.check(rule)
    _check_capacity(findings, arriving)
    found.tally.n_kept = len(stays.codes[0])
    found.tally.n_late = n_late if arriving.late == "drop" else 0
    who = found.tally.person_type
    warning = other_type(arriving.person_type or "", who)
    for line in (*warning, *findings.lines(rule), *found.tally.lines()):
        say(line)
    return Arrived(part, found.content, findings, who)


def _records(
    data: Path | Address | None, arriving: Arriving, folder: Path, say: Callable[[str], None]
) -> Records:
    if data is None:
        nothing = tuple(np.zeros(0, dtype=np.int64) for _ in arriving.domain.attributes)
        return Records(nothing, None, Content(), Tally.of(arriving.domain))
    address = Address.of(data)
    return read_records(
        address,
        arriving.domain,
        key=arriving.key,
        folder=folder,
        person=arriving.person,
        periods=arriving.periods if address.holds_all_periods else None,
        say=say,
    )


def in_time(found: Records, arriving: Arriving) -> tuple[Records, int]:
    """The records without late ones, or with them in the first open period; and their number.

    A moved record counts as one of that period in all that follows. So the rule for one person sees
    what it would see if the record had been of that period from the start.
    """
    late = found.codes[arriving.axis] < arriving.start
    if not late.any():
        return found, 0
    n_late = int(late.sum())
    if arriving.late == "drop":
        return found.where(~late), n_late
    codes = list(found.codes)
    codes[arriving.axis] = np.where(late, arriving.start, codes[arriving.axis])
    return replace(found, codes=tuple(codes)), n_late


def _check_periods(periods: NDArray[np.int64], arriving: Arriving) -> None:
    """Refuse records of future periods, and periods without records."""
    names, start, stop = arriving.attribute.value_names, arriving.start, arriving.stop
    early = int((periods >= stop).sum())
    if early:
        raise PrivateDataError(
            f"{early:,} records are of periods after {names[stop - 1]}, the last that is sealed. "
            "Leave them for a later file, or seal more periods."
        )
    without = np.flatnonzero(np.bincount(periods - start, minlength=stop - start) == 0)
    if len(without) and not arriving.empty:
        raise ConfigError(
            "empty",
            "be given where a period has no records",
            hint=f"{names[start + int(without[0])]} has none, and a sealed period never gets any. "
            "If that is right, say --empty.",
        )


def _check_capacity(findings: Findings, arriving: Arriving) -> None:
    if findings.n_crowded:
        raise ConfigError(
            "capacity",
            "be at least the number of records of every period",
            arriving.growth.capacity,
            hint="It is public, so it is never raised because of the data. Nothing was sealed.",
        )

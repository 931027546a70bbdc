"""Make a part of a private file: the records of the periods that are to be sealed.

All that is said here is for the owner's terminal alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qserver.errors import ConfigError, PrivateDataError
from qserver.query.domain import Attribute, Domain
from qserver.records.dataset import Growth
from worker.private.causal import PeriodRule, kept_by_period
from worker.private.content import Content
from worker.private.parts import Part, kept_so_far, part_of
from worker.private.read import Records, read_records
from worker.private.truncation import PersonRule


@dataclass(frozen=True)
class Arriving:
    """What fixes the next part of a dataset, but for the file itself.

    Args:
        earlier: the parts before it, whose kept records of a person count.
        start, stop: the periods that it seals.
        empty: the owner's word that periods without records are meant.
    """

    domain: Domain
    growth: Growth
    person: PersonRule | None
    key: bytes
    earlier: Sequence[Part]
    start: int
    stop: int
    empty: bool = False

    @property
    def axis(self) -> int:
        """Position of the attribute of periods."""
        return self.domain.names.index(self.growth.attribute)

    @property
    def rule(self) -> PeriodRule | None:
        """Most records that are kept of one person; None keeps all."""
        if self.person is None:
            return None
        k = self.person.most
        return self.person.by_period or PeriodRule(self.axis, most=k, in_all=k)

    @property
    def attribute(self) -> Attribute:
        """The attribute of periods."""
        return self.domain.attributes[self.axis]


@dataclass(frozen=True, repr=False)
class Arrived:
    """A part as read.

    Args:
        n_dropped: records that were left out because their person has k already; private.
    """

    part: Part
    content: Content
    n_dropped: int


def read_part(path: Path | None, arriving: Arriving, *, say: Callable[[str], None]) -> Arrived:
    """The part that a file holds.

    Args:
        path: None for periods without any records.
        say: told how many records are left out, for the owner alone.

    Raises:
        PrivateDataError: the file cannot be read, or has records of other periods.
        ConfigError: a period has more records than its capacity, or none at all.
    """
    found = _records(path, arriving)
    _check_periods(found.codes[arriving.axis], arriving)
    n = len(found.codes[0])
    if (rule := arriving.rule) is not None and found.people is not None:
        key = arriving.key
        earlier = kept_so_far(arriving.earlier, found.people, key=key)
        kept = kept_by_period(found.people, found.codes, rule=rule, key=key, earlier=earlier)
        for line in kept.lines(rule):
            say(line)
        found = found.where(kept.mask)
    part = part_of(
        arriving.start, arriving.stop, found.codes, people=found.people, key=arriving.key
    )
    _check_capacity(part, arriving)
    return Arrived(part, found.content, n - len(found.codes[0]))


def _records(path: Path | None, arriving: Arriving) -> Records:
    if path is None:
        nothing = tuple(np.zeros(0, dtype=np.int64) for _ in arriving.domain.attributes)
        return Records(nothing, None, Content())
    return read_records(path, arriving.domain, key=arriving.key, person=arriving.person)


def _check_periods(periods: NDArray[np.int64], arriving: Arriving) -> None:
    """Refuse records of other periods, and periods without records."""
    names, start, stop = arriving.attribute.value_names, arriving.start, arriving.stop
    late, early = int((periods < start).sum()), int((periods >= stop).sum())
    if late:
        raise PrivateDataError(
            f"{late:,} records are of periods before {names[start]}, which are sealed: those never "
            "change. Leave these records out of the file."
        )
    if early:
        raise PrivateDataError(
            f"{early:,} records are of periods after {names[stop - 1]}, the last that --to seals. "
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


def _check_capacity(part: Part, arriving: Arriving) -> None:
    if part.per_period(arriving.axis).max(initial=0) > arriving.growth.capacity:
        raise ConfigError(
            "capacity",
            "be at least the number of records of every period",
            arriving.growth.capacity,
            hint="It is public, so it is never raised because of the data. Nothing was sealed.",
        )

"""Append: seal the next periods of a dataset with the records of a private file."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError, QueryError
from qserver.query.calendar.ends import index_of_period
from qserver.query.domain import Attribute
from qserver.records.dataset import DatasetMeta
from worker.journal.journal import Journal
from worker.journal.owner_records import Retired, Sealed
from worker.owner.arrivals.findings import Late
from worker.owner.arrivals.reading import Arrived, Arriving, read_part
from worker.owner.arrivals.sealing import Sealing, growing_entry
from worker.private.parts import PartFolder
from worker.private.registry import Registry, RegistryEntry
from worker.sources.address import Address


@dataclass(frozen=True)
class AppendRequest:
    """The options of an append.

    Args:
        name: the dataset.
        data: the file, or another source, with the records of the new periods; None where they
            have none. Of a table only the records of these periods are taken.
        to: the last period to be sealed.
        empty: the owner's word that a period without records is meant.
        same_data_other_people: as for an attach.
        late: what becomes of records of sealed periods; None as was said at attach.
        strict: stop before anything is sealed if a record is not counted as it stands.
        as_it_is: the owner's word that a column may be lost; as attach said where it is False.
    """

    name: str
    data: Path | Address | None
    to: str
    empty: bool = False
    same_data_other_people: bool = False
    late: Late | None = None
    strict: bool = False
    as_it_is: bool = False


@dataclass(frozen=True)
class Appended:
    """What is sealed now.

    Args:
        first, last: the periods of this part.
        sealed: how many periods are sealed in all.
        again: whether the very part was sealed before.
        n_dropped: records that the rule for one person left out; for the owner alone.
        n_late: records of periods that were sealed before; likewise.
        late: what became of them.
    """

    dataset: str
    first: str
    last: str
    sealed: int
    again: bool
    n_dropped: int
    n_late: int
    late: Late


def append(
    request: AppendRequest,
    *,
    settings: Settings,
    registry: Registry,
    progress: Callable[[str], None],
    log: logging.Logger,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Appended:
    """Seal the next periods, up to `to`; nothing is done where that was done before.

    Raises:
        NotFoundError: there is no such dataset.
        ConfigError: the data of the dataset do not grow, or `to` is no period, or it is sealed with
            other records; or a period has no records, or more than its capacity.
        PrivateDataError: the file cannot be read, or has records of later periods.
        StrictError: a record is not counted as it stands, and the owner wants that told first.
        BusyError: another append is under way, or a worker held the population all the time.
    """
    entry = growing_entry(request.name, settings, registry)
    journal = registry.journal(entry.population, create=False)
    sealing = Sealing(
        settings,
        registry,
        journal,
        log,
        progress,
        other_people=request.same_data_other_people,
        pause=pause,
        clock=clock,
    )
    with registry.parts(entry).appending():
        return _Append(request, entry, sealing).run()


class _Append:
    """One append, in the section in which no other one runs."""

    def __init__(self, request: AppendRequest, entry: RegistryEntry, sealing: Sealing) -> None:
        self._request = request
        self._entry = entry
        self._sealing = sealing
        self._folder: PartFolder = sealing.registry.parts(entry)
        self._now = state_of(sealing.journal, entry)
        self._meta, self._attribute = self._now.meta, self._now.attribute

    def run(self) -> Appended:
        """The append, or the word that it was done before."""
        self._folder.sweep(self._now.sealed, self._now.retired)
        start, stop = self._now.n_sealed, period_stop(self._attribute, self._request.to)
        if stop <= start:
            return self._again(stop)
        self._sealing.say("reading and converting the data")
        arrived, record = self._read(start, stop, self._now.sealed)
        self._folder.write(arrived.part)
        self._sealing.wait_for_minute()
        self._sealing.seal(self._meta, record, content=arrived.content)
        return self._appended(record, arrived, again=False)

    def _again(self, stop: int) -> Appended:
        """The append was done before, or other periods end there."""
        name = self._attribute.value_names[stop - 1]
        sealed, retired = self._now.sealed, self._now.retired
        at = next((i for i, one in enumerate(sealed) if one.stop == stop), None)
        if at is None:
            raise ConfigError("to", "be a period that is not sealed yet", name)
        before = sealed[at]
        if retired is not None and before.start < retired.stop:
            # Its records, or those that decided what was kept, are erased: nothing to compare.
            raise ConfigError("to", "be a period that was not retired", name)
        arrived, record = self._read(before.start, stop, sealed[:at])
        if not secrets.compare_digest(record.fingerprint_hex, before.fingerprint_hex):
            raise ConfigError(
                "data",
                f"hold the records that {name} was sealed with",
                hint="A sealed period never changes. To correct one, `rotate` takes all periods "
                "anew; what was spent stays spent. Late records count as they did then only with "
                "the same --late.",
            )
        self._sealing.seal(self._meta, None, content=arrived.content)
        return self._appended(before, arrived, again=True)

    def _read(self, start: int, stop: int, sealed: Sequence[Sealed]) -> tuple[Arrived, Sealed]:
        """The part in the file, and the line that would seal it."""
        if self._meta.growth is None:
            raise ConfigError("name", "be a dataset whose data arrive over time")
        arriving = Arriving(
            self._meta.domain,
            self._meta.growth,
            self._entry.person_rule,
            self._sealing.registry.key(),
            self._folder.read(sealed, self._now.retired),
            start,
            stop,
            self._request.empty,
            self._request.late or self._entry.late,
            self._request.strict,
            self._entry.person_type,
            self._request.as_it_is or self._entry.as_it_is,
        )
        arrived = read_part(
            self._request.data,
            arriving,
            folder=self._sealing.registry.seals,
            say=self._sealing.say,
        )
        return arrived, line_of(self._meta, arrived, key=arriving.key, sealed=sealed)

    def _appended(self, record: Sealed, arrived: Arrived, *, again: bool) -> Appended:
        names = self._attribute.value_names
        return Appended(
            self._meta.name,
            names[record.start],
            names[record.stop - 1],
            max(self._now.n_sealed, record.stop),
            again,
            arrived.findings.n_dropped,
            arrived.findings.n_late,
            arrived.findings.late,
        )


def line_of(meta: DatasetMeta, arrived: Arrived, *, key: bytes, sealed: Sequence[Sealed]) -> Sealed:
    """The journal's line of a part that follows the sealed ones, without details."""
    part, previous = arrived.part, sealed[-1].fingerprint_hex if sealed else ""
    fingerprint = part.fingerprint(meta.domain, key=key, previous=previous)
    return Sealed(meta.snapshot, part.start, part.stop, part.file, fingerprint)


@dataclass(frozen=True)
class JournalledParts:
    """What the journal says of a dataset whose data arrive over time.

    Args:
        sealed: its parts, in order.
        retired: up to where their records are erased.
    """

    meta: DatasetMeta
    sealed: tuple[Sealed, ...]
    retired: Retired | None

    @property
    def attribute(self) -> Attribute:
        """The attribute of periods."""
        return self.meta.domain.attributes[self.meta.period_axis]

    @property
    def n_sealed(self) -> int:
        """How many periods have their data."""
        return self.sealed[-1].stop if self.sealed else 0

    @property
    def n_retired(self) -> int:
        """How many periods have their records erased."""
        return 0 if self.retired is None else self.retired.before


def state_of(journal: Journal, entry: RegistryEntry) -> JournalledParts:
    """What the journal says of an attached dataset; ConfigError if it does not know it."""
    with journal.exclusive():
        sealed = tuple(journal.state.parts.get(entry.snapshot, ()))
        retired = journal.state.retired.get(entry.snapshot)
        record = journal.state.by_snapshot.get(entry.snapshot)
    if record is None:
        raise ConfigError("name", "be a dataset that the journal knows", entry.name)
    return JournalledParts(DatasetMeta.from_json(str(record.details["meta"])), sealed, retired)


def period_stop(attribute: Attribute, to: str, *, name: str = "to") -> int:
    """The index after the period that an option names.

    Args:
        name: the option.

    Raises:
        ConfigError: there is no such period.
    """
    try:
        return index_of_period(attribute, to, name=name) + 1
    except QueryError as exc:
        raise ConfigError(name, exc.condition, to, hint=exc.hint) from exc

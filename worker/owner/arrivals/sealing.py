"""Append: seal the next periods with the records of a private file. Retire: erase old ones.

The first part is read before the dataset is attached. A part goes to a file, the journal and the
store, and the journal's line decides. A file without a line is deleted at the next start. A line
that the store does not show yet is followed by whoever holds the population next
(worker/spending/group/replicas.py).

Retire: erase the records of old periods. What was released about them stays.

The journal's line decides. Before it nothing is erased; after it the parts that it stands for are
files that no line needs, and whoever appends, retires or starts a worker deletes them.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError, QueryError
from qserver.query.domain import Attribute, Domain
from qserver.query.sealed_periods import index_of_period
from qserver.records.dataset import DatasetMeta, Growth
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.journal import Journal
from worker.journal.records import Retired, Sealed
from worker.owner.arrivals.findings import Late
from worker.owner.arrivals.part import Arrived, Arriving, read_part
from worker.owner.checks.population import holding
from worker.owner.same_data import NewData, ask_for_other_people
from worker.private.content_digests import Content
from worker.private.parts import PartFolder, rest_of
from worker.private.registry import Registry, RegistryEntry
from worker.private.truncation import PersonRule
from worker.sources.address import Address

_MINUTE_S = 60


def wait_for_minute(
    say: Callable[[str], None], pause: Callable[[float], None], clock: Callable[[], float]
) -> None:
    """Return at the next full minute.

    How long a file takes to read tells how many records it has; when a change is shown must not.
    """
    say("waiting for the next full minute, when the change is shown")
    pause(_MINUTE_S - clock() % _MINUTE_S)


def present_entry(name: str, settings: Settings, registry: Registry) -> RegistryEntry:
    """An attached dataset, with the snapshot that the store decided on; NotFoundError.

    A rotation that died right after the store's decision left the registry with both.
    """
    if any(key.startswith(f"{name}/") for key in registry.entries()):
        meta = Store.open(settings, role="worker-reader").meta(name)
        registry.settle(name, snapshot=meta.snapshot)
    return registry.entry(name)


def growing_entry(name: str, settings: Settings, registry: Registry) -> RegistryEntry:
    """As `present_entry`; ConfigError for data that do not grow."""
    entry = present_entry(name, settings, registry)
    if not entry.grows:
        raise ConfigError(
            "name",
            "be a dataset whose data arrive over time",
            hint="One is attached with --to. `rotate` puts another file in this one's place.",
        )
    return entry


@dataclass(frozen=True)
class Sealing:
    """The needs of sealing beside the part.

    Args:
        other_people: the owner's word that nobody in the file is in another population that has
            the same data.
        say: takes what the owner should know, for the terminal only.
        pause: sleeps for a number of seconds.
        clock: Unix time in seconds.
    """

    settings: Settings
    registry: Registry
    journal: Journal
    log: logging.Logger
    say: Callable[[str], None]
    other_people: bool = False
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time

    def wait_for_minute(self) -> None:
        """Return at the next full minute."""
        wait_for_minute(self.say, self.pause, self.clock)

    def seal(
        self, meta: DatasetMeta, record: Sealed | Retired | None, *, content: Content | None
    ) -> None:
        """Write a part's line, and move the store's mark; both durable when this returns.

        Args:
            record: None if the journal has the line already.
            content: what the file held, to be compared with other populations; None if that is
                done, or nothing new is in them.

        Raises:
            BusyError: a worker held the population all the time.
            ConfigError: another population has the same data.
            StoreError, JournalError: it is decided if the journal has the line.
        """
        with holding(
            meta.population,
            self.journal,
            reader=Store.open(self.settings, role="worker-reader"),
            writer=SpendingStore.open(self.settings),
            settings=self.settings,
            log=self.log,
            pause=self.pause,
        ) as (lease, spender):
            # This also finishes an append that died after its line.
            spender.settle(lease)
            if record is not None:
                self._write_down(meta, record, content)
                spender.settle(lease)

    def _write_down(
        self, meta: DatasetMeta, record: Sealed | Retired, content: Content | None
    ) -> None:
        if content is None or isinstance(record, Retired):
            with self.journal.exclusive():
                self.journal.append(record)
            return
        with self.registry.comparing():
            others = ask_for_other_people(
                content,
                population=meta.population,
                registry=self.registry,
                other_people=self.other_people,
                say=self.say,
            )
            details = content.details()
            if others:
                details["other_people_than"] = " ".join(others)
            with self.journal.exclusive():
                self.journal.append(replace(record, details=details))


@dataclass(frozen=True)
class AppendRequest(NewData):
    """The options of an append.

    Args:
        data: the file, or another source, with the records of the new periods; None where they
            have none. Of a table only the records of these periods are taken.
        to: the last period to be sealed.
        late: what becomes of records of sealed periods; None as was said at attach.
        strict: stop before anything is sealed if a record is not counted as it stands.
    """

    data: Path | Address | None
    to: str
    late: Late | None = None
    strict: bool = False


@dataclass(frozen=True)
class Appended:
    """The sealed periods.

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
    """Seal the next periods, up to `to`; nothing is done a second time.

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
    """One append, in a section that admits no other."""

    def __init__(self, request: AppendRequest, entry: RegistryEntry, sealing: Sealing) -> None:
        self._request = request
        self._entry = entry
        self._sealing = sealing
        self._folder: PartFolder = sealing.registry.parts(entry)
        self._now = state_of(sealing.journal, entry)
        self._meta, self._attribute = self._now.meta, self._now.attribute

    def run(self) -> Appended:
        """Run the append; a repeated one only says so."""
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
        """The reply to a repeated append; ConfigError if other periods end there."""
        name = self._attribute.value_names[stop - 1]
        sealed, retired = self._now.sealed, self._now.retired
        at = next((i for i, one in enumerate(sealed) if one.stop == stop), None)
        if at is None:
            raise ConfigError("to", "be a period that is not sealed yet", name)
        before = sealed[at]
        if retired is not None and before.start < retired.stop:
            # Its records, or those that decided which ones to keep, are erased: nothing to compare.
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
    """The journal's facts on a dataset whose data arrive over time.

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
        """The number of sealed periods."""
        return self.sealed[-1].stop if self.sealed else 0

    @property
    def n_retired(self) -> int:
        """The number of retired periods."""
        return 0 if self.retired is None else self.retired.before


def state_of(journal: Journal, entry: RegistryEntry) -> JournalledParts:
    """The journal's facts on an attached dataset; ConfigError if it has none."""
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


def growth_of(domain: Domain, capacity: int | None) -> Growth:
    """How a dataset of this domain grows.

    Raises:
        ConfigError: the domain has no periods, or there is no capacity.
    """
    attribute = next((a for a in domain.attributes if a.is_period), None)
    if attribute is None:
        raise ConfigError(
            "to",
            "be left out: no attribute of the domain is of kind `period`",
            hint="Give one attribute of the domain file `every`, `first` and `count`.",
        )
    if capacity is None:
        raise ConfigError(
            "capacity",
            "be given with --to: most records of one period",
            hint="It becomes public, and the time of an answer follows from it. Choose it with "
            "room, and not from the exact number of records.",
        )
    return Growth(attribute.name, capacity)


def arriving_first(
    to: str, domain: Domain, growth: Growth, person: PersonRule | None, *, key: bytes
) -> Arriving:
    """The facts that fix the first part, up to `to`; ConfigError."""
    attribute = domain.attributes[domain.names.index(growth.attribute)]
    return Arriving(domain, growth, person, key, (), 0, period_stop(attribute, to))


def seal_first(
    meta: DatasetMeta,
    first: Arrived,
    entry: RegistryEntry,
    *,
    settings: Settings,
    registry: Registry,
    say: Callable[[str], None],
) -> None:
    """Seal the first part of a new dataset; raises as `append`.

    If this dies half-way, nothing is sealed, and an append of the same file does it.
    """
    journal = registry.journal(entry.population, create=False)
    sealing = Sealing(settings, registry, journal, logging.getLogger("qserver.worker"), say)
    folder = registry.parts(entry)
    with folder.appending():
        folder.write(first.part)
        sealing.seal(meta, line_of(meta, first, key=registry.key(), sealed=()), content=None)


@dataclass(frozen=True)
class RetireRequest:
    """The options of a retirement.

    Args:
        name: the dataset.
        before: the first period whose records stay.
    """

    name: str
    before: str


@dataclass(frozen=True)
class RetiredPeriods:
    """The erased periods.

    Args:
        retired: how many of the first periods have no records any more.
        first_kept: the first period whose records stay.
        again: whether they were erased before.
        keeps_people: whether the worker still knows, by keyed digests, how many records each person
            had in the retired periods: k in all needs it.
    """

    dataset: str
    retired: int
    first_kept: str
    again: bool
    keeps_people: bool


def retire(
    request: RetireRequest,
    *,
    settings: Settings,
    registry: Registry,
    progress: Callable[[str], None],
    log: logging.Logger,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> RetiredPeriods:
    """Erase the records of the periods before one; nothing is done a second time.

    Raises:
        NotFoundError: there is no such dataset.
        ConfigError: its data do not grow, or `before` is no period that is sealed or comes next.
        PrivateDataError: a part is missing or was changed, or the disk is full.
        BusyError: an append is under way, or a worker held the population all the time.
    """
    entry = growing_entry(request.name, settings, registry)
    journal = registry.journal(entry.population, create=False)
    sealing = Sealing(settings, registry, journal, log, progress, pause=pause, clock=clock)
    with registry.parts(entry).appending():
        return _Retirement(request, entry, sealing).run()


class _Retirement:
    """One retirement, in a section that admits no append."""

    def __init__(self, request: RetireRequest, entry: RegistryEntry, sealing: Sealing) -> None:
        self._entry = entry
        self._sealing = sealing
        self._folder: PartFolder = sealing.registry.parts(entry)
        self._now = state_of(sealing.journal, entry)
        attribute = self._now.attribute
        self._before = period_stop(attribute, request.before, name="before") - 1
        if self._before > self._now.n_sealed:
            last = attribute.value_names[self._now.n_sealed]
            raise ConfigError("before", f"be {last} at the latest", request.before)

    def run(self) -> RetiredPeriods:
        """Run the retirement; a repeated one only says so."""
        now = self._now
        # Files that a retirement left when it died after its line.
        self._folder.sweep(now.sealed, now.retired)
        if self._before <= now.n_retired:
            self._sealing.seal(now.meta, None, content=None)
            return self._done(now.n_retired, again=True)
        self._sealing.say("reading the parts")
        record = self._rest()
        self._sealing.wait_for_minute()
        self._sealing.seal(now.meta, record, content=None)
        self._folder.sweep(now.sealed, record)
        # A running worker watches the registry, and forgets the records too.
        self._sealing.registry.put(self._entry)
        return self._done(self._before, again=False)

    def _rest(self) -> Retired:
        """Write the rest of the parts with erased records; returns the line about it."""
        now = self._now
        last = next(one for one in now.sealed if one.start < self._before <= one.stop)
        parts = self._folder.read(now.sealed, now.retired)
        rest = rest_of(
            [part for part in parts if part.stop <= last.stop],
            axis=now.meta.period_axis,
            before=self._before,
            keep_people=self._keeps_people,
        )
        self._folder.write(rest)
        fingerprint = rest.fingerprint(
            now.meta.domain, key=self._sealing.registry.key(), previous=last.fingerprint_hex
        )
        return Retired(now.meta.snapshot, self._before, last.stop, rest.file, fingerprint)

    @property
    def _keeps_people(self) -> bool:
        """Whether a rule for one person counts over all periods: it must not restart."""
        rule = self._entry.person_rule
        return rule is not None and (rule.by_period is None or rule.by_period.in_all is not None)

    def _done(self, n_retired: int, *, again: bool) -> RetiredPeriods:
        first = self._now.attribute.value_names[n_retired]
        name = self._now.meta.name
        return RetiredPeriods(name, n_retired, first, again, self._keeps_people)

"""Retire: erase the records of old periods. What was released about them stays.

The journal's line decides. Before it nothing is erased; after it the parts that it stands for are
files that no line needs, and whoever appends, retires or starts a worker deletes them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from qserver.config import Settings
from qserver.errors import ConfigError
from worker.journal.records import Retired
from worker.owner.arrivals.append import Sealing, growing_entry, period_stop, state_of
from worker.private.parts import PartFolder, rest_of
from worker.private.registry import Registry, RegistryEntry


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
    """What is erased now.

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
    """Erase the records of the periods before one; nothing is done where that was done before.

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
    """One retirement, in the section in which nothing is appended."""

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
        """The retirement, or the word that it was done before."""
        now = self._now
        # What a retirement that died after its line left to be deleted.
        self._folder.sweep(now.sealed, now.retired)
        if self._before <= now.n_retired:
            self._sealing.seal(now.meta, None, content=None)
            return self._done(now.n_retired, again=True)
        self._sealing.say("reading the parts")
        record = self._rest()
        self._sealing.wait_for_minute()
        self._sealing.seal(now.meta, record, content=None)
        self._folder.sweep(now.sealed, record)
        # A worker that runs looks at the registry, and forgets the records too.
        self._sealing.registry.put(self._entry)
        return self._done(self._before, again=False)

    def _rest(self) -> Retired:
        """Write what stays of the parts that hold a record to be erased; the line that says so."""
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
        """Whether a rule for one person counts over all periods: it must not begin anew."""
        rule = self._entry.person_rule
        return rule is not None and (rule.by_period is None or rule.by_period.in_all is not None)

    def _done(self, n_retired: int, *, again: bool) -> RetiredPeriods:
        first = self._now.attribute.value_names[n_retired]
        name = self._now.meta.name
        return RetiredPeriods(name, n_retired, first, again, self._keeps_people)

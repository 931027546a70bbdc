"""Looks at what history knows of a statement; a caller waits for one at most as long as it says.

A look finds the intervals of averages, deviations, quantiles and other numbers that are no sums, by
draws and by many counts. It reads released answers alone, and asks and spends nothing. What it
finds is kept by version, and shared with all processes where it takes long (`smooth_numbers`), so
the statement sent again is quick. The functions that it calculates are
those of a statement's text, and the trusted side reads none: so looks are made here, and not by the
worker as the laws of workloads are. A look that lasts longer than its asker waits is a job: there
is one for all who send the same to one process while nothing changes. It ends with no answers of
its own; the statement is sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from qserver.query.question import Workload
from qserver.records.answer import JobStatus, WorkloadAnswer
from qserver.service.cache.last_used import LastUsed
from qserver.service.cache.statements import MOST_KEPT, StatementKey
from qserver.service.datasets import OpenDatasets
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.store import LookJob, Store

_THREADS: Final = 2
"""As many as a lane has."""


@dataclass
class _Look:
    """A look, and its job once its caller stopped waiting."""

    done: Future[None]
    job: LookJob | None = None
    lock: Lock = field(default_factory=Lock)


class Looks:
    """The looks of one process. Thread-safe.

    Args:
        short_s: what takes no longer is waited for, however short its asker waits.
    """

    def __init__(self, store: Store, datasets: OpenDatasets, *, short_s: float) -> None:
        self._store, self._datasets, self._short_s = store, datasets, short_s
        self._lane = ThreadPoolExecutor(_THREADS, thread_name_prefix="looks")
        self._begun = LastUsed[StatementKey, _Look](MOST_KEPT)

    def job(
        self,
        key: StatementKey,
        look: Callable[[], None],
        asked: Callable[[], Workload],
        *,
        wait_s: float,
    ) -> JobStatus | None:
        """Look, unless that is done; after `wait_s` seconds the job that looks, else None.

        Where a look fails, whoever needs what it finds fails likewise.

        Args:
            asked: makes the questions of the statement, for whoever is shown its job.
        """
        found = self._begun.get(key, lambda: _Look(self._lane.submit(look)))
        wait([found.done], timeout=max(wait_s, self._short_s))
        with found.lock:
            if found.done.done():
                return None
            if found.job is None:
                meta, stamp = self._datasets.meta(key.name), key.stamp
                request = Request(key.name, meta.snapshot, asked(), key.by)
                nothing = WorkloadAnswer((), 0, stamp.remaining_nano, None, stamp.n_shown)
                job = found.job = self._store.looks(request, population=meta.population)
                found.done.add_done_callback(lambda _: self._store.looked(job, nothing))
            return JobStatus(found.job.id, "running", key.name)

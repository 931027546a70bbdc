"""The end of a job: its outcome is written, made durable, and only then shown.

So every later reader gets the same bits as the first one, even if the store is lost at that moment
and a replica, or its disk, replaces it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from qserver.records.history import Estimator
from qserver.storage.encoding.records import (
    estimator_from_json,
    estimator_json,
    kept_estimator,
)
from qserver.storage.encoding.sealed import reading, sealed, unsealed
from qserver.storage.keys import GROUP, Keys, next_round
from qserver.storage.queue import Taken
from qserver.storage.server.connection import Scripts, StoreClient


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    Args:
        state: `done` with an answer's JSON, or `failed` with a problem's JSON.
        keep_s: seconds to keep the job, 0 = for ever.
        n_show: events of the snapshot's history to show from now on.
        estimators: certified weights of answered rows that nobody would find again.
        refines: JSON of the request whose job refines the answer; '' where it is as short as asked.
    """

    state: Literal["done", "failed"]
    text: str
    snapshot: str
    n_show: int
    keep_s: int
    estimators: tuple[Estimator, ...] = ()
    refines: str = ""

    def to_json(self) -> str:
        """Canonical JSON."""
        kept = list(map(estimator_json, self.estimators))
        plain = {**asdict(self), "estimators": kept}
        if not self.refines:
            del plain["refines"]  # earlier versions wrote none
        return json.dumps(plain, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that `to_json` wrote."""
        plain = json.loads(text)
        # Older texts have one estimator at most.
        alone = plain.pop("estimator", "")
        kept = plain.pop("estimators", [alone] if alone else [])
        return cls(**plain, estimators=tuple(map(estimator_from_json, kept)))


@dataclass(frozen=True)
class Ended:
    """A job and how it ends."""

    taken: Taken
    outcome: Outcome


@dataclass(frozen=True)
class Concluded:
    """A written outcome, and whether this call wrote it."""

    outcome: Outcome
    is_new: bool


class Endings:
    """The last steps of a job; shares the connection of the spending side."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._scripts = Scripts(client)

    def conclude(self, group: Sequence[Ended]) -> list[Concluded]:
        """Write the outcomes of jobs of one population; one that was written before stands."""
        keys = Keys(group[0].taken.population)
        reply = self._scripts.run(
            "conclude",
            keys=[keys.job(one.taken.job) for one in group],
            args=[sealed(one.outcome.to_json(), name=one.taken.job) for one in group],
        )
        return [
            Concluded(read_outcome(str(text), one.taken), is_new=int(code) == 1)
            for code, text, one in zip(reply[::2], reply[1::2], group, strict=True)
        ]

    def show(self, group: Sequence[Ended]) -> None:
        """End jobs and show their rows. Comes after `conclude` and durability; idempotent."""
        keys = Keys(group[0].taken.population)
        self._scripts.run(
            "acknowledge",
            keys=[keys.asked, keys.ledger, *(key for one in group for key in _keys(keys, one))],
            args=[GROUP, *(argument for one in group for argument in _arguments(one))],
        )


def _keys(keys: Keys, one: Ended) -> tuple[str, ...]:
    job, queue = keys.job(one.taken.job), keys.jobs(one.taken.dataset)
    after = keys.job(next_round(one.taken.job))
    return job, queue, keys.estimators(one.outcome.snapshot), after


def _arguments(one: Ended) -> list[str | int | bytes]:
    taken, outcome = one.taken, one.outcome
    after = next_round(taken.job)
    return [
        taken.job,
        taken.entry,
        outcome.state,
        sealed(outcome.text, name=taken.job),
        outcome.snapshot,
        outcome.n_show,
        outcome.keep_s,
        taken.dataset,
        after,
        sealed(outcome.refines, name=after) if outcome.refines else "",
        len(outcome.estimators),
        *map(kept_estimator, outcome.estimators),
    ]


@reading("outcome of a job")
def read_outcome(text: str, taken: Taken) -> Outcome:
    """The outcome that a job's record has as its ending; StoreCorruptError."""
    return Outcome.from_json(unsealed(text, name=taken.job))

"""The end of a job: its outcome is written, made durable, and only then shown.

So every later reader gets the same bits as the first one, even if the store is lost at that moment
and a replica, or its disk, replaces it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from qserver.records.history import Estimator
from qserver.storage.encoding.records import (
    estimator_from_json,
    estimator_json,
    kept_estimator,
    reply_code,
)
from qserver.storage.encoding.sealed import reading, sealed, unsealed
from qserver.storage.keys import GROUP, Keys
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
    """

    state: Literal["done", "failed"]
    text: str
    snapshot: str
    n_show: int
    keep_s: int
    estimators: tuple[Estimator, ...] = ()

    def to_json(self) -> str:
        """Canonical JSON."""
        kept = list(map(estimator_json, self.estimators))
        return json.dumps({**asdict(self), "estimators": kept}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that `to_json` wrote."""
        plain = json.loads(text)
        # Older texts have one estimator at most.
        alone = plain.pop("estimator", "")
        kept = plain.pop("estimators", [alone] if alone else [])
        return cls(**plain, estimators=tuple(map(estimator_from_json, kept)))


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

    def conclude(self, taken: Taken, outcome: Outcome) -> Concluded:
        """Write the outcome of a job; one that was written before stands."""
        reply = self._scripts.run(
            "conclude",
            keys=[Keys(taken.population).job(taken.job)],
            args=[sealed(outcome.to_json(), name=taken.job)],
        )
        return Concluded(_outcome(str(reply[1]), taken), is_new=reply_code(reply) == 1)

    def concluded(self, taken: Taken) -> Outcome | None:
        """The written outcome of a job that has not ended; else None."""
        text: Any = self._client.hget(Keys(taken.population).job(taken.job), "ending")
        return None if text is None else _outcome(str(text), taken)

    def show(self, taken: Taken, outcome: Outcome) -> None:
        """End a job and show its rows. Comes after `conclude` and durability; idempotent."""
        keys = Keys(taken.population)
        self._scripts.run(
            "acknowledge",
            keys=[
                keys.job(taken.job),
                keys.asked,
                keys.jobs(taken.dataset),
                keys.ledger,
                keys.estimators(outcome.snapshot),
            ],
            args=[
                taken.job,
                GROUP,
                taken.entry,
                outcome.state,
                sealed(outcome.text, name=taken.job),
                outcome.snapshot,
                outcome.n_show,
                outcome.keep_s,
                *map(kept_estimator, outcome.estimators),
            ],
        )


@reading("outcome of a job")
def _outcome(text: str, taken: Taken) -> Outcome:
    return Outcome.from_json(unsealed(text, name=taken.job))

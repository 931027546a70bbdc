"""The worker's side of the job queue: a stream with a consumer group per population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from qserver.errors import StoreError
from qserver.storage.connection import StoreClient
from qserver.storage.keys import GROUP, Keys


@dataclass(frozen=True)
class Taken:
    """An open job that this worker took from the queue: its id and its stream entry."""

    population: str
    job: str
    entry: str


class JobQueue:
    """Jobs as a worker takes them; shares the spending side's connection."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def make_queue(self, population: str) -> None:
        """Make the population's consumer group, if there is none yet."""
        try:
            self._client.xgroup_create(Keys(population).jobs, GROUP, id="0", mkstream=True)
        except redis.ResponseError as exc:
            if "BUSYGROUP" not in str(exc):
                raise StoreError("The job queue cannot be made.") from exc

    def take(self, populations: Sequence[str], *, consumer: str, block_ms: int) -> Taken | None:
        """The next open job of these populations, or None after `block_ms` milliseconds."""
        by_stream = {Keys(p).jobs: p for p in populations}
        streams: dict[Any, Any] = dict.fromkeys(by_stream, ">")
        reply: Any = self._client.xreadgroup(GROUP, consumer, streams, count=1, block=block_ms)
        for stream, entries in _pairs(reply):
            for entry, fields in entries:
                return Taken(by_stream[stream], str(fields["job"]), str(entry))
        return None

    def take_over(self, population: str, *, consumer: str, idle_ms: int) -> Taken | None:
        """A job whose worker has been silent for `idle_ms` milliseconds, or None."""
        reply: Any = self._client.xautoclaim(
            Keys(population).jobs, GROUP, consumer, min_idle_time=idle_ms, count=1
        )
        for entry, fields in reply[1]:
            if fields:
                return Taken(population, str(fields["job"]), str(entry))
        return None

    def waiting(self, population: str) -> list[Taken]:
        """Every open job, taken by a worker or not, oldest first."""
        entries: Any = self._client.xrange(Keys(population).jobs)
        return [Taken(population, str(fields["job"]), str(entry)) for entry, fields in entries]

    def beat(self, populations: Sequence[str], *, ttl_ms: int) -> None:
        """Say that a worker of these populations lives, for `ttl_ms` milliseconds."""
        for population in populations:
            self._client.set(Keys(population).alive, "1", px=ttl_ms)


def _pairs(reply: Any) -> list[tuple[str, list[tuple[str, dict[str, str]]]]]:
    if not reply:
        return []
    if isinstance(reply, dict):
        # RESP3 gives a mapping of lists of pages.
        return [(k, [entry for page in v for entry in page]) for k, v in reply.items()]
    return list(reply)

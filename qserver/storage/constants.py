"""The store's tuned numbers, each with its unit, its reason and its evidence.

Settings of a server (queues, leases, waits for durability) stand in `qserver.config`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreConstants:
    """Bounds, intervals and waits of the store's clients."""

    estimators_per_key: int = 4
    """Most certified weights that are kept for one row: a row is asked at few confidences. Not
    measured."""

    estimators: int = 20_000
    """Most certified weights that are kept for one snapshot, so that free answers cannot fill the
    store. Not measured."""

    notes: int = 100_000
    """Most statements of one snapshot of which is noted how they were answered, and rows of which
    weights are kept. Not measured: a statement takes some hundred bytes."""

    saved_questions: int = 24
    """Most questions that an account keeps of one dataset: more are no dashboard. Not measured."""

    saved_length: int = 6000
    """Most characters of a saved question, as many as an address of a page has room for, so that an
    account keeps 144,000 of one dataset at most. Not measured."""

    saved_title: int = 80
    """Most characters of a saved question's title: one line of a page. Not measured."""

    idempotency_s: int = 86_400
    """Seconds that an idempotency key is kept: a day for a client to try again. Not measured."""

    look_s: int = 600
    """Seconds after which a job is forgotten that an HTTP process does itself: it may have ended.
    Not measured: looks take seconds."""

    looked_s: int = 86_400
    """Seconds that it is kept once it is done, as an idempotency key is. Not measured."""

    log_tries: int = 50
    """Tries to append to the audit log while others append too. Not measured: a try fails only if
    another change came between two commands."""

    queues_s: float = 0.25
    """Seconds between two looks for new job queues; the first question on a new dataset may wait so
    long. Not measured."""

    given_up: int = 1000
    """Most jobs of one queue that a dead worker can have taken. Not measured: a worker takes a few
    at a time."""

    burst_s: int = 4
    """Seconds of its rate that a request bucket holds. Not measured: a page asks several times at
    once."""

    own_rate_part: int = 10
    """A process lets 1/10 of a rate pass without asking the store, where each request waits for a
    write to disk. So slow senders never ask. Not measured."""

    rate_batches_per_s: int = 4
    """A process takes 1/4 second of requests at a time from the store. Not measured."""

    rate_hold_s: float = 1.0
    """Seconds that a process keeps the requests that it took and did not use. Not measured."""

    known_senders: int = 10_000
    """Most senders that a process remembers. Not measured."""

    rewrite_tries: int = 10
    """Times that a backup opens the store's files while these are replaced. Not measured."""

    lock_wait_s: float = 2.0
    """Seconds that a backup waits for a server that is on its way out. Not measured."""


STORE = StoreConstants()

"""Rates of requests on a real store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from qserver.errors import RateLimitedError
from qserver.storage.accounts import RateLimiter
from qserver.storage.constants import STORE
from qserver.storage.keys import rate_key
from qserver.storage.server.connection import Scripts, StoreClient

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "rates hold over all processes, of IPv6 by network, and IPv4 however it is spelled",
    ),
]


def passes(limiter: RateLimiter, whose: str, *, rate: int, n: int) -> int:
    """How many of `n` requests pass."""
    passed = 0
    for _ in range(n):
        try:
            limiter.pass_one(whose, rate=rate)
        except RateLimitedError:
            continue
        passed += 1
    return passed


def store_seconds(client: StoreClient) -> float:
    """The store's own clock, which refills its buckets."""
    seconds, micros = client.time()
    return float(seconds) + float(micros) / 1e6


def test_a_burst_passes_and_what_is_more_is_refused(redis_client: StoreClient) -> None:
    """At one a second 4 of the store's and 1 of the process pass, and what the store refills."""
    limiter, begun = RateLimiter(redis_client, clock=lambda: 0.0), store_seconds(redis_client)
    passed = passes(limiter, "ann", rate=1, n=20)
    refilled = store_seconds(redis_client) - begun + 1
    assert STORE.burst_s + 1 <= passed <= STORE.burst_s + 1 + refilled
    assert passes(limiter, "ben", rate=1, n=1) == 1


def send(limiter: RateLimiter, whose: str, *, rate: int, n: int) -> None:
    """Requests until one is refused."""
    for _ in range(n):
        limiter.pass_one(whose, rate=rate)


def test_a_refusal_says_in_whole_seconds_when_one_may_pass(redis_client: StoreClient) -> None:
    limiter = RateLimiter(redis_client, clock=lambda: 0.0)
    with pytest.raises(RateLimitedError, match="Try again in 1 s") as refusal:
        send(limiter, "ann", rate=1, n=1000)
    assert refusal.value.retry_after_s == 1


def test_a_rate_of_zero_is_no_bound_and_asks_nothing_of_the_store(
    redis_client: StoreClient,
) -> None:
    assert passes(RateLimiter(redis_client), "ann", rate=0, n=1000) == 1000
    assert redis_client.exists(rate_key("ann")) == 0


def test_the_bound_holds_over_all_processes(redis_client: StoreClient) -> None:
    """Four limiters with 90 requests each at 10 a second, on clocks that stand still.

    40 of the store's pass, one more of each process, and what the store's own clock refills: at
    most 10 a second.
    """
    begun = store_seconds(redis_client)
    limiters = [RateLimiter(redis_client, clock=lambda: 0.0) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        passed = sum(pool.map(lambda one: passes(one, "ann", rate=10, n=90), limiters))
    refilled = 10 * (store_seconds(redis_client) - begun) + 1
    assert 10 * STORE.burst_s + 4 <= passed <= 10 * STORE.burst_s + 4 + refilled


def test_a_slow_sender_never_costs_a_round_trip(redis_client: StoreClient) -> None:
    now = [0.0]
    limiter = RateLimiter(redis_client, clock=lambda: now[0])
    for _ in range(100):
        limiter.pass_one("ann", rate=100)
        now[0] += 0.1
    assert redis_client.exists(rate_key("ann")) == 0


def test_what_was_taken_is_used_up_before_the_store_is_asked_again(
    redis_client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 100 a second: 10 of the process itself, then batches of 25 for a second each."""
    now, asked = [0.0], list[list[int]]()
    limiter = RateLimiter(redis_client, clock=lambda: now[0])
    run = limiter._scripts.run

    def counted(name: str, *, keys: list[str], args: list[int]) -> Any:
        asked.append(args)
        return run(name, keys=keys, args=args)

    monkeypatch.setattr(limiter._scripts, "run", counted)
    assert passes(limiter, "ann", rate=100, n=11) == 11
    assert asked == [[100, 100 * STORE.burst_s, 25]]
    assert passes(limiter, "ann", rate=100, n=24) == 24
    assert len(asked) == 1
    limiter.pass_one("ann", rate=100)
    assert len(asked) == 2
    now[0] = 1.0  # what is held is too old by now, and the process has 10 of its own again
    assert passes(limiter, "ann", rate=100, n=11) == 11
    assert len(asked) == 3


def test_a_bucket_fills_at_its_rate_up_to_its_bound_and_leaves_when_full(
    redis_client: StoreClient,
) -> None:
    """The script's own arithmetic: level and moment are set by hand."""
    scripts = Scripts(redis_client)
    key = rate_key("ann")
    seconds, micros = redis_client.time()
    now = seconds * 1000 + micros // 1000
    redis_client.hset(key, mapping={"level": 0, "at": now - 2000})
    granted, _wait = scripts.run("take", keys=[key], args=[10, 40, 1000])
    assert 20 <= granted <= 20 + 10 * (store_seconds(redis_client) - now / 1000)
    redis_client.hset(key, mapping={"level": 0, "at": now - 10**9})
    assert scripts.run("take", keys=[key], args=[10, 40, 1000])[0] == 40
    # It is full again after 4 s, and leaves a second later: it may be gone by now (-2), but it may
    # not stay for ever (-1).
    assert redis_client.pttl(key) <= 5000
    assert redis_client.pttl(key) != -1
    # A clock that was set back refills nothing, and breaks nothing.
    redis_client.hset(key, mapping={"level": 0, "at": now + 10**9})
    assert scripts.run("take", keys=[key], args=[10, 40, 1])[0] == 0


def test_while_the_store_takes_no_writes_a_process_lets_its_own_part_pass(
    redis_client: StoreClient,
) -> None:
    redis_client.config_set("min-replicas-to-write", 1)
    try:
        limiter = RateLimiter(redis_client, clock=lambda: 0.0)
        assert passes(limiter, "ann", rate=50, n=100) == 50 // STORE.own_rate_part
    finally:
        redis_client.config_set("min-replicas-to-write", 0)

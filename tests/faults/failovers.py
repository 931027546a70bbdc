"""Take the primary away under load, again and again; sentinels elect another each time."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.clients import Crowd
from tests.faults.kills import DATASETS, Report, check, let_answer, let_end
from tests.faults.sentinels import N_REPLICAS, NAME, Node, SentinelGroup
from tests.faults.site import Site

WAYS = ("kill", "pause", "ask")
"""Killed and started again; held still, so that it wakes as a primary; asked to step down."""


@dataclass
class Failovers:
    """What a campaign did and found.

    Args:
        elected_s: from taking the primary away until most sentinels name another, each.
        whole_s: from then until the old one, started again at once, is a replica like the other.
        answered_s: from then until a client was shown the next answer.
    """

    report: Report
    ways: dict[str, int] = field(default_factory=dict)
    elected_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    answered_s: list[float] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """The report for JSON."""
        return {"faults": self.report.faults, **asdict(self)}


def run(
    folder: Path, *, seed: int, n_failovers: int, n_clients: int = 2, pause_s: float = 0.2
) -> Failovers:
    """A campaign: each way in turn, under load; then the books are checked."""
    found, begun = Failovers(Report(seed)), time.monotonic()
    rng = random.Random(f"ways {seed}")
    names = [dataset.name for dataset in DATASETS]
    (folder / "site").mkdir()
    with (
        SentinelGroup(folder) as group,
        Site(
            folder / "site",
            datasets=DATASETS,
            store_url=group.url,
            n_workers=1,
            replicas=N_REPLICAS,
            durable_timeout_ms=4000,
        ) as site,
    ):
        port = site.settings.port
        with Crowd(port, datasets=names, n_clients=n_clients, seed=seed, pause_s=pause_s) as crowd:
            for i in range(n_failovers):
                let_answer(site, crowd)
                _fail_over(site, group, crowd, WAYS[i % len(WAYS)], found, rng)
            crowd.stop_asking()
            let_end(site, crowd, found.report)
        report = found.report
        report.questions = dict(Counter(s.state for s in crowd.memory.shown))
        report.failures, report.n_broken_connections = crowd.memory.codes(), crowd.memory.n_broken
        site.stop_workers()
        check(site, crowd, report)
        report.deaths, report.odd_ends = site.deaths, site.odd_ends
        report.last_words = site.last_words()
    report.took_s = round(time.monotonic() - begun, 1)
    return found


def _fail_over(
    site: Site, group: SentinelGroup, crowd: Crowd, way: str, found: Failovers, rng: random.Random
) -> None:
    """Take the primary away at some moment of a spend, and let the old one come back."""
    end = time.monotonic() + rng.random()
    site.wait_until(lambda: time.monotonic() > end, what="wait")
    old, begun = group.primary(), time.monotonic()
    _take_away(group, old, way)
    site.wait_until(lambda: group.primary() is not old, what="elect", timeout_s=120)
    elected = time.monotonic()
    if way == "kill":
        old.start()
    elif way == "pause":
        old.send(signal.SIGCONT)
    site.wait_until(group.is_whole, what="have all replicas again", timeout_s=120)
    whole, n_shown = time.monotonic(), crowd.memory.count("done")
    site.wait_until(
        lambda: crowd.memory.count("done") > n_shown, what="answer again", timeout_s=120
    )
    found.ways[way] = found.ways.get(way, 0) + 1
    found.elected_s.append(round(elected - begun, 2))
    found.whole_s.append(round(whole - elected, 2))
    found.answered_s.append(round(time.monotonic() - whole, 2))


def _take_away(group: SentinelGroup, old: Node, way: str) -> None:
    if way == "ask":
        group.sentinels[0].client.sentinel_failover(NAME)
    else:
        old.send(signal.SIGKILL if way == "kill" else signal.SIGSTOP)

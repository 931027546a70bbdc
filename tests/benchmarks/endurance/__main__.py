"""Years of questions in minutes: `python -m tests.benchmarks.endurance --questions N`.

One client asks N questions about ten datasets of 3,000 records. Six of ten questions repeat an
earlier one, a quarter asks an earlier one with a longer interval, the rest is new. Half of the
datasets buy tables, half rows alone. Ten times, after each tenth of the questions, a dataset gets
new data, a backup is made, and everything is ended, by SIGTERM and SIGKILL in turn, and started
again. After each start the same questions must have the same answers at no cost.

It prints a line of JSON for each tenth. With `--keep` the figure of docs/operations.md is drawn
from them by `python -m tests.docs`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.endurance.figure import KEPT
from tests.benchmarks.endurance.site import Site, seconds_until
from tests.benchmarks.endurance.stream import Stream, write_domain, write_records
from tests.benchmarks.machine import Times, machine_facts

N_TENTHS = 10
_LIMIT = "100000"
_SEED = 20_261_123


def main() -> int:
    """Run, and print a line for each tenth."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.endurance")
    parser.add_argument("--questions", type=int, default=50_000)
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--keep", action="store_true", help="keep the figures for the docs")
    asked = parser.parse_args()
    machine = machine_facts()
    with tempfile.TemporaryDirectory() as text, contextlib.closing(Site(Path(text))) as site:
        run = Run(site, [Stream(f"d{i}", asked.seed) for i in range(asked.datasets)], asked.seed)
        rows = run.all(asked.questions)
    if asked.keep:
        parameters = {"questions": asked.questions, "seed": asked.seed, "machine": machine}
        KEPT.write_text(json.dumps({**parameters, "rows": rows}, indent=1) + "\n", "utf-8")
    return 0


@dataclass
class Run:
    """One run of the test."""

    site: Site
    streams: Sequence[Stream]
    seed: int
    sources: Counter[str] = field(default_factory=Counter)
    n_asked: int = 0

    def all(self, n_questions: int) -> list[dict[str, Any]]:
        """A row for each tenth of the questions."""
        domain = write_domain(self.site.folder / "domain.json")
        self.site.start()
        for i, stream in enumerate(self.streams):
            path = self._records(stream, "first")
            measure = ("auto", "only_this")[i % 2]
            self.site.owner(
                *("attach", stream.name, "--data", str(path), "--domain", str(domain)),
                *("--limit", _LIMIT, "--measure", measure, "--same-data-other-people"),
            )
        self._restart(signal.SIGTERM)
        begun, rows = time.monotonic(), []
        for tenth in range(N_TENTHS):
            row = self._tenth(tenth, n_questions // N_TENTHS)
            rows.append({**row, "elapsed_s": round(time.monotonic() - begun, 1)})
            sys.stdout.write(json.dumps(rows[-1]) + "\n")
            sys.stdout.flush()
        return rows

    def _tenth(self, tenth: int, n_questions: int) -> dict[str, Any]:
        times = self._ask(n_questions, random.Random(f"{self.seed} {tenth}"))
        rotated = self._rotate(self.streams[tenth % len(self.streams)], tenth)
        copy = self.site.folder / "backup"
        backup_s = self.site.backup(copy)
        copy.unlink()
        memory, disk = self.site.memory_mb(), self.site.disk_mb()
        restart = self._restart((signal.SIGTERM, signal.SIGKILL)[tenth % 2])
        return {
            "questions": self.n_asked,
            "sources": dict(self.sources),
            "refused": self.site.n_refused,
            **{f"{name}_{key}": value for name, found in times.items() for key, value in found},
            **{f"memory_{part}_mb": round(value, 1) for part, value in memory.items()},
            **{f"disk_{part}_mb": round(value, 2) for part, value in disk.items()},
            "rotate_s": round(rotated, 2),
            "backup_s": round(backup_s, 2),
            **{f"restart_{name}_s": round(value, 2) for name, value in restart.items()},
        }

    def _ask(self, n: int, generator: random.Random) -> dict[str, list[tuple[str, float]]]:
        """Ask so many questions; the times of those from history, and of the others."""
        seconds: dict[str, list[float]] = {"history": [], "fresh": []}
        for _ in range(n):
            stream = generator.choice(self.streams)
            question, begun = stream.next(), time.monotonic()
            source = str(self.site.ask(stream.name, question)["source"])
            kind = "history" if source in ("history", "exact") else "fresh"
            seconds[kind].append(time.monotonic() - begun)
            self.sources[source] += 1
            self.n_asked += 1
        return {name: _quantiles(found) for name, found in seconds.items()}

    def _rotate(self, stream: Stream, tenth: int) -> float:
        path = self._records(stream, str(tenth))
        return self.site.owner("rotate", stream.name, "--data", str(path))

    def _records(self, stream: Stream, name: str) -> Path:
        """A new file for this dataset."""
        path = self.site.folder / f"{stream.name}-{name}.csv"
        return write_records(path, seed=f"{self.seed} {path.name}")

    def _restart(self, number: signal.Signals) -> dict[str, float]:
        """End and start again; seconds until health, one history, all histories, a fresh answer.

        Raises:
            AssertionError: an answer changed, or cost something.
        """
        known = [stream for stream in self.streams if stream.asked]
        before = [(self._first(stream), self._first(stream))[1] for stream in known]
        self.site.end(number)
        begun = time.monotonic()
        self.site.start()
        found, after = {"health": seconds_until(self._is_up, since=begun)}, []
        for i, stream in enumerate(known):
            asked = lambda s=stream: after.append(self._first(s)) or True  # noqa: E731
            found["all_histories" if i else "history"] = seconds_until(asked, since=begun)
        if after != before:
            raise AssertionError(f"after a restart: {after}, and not {before}")
        stream = self.streams[0]
        fresh = lambda: bool(self.site.ask(stream.name, stream.fresh()))  # noqa: E731
        return {**found, "fresh": seconds_until(fresh, since=begun)}

    def _first(self, stream: Stream) -> tuple[float, float]:
        """What the first question of a dataset is answered, and what is left of the budget."""
        answer = self.site.ask(stream.name, stream.asked[0])
        return answer["estimate"], answer["epsilon_remaining"]

    def _is_up(self) -> bool:
        return self.site.client.get("healthz").status == 200


def _quantiles(seconds: Sequence[float]) -> list[tuple[str, float]]:
    if not seconds:
        return []
    times = Times.of_seconds(seconds)
    return [("p50_ms", round(times.median_ms, 2)), ("p99_ms", round(times.quantile_ms(0.99), 1))]


if __name__ == "__main__":
    sys.exit(main())

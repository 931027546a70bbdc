"""How many pairs of answers, one from each of two datasets, are told apart by their times.

Each pair is one new question to both datasets; an attacker who knows half of the pairs guesses of
the others which answer is whose (`timing/attack.py`). The times are taken in the worker's process
(`timing/observed.py`), which is more than any client sees. `told_percent` is by all three times,
`by_answer_percent` by the time from the charge to the answer alone, and `told_of_10_percent` by ten
questions to each dataset whose scores are added up. 50 is guessing. `late_percent` is the share of
measurements that took longer than their slot.

One record more is 65,537 against 65,536: a scan takes 65,536 at a time, so this record costs more
than any other. Eight times as many are there to show that the attack can tell. `asleep` waits for
the slot's end without keeping the processor busy, as earlier versions did.

`python -m tests.benchmarks.answer_times PAIRS` prints the table for another number of pairs. Run it
on a quiet machine: the work of others hides what a single answer tells.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from worker.constants import WORKER
from worker.spending.slot import rest_until

from .tables import Report, Value, table_text
from .timing.attack import Times, attack, told, told_by_many
from .timing.observed import Datasets, observe

SEED = 20_261_123
CAPACITY = 1_000_000
SLOT_MS = 8
N_PAIRS = 1_000
_CHUNK = WORKER.scan_chunk


def asleep_until(end_s: float) -> None:
    """Return at this moment of `time.monotonic`, and sleep until then."""
    time.sleep(max(0.0, end_s - time.monotonic()))


@dataclass(frozen=True)
class Scenario:
    """Two datasets, and how the rest of a slot is waited for; None for no slot."""

    name: str
    slot: str
    wait_until: Callable[[float], None] | None

    def datasets(self, capacity: int) -> Datasets:
        """The datasets with this capacity, and with the slot that follows from it, or none."""
        n_records = (_CHUNK, _CHUNK + 1) if self.name == _ONE else (capacity // 8, capacity)
        if self.wait_until is None:
            return Datasets(n_records, capacity=None, slot_ms=0)
        return Datasets(n_records, capacity, SLOT_MS)


_ONE, _EIGHT = "one record more", "eight times as many"
SCENARIOS = (
    Scenario(_ONE, "none", None),
    Scenario(_ONE, "of the capacity", rest_until),
    Scenario(_EIGHT, "none", None),
    Scenario(_EIGHT, "of the capacity", rest_until),
    Scenario(_EIGHT, "asleep", asleep_until),
)


def run(*, quick: bool) -> Report:
    """Guesses of an attacker in each scenario."""
    if quick:
        return report(n_pairs=12, capacity=80_000, scenarios=SCENARIOS[:2])
    return report(n_pairs=N_PAIRS)


def report(
    *, n_pairs: int, capacity: int = CAPACITY, scenarios: Sequence[Scenario] = SCENARIOS
) -> Report:
    """Guesses of an attacker in each scenario, by `n_pairs` pairs of answers."""
    rows = [_row(scenario, n_pairs=n_pairs, capacity=capacity) for scenario in scenarios]
    return Report(
        name="answer_times",
        title="Pairs of answers, one from each of two datasets, told apart by their times",
        parameters={
            "capacity": capacity,
            "slot_ms": SLOT_MS,
            "seed": SEED,
            "store": "embedded, appendonly yes, appendfsync always",
            "workers": 1,
        },
        rows=tuple(rows),
    )


def _row(scenario: Scenario, *, n_pairs: int, capacity: int) -> dict[str, Value]:
    datasets = scenario.datasets(capacity)
    wait_until = scenario.wait_until or rest_until
    seen = observe(datasets, n_pairs=n_pairs, seed=SEED, wait_until=wait_until)
    slot_s = datasets.slot_ms / 1000
    scores = attack(seen.times, slot_s=slot_s)
    by_all, by_many = told(scores), told_by_many(scores)
    by_answer = told(attack(seen.times[:, :, 2:], slot_s=slot_s))
    return {
        "datasets": scenario.name,
        "slot": scenario.slot,
        "pairs": len(seen.times),
        "told_percent": 100 * by_all.share,
        "standard_error_percent": 100 * by_all.standard_error,
        "by_answer_percent": 100 * by_answer.share,
        "told_of_10_percent": 100 * by_many.share,
        "standard_error_of_10_percent": 100 * by_many.standard_error,
        "late_percent": 100 * seen.n_late / seen.times[:, :, 0].size,
        **_medians(seen.times),
    }


def _medians(times: Times) -> dict[str, Value]:
    """How long the first dataset's answers take, and how much longer the second's."""
    differences = times[:, 1] - times[:, 0]
    return {
        "measurement_ms": 1000 * float(np.median(times[:, 0, 0])),
        "answer_ms": 1000 * float(np.median(times[:, 0, 2])),
        "measurement_difference_us": 1e6 * float(np.median(differences[:, 0])),
        "answer_difference_us": 1e6 * float(np.median(differences[:, 2])),
    }


if __name__ == "__main__":
    found = report(n_pairs=int(sys.argv[1]) if sys.argv[1:] else N_PAIRS)
    sys.stdout.write(f"{found.title}\n\n{table_text(found.rows)}\n")

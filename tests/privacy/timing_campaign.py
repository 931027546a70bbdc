"""An observer of the times of HTTP answers, with the slot and without it.

Real processes and real time: gunicorn, an embedded store that syncs every write, and the naive
worker, whose counting and sampling take their time from private data, the same in both arms. Half
of the questions are about a value that one record has, half about one that none has, in random
order; each is asked once, so that every answer is measured. The observer compares the times of the
two halves, and the times of the larger half of the noise with those of the smaller.

The arms take turns, a fresh deployment each time, so that both meet the same machine.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from tests.privacy.timing_site import Timed, observed

SLOTS_MS = {"slot": 40, "no slot": 0}
"""The slot holds a matching record and 70 coins; of 20,000 answers none tossed more than 45."""
N_BLOCK = 1000
"""Timings of one deployment: with more of them each would find more datasets to look after."""
FALSE_ALARM = 1e-6
SHIFTS_US = (10, 20, 50, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000)
Times = npt.NDArray[np.float64]


def run(
    folder: Path, *, n_runs: int, seed: int, only: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """What the observer tells apart, as JSON values, from `n_runs` timings with and without."""
    arms = tuple(only or SLOTS_MS)
    timed: dict[str, list[Timed]] = {arm: [] for arm in arms}
    passed: dict[str, int] = dict.fromkeys(arms, 0)
    load = os.getloadavg()[0]
    for i, begun in enumerate(range(0, n_runs, N_BLOCK)):
        for arm in arms:
            below = folder / f"{arm.replace(' ', '-')}-{i}"
            below.mkdir()
            n = min(N_BLOCK, n_runs - begun)
            block = observed(below, slot_ms=SLOTS_MS[arm], n=n, chance=random.Random(f"{seed} {i}"))
            timed[arm] += block.timed
            passed[arm] += block.n_past_slot
            sys.stderr.write(f"{arm}: {len(timed[arm])} timings\n")
    loads = {"load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}
    return [
        {**_finding(arm, secret, pair, seed), "past_slot": passed[arm], **loads}
        for arm in arms
        for secret, pair in groups(timed[arm]).items()
    ]


def groups(timed: Sequence[Timed]) -> dict[str, tuple[Times, Times]]:
    """The timings in two groups, by count and by size of the noise; seconds."""
    seconds = np.array([t.seconds for t in timed])
    matches = np.array([t.n_matching for t in timed]) == 1
    sizes = np.abs([t.noise for t in timed])
    large = sizes > np.median(sizes)
    return {
        "one matching record or none": (seconds[~matches], seconds[matches]),
        "large or small noise": (seconds[~large], seconds[large]),
    }


def p_value(one: Times, other: Times) -> float:
    """Of the two-sample test of Kolmogorov and Smirnov."""
    return float(stats.ks_2samp(one, other).pvalue)


def least_shift_us(one: Times, other: Times, *, seed: int) -> int | None:
    """The least shift, in microseconds, that the test notices among times like these.

    The times are dealt out anew at random, so nothing but the shift is left to be noticed; None
    if it is more than all that were tried.
    """
    dealt = np.random.default_rng(seed).permutation(np.concatenate([one, other]))
    left, right = dealt[: len(one)], dealt[len(one) :]
    noticed = (us for us in SHIFTS_US if p_value(left, right + us / 1e6) < FALSE_ALARM)
    return next(noticed, None)


def markdown(findings: Sequence[Mapping[str, Any]]) -> str:
    """The findings as rows of a table of studies/campaigns.md."""
    rows = []
    for f in findings:
        arm = f"slot of {f['slot_ms']} ms" if f["slot_ms"] else f["arm"]
        one, other = f["median_ms"]
        told = "told apart" if f["told_apart"] else "not told apart"
        shift = f["least_shift_noticed_us"]
        power = "more than 10 ms" if shift is None else f"{shift / 1000:g} ms"
        rows.append(
            f"| {arm} | {f['secret']} | {sum(f['timings']):,} | {one:.1f} and {other:.1f} ms "
            f"| p = {f['p_value']:.2g}: {told} | {power} |"
        )
    return "\n".join(rows)


def _finding(arm: str, secret: str, pair: tuple[Times, Times], seed: int) -> dict[str, Any]:
    p = p_value(*pair)
    told_apart = p < FALSE_ALARM
    return {
        "arm": arm,
        "slot_ms": SLOTS_MS[arm],
        "secret": secret,
        "timings": [len(times) for times in pair],
        "median_ms": [round(1e3 * float(np.median(times)), 3) for times in pair],
        "p_value": p,
        "told_apart": told_apart,
        "least_shift_noticed_us": least_shift_us(*pair, seed=seed),
        "as_expected": told_apart == (arm == "no slot"),
    }

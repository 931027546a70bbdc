"""How often the intervals that the server prints hold the truth, by how their question came about.

Each run is a history with fresh noise; `share` is the mean over runs of the share of intervals that
hold. The planner, the engine, the posterior and the answer are the server's, the noise is from a
seed. Only questions fixed beforehand, and numbers picked by a rule that was named, are promised to
hold as often as stated; of the others the share is only measured.

fixed: a count, and a sum of three counts, chosen before any noise was drawn.
adaptive: a search for the median of 256 values, each new range asked at +-30; how many lie below
the median it ends at. A search for the largest of 8 close counts by halves; its last answer.
winner: the largest of 64 equal counts of a table.
refined: the same count asked at half the length.
repeated: one count measured anew 2, 3 and 5 times, and asked once more.
dependent: A, B and then A or B; 60 random ranges of 30 values, and one of them again.
small: a count asked at +-30 with `prior: "non-negative"`. That is a Bayesian statement; how often
it holds depends on the count, and is only measured.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from qserver.query.asking.after_looking import Looking, Selection
from qserver.query.asking.method_and_prior import Prior, Reading

from .played_answers import CONFIDENCE, PlayedServer
from .tables import Report, Value

SEED = 20_261_123
N_QUICK = 3
LENGTH = 60.0
LOOSER = 1.35
"""How much longer the interval of the second half of a pair may be: some come from history."""
N_GROUPS = 64
AS_LARGEST = Looking(Selection(N_GROUPS))
ANEW = Looking(independent=True)
NON_NEGATIVE = Reading(prior=Prior("non-negative"))

Design = Callable[[np.random.Generator], Iterator[tuple[str, float]]]


def run(*, quick: bool) -> Report:
    """Coverage with standard errors, by design."""
    rows: list[dict[str, Value]] = []
    for number, (design, n) in enumerate(DESIGNS.items()):
        rng = np.random.default_rng([SEED, number])
        held = defaultdict[str, list[float]](list)
        for _ in range(N_QUICK if quick else n):
            for question, share in design(rng):
                held[question].append(float(share))
        rows += [_row(question, found) for question, found in held.items()]
    return Report(
        name="coverage",
        title="Share of printed intervals that hold the truth",
        parameters={"seed": SEED, "length": LENGTH},
        rows=tuple(rows),
    )


def _row(question: str, found: list[float]) -> dict[str, Value]:
    design, _, about = question.partition(": ")
    shares = np.array(found)
    # Never quite 0, or a small run would claim to be exact.
    variance = max(float(shares.var()), 1.0 / len(found))
    return {
        "design": design,
        "question": about,
        "stated": CONFIDENCE,
        "share": f"{shares.mean():.4f}",
        "standard_error": f"{np.sqrt(variance / len(found)):.4f}",
        "runs": len(found),
    }


def fixed(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Questions that were chosen before any noise was drawn."""
    server = PlayedServer(np.full(4, 100), rng)
    first = server.ask(0, 1, length=LENGTH)
    yield "fixed: a count", first.holds
    for i in (1, 2):
        server.ask(i, i + 1, length=LENGTH / (i + 1))
    yield "fixed: a sum of three counts", server.ask(0, 3, length=2.0 * LENGTH).holds


def median(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """A binary search for the median, with counts so small that noise decides its last steps."""
    server = PlayedServer(rng.integers(0, 6, 256), rng)
    total = server.ask(0, 256, length=LENGTH)
    low, high, below, held = 0, 256, 0.0, [total.holds]
    while high - low > 1:
        middle = (low + high) // 2
        left = server.ask(low, middle, length=LENGTH)
        held.append(left.holds)
        if below + left.estimate < total.estimate / 2.0:
            low, below = middle, below + left.estimate
        else:
            high = middle
    yield "adaptive: a median, each range asked", float(np.mean(held))
    if low > 0:
        # So loose that the ranges of the search suffice.
        answer = server.ask(0, low, length=20.0 * LENGTH)
        yield "adaptive: a median, how many lie below it", answer.holds


def search(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """A search for the largest count: both halves are asked, the larger one is followed."""
    server = PlayedServer(100 + rng.integers(0, 12, 8), rng)
    low, high = 0, 8
    held = [server.ask(low, high, length=LENGTH).holds]
    while high - low > 1:
        middle = (low + high) // 2
        left = server.ask(low, middle, length=LENGTH)
        right = server.ask(middle, high, length=LOOSER * LENGTH)
        held += [left.holds, right.holds]
        low, high = (low, middle) if left.estimate > right.estimate else (middle, high)
    yield "adaptive: the largest by halves, each answer", float(np.mean(held))
    last = server.ask(low, high, length=LOOSER * LENGTH)
    yield "adaptive: the largest by halves, the last one", last.holds


def winner(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """The largest of a table, as it was bought and refined."""
    server = PlayedServer(np.full(N_GROUPS, 100), rng)
    top = int(np.argmax(server.buy_table(length=LENGTH)))
    for design, length in (("winner", LENGTH), ("refined winner", LENGTH / 2.0)):
        largest = server.ask(top, top + 1, length=length, looking=AS_LARGEST)
        alone = server.ask(top, top + 1, length=length)
        yield f"{design}: by its own interval", alone.holds
        yield f"{design}: as the largest of 64", largest.holds


def repeated(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """One count, measured several times with fresh noise."""
    for times in (2, 3, 5):
        server = PlayedServer(np.array([100, 100]), rng)
        for _ in range(times):
            server.ask(0, 1, length=LENGTH, looking=ANEW)
        again = server.ask(0, 1, length=LENGTH)
        yield f"repeated: one count measured {times} times", again.holds


def either(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Two disjoint counts and both together, of different noise."""
    server = PlayedServer(np.full(3, 100), rng)
    server.ask(0, 1, length=LENGTH)
    server.ask(1, 2, length=LENGTH)
    server.ask(0, 2, length=LENGTH, looking=ANEW)
    yield "dependent: A, B, A or B", server.ask(0, 2, length=LENGTH).holds


def ranges(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Ranges on few values: many of them follow from others."""
    ends = random.Random(SEED).sample(list(combinations(range(31), 2)), 60)
    server = PlayedServer(np.full(30, 20), rng)
    for low, high in ends:
        server.ask(low, high, length=LENGTH, looking=ANEW)
    low, high = ends[len(ends) // 2]
    yield "dependent: 60 ranges of 30 values", server.ask(low, high, length=LENGTH).holds


def small(rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Small counts, held to be no less than 0."""
    for count in (0, 5, 10, 20, 40, 100):
        answer = PlayedServer(np.array([count, 100]), rng).ask(
            0, 1, length=LENGTH, reading=NON_NEGATIVE
        )
        yield f"small, held to be >= 0: a count of {count}", answer.holds


DESIGNS: dict[Design, int] = {
    fixed: 5_000,
    median: 4_000,
    search: 4_000,
    winner: 8_000,
    repeated: 4_000,
    either: 4_000,
    ranges: 2_500,
    small: 4_000,
}
"""Runs of each design."""

"""`python -m tests.worker.books.campaign N`: books, ledger and definition on N random histories.

Two to six files of one population, both relations, rotations, true declarations before and after
the attach, top-ups, burnt jobs and models of two stages.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.worker.books.by_definition import worst_person
from tests.worker.books.histories import Town
from worker.books.accountant import NOT_VERIFIED, VERIFIED, Accountant


@dataclass(frozen=True)
class Outcome:
    """One history's end: of its ledger, its books and the definition, in nano-epsilon.

    Args:
        n_bounded: plans of files whose losses the books know by bounds.
    """

    spent: int
    books: int
    exact: float
    n_plans: int
    n_unverified: int
    n_bounded: int
    cpu_s: tuple[float, ...]


def play(seed: int, path: Path, *, n_plans: int = 12) -> Outcome:
    """One random history; AssertionError where books and definition differ."""
    town, accountant = Town(seed, path), Accountant(path)
    for _ in range(town.random.randint(1, 3)):
        town.attach()
    said, cpu, n_bounded = list[str](), list[float](), 0
    for _ in range(n_plans):
        _owner(town)
        one = town.files[town.random.choice(sorted(town.files))]
        planned = town.learn(one) if town.random.random() < 0.08 else town.buy(one)
        if planned is not None:
            begun = time.process_time()
            n_bounded += not one.draws.is_exact
            said.append(accountant.judge(json.dumps(planned.plan), nominal_nano=planned.nominal))
            cpu.append(time.process_time() - begun)
            town.finish(one, planned, burns=town.random.random() < 0.1)
    found = {f.snapshot: f for f in accountant.examine()}
    for snapshot, worst in town.worst.items():
        loss, room = found[snapshot].loss, 1.001 + 1e-12 * worst
        if loss is None and not town.files[snapshot].draws.is_exact:
            assert found[snapshot].text.startswith(NOT_VERIFIED)
            continue
        assert found[snapshot].text == "", (seed, found[snapshot])
        assert (loss or 0) >= worst - room, (seed, snapshot)
        if town.files[snapshot].draws.is_exact:
            assert (loss or 0) <= worst + room, (seed, snapshot)
    books = worst_person({k: float(f.loss or 0) for k, f in found.items()}, town.pairs)
    exact = worst_person(town.worst, town.pairs)
    assert accountant.spent() <= town.spent
    n_unverified = sum(one != VERIFIED for one in said)
    return Outcome(town.spent, int(books), exact, len(said), n_unverified, n_bounded, tuple(cpu))


def _owner(town: Town) -> None:
    """What the owner may do before the next question."""
    rng = town.random
    event = rng.random()
    if event < 0.1 and len(town.files) < 6:
        town.attach(replaces=rng.choice(sorted(town.files)) if rng.random() < 0.5 else "")
    elif event < 0.13:
        town.declare()
    elif event < 0.16:
        town.top_up()


def outcomes(seeds: range) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            yield play(seed, Path(folder) / "journal")


def main(n: int, first: int = 0) -> None:
    found = list(outcomes(range(first, first + n)))
    plans = sum(f.n_plans for f in found)
    under = sum(f.spent < f.exact - 1e-3 for f in found)
    ratios = sorted(f.books / f.exact for f in found if f.exact)
    ledger = sorted(f.spent / f.exact for f in found if f.exact)
    cpu = sorted(s for f in found for s in f.cpu_s)
    print(f"{n} histories, {plans} plans, {sum(f.n_unverified for f in found)} not verified")
    print(f"undercharged: {under}")
    print(f"books / exact: {_spread(ratios, '.9f')}")
    print(f"ledger / exact: {_spread(ledger, '.6f')}")
    print(f"processor time a check, in ms: {_spread([1e3 * s for s in cpu], '.2f')}")


def _spread(found: list[float], form: str) -> str:
    ends = {"least": found[0], "median": found[len(found) // 2], "greatest": found[-1]}
    return ", ".join(f"{name} {format(value, form)}" for name, value in ends.items())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

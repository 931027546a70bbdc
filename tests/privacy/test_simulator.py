"""Nothing tells what is in a private file but the numbers that are drawn.

A fresh seed in each run; `QSERVER_SEED`, which a failure prints, repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import pytest

from qserver.answering.replica import Replica
from qserver.errors import MeasurementError
from qserver.planning.planner import Plan
from qserver.query.question import Question
from qserver.records.charge import Relation
from tests.privacy import simulator
from tests.privacy.histories import N_WEEKS, STEPS
from tests.privacy.simulator import CHECKPOINT, SMALL, SMALL_WEEK, Rows, Stage, first_difference
from worker.spending import measure as measuring

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "replies, prices, refusals, jobs, pages, the store's keys and the worker's checkpoint are"
        " the same to the last character on two very different private files, once each draw is a"
        " number that a seed gives; a price or a failure that tells of the records is found",
    ),
]

DELTAS = [None, Fraction(1, 10**9)]
"""Of pure privacy, and of a population under zcdp."""
SHORT = {
    "questions": (("ask", "at once", "probability"), 2),
    "what is refused": (("refused", "wrong", "read"), 3),
    "pages": (("form", "pages"), 2),
    "models": (("model",), 1),
}
"""Kinds of steps and how many of them: less than half a second of the processor each."""


def stage(folder: Path, store_url: str, seed: str, kinds: tuple[str, ...], n_steps: int) -> Stage:
    relation: Relation = random.Random(seed).choice(["add-remove", "replace-one"])
    return Stage(folder, store_url, seed, kinds, n_steps, relation)


def difference(at: Stage) -> str:
    """Between a small file and a large one."""
    rng = random.Random(at.seed)
    small, large = SMALL[rng.choice(sorted(SMALL))], simulator.large(rng)
    return first_difference(at.still(small), at.still(large))


@pytest.mark.parametrize("kinds", SHORT)
@pytest.mark.parametrize("delta", DELTAS)
def test_two_very_different_files_look_the_same(
    kinds: str, seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    at = replace(stage(tmp_path, store_url, seed, *SHORT[kinds]), delta=delta)
    assert difference(at) == ""


@pytest.mark.parametrize("delta", DELTAS)
def test_files_that_arrive_by_weeks_look_the_same(
    seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    at = replace(stage(tmp_path, store_url, seed, ("ask",), 1), delta=delta)
    assert growing_difference(at) == ""


def growing_difference(at: Stage) -> str:
    """Between one record a week and hundreds."""
    rng = random.Random(at.seed)
    large = [simulator.large_week(rng) for _ in range(N_WEEKS)]
    return first_difference(at.growing([SMALL_WEEK] * N_WEEKS), at.growing(large))


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("turn", range(4))
def test_they_look_the_same_after_long_histories(
    turn: int, seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    at = stage(tmp_path, store_url, f"{seed} {turn}" if delta else seed, tuple(STEPS), 10)
    assert difference(replace(at, delta=delta)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("turn", range(2))
def test_weeks_look_the_same_after_long_histories(
    turn: int, seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    kinds = tuple(kind for kind in STEPS if kind not in ("average", "model"))
    at = replace(stage(tmp_path, store_url, seed, kinds, 8), delta=delta)
    assert growing_difference(at) == ""


# What must be found.

Leak = Callable[[Rows], "mock._patch[object]"]


def price_tells(rows: Rows) -> mock._patch[object]:
    """A price that depends, in its ninth digit, on how many records there are."""
    plan = Replica.plan

    def told(replica: Replica, question: Question) -> Plan:
        asked = question.requirement
        shorter = replace(asked, length=asked.length * (1 - 1e-9 * len(rows)))
        return plan(replica, replace(question, requirement=shorter))

    return mock.patch.object(Replica, "plan", told)


def failure_tells(_rows: Rows) -> mock._patch[object]:
    """A draw that fails where nobody is counted."""
    draw = measuring.draw_answers

    def told(truths: Sequence[Fraction | int], *planned: object, **more: object) -> tuple[int, ...]:
        if 0 in truths:
            raise MeasurementError
        return draw(truths, *planned, **more)  # type: ignore[arg-type]

    return mock.patch.object(measuring, "draw_answers", told)


@pytest.mark.parametrize("leak", [price_tells, failure_tells])
def test_a_leak_is_found(leak: Leak, tmp_path: Path, store_url: str) -> None:
    at, plays = stage(tmp_path, store_url, "leak", ("ask",), 1), []
    at.has_faults = True
    for rows in (SMALL["all dropped"], simulator.large(random.Random("leak"))):
        with leak(rows):
            plays.append(at.still(rows))
    assert first_difference(*plays)


@pytest.mark.slow
def test_true_draws_are_seen_in_replies_and_in_what_is_kept(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with noise in place of the seed's numbers, the two files look different."""

    @contextmanager
    def as_they_are(_seed: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(simulator, "draws_of", as_they_are)
    at = stage(tmp_path, store_url, "control", ("ask",), 1)
    one, other = at.still(SMALL["one"]), at.still(SMALL["all alike"])
    assert first_difference(one, other)
    assert one.kept[CHECKPOINT] != other.kept[CHECKPOINT]

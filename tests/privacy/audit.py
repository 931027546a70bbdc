"""The audit: what an attacker infers about one record, against the ledger's figure.

The attacker knows both datasets and sees all that was released. Every scenario is tight: the odds
of its extreme transcripts are just what the ledger says, so noise a little too small shows.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from unittest import mock

from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import Weights, from_points, interval
from qserver.records.charge import NANO, Relation
from qserver.records.plan import CellSource, PlannedRow, PlannedTable, TableCell
from tests.privacy.guessing import Guesses
from tests.privacy.neighbours import (
    DOMAIN,
    TARGET,
    Site,
    Town,
    guess,
    guess_from_newest,
    neighbours,
)
from tests.statistical.test_noise import SeededEntropy
from worker.noise.mechanism import release, release_refined
from worker.spending import measure as measuring

EPSILON = 1.75
"""What each scenario spends: the best figure for telling it from 1.25 times as much."""
TOO_SMALL = Fraction(4, 5)
"""Scale of the control's noise: 20 percent too small."""
LIMIT_NANO = int(EPSILON * NANO)
BY_SEX = product_partition(DOMAIN.sizes, {1: range(DOMAIN.sizes[1])})

Play = Callable[[Town], None]


@dataclass(frozen=True)
class Scenario:
    """A way of asking; it may look at the answers."""

    play: Play
    relation: Relation = "add-remove"
    limit_nano: int = LIMIT_NANO


@dataclass(frozen=True)
class Finding:
    """What an attacker made of one scenario.

    Args:
        fault: what was wrong with the noise on purpose, or `none`.
        guesses: by how they were made: from all answers, or from the newest of each row.
        ledger: the largest figure of the ledger after a run, in epsilon.
        kinds: plans carried out, by kind.
    """

    scenario: str
    fault: str
    n_runs: int
    guesses: Mapping[str, Guesses]
    ledger: float
    kinds: Mapping[str, int]

    @property
    def epsilon_at_least(self) -> float:
        """Lower confidence bound of the realised epsilon."""
        return max(g.epsilon_at_least for g in self.guesses.values())

    @property
    def is_kept(self) -> bool:
        """Whether the ledger's figure is not refuted."""
        return self.epsilon_at_least <= self.ledger

    def document(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "scenario": self.scenario,
            "fault": self.fault,
            "runs": self.n_runs,
            "plans": dict(self.kinds),
            "ledger": self.ledger,
            "epsilon_at_least": round(self.epsilon_at_least, 4),
            "is_kept": self.is_kept,
            "guesses": {
                how: {"made": g.n, "right": g.n_right, "epsilon": round(g.epsilon_estimate, 4)}
                for how, g in self.guesses.items()
            },
        }


def audit(site: Site, name: str, *, n_runs: int, seed: int, fault: str = "none") -> Finding:
    """Play a scenario on fresh deployments of a dataset that a coin chose, and guess the coin.

    Args:
        fault: a name in `FAULTS`.
    """
    scenario = SCENARIOS[name]
    tables = neighbours(scenario.relation)
    coin, entropy = random.Random(seed), SeededEntropy(seed)
    made: Counter[str] = Counter()
    right: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    ledger = 0.0
    with FAULTS[fault]():
        for _ in range(n_runs):
            secret = coin.randrange(2)
            town = site.town(
                tables[secret],
                limit_nano=scenario.limit_nano,
                relation=scenario.relation,
                entropy=entropy,
            )
            scenario.play(town)
            changes = town.changes()
            for how, rule in RULES.items():
                guessed = rule(changes.measurements, *tables)
                made[how] += guessed is not None
                right[how] += guessed == secret
            kinds.update(paid.kind for paid in changes.paid)
            ledger = max(ledger, town.spent)
    guesses = {how: Guesses(made[how], right[how]) for how in RULES}
    return Finding(name, fault, n_runs, guesses, ledger, kinds)


@contextlib.contextmanager
def noise_of_scale(times: Fraction) -> Iterator[None]:
    """Draw noise whose scale is `times` what is charged for, refined noise too."""

    def raised(alpha_nano: int) -> int:
        return round(alpha_nano / times)

    def scaled(truths: Any, *, alpha_nano: int, **rest: Any) -> list[int]:
        return release(truths, alpha_nano=raised(alpha_nano), **rest)

    def refined(
        truths: Any, *, old_alphas_nano: Sequence[int], new_alpha_nano: int, **rest: Any
    ) -> list[int]:
        alphas: dict[str, Any] = {
            "old_alphas_nano": list(map(raised, old_alphas_nano)),
            "new_alpha_nano": raised(new_alpha_nano),
        }
        return release_refined(truths, **alphas, **rest)

    with (
        mock.patch.object(measuring, "release", scaled),
        mock.patch.object(measuring, "release_refined", refined),
    ):
        yield


@contextlib.contextmanager
def refined_afresh() -> Iterator[None]:
    """Draw new noise where the old should be refined, though only the difference is charged."""

    def afresh(
        truths: Any, *, released: Any, old_alphas_nano: Any, new_alpha_nano: int, **rest: Any
    ) -> list[int]:
        del released, old_alphas_nano
        return release(truths, alpha_nano=new_alpha_nano, **rest)

    with mock.patch.object(measuring, "release_refined", afresh):
        yield


def count_of(*, ages: tuple[int, int] | None = None, sex: int | None = None) -> LinearQuery:
    """The count of these ages (the second left out) and this sex."""
    n_ages, n_sexes = DOMAIN.sizes
    factors: dict[int, Weights] = {}
    if ages is not None:
        factors[0] = interval(n_ages, *ages)
    if sex is not None:
        factors[1] = interval(n_sexes, sex, sex + 1)
    return linear_query(DOMAIN.sizes, [(1, factors)])


AGE, SEX = TARGET
ITS_AGE = (AGE, AGE + 1)


def _direct(town: Town) -> None:
    """One count."""
    town.ask(count_of(ages=ITS_AGE), 3.4240)


def _refined(town: Town) -> None:
    """The same count, more and more precisely."""
    for length in (12.0, 6.0, 3.4240):
        town.ask(count_of(ages=ITS_AGE), length)


def _combined(town: Town) -> None:
    """Two rough counts, and then their sum: measured, with a little help from the two."""
    town.ask(count_of(ages=(0, AGE + 1)), 17.0)
    town.ask(count_of(ages=(AGE + 1, AGE + 3)), 17.0)
    town.ask(count_of(ages=(0, AGE + 3)), 4.3)


def _adaptive(town: Town) -> None:
    """What is asked next depends on the last answer, until the limit refuses."""
    first = town.ask(count_of(ages=ITS_AGE), 12.0)
    assert first is not None
    second = (
        town.ask(count_of(ages=ITS_AGE, sex=SEX), 10.0)
        if first.estimate >= 5
        else town.ask(count_of(ages=ITS_AGE), 5.45)
    )
    assert second is not None
    third = count_of(sex=SEX) if second.estimate >= 4 else count_of(ages=(0, AGE + 1))
    assert town.ask(third, 9.3) is not None
    assert town.ask(third, 4.0) is None


def _difference(town: Town) -> None:
    """Women less men, where one may become the other: twice the loss of a count."""
    less = from_points(DOMAIN.sizes[1], {0: 1, 1: -1}).weights
    town.ask(linear_query(DOMAIN.sizes, [(1, {1: less})]), 6.8480)


def _table(town: Town) -> None:
    """A row; the table that has it as a cell; that table raised; the row raised from its cell."""
    row = BY_SEX.row(SEX)
    key, step = primitive(row).key, town.step(row)
    first, second, third, last = (town.limit_nano * tenths // 10 for tenths in (2, 5, 7, 10))
    source = (CellSource(SEX, 0, first),)
    town.carry_out(row, rows=[PlannedRow(row, key, first, step)])
    town.carry_out(row, tables=[PlannedTable(BY_SEX, second, step, sources=source)])
    town.carry_out(row, tables=[PlannedTable(BY_SEX, third, step, 1, second)])
    town.carry_out(row, rows=[PlannedRow(row, key, last, step, 0, third, TableCell(1, SEX))])


SCENARIOS: Mapping[str, Scenario] = {
    "direct": Scenario(_direct),
    "refined": Scenario(_refined),
    "combined": Scenario(_combined, limit_nano=4 * LIMIT_NANO),
    "adaptive": Scenario(_adaptive),
    "difference": Scenario(_difference, relation="replace-one"),
    "table": Scenario(_table),
}
RULES = {"all answers": guess, "newest answers": guess_from_newest}
FAULTS: Mapping[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "none": contextlib.nullcontext,
    "too little noise": lambda: noise_of_scale(TOO_SMALL),
    "refined afresh": refined_afresh,
}

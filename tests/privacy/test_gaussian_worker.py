"""What a worker under zcdp draws, against every neighbour: by the draws as they are made."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import BudgetExhaustedError
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import Relation
from qserver.records.plan import PlannedRow
from qserver.storage.server.connection import StoreClient
from tests.deployment import PEOPLE, Deployment
from tests.worker.learn_models import learn
from worker.noise.mechanism import release_gaussian
from worker.spending import measure as measuring

pytestmark = pytest.mark.promise(
    "Privacy",
    "what a worker draws with Gaussian noise tells no neighbours apart better than the ledger says",
)
DELTA = Fraction(1, 10**9)
CELLS = list(product(*map(range, PEOPLE.sizes)))


@dataclass(frozen=True)
class Drawn:
    """A row with the rho of its draw; whether it is a cell of a table."""

    row: LinearQuery
    rho: int
    of_table: bool


def greatest(drawn: Sequence[Drawn], *, k: int, relation: Relation) -> Fraction:
    """The most that anybody loses by these draws, k records alike: rho times the move's square."""
    at = [[one.row.value_at(cell) for one in drawn] for cell in CELLS]
    none = [Fraction(0)] * len(drawn)
    # Every record is in the domain, so one that is replaced is replaced by another.
    moves = [(one, none) for one in at] if relation == "add-remove" else list(product(at, at))
    sums = (
        sum(
            (
                Fraction(draw.rho) * (k * (a - b)) ** 2
                for draw, a, b in zip(drawn, one, other, strict=True)
            ),
            Fraction(0),
        )
        for one, other in moves
    )
    return max(sums, default=Fraction(0))


def charged(drawn: Sequence[Drawn], *, k: int, relation: Relation) -> Fraction:
    """As `greatest`, but a pair pays for every table as if it told the two cells apart.

    No pair pays more than four times what a cell pays, as (a - b)^2 <= 2 (a^2 + b^2).
    """
    most = greatest(drawn, k=k, relation="add-remove")
    if relation == "add-remove":
        return most
    rows = [one for one in drawn if not one.of_table]
    tables = greatest([one for one in drawn if one.of_table], k=k, relation="add-remove")
    return min(greatest(rows, k=k, relation=relation) + 2 * tables, 4 * most)


def asked(rng: random.Random) -> dict[str, Any]:
    where: dict[str, Any] = {}
    if rng.random() < 0.7:
        low = rng.randint(20, 28)
        where["age"] = {"between": [low, rng.randint(low, 29)]}
    if rng.random() < 0.6:
        where["sex"] = rng.choice(["Male", "Female", {"weights": {"Male": 2, "Female": -1}}])
    return where


class Noted:
    """What is drawn: the rows by the worker's order, and the rho of each draw by the sampler's."""

    def __init__(self) -> None:
        self.rows, self.rhos, self.n_tables = list[tuple[LinearQuery, bool]](), list[int](), 0
        self._gaussian, self._release = measuring._Drawing._gaussian, release_gaussian

    @property
    def drawn(self) -> list[Drawn]:
        both = zip(self.rows, self.rhos, strict=True)
        return [Drawn(row, rho, of_table) for (row, of_table), rho in both]

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        def gaussian(drawing: Any, truths: Any, planned: Any) -> tuple[int, ...]:
            if isinstance(planned, PlannedRow):
                self.rows.append((planned.row, False))
            else:
                self.n_tables += 1
                cells = planned.partition
                self.rows.extend((cells.row(i), True) for i in range(cells.n_cells))
            return self._gaussian(drawing, truths, planned)

        def release(truths: Any, *, rho_nano: int, **more: Any) -> list[int]:
            self.rhos.extend([rho_nano] * len(truths))
            return self._release(truths, rho_nano=rho_nano, **more)

        patch.setattr(measuring._Drawing, "_gaussian", gaussian)
        patch.setattr(measuring, "release_gaussian", release)


def groups(rng: random.Random) -> list[dict[str, Any]]:
    """A GROUP BY of ages, of sexes, or of both."""
    ages = [{"age": a} for a in (*range(20, 30), "other")]
    sexes = [{"sex": s} for s in ("Female", "Male", "other")]
    return rng.choice([ages, sexes, [one | other for one in ages for other in sexes]])


def modelled(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A network, or marginals; of merged values in two purchases."""
    if rng.random() < 0.4:
        allocation = rng.choice(["best", "rows", "uniform"])
        return "network", {"network": {"edges": [["sex", "age"]]}, "allocation": allocation}
    selection = rng.choice(["best", "listed", "merged", "merged"])
    return "marginals", {"marginals": [["age", "sex"], ["sex"]], "selection": selection}


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_nobody_loses_more_by_the_draws_than_the_ledger_says(
    tmp_path: Path,
    store_url: str,
    redis_client: StoreClient,
    monkeypatch: pytest.MonkeyPatch,
    seed: str,
    relation: Relation,
) -> None:
    rng, noted, n_tables = random.Random(seed), Noted(), 0
    noted.begin(monkeypatch)
    for i in range(8):
        redis_client.flushall()
        noted.rows, noted.rhos = [], []
        folder, k = tmp_path / str(i), rng.randint(1, 2)
        folder.mkdir()
        town = Deployment.make(folder, store_url, limit="6", relation=relation, k=k, delta=DELTA)
        for _ in range(5):
            with contextlib.suppress(BudgetExhaustedError):
                if (kind := rng.random()) < 0.25:
                    learn(town, *modelled(rng), rng.choice([0.5, 1.0]))
                elif kind < 0.5:
                    town.ask_workload(town.workload(groups(rng), length=rng.choice([20, 40])))
                else:
                    town.ask(asked(rng), length=rng.choice([15, 25, 40, 80]))
            zcdp = town.service().dataset("people").zcdp
            assert zcdp is not None
            lost = greatest(noted.drawn, k=k, relation=relation)
            assert lost <= zcdp.spent_rho_nano <= zcdp.limit_rho_nano
            n_tables += noted.n_tables
            # On so small a domain the ledger's figure is what it counts, but for rounding.
            most = charged(noted.drawn, k=k, relation=relation)
            assert zcdp.spent_rho_nano <= most + len(noted.rhos)
    assert n_tables

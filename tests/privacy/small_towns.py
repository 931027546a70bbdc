"""Populations of a few cells whose worker's draws are noted, held against what they paid."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from qserver.query.domain import Attribute, Domain
from qserver.records.dataset import DatasetMeta
from qserver.records.unit import Unit
from qserver.storage.server.connection import connect
from qserver.storage.standings import Budget
from qserver.storage.store import Store
from tests.deployment import Deployment, Relation
from tests.growing import Growing, week
from tests.ledger.people_by_definition import People
from tests.privacy.enumerator import Recorder, Told, losses, told
from tests.privacy.histories import DOMAIN, N_WEEKS, SEX, WEEKS, History, work_off
from worker.owner.attach import AttachRequest, attach

DOMAINS = (
    Domain((SEX,)),
    Domain((Attribute("age", "integer", edges=tuple(map(Fraction, range(4))), outside="clamp"),)),
    DOMAIN,
)
"""Two to four cells."""
UNITS = (
    (Unit("person"), 2),
    (Unit("person", 1), 2),
    (Unit("person-period"), 2),
    (Unit("person-unbounded", 1), N_WEEKS),
)
WEEKS_KEPT = Domain((WEEKS.attributes[0], replace(SEX, outside="other", missing="other")))
"""No record is dropped, as a unit that replaces within a period needs."""
LIMIT = 4


@dataclass
class SmallTown:
    """A population with a history, and what was drawn of it.

    Args:
        people: who may be exchanged in each snapshot.
        disjoint: pairs of snapshots that nobody is in both of.
    """

    town: Deployment
    recorder: Recorder
    rng: random.Random
    metas: list[DatasetMeta]
    people: dict[str, People]
    disjoint: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def begin(
        cls, folder: Path, store_url: str, rng: random.Random, *, delta: Fraction | None = None
    ) -> SmallTown:
        """One to three datasets that are all there; under zcdp where there is a delta."""
        connect(store_url, role="test").flushall()
        relation: Relation = rng.choice(["add-remove", "replace-one"])
        domain, k = rng.choice(DOMAINS), rng.choice([1, 2])
        town = Deployment.make(
            folder,
            store_url,
            domain=domain,
            rows=[tuple(1 if name == "age" else "Male" for name in domain.names)],
            k=k,
            relation=relation,
            limit=str(LIMIT),
            delta=delta,
        )
        found = cls(town, Recorder(rng), rng, [], {})
        found._take_in(town.meta)
        for number in range(rng.choice([0, 0, 1, 2])):
            found._join(f"more{number}", relation)
        return found

    def _join(self, name: str, relation: Relation) -> None:
        others = [meta for meta in self.metas if self.rng.random() < 0.4]
        request = AttachRequest(
            name,
            self.town.data,
            self.town.meta.domain,
            Fraction(LIMIT),
            relation,
            self.town.meta.population,
            self.rng.choice([1, 2]),
            phi=self.town.meta.phi,
            disjoint_from=tuple(meta.name for meta in others),
            privacy=self.town.meta.privacy,
            delta=self.town.meta.delta,
        )
        meta = attach(
            request,
            settings=self.town.settings,
            registry=self.town.registry,
            progress=lambda _text: None,
        )
        self._take_in(meta)
        self.disjoint += [(meta.snapshot, other.snapshot) for other in others]

    def _take_in(self, meta: DatasetMeta) -> None:
        self.metas.append(meta)
        k = meta.records_per_person
        self.people[meta.snapshot] = People(meta.domain.sizes, 0, k, k, meta.relation)

    @classmethod
    def growing(
        cls, folder: Path, store_url: str, rng: random.Random, *, delta: Fraction | None = None
    ) -> SmallTown:
        """One dataset whose weeks arrive."""
        connect(store_url, role="test").flushall()
        relation: Relation = rng.choice(["add-remove", "replace-one"])
        unit, k = rng.choice(UNITS)
        domain = WEEKS
        must = unit.protects == "person-period"
        if relation == "replace-one" and (must or rng.random() < 0.5):
            unit, domain = replace(unit, replaced="same-period"), WEEKS_KEPT
        town = Growing.begin(
            folder,
            store_url,
            domain=domain,
            rows=[(week(0), "Male", "ann")],
            n_first=1,
            k=k,
            relation=relation,
            unit=unit,
            limit=str(LIMIT),
            delta=delta,
        )
        found = cls(town, Recorder(rng), rng, [town.meta], {})
        found.people[town.meta.snapshot] = People(
            domain.sizes,
            0,
            unit.most_in_all(k) or (k if unit.protects == "person-period" else None),
            unit.most_in_period(k),
            relation,
            one_period=unit.protects == "person-period",
            same_period=unit.replaced == "same-period",
        )
        return found

    def play(self, kinds: Sequence[str], n_steps: int) -> Iterator[None]:
        """A history whose draws are noted, step by step."""
        domains = {meta.name: meta.domain for meta in self.metas}
        seed = str(self.rng.random())
        history = History(seed, domains, self.town.web(), self._work, self._grow)
        with self.recorder.recording():
            for _ in history.play(kinds, n_steps):
                assert history.faults == []
                yield

    def _grow(self, step: int) -> None:
        if isinstance(self.town, Growing) and step < N_WEEKS:
            self.town.append(step, [(week(step), "Male", "ann")])

    def _work(self) -> None:
        sizes = {meta.snapshot: meta.domain.sizes for meta in self.metas}
        trusted = self.recorder.of(self.town.trusted(), sizes)
        work_off(self.town, self.town.spender(trusted=trusted))

    @property
    def budget(self) -> Budget:
        """What the population has paid and may pay, as the store says."""
        return Store.open(self.town.settings).stamp(self.town.meta).budget

    def losses(self) -> tuple[Fraction, Fraction]:
        """The greatest loss of a person: of the answers as drawn, and at worst; in 1e-9."""
        found: dict[str, Told] = {
            snapshot: told(draws, self.people[snapshot], self.rng)
            for snapshot, draws in self.recorder.draws.items()
        }
        return losses(found, self.disjoint)

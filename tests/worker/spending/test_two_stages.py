"""Networks of two stages by a real worker: charged before anything is drawn, the sample kept in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.answering.models.kinds.kind import SAMPLING_RATE
from qserver.models.network.learning.amplification import amplified_nano
from qserver.records.account import Allowance
from qserver.records.answer import JobStatus
from qserver.records.charge import NANO, Relation
from qserver.records.codec import plain
from qserver.storage.accounts import AccountBook
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import ROWS, Deployment
from tests.privacy.scan import LEAST_DIGITS, files_under, keys_and_values
from tests.statistical.test_noise import SeededEntropy
from tests.worker.crashes import STEPS, die_at
from tests.worker.learn_models import learn
from tests.worker.owner.test_recovery import bring_up, dump, lasting, put_back
from tests.worker.spending.two_stage_learning import EDGE, charges_of, learnt, tables_of
from worker.spending import two_stages
from worker.spending.measure import draw_table

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a secret sample costs no more than its charge, and nothing of it is kept",
    ),
]

FIRST = {"arxiv": 2, "icml": 4}
VERSIONS = pytest.mark.parametrize("version", ["arxiv", "icml"])


@pytest.fixture
def at(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="2")


@VERSIONS
@pytest.mark.parametrize(
    ("relation", "k"), [("add-remove", 1), ("add-remove", 3), ("replace-one", 2)]
)
def test_the_ledger_has_the_sample_and_the_tables_in_every_cell(
    tmp_path: Path, store_url: str, version: str, relation: Relation, k: int
) -> None:
    """The sample by the amplification of all it cost together, the tables by all they may get.

    Both times k, and twice that where a record is replaced.
    """
    at = Deployment.make(tmp_path, store_url, limit="2", relation=relation, k=k)
    unit = k if relation == "add-remove" else 2 * k
    found = learnt(at, version)
    sample, tables = charges_of(at)
    assert sample.epsilon_nano + tables.epsilon_nano == found.charged_nano
    assert NANO - unit < found.charged_nano <= NANO
    assert at.service().dataset("people").spent_nano == found.charged_nano
    report = at.service().ledger.loss("people", where={"age": 23, "sex": "Male"}, attribute="sex")
    assert report.loss_nano == found.charged_nano
    assert set((report.by_value or {}).values()) == {found.charged_nano}
    released = tables_of(at)
    rises = [t.alpha_nano for t in released]
    assert unit * sum(rises) <= tables.epsilon_nano < unit * (sum(rises) + 2 * len(rises))
    # What the sample cost: as many tables at one price as divide it.
    total = int(_nominal(sample.epsilon_nano / unit))
    whole = [
        n * FIRST[version] for n in range(total // FIRST[version] - 2, total // FIRST[version] + 3)
    ]
    assert sample.epsilon_nano in {unit * amplified_nano(x, rate=SAMPLING_RATE) for x in whole}
    assert sample.epsilon_nano == pytest.approx(0.1 * NANO, abs=unit * 3)


def _nominal(charged_nano: float) -> float:
    """By floats: ln(1 + 10 (e^c - 1))."""
    return float(np.log1p(10 * np.expm1(charged_nano / NANO))) * NANO


@VERSIONS
def test_history_has_the_final_tables_alone_and_they_answer_for_nothing(
    at: Deployment, version: str
) -> None:
    found = learnt(at, version)
    scopes = [tuple(a.axis for a in t.partition.axes) for t in tables_of(at)]
    # The later version measures the parents too: sex once more, which adds up, and everybody.
    assert scopes == ([(0, 1), (1,)] if version == "arxiv" else [(0, 1), (1,), ()])
    assert [t.id for t in tables_of(at)] == list(found.tables)
    answer = at.ask({"sex": "Female"}, length=200)
    assert (answer.source, answer.charged_nano) == ("history", 0)
    again = learn(at, "network", {**EDGE, "allocation": version}, 0)
    models = at.service().models
    assert models.export("people", again.id) == models.export("people", found.id)


@VERSIONS
def test_with_next_to_no_noise_it_answers_as_the_people_do(
    tmp_path: Path, store_url: str, version: str
) -> None:
    at = Deployment.make(tmp_path, store_url, limit="3000")
    found = learnt(at, version, 2000)
    answer = at.service().models.ask(
        "people", found.id, {"marginal": ["sex"], "given": {"age": "23"}}
    )
    of_23 = [sex for age, sex in ROWS if age == 23]
    share = answer.document["probabilities"][0]
    assert share == pytest.approx(of_23.count("Female") / len(of_23), abs=1e-2)


@pytest.mark.slow
@VERSIONS
def test_charge_and_plan_are_the_same_whatever_is_drawn_and_whatever_the_data(
    tmp_path: Path, store_url: str, redis_client: StoreClient, version: str
) -> None:
    """What is reserved is known before the draw; what the sample decides is not in it."""
    decided, reserved, explained = set(), set(), set()
    many = [*ROWS, *[(21, "Female")] * 3000]
    for number, rows in enumerate((ROWS, ROWS, many)):
        redis_client.flushall()
        folder = tmp_path / str(number)
        folder.mkdir()
        at = Deployment.make(folder, store_url, limit="20", rows=rows)
        told = at.service().models.explain(
            "people", "network", {**EDGE, "allocation": version}, 10 * NANO
        )
        found = learnt(at, version, 10, entropy=SeededEntropy(number))
        plan = at.writer().reservation("town", found.id)
        assert plan is not None
        explained.add((told.price_nano, told.sample_nano))
        reserved.add((found.charged_nano, json.dumps([plain(t) for t in plan.tables])))
        decided.add(tuple(t.alpha_nano for t in tables_of(at)))
    assert len(reserved) == len(explained) == 1
    [(price, sample)] = explained
    assert price == found.charged_nano
    assert sample == charges_of(at)[0].epsilon_nano
    assert len(decided) == 3


@VERSIONS
def test_tables_that_history_has_are_raised_and_the_whole_is_charged(
    at: Deployment, version: str
) -> None:
    """A chain costs its last alpha: what was charged before, and the rise."""
    bought = learn(at, "network", {**EDGE, "allocation": "best"}, 0.5)
    [before] = tables_of(at)
    at.ask({"sex": "Male"}, length=60)
    spent = at.service().dataset("people").spent_nano
    found = learnt(at, version, 0.8)
    after = {t.key: t for t in tables_of(at)}
    assert after[before.key].alpha_nano > before.alpha_nano
    assert after[before.key].id == before.id
    assert at.service().dataset("people").spent_nano == spent + found.charged_nano
    rises = sum(t.alpha_nano for t in after.values()) - before.alpha_nano
    assert rises <= 0.72 * NANO + 10
    assert bought.charged_nano + found.charged_nano <= spent + found.charged_nano


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "n_charged"), STEPS)
def test_a_crash_at_any_step_charges_once_and_releases_what_was_drawn_or_nothing(
    at: Deployment, redis_client: StoreClient, step: str, n_charged: int, after: bool
) -> None:
    """Alphas that the sample decided come back from the journal, never from another sample."""
    document = {**EDGE, "allocation": "icml"}
    job = at.service().models.learn("people", "network", document, NANO, wait_s=0)
    assert isinstance(job, JobStatus)
    die_at(at, redis_client, step, after=after)
    charged = at.service().dataset("people").spent_nano
    assert (charged > 0) == (bool(n_charged) or after)
    at.work_off()
    status = at.service().job(job.id)
    assert len(charges_of(at)) == 2
    lines = sum(charge.epsilon_nano for charge in charges_of(at))
    assert at.service().dataset("people").spent_nano == (charged or lines) == lines
    released = at.registry.journal("town", create=False).state.released.get(job.id)
    assert (status.state == "done") == (released is not None)
    if released is not None:
        assert [(r.alpha_nano, r.indices) for r in released.rows] == [
            (t.alpha_nano, t.indices) for t in tables_of(at)
        ]
    else:
        assert status.state == "failed"
        assert tables_of(at) == []


def test_an_empty_store_is_rebuilt_with_the_alphas_that_were_decided(at: Deployment) -> None:
    learnt(at, "arxiv", 0.5)
    backup = dump(at)
    learnt(at, "icml", 0.7)
    before, tables = lasting(at), tables_of(at)
    for store in (backup, {}):
        put_back(at, store)
        assert lasting(at) != before
        bring_up(at)
        assert lasting(at) == before
        assert tables_of(at) == tables


@VERSIONS
def test_nothing_of_the_sample_leaves_the_workers_memory(
    tmp_path: Path, store_url: str, redis_client: StoreClient, version: str, caplog: Any
) -> None:
    """Every number drawn of the sample is looked for in the store, the journal and the log.

    The final tables' numbers are found, so that the search would find the sample's.
    """
    at = Deployment.make(tmp_path, store_url, limit="1000000")
    drawn: list[int] = []
    counted: list[list[int]] = []
    original = draw_table

    def noting(counts: Sequence[int], *rest: Any, **named: Any) -> tuple[int, ...]:
        found = original(counts, *rest, **named)
        counted.append(list(counts))
        drawn.extend(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stages, "draw_table", noting)
        # A nominal epsilon of some thousandths: noise of some hundred records, on a fine lattice.
        found = learnt(at, version, 0.01, entropy=SeededEntropy(5))
    assert len(counted) == FIRST[version]
    sizes = [sum(counts) for counts in counted]
    assert 0 < min(sizes) == max(sizes) < len(ROWS) / 4
    places = {
        **keys_and_values(redis_client),
        **files_under(tmp_path),
        "log": caplog.text.encode(),
        "replies": repr(at.service().models.one("people", found.id)).encode(),
    }
    released = [index for table in tables_of(at) for index in table.indices]
    secret = [n for n in map(abs, drawn) if n >= 10 ** (LEAST_DIGITS - 1)]
    assert len(secret) > len(drawn) // 2
    everything = b"\n".join(places.values())
    assert all(str(abs(n)).encode() in everything for n in released)
    assert not [n for n in secret if str(n).encode() in everything]
    assert not [n for n in secret if f"{n:x}".encode() in everything]


def test_an_analysts_own_allowance_counts_both_charges(at: Deployment) -> None:
    """Of just the price it suffices; one nano-epsilon less and nothing is charged."""
    document, models = {**EDGE, "allocation": "icml"}, at.service().models
    book = AccountBook(Store.open(at.settings).client)
    book.create("ann", "analyst")
    price = models.explain("people", "network", document, NANO // 2).price_nano
    for short in (1, 0):
        book.allow("ann", "town", Allowance(limit_nano=price - short))
        own = models.explain("people", "network", document, NANO // 2, by="ann").own
        assert own is not None
        assert (own.price_nano, own.affordable) == (price, not short)
        job = models.learn("people", "network", document, NANO // 2, wait_s=0, by="ann")
        assert isinstance(job, JobStatus)
        at.work_off()
        status = at.service().job(job.id)
        assert status.state == ("failed" if short else "done")
        assert len(charges_of(at)) == (0 if short else 2)


def test_the_slot_has_room_for_both_stages(at: Deployment) -> None:
    """Few tables of 36 cells in all, twice, are within a slot of 32 rows; the sample has four."""
    ends: list[float] = []
    at = replace(at, settings=replace(at.settings, slot_ms=5))
    spender = at.spender(clock=lambda: 0.0, wait_until=ends.append)
    learn(at, "network", {**EDGE, "allocation": "arxiv"}, 0.5, spender=spender)
    assert sum(t.partition.n_cells for t in tables_of(at)) == 36
    assert ends == [pytest.approx(0.005 * (1 + 4))]

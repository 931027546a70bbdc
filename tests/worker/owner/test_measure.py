"""The owner's default of what is measured: attached, changed, rotated, restored; old facts too."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import NotFoundError
from qserver.query.question import Question
from qserver.query.requirement import Measure, Requirement
from qserver.records.answer import JobStatus
from qserver.records.dataset import DatasetMeta
from qserver.storage.histories import Cursor
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.standings import measure_field, measure_text
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment
from tests.worker.crashes import Crash
from worker.cli import main
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import set_measure
from worker.owner.checks.audit import examine
from worker.owner.restore import restore
from worker.owner.rotate import RotateRequest

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the worker measures under the choice that was quoted, only this question or later ones "
        "too, also if the owner's default changes meanwhile",
    ),
]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="10")


def choose(town: Deployment, measure: Measure) -> None:
    set_measure("people", measure, settings=town.settings, registry=town.registry)


def default_of(town: Deployment, name: str = "people") -> str:
    return town.service().dataset(name).measure


def paid(town: Deployment) -> list[str]:
    meta = Store.open(town.settings).meta("people")
    changes = Store.open(town.settings).changes(meta, Cursor(), shown_only=False)
    return [one.measure for one in changes.paid]


def faults(town: Deployment) -> list[str]:
    return [
        f.text for f in examine(town.registry, town.settings) if not f.ok and "BLAS" not in f.check
    ]


def test_a_dataset_measures_by_default_what_its_owner_attached_it_with(
    town: Deployment, tmp_path: Path
) -> None:
    assert default_of(town) == "auto"
    assert "measure" not in json.loads(town.meta.to_json())
    request = AttachRequest(
        name="other",
        data=town.data,
        domain=PEOPLE,
        limit=Fraction(10),
        relation="add-remove",
        population="town",
        records_per_person=1,
        measure="only_this",
    )
    attach(request, settings=town.settings, registry=town.registry, progress=lambda _text: None)
    assert default_of(town, "other") == "only_this"
    assert faults(town) == []


def test_the_facts_of_an_earlier_version_measure_as_before(town: Deployment) -> None:
    found = DatasetMeta.from_json(town.meta.to_json())
    assert found.measure == "auto"
    chosen = replace(found, measure="only_this")
    assert DatasetMeta.from_json(chosen.to_json()) == chosen


def test_a_process_that_runs_follows_a_later_choice_and_the_asker_goes_before_it(
    town: Deployment,
) -> None:
    service, spender = town.service(), town.spender()
    query = service.parse("people", {"where": {"age": 25}})

    def ask(length: float, measure: Measure | None = None) -> None:
        found = service.ask(
            "people", Question(query, Requirement(length, 0.95), measure=measure), wait_s=0
        )
        assert isinstance(found, JobStatus)
        town.work_off(spender)

    ask(80)
    choose(town, "only_this")
    assert service.dataset("people").measure == "only_this"
    assert (
        service.explain("people", Question(query, Requirement(60, 0.95))).measure.chosen
        == "only_this"
    )
    ask(60)
    ask(50, "auto")
    choose(town, "auto")
    ask(40)
    ask(30, "only_this")
    assert paid(town) == ["auto", "only_this", "auto", "auto", "only_this"]
    assert faults(town) == []


def test_questions_that_wait_are_measured_as_they_were_quoted(town: Deployment) -> None:
    found = town.submit({"age": 25})
    assert isinstance(found, JobStatus)
    choose(town, "only_this")
    town.work_off()
    assert paid(town) == ["auto"]


def test_a_new_file_keeps_the_choice(town: Deployment) -> None:
    choose(town, "only_this")
    request = RotateRequest("people", town.data, same_data_other_people=True)
    town.rotated(request)
    assert default_of(town) == "only_this"
    choose(town, "auto")
    assert default_of(town) == "auto"
    assert faults(town) == []


def test_a_crash_between_journal_and_store_is_finished_by_the_same_call(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the store has the choice before, with which nothing is refused."""

    def die(self: OwnerOperations, meta: DatasetMeta, measure: Measure) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(OwnerOperations, "set_measure", die)
        with pytest.raises(Crash):
            choose(town, "only_this")
    assert default_of(town) == "auto"
    town.ask({"age": 25})
    assert faults(town) == []
    choose(town, "only_this")
    assert default_of(town) == "only_this"


def test_a_store_that_lost_the_choice_gets_it_from_the_journal(
    town: Deployment, redis_client: StoreClient
) -> None:
    town.ask({"age": 25})
    choose(town, "only_this")
    redis_client.hdel(Keys("town").ledger, measure_field(town.meta.snapshot))
    assert default_of(town) == "auto"
    assert restore(
        town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
    )
    assert default_of(town) == "only_this"
    assert faults(town) == []


def test_a_choice_that_its_owner_never_made_is_found(
    town: Deployment, redis_client: StoreClient
) -> None:
    snapshot = town.meta.snapshot
    text = measure_text("only_this", snapshot)
    redis_client.hset(Keys("town").ledger, measure_field(snapshot), text)
    assert any("measured by default" in text for text in faults(town))


@pytest.mark.parametrize("text", ["only_this\n00", "all", ""])
def test_a_damaged_choice_is_told_as_damage(
    town: Deployment, redis_client: StoreClient, text: str
) -> None:
    redis_client.hset(Keys("town").ledger, measure_field(town.meta.snapshot), text)
    reply = town.web().get("/v1/datasets/people")
    assert (reply.status_code, reply.get_json()["code"]) == (503, "store_corrupt")


def test_the_change_is_in_the_audit_log(town: Deployment) -> None:
    choose(town, "only_this")
    choose(town, "only_this")
    changes = [json.loads(text) for text in Store.open(town.settings).audit.changes()]
    (found,) = [c for c in changes if c["kind"] == "measure set"]
    assert (found["dataset"], found["measure"]) == ("people", "only_this")


def test_there_must_be_a_dataset(town: Deployment) -> None:
    with pytest.raises(NotFoundError):
        set_measure("nobody", "auto", settings=town.settings, registry=town.registry)


def test_the_owner_chooses_at_the_command_line(
    town: Deployment, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--state", str(town.settings.state_dir), "--redis-url", store_url]
    assert main(["measure", "people", "only_this", *common]) == 0
    assert "now measure only_this" in capsys.readouterr().out
    assert default_of(town) == "only_this"
    assert main(["measure", "people", "auto", "--json", *common]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "dataset": "people",
        "before": "only_this",
        "after": "auto",
    }

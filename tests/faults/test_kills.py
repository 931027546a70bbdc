"""A short campaign of each kind on real processes, and proof that its checks can fail.

The long ones are run by hand: `python -m tests.faults kills --seed 1 --kills 200`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.api.bodies.workloads_and_sql import answer_body
from qserver.records.answer import AnyAnswer, JobStatus, ModelAnswer
from qserver.storage.server.connection import connect
from tests.deployment import Deployment
from tests.faults import kills, races
from tests.faults.checks import Books, faults
from tests.faults.clients import Shown
from tests.faults.site import Site
from tests.faults.steps import STEPS, Victim
from worker.journal.witness import WitnessSettings

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "the ledger is the sum of the charges; each reservation is charged once",
    ),
    pytest.mark.promise(
        "Faults and races",
        "no answer is shown whose charge is not in the ledger",
    ),
    pytest.mark.promise(
        "Faults and races",
        "with a witness, each draw comes after the witness has its charge, and no answer is shown"
        " that the witness has not seen",
    ),
    pytest.mark.promise(
        "Faults and races",
        "no reservation is drawn twice or has two answers",
    ),
    pytest.mark.promise(
        "Faults and races",
        "an answer that was acknowledged stays, bit for bit, also of a workload; a model that was"
        " shown is kept",
    ),
    pytest.mark.promise(
        "Faults and races",
        "every accepted job ends, in an answer or a failure with a code",
    ),
    pytest.mark.promise(
        "Faults and races",
        "identical questions asked at once are charged once",
    ),
    pytest.mark.promise(
        "Faults and races",
        "different questions asked at once never pass the limit",
    ),
]

SEED = 11
VICTIMS: tuple[Victim, ...] = ("worker", "store", "http")
N_KILLS = 3
N_CLIENTS = 24


def test_a_schedule_visits_every_step_before_and_after() -> None:
    n_places = 2 * len(STEPS)
    places = {(trap.step, trap.when) for trap in kills.schedule(SEED, n_places)}
    assert len(places) == n_places


@pytest.mark.slow
def test_kills_under_load_lose_nothing_and_spend_nothing_twice(tmp_path: Path) -> None:
    report = kills.run(
        tmp_path, seed=SEED, n_kills=N_KILLS, n_clients=4, victims=VICTIMS, trap_s=60.0
    )
    assert report.faults == []
    assert report.n_kills >= N_KILLS - 1
    assert report.released > 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with races.race_site(tmp_path_factory.mktemp("races"), http_workers=2) as site:
        yield site


def test_identical_questions_of_many_clients_are_charged_once(site: Site) -> None:
    race = races.identical(site, n_clients=N_CLIENTS)
    assert race.faults == []
    assert (race.done, race.reservations) == (N_CLIENTS, 1)


@pytest.mark.slow
def test_different_questions_of_many_clients_never_pass_the_limit(site: Site) -> None:
    race = races.different(site, n_clients=N_CLIENTS, seed=SEED)
    assert race.faults == []
    assert 0 < race.spent_nano <= race.limit_nano


@pytest.fixture
def books(tmp_path: Path, store_url: str) -> Books:
    """The books of a deployment with a witness that answered three questions."""
    witness = WitnessSettings(tmp_path / "witnesses", required=True)
    witness.folder.mkdir()
    town = Deployment.make(tmp_path, store_url, limit="10", witness=witness)
    for length in (60, 40, 30):
        town.ask({"age": {"below": 25}}, length=length)
    client = connect(store_url, role="test")
    return Books.read(client, "town", town.registry.journal("town", create=False))


Tamper = Callable[[Books], Books]


def _without_last_charge(books: Books) -> Books:
    return replace(books, charges=books.charges[:-1])


def _spent_less(books: Books) -> Books:
    return replace(books, ledger={**books.ledger, "spent": "1"})


def _other_answer(books: Books) -> Books:
    ((snapshot, events),) = books.history.items()
    changed = [{**events[0], "index": str(int(events[0]["index"]) + 1)}, *events[1:]]
    return replace(books, history={snapshot: changed})


def _lost_release(books: Books) -> Books:
    ((snapshot, events),) = books.history.items()
    return replace(books, history={snapshot: events[:-1]})


def _endless_job(books: Books) -> Books:
    job = next(iter(books.jobs))
    return replace(books, jobs={**books.jobs, job: {"state": "running"}})


def _open_reservation(books: Books) -> Books:
    return replace(books, n_open=1)


@pytest.mark.parametrize(
    "tamper",
    [
        _without_last_charge,
        _spent_less,
        _other_answer,
        _lost_release,
        _endless_job,
        _open_reservation,
    ],
)
def test_books_that_were_tampered_with_are_found_out(books: Books, tamper: Tamper) -> None:
    """The negative control of every campaign: untouched books pass, these do not."""
    assert faults(books) == []
    assert faults(tamper(books)) != []


def _shown(books: Books, **changed: Any) -> Sequence[Shown]:
    job, fields = next((j, f) for j, f in books.jobs.items() if "result" in f)
    return [Shown("people", job, "done", {**json.loads(fields["result"]), **changed}, 0.0)]


def test_an_answer_that_was_shown_and_is_another_now_is_found_out(books: Books) -> None:
    assert faults(books, shown=_shown(books)) == []
    assert faults(books, shown=_shown(books, estimate=0.0)) != []


@pytest.mark.slow
def test_answers_of_a_workload_and_a_model_that_are_others_now_are_found_out(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="10")
    workload = town.ask_workload(town.workload([{"age": 20}, {"sex": "Male"}]))
    network = {"network": {"edges": [["sex", "age"]]}}
    asked = town.service().models.learn("people", "network", network, 10**8, wait_s=0)
    assert isinstance(asked, JobStatus)
    town.work_off()
    model = town.service().job(asked.id).result
    assert isinstance(model, ModelAnswer)
    client = connect(store_url, role="test")
    books = Books.read(client, "town", town.registry.journal("town", create=False))

    def found(kind: str, result: AnyAnswer, **changed: Any) -> list[str]:
        document = answer_body(result).model_dump() | changed
        return faults(books, shown=[Shown("people", None, "done", document, 0.0, kind)])

    assert found("workload", workload) == []
    assert found("workload", replace(workload, answers=workload.answers[::-1])) != []
    assert found("models", model) == []
    assert found("models", model, tables=[7]) != []
    books = replace(books, models=frozenset())
    assert found("models", model) == [f"the model {model.id} was shown and is not kept"]


@pytest.mark.slow
def test_a_second_or_unwitnessed_draw_is_found_out(books: Books, tmp_path: Path) -> None:
    """The journal of `books` has opened and attached, then each job's charge and answer."""
    ((_, events),) = books.history.items()
    job, draws = events[0]["job"], tmp_path / "draws.txt"

    def found(n_seen: int, *, n_draws: int = 1) -> list[str]:
        line = json.dumps([job, [events[0]["index"].split()], n_seen]) + "\n"
        draws.write_text(n_draws * line)
        return faults(books, draws=draws)

    assert found(3) == []
    assert found(3, n_draws=2) == [f"{job} was drawn 2 times"]
    assert found(2) == [f"{job} was drawn before the witness had its charge"]


@pytest.mark.slow
def test_a_witness_that_missed_an_answer_or_saw_another_journal_is_found_out(books: Books) -> None:
    witness = books.journal.witness
    assert witness is not None
    lines = witness.path.read_text().splitlines(keepends=True)
    witness.path.write_text("".join(lines[:-1]))
    assert faults(books) == ["an answer was published that the witness has not seen"]
    with books.journal.exclusive():
        witness.write(replace(books.journal.testimony, number=books.journal.n_records + 1))
    assert "an older copy was put back" in faults(books)[0]

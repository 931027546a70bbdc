"""What an owner's commands refuse or warn of, as a program that ends with exit code 1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from qserver.errors import StateInUseError
from qserver.query.domain_file import domain_to_document
from qserver.storage.server.connection import StoreClient
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import PEOPLE, ROWS, Deployment, write_people
from worker.cli import main
from worker.journal.witness import WitnessSettings

Out = pytest.CaptureFixture[str]


class Owner:
    """Commands of `qserver-worker` on one state folder; each gives its exit code."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        self._domain = folder / "domain.json"
        self._domain.write_text(json.dumps(domain_to_document(PEOPLE)))
        self._data = write_people(folder / "people.csv")
        self._common = ["--state", str(self.state), "--redis-url", store_url]

    def run(self, *words: object) -> int:
        return main([*map(str, words), *self._common])

    def attach(self, name: str, *more: object) -> int:
        files = ("--data", self._data, "--domain", self._domain)
        return self.run("attach", name, *files, "--limit", 1, *more)


@pytest.fixture
def owner(tmp_path: Path, store_url: str) -> Owner:
    return Owner(tmp_path, store_url)


@pytest.mark.limit("exit code 1")
def test_more_records_than_the_capacity_are_not_registered(owner: Owner, capsys: Out) -> None:
    assert owner.attach("people", "--capacity", len(ROWS) - 1) == 1
    assert "number of records in the file" in capsys.readouterr().err
    assert owner.run("doctor") == 1
    assert "FAIL datasets: none is attached" in capsys.readouterr().out


@pytest.mark.limit("exit code 1")
def test_a_limit_is_raised_and_never_lowered(owner: Owner, capsys: Out) -> None:
    assert owner.attach("people") == 0
    assert owner.run("top-up", "people", "--to", 3) == 0
    assert "was 1.000000000 and is 3.000000000 epsilon" in capsys.readouterr().out
    assert owner.run("top-up", "people", "--to", 2) == 1
    assert "be more than 3.000000000 epsilon" in capsys.readouterr().err


@pytest.mark.limit("exit code 1")
def test_a_population_under_zcdp_has_a_small_delta(owner: Owner, capsys: Out) -> None:
    zcdp = ("--privacy", "zcdp", "--delta")
    assert owner.attach("people", *zcdp, "1e-5") == 1
    assert "at most 1e-6" in capsys.readouterr().err
    assert owner.attach("people", *zcdp, "1e-9") == 0
    assert "at delta 1e-09" in capsys.readouterr().out
    assert owner.attach("more", "--population", "people") == 1
    assert "zcdp with delta 1e-09" in capsys.readouterr().err


@pytest.mark.limit("exit code 1")
def test_the_same_file_under_another_population_is_refused(owner: Owner, capsys: Out) -> None:
    assert owner.attach("people") == 0
    assert owner.attach("others") == 1
    assert "has the same records" in capsys.readouterr().err
    assert owner.attach("others", "--same-data-other-people") == 0


@pytest.mark.limit("exit code 1")
def test_journal_and_store_of_yesterday_are_noticed_by_a_witness_alone(
    owner: Owner, tmp_path: Path, store_url: str, redis_client: StoreClient, capsys: Out
) -> None:
    """What was drawn today is forgotten by both."""
    other = tmp_path / "other"
    other.mkdir()
    town = Deployment.make(owner.state, store_url, witness=WitnessSettings(other, required=True))
    assert owner.run("witness", "--witness", other) == 0
    journal = next(owner.state.rglob("town.journal"))
    older = shutil.copy(journal, tmp_path / "older")
    values = {key: redis_client.dump(key) for key in redis_client.scan_iter()}
    town.ask({"sex": "Male"})
    shutil.copy(older, journal)
    redis_client.flushdb()
    for key, value in values.items():
        redis_client.restore(key, 0, value or b"")
    capsys.readouterr()
    assert owner.run("doctor") == 0
    assert "FAIL" not in capsys.readouterr().out
    assert owner.run("witness", "--witness", other) == 1
    assert "an older copy was put back. Nothing is drawn." in capsys.readouterr().out


@pytest.mark.limit("1 server")
def test_a_second_server_on_a_state_folder_is_refused(tmp_path: Path) -> None:
    """It would be another store on the same files."""
    servers = []
    with EmbeddedServer.start(tmp_path / "served") as first:
        servers.append(first)
        with pytest.raises(StateInUseError, match="Another server uses the state folder"):
            servers.append(EmbeddedServer.start(tmp_path / "served", lock_timeout_s=0))
    assert len(servers) == 1

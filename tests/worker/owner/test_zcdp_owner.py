"""What an owner does with a population under zcdp whose data arrive, by the commands themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.cli.main import main as qserver
from qserver.records.unit import Unit
from qserver.storage.server.connection import StoreClient
from tests.growing import Growing, week
from worker.cli import main as worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Privacy",
        "audit, books, doctor, backup and restore of a population under zcdp reckon in rho, agree "
        "with each other, and find a charge that was changed",
    ),
]
Run = Callable[..., str]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    """Rows, tables, an arrival and a retirement, of people with two records in two weeks."""
    found = Growing.begin(
        tmp_path, store_url, unit=Unit("person", 1), k=2, delta=Fraction(1, 10**9)
    )
    found.ask({"sex": "Male"}, length=60)
    found.append(3)
    found.ask({}, length=60)
    cells = [{"week": week(i), "sex": s} for i in range(4) for s in ("Male", "Female")]
    found.ask_workload(found.workload(cells, length=30))
    found.retire(1)
    return found


@pytest.fixture
def run(town: Growing, capsys: pytest.CaptureFixture[str]) -> Run:
    """What a command of the worker says, which must succeed unless it is told otherwise."""
    where = ["--state", str(town.settings.state_dir), "--redis-url", town.settings.redis_url]

    def ran(*words: object, code: int = 0) -> str:
        assert worker([*map(str, words), *where]) == code
        found = capsys.readouterr()
        return found.out + found.err

    return ran


def rho(town: Growing) -> str:
    zcdp = town.service().dataset("people").zcdp
    assert zcdp is not None
    return f"{zcdp.spent_rho_nano / 1e9:.9f}"


def test_a_log_is_verified_in_epsilon_at_delta_and_against_the_books_in_rho(
    town: Growing, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, spent = tmp_path / "log.jsonl", town.service().dataset("people").spent_nano
    assert qserver(["audit", "export", str(log), "--redis-url", town.settings.redis_url]) == 0
    assert qserver(["audit", "verify", str(log)]) == 0
    assert f"{spent / 1e9:.9f} epsilon is just what" in capsys.readouterr().out
    found = run("audit-verify", log)
    assert f"{rho(town)} rho charged, {rho(town)} lost at most by anybody" in found
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    changed = json.dumps(lines[-1]).replace("alpha", "alphas")
    log.write_text("\n".join([*map(json.dumps, lines[:-1]), changed]))
    assert "FAIL" in run("audit-verify", log, code=1)


def test_a_backup_and_the_journals_give_all_of_it_back(
    town: Growing, run: Run, tmp_path: Path, redis_client: StoreClient
) -> None:
    before = town.service().dataset("people")
    assert f"{rho(town)} of 1.090785704 rho spent" in run("backup", tmp_path / "kept.tar")
    redis_client.flushall()
    assert "The store agrees with the journal" in run("restore")
    after = town.service().dataset("people")
    assert (after.spent_nano, after.zcdp) == (before.spent_nano, before.zcdp)
    found = run("doctor")
    assert "FAIL" not in found
    assert f"people: {rho(town)} rho charged" in found


def test_limit_claims_and_witness_are_changed_and_told(
    town: Growing, run: Run, tmp_path: Path
) -> None:
    where = {"sex": "Male", "week": week(3)}
    claim = {"name": "men", "query": {"where": where}, "width": "10", "p": 0.9}
    (tmp_path / "claims.json").write_text(json.dumps(claim))
    run("claims", "people", "--set", tmp_path / "claims.json")
    [known] = town.service().dataset("people").claims
    # Measured by a cell of a table within 15 at 95 percent, and by rows besides.
    assert 0.4 < known.known < 0.6
    assert f"known with probability {known.known:.3g}"[:28] in run("claims", "people")
    assert "and is 11.999999998 epsilon" in run("top-up", "town", "--to", 12)
    assert "be more than" in run("top-up", "town", "--to", 11, code=1)
    (tmp_path / "witness").mkdir()
    assert "begun" in run("witness", "--witness", tmp_path / "witness")
    assert town.ask(where, length=20).high > 0

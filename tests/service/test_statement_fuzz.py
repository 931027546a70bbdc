"""A share of the fuzz of statements; the whole is `python -m tests.service.statement_fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from qserver.planning import planner
from tests.growing import Growing, week
from tests.planning.test_failures import FAULTS, fails
from tests.service.statement_fuzz import World, watched
from tests.sweeps import n_of

pytestmark = pytest.mark.slow
SEED = 1


@pytest.mark.parametrize("i_world", range(n_of(20, share=1)))
def test_no_statement_is_an_internal_error(tmp_path: Path, store_url: str, i_world: int) -> None:
    with watched() as faults:
        world = World(tmp_path, store_url, f"{SEED}:{i_world}", faults)
        world.play(6)
    assert faults.found == []
    assert world.outcomes["200"] > 0


def test_a_fault_in_one_way_is_noticed(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(planner, "_by_periods", fails(FAULTS[0]))
    with watched() as faults:
        World(tmp_path, store_url, "0:0", faults).play(2)
    assert any("by way of periods" in text for text in faults.found)


def test_shares_by_week_beside_fresh_noise_of_the_newest_week_are_answered(
    tmp_path: Path, store_url: str
) -> None:
    """An internal error for ever, in EXPLAIN, too: old weeks as a table, a fresh row of the new."""
    town = Growing.begin(tmp_path, store_url, limit="1000")

    def sql(text: str, **more: bool) -> TestResponse:
        for _ in range(4):
            reply = town.web().post("/v1/datasets/people/sql", json={"sql": text, **more})
            if reply.status_code != 202:
                break
            town.work_off()
        return reply

    assert sql("SELECT week, COUNT(*) FROM people GROUP BY week WITHIN 5").status_code == 200
    town.append(3)
    fresh = {"query": {"where": {"week": week(3)}}, "length": 40, "confidence": 0.95}
    town.web().post("/v1/datasets/people/query", json={**fresh, "independent": True})
    town.work_off()
    shares = (
        "SELECT week, COUNT(*) / SUM(COUNT(*)) OVER () FROM people GROUP BY week WITHIN 0.2 "
        "ASSUMING AT LEAST 100"
    )
    with watched() as faults:
        assert sql(shares, explain=True).status_code == 200
        rows = sql(shares).get_json()["table"]["rows"]
    assert faults.found == []
    assert [row["group"] for row in rows] == [[week(i)] for i in range(4)]
    for row in rows:
        low, high = row["cells"][0]["interval"]
        assert high - low <= 0.4 + 1e-9

"""A share of the fuzz of statements; the whole is `python -m tests.service.statement_fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.planning import planner
from tests.planning.test_ways import FAULTS, fails
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

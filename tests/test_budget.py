"""Each test has a budget of the processor, and a share of a sweep is one of several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import sweeps
from tests.budget import BUDGET_S, slowness

ROOT = Path(__file__).parents[1]
DEAR = f"""
import subprocess, sys, time
import pytest
from tests.budget import budget as budget

SPIN = "import time; begin = time.process_time()\\nwhile time.process_time() - begin < {{}}: pass"
WORK = SPIN.format({6 * BUDGET_S})

def test_here(): exec(WORK)
def test_in_a_program(): subprocess.run([sys.executable, "-c", WORK], check=True)
@pytest.mark.slow
def test_told(): exec(WORK)
def test_waiting(): time.sleep({3 * BUDGET_S})
"""


@pytest.mark.slow
def test_a_test_that_takes_more_of_the_processor_fails_unless_it_is_marked(tmp_path: Path) -> None:
    (tmp_path / "test_dear.py").write_text(DEAR)
    command = [sys.executable, "-m", "pytest", "-q", "-rE", "-p", "no:cacheprovider", "-c/dev/null"]
    found = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-W", "ignore", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    failed = [line.split(" - ")[0] for line in found.stdout.splitlines() if line[:5] == "ERROR"]
    assert [line.split("::")[1] for line in failed] == ["test_here", "test_in_a_program"]
    assert "s of the processor: make it cheaper, or mark it `slow`" in found.stdout


def test_no_machine_is_quicker_than_the_budget_allows_for() -> None:
    assert slowness() >= 1.0


def test_all_of_a_sweep_is_made_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sweeps.WHOLE, raising=False)
    found = list[list[int]]()
    for seed in range(40):
        monkeypatch.setenv(sweeps.SEED, str(seed))
        found.append(sweeps.share(range(12), 4))
    assert {len(one) for one in found} == {4}
    assert {i for one in found for i in one} == set(range(12))
    monkeypatch.setenv(sweeps.SEED, "7")
    assert sweeps.share(range(12), 4) == sweeps.share(range(12), 4) == found[7]


def test_a_whole_run_makes_all_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sweeps.WHOLE, "1")
    assert sweeps.share(range(12), 4) == list(range(12))


def test_a_sweep_of_few_is_made_whole_by_any_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sweeps.WHOLE, raising=False)
    assert sweeps.share([5, 6], 3) == [5, 6]
    assert sweeps.share([], 3) == []

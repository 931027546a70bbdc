"""The demo of data that arrive: what a newcomer pastes, and what it costs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.local.demo import SEALED_AT_FIRST, next_week
from qserver.cli.runtime import ExitCode
from tests.cli.local.running_program import READER, Program, running

_NEXT = "2013-W10"


def _asked(program: Program) -> dict[str, Any]:
    """The reply to the question that the demo printed."""
    printed = program.printed.split("-d '", 1)[1].split("'\n", 1)[0]
    path = ("v1", "datasets", "flights", "sql")
    return dict(program.client.post(*path, document=json.loads(printed)).document["table"])


def _values(table: dict[str, Any]) -> dict[str, float]:
    return {row["group"][0]: row["cells"][0]["estimate"] for row in table["rows"]}


@pytest.mark.slow
def test_the_next_week_is_pasted_and_what_was_known_costs_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    arguments = ("demo", "--weekly", "--port", "0", "--state", str(state))
    with running(state, *arguments, **READER) as program:
        program.read_until(f"--to {_NEXT}")
        program.read_until("\n")
        before = _asked(program)
        assert before["epsilon_charged"] > 0
        assert list(_values(before))[-1] == before["as_of"] == SEALED_AT_FIRST
        pasted = re.search(r"(?m)^  (\S*qserver-worker append .*)$", program.printed)
        assert pasted
        append = f"{pasted[1]} --state {state}" if "--state" not in pasted[1] else pasted[1]
        for said in ("is sealed", "was sealed before"):
            done = subprocess.run(["sh", "-c", append], env=READER, capture_output=True, text=True)
            assert (done.returncode, said in done.stdout) == (0, True), done.stderr
        after = _asked(program)
        assert after["as_of"] == _NEXT
        known = _values(after)
        assert known.pop(_NEXT) > 0
        assert known == _values(before)
        # The new week's flights have lost nothing yet, so its count does not raise the maximum.
        assert after["epsilon_charged"] == 0
        assert program.stop(signal.SIGINT) == ExitCode.OK
    with running(state, *arguments) as again:
        again.read_until("--to 2013-W11")
        assert _asked(again)["epsilon_charged"] == 0
    assert next_week(state / "weeks", "2013-W13") is None

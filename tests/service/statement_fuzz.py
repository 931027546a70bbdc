"""Random statements on data that arrive: `python -m tests.service.statement_fuzz --seconds 500`.

A world is a small deployment whose weeks arrive. What is asked of it is drawn from SQL, fresh noise
and refinements, some of it to EXPLAIN first, with appends between. A fault is a reply
of 500, a job that failed though nothing was refused, or a way of planning that had to be given up.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

from qserver.records.charge import Relation
from qserver.records.unit import THE_PERSON, Unit
from qserver.service.steps.statement import MOST_STEPS
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.growing import Growing, week
from worker.spending.spend import Spender

N_ASKED = 14
"""Statements in one world: with more of them history has all that is drawn."""
_MOST_ROUNDS = 5 * (MOST_STEPS + 2)
"""Times that a statement is sent: its steps, all at once, and the answer; so for each choice that a
SELECT behind IN may make."""
_LEASE_MS = 600_000
REFUSED = {"budget_exhausted", "disclosure_guard", "period_retired", "too_large", "not_estimable"}
"""What a job may fail with: refusals that only the worker can tell."""
UNITS = [
    (THE_PERSON, 1),
    (THE_PERSON, 3),
    (Unit("person", 1), 3),
    (Unit("person-unbounded", 1), 60),
]
NUMBERS = [
    ("COUNT(*)", ""),
    ("COUNT(*) FILTER (WHERE sex = 'Female')", ""),
    ("SUM(COUNT(*)) OVER (ORDER BY week)", "week"),
    ("SUM(COUNT(*)) OVER (ORDER BY week ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "week"),
    ("COUNT(*) / SUM(COUNT(*)) OVER ()", "share"),
    ("SUM(COUNT(*)) OVER (ORDER BY week) / SUM(COUNT(*)) OVER ()", "share week"),
    ("MAX(COUNT(*)) OVER ()", "week"),
    ("COUNT(*) / MAX(COUNT(*)) OVER ()", "share"),
    ("ABS(COUNT_IF(sex = 'Female') - COUNT_IF(sex = 'Male'))", ""),
    ("AVG(CASE WHEN sex = 'Male' THEN 1 ELSE 0 END)", "share"),
]
GROUPS = ["", "week", "sex", "week, sex"]


@dataclass
class Faults(logging.Handler):
    """What went wrong, each with the statement under way."""

    found: list[str] = field(default_factory=list)
    asking: str = ""

    def __post_init__(self) -> None:
        super().__init__(logging.ERROR)

    __hash__ = object.__hash__  # a handler is one of a set

    def emit(self, record: logging.LogRecord) -> None:
        """A way of planning failed."""
        error = record.exc_info[1] if record.exc_info else None
        self.add(f"{record.getMessage()}: {error!r}")

    def add(self, what: str) -> None:
        """Note a fault."""
        self.found.append(f"{self.asking}: {what}")


class World:
    """One deployment and what is asked of it."""

    def __init__(self, folder: Path, store_url: str, seed: str, faults: Faults) -> None:
        self.random, self.faults = random.Random(seed), faults
        rng = self.random
        self.n_weeks, (unit, k) = rng.randint(2, 4), rng.choice(UNITS)
        relation: Relation = rng.choice(["add-remove", "add-remove", "replace-one"])
        limit = rng.choice(["2", "50", "1000"])
        town = Growing.begin(
            folder, store_url, n_first=self.n_weeks, limit=limit, k=k, unit=unit, relation=relation
        )
        # Nobody renews the lease, and a busy machine may take long over one plan.
        self.town = replace(town, settings=replace(town.settings, lease_ms=_LEASE_MS))
        self.setting = f"{seed} {unit.protects} {k} {relation} {limit}"
        self.outcomes: Counter[str] = Counter()
        self._open()

    def _open(self) -> None:
        self.web: FlaskClient = self.town.web()
        self.spender: Spender = self.town.spender()

    def play(self, n_asked: int) -> None:
        """Ask so much of it."""
        for _ in range(n_asked):
            if self.random.random() < 0.25 and self.n_weeks < 9:
                self.town.append(self.n_weeks)
                self.n_weeks += 1
                self._open()
            draw = self.random.random()
            if draw < 0.15:
                self._ask("query", {**self._count(), "independent": True})
            elif draw < 0.3:
                self._refine()
            else:
                self._ask("sql", {"sql": self._statement()})

    def _refine(self) -> None:
        """A count, and the same at a shorter interval."""
        asked = self._count()
        for part in (1.0, self.random.choice([0.7, 0.4, 0.1])):
            self._ask("query", {**asked, "length": part * asked["length"]})

    def _count(self) -> dict[str, Any]:
        rng, where = self.random, dict[str, object]()
        low, high = sorted(rng.choices(range(self.n_weeks), k=2))
        if rng.random() < 0.8:
            where["week"] = {"between": [week(low), week(high)]}
        if rng.random() < 0.4:
            where["sex"] = rng.choice(["Male", "Female"])
        length = rng.choice([10, 20, 40, 100, 300])
        return {"query": {"where": where}, "length": length, "confidence": rng.choice([0.9, 0.95])}

    def _statement(self) -> str:
        rng, group = self.random, self.random.choice(GROUPS)
        fitting = [
            (text, kind)
            for text, kind in NUMBERS
            if group or "OVER" not in text
            if "week" not in kind or group == "week"
        ]
        number, kind = rng.choice(fitting)
        is_share = "share" in kind
        names = f"{group}, " if group else ""
        text = f"SELECT {names}{number} FROM people"
        if rng.random() < 0.3:
            low, high = sorted(rng.choices(range(self.n_weeks), k=2))
            text += f" WHERE week BETWEEN '{week(low)}' AND '{week(high)}'"
        if not is_share and rng.random() < 0.2:
            text += f" {'AND' if ' WHERE week' in text else 'WHERE'} {self._of_groups()}"
        if group:
            text += f" GROUP BY {group}"
        text += f" WITHIN {rng.choice([0.02, 0.05, 0.2] if is_share else [5, 10, 20, 60, 150])}"
        if is_share:
            text += f" ASSUMING AT LEAST {rng.choice([20, 50, 100])}"
        if rng.random() < 0.2:
            text += " ONLY THIS" if rng.random() < 0.5 else " CONFIDENCE 0.9"
        return text

    def _of_groups(self) -> str:
        """A condition on groups that are chosen by their counts."""
        rng, of = self.random, self.random.choice(["week", "sex"])
        by = rng.choice(["HAVING COUNT(*) > 40", "ORDER BY COUNT(*) DESC LIMIT 1"])
        is_in = rng.choice(["IN", "NOT IN"])
        return f"{of} {is_in} (SELECT {of} FROM people GROUP BY {of} {by})"

    def _ask(self, route: str, document: dict[str, Any]) -> None:
        """Explain it and ask it, to its end."""
        self.faults.asking = f"[{self.setting}; {self.n_weeks} weeks] {json.dumps(document)}"
        place = f"/v1/datasets/people/{route}"
        if route == "sql" and self.random.random() < 0.5:  # the same plan, at several lengths
            self._reply(place, {**document, "explain": True})
        for _ in range(_MOST_ROUNDS):
            code = self._reply(place, document)
            if code != "202":
                break
            self.town.work_off(self.spender)
            refused = self._look_at_job()
            if refused or document.get("independent"):  # which is measured anew each time
                code = refused or "200"
                break
        self.outcomes[code] += 1

    def _reply(self, place: str, document: dict[str, Any]) -> str:
        reply = self.web.post(place, json=document)
        if reply.status_code == 500:
            self.faults.add(reply.text)
        if reply.status_code == 202:
            self._job = reply.get_json()["id"]
        return str(reply.status_code) if reply.status_code < 400 else reply.get_json()["code"]

    def _look_at_job(self) -> str:
        """What the job failed with; '' where it did not."""
        problem = self.town.service().job(self._job).problem
        code = "" if problem is None else str(problem["code"])
        if code and code not in REFUSED:
            self.faults.add(f"its job failed: {problem}")
        return code


@contextmanager
def watched() -> Iterator[Faults]:
    """Faults of every way of planning in this process, too."""
    faults, log = Faults(), logging.getLogger("qserver.answering.replica")
    log.addHandler(faults)
    try:
        yield faults
    finally:
        log.removeHandler(faults)


def main() -> int:
    """Fuzz for so long; 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.statement_fuzz")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--statements", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    end, outcomes = time.monotonic() + arguments.seconds, Counter[str]()
    n_worlds, n_found = 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer.start(Path(folder) / "store") as server,
        watched() as faults,
    ):
        while time.monotonic() < end and outcomes.total() < arguments.statements:
            client = connect(server.url, role="test")
            client.flushall()
            client.script_flush()
            client.close()
            place = Path(folder) / f"w{n_worlds}"
            place.mkdir()
            world = World(place, server.url, f"{arguments.seed}:{n_worlds}", faults)
            world.play(N_ASKED)
            outcomes += world.outcomes
            n_worlds += 1
            for text in faults.found[n_found:]:
                print(text, flush=True)
            n_found = len(faults.found)
    print(f"{outcomes.total()} statements in {n_worlds} worlds, {n_found} faults: {dict(outcomes)}")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())

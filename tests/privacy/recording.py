"""The worker's own loop, with a note of every secret that passes through it.

`python -m tests.privacy.recording` writes each true count, each noise sample and each number drawn
on the way to one into the file that `QSERVER_TEST_SECRETS` names, and nowhere else.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.ledger.noise_step import lattice_step
from qserver.planning.planner import Plan
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedTable
from tests.statistical.test_noise import SeededEntropy
from tests.worker.by_hand import BY_SEX, charges_by_hand
from worker.cli import _log
from worker.main_loop import AttachedData
from worker.noise import mechanism
from worker.noise.geometric import geometrics
from worker.private.registry import Registry
from worker.spending import measure as measuring
from worker.spending import two_stages
from worker.spending.loop import Loop

SECRETS = "QSERVER_TEST_SECRETS"
LIMIT = 10**6
TABLES_AT = 0.8
TABLE_ALPHA = 3 * 10**6
FATAL = 90_001
"""A count on which the sampler fails, with a message that tells it."""


def record(file: TextIO) -> None:
    """Have the worker note, for each answer drawn, its truth, its noise and what it released.

    What is drawn of a secret sample is released to nobody: it is noted as `kept`.
    """
    samplers = {"release": mechanism.release, "release_refined": mechanism.release_refined}
    draw_table = measuring.draw_table
    told = ["released"]

    def noting(name: str) -> Any:
        def sampler(truths: Any, **rest: Any) -> list[int]:
            if FATAL in truths:
                raise ValueError(f"the count is {FATAL}, and it must not be told")
            found = samplers[name](truths, **rest)
            for truth, index in zip(truths, found, strict=True):
                true_index = int(truth / rest["step"])
                noted = {
                    "truth": int(truth),
                    "true_index": true_index,
                    "noise_index": index - true_index,
                    "noise": float((index - true_index) * rest["step"]),
                    told[0]: index,
                }
                file.write(json.dumps(noted) + "\n")
            file.flush()
            return found

        return sampler

    def noting_geometrics(rates: Any, entropy: Any) -> list[int]:
        found = geometrics(rates, entropy)
        file.writelines(json.dumps({"part": part}) + "\n" for part in found)
        return found

    def keeping(*args: Any, **named: Any) -> tuple[int, ...]:
        told[0] = "kept"
        try:
            return draw_table(*args, **named)
        finally:
            told[0] = "released"

    two_stages.draw_table = keeping  # type: ignore[attr-defined]
    measuring.release = noting("release")  # type: ignore[attr-defined]
    measuring.release_refined = noting("release_refined")  # type: ignore[attr-defined]
    mechanism.geometrics = noting_geometrics  # type: ignore[attr-defined]


def buy_tables() -> None:
    """Have questions at confidence `TABLES_AT` measure or raise a table."""
    plan_by_itself = Replica.plan

    def plan(replica: Replica, question: Question) -> Plan:
        if question.confidence != TABLES_AT:
            return plan_by_itself(replica, question)
        found = [m for m in replica.measurements if isinstance(m, TableMeasurement)]
        step = lattice_step(
            primitive(BY_SEX.row(0)).unit, limit_nano=LIMIT * NANO, records_per_person=1
        )
        table = PlannedTable(BY_SEX, TABLE_ALPHA, step)
        if found:
            alpha = found[0].alpha_nano
            table = PlannedTable(BY_SEX, 2 * alpha, found[0].step, found[0].id, alpha)
        after = replica.ledger.spent_after(charges_by_hand((), (table,)))
        price = after - replica.ledger.spent_nano
        row, half_width = question.row.row, question.requirement.half_width
        asked = PaidQuestion(row, half_width, TABLES_AT, "blocks", price)
        return Plan("blocks", (), price, after, None, (), (table,), (asked,))

    Replica.plan = plan  # type: ignore[assignment, method-assign]


def notes(path: Path) -> Iterator[dict[str, Any]]:
    """What was noted."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def main() -> None:
    """Work until the process is ended."""
    settings = Settings.from_environment()
    registry = Registry(settings.state_dir)
    log: logging.Logger = _log(registry, settings)
    with Path(os.environ[SECRETS]).open("w", encoding="utf-8") as file:
        record(file)
        buy_tables()
        trusted = replace(AttachedData(registry, log=log).load().trusted, entropy=SeededEntropy())
        loop = Loop(settings=settings, trusted=trusted, log=log)
        sys.stderr.write("recording worker ready\n")
        loop.run()


if __name__ == "__main__":
    main()

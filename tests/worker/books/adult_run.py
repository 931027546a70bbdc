"""`python -m tests.worker.books.adult_run RELATION N SEED`: the books' checks on Adult's domain.

The planner's own plans for random predicates on one to three of all attributes, priced by the
ledger. The records are made up: neither the plans nor the prices depend on them.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from math import exp, log, prod
from pathlib import Path
from typing import Any, cast

from qserver.answering.decide import Free, decide
from qserver.cli.local.demo import adult_domain
from qserver.errors import QServerError
from qserver.query.domain_file import domain_from_document
from qserver.query.linear_query import linear_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator, interval
from qserver.records.charge import Relation
from qserver.storage.encoding.queued_requests import Reservation
from tests.worker.books.histories import JournalFile
from tests.worker.spending.dry import DryTown
from worker.books.accountant import Accountant
from worker.journal.records import Attached, ChargeLine, Released, ReleasedRow, Reserved


def question(rng: random.Random, sizes: tuple[int, ...]) -> Question:
    """A predicate on one to three attributes: a range, or a set of values of a short one."""
    axes: dict[int, Any] = {}
    wide = [a for a, size in enumerate(sizes) if size > 1]
    for axis in rng.sample(wide, rng.randint(1, 3)):
        size = sizes[axis]
        if size <= 16:
            axes[axis] = indicator(size, rng.sample(range(size), rng.randint(1, size - 1)))
        else:
            low, high = sorted(rng.sample(range(size + 1), 2))
            axes[axis] = interval(size, low, high)
    length = 20 * exp(rng.random() * log(100))
    confidence = rng.choice([0.8, 0.9, 0.95, 0.99])
    return Question(linear_query(sizes, [(1, axes)]), Requirement(length, confidence))


class Journalled:
    """Judges each plan, and writes it down, as a worker does."""

    def __init__(self, folder: Path, town: DryTown) -> None:
        self.town, self.n = town, 0
        self.file = JournalFile(folder / "journal")
        meta = town.meta
        details: dict[str, str | int] = {
            "records_per_person": meta.records_per_person,
            "sizes": " ".join(map(str, meta.domain.sizes)),
            "null_cell": int(meta.has_null_cell),
        }
        limit = town.store.limit_nano
        self.file.append(Attached("data", "snapshot", limit, meta.relation, "00", details))
        self.accountant = Accountant(self.file.path)
        self.accountant.read()
        self.cpu: list[float] = []
        self.said: list[str] = []

    def judge(self, reservation: Reservation) -> None:
        plan = reservation.to_json()
        begun = time.process_time()
        self.said.append(self.accountant.judge(plan))
        self.cpu.append(time.process_time() - begun)
        self.n += 1
        replay = json.dumps({"plan": plan, "charges": [], "changes": []})
        after = reservation.after.spent_nano
        self.file.append(
            Reserved(reservation.job, self.n, after, (ChargeLine("x", 1),), replay=replay)
        )

    def release(self, reservation: Reservation) -> None:
        texts = self.town.store.history[-len(reservation.planned) :]
        rows = [tuple(map(int, json.loads(text)["index"].split())) for text in texts]
        keys = [p.key for p in reservation.planned]
        entries = tuple(ReleasedRow(k, r) for k, r in zip(keys, rows, strict=True))
        self.file.append(Released(reservation.job, entries))


def main(relation: str, n: int, seed: int, limit: float = 10.0) -> None:
    rng = random.Random(seed)
    sizes = domain_from_document(json.loads(adult_domain().read_text())).sizes
    town = DryTown.make(
        sizes, relation=cast("Relation", relation), k=1, is_total=False, limit_nano=int(limit * 1e9)
    )
    made: list[Reservation] = []
    town.rehearsal = lambda reservation, _replica: made.append(reservation)
    with tempfile.TemporaryDirectory() as folder:
        books = Journalled(Path(folder), town)
        real = town.rehearsal

        def rehearse(reservation: Reservation, replica: object) -> None:
            real(reservation, replica)
            books.judge(reservation)

        town.rehearsal = rehearse
        while books.n < n:
            asked = question(rng, sizes)
            try:
                found = decide(town.replica, asked)
                if isinstance(found, Free):
                    continue
                town.spend(asked, found)
            except QServerError as exc:
                print(type(exc).__name__, exc)
                break
            books.release(made[-1])
        begun = time.process_time()
        fresh = Accountant(books.file.path)
        finding = fresh.examine()[0]
        whole = time.process_time() - begun
    cpu = sorted(books.cpu)
    print(
        f"{relation}: {prod(sizes):.1e} cells, {books.n} charges, "
        f"{town.store.standing.spent_nano / 1e9:.3f} epsilon"
    )
    print(f"verified: {books.said.count('verified')} of {len(books.said)}")
    print(
        f"a check: median {1e3 * cpu[len(cpu) // 2]:.2f} ms, nine tenths "
        f"{1e3 * cpu[int(0.9 * len(cpu))]:.2f}, worst {1e3 * cpu[-1]:.2f}"
    )
    print(
        f"the whole journal: {1e3 * whole:.1f} ms; loss {finding.loss}, share {finding.share} "
        f"{finding.text}"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(float, sys.argv[4:]))

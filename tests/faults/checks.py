"""What must hold after any fault: budget spent once, answers given once, nothing lost.

Everything is read from outside: the store's keys, the journal, what clients were shown and what
workers drew. Losses are summed cell by cell, without the ledger that is being checked.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from qserver.errors import JournalError
from qserver.records.charge import Charge, TableCharge, charge_from_json
from qserver.storage.encoding.digests import unsealed
from qserver.storage.keys import Keys, all_rounds
from qserver.storage.server.connection import StoreClient
from tests.deployment import PEOPLE
from tests.faults.clients import Shown
from tests.faults.steps import n_seen
from worker.journal.journal import Journal
from worker.journal.records import Record, Released, Reserved

_CELLS = list(product(*(range(size) for size in PEOPLE.sizes)))


@dataclass(frozen=True)
class Books:
    """A population as the store and the journal have it."""

    population: str
    ledger: Mapping[str, str]
    charges: Sequence[str]
    reservations: Mapping[str, Any]
    n_open: int
    burnt: frozenset[str]
    history: Mapping[str, Sequence[Any]]
    jobs: Mapping[str, Mapping[str, str]]
    models: frozenset[str]
    journal: Journal

    @classmethod
    def read(cls, client: StoreClient, population: str, journal: Journal) -> Books:
        """Read everything of a population at rest."""
        keys = Keys(population)
        found: Any = client
        prefix = keys.history("")
        with journal.exclusive():
            pass  # reads what was appended
        return cls(
            population=population,
            ledger=found.hgetall(keys.ledger),
            charges=found.lrange(keys.charges, 0, -1),
            reservations={
                job: json.loads(text) for job, text in found.hgetall(keys.reservations).items()
            },
            n_open=found.hlen(keys.open),
            burnt=frozenset(found.hkeys(keys.burnt)),
            history={
                name.removeprefix(prefix): [json.loads(t) for t in found.lrange(name, 0, -1)]
                for name in found.scan_iter(prefix + "*")
            },
            jobs={
                job: {k: unsealed(text, name=job) for k, text in found.hgetall(name).items()}
                for name in found.scan_iter(keys.job("*"))
                for job in [name.removeprefix(keys.job(""))]
            },
            models=frozenset(
                model for name in found.scan_iter(keys.models("*")) for model in found.hkeys(name)
            ),
            journal=journal,
        )


def faults(books: Books, *, shown: Sequence[Shown] = (), draws: Path | None = None) -> list[str]:
    """What does not hold, in words; empty when all is well."""
    return [
        *_ledger_faults(books),
        *_release_faults(books),
        *_job_faults(books),
        *_shown_faults(books, shown),
        *_witness_faults(books),
        *(_draw_faults(books, draws) if draws is not None and draws.exists() else []),
    ]


def loss_nano(charges: Sequence[str], snapshots: Sequence[str]) -> int:
    """The greatest loss of a cell, summed over snapshots: cell by cell, charge by charge."""
    total = Fraction(0)
    for snapshot in snapshots:
        found = [charge_from_json(t, snapshot=snapshot, sizes=PEOPLE.sizes) for t in charges]
        total += max(sum(_loss(c, cell) for c in found) for cell in _CELLS)
    return int(total)


def _loss(charge: Any, cell: tuple[int, ...]) -> Fraction:
    if isinstance(charge, Charge):
        return abs(charge.row.value_at(cell)) * charge.alpha_nano
    if isinstance(charge, TableCharge):
        partition = charge.partition
        refunds = [nano for part, nano in charge.paid if partition.row(part).value_at(cell)]
        return Fraction(charge.alpha_nano - sum(refunds))
    return Fraction(0)


def _ledger_faults(books: Books) -> list[str]:
    """Charges, reservations, journal and the sums in the ledger tell the same."""
    found = []
    ledger, spent = books.ledger, int(books.ledger["spent"])
    by_job = Counter(json.loads(text)["job"] for text in books.charges)
    planned = {j: len(r["rows"]) + len(r["tables"]) for j, r in books.reservations.items()}
    if dict(by_job) != planned:
        found.append("charges and reservations differ")
    if int(ledger["version"]) != len(planned):
        found.append("the ledger's version is not the number of reservations")
    ends = sorted(
        (r["before"]["spent_nano"], r["after"]["spent_nano"]) for r in books.reservations.values()
    )
    if [0, *(after for _, after in ends)] != [*(before for before, _ in ends), spent]:
        found.append("reservations do not follow one another from 0 to what is spent")
    snapshots = [name.removeprefix("spent:") for name in ledger if name.startswith("spent:")]
    if sum(int(ledger[f"spent:{s}"]) for s in snapshots) != spent:
        found.append("the snapshots' parts do not add up to what is spent")
    least = loss_nano(books.charges, snapshots)
    if spent < least or (spent > least and not any('"table"' in t for t in books.charges)):
        found.append(f"spent is {spent}, the greatest loss of a cell {least}")
    if spent > int(ledger["limit"]):
        found.append("the limit was passed")
    if books.journal.state.spent_nano > spent:
        found.append("the journal has spent more than the store")
    return found


def _release_faults(books: Books) -> list[str]:
    """Every released answer was reserved, once, and is what the journal has of it."""
    found = []
    if books.n_open:
        found.append(f"{books.n_open} reservations are open")
    released: dict[str, list[str]] = {}
    for snapshot, events in books.history.items():
        if int(books.ledger.get(f"shown:{snapshot}", "0")) != len(events):
            found.append("not all that was published is shown")
        for event in events:
            released.setdefault(event["job"], []).append(event["index"])
    for job, indices in released.items():
        journalled = books.journal.state.released.get(job)
        if job not in books.reservations or job in books.burnt:
            found.append(f"{job} was released without a reservation in force")
        elif journalled is None or indices != [
            " ".join(map(str, row.indices)) for row in journalled.rows
        ]:
            found.append(f"{job} is not what the journal released")
    lost = set(books.reservations) - set(released) - books.burnt
    if lost:
        found.append(f"{len(lost)} reservations are neither released nor burnt")
    return found


def _job_faults(books: Books) -> list[str]:
    """Every job has ended, in an answer or in a failure with a code."""
    found = []
    for job, fields in books.jobs.items():
        state = fields.get("state")
        told = {"done": "result", "failed": "problem"}.get(str(state))
        if told is None or told not in fields:
            found.append(f"{job} is {state}")
    return found


def _shown_faults(books: Books, shown: Sequence[Shown]) -> list[str]:
    """Nobody was shown what was not charged, and what was shown is there still, bit for bit."""
    found = []
    results = {j: json.loads(f["result"]) for j, f in books.jobs.items() if "result" in f}
    charged = Counter(_essence(r) for r in results.values())
    events = {s: len(e) for s, e in books.history.items()}
    for one in shown:
        if one.state == "lost":
            found.append("a client never heard of its question")
        if one.state == "done" and one.document["version"] > max(events.values(), default=0):
            found.append("an answer stands on a history that is longer than the store's")
        if one.state == "done" and one.kind == "models" and one.document["id"] not in books.models:
            found.append(f"the model {one.document['id']} was shown and is not kept")
        if one.state != "done" or not _is_paid(one.document):
            continue
        if charged[_essence(one.document)] == 0:
            found.append("an answer was shown that no job has")
        rounds = [results[j] for j in all_rounds(one.job or "") if j in results]
        last = rounds[-1] if rounds else {}
        if one.job is not None and _essence(last) != _essence(one.document):
            found.append(f"{one.job} has another answer than was shown")
    return found


def _is_paid(answer: Mapping[str, Any]) -> bool:
    """Whether an answer over HTTP, to whatever was asked, was measured for it."""
    if "answers" in answer:
        return any(map(_is_paid, answer["answers"]))
    if "tables" in answer:
        return bool(answer["epsilon_charged"] > 0)
    return answer["source"] in ("measured", "refined")


def _essence(answer: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two copies of one answer must share to the last bit, over HTTP and in the store."""
    if "answers" in answer:
        return (answer["version"], *map(_essence, answer["answers"]))
    if "tables" in answer:
        return (answer["id"], answer["version"], *answer["tables"])
    ends = answer.get("interval") or (answer.get("low"), answer.get("high"))
    return (answer.get("estimate"), *ends, answer.get("version"), answer.get("source"))


def _witness_faults(books: Books) -> list[str]:
    """The witness, if there is one, bears the journal out and has seen every released answer."""
    if books.journal.witness is None:
        return []
    with books.journal.exclusive():
        try:
            books.journal.check_witness()
        except JournalError as exc:
            return [str(exc)]
        last = max((i for i, r in _numbered(books.journal) if isinstance(r, Released)), default=0)
    n_unseen = max(0, last - n_seen(books.journal.witness.path))
    return ["an answer was published that the witness has not seen"] if n_unseen else []


def _numbered(journal: Journal) -> Iterable[tuple[int, Record]]:
    """The journal's records, with the number of their line from 1; within a section."""
    lines = enumerate(journal.lines(), start=1)
    return [(number, record) for number, line in lines for record in line.records]


def _draw_faults(books: Books, path: Path) -> list[str]:
    """Each draw was made once, after the witness had its charge, and is what was released."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    seen = {job: n for job, _, n in lines}
    with books.journal.exclusive():
        charged = {r.job: i for i, r in _numbered(books.journal) if isinstance(r, Reserved)}
    mine = [(job, drawn) for job, drawn, _ in lines if job in books.reservations]
    found = [f"{j} was drawn {n} times" for j, n in Counter(j for j, _ in mine).items() if n > 1]
    for job, drawn in mine:
        if seen[job] < charged.get(job, math.inf):
            found.append(f"{job} was drawn before the witness had its charge")
        released = books.journal.state.released.get(job)
        if released is not None and drawn != [list(map(str, r.indices)) for r in released.rows]:
            found.append(f"{job} released another answer than was drawn")
    return found

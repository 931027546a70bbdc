"""Random histories of a population in memory: planned, charged, drawn and journalled for real.

Plans are random and continue as the worker would have them; the ledger prices them, the worker's
own code draws them, and the journal's own code writes them down. Only store and noise are missing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath

from qserver.errors import QServerError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.ledger.population import PopulationLoss, pair
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import from_points
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, Relation, TableCharge
from qserver.records.codec import plain
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable, TableCell
from tests.worker.books.by_definition import Draws, Spread, row_vector, table_vectors
from worker.journal.records import (
    GENESIS,
    Attached,
    Burnt,
    ChargeLine,
    DeclaredDisjoint,
    LimitRaised,
    Opened,
    Record,
    Released,
    ReleasedRow,
    Reserved,
    write_line,
)
from worker.spending.answers_in_force import Live, Origin
from worker.spending.measure import in_turn

LIMIT = 900 * 10**9
STEP = Fraction(1, 64)
OTHER_STEP = Fraction(1, 128)


class JournalFile:
    """A journal that is written without waiting for the disk."""

    def __init__(self, path: Path) -> None:
        self.path, self.n, self.digest = path, 0, GENESIS
        path.write_bytes(b"")
        self.append(Opened("town", 1))

    def append(self, record: Record) -> None:
        line = write_line(record, sequence=self.n, previous=self.digest)
        self.n, self.digest = self.n + 1, line.digest
        with self.path.open("ab") as file:
            file.write(line.text)


@dataclass
class File:
    """One snapshot: its ledger, what is in force, and its draws by definition."""

    name: str
    snapshot: str
    people: frozenset[int]
    sizes: tuple[int, ...]
    ledger: CellLedger
    draws: Draws
    found: list[Any] = field(default_factory=list)
    share: int = 0


@dataclass(frozen=True)
class Purchase:
    """A plan as JSON values, what is drawn of it, and the nominal loss of its sample."""

    plan: dict[str, Any]
    planned: tuple[Planned, ...]
    nominal: int = 0


@dataclass
class Numbering:
    """Draws that are numbers, each another one; notes what each goes on from."""

    draws: Draws
    next_answer: list[int]

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        vector = row_vector(row.row.to_document(), self.draws.sizes)
        return self._draw(vector, origin, row.alpha_nano)

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        vectors = table_vectors(table.partition.to_document(), self.draws.sizes)
        return tuple(
            self._draw(vector, origins.get(cell), table.alpha_nano)
            for cell, vector in enumerate(vectors)
        )

    def _draw(self, vector: Any, origin: Origin | None, alpha: int) -> int:
        if origin is not None and origin.alpha_nano >= alpha:
            return origin.index
        self.next_answer[0] += 1
        answer = self.next_answer[0]
        before = None if origin is None else origin.index
        self.draws.draw(vector, origin=before, alpha=alpha, answer=answer)
        return answer


RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")


class Town:
    """A population whose history grows at random; all declarations are true."""

    def __init__(self, seed: int, path: Path, *, relation: Relation | None = None) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.relation = self.random.choice(RELATIONS) if relation is None else relation
        self.journal = JournalFile(path)
        self.files: dict[str, File] = {}
        self.pairs: set[tuple[str, str]] = set()
        self.limit, self.spent, self.n_jobs = LIMIT, 0, 0
        self.next_answer = [0]
        self.groups = [frozenset({i}) for i in range(4)]

    @property
    def worst(self) -> dict[str, float]:
        """The exact loss in each snapshot."""
        return {name: one.draws.worst() for name, one in self.files.items()}

    def attach(self, replaces: str = "") -> File:
        """A new file with some of the people, and every true pair or none."""
        rng, snapshot = self.random, f"{len(self.files):02x}"
        people = frozenset().union(*rng.sample(self.groups, rng.randint(1, 3)))
        others = [k for k, f in self.files.items() if not f.people & people and rng.random() < 0.8]
        self.pairs |= {pair(snapshot, other) for other in others}
        sizes = rng.choice([(3,), (2, 3), (4, 2), (2, 2, 2), (5, 3)])
        k, null_cell = rng.choice([1, 1, 1, 2, 5]), rng.random() < 0.5
        spread = self._spread(snapshot, sizes, k)
        by = ByPeriod(0, sizes[0], spread.most, spread.keeps_period) if spread else None
        ledger = CellLedger.like(sizes, Neighbours(self.relation, k, null_cell, by))
        draws = Draws(sizes, self.relation, k, null_cell, spread=spread)
        details: dict[str, str | int] = {
            "records_per_person": k,
            "sizes": " ".join(map(str, sizes)),
            "null_cell": int(null_cell),
            "disjoint_from": " ".join(others),
        }
        details |= {"replaces": replaces} if replaces else {}
        if spread is not None:
            details |= {"period_axis": 0, "records_per_period": spread.most}
            details["keeps_period"] = int(spread.keeps_period)
        self.journal.append(
            Attached(
                replaces or f"file{snapshot}", snapshot, self.limit, self.relation, "00", details
            )
        )
        self.files[snapshot] = File(snapshot, snapshot, people, sizes, ledger, draws)
        return self.files[snapshot]

    def _spread(self, snapshot: str, sizes: Sequence[int], k: int) -> Spread | None:
        """How a person's records are spread over the values of attribute 0, in half of all files.

        By a source of its own: what else a seed stands for stays as it was.
        """
        rng = random.Random(f"{self.seed} {snapshot}")
        keeps = self.relation == "replace-one" and rng.random() < 0.5
        most = rng.choice([m for m in range(1, k + 1) if m * sizes[0] >= k])
        if rng.random() < 0.5 or (most == k and not keeps):
            return None
        return Spread(most, keeps)

    def buy(self, one: File) -> Purchase | None:
        """Some rows and tables, new ones and refined ones; None where the worker refuses them."""
        rng, live = self.random, Live(one.found)
        rows, tables = list[PlannedRow](), list[PlannedTable]()
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.6:
                rows.append(self._row(one))
            else:
                tables.append(self._table(one))
        try:
            live.check((*rows, *tables))
        except QServerError:
            return None
        charges: list[AnyCharge] = [Charge(r.row, r.charge_nano, "j") for r in rows]
        charges += [TableCharge(t.partition, t.charge_nano, t.paid, "j") for t in tables]
        return Purchase(self.priced(one, charges, rows=rows, tables=tables), (*rows, *tables))

    def _row(self, one: File) -> PlannedRow:
        rng = self.random
        alpha = rng.randint(1, 50) * 10**6 + rng.randint(0, 999)
        old = [m for m in one.found if isinstance(m, Measurement)]
        if old and rng.random() < 0.5:
            return self._refined(one, rng.choice(old), alpha)
        step = rng.choice([STEP, STEP, OTHER_STEP])
        tables = [m for m in one.found if isinstance(m, TableMeasurement)]
        if tables and rng.random() < 0.6:
            table = rng.choice(tables)
            cell = rng.randrange(table.partition.n_cells)
            row = table.partition.row(cell)
            if rng.random() < 0.7:
                named = TableCell(table.id, cell)
                before = table.alpha_nano
                key = primitive(row).key
                return PlannedRow(row, key, before + alpha, table.step, None, before, named)
            step = table.step
        else:
            row = self._query(one.sizes)
        return PlannedRow(row, primitive(row).key, alpha, step)

    def _refined(self, one: File, old: Measurement, alpha: int) -> PlannedRow:
        live = Live(one.found)
        home = live._home(old.row, old.step)
        first = live._first_id(old.row, old.step) == old.id
        table = None if home is None else one.found[home.table]
        if first and table is not None and table.alpha_nano > old.alpha_nano:
            before = table.alpha_nano
            return PlannedRow(old.row, old.key, before + alpha, old.step, old.id, before, home)
        return PlannedRow.refining(old, alpha_nano=old.alpha_nano + alpha)

    def _table(self, one: File) -> PlannedTable:
        rng, sizes = self.random, one.sizes
        alpha = rng.randint(1, 50) * 10**6 + rng.randint(0, 999)
        old = [m for m in one.found if isinstance(m, TableMeasurement)]
        refined = rng.choice(old) if old and rng.random() < 0.6 else None
        if refined is None:
            axes = rng.sample(range(len(sizes)), rng.randint(0, len(sizes)))
            parts = {a: [rng.randrange(3) for _ in range(sizes[a])] for a in axes}
            if rng.random() < 0.4:
                # Of some values of attribute 0 alone, that of the periods, each apart.
                some = [t if rng.random() < 0.6 else -1 for t in range(sizes[0])]
                parts[0] = some if max(some) >= 0 else list(range(sizes[0]))
            partition = product_partition(sizes, parts)
            step, before, number = STEP, 0, None
        else:
            partition, step = refined.partition, refined.step
            before, number = refined.alpha_nano, refined.id
        bare = PlannedTable(partition, before + alpha, step, number, before)
        return PlannedTable(
            partition, before + alpha, step, number, before, self._sources(one, bare)
        )

    def _sources(self, one: File, table: PlannedTable) -> tuple[CellSource, ...]:
        rows = Live(one.found)._rows_of_cells(table).items()
        return tuple(
            CellSource(cell, row.id, row.alpha_nano)
            for cell, row in sorted(rows)
            if row.alpha_nano > table.old_alpha_nano and self.random.random() < 0.8
        )

    def _query(self, sizes: Sequence[int]) -> LinearQuery:
        rng, terms = self.random, []
        values = rng.choice([[0, 1], [0, 1], [-1, 0, 1], [0, 1, 3, 7]])
        for _ in range(rng.choice([1, 1, 1, 2])):
            axes = rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))
            weights = {
                a: from_points(sizes[a], {i: rng.choice(values) for i in range(sizes[a])})
                for a in axes
            }
            terms.append((1, weights))
        found = primitive(linear_query(sizes, terms))
        return self._query(sizes) if found.is_zero else found.row

    def priced(self, one: File, charges: Sequence[AnyCharge], **parts: Any) -> dict[str, Any]:
        """A plan with these charges, priced by the ledger."""
        self.n_jobs += 1
        before = one.share
        after = one.ledger.spent_after(charges)
        for charge in charges:
            one.ledger.append(charge)
        one.ledger.cap(max(one.ledger.spent_nano, after))
        one.share = one.ledger.spent_nano
        shares = {k: f.share for k, f in self.files.items()}
        self.spent = max(self.spent, PopulationLoss(shares, frozenset(self.pairs)).spent_nano)
        request = json.dumps({"snapshot": one.snapshot, "sizes": list(one.sizes)})
        return {
            "job": f"job{self.n_jobs}",
            "request": request,
            "rows": [plain(row) for row in parts.get("rows", ())],
            "tables": [plain(table) for table in parts.get("tables", ())],
            "before": {"share_nano": before},
            "after": {"share_nano": one.share, "spent_nano": self.spent},
            **({"sampled": parts["sampled"]} if "sampled" in parts else {}),
        }

    def finish(self, one: File, bought: Purchase, *, burns: bool = False) -> None:
        """Write the charge down, then draw and write the answers down, or burn it."""
        self.journal_reserved(bought)
        if burns:
            self.journal.append(Burnt(bought.plan["job"]))
            return
        live = Live(one.found)
        drawn = in_turn(bought.planned, source=Numbering(one.draws, self.next_answer), live=live)
        one.found = live._found
        rows = tuple(
            ReleasedRow(p.key, tuple(found), p.alpha_nano if bought.nominal else 0)
            for p, found in zip(bought.planned, drawn, strict=True)
        )
        if bought.nominal:
            one.draws.sample(bought.nominal)
        self.journal.append(Released(bought.plan["job"], rows))

    def journal_reserved(self, bought: Purchase) -> None:
        plan = bought.plan
        replay: dict[str, Any] = {"plan": json.dumps(plan), "charges": [], "changes": []}
        replay |= {"nominal_nano": bought.nominal} if bought.nominal else {}
        line = (ChargeLine("x", 1),)
        self.journal.append(
            Reserved(plan["job"], self.n_jobs, self.spent, line, replay=json.dumps(replay))
        )

    def learn(self, one: File) -> Purchase:
        """A plan of two stages, whose one table rises by less than it might."""
        rng = self.random
        partition = product_partition(one.sizes, {0: list(range(one.sizes[0]))})
        old = [m for m in one.found if isinstance(m, TableMeasurement)]
        old = [m for m in old if m.partition == partition and m.step == STEP]
        before, number = (old[0].alpha_nano, old[0].id) if old else (0, None)
        most, nominal = rng.randint(1, 50) * 10**6, rng.randint(1, 900) * 10**6
        people = one.draws.k * (1 if self.relation == "add-remove" else 2)
        loss, all_tables = _sample_charge(nominal, people), people * most
        sampled = {"first_alpha_nano": nominal, "sample_nano": loss}
        sampled |= {"alpha_nano": most, "tables_nano": all_tables}
        charges = [OpaqueCharge(loss, "j"), OpaqueCharge(all_tables, "j")]
        greatest = PlannedTable(partition, before + most, STEP, number, before)
        plan = self.priced(one, charges, tables=[greatest], sampled=sampled)
        decided = PlannedTable(partition, before + rng.randint(1, most), STEP, number, before)
        return Purchase(plan, (decided,), nominal)

    def declare(self) -> None:
        """Every pair of files that is true and was not declared yet."""
        names = sorted(self.files)
        new = [
            (a, b)
            for i, a in enumerate(names)
            for b in names[i + 1 :]
            if not self.files[a].people & self.files[b].people and (a, b) not in self.pairs
        ]
        if new:
            self.journal.append(DeclaredDisjoint(tuple(new)))
            self.pairs |= set(new)

    def top_up(self) -> None:
        self.journal.append(LimitRaised(self.limit, self.limit + 10**9))
        self.limit += 10**9


def _sample_charge(nominal: int, people: int) -> int:
    """The charge of a sample's tables, rounded up."""
    with mpmath.workdps(40):
        x = mpmath.mpf(nominal) / 10**9
        return int(mpmath.ceil(people * mpmath.log1p(mpmath.expm1(x) / 10) * 10**9))

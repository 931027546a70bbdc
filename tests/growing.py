"""A small deployment whose data arrive over time, by weeks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from qserver.config import Settings
from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from qserver.records.unit import THE_PERSON, Unit
from tests.deployment import LOG, Deployment, Relation
from worker.owner.arrivals.findings import Late
from worker.owner.arrivals.sealing import (
    Appended,
    AppendRequest,
    RetiredPeriods,
    RetireRequest,
    append,
    retire,
)
from worker.owner.attach import AttachRequest, attach
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry

WEEKS = Domain(
    (
        Attribute("week", "period", periods=Periods("week", "2024-W01", 60)),
        Attribute("sex", "labels", ("Female", "Male"), outside="other", missing="other"),
    )
)
CAPACITY = 500
Row = tuple[str, ...]
"""Week, sex and the person."""


def week(i: int) -> str:
    """The label of the i-th week of the domain."""
    return WEEKS.attributes[0].value_names[i]


def rows_of(i: int, n: int = 200) -> list[Row]:
    """The records of one week: each of another person, three of four of them women."""
    return [(week(i), ("Male", "Female", "Female", "Female")[j % 4], f"p{i}-{j}") for j in range(n)]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """A CSV file of these records."""
    path.write_text("week,sex,who\n" + "".join(",".join(row) + "\n" for row in rows))
    return path


@dataclass(frozen=True)
class Growing(Deployment):
    """A deployment of one dataset, called `people` as in the other one, whose weeks arrive.

    Args:
        waits: how long appends waited, in seconds.
    """

    waits: list[float] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        folder: Path,
        store_url: str,
        *,
        n_first: int = 3,
        rows: Sequence[Row] | None = None,
        limit: str = "10",
        k: int = 1,
        relation: Relation = "add-remove",
        person_column: str = "who",
        registry: Registry | None = None,
        unit: Unit = THE_PERSON,
        late: Late = "drop",
        domain: Domain = WEEKS,
        as_it_is: bool = True,
        delta: Fraction | None = None,
    ) -> Growing:
        """Attach the first weeks; under zcdp where there is a delta."""
        settings = Settings(
            redis_url=store_url, state_dir=folder, slot_ms=0, lease_ms=60_000, open_access=True
        )
        registry = registry or Registry(folder)
        found = [row for i in range(n_first) for row in rows_of(i)] if rows is None else rows
        data = write_rows(folder / "first.csv", found)
        request = AttachRequest(
            name="people",
            data=data,
            domain=domain,
            limit=Fraction(limit),
            relation=relation,
            population="town",
            records_per_person=k,
            person_column=person_column,
            capacity=CAPACITY,
            to=week(n_first - 1),
            unit=unit,
            late=late,
            as_it_is=as_it_is,
            privacy="pure" if delta is None else "zcdp",
            delta=delta,
        )
        meta = attach(request, settings=settings, registry=registry, progress=lambda _text: None)
        town = cls(settings, registry, meta, data)
        town.writer().queue.beat(["town"], worker="test", ttl_ms=600_000)
        return town

    def append(
        self,
        i: int,
        rows: Sequence[Row] | None = None,
        *,
        empty: bool = False,
        registry: Registry | None = None,
        other_people: bool = False,
        late: Late | None = None,
        strict: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> Appended:
        """Append the records of week `i`, or these."""
        data = write_rows(
            self.settings.state_dir / "next.csv", rows_of(i) if rows is None else rows
        )
        request = AppendRequest(
            "people",
            data,
            week(i),
            late,
            strict,
            empty=empty,
            same_data_other_people=other_people,
        )
        return append(
            request,
            settings=self.settings,
            registry=registry or Registry(self.settings.state_dir),
            progress=say,
            log=LOG,
            pause=self.waits.append,
            clock=lambda: 90.0,
        )

    def retire(
        self,
        i: int,
        *,
        registry: Registry | None = None,
        pause: Callable[[float], None] | None = None,
    ) -> RetiredPeriods:
        """Erase the records before week `i`."""
        return retire(
            RetireRequest("people", week(i)),
            settings=self.settings,
            registry=registry or Registry(self.settings.state_dir),
            progress=lambda _text: None,
            log=LOG,
            pause=pause or self.waits.append,
            clock=lambda: 90.0,
        )

    def correct(
        self,
        rows: Sequence[Row],
        *,
        correct: bool = True,
        empty: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> Growing:
        """Rotate to these records of all weeks; the deployment with the new snapshot."""
        data = write_rows(self.settings.state_dir / "corrected.csv", rows)
        meta = rotate(
            RotateRequest("people", data, correct=correct, empty=empty),
            settings=self.settings,
            registry=Registry(self.settings.state_dir),
            progress=say,
            log=LOG,
            pause=self.waits.append,
            clock=lambda: 90.0,
        )
        return replace(self, meta=meta, data=data)

    @property
    def n_shown(self) -> int | None:
        """How many weeks the online side shows as sealed."""
        return self.service().state("people").n_sealed

"""An attribute that the owner calls time, where all data are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from qserver.cli.datasets import _show_dataset
from qserver.client.results import DatasetInfo
from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.query.domain import Attribute, Domain
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer
from qserver.records.dataset import DatasetMeta
from qserver.records.history import HistoryTable
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from worker.owner.attach import AttachRequest, attach
from worker.owner.checks.audit import audit
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry

SURE = 1 - 1e-9
EITHER = pytest.mark.parametrize(
    "town", [{}, {"privacy": "zcdp", "delta": Fraction(1, 10**9)}], indirect=True
)
"""Under either kind of privacy."""
HOURS = tuple(f"h{i:02}" for i in range(24))
DOMAIN = Domain((Attribute("hour", "labels", HOURS), Attribute("sex", "labels", ("F", "M"))))
N_OF = {(hour, sex): 100 + 5 * i + 40 * (sex == "M") for i, (hour, sex) in enumerate(
    product(HOURS, "FM")
)}  # fmt: skip


def timed(data: Path, **options: object) -> AttachRequest:
    """What attaches the day, with `hour` as its time."""
    plain = AttachRequest(
        name="people",
        data=data,
        domain=DOMAIN,
        limit=Fraction(20),
        relation="add-remove",
        population="town",
        records_per_person=1,
        time="hour",
    )
    return replace(plain, **options)  # type: ignore[arg-type]


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "day.csv"
    lines = [f"{hour},{sex}\n" * n for (hour, sex), n in N_OF.items()]
    path.write_text("hour,sex\n" + "".join(lines))
    return path


@pytest.fixture
def town(tmp_path: Path, store_url: str, day: Path, request: pytest.FixtureRequest) -> Deployment:
    """Under pure privacy, or as a test asks."""
    more = getattr(request, "param", {})
    settings = Settings(
        redis_url=store_url, state_dir=tmp_path, slot_ms=0, lease_ms=60_000, open_access=True
    )
    registry = Registry(tmp_path)
    meta = attach(
        timed(day, **more), settings=settings, registry=registry, progress=lambda _text: None
    )
    SpendingStore.open(settings).queue.beat(["town"], worker="test", ttl_ms=600_000)
    return Deployment(settings, registry, meta, day)


def tables(town: Deployment) -> list[HistoryTable]:
    rows = town.service().history.page("people", after=-1, limit=100).rows
    return [row for row in rows if isinstance(row, HistoryTable)]


def settled(town: Deployment, ask: Callable[[], object]) -> object:
    found = ask()
    if isinstance(found, JobStatus):
        town.work_off()
        found = ask()
    assert not isinstance(found, JobStatus)
    return found


def counted(town: Deployment, where: dict[str, object], *, length: float = 200) -> Answer:
    service = town.service()
    query, requirement = service.parse("people", {"where": where}), Requirement(length, SURE)
    before = town.service().dataset("people").spent_nano
    found = settled(town, lambda: service.ask("people", Question(query, requirement), wait_s=0))
    assert isinstance(found, Answer)
    charged = town.service().dataset("people").spent_nano - before
    return replace(found, charged_nano=charged)


def together(town: Deployment, wheres: list[dict[str, object]]) -> WorkloadAnswer:
    service = town.service()
    queries = [service.parse("people", {"where": where}) for where in wheres]
    asked = Workload(tuple(Question(q, Requirement(100, SURE)) for q in queries))
    found = settled(town, lambda: service.ask_workload("people", asked, wait_s=0))
    assert isinstance(found, WorkloadAnswer)
    return found


def truth(hours: range, sexes: str = "FM") -> int:
    return sum(N_OF[HOURS[i], sex] for i in hours for sex in sexes)


def test_a_bad_time_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    for options, words in (
        ({"time": "minute"}, "name an attribute"),
        ({"to": "h03"}, "be left out with --to"),
        ({"demand_of": "earlier"}, "be left out with --demand-of"),
    ):
        with pytest.raises(ConfigError, match=words) as caught:
            timed(missing, **options)
        assert caught.value.name == "time"
    with pytest.raises(ConfigError) as caught:
        timed(missing, late="move")
    assert caught.value.name == "late"


def test_the_time_is_a_public_fact_that_old_datasets_lack(town: Deployment) -> None:
    kept = Store.open(town.settings).meta("people")
    assert kept.time == "hour"
    assert (kept.apart_axis, kept.kept_periods(None)) == (0, range(24))
    plain = replace(town.meta, time="")
    assert "time" not in plain.to_json()
    assert DatasetMeta.from_json(plain.to_json()).apart_axis is None


def test_every_face_names_the_time(town: Deployment) -> None:
    document = town.web().get("/v1/datasets/people").get_json()
    assert document["time"] == DatasetInfo.of(document).time == "hour"
    assert DatasetInfo.of({**document, "time": None}).time is None
    lines = list[str]()
    _show_dataset(SimpleNamespace(line=lambda text="": lines.append(text)), document)  # type: ignore[arg-type]
    assert "time: hour; every table tells its values apart" in lines
    assert "hour is the time: tables tell its values apart" in town.web().get("/portal/").text


@pytest.mark.slow
@EITHER
def test_the_books_agree_with_the_ledger(town: Deployment) -> None:
    together(town, [{"sex": sex} for sex in "FM"])
    counted(town, {"hour": list(HOURS[4:8])}, length=60)
    counted(town, {"hour": list(HOURS[6:9]), "sex": "F"}, length=60)
    assert town.service().dataset("people").spent_nano > 0
    checks = audit(town.registry, town.settings)
    assert checks
    assert all(check.ok for check in checks), checks


@EITHER
def test_spans_hold_their_records_and_return_for_nothing(town: Deployment) -> None:
    for _ in range(3):
        for first in (0, 4, 8):
            hours = range(first, first + 4)
            answer = counted(town, {"hour": [HOURS[i] for i in hours]})
            assert answer.low <= truth(hours) <= answer.high
            assert answer.high - answer.low <= 200
    spent = town.service().dataset("people").spent_nano
    again = counted(town, {"hour": list(HOURS[4:8])})
    assert (again.charged_nano, town.service().dataset("people").spent_nano) == (0, spent)


def test_a_table_tells_the_hours_apart_though_no_question_does(town: Deployment) -> None:
    """Its groups are sums over hours, and each hour of a group is known after it is bought."""
    found = together(town, [{"sex": sex} for sex in "FM"])
    for answer, sex in zip(found.answers, "FM", strict=True):
        assert answer.low <= truth(range(24), sex) <= answer.high
    for hour in (0, 23):
        counted(town, {"hour": HOURS[hour], "sex": "F"}, length=60)
    for table in tables(town):
        assert table.n_cells % 24 == 0


@pytest.mark.slow
def test_hours_by_sex_are_one_table_with_a_cell_each(town: Deployment) -> None:
    found = together(town, [{"hour": hour, "sex": sex} for hour, sex in N_OF])
    for answer, n in zip(found.answers, N_OF.values(), strict=True):
        assert answer.low <= n <= answer.high
    (table,) = tables(town)
    assert table.n_cells == 48


def test_new_data_keep_the_time(town: Deployment) -> None:
    new = rotate(
        RotateRequest("people", town.data),
        settings=town.settings,
        registry=town.registry,
        progress=lambda _text: None,
        log=LOG,
    )
    assert (new.time, new.snapshot == town.meta.snapshot) == ("hour", False)
    assert counted(town, {"hour": "h03"}).low <= truth(range(3, 4))


def test_no_model_is_learnt_whose_tables_would_lack_the_time(town: Deployment) -> None:
    web = town.web()
    body = {"kind": "marginals", "marginals": [["sex"]], "epsilon": 0.5}
    response = web.post("/v1/datasets/people/models", json=body)
    assert response.status_code == 422, response.text
    assert "without --time" in response.json["detail"]

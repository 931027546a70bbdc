"""The unit of privacy from the owner's words to the books, on a small file of visits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.client.results import DatasetInfo
from qserver.config import Settings
from qserver.errors import ConfigError, DomainError, StoreCorruptError
from qserver.ledger.one_person import ByPeriod, neighbours_of
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document
from qserver.records.charge import Relation
from qserver.records.codec import read
from qserver.records.dataset import DatasetMeta
from qserver.records.declared_unit import Words
from qserver.records.unit import THE_PERSON, Unit
from qserver.storage.encoding.digests import sealed
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import Deployment
from tests.sweeps import share
from worker.books.accountant import Accountant
from worker.cli import main
from worker.owner import snapshot_line
from worker.owner.attach import MAX_PHI, AttachRequest, attach
from worker.owner.checks.audit import audit
from worker.owner.snapshot_line import plain_facts
from worker.private.registry import Registry, RegistryEntry

WEEK = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 4}
SEX = {"name": "sex", "labels": ["F", "M"], "outside": "other", "missing": "other"}
DOMAIN = domain_from_document({"attributes": [WEEK, SEX]})
STRICT = domain_from_document({"attributes": [WEEK, {"name": "sex", "labels": ["F", "M"]}]})
NO_WEEKS = domain_from_document({"attributes": [SEX]})
WEEKS = DOMAIN.attributes[0].value_names
VISITS = [(f"p{i % 40}", WEEKS[i % 7 % 4], "FM"[i % 2]) for i in range(300)]


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text("who,week,sex\n" + "".join(f"{','.join(row)}\n" for row in VISITS))
    return path


def town_of(
    data: Path, store_url: str, words: Words, relation: Relation = "add-remove"
) -> Deployment:
    folder, said = data.parent, words.declared(DOMAIN, relation)
    settings = Settings(
        redis_url=store_url, state_dir=folder, slot_ms=0, lease_ms=60_000, open_access=True
    )
    request = AttachRequest(
        name="people",
        data=data,
        domain=DOMAIN,
        limit=Fraction(50),
        relation=relation,
        population="town",
        records_per_person=said.records_per_person,
        unit=said.unit,
        person_column="who" if words.enforced else "",
        phi=MAX_PHI,
    )
    registry, lines = Registry(folder), list[str]()
    meta = attach(request, settings=settings, registry=registry, progress=lines.append)
    SpendingStore.open(settings).queue.beat(["town"], worker="test", ttl_ms=600_000)
    (folder / "lines").write_text("\n".join(lines))
    return Deployment(settings, registry, meta, data)


def ask(town: Deployment, week: str) -> dict[str, Any]:
    """The count of a week, to within 2 records at the same confidence."""
    document = {"query": {"where": {"week": week}}, "length": 4, "confidence": 0.95}
    for _ in range(4):
        response = town.web().post("/v1/datasets/people/query", json=document)
        if response.status_code == 200:
            return dict(response.get_json())
        assert response.status_code == 202, response.text
        town.work_off()
    raise AssertionError(response.text)


UNITS = {
    "person-period": (Words("person-period", 1, enforced=True), 1),
    "one in all": (Words("person", 1, enforced=True), 1),
    "one a week, three in all": (Words("person", 3, 1, enforced=True), 3),
    "three anywhere": (Words("person", 3, enforced=True), 1),
    "one a week, unbounded": (Words("person-unbounded", None, 1, enforced=True), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", share(UNITS, 3))
def test_three_weeks_are_charged_by_the_unit_everywhere(
    visits: Path, store_url: str, name: str
) -> None:
    """Store, faces, audit log and books agree on what three weeks cost, in costs of one."""
    words, n_weeks = UNITS[name]
    town = town_of(visits, store_url, words)
    ask(town, WEEKS[0])
    service = town.service()
    of_one_week = service.dataset("people").spent_nano
    for week in WEEKS[1:3]:
        ask(town, week)
    spent = service.dataset("people").spent_nano
    assert spent == pytest.approx(n_weeks * of_one_week, abs=3)
    checks = audit(town.registry, town.settings)
    assert checks
    assert all(check.ok for check in checks), checks
    explained = town.web().post(
        "/v1/datasets/people/explain",
        json={"query": {"where": {"week": WEEKS[3]}}, "length": 4, "confidence": 0.95},
    )
    later = explained.json
    fourth = of_one_week / 1e9 if "unbounded" in name else 0
    assert later["price"] == pytest.approx(fourth, abs=3e-9)
    text = service.dataset("people").unit.text
    assert later["protected"] == text
    asked = {"query": {"where": {"week": WEEKS[3]}}, "length": 4, "confidence": 0.95}
    workload = {"questions": [asked, asked | {"query": {"where": {}}, "length": 40}]}
    many = town.web().post("/v1/datasets/people/workload/explain", json=workload).json
    assert many["protected"] == text
    for columns in ("COUNT(*)", "sex, COUNT(*)"):
        by = " GROUP BY sex" if "sex" in columns else ""
        sql = {"sql": f"SELECT {columns} FROM people{by} WITHIN 5", "explain": True}
        price = town.web().post("/v1/datasets/people/sql", json=sql).json
        assert price["price"]["protected"] == text


@pytest.mark.parametrize("name", UNITS)
def test_the_file_is_truncated_by_the_unit(visits: Path, store_url: str, name: str) -> None:
    words, _ = UNITS[name]
    town = town_of(visits, store_url, words)
    owned = Counter((who, week) for who, week, _ in VISITS)
    m = town.meta.unit.most_in_period(town.meta.records_per_person)
    k = town.meta.unit.most_in_all(town.meta.records_per_person)
    by_person = Counter[str]()
    for (who, _), n in owned.items():
        by_person[who] += min(n, m)
    expected = sum(n if k is None else min(n, k) for n in by_person.values())
    told = (visits.parent / "lines").read_text()
    assert f"private, for you alone: kept {expected:,} of 300 records" in told
    # The worker reads the very same records at its next start.
    assert town.meta.snapshot in town.trusted().tables


def test_the_journal_says_how_records_are_spread_only_where_it_matters(
    visits: Path, store_url: str
) -> None:
    town = town_of(visits, store_url, UNITS["one a week, three in all"][0])
    facts = plain_facts(town.meta)
    assert (facts["period_axis"], facts["records_per_period"], facts["keeps_period"]) == (0, 1, 0)
    assert facts["records_per_person"] == 3
    anywhere = replace(town.meta, unit=THE_PERSON)
    assert "period_axis" not in plain_facts(anywhere)
    assert "unit" not in json.loads(anywhere.to_json())
    assert DatasetMeta.from_json(town.meta.to_json()) == town.meta
    entry = town.registry.entry("people")
    assert entry.by_period == {"axis": 0, "most": 1, "in_all": 3}


def test_a_store_that_lowers_the_unit_is_noticed(visits: Path, store_url: str) -> None:
    from worker.spending.bookkeeper import meta_differences

    town = town_of(visits, store_url, UNITS["one a week, unbounded"][0])
    with town.registry.journal("town", create=False).exclusive() as journal:
        forged = replace(town.meta, unit=Unit("person-period"))
        assert meta_differences(forged, journal.state) == [
            "`unit` of dataset people is not what was attached"
        ]
        record = journal.state.by_snapshot[town.meta.snapshot]
        text = json.dumps(forget_k(json.loads(town.meta.to_json())))
        others = replace(record, details={**record.details, "meta": text})
        journal.state.by_snapshot[town.meta.snapshot] = others
        (found,) = meta_differences(town.meta, journal.state)
        assert "`records_per_person` must be 4" in found


def test_an_entry_of_before_is_truncated_as_a_whole() -> None:
    plain: dict[str, Any]
    plain = dict.fromkeys(("name", "population", "snapshot", "data", "fingerprint"), "x")
    entry = RegistryEntry(**plain, domain={}, records_per_person=2, person_column="who")
    rule = entry.person_rule
    assert rule is not None
    assert rule.by_period is None


@pytest.mark.parametrize(
    ("words", "relation", "unit", "k", "spread"),
    [
        (Words("person", 4), "add-remove", THE_PERSON, 4, None),
        (Words(None, 1), "add-remove", THE_PERSON, 1, None),
        (Words("person", 4, 4), "add-remove", THE_PERSON, 4, None),
        (Words("person", 4, 2), "add-remove", Unit("person", 2), 4, ByPeriod(0, 4, 2)),
        (Words("person-period", 2), "add-remove", Unit("person-period"), 2, None),
        (
            Words("person-period", 2),
            "replace-one",
            Unit("person-period", None, "same-period"),
            2,
            ByPeriod(0, 4, 2, same_period=True),
        ),
        (
            Words("person-unbounded"),
            "add-remove",
            Unit("person-unbounded", 1),
            4,
            ByPeriod(0, 4, 1),
        ),
        (
            Words("person", 3, 1, "same-period", enforced=True),
            "replace-one",
            Unit("person", 1, "same-period"),
            3,
            ByPeriod(0, 4, 1, same_period=True),
        ),
        (Words("person", 3), "replace-one", THE_PERSON, 3, None),
    ],
)
def test_words_mean_a_unit(
    words: Words, relation: Any, unit: Unit, k: int, spread: ByPeriod | None
) -> None:
    said = words.declared(DOMAIN, relation)
    assert (said.unit, said.records_per_person) == (unit, k)
    meta = DatasetMeta("d", "p", "s", DOMAIN, relation, k, True, unit=unit)
    assert neighbours_of(meta).by_period == spread


@pytest.mark.parametrize(
    ("words", "domain", "named"),
    [
        (Words(enforced=True), DOMAIN, "records_per_person"),
        (Words(), DOMAIN, "records_per_person"),
        (Words("person-period"), DOMAIN, "records_per_person"),
        (Words("person-period", enforced=True), DOMAIN, "records_per_person"),
        (Words("person", 0), DOMAIN, "records_per_person"),
        (Words("person", 5, 1), DOMAIN, "records_per_person"),
        (Words("person", 2, 3), DOMAIN, "records_per_period"),
        (Words("person", 2, 0), DOMAIN, "records_per_period"),
        (Words("person-period", 2, 1), DOMAIN, "records_per_period"),
        (Words("person-period", 2, None, "any-period"), DOMAIN, "replaced"),
        (Words("person-unbounded", 3), DOMAIN, "records_per_person"),
        (Words("person-unbounded", None, 10**6), DOMAIN, "records_per_period"),
        (Words("person", 3, 1, "same-period", enforced=True), STRICT, "replaced"),
        (Words("person-period", 2), NO_WEEKS, "unit"),
        (Words("person", 2, 1), NO_WEEKS, "records_per_period"),
        (Words("person", 2, None, "same-period"), NO_WEEKS, "replaced"),
    ],
)
def test_words_that_do_not_go_together_name_the_field(
    words: Words, domain: Domain, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"`{named}`"):
        words.declared(domain, "replace-one")


def test_what_is_replaced_is_said_under_replace_one_only() -> None:
    with pytest.raises(ConfigError, match="`replaced`"):
        Words("person", 3, 1, "same-period").declared(DOMAIN, "add-remove")


@pytest.mark.parametrize(
    "plain",
    [
        {"protects": "people"},
        {"replaced": "never"},
        {"per_period": 0},
        {"protects": "person-unbounded"},
        {"protects": "person-period", "per_period": 2},
    ],
)
def test_units_that_are_none_are_refused(plain: Mapping[str, Any]) -> None:
    with pytest.raises(DomainError):
        read(Unit, plain)


def test_a_unit_in_words() -> None:
    words = {
        Unit("person-period"): "what a person did in one period, up to 2 records",
        THE_PERSON: "a person with up to 2 records, in whatever periods",
        Unit("person", 1): "a person with up to 2 records in all, 1 in a period",
        Unit("person-unbounded", 1): "a person with up to 1 record in each period, however many "
        "in all",
    }
    for unit, text in words.items():
        assert unit.words(2) == text
        same = replace(unit, replaced="same-period")
        assert same.words(2) == f"{text}; in which periods the records are is not protected"


def test_pages_and_client_name_the_unit(visits: Path, store_url: str) -> None:
    words = "a person with up to 3 records in all, 1 in a period"
    town = town_of(visits, store_url, UNITS["one a week, three in all"][0])
    document = town.web().get("/v1/datasets/people").get_json()
    assert document["unit"] == {
        "protects": "person",
        "records_per_period": 1,
        "replaced": "any-period",
        "text": words,
    }
    assert DatasetInfo.of(document).protected == words
    assert f"protected: {words}" in town.web().get("/portal/").text
    assert DatasetInfo.of({**document, "unit": None}).protected == ""


def test_attach_at_the_command_line_asks_for_k_in_words(
    visits: Path, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    domain = visits.parent / "domain.json"
    domain.write_text(json.dumps({"attributes": [WEEK, SEX]}))
    call = ["attach", "people", "--data", str(visits), "--domain", str(domain), "--limit", "1"]
    call += ["--redis-url", store_url, "--state", str(visits.parent), "--person-id", "who"]
    assert main(call) == 1
    assert "must be said for data with periods" in capsys.readouterr().err
    assert main([*call, "--records-per-person", "3", "--records-per-period", "1"]) == 0
    told = capsys.readouterr()
    assert "Protected: a person with up to 3 records in all, 1 in a period." in told.out
    assert "private, for you alone: kept" in told.err
    assert "kept" not in told.out


@pytest.mark.parametrize(
    ("domain", "k", "unit", "named"),
    [
        (NO_WEEKS, 1, Unit("person-period"), "unit"),
        (DOMAIN, 1, Unit("person-unbounded", 1), "records_per_person"),
        (DOMAIN, 5, Unit("person", 1), "records_per_person"),
        (DOMAIN, 3, Unit("person", 1, "same-period"), "replaced"),
    ],
)
def test_facts_that_do_not_go_together_are_no_request(
    visits: Path, domain: Domain, k: int, unit: Unit, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"`{named}` must"):
        AttachRequest(
            name="people",
            data=visits,
            domain=domain,
            limit=Fraction(1),
            relation="add-remove",
            population="town",
            records_per_person=k,
            unit=unit,
        )


def forget_k(plain: dict[str, Any]) -> dict[str, Any]:
    """The facts with the k that an earlier version let through."""
    return plain | {"records_per_person": 1}


def test_stored_facts_that_do_not_go_together_are_told_and_not_used(
    visits: Path, store_url: str, redis_client: StoreClient
) -> None:
    town = town_of(visits, store_url, UNITS["one a week, unbounded"][0])
    key = Keys("town").dataset("people")
    text = json.dumps(forget_k(json.loads(town.meta.to_json())))
    redis_client.hset(key, "meta", sealed(text, name="people"))
    with pytest.raises(StoreCorruptError, match="`records_per_person` must be 4"):
        town.service().dataset("people")


def test_a_journal_whose_numbers_are_not_its_units_is_refused_by_the_books(
    visits: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier version wrote it: the unit, and numbers that charge for one record."""
    with monkeypatch.context() as patch:
        patch.setattr(
            snapshot_line,
            "plain_facts",
            lambda meta: {
                "records_per_person": 1,
                "records_verified": 1,
                "sizes": " ".join(map(str, meta.domain.sizes)),
                "null_cell": 1,
            },
        )
        town = town_of(visits, store_url, UNITS["one a week, unbounded"][0])
    accountant = Accountant(town.registry.journal("town", create=False).path)
    (found,) = accountant.examine()
    assert not found.ok
    assert found.text == "unit person-unbounded has 4 records of a person, not 1"
